"""`MaskedLM`: what `load` gives for a language model, masked or causal."""

from collections.abc import Sequence
from typing import overload

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unmask.errors import InputError, ModelError
from unmask.model.network import Model
from unmask.predict.batching import Pack
from unmask.predict.fill import BEAM, Filler
from unmask.predict.generate import Sampling, sample, seeded
from unmask.predict.inputs import as_list
from unmask.predict.predictor import Predictor
from unmask.predict.results import Fill, Generated, Score
from unmask.predict.score import Ints, check_method, collect, masked_copy, shared_copies, targets
from unmask.progress import SILENT, Progress
from unmask.tokenizer import Encoding

_LOGITS = 1 << 25
"""Scores over the vocabulary held at a time."""


class MaskedLM(Predictor):
    """Fills masks, scores texts, makes vectors, judges pairs; a causal model generates instead of filling."""

    hybrid = False
    """Some of its training was causal: it fills masks, and generates too."""
    cut_texts = 0
    """How many pairs were too long to be read whole so far."""

    def fill(
        self,
        text: str,
        top: int = 5,
        candidates: Sequence[str] | None = None,
        pieces: int = 1,
        beam: int = BEAM,
        progress: Progress = SILENT,
    ) -> list[Fill]:
        """The best ways to fill all of a text's masks (`[MASK]` or `<mask>`) together, best first.

        Each mask is a word of 1 to `pieces` pieces (16 at most), or one of the `candidates`, of any number.
        Directly behind a letter it may go on with the word before. Probabilities are the model's own.
        """
        if self.config.causal:
            raise ModelError("a causal model sees only what stands before a mask: use generate")
        if top < 1 or beam < 1:
            raise InputError("top and beam must be at least 1")
        filler = Filler(self.tokenizer, text, candidates, pieces, self.inputs.limit)
        width = max(beam, len(candidates or ()))
        return filler.search(self.log_probabilities, top, width, progress)

    @overload
    def score(  # type: ignore[overload-overlap]
        self, texts: str, method: str = ..., truncate: bool = ..., progress: Progress = ...
    ) -> Score: ...

    @overload
    def score(
        self, texts: Sequence[str], method: str = ..., truncate: bool = ..., progress: Progress = ...
    ) -> list[Score]: ...

    def score(
        self,
        texts: str | Sequence[str],
        method: str = "word-l2r",
        truncate: bool = False,
        progress: Progress = SILENT,
    ) -> Score | list[Score]:
        """Pseudo-log-likelihood of one text or many; of a causal model the log-likelihood itself."""
        check_method(method)
        many = as_list(texts)
        encodings, places = self.scored_places(many, truncate)
        if self.config.causal:
            logs = self._score_causal(encodings, places, progress)
        else:
            logs = self._score_masked(encodings, places, method, progress)
        scores = collect(many, encodings, places, logs, self.tokenizer)
        return scores[0] if isinstance(texts, str) else scores

    def scored_places(
        self, texts: Sequence[str], truncate: bool | None = None
    ) -> tuple[list[Encoding], list[Ints]]:
        """Texts as tokens, and the places of those that `score` asks for."""
        encodings = self.inputs.encode(texts, truncate)
        places = [targets(encoding, self.tokenizer) for encoding in encodings]
        if self.config.causal:  # nothing stands before the first token, unless the template opens the text
            places = [where[where > 0] for where in places]
        return encodings, places

    @overload
    def follows(  # type: ignore[overload-overlap]
        self, first: str, second: str, truncate: bool = ..., progress: Progress = ...
    ) -> float: ...

    @overload
    def follows(
        self, first: Sequence[str], second: Sequence[str], truncate: bool = ..., progress: Progress = ...
    ) -> list[float]: ...

    def follows(
        self,
        first: str | Sequence[str],
        second: str | Sequence[str],
        truncate: bool = False,
        progress: Progress = SILENT,
    ) -> float | list[float]:
        """The probability that the second text follows the first, of one pair or of many.

        A model of next sentences (`nsp`) tells it from a text of elsewhere, one of sentence order (`sop`)
        from the same two texts the other way round.
        """
        if isinstance(first, str) != isinstance(second, str):
            raise InputError("one text is paired with one text: give two texts, or two lists")
        head = self._pair_head()
        pairs, cut = self.inputs.pairs(as_list(first), as_list(second), truncate)
        self.cut_texts += cut
        found = np.zeros(len(pairs))

        def work(numbers: list[int], packed: Pack) -> None:
            hidden = self._encode(packed, packed.cu_seqlens[:-1].long())
            found[numbers] = self._adjacent(hidden, head)

        self._each_batch([ids for ids, _ in pairs], work, progress, [segments for _, segments in pairs])
        return float(found[0]) if isinstance(first, str) else found.tolist()

    def generate(
        self,
        prompt: str = "",
        max_tokens: int = 50,
        temperature: float = 1.0,
        top_k: int | None = None,
        top_p: float | None = None,
        seed: int | None = None,
    ) -> Generated:
        """Go on from a prompt, token by token; temperature 0 always takes the likeliest one."""
        if not self.config.causal and not self.hybrid:
            raise ModelError("this model is not causal: it fills masks (fill), it does not generate")
        sampling = Sampling(temperature, top_k, top_p)
        generator = seeded(seed)
        ids = list(self.inputs.ids([prompt])[0])
        ids = ids[: len(ids) - self.inputs.closing]
        if not ids:
            raise InputError("the prompt is empty, and this tokenizer has no token that opens a text")
        start, finished = len(ids), False
        room = min(start + max_tokens, self.inputs.limit)
        while len(ids) < room and not finished:
            hidden = self._encode(self._pack([np.array(ids)]), causal=True)
            # The model's table may be rounded up: only what the tokenizer knows is drawn.
            logits = self._logits(hidden[-1:])[0, : self.tokenizer.vocab_size]
            token = sample(logits, sampling, generator)
            finished = token in (self.tokenizer.sep_id, self.config.eos_id)
            ids += [] if finished else [token]
        text = self.tokenizer.decode(ids)
        before = self.tokenizer.decode(ids[:start])
        return Generated(text, text[len(before) :], len(ids) - start, finished)

    def log_probabilities(
        self, sequences: Sequence[Ints], places: Sequence[Ints]
    ) -> list[NDArray[np.float32]]:
        """Log-probabilities over the vocabulary (places, V) at some places of each sequence of ids."""
        out: list[NDArray[np.float32]] = [np.empty(0, np.float32)] * len(sequences)
        step = max(1, _LOGITS // self.config.vocab_size)
        for numbers in self._plan([len(ids) for ids in sequences]):
            packed = self._pack([sequences[number] for number in numbers])
            starts = packed.cu_seqlens[:-1].tolist()
            rows = np.concatenate([start + places[n] for start, n in zip(starts, numbers, strict=True)])
            hidden = self._encode(packed, torch.from_numpy(rows).to(self.device))
            parts = [
                self._logits(hidden[at : at + step]).log_softmax(-1).cpu().numpy()
                for at in range(0, len(rows), step)
            ]
            ends = np.cumsum([len(places[number]) for number in numbers])[:-1]
            for number, logs in zip(numbers, np.split(np.concatenate(parts), ends), strict=True):
                out[number] = logs
        return out

    def _score_masked(
        self, encodings: Sequence[Encoding], places: Sequence[Ints], method: str, progress: Progress
    ) -> list[NDArray[np.float64]]:
        logs = [np.zeros(len(where)) for where in places]
        groups = shared_copies(encodings, places, self.tokenizer, method)
        sizes = [len(encodings[group[0][0]]) for group in groups]

        def work(numbers: list[int]) -> int:
            chosen = [groups[number] for number in numbers]
            firsts = [(encodings[text], int(places[text][spot])) for (text, spot), *_ in chosen]
            packed = self._pack([masked_copy(*first, self.tokenizer, method) for first in firsts])
            jobs = [job for group in chosen for job in group]
            where = np.array([places[text][spot] for text, spot in jobs])
            where += np.repeat(packed.cu_seqlens[:-1].cpu().numpy(), list(map(len, chosen)))
            truth = [encodings[text].ids[places[text][spot]] for text, spot in jobs]
            hidden = self._encode(packed, torch.from_numpy(where).to(self.device))
            for (text, spot), value in zip(jobs, self._chosen_logs(hidden, truth), strict=True):
                logs[text][spot] = value
            return len(chosen)

        with progress.stage("copies", len(groups), "copies") as stage:
            for done in self._share(work, self._plan(sizes)):
                stage.advance(done)
        return logs

    def _score_causal(
        self, encodings: Sequence[Encoding], places: Sequence[Ints], progress: Progress
    ) -> list[NDArray[np.float64]]:
        logs = [np.zeros(len(where)) for where in places]

        def work(numbers: list[int], packed: Pack) -> None:
            hidden = self._encode(packed)
            for start, number in zip(packed.cu_seqlens.tolist(), numbers, strict=False):
                before = torch.from_numpy(start + places[number] - 1).to(self.device)
                logs[number][:] = self._chosen_logs(hidden[before], encodings[number].ids[places[number]])

        self._each_batch([encoding.ids for encoding in encodings], work, progress)
        return logs

    @torch.inference_mode()
    def _chosen_logs(self, rows: Tensor, tokens: Sequence[int] | Ints) -> NDArray[np.float64]:
        """Log-probability of one token per row, a few rows at a time."""
        truth = torch.as_tensor(np.asarray(tokens), device=self.device)[:, None]
        step = max(1, _LOGITS // self.config.vocab_size)
        parts = [
            self._logits(rows[at : at + step]).log_softmax(-1).gather(1, truth[at : at + step])[:, 0]
            for at in range(0, len(rows), step)
        ]
        return torch.cat(parts).double().cpu().numpy() if parts else np.zeros(0)

    def _pair_head(self) -> str:
        if not isinstance(self.model, Model):
            raise ModelError("an ONNX model gives vectors only; load the folder it was converted from")
        if self.model.pair_head is None:
            raise ModelError(
                "this model never learned whether texts follow each other: it has neither an nsp "
                f"nor a sop head (heads: {', '.join(self.model.heads) or 'none'})"
            )
        return self.model.pair_head

    @torch.inference_mode()
    def _adjacent(self, first: Tensor, head: str) -> NDArray[np.float64]:
        """The probability (S) of label 0, adjacent or in order, by the first tokens of pairs."""
        assert isinstance(self.model, Model)
        scores = self._finite(self.model.pair(first, head)).double()  # (S, 2)
        return scores.softmax(-1)[:, 0].cpu().numpy()

    @torch.inference_mode()
    def _logits(self, rows: Tensor) -> Tensor:
        if not isinstance(self.model, Model):
            raise ModelError("an ONNX model gives vectors only; load the folder it was converted from")
        logits = self.model.mlm(rows).float()
        self._finite(logits.amax(-1))  # of a row with one that is no number, that one
        return logits
