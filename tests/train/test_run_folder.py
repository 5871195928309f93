"""The folder of a run: one process's alone, and what it needs to go on is neither lost nor spoilt."""

import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from safetensors.torch import load_file, save_file

from unmask.checkpoint import load_model
from unmask.config import Recipe
from unmask.errors import ConfigError, CorpusError, InputError, OutputError
from unmask.text import find_sources
from unmask.tokenizer import Tokenizer
from unmask.train import parallel
from unmask.train.material import gather
from unmask.train.pretrain import _check_same_everywhere, dry_run, pretrain
from unmask.train.start import Start

Make = Callable[..., Recipe]


def stop_at_3(step: int) -> None:
    """Ask the run to stop after its third step, as a cluster would."""
    if step == 3:
        signal.raise_signal(signal.SIGTERM)


def test_a_text_that_changed_costs_the_run_nothing(
    small: Make, text: Path, tmp_path: Path, watcher: type
) -> None:
    mine, run = shutil.copytree(text, tmp_path / "mine"), tmp_path / "run"
    recipe = small("tokenizer.vocab_size=140", "prepare.valid=0.15")
    start = Start(find_sources([f"{language}={mine / language}.txt" for language in ("pt", "en")]))
    pretrain(recipe, run, start, False, watcher(stop_at_3))
    made = {path: path.read_bytes() for name in ("vocab", "shards") for path in (run / name).rglob("*.*")}
    with (mine / "en.txt").open("a") as more:
        more.write("\n\nThe boy waits for the train.")
    for go_on in (lambda: pretrain(recipe, run, start, True), lambda: dry_run(recipe, run, start)):
        with pytest.raises(CorpusError, match=r"bring it back .* --data .*shards in place of --text"):
            go_on()
    assert made == {path: path.read_bytes() for path in made}
    assert pretrain(recipe, run, Start(data=run / "shards"), True).steps == 6


def test_what_a_killed_machine_may_leave_is_one_clear_line_or_made_good(
    small: Make, text: Path, tmp_path: Path, watcher: type
) -> None:
    run, start = tmp_path / "run", Start(find_sources([str(text / "pt.txt")]))
    recipe = small("tokenizer.vocab_size=140", "prepare.valid=0.15")
    pretrain(recipe, run, start, False, watcher(stop_at_3))
    with (run / "metrics.jsonl").open("ab") as metrics:
        metrics.write('{"step": 9, "split": "cloze", "fills": ["mã'.encode()[:-1])
    for damage in (b"", b"{", b"[1]", b"\xff\xfe"):
        for name, told, error in (
            ("plan.json", "plan.json is damaged: delete it, and go on with --resume", InputError),
            ("vocab.json", "in place of --text", CorpusError),
            ("metrics.jsonl", r"metrics.jsonl, line 1 is damaged", InputError),
        ):
            whole = (run / name).read_bytes()
            (run / name).write_bytes(damage + b"\n" + whole if name == "metrics.jsonl" else damage)
            with pytest.raises(error, match=told):
                pretrain(recipe, run, start, True)
            (run / name).write_bytes(whole)
    (run / "plan.json").unlink()
    assert pretrain(recipe, run, start, True).steps == 6


def test_a_text_that_changed_under_the_vocabulary_of_a_base(
    small: Make, shards: Path, text: Path, tmp_path: Path, watcher: type
) -> None:
    pretrain(small("train.steps=1"), tmp_path / "base", Start(data=shards))
    mine, run = tmp_path / "mine.txt", tmp_path / "run"
    shutil.copy(text / "pt.txt", mine)
    start = Start(find_sources([str(mine)]), base=tmp_path / "base" / "model")
    recipe = small("prepare.valid=0.15")
    pretrain(recipe, run, start, False, watcher(stop_at_3))
    with mine.open("a") as more:
        more.write("\n\nA pintora rega as plantas.")
    with pytest.raises(CorpusError, match="in place of --text"):
        pretrain(recipe, run, start, True)


def test_a_run_on_shards_does_not_go_on_with_text(
    small: Make, shards: Path, text: Path, tmp_path: Path, watcher: type
) -> None:
    run = tmp_path / "run"
    pretrain(small(), run, Start(data=shards), False, watcher(stop_at_3))
    with pytest.raises(CorpusError, match="this run began with --data: go on with the same shards"):
        pretrain(small(), run, Start(find_sources([str(text / "pt.txt")])), True)
    assert not (run / "vocab").exists()


