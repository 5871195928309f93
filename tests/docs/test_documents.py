"""What README and docs show is run: every line after `$` and every Python block, in one folder, in order.

Output that a page shows must be what the tool prints here, but for numbers and for words of text and model.
"""

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.docs.conftest import PAGES, ROOT, examples

from unmask.cli import main


@pytest.fixture
def shards(place: Path, page: str) -> None:
    """Shards, for the page that begins with them; the others make a vocabulary of their own."""
    if page in ("docs/pretraining.md", "docs/scaling.md"):
        (place / "shards-ready").rename(place / "shards")
    else:
        shutil.rmtree(place / "vocab")


# What a page shows is for real text; here the text is small and time is short.
SMALLER = {
    "--vocab-size 16000": "--vocab-size 130",
    "vocab_size=16000": "vocab_size=130",
    "--vocab-size 32000": "--vocab-size 58",
    "--add 2000": "--add 3",
    "--nproc-per-node=8": "--nproc-per-node=2",
    "--words bom=bom,mau=mau": "--words bom=a,mau=o --sizes 4 --seeds 1 --set steps=3",
}
FEWER = [
    "train.epochs=", "train.steps=3", "train.eval_every=3", "batch.length=32", "train.batch_tokens=128",
    "train.warmup=1",
]  # fmt: skip


def runnable(line: str) -> list[str]:
    """The command of a `$ unmask …` or `$ torchrun …` line, cut down to this folder's size."""
    for shown, small in SMALLER.items():
        line = line.replace(shown, small)
    command = shlex.split(line.removeprefix("$ "), comments=True)
    assert command[0] in ("unmask", "torchrun"), line
    changes = FEWER if "pretrain" in command else ["prepare.valid=0.1"] if command[1] == "prepare" else []
    return [*command, *(f"--set={change}" for change in changes)]


_NUMBER = re.compile(r"(?:(?<!\S)[+-])?\d+(?:,\d{3})*(?:\.\d+)?(?:e-?\d+)?")
_POOR = re.compile(r".* is not clearly better than .*")  # said of models as small as those made here
# Lines with words of the text or of the model, and what does not change in them.
VARYING = {
    "$ unmask tokenizer": [r"gatinho .+"],
    "$ unmask fill": [r"#% \S+ O velho abriu a.* saiu\."],
    "$ unmask similar": [r"# .+ \(casmurro\.txt, #\)"],
    "$ unmask analyse senses": [r"#: .+ \(#\)", r".*\[[Bb]anco\].*"],
    "$ unmask analyse attention": [
        r"\S+: probability #%, where every word is masked #%; "
        r"integrated gradients in # steps, completeness error # nats"
    ],
    "import unmask": [r"# O velho abriu a.* saiu\."],
}


def form(printed: str) -> list[str]:
    """Lines without what varies: numbers, units of time, white space, the frames of tables."""
    plain = re.sub(r"[\u2500-\u257f]", " ", printed)
    lines = [" ".join(_NUMBER.sub("#", line).split()) for line in plain.splitlines()]
    return [
        re.sub(r"# (second|minutes|hours|days)\b", "# seconds", line)
        for line in lines
        if line and not _POOR.fullmatch(line)
    ]


def could_print(code: str, printed: str, shown: list[str]) -> bool:
    """Whether a page shows what was printed; … alone stands for lines, at the end of a line for its rest."""
    varying = [pattern for start, several in VARYING.items() if code.startswith(start) for pattern in several]
    wanted = ""
    for line in form("\n".join(shown)):
        if line == "…":
            wanted += r"(?:.*\n)*"
        else:
            known = next((pattern for pattern in varying if re.fullmatch(pattern, line)), None)
            cut = re.escape(line.removesuffix("…")) + ".*" * line.endswith("…")
            wanted += f"(?:{known or cut})\n"
    return re.fullmatch(wanted, "".join(f"{line}\n" for line in form(printed))) is not None


def test_output_that_could_not_be_printed_is_found() -> None:
    printed = "a table\n│ name │ 1,200 │\n\nthird, in 3 seconds\nlast: -0.5"
    assert could_print("", printed, ["a table", "name 7", "third, in 1.5 minutes", "last: 1e-05"])
    assert could_print("", printed.replace("3 seconds", "1 second"), ["…", "third, in 5 seconds", "last: 2"])
    assert could_print("", printed, ["…", "third, …", "last: 2"])
    for wrong in (["a table"], ["…", "third, in 3 hours"], ["…", "last: #, 1"], ["…", "title 7", "…"]):
        assert not could_print("", printed, wrong)
    assert could_print(
        "$ unmask fill", " 2.50%  gato  O velho abriu a gato e saiu.", ["1% a O velho abriu a a e saiu."]
    )
    assert not could_print("$ unmask fill", "2.50%  gato", ["1% a O velho abriu a a e saiu."])


def test_every_command_of_readme_has_its_output() -> None:
    for line, output in examples("README.md"):
        assert [each for each in output if each != "…"], line


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.usefixtures("shards")
def test_commands_run(
    place: Path, page: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """In this process, which has torch already; torchrun starts others."""
    if page == "docs/howto/evaluate-and-compare.md":
        shutil.copytree(place / "model", place / "run" / "model")
    monkeypatch.chdir(place)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("COLUMNS", "80")
    for line, shown in examples(page):
        command = runnable(line)
        if command[0] == "torchrun":
            command[0] = "torch.distributed.run"
            subprocess.run([sys.executable, "-m", *command], check=True)
        else:
            monkeypatch.setattr(sys, "argv", command)
            with pytest.raises(SystemExit) as ended:
                main()
            assert not ended.value.code, f"{line}\n{capfd.readouterr().err}"
        printed = capfd.readouterr().out
        assert printed, line
        assert not shown or could_print(line, printed, shown), f"{line}\nprinted\n{printed}"


@pytest.mark.parametrize("page", PAGES)
def test_python_runs(
    place: Path, page: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(place / "model", place / "run" / "model")
    monkeypatch.chdir(place)
    text = (ROOT / page).read_text("utf-8")
    fenced = r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```)?"
    for block, shown in re.findall(fenced, text, re.MULTILINE | re.DOTALL):
        exec(compile(block, page, "exec"), {"__name__": page})
        printed = capfd.readouterr().out
        assert not shown or could_print(block, printed, shown.splitlines()), f"{block}\nprinted\n{printed}"
