"""The text report (compare.md §1.14)."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from itertools import groupby
from unicodedata import category

from rollout_assets.core.compare.classify import TaskComparison
from rollout_assets.core.compare.compare import CompareResult
from rollout_assets.core.compare.findings import Finding
from rollout_assets.core.compare.rows import StrPath
from rollout_assets.core.compare.wording import (
    DEFAULT_TAIL,
    Excerpts,
    category_rows,
    cautions,
    finding_lines,
    flip_rewards,
    join_line,
    masks,
    noisy_tasks,
    only_side,
    remarks,
    title,
    worst_places,
)

_NAME_WIDTH, _COUNT_WIDTH = 24, 6


def render_report(
    result: CompareResult,
    *,
    old_roots: Sequence[StrPath] = (),
    new_roots: Sequence[StrPath] = (),
    tail: int = DEFAULT_TAIL,
) -> str:
    """The report as plain text.

    Args:
        result: What to report.
        old_roots: Folders under which relative log paths of the old side are looked for (`verifier.roots_for`).
        new_roots: The same of the new side.
        tail: Lines of verifier output to show for a flip; 0 shows none.

    Returns:
        The text, with a final newline. Control characters of the data are shown as escapes.
    """
    lines = report_lines(result, old_roots=old_roots, new_roots=new_roots, tail=tail)
    return "".join(f"{line}\n" for line in lines)


def report_lines(
    result: CompareResult, *, old_roots: Sequence[StrPath], new_roots: Sequence[StrPath], tail: int
) -> Iterator[str]:
    """The lines of `render_report`, made as they are asked for: reports of large files are long."""
    excerpts = Excerpts(result, old_roots, new_roots, tail)
    return map(printable, _lines(result, excerpts))


def printable(text: str) -> str:
    """The text on one line: other characters than visible ones, spaces and tabs become escapes.

    So data can break neither a report nor a terminal.
    """
    if text.isprintable():
        return text
    return "".join(c if _is_harmless(c) else c.encode("unicode_escape").decode("ascii") for c in text)


def _is_harmless(character: str) -> bool:
    return character.isprintable() or character == "\t" or category(character) == "Zs"


def _lines(result: CompareResult, excerpts: Excerpts) -> Iterator[str]:
    yield title(result)
    yield join_line(result)
    yield from (f"note: {note}" for note in result.notes)
    yield ""
    for name, count, split in category_rows(result):
        yield f"{name:<{_NAME_WIDTH}}{count:>{_COUNT_WIDTH}}" + (f"   {split}" if split else "")
    yield ""
    yield from cautions(result)
    counts, noisy = result.counts, noisy_tasks(result)
    yield from _section("Flips", counts["flipped"])
    for task in result.tasks.of("flipped"):
        yield from _flip(result, task, excerpts, noisy)
    if counts["flipped_agent_error"]:
        yield from _section("Flips with agent errors", counts["flipped_agent_error"])
        for task in result.tasks.of("flipped_agent_error"):
            yield from _flip(result, task, excerpts, noisy)
    yield from _section("Masked", counts["masked"])
    yield from (f"- {task.task}: {masks(task)}" for task in result.tasks.of("masked"))
    yield from _section("Missing", counts["missing"])
    yield from (f"- {task.task}: {only_side(task)}" for task in result.tasks.of("missing"))
    if result.findings:
        yield from _section("Findings", len(result.findings))
        for _, findings in groupby(sorted(result.findings, key=lambda f: f.kind), key=lambda f: f.kind):
            yield from map(_finding, findings)
    yield from _section("Possible task keys", len(result.key_advice))
    for advice in result.key_advice:
        chosen = ", chosen" if advice.chosen else ""
        gaps = "" if advice.on_every_row else ", not on every row"
        yield f"- {advice.key}: {advice.old_values} values old, {advice.new_values} new{gaps}{chosen}"


def _section(name: str, count: int) -> Iterator[str]:
    yield ""
    yield f"## {name} ({count})"


def _flip(
    result: CompareResult, task: TaskComparison, excerpts: Excerpts, noisy: Container[str | None]
) -> Iterator[str]:
    old, new = flip_rewards(task)
    yield ""
    yield f"### {task.task}: old={old} new={new} -> {task.winner} wins"
    yield from remarks(task, noisy)
    yield from worst_places(result, task)
    excerpt = excerpts.of(task)
    if excerpt is None:
        return
    if excerpt.lines is None:
        yield f"{excerpt.side}: {excerpt.source}"
    else:
        yield f"verifier output of the {excerpt.side} side, from {excerpt.source}, last {len(excerpt.lines)} lines:"
        yield from (f"  | {line}" for line in excerpt.lines)


def _finding(finding: Finding) -> str:
    about = ", ".join(filter(None, (finding.side, finding.task)))
    lines = finding_lines(finding)
    return f"- {finding.kind}{f' [{about}]' if about else ''}: {finding.detail}{f' ({lines})' if lines else ''}"
