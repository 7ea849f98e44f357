"""A data sheet as one self-contained HTML page with text, tables and SVG charts.

Small charts as SVG text: polar plots, lines, and success over a level; the page defines the colors.
"""

from __future__ import annotations

import importlib.resources
import math
import shlex
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from html import escape

from .binomial_bounds import interval
from .datasheet import QUICK, Bound, DataSheet, RobotBounds, RobotFacts, Sheet

#: Size of a chart and its margins [px].
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 340, 220, 48, 12, 12, 40


@dataclass(frozen=True)
class Series:
    """One line of a chart."""

    label: str  # label of the legend and of the tooltip
    color: int  # index of one of the page's colors
    points: Sequence[tuple[float, float | None]]  # x and y; those without y leave a gap


@dataclass(frozen=True)
class Scale:
    """Linear map from numbers to pixels."""

    low: float  # range of the numbers
    high: float  # likewise
    start: float  # pixels of `low` and `high`
    end: float  # likewise

    def __call__(self, value: float) -> float:
        """Returns the pixel of a number."""
        return self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)

    def ticks(self, max_count: int = 6) -> list[float]:
        """Returns at most about `max_count` round numbers within the range, for tick marks."""
        step = 10.0 ** math.floor(math.log10((self.high - self.low) / max_count))
        step *= next(k for k in (1, 2, 5, 10, 20) if (self.high - self.low) / (k * step) <= max_count)
        first = math.ceil(self.low / step - 1e-9)
        return [k * step for k in range(first, math.floor(self.high / step + 1e-9) + 1)]


def lines(series: Sequence[Series], x_label: str, y_label: str, *, y_max: float | None = None) -> str:
    """Draws lines with dots; both axes begin at 0.

    Args:
        series: lines, at least one of them with a point.
        x_label: label of the x axis, with its unit.
        y_label: label of the y axis, with its unit.
        y_max: end of the y axis; None: 8 % above the largest value.
    """
    xs = [x for line in series for x, _ in line.points]
    ys = [y for line in series for _, y in line.points if y is not None]
    top = y_max if y_max is not None else 1.08 * max(ys, default=1.0) or 1.0
    x, y = _scales(max(xs, default=1.0), top)
    body = _axes(x, y, x_label, y_label)
    for line in series:
        runs: list[list[str]] = [[]]
        for x_value, y_value in line.points:
            if y_value is None:
                runs.append([])
            else:
                runs[-1].append(f"{x(x_value):.1f},{y(y_value):.1f}")
        body += "".join(f'<polyline class="line c{line.color}" points="{" ".join(run)}"/>' for run in runs if run)
        body += "".join(
            f'<circle class="dot c{line.color}" cx="{x(x_value):.1f}" cy="{y(y_value):.1f}" r="3">'
            f"<title>{escape(line.label)}: {y_value:.3g} at {x_value:.3g}</title></circle>"
            for x_value, y_value in line.points
            if y_value is not None
        )
    return _svg(WIDTH, HEIGHT, body, f"{y_label} over {x_label}")


