"""Facts of many rows in columns: what `list[RowFacts]` would take ten times the memory for."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple, overload

from rollout_assets.core.compare.facts import RewardState, RowFacts
from rollout_assets.core.compare.keys import ALL_KEYS, INPUT_DIGEST, KEY_CANDIDATES, TASK_INDEX, index_label
from rollout_assets.core.compare.rows import Attempt, sidecar_path
from rollout_assets.core.records.paths import File

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Integers = npt.NDArray[np.int64]
    Flags = npt.NDArray[np.bool_]

_DIGEST_BYTES = 32
_NO_DIGEST = bytes(_DIGEST_BYTES)
_INDEX_COLUMN = ALL_KEYS.index(TASK_INDEX)


class LabelPool:
    """Texts that many rows share, each held once and known by its number. Number 0 is None."""

    def __init__(self) -> None:
        self._texts: list[str | None] = [None]
        self._numbers: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._texts)

    def __getitem__(self, number: int) -> str | None:
        return self._texts[number]

    def number(self, text: str | None) -> int:
        """The number of a text; a new one for a new text."""
        if text is None:
            return 0
        number = self._numbers.get(text)
        if number is None:
            number = self._numbers[text] = len(self._texts)
            self._texts.append(text)
        return number


class Signals(NamedTuple):
    """The facts of a row that few values occur of, held once for all rows that agree in them (see `RowFacts`)."""

    file: File
    rollout_index: int | float | None
    attempt_index: int | float | None
    tasksets: tuple[tuple[str, str], ...]
    reward_state: RewardState
    mask_sample: bool
    mask_reason: str | None
    odd_mask_value: bool
    failure_kind: str | None
    failure_class: str | None
    evidence: bool
    agent_error: str | None
    model: str | None


class _Numbers:
    """A column of numbers or None in 8 bytes each; integers beyond 62 bits and fractions are held aside."""

    _NONE, _ASIDE = -(2**63), -(2**63) + 1

    def __init__(self) -> None:
        self._values = array("q")
        self._aside: dict[int, int | float] = {}

    @classmethod
    def of(cls, values: Integers, given: Flags) -> _Numbers:
        """These integers, None where none is given."""
        numbers = cls()
        aside = given & ((values <= -(2**62)) | (values >= 2**62))
        numbers._aside = {row: int(values[row]) for row in aside.nonzero()[0].tolist()}
        values = values.copy()
        values[~given] = cls._NONE
        values[aside] = cls._ASIDE
        numbers._values.frombytes(values.tobytes())
        return numbers

    def append(self, value: int | float | None) -> None:
        if value is None:
            self._values.append(self._NONE)
        elif isinstance(value, int) and -(2**62) < value < 2**62:
            self._values.append(value)
        else:
            self._aside[len(self._values)] = value
            self._values.append(self._ASIDE)

    def __getitem__(self, row: int) -> int | float | None:
        value = self._values[row]
        if value > self._ASIDE:
            return value
        return None if value == self._NONE else self._aside[row]


class FactColumns(NamedTuple):
    """The facts of some rows as numpy arrays of one length; fields as in `RowFacts`.

    Attributes:
        lines: int64.
        offsets: int64.
        lengths: int64.
        task_indices: int64, and where there is one.
        input_tokens: int64, and where there are any.
        output_tokens: int64, and where there are any.
        rewards: float64; 0 where there is none.
        elapsed_seconds: float64; 0 where it is not known.
        input_digests: 32 bytes a row; zeros where there is none.
        labels: For keys of `ALL_KEYS` under which any row has a label, by the place of the key: the number of each
            label in the pool of the table, uint32. The labels of the task index are not among them.
        signals: For each row the place in `examples` of one that agrees in all its `Signals`.
        examples: Facts of some rows.
    """

    lines: Integers
    offsets: Integers
    lengths: Integers
    task_indices: tuple[Integers, Flags]
    input_tokens: tuple[Integers, Flags]
    output_tokens: tuple[Integers, Flags]
    rewards: npt.NDArray[np.float64]
    elapsed_seconds: npt.NDArray[np.float64]
    input_digests: bytes
    labels: dict[int, npt.NDArray[np.uint32]]
    signals: Integers
    examples: Sequence[RowFacts]


class FactTable(Sequence[RowFacts]):
    """A sequence of `RowFacts` that only grows, about 100 bytes a row; a row's facts are put together when asked for.

    The single values that a pass over all rows needs (`reward`, `signals`, `label`, ...) are there without that.
    Input digests must be 64 hexadecimal digits.
    """

    def __init__(self, pool: LabelPool | None = None) -> None:
        self.pool = LabelPool() if pool is None else pool
        self._lines, self._offsets, self._lengths = array("q"), array("q"), array("q")
        self._task_indices, self._input_tokens, self._output_tokens = _Numbers(), _Numbers(), _Numbers()
        self._rewards, self._elapsed = array("d"), array("d")
        self._digests = bytearray()
        self._labels: dict[int, array[int]] = {}
        self._label_count = len(ALL_KEYS)
        self._signals = array("I")
        self._signal_values: list[Signals] = []
        self._signal_numbers: dict[Signals, int] = {}
        #: The output that the rows were read from; None for rows that were in memory.
        self.path: str | None = None
        #: Pairs of sidecar rows of one attempt identity: the one that stands, and an earlier line with a later attempt.
        self.late_attempts: list[tuple[RowFacts, RowFacts]] = []

    @classmethod
    def of(cls, facts: Iterable[RowFacts], pool: LabelPool | None = None) -> FactTable:
        """These facts as a table; a table is returned as it is."""
        if isinstance(facts, FactTable):
            return facts
        table = cls(pool)
        for row in facts:
            table.append(row)
        return table

    @classmethod
    def of_columns(cls, columns: FactColumns, pool: LabelPool) -> FactTable:
        """These facts as a table; no row is put together on the way."""
        import numpy as np

        table = cls(pool)
        for column, values in (
            (table._lines, columns.lines),
            (table._offsets, columns.offsets),
            (table._lengths, columns.lengths),
            (table._rewards, columns.rewards),
            (table._elapsed, columns.elapsed_seconds),
        ):
            column.frombytes(values.tobytes())
        table._task_indices = _Numbers.of(*columns.task_indices)
        table._input_tokens = _Numbers.of(*columns.input_tokens)
        table._output_tokens = _Numbers.of(*columns.output_tokens)
        table._digests += columns.input_digests
        for place, numbers in columns.labels.items():
            table._labels[place] = array("I", numbers.tobytes())
        numbers = np.array([table._signal_number(example) for example in columns.examples], np.uint32)
        table._signals.frombytes(numbers[columns.signals].tobytes())
        return table

    def append(self, facts: RowFacts) -> None:
        """Add the facts of one row at the end."""
        row = len(self._lines)
        self._lines.append(facts.line)
        self._offsets.append(facts.offset)
        self._lengths.append(facts.length)
        self._task_indices.append(facts.task_index)
        self._rewards.append(0.0 if facts.reward is None else facts.reward)
        self._elapsed.append(0.0 if facts.elapsed_seconds is None else facts.elapsed_seconds)
        self._input_tokens.append(facts.input_tokens)
        self._output_tokens.append(facts.output_tokens)
        self._digests += _packed(facts.input_digest)
        self._label_count = max(self._label_count, len(facts.labels))
        for column, label in enumerate(facts.labels):
            # The label of the task index is a function of the index: no need to hold it.
            if label is not None and column != _INDEX_COLUMN:
                self._label_column(column, row)[row] = self.pool.number(label)
        for numbers in self._labels.values():
            if len(numbers) == row:
                numbers.append(0)
        self._signals.append(self._signal_number(facts))

    def _label_column(self, column: int, row: int) -> array[int]:
        numbers = self._labels.get(column)
        if numbers is None:
            numbers = self._labels[column] = array("I", [0]) * row
        if len(numbers) == row:
            numbers.append(0)
        return numbers

    def _signal_number(self, facts: RowFacts) -> int:
        signals = Signals(
            facts.file,
            facts.rollout_index,
            facts.attempt_index,
            tuple(facts.tasksets.items()) if facts.tasksets else (),
            facts.reward_state,
            facts.mask_sample,
            facts.mask_reason,
            facts.odd_mask_value,
            facts.failure_kind,
            facts.failure_class,
            facts.evidence,
            facts.agent_error,
            facts.model,
        )
        number = self._signal_numbers.get(signals)
        if number is None:
            number = self._signal_numbers[signals] = len(self._signal_values)
            self._signal_values.append(signals)
        return number

    def __len__(self) -> int:
        return len(self._lines)

    @overload
    def __getitem__(self, row: int) -> RowFacts: ...
    @overload
    def __getitem__(self, row: slice) -> list[RowFacts]: ...
    def __getitem__(self, row: int | slice) -> RowFacts | list[RowFacts]:
        if isinstance(row, slice):
            return [self[i] for i in range(*row.indices(len(self)))]
        if not -len(self) <= row < len(self):
            raise IndexError(row)
        row %= len(self)
        signals = self.signals(row)
        input_tokens, output_tokens = self._input_tokens[row], self._output_tokens[row]
        return RowFacts(
            file=signals.file,
            line=self._lines[row],
            offset=self._offsets[row],
            length=self._lengths[row],
            task_index=self.task_index(row),
            rollout_index=signals.rollout_index,
            attempt_index=signals.attempt_index,
            labels=self._all_labels(row),
            tasksets=dict(signals.tasksets) or None,
            reward=self.reward(row),
            reward_state=signals.reward_state,
            mask_sample=signals.mask_sample,
            mask_reason=signals.mask_reason,
            odd_mask_value=signals.odd_mask_value,
            failure_kind=signals.failure_kind,
            failure_class=signals.failure_class,
            evidence=signals.evidence,
            agent_error=signals.agent_error,
            elapsed_seconds=self._elapsed[row] or None,
            input_tokens=None if input_tokens is None else int(input_tokens),
            output_tokens=None if output_tokens is None else int(output_tokens),
            model=signals.model,
            input_digest=self.input_digest(row),
        )

    def __iter__(self) -> Iterator[RowFacts]:
        return (self[row] for row in range(len(self)))

    @property
    def has_extra_label(self) -> bool:
        """Whether the rows were read for a key outside `ALL_KEYS`."""
        return self._label_count > len(ALL_KEYS)

    def signals(self, row: int) -> Signals:
        """The signals of a row; rows that agree in them share the object."""
        return self._signal_values[self._signals[row]]

    def reward(self, row: int) -> float | None:
        """The reward of a row."""
        return self._rewards[row] if self.signals(row).reward_state in ("number", "non_finite") else None

    def finite_reward(self, row: int) -> float | None:
        """The reward of a row when it enters a mean."""
        return self._rewards[row] if self.signals(row).reward_state == "number" else None

    def task_index(self, row: int) -> int | float | None:
        """The task index of a row."""
        return self._task_indices[row]

    def attempt(self, row: int) -> Attempt | None:
        """(task index, rollout index) of a row, or None when it lacks either."""
        task, rollout = self.task_index(row), self.signals(row).rollout_index
        return None if task is None or rollout is None else (task, rollout)

    def digest_bytes(self, row: int) -> bytes | None:
        """The input digest of a row as 32 bytes."""
        digest = bytes(self._digests[_DIGEST_BYTES * row : _DIGEST_BYTES * (row + 1)])
        return None if digest == _NO_DIGEST else digest

    def input_digest(self, row: int) -> str | None:
        """The input digest of a row, 64 hexadecimal digits."""
        digest = self.digest_bytes(row)
        return None if digest is None else digest.hex()

    def set_input_digest(self, row: int, digest: str | None) -> None:
        """Replace the digest of a row, by that of its inventory row."""
        self._digests[_DIGEST_BYTES * row : _DIGEST_BYTES * (row + 1)] = _packed(digest)

    def label(self, row: int, key: str) -> str | None:
        """The label of a row under a key: one of `ALL_KEYS`, `INPUT_DIGEST`, or the one that was read besides."""
        if key == INPUT_DIGEST:
            return self.input_digest(row)
        return self._label(ALL_KEYS.index(key) if key in ALL_KEYS else len(ALL_KEYS), row)

    def values(self, key: str) -> Callable[[int], object]:
        """A function that gives the label of a row in a form cheap to get and to compare; None where absent."""
        if key == INPUT_DIGEST:
            return self.digest_bytes
        if key == TASK_INDEX:
            return self.task_index
        numbers = self._labels.get(ALL_KEYS.index(key))
        return (lambda row: None) if numbers is None else lambda row: numbers[row] or None

    def distinct(self, key: str) -> int:
        """Number of distinct labels under a key."""
        return len(set(map(self.values(key), range(len(self)))) - {None})

    def has(self, key: str) -> bool:
        """Whether any row has a label under a key."""
        return any(value is not None for value in map(self.values(key), range(len(self))))

    def is_on_every_output_row(self, key: str) -> bool:
        """Whether every row that is no folded failure has a label under a key."""
        value = self.values(key)
        return all(value(row) is not None or self.is_folded(row) for row in range(len(self)))

    def taskset(self, row: int, key: str) -> str | None:
        """The taskset that a row names under a key."""
        for name, taskset in self.signals(row).tasksets:
            if name == key:
                return taskset
        return None

    def tasksets(self, key: str) -> list[str]:
        """The distinct tasksets that rows name under a key, sorted."""
        pairs = {pair for signals in self._signal_values for pair in signals.tasksets}
        return sorted(taskset for name, taskset in pairs if name == key)

    def names_a_task(self, row: int) -> bool:
        """Whether a row names its task under any of the candidates."""
        return any(self.label(row, key) is not None for key in KEY_CANDIDATES)

    def is_folded(self, row: int) -> bool:
        """Whether a row came from the sidecar."""
        return self.signals(row).file == "failures"

    def place(self, row: int) -> str:
        """Where a row is, for a message: `path:line`, or its number among the rows in memory."""
        path = self.path
        if path is not None and self.is_folded(row):
            path = sidecar_path(path) or path
        return f"row {self._lines[row]}" if path is None else f"{path}:{self._lines[row]}"

    def _all_labels(self, row: int) -> tuple[str | None, ...]:
        labels: list[str | None] = [None] * self._label_count
        for column in (_INDEX_COLUMN, *self._labels):
            labels[column] = self._label(column, row)
        return tuple(labels)

    def _label(self, column: int, row: int) -> str | None:
        if column == _INDEX_COLUMN:
            return index_label(self.task_index(row))
        numbers = self._labels.get(column)
        return None if numbers is None else self.pool[numbers[row]]


def _packed(digest: str | None) -> bytes:
    if digest is None:
        return _NO_DIGEST
    packed = bytes.fromhex(digest)
    if len(packed) != _DIGEST_BYTES:
        raise ValueError(f"an input digest has {2 * _DIGEST_BYTES} hexadecimal digits, not {digest!r}")
    return packed
