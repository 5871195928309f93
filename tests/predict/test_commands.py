"""The commands: text and JSON out, one line and status 2 for every mistake."""

import io
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from tests.predict.conftest import make_config, make_model

from unmask.checkpoint import save_model
from unmask.cli import main
from unmask.model.network import Model
from unmask.predict import Answerer, Classifier, MaskedLM, Tagger, load
from unmask.tokenizer import Tokenizer

Run = Callable[..., tuple[int, str, str]]
Folder = Callable[..., Path]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs the command line in this process: status, standard output, standard error.

    `given` is what comes in; None: standard input is closed.
    """

    def command(*arguments: object, given: str | None = "", terminal: bool = False) -> tuple[int, str, str]:
        stdin = io.TextIOWrapper(io.BytesIO((given or "").encode()), "utf-8")
        monkeypatch.setattr(stdin, "isatty", lambda: terminal)
        monkeypatch.setattr(sys, "argv", ["unmask", *map(str, arguments)])
        monkeypatch.setattr(sys, "stdin", None if given is None else stdin)
        with pytest.raises(SystemExit) as caught:
            main()
        output = capsys.readouterr()
        return int(caught.value.code or 0), output.out, output.err

    return command


def test_fill(run: Run, folder: Folder) -> None:
    path = folder()
    status, out, _ = run("fill", "--model", path, "O gato [MASK] no telhado.", "--top", 3)
    assert status == 0
    assert len(out.splitlines()) == 3
    assert "no telhado." in out
    status, out, _ = run(
        "fill", "-m", path, "--json", "--candidates", "preto, velha", given="O [MASK] dorme.\n\n"
    )
    (found,) = map(json.loads, out.splitlines())
    assert {fill["words"][0]["text"] for fill in found["fills"]} == {"preto", "velha"}


def test_half_a_character_is_told(run: Run, folder: Folder) -> None:
    """A byte on the command line that is no UTF-8 arrives as such a half."""
    status, _, err = run("fill", "--model", folder(), "O [MASK] \udcff.")
    assert status == 2
    assert err.startswith(
        "unmask: the text holds half a character: an escape such as \\ud83d alone, or bytes"
    )


@pytest.mark.parametrize("given", [[], ["-"]])
def test_lines_are_piped_in(run: Run, folder: Folder, given: list[str]) -> None:
    path = folder()
    lines = "O [MASK] dorme.\nA <mask> caiu.\n"
    _, out, _ = run("fill", *given, "-m", path, "--json", given=lines)
    assert [json.loads(line)["text"] for line in out.splitlines()] == ["O [MASK] dorme.", "A <mask> caiu."]
    status, out, err = run("fill", *given, "-m", path, "--top", "1", given=lines + "A chuva.\n")
    assert (status, len(out.splitlines())) == (2, 2)
    assert "unmask: text 3 ('A chuva.'): nothing to fill: write [MASK]" in err
    _, out, _ = run("score", *given, "-m", path, "-q", given="O gato dorme.\n\nA chuva caiu.\n")
    assert [line.split("\t")[2] for line in out.splitlines()] == ["O gato dorme.", "A chuva caiu."]


@pytest.mark.parametrize(("command", "says"), [("fill", "give a text with a mask"), ("score", "name a file")])
def test_a_terminal_is_not_waited_for(run: Run, command: str, says: str) -> None:
    status, out, err = run(command, "-m", "mini-pt", terminal=True)
    assert (status, out) == (2, "")
    assert err == f"unmask: nothing to read: {says}, or pipe texts in, one per line\n"


@pytest.mark.parametrize(("command", "says"), [("fill", "give a text with a mask"), ("score", "name a file")])
def test_standard_input_is_closed_or_empty(run: Run, command: str, says: str) -> None:
    for given in ("", "\n \n"):
        for arguments in ([], ["-"]):
            status, out, err = run(command, *arguments, "-m", "mini-pt", given=given)
            assert (status, out) == (2, "")
            assert err == "unmask: standard input is empty: there is no text in it\n"
    for arguments, told in (([], f"nothing to read: {says}"), (["-"], "standard input is closed")):
        status, out, err = run(command, *arguments, "-m", "mini-pt", given=None)
        assert (status, out) == (2, "")
        assert err.startswith(f"unmask: {told}")
        assert len(err.splitlines()) == 1


def test_score_takes_several_files(run: Run, folder: Folder, tmp_path: Path) -> None:
    for name, text in (
        ("a.txt", "O gato dorme.\n"),
        ("b.txt", "\n"),
        ("c.csv", "id,frase\n1,A chuva caiu.\n"),
    ):
        (tmp_path / name).write_text(text, "utf-8")
    a, b, c = (tmp_path / name for name in ("a.txt", "b.txt", "c.csv"))
    status, out, err = run("score", c, b, a, "-m", folder())
    assert status == 0
    assert [line.split("\t")[2] for line in out.splitlines()] == ["A chuva caiu.", "O gato dorme."]
    assert f"passed over 1 without any text: {b}\n" in err
    assert f"{c}: the text is taken from the column frase\n" in err
    _, twice, _ = run("score", a, f"{tmp_path}/./a.txt", tmp_path / "a*.txt", "-m", folder(), "-q")
    assert twice.splitlines() == out.splitlines()[1:] * 3
    (tmp_path / "d.csv").write_text("obra,trecho\n1,O gato dorme.\n")
    _, named, _ = run("score", tmp_path / "d.csv", "--column", "trecho", "-m", folder(), "-q")
    assert named.splitlines() == out.splitlines()[1:]
    status, _, err = run("score", tmp_path / "d.csv", "-m", "mini-pt", "-q")
    assert status == 2
    assert err.endswith("only obra, trecho; say which with --column NAME\n")
    (tmp_path / "d.csv").write_text('text\n""\n')
    for given, told in (
        ([b], f"{b} is empty: there is no text in it"),
        ([b, tmp_path / "d.csv"], f"there is no text in {b}, {tmp_path / 'd.csv'}"),
        ([tmp_path / "d.csv"], f"there is no text in {tmp_path / 'd.csv'}"),
    ):
        status, out, err = run("score", *given, "-m", "mini-pt", "-q")
        assert (status, out, err) == (2, "", f"unmask: {told}\n")


def test_score_counts_rows_without_text(run: Run, folder: Folder, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,text\n1,O gato dorme.\n2,\n3,  \n4,A chuva caiu.\n", "utf-8")
    status, out, err = run("score", tmp_path / "a.csv", "-m", folder())
    assert (status, len(out.splitlines())) == (0, 2)
    assert "rows without any text, left out: 2\n" in err
    assert run("score", tmp_path / "a.csv", "-m", folder(), "-q")[2] == ""


def test_score(run: Run, folder: Folder, tmp_path: Path) -> None:
    path = folder()
    (tmp_path / "lines.txt").write_text("O gato dorme.\n\nA chuva caiu.\n", "utf-8")
    status, out, _ = run("score", tmp_path / "lines.txt", "--model", path, "-q")
    rows = [line.split("\t") for line in out.splitlines()]
    assert status == 0
    assert [row[2] for row in rows] == ["O gato dorme.", "A chuva caiu."]
    assert all(float(row[0]) < 0 < float(row[1]) for row in rows)
    _, out, _ = run("score", tmp_path / "lines.txt", "--model", path, "--json", "--tokens")
    scored = [json.loads(line) for line in out.splitlines()]
    assert sum(t["log_probability"] for t in scored[0]["tokens"]) == pytest.approx(
        float(rows[0][0]), abs=1e-3
    )
    (tmp_path / "rows.jsonl").write_text('{"text": "O gato\\ndorme."}\n', "utf-8")
    _, out, _ = run("score", tmp_path / "rows.jsonl", "--model", path, "-q")
    assert out.splitlines()[0].split("\t") == rows[0]
    _, both, _ = run("score", tmp_path / "*s.*", "--model", path, "-q")
    assert both.splitlines() == ["\t".join(row) for row in [*rows, rows[0]]]
    _, out, _ = run("score", tmp_path / "lines.txt", "--model", path, "--tokens")
    assert len(out.splitlines()) == 2 + sum(len(score["tokens"]) for score in scored)


def test_score_names_a_text_that_is_too_long(run: Run, folder: Folder, tmp_path: Path) -> None:
    long = f"Um velho {'gato ' * 200}"
    (tmp_path / "lines.txt").write_text("O gato.\n\n" * 300 + f"{long}\n", "utf-8")
    (tmp_path / "rows.csv").write_text(f"text\nO gato.\n{long}\n", "utf-8")
    for name, line in (("lines.txt", 601), ("rows.csv", 3)):
        status, _, err = run("score", tmp_path / name, "--model", folder(), "-q")
        assert status == 2
        told = rf"unmask: .*{name}, line {line} \('Um velho gato .*…'\): the text has \d+ tokens"
        assert re.match(told, err)


def test_generate(
    run: Run, causal: MaskedLM, tmp_path: Path, wordpiece: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_model(causal.model, tmp_path / "causal", causal.tokenizer)  # type: ignore[arg-type]
    _, out, _ = run("generate", "-m", tmp_path / "causal", "O gato", "--seed", 4, "--max-tokens", 8)
    _, again, _ = run(
        "generate", "-m", tmp_path / "causal", "O gato", "--seed", 4, "--max-tokens", 8, "--json"
    )
    assert out.startswith("O gato")
    assert json.loads(again)["text"] == out.rstrip("\n")
    monkeypatch.setenv("FORCE_COLOR", "1")  # as on a terminal, where work is shown while it lasts
    assert "generating" in run("generate", "-m", tmp_path / "causal", "O gato", "--max-tokens", 2)[2]


def test_info(run: Run, folder: Folder) -> None:
    path = folder(("mlm", "nsp"))
    status, out, _ = run("info", path)
    assert status == 0
    for expected in ("bert", "layers 2", "mit", "mlm, pooler, nsp"):
        assert expected in out
    _, out, _ = run("info", path, "--json")
    facts = json.loads(out)
    parts = facts["parameters"]
    assert parts["total"] == parts["embeddings"] + parts["blocks"] + parts["heads"]
    assert facts["licence"] == "mit"
    assert facts["weights"] == "float32"
    assert facts["bytes"] == sum(file.stat().st_size for file in path.iterdir())
    (path / "README.md").unlink()
    assert "not stated" in run("info", path)[1]


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("shards", [False, True])
def test_info_says_how_weights_are_stored(
    run: Run, lm: MaskedLM, tmp_path: Path, dtype: str, shards: bool
) -> None:
    assert isinstance(lm.model, Model)
    save_model(lm.model, tmp_path / "model", dtype=getattr(torch, dtype))
    if shards:
        name = "model-00001-of-00001.safetensors"
        (tmp_path / "model" / "model.safetensors").rename(tmp_path / "model" / name)
        index = {"weight_map": dict.fromkeys(load_file(tmp_path / "model" / name), name)}
        (tmp_path / "model" / "model.safetensors.index.json").write_text(json.dumps(index))
    assert f"\nweights      {dtype}\n" in run("info", tmp_path / "model")[1]


@pytest.mark.parametrize(
    ("heads", "changes", "facts", "can"),
    [
        (("mlm",), {}, {}, "fill masks, score texts, make vectors"),
        (("mlm",), {}, {"hybrid": True}, "fill masks, generate, score texts, make vectors"),
        ((), {}, {}, "make vectors"),
        (
            ("mlm", "sop"),
            {},
            {},
            "fill masks, score texts, say whether texts follow each other, make vectors",
        ),
        (("nsp",), {}, {}, "say whether texts follow each other, make vectors"),
        (("mlm", "classify"), {"labels": ("a", "b")}, {}, "classify texts, make vectors"),
        (("classify",), {"labels": ("x",), "problem": "regression"}, {}, "rate texts, make vectors"),
        (("tag",), {"labels": ("O", "B-LOC")}, {}, "tag words, make vectors"),
        (("answer",), {}, {}, "answer questions, make vectors"),
        (("answer", "tag"), {"labels": ("O", "B-LOC")}, {}, "tag words, make vectors"),
    ],
)
def test_info_says_what_a_model_can_do(
    run: Run,
    wordpiece: Tokenizer,
    tmp_path: Path,
    heads: tuple[str, ...],
    changes: dict[str, object],
    facts: dict[str, object],
    can: str,
) -> None:
    save_model(
        make_model(make_config(wordpiece, **changes), heads), tmp_path / "model", wordpiece, facts=facts
    )
    assert f"\ncan          {can}\n" in run("info", tmp_path / "model")[1]
    kinds = {"classify": Classifier, "rate": Classifier, "tag": Tagger, "answer": Answerer}
    assert type(load(tmp_path / "model")) is kinds.get(can.split()[0], MaskedLM)


def test_a_causal_model_has_one_method(run: Run, causal: MaskedLM, tmp_path: Path) -> None:
    save_model(causal.model, tmp_path / "model", causal.tokenizer)  # type: ignore[arg-type]
    status, out, err = run("score", "-", "-m", tmp_path / "model", "--method", "token", given="O gato.\n")
    assert (status, out) == (2, "")
    assert "--method token: a causal model masks nothing, it has one method: leave it out" in err
    assert run("score", "-", "-m", tmp_path / "model", given="O gato.\n")[0] == 0


def test_info_of_a_causal_model(run: Run, causal: MaskedLM, tmp_path: Path) -> None:
    assert isinstance(causal.model, Model)
    save_model(causal.model, tmp_path / "model")
    assert "\ncan          generate, score texts, make vectors\n" in run("info", tmp_path / "model")[1]


def test_info_of_an_onnx_folder(run: Run, folder: Folder) -> None:
    path = folder()
    (path / "model.safetensors").rename(path / "model.onnx")  # its contents are not read
    status, out, _ = run("info", path)
    assert status == 0
    assert "vectors only" in out
    assert "layers 2" in out
    assert "parameters" not in out
    assert f"bytes        {sum(file.stat().st_size for file in path.iterdir()):,}\n" in out
    assert out.endswith("can          make vectors\n")


def test_a_run_is_told_from_its_model(run: Run, folder: Folder) -> None:
    path = folder()
    for command in (["info", path.parent], ["fill", "-m", path.parent, "O [MASK]."]):
        status, _, err = run(*command)
        assert status == 2
        assert err == f"unmask: {path.parent} is the folder of a run; its model is in {path}\n"


def test_a_file_is_no_model_folder(run: Run, folder: Folder, tmp_path: Path) -> None:
    (tmp_path / "news.txt").write_text("O gato.")
    assert run("fill", "-m", tmp_path / "news.txt", "O [MASK].") == (
        2, "", f"unmask: {tmp_path / 'news.txt'} is a file: name the folder of a model\n",
    )  # fmt: skip
    status, _, err = run("info", folder() / "model.safetensors")
    assert (status, err.endswith(f"is a file: name {tmp_path / 'model'}\n")) == (2, True)


@pytest.mark.parametrize(
    "arguments",
    [
        ["info", "nowhere"],
        ["fill", "-m", "nowhere", "O [MASK]."],
        ["generate", "-m", "nowhere"],
        ["score", "-", "-m", "nowhere"],
        ["score", "-", "-m", "nowhere", "--method", "other"],
        ["convert", "nowhere", "there"],
        ["convert", ".", "there", "--to", "tf"],
        ["convert", ".", "taken"],
        ["finetune", "tag", "-m", ".", "--train", "a.conll", "-o", "taken"],
        ["finetune", "tag", "-m", "taken", "--train", "a.conll", "-o", "taken", "--overwrite"],
        ["finetune", "embed", "-m", "nowhere", "--train", "a.txt", "-o", "there"],
        ["pretrain", "tiny-doc", "-o", "run"],
        ["pretrain", "tiny-docs", "-o", "run", "--text", "nowhere"],
        ["evaluate", "blimpo", "-m", "nowhere", "-o", "scores"],
        ["evaluate", "bias-pt", "-m", "nowhere", "-o", "scores"],
        ["finetune", "tag", "-m", "nowhere", "--train", "a.conll", "-o", "out", "--lr", "0"],
        ["finetune", "embed", "-m", "nowhere", "--train", "a.txt", "-o", "out", "--batch-size", "1"],
        ["fewshot", "-m", "nowhere", "--train", "a.csv", "--valid", "a.csv", "-o", "out", "--set", "lr=0"],
    ],
)
def test_a_wrong_path_or_option_is_told_before_torch_is_loaded(arguments: list[str], tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "config.json").touch()
    code = (
        "import sys, atexit\n"
        "atexit.register(lambda: print('heavy' if 'torch' in sys.modules else 'light'))\n"
        f"sys.argv = ['unmask', *{arguments!r}]\nfrom unmask.cli import main\nmain()"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], input="", capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert run.returncode == 2, run.stderr
    assert run.stdout == "light\n"
    assert len(run.stderr.splitlines()) == 1


def test_convert(run: Run, folder: Folder, tmp_path: Path) -> None:
    status, out, _ = run("convert", folder(), tmp_path / "copy", "-q")
    assert status == 0
    assert "largest difference 0, of the head's scores 0, mean cosine 1.0" in out
    _, out, _ = run("convert", tmp_path / "copy", tmp_path / "again", "--json", "-q")
    assert json.loads(out)["difference"] == 0
    again = ("convert", folder(name="other", layers=1), tmp_path / "again", "-q")
    status, _, err = run(*again)
    assert (status, err.count("\n")) == (2, 1)
    assert "again holds a model already: add --overwrite to replace it" in err
    assert run(*again, "--overwrite")[0] == 0
    assert json.loads((tmp_path / "again" / "config.json").read_text())["num_hidden_layers"] == 1


def test_what_did_not_fit_is_one_table(run: Run, folder: Folder) -> None:
    path = folder(("pooler",))
    values = json.loads((path / "config.json").read_text())
    (path / "config.json").write_text(json.dumps(values | {"architectures": ["BertForMaskedLM"]}))
    status, _, err = run("fill", "-m", path, "O [MASK].")
    assert status == 0
    assert {line.split()[0] for line in err.splitlines()} <= {"missing", "unused", "new"}
    assert "missing" in err


def _damage_nothing(path: Path) -> None:
    shutil.rmtree(path)


def _cut(path: Path) -> None:
    file = path / "model.safetensors"
    file.write_bytes(file.read_bytes()[:1000])


def _set(**values: object) -> Callable[[Path], None]:
    def change(path: Path) -> None:
        config = path / "config.json"
        config.write_text(json.dumps(json.loads(config.read_text()) | values))

    return change


def _link_out(path: Path) -> None:
    outside = path.parent / "outside.safetensors"
    (path / "model.safetensors").rename(outside)
    (path / "model.safetensors").symlink_to(outside)


def _escape(path: Path) -> None:
    (path / "model.safetensors").rename(path.parent / "shard.safetensors")
    index = {"weight_map": {"embeddings.word_embeddings.weight": "../shard.safetensors"}}
    (path / "model.safetensors.index.json").write_text(json.dumps(index))


def _no_tokenizer(path: Path) -> None:
    (path / "tokenizer.json").unlink()


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (_damage_nothing, "no model folder at"),
        (_cut, "damaged or cut short"),
        (_set(hidden_size=64), "in the weights, but config.json asks for"),
        (_set(vocab_size=99), "vocab_size 99"),
        (_set(model_type="deberta-v2"), "it has bert"),
        (_set(auto_map={"AutoModel": "evil.Model"}), "names code to run"),
        (_link_out, "leads out of its folder"),
        (_escape, "leads out of its folder"),
        (_no_tokenizer, "holds no tokenizer"),
        (lambda path: (path / "config.json").write_text("{"), "not valid JSON"),
    ],
)
def test_bad_folders_are_one_line(
    run: Run, folder: Folder, damage: Callable[[Path], None], says: str
) -> None:
    path = folder()
    damage(path)
    status, out, err = run("fill", "-m", path, "O [MASK].")
    assert status == 2
    assert out == ""
    assert len(err.splitlines()) == 1
    assert says in err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["fill", "O gato."], "nothing to fill"),
        (["generate", "O gato"], "not causal"),
        (["score", "nowhere.txt"], "there is no nowhere.txt"),
        (["score", "-", "--method", "l2r"], "word-l2r, token"),
        (
            ["fill", "O [MASK].", "--candidates", "gato", "--pieces", 1],
            "--pieces 1 goes without --candidates",
        ),
    ],
)
def test_mistakes_are_one_line(
    run: Run, folder: Folder, arguments: list[str], says: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    status, out, err = run(*arguments, "-m", folder(), given="O gato.\n")
    assert (status, out) == (2, "")
    assert len(err.splitlines()) == 1
    assert says in err


def test_a_task_model_is_no_language_model(run: Run, folder: Folder) -> None:
    status, _, err = run("fill", "-m", folder(("classify",), labels=("a", "b")), "O [MASK].")
    assert status == 2
    assert "holds a classifier" in err
