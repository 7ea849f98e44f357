"""A data sheet as one HTML page: text, tables and SVG, nothing loaded from anywhere; light or dark."""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Iterable, Sequence
from html import escape

from .binomial_bounds import interval
from .datasheet import QUICK, Bound, DataSheet, RobotBounds, RobotFacts, Sheet
from .sheet_charts import Series, SuccessCurve, lines, polar, success
from .sheet_text import NOTES, STYLE, UnitFormat, reading

#: Failing cases listed of one bound; the store holds all.
LISTED = 40


def page(sheet: Sheet) -> str:
    """The page of a data sheet."""
    names = [m.facts.title for m in sheet.robots]
    title = f"Data sheet: {' and '.join(names)}"
    parts = [
        f"<h1>{escape(title)}</h1>",
        f"<p class='lead'>What {' and '.join(map(escape, names))} can take, simulated and measured. "
        f"{_claim(sheet)}</p>",
        _legend(names) if len(names) > 1 else "",
        "<h2>What it can take</h2>",
        _bounds(sheet),
        _pushes(sheet),
        _gaits(sheet),
        "<h2>How success falls with difficulty</h2>",
        "<p>Every trial that was run, by level, with the 95 % interval of each share. The line marks the claim.</p>",
        _curves(sheet),
        "<h2>The robot, by its description</h2>" if len(names) == 1 else "<h2>The robots, by their descriptions</h2>",
        _facts(sheet),
        "<h2>How it was measured</h2>",
        _method(sheet),
        "<h2>Every failing case</h2>",
        _failures(sheet),
    ]
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<link rel="icon" href="data:,"><title>{escape(title)}</title><style>{STYLE}</style></head>\n<body><main>'
        + "\n".join(part for part in parts if part)
        + "</main></body></html>\n"
    )


def _claim(sheet: Sheet) -> str:
    c = sheet.campaign
    return (
        f"Each bound reads: <em>at this level a trial succeeds with a probability of at least "
        f"{100 * c.probability:g} %, with {100 * c.confidence:g} % confidence</em>."
    )


def _legend(names: Sequence[str]) -> str:
    items = (f'<span class="key c{i}"></span>{escape(name)}' for i, name in enumerate(names))
    return f"<p class='legend'>{' '.join(items)}</p>"


def _speeds(sheet: Sheet, share: float) -> str:
    """A share of sqrt(g l) for each robot."""
    return " and ".join(f"{share * m.facts.speed:.2g} m/s" for m in sheet.robots)


def _rows(sheet: Sheet) -> Iterable[tuple[str, list[tuple[RobotFacts, Bound | None]]]]:
    """Titles, and the bound of each robot under it."""
    names: dict[str, str] = {}
    for m in sheet.robots:
        names |= {bound.name: bound.title for bound in m.bounds}
    for name, title in names.items():
        found = [next((b for b in m.bounds if b.name == name), None) for m in sheet.robots]
        yield _title(name, title), [(m.facts, b) for m, b in zip(sheet.robots, found, strict=True)]


def _title(name: str, title: str) -> str:
    return f"{title} to {name.split()[1]}° from ahead" if name.startswith("push") else title


def _bounds(sheet: Sheet) -> str:
    head = "".join(f"<th>{escape(m.facts.title)}</th><th>evidence</th>" for m in sheet.robots)
    body = _any_push(sheet)
    for title, cells in _rows(sheet):
        body += f"<tr><th scope='row'>{escape(title)}</th>"
        for facts, bound in cells:
            body += "<td>-</td><td></td>" if bound is None else _bound(facts, bound)
        body += "</tr>"
    return f"<div class='wide'><table><thead><tr><th></th>{head}</tr></thead><tbody>{body}</tbody></table></div>"


def _directions(m: RobotBounds) -> list[tuple[float, Bound]]:
    """Bounds of pushes by the direction that they push towards, from ahead counterclockwise [deg]."""
    return [(float(b.name.split()[1]), b) for b in m.bounds if b.name.startswith("push")]


def _any_push(sheet: Sheet) -> str:
    """The row of the largest push that is claimed in every direction."""
    body = ""
    for m in sheet.robots:
        each = _directions(m)
        if len(each) < 2:
            return ""
        angle, least = min(each, key=lambda a: -1.0 if a[1].value is None else a[1].value)
        body += _claimed(m.facts, least) + f"<td>the least of {len(each)} directions: to {angle:.0f}°</td>"
    return f"<tr><th scope='row'>largest push in every direction</th>{body}</tr>"


def _claimed(facts: RobotFacts, bound: Bound) -> str:
    if bound.value is None:
        return "<td class='none'>none claimed</td>"
    sign = ("≥ " if bound.harder == "larger" else "≤ ") if bound.threshold.top else ""
    return f"<td class='value'>{sign}{reading(bound, facts).words(bound.value)}</td>"


