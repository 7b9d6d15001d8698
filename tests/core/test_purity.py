"""The core stands alone: the standard library, no clock, no I/O, no binary floating point."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cases import each

SOURCE = Path(__file__).parents[2] / "src"
CORE = SOURCE / "usagebill" / "core"
FILES = sorted(CORE.rglob("*.py"))

# Modules through which a pure function could read the time, make an id, or reach outside the process.
IMPURE = {
    "io",
    "os",
    "pathlib",
    "random",
    "secrets",
    "socket",
    "sqlite3",
    "subprocess",
    "tempfile",
    "time",
    "urllib",
    "uuid",
}


def loaded_after(statements: str) -> set[str]:
    """Every module that an interpreter without site-packages has loaded once it has run `statements`."""
    program = f"import sys; sys.path.insert(0, {str(SOURCE)!r})\n{statements}\nprint(*sys.modules, sep='\\n')"
    done = subprocess.run([sys.executable, "-I", "-S", "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


def test_every_core_module_imports_with_site_packages_hidden() -> None:
    loaded = loaded_after(
        "import importlib, pkgutil, usagebill.core\n"
        "for found in pkgutil.walk_packages(usagebill.core.__path__, 'usagebill.core.'):\n"
        "    importlib.import_module(found.name)"
    )
    assert "usagebill.core.numbers" in loaded
    ours = {name for name in loaded if name.partition(".")[0] == "usagebill"}
    assert {name for name in ours if not name.startswith("usagebill.core")} == {"usagebill"}
    foreign = {name for name in loaded - ours if name.partition(".")[0] not in {*sys.stdlib_module_names, "__main__"}}
    assert foreign == set()


def test_importing_the_core_alone_loads_none_of_its_modules() -> None:
    loaded = loaded_after("import usagebill.core")
    assert {name for name in loaded if name.startswith("usagebill")} == {"usagebill", "usagebill.core"}


def names_in(annotation: ast.expr) -> Iterator[str]:
    for node in ast.walk(annotation):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from names_in(ast.parse(node.value, mode="eval").body)


def annotated(tree: ast.AST) -> Iterator[ast.expr]:
    for node in ast.walk(tree):
        if isinstance(node, ast.arg | ast.AnnAssign) and node.annotation:
            yield node.annotation
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.returns:
            yield node.returns


def binary_floats(source: str) -> list[str]:
    """Where `source` computes with binary floating point or rounds by the built-in, one line each."""
    tree = ast.parse(source)
    problems = [f"line {note.lineno}: a float annotation" for note in annotated(tree) if "float" in names_in(note)]
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in {"float", "round"}:
            problems.append(f"line {node.lineno}: {node.func.id}()")
        elif isinstance(node, ast.Constant) and isinstance(node.value, float):
            problems.append(f"line {node.lineno}: the float literal {node.value!r}")
    return problems


def impurities(source: str) -> list[str]:
    """Where `source` reads a clock, makes ids at random or does I/O, one line each."""
    problems: list[str] = []
    for node in ast.walk(ast.parse(source)):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names = [node.module or ""]
        elif isinstance(node, ast.Call):
            if isinstance(node.func, ast.Attribute) and node.func.attr in {"now", "utcnow", "today"}:
                problems.append(f"line {node.lineno}: reads the clock with .{node.func.attr}()")
            elif isinstance(node.func, ast.Name) and node.func.id in {"input", "open", "print"}:
                problems.append(f"line {node.lineno}: {node.func.id}()")
        problems += [f"{name} is imported" for name in names if name.partition(".")[0] in IMPURE]
    return problems


@each("file", FILES, ids=lambda file: str(file.relative_to(CORE)))
def test_core_file_is_free_of_floats_clocks_and_io(file: Path) -> None:
    source = file.read_text(encoding="utf-8")
    assert binary_floats(source) + impurities(source) == []


@pytest.mark.parametrize(
    "source",
    [
        "rate = float(text)",
        "rate: float = 1",
        "def price(units: list[float]) -> None: ...",
        "def price() -> float | None: ...",
        "def price() -> 'float': ...",
        "cents = round(amount)",
        "half = 0.5",
    ],
)
def test_binary_floats_are_found(source: str) -> None:
    assert binary_floats(source)


@pytest.mark.parametrize("source", ["import uuid", "from os import path", "today = date.today()", "open('x')"])
def test_impurities_are_found(source: str) -> None:
    assert impurities(source)
