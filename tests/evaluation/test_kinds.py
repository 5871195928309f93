"""Facts, word in context, contrast sets and probes, each on data planted for it."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from unmask.errors import InputError, ModelError
from unmask.evaluation import evaluate
from unmask.evaluation.results import read_items
from unmask.evaluation.show import notes
from unmask.evaluation.wic import best_threshold, cosines
from unmask.predict import MaskedLM, load
from unmask.predict.cloze import Cloze
from unmask.predict.fill import pieces_in_place
from unmask.progress import SILENT

Write = Callable[..., Path]
PROMPTS = ["The boat came back to the [MASK].", "Nobody knew the [MASK]."]


@pytest.fixture(scope="module")
def lm(folder: Path) -> MaskedLM:
    model = load(folder)
    assert isinstance(model, MaskedLM)
    return model


def test_cloze_scores_are_those_of_the_masks(lm: MaskedLM) -> None:
    answers = ["rain", "harbour", "the fisherman kept"]
    found = Cloze(lm, PROMPTS).score(answers)
    for prompt, row in zip(PROMPTS, found, strict=True):
        first = prompt.index("[MASK]")
        for answer, score in zip(answers, row, strict=True):
            pieces = pieces_in_place(lm.tokenizer, prompt, (first, first + 6), answer)
            ids = lm.tokenizer.encode(prompt.replace("[MASK]", "[MASK]" * len(pieces))).ids
            places = np.flatnonzero(ids == lm.tokenizer.mask_id)
            (logs,) = lm.log_probabilities([ids], [places])
            assert score == pytest.approx(np.mean(logs[np.arange(len(pieces)), pieces]), abs=1e-5)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(
            *[
                st.lists(
                    st.sampled_from(["h", "ar", "arb", "our", "o", "n", "e", "the", "-", " "]), max_size=4
                )
            ]
            * 2
        ),
        min_size=2,
        max_size=6,
    ),
    st.sampled_from(["rain", "b", "our", "harbour", "o", "nets"]),
)
@example([(["manue"], []), (["blue"], [])], "t")
def test_an_answer_is_split_as_its_own_prompt_splits_it(
    lm: MaskedLM, around: list[tuple[list[str], list[str]]], answer: str
) -> None:
    """Prompts that look alike near the mask do not share what is not theirs."""
    prompts = [f"{''.join(before)}[MASK]{''.join(after)}" for before, after in around]
    cloze = Cloze(lm, prompts)
    for number, prompt in enumerate(prompts):
        first = prompt.index("[MASK]")
        expected = pieces_in_place(lm.tokenizer, prompt, (first, first + 6), answer)
        assert cloze.pieces(number, answer) == (() if lm.tokenizer.unk_id in expected else expected)


def test_ranks_agree_with_fill(lm: MaskedLM) -> None:
    """But for the tails of words, which are ranked and fill no gap of their own."""
    tails = ~lm.tokenizer.openings
    tails[list(lm.tokenizer.special_ids)] = False
    for prompt in PROMPTS:
        best = lm.fill(prompt, top=5)
        ids = lm.tokenizer.encode(prompt).ids
        (logs,) = lm.log_probabilities([ids], [np.flatnonzero(ids == lm.tokenizer.mask_id)])
        ranks = Cloze(lm, [prompt] * 5).ranks([fill.words[0].text for fill in best])
        for rank, (place, fill) in zip(ranks, enumerate(best, 1), strict=True):
            likelier = (logs[0][tails] > logs[0][lm.tokenizer.id(fill.words[0].pieces[0])]).sum()
            assert rank == place + likelier
    assert Cloze(lm, PROMPTS).ranks(["lighthousekeeper"] * 2) == [None, None]


def test_prompts_need_one_mask(lm: MaskedLM) -> None:
    with pytest.raises(InputError, match=r"write one \[MASK\] in the prompt, not 2"):
        Cloze(lm, ["The [MASK] of the [MASK]."])


def test_facts(folder: Path, write: Write, tmp_path: Path, lm: MaskedLM) -> None:
    sure = lm.fill(PROMPTS[0], top=1, candidates=["rain", "sun", "key"])[0].words[0].text
    rows = [
        {"relation": "place", "prompt": PROMPTS[0], "answer": answer} for answer in ("rain", "sun", "key")
    ]
    rows.append({"relation": "thing", "prompt": PROMPTS[1], "answer": "lighthousekeeper"})
    suite = write('kind = "facts"\nfiles = ["x.jsonl"]', x__jsonl=rows)
    (result,) = evaluate(str(suite), folder, tmp_path / "out", card=False)
    items = read_items(tmp_path / "out", "mine")
    assert [item["among"] for item in items] == [float(row["answer"] == sure) for row in rows[:3]] + [1.0]
    assert result.main.value == pytest.approx((1 / 3 + 1) / 2)  # each relation counts the same
    ranks = Cloze(lm, [PROMPTS[0]] * 3).ranks(["rain", "sun", "key"])
    known = [rank for rank in ranks if rank]
    assert known
    assert result.scores["MRR"].value == pytest.approx(np.mean([1 / rank for rank in known]))
    assert result.scores["P@10"].value == pytest.approx(np.mean([rank <= 10 for rank in known]))
    assert items[3]["open"] == 0
    evaluate(str(suite), folder, tmp_path / "few", card=False, sample=1)
    (one,) = read_items(tmp_path / "few", "mine")
    assert one in items  # it was chosen among the answers of all
    several = sum(not item["open"] for item in items)
    assert list(result.details.values()) == [1, several, 0]  # files, no single piece, not written
    assert notes([result]) == []
    split = write('kind = "facts"\nfiles = ["y.jsonl"]', y__jsonl=rows[3:])
    (result,) = evaluate(str(split), folder, tmp_path / "split", card=False)
    assert list(result.scores) == ["P@1 among answers"]  # nothing was ranked, which is not a rank of none
    odd = [*rows[:2], rows[0] | {"answer": "雨"}]
    unknown = write('kind = "facts"\nfiles = ["z.jsonl"]', z__jsonl=odd)
    (result,) = evaluate(str(unknown), folder, tmp_path / "unknown", card=False)
    assert result.details["answers that the vocabulary cannot write"] == 1
    assert [item["written"] for item in read_items(tmp_path / "unknown", "mine")] == [1, 1, 0]
    assert notes([result]) == ["mine: the vocabulary cannot write 1 of 3 answers, which count as wrong"]


def test_phrasings_as_pararel_has_them(folder: Path, write: Write, tmp_path: Path) -> None:
    facts = [
        {"sub_label": f"The boat {n}", "obj_label": answer} for n, answer in enumerate(["rain", "sun"] * 3)
    ]
    suite = write(
        'kind = "facts"\nfiles = ["P1.jsonl"]\npatterns = "patterns/*.jsonl"\nprompt = "sub_label"\n'
        'answer = "obj_label"\nphrasings = 2\nlimit = 4', P1__jsonl=facts,
    )  # fmt: skip
    (tmp_path / "patterns").mkdir()
    (tmp_path / "patterns" / "P1.jsonl").write_text(
        '{"pattern": "[X] came to the [Y]."}\n{"pattern": "[X] dried in the [Y]."}\n{"pattern": "[Y]"}\n',
        "utf-8",
    )
    (result,) = evaluate(str(suite), folder, tmp_path / "out", card=False)
    assert result.main.items == 4
    assert "agreement of phrasings" in result.scores
    assert {item["agree"] for item in read_items(tmp_path / "out", "mine")} <= {0.0, 1.0}
    (tmp_path / "patterns" / "P1.jsonl").rename(tmp_path / "patterns" / "P2.jsonl")
    with pytest.raises(InputError, match="no file of phrasings for P1"):
        evaluate(str(suite), folder, tmp_path / "out2")


def test_best_threshold() -> None:
    values, same = np.array([0.9, 0.2, 0.8, 0.1, 0.5]), np.array([True, False, True, False, False])
    threshold, accuracy = best_threshold(values, same)
    assert 0.5 < threshold <= 0.8
    assert accuracy == 1
    assert best_threshold(values, np.ones(5, bool)) == (-1.0, 1)
    assert best_threshold(values, np.zeros(5, bool))[1] == 1
    # The embeddings of one form in two texts are the same: their cosine is 1, and no threshold parts those.
    ones = np.ones(4)
    assert best_threshold(ones, np.array([True, False, False, False]))[1] == 0.75
    assert best_threshold(ones, np.array([True, True, True, False]))[1] == 0.75


def test_cosines_of_a_vector_with_itself_are_equal() -> None:
    """But for rounding they are, so that no threshold is found among them."""

    class Model:
        config = SimpleNamespace(layers=0, width=64)

        def word_layers(self, words: Any, take: Any, _: Any) -> None:
            vectors = np.random.default_rng(0).normal(size=(len(words) // 2, 1, 1, 64)).astype(np.float32)
            for number in range(len(words)):
                take(number, vectors[number % len(vectors)])

    found = cosines(Model(), [(["word"], 0)] * 100, SILENT)  # type: ignore[arg-type]
    assert np.unique(found).tolist() == [1.0]


def test_word_in_context(folder: Path, write: Write, tmp_path: Path) -> None:
    """The same sentence twice shares a sense, two different words do not: easy at every layer."""
    same = [f"boat\tN\t1-1\tThe boat {n} .\tThe boat {n} ." for n in range(10)]
    other = [f"boat\tV\t1-3\tThe boat {n} .\tNobody knew the key {n} ." for n in range(10)]
    data, gold = "\n".join(same + other), "\n".join(["T"] * 10 + ["F"] * 10)
    files = {
        f"{part}__{kind}__txt": text
        for part in ("train", "dev")
        for kind, text in (("data", data), ("gold", gold))
    }
    suite = write('kind = "wic"\ntrain = "train.*.txt"\ndev = "dev.*.txt"', **files)
    (result,) = evaluate(str(suite), folder, tmp_path / "out", card=False)
    assert result.main.value == 1
    assert len(result.details["layers"]) == 3
    assert set(result.groups["part of speech"]) == {"N", "V"}
    (few,) = evaluate(str(suite), folder, tmp_path / "few", card=False, sample=4)
    assert (few.main.items, few.main.value) == (4, 1)
    (tmp_path / "dev.data.txt").write_text(data.replace("1-3", "1-30"), "utf-8")
    with pytest.raises(InputError, match=r"dev.data.txt, line 11: write lemma"):
        evaluate(str(suite), folder, tmp_path / "out2")
    (tmp_path / "dev.data.txt").write_bytes(data.replace("boat", "á").encode("latin1"))
    with pytest.raises(InputError, match=r"dev.data.txt is not UTF-8"):
        evaluate(str(suite), folder, tmp_path / "out4")
    (tmp_path / "dev.data.txt").write_text("", "utf-8")
    with pytest.raises(InputError, match=r"dev.data.txt is empty"):
        evaluate(str(suite), folder, tmp_path / "out5")
    (tmp_path / "dev.data.txt").write_text(data, "utf-8")
    (tmp_path / "dev.gold.txt").write_text("T\n", "utf-8")
    with pytest.raises(InputError, match="20 lines"):
        evaluate(str(suite), folder, tmp_path / "out3")


CONTRAST = """kind = "contrast"
files = ["x.jsonl"]
[prompts.sentiment]
text = "{text} It was the [MASK]."
words = { positive = "sun", negative = "rain" }
[prompts.entailment]
text = "{premise} [MASK], {text}"
words = { entailment = "sun", contradiction = "rain" }
"""
ROWS = [
    {"task": "sentiment", "text": "The boat came back.", "label": "positive",
     "edited": "The boat never came back.", "edited_label": "negative"},
    {"task": "entailment", "premise": "The nets dried.", "text": "The nets were in the sun.",
     "label": "entailment", "edited": "The nets were in the rain.", "edited_label": "contradiction"},
]  # fmt: skip


def test_contrast_by_cloze(folder: Path, write: Write, tmp_path: Path, lm: MaskedLM) -> None:
    suite = write(CONTRAST, x__jsonl=ROWS)
    (result,) = evaluate(str(suite), folder, tmp_path / "out", card=False)
    asked = [
        "The boat came back. It was the [MASK].", "The boat never came back. It was the [MASK].",
        "The nets dried. [MASK], The nets were in the sun.",
        "The nets dried. [MASK], The nets were in the rain.",
    ]  # fmt: skip
    sunny = [scores[0] > scores[1] for scores in Cloze(lm, asked).score(["sun", "rain"])]
    items = read_items(tmp_path / "out", "mine")
    assert [item["original"] for item in items] == [sunny[0], sunny[2]]
    assert [item["contrast"] for item in items] == [not sunny[1], not sunny[3]]
    assert result.main.value == np.mean([item["original"] and item["contrast"] for item in items])
    assert set(result.groups["task"]) == {"sentiment", "entailment"}
    assert evaluate(str(suite), folder, tmp_path / "few", card=False, sample=1)[0].main.items == 1


def test_a_word_that_cannot_be_written_is_told(folder: Path, write: Write, tmp_path: Path) -> None:
    suite = write(CONTRAST.replace('positive = "sun"', 'positive = "☀"'), x__jsonl=ROWS)
    (result,) = evaluate(str(suite), folder, tmp_path / "out", card=False)
    reason = "the vocabulary cannot write '☀', which stands for a label"
    assert result.details["tasks left out"] == {"sentiment": reason}
    assert set(result.groups["task"]) == {"entailment"}
    suite = write(CONTRAST.replace('"sun"', '"☀"'), x__jsonl=ROWS)
    with pytest.raises(ModelError, match="no task of it suits the model .*cannot write '☀'"):
        evaluate(str(suite), folder, tmp_path / "out2", card=False)


def test_contrast_with_a_classifier(write: Write, save: Callable[..., Path], tmp_path: Path) -> None:
    suite = write(CONTRAST, x__jsonl=ROWS)
    classifier = save("classify", labels=("NEGATIVE", "POSITIVE"))
    (result,) = evaluate(str(suite), classifier, tmp_path / "out", card=False)
    model = load(classifier)
    best = [labels[0].name for labels in model.classify([ROWS[0]["text"], ROWS[0]["edited"]])]  # type: ignore[attr-defined]
    assert result.scores["original accuracy"].value == float(best[0] == "POSITIVE")
    assert result.scores["contrast accuracy"].value == float(best[1] == "NEGATIVE")
    assert list(result.details["tasks left out"]) == ["entailment"]
    (tmp_path / "x.jsonl").write_text((tmp_path / "x.jsonl").read_text("utf-8").replace("positive", "joy"))
    with pytest.raises(ModelError, match="classes are NEGATIVE, POSITIVE"):
        evaluate(str(suite), classifier, tmp_path / "out2")


def conllu(sentences: list[list[tuple[str, str]]]) -> str:
    return "\n\n".join(
        "\n".join(f"{n}\t{word}\t_\t{tag}\t_\t_\t0\t_\t_\t_" for n, (word, tag) in enumerate(sentence, 1))
        for sentence in sentences
    )


def test_probe(folder: Path, write: Write, tmp_path: Path) -> None:
    """Tags that follow from the word can be read off the embeddings."""
    words = [("The", "DET"), ("boat", "NOUN"), ("dried", "VERB"), ("nets", "NOUN"), ("knew", "VERB")]
    rng = np.random.default_rng(0)
    drawn = [[words[n] for n in rng.integers(0, 5, 6)] for _ in range(60)]
    suite = write(
        'kind = "probe"\ntrain = "a.conllu"\ndev = "b.conllu"',
        a__conllu=conllu(drawn[:45]), b__conllu=conllu(drawn[45:]),
    )  # fmt: skip
    (result,) = evaluate(str(suite), folder, tmp_path / "out", card=False)
    assert result.main.value > 0.95
    assert result.scores["selectivity"].value == pytest.approx(
        result.main.value - result.scores["control accuracy"].value
    )
    assert [row["layer"] for row in result.details["layers"]] == [0, 1, 2]
    assert result.main.items == 15
    assert evaluate(str(suite), folder, tmp_path / "few", card=False, sample=9)[0].main.items == 9
    assert "by layer" in (tmp_path / "out" / "report.html").read_text("utf-8")


def test_answers_that_cannot_be_written_are_not_right(folder: Path, write: Write, tmp_path: Path) -> None:
    suite = write('kind = "facts"\nfiles = ["x.jsonl"]', x__jsonl=[{"prompt": PROMPTS[0], "answer": "☀"}])
    (result,) = evaluate(str(suite), folder, tmp_path / "out", card=False)
    assert result.main.value == 0


def test_some_premises_are_missing(folder: Path, write: Write, tmp_path: Path) -> None:
    row = {"task": "t", "text": "The boat.", "label": "yes", "edited": "No boat.", "edited_label": "no"}
    suite = write(
        'kind = "contrast"\nfiles = ["x.jsonl"]\n[prompts.t]\ntext = "{premise} {text} [MASK]"\n'
        'words = { yes = "sun", no = "rain" }', x__jsonl=[row | {"premise": "A boat."}, row],
    )  # fmt: skip
    with pytest.raises(InputError, match="some rows have a premise and others none"):
        evaluate(str(suite), folder, tmp_path / "out", card=False)


def test_a_label_without_a_word_is_never_right(folder: Path, write: Write, tmp_path: Path) -> None:
    suite = write(CONTRAST, x__jsonl=[ROWS[0] | {"edited_label": "negativ"}])
    with pytest.raises(InputError, match="no word for the label 'negativ', only for positive, negative"):
        evaluate(str(suite), folder, tmp_path / "out", card=False)


def test_labels_may_be_numbers_and_an_empty_premise_is_none(
    folder: Path, write: Write, tmp_path: Path
) -> None:
    suite = write(CONTRAST.replace("positive =", "1 =").replace("negative =", "0 ="), x__jsonl=[
        ROWS[0] | {"label": 1.0, "edited_label": 0, "premise": None}, ROWS[1],
    ])  # fmt: skip
    (result,) = evaluate(str(suite), folder, tmp_path / "out", card=False)
    assert set(result.groups["task"]) == {"sentiment", "entailment"}
    names = evaluate(str(write(CONTRAST, x__jsonl=ROWS)), folder, tmp_path / "names", card=False)
    assert result.scores == names[0].scores


def test_answers_of_word_in_context_are_t_or_f(folder: Path, write: Write, tmp_path: Path) -> None:
    line, spaced = "boat\tN\t1-1\tThe boat .\tThe boat .\n", "boat\tN\t1-1\tThe  boat .\tThe boat .\n"
    suite = write(
        'kind = "wic"\ntrain = "a.*.txt"\ndev = "b.*.txt"',
        a__data__txt=line * 2, a__gold__txt="T\nF\n", b__data__txt=line * 2, b__gold__txt="T\nfalse\n",
    )  # fmt: skip
    with pytest.raises(InputError, match=r"b.gold.txt, line 2: 'false' is no answer: write T or F"):
        evaluate(str(suite), folder, tmp_path / "out", card=False)
    (tmp_path / "b.data.txt").write_text(spaced * 2, "utf-8")  # the word meant is empty
    with pytest.raises(InputError, match=r"b.data.txt, line 1: write lemma"):
        evaluate(str(suite), folder, tmp_path / "out", card=False)
