"""Files say what they hold."""

from __future__ import annotations

import re
from pathlib import Path

from tests.cases import each

PACKAGE = Path(__file__).parents[1] / "src" / "usagebill"
FILES = sorted(PACKAGE.rglob("*.py"))
VAGUE = re.compile(r"(utils?|helpers?|common|misc|base|managers?|shared)(_[a-z]+)?")


@each("file", FILES, ids=lambda file: str(file.relative_to(PACKAGE)))
def test_file_is_named_for_what_it_holds(file: Path) -> None:
    place = file.relative_to(PACKAGE)
    assert [part for part in place.with_suffix("").parts if VAGUE.fullmatch(part)] == []
