"""The code of the package as syntax trees, parsed once a process."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "src" / "usagebill"


@cache
def trees() -> dict[Path, ast.Module]:
    """The code of every file, by its place in the package."""
    files = sorted(PACKAGE.rglob("*.py"))
    return {file.relative_to(PACKAGE): ast.parse(file.read_text(encoding="utf-8")) for file in files}


@cache
def nodes() -> dict[Path, tuple[ast.AST, ...]]:
    """All nodes of every file, by its place in the package: a walk takes as long as parsing."""
    return {place: tuple(ast.walk(tree)) for place, tree in trees().items()}
