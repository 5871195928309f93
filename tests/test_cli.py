"""The command line: help at once, one clear line for every mistake, JSON for scripts."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

import unmask
from unmask.cli import app, main
from unmask.errors import OutputError

CORPUS = "\n\n".join(
    f"O barco número {n} chegou ao porto de manhã. A carga {n} foi descarregada à tarde." for n in range(60)
)


def run(*arguments: str, **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "unmask", *arguments], capture_output=True, text=True, check=False, **options
    )  # type: ignore[call-overload,no-any-return]


def run_to(output: int, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "unmask", *arguments],
        stdout=output, stderr=subprocess.PIPE, text=True, check=False, cwd=cwd,
    )  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A text file, a vocabulary and a corpus, all made through the command line."""
    folder = tmp_path_factory.mktemp("cli")
    (folder / "a.txt").write_text(CORPUS, "utf-8")
    made = run("tokenizer", "a.txt", "--vocab-size", "90", "-o", "vocab", "-q", cwd=folder)
    assert made.returncode == 0, made.stderr
    made = run("prepare", "a.txt", "-t", "vocab", "-o", "shards", "--workers", "1", "-q", cwd=folder)
    assert made.returncode == 0, made.stderr
    return folder


def test_version() -> None:
    assert run("--version").stdout == f"unmask {unmask.__version__}\n"


def test_tables_are_whole_and_as_they_stand_there(folder: Path) -> None:
    narrow, words = {**os.environ, "COLUMNS": "30"}, ["[/]", "x[bold]y", ":cat:", "n" * 80]
    shown = run("corpus", "shards", cwd=folder, env=narrow)
    assert shown.returncode == 0, shown.stderr
    assert "…" not in shown.stdout
    asked = [part for word in words for part in ("--word", word)]
    shown = run("tokenizer", "--report", "vocab", "a.txt", "-q", *asked, cwd=folder, env=narrow)
    assert shown.returncode == 0, shown.stderr
    assert all(f" {word} " in shown.stdout for word in words)


def test_languages_of_which_nothing_is_for_training(folder: Path) -> None:
    aside = ["--set", "prepare.valid=0.999", "--set", "prepare.test=0"]
    (folder / "c.txt").write_text("The ship came in.", "utf-8")
    (folder / "d.txt").write_text("O barco chegou.", "utf-8")
    made = run("prepare", "en=c.txt", "pt=d.txt", "-t", "vocab", "-o", "aside", "-q", *aside, cwd=folder)
    assert made.returncode == 0, made.stderr
    shown = run("corpus", "aside", cwd=folder)
    assert (shown.returncode, shown.stderr) == (0, "")


def test_every_command_has_help_with_an_example() -> None:
    registered = typer.main.get_command(app)
    assert isinstance(registered, typer.core.TyperGroup)
    assert {"dedup", "tokenizer", "prepare", "corpus", "pretrain", "fill"} <= set(registered.commands)
    group = registered.commands["analyse"]
    assert isinstance(group, typer.core.TyperGroup)
    inside = {f"analyse {name}": command for name, command in group.commands.items()}
    alone = {name: command for name, command in registered.commands.items() if command is not group}
    for name, command in (alone | inside).items():
        options = {option for parameter in command.params for option in parameter.opts}
        assert "--json" in options, name
        assert "--quiet" in options or name in {"info", "report"}, name  # which say nothing but their result
        assert command.epilog, name
        assert f"unmask {name} " in command.epilog, name


def test_shell_completion() -> None:
    shown = run("--show-completion", "bash")
    assert shown.returncode == 0
    assert "_UNMASK_COMPLETE" in shown.stdout or "_PYTHON" in shown.stdout


def test_results_as_json(folder: Path) -> None:
    manifest = json.loads(run("corpus", "shards", "--verify", "--json", cwd=folder).stdout)
    assert manifest["verified"]
    assert manifest["splits"]["train"]["documents"] > 50
    assert len(manifest["fingerprint"]) == 32


def test_results_for_people(folder: Path) -> None:
    shown = run("corpus", "shards", "--verify", cwd=folder)
    assert "60 documents read; dropped: none" in shown.stdout
    assert "agrees with its checksum" in shown.stdout