def polar(series: Sequence[Series], unit: str) -> str:
    """Draws values by direction; x of a point is its angle from straight ahead, counterclockwise [deg]; ahead is up."""
    size, middle = 380, 190.0
    max_value = max((y for s in series for _, y in s.points if y is not None), default=1.0) or 1.0
    scale = Scale(0.0, 1.05 * max_value, 0.0, 130.0)
    body = ""
    for tick in scale.ticks(4):
        if tick > 0.0:
            r = scale(tick)
            body += f'<circle class="grid" cx="{middle}" cy="{middle}" r="{r:.1f}"/>'
            body += f'<text class="tick" x="{middle + 3}" y="{middle - r - 3:.1f}">{tick:.3g} {escape(unit)}</text>'
    names = {0: "front", 90: "left", 180: "rear", 270: "right"}
    for angle, name in names.items():
        a = math.radians(angle)
        x, y = middle - 150.0 * math.sin(a), middle - 150.0 * math.cos(a)
        line_end = f'{middle - 130 * math.sin(a):.1f}" y2="{middle - 130 * math.cos(a):.1f}'
        body += f'<line class="grid" x1="{middle}" y1="{middle}" x2="{line_end}"/>'
        body += f'<text class="name" x="{x:.1f}" y="{y + 4:.1f}" text-anchor="middle">{name}</text>'
    for s in series:
        pixels = [
            (middle - scale(y or 0.0) * math.sin(math.radians(a)), middle - scale(y or 0.0) * math.cos(math.radians(a)))
            for a, y in s.points
        ]
        body += f'<polygon class="area c{s.color}" points="{" ".join(f"{x:.1f},{y:.1f}" for x, y in pixels)}"/>'
        body += "".join(
            f'<circle class="dot c{s.color}" cx="{x:.1f}" cy="{y:.1f}" r="4"><title>{escape(s.label)}: '
            f"{'no push' if v is None else f'{v:.3g} {escape(unit)}'} towards {a:.0f} degrees</title></circle>"
            for (x, y), (a, v) in zip(pixels, s.points, strict=True)
        )
    return _svg(size, size, body, f"largest push by direction [{unit}]")


@dataclass(frozen=True)
class SuccessCurve:
    """Fraction of trials that succeeded over a quantity, with confidence intervals."""

    label: str  # label of the tooltip
    color: int  # index of one of the page's colors
    # value, fraction of successes, and lower and upper end of its confidence interval
    points: Sequence[tuple[float, float, float, float]]
    claimed: float | None  # value of the claim; None without one


def success(curves: Sequence[SuccessCurve], x_label: str) -> str:
    """Draws fractions of success with their confidence intervals, and a line at each claimed value."""
    values = [p[0] for curve in curves for p in curve.points]
    x = Scale(min(*values, 0.0), 1.03 * max(*values, 1e-9), LEFT, WIDTH - RIGHT)
    y = Scale(0.0, 1.0, HEIGHT - BOTTOM, TOP)
    body = _axes(x, y, x_label, "success")
    for curve in curves:
        if curve.claimed is not None:
            at = f"{x(curve.claimed):.1f}"
            body += f'<line class="claim c{curve.color}" x1="{at}" y1="{TOP}" x2="{at}" y2="{HEIGHT - BOTTOM}"/>'
        for value, fraction, below, above in curve.points:
            at = f"{x(value):.1f}"
            body += f'<line class="bar c{curve.color}" x1="{at}" y1="{y(below):.1f}" x2="{at}" y2="{y(above):.1f}"/>'
            body += f'<circle class="dot c{curve.color}" cx="{at}" cy="{y(fraction):.1f}" r="3">'
            body += f"<title>{escape(curve.label)}: {100 * fraction:.0f} % at {value:.3g}</title></circle>"
    return _svg(WIDTH, HEIGHT, body, f"fraction of success over {x_label}")


def _scales(x_max: float, y_max: float) -> tuple[Scale, Scale]:
    """Returns the scales of both axes, from 0 to their largest values."""
    return Scale(0.0, 1.03 * x_max, LEFT, WIDTH - RIGHT), Scale(0.0, y_max, HEIGHT - BOTTOM, TOP)


def _axes(x: Scale, y: Scale, x_label: str, y_label: str) -> str:
    """Draws both axes with grid, tick labels and names."""
    body = ""
    for tick in y.ticks(5):
        body += f'<line class="grid" x1="{LEFT}" y1="{y(tick):.1f}" x2="{WIDTH - RIGHT}" y2="{y(tick):.1f}"/>'
        body += f'<text class="tick" x="{LEFT - 5}" y="{y(tick) + 3.5:.1f}" text-anchor="end">{tick:.4g}</text>'
    for tick in x.ticks():
        body += (
            f'<text class="tick" x="{x(tick):.1f}" y="{HEIGHT - BOTTOM + 14}" text-anchor="middle">{tick:.4g}</text>'
        )
    base = HEIGHT - BOTTOM
    body += f'<line class="axis" x1="{LEFT}" y1="{base}" x2="{WIDTH - RIGHT}" y2="{base}"/>'
    body += f'<text class="name" x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 8}" text-anchor="middle">'
    body += f"{escape(x_label)}</text>"
    middle = (TOP + HEIGHT - BOTTOM) / 2
    body += f'<text class="name" x="12" y="{middle}" text-anchor="middle" transform="rotate(-90 12 {middle})">'
    return body + f"{escape(y_label)}</text>"


