"""Probes of CoNLL-U labels: what only the context tells is read above the embeddings, not in them."""

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
from tests.conftest import Heard

from unmask.analyse.probes import embed_words
from unmask.analyse.probing import hold_back, probe_label, summary, write_probe
from unmask.errors import InputError
from unmask.predict import MaskedLM
from unmask.text.conllu import LabelledSentence, read_labels

Make = Callable[..., MaskedLM]
NOUNS = ["gato", "telhado", "rio", "casa", "noite", "chuva", "house", "river", "cat", "roof"]


def sentence(words: list[str], features: list[str]) -> str:
    rows = [
        f"{n}\t{word}\t_\t{'NOUN' if word in NOUNS else 'X'}\t_\t{feature}\t0\troot\t_\t_"
        for n, (word, feature) in enumerate(zip(words, features, strict=True), 1)
    ]
    return "\n".join(["# made up", "1-2\tnope\t_\t_\t_\tSeen=Never\t_\t_\t_\t_", *rows]) + "\n\n"


@pytest.fixture(scope="module")
def treebank(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`Seen` of the noun says which word opens the sentence; `Own` says which noun it is."""
    rng = np.random.default_rng(0)
    file = tmp_path_factory.mktemp("treebank") / "made-up.conllu"
    text = ""
    for _ in range(200):
        opening, noun, last = rng.integers(2), rng.integers(len(NOUNS)), rng.integers(3)
        words = [["O", "The"][opening], NOUNS[noun], ["dorme", "subiu", "fell"][last]]
        text += sentence(words, ["_", f"Own={'AB'[noun % 2]}|Seen={'OT'[opening]}", "_"])
    file.write_text(text, "utf-8")
    return file


def test_context_is_read_above_the_embeddings(make_lm: Make, treebank: Path) -> None:
    sentences = read_labels(treebank, "Seen", 1000)
    assert len(sentences) == 200
    assert sentences[0].labels[0] is None
    learn, judged = hold_back(sentences)
    assert (len(learn), len(judged)) == (160, 40)
    assert not set(map(id, learn)) & set(map(id, judged))
    found = probe_label(make_lm(), learn, judged, "Seen")
    assert [one.layer for one in found.layers] == [0, 1, 2, 3]
    assert found.layers[0].accuracy < 0.75  # the noun alone does not tell
    assert found.layers[3].accuracy > 0.95
    assert found.best.layer > 0
    assert (found.train_words, found.test_words) == (160, 40)
    assert sum(found.values.values()) == 160
    commonest = max(found.values, key=found.values.__getitem__)
    assert found.majority == np.mean([one.labels[1] == commonest for one in judged])
    for one in found.layers:
        assert one.selectivity == pytest.approx(one.accuracy - one.control)


def test_what_a_word_is_is_read_everywhere_and_so_is_the_control(make_lm: Make, treebank: Path) -> None:
    found = probe_label(make_lm(), *hold_back(read_labels(treebank, "Own", 1000)), "Own")
    assert found.layers[0].accuracy == 1
    assert found.layers[0].selectivity < 0.1  # ten words are learned by heart just as well


def test_sentences_that_are_learned_from_and_scored_on_are_told(
    make_lm: Make, treebank: Path, heard: Heard
) -> None:
    once = list(dict.fromkeys(read_labels(treebank, "Own", 1000)))
    lm = make_lm()
    probe_label(lm, once[:20], once[20:30], "Own", progress=heard)
    assert not heard.said
    probe_label(lm, once[:20], once[15:30], "Own", progress=heard)
    assert heard.said[0].startswith("5 of 15 sentences to score on learned from too")


def test_only_labelled_words_are_taken_each_with_its_own_vector(make_lm: Make) -> None:
    lm = make_lm(positions=8)
    lines = [["O", "gato", "dorme"], ["casa"] * 12]
    labels = [[None, "a", "b"], ["c", *[None] * 9, "d", "e"]]
    found = embed_words(lm, lines, labels)
    assert found.words == ["gato", "dorme", "casa", "casa", "casa"]
    assert list(found.labels) == ["a", "b", "c", "d", "e"]
    own: dict[int, np.ndarray] = {}
    lm.word_layers(lines, lambda number, layers: own.update({number: layers}))
    np.testing.assert_allclose(found.vectors[:, :2], own[0][:, 1:], atol=1e-6)
    np.testing.assert_allclose(found.vectors[:, 2], own[1][:, 0], atol=1e-6)
    assert not found.vectors[:, 3:].any()  # beyond what the model takes


def test_a_control_task_may_have_a_single_label(make_lm: Make) -> None:
    one_word = [LabelledSentence(("O", "gato"), (None, "ab"[n % 2])) for n in range(20)]
    found = probe_label(make_lm(), *hold_back(one_word), "x")
    assert found.layers[0].control in (0, 1)
    assert found.layers[0].accuracy < 1


def test_columns_and_a_limit(treebank: Path) -> None:
    some = read_labels(treebank, "upos", 30)
    assert len(some) == 10
    assert some[0].labels[1] == "NOUN"
    assert read_labels(treebank, "deprel", 3)[0].labels == ("root",) * 3
    assert len(read_labels(treebank, "UPOS", 1)) == 1


def test_the_page(make_lm: Make, treebank: Path, tmp_path: Path) -> None:
    found = probe_label(make_lm(), *hold_back(read_labels(treebank, "Seen", 1000)), "Seen")
    write_probe(tmp_path, found)
    page = (tmp_path / "probe.html").read_text("utf-8")
    assert page.count("<polyline") == 4
    assert summary(found) in page
    assert json.loads((tmp_path / "probe.json").read_text("utf-8")) == json.loads(json.dumps(asdict(found)))


def test_mistakes_are_told(treebank: Path, tmp_path: Path, make_lm: Make) -> None:
    with pytest.raises(
        InputError, match="no word has the label 'Tense'; those there are: .*deprel, Own, Seen$"
    ):
        read_labels(treebank, "Tense", 100)
    with pytest.raises(InputError, match="there is no file"):
        read_labels(tmp_path / "nowhere.conllu", "upos", 100)
    with pytest.raises(InputError, match="there is no file"):
        read_labels(tmp_path, "upos", 100)
    empty = tmp_path / "empty.conllu"
    empty.write_text("\n# only a remark\n\n", "utf-8")
    with pytest.raises(InputError, match=r"empty\.conllu is empty"):
        read_labels(empty, "upos", 100)
    text = tmp_path / "text.txt"
    text.write_text("O gato dorme.\n", "utf-8")
    with pytest.raises(InputError, match="line 1: 1 column where CoNLL-U has 10"):
        read_labels(text, "upos", 100)
    with pytest.raises(InputError, match="4 sentences with the label: too few"):
        hold_back(read_labels(treebank, "upos", 12))
    same = [LabelledSentence(("gato",), ("a",))] * 10
    with pytest.raises(InputError, match="at least two labels"):
        probe_label(make_lm(), *hold_back(same), "x")