def _bound(facts: RobotFacts, bound: Bound) -> str:
    t, read = bound.threshold, reading(bound, facts)
    if bound.value is None:
        easiest = read.words(bound.values[0])
        said = f"{_claimed(facts, bound)}<td>even at {easiest}: "
        if t.upper < 1.0:
            return (
                said + f"success is less probable than {100 * t.upper:.1f} % ({100 * t.confidence:g} % confidence)</td>"
            )
        return said + f"{t.successes} of {t.trials} in the last attempt</td>"
    notes = [f"{t.successes} of {t.trials}"]
    if t.successes == t.trials:
        notes.append(f"falls: at most {100 * (1.0 - t.probability):g}&nbsp;%")
    if t.top:
        notes.append("the end of the range")
    if not t.monotone:
        places = ", ".join(read.words(bound.values[level]) for level in t.exceptions)
        notes.append(f"<strong class='warn'>not monotone: worse at {places}</strong>")
    elif t.inversions:
        notes.append(f"{t.inversions} single failure{'s' * (t.inversions > 1)} at easier levels")
    return f"{_claimed(facts, bound)}<td>{'; '.join(notes)}</td>"


def _pushes(sheet: Sheet) -> str:
    series = []
    for i, m in enumerate(sheet.robots):
        points = [(angle, None if b.value is None else b.value / m.facts.speed) for angle, b in _directions(m)]
        series.append(Series(m.facts.title, i, points))
    if not any(s.points for s in series):
        return ""
    return (
        f"<figure>{polar(series, 'sqrt(g l)')}<figcaption>Largest push by the direction that it pushes towards, as a "
        f"change of velocity in sqrt(g l) ({_speeds(sheet, 1.0)}); while trotting forward at "
        f"{_speeds(sheet, 0.25)}.</figcaption></figure>"
    )


def _gaits(sheet: Sheet) -> str:
    gaits = list(dict.fromkeys(g for m in sheet.robots for g in m.gaits))
    if not gaits:
        return ""
    out = "<h2>Gaits: tracking, torque, power, cost of transport</h2>"
    if len(sheet.robots) == 1:  # one robot: a colour for each gait
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
    body = ""
    for gait in gaits:
        for m in sheet.robots:
            points = [p for p in m.gaits.get(gait, ()) if p.successes]
            bound = next((b for b in m.bounds if b.name == f"speed {gait}"), None)
            if not points or bound is None:
                continue
            best = min((p for p in points if p.cost is not None), key=lambda p: p.cost or 0.0, default=None)
            fast = points[-1]
            most = "none claimed" if bound.value is None else f"0 to {bound.value:.2f}"
            cells = [
                most,
                f"{100 * fast.error:.1f} % at {fast.commanded:.2f}" if fast.error is not None else "",
                f"{best.cost:.2f} at {best.commanded:.2f}" if best is not None and best.cost is not None else "",
                f"{fast.power:.0f} ({fast.power_peak:.0f})" if fast.power and fast.power_peak else "",
                f"{fast.torque_rms:.1f} ({100 * fast.torque:.0f} %)" if fast.torque_rms and fast.torque else "",
            ]
            name = f"{m.facts.title}, {gait}" if len(sheet.robots) > 1 else gait
            body += f"<tr><th scope='row'>{escape(name)}</th>{''.join(f'<td>{c}</td>' for c in cells)}</tr>"
    return (
        "<div class='wide'><table><thead><tr><th></th><th>speed range [m/s]</th><th>error at speed [m/s]</th>"
        "<th>least cost of transport at speed [m/s]</th><th>power there, mean (peak) [W]</th>"
        "<th>torque, rms [N m] (peak of limit)</th></tr></thead>"
        f"<tbody>{body}</tbody></table></div><p>Error, power and torque are those of the fastest runs that "
        "succeeded. Power is the positive mechanical power of all joints; what motors and electronics lose is not in "
        "it.</p>"
    )


def _curves(sheet: Sheet) -> str:
    out = ""
    for title, cells in _rows(sheet):
        shares, label = [], title
        for i, (facts, bound) in enumerate(cells):
            if bound is None:
                continue
            read = reading(bound, facts)
            points = [
                (read(bound.values[level]), k / n, *interval(k, n)) for level, (k, n) in bound.threshold.counts.items()
            ]
            shares.append(SuccessCurve(facts.title, i, points, None if bound.value is None else read(bound.value)))
            label = f"{title} [{read.unit}]" if read.unit else title
        out += success(shares, label)
    return f"<div class='charts'>{out}</div>"


