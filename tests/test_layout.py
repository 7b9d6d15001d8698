"""Files say what they hold, and hold one idea each."""

from __future__ import annotations

import re
from pathlib import Path

from tests.cases import each

PACKAGE = Path(__file__).parents[1] / "src" / "usagebill"
FILES = sorted(PACKAGE.rglob("*.py"))
MOST_LINES = 600
VAGUE = re.compile(r"(utils?|helpers?|common|misc|base|managers?|shared)(_[a-z]+)?")


@each("file", FILES, ids=lambda file: str(file.relative_to(PACKAGE)))
def test_file_is_named_for_what_it_holds_and_is_not_too_long(file: Path) -> None:
    place = file.relative_to(PACKAGE)
    assert [part for part in place.with_suffix("").parts if VAGUE.fullmatch(part)] == []
    assert len(file.read_text(encoding="utf-8").splitlines()) <= MOST_LINES
