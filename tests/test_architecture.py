"""The plan of the house, kept true: who may import whom, no cycles, no torch where it does not belong."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "src" / "unmask"
# Each stage may import itself and the stages on its left.
STAGES = "text tokenizer data model checkpoint predict analyse train tasks evaluation".split()
EVERYONE = set("charts config errors files processes progress report runs sections target".split())
SERVE_MAY = EVERYONE | set(STAGES[: STAGES.index("analyse") + 1])
MODEL_MAY = {"config", "errors", "model", "sections"}


def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def module_name(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(path: Path, *, top_only: bool = False) -> set[str]:
    """Dotted names of what a module imports; `top_only` leaves out imports inside functions."""
    tree = ast.parse(path.read_text("utf-8"))
    inside = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        for inner in ast.walk(node)
    }
    names: set[str] = set()
    for node in ast.walk(tree):
        if top_only and id(node) in inside:
            continue
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def rooms(names: set[str]) -> set[str]:
    return {name.split(".")[1] for name in names if name.startswith("unmask.")}


@pytest.mark.parametrize("path", modules(), ids=module_name)
def test_imports_go_left(path: Path) -> None:
    room = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    used = rooms(imports(path)) - {room, "__version__"}
    if room in {"cli", "demo", "__init__", "__main__"}:
        return
    if room in EVERYONE:
        assert used <= EVERYONE, f"{room} stands below every stage"
    elif room == "model":
        assert used <= MODEL_MAY
    elif room == "serve":
        assert used <= SERVE_MAY
    else:
        assert used <= EVERYONE | set(STAGES[: STAGES.index(room)])


def test_no_import_cycles() -> None:
    names = {module_name(path): path for path in modules()}
    graph = {
        name: {
            target
            for imported in imports(path, top_only=True)
            for target in (imported, imported.rpartition(".")[0])
            if target in names and target != name
        }
        for name, path in names.items()
    }
    graph["unmask.cli"] = set()  # it registers its own commands, which import nothing of it but options
    done: set[str] = set()

    def visit(name: str, path: tuple[str, ...]) -> None:
        assert name not in path, " -> ".join([*path, name])
        if name in done:
            return
        for target in graph[name]:
            # a module imports its own package's other modules; the package's __init__ re-exports them
            if not name.startswith(target + "."):
                visit(target, (*path, name))
        done.add(name)

    for name in graph:
        visit(name, ())


@pytest.mark.parametrize("room", ["text", "tokenizer"])
def test_no_torch_in_text_and_tokenizer(room: str) -> None:
    for path in (PACKAGE / room).rglob("*.py"):
        assert not any(name.split(".")[0] == "torch" for name in imports(path)), path


@pytest.mark.parametrize(
    "statement",
    [
        "import unmask.text, unmask.tokenizer",
        "import unmask.data.prepare",
        "import sys; sys.argv = ['unmask', '--help']; from unmask.cli import main; main()",
        "import sys; sys.argv = ['unmask', '--version']; from unmask.cli import main; main()",
    ],
)
def test_light_doors_do_not_load_torch(statement: str) -> None:
    told = "print('heavy' if 'torch' in sys.modules else 'light')"
    code = f"import sys, atexit\natexit.register(lambda: {told})\n{statement}"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert run.stdout.splitlines()[-1] == "light"
    assert "transformers" not in run.stdout


def test_package_never_imports_transformers() -> None:
    for path in modules():
        used = {name.split(".")[0] for name in imports(path)}
        assert not used & {"transformers", "pickle", "sentence_transformers"}, path
