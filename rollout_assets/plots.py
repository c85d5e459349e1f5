"""Two small plots for the UI, written by hand as SVG.

Dagster shows an image of Markdown inside the page as long as the whole of its text is below 1000 characters. So each
plot is two hundred units wide, has one outline per colour, and `image` is the text that holds it.
"""

from __future__ import annotations

import math
from base64 import b64encode
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import groupby

WIDTH = 200
#: Bars of a histogram.
BINS = 20
#: Units of the highest bar of a histogram, and of the largest difference on either side of the axis.
BAR_HEIGHT, STEPS = 30, 15
#: Blue and vermilion, which readers with any colour vision tell apart; grey shows on a light and on a dark page.
BLUE, VERMILION, GREY = "#0072b2", "#d55e00", "#888"

_BASELINE, _AXIS = 40, 25


def reward_histogram(rewards: Iterable[float]) -> str:
    """An image of how rewards are distributed, as Markdown.

    Args:
        rewards: In any order; those that are not finite are left out.
    """
    finite = [reward for reward in rewards if math.isfinite(reward)]
    if not finite:
        return "No reward counts."
    low, high = min(finite), max(finite)
    counts = histogram(finite)
    most = f"{max(counts)} of {len(finite)}"
    labels = [_text(0, 8, f"highest bar: {most}"), _text(0, 49, f"{low:.3g}"), _text(WIDTH, 49, f"{high:.3g}")]
    svg = _svg(_outline(BLUE, _BASELINE, _bars(counts)), _BASELINE, labels)
    return image(f"{len(finite)} rewards from {low:.3g} to {high:.3g}", svg)


def difference_plot(differences: Iterable[float]) -> str:
    """An image of the differences of tasks in order, as Markdown: losses hang below the axis, gains stand above it.

    Every task has the same width, and the smallest loss or gain leaves a line, however many tasks there are.

    Args:
        differences: New mean reward minus old, one a task, in any order; those that are not finite are left out.
    """
    ordered = sorted(difference for difference in differences if math.isfinite(difference))
    if not ordered:
        return "No task is measured on both sides."
    worse = [difference for difference in ordered if difference < 0]
    better = [difference for difference in ordered if difference > 0]
    unit = WIDTH / len(ordered)
    largest = max(-ordered[0], ordered[-1])
    outlines, labels = "", []  # the stroke of an outline keeps its flat and its narrow parts visible
    if worse:
        outlines += _outline(VERMILION, _AXIS, _steps(worse, largest, unit, 0), VERMILION)
        labels.append(_text(0, 18, f"{len(worse)} worse, to {ordered[0]:.3g}"))
    if better:
        first = len(ordered) - len(better)
        outlines += _outline(BLUE, _AXIS, _steps(better, largest, unit, first), BLUE)
        labels.append(_text(WIDTH, 38, f"{len(better)} better, to +{ordered[-1]:.3g}"))
    same = len(ordered) - len(worse) - len(better)
    if not labels:
        labels.append(_text(0, 18, f"{same} the same"))
    return image(f"{len(worse)} worse, {len(better)} better, {same} the same", _svg(outlines, _AXIS, labels))


def image(meaning: str, svg: str) -> str:
    """Markdown that shows an SVG; `meaning` stands for it where images are not shown."""
    return f"![{meaning}](data:image/svg+xml;base64,{b64encode(svg.encode()).decode()})"


def histogram(values: Sequence[float]) -> list[int]:
    """Finite values counted in `BINS` bins of one width from the least to the greatest; equal values in the middle."""
    # In units of the greatest magnitude, the span of huge values does not overflow and that of tiny ones is not zero.
    scale = max(map(abs, values)) or 1.0
    low, high = min(values) / scale, max(values) / scale
    if low == high:
        counts = {BINS // 2: len(values)}
    else:
        counts = Counter(min(int((value / scale - low) / (high - low) * BINS), BINS - 1) for value in values)
    return [counts.get(number, 0) for number in range(BINS)]


def _bars(counts: Sequence[int]) -> list[tuple[float, float, float]]:
    """(left, width, height) of each bar; one that counts anything can be seen."""
    width, most = WIDTH / len(counts), max(counts)
    return [
        (number * width, width, -max(count / most * BAR_HEIGHT, 1 if count else 0))
        for number, count in enumerate(counts)
    ]


def _steps(differences: Sequence[float], largest: float, unit: float, first: int) -> list[tuple[float, float, float]]:
    """(left, width, height) of each run of neighbours that share a height; downwards is positive, as in SVG."""
    steps, start = [], first
    for height, run in groupby(-round(difference / largest * STEPS) for difference in differences):
        count = sum(1 for _ in run)
        steps.append((start * unit, count * unit, float(height)))
        start += count
    return steps


def _outline(colour: str, axis: int, columns: Sequence[tuple[float, float, float]], stroke: str = "none") -> str:
    """Columns (left, width, height) side by side on an axis, as one closed path."""
    x, y = round(columns[0][0], 1), float(axis)
    drawn = f"M{_short(x)} {axis}"
    for left, width, height in columns:
        right, level = round(left + width, 1), round(axis + height, 1)
        drawn += f"v{_short(level - y)}h{_short(right - x)}"  # relative, which is shorter; no rounding adds up
        x, y = right, level
    return f"<path fill='{colour}' stroke='{stroke}' d='{drawn}V{axis}z'/>"


def _svg(outlines: str, axis: int, labels: Iterable[str]) -> str:
    return (
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='-1 0 202 50' width='404' height='100' "
        f"stroke-width='.4' font-family='sans-serif' font-size='7'>{outlines}"
        f"<path stroke='{GREY}' d='M0 {axis}H{WIDTH}'/><g fill='{GREY}'>{''.join(labels)}</g></svg>"
    )


def _text(x: int, y: int, text: str) -> str:
    anchor = " text-anchor='end'" if x else ""
    return f"<text x='{x}' y='{y}'{anchor}>{text}</text>"


def _short(number: float) -> str:
    """A coordinate with at most one decimal."""
    return f"{number:.1f}".removesuffix(".0")
