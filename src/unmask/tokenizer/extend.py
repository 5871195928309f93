"""Add entries to an existing vocabulary, in the model itself, for continued pretraining on new text."""

import heapq
import json
import math
from collections import Counter, defaultdict
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

from tokenizers import Tokenizer as Backend
from tokenizers import pre_tokenizers

from unmask.errors import ConfigError, InputError
from unmask.progress import SILENT, Progress, counted
from unmask.tokenizer.families import METASPACE
from unmask.tokenizer.guard import backend_errors
from unmask.tokenizer.sample import Sample, count_words
from unmask.tokenizer.sentencepiece import short
from unmask.tokenizer.tokenizer import Tokenizer
from unmask.tokenizer.words import stands_alone

_SAMPLE_MB = 400


def extend(tokenizer: Tokenizer, texts: Iterable[str], add: int, progress: Progress = SILENT) -> Tokenizer:
    """The tokenizer with `add` more entries, learnt from the text; all old ids stay as they are.

    WordPiece and Unigram gain the commonest words that were split, BPE goes on joining pairs.
    `old_pieces` of the result says what each new entry was made of before.
    """
    if add < 1:
        raise ConfigError("--add should be 1 or more")
    sample = Sample(_SAMPLE_MB, texts)
    sample.require_text()
    with progress.stage(f"adding {counted(add, 'entry')}"):
        state = json.loads(tokenizer.backend.to_str())
        _take_in_added(state)
        new = (_join_pairs if tokenizer.kind == "bpe" else _add_words)(tokenizer, state["model"], sample, add)
        with backend_errors("the vocabulary cannot be extended"):
            backend = Backend.from_str(json.dumps(state))
    return Tokenizer(backend, tokenizer.special, tokenizer.max_length, {**tokenizer.old_pieces, **new})


def _take_in_added(state: dict[str, Any]) -> None:
    """Give added tokens behind the model's own entries a place in it, so that none shares an id."""
    vocabulary = state["model"]["vocab"]
    for token in sorted(state["added_tokens"], key=lambda token: int(token["id"])):
        if isinstance(vocabulary, dict):
            vocabulary.setdefault(token["content"], token["id"])
        elif token["id"] == len(vocabulary):
            vocabulary.append([token["content"], 0.0])


def _add_words(
    tokenizer: Tokenizer, model: dict[str, Any], sample: Sample, add: int
) -> dict[int, tuple[int, ...]]:
    mark = METASPACE if tokenizer.kind == "unigram" else ""
    splitter = tokenizer.backend.pre_tokenizer
    if mark:
        splitter = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Punctuation()])
    counts = count_words(sample, tokenizer.backend.normalizer, splitter)
    total = sum(counts.values())
    vocabulary, new = model["vocab"], dict[int, tuple[int, ...]]()
    known = set(tokenizer.backend.get_vocab())
    for word, count in counts.items():
        if len(new) == add:
            break
        old = tuple(tokenizer.encode_words([word], special=False).ids.tolist())
        whole = len(old) == 1 and old[0] != tokenizer.unk_id
        if whole or mark + word in known or any(map(stands_alone, word)):
            continue
        id_ = len(vocabulary)
        if isinstance(vocabulary, dict):
            vocabulary[word] = id_
        else:
            # Just above the sum of its old pieces a word is never split again.
            least = sum(vocabulary[i][1] for i in old) + 0.1
            vocabulary.append([mark + word, short(max(math.log(count / total), least))])
        new[id_] = old
    if len(new) < add:
        raise _too_small(add, len(new))
    return new


def _join_pairs(
    tokenizer: Tokenizer, model: dict[str, Any], sample: Sample, add: int
) -> dict[int, tuple[int, ...]]:
    """Byte-pair encoding, begun where the old merges ended."""
    pairs = _Pairs(
        tokenizer, count_words(sample, tokenizer.backend.normalizer, tokenizer.backend.pre_tokenizer)
    )
    vocabulary, made = model["vocab"], dict[int, tuple[int, ...]]()
    while len(made) < add:
        best = pairs.best()
        if best is None:
            raise _too_small(add, len(made))
        left, right = best
        pairs.join(left, right)
        model["merges"].append([left, right])
        if left + right not in vocabulary:
            id_ = vocabulary[left + right] = len(vocabulary)
            old = [made.get(i, (i,)) for i in (vocabulary[left], vocabulary[right])]
            made[id_] = (*old[0], *old[1])
    return made


class _Pairs:
    """Words as lists of pieces, and how often each two stand side by side."""

    def __init__(self, tokenizer: Tokenizer, counts: dict[str, int]) -> None:
        self.weights = list(counts.values())
        self.words = [[token.value for token in tokenizer.backend.model.tokenize(word)] for word in counts]
        self.counts: Counter[tuple[str, str]] = Counter()
        self.where: defaultdict[tuple[str, str], set[int]] = defaultdict(set)
        for number in range(len(self.words)):
            self._count(number, 1)
        self.heap = [(-count, pair) for pair, count in self.counts.items()]
        heapq.heapify(self.heap)

    def best(self) -> tuple[str, str] | None:
        """The commonest pair that occurs twice or more; the first by spelling among equals."""
        while self.heap:
            count, pair = heapq.heappop(self.heap)
            if self.counts[pair] == -count and count <= -2:
                return pair
        return None

    def join(self, left: str, right: str) -> None:
        """Make one piece of two wherever they meet."""
        for number in sorted(self.where.pop((left, right))):
            self._count(number, -1)
            self.words[number] = _joined(self.words[number], left, right)
            self._count(number, 1)
            for pair in pairwise(self.words[number]):
                heapq.heappush(self.heap, (-self.counts[pair], pair))

    def _count(self, number: int, sign: int) -> None:
        word = self.words[number]
        for pair in pairwise(word):
            self.counts[pair] += sign * self.weights[number]
            if sign > 0:
                self.where[pair].add(number)


def _joined(pieces: list[str], left: str, right: str) -> list[str]:
    result: list[str] = []
    for piece in pieces:
        # A joined piece is not joined again in the same pass, as in byte-pair encoding itself.
        if piece == right and result and result[-1] == left:
            result[-1] = left + right
        else:
            result.append(piece)
    return result


def _too_small(add: int, found: int) -> InputError:
    return InputError(
        f"the text gives only {found:,} new entries of {add:,}; ask for --add {found} or fewer, or bring more"
        if found
        else "the text gives no new entries: the vocabulary has its words already; bring other text"
    )
