"""Of the token table a training moves only the rows that its texts read: the others have no gradient.

What an optimiser would hold and do for those is most of the work where a vocabulary is large and texts are
few. They stay as they are, without weight decay too.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from unmask.model.network import Model


class Rows(nn.Module):
    """A few rows of a table in its place."""

    def __init__(self, table: nn.Embedding, ids: Tensor) -> None:
        super().__init__()
        self._table, self._ids = (table,), ids  # in a tuple: its weights are not this module's
        self.few = nn.Embedding(len(ids), table.embedding_dim, _weight=table.weight.detach()[ids])
        place = torch.full((table.num_embeddings,), -1, device=ids.device)  # an id that was not said fails
        place[ids] = torch.arange(len(ids), device=ids.device)
        self._place = place

    def forward(self, ids: Tensor) -> Tensor:
        out: Tensor = self.few(self._place[ids])
        return out

    @torch.no_grad()
    def whole(self) -> nn.Embedding:
        """The table with these rows in it."""
        (table,) = self._table
        table.weight[self._ids] = self.few.weight
        return table


def read_rows(prepared: Iterable[Any]) -> Tensor:
    """The ids that texts have in their windows, in order."""
    windows = (window for each in prepared for window in getattr(each, "windows", each))
    return torch.from_numpy(np.unique(np.concatenate([window.ids for window in windows])))


def narrow(model: Model, ids: Tensor) -> None:
    """Train only these rows of the token table, if it learns at all; no other can be read until `widen`."""
    embeddings = model.encoder.embeddings
    if embeddings.tokens.weight.requires_grad:
        embeddings.tokens = Rows(embeddings.tokens, ids.to(embeddings.tokens.weight.device))  # type: ignore[assignment]


def widen(model: Model) -> None:
    """Put the rows back into the whole table."""
    table = model.encoder.embeddings.tokens
    if isinstance(table, Rows):
        model.encoder.embeddings.tokens = table.whole()
