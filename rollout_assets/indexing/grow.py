"""Adding rows to a Parquet file without decoding what it holds.

A Parquet file is its row groups, one after another, and a footer that says where each of them lies. So the row groups
of the old file are copied as they are to the start of a new one, new row groups are written behind them, and the
footers are joined. The old file is only read, and the new one is an ordinary Parquet file.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final

import pyarrow as pa
import pyarrow.parquet as pq

from rollout_assets.tables import Table

#: A file begins with these bytes; it ends with the footer, the length of the footer and these bytes again.
MAGIC: Final = b"PAR1"
_COPIED_BYTES: Final = 1024 * 1024


@contextmanager
def parquet_writer(path: Path, table: Table, *, behind: Path | None = None) -> Iterator[Callable[[pa.Table], None]]:
    """Give a function that writes a table as one row group of a new Parquet file.

    Args:
        path: The new file.
        table: Which stored table it holds.
        behind: A Parquet file of this table whose rows come first.
    """
    with pa.OSFile(str(path), "wb") as sink, pq.ParquetWriter(sink, table.schema, **table.parquet_options) as writer:
        if behind is not None:
            _copy_row_groups(behind, sink)
        yield writer.write_table
    if behind is not None:
        _join_footers(behind, path)


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


def _join_footers(before: Path, path: Path) -> None:
    """Make the footer of `path` that of `before`, followed by its own row groups."""
    metadata = pq.read_metadata(before)
    added = pq.read_metadata(path)
    if added.num_row_groups:
        metadata.append_row_groups(added)
    footer = io.BytesIO()
    metadata.write_metadata_file(footer)
    with path.open("r+b") as file:
        file.seek(_footer_start(file))
        file.truncate()
        file.write(footer.getbuffer()[len(MAGIC) :])


def _footer_start(file: BinaryIO) -> int:
    size = file.seek(0, io.SEEK_END)
    file.seek(size - 8)
    return size - 8 - int.from_bytes(file.read(4), "little")
