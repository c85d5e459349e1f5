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
_NUMBERS: Final = (_I16, _I32, _I64)
#: Bytes of a value that always has as many. In a list one that is true or false takes a byte.
_WIDTH: Final = {_TRUE: 1, _FALSE: 1, _BYTE: 1, _DOUBLE: 8}


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
        kind, place = _find_field(data, 0, 0, _NUM_ROWS)
        if kind != _I64:
            raise ValueError("no number of rows")
        start = data[:place]
        kind, place = _find_field(data, _skip(data, place, _I64), _NUM_ROWS, _ROW_GROUPS)
        if kind != _LIST:
            raise ValueError("no list of row groups")
        kind, count, place = _list_header(data, place)
        if kind != _STRUCT:
            raise ValueError("no list of structures")
        row_groups = []
        for _ in range(count):
            behind = _skip(data, place, _STRUCT)
            row_groups.append(data[place:behind])
            place = behind
        return cls(start, row_groups, data[place:])

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


# What follows goes through the compact protocol: `place` is the byte of `data` that comes next.


def _number(data: bytes, place: int) -> tuple[int, int]:
    """A number of any length, and the place behind it."""
    number = shift = 0
    while data[place] > 0x7F:
        number |= (data[place] & 0x7F) << shift
        shift += 7
        place += 1
    return number | data[place] << shift, place + 1


def _find_field(data: bytes, place: int, number: int, wanted: int) -> tuple[int, int]:
    """Type and place of a field of a structure, behind its field `number`; type 0 if there is none."""
    while data[place]:
        # Fields come in the order of their numbers, in steps of less than 16.
        step, kind = data[place] >> 4, data[place] & 0xF
        number += step
        place += 1
        if not step or number > wanted:
            break
        if number == wanted:
            return kind, place
        place = _skip(data, place, kind)
    return 0, place


def _list_header(data: bytes, place: int) -> tuple[int, int, int]:
    """Type and number of the elements of a list, and the place of the first."""
    kind, count = data[place] & 0xF, data[place] >> 4
    if count < 15:
        return kind, count, place + 1
    count, place = _number(data, place + 1)
    return kind, count, place


def _skip(data: bytes, place: int, kind: int) -> int:
    """The place behind a value of a type."""
    if kind == _STRUCT:
        while data[place]:
            header = data[place]
            place = place + 1 if header >> 4 else _number(data, place + 1)[1]
            if header & 0xF not in (_TRUE, _FALSE):  # the type of a field that is true or false is its value
                place = _skip(data, place, header & 0xF)
        return place + 1
    if kind in _NUMBERS:
        while data[place] > 0x7F:
            place += 1
        return place + 1
    if kind == _BINARY:
        length, place = _number(data, place)
        return place + length
    if kind in (_LIST, _SET):
        element, count, place = _list_header(data, place)
        for _ in range(count):
            place = _skip(data, place, element)
        return place
    if kind in _WIDTH:
        return place + _WIDTH[kind]
    raise ValueError(f"no type of a footer: {kind}")  # no footer has a map, which is what else there is
