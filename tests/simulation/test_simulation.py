"""Whole companies that nobody has tried, those that once failed, and the independence of what judges them."""

from __future__ import annotations

import ast
import json
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from usagebill.cli import main
from usagebill.simulation import oracle
from usagebill.simulation.companies import Company, company_of, from_json, to_json
from usagebill.simulation.oracle.judging import judged
from usagebill.simulation.playing import play
from usagebill.simulation.running import Seen, seen_in, shortest
from usagebill.simulation.shrinking import shrunk

FOUND = sorted((Path(__file__).parent / "found").glob("*.json"))
# A third of a year: each in a second or two.
YEARS = 0.35
FIRST_SEED = 1_000_000
# New ones for each state of the files, by the seed that `scripts/test` takes from them.
FIRST_NEW_SEED = 10_000_000


@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + 3))
def test_companies_come_to_what_the_oracle_says(seed: int) -> None:
    seen = seen_in(company_of(seed, YEARS))
    assert seen.differences == [], f"usagebill simulate --seed {seed} --years {YEARS}"
    assert seen.opinions.total() > 0


@pytest.mark.parametrize("place", range(3))
def test_new_companies_come_to_what_the_oracle_says(place: int, pytestconfig: pytest.Config) -> None:
    seed = FIRST_NEW_SEED + int(pytestconfig.getoption("--hypothesis-seed") or 0) + place
    assert seen_in(company_of(seed, YEARS)).differences == [], f"usagebill simulate --seed {seed} --years {YEARS}"


@pytest.mark.parametrize("path", FOUND, ids=lambda path: path.stem)
def test_a_company_that_once_failed_does_not(path: Path) -> None:
    assert seen_in(from_json(path.read_text())).differences == []


def test_a_seed_is_always_the_same_company_also_read_from_its_text() -> None:
    company = company_of(4711, YEARS)
    assert company == company_of(4711, YEARS) != company_of(4712, YEARS)
    assert from_json(to_json(company)) == company


def test_the_oracle_imports_nothing_but_itself_and_the_standard_library() -> None:
    for path in Path(str(oracle.__file__)).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                names = [str(node.module)]
            for name in names:
                is_own = name.startswith("usagebill.simulation.oracle.")
                assert is_own or name.partition(".")[0] in sys.stdlib_module_names, f"{path.name} imports {name}"


def test_the_oracle_sees_a_wrong_cent() -> None:
    played = play(company_of(2, YEARS))
    assert judged(played.log, played.papers).differences == []
    fee = max(played.papers["fees"], key=lambda fee: fee["amount_cents"])
    fee["amount_cents"] += 1
    invoice = next(one for one in played.papers["invoices"] if one["status"] == "finalized")
    invoice["taxes_amount_cents"] += 1
    kinds = {difference.partition(":")[0] for difference in judged(played.log, played.papers).differences}
    assert kinds >= {"fee", "taxes"}


@pytest.mark.slow
def test_a_company_comes_to_the_same_papers_however_the_work_is_done() -> None:
    assert seen_in(company_of(2, 0.2), ways=True).differences == []


def test_a_company_is_shortened_to_the_steps_that_matter() -> None:
    company = company_of(2, YEARS)
    shorter = shrunk(company, lambda one: any(step["call"] == "events.create" for step in one.steps))
    assert [step["call"] for step in shorter.steps] == ["events.create"]


def test_a_failure_is_printed_as_a_company_that_can_be_kept_and_replayed(tmp_path: Path) -> None:
    def fails(company: Company, *, ways: bool = False) -> Seen:
        seen = seen_in(company)
        if any(step["call"] == "subscriptions.create" for step in company.steps):
            seen.differences.append("planted: a subscription")
        return seen

    company = company_of(3, 0.1)
    shorter = shortest(company, ["planted: a subscription"], fails)
    assert [step["call"] for step in shorter.steps] == ["subscriptions.create"]
    kept = tmp_path / "kept.json"
    kept.write_text(to_json(shorter))
    assert json.loads(kept.read_text())["steps"]
    answer = CliRunner().invoke(main, ["simulate", "--replay", str(kept)])
    assert answer.exit_code == 0, answer.output


def test_the_command_says_what_it_did_and_what_it_has_no_opinion_on() -> None:
    answer = CliRunner().invoke(main, ["simulate", "--seed", "1", "--years", "0.3", "--coverage"])
    assert answer.exit_code == 0, answer.output
    assert "0.3 company-years in 1 companies" in answer.output
    assert "% of what is shown" in answer.output
    assert "0 differences" in answer.output
    assert "events.create" in answer.output
    assert "bill_customer" in answer.output
