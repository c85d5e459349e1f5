"""What a person sees of the demo runs in Dagster's UI: a real webserver, a real browser.

Screenshots go to the folder that ROLLOUT_SCREENSHOTS names, or to pytest's temporary folder.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from rollout_assets.cli import main
from rollout_assets.demo.runs import TORN_LINE
from rollout_assets.home import workspace_file
from rollout_assets.settings import Settings
from rollout_assets_tests.integration.processes import dagster_environment, webserver

playwright = pytest.importorskip("playwright.sync_api", reason="the package playwright is not installed")
CHROMIUM = shutil.which("chromium")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium here (Debian: apt-get install chromium)")

#: Nothing that reaches for a network: these flags stop what Chromium asks its maker at every start.
FLAGS = ["--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]
FLAGS += ["--disable-component-update", "--disable-sync"]
WINDOW = {"width": 1440, "height": 1000}
ASSETS = ("raw_run", "record_index", "producer_faults", "attempt_outcomes", "task_sides", "comparison_report")
BEFORE, AFTER, DAMAGED = (f"math/step-0{step}00/rollouts" for step in (2, 3, 4))


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """The state that `rollout-assets demo` leaves."""
    home = tmp_path_factory.mktemp("demo")
    done = CliRunner().invoke(main, ["demo", "--home", str(home)])
    assert done.exit_code == 0, done.output
    return Settings.inside(home)


@pytest.fixture(scope="module")
def url(settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    environment = dagster_environment(settings.dagster_home, **settings.environment())
    log = tmp_path_factory.mktemp("webserver") / "log"
    with webserver(workspace_file(settings), environment, log) as address:
        yield address


@pytest.fixture(scope="module")
def page(url: str, settings: Settings) -> Iterator[playwright.Page]:
    sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=FLAGS + sandbox)
        opened = browser.new_context(viewport=WINDOW, base_url=url).new_page()
        opened.set_default_timeout(30_000)
        yield opened
        browser.close()


@pytest.fixture
def screenshots(tmp_path: Path) -> Path:
    folder = Path(os.environ.get("ROLLOUT_SCREENSHOTS") or tmp_path)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def test_the_lineage_shows_every_asset_and_where_it_is_broken(page: playwright.Page, screenshots: Path) -> None:
    page.goto("/asset-groups")
    for group in ("runs", "rollouts", "comparison"):
        page.get_by_text(group, exact=True).last.wait_for()
    page.screenshot(path=screenshots / "lineage-groups.png")
    page.set_viewport_size({"width": 1800, "height": WINDOW["height"]})  # in a narrower one the graph shows names only
    page.goto("/assets/raw_run?view=lineage&lineageScope=downstream&lineageDepth=9")
    for asset in ASSETS:
        page.get_by_text(asset, exact=True).last.wait_for()
    page.get_by_text("75% filled (1 failed)").first.wait_for()
    page.screenshot(path=screenshots / "lineage.png")
    page.set_viewport_size(WINDOW)


def test_a_run_says_which_attempts_were_dropped_and_why(page: playwright.Page, screenshots: Path) -> None:
    open_partition(page, "attempt_outcomes", AFTER)
    table = page.locator("tr", has_text="dropped_outcomes").last
    timeout = table.locator("tr", has_text="transport_timeout")
    timeout.wait_for()
    page.screenshot(path=screenshots / "attempts.png")
    reason = timeout.get_by_text("superseded by attempt")
    assert is_inside_the_window(reason)


def test_the_standing_check_lists_the_malformed_run(page: playwright.Page, screenshots: Path) -> None:
    page.goto("/assets/raw_run?view=checks&checkDetail=no_run_left_behind")
    page.get_by_text("4 runs on disk, 1 left behind.").first.wait_for()
    page.screenshot(path=screenshots / "left-behind.png")
    row = page.locator("tr", has=page.get_by_text("blocked", exact=True)).last
    assert DAMAGED in row.inner_text().replace("\n", "")
    assert page.locator("tr", has_text="hours silent").first.is_visible()


def test_the_failed_check_names_line_byte_and_kind(
    page: playwright.Page, settings: Settings, screenshots: Path
) -> None:
    lines = (settings.runs_root / f"{DAMAGED}.jsonl").read_bytes().splitlines(keepends=True)
    line_start = sum(map(len, lines[: TORN_LINE - 1]))
    # The next row was appended to the torn one, so that its first quote closes a string; what follows is the fault.
    fault = line_start + lines[TORN_LINE - 1].index(b'{"_ng_', 1) + 2

    page.goto("/assets/record_index?view=checks&checkDetail=jsonl_strict")
    description = page.get_by_text(re.compile(r"^\d faults \(")).first
    description.wait_for()
    page.screenshot(path=screenshots / "check.png")
    assert page.get_by_text("This is a blocking asset check.").is_visible()
    assert page.get_by_text(DAMAGED, exact=True).first.is_visible()
    told = description.inner_text()
    assert "1 invalid_json" in told
    assert f"{DAMAGED}.jsonl:{TORN_LINE} (byte {fault}): " in told
    assert "Mend the producer" in told
    row = page.locator("tr", has=page.get_by_text("invalid_json", exact=True)).last
    assert {"output", str(TORN_LINE), str(fault)} <= set(row.inner_text().split())
    assert is_inside_the_window(description)

    page.get_by_role("tab", name="Partitions").last.click()
    page.get_by_text("Passed (3)").wait_for()
    assert page.get_by_text("Failed (1)").first.is_visible()
    page.screenshot(path=screenshots / "check-partitions.png")


def test_the_comparison_names_the_tasks_that_got_worse(page: playwright.Page, screenshots: Path) -> None:
    open_partition(page, "comparison_report", AFTER)
    flips = page.locator("tr", has_text="flips").last
    flips.get_by_text("divisors-360").wait_for()
    page.screenshot(path=screenshots / "comparison.png")
    assert page.get_by_text(BEFORE, exact=True).first.is_visible()
    rows = [row.split() for row in flips.locator("tr").all_inner_texts()]
    worse = {row[0] for row in rows if "worse" in row[1:]}
    assert {"task", "this", "run", "within", "noise"} <= set(rows[0])
    assert worse >= {"divisors-360", "sum-of-squares", "geometric-tail"}
    page.get_by_text("[Show Markdown]").first.click()
    page.get_by_role("heading", name="Flips").first.wait_for()
    page.screenshot(path=screenshots / "report.png", animations="disabled")
    report = page.get_by_role("dialog").inner_text()
    assert re.search(r"sum-of-squares\s+1\.0 .*\s+0\.5 ", report)


def test_a_column_says_which_columns_it_is_made_of(page: playwright.Page, screenshots: Path) -> None:
    page.goto("/assets/task_sides")
    column = page.locator("tr", has=page.get_by_text("reward_mean", exact=True)).last
    column.scroll_into_view_if_needed()
    page.screenshot(path=screenshots / "columns.png")
    told = column.inner_text()
    assert "mean of the finite rewards" in told
    assert "← record_index: reward, reward_state; attempt_outcomes: selected" in told


@pytest.mark.parametrize(
    ("asset", "meaning"),
    [("task_sides", r"\d+ rewards from 0 to 1"), ("comparison_report", r"3 worse, 5 better, \d+ the same")],
)
def test_a_plot_is_shown_inside_the_page(page: playwright.Page, screenshots: Path, asset: str, meaning: str) -> None:
    open_partition(page, asset, AFTER)
    plot = page.get_by_role("img", name=re.compile(meaning))
    plot.wait_for()
    assert plot.evaluate("image => image.complete && image.naturalWidth") == 404
    page.screenshot(path=screenshots / f"plot-{asset}.png")


def is_inside_the_window(element: playwright.Locator) -> bool:
    """Whether nothing of an element is cut off at the right."""
    box = element.bounding_box()
    return box is not None and box["x"] + box["width"] <= WINDOW["width"]


def open_partition(page: playwright.Page, asset: str, run_key: str) -> None:
    """The page of a run in an asset's tab of partitions."""
    page.goto(f"/assets/{asset}?view=partitions&partition={run_key.replace('/', '%2F')}")
    page.get_by_text("Latest materialization").first.wait_for()
