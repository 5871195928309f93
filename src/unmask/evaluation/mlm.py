"""Masked-LM scores on plain text, in units that do not depend on the vocabulary."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unmask.config import PrepareConfig, TextConfig
from unmask.errors import InputError
from unmask.evaluation.context import Context
from unmask.evaluation.results import Measure, Outcome
from unmask.evaluation.suites import MlmSuite
from unmask.predict import MaskedLM
from unmask.predict.score import targets
from unmask.text import SPLITS, Cleaner, find_sources, read_documents, sentence_starts, split_of, text_hash
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
    paths = [str(path) for pattern in suite.files for path in context.found.paths(pattern)]
    texts = _spread([text for path in paths for text in passages(path, suite)], suite.limit)
    if not texts:
        raise InputError(f"{context.found.name}: no passage to score in {', '.join(paths)}")
    lm = context.subject.language_model
    scores = lm.score(texts, progress=context.progress)
    items: list[dict[str, Any]] = [
        {
            "id": number, "surprise": -score.log_probability, "tokens": len(score.tokens),
            "words": count_words(text), "bytes": len(text.encode()),
        }
        for number, (text, score) in enumerate(zip(texts, scores, strict=True))
    ]  # fmt: skip
    if lm.config.causal:
        return Outcome(items, _WHOLE)
    for item, hidden in zip(items, _hide(lm, texts, suite.ratio, context.seed), strict=True):
        item |= hidden
    return Outcome(items, _WHOLE + _HIDDEN)


def passages(path: str, suite: MlmSuite) -> Iterator[str]:
    """Whole sentences of one document up to about `chars` characters; a longer sentence is cut at a space."""
    config, shares = TextConfig(), PrepareConfig()
    clean = Cleaner(config)
    for document in read_documents(find_sources([path])[0], config):
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


def _hide(lm: MaskedLM, texts: Sequence[str], ratio: float, seed: int) -> Iterator[dict[str, float]]:
    """Loss and right answers of a share of each text's tokens, hidden together."""
    encodings = lm.inputs.encode(texts)
    for start in range(0, len(texts), _PASSAGES):
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
