"""Masked-LM scores on plain text, in units that do not depend on the vocabulary."""

import re
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unmask.config import PrepareConfig, TextConfig
from unmask.errors import InputError
from unmask.evaluation.context import Context
from unmask.evaluation.results import UNKNOWN_SHARE, Measure, Outcome
from unmask.evaluation.suites import MlmSuite
from unmask.predict import MaskedLM
from unmask.predict.inputs import Inputs, with_own_mask
from unmask.predict.score import targets
from unmask.text import (
    SPLITS,
    Cleaner,
    TextColumns,
    find_sources,
    read_documents,
    sentence_starts,
    split_of,
    text_hash,
)
from unmask.tokenizer import Encoding
from unmask.tokenizer.words import count_words

_PASSAGES = 64
"""Passages whose scores over the vocabulary are held at a time."""
_WHOLE = (
    Measure("bits per byte", "bits", ("surprise", "bytes")),
    Measure("perplexity per word", "exp_ratio", ("surprise", "words")),
)
_HIDDEN = (
    Measure("loss", "ratio", ("loss", "hidden")),
    Measure("accuracy", "ratio", ("right", "hidden")),
)


def mlm(context: Context, suite: MlmSuite) -> Outcome:
    """Every token's surprise given all the others; and of tokens hidden together, loss and accuracy."""
    paths = [str(path) for _, path in context.files(suite.files)]
    columns = TextColumns(TextConfig(), context.progress, "name the one with the text so")
    found = [text for path in paths for text in passages(path, suite, columns)]
    texts = context.some(_spread(found, suite.limit))
    if not texts:
        raise InputError(f"{context.found.name}: no passage to score in {', '.join(paths)}")
    lm = context.subject.language_model
    cut = [fitting(text, lm.inputs) for text in texts]
    pieces = [piece for parts in cut for piece in parts]
    # Only a single character that is more tokens than the model takes is ever truncated.
    encodings = lm.inputs.encode(pieces, truncate=True)
    scores = lm.score(pieces, truncate=True, progress=context.progress)
    parts: list[dict[str, float]] = [
        {
            "surprise": -score.log_probability, "tokens": len(score.tokens),
            "unknown": int((encoding.ids == lm.tokenizer.unk_id).sum()),
        }
        for score, encoding in zip(scores, encodings, strict=True)
    ]  # fmt: skip
    if not lm.config.causal:
        hidden = _hide(lm, encodings, suite.ratio, context.seed)
        parts = [part | more for part, more in zip(parts, hidden, strict=True)]
    rest = iter(parts)
    items: list[dict[str, Any]] = [
        {"id": number, "words": count_words(text), "bytes": len(text.encode())}
        | _sums(list(islice(rest, len(of_text))))
        for number, (text, of_text) in enumerate(zip(texts, cut, strict=True))
    ]
    return Outcome(items, _WHOLE if lm.config.causal else _WHOLE + _HIDDEN, details=_details(items, cut))


def fitting(text: str, inputs: Inputs) -> list[str]:
    """The text in as many pieces as it takes for each to fit the model, cut between words where it can be."""
    if len(text) < 2 or len(inputs.tokenizer.encode(with_own_mask(text, inputs.tokenizer))) <= inputs.limit:
        return [text]
    middle = len(text) // 2
    gaps = [gap.start() for gap in re.finditer(r"\s", text)]
    place = min(gaps, key=lambda gap: abs(gap - middle), default=middle)
    halves = (text[:place].strip(), text[place:].strip())
    return [piece for half in halves if half for piece in fitting(half, inputs)]


def _sums(parts: Sequence[dict[str, float]]) -> dict[str, float]:
    """The counts of a passage: those of its pieces together."""
    return {name: sum(part[name] for part in parts) for name in parts[0]}


def _details(items: Sequence[dict[str, Any]], cut: Sequence[Sequence[str]]) -> dict[str, float]:
    """What makes the scores flatter the model, or judge it harshly."""
    unknown, tokens = (sum(item[name] for item in items) for name in ("unknown", "tokens"))
    return {
        "unknown tokens": unknown,
        UNKNOWN_SHARE: unknown / max(tokens, 1),
        "passages cut to fit the model": sum(len(pieces) > 1 for pieces in cut),
    }


def passages(path: str, suite: MlmSuite, columns: TextColumns | None = None) -> Iterator[str]:
    """Whole sentences of one document up to about `chars` characters; a longer sentence is cut at a space."""
    config, shares = TextConfig(), PrepareConfig()
    clean = Cleaner(config)
    for document in read_documents(find_sources([path])[0], config, columns):
        text, reason = clean(document.text)
        if reason is not None:
            continue
        if suite.held_out and SPLITS[split_of(text_hash(text), shares.valid, shares.test)] != "test":
            continue
        starts = [*sentence_starts(text), len(text)]
        begin = 0
        for end, following in zip(starts[1:], [*starts[2:], None], strict=True):
            if following is None or following - begin > suite.chars:
                passage = text[begin:end].strip()
                cut = passage[: suite.chars].rpartition(" ")[0] if len(passage) > suite.chars else passage
                if cut:
                    yield cut
                begin = end


def _spread(texts: Sequence[str], limit: int) -> list[str]:
    """So many of the texts, evenly from all of them."""
    if len(texts) <= limit:
        return list(texts)
    return [texts[place] for place in np.linspace(0, len(texts) - 1, limit).round().astype(int)]


def _hide(lm: MaskedLM, encodings: Sequence[Encoding], ratio: float, seed: int) -> Iterator[dict[str, float]]:
    """Loss and right answers of a share of each text's tokens, hidden together."""
    for start in range(0, len(encodings), _PASSAGES):
        chunk = encodings[start : start + _PASSAGES]
        places: list[NDArray[np.int64]] = []
        for number, encoding in enumerate(chunk, start):
            there = targets(encoding, lm.tokenizer)
            count = min(len(there), max(1, round(ratio * len(there))))
            generator = np.random.default_rng([seed, number])
            places.append(np.sort(generator.permutation(there)[:count]))
        sequences = [encoding.ids.copy() for encoding in chunk]
        for ids, hidden in zip(sequences, places, strict=True):
            ids[hidden] = lm.tokenizer.mask_id
        for encoding, hidden, logs in zip(
            chunk, places, lm.log_probabilities(sequences, places), strict=True
        ):
            truth = encoding.ids[hidden]
            yield {
                "hidden": len(hidden),
                "loss": float(-logs[np.arange(len(hidden)), truth].sum(dtype=np.float64)),
                "right": int((logs.argmax(1) == truth).sum()),
            }
