"""The compiled engine (`_engine.c`), and what it is told to look for.

It is optional: where it could not be built, the same lines are read by `guards` and `decode`, with the same result.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from rollout_assets.core.jsonl.duplicates import ROW_WATCH, Watch
from rollout_assets.core.jsonl.fields import ROW_FIELDS, Wanted

try:
    from rollout_assets.core.jsonl import _engine
except ImportError:  # no compiler was there when the package was installed
    _engine = None  # type: ignore[assignment]

if TYPE_CHECKING:
    from rollout_assets.core.jsonl._engine import Engine

FieldPath = tuple[str, ...]


def _members(wanted: Wanted, watch: Watch | None) -> tuple[Any, ...]:
    """What to look for in an object: key, whether its value is kept, whether keys in it are unique, members inside."""
    assert wanted is not None
    keys = [*wanted, *(key for key in (watch.keys if watch else ()) if key not in wanted)]
    members = []
    for key in keys:
        below = watch.inside(key) if watch else None
        inside = wanted.get(key)
        every = below is not None and below.every is not None
        members.append((f'"{key}"'.encode(), key in wanted, every, None if inside is None else _members(inside, below)))
    return tuple(members)


def _paths(wanted: Wanted, above: FieldPath = ()) -> Iterator[FieldPath]:
    """The paths of all fields in the order in which the engine numbers them."""
    for key, inside in (wanted or {}).items():
        yield (*above, key)
        yield from _paths(inside, (*above, key))


_MEMBERS: Final = _members(ROW_FIELDS, ROW_WATCH)
#: The path of each field; its place is its number in the engine.
FIELDS: Final[tuple[FieldPath, ...]] = tuple(_paths(ROW_FIELDS))


def is_compiled() -> bool:
    """Whether there is an engine. It lets other threads run while it reads."""
    return _engine is not None


def new_engine() -> Engine | None:
    """An engine for the fields of a projected row, or `None` where there is none. Not for two threads at a time."""
    if _engine is None:
        return None
    return _engine.Engine(_MEMBERS, FIELDS.index(("reward",)))
