"""The plots of the UI: their geometry is read back from the SVG and must be that of the numbers."""

from __future__ import annotations

import math
import re
from base64 import b64decode
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollout_assets.plots import (
    BAR_HEIGHT,
    BINS,
    BLUE,
    STEPS,
    VERMILION,
    WIDTH,
    difference_plot,
    histogram,
    reward_histogram,
)
from rollout_assets_tests.conftest import Project

#: From this length on, Dagster's UI hides Markdown behind a button.
INLINE = 1000
LAWS = settings(derandomize=True, deadline=None, max_examples=150)
FINITE = st.floats(allow_nan=False, allow_infinity=False)
SVG = "{http://www.w3.org/2000/svg}"

#: (x, width, height); a positive height stands above the axis.
Column = tuple[float, float, float]


def parse(markdown: str) -> ElementTree.Element:
    found = re.fullmatch(r"!\[([^\]]*)\]\(data:image/svg\+xml;base64,([A-Za-z0-9+/=]+)\)", markdown)
    assert found is not None, markdown
    assert len(markdown) < INLINE
    return ElementTree.fromstring(b64decode(found[2]))


def columns(markdown: str, colour: str) -> list[Column]:
    """The columns of the outline of a colour."""
    [path] = [path for path in parse(markdown).iter(f"{SVG}path") if path.get("fill") == colour]
    outline = path.get("d") or ""
    begin = re.match(r"M([\d.]+) (\d+)", outline)
    assert begin is not None
    x, axis = float(begin[1]), float(begin[2])
    y, found = axis, []
    for down, right in re.findall(r"v([-\d.]+)h([-\d.]+)", outline):
        y += float(down)
        found.append((x, float(right), axis - y))
        x += float(right)
    return found


def labels(markdown: str) -> list[str]:
    return [text.text or "" for text in parse(markdown).iter(f"{SVG}text")]


