"""One test for many cases, if a test for each would cost more than its checks."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import wraps
from inspect import signature
from typing import Any

import pytest

# The failures shown with a traceback; all are named.
SHOWN = 5


def each(names: str, cases: Iterable[Any], *, ids: Callable[[Any], str] = str) -> Callable[[Any], Callable[..., None]]:
    """Like `pytest.mark.parametrize`, but as one test: it tries every case, then reports all failures.

    The cases share the fixtures of the test. `names` are the arguments that a case fills, separated by commas.
    """
    arguments = names.split(",")
    rows = list(cases)

    def decorated(test: Callable[..., None]) -> Callable[..., None]:
        @wraps(test)
        def tried(**fixtures: Any) -> None:
            assert rows, "there is no case"
            failures: list[tuple[str, BaseException]] = []
            for row in rows:
                values = (row,) if len(arguments) == 1 else row
                try:
                    test(**dict(zip(arguments, values, strict=True)), **fixtures)
                except (Exception, pytest.fail.Exception) as problem:
                    failures.append((ids(row), problem))
            if failures:
                texts = [f"{name}: {problem}" for name, problem in failures]
                summary = f"{len(failures)} of {len(rows)} cases failed:\n" + "\n".join(texts)
                raise BaseExceptionGroup(summary, [problem for _, problem in failures[:SHOWN]])

        whole = signature(test)
        kept = [parameter for name, parameter in whole.parameters.items() if name not in arguments]
        tried.__signature__ = whole.replace(parameters=kept)  # type: ignore[attr-defined]
        return tried

    return decorated
