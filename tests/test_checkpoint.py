"""The model folder: what is written is read back whole; what is broken gets one clear line."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

from unmask.checkpoint import load_model, save_model
from unmask.config import ModelConfig
from unmask.errors import ModelError, OutputError
from unmask.model.network import Model
from unmask.model.presets import preset

SMALL = {"vocab_size": 30, "width": 8, "layers": 2, "heads": 2, "inner": 12, "positions": 16, "pad_id": 0}
BERT = preset("bert-base", **SMALL)
ALL_HEADS = ("mlm", "span", "nsp", "sop", "classify", "tag", "answer")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A small BERT with a masked-LM head."""
    save_model(Model(BERT), tmp_path / "model")
    return tmp_path / "model"


def edit_config(folder: Path, **changes: Any) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def assert_same(one: Model, two: Model) -> None:
    ours, theirs = dict(one.named_parameters()), dict(two.named_parameters())
    assert list(ours) == list(theirs)
    for name, tensor in ours.items():
        assert torch.equal(tensor, theirs[name]), name


def modern(family: str) -> ModelConfig:
    name = {"modernbert": "modernbert-base"}.get(family, family)
    window = {"window": 3, "global_every": 2}
    return preset(name, **SMALL, **window, labels=("um", "dois"))


@pytest.mark.parametrize(
    "config",
    [
        BERT.model_copy(update={"labels": ("um", "dois", "três")}),
        preset("roberta-base", **SMALL, position_offset=1, labels=("um", "dois")),
        preset("distilbert", **SMALL, labels=("nota",), problem="regression"),
        modern("modernbert"),
        modern("modernbert-decoder"),
        modern("modernbert").model_copy(update={"family": "unmask", "qk_norm": True, "classifier": "pooler"}),
    ],
    ids=lambda config: config.family,
)
def test_a_model_with_every_head_comes_back_whole(config: ModelConfig, tmp_path: Path) -> None:
    for heads in ([], ["mlm"], ["classify"], ["tag"], ["mlm", "nsp"], ["mlm", "span", "sop"], ALL_HEADS):
        model = Model(config, heads)
        save_model(model, tmp_path / "model")
        loaded, report = load_model(tmp_path / "model")
        assert not report, str(report)
        assert loaded.config == config
        assert_same(model, loaded)


def test_the_answer_head_has_its_own_two_labels(tmp_path: Path) -> None:
    model = Model(BERT, ["answer"])
    save_model(model, tmp_path / "model")
    loaded, _ = load_model(tmp_path / "model")
    assert_same(model, loaded)
    with pytest.raises(ModelError, match=r"the bert layout cannot express model\.labels"):
        save_model(Model(BERT.model_copy(update={"labels": ("um",)}), ["answer"]), tmp_path / "model")


