"""Conversion: safetensors exact, ONNX near, eight bits near enough and the same whatever the batch."""

import copy
import json
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from unmask.errors import ConfigError, ModelError, OutputError
from unmask.model.network import Model
from unmask.predict import MaskedLM, export, load
from unmask.predict.convert import compare, convert
from unmask.predict.onnx import OnnxModel
from unmask.tasks.apply import predict_file

Folder = Callable[..., Path]


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory, texts: list[str]) -> Path:
    """Exporting takes seconds: a folder, its ONNX copy and its eight-bit copy, made once."""
    from unmask.checkpoint import save_model
    from unmask.config import ModelConfig, TokenizerConfig
    from unmask.predict.export import quantise_graph
    from unmask.tokenizer import train_tokenizer

    onnx = pytest.importorskip("onnx")
    root = tmp_path_factory.mktemp("exported")
    tokenizer = train_tokenizer(texts * 5, TokenizerConfig(vocab_size=150))
    config = ModelConfig(vocab_size=150, width=32, layers=2, heads=4, inner=64, positions=64, init_std=0.3)
    save_model(Model(config, ("mlm",), torch.Generator().manual_seed(0)).eval(), root / "model", tokenizer)
    made, report = convert(root / "model", root / "onnx", "onnx")
    assert not report
    assert made.tokenizer
    assert made.cosine > 0.999999
    assert made.difference < 1e-4
    assert made.scores is not None
    assert made.scores < 1e-3
    # `convert` with int8 traces the network once more, which takes seconds: see the slow tests.
    shutil.copytree(root / "onnx", root / "int8")
    proto = onnx.load(root / "onnx" / "model.onnx")
    quantise_graph(proto)
    onnx.save_model(proto, root / "int8" / "model.onnx")
    return root


def test_onnx_vectors_are_those_of_torch(exported: Path, texts: list[str]) -> None:
    ours, theirs = load(exported / "model", "cpu"), load(exported / "onnx", "cpu")
    assert isinstance(theirs.model, OnnxModel)
    for level in ("sentence", "word", "token"):
        for a, b in zip(ours.embed(texts, level), theirs.embed(texts, level), strict=True):
            np.testing.assert_allclose(a, b, atol=1e-4)
    with pytest.raises(ModelError, match="last layer only"):
        theirs.embed(texts, layer=1)


