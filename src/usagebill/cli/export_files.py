"""Files of exports: CSV, Parquet and Excel, written row by row."""

from __future__ import annotations

import csv
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, date, datetime
from decimal import Decimal
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

import click

from usagebill.core.formulas import escaped
from usagebill.core.numbers import decimal_text, round_to

FORMATS = ("csv", "parquet", "xlsx")
_BATCH = 5_000
# The rows of a sheet, heading included; the digits of Excel's numbers, the characters of its texts.
_SHEET = 1_048_576
_EXCEL_DIGITS = 15
_EXCEL_TEXT = 32_767
_DECIMAL = (38, 15)


class Sink(Protocol):
    """A destination of rows: values in the order of the columns."""

    def write(self, values: Sequence[object]) -> None: ...


@contextmanager
def sink(path: str, format: str, columns: Mapping[str, type], *, raw: bool = False) -> Iterator[Sink]:
    """A file of these columns, complete when the block ends and readable by its owner alone; `-` is standard output
    (CSV only). In CSV, texts that spreadsheets would compute get an apostrophe before them, unless `raw`.
    """
    if path != "-":
        make_private(path)
    made = _csv(path, columns, raw) if format == "csv" else {"parquet": _parquet, "xlsx": _xlsx}[format](path, columns)
    with made as file:
        yield file


def make_private(path: str) -> None:
    """An empty file of mode 600, also where there was one that others may read."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        if Path(path).is_file():
            os.fchmod(file, 0o600)
    finally:
        os.close(file)


def _needed(module: str, package: str) -> Any:
    try:
        return import_module(module)
    except ModuleNotFoundError as problem:
        raise click.ClickException(f"this format needs {package}: pip install 'usagebill[export]'") from problem


def plain(value: object) -> object:
    """A value as text, exactly; blank for none."""
    if value is None:
        return ""
    if isinstance(value, Decimal):
        return decimal_text(value)
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    return str(value)


def harmless(value: object) -> object:
    """A value of a cell, its text never a formula."""
    return escaped(value) if isinstance(value, str) else value


class _CsvFile:
    def __init__(self, text: Any, columns: Mapping[str, type], raw: bool) -> None:
        self._raw = raw
        self._writer = csv.writer(text)
        self._writer.writerow(columns)

    def write(self, values: Sequence[object]) -> None:
        self._writer.writerow([plain(value if self._raw else harmless(value)) for value in values])


@contextmanager
def _csv(path: str, columns: Mapping[str, type], raw: bool) -> Iterator[Sink]:
    if path == "-":
        yield _CsvFile(sys.stdout, columns, raw)
        return
    with Path(path).open("w", encoding="utf-8", newline="") as text:
        yield _CsvFile(text, columns, raw)


class _ParquetFile:
    def __init__(self, arrow: Any, writer: Any, schema: Any) -> None:
        self._arrow, self._writer, self._schema = arrow, writer, schema
        self._rows: list[Sequence[object]] = []

    def write(self, values: Sequence[object]) -> None:
        self._rows.append(values)
        if len(self._rows) >= _BATCH:
            self.flush()

    def flush(self) -> None:
        columns = zip(*self._rows, strict=True) if self._rows else [[] for _ in self._schema]
        arrays = [self._array(field, values) for field, values in zip(self._schema, columns, strict=True)]
        self._writer.write_table(self._arrow.Table.from_arrays(arrays, schema=self._schema))
        self._rows = []

    def _array(self, field: Any, values: Sequence[object]) -> Any:
        if self._arrow.types.is_decimal(field.type):
            values = [round_to(value, _DECIMAL[1]) if isinstance(value, Decimal) else value for value in values]
        elif self._arrow.types.is_string(field.type):
            values = [None if value is None else str(value) for value in values]
        try:
            return self._arrow.array(values, type=field.type)
        except (self._arrow.ArrowInvalid, OverflowError) as problem:
            raise click.ClickException(
                f"{field.name} has a number that Parquet has no room for; CSV has: {problem}"
            ) from problem


@contextmanager
def _parquet(path: str, columns: Mapping[str, type]) -> Iterator[Sink]:
    arrow, parquet = _needed("pyarrow", "pyarrow"), _needed("pyarrow.parquet", "pyarrow")
    types = {
        str: arrow.string(),
        int: arrow.int64(),
        Decimal: arrow.decimal128(*_DECIMAL),
        date: arrow.date32(),
        datetime: arrow.timestamp("us", tz="UTC"),
    }
    schema = arrow.schema([(name, types[kind]) for name, kind in columns.items()])
    with parquet.ParquetWriter(path, schema) as writer:
        file = _ParquetFile(arrow, writer, schema)
        yield file
        file.flush()


class _ExcelFile:
    """Sheet after sheet, each as long as Excel allows. Numbers with more digits than it holds are written as text."""

    def __init__(self, book: Any, columns: Mapping[str, type]) -> None:
        self._book, self._columns = book, columns
        self._bold = book.add_format({"bold": True})
        self._day = book.add_format({"num_format": "yyyy-mm-dd"})
        self._instant = book.add_format({"num_format": "yyyy-mm-dd hh:mm:ss"})
        self._begin()

    def _begin(self) -> None:
        self._sheet = self._book.add_worksheet()
        for column, name in enumerate(self._columns):
            self._sheet.write_string(0, column, name, self._bold)
        self._row = 1

    def write(self, values: Sequence[object]) -> None:
        if self._row == _SHEET:
            self._begin()
        for column, value in enumerate(values):
            self._cell(column, value)
        self._row += 1

    def _cell(self, column: int, value: object) -> None:
        sheet, row = self._sheet, self._row
        if value is None:
            return
        if isinstance(value, datetime):
            sheet.write_datetime(row, column, value.astimezone(UTC).replace(tzinfo=None), self._instant)
        elif isinstance(value, date):
            sheet.write_datetime(row, column, value, self._day)
        elif isinstance(value, (int, Decimal)):
            text = decimal_text(value) if isinstance(value, Decimal) else str(value)
            digits = text.lstrip("-0.").replace(".", "")
            if len(digits) > _EXCEL_DIGITS:
                sheet.write_string(row, column, text)
            else:
                sheet.write_number(row, column, value)
        else:
            text = str(value)
            if len(text) > _EXCEL_TEXT:
                name = list(self._columns)[column]
                raise click.ClickException(
                    f"{name} has a text of {len(text)} characters, and Excel's cells hold {_EXCEL_TEXT}; CSV has room"
                )
            sheet.write_string(row, column, text)


@contextmanager
def _xlsx(path: str, columns: Mapping[str, type]) -> Iterator[Sink]:
    excel = _needed("xlsxwriter", "XlsxWriter")
    with excel.Workbook(path, {"constant_memory": True, "strings_to_formulas": False}) as book:
        yield _ExcelFile(book, columns)
