"""The same few sentences with a hole, filled again at every validation, to watch a model learn."""

from collections import deque
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from unmask.config import Recipe
from unmask.data.masking import Ints
from unmask.data.packing import Documents
from unmask.data.plan import generator
from unmask.data.shards import SENTENCE_START, WORD_START, Array
from unmask.errors import InputError
from unmask.model.network import Model
from unmask.predict.fill import opens_word
from unmask.predict.inputs import with_own_mask
from unmask.tokenizer import Tokenizer
from unmask.train.frequency import ranked
from unmask.train.machine import Machine

_SENTENCES = 10
_STREAM = 17  # of random numbers; data has the first ones, the schedule number 16
_DOCUMENTS = 5000  # to look through at most
_SHORTEST, _LONGEST = 6, 30  # tokens of a sentence to show
_BEFORE = 3  # tokens that stand before the hole at least
_COMMON = slice(30, 3000)  # ranks of words to hide: neither little words nor rare ones


@dataclass(frozen=True, slots=True, eq=False)
class Cloze:
    """A sentence with a hole, and what belongs there, if that is known."""

    text: str
    answer: str | None
    ids: Ints
    place: int
    answer_id: int | None
    """None if the answer is unknown or no single token."""


@dataclass(frozen=True, slots=True)
class Filled:
    """How a model filled a sentence."""

    text: str
    answer: str | None
    word: str
    """The likeliest token that `fill` would give."""
    probability: float
    right: bool
    answer_probability: float | None


class Clozes:
    """The sentences of a run: those of `train.cloze`, else some of the validation text.

    A model that is only causal sees what stands before the hole, and goes on from there.
    """

    def __init__(
        self, valid: Documents, tokenizer: Tokenizer, recipe: Recipe, machine: Machine, counts: Ints
    ) -> None:
        self._tokenizer, self._machine = tokenizer, machine
        self._causal = recipe.objective.causal == 1
        if recipe.train.cloze:
            self._clozes = read_clozes(Path(recipe.train.cloze), tokenizer, recipe.model.positions)
        else:
            self._clozes = choose_clozes(valid, tokenizer, recipe, counts)

    @torch.no_grad()
    def __call__(self, model: Model) -> list[dict[str, Any]]:
        """Fill every sentence."""
        if not self._clozes:
            return []
        model.eval()
        with self._machine.autocast():
            scores = model(self._scores)
        chances = scores.float().softmax(-1).cpu().numpy()[:, : self._tokenizer.vocab_size]
        return [asdict(self._filled(*each)) for each in zip(self._clozes, chances, strict=True)]

    def _scores(self, model: Model) -> Tensor:
        """Scores over the vocabulary for the hole of each sentence (n, V)."""
        shown = [cloze.ids[: cloze.place] if self._causal else cloze.ids for cloze in self._clozes]
        bounds = np.cumsum([0, *map(len, shown)])
        places = bounds[1:] - 1 if self._causal else bounds[:-1] + [cloze.place for cloze in self._clozes]
        positions = np.concatenate([np.arange(len(ids)) for ids in shown])
        hidden = model.encoder(
            self._tensor(np.concatenate(shown)),
            self._tensor(positions),
            self._tensor(bounds.astype(np.int32)),
            max(map(len, shown)),
            causal=self._causal,
        )
        return model.mlm(hidden[self._tensor(places)])

    def _tensor(self, array: Array) -> Tensor:
        return torch.from_numpy(array).to(self._machine.device)

    def _filled(self, cloze: Cloze, chances: Array) -> Filled:
        allowed = chances.copy()
        allowed[list(self._tokenizer.special_ids)] = 0
        text = with_own_mask(cloze.text, self._tokenizer)
        if opens_word(self._tokenizer, text, text.index(self._tokenizer.mask_token)):
            allowed[~self._tokenizer.openings] = 0
        best = int(allowed.argmax())
        known = cloze.answer_id is not None
        return Filled(
            text=cloze.text,
            answer=cloze.answer,
            word=self._tokenizer.decode([best]).strip(),
            probability=float(chances[best]),
            right=best == cloze.answer_id,
            answer_probability=float(chances[cloze.answer_id]) if known else None,
        )