def test_labels_that_an_answering_model_repeats_are_its_two_scores(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    model = Model(BERT, ["answer"])
    save_model(model, folder)
    edit_config(folder, id2label={"0": "LABEL_0", "1": "LABEL_1"})
    loaded, report = load_model(folder)
    assert not report
    save_model(loaded, tmp_path / "again")
    assert_same(load_model(tmp_path / "again")[0], model)


@pytest.mark.parametrize(
    ("labels", "said", "problem"),
    [
        (("nota",), None, "regression"),
        (("nota",), "multi_label_classification", "multi"),
        (("um", "dois"), None, "single"),
    ],
)
def test_a_silent_problem_follows_from_the_classes(
    labels: tuple[str, ...], said: str | None, problem: str, tmp_path: Path
) -> None:
    save_model(Model(BERT.model_copy(update={"labels": labels}), ["classify"]), tmp_path / "model")
    edit_config(tmp_path / "model", problem_type=said)
    assert load_model(tmp_path / "model")[0].config.problem == problem


def test_a_head_of_another_shape_that_nobody_promised_is_left_out(folder: Path) -> None:
    """BERT's multiple choice has one score where the config may speak of two classes."""
    tensors = load_file(folder / "model.safetensors")
    tensors |= {"classifier.weight": torch.zeros(1, 8), "classifier.bias": torch.zeros(1)}
    save_file(tensors, folder / "model.safetensors")
    edit_config(folder, num_labels=2)
    model, report = load_model(folder)
    assert list(model.heads) == ["mlm"]
    assert set(report.unused) == {"classifier.weight", "classifier.bias"}


def test_nothing_is_made_for_an_encoder_that_is_not_there(folder: Path) -> None:
    """A config may ask for more memory than there is."""
    wide = 1 << 22
    save_file({"embeddings.word_embeddings.weight": torch.zeros(1, wide)}, folder / "model.safetensors")
    edit_config(folder, hidden_size=wide, vocab_size=1)
    with pytest.raises(ModelError, match="the weights lack"):
        load_model(folder)


def test_who_may_read_one_file_may_read_the_weights(folder: Path) -> None:
    modes = {path.stat().st_mode for path in folder.iterdir()}
    assert len(modes) == 1


def test_what_is_written(folder: Path) -> None:
    values = json.loads((folder / "config.json").read_text())
    assert values["dtype"] == "float32"
    assert values["architectures"] == ["BertForMaskedLM"]
    assert values["unmask"]["heads"] == ["mlm"]
    assert sorted(path.name for path in folder.iterdir()) == ["config.json", "model.safetensors"]
    assert "cls.predictions.decoder.weight" not in load_file(folder / "model.safetensors")


def test_heads_without_a_home_have_a_file_of_their_own(tmp_path: Path) -> None:
    save_model(Model(BERT, ["mlm", "nsp", "span", "sop"]), tmp_path / "model")
    names = load_file(tmp_path / "model" / "unmask_heads.safetensors")
    assert {name.split(".")[1] for name in names} == {"span", "sop"}
    values = json.loads((tmp_path / "model" / "config.json").read_text())
    assert values["architectures"] == ["BertForPreTraining"]


def test_card_and_tokenizer_are_written_beside(tmp_path: Path) -> None:
    class Tokenizer:
        def save(self, folder: Path) -> None:
            (folder / "tokenizer.json").write_text("{}")

    save_model(Model(BERT), tmp_path / "model", Tokenizer(), "# Um modelo\n")
    assert (tmp_path / "model" / "README.md").read_text() == "# Um modelo\n"
    assert (tmp_path / "model" / "tokenizer.json").exists()


def test_writing_is_whole_or_not_at_all(folder: Path) -> None:
    class Broken:
        def save(self, folder: Path) -> None:
            raise RuntimeError("power cut")

    before = (folder / "model.safetensors").read_bytes()
    with pytest.raises(RuntimeError, match="power cut"):
        save_model(Model(BERT), folder, Broken())
    assert (folder / "model.safetensors").read_bytes() == before
    assert [path.name for path in folder.parent.iterdir()] == ["model"]


def test_the_old_model_comes_back_if_nothing_took_its_place(folder: Path) -> None:
    class Broken:
        def save(self, folder: Path) -> None:
            raise RuntimeError("power cut")

    before = (folder / "model.safetensors").read_bytes()
    folder.rename(folder.with_name(".model.unmask-old"))  # killed between the two renames
    with pytest.raises(RuntimeError, match="power cut"):
        save_model(Model(BERT), folder, Broken())
    assert (folder / "model.safetensors").read_bytes() == before
    assert [path.name for path in folder.parent.iterdir()] == ["model"]


def test_a_folder_of_other_things_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "tese.txt").write_text("anos de trabalho")
    with pytest.raises(OutputError, match=r"holds other files and no model.*; the new model is in .*/a-\w+$"):
        save_model(Model(BERT), tmp_path / "a")
    with pytest.raises(OutputError, match="is a file"):
        save_model(Model(BERT), tmp_path / "a" / "tese.txt")
    assert (tmp_path / "a" / "tese.txt").read_text() == "anos de trabalho"


def test_what_would_be_lost_stops_the_writing(folder: Path) -> None:
    (folder / "2_Normalize").mkdir()
    save_model(Model(BERT), folder)  # a module of sentence-transformers belongs to a model
    assert not (folder / "2_Normalize").exists()
    (folder / "checkpoint-500").mkdir()
    with pytest.raises(OutputError, match="holds checkpoint-500, which is no part of a model"):
        save_model(Model(BERT), folder)
    assert (folder / "checkpoint-500").is_dir()