def test_onnx_logits_and_free_axes(exported: Path) -> None:
    import onnxruntime

    session = onnxruntime.InferenceSession(exported / "onnx" / "model.onnx")
    assert [value.name for value in session.get_inputs()] == ["input_ids", "attention_mask", "token_type_ids"]
    model = load(exported / "model", "cpu").model
    for count, length in ((1, 1), (3, 9), (2, 64)):
        ids = torch.randint(0, 150, (count, length))
        mask = torch.ones_like(ids)
        mask[-1, length // 2 + 1 :] = 0
        segments = (torch.arange(length) > length // 3).long().expand(count, length)
        feed = {"input_ids": ids, "attention_mask": mask, "token_type_ids": segments}
        hidden, logits = session.run(None, {name: value.numpy() for name, value in feed.items()})
        with torch.no_grad():
            truth = model.encoder.padded(ids, mask, segments)  # type: ignore[union-attr]
            scores = model.mlm(truth)  # type: ignore[union-attr]
        real = mask.bool().numpy()
        np.testing.assert_allclose(hidden[real], truth.numpy()[real], atol=1e-4)
        np.testing.assert_allclose(logits[real], scores.numpy()[real], atol=1e-3)


def test_eight_bits_do_not_depend_on_the_batch(exported: Path, texts: list[str]) -> None:
    model, exact = load(exported / "int8", "cpu"), load(exported / "model", "cpu")
    together = model.embed(texts)
    for text, vector in zip(texts, together, strict=True):
        np.testing.assert_allclose(model.embed(text), vector, atol=1e-4)
    truth = exact.embed(texts)
    cosines = (truth * together).sum(1) / np.linalg.norm(truth, axis=1) / np.linalg.norm(together, axis=1)
    assert 0.99 < cosines.min() < 0.9999999
    size = (exported / "int8" / "model.onnx").stat().st_size
    assert size < 0.75 * (exported / "onnx" / "model.onnx").stat().st_size


def test_weights_too_many_for_one_file_lie_beside_it(
    exported: Path, tmp_path: Path, texts: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import onnx

    monkeypatch.setattr(export, "_LARGEST", 10_000)
    shutil.copytree(exported / "onnx", tmp_path / "onnx")
    for _ in range(2):  # the second takes the place of the first
        export.save_graph(onnx.load(exported / "onnx" / "model.onnx"), tmp_path / "onnx" / "model.onnx")
    sizes = {path.name: path.stat().st_size for path in (tmp_path / "onnx").glob("model.onnx*")}
    whole = (exported / "onnx" / "model.onnx").stat().st_size
    assert set(sizes) == {"model.onnx", "model.onnx.data"}
    assert sum(sizes.values()) < whole * 1.2
    np.testing.assert_allclose(
        load(tmp_path / "onnx").embed(texts), load(exported / "model", "cpu").embed(texts), atol=1e-4
    )


def test_labels_are_not_predicted_from_a_graph(exported: Path, tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("A chuva caiu.\n")
    with pytest.raises(ModelError, match="gives vectors only: predict with the folder it was converted from"):
        predict_file(load(exported / "onnx"), tmp_path / "in.txt", tmp_path / "out.jsonl")


def test_a_damaged_graph_is_one_line(exported: Path, tmp_path: Path) -> None:
    for file in ("config.json", "tokenizer.json", "tokenizer_config.json"):
        (tmp_path / file).write_bytes((exported / "onnx" / file).read_bytes())
    (tmp_path / "model.onnx").write_bytes((exported / "onnx" / "model.onnx").read_bytes()[:5000])
    with pytest.raises(ModelError, match=r"model\.onnx is damaged") as caught:
        load(tmp_path)
    assert "\n" not in str(caught.value)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "heads", "changes"),
    [
        ("roberta-base", ["mlm"], {"position_offset": 1}),
        ("distilbert", ["classify"], {"labels": ("sim", "não")}),
        ("modernbert-base", ["tag"], {"window": 2, "global_every": 2, "labels": ("sim", "não")}),
        ("modernbert-decoder", ["mlm"], {"window": 2, "global_every": 2}),
        ("modernbert-base", ["classify"], {"window": 2, "global_every": 2, "labels": ("sim", "não")}),
        ("modernbert-decoder", ["classify"], {"window": 2, "global_every": 2, "labels": ("sim", "não")}),
        ("bert-base", ["classify"], {"labels": ("sim", "não")}),
    ],
)
def test_every_family_exports(
    tmp_path: Path, name: str, heads: list[str], changes: dict[str, object]
) -> None:
    from unmask.checkpoint import save_model
    from unmask.model.presets import preset

    sizes = {
        "vocab_size": 40,
        "width": 16,
        "layers": 3,
        "heads": 2,
        "inner": 24,
        "positions": 40,
        "pad_id": 0,
    }
    model = Model(preset(name, **sizes, **changes, init_std=0.3), heads)
    save_model(model, tmp_path / "model")
    made, _ = convert(tmp_path / "model", tmp_path / "onnx", "onnx")
    assert made.difference < 1e-5
    assert made.scores is not None
    assert made.scores < 1e-5
    made, _ = convert(tmp_path / "model", tmp_path / "onnx", "onnx", int8=True, overwrite=True)
    assert made.cosine > 0.99


def test_safetensors_are_exact(folder: Folder, tmp_path: Path) -> None:
    source = folder(("mlm", "nsp"))
    (source / "modules.json").write_text("[]")
    (source / "report.html").write_text("the card speaks of it")
    made, report = convert(source, tmp_path / "copy")
    assert not report
    assert made.difference == 0
    assert (tmp_path / "copy" / "modules.json").read_text() == "[]"
    assert (tmp_path / "copy" / "report.html").read_text() == "the card speaks of it"
    assert "# A card" in (tmp_path / "copy" / "README.md").read_text()
    one, two = (load_file(place / "model.safetensors") for place in (source, tmp_path / "copy"))
    assert set(one) == set(two)
    assert all(torch.equal(one[name], two[name]) for name in one)


def test_what_the_folder_says_of_itself_goes_along(folder: Folder, tmp_path: Path) -> None:
    source = folder(("mlm",))
    values = json.loads((source / "config.json").read_text("utf-8"))
    facts = {"task": {"name": "qa", "length": 48, "stride": 7, "unanswerable": True}}
    values["unmask"] = values.get("unmask", {}) | facts
    (source / "config.json").write_text(json.dumps(values), "utf-8")
    for form in ("hf", "bfloat16"):
        convert(source, tmp_path / form, form)
        written = json.loads((tmp_path / form / "config.json").read_text("utf-8"))["unmask"]
        assert {key: written[key] for key in facts} == facts


def test_a_difference_in_the_head_alone_is_seen(lm: MaskedLM) -> None:
    assert isinstance(lm.model, Model)
    other = copy.deepcopy(lm.model)
    other.get_parameter("heads.mlm.bias").data[7] += 0.5
    difference, cosine, scores, _ = compare(lm.model, other)
    assert difference == 0
    assert cosine == pytest.approx(1)
    assert scores == pytest.approx(0.5)


@pytest.mark.parametrize("name", ["README.md", "modules.json"])
def test_no_file_from_outside_is_carried_along(folder: Folder, tmp_path: Path, name: str) -> None:
    source = folder()
    (tmp_path / "secret").write_text("not for others")
    (source / name).unlink(missing_ok=True)
    (source / name).symlink_to(tmp_path / "secret")
    with pytest.raises(ModelError, match=f"{name} leads out of its folder"):
        convert(source, tmp_path / "copy")
    assert not (tmp_path / "copy").exists()


def test_pickled_weights_only_when_asked(folder: Folder, tmp_path: Path) -> None:
    source = folder()
    truth = load(source, "cpu").embed(["O gato dorme."])
    torch.save(load_file(source / "model.safetensors"), source / "pytorch_model.bin")
    (source / "model.safetensors").unlink()
    with pytest.raises(ModelError, match=r"unmask convert .* --allow-pickle"):
        load(source)
    with pytest.raises(ModelError, match="--allow-pickle"):
        convert(source, tmp_path / "copy")
    made, _ = convert(source, tmp_path / "copy", allow_pickle=True)
    assert made.difference == 0
    np.testing.assert_array_equal(load(tmp_path / "copy", "cpu").embed(["O gato dorme."]), truth)


def test_pickled_shards(folder: Folder, tmp_path: Path) -> None:
    source = folder()
    truth = load(source, "cpu").embed(["O gato dorme."])
    tensors = load_file(source / "model.safetensors")
    (source / "model.safetensors").unlink()
    names = [f"pytorch_model-0000{part}-of-00002.bin" for part in (1, 2)]
    placed = {tensor: names[number % 2] for number, tensor in enumerate(tensors)}
    for name in names:
        torch.save({key: tensors[key] for key in placed if placed[key] == name}, source / name)
    index = source / "pytorch_model.bin.index.json"
    index.write_text(json.dumps({"weight_map": placed}))
    with pytest.raises(ModelError, match="--allow-pickle"):
        convert(source, tmp_path / "copy")
    made, report = convert(source, tmp_path / "copy", allow_pickle=True)
    assert not report
    assert made.difference == 0
    np.testing.assert_array_equal(load(tmp_path / "copy", "cpu").embed(["O gato dorme."]), truth)
    (source / names[1]).rename(tmp_path / "elsewhere.bin")
    with pytest.raises(ModelError, match=f"has no {names[1]}"):
        convert(source, tmp_path / "other", allow_pickle=True)
    index.write_text(json.dumps({"weight_map": dict.fromkeys(placed, "../elsewhere.bin")}))
    with pytest.raises(ModelError, match="leads out of its folder"):
        convert(source, tmp_path / "other", allow_pickle=True)


def test_a_pickle_that_runs_code_is_refused(folder: Folder, tmp_path: Path) -> None:
    source = folder()
    (source / "model.safetensors").unlink()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.save({"weight": Path.cwd}, source / "pytorch_model.bin")
    with pytest.raises(ModelError, match="more than tensors"):
        convert(source, tmp_path / "copy", allow_pickle=True)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("form", ["hf", "bfloat16", "onnx"])
def test_a_model_is_replaced_only_if_asked(
    folder: Folder, tmp_path: Path, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, taken = folder(), folder(name="taken", layers=1)
    before = contents(taken)
    with pytest.raises(OutputError, match="taken holds a model already: add --overwrite to replace it, or"):
        convert(source, taken, form)
    assert contents(taken) == before
    place = "unmask.predict.convert.write_onnx" if form == "onnx" else "unmask.checkpoint.save_file"
    with monkeypatch.context() as broken:  # what fails on the way leaves the old model whole
        broken.delattr(place)
        with pytest.raises(NameError):
            convert(source, taken, form, overwrite=True)
    assert contents(taken) == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model", "taken"]


def test_a_wrong_copy_takes_no_place(folder: Folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, taken = folder(), folder(name="taken", layers=1)
    before = contents(taken)
    monkeypatch.setattr("unmask.predict.convert.compare", lambda *_: (0.5, 1.0, 0.25, (1,)))
    for target in (taken, tmp_path / "new"):
        says = f"vectors are off by 0.5 and its scores by 0.25, so {target} is left as it was"
        with pytest.raises(ModelError, match=says):
            convert(source, target, overwrite=True)
    assert contents(taken) == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model", "taken"]


def test_a_model_within_the_target_is_not_lost(folder: Folder, tmp_path: Path) -> None:
    outer, inner = folder(), folder(name="inner", layers=1)
    inner = inner.rename(outer / "2_small")
    before = contents(inner)
    for source in (outer, inner):
        with pytest.raises(OutputError, match="model holds what is to be read .*: name another folder"):
            convert(source, outer, overwrite=True)
    with pytest.raises(OutputError, match="holds 2_small, which is no part of a model and would be lost"):
        convert(folder(name="other"), outer, overwrite=True)
    assert contents(inner) == before


def test_the_folder_we_are_in_is_filled(
    folder: Folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = folder()
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    convert(source, ".")
    assert load(Path.cwd(), "cpu").embed(["O gato dorme."]).shape == (1, 32)
    assert not list(Path().glob(".*"))


def test_a_model_in_any_form_may_be_replaced(exported: Path, folder: Folder, tmp_path: Path) -> None:
    taken = tmp_path / "taken"
    shutil.copytree(exported / "onnx", taken)
    (taken / "model.onnx.data").touch()  # large graphs keep their weights in it
    convert(folder(), taken, overwrite=True)
    assert not list(taken.glob("*.onnx*"))
    assert load(taken, "cpu").embed(["O gato dorme."]).shape == (1, 32)


def test_mistakes(folder: Folder, tmp_path: Path) -> None:
    source = folder()
    (tmp_path / "used").mkdir()
    (tmp_path / "used" / "notes.txt").write_text("keep me")
    for target, options, error, says in (
        ("copy", {"to": "tf"}, ConfigError, "hf, bfloat16, onnx"),
        ("copy", {"int8": True}, ConfigError, "--to onnx"),
        ("model", {}, OutputError, "name another"),
        ("used", {}, OutputError, "holds other files"),
        ("used", {"to": "onnx"}, OutputError, "holds other files"),
        ("used", {"overwrite": True}, OutputError, "holds other files"),
    ):
        with pytest.raises(error, match=says):
            convert(source, tmp_path / target, **options)  # type: ignore[arg-type]
    assert (tmp_path / "used" / "notes.txt").read_text() == "keep me"
