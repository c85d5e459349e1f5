"""The words that the text report and the Markdown report share (compare.md §1.9, §1.12, §1.14)."""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Final, NamedTuple

from rollout_assets.core.compare.classify import Side, TaskComparison
from rollout_assets.core.compare.compare import CompareResult, WholeRow
from rollout_assets.core.compare.errors import CompareInputError
from rollout_assets.core.compare.facts import RowFacts
from rollout_assets.core.compare.findings import Finding
from rollout_assets.core.compare.rows import StrPath, sidecar_path
from rollout_assets.core.compare.sides import TaskSide
from rollout_assets.core.compare.verifier import tail_lines, verifier_output
from rollout_assets.core.text import counted

SHOWN_DECIMALS: Final = 4
DEFAULT_TAIL: Final = 15


def title(result: CompareResult) -> str:
    """Number of tasks, and of rows on each side."""
    old = _rows(result.old_rows, result.old_masked_rows)
    new = _rows(result.new_rows, result.new_masked_rows)
    return f"Rollout comparison: {counted(result.counts['tasks'], 'task')}; old {old}, new {new}"


def join_line(result: CompareResult) -> str:
    """The key of each side, how it was found, and what was stripped."""
    keys = result.old_key if result.old_key == result.new_key else f"{result.old_key} (old) = {result.new_key} (new)"
    stripped = [
        f"; {side} prefix {prefix} stripped"
        for side, prefix in (("old", result.old_prefix_stripped), ("new", result.new_prefix_stripped))
        if prefix is not None
    ]
    return f"joined on {keys} ({result.key_source}){''.join(stripped)}"


def category_rows(result: CompareResult) -> list[tuple[str, int, str]]:
    """Name, count and split per side of the five categories."""
    n = result.counts
    return [
        ("identical", n["identical"], ""),
        ("flipped", n["flipped"], f"old wins {n['flipped_old_win']}, new wins {n['flipped_new_win']}"),
        ("flipped (agent error)", n["flipped_agent_error"], ""),
        ("masked", n["masked"], f"old {n['masked_old']}, new {n['masked_new']}"),
        ("missing", n["missing"], f"old only {n['missing_old_only']}, new only {n['missing_new_only']}"),
    ]


def cautions(result: CompareResult) -> list[str]:
    """How far the result can be trusted: inputs, noise, findings."""
    lines = (_inputs_line(result), _inputs_warning(result), _noise_line(result), _findings_line(result))
    return [line for line in lines if line is not None]


def _inputs_line(result: CompareResult) -> str:
    """How many joined tasks are proven to be the same task."""
    n = result.input_counts
    return (
        f"inputs of joined tasks: {n['equal']} equal, {n['different']} different, "
        f"{n['not_distinguishable']} not distinguishable, {n['unknown']} unknown"
    )


def _inputs_warning(result: CompareResult) -> str | None:
    """A warning, when joined tasks are proven to be different ones."""
    different = result.input_counts["different"]
    if not different:
        return None
    tasks = "1 joined task was" if different == 1 else f"{different} joined tasks were"
    return f"WARNING: {tasks} given different inputs on the two sides: their rewards are no comparison"


def _noise_line(result: CompareResult) -> str | None:
    """What can be said of noise in the flips; nothing when there are none."""
    noise = result.noise
    if not noise.flips:
        return None
    if not noise.estimated:
        return f"noise: no flip has repeats on both sides, so how many of the {noise.flips} are noise cannot be told"
    return f"noise: {len(noise.within)} of {counted(noise.estimated, 'flip')} with repeats on both sides lie within it"


def _findings_line(result: CompareResult) -> str | None:
    """The findings counted by kind; nothing when there are none."""
    counts = result.finding_counts()
    return f"findings: {', '.join(f'{n} {kind}' for kind, n in counts.items())}" if counts else None


def shown_reward(side: TaskSide | None, *, exact: bool = False) -> str:
    """The reward of a side: rounded unless `exact`, and over how many rows (compare.md §1.9)."""
    if side is None:
        return "missing"
    if side.reward is None:
        return "none"
    reward = repr(side.reward if exact else round(side.reward, SHOWN_DECIMALS))
    if side.rows == 1:
        return reward
    rows = str(side.rows) if side.reward_rows == side.rows else f"{side.reward_rows} of {side.rows}"
    return f"{reward} (mean of {rows} rows)"