def test_a_link_to_a_folder_stays_a_link(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(folder)
    model = Model(BERT)
    save_model(model, tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert_same(load_model(folder)[0], model)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "model"]


def test_a_config_the_layout_cannot_express_is_refused(tmp_path: Path) -> None:
    rotary = BERT.model_copy(update={"position": "rotary"})
    with pytest.raises(ModelError, match=r"the bert layout cannot express model\.position as set"):
        save_model(Model(rotary), tmp_path / "model")


def test_precision(folder: Path) -> None:
    model, _ = load_model(folder, dtype=torch.float64)
    assert {p.dtype for p in model.parameters()} == {torch.float64}
    save_model(model.bfloat16(), folder)
    assert {t.dtype for t in load_file(folder / "model.safetensors").values()} == {torch.float32}


def test_old_names_and_bare_encoders(folder: Path) -> None:
    expected, _ = load_model(folder)
    tensors = load_file(folder / "model.safetensors")
    old = {name.replace("LayerNorm.weight", "LayerNorm.gamma"): t for name, t in tensors.items()}
    old = {name.replace("LayerNorm.bias", "LayerNorm.beta"): t for name, t in old.items()}
    old["bert.embeddings.position_ids"] = torch.arange(16)[None]
    old["cls.predictions.decoder.weight"] = old["bert.embeddings.word_embeddings.weight"].clone()
    save_file(old, folder / "model.safetensors")
    model, report = load_model(folder)
    assert not report
    assert_same(model, expected)

    bare = {n.removeprefix("bert."): t for n, t in tensors.items() if n.startswith("bert.")}
    save_file(bare, folder / "model.safetensors")
    edit_config(folder, architectures=["BertModel"])
    model, report = load_model(folder)
    assert not report
    assert list(model.heads) == []
    expected.heads.clear()
    assert_same(model, expected)


def test_what_is_missing_unused_and_new_is_said_in_one_table(folder: Path) -> None:
    tensors = load_file(folder / "model.safetensors")
    tensors = {name: t for name, t in tensors.items() if "transform.dense" not in name}
    tensors["bert.encoder.adapter.weight"] = torch.zeros(2)
    save_file(tensors, folder / "model.safetensors")
    model, report = load_model(folder)
    assert report.missing == (
        "cls.predictions.transform.dense.weight",
        "cls.predictions.transform.dense.bias",
    )
    assert report.unused == ("encoder.adapter.weight",)
    assert report.new == ("heads.mlm.transform.dense.weight", "heads.mlm.transform.dense.bias")
    assert str(report).splitlines()[0].split()[:2] == ["missing", "2"]
    assert len(str(report).splitlines()) == 3
    assert model.heads["mlm"].transform.dense.weight.std() > 0


def test_a_head_that_is_asked_for_is_made_new(folder: Path) -> None:
    edit_config(folder, id2label={"0": "positivo", "1": "negativo"})
    model, report = load_model(folder, heads=["classify"])
    assert list(model.heads) == ["pooler", "classify"]
    assert model.config.labels == ("positivo", "negativo")
    assert report.missing == ()
    assert set(report.new) == {f"heads.{n}" for n, _ in model.heads.named_parameters()}
    assert report.unused[0].startswith("cls.predictions")


def test_a_head_for_other_classes_replaces_the_folders(tmp_path: Path) -> None:
    model = Model(BERT.model_copy(update={"labels": ("um", "dois", "três")}), ["classify"])
    save_model(model, tmp_path / "model")
    changes = {"labels": ("frio", "quente"), "dropout": 0.0}
    loaded, report = load_model(tmp_path / "model", heads=["classify"], changes=changes)
    assert loaded.config.labels == ("frio", "quente")
    assert loaded.config.dropout == 0.0
    assert report.new == ("heads.classify.linear.weight", "heads.classify.linear.bias")
    assert set(report.unused) == {"classifier.weight", "classifier.bias"}
    assert torch.equal(loaded.heads["pooler"].dense.weight, model.heads["pooler"].dense.weight)
    with pytest.raises(ModelError, match=r"heads\.classify\.linear\.weight is \(3, 8\) in the weights"):
        load_model(tmp_path / "model", changes=changes)


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("bert.embeddings.word_embeddings.weight", ()),
        ("bert.embeddings.word_embeddings.weight", (30, 9)),
        ("bert.encoder.layer.0.attention.self.key.weight", (8, 9)),
        ("bert.encoder.layer.0.attention.self.key.weight", (9, 8)),
        ("cls.predictions.bias", (31,)),
    ],
)
def test_weights_of_another_shape(folder: Path, name: str, shape: tuple[int, ...]) -> None:
    tensors = load_file(folder / "model.safetensors")
    save_file(tensors | {name: torch.zeros(shape)}, folder / "model.safetensors")
    with pytest.raises(ModelError, match=r"in the weights, but config\.json asks for") as caught:
        load_model(folder)
    assert "\n" not in str(caught.value)