def _svg(width: int, height: int, body: str, title: str) -> str:
    """Returns an SVG element with a title for screen readers."""
    size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    return f'<svg {size} role="img" aria-label="{escape(title)}">{body}</svg>'


#: Duration of a push, for converting its impulse to a force [s].
PUSH_TIME = 0.1


@dataclass(frozen=True)
class UnitFormat:
    """Format of the values of a bound."""

    factor: float  # factor from the unit of the bound to `unit`
    unit: str  # displayed unit
    # further displayed units, each after its factor from the unit of the bound
    also: tuple[tuple[float, str], ...] = ()

    def __call__(self, value: float) -> float:
        """Returns a value in `unit`."""
        return self.factor * value

    def format(self, value: float) -> str:
        """Returns a value as text with its units."""
        text = f"{self.factor * value:.3g} {self.unit}".strip()
        also = ", ".join(f"{factor * value:.3g} {unit}" for factor, unit in self.also)
        return f"{text} ({also})" if also else text


def unit_format_of(bound: Bound, facts: RobotFacts) -> UnitFormat:
    """Returns the format of the values of a bound of a robot."""
    if bound.name.startswith("push"):
        return UnitFormat(
            1.0, "m/s", ((1.0 / facts.speed, "sqrt(g l)"), (facts.mass / PUSH_TIME, f"N for {PUSH_TIME:g} s"))
        )
    if bound.name.startswith("slope"):
        return UnitFormat(180.0 / math.pi, "°")
    if bound.name in ("step", "stairs up", "stairs down", "rubble", "relief"):
        return UnitFormat(100.0 * facts.length, "cm", ((100.0, "% of the leg length"),))
    if bound.name == "payload":
        return UnitFormat(facts.mass, "kg", ((100.0, "% of the mass"),))
    if bound.name == "delay":
        return UnitFormat(1e3, "ms")
    if bound.name == "strength":
        return UnitFormat(100.0, "% of the torque limits")
    return UnitFormat(1.0, bound.unit)


#: Explanations of the quantities and of the search, as terms and descriptions of a list.
NOTES = (importlib.resources.files(__package__) / "sheet_notes.html").read_text(encoding="utf-8")
#: Style sheet of the page.
STYLE = "\n" + (importlib.resources.files(__package__) / "sheet.css").read_text(encoding="utf-8")


#: Maximum number of failed cases listed for one bound; the store has all.
MAX_LISTED_FAILURES = 40


def page(sheet: Sheet) -> str:
    """Returns the HTML page of a data sheet."""
    names = [m.facts.title for m in sheet.robots]
    title = f"Data sheet: {' and '.join(names)}"
    parts = [
        f"<h1>{escape(title)}</h1>",
        f"<p class='lead'>Performance limits of {' and '.join(map(escape, names))}, measured in simulation. "
        f"{_claim_text(sheet)}</p>",
        _legend(names) if len(names) > 1 else "",
        "<h2>Measured limits</h2>",
        _bounds_table(sheet),
        _push_chart(sheet),
        _gait_charts(sheet),
        "<h2>Success rate over difficulty</h2>",
        "<p>All trials by level, with the 95 % interval of each success rate. The line marks the claimed bound.</p>",
        _success_charts(sheet),
        "<h2>Properties of the robot</h2>" if len(names) == 1 else "<h2>Properties of the robots</h2>",
        _facts_table(sheet),
        "<h2>Method</h2>",
        _method_section(sheet),
        "<h2>Failed cases</h2>",
        _failure_tables(sheet),
    ]
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<link rel="icon" href="data:,"><title>{escape(title)}</title><style>{STYLE}</style></head>\n<body><main>'
        + "\n".join(part for part in parts if part)
        + "</main></body></html>\n"
    )


