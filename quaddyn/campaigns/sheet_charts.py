"""Small charts as SVG text: polar plots, lines, and success over a level; the page defines the colors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

#: Size of a chart and its margins [px].
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 340, 220, 48, 12, 12, 40


@dataclass(frozen=True)
class Series:
    """One line of a chart.

    Attributes:
        label: label of the legend and of the tooltip.
        color: index of one of the page's colors.
        points: x and y; those without y leave a gap.
    """

    label: str
    color: int
    points: Sequence[tuple[float, float | None]]


@dataclass(frozen=True)
class Scale:
    """Linear map from numbers to pixels.

    Attributes:
        low, high: range of the numbers.
        start, end: pixels of `low` and `high`.
    """

    low: float
    high: float
    start: float
    end: float

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
    """Fraction of trials that succeeded over a quantity, with confidence intervals.

    Attributes:
        label: label of the tooltip.
        color: index of one of the page's colors.
        points: value, fraction of successes, and lower and upper end of its confidence interval.
        claimed: value of the claim; None without one.
    """

    label: str
    color: int
    points: Sequence[tuple[float, float, float, float]]
    claimed: float | None


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
