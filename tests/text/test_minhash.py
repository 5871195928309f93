import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unmask.text import minhash
from unmask.text.minhash import PERMUTATIONS, signatures

WORDS = [f"palavra{i}" for i in range(1000)]


def similarity(first: str, second: str) -> float:
    a, b = signatures([first, second])
    return float((a == b).mean())


def jaccard(first: str, second: str) -> float:
    a, b = (
        {tuple(words[i : i + 5]) for i in range(max(len(words) - 4, 1))}
        for words in (first.lower().split(), second.lower().split())
    )
    return len(a & b) / len(a | b)


@pytest.mark.parametrize("changed", [0, 1, 5, 20, 60])
def test_equal_entries_estimate_the_jaccard_index(changed: int) -> None:
    rng = np.random.default_rng(changed)
    errors = []
    for _ in range(20):
        words = rng.choice(WORDS, 400).tolist()
        other = list(words)
        for place in rng.choice(400, changed, replace=False):
            other[place] = "outra"
        first, second = " ".join(words), " ".join(other)
        errors.append(similarity(first, second) - jaccard(first, second))
    assert abs(np.mean(errors)) < 0.025
    assert np.sqrt(np.mean(np.square(errors))) < 0.07


def test_case_and_line_ends_do_not_count() -> None:
    assert similarity("O gato preto\ndorme no sofá", "o GATO preto dorme\nno sofá") == 1


def test_short_texts_are_compared_whole() -> None:
    assert similarity("bom dia", "Bom dia") == 1
    assert similarity("bom dia", "boa noite") < 0.2
    assert similarity("um dois três quatro", "um dois três quatro cinco") < 0.2


texts = st.text(st.characters(exclude_categories=["Cs", "Z", "C"]), min_size=1, max_size=8)
documents = st.lists(st.lists(texts, min_size=1, max_size=12).map(" ".join), min_size=1, max_size=8)


@settings(deadline=None, max_examples=40)
@given(documents=documents)
def test_a_signature_depends_on_its_text_alone(documents: list[str]) -> None:
    alone = np.concatenate([signatures([text]) for text in documents])
    assert (signatures(documents) == alone).all()


def test_long_texts_are_cut_into_windows_at_words(monkeypatch: pytest.MonkeyPatch) -> None:
    long = [" ".join(WORDS[i:] + WORDS[:i]) for i in range(3)]
    whole = signatures(["curto", *long])
    monkeypatch.setattr(minhash, "_WINDOW", 500)
    assert (signatures(["curto", *long]) == whole).all()
    assert signatures(["x" * 2000]).shape == (1, PERMUTATIONS)


def test_signatures_are_the_same_in_another_process() -> None:
    code = "from unmask.text.minhash import signatures; print(signatures(['o gato dorme']).tolist())"
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert printed.strip() == str(signatures(["o gato dorme"]).tolist())


def test_no_texts() -> None:
    assert signatures([]).shape == (0, PERMUTATIONS)