def test_standard_input(folder: Path) -> None:
    made = run("prepare", "-", "-t", "vocab", "-o", "piped", "-q", "--json", cwd=folder, input=CORPUS)
    assert json.loads(made.stdout)["documents_read"] == 60


def test_languages_in_the_summary(folder: Path) -> None:
    (folder / "b.txt").write_text("The ship came in.\n\nThe cargo was heavy.", "utf-8")
    whole = ["--set", "prepare.valid=0", "--set", "prepare.test=0"]
    made = run("prepare", "pt=a.txt", "en=b.txt", "-t", "vocab", "-o", "two", "-q", *whole, cwd=folder)
    assert made.returncode == 0, made.stderr
    shown = run("corpus", "two", "--alpha", "0.5", cwd=folder)
    assert "drawn at α = 0.5: en" in shown.stdout
    alike = run("corpus", "two", "--alpha", "0", cwd=folder)
    assert "drawn at α = 0: en 50.0%, pt 50.0%" in alike.stdout


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["prepare", "nowhere", "-t", "vocab", "-o", "x"], "there is no nowhere"),
        (["prepare", "a.txt", "-t", "nowhere", "-o", "x"], "nowhere"),
        (
            ["prepare", "a.txt", "-t", "vocab", "-o", "x", "--set", "text.min_char=3"],
            "did you mean text.min_chars",
        ),
        (["prepare", "a.txt", "-t", "vocab", "-o", "x", "--shard", "9/3"], "write it as i/n"),
        (
            ["prepare", "a.txt", "-t", "vocab", "-o", "shards", "--set", "seed=1", "--documents", "line"],
            "other input",
        ),
        (["prepare", "a.txt", "-t", "vocab", "-o", "a.txt"], "a.txt"),
        (["prepare", "a.txt", "-t", "vocab", "-o", "mini-pt"], "would hide the model of that name"),
        (["pretrain", "tiny-docs", "--text", "a.txt", "-o", "mini-pt"], "would hide"),
        (["tokenizer", "a.txt", "-o", "mini-pt"], "would hide"),
        (["evaluate", "a.txt", "-m", "mini-pt", "-o", "mini-pt"], "would hide"),
        (["prepare", ".", "-t", "vocab", "-o", "x"], "x is inside ., and would be read as text"),
        (["pretrain", "tiny-docs", "--text", ".", "-o", "x"], "x is inside ."),
        (["tokenizer", "pt=.", "-o", "x"], "x is inside ."),
        (["pretrain", "x", "--train.stages", "3"], "--set 'train.stages=[{share=…, length=…}, …]'?"),
        (["dedup", ".", "-o", "x.jsonl"], "x.jsonl is inside ."),
        (["corpus", "vocab"], "is not a corpus"),
        (["corpu", "shards"], "Did you mean 'corpus'"),
        (["corpus"], "Missing argument"),
        (["corpus", "shards", "--top", "3"], "No such option: --top"),
        (["fill", "O [MASK].", "-m", "mini-pt", "--top", "0"], "unmask: Invalid value for '--top'"),
        (["finetune", "tag", "-m", "mini-pt", "--train", "a.txt", "-o", "y", "--lr", "abc"], "'abc'"),
        (
            ["finetune", "tag", "-m", "mini-pt", "--train", "a.txt", "-o", "y", "--lr", "1", "--set", "lr=2"],
            "unmask: --set lr=2 and --lr 1.0 are one setting with two values: leave one of them out",
        ),
        (
            ["finetune", "tag", "--train", "a.txt", "--train", "b.txt"],
            "unmask: --train is given twice: give it once (",
        ),
        (["fill", "O [MASK].", "-m", "mini-pt", "--model=mini-en"], "unmask: --model is given twice"),
        (["analyse", "geometry", "-m", "a", "-m", "b"], "unmask: --model is given twice"),
        (["finetune"], "Missing argument 'task'. Choose from: classify,"),
        (["finetune", "clasify"], "'clasify' is not one of 'classify'"),
        (["pretrain", "tiny-docs", "--data", "shards", "-o", "vocab"], "holds other files and no run"),
        (
            ["tokenizer", "a.txt", "-o", "y", "--kind", "wordpice"],
            "unmask: --kind: input should be 'wordpiece'",
        ),
    ],
)
def test_mistakes_are_one_line_and_status_2(folder: Path, arguments: list[str], says: str) -> None:
    failed = run(*arguments, cwd=folder)
    assert failed.returncode == 2, failed.stderr
    assert "Traceback" not in failed.stderr
    assert says in failed.stderr
    assert len(failed.stderr.splitlines()) == 1


