"""Write the Portuguese minimal pairs, one file a paradigm.

    python tools/minimal_pairs_pt.py FOLDER

The same words are drawn on every run, so the files can be made again and compared.
"""

import argparse
import json
from collections.abc import Iterator
from pathlib import Path

from pairs_pt import agreement, syntax
from pairs_pt.drawing import Draw, Paradigm

PAIRS = 150  # of each paradigm


def pairs(paradigm: Paradigm) -> Iterator[tuple[str, str]]:
    """The first different pairs that a paradigm draws."""
    draw, seen = Draw(paradigm.__name__), set[str]()
    while len(seen) < PAIRS:
        good, bad = paradigm(draw)
        if good not in seen:
            seen.add(good)
            yield good, bad


def write(folder: Path) -> None:
    """Every paradigm into a file of the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for phenomenon, paradigms in (agreement.PARADIGMS | syntax.PARADIGMS).items():
        for paradigm in paradigms:
            name = paradigm.__name__
            rows = (
                {"sentence_good": good, "sentence_bad": bad, "paradigm": name, "phenomenon": phenomenon}
                for good, bad in pairs(paradigm)
            )
            lines = (json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
            (folder / f"{name}.jsonl").write_text("".join(lines), "utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path, help="where the files go; it is made if it is not there")
    write(parser.parse_args().folder)


if __name__ == "__main__":
    main()
