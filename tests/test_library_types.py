"""Arguments of every verb are known: to mypy, pyright, IDEs and `help()`, from one place."""

from __future__ import annotations

import inspect
import json
import pydoc
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import get_args, get_type_hints, is_typeddict
from zipfile import ZipFile

import pytest
from scripts.library_stubs import SOURCES, stubs

from tests.cases import each
from usagebill import Billing, fields
from usagebill.resources import RESOURCES
from usagebill.resources.bindings import Operation

ROOT = Path(__file__).parents[1]
CALLS = ROOT / "tests" / "library_calls"
OPERATIONS = {
    f"{name}.{verb}": value
    for name, kind in RESOURCES.items()
    for verb, value in vars(kind).items()
    if isinstance(value, Operation)
}


def refused_lines(file: Path) -> list[int]:
    lines = file.read_text(encoding="utf-8").splitlines()
    return [number for number, line in enumerate(lines, 1) if "# refused:" in line]


def test_stubs_are_those_of_the_code() -> None:
    behind = [
        name
        for name, text in stubs().items()
        if not (SOURCES / name).exists() or (SOURCES / name).read_text(encoding="utf-8") != text
    ]
    assert behind == [], "run `python -m scripts.library_stubs`"


@pytest.mark.slow
def test_a_wheel_has_the_stubs_and_says_that_it_is_typed(tmp_path: Path) -> None:
    """They come from the build: a clean checkout has none."""
    checkout = tmp_path / "checkout"
    ignored = shutil.ignore_patterns("*.pyi", "__pycache__")
    for name in ("src", "scripts"):
        shutil.copytree(ROOT / name, checkout / name, ignore=ignored)
    for name in (".gitignore", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, checkout)
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=checkout, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    with ZipFile(wheel) as archive:
        built = {name: archive.read(name).decode() for name in archive.namelist() if name.endswith((".pyi", ".typed"))}
    assert built == {**stubs(), "usagebill/py.typed": ""}
    assert list(checkout.rglob("*.pyi")) == []


def test_types_of_nested_arguments_are_there_at_run_time() -> None:
    hints = get_type_hints(fields.ChargeFilterFields)
    assert hints["invoice_display_name"] == str | None
    assert fields.ChargeProperties in get_args(get_type_hints(fields.ChargeFields)["properties"])
    for name in fields.typed_fields():
        assert is_typeddict(getattr(fields, name)), name
    with pytest.raises(ImportError, match="ChargeField"):
        exec("from usagebill.fields import ChargeField")


@pytest.mark.slow
def test_mypy_tells_right_calls_from_wrong_ones() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--no-error-summary", str(CALLS / "right.py"), str(CALLS / "wrong.py")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    errors = re.findall(r"^(\S+?):(\d+): error", done.stdout, re.MULTILINE)
    assert [row for row in errors if not row[0].endswith("wrong.py")] == [], done.stdout + done.stderr
    assert sorted({int(line) for _, line in errors}) == refused_lines(CALLS / "wrong.py"), done.stdout


@pytest.mark.slow
def test_pyright_tells_right_calls_from_wrong_ones(tmp_path: Path) -> None:
    settings = {
        "include": [str(CALLS)],
        "extraPaths": [str(ROOT / "src")],
        "pythonVersion": "3.11",
        "typeCheckingMode": "standard",
        "reportUnusedExpression": "none",
    }
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    done = subprocess.run(
        [sys.executable, "-m", "basedpyright", "--outputjson", "--pythonpath", sys.executable, "-p", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    report = json.loads(done.stdout)["generalDiagnostics"]
    errors = [
        (Path(row["file"]).name, row["range"]["start"]["line"] + 1) for row in report if row["severity"] == "error"
    ]
    assert [row for row in errors if row[0] != "wrong.py"] == [], done.stdout
    assert sorted({line for _, line in errors}) == refused_lines(CALLS / "wrong.py"), done.stdout


@pytest.fixture(scope="module")
def billing() -> Iterator[Billing]:
    with Billing() as billing:
        yield billing


@each("name,operation", OPERATIONS.items(), ids=lambda case: case[0])
def test_help_names_every_argument(name: str, operation: Operation[object], billing: Billing) -> None:
    resource, verb = name.split(".")
    method = getattr(getattr(billing, resource), verb)
    text = pydoc.plain(pydoc.render_doc(method))
    assert [argument.name for argument in operation.described] == list(inspect.signature(method).parameters)
    for argument in operation.described:
        assert f"{argument.name}: {argument.field.about}" in text
    assert operation.name == name


def test_help_of_a_resource_lists_its_verbs(billing: Billing) -> None:
    text = pydoc.plain(pydoc.render_doc(billing.plans))
    assert "create(self, /, *, name: 'str', code: 'str', interval: 'Literal[" in text
    assert "get_fixed_charge(self, /, " in text