def _table(head: Iterable[str], rows: str) -> str:
    """Returns a table, wider ones with a scroll bar, from the HTML of its column titles and its rows."""
    titles = "".join(f"<th>{title}</th>" for title in head)
    return f"<div class='wide'><table><thead><tr>{titles}</tr></thead><tbody>{rows}</tbody></table></div>"


def _row(title: str, cells: Iterable[str]) -> str:
    """Returns a row of a table, from its title as text and the HTML of its cells."""
    return f"<tr><th scope='row'>{escape(title)}</th>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"


def _claim_text(sheet: Sheet) -> str:
    """Returns the meaning of a bound with its probability and confidence."""
    c = sheet.campaign
    return (
        f"Each bound reads: <em>at this level a trial succeeds with a probability of at least "
        f"{100 * c.probability:g} %, with {100 * c.confidence:g} % confidence</em>."
    )


def _legend(names: Sequence[str]) -> str:
    """Returns a legend with one color per name."""
    items = (f'<span class="key c{i}"></span>{escape(name)}' for i, name in enumerate(names))
    return f"<p class='legend'>{' '.join(items)}</p>"


def _speed_text(sheet: Sheet, multiple: float) -> str:
    """Returns a multiple of sqrt(g l) in m/s for each robot, as text."""
    return " and ".join(f"{multiple * m.facts.speed:.2g} m/s" for m in sheet.robots)


def _bound_rows(sheet: Sheet) -> Iterable[tuple[str, list[tuple[RobotFacts, Bound | None]]]]:
    """Yields the title of each bound, and the bound of each robot; None where it was not measured."""
    names: dict[str, str] = {}
    for m in sheet.robots:
        names |= {bound.name: bound.title for bound in m.bounds}
    for name, title in names.items():
        found = [next((b for b in m.bounds if b.name == name), None) for m in sheet.robots]
        yield _bound_title(name, title), [(m.facts, b) for m, b in zip(sheet.robots, found, strict=True)]


def _bound_title(name: str, title: str) -> str:
    """Returns the title of a bound, with the direction of a push."""
    return f"{title} to {name.split()[1]}° from ahead" if name.startswith("push") else title


def _bounds_table(sheet: Sheet) -> str:
    """Returns the table of all bounds with their evidence."""
    head = [title for m in sheet.robots for title in (escape(m.facts.title), "evidence")]
    body = _any_direction_row(sheet)
    for title, cells in _bound_rows(sheet):
        body += f"<tr><th scope='row'>{escape(title)}</th>"
        for facts, bound in cells:
            body += "<td>-</td><td></td>" if bound is None else _bound_cells(facts, bound)
        body += "</tr>"
    return _table(["", *head], body)


def _push_bounds(m: RobotBounds) -> list[tuple[float, Bound]]:
    """Returns the push bounds with their directions, counterclockwise from forward [deg]."""
    return [(float(b.name.split()[1]), b) for b in m.bounds if b.name.startswith("push")]


def _any_direction_row(sheet: Sheet) -> str:
    """Returns the table row of the largest push that is claimed in every direction."""
    body = ""
    for m in sheet.robots:
        pushes = _push_bounds(m)
        if len(pushes) < 2:
            return ""
        angle, smallest = min(pushes, key=lambda a: -1.0 if a[1].value is None else a[1].value)
        body += _value_cell(m.facts, smallest) + f"<td>minimum over {len(pushes)} directions: {angle:.0f}°</td>"
    return f"<tr><th scope='row'>largest push in every direction</th>{body}</tr>"


