"""Records made and copied in a fraction of the time that a frozen dataclass takes.

An invoice copies its lines and itself some forty times while it is computed, fifty fields each, and reads as many
records: a billing run would spend most of its time on that. A frozen class sets each field by a separate call. So the
fields are set on an object of a twin class, which is identical but not frozen, and the object's class is then changed
to the original.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, make_dataclass
from functools import cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    # Fields and their types are checked as for the original.
    from dataclasses import replace as replace
else:

    def replace(record: Any, /, **changes: Any) -> Any:
        """A copy of the record with these fields changed, like `dataclasses.replace`; for classes with slots, without
        fields derived from others.

        Raises `TypeError` for a field that the record does not have.
        """
        kind = type(record)
        twin, values, names = _twin(kind)
        copy = twin(*values(record))
        for name, value in changes.items():
            if name not in names:
                raise TypeError(f"{kind.__name__} has no field {name!r}")
            setattr(copy, name, value)
        copy.__class__ = kind
        return copy


def maker(kind: type) -> Callable[..., Any]:
    """A function that makes a record from the values of all its fields, in order."""
    if not _is_plain(kind):
        names = [item.name for item in fields(kind)]
        return lambda *values: kind(**dict(zip(names, values, strict=True)))
    twin, _, _ = _twin(kind)

    def make(*values: Any) -> Any:
        record = twin(*values)
        record.__class__ = kind
        return record

    return make


def _is_plain(kind: type) -> bool:
    """Whether a record consists of its fields and nothing else, each in a slot."""
    return not (hasattr(kind, "__post_init__") or not all(item.init for item in fields(kind)) or kind.__dictoffset__)


@cache
def _twin(kind: type) -> tuple[Callable[..., Any], Callable[[Any], tuple[Any, ...]], frozenset[str]]:
    """The twin of a class, a function that reads all fields of a record, and their names."""
    if not _is_plain(kind):
        raise TypeError(f"{kind.__name__} is not made of slots alone")
    names = [item.name for item in fields(kind)]
    values = attrgetter(*names) if len(names) > 1 else lambda record: (getattr(record, names[0]),)
    twin = make_dataclass(kind.__name__, names, slots=True, repr=False, eq=False)
    return twin, values, frozenset(names)