def test_strangers_in_our_own_file_are_named(folder: Path) -> None:
    save_file({"stranger": torch.zeros(1)}, folder / "unmask_heads.safetensors")
    assert load_model(folder)[1].unused == ("stranger",)
    save_file({"heads.stranger.weight": torch.zeros(1)}, folder / "unmask_heads.safetensors")
    with pytest.raises(ModelError, match="there is no head stranger"):
        load_model(folder)


def test_sharded_weights(folder: Path) -> None:
    expected, _ = load_model(folder)
    tensors = load_file(folder / "model.safetensors")
    names = sorted(tensors)
    (folder / "model.safetensors").unlink()
    placed = {}
    for shard, part in (("a.safetensors", names[:5]), ("b.safetensors", names[5:])):
        save_file({name: tensors[name] for name in part}, folder / shard)
        placed |= dict.fromkeys(part, shard)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": placed}))
    model, report = load_model(folder)
    assert not report
    assert_same(model, expected)

    os.truncate(folder / "b.safetensors", 100)
    with pytest.raises(ModelError, match=r"b\.safetensors is damaged or cut short"):
        load_model(folder)
    (folder / "b.safetensors").unlink()
    with pytest.raises(ModelError, match=r"has no b\.safetensors: its copy is incomplete"):
        load_model(folder)
    (folder / "model.safetensors.index.json").write_text(
        json.dumps({"weight_map": {"x": "../b.safetensors"}})
    )
    with pytest.raises(ModelError, match=r"\.\./b\.safetensors leads out of its folder"):
        load_model(folder)
    (folder / "model.safetensors.index.json").write_text(r'{"weight_map": {"x": "a\u0000b"}}')
    with pytest.raises(ModelError, match="names a file"):
        load_model(folder)
    (folder / "model.safetensors.index.json").write_text('{"weight_map": ["a.safetensors"]}')
    with pytest.raises(ModelError, match="has no weight_map of names to files"):
        load_model(folder)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"model_type": "deberta-v2"},
            "no family 'deberta-v2'.*it has bert, roberta, xlm-roberta, camembert",
        ),
        ({"model_type": None}, "no family 'None'"),
        ({"auto_map": {"AutoModel": "modeling.Mine"}}, "names code to run \\(auto_map\\)"),
        ({"_attn_implementation_internal": "someone/kernel"}, "names code to fetch"),
        ({"vocab_size": 31}, "the token table has 30 rows, but config.json says vocab_size 31"),
        (
            {"intermediate_size": 13},
            "feedforward.up.weight is \\(12, 8\\) in the weights, but .* \\(13, 8\\)",
        ),
        ({"num_hidden_layers": 3}, "the weights lack 12 parts of the encoder \\(the first: encoder.layer.2"),
        ({"num_attention_heads": 3}, "config.json: width 8 is not a multiple of heads 3$"),
        ({"hidden_size": "wide"}, "config.json: width: .*integer"),
        ({"hidden_act": "quick_gelu"}, "no activation 'quick_gelu'; it has gelu"),
        ({"hidden_act": ["gelu"]}, "no activation"),
        ({"max_position_embeddings": "many"}, "config.json"),
        ({"position_embedding_type": "relative_key"}, "does not support position_embedding_type"),
        ({"is_decoder": True}, "does not support is_decoder"),
        ({"id2label": ["um", "dois"]}, "config.json"),
        ({"eos_token_id": []}, "config.json holds a value that is not what it should be"),
        ({"pad_token_id": 77}, "pad_id 77 is outside the vocabulary of 30"),
    ],
)
def test_bad_configs(folder: Path, changes: dict[str, Any], message: str) -> None:
    edit_config(folder, **changes)
    with pytest.raises(ModelError, match=message) as caught:
        load_model(folder)
    assert "\n" not in str(caught.value)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=4,
)