def flip_rewards(task: TaskComparison) -> tuple[str, str]:
    """Both rewards of a flip, in full precision when rounding would make them look alike (decision 13)."""
    old, new = task.old, task.new
    alike = (
        old is not None
        and new is not None
        and old.reward is not None
        and new.reward is not None
        and round(old.reward, SHOWN_DECIMALS) == round(new.reward, SHOWN_DECIMALS)
    )
    return shown_reward(old, exact=alike), shown_reward(new, exact=alike)


def masks(task: TaskComparison) -> str:
    """Why a task is masked, side by side."""
    parts = []
    for name, side in (("old", task.old), ("new", task.new)):
        if side is not None:
            parts.append(f"{name} {side.masked or 'counts'}, reward {shown_reward(side)}")
    return "; ".join(parts)


def only_side(task: TaskComparison) -> str:
    """Where a missing task is, and with what reward."""
    name, side = ("old", task.old) if task.new is None else ("new", task.new)
    return f"only on the {name} side, reward {shown_reward(side)}"


def noisy_tasks(result: CompareResult) -> frozenset[str | None]:
    """The flips that lie within the noise of their repeats."""
    return frozenset(finding.task for finding in result.noise.within)


def remarks(task: TaskComparison, noisy: Container[str | None]) -> list[str]:
    """Whether a flip is within the noise, agent errors and scored failures of it."""
    sides = [(name, side) for name, side in (("old", task.old), ("new", task.new)) if side is not None]
    return [
        *(["within the noise of the repeats"] if task.task in noisy else []),
        *(f"agent error ({name}): {side.agent_error}" for name, side in sides if side.agent_error is not None),
        *(f"scored failure ({name}): {side.failure_kind}" for name, side in sides if side.failure_kind is not None),
    ]


class Excerpt(NamedTuple):
    """The verifier output of the losing side of a flip.

    Attributes:
        side: The losing side.
        row: Its worst row.
        source: Where the text is from, or why there is none.
        lines: The last lines of it; None when there is no text.
    """

    side: Side
    row: RowFacts
    source: str
    lines: list[str] | None


class Excerpts:
    """Finds the verifier output of flips: the rows of each side, and where its logs lie."""

    def __init__(
        self, result: CompareResult, old_roots: Sequence[StrPath], new_roots: Sequence[StrPath], tail: int
    ) -> None:
        """Take the folders that relative log paths of each side are looked up in, and the lines to show."""
        self._whole_row: dict[Side, WholeRow | None] = {"old": result.old_whole_row, "new": result.new_whole_row}
        self._roots = {"old": old_roots, "new": new_roots}
        self._tail = tail

    def of(self, task: TaskComparison) -> Excerpt | None:
        """The excerpt of a flip; None where rows are out of reach."""
        losing: Side = "new" if task.winner == "old" else "old"
        side = task.new if losing == "new" else task.old
        whole_row = self._whole_row[losing]
        if task.winner is None or side is None or whole_row is None:
            return None
        try:
            text, source = verifier_output(whole_row(side.worst), self._roots[losing])
        except CompareInputError as error:
            text, source = None, f"verifier output unavailable: {error}"
        return Excerpt(losing, side.worst, source, None if text is None else tail_lines(text, self._tail))


def place(path: str | None, facts: RowFacts) -> str:
    """`path:line` of a row; without a path, its file and number."""
    if path is not None and facts.file == "failures":
        path = sidecar_path(path) or path
    name = f"{facts.file} row {facts.line}" if path is None else f"{path}:{facts.line}"
    return name if not facts.length else f"{name} (byte {facts.offset})"


def finding_lines(finding: Finding) -> str:
    """`lines 3, 14`, `line 4 of the failures file`, or both; `rows 3, 14` of rows in memory; empty without any."""
    if not finding.files:
        return _numbered("row", finding.lines)
    told = []
    for file, behind in (("output", ""), ("failures", " of the failures file")):
        lines = [line for line, place in zip(finding.lines, finding.files, strict=True) if place == file]
        if lines:
            told.append(_numbered("line", lines) + behind)
    return "; ".join(told)


def _numbered(word: str, numbers: Sequence[int]) -> str:
    """`line 3` or `lines 3, 14`; empty without numbers."""
    return f"{word}{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers))}" if numbers else ""


def worst_places(result: CompareResult, task: TaskComparison) -> list[str]:
    """Where the worst row of each side is."""
    return [
        f"{name} row: {place(path, side.worst)}"
        for name, path, side in (("old", result.old_path, task.old), ("new", result.new_path, task.new))
        if side is not None
    ]


def _rows(rows: int, masked: int) -> str:
    return counted(rows, "row") + (f" (incl. {masked} masked)" if masked else "")
