"""The footer of a Parquet file as bytes: which row groups a file has, and in what order its rows are read.

pyarrow can add row groups to the end of a footer, not put them in between. A footer is one Thrift structure in the
compact protocol, `FileMetaData`, with a list of row groups; each of them is a structure of its own that says where its
columns lie. So to change their order, it is enough to find where each one begins.

Source: `parquet.thrift` of the Parquet format, and the Thrift compact protocol specification.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

#: Numbers of fields of `FileMetaData`.
_NUM_ROWS: Final = 3
_ROW_GROUPS: Final = 4
_TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = range(1, 13)
#: Bytes of a value that always has as many; a field that is true or false is known by its type.
_WIDTH: Final = {_TRUE: 0, _FALSE: 0, _BYTE: 1, _DOUBLE: 8}


@dataclass(frozen=True)
class Footer:
    """A footer in pieces.

    Attributes:
        start: What comes before the number of rows.
        row_groups: The row groups.
        end: What comes after them.
    """

    start: bytes
    row_groups: list[bytes]
    end: bytes

    @classmethod
    def of(cls, data: bytes) -> Footer:
        """Take a footer apart (without its length and the bytes that end the file).

        Raises:
            ValueError: It is not laid out as every writer lays it out.
        """
        reader = _Reader(data)
        if reader.skip_to_field(_NUM_ROWS) != _I64:
            raise ValueError("no number of rows")
        start = data[: reader.place]
        reader.varint()
        if reader.skip_to_field(_ROW_GROUPS, after=_NUM_ROWS) != _LIST:
            raise ValueError("no list of row groups")
        kind, count = reader.list_header()
        if kind != _STRUCT:
            raise ValueError("no list of structures")
        row_groups = []
        for _ in range(count):
            begin = reader.place
            reader.skip(_STRUCT)
            row_groups.append(data[begin : reader.place])
        return cls(start, row_groups, data[reader.place :])

    def with_row_groups(self, row_groups: list[bytes], rows: int) -> bytes:
        """The bytes of a footer that is this one except for its row groups, which hold that many rows together."""
        count = len(row_groups)
        header = bytes([count << 4 | _STRUCT]) if count < 15 else bytes([0xF0 | _STRUCT]) + _varint(count)
        field = bytes([(_ROW_GROUPS - _NUM_ROWS) << 4 | _LIST])
        return b"".join([self.start, _varint(rows << 1), field, header, *row_groups, self.end])


def _varint(number: int) -> bytes:
    """Seven bits a byte, the lowest first."""
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


class _Reader:
    """Goes through the compact protocol; `place` is the next byte."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.place = 0

    def varint(self) -> int:
        """A number of any length."""
        number = shift = 0
        while True:
            byte = self._byte()
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                return number
            shift += 7

    def _byte(self) -> int:
        self.place += 1
        return self._data[self.place - 1]

    def _field(self, before: int) -> tuple[int, int]:
        """Number and type of the next field of a structure; type 0 ends it."""
        byte = self._byte()
        if byte == 0:
            return before, 0
        step, kind = byte >> 4, byte & 0xF
        if step:
            return before + step, kind
        number = self.varint()
        return number >> 1 ^ -(number & 1), kind

    def skip_to_field(self, wanted: int, *, after: int = 0) -> int:
        """Go to the value of a field of the structure; its type, 0 if there is none."""
        number = after
        while True:
            number, kind = self._field(number)
            if kind == 0 or number == wanted:
                return kind
            self.skip(kind)

    def list_header(self) -> tuple[int, int]:
        """Type and number of the elements of a list."""
        byte = self._byte()
        count = byte >> 4
        return byte & 0xF, self.varint() if count == 15 else count

    def skip(self, kind: int) -> None:
        """Pass over a value of a type; the value of a boolean field is its type."""
        if kind in _WIDTH:
            self.place += _WIDTH[kind]
        elif kind in (_I16, _I32, _I64):
            self.varint()
        elif kind == _BINARY:
            length = self.varint()
            self.place += length
        elif kind in (_LIST, _SET):
            element, count = self.list_header()
            for _ in range(count):
                self._skip_element(element)
        elif kind == _STRUCT:
            self.skip_to_field(-1)
        else:  # no footer has a map, which is what else there is
            raise ValueError(f"no type of a footer: {kind}")

    def _skip_element(self, kind: int) -> None:
        """Pass over an element of a list: there a boolean takes a byte."""
        self.skip(_BYTE if kind in (_TRUE, _FALSE) else kind)
