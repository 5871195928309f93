"""The README.md of a model folder: what it is, how it was trained, how to use it."""

from unmask import __version__
from unmask.predict.folders import model_name
from unmask.progress import counted
from unmask.train.loop import Counters
from unmask.train.material import Material
from unmask.train.validate import Validation


def model_card(material: Material, counters: Counters, valid: Validation | None) -> str:
    """A card in the form that the Hugging Face hub reads."""
    recipe, corpus = material.recipe, material.corpus
    model = recipe.model
    causal = recipe.objective.causal == 1
    languages = [name for name in corpus.language_names if name]
    header = ["---", f"pipeline_tag: {'text-generation' if causal else 'fill-mask'}"]
    if languages:
        header += ["language:", *(f"- {name}" for name in languages)]
    rows = {
        "layout": f"{model.family}, {counted(model.layers, 'layer')}, width {model.width}, "
        f"{counted(model.heads, 'head')}",
        "vocabulary": f"{material.tokenizer.vocab_size:,} entries ({material.tokenizer.kind})",
        "corpus": f"{counted(corpus.token_count, 'token')} in {counted(corpus.document_count, 'document')}",
        "training": f"{counted(counters.step, 'step')}, {counted(counters.tokens, 'token')}",
    }
    if material.base is not None:
        rows["begun from"] = material.base.name
    if material.teachers:
        rows["taught by"] = ", ".join(map(model_name, material.teachers))
    if valid:
        main = "next" if causal else "mlm"
        rows["validation"] = f"loss {valid.loss:.4f}"
        if main in valid.accuracy:
            right = f"{valid.accuracy[main]:.1%} of the tokens right"
            rows["validation"] += f", {right} (the commonest token alone: {valid.guess:.1%})"
    fills = recipe.objective.mlm and not causal
    calls = [f'model.fill("… {material.tokenizer.mask_token} …")'] if fills else []
    calls += ['model.generate("…")'] if recipe.objective.causal else []
    calls += ['model.follows("…", "…")'] if recipe.batch.pairs != "none" else []
    return "\n".join(
        [
            *header,
            "---",
            "",
            "# A language model trained with unmask",
            "",
            *(f"- {name}: {value}" for name, value in rows.items()),
            "",
            "```python",
            "import unmask",
            "",
            'model = unmask.load("this folder")',
            *calls,
            "```",
            "",
            f"Trained with unmask {__version__}; `recipe.toml` of the run holds every setting.",
            "",
        ]
    )