def _facts(sheet: Sheet) -> str:
    rows: list[tuple[str, Callable[[RobotFacts], str]]] = [
        ("mass", lambda f: f"{f.mass:.2f} kg"),
        ("degrees of freedom", lambda f: f"{f.degrees}, of which {len(f.joints)} motors"),
        ("length of the stretched legs", lambda f: f"{f.length:.3f} m"),
        ("height of the centre of mass at home", lambda f: f"{f.height:.3f} m"),
        ("reach of the feet from their hips", _reach),
        ("unit of speed, sqrt(g l)", lambda f: f"{f.speed:.2f} m/s"),
    ]  # fmt: skip
    head = "".join(f"<th>{escape(m.facts.title)}</th>" for m in sheet.robots)
    body = "".join(
        f"<tr><th scope='row'>{title}</th>{''.join(f'<td>{text(m.facts)}</td>' for m in sheet.robots)}</tr>"
        for title, text in rows
    )
    out = f"<div class='wide'><table><thead><tr><th></th>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    return out + "".join(_joints(m) for m in sheet.robots)


def _reach(facts: RobotFacts) -> str:
    return "; ".join(f"{foot} {near:.3f} to {far:.3f} m" for foot, (near, far) in facts.reach.items())


def _joints(m: RobotBounds) -> str:
    body = "".join(
        f"<tr><th scope='row'>{escape(name)}</th>"
        + "".join(f"<td>{_number(x)}</td>" for x in (low, high, speed, effort))
        + "</tr>"
        for name, low, high, speed, effort in m.facts.joints
    )
    return (
        f"<details><summary>Joints of {escape(m.facts.title)}</summary><div class='wide'><table><thead><tr>"
        "<th>joint</th><th>from [rad]</th><th>to [rad]</th><th>speed [rad/s]</th><th>torque [N m]</th></tr></thead>"
        f"<tbody>{body}</tbody></table></div></details>"
    )


def _number(value: float) -> str:
    return f"{value:.3g}" if math.isfinite(value) else "no limit"


def _method(sheet: Sheet) -> str:
    c = sheet.campaign
    versions = ", ".join(f"{name} {number}" for name, number in sheet.versions.items())
    facts = [
        f"{sheet.trials:,} trials in the {escape(c.plant)} plant, {sheet.seconds:,.0f} s of CPU time",
        f"period of controller and plant {1e3 * c.dt:g} ms; seed {c.seed}; {c.pilot} trials in a row to pass a level "
        f"of the search, {c.checks} easier levels checked",
        f"measured with {escape(versions)}",
        f"on {escape('; '.join(sheet.processors) or 'this machine')}",
        f"made by <code>{escape(_command(c))}</code>",
    ]
    notes = "".join(f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>" for name, text in NOTES)
    return f"<ul>{''.join(f'<li>{fact}</li>' for fact in facts)}</ul><dl>{notes}</dl>"


def _command(c: DataSheet) -> str:
    """What makes the sheet again: a command, or what to give `measure` where no command says it."""
    said = ("robot", "plant", "bounds", "directions", "seed")
    given = {name: getattr(c, name) for name in said}
    ways = {(): DataSheet(**given), ("--quick",): DataSheet(**(QUICK | given))}
    quick = next((words for words, made in ways.items() if made == c), None)
    if quick is None:
        return repr(c)
    words = ["quaddyn", "datasheet", c.robot[0]]
    words += [word for name in c.robot[1:] for word in ("--compare", name)] + [*quick]
    words += [word for name in c.bounds for word in ("--only", name)]
    words += [word for name in ("directions", "plant", "seed") for word in (f"--{name}", str(getattr(c, name)))]
    return shlex.join(words)


def _failures(sheet: Sheet) -> str:
    where = sheet.store
    how = (
        f"Any of them can be seen again, bit for bit: <code>quaddyn replay {escape(where)}#NUMBER</code>."
        if where
        else "They were not kept; with <code>--store FILE</code> each can be replayed."
    )
    out = f"<p>{how} A case says what differs from an undisturbed trot.</p>"
    for m in sheet.robots:
        for bound in m.bounds:
            if not bound.failed:
                continue
            read: UnitFormat = reading(bound, m.facts)
            rows = ""
            for f in bound.failed[:LISTED]:
                command = f"<code>quaddyn replay {escape(where)}#{f.number}</code>" if where else ""
                fell = "" if f.fell is None else f"{f.fell:.2f}"
                rows += (
                    f"<tr id='case-{f.number}'><td>{command}</td><td>{read.words(f.value)}</td>"
                    f"<td>{escape(f.reason)}</td><td>{fell}</td><td class='case'>{escape(f.case)}</td></tr>"
                )
            more = len(bound.failed) - LISTED
            rows += f"<tr><td colspan='5'>and {more} more, in the store</td></tr>" if more > 0 else ""
            what = _title(bound.name, bound.title)
            out += (
                f"<details><summary>{escape(m.facts.title)}: {escape(what)}, {len(bound.failed)} failures</summary>"
                "<div class='wide'><table><thead><tr><th></th><th>at</th><th>reason</th><th>fell [s]</th><th>case</th>"
                f"</tr></thead><tbody>{rows}</tbody></table></div></details>"
            )
    return out