def read_clozes(path: Path, tokenizer: Tokenizer, limit: int) -> list[Cloze]:
    """Sentences from a file, one a line, each with one `[MASK]`; the answer may follow after a tab."""
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read {path} (train.cloze): {error}") from None
    found = []
    for number, line in enumerate(lines, 1):
        text, _, answer = (part.strip() for part in line.partition("\t"))
        if not text:
            continue
        ids = tokenizer.encode(with_own_mask(text, tokenizer)).ids
        places = np.flatnonzero(ids == tokenizer.mask_id)
        if len(places) != 1 or len(ids) > limit:
            wrong = f"{len(places)} masks" if len(places) != 1 else f"{len(ids)} tokens"
            raise InputError(
                f"{path}, line {number}: {wrong}; write one [MASK] in a sentence of at most {limit} tokens"
            )
        pieces = tokenizer.encode_words(["a", answer], special=False)
        inner = pieces.ids[pieces.words == 1]
        known = int(inner[0]) if len(inner) == 1 else None
        found.append(Cloze(text, answer or None, ids, int(places[0]), known))
    return found


def choose_clozes(valid: Documents, tokenizer: Tokenizer, recipe: Recipe, counts: Ints) -> list[Cloze]:
    """Sentences of the validation text with a common word hidden: always the same, of all languages."""
    draw = generator(recipe.seed, _STREAM, 0)
    common, longest = _common_words(tokenizer, counts), min(_LONGEST, recipe.batch.length - 2)
    order = draw.permutation(valid.document_count)[:_DOCUMENTS].tolist()
    queue = deque((number, _holes(*valid.document(number), common, longest, draw)) for number in order)
    quota = -(-_SENTENCES // max(len(np.unique(valid.languages)), 1))
    taken = np.zeros(len(valid.language_names), np.int64)
    found: list[Cloze] = []
    while queue and len(found) < _SENTENCES:  # a sentence of each document in turn
        number, holes = queue.popleft()
        language = valid.languages[number]
        hole = next(holes, None) if taken[language] < quota else None
        if hole:
            found.append(_cloze(valid.document(number)[0], hole, tokenizer))
            taken[language] += 1
            queue.append((number, holes))
    return found


def _common_words(tokenizer: Tokenizer, counts: Ints) -> Array:
    """Which entries are words worth hiding (V)."""
    common = np.zeros(len(counts), np.bool_)
    for token in ranked(counts)[_COMMON].tolist():
        word = tokenizer.decode([token]).strip()
        common[token] = counts[token] > 0 and word.isalpha() and len(word) > 2
    return common


def _holes(
    ids: Array, flags: Array, common: Array, longest: int, draw: np.random.Generator
) -> Iterator[tuple[int, int, int]]:
    """Start and end of sentences, and a word to hide in each, which is one token."""
    starts = np.flatnonzero(flags & SENTENCE_START)
    bounds = np.unique([0, *starts, len(ids)])
    words = np.append(flags & WORD_START, True).astype(np.bool_)
    whole = words[:-1] & words[1:] & common[ids]
    for sentence in draw.permutation(len(bounds) - 1).tolist():
        start, end = int(bounds[sentence]), int(bounds[sentence + 1])
        places = start + _BEFORE + np.flatnonzero(whole[start + _BEFORE : end])
        if _SHORTEST <= end - start <= longest and len(places):
            yield start, end, int(draw.choice(places))


def _cloze(document: Array, hole: tuple[int, int, int], tokenizer: Tokenizer) -> Cloze:
    start, end, place = hole
    answer = int(document[place])
    inside = document[start:end].astype(np.int64)
    left, shown = (tokenizer.decode(document[start:to]) for to in (place, place + 1))
    inside[place - start] = tokenizer.mask_id
    ids = np.array([tokenizer.cls_id, *inside, tokenizer.sep_id], np.int64)
    text = tokenizer.decode(inside, special=True).strip()
    if shown[len(left) :][:1].isspace():  # most vocabularies write the space with the word that is hidden
        before, mask, after = text.partition(tokenizer.mask_token)
        text = f"{before.rstrip()} {mask}{after}"
    return Cloze(text, tokenizer.decode([answer]).strip(), ids, place - start + 1, answer)