def test_an_option_that_takes_several_values_and_a_flag_may_be_given_twice(folder: Path) -> None:
    several = ["--set", "prepare.valid=0", "--set", "prepare.test=0", "--json", "--json"]
    made = run("prepare", "a.txt", "-t", "vocab", "-o", "several", "-q", "-q", *several, cwd=folder)
    assert json.loads(made.stdout)["documents_read"] == 60


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["pretrain", "x", "--learning-rate", "1"], "did you mean --set train.lr=…?"),
        (["prepare", "x", "--min-chars", "1"], "did you mean --set text.min_chars=…?"),
        (["finetune", "classify", "--learning-rate", "1"], "did you mean --lr?"),
        (["finetune", "classify", "--weight-decay", "1"], "did you mean --set weight_decay=…?"),
        (["fewshot", "--steps", "1"], "did you mean --set steps=…?"),
        (["finetune", "classify", "--seed", "1"], "did you mean --set seed=…?"),
        (["tokenizer", "x", "--vocabsize", "9"], "did you mean --vocab-size?"),
        (["prepare", "x", "--colum", "y"], "did you mean --column?"),
        (["pretrain", "x", "--model", "y"], "model is a section of settings: give one of them, as --set"),
        (["pretrain", "x", "--tokenizer", "y"], "prepare the text with it, unmask prepare TEXT --tokenizer"),
        (
            ["dedup", "x", "--tokenizer", "y"],
            "tokenizer is a section of settings: give one of them, as --set",
        ),
    ],
)
def test_an_option_that_is_a_setting_is_named(arguments: list[str], says: str) -> None:
    failed = CliRunner().invoke(app, arguments)
    assert failed.exit_code == 2
    told = " ".join(failed.output.replace("│", " ").split())
    assert says in told
    assert "Possible options" not in told
    assert "did you mean" not in CliRunner().invoke(app, [*arguments[:-2], "--xyz"]).output
    assert "did you mean" not in CliRunner().invoke(app, [*arguments[:-2], "--set"]).output


def test_without_a_command_it_helps() -> None:
    asked = run()
    assert asked.returncode == 2
    assert "Usage: " in asked.stdout
    assert not asked.stderr


def test_ctrl_c_is_one_line(folder: Path) -> None:
    command = [sys.executable, "-m", "unmask", "prepare", "-", "-t", "vocab", "-o", "slow", "-q"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=folder,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a job in the background ignores it
    ) as waiting:  # fmt: skip
        until = time.monotonic() + 60
        while not (folder / "slow").exists() and time.monotonic() < until:
            time.sleep(0.05)
        waiting.send_signal(signal.SIGINT)
        try:
            assert waiting.wait(60) == 130
        finally:
            waiting.kill()
        assert waiting.stderr
        assert waiting.stderr.read() == "unmask: stopped by Ctrl-C\n"


