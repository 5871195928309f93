"""The commands: text and JSON out, one line and status 2 for every mistake."""

import io
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from unmask.cli import main
from unmask.predict import MaskedLM

Run = Callable[..., tuple[int, str, str]]
Folder = Callable[..., Path]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs the command line in this process: status, standard output, standard error."""

    def command(*arguments: object, given: str = "") -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["unmask", *map(str, arguments)])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(given.encode()), "utf-8"))
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


def test_fill_gives_one_json_line_per_text(run: Run, folder: Folder) -> None:
    _, out, _ = run("fill", "-m", folder(), "--json", given="O [MASK] dorme.\nA <mask> caiu.\n")
    assert [json.loads(line)["text"] for line in out.splitlines()] == ["O [MASK] dorme.", "A <mask> caiu."]


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
    _, out, _ = run("score", tmp_path / "lines.txt", "--model", path, "--tokens")
    assert len(out.splitlines()) == 2 + sum(len(score["tokens"]) for score in scored)


def test_generate(
    run: Run, causal: MaskedLM, tmp_path: Path, wordpiece: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    from unmask.checkpoint import save_model

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
    (path / "README.md").unlink()
    assert "not stated" in run("info", path)[1]


def test_info_of_an_onnx_folder(run: Run, folder: Folder) -> None:
    path = folder()
    (path / "model.safetensors").rename(path / "model.onnx")  # its contents are not read
    status, out, _ = run("info", path)
    assert status == 0
    assert "vectors only" in out
    assert "layers 2" in out
    assert "parameters" not in out


def test_a_run_is_told_from_its_model(run: Run, folder: Folder) -> None:
    path = folder()
    for command in (["info", path.parent], ["fill", "-m", path.parent, "O [MASK]."]):
        status, _, err = run(*command)
        assert status == 2
        assert err == f"unmask: {path.parent} is the folder of a run; its model is in {path}\n"


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
