"""Probes on planted vectors: what is in them is selective, what is only learned by heart is not."""

import numpy as np
import pytest

from unmask.analyse.probes import Words, control_task, probe_layers
from unmask.errors import InputError

KINDS = 300


def planted(rng: np.random.Generator, count: int) -> Words:
    """Layer 0 knows the tag and not the word; layer 1 knows the word, and the tag only through it."""
    identity = np.random.default_rng(9).normal(size=(KINDS, 64))
    which = rng.integers(0, KINDS, count)
    tags = which % 3
    noise = rng.normal(scale=0.3, size=(2, count, 64))
    tag_only = np.pad(np.eye(3)[tags] * 4, ((0, 0), (0, 61)))
    vectors = np.stack([tag_only + noise[0], identity[which] + noise[1]]).astype(np.float32)
    return Words(vectors, [f"w{n}" for n in which], [f"T{tag}" for tag in tags])


def test_selectivity_of_planted_vectors() -> None:
    rng = np.random.default_rng(0)
    tags, words = probe_layers(planted(rng, 1500), planted(rng, 600))
    assert tags.accuracy > 0.98
    assert tags.control < 0.5
    assert words.control > tags.control + 0.1
    assert tags.selectivity > words.selectivity + 0.3
    assert tags.selectivity == pytest.approx(tags.accuracy - tags.control)


def test_a_control_task_is_a_property_of_the_word() -> None:
    words, labels = ["a", "b", "a", "c", "b"] * 20, ["X", "X", "Y"]
    drawn = control_task(words, labels, seed=1)
    assert len({(word, label) for word, label in zip(words, drawn, strict=True)}) == 3
    assert (drawn == control_task(words, labels, seed=1)).all()
    many = control_task([f"w{n}" for n in range(3000)], labels)
    assert (many == "X").mean() == pytest.approx(2 / 3, abs=0.03)


def test_one_label_is_nothing_to_probe() -> None:
    words = Words(np.zeros((1, 3, 2), np.float32), ["a", "b", "c"], ["X"] * 3)
    with pytest.raises(InputError, match="at least two labels"):
        probe_layers(words, words)