def test_ctrl_c_while_something_loads_is_no_fault(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def half_loaded(standalone_mode: bool) -> None:
        with suppress(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        raise AttributeError("module has no attribute core")

    monkeypatch.setattr("unmask.cli.app", half_loaded)
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 130
    assert capsys.readouterr().err == "unmask: stopped by Ctrl-C\n"


@pytest.mark.parametrize("kind", ["attention", "geometry", "probe", "senses"])
def test_what_analyse_would_spoil_is_told_at_once(kind: str, tmp_path: Path) -> None:
    (tmp_path / f"{kind}.json").write_text("mine")
    done = CliRunner().invoke(app, ["analyse", kind, "x", "-m", "mini-pt", "-o", str(tmp_path)])
    assert isinstance(done.exception, OutputError), done.output
    assert f"{kind}.json is there already" in str(done.exception)
    assert (tmp_path / f"{kind}.json").read_text() == "mine"


def test_ctrl_c_says_where_work_goes_on(folder: Path) -> None:
    (folder / "long.txt").write_text("\n\n".join([CORPUS] * 6000), "utf-8")
    command = [sys.executable, "-m", "unmask", "prepare", "long.txt", "-t", "vocab", "-o", "later", "-q"]
    with subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, cwd=folder,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as working:  # fmt: skip
        while not (folder / "later" / ".work" / "parts").exists() and working.poll() is None:
            time.sleep(0.01)
        working.send_signal(signal.SIGINT)
        _, told = working.communicate(timeout=60)
    (folder / "long.txt").unlink()
    assert working.returncode == 130
    assert told == "what is done is kept: the same command goes on\nunmask: stopped by Ctrl-C\n"


def test_a_corpus_without_validation_is_told(folder: Path) -> None:
    (folder / "one.txt").write_text("um só\ndocumento", "utf-8")
    for changes, told in (([], True), (["--set", "prepare.valid=0"], False)):
        made = run("prepare", "one.txt", "-t", "vocab", "-o", f"one-{told}", "-q", *changes, cwd=folder)
        assert made.returncode == 0, made.stderr
        assert ("no document fell to validation" in made.stdout) is told
        assert ("--set text.documents=line" in made.stdout) is told
    (folder / "one.csv").write_text("text\num só\n", "utf-8")
    (folder / "two.csv").write_text("text\num só\noutro\n", "utf-8")
    (folder / "many.csv").write_text("text\n" + "".join(f"{n} livros\n" for n in range(999)), "utf-8")
    more, single = (
        ": for more, prepare it with --set prepare.valid=0.2",
        ", as one cannot be shared: give more text",
    )
    cases = (
        (["one.csv"], f"no document fell to validation{single}"),
        (["two.csv"], f"no document fell to validation{more}"),
        (["pt=many.csv", "en=one.csv"], f"no document of en fell to validation{single}"),
        (["pt=many.csv", "en=two.csv"], f"no document of en fell to validation{more}"),
        (["pt=many.csv"], "dropped: none"),
    )
    for number, (given, told) in enumerate(cases):
        made = run("prepare", *given, "-t", "vocab", "-o", f"told-{number}", "-q", cwd=folder)
        assert made.stdout.splitlines()[-1].endswith(told)


def test_wrong_encoding_is_named(folder: Path) -> None:
    (folder / "latin.txt").write_bytes("olá, café".encode("latin-1"))
    failed = run("prepare", "latin.txt", "-t", "vocab", "-o", "z", cwd=folder)
    assert failed.returncode == 2
    assert "latin.txt" in failed.stderr
    assert "byte 2" in failed.stderr
    assert "Traceback" not in failed.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full on this system")
def test_a_full_disk_under_standard_output_is_one_line(folder: Path) -> None:
    with open("/dev/full", "w") as full:
        failed = run_to(full.fileno(), "corpus", "shards", "--json", cwd=folder)
    assert failed.returncode == 2
    assert failed.stderr.startswith("unmask: no space left while writing the output")
    assert len(failed.stderr.splitlines()) == 1


def test_a_closed_pipe_is_quiet(folder: Path) -> None:
    receiver, sender = os.pipe()
    os.close(receiver)
    ended = run_to(sender, "corpus", "shards", "--json", cwd=folder)
    os.close(sender)
    assert ended.stderr == ""


_SPIN = """
import os, sys
from unmask.cli import main
sys.argv[1:] = ["--version"]
try:
    main()
finally:
    print(os.environ["GOMP_SPINCOUNT"])
"""


@pytest.mark.parametrize("own", [None, "7"])
def test_waiting_threads_give_their_core_away_unless_told_otherwise(own: str | None) -> None:
    settings = {key: value for key, value in os.environ.items() if key != "GOMP_SPINCOUNT"}
    settings |= {"GOMP_SPINCOUNT": own} if own else {}
    done = subprocess.run([sys.executable, "-c", _SPIN], env=settings, stdout=subprocess.PIPE, text=True)
    assert done.stdout.split()[-1] == (own or "5000")
