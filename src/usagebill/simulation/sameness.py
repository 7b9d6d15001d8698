"""What must not depend on how the work is done: on when workers run, on restarts, on workers that die.

A company is lived again in other ways, and must come to the same papers, but for ids and times of work.
"""

from __future__ import annotations

import json
import os
import re
import sqlite3
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

from usagebill.billing import Billing
from usagebill.runtime.clock import ManualClock
from usagebill.simulation.companies import Company
from usagebill.simulation.playing import Played, play

_COMPARED = (
    "invoices",
    "fees",
    "credit_notes",
    "applied_coupons",
    "payments",
    "wallets",
    "wallet_transactions",
    "events",
    "unbilled",
)
# Of one run alone: ids, times of work, the organization's part of a number, and whether somebody was told already that
# an invoice is overdue.
_OWN = ("invoice_ids", "reference", "version_number", "payment_overdue")
_ORGANIZATION = re.compile(r"\bDEF-[0-9A-F]{4}\b")


def unlike(company: Company, played: Played) -> list[str]:
    """Every way of working in which the company comes to other papers than those `played`, as a sentence."""
    found = []
    expected = _texts(played)
    for name, again in WAYS.items():
        with TemporaryDirectory() as folder:
            texts = _texts(again(company, Path(folder) / "company.db"))
        for kind in _COMPARED:
            if texts[kind] != expected[kind]:
                gone = [text for text in expected[kind] if text not in texts[kind]]
                new = [text for text in texts[kind] if text not in expected[kind]]
                first = f"{gone[0] if gone else 'nothing'} became {new[0] if new else 'nothing'}"
                found.append(f"{name}: {kind}: {len(gone)} gone, {len(new)} new: {first}")
    return found


def _texts(played: Played) -> dict[str, list[str]]:
    return {kind: sorted(_text(_bare(paper)) for paper in played.papers[kind]) for kind in _COMPARED}


def _text(value: object) -> str:
    return json.dumps(value, sort_keys=True, default=str)


def _bare(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _bare(inner) for key, inner in value.items() if not _is_own(key)}
    if isinstance(value, list):
        return sorted(
            (_bare(inner) for inner in value), key=lambda inner: json.dumps(inner, sort_keys=True, default=str)
        )
    return _ORGANIZATION.sub("DEF", value) if isinstance(value, str) else value


def _is_own(key: str) -> bool:
    return key.startswith("svc_") or key.endswith("_at") or key in _OWN


def _late(company: Company, file: Path) -> Played:
    return play(company, leaps=True)


def _reopened(company: Company, file: Path) -> Played:
    return play(company, file=file, leaps=True, between=lambda at: None)


def _dying(company: Company, file: Path) -> Played:
    chance = Random(len(company.steps))
    return play(company, file=file, leaps=True, between=lambda at: die(file, at, chance.randint(1, 400)))


def die(file: Path, at: datetime, statements: int) -> None:
    """Have a process of its own do what is due, and end it without a word before its so manieth statement."""
    child = os.fork()
    if child == 0:
        try:
            _work_until_death(file, at, statements)
        finally:
            os._exit(9)
    os.waitpid(child, 0)


def _work_until_death(file: Path, at: datetime, statements: int) -> None:
    left = statements
    connect = sqlite3.connect

    def count(statement: str) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            os._exit(9)

    def traced(*arguments: Any, **options: Any) -> sqlite3.Connection:
        connection: sqlite3.Connection = connect(*arguments, **options)
        connection.set_trace_callback(count)
        return connection

    sqlite3.connect = traced  # type: ignore[assignment]
    billing = Billing(str(file), clock=ManualClock(at), deliver=False)
    billing.run_due()
    billing.close()


WAYS: Mapping[str, Callable[[Company, Path], Played]] = {
    "workers that sleep until each step": _late,
    "a file that is closed and opened before each step": _reopened,
    "workers that die between two statements": _dying,
}
