"""Batches of tasks: pure functions of the step, every item once an epoch, the loss whatever the cut."""

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tasks.conftest import questions, reviews, tagged

from unmask.config import Recipe, TrainConfig
from unmask.errors import InputError
from unmask.model.network import Model
from unmask.predict.windows import Window
from unmask.tasks.batches import Item, TaskFeed
from unmask.tasks.examples import TextExample
from unmask.tasks.finetune import gather, split_examples
from unmask.tasks.kinds import balanced, hold_out
from unmask.tasks.objective import TaskLoss
from unmask.tasks.settings import FinetuneConfig
from unmask.tasks.texts import Classes
from unmask.train.loop import Trainer
from unmask.train.optim import Optimiser
from unmask.train.schedule import Schedule


def item(number: int, length: int) -> Item:
    ids = np.full(length, number)
    return Item([Window(ids, np.zeros_like(ids), np.arange(length))], np.array([number]))


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(1, 30), min_size=1, max_size=50), st.integers(1, 12), st.integers(1, 80))
def test_every_item_once_an_epoch(lengths: list[int], batch: int, micro: int) -> None:
    items = [item(number, length) for number, length in enumerate(lengths)]
    feed = TaskFeed(items, batch, micro, seed=3, segments=False)
    for epoch in range(2):
        steps = range(epoch * feed.steps_per_epoch, (epoch + 1) * feed.steps_per_epoch)
        seen = [
            each for step in steps for part in feed.step(step).batches for each in part.target_ids.tolist()
        ]
        assert sorted(seen) == list(range(len(items)))
        for step in steps:
            for part in feed.step(step).batches:
                assert len(part.ids) <= micro or len(part.cu_seqlens) == 2
                counts = [lengths[number] for number in part.target_ids]
                assert part.cu_seqlens.diff().tolist() == counts == sorted(counts, reverse=True)
    again = TaskFeed(items, batch, micro, seed=3, segments=False).step(0)
    for one, other in zip(feed.step(0).batches, again.batches, strict=True):
        assert torch.equal(one.ids, other.ids)


@pytest.mark.parametrize("task", ["classify", "tag", "qa"])
def test_the_loss_does_not_depend_on_micro_batches_or_windows_of_others(base: Path, task: str) -> None:
    examples = {"classify": reviews, "tag": tagged, "qa": questions}[task]()[:12]
    config = FinetuneConfig(length=10, stride=3, long="mean")
    made = gather(task, base, examples, [], config)  # type: ignore[arg-type]
    model: Model = made.model(0).eval()
    predictor = made.kind.predictor(model, made.tokenizer, made.task)
    items = made.kind.items(made.kind.prepare(predictor, examples), examples)
    loss = TaskLoss(made.kind.head)
    totals = []
    for micro in (1, 40, 10_000):
        batches = TaskFeed(items, 100, micro, 0, True).step(0).batches
        outcomes = [loss(model, batch)[made.kind.head].losses for batch in batches]  # type: ignore[arg-type]
        assert sum(map(len, outcomes)) == sum(loss.counts(b)[made.kind.head] for b in batches)  # type: ignore[arg-type]
        totals.append(torch.cat(outcomes).sum().item())
    assert totals == pytest.approx([totals[0]] * 3, rel=1e-5)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(st.text(max_size=3), st.sampled_from("ab")), min_size=1, max_size=60),
    st.floats(0.05, 0.5),
)
def test_the_split_keeps_classes_and_equal_texts_together(rows: list[tuple[str, str]], share: float) -> None:
    try:
        train, held = hold_out(rows, share, lambda row: row[0], lambda row: row[1])
    except InputError:
        assert len({text for text, _ in rows}) < 4  # each class may need one text to learn from
        return
    assert sorted(train + held) == sorted(rows)
    assert held
    assert not {text for text, _ in train} & {text for text, _ in held}
    assert {label for _, label in held} <= {label for _, label in train}
    first = dict(reversed(rows))  # an ambiguous text counts as what it is called first
    for label in "ab":
        texts = [text for text, each in first.items() if each == label]
        out = {text for text, _ in held if first[text] == label}
        assert len(out) <= max(1, round(share * len(texts)) + 1)
    assert len({text for text, _ in held}) <= max(1, round(share * len(first)))


