"""Write docs/api.md and docs/commands.md from the docstrings and the command line.

    python tools/reference.py

Signatures are read from the source, so that they stand as they were written.
"""

import ast
import inspect
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import typer

import unmask
from unmask.cli import app
from unmask.config import Recipe
from unmask.sections import Section

DOCS = Path(__file__).resolve().parents[1] / "docs"
WRITTEN = "<!-- Written by tools/reference.py from the source: change that, and run it again. -->\n"
SECTIONS = {
    "In short": ("unmask", unmask.__all__),
    "Models that answer": ("unmask.predict", ["Classifier", "Tagger", "Answerer"]),
    "Answers": (
        "unmask.predict",
        ["Fill", "Word", "Score", "TokenScore", "Generated", "Label", "Entity", "Answer"],
    ),
    "Text and vocabulary": ("unmask.text", ["Source", "Document", "Cleaner", "find_sources"]),
    "Tokenizers": ("unmask.tokenizer", ["Encoding", "extend"]),
    "Tagged text": ("unmask.text.conllu", ["read_labels"]),
    "Shards": ("unmask.data.shards", ["Corpus"]),
    "Batches": ("unmask.data.batches", ["Batches", "Batch"]),
    "Places in an epoch": ("unmask.data.plan", ["Position"]),
    "Models to train": ("unmask.model.presets", ["PRESETS", "preset"]),
    "Pretraining": ("unmask.train.pretrain", ["RunResult", "dry_run"]),
    "What a training starts from": ("unmask.train.start", ["Start"]),
    "Examples with labels": (
        "unmask.tasks.examples",
        ["TextExample", "TaggedExample", "QuestionExample", "Span"],
    ),
    "Settings of a fine-tuning": ("unmask.tasks.settings", ["FinetuneConfig"]),
    "Settings of few examples": ("unmask.tasks.settings", ["FewshotConfig"]),
    "Settings of sentence vectors": ("unmask.tasks.settings", ["EmbedConfig"]),
    "Results of a fine-tuning": ("unmask.tasks.run", ["FinetuneResult"]),
    "Vectors of files": ("unmask.predict.bulk", ["embed_file"]),
    "How vectors are made": ("unmask.predict.parts", ["EmbedSettings"]),
    "Standardising": ("unmask.predict.standardise", ["Standardiser"]),
    "Neighbours": ("unmask.analyse.neighbours", ["Index", "Neighbour", "add_file"]),
    "Evaluation": ("unmask.evaluation", ["Result", "differences", "suite_names"]),
    "Uses of a word": ("unmask.analyse.uses", ["Use", "find_uses", "forms_of", "first_uses", "compare_uses"]),
    "Senses": (
        "unmask.analyse.senses",
        [
            "find_senses",
            "learn_senses",
            "disambiguate",
            "score_senses",
            "Senses",
            "Sense",
            "Labelled",
            "Guess",
        ],
    ),
    "Sentences to measure on": ("unmask.analyse.corpus", ["sentences", "sample"]),
    "Geometry": ("unmask.analyse.geometry", ["Vectors", "measure"]),
    "Attention": ("unmask.analyse.attention", ["read_attention"]),
    "Attributions": ("unmask.analyse.attribution", ["attribute"]),
    "Probes": ("unmask.analyse.probing", ["probe_label", "hold_back"]),
    "Recipes": ("unmask.config", ["Recipe", "load_recipe", "write_recipe", "recipe_names"]),
    "Progress": ("unmask.progress", ["Progress"]),
    "Errors": (
        "unmask.errors",
        ["UnmaskError", "UserError", "ConfigError", "InputError", "OutputError", "CorpusError", "ModelError"],
    ),
}


def api() -> str:
    """Every public name with its signature and its docstring."""
    parts = [WRITTEN, "# Python reference\n", INTRODUCTION]
    for heading, (module, names) in SECTIONS.items():
        parts.append(f"## {heading}\n\n`{module}`\n")
        parts += [_described(module, name) for name in names]
    parts.append(_recipe_keys())
    return "\n".join(parts)


INTRODUCTION = """\
`import unmask` loads nothing heavy; the names of the first section are looked up when first used. Long work
takes a `progress`, which says nothing by default; what a user can mend is raised as a `UserError`. Names
that begin with an underscore, and modules that are not on this page, may change at any time.
"""


def _described(module: str, name: str) -> str:
    found = getattr(import_module(module), name)
    if not isinstance(found, type) and not inspect.isfunction(found):
        values = ", ".join(f"`{key}`" for key in sorted(found))
        return f"### {name}\n\nA table with the keys {values}.\n"
    node = _source(found)
    if isinstance(found, type):
        return "\n".join([f"### {name}\n", _class(found, node), *_methods(found)])
    return f"### {name}\n\n{_function(node)}"


def _source(found: Any) -> Any:
    """The syntax tree of a class or function, where it was written."""
    module = import_module(found.__module__)
    return _definitions(module)[found.__name__]


def _definitions(module: ModuleType) -> dict[str, Any]:
    tree = ast.parse(Path(str(module.__file__)).read_text("utf-8"))
    kinds = (ast.ClassDef, ast.FunctionDef)
    return {node.name: node for node in tree.body if isinstance(node, kinds)}


def _function(node: ast.FunctionDef, owner: str = "") -> str:
    arguments = node.args
    if owner:
        arguments = ast.arguments(**{**vars(node.args), "args": _without_self(node.args.args)})
    returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    signature = f"{owner}{node.name}({', '.join(_each(arguments))}){returns}"
    if len(signature) > 100:
        inside = ",\n".join(f"    {each}" for each in _each(arguments))
        signature = f"{owner}{node.name}(\n{inside},\n){returns}"
    return f"```\n{signature}\n```\n\n{_text(node)}\n"