def _value_cell(facts: RobotFacts, bound: Bound) -> str:
    """Returns the table cell with the claimed value of a bound."""
    if bound.value is None:
        return "<td class='none'>none claimed</td>"
    sign = ("≥ " if bound.harder == "larger" else "≤ ") if bound.threshold.top else ""
    return f"<td class='value'>{sign}{unit_format_of(bound, facts).format(bound.value)}</td>"


def _bound_cells(facts: RobotFacts, bound: Bound) -> str:
    """Returns the table cells with value and evidence of a bound."""
    threshold, unit_format = bound.threshold, unit_format_of(bound, facts)
    if bound.value is None:
        easiest = unit_format.format(bound.values[0])
        cells = f"{_value_cell(facts, bound)}<td>even at {easiest}: "
        if threshold.upper < 1.0:
            return (
                cells + f"the probability of success is below {100 * threshold.upper:.1f} % "
                f"({100 * threshold.confidence:g} % confidence)</td>"
            )
        return cells + f"{threshold.successes} of {threshold.trials} in the last attempt</td>"
    notes = [f"{threshold.successes} of {threshold.trials}"]
    if threshold.successes == threshold.trials:
        notes.append(f"falls: at most {100 * (1.0 - threshold.probability):g}&nbsp;%")
    if threshold.top:
        notes.append("hardest level of the range")
    if not threshold.monotone:
        values = ", ".join(unit_format.format(bound.values[level]) for level in threshold.exceptions)
        notes.append(f"<strong class='warn'>not monotone: lower success rate at {values}</strong>")
    elif threshold.inversions:
        notes.append(f"{threshold.inversions} single failure{'s' * (threshold.inversions > 1)} at easier levels")
    return f"{_value_cell(facts, bound)}<td>{'; '.join(notes)}</td>"


def _push_chart(sheet: Sheet) -> str:
    """Returns the polar chart of the largest pushes."""
    series = []
    for i, m in enumerate(sheet.robots):
        points = [(angle, None if b.value is None else b.value / m.facts.speed) for angle, b in _push_bounds(m)]
        series.append(Series(m.facts.title, i, points))
    if not any(s.points for s in series):
        return ""
    return (
        f"<figure>{polar(series, 'sqrt(g l)')}<figcaption>Largest push by direction, as a "
        f"change of velocity in sqrt(g l) ({_speed_text(sheet, 1.0)}); while trotting forward at "
        f"{_speed_text(sheet, 0.25)}.</figcaption></figure>"
    )


def _gait_charts(sheet: Sheet) -> str:
    """Returns charts and table of tracking, torque, power and cost of transport by gait."""
    gaits = list(dict.fromkeys(g for m in sheet.robots for g in m.gaits))
    if not gaits:
        return ""
    out = "<h2>Gaits: tracking, torque, power, cost of transport</h2>"
    if len(sheet.robots) == 1:  # one robot: one color per gait
        each = {gait: [(gait, i, sheet.robots[0])] for i, gait in enumerate(gaits)}
        out += _legend(gaits)
        groups = [("", [item for items in each.values() for item in items])]
    else:
        groups = [(g, [(g, i, m) for i, m in enumerate(sheet.robots) if g in m.gaits]) for g in gaits]
    for title, members in groups:
        charts = ""
        for label, name, scale in (
            ("tracking error [%]", "error", 100.0),
            ("cost of transport", "cost", 1.0),
            ("mechanical power [W]", "power", 1.0),
            ("peak torque [% of limit]", "torque", 100.0),
        ):
            series = []
            for gait, color, m in members:
                values = [(p.commanded, getattr(p, name)) for p in m.gaits[gait]]
                points = [(x, None if y is None else scale * y) for x, y in values]
                series.append(Series(f"{m.facts.title}, {gait}", color, points))
            charts += lines(series, "commanded speed [m/s]", label)
        out += (f"<h3>{escape(title)}</h3>" if title else "") + f"<div class='charts'>{charts}</div>"
    return out + _gait_table(sheet, gaits)


