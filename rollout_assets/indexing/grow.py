"""Adding rows to a Parquet file without decoding what it holds.

A Parquet file is its row groups, one after another, and a footer that says where each of them lies. So the row groups
of the old file are copied as they are to the start of a new one, new row groups are written behind them, and the
footers are joined. Rows are read in the order of the footer, so new ones may also come between old ones. The old file
is only read, and the new one is an ordinary Parquet file.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

import pyarrow as pa
import pyarrow.parquet as pq

from rollout_assets.indexing.footer import Footer
from rollout_assets.tables import Table

#: A file begins with these bytes; it ends with the footer, the length of the footer and these bytes again.
MAGIC: Final = b"PAR1"
_COPIED_BYTES: Final = 1024 * 1024


@dataclass
class Growth:
    """How new row groups come to those of an old file.

    Attributes:
        old: The old file.
        before: How many of its row groups are read before the new ones.
        inserted: How many of the new ones are read there; the others are read last.
    """

    old: Path
    before: int
    inserted: int = 0


@contextmanager
def parquet_writer(path: Path, table: Table, growth: Growth | None = None) -> Iterator[Callable[[pa.Table], None]]:
    """Give a function that writes a table as one row group of a new Parquet file.

    Args:
        path: The new file.
        table: Which stored table it holds.
        growth: An old file of this table whose rows it holds too. Its `inserted` counts when the block ends.
    """
    with pa.OSFile(str(path), "wb") as sink, pq.ParquetWriter(sink, table.schema, **table.parquet_options) as writer:
        if growth is not None:
            _copy_row_groups(growth.old, sink)
        yield writer.write_table
    if growth is not None:
        _join_footers(growth, path)


def _copy_row_groups(path: Path, sink: pa.NativeFile) -> None:
    """Copy everything between the first bytes and the footer of a file to the same place of another one."""
    with path.open("rb") as file:
        remaining = _footer_start(file) - file.seek(len(MAGIC))
        while remaining > 0:
            chunk = file.read(min(_COPIED_BYTES, remaining))
            if not chunk:
                raise OSError(f"{path} was cut while it was read")
            sink.write(chunk)
            remaining -= len(chunk)


def _join_footers(growth: Growth, path: Path) -> None:
    """Give the footer of a file, which knows its new row groups alone, the old ones too."""
    known, new_metadata = pq.read_metadata(growth.old), pq.read_metadata(path)
    if not known.schema.equals(new_metadata.schema):
        raise ValueError(f"{growth.old} has another schema")
    with growth.old.open("rb") as old, path.open("r+b") as new:
        footer = _footer(old)
        if new_metadata.num_row_groups:
            before, added = Footer.of(footer), Footer.of(_footer(new))
            first, rest = before.row_groups[: growth.before], before.row_groups[growth.before :]
            inserted, last = added.row_groups[: growth.inserted], added.row_groups[growth.inserted :]
            footer = before.with_row_groups([*first, *inserted, *rest, *last], known.num_rows + new_metadata.num_rows)
        new.seek(_footer_start(new))
        new.truncate()
        new.write(footer + len(footer).to_bytes(4, "little") + MAGIC)


def _footer(file: BinaryIO) -> bytes:
    file.seek(_footer_start(file))
    return file.read()[: -4 - len(MAGIC)]


def _footer_start(file: BinaryIO) -> int:
    size = file.seek(0, io.SEEK_END)
    file.seek(size - 8)
    return size - 8 - int.from_bytes(file.read(4), "little")
