"""Tables as files: CSV that a spreadsheet shows and does not compute."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence

from starlette.responses import Response

from usagebill.core.formulas import escaped


def csv_file(name: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> Response:
    """A file of this name (without its ending) to download."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([escaped(value) if isinstance(value, str) else value for value in row] for row in rows)
    return Response(
        text.getvalue(),
        media_type="text/csv",
        headers={"content-disposition": f'attachment; filename="{name}.csv"'},
    )
