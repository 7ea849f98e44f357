"""Plot of a run: torques with their limits, contact forces, velocity, height of the center of mass."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import ArgumentError
from ..extras import import_extra
from ..robot.validation import effective_effort_limits
from ..safe_files import check_ending
from ..urdf.tree import Array
from .report import DemoTimeSeries, joint_kinds

KINDS = (".png", ".pdf", ".svg")
#: Limits up to this multiple of the largest torque are drawn as lines, others written as text.
LIMIT_IN_VIEW = 5.0
#: Maximum number of torque panels by kind of joint; more kinds are drawn in one panel, in percent of their limits.
MAX_PANELS = 4
#: Number of characters that fit above a panel; a line and the spaces of an entry take those of 6 characters.
LEGEND_CHARACTERS = 84
_COLORS = ("#1f77b4", "#d62728", "#2ca02c", "#ff7f0e", "#9467bd", "#8c564b", "#17becf")


def check_plot(path: str | os.PathLike[str] | None) -> None:
    """Raises an error if a plot cannot be written; called before the run.

    Args:
        path: file to write; None is accepted.

    Raises:
        QuaddynError: matplotlib is not installed.
        ArgumentError: the suffix of the file is not in `KINDS`.
    """
    if path is None:
        return
    _figure_class()
    check_ending(path, KINDS)
    check_output("plot", path)


def check_output(argument: str, path: str | os.PathLike[str] | None) -> None:
    """Raises an error if a file cannot be written; called before any work is done for it.

    Args:
        argument: name of the argument for the message.
        path: file to write; None is accepted.

    Raises:
        ArgumentError: the folder does not exist, is not writable, or `path` is a folder.
    """
    if path is None:
        return
    file = Path(path)
    if file.is_dir() or not file.parent.is_dir() or not os.access(file.parent, os.W_OK):
        raise ArgumentError(
            f"{argument}: {file} cannot be written: its folder does not exist, permission is missing, or the path is "
            "a folder"
        )


def _figure_class() -> Any:
    """Returns matplotlib's figure class, or raises an error if matplotlib is not installed."""
    return import_extra("matplotlib.figure", "plot").Figure


