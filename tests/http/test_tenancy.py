"""No request of one organization reads or changes what belongs to another."""

from __future__ import annotations

import json
import re
import zipfile
from io import BytesIO
from typing import Any

import pytest
from tests.sample_records import VERBS, in_order, invoiced, request_of, world
from tests.scenarios import Scenario

from usagebill.core.organizations import Organization
from usagebill.operations import api_keys, organizations
from usagebill.storage.tables import TABLES

_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


def everything(box: Scenario) -> dict[str, list[Any]]:
    """Every record of the sandbox's own organization."""
    return box.billing.reading(
        lambda work: {
            table.name: work.tx.find(table.kind, deleted=True) for table in TABLES if table.kind is not Organization
        }
    )


def text_of(answer: Any) -> str:
    """All that an answer says; of a ZIP file, all that its files say."""
    if not isinstance(answer, bytes):
        return json.dumps(answer)
    with zipfile.ZipFile(BytesIO(answer)) as files:
        return "".join(files.read(name).decode("latin-1") for name in files.namelist())


@pytest.mark.parametrize(
    "with_namesakes",
    [False, pytest.param(True, marks=pytest.mark.slow)],
    ids=["empty", "with records of the same codes"],
)
def test_every_operation_keeps_to_its_own_organization(with_namesakes: bool) -> None:
    with Scenario(now="2024-03-05T10:00:00Z") as box:
        known = world(box)
        other = box.billing.store.write(None, lambda tx: organizations.create(tx, box.now, "Other"))
        _, value = box.billing.writing(lambda work: api_keys.create(work), other)
        key = {"authorization": f"Bearer {value}"}
        if with_namesakes:
            previous_key, box.api_key = box.api_key, value
            world(box)
            box.api_key = previous_key
        invoiced(box, known)
        before = everything(box)
        assert sum(map(bool, before.values())) > 20
        theirs = {record.id for records in before.values() for record in records}
        reached = 0
        for verb, endpoint in sorted(VERBS, key=in_order):
            path, body = request_of(verb, endpoint, known)
            status, answer = box.request(verb, path, json=body, headers=key)
            assert status in (200, 404, 405, 422), (verb, path, answer)
            # A refusal may name the requested id, and nothing else.
            named = {*_ID.findall(text_of(answer))} - {*_ID.findall(path + json.dumps(body))}
            assert theirs.isdisjoint(named if status != 200 else _ID.findall(text_of(answer))), (verb, path, answer)
            reached += status == 200
            if _ID.search(path):
                assert status == 404, (verb, path, answer)
        # Enough of them were understood for the test to mean something.
        assert reached > (60 if with_namesakes else 30)
        assert everything(box) == before
