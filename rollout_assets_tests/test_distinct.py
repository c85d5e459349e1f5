"""Rows get one number if and only if they agree in all columns."""

from __future__ import annotations

from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollout_assets import distinct
from rollout_assets.distinct import distinct_rows

ROWS = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 0), st.integers(0, 2)), max_size=30)


@pytest.mark.parametrize("most", [2**62, 20])
@given(rows=ROWS)
@settings(derandomize=True, deadline=None)
def test_numbers_are_those_of_a_dictionary(rows: list[tuple[int, ...]], most: int) -> None:
    columns = [(np.array([row[place] for row in rows], np.int64), count) for place, count in enumerate((5, 1, 3))]
    with mock.patch.object(distinct, "_MOST_NUMBERS", most):
        numbers, first = distinct_rows(columns, len(rows))
    known: dict[tuple[int, ...], int] = {}
    assert numbers.tolist() == [known.setdefault(row, len(known)) for row in rows]
    assert first.tolist() == [rows.index(row) for row in known]
