"""Checks all traffic through `Sandbox` against our own description, and the reference's if it is available."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from functools import cache
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from hypothesis import settings

from tests.api_shapes import SHAPES, ShapeChecker
from tests.examples import FAST, FEW
from tests.postgresql import new_database
from tests.scenarios import Scenario
from usagebill.core.error_codes import UNNAMED
from usagebill.testing import Sandbox

# The time of an example says more about the machine than about the code.
settings.register_profile("usagebill", deadline=None)
settings.register_profile(FAST, deadline=None, max_examples=FEW)
settings.load_profile("usagebill")


def pytest_collection_finish() -> None:
    """Exempt objects that live for the whole run from garbage collection: modules and thousands of collected tests."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


@pytest.fixture
def box(request: pytest.FixtureRequest) -> Iterator[Scenario]:
    """A sandbox; `pytest.mark.now("2024-03-01T00:00:00Z")` on the test or its module sets its clock."""
    marker = request.node.get_closest_marker("now")
    assert marker is not None, "say with pytest.mark.now what the clock shows"
    with Scenario(now=marker.args[0]) as box:
        yield box


@pytest.fixture
def acme(box: Scenario) -> None:
    """A sandbox with the customer `acme`."""
    box.customer()


_ENGINES = ["sqlite", pytest.param("postgresql", marks=pytest.mark.second_engine)]


@pytest.fixture(params=_ENGINES)
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The argument of `Billing(database)`: a file that does not exist yet, then a database without tables."""
    if request.param == "sqlite":
        yield str(tmp_path / "billing.db")
        return
    # Imported here: most tests need no server.
    from tests.postgresql import new_database

    with new_database() as url:
        yield url


@pytest.fixture(scope="session")
def database_with_tables() -> Iterator[str]:
    """A database with all tables, to copy: that takes a tenth of the time of making them."""
    from tests.postgresql import new_database
    from usagebill.storage.postgresql import PostgresStore

    with new_database() as url:
        PostgresStore(url).close()
        yield url


@pytest.fixture(params=_ENGINES)
def empty_database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The argument of `Billing(empty_database)`: a file that does not exist yet, then a database without rows."""
    if request.param == "sqlite":
        yield str(tmp_path / "billing.db")
        return
    from tests.postgresql import copied_database

    with copied_database(request.getfixturevalue("database_with_tables")) as url:
        yield url


@pytest.fixture(scope="module", params=_ENGINES)
def sandbox_engine(request: pytest.FixtureRequest) -> Iterator[None]:
    """Each `Sandbox` of the module works in memory, then on a PostgreSQL server."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "postgresql":
            from tests.postgresql import server_url

            patch.setenv("USAGEBILL_SANDBOX_DATABASE", server_url())
        yield


@pytest.fixture(scope="session", autouse=True)
def few_signing_keys() -> Iterator[None]:
    """Organizations of tests sign with one of three keys in turn: making one takes as long as three tests."""
    generate = rsa.generate_private_key
    key = cache(lambda _: generate(public_exponent=65537, key_size=2048))
    turns = cycle(range(3))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rsa, "generate_private_key", lambda **_: key(next(turns)))
        yield


@pytest.fixture(scope="session")
def shape_checkers() -> list[ShapeChecker]:
    """The checkers of all HTTP traffic in tests: our own description, and the reference's if it is available."""
    return [ShapeChecker.of_description(), *([ShapeChecker.of_reference()] if SHAPES.exists() else [])]


@pytest.fixture(autouse=True)
def shapes_beyond_the_reference(request: pytest.FixtureRequest, shape_checkers: list[ShapeChecker]) -> Iterator[None]:
    """Leaves the reference out for tests with this mark: it lacks the fields that they add."""
    left_out = shape_checkers[1:] if request.node.get_closest_marker("beyond_reference") else []
    del shape_checkers[len(shape_checkers) - len(left_out) :]
    yield
    shape_checkers.extend(left_out)


@pytest.fixture(scope="session", autouse=True)
def shapes_of_http_traffic(shape_checkers: list[ShapeChecker]) -> Iterator[None]:
    """Makes `Sandbox.request` and leaving a `Sandbox` fail the test whose responses or webhooks have a wrong shape."""
    checkers = shape_checkers
    request, leave = Sandbox.request, Sandbox.__exit__

    def checked_request(box: Any, method: str, path: str, json: Any = None, **rest: Any) -> tuple[int, Any]:
        status, body = request(box, method, path, json=json, **rest)
        if box.billing.settings.id_prefix == "svc_":
            problems = [text for checker in checkers for text in checker.check(method, path, status, body)]
            assert not problems, "\n".join(problems)
        if isinstance(body, dict) and 400 <= status < 500 and "status" in body:
            # Each code that is sent has its row in the table.
            assert body["message"], body
            assert UNNAMED.meaning + "; " + UNNAMED.remedy not in body["message"], body
        return status, body

    def checked_leave(box: Any, kind: type[BaseException] | None, *rest: Any) -> Any:
        problems = [
            text
            for message in ([] if kind or box.billing.settings.id_prefix != "svc_" else box.webhooks)
            for checker in checkers
            for text in checker.check_webhook(message)
        ]
        left = leave(box, kind, *rest)
        assert not problems, "\n".join(problems)
        return left

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Sandbox, "request", checked_request)
        patch.setattr(Sandbox, "__exit__", checked_leave)
        yield


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.second_engine)])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A new database of each engine; a module that needs one engine has a fixture of this name of its own."""
    if request.param == "sqlite":
        yield str(tmp_path / "billing.db")
        return
    with new_database() as database:
        yield database
