"""English prose that is on the machine already: the docstrings of installed packages, without their code.

The files are parsed, never imported.
"""

import ast
import importlib.util
import inspect
import re
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path

from unmask.errors import InputError
from unmask.text.document import Document

PACKAGES = ("torch", "scipy", "sympy", "sklearn", "numpy", "networkx")

_SKIPPED_FOLDERS = {"tests", "testing", "_vendor", "externals"}
_ADDS_DOC = {"add_newdoc", "add_docstr", "_add_docstr", "add_docstr_all"}

_UNDERLINE = re.compile(r"([-=~^*#+\"'`.])\1{2,}")
_DROPPED_SECTIONS = {"see also", "references", "bibliography"}
_DROPPED_BLOCKS = {"see also:", "references:", "shape:"}
_CODE = re.compile(
    r">>>|\.\.\. |In \[|\$ |\+[-=]{2,}|\|.*\||[-=]{2,}[ \t]+[-=]{2,}|@\w|import |from \w+ import"
)
_PROSE_DIRECTIVE = re.compile(r"\.\. (?:note|warning|tip|important|hint|caution|attention)::\s*(.*)")
_DIRECTIVE = re.compile(r"\.\. |:\w+ ?[\w.\[\], ]*:|__ ")
_ITEM = re.compile(r"(?:[-*•+]|\(?(?:\d{1,2}|[a-zA-Z])[.)]|\[\d+\])\s+")
# `x : array_like`, `x, y : float, optional`, `axis: int`, `x (Tensor):`; what follows a bracket is prose.
_PARAMETER = re.compile(r"[\w*`.,{}|\\ -]{1,60}?(?: :|:(?! [A-Z]))(?: .*)?$")
_TYPED = re.compile(r"[`*]*[\w., *]+[`*]* *\([^()]*(?:\([^()]*\)[^()]*)*\) *:\s*")
_SUBSTITUTIONS = (
    (re.compile(r"\s?\[[\w#*]+\]_"), ""),
    (re.compile(r":math:`([^`]*)`"), r"\1"),
    (re.compile(r"(?::[\w+.:-]+:)?`([^`<]+?)\s*<[^`>]*>`_*"), r"\1"),
    (re.compile(r"(?::[\w+.:-]+:)?`+!?~?([^`]*)`+_*"), r"\1"),
    (re.compile(r"\*\*(\S[^*]*)\*\*"), r"\1"),
    (re.compile(r"(?<!\w)\*(\S[^*]*)\*(?!\w)"), r"\1"),
)
_WORD = re.compile(r"[(\"']*[^\W\d_]+(?:['’-][^\W\d_]+)*[.,;:!?)\"']*")
_MARKUP = re.compile(r"[\\{}=<>^_@#$~]|::|\]\]|\[\[")


def harvest_docs(packages: Sequence[str] = PACKAGES) -> Iterator[Document]:
    """One document per docstring with prose in it, in the order of packages, files and lines."""
    for package in packages:
        spec = importlib.util.find_spec(package)
        if spec is None or not spec.submodule_search_locations:
            raise InputError(f"there is no package {package} to harvest: install it, or leave it out")
        root = Path(next(iter(spec.submodule_search_locations)))
        for path in sorted(root.rglob("*.py")):
            inner = path.relative_to(root)
            if not _SKIPPED_FOLDERS.intersection(inner.parts):
                yield from _harvest_file(path, f"{package}/{inner.as_posix()}")


def _harvest_file(path: Path, name: str) -> Iterator[Document]:
    source = path.read_text("utf-8", errors="replace")
    if '"""' not in source and "'''" not in source:
        return
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # old escapes in other people's strings
            tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return
    for docstring in _docstrings(tree.body, tree):
        if text := prose(docstring):
            yield Document(text, "en", name)


def _docstrings(body: Sequence[ast.stmt], owner: ast.AST | None = None) -> Iterator[str]:
    if isinstance(owner, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        yield ast.get_docstring(owner, clean=False) or ""
    for node in body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _docstrings(node.body, node)
        elif isinstance(node, ast.If | ast.Try | ast.With):
            yield from _docstrings(node.body)
        elif isinstance(node, ast.Expr | ast.Assign) and isinstance(node.value, ast.Call):
            yield from _added_docstrings(node.value)


def _added_docstrings(call: ast.Call) -> Iterator[str]:
    """The texts in `add_newdoc("module", "name", "text")`, for what is written in C."""
    name = getattr(call.func, "attr", getattr(call.func, "id", ""))
    if name in _ADDS_DOC:
        for argument in call.args:
            for node in ast.walk(argument):
                if isinstance(node, ast.Constant) and isinstance(node.value, str) and "\n" in node.value:
                    yield node.value


def prose(docstring: str) -> str:
    """The paragraphs of a docstring that read as English, without code, tables, signatures and headings."""
    paragraphs = map(" ".join, _paragraphs(_prose_lines(docstring)))
    plain = (_plain(text) for text in paragraphs if text.rstrip("`*_)\"'").endswith((".", "!", "?")))
    return "\n".join(filter(_reads_as_prose, plain))


def _prose_lines(docstring: str) -> Iterator[str]:
    """Lines without headings, literal blocks, directives and dropped sections; "" ends a paragraph."""
    lines = inspect.cleandoc(docstring).split("\n")
    hidden: int | None = None  # lines indented more than this belong to something dropped
    section_dropped = False
    for i, line in enumerate(lines):
        text = line.strip()
        indent = len(line) - len(line.lstrip())
        following = lines[i + 1].strip() if i + 1 < len(lines) else ""
        if not text or _UNDERLINE.fullmatch(text):
            yield ""
            continue
        if hidden is not None and indent > hidden:
            continue
        hidden = None
        if _UNDERLINE.fullmatch(following):
            section_dropped = text.lower() in _DROPPED_SECTIONS
            yield ""
        elif section_dropped:
            continue
        elif match := _PROSE_DIRECTIVE.match(text):
            yield ""
            yield match[1]
        elif _DIRECTIVE.match(text) or text.lower() in _DROPPED_BLOCKS:
            hidden = indent
            yield ""
        else:
            yield line
            if text.endswith("::"):
                hidden = indent


def _paragraphs(lines: Iterator[str]) -> Iterator[list[str]]:
    """Group lines: a blank line, another indentation, a list item or a parameter begins a new paragraph."""
    paragraph: list[str] = []
    before, hanging = 0, False
    doctest = False
    for line in lines:
        text = line.strip()
        indent = len(line) - len(line.lstrip())
        doctest = bool(text) and (doctest or _CODE.match(text) is not None)
        head = _ITEM.match(text) or (_TYPED.match(text) if ":" in text else None)
        goes_on = indent == before or (hanging and indent > before)
        if not text or doctest or head or not goes_on:
            yield paragraph
            paragraph = []
        before, hanging = indent, head is not None
        if text and not doctest and not (":" in text and _PARAMETER.match(text)):
            paragraph.append(text[head.end() :] if head else text)
    yield paragraph


def _plain(text: str) -> str:
    """Without the marks of reStructuredText."""
    if "`" in text or "*" in text or "]_" in text:
        for pattern, replacement in _SUBSTITUTIONS:
            text = pattern.sub(replacement, text)
    return " ".join(text.split())


def _reads_as_prose(text: str) -> bool:
    words = text.split()
    if len(words) < 4 or not text.endswith((".", "!", "?", ".)", '."')):
        return False
    plain = sum(1 for word in words if _WORD.fullmatch(word))
    return plain >= 0.7 * len(words) and len(_MARKUP.findall(text)) <= 0.15 * len(words)
