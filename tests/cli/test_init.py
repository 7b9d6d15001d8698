"""A billing system is made on purpose: by `usagebill init`, not by a server that was given a wrong path."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.postgresql import new_database

from usagebill import Billing
from usagebill.cli import main
from usagebill.http.credentials import key_hash
from usagebill.operations import api_keys


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.second_engine)])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "sqlite":
        yield str(tmp_path / "billing.db")
        return
    with new_database() as url:
        yield url


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


def test_a_system_is_made_once_and_its_key_is_in_a_file_alone(database: str, tmp_path: Path) -> None:
    key_file = tmp_path / "key"
    made = run("init", "--db", database, "--key-file", str(key_file))
    assert made.exit_code == 0, made.output
    value = key_file.read_text().strip()
    assert stat.S_IMODE(key_file.stat().st_mode) == 0o600
    assert value not in made.output
    with Billing(database) as billing:
        (key,) = billing.api_keys.list().items
        hashed = key_hash(f"Bearer {value}")
        assert hashed is not None
        found = billing._system.ask(lambda tx: api_keys.by_hash(tx, hashed))
        assert (found, key.name) == (key, "First key")
    again = run("init", "--db", database, "--key-file", str(tmp_path / "other"))
    assert (again.exit_code, "there is a billing system already" in again.output) == (1, True)
    assert not (tmp_path / "other").exists()


def test_without_a_terminal_a_file_for_the_key_is_needed(database: str) -> None:
    refused = run("init", "--db", database)
    assert (refused.exit_code, "--key-file is needed" in refused.output) == (2, True)


def test_a_key_file_that_is_there_is_kept_and_nothing_made(database: str, tmp_path: Path) -> None:
    key_file = tmp_path / "key"
    key_file.write_text("mine")
    refused = run("init", "--db", database, "--key-file", str(key_file))
    assert (refused.exit_code, key_file.read_text()) == (1, "mine")
    assert "there is no billing system" in run("serve", "--must-exist", "--port", "0", "--db", database).output


@pytest.mark.parametrize("place", ["missing/billing.db", "text"])
def test_an_init_that_fails_leaves_no_key_file(tmp_path: Path, place: str) -> None:
    (tmp_path / "text").write_text("not a database, but something longer than the head of one\n" * 10)
    refused = run("init", "--db", str(tmp_path / place), "--key-file", str(tmp_path / "key"))
    assert refused.exit_code == 1
    assert not (tmp_path / "key").exists()


def test_a_key_that_cannot_be_written_is_not_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    key_file = tmp_path / "key"
    with monkeypatch.context() as disk:
        disk.setattr(Path, "write_text", full)
        refused = run("init", "--db", str(tmp_path / "billing.db"), "--key-file", str(key_file))
    assert (refused.exit_code, f"{key_file}: No space left on device" in refused.output) == (1, True)
    assert not key_file.exists()
    with Billing(tmp_path / "billing.db") as billing:
        assert billing.api_keys.list().items == []


def test_a_server_that_must_find_a_system_makes_none(database: str, tmp_path: Path) -> None:
    refused = run("serve", "--must-exist", "--port", "0", "--db", database)
    assert (refused.exit_code, "`usagebill init` makes one" in refused.output) == (1, True)
    assert list(tmp_path.iterdir()) == []