def draw(time_series: DemoTimeSeries, path: str | os.PathLike[str], *, title: str) -> None:
    """Writes the plot of a run.

    Args:
        time_series: samples of the run.
        path: PNG, PDF or SVG file to write.
        title: title of the plot.

    Raises:
        QuaddynError: matplotlib is not installed.
        OSError: the file cannot be written.
    """
    robot, t = time_series.robot, time_series.times
    kinds: dict[str, list[int]] = {}
    for i, kind in enumerate(joint_kinds(robot)):
        kinds.setdefault(kind, []).append(i)
    has_velocity = bool(np.isfinite(time_series.desired_velocity).any())
    limits = effective_effort_limits(robot)
    limited = [c for c, joint in enumerate(robot.actuated) if joint in limits]
    unlimited = [c for c in range(robot.nu) if c not in limited]
    columns_by_label = {"torque / limit [%]": limited, "torque [N m]": unlimited}
    columns_by_label = {label: columns for label, columns in columns_by_label.items() if columns}
    left = len(kinds) if len(kinds) <= MAX_PANELS else len(columns_by_label)
    right = 1 + bool(time_series.feet) + has_velocity
    rows = int(np.lcm(left, right))
    figure = _figure_class()(figsize=(14.0, 8.0), layout="constrained")
    grid = figure.add_gridspec(rows, 2)
    figure.suptitle(title)
    first = None

    def add_panel(column: int, row: int, count: int, label: str) -> Any:
        nonlocal first
        height = rows // count
        axes = figure.add_subplot(grid[row * height : (row + 1) * height, column], sharex=first)
        first = first or axes
        axes.set_ylabel(label)
        axes.grid(alpha=0.3)
        axes.margins(x=0.0)
        for word, times in time_series.events.items():
            for k, time in enumerate(times):
                axes.axvline(time, color="0.3", linestyle=":", label=word if k == 0 else None)
        if row == count - 1:
            axes.set_xlabel("time [s]")
        else:
            axes.tick_params(labelbottom=False)
        return axes

    legs = {joint: name for name, leg in robot.legs.items() for joint in leg.joints}
    colors = {name: _COLORS[i % len(_COLORS)] for i, name in enumerate((*robot.legs, *robot.actuated))}
    if len(kinds) <= MAX_PANELS:
        for row, (kind, columns) in enumerate(kinds.items()):
            axes = add_panel(0, row, left, f"{kind}\ntorque [N m]")
            for c in columns:
                name = legs.get(robot.actuated[c], robot.actuated[c])
                axes.plot(t, time_series.tau[:, c], color=colors[name], linewidth=0.8, label=name)
            limit, largest = float(robot.effort_limits[columns].min()), float(np.abs(time_series.tau[:, columns]).max())
            if limit <= LIMIT_IN_VIEW * largest:
                for k, bound in enumerate((limit, -limit)):
                    axes.axhline(bound, color="black", linestyle="--", label="limit" if k == 0 else None)
            elif np.isfinite(limit):  # lines far away would flatten the torques
                axes.set_title(f"limit: {limit:g} N m", fontsize="small", loc="right")
            if row == 0:
                _legend(axes)
    else:
        for row, (label, columns) in enumerate(columns_by_label.items()):
            axes = add_panel(0, row, left, label)
            for c in columns:
                joint = robot.actuated[c]
                scale = 100.0 / limits[joint] if joint in limits else 1.0
                axes.plot(t, scale * time_series.tau[:, c], linewidth=0.8, label=joint)
            _legend(axes)

    row = 0
    if time_series.feet:
        axes, row = add_panel(1, row, right, "normal force [N]"), row + 1
        for i, foot in enumerate(time_series.feet):
            axes.plot(t, time_series.forces[:, i, 2], color=colors.get(foot), linewidth=0.8, label=foot)
        _legend(axes)
    if has_velocity:
        axes, row = add_panel(1, row, right, "velocity [m/s, rad/s]"), row + 1
        for i, (word, color) in enumerate(zip(("forward", "leftward", "turning"), _COLORS, strict=False)):
            axes.plot(t, _smooth(time_series.velocity[:, i], t), color=color, linewidth=1.2, label=word)
            axes.plot(t, time_series.desired_velocity[:, i], color=color, linestyle="--", linewidth=1.2)
        axes.plot([], [], color="black", linestyle="--", label="commanded")
        _legend(axes)
    axes = add_panel(1, row, right, "height of the\ncenter of mass [m]")
    axes.plot(t, time_series.height, color=_COLORS[0])
    figure.savefig(Path(path), dpi=110)


def _legend(axes: Any) -> None:
    """Adds a legend above the panel, which is not wider than the panel."""
    longest = max(len(text) for text in axes.get_legend_handles_labels()[1])
    columns = min(8, max(1, LEGEND_CHARACTERS // (longest + 6)))
    options = {"loc": "lower left", "bbox_to_anchor": (0.0, 1.0), "borderaxespad": 0.2}
    axes.legend(**options, ncols=columns, fontsize="small", frameon=False)


def _smooth(values: Array, times: Array, window: float = 0.1) -> Array:
    """Returns the moving average of values (N,) over `window` [s], which removes the oscillation within a step."""
    if len(times) < 3:
        return values
    half_width = max(1, round(0.5 * window / float(times[1] - times[0])))
    total = np.concatenate(([0.0], np.cumsum(np.nan_to_num(values))))
    indices = np.arange(len(values))
    low, high = np.maximum(indices - half_width, 0), np.minimum(indices + half_width + 1, len(values))
    return np.asarray((total[high] - total[low]) / (high - low))
