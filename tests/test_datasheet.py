"""Data sheet: parallel searches, continuation from its store, and a self-contained page."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from pathlib import Path

import browser
import pytest
from raising import raises
from typer.testing import CliRunner

import quaddyn as qd
from quaddyn.campaigns import trial_campaign
from quaddyn.campaigns.campaign import Record, case_rng
from quaddyn.campaigns.datasheet import QUICK, DataSheet, Sheet, measure
from quaddyn.campaigns.sheet_page import (
    BOTTOM,
    HEIGHT,
    TOP,
    Scale,
    Series,
    SuccessCurve,
    _command_text,
    _gait_table,
    page,
    polar,
    success,
)
from quaddyn.campaigns.store import Store
from quaddyn.campaigns.trial import Trial
from quaddyn.cli import app


def synthetic_record(case: Trial, watch: object = None) -> Record:
    """Record computed by a formula: success is less likely in harder cases, and every crawl fails."""
    speed = math.hypot(case.velocity[0], case.velocity[1])
    hard = max(
        case.push / (0.9 + 0.3 * math.cos(case.push_direction)), 0.1 / case.friction, case.slope / 0.4,
        case.step / 0.06, case.payload / 6.0, case.delay / 0.012, 0.4 / case.torque_scale, speed / 0.8,
    )  # fmt: skip
    luck = case_rng(case.seed, case.number, 99).random()
    well = luck < 1.0 / (1.0 + math.exp(min((hard - 1.0) / 0.02, 500.0))) and case.gait != "crawl"
    return {
        "success": well,
        "reason": None if well else "fell <over>",
        "fell": None if well else 1.25,
        "vx": speed if well else None,
        "velocity_error": 0.01,
        "cost": 0.3 / (speed + 0.1),
        "power": 20.0 + speed,
        "power_peak": 50.0,
        "torque": 0.5,
        "torque_rms": 4.0,
    }


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("sheets")


@pytest.fixture(scope="module")
def sheet(stores: Path) -> Sheet:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trial_campaign, "run_trial", synthetic_record)
        quick = DataSheet(robot=("go2", "solo12"), probability=0.8, directions=2, pilot=6, checks=1)
        return measure(quick, None, str(stores / "two.db"))


def test_bounds_are_at_the_thresholds_of_the_success_curves(sheet: Sheet) -> None:
    for robot in sheet.robots:
        found = {bound.name: bound for bound in robot.bounds}
        expected = {"friction": 0.1, "slope": 0.4, "payload": 6.0 / robot.facts.mass, "delay": 0.012, "strength": 0.4}
        expected |= {"step": 0.06 / robot.facts.length, "push 0": 1.2, "push 180": 0.6, "speed trot": 0.8}
        for name, true in expected.items():
            bound = found[name]
            order = [value for value in bound.values if (value <= true) == (bound.harder == "larger")]
            assert bound.value is not None and bound.value in bound.values
            easier = bound.value <= 1.02 * true if bound.harder == "larger" else bound.value >= 0.98 * true
            away = abs(bound.values.index(bound.value) - (len(order) if bound.harder == "larger" else
                       next(i for i, v in enumerate(bound.values) if v < true)))  # fmt: skip
            assert easier and (away <= 4 or bound.threshold.top), (name, bound.value, true)
            assert bound.failed or bound.threshold.top
        assert found["speed crawl"].value is None and found["speed crawl"].threshold.upper < 0.5


def test_gaits_are_measured_at_several_speeds(sheet: Sheet) -> None:
    trot, crawl = sheet.robots[0].gaits["trot"], sheet.robots[0].gaits["crawl"]
    assert [p.trials for p in trot] == [3] * 6 and trot[0].successes == 3 and trot[0].cost is not None
    assert trot[0].cost == pytest.approx(0.3 / (trot[0].commanded + 0.1)) and trot[-1].reached is None
    assert all(p.successes == 0 and p.cost is None for p in crawl)


def test_claimed_push_is_the_minimum_over_directions(sheet: Sheet) -> None:
    row = page(sheet).partition(">largest push in every direction<")[2].partition("</tr>")[0]
    said = re.findall(r"<td class='value'>(.*?)</td><td>(.*?)</td>", row)
    assert len(said) == len(sheet.robots)
    for robot, (value, why) in zip(sheet.robots, said, strict=True):
        weak = next(bound for bound in robot.bounds if bound.name == "push 180")
        assert weak.value is not None and why == "minimum over 2 directions: 180°"
        force = weak.value * robot.facts.mass / 0.1
        told = f"{weak.value:.3g} m/s ({weak.value / robot.facts.speed:.3g} sqrt(g l), {force:.3g} N for 0.1 s)"
        assert value == told


def test_pushes_are_plotted_by_direction_scaled_to_the_robot(sheet: Sheet) -> None:
    (drawn,) = re.findall(r'<svg [^>]*aria-label="largest push by direction \[sqrt\(g l\)\]">.*?</svg>', page(sheet))
    dots = re.findall(r'cy="([.\d]+)" r="4"><title>(\S+): (\S+) sqrt\(g l\) towards (\d+) degrees', drawn)
    pushes = {
        (m.facts.title, b.name.split()[1]): b.value / m.facts.speed
        for m in sheet.robots
        for b in m.bounds
        if b.name.startswith("push") and b.value is not None
    }
    assert len(dots) == len(pushes) == 4
    most = max(pushes.values())
    for y, name, value, angle in dots:
        share = pushes[name, angle] / (1.05 * most)  # of the radius of 130; forward is up
        assert value == f"{pushes[name, angle]:.3g}"
        assert float(y) == pytest.approx(190.0 + 130.0 * share * (1.0 if angle == "180" else -1.0), abs=0.06)


@pytest.mark.slow
def test_largest_push_of_go2_is_found_by_direction() -> None:
    """A few real runs with low confidence."""
    few = DataSheet(bounds=("push",), directions=2, probability=0.5, confidence=0.75, pilot=2, checks=0)
    sheet = measure(few)
    (go2,) = sheet.robots
    assert [bound.name for bound in go2.bounds] == ["push 0", "push 180"]
    for bound in go2.bounds:
        assert bound.value is not None and 0.3 * go2.facts.speed < bound.value <= go2.facts.speed
    least = min(bound.value for bound in go2.bounds if bound.value is not None)
    text = page(sheet)
    assert f"every direction</th><td class='value'>{least:.3g} m/s (" in text and text.count(' r="4"><title>go2: ') == 2


def test_gaits_are_listed_with_their_robot_if_there_are_several(sheet: Sheet) -> None:
    for robots in (sheet.robots, sheet.robots[:1]):
        rows = re.findall("<th scope='row'>(.*?)</th>", _gait_table(replace(sheet, robots=robots), ["trot"]))
        assert rows == ([f"{m.facts.title}, trot" for m in robots] if len(robots) > 1 else ["trot"])


def test_data_sheet_continues_from_its_store_with_the_same_result(
    sheet: Sheet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trial_campaign, "run_trial", lambda case, watch=None: pytest.fail("ran again"))
    assert sheet.store is not None
    again = measure(sheet.campaign, None, sheet.store)
    assert page(again) == page(sheet)
    with Store.read(sheet.store) as there:
        assert len(there) == sheet.trials
        failed = sheet.robots[0].bounds[0].failed[0]
        assert there.row(failed.number).result["fell"] == failed.fell  # type: ignore[index]


def test_page_lists_failed_cases_with_their_replay_command(sheet: Sheet) -> None:
    text = page(sheet)
    for robot in sheet.robots:
        for bound in robot.bounds:
            for failed in bound.failed[:40]:
                assert f"two.db#{failed.number}<" in text
    assert "fell &lt;over&gt;" in text and "<over>" not in text
    assert "0 %<" not in text.replace("10 %", "") and "none claimed" in text


@pytest.mark.browser
def test_page_opens_without_requests_or_errors(sheet: Sheet, stores: Path) -> None:
    path = stores / "page.html"
    path.write_text(page(sheet), encoding="utf-8")
    with browser.chromium(browser.require("chromium"), 1100, 900) as new_page:
        for scheme in ("light", "dark"):
            opens(new_page(), path, scheme)


def opens(tab: browser.Page, path: Path, scheme: str) -> None:
    """Asserts that the page opens in a tab with this color scheme, with no request except that for the page."""
    tab.offline()
    tab.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
    tab.call("Page.navigate", url=path.as_uri())
    tab.wait("document.readyState === 'complete' && document.querySelectorAll('svg').length > 20")
    assert tab.errors == [] and tab.requests == [path.as_uri()]
    assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth")
    shade = tab.evaluate("getComputedStyle(document.body).backgroundColor")
    assert shade == ("rgb(255, 255, 255)" if scheme == "light" else "rgb(18, 22, 28)")
    # Text and background have different colors in both schemes.
    assert tab.evaluate("getComputedStyle(document.querySelector('svg text')).fill") != shade


def test_datasheet_command_writes_page_and_store(stores: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial_campaign, "run_trial", synthetic_record)
    out = stores / "small.html"
    words = ["datasheet", "go2", "--compare", "solo12", "--quick", "--workers", "0", "--only", "friction"]
    result = CliRunner().invoke(app, [*words, "--out", str(out)])
    assert result.exit_code == 0, result.output
    assert "s of CPU time" in result.output and (stores / "small.db").exists()
    text = out.read_text(encoding="utf-8")
    assert "lowest friction" in text and "<figure>" not in text
    made = "quaddyn datasheet go2 --compare solo12 --quick --only friction --directions 4 --plant embedded --seed 0"
    assert f"command: <code>{made}</code>" in text


def test_data_sheet_states_its_command() -> None:
    assert sum(cell.name.startswith("push") for cell in DataSheet(**QUICK).cells("go2")) == 4
    spaced = DataSheet(robot=("my robot.urdf",), bounds=("stairs up",), directions=3)
    assert _command_text(spaced) == (
        "quaddyn datasheet 'my robot.urdf' --only 'stairs up' --directions 3 --plant embedded --seed 0"
    )
    assert "--quick" in _command_text(DataSheet(**QUICK))
    for other in (
        DataSheet(probability=0.8),
        DataSheet(confidence=0.9),
        DataSheet(dt=1e-3),
    ):  # the command line has no such options
        assert _command_text(other) == repr(other)


def test_invalid_data_sheets_are_rejected() -> None:
    raises(qd.ArgumentError, "only once", DataSheet, robot=("go2", "go2"))
    raises(qd.ArgumentError, "got none", DataSheet, robot=())
    raises(qd.UnknownNameError, "friction", DataSheet(bounds=("frictoin",)).cells, "go2")
    raises(qd.ArgumentError, "quadruped", measure, DataSheet(robot=("ur5",)))


def test_plot_scales_have_round_ticks() -> None:
    assert Scale(0.0, 1.0, 0.0, 10.0).ticks(5) == pytest.approx([0.0, 0.2, 0.4, 0.6, 0.8, 1.0])
    assert Scale(0.0, 0.034, 0.0, 10.0).ticks(4) == pytest.approx([0.0, 0.01, 0.02, 0.03])
    assert [Scale(2.0, 4.0, 10.0, 30.0)(x) for x in (2.0, 3.0, 4.0)] == [10.0, 20.0, 30.0]
    assert "no push" in polar([Series("a", 0, [(0.0, 1.0), (90.0, None)])], "m/s")


def test_success_fractions_are_plotted_from_bottom_to_top() -> None:
    drawn = success(
        [SuccessCurve("", 0, [(0.0, 0.0, 0.0, 0.5), (1.0, 0.5, 0.0, 1.0), (2.0, 1.0, 0.5, 1.0)], None)], "x"
    )
    bottom, top = HEIGHT - BOTTOM, TOP
    assert [float(y) for y in re.findall(r'cy="([-.\d]+)"', drawn)] == [bottom, (bottom + top) / 2, top]
