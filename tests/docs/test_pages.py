"""The pages agree with each other, with the code and with the results; nothing is run here."""

import ast
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from tests.conftest import load_tool
from tests.docs.conftest import HOWTO, PAGES, ROOT, blocks, commands, examples

import unmask
from unmask.cli import app


def test_many_gpus_shows_what_the_guide_runs() -> None:
    assert set(commands("docs/howto/many-gpus.md")) < set(commands("docs/scaling.md"))


def test_scripts_are_well_formed() -> None:
    for script in blocks("docs/scaling.md", "bash"):
        subprocess.run(["bash", "-n"], input=script, text=True, check=True)
    described = list(yaml.safe_load_all(blocks("docs/scaling.md", "yaml")[0]))
    assert [each["kind"] for each in described] == ["Service", "Job"]


def names(group: Any, path: str = "unmask") -> Iterator[str]:
    """Every command of the command line, those of groups too."""
    for name, command in group.commands.items():
        yield from names(command, f"{path} {name}") if hasattr(command, "commands") else [f"{path} {name}"]


def test_every_command_is_shown_somewhere() -> None:
    shown = "".join((ROOT / page).read_text("utf-8") for page in PAGES)
    reference = (ROOT / "docs/commands.md").read_text("utf-8")
    listed = list(names(typer.main.get_command(app)))
    assert len(listed) > 20
    for command in listed:
        assert command in shown or command == "unmask demo", command  # that one is `make demo`
        assert f"## {command}\n" in reference


# Commands outside console blocks are not run; each says here why.
NOT_RUN = {
    "make demo": "takes minutes; tests/test_demo.py walks the same way",
    "make test": "runs this",
    "pip install": "installs",
    "unmask serve": "a server; tests/serve and examples/12_serve_and_call.py start one",
    "curl": "asks that server",
}


@pytest.mark.parametrize("page", ["README.md", "LEIAME.md", "docs/index.md", "docs/quickstart.md", *HOWTO])
def test_what_is_not_run_says_why(page: str) -> None:
    for block in blocks(page, "", "bash"):
        for line in block.splitlines():
            if re.match(r"(unmask|make|torchrun|python|pip|curl)\b", line):
                assert any(line.startswith(command) for command in NOT_RUN), line


def test_leiame_says_what_readme_says() -> None:
    """The same sections, tree, links, commands, output, code and figures; what README shows is run."""
    both = ("README.md", "LEIAME.md")
    texts = [(ROOT / page).read_text("utf-8") for page in both]
    for pattern in (r"^#+ ", r"^ {0,2}([a-zA-Z/]+[/.]\w*) ", r"\]\((docs/[^)]+)\)"):
        readme, leiame = (re.findall(pattern, text, re.MULTILINE) for text in texts)
        assert readme == leiame
    readme_shown, leiame_shown = (
        [(shlex.split(line, comments=True), output) for line, output in examples(page)] for page in both
    )
    assert readme_shown == leiame_shown
    assert blocks("README.md", "python", "text") == blocks("LEIAME.md", "python", "text")
    readme_blocks, leiame_blocks = ([block.split()[:2] for block in blocks(page, "")] for page in both)
    assert readme_blocks == leiame_blocks
    tables = [[line for line in text.splitlines() if line.startswith("|")] for text in texts]
    assert [re.findall(r"\d+", row) for row in tables[0]] == [re.findall(r"\d+", row) for row in tables[1]]


def test_the_tree_of_readme_is_the_tree() -> None:
    tree = next(block for block in blocks("README.md", "") if block.startswith("src/unmask/"))
    source = ROOT / "src/unmask"
    inner = set(re.findall(r"(?:^  |· |and )([a-z]+(?:/|\.py))", tree, re.MULTILINE))
    files = {path.name for path in source.glob("*.py") if not path.name.startswith("__")}
    folders = {f"{path.name}/" for path in source.iterdir() if path.is_dir() and "__" not in path.name}
    assert inner == files | folders
    outer = re.findall(r"^(\w[\w./]*)", tree, re.MULTILINE)
    assert outer
    for name in outer:
        assert (ROOT / name).exists(), name


ALL_PAGES = [
    "README.md",
    "LEIAME.md",
    "CONTRIBUTING.md",
    "examples/README.md",
    *(str(path.relative_to(ROOT)) for path in sorted((ROOT / "docs").rglob("*.md"))),
]


