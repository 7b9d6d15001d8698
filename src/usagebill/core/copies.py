"""Records made and copied in a fraction of the time that a frozen dataclass takes.

An invoice copies its lines and itself some forty times on its way, fifty fields each, and reads as many records: a
billing run would spend more of its time on that than on anything else. A frozen class sets each field by a call of its
own. So the fields are set on an object of a twin of the class, which is the same but not frozen, and which then becomes
one of the class itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, make_dataclass
from functools import cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any

__all__ = ["maker", "replace"]

if TYPE_CHECKING:
    # Fields and their types are checked as those of the original are.
    from dataclasses import replace
else:

    def replace(record: Any, /, **changes: Any) -> Any:
        """A copy of the record with these fields changed, as `dataclasses.replace` makes it; of a class with slots, and
        without fields that depend on others.

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
    """What makes a record of the values of all its fields, in their order."""
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
    """Whether a record is its fields and nothing else, each in a slot."""
    return not (hasattr(kind, "__post_init__") or not all(item.init for item in fields(kind)) or kind.__dictoffset__)


@cache
def _twin(kind: type) -> tuple[Callable[..., Any], Callable[[Any], tuple[Any, ...]], frozenset[str]]:
    """The twin of a class, what reads all fields of a record, and their names."""
    if not _is_plain(kind):
        raise TypeError(f"{kind.__name__} is not made of slots alone")
    names = [item.name for item in fields(kind)]
    values = attrgetter(*names) if len(names) > 1 else lambda record: (getattr(record, names[0]),)
    twin = make_dataclass(kind.__name__, names, slots=True, repr=False, eq=False)
    return twin, values, frozenset(names)