@pytest.mark.parametrize(
    ("values", "filled"),
    [
        ([0.7], {BINS // 2: 1}),
        ([0.0, 0.0], {BINS // 2: 2}),
        ([0, 1, 1, 0.5], {0: 1, BINS // 2: 1, BINS - 1: 2}),
        ([-3, -2, -2.3], {0: 1, 14: 1, BINS - 1: 1}),
        ([-1.7e308, 0, 1.7e308], {0: 1, BINS // 2: 1, BINS - 1: 1}),
        ([5e-324, 0], {0: 1, BINS - 1: 1}),
        ([1, math.nextafter(1, 2)], {0: 1, BINS - 1: 1}),
        ([0] * 5000 + [1], {0: 5000, BINS - 1: 1}),
    ],
)
def test_values_fall_into_bins(values: list[float], filled: dict[int, int]) -> None:
    assert {number: count for number, count in enumerate(histogram(values)) if count} == filled


@LAWS
@given(st.lists(FINITE, min_size=1, max_size=60))
def test_the_bars_stand_for_the_counts(values: list[float]) -> None:
    counts = histogram(values)
    assert sum(counts) == len(values)
    bars = columns(reward_histogram(values), BLUE)
    assert [width for _, width, _ in bars] == [WIDTH / BINS] * BINS
    heights = [height for _, _, height in bars]
    least = [1 if count else 0 for count in counts]  # so that a single value among many can be seen
    wanted = [max(count / max(counts) * BAR_HEIGHT, low) for count, low in zip(counts, least, strict=True)]
    assert heights == pytest.approx(wanted, abs=0.11)


def test_a_single_value_among_many_leaves_a_bar() -> None:
    bars = columns(reward_histogram([0] * 100_000 + [1]), BLUE)
    assert [height for _, _, height in bars if height] == [BAR_HEIGHT, 1]


def test_the_histogram_says_its_range_and_leaves_out_what_is_not_finite() -> None:
    plot = reward_histogram([math.nan, -0.25, math.inf, 3, 3, -math.inf])
    assert plot.startswith("![3 rewards from -0.25 to 3]")
    assert labels(plot) == ["highest bar: 2 of 3", "-0.25", "3"]


@pytest.mark.parametrize("values", [[], [math.nan], [math.inf, -math.inf]])
def test_nothing_to_draw_is_said_in_words(values: list[float]) -> None:
    assert reward_histogram(values) == "No reward counts."
    assert difference_plot(values) == "No task is measured on both sides."


def test_differences_are_drawn_in_order_on_both_sides_of_the_axis() -> None:
    plot = difference_plot([1, 0, -0.5, math.nan, 0, -0.5, 0, 0, 0, -0.25, 0.5])
    assert columns(plot, VERMILION) == [(0, 40, -round(STEPS / 2)), (40, 20, -round(STEPS / 4))]
    assert columns(plot, BLUE) == [(160, 20, round(STEPS / 2)), (180, 20, STEPS)]
    assert plot.startswith("![3 worse, 2 better, 5 the same]")
    assert labels(plot) == ["3 worse, to -0.5", "2 better, to +1"]


@pytest.mark.parametrize(
    ("differences", "colour", "other", "label"),
    [([-2.0], VERMILION, BLUE, "1 worse, to -2"), ([1.5e308], BLUE, VERMILION, "1 better, to +1.5e+308")],
)
def test_one_side_alone(differences: list[float], colour: str, other: str, label: str) -> None:
    plot = difference_plot(differences)
    [(_, width, height)] = columns(plot, colour)
    assert (width, abs(height)) == (WIDTH, STEPS)
    assert labels(plot) == [label]
    assert other not in ElementTree.tostring(parse(plot)).decode()


def test_without_a_change_there_is_only_the_axis() -> None:
    plot = difference_plot([0.0, -0.0])
    assert labels(plot) == ["2 the same"]
    assert not {BLUE, VERMILION} & {path.get("fill") for path in parse(plot).iter(f"{SVG}path")}


def test_the_only_loss_of_many_tasks_is_drawn_with_a_stroke() -> None:
    plot = difference_plot([0.0] * 100_000 + [-1e-9, 1.0])
    [path] = [path for path in parse(plot).iter(f"{SVG}path") if path.get("fill") == VERMILION]
    assert path.get("stroke") == VERMILION


@LAWS
@given(st.lists(FINITE, min_size=1, max_size=60))
def test_the_widths_stand_for_the_tasks(differences: list[float]) -> None:
    plot = difference_plot(differences)
    worse, better = sum(d < 0 for d in differences), sum(d > 0 for d in differences)
    for colour, count in ((VERMILION, worse), (BLUE, better)):
        if count:
            width = sum(width for _, width, _ in columns(plot, colour))
            assert width * len(differences) / WIDTH == pytest.approx(count, abs=0.1 * len(differences) / WIDTH)


def test_the_largest_plots_are_still_shown_inside_the_page() -> None:
    many = [-(1.2345e-100) * number for number in range(1, 40_000)]
    for values in (
        [*many, *(-value for value in many)],
        [value**3 for value in many],
        [math.tan(v * 1e100) for v in many],
    ):
        parse(reward_histogram(values))
        parse(difference_plot(values))


def test_the_assets_show_them(project: Project) -> None:
    for step, rewards in enumerate(([0, 0, 1], [1, 0, 0.5])):
        key = f"math/step-{step}/rollouts"
        masked = {"task_id": "m", "reward": 7, "mask_sample": True}
        project.write_run(key, [*({"task_id": str(n), "reward": reward} for n, reward in enumerate(rewards)), masked])
        result = project.run(key)
        assert result.success
    shown = {
        event.asset_key.path[-1]: event.step_materialization_data.materialization.metadata
        for event in result.get_asset_materialization_events()
        if event.asset_key
    }
    histogram_of_run = str(shown["task_sides"]["reward_histogram"].value)
    assert labels(histogram_of_run) == ["highest bar: 1 of 3", "0", "1"]
    differences = str(shown["comparison_report"]["differences"].value)
    assert differences.startswith("![1 worse, 1 better, 1 the same]")
    assert labels(differences) == ["1 worse, to -0.5", "1 better, to +1"]