def _gait_table(sheet: Sheet, gaits: Sequence[str]) -> str:
    """Returns the table of speed range, error, cost, power and torque by gait."""
    body = ""
    for gait in gaits:
        for m in sheet.robots:
            points = [p for p in m.gaits.get(gait, ()) if p.successes]
            bound = next((b for b in m.bounds if b.name == f"speed {gait}"), None)
            if not points or bound is None:
                continue
            most_efficient = min((p for p in points if p.cost is not None), key=lambda p: p.cost or 0.0, default=None)
            fastest = points[-1]
            speed_range = "none claimed" if bound.value is None else f"0 to {bound.value:.2f}"
            cells = [
                speed_range,
                f"{100 * fastest.error:.1f} % at {fastest.commanded:.2f}" if fastest.error is not None else "",
                f"{most_efficient.cost:.2f} at {most_efficient.commanded:.2f}"
                if most_efficient is not None and most_efficient.cost is not None
                else "",
                f"{fastest.power:.0f} ({fastest.power_peak:.0f})" if fastest.power and fastest.power_peak else "",
                f"{fastest.torque_rms:.1f} ({100 * fastest.torque:.0f} %)"
                if fastest.torque_rms and fastest.torque
                else "",
            ]
            name = f"{m.facts.title}, {gait}" if len(sheet.robots) > 1 else gait
            body += _row(name, cells)
    head = (
        "", "speed range [m/s]", "error at speed [m/s]", "lowest cost of transport at speed [m/s]",
        "mean (peak) power at the highest speed [W]", "rms torque [N m] (peak / limit)",
    )  # fmt: skip
    return _table(head, body) + (
        "<p>Error, power and torque are those of the fastest successful runs. Power is the positive mechanical power "
        "of all joints, without losses of motors and electronics.</p>"
    )


def _success_charts(sheet: Sheet) -> str:
    """Returns a chart of the success rate over the level for each bound."""
    out = ""
    for title, cells in _bound_rows(sheet):
        curves, label = [], title
        for i, (facts, bound) in enumerate(cells):
            if bound is None:
                continue
            unit_format = unit_format_of(bound, facts)
            points = [
                (unit_format(bound.values[level]), k / n, *interval(k, n))
                for level, (k, n) in bound.threshold.counts.items()
            ]
            curves.append(
                SuccessCurve(facts.title, i, points, None if bound.value is None else unit_format(bound.value))
            )
            label = f"{title} [{unit_format.unit}]" if unit_format.unit else title
        out += success(curves, label)
    return f"<div class='charts'>{out}</div>"


def _facts_table(sheet: Sheet) -> str:
    """Returns the tables of the properties of the robots and their joints."""
    rows: list[tuple[str, Callable[[RobotFacts], str]]] = [
        ("mass", lambda f: f"{f.mass:.2f} kg"),
        ("degrees of freedom", lambda f: f"{f.degrees}, of which {len(f.joints)} motors"),
        ("length of the stretched legs", lambda f: f"{f.length:.3f} m"),
        ("height of the center of mass at home", lambda f: f"{f.height:.3f} m"),
        ("reach of the feet from their hips", _reach_text),
        ("unit of speed, sqrt(g l)", lambda f: f"{f.speed:.2f} m/s"),
    ]  # fmt: skip
    body = "".join(_row(title, [text(m.facts) for m in sheet.robots]) for title, text in rows)
    head = ["", *(escape(m.facts.title) for m in sheet.robots)]
    return _table(head, body) + "".join(_joint_table(m) for m in sheet.robots)


def _reach_text(facts: RobotFacts) -> str:
    """Returns the reach of each foot as text."""
    return "; ".join(f"{foot} {near:.3f} to {far:.3f} m" for foot, (near, far) in facts.reach.items())