def _without_self(arguments: list[ast.arg]) -> list[ast.arg]:
    return [each for each in arguments if each.arg not in ("self", "cls")]


def _each(arguments: ast.arguments) -> Iterator[str]:
    """One argument a line, as a long signature is written."""
    plain = [*arguments.posonlyargs, *arguments.args]
    defaults = [None] * (len(plain) - len(arguments.defaults)) + list(arguments.defaults)
    for argument, default in zip(plain, defaults, strict=True):
        yield ast.unparse(argument) + (f" = {ast.unparse(default)}" if default else "")
    if arguments.kwonlyargs:
        yield "*"
    for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        yield ast.unparse(argument) + (f" = {ast.unparse(default)}" if default else "")


def _class(found: type, node: ast.ClassDef) -> str:
    told = [_text(node), ""]
    fields = list(_fields(node))
    if fields:
        told += ["| field | default | meaning |", "| --- | --- | --- |"]
        told += [f"| `{name}: {kind}` | {default} | {text} |" for name, kind, default, text in fields]
        told.append("")
    return "\n".join(told)


def _fields(node: ast.ClassDef) -> Iterator[tuple[str, str, str, str]]:
    """Fields with the text below them."""
    following = [*node.body[1:], ast.Pass()]
    for statement, after in zip(node.body, following, strict=True):
        if not isinstance(statement, ast.AnnAssign) or not isinstance(statement.target, ast.Name):
            continue
        if statement.target.id.startswith("_"):
            continue
        told = (
            after.value.value if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant) else ""
        )
        default = f"`{ast.unparse(statement.value)}`" if statement.value else ""
        kind = ast.unparse(_Plain().visit(statement.annotation)).replace("|", "\\|")
        yield statement.target.id, kind, default.replace("|", "\\|"), _line(str(told))


class _Plain(ast.NodeTransformer):
    """Types without the bounds that only checking needs."""

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        if ast.unparse(node.value) == "Annotated" and isinstance(node.slice, ast.Tuple):
            return node.slice.elts[0]
        return self.generic_visit(node)


def _methods(found: type) -> Iterator[str]:
    """Public methods and properties, its own and those it has from classes of ours."""
    seen: set[str] = set()
    for kind in found.__mro__:
        if not kind.__module__.startswith("unmask") or kind.__name__ == "Section":
            continue
        own = {node.name: node for node in _source(kind).body if isinstance(node, ast.FunctionDef)}
        for name, node in own.items():  # of overloads the last, which is the real one
            if name in seen or (name.startswith("_") and name != "__call__"):
                continue
            seen.add(name)
            decorators = [ast.unparse(each) for each in node.decorator_list]
            if any(each in ("property", "cached_property") for each in decorators):
                yield f"`.{name} -> {ast.unparse(node.returns) if node.returns else ''}` {_text(node)}\n"
            elif name == "__call__":
                node.name = ""
                yield _function(node, found.__name__.lower())
            else:
                yield _function(node, ("" if "classmethod" not in decorators else found.__name__) + ".")


def _text(node: Any) -> str:
    return ast.get_docstring(node) or ""


def _line(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _recipe_keys() -> str:
    """Every key that `--set` and a recipe's TOML know."""
    told = ["## Keys of a recipe\n", "For `--set section.key=value` and TOML files.\n"]
    for name, field in Recipe.model_fields.items():
        section = field.annotation
        if isinstance(section, type) and issubclass(section, Section):
            told += _keys(section, name)
    return "\n".join(told)


def _keys(section: type[Section], prefix: str) -> list[str]:
    node, inner = _source(section), []
    told = [f"### [{prefix}]\n", f"{_text(node)}\n", "| key | default | meaning |", "| --- | --- | --- |"]
    for name, _, default, text in _fields(node):
        kind = section.model_fields[name].annotation
        if isinstance(kind, type) and issubclass(kind, Section):
            inner += _keys(kind, f"{prefix}.{name}")
        else:
            told.append(f"| `{name}` | {default} | {text} |")
    return [*told, "", *inner]


def commands() -> str:
    """Every command with its arguments and options, as `--help` has them."""
    parts = [WRITTEN, "# Commands\n", "`unmask COMMAND --help` says the same.\n"]
    return "\n".join([*parts, *_group(typer.main.get_command(app), "unmask")])


def _group(group: Any, path: str) -> Iterator[str]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield f"## {path} {name}\n\n{command.help}\n"
            yield from _group(command, f"{path} {name}")
        else:
            yield _command(command, f"{path} {name}")


def _command(command: Any, path: str) -> str:
    told = [f"## {path}\n", inspect.cleandoc(command.help or ""), ""]
    rows = [_option(each) for each in command.params if each.name != "help"]
    told += ["| argument or option | default | meaning |", "| --- | --- | --- |", *rows, ""]
    examples = [line.strip() for line in (command.epilog or "").splitlines() if line.strip()]
    if examples:
        told += ["```", *examples, "```", ""]
    return "\n".join(told)


def _option(option: Any) -> str:
    names = [*option.opts, *option.secondary_opts]
    shown = (
        ", ".join(f"`{name}`" for name in names) if names[0].startswith("-") else f"`{option.name.upper()}`"
    )
    default = option.default
    told = default is not None and default is not False and default != () and not callable(default)
    said = option.show_default if isinstance(getattr(option, "show_default", None), str) else ""
    value = "required" if option.required else f"`{default}`" if told else said
    return f"| {shown} | {value} | {_line(option.help or '')} |"


def main() -> None:
    """Write both pages."""
    for name, text in (("api.md", api()), ("commands.md", commands())):
        (DOCS / name).write_text(text, "utf-8")


if __name__ == "__main__":
    main()