def test_a_pair_stays_with_the_same_pair_the_other_way_round() -> None:
    """As ASSIN 2 has most of its pairs: of the one the other is known."""
    pairs = [(f"O barco {n} voltou.", f"Voltou {n}.") for n in range(40)]
    examples = [TextExample(*sides, target=1.0) for one in pairs for sides in (one, one[::-1])]
    held = split_examples(examples, 0.2)[1]
    assert len(held) == 16
    assert len({frozenset((one.text, one.pair)) for one in held}) == 8
    once = [TextExample(*one, target=1.0) for one in pairs]
    assert {one.text for one in split_examples(once, 0.2)[1]} <= {one.text for one in held}


def test_many_small_classes_lose_no_more_than_the_share() -> None:
    rows = [(f"pergunta {label} {n}", (f"c{label}",)) for label in range(77) for n in range(4)]
    held = hold_out(rows, 0.1, lambda row: row[0], lambda row: row[1])[1]
    assert len(held) == 31
    assert len({label for _, label in held}) == 31  # no class gives two while others give none
    rare = [(f"comum {n}", ("common",)) for n in range(500)] + rows[:4]
    held = hold_out(rare, 0.1, lambda row: row[0], lambda row: row[1])[1]
    assert [label for _, label in held].count(("c0",)) == 1  # and a rare one is not forgotten
    assert len(held) == 50


def test_the_split_of_many_labels_is_a_tenth_of_all() -> None:
    rows = [(f"texto {n}", (f"l{n % 7}", f"m{n // 7 % 11}", f"n{n // 77}")) for n in range(400)]
    train, held = hold_out(rows, 0.1, lambda row: row[0], lambda row: row[1])
    assert len(held) == 40
    for n in range(30):  # a tag that one sentence has is learnt from, wherever its hash would put it
        rare = [*rows, (f"raro {n}", ("rare",))]
        train, held = hold_out(rare, 0.1, lambda row: row[0], lambda row: row[1])
        assert rare[-1] in train
        assert 39 <= len(held) <= 40


def test_no_share_of_the_peak_is_told_of_a_task(base: Path) -> None:
    made = gather("classify", base, reviews(), [], FinetuneConfig())
    predictor = made.kind.predictor(made.model(0), made.tokenizer, made.task)
    items = made.kind.items(made.kind.prepare(predictor, made.train), made.train)
    schedule = Schedule(Recipe(train=made.settings.train_config()), 1)
    trainer = Trainer(made.model(0), schedule, TaskLoss(made.kind.head), made.machine)
    (record,) = trainer.run(TaskFeed(items, 8, 999, 0, True).steps(0, 1))
    assert record.mfu is None


def test_classes_that_count_alike() -> None:
    weights = balanced([30, 10])
    assert weights.tolist() == pytest.approx([2 / 3, 2.0])
    assert float((weights * torch.tensor([30.0, 10.0])).sum()) == pytest.approx(40)


def test_lower_blocks_learn_more_slowly(base: Path) -> None:
    made = gather("classify", base, reviews(), [], FinetuneConfig())
    model = made.model(0)
    optimiser = Optimiser(model, TrainConfig(lr=1.0, layer_decay=0.5))
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    rates = {
        names[id(parameter)]: group["base"]
        for part in optimiser._parts
        for group in part.param_groups
        for parameter in group["params"]
    }
    assert rates["heads.classify.linear.weight"] == 1.0
    assert rates["encoder.blocks.1.attention.qkv.weight"] == 0.5
    assert rates["encoder.blocks.0.attention.qkv.bias"] == 0.25
    assert rates["encoder.embeddings.tokens.weight"] == 0.125
    assert len(rates) == len(names)


def test_weights_of_several_classes_go_where_the_scores_are() -> None:
    loss = TaskLoss("classify", balanced([30, 10]))
    scores, targets = (torch.zeros(4, 2, device="meta") for _ in range(2))
    assert loss._outcome(scores, targets, "multi").losses.shape == (4,)


def test_of_several_labels_having_and_not_having_one_count_alike() -> None:
    kind = Classes([TextExample("a", None, labels, "") for labels in [("x",), ("x", "y"), ("x",), ("x",)]])
    weights = kind.weights
    assert weights is not None
    assert weights.tolist() == [0.25, 3.0]  # x: four have it, none has not; y: one has it, three have not
    targets = torch.tensor([[1.0, 1.0], [1.0, 0.0], [1.0, 0.0], [1.0, 0.0]])
    losses = TaskLoss("classify", weights)._outcome(torch.zeros(4, 2), targets, "multi").losses
    y = 2 * losses - 0.25 * torch.log(torch.tensor(2.0))
    torch.testing.assert_close(y[0], y[1:].sum())
