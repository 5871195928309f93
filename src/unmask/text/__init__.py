"""Raw text -> clean documents."""

from unmask.text.clean import Cleaner
from unmask.text.document import Document
from unmask.text.harvest import harvest_docs
from unmask.text.languages import sampling_weights
from unmask.text.read import (
    TextColumns,
    nothing_left,
    placed_texts,
    read_documents,
    read_sources,
    read_texts,
    say_passed_over,
)
from unmask.text.sentences import sentence_starts
from unmask.text.sources import Source, State, find_sources
from unmask.text.split import SPLITS, split_of, text_hash

__all__ = [
    "SPLITS",
    "Cleaner",
    "Document",
    "Source",
    "State",
    "TextColumns",
    "find_sources",
    "harvest_docs",
    "nothing_left",
    "placed_texts",
    "read_documents",
    "read_sources",
    "read_texts",
    "sampling_weights",
    "say_passed_over",
    "sentence_starts",
    "split_of",
    "text_hash",
]