def _joint_table(m: RobotBounds) -> str:
    """Returns the table of the joint limits of a robot."""
    body = "".join(_row(name, map(_format_number, limits)) for name, *limits in m.facts.joints)
    head = ("joint", "from [rad]", "to [rad]", "speed [rad/s]", "torque [N m]")
    return f"<details><summary>Joints of {escape(m.facts.title)}</summary>{_table(head, body)}</details>"


def _format_number(value: float) -> str:
    """Formats a limit; "no limit" for infinity."""
    return f"{value:.3g}" if math.isfinite(value) else "no limit"


def _method_section(sheet: Sheet) -> str:
    """Returns the list of conditions of the measurement, and explanations of the quantities."""
    c = sheet.campaign
    versions = ", ".join(f"{name} {number}" for name, number in sheet.versions.items())
    facts = [
        f"{sheet.trials:,} trials in the {escape(c.plant)} plant, {sheet.seconds:,.0f} s of CPU time",
        f"period of controller and plant {1e3 * c.dt:g} ms; seed {c.seed}; {c.pilot} trials in a row to pass a level "
        f"of the search, {c.checks} easier levels checked",
        f"versions: {escape(versions)}",
        f"processors: {escape('; '.join(sheet.processors) or 'this machine')}",
        f"command: <code>{escape(_command_text(c))}</code>",
    ]
    return f"<ul>{''.join(f'<li>{fact}</li>' for fact in facts)}</ul><dl>{NOTES}</dl>"


def _command_text(campaign: DataSheet) -> str:
    """Returns the command that repeats the measurement, or the campaign for `measure` if no command can express it."""
    options = ("robot", "plant", "bounds", "directions", "seed")
    values = {name: getattr(campaign, name) for name in options}
    variants = {(): DataSheet(**values), ("--quick",): DataSheet(**(QUICK | values))}
    quick = next((words for words, variant in variants.items() if variant == campaign), None)
    if quick is None:
        return repr(campaign)
    words = ["quaddyn", "datasheet", campaign.robot[0]]
    words += [word for name in campaign.robot[1:] for word in ("--compare", name)] + [*quick]
    words += [word for name in campaign.bounds for word in ("--only", name)]
    words += [word for name in ("directions", "plant", "seed") for word in (f"--{name}", str(getattr(campaign, name)))]
    return shlex.join(words)


def _failure_tables(sheet: Sheet) -> str:
    """Returns the tables of failed cases by bound, with the command that replays each."""
    store = sheet.store
    replay_note = (
        f"To replay one of them in the viewer: <code>quaddyn replay {escape(store)}#NUMBER</code>."
        if store
        else "The cases were not stored; with <code>--store FILE</code> each can be replayed."
    )
    out = f"<p>{replay_note} The last column lists the fields that differ from an undisturbed trot.</p>"
    for m in sheet.robots:
        for bound in m.bounds:
            if not bound.failed:
                continue
            unit_format: UnitFormat = unit_format_of(bound, m.facts)
            rows = ""
            for failed_case in bound.failed[:MAX_LISTED_FAILURES]:
                command = f"<code>quaddyn replay {escape(store)}#{failed_case.number}</code>" if store else ""
                fell = "" if failed_case.fell is None else f"{failed_case.fell:.2f}"
                rows += (
                    f"<tr id='case-{failed_case.number}'><td>{command}</td>"
                    f"<td>{unit_format.format(failed_case.value)}</td>"
                    f"<td>{escape(failed_case.reason)}</td><td>{fell}</td>"
                    f"<td class='case'>{escape(failed_case.case)}</td></tr>"
                )
            n_omitted = len(bound.failed) - MAX_LISTED_FAILURES
            rows += f"<tr><td colspan='5'>and {n_omitted} more, in the store</td></tr>" if n_omitted > 0 else ""
            title = _bound_title(bound.name, bound.title)
            summary = f"{escape(m.facts.title)}: {escape(title)}, {len(bound.failed)} failures"
            table = _table(("", "at", "reason", "fell [s]", "case"), rows)
            out += f"<details><summary>{summary}</summary>{table}</details>"
    return out
