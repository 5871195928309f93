"""Pairs of texts in XML, as ASSIN has them: `<pair entailment=… similarity=…><t>…</t><h>…</h></pair>`."""

from collections.abc import Iterator
from typing import Any
from xml.etree import ElementTree

from unmask.errors import InputError
from unmask.text.sources import Source
from unmask.text.stream import decoded


def read_pairs(source: Source) -> Iterator[tuple[str, dict[str, Any]]]:
    """Rows with the pair's attributes and its two texts, `t` and `h`."""
    content = "".join(decoded(source))
    if "<!DOCTYPE" in content or "<!ENTITY" in content:
        raise InputError(f"{source} declares entities, which are not read: remove the declaration")
    try:
        root = ElementTree.fromstring(content)  # noqa: S314 - without declarations there is nothing to expand
    except ElementTree.ParseError as error:
        raise InputError(f"{source} is not well-formed XML: {error}") from None
    for number, pair in enumerate(root.iter("pair"), 1):
        place = f"{source}, pair {pair.get('id', number)}"
        yield place, {**pair.attrib, "t": pair.findtext("t"), "h": pair.findtext("h")}
