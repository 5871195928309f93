"""The README.md of a fine-tuned folder: what it does, how well, from what."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from unmask import __version__
from unmask.predict.info import licence
from unmask.progress import counted
from unmask.tasks.run import FinetuneResult, Material
from unmask.tasks.settings import EmbedConfig

_PIPELINES = {"tag": "token-classification", "qa": "question-answering"}
_CALLS = {
    "pair": 'model("the first text", "the second text")',
    "tag": 'model("a text")',
    "qa": 'model("the question?", "the context")',
}


def task_card(made: Material, result: FinetuneResult) -> str:
    """A card in the form that the Hugging Face hub reads."""
    settings, labels = made.settings, made.kind.changes["labels"]
    header = [f"pipeline_tag: {_PIPELINES.get(result.task, 'text-classification')}"]
    if terms := licence(made.folder):
        header.append(f"license: {terms}")
    if settings.lora:
        learnt = f"LoRA of rank {settings.lora} and the head"
    elif settings.layers == "all":
        learnt = "everything"
    else:
        blocks = f"the last {counted(settings.layers, 'block')} and the head"
        learnt = blocks if settings.layers else "the head alone"
    data = f" of {result.data}" if result.data else ""
    rows = {
        "task": result.task + (f" ({', '.join(labels[:30])})" if labels and result.task != "regress" else ""),
        "begun from": made.folder.resolve().name,
        "training": f"{counted(result.train_examples, 'example')}{data}, {result.passes}, {learnt}",
        "weights": f"{result.kept}, the best by {result.metric}",
        "settings": f"lr {result.lr:g}, batch {settings.batch}, length {made.task.length}",
    }
    if result.mean is not None:
        rows["seeds"] = (
            f"{len(result.seeds)}: {result.metric} {result.mean:.4f} ± {result.deviation:.4f}, the best kept"
        )
    if settings.replay_text:
        rows["replay"] = f"{settings.replay:.0%} of the steps on plain text"
    if lost := result.forgetting:
        rows[f"masked-LM loss on {lost.of}"] = f"{lost.before:.4f} before, {lost.after:.4f} after"
    if result.stopped:
        rows["stopped"] = "before its end, by a signal"
    assert result.baseline is not None
    answer = result.baseline.answer.replace("|", r"\|")  # it stands between several labels
    scores = [f"| score | value | {answer} | of what |", "| --- | --- | --- | --- |"]
    for name, value in result.scores.items():
        scores.append(
            f"| {name} | {value:.4f} | {result.baseline.scores[name]:.4f} | {result.meanings[name]} |"
        )
    unseen = f"{counted(result.valid_examples, 'example')} that it was not trained on, but"
    judges = f"{result.judges} and" if result.valid_in_train else unseen
    return "\n".join(
        [
            "---",
            *header,
            "---",
            "",
            f"# A model for {result.task}, fine-tuned with unmask",
            "",
            *(f"- {name}: {value}" for name, value in rows.items()),
            "",
            f"On {judges} chosen by:",
            "",
            *scores,
            "",
            "```python",
            "import unmask",
            "",
            'model = unmask.load("this folder")',
            f"print({_CALLS.get(result.task, _CALLS['tag'])})",
            "```",
            "",
            f"Made with unmask {__version__}; `report.html` shows more.",
            "",
        ]
    )


def sentence_card(
    begun: Path, result: Mapping[str, Any], settings: EmbedConfig, sentence: Mapping[str, Any]
) -> str:
    """The card of a folder for sentence vectors; its model is a bare encoder."""
    header = ["library_name: sentence-transformers", "pipeline_tag: sentence-similarity"]
    if terms := licence(begun):
        header.append(f"license: {terms}")
    examples, steps = counted(result["train_examples"], "example"), counted(result["steps"], "step")
    rows = [
        f"- begun from: {begun.resolve().name}",
        f"- training: {examples} ({result['learnt_from']}), {steps}",
        *([f"- weights: epoch {result['kept_epoch']}, the best by spearman"] if result["kept_epoch"] else []),
        f"- settings: lr {result['lr']:g}, batch {settings.batch}, temperature {settings.temperature:g}",
        f"- vectors: {sentence['pool']} over the tokens, normalised",
        f"- longest text: {sentence['max_length']} tokens, the rest is cut off",
    ]
    if result["before"] and result["after"]:
        known = f", {result['valid_in_train']:,} of which it was trained on, and"
        known = known if result["valid_in_train"] else " that it was not trained on, but"
        pairs = f"{counted(result['valid_examples'], 'pair')}{known} chosen by"
        rows += ["", f"Correlation of cosines with the scores of {pairs}:", "", "| | before | after |"]
        rows.append("| --- | --- | --- |")
        for name, value in result["before"].items():
            rows.append(f"| {name} | {value:.4f} | {result['after'][name]:.4f} |")
    code = ["```python", "import unmask", "", 'model = unmask.load("this folder")']
    code += ['print(model.embed(["one text", "another"]))', "```", ""]
    begin = ["---", *header, "---", "", "# Sentence vectors, trained with unmask", ""]
    return "\n".join([*begin, *rows, "", *code, f"Made with unmask {__version__}.", ""])