def anchors(page: Path) -> set[str]:
    """The addresses of a page's headings, as GitHub and mkdocs make them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", ALL_PAGES)
def test_links_lead_somewhere(page: str) -> None:
    text = (ROOT / page).read_text("utf-8")
    for target, anchor in re.findall(r"\]\(([^)#\s]*)#?([^)\s]*)\)", text):
        if "://" not in target:
            there = (ROOT / page).parent / target if target else ROOT / page
            assert there.exists(), target
            assert not anchor or anchor in anchors(there), f"{target}#{anchor}"


def test_every_page_is_in_the_navigation() -> None:
    listed = (ROOT / "mkdocs.yml").read_text("utf-8")
    for path in (ROOT / "docs").rglob("*.md"):
        assert f": {path.relative_to(ROOT / 'docs')}\n" in listed, path


def messages() -> Iterator[str]:
    """Every text of the source, with … for what is put into it."""
    for path in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.JoinedStr):
                yield "".join(v.value if isinstance(v, ast.Constant) else "…" for v in node.values)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value


def test_troubleshooting_has_the_messages_of_the_code() -> None:
    told = re.findall(r"^### `(.+)`$", (ROOT / "docs/troubleshooting.md").read_text("utf-8"), re.MULTILINE)
    assert len(told) > 40
    real = list(messages())
    for message in told:
        pattern = re.compile(".*".join(map(re.escape, message.split("…"))), re.DOTALL)
        assert any(pattern.search(text) for text in real), message


RECIPES = ("bert-base", "roberta-base", "xlmr-base", "spanbert-base")


@pytest.mark.parametrize("name", RECIPES)
def test_every_line_of_a_published_recipe_is_explained(name: str) -> None:
    page = (ROOT / "docs/recipes.md").read_text("utf-8")
    section = page.split(f"\n## {name}\n")[1].split("\n## ")[0]
    explained = re.findall(r"^\| `(.+?)` \| (.+?) \| .+ \|$", section, re.MULTILINE)
    lines = (ROOT / f"src/unmask/recipes/{name}.toml").read_text("utf-8").splitlines()
    settings = [re.sub(r" +", " ", line.split("#")[0]).strip() for line in lines if re.match(r"\w", line)]
    assert [line for line, _ in explained] == settings
    for line, source in explained:
        comment = next(known for known in lines if known.startswith(line.split(" =")[0])).partition("# ")[2]
        assert comment in section or not comment, line
        assert len(source) > 2, line


@pytest.mark.parametrize("name", ["bert", "roberta", "xlmr"])
def test_what_a_large_recipe_has_of_its_own_is_explained(name: str) -> None:
    page = (ROOT / "docs/recipes.md").read_text("utf-8")
    section = page.split(f"\n## {name}-large\n")[1].split("\n## ")[0]
    explained = re.findall(r"^\| `(.+?)` \| (.+?) \|$", section, re.MULTILINE)
    base, large = (
        (ROOT / f"src/unmask/recipes/{name}-{size}.toml").read_text("utf-8").splitlines()
        for size in ("base", "large")
    )
    own = [line for line in large if re.match(r"\w", line) and line not in base]
    settings = [re.sub(r" +", " ", line.split("#")[0]).strip() for line in own]
    assert [line for line, _ in explained] == [line for line in settings if not line.startswith("family")]


# Ratios of the comparison that no page of results prints, and what they are ratios of.
DERIVED = {
    "2.5": ("102", "41"),
    "18.6": ("37.2", "2.0"),
    "1.59": ("10.28", "6.45"),
    "0.72": ("10.28", "14.23"),
}


def test_the_comparison_has_the_figures_of_the_results() -> None:
    page = (ROOT / "docs/comparison.md").read_text("utf-8")
    rows = re.findall(r"^\|.*\| ([^|]*\d[^|]*) \| ([\w-]+) \|$", page, re.MULTILINE)
    assert len(rows) > 10
    for figures, name in rows:
        results = (ROOT / f"benchmarks/results/{name}.md").read_text("utf-8")
        for figure in re.findall(r"(?<!\w)\d*\.\d+", figures):
            for part in DERIVED.get(figure, (figure.removeprefix("0"),)):
                assert part in results, f"{name}: {figure}"
            if figure in DERIVED:
                top, bottom = map(float, DERIVED[figure])
                assert f"{top / bottom:.{len(figure.partition('.')[2])}f}" == figure


def test_the_figures_of_readme_are_those_of_the_results() -> None:
    number = r"(?<!\w)\d+(?:,\d{3})*(?:\.\d+)?"
    link = r"^\| [^|]*\(benchmarks/results/([\w-]+)\.md\)[^|]* \| ([^|]+) \|$"
    rows = re.findall(link, (ROOT / "README.md").read_text("utf-8"), re.MULTILINE)
    assert len(rows) > 8
    for name, figures in rows:
        results = (ROOT / f"benchmarks/results/{name}.md").read_text("utf-8")
        measured = [float(each.replace(",", "")) for each in re.findall(number, results)]
        for figure in re.findall(number, figures):
            places = len(figure.partition(".")[2])
            assert any(f"{value:,.{places}f}" == figure for value in measured), f"{name}: {figure}"


def test_reference_pages_are_current() -> None:
    reference = load_tool("reference")
    for name, text in (("api.md", reference.api()), ("commands.md", reference.commands())):
        written = (ROOT / "docs" / name).read_text("utf-8")
        assert written == text, f"docs/{name} is out of date: python tools/reference.py writes it anew"


def test_every_public_name_is_in_the_reference() -> None:
    """What the package offers, and all that pages and examples import from it; chapters show its inside."""
    shown = set(unmask.__all__)
    examples = [path.read_text("utf-8") for path in (ROOT / "examples").glob("*.py")]
    pages = ["README.md", *(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md")), *HOWTO]
    for code in [*examples, *(block for page in pages for block in blocks(page, "python"))]:
        for line in re.findall(r"^from unmask[\w.]* import ([\w, ]+)$", code, re.MULTILINE):
            shown |= set(line.split(", "))
    listed = set(re.findall(r"^### (\w+)$", (ROOT / "docs/api.md").read_text("utf-8"), re.MULTILINE))
    assert shown <= listed, shown - listed
