"""The report as Markdown, for Dagster and for pull requests: the content of the text report, in tables."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from itertools import islice

from rollout_assets.core.compare.classify import TaskComparison
from rollout_assets.core.compare.compare import CompareResult
from rollout_assets.core.compare.report import printable
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

DEFAULT_LIMIT = 200
NOTE_CHARACTERS = 1000


def render_markdown(
    result: CompareResult,
    *,
    old_roots: Sequence[StrPath] = (),
    new_roots: Sequence[StrPath] = (),
    tail: int = DEFAULT_TAIL,
    limit: int | None = DEFAULT_LIMIT,
) -> str:
    """The report as GitHub-flavoured Markdown.

    Args:
        result: What to report.
        old_roots: Folders under which relative log paths of the old side are looked for (`verifier.roots_for`).
        new_roots: The same of the new side.
        tail: Lines of verifier output to show for a flip; 0 shows none.
        limit: Entries a section shows; it says how many more there are. None shows all.

    Returns:
        The text, with a final newline. Text of the data cannot act as Markdown or HTML.
    """
    excerpts = Excerpts(result, old_roots, new_roots, tail)
    return "".join(f"{line}\n" for line in _lines(result, excerpts, limit))


def _lines(result: CompareResult, excerpts: Excerpts, limit: int | None) -> Iterator[str]:
    yield f"# {_plain(title(result))}"
    yield ""
    yield _plain(join_line(result))
    yield ""
    yield from _bullets(map(_plain, map(_shortened, result.notes)), len(result.notes), limit)
    yield from _table(("category", "tasks", "split"), category_rows(result), len(category_rows(result)), None)
    yield from _bullets(map(_plain, cautions(result)), len(cautions(result)), None)
    counts = result.counts
    yield f"## Flips ({counts['flipped']})"
    yield ""
    yield from _flips(result, result.tasks.of("flipped"), counts["flipped"], excerpts, limit)
    if counts["flipped_agent_error"]:
        yield f"## Flips with agent errors ({counts['flipped_agent_error']})"
        yield ""
        flips = result.tasks.of("flipped_agent_error")
        yield from _flips(result, flips, counts["flipped_agent_error"], excerpts, limit)
    yield f"## Masked ({counts['masked']})"
    yield ""
    masked = ((task.task, masks(task)) for task in result.tasks.of("masked"))
    yield from _table(("task", "why"), masked, counts["masked"], limit)
    yield f"## Missing ({counts['missing']})"
    yield ""
    missing = ((task.task, only_side(task)) for task in result.tasks.of("missing"))
    yield from _table(("task", "where"), missing, counts["missing"], limit)
    if result.findings:
        yield f"## Findings ({len(result.findings)})"
        yield ""
        findings = (
            (f.kind, f.side or "", f.task or "", f.detail, finding_lines(f))
            for f in sorted(result.findings, key=lambda f: f.kind)
        )
        yield from _table(("finding", "side", "task", "detail", "lines"), findings, len(result.findings), limit)
    yield f"## Possible task keys ({len(result.key_advice)})"
    yield ""
    keys = (
        (a.key, a.old_values, a.new_values, "yes" if a.on_every_row else "no", "yes" if a.chosen else "", a.split_tasks)
        for a in result.key_advice
    )
    names = ("key", "values old", "values new", "on every row", "chosen", "tasks with several values")
    yield from _table(names, keys, len(result.key_advice), None)


def _flips(
    result: CompareResult, tasks: Iterator[TaskComparison], total: int, excerpts: Excerpts, limit: int | None
) -> Iterator[str]:
    shown, noisy = list(islice(tasks, limit)), noisy_tasks(result)
    yield from _table(
        ("task", "old", "new", "winner", "remarks", "rows"),
        (
            (
                task.task,
                *flip_rewards(task),
                task.winner,
                "; ".join(remarks(task, noisy)),
                "; ".join(worst_places(result, task)),
            )
            for task in shown
        ),
        total,
        limit,
    )
    for task in shown:
        excerpt = excerpts.of(task)
        if excerpt is None:
            continue
        if excerpt.lines is None:
            yield f"**{_plain(task.task)}** ({excerpt.side}): {_plain(excerpt.source)}"
        else:
            yield f"**{_plain(task.task)}**: verifier output of the {excerpt.side} side, from {_plain(excerpt.source)}"
            yield ""
            yield from _fenced(excerpt.lines)
        yield ""


def _table(names: Sequence[str], rows: Iterable[Sequence[object]], total: int, limit: int | None) -> Iterator[str]:
    if not total:
        return
    yield f"| {' | '.join(names)} |"
    yield f"| {' | '.join('---' for _ in names)} |"
    for row in islice(rows, limit):
        yield f"| {' | '.join(_plain(str(cell)) for cell in row)} |"
    yield ""
    yield from _more(total, limit)


def _bullets(lines: Iterable[str], total: int, limit: int | None) -> Iterator[str]:
    yield from (f"- {line}" for line in islice(lines, limit))
    if total:
        yield ""
        yield from _more(total, limit)


def _more(total: int, limit: int | None) -> Iterator[str]:
    if limit is not None and total > limit:
        yield f"{total - limit} more are not shown."
        yield ""


def _fenced(lines: Sequence[str]) -> Iterator[str]:
    """A code block whose fence is longer than any run of backticks in it."""
    longest = max((len(run) for line in lines for run in re.findall("`+", line)), default=0)
    fence = "`" * max(3, longest + 1)
    yield f"{fence}text"
    yield from map(printable, lines)
    yield fence


def _shortened(note: str) -> str:
    """A note that names thousands of tasks would bury the report; the text and the JSON have it whole."""
    return note if len(note) <= NOTE_CHARACTERS else f"{note[:NOTE_CHARACTERS]}… (cut; the JSON has all)"


def _plain(text: str) -> str:
    """Text that shows as it is: no Markdown, no HTML, no table cell ends in it."""
    return re.sub(r"([\\`*_\[\]|#~])", r"\\\1", escape(printable(text), quote=False))