@pytest.mark.parametrize("family", ["bert", "modernbert"])
def test_whatever_a_config_says_the_answer_is_a_model_or_one_line(family: str, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    save_model(Model(modern("modernbert") if family == "modernbert" else BERT), folder)
    original = json.loads((folder / "config.json").read_text())

    @settings(deadline=None, max_examples=30)
    @given(st.sampled_from(sorted(original)), json_values)
    def check(key: str, value: Any) -> None:
        (folder / "config.json").write_text(json.dumps(original | {key: value}))
        try:
            load_model(folder)
        except ModelError as error:
            assert "\n" not in str(error)

    check()


def test_windows_that_are_no_pattern_are_refused(tmp_path: Path) -> None:
    save_model(Model(modern("modernbert")), tmp_path / "model")
    edit_config(tmp_path / "model", layer_types=["sliding_attention", "full_attention"])
    with pytest.raises(ModelError, match="layer_types must be full_attention in every n-th layer"):
        load_model(tmp_path / "model")
    edit_config(
        tmp_path / "model", layer_types=None, rope_parameters={"full_attention": {"rope_type": "yarn"}}
    )
    with pytest.raises(ModelError, match="does not support rope_type 'yarn'"):
        load_model(tmp_path / "model")


def test_broken_files(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="no model folder at"):
        load_model(tmp_path / "nada")
    weights = (folder / "model.safetensors").read_bytes()
    for broken in (weights[:-10], weights[:20], b"", b"not weights at all", b"\xff" * 64):
        (folder / "model.safetensors").write_bytes(broken)
        with pytest.raises(ModelError, match="is damaged or cut short") as caught:
            load_model(folder)
        assert "\n" not in str(caught.value)
    (folder / "model.safetensors").unlink()
    with pytest.raises(ModelError, match=r"has no model\.safetensors"):
        load_model(folder)
    (folder / "model.onnx").touch()
    with pytest.raises(ModelError, match="holds an ONNX model, .* name the folder it was converted from"):
        load_model(folder)
    for text, message in (
        ("{", "not valid JSON"),
        ("[]", "should hold an object"),
        ("[" * 99_999, "not valid JSON"),
    ):
        (folder / "config.json").write_text(text)
        with pytest.raises(ModelError, match=message):
            load_model(folder)
    (folder / "config.json").unlink()
    with pytest.raises(ModelError, match=r"has no config\.json: it is not a model folder"):
        load_model(folder)


@pytest.mark.parametrize("name", ["config.json", "model.safetensors"])
def test_a_link_out_of_the_folder_is_refused(folder: Path, tmp_path: Path, name: str) -> None:
    shutil.move(folder / name, tmp_path / "elsewhere")
    (folder / name).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ModelError, match=f"{name} leads out of its folder"):
        load_model(folder)


def test_links_of_the_hugging_face_cache_are_followed(folder: Path, tmp_path: Path) -> None:
    cache = tmp_path / "models--alguem--modelo"
    snapshot = cache / "snapshots" / "abc"
    snapshot.mkdir(parents=True)
    (cache / "blobs").mkdir()
    for path in folder.iterdir():
        shutil.copy(path, cache / "blobs" / path.name)
        (snapshot / path.name).symlink_to(f"../../blobs/{path.name}")
    assert not load_model(snapshot)[1]
    (snapshot / "config.json").unlink()
    (snapshot / "config.json").symlink_to(folder / "config.json")
    with pytest.raises(ModelError, match="leads out of its folder"):
        load_model(snapshot)


def test_pickled_weights_are_refused_unless_allowed(folder: Path) -> None:
    expected, _ = load_model(folder)
    tensors = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    torch.save(tensors, folder / "pytorch_model.bin")
    with pytest.raises(
        ModelError, match=rf"may run code; if you trust them: unmask convert {folder} DST --allow-pickle"
    ):
        load_model(folder)
    model, _ = load_model(folder, allow_pickle=True)
    assert_same(model, expected)

    torch.save({"weights": os.system}, folder / "pytorch_model.bin")
    with pytest.raises(ModelError, match="is damaged or holds more than tensors") as caught:
        load_model(folder, allow_pickle=True)
    assert "\n" not in str(caught.value)
    torch.save([1, 2], folder / "pytorch_model.bin")
    with pytest.raises(ModelError, match="does not hold a table of tensors"):
        load_model(folder, allow_pickle=True)


def test_loading_a_model_does_not_load_the_compiler(folder: Path) -> None:
    """It takes seconds, and no command that only uses a model needs it."""
    code = (
        "import sys, unmask.checkpoint as c; c.load_model(sys.argv[1]); print('torch._dynamo' in sys.modules)"
    )
    run = subprocess.run(
        [sys.executable, "-c", code, str(folder)], capture_output=True, text=True, check=True
    )
    assert run.stdout.strip() == "False"
