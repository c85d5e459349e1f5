"""What the store remembers of an index, so that the next one can go on from there (performance.md §7).

The state of a run lies at `<store>/index_state/<key>.json`. It is written after the tables that it describes and names
them by inode, time and size: whatever stops a process in between, a state that does not belong to the tables beside it
is never used. Only a store on a local disk has states.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final

import msgspec

from rollout_assets.core.errors import unreadable_file
from rollout_assets.core.files import write_json
from rollout_assets.core.records.paths import File
from rollout_assets.tables import SCHEMA_VERSION

if TYPE_CHECKING:
    from rollout_assets.store import Store

#: Raised by hand when the meaning of an index changes: what is indexed of a row, or what is a fault. Stored indexes
#: then show as stale, and the next ones are made anew.
CODE_VERSION: Final = "1"
#: The tables of an index.
INDEX_TABLES: Final = ("record_index", "producer_faults")

#: What a file begins with, its last bytes and samples between them tell whether it only grew. A file of no more than
#: `WHOLE_BYTES` is compared as a whole: that takes a hundredth of a second, all of a large file takes longer than it
#: takes to index what was added.
WHOLE_BYTES: Final = 16 * 1024 * 1024
END_BYTES: Final = 64 * 1024
SAMPLES: Final = 64
SAMPLE_BYTES: Final = 4 * 1024


@dataclass(frozen=True)
class FileMark:
    """How far one file of a run is indexed, and how to tell that it is still this file.

    Attributes:
        path: The file.
        device: Its device.
        inode: Its inode.
        size: Its bytes when it was indexed.
        mtime_ns: When it was last changed before that, in ns.
        indexed_end: The place behind its last LF. What follows is a line that is not finished: it is in the tables, and
            is read again the next time.
        lines: Lines before `indexed_end`, blank ones counted.
        rows: Rows of `record_index` before `indexed_end`.
        faults: Rows of `producer_faults` before `indexed_end`.
        tail_rows: Rows of `record_index` behind it.
        tail_faults: Rows of `producer_faults` behind it.
        digest: Digest of (parts of) the bytes before `indexed_end`.
    """

    path: str
    device: int
    inode: int
    size: int
    mtime_ns: int
    indexed_end: int
    lines: int
    rows: int
    faults: int
    tail_rows: int
    tail_faults: int
    digest: str


@dataclass(frozen=True)
class IndexState:
    """What an index was made from and where it went.

    Attributes:
        files: How far each file is indexed.
        tables: Version of each table (`table_version`).
        code_version: `CODE_VERSION` of the code that made it.
        schema_version: `SCHEMA_VERSION` likewise.
    """

    files: dict[File, FileMark]
    tables: dict[str, str]
    code_version: str = CODE_VERSION
    schema_version: int = SCHEMA_VERSION


def load_state(store: Store, key: str) -> IndexState | None:
    """The state of a run; None when there is none that can be read."""
    try:
        state = msgspec.convert(json.loads(store.index_state_path(key).read_bytes()), IndexState)
    except (OSError, ValueError, RecursionError):
        return None
    return state if "output" in state.files else None


def save_state(store: Store, key: str, state: IndexState) -> None:
    """Write the state of a run, whose tables are in their places."""
    # The path of a file need not be Unicode, and only `json` reads and writes such text.
    write_json(store.index_state_path(key), msgspec.to_builtins(state))


def table_version(path: Path) -> str | None:
    """Tells a local file from every other one that was or will be at its place; None when there is none.

    It is the same before and after a file is moved to its place, so that it never is that of a file of somebody else.
    """
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return f"inode {status.st_ino}, time {status.st_mtime_ns}, size {status.st_size}"


def obstacle(state: IndexState | None, store: Store, key: str, files: Mapping[File, Path]) -> str | None:
    """Why an index cannot go on from a state, or None when it can.

    Args:
        state: The stored state.
        store: The store it is in.
        key: The run.
        files: The files of the run as they are now.
    """
    if state is None:
        return "there is no earlier index of it to go on from"
    if (state.code_version, state.schema_version) != (CODE_VERSION, SCHEMA_VERSION):
        return "another version of this project made the earlier index"
    for name in INDEX_TABLES:
        path = store.table_path(name, key)
        if not isinstance(path, Path) or table_version(path) != state.tables.get(name):
            return f"the stored table {name} is not the one that the earlier index wrote"
    for file, mark in state.files.items():
        problem = _difference(mark, files.get(file))
        if problem is not None:
            return f"{Path(mark.path).name} {problem}"
    return None


def _difference(mark: FileMark, path: Path | None) -> str | None:
    """In what a file is not the one that was indexed, except that it may have grown; None when in nothing."""
    if path is None:
        return "is gone"
    try:
        status = path.stat()
        if str(path) != mark.path:
            return f"was at {mark.path}"
        if status.st_dev != mark.device:
            return "is on another device"
        if status.st_ino != mark.inode:
            return "has another inode"
        if status.st_size < mark.indexed_end:
            return "is shorter"
        if status.st_size == mark.size and status.st_mtime_ns != mark.mtime_ns:
            return "was written to and has not grown"
        if digest_of(path, mark.indexed_end) != mark.digest:
            return "no longer begins with what was indexed"
    except OSError as error:
        raise unreadable_file(path, error) from error
    return None


def digest_of(path: Path, end: int) -> str:
    """A digest of the first `end` bytes of a file, or of samples of them if they are many."""
    digest = hashlib.sha256()
    with path.open("rb", buffering=0) as file:
        for start, stop in _samples(end):
            for chunk in _chunks(file, start, stop):
                digest.update(chunk)
    return digest.hexdigest()


def _samples(end: int) -> Iterator[tuple[int, int]]:
    if end <= WHOLE_BYTES:
        yield 0, end
        return
    yield 0, END_BYTES
    for number in range(1, SAMPLES + 1):
        start = end * number // (SAMPLES + 1)
        yield start, start + SAMPLE_BYTES
    yield end - END_BYTES, end


def _chunks(file: BinaryIO, start: int, stop: int) -> Iterator[bytes]:
    file.seek(start)
    while start < stop and (chunk := file.read(min(stop - start, 256 * 1024))):
        start += len(chunk)
        yield chunk
