"""A masked-LM head as a classifier: a text in a prompt with one mask, and a word for each class."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
import torch.nn.functional as F

from unmask.data.batches import Batch
from unmask.errors import ConfigError, InputError
from unmask.model.network import Model
from unmask.predict.cloze import Cloze
from unmask.predict.inputs import MASKS
from unmask.predict.masked import MaskedLM
from unmask.predict.windows import window_of
from unmask.tasks.batches import Item
from unmask.tasks.examples import TextExample
from unmask.tokenizer import Tokenizer
from unmask.train.objectives import Outcome


@dataclass(frozen=True)
class Prompt:
    """`{text}` and `{pair}` stand for an example's texts; a prompt without `{text}` follows the text."""

    template: str
    words: tuple[str, ...]
    """One for each class."""

    def texts(self, examples: Sequence[TextExample], tokenizer: Tokenizer, length: int) -> list[str]:
        """The prompt filled with each example, whose texts are cut where it would be too long."""
        filled = [self._filled(example) for example in examples]
        for number, encoding in enumerate(tokenizer.encode_batch(filled)):
            if len(encoding) > length:
                filled[number] = self._fitted(examples[number], tokenizer, length)
        return filled

    def _filled(self, example: TextExample) -> str:
        texts = {"text": example.text, "pair": example.pair or ""}
        return re.sub(r"\{(text|pair)\}", lambda found: texts[found[1]], self.template)

    def _fitted(self, example: TextExample, tokenizer: Tokenizer, length: int) -> str:
        empty = replace(example, text="", pair=None if example.pair is None else "")
        room = length - len(tokenizer.encode(self._filled(empty)))
        for tokens in range(room if example.pair is None else room // 2, 0, -1):
            text = _beginning(example.text, tokenizer, tokens)
            pair = None if example.pair is None else _beginning(example.pair, tokenizer, tokens)
            filled = self._filled(replace(example, text=text, pair=pair))
            if len(tokenizer.encode(filled)) <= length:
                return filled
        raise InputError(f"a length of {length} leaves no room for text beside the prompt: raise it")


def make_prompt(template: str, words: Sequence[str], labels: Sequence[str], pairs: bool) -> Prompt:
    """A prompt with a word for each class; `words` are written `label=word`."""
    if sum(map(template.count, MASKS)) != 1:
        raise ConfigError(f"write one {MASKS[0]} in the prompt, where the word of a class goes: {template!r}")
    if pairs and not ("{text}" in template and "{pair}" in template):
        raise ConfigError(f"the examples are pairs: write {{text}} and {{pair}} in the prompt {template!r}")
    said = dict(_label_and_word(each) for each in words)
    for label in said:
        if label not in labels:
            raise ConfigError(f"no example has the class {label!r}, only {', '.join(labels)}")
    if missing := [label for label in labels if label not in said]:
        raise ConfigError(f"say a word for every class: --words lacks {', '.join(missing)}")
    whole = template if "{text}" in template else f"{{text}} {template}"
    return Prompt(whole, tuple(said[label] for label in labels))


def word_ids(cloze: Cloze, words: Sequence[str]) -> list[int]:
    """The one piece of each word."""
    ids = []
    for word in words:
        pieces = cloze.pieces(0, word)
        if len(pieces) != 1:
            found = f"is {len(pieces)} pieces in this vocabulary" if pieces else "is not in this vocabulary"
            raise ConfigError(f"the word {word!r} {found}: choose one that is a single piece")
        ids.append(pieces[0])
    if len(set(ids)) < len(ids):
        raise ConfigError(f"two classes have the same word: {', '.join(words)}")
    return ids


def cloze_items(cloze: Cloze, classes: Sequence[int]) -> list[Item]:
    """Units of training: prompts, and the number of the word that fills each."""
    return [
        Item([window_of(encoding, np.arange(len(encoding)))], np.array([number]), [mask])
        for encoding, mask, number in zip(cloze.encodings, cloze.masks, classes, strict=True)
    ]


def choose_words(model: MaskedLM, texts: Sequence[str], words: Sequence[str]) -> list[int]:
    """For each filled prompt the number of the likeliest word."""
    scores = Cloze(model, texts).score(words)
    chosen: list[int] = scores.argmax(1).tolist()
    return chosen


class ClozeLoss:
    """The loss over the words of the classes alone, where the mask stands."""

    def __init__(self, words: Sequence[int]) -> None:
        self._words = list(words)

    def weight(self, part: str) -> float:
        """There is one part."""
        return 1.0

    def counts(self, batch: Batch) -> dict[str, int]:
        """How many predictions a batch makes."""
        return {"cloze": len(batch.target_ids)}

    def __call__(self, model: Model, batch: Batch) -> dict[str, Outcome]:
        """The predictions of a batch."""
        given = (batch.ids, batch.positions, batch.cu_seqlens, batch.max_seqlen, batch.segments)
        hidden = model.encoder(*given, rows=batch.target_index)
        words = torch.tensor(self._words, device=hidden.device)
        scores = model.mlm(hidden)[:, words].float()  # (n, classes)
        losses = F.cross_entropy(scores, batch.target_ids, reduction="none")
        return {"cloze": Outcome(losses, scores.argmax(1) == batch.target_ids)}


def _label_and_word(said: str) -> tuple[str, str]:
    label, equals, word = said.rpartition("=")
    if not equals or not label.strip() or not word.strip():
        raise ConfigError(f"--words {said!r}: write label=word, with a comma between classes")
    return label.strip(), word.strip()


def _beginning(text: str, tokenizer: Tokenizer, tokens: int) -> str:
    ends = tokenizer.encode(text, special=False).offsets[:, 1]
    return text if len(ends) <= tokens else text[: ends[tokens - 1]]