def test_what_lies_among_the_best_weights_ends_no_training(
    small: Make, shards: Path, tmp_path: Path, watcher: type
) -> None:
    run = tmp_path / "run"

    def drop(step: int) -> None:
        if step == 3:
            (run / "best" / "notes.txt").write_text("mine")
        if step == 1 and (run / "best").is_dir():
            (run / "best" / ".DS_Store").write_text("")  # the system's, and no reason to stop

    watching = watcher(drop)
    result = pretrain(
        small("train.eval_every=2", "train.steps=8"), run, Start(data=shards), progress=watching
    )
    assert result.steps == 8
    assert (run / "best" / "notes.txt").read_text() == "mine"
    assert len([line for line in watching.said if "holds notes.txt" in line]) == 1
    copies = [path for path in run.iterdir() if path.name.startswith("best-")]
    assert len(copies) == 1
    load_model(copies[0])
    with pytest.raises(OutputError, match=r"best holds notes\.txt, which is no part of a model"):
        pretrain(small("train.eval_every=2", "train.steps=8"), run, Start(data=shards), True)


def test_the_best_weights_are_kept_as_soon_as_they_can_be(
    small: Make, shards: Path, tmp_path: Path, watcher: type
) -> None:
    recipe, start, run = small("train.eval_every=2", "train.steps=12"), Start(data=shards), tmp_path / "run"

    def at(step: int) -> None:
        if step == 1:
            (run / "best").write_text("a file where the folder should be")
        if step == 5:
            signal.raise_signal(signal.SIGTERM)

    stopped = pretrain(recipe, run, start, progress=watcher(at))
    assert stopped.best_loss is not None
    (run / "best").unlink()
    result = pretrain(recipe, run, start, True)
    assert (run / "best" / "config.json").is_file()
    assert result.best_loss is not None
    assert result.best_loss < stopped.best_loss


def test_processes_with_another_base_are_told_apart(
    small: Make, shards: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = tmp_path / "base" / "model"
    pretrain(small("train.steps=1"), base.parent, Start(data=shards))
    material = gather(small(), tmp_path / "run", Start(data=shards, base=base))
    first: list[int] = []  # what the first process has
    monkeypatch.setattr(parallel, "first", lambda mine: first.append(mine) or first[0])
    monkeypatch.setattr(parallel, "ranks", lambda: 2)
    _check_same_everywhere(material)
    _check_same_everywhere(material)
    weights = load_file(base / "model.safetensors")
    save_file({name: weight + 1 for name, weight in weights.items()}, base / "model.safetensors")
    with pytest.raises(CorpusError, match="another model to begin with"):
        _check_same_everywhere(material)


def test_two_cannot_train_in_one_folder(small: Make, shards: Path, tmp_path: Path, watcher: type) -> None:
    run = tmp_path / "run"
    told: list[str] = []

    def second(step: int) -> None:
        if step == 3:
            with pytest.raises(OutputError, match=f"another process is at work in {run}: wait"):
                pretrain(small(), run, Start(data=shards), True)
            told.append("refused")

    assert pretrain(small(), run, Start(data=shards), progress=watcher(second)).steps == 6
    assert told
    assert pretrain(small(), run, Start(data=shards), resume=True).steps == 6  # free again


def test_a_second_run_leaves_the_vocabulary_of_the_first(
    small: Make, text: Path, tmp_path: Path, watcher: type
) -> None:
    run, start = tmp_path / "run", Start(find_sources([str(text / "pt.txt")]))
    recipe = small("tokenizer.vocab_size=140", "prepare.valid=0.15", "train.save_every=100")
    other = small("tokenizer.vocab_size=120", "prepare.valid=0.15")
    told: list[str] = []

    def second(step: int) -> None:
        if step == 2:
            for begin in (pretrain, dry_run):
                with pytest.raises(OutputError, match="another process is at work in"):
                    begin(other, run, start)
            told.append("refused")

    pretrain(recipe, run, start, progress=watcher(second))
    assert told
    assert Tokenizer.load(run / "vocab").vocab_size == 140


def test_where_nothing_began_nothing_is_left(small: Make, shards: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for run in (tmp_path / "new" / "run", tmp_path / "empty"):
        with pytest.raises(ConfigError, match="cannot fill masks"):
            pretrain(small("model.causal=true"), run, Start(data=shards))
    dry_run(small(), tmp_path / "new" / "run", Start(data=shards))
    assert [path.name for path in tmp_path.iterdir()] == ["empty"]
    assert not list((tmp_path / "empty").iterdir())


def test_others_can_read_checkpoints(small: Make, shards: Path, tmp_path: Path) -> None:
    pretrain(small(), tmp_path / "run", Start(data=shards))
    modes = {path.stat().st_mode for path in (tmp_path / "run").rglob("*.*") if path.is_file()}
    assert len(modes) == 1


def test_a_dry_run_writes_nothing_where_the_run_would_not(small: Make, text: Path, tmp_path: Path) -> None:
    start = Start(find_sources([str(text / "pt.txt")]))
    for name, message in (("thesis.txt", "holds other files"), ("config.json", "holds a model")):
        folder = tmp_path / name.partition(".")[0]
        folder.mkdir()
        (folder / name).write_text("{}")
        with pytest.raises(OutputError, match=message):
            dry_run(small(), folder, start)
        assert [path.name for path in folder.iterdir()] == [name]
