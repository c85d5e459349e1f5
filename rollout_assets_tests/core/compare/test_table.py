"""Facts in columns."""

from __future__ import annotations

import tracemalloc

import pytest

from rollout_assets.core.compare import row_facts
from rollout_assets.core.compare.table import FactTable, LabelPool
from rollout_assets_tests.core.compare.helpers import attempt, native, task


def test_a_table_is_a_sequence() -> None:
    facts = [row_facts(task(name, 1), line=line) for line, name in enumerate("abc", 1)]
    table = FactTable.of(facts)
    assert (len(table), table[0], table[-1], table[1:]) == (3, facts[0], facts[2], facts[1:])
    for row in (3, -4):
        with pytest.raises(IndexError):
            table[row]
    assert FactTable.of(table) is table


@pytest.mark.parametrize("index", [0, 2**61, 2**63, 2**80, -(2**63), 0.5, 1e300])
def test_any_number_is_kept_exactly(index: int | float) -> None:
    row = task("a", 1, **attempt(index, index, _ng_attempt_index=index))
    row["response"] = {"usage": {"input_tokens": 2**70, "output_tokens": 0}}
    facts = row_facts(row)
    assert list(FactTable.of([facts, facts])) == [facts, facts]


def test_a_label_that_appears_late_and_one_that_was_read_besides() -> None:
    facts = [
        row_facts({"reward": 1}, line=1),
        row_facts({"name": "n"}, line=2, key="name"),
        row_facts(native("A", "x"), line=3, key="name"),
    ]
    table = FactTable.of(facts)
    assert table.has_extra_label
    assert [table.label(row, "name") for row in range(3)] == [None, "n", None]
    assert [table.label(row, "_ng_task_id") for row in range(3)] == [None, None, "x"]
    assert table.taskset(2, "_ng_task_id") == "A"


def test_tables_may_share_their_texts() -> None:
    pool = LabelPool()
    old, new = (FactTable.of([row_facts(task("a", 1))], pool) for _ in range(2))
    assert old.label(0, "task_id") is new.label(0, "task_id")


def test_a_row_takes_little_memory_however_many_tasks_there_are() -> None:
    rows = 20_000

    def facts_of_many_tasks():
        for number in range(rows):
            prompt = {"input": f"question {number}"}
            row = task(f"task-{number:06}", number / rows, responses_create_params=prompt, **attempt(number, 0))
            yield row_facts(row, line=number + 1, offset=2000 * number, length=2000)

    tracemalloc.start()
    table = FactTable.of(facts_of_many_tasks())
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(table) == rows
    assert peak / rows < 350
