"""A read-only copy of a database can be audited, and stays unchanged."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from click.testing import CliRunner
from tests.service import command_here

from usagebill import Billing
from usagebill.cli import main

NOBODY = 65534


@pytest.fixture
def file(tmp_path: Path) -> Path:
    folder = tmp_path / "copies"
    folder.mkdir()
    with Billing(folder / "billing.db", deliver=False) as billing:
        billing.customers.upsert(external_id="acme")
    return folder / "billing.db"


def test_an_audit_changes_nothing(file: Path) -> None:
    before = file.read_bytes()
    assert command_here("audit", "--db", str(file)).startswith("Default organization: 0 found")
    assert file.read_bytes() == before


@contextmanager
def as_nobody() -> Iterator[None]:
    """Without the superuser's right to write everywhere, where the tests run as that."""
    is_root = os.geteuid() == 0
    if is_root:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        if is_root:
            os.seteuid(0)


def count_findings(file: Path) -> int:
    with Billing(file, read_only=True) as copy:
        return copy.audit().found


def test_a_copy_in_a_folder_that_is_only_read_can_be_audited(file: Path) -> None:
    # Once as usual, so that nothing is left to import from where only the superuser may read.
    assert count_findings(file) == 0
    # Beside the folders of the other tests, which nobody else may look into.
    with TemporaryDirectory() as folder:
        copy = Path(shutil.copy(file, folder))
        copy.chmod(0o444)
        copy.parent.chmod(0o555)
        with as_nobody():
            with pytest.raises(OSError, match="ermission denied"):
                (copy.parent / "new").touch()
            assert count_findings(copy) == 0
        copy.parent.chmod(0o755)
        assert [other.name for other in copy.parent.iterdir()] == ["billing.db"]


def test_what_other_processes_wrote_and_not_yet_moved_is_audited_too(file: Path, tmp_path: Path) -> None:
    with Billing(file, deliver=False) as billing:
        billing.customers.upsert(external_id="late")
        shutil.copy(file, tmp_path / "copy.db")
        shutil.copy(f"{file}-wal", tmp_path / "copy.db-wal")
    with Billing(tmp_path / "copy.db", read_only=True) as copy:
        assert copy.customers.list().total_count == 2
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            copy.customers.upsert(external_id="refused")


def test_a_copy_of_an_earlier_version_says_what_to_do(file: Path) -> None:
    connection = sqlite3.connect(file)
    connection.execute("PRAGMA user_version = 2")
    connection.close()
    refused = CliRunner().invoke(main, ["audit", "--db", str(file)])
    assert refused.exit_code == 1
    assert "any command that writes brings it" in refused.stderr
