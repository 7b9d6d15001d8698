"""Copies of records: what `dataclasses.replace` gives, for every kind of record that is stored."""

from __future__ import annotations

import dataclasses
from dataclasses import FrozenInstanceError, dataclass, fields

import pytest
from tests.core.builders import contract, fee, fees, invoice, parties, subscription, tax

from usagebill.core.copies import maker, replace
from usagebill.storage.tables import TABLES

RECORDS = [fee(100), invoice(), subscription(), contract(), parties(), tax("20"), *fees(1, 2)]


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: type(record).__name__)
def test_a_copy_is_what_the_standard_library_makes(record: object) -> None:
    for item in fields(record):  # type: ignore[arg-type]
        changed = replace(record, **{item.name: "changed"})  # type: ignore[type-var]
        assert changed == dataclasses.replace(record, **{item.name: "changed"})  # type: ignore[type-var]
        assert changed is not record
        assert getattr(changed, item.name) == "changed"
    assert replace(record) == record  # type: ignore[type-var]


def test_the_original_stays_and_the_copy_cannot_be_changed() -> None:
    line = fee(100)
    copy = replace(line, amount_cents=5)
    assert (line.amount_cents, copy.amount_cents) == (100, 5)
    with pytest.raises(FrozenInstanceError):
        copy.amount_cents = 6  # type: ignore[misc]


def test_a_field_that_is_none_is_refused() -> None:
    with pytest.raises(TypeError, match="Fee has no field 'amount'"):
        replace(fee(100), amount=5)  # type: ignore[call-arg]


def test_records_that_work_fields_out_are_refused() -> None:
    @dataclass(frozen=True, slots=True)
    class Doubled:
        value: int

        def __post_init__(self) -> None:
            object.__setattr__(self, "value", self.value * 2)

    with pytest.raises(TypeError, match="Doubled"):
        replace(Doubled(1), value=3)


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: type(record).__name__)
def test_a_record_made_of_its_values_is_one_of_its_class(record: object) -> None:
    made = maker(type(record))(*(getattr(record, item.name) for item in fields(record)))  # type: ignore[arg-type]
    assert type(made) is type(record)
    assert (made, repr(made)) == (record, repr(record))
    with pytest.raises(FrozenInstanceError):
        setattr(made, fields(record)[0].name, "changed")  # type: ignore[arg-type]


def test_fields_that_are_worked_out_are_worked_out_by_the_maker_too() -> None:
    @dataclass(frozen=True, slots=True)
    class Doubled:
        value: int

        def __post_init__(self) -> None:
            object.__setattr__(self, "value", self.value * 2)

    assert maker(Doubled)(2) == Doubled(2)


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_every_stored_kind_can_be_copied(table: object) -> None:
    kind = table.kind  # type: ignore[attr-defined]
    record = object.__new__(kind)
    for item in fields(kind):
        object.__setattr__(record, item.name, item.name)
    assert replace(record, id="another").id == "another"
