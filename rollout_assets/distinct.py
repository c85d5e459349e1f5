"""Numbering the rows of a table by what they hold in several columns."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Codes = npt.NDArray[np.int64]

#: What fits into 64 bits.
_MOST_NUMBERS: Final = 2**62


def distinct_rows(columns: Iterable[tuple[Codes, int]], rows: int) -> tuple[Codes, Codes]:
    """Give rows that agree in all of some columns one number.

    Args:
        columns: Of each column the code of each row's value, from 0, and how many codes there may be.
        rows: How many rows there are.

    Returns:
        The number of each row, from 0 in order of appearance; for each number the first row that has it.
    """
    numbers, size = np.zeros(rows, np.int64), 1
    for codes, count in columns:
        if size * count > _MOST_NUMBERS:
            numbers, size = _renumbered(numbers)
        if count > 1:
            numbers = numbers * count + codes
            size *= count
    numbers, size = _renumbered(numbers)
    first = np.empty(size, np.int64)
    first[numbers[::-1]] = np.arange(rows)[::-1]  # of several rows that are put into one place the last one stays
    return numbers, first


def _renumbered(numbers: Codes) -> tuple[Codes, int]:
    """The same numbers, but none left out, and how many there are."""
    encoded = pa.array(numbers).dictionary_encode()
    return encoded.indices.to_numpy().astype(np.int64), len(encoded.dictionary)
