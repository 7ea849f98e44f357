"""Samples from logs: names of columns mapped to joints, units and time stamps checked, accelerations computed.

Noise is removed without delay, and accelerations are computed from velocities: all that enters the regression besides
positions passes the same zero-phase low-pass.

Source: Gautier, *Dynamic identification of robots with power model*, 1997, section 4: everything that enters the
regression passes through the same zero-phase low-pass, so that the filter cancels out of ``y = H beta``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ..errors import ArgumentError, ArgumentTypeError
from ..robot.arguments import check_array, check_number
from ..robot.home import JointPositions
from ..robot.robot import Robot
from ..robot.root import ROOT_SIZES
from ..simulation.log import BASE_COLUMNS
from ..urdf.tree import Array
from .samples import Samples


def low_pass(x: Array, *, dt: float, cutoff: float, order: int = 4) -> Array:
    """Filters signals by a zero-phase low-pass.

    Each column is extended at both ends by its point reflection, and its spectrum is divided by
    ``1 + (f / cutoff)^(2 order)``: a Butterworth filter of that order, run forwards and backwards.

    Args:
        x: (N, n) signals in any unit, equally spaced in time, N of at least 5.
        dt: time between samples [s].
        cutoff: frequency at which half of the amplitude is left [Hz]; above that of the motion, below half of the
            sampling rate.
        order: order of the filter, 1 to 50, dimensionless.

    Returns:
        (N, n) filtered signals.

    Raises:
        ArgumentError: an argument of another shape, not finite, or out of range.
    """
    _check("x", x, dt)
    if not (0.0 < check_number("cutoff", cutoff) < 0.5 / dt):
        raise ArgumentError(f"cutoff: expected a frequency in (0, {0.5 / dt:g}) Hz, half of the rate, got {cutoff}")
    if not 1.0 <= check_number("order", order) <= 50.0:
        raise ArgumentError(f"order: expected 1 to 50, got {order}")
    n = len(x)
    mirrored = np.concatenate([2.0 * x[0] - x[:0:-1], x, 2.0 * x[-1] - x[-2::-1]])
    spectrum = np.fft.rfft(mirrored, axis=0)
    f = np.fft.rfftfreq(len(mirrored), dt)
    gain = _low_pass_gain(np.asarray(f, dtype=np.float64), cutoff, order)
    passed = np.fft.irfft(spectrum * gain[:, None], len(mirrored), axis=0)
    return np.ascontiguousarray(passed[n - 1 : 2 * n - 1])


def _low_pass_gain(f: Array, cutoff: float, order: float = 4) -> Array:
    """Returns the gain of `low_pass` at frequencies f [Hz]."""
    with np.errstate(over="ignore"):  # frequencies far above the cutoff are divided by infinity
        return np.asarray(1.0 / (1.0 + (f / cutoff) ** (2 * order)))


def _noise_bandwidth(cutoff: float, step: float) -> float:
    """Returns the fraction of the power of white noise that `low_pass` leaves, see `Samples.noise_bandwidth`.

    Args:
        cutoff: its frequency [Hz]; half of the sampling rate or more: no filter.
        step: time between samples [s].
    """
    half_rate = 0.5 / step
    if not cutoff < half_rate:
        return 1.0
    f = np.linspace(0.0, min(2.0 * cutoff, half_rate), 1001)  # the power beyond is below 0.01 %
    return float(np.trapezoid(_low_pass_gain(f, cutoff) ** 2, f) / half_rate)


def accelerations(v: Array, *, dt: float) -> Array:
    """Differentiates velocities by central differences, of fourth order away from the ends.

    It also holds for a free root: Pinocchio's acceleration is the derivative of v by components.

    Args:
        v: (N, nv) velocities [rad/s, m/s], equally spaced in time; measured ones should be filtered by `low_pass`
            first.  N of at least 5.
        dt: time between samples [s].

    Returns:
        (N, nv) accelerations [rad/s^2, m/s^2].

    Raises:
        ArgumentError: an argument of another shape, not finite, or out of range.
    """
    _check("v", v, dt)
    a = np.gradient(v, dt, axis=0, edge_order=2)
    a[2:-2] = (8.0 * (v[3:-1] - v[1:-3]) - (v[4:] - v[:-4])) / (12.0 * dt)
    return np.asarray(a)


def _check(name: str, x: Array, dt: float) -> None:
    """Raises an error unless x is a float64 array (N, n) of finite samples and dt is positive [s]."""
    if not isinstance(x, np.ndarray) or x.dtype != np.float64:
        raise ArgumentTypeError(f"{name}: expected a float64 array of shape (N, n), got {type(x).__name__}")
    if x.ndim != 2 or len(x) < 5:
        raise ArgumentError(f"{name}: expected shape (N, n) with at least 5 samples N, got {x.shape}")
    if not np.isfinite(x).all():
        raise ArgumentError(f"{name}: expected finite entries, got NaN or infinity")
    if not 0.0 < check_number("dt", dt) < np.inf:
        raise ArgumentError(f"dt: expected a positive time [s], got {dt}")


#: Name of a column: quantity, joint or foot or component, and unit.
_COLUMN = re.compile(r"(reading time|time|t|position|velocity|torque|tau|force|base)(?: ([^\[\]]+?))?(?: \[(.+)\])?")
#: Factors to SI units, by quantity.
_TIMES = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
_POSITIONS = {"rad": 1.0, "m": 1.0, "deg": np.pi / 180.0, "1": 1.0}
_VELOCITIES = {"rad/s": 1.0, "m/s": 1.0, "deg/s": np.pi / 180.0}
_FORCES = {"N m": 1.0, "N": 1.0}
UNITS = {
    "time": _TIMES,
    "reading time": _TIMES,
    "position": _POSITIONS,
    "velocity": _VELOCITIES,
    "torque": _FORCES,
    "tau": _FORCES,
    "force": _FORCES,
    "base": _POSITIONS | _VELOCITIES,
}
#: Shortest and longest accepted median time step [s]: beyond them the times are in another unit.
MIN_STEP, MAX_STEP = 1e-5, 0.2
#: Ratio of a time step to the median one above which it is a gap.
MAX_GAP = 3.0
#: Minimum number of samples of an interval without gaps.
MIN_SAMPLES = 20
#: Ratio of the derivative of the positions to the velocities beyond which, or below its inverse, units are wrong: where
#: it is known by the correlation of both, and where it is not.
MAX_VELOCITY_RATIO, MAX_UNCERTAIN_VELOCITY_RATIO = 1.1, 3.0
#: Correlation of the derivative of the positions with the velocities below which one of them has the wrong sign, and
#: minimum distance of the correlation from 0 in standard deviations of the correlation of independent noise.
MAX_OPPOSITE_CORRELATION, OPPOSITE_SIGNIFICANCE = -0.5, 4.0
#: Joints whose velocities and derivatives of positions are both slower than this are not compared [rad/s or m/s].
MIN_SPEED = 0.05
#: Largest range of a position [m] or an angle [rad] of the base of a fixed root: above the noise of motion capture.
MAX_FIXED_BASE_RANGE = 0.01
#: Default cutoff frequency, divided by the sampling rate.
CUTOFF_FRACTION = 0.1


class _LogColumns:
    """Columns by canonical name, such as "position FL_hip_joint", in SI units, with the names in the log."""

    def __init__(self, columns: Mapping[str, Array], names: Mapping[str, str], source: str) -> None:
        self.source, self.values, self.given = source, dict[str, Array](), dict[str, str]()
        used: set[str] = set()
        for name, column in columns.items():
            used |= {name} & names.keys()
            match = _COLUMN.fullmatch(names.get(name, name))
            if match is None:
                continue
            quantity, what, unit = match[1], match[2] or "", match[3]
            quantity = "time" if quantity == "t" else quantity
            words = what.rsplit(" ", 1) if quantity == "force" else [what]
            used |= {words[0]} & names.keys()
            key = " ".join(filter(None, [quantity, names.get(words[0], words[0]), *words[1:]]))
            factor = UNITS[quantity].get(unit, np.nan) if unit is not None else 1.0
            if np.isnan(factor):
                raise ArgumentError(
                    f"{source}: column {name!r}: expected a unit among {', '.join(UNITS[quantity])}, got {unit!r}"
                )
            if key in self.values:
                raise ArgumentError(f"{source}: columns {self.given[key]!r} and {name!r} are both {key!r}")
            values = _check_column(f"{source}: column {name!r}", column)
            if self.values and len(values) != (count := len(next(iter(self.values.values())))):
                first = next(iter(self.given.values()))
                raise ArgumentError(
                    f"{source}: column {name!r} has {len(values)} rows, but column {first!r} has {count}"
                )
            self.values[key], self.given[key] = (values * factor if factor != 1.0 else values), name
        if unused := names.keys() - used:
            raise ArgumentError(f"names: {source} has no column, joint or foot {min(unused)!r}")

    def has(self, *keys: str) -> bool:
        """Returns whether the log has all these columns."""
        return all(key in self.values for key in keys)

    def require(self, robot: Robot, keys: list[str]) -> list[str]:
        """Returns the keys, or raises an error that names the first missing one."""
        if missing := [key for key in keys if key not in self.values]:
            quantity = missing[0].split(" ")[0]
            there = [self.given[key] for key in self.values if key.split(" ")[0] == quantity]
            found = f"it has {', '.join(map(repr, there[:6]))}{' ...' if len(there) > 6 else ''}" if there else (
                f"it has no column {quantity!r}")  # fmt: skip
            is_other_robot = quantity == "position" and len(missing) == robot.nu > 0
            advice = (
                "the log is of another robot, or its names must be mapped" if is_other_robot else "names can be mapped"
            )
            raise ArgumentError(
                f"{self.source}: column {missing[0]!r} of {robot.name} is missing ({len(missing)} in all); {found}; "
                f"{advice} (names=, --column)"
            )
        return keys


def _check_column(label: str, column: object) -> Array:
    """Returns the values (n,) of a column, which need not be finite."""
    if (kind := np.asarray(column).dtype).kind not in "fiuO":
        raise ArgumentTypeError(f"{label}: expected numbers, got {kind}")
    values = check_array(label, column)
    if values.ndim != 1:
        raise ArgumentError(f"{label}: expected one number for each row, got an array of shape {values.shape}")
    return values


def recorded_root(
    columns: Mapping[str, Array], names: Mapping[str, str] | None = None, *, source: str = "columns"
) -> tuple[str, str]:
    """Returns the root of the samples in a log, and a sentence that says why.

    The root is "free" or "planar" if the log has the base and contact forces, otherwise "fixed".

    Args:
        columns: columns of the log.
        names: see `samples_from_columns`.
        source: name of the log, for messages.
    """
    log = _LogColumns(columns, names or {}, source)
    roots = (root for root in ("free", "planar") if log.has(*_base_keys(root)))
    base = next((root for root in roots if np.isfinite(log.values["base x"]).any()), None)  # a recording may have NaN
    has_forces = any(key.startswith("force ") for key in log.values)
    if base is not None and has_forces:
        return base, "the log contains the base and contact forces"
    missing = [name for name, has in (("the base", base is not None), ("contact forces", has_forces)) if not has]
    return "fixed", f"the log does not contain {' or '.join(missing)}"


def _base_keys(root: str) -> list[str]:
    return [name.partition(" [")[0] for name in BASE_COLUMNS[root]]


def samples_from_columns(
    robot: Robot,
    columns: Mapping[str, Array],
    *,
    names: Mapping[str, str] | None = None,
    cutoff: float | None = None,
    start: float = -np.inf,
    end: float = np.inf,
    source: str = "columns",
) -> Samples:
    """Returns the samples of a log, such as ``log.columns()`` or `quaddyn.simulation.log_files.read_columns`.

    Needed are "time" (or "reading time"), "position JOINT", and "torque JOINT" (measured at the time of its row) or
    "tau JOINT" (acting from its row to the next); for a moving root also its columns and "force FOOT x", "y", "z" on
    the ground. "velocity JOINT" is computed from the positions if no joint has it. Names may end with a unit, such as
    "[deg]" or "[ms]", which is converted. Other columns are ignored.

    Args:
        robot: the robot.
        columns: (n,) values by name, in the unit at the end of the name, such as [deg], or without one in [rad] or [m].
        names: names of the robot by names in the log: of a joint, a foot, or a whole column, such as
            ``{"q_0": "position FL_hip_joint"}``; None: they are equal.
        cutoff: frequency of the low-pass [Hz], above one period in the log and below half of the sampling rate; inf:
            none; None: a tenth of the sampling rate.
        start: time of the first row that is used [s], in the column "time" if there is one, as in plots; -inf: that of
            the log.
        end: time of the last row that is used [s]; inf: that of the log.
        source: name of the log, for messages.

    Raises:
        ArgumentError: a missing column, columns of different lengths, a value that is not finite, times that decrease
            or are in another unit, a cutoff out of range, too few rows, or a base that moves although the root is
            fixed; the message names the log and the column.
        ArgumentTypeError: a column that is not numbers; start, end or cutoff is not a number.
    """
    start, end = check_number("start", start), check_number("end", end)
    log = _LogColumns(columns, names or {}, source)
    joints = robot.actuated
    if not joints or robot.nv != len(joints) + ROOT_SIZES[robot.root][1]:
        raise ArgumentError(
            f"{source}: expected a robot whose joints are all actuated, since logs contain no others; {robot.name} has "
            f"{len(joints)} actuated joints and {robot.nv} degrees of freedom"
        )
    time_key = "reading time" if log.has("reading time") else "time"
    log.require(robot, [time_key])
    positions = log.require(robot, [f"position {joint}" for joint in joints])
    torque = "torque" if any(key.startswith("torque ") for key in log.values) else "tau"
    torques = log.require(robot, [f"{torque} {joint}" for joint in joints])
    velocities = [f"velocity {joint}" for joint in joints]
    velocities = log.require(robot, velocities) if any(key in log.values for key in velocities) else []
    base = log.require(robot, _base_keys(robot.root))
    feet = [foot for foot in robot.feet if f"force {foot} x" in log.values] if base else []
    forces = (
        log.require(robot, [f"force {foot} {axis}" for foot in feet or robot.feet for axis in "xyz"]) if base else []
    )
    keys = [*positions, *torques, *velocities, *base, *forces]
    rows = _select_rows(log, time_key, keys, start, end)
    if base:
        _check_other_contacts(log, feet, rows)
    elif robot.root == "fixed":
        _check_fixed_base(log, rows)
    time, table = log.values[time_key][rows], np.column_stack([log.values[key][rows] for key in keys])
    step = float(np.median(np.diff(time)))
    if not MIN_STEP <= step <= MAX_STEP:
        raise ArgumentError(
            f"{source}: column {log.given[time_key]!r}: the median step is {step:g} s; expected {MIN_STEP:g} to "
            f"{MAX_STEP:g} s; give the unit in the name of the column, such as 'time [ms]'"
        )
    slowest = 1.0 / float(time[-1] - time[0])
    if cutoff is not None and not (slowest < check_number("cutoff", cutoff) < 0.5 / step or cutoff == np.inf):
        raise ArgumentError(
            f"cutoff: expected a frequency in ({slowest:.3g}, {0.5 / step:g}) Hz, one period in {source} and half of "
            f"the rate, or inf for no filter, got {cutoff:g}"
        )
    frequency = CUTOFF_FRACTION / step if cutoff is None else cutoff
    pieces = np.split(np.arange(len(time)), np.flatnonzero(np.diff(time) > MAX_GAP * step) + 1)
    acts_until_next_row = np.array([key.split(" ")[0] in ("tau", "force") for key in keys])
    tables = [
        _make_uniform(time[piece], table[piece], step, acts_until_next_row)
        for piece in pieces
        if len(piece) >= MIN_SAMPLES
    ]
    parts = [_make_samples(robot, keys, uniform, step, frequency, log, feet) for uniform in tables]
    if not parts:
        raise ArgumentError(
            f"{source}: column {log.given[time_key]!r}: expected at least {MIN_SAMPLES} rows without a gap, got "
            f"{len(time)} rows in {len(pieces)} pieces"
        )
    return replace(Samples.concatenate(parts), noise_bandwidth=_noise_bandwidth(frequency, step))


def _check_other_contacts(log: _LogColumns, feet: list[str], rows: NDArray[np.intp]) -> None:
    """Raises if another part of the robot than a foot touched something, since its forces cannot be used."""
    for key, values in log.values.items():
        if key.startswith("force ") and key.removeprefix("force ").rsplit(" ", 1)[0] not in feet and values[rows].any():
            row = int(rows[np.flatnonzero(values[rows])[0]])
            raise ArgumentError(
                f"{log.source}: column {log.given[key]!r} is {values[row]:g} N in row {row}; expected contacts of feet "
                "only; select rows by start= and end= (--start, --end)"
            )


def _check_fixed_base(log: _LogColumns, rows: NDArray[np.intp]) -> None:
    """Raises if the log has a base that moves, since the equations of a fixed root do not contain this motion."""
    positions = ("base x", "base y", "base z", "base pitch")
    changes = {key: _finite_range(log.values[key][rows]) for key in positions if log.has(key)}
    quaternion = [f"base q{axis}" for axis in "xyzw"]
    if log.has(*quaternion):
        q = np.column_stack([log.values[key][rows] for key in quaternion])
        q = q[np.isfinite(q).all(axis=1)]
        lengths = np.maximum(np.linalg.norm(q, axis=1), np.finfo(float).tiny)
        cosines = np.abs((q / lengths[:, None]) @ (q / lengths[:, None])[:1].T)  # both signs are one orientation
        changes["base qw"] = 2.0 * float(np.arccos(np.minimum(cosines, 1.0)).max(initial=0.0))
    key = max(changes, key=lambda each: changes[each], default="")
    if changes.get(key, 0.0) <= MAX_FIXED_BASE_RANGE:
        return
    if any(name.startswith("force ") for name in log.values):
        advice = "load the robot with a moving root (root='free' or 'planar', --root)"
    else:
        advice = (
            "a moving root needs contact forces as vectors (columns 'force FOOT x', 'y', 'z'), which the foot sensors "
            "of a recording do not measure; use a log of a simulation or of force plates, or a recording of the robot "
            "on a stand"
        )
    unit = "m" if key in positions[:3] else "rad"
    raise ArgumentError(
        f"{log.source}: column {log.given[key]!r}: the base moves by {changes[key]:.3g} {unit}, but the "
        f"root is fixed; {advice}; if only the estimate of the base moves, rename its columns (--column 'base "
        "x [m]=unused')"
    )


def _finite_range(values: Array) -> float:
    """Returns the range of the finite values; a recording has NaN where the controller estimates no base."""
    finite = values[np.isfinite(values)]
    return float(np.ptp(finite)) if len(finite) else 0.0


def _select_rows(log: _LogColumns, time_key: str, keys: list[str], start: float, end: float) -> NDArray[np.intp]:
    """Returns the indices of the rows in the interval, without repeated readings; their values are finite.

    The interval is that of "time", if there is one, as in plots and in files of other formats; the steps are those of
    `time_key`.
    """
    interval_key = "time" if log.has("time") else time_key
    for key in {interval_key, time_key}:
        if (bad := np.flatnonzero(~np.isfinite(log.values[key]))).size:
            raise ArgumentError(f"{_describe_entry(log, key, int(bad[0]))}; expected finite times")
    time, name, clock = log.values[time_key], log.given[time_key], log.values[interval_key]
    rows: NDArray[np.intp] = np.flatnonzero((clock >= start) & (clock <= end))
    steps = np.diff(time[rows])
    if (steps < 0.0).any():
        row, before = rows[int(np.flatnonzero(steps < 0.0)[0]) + 1], rows[int(np.flatnonzero(steps < 0.0)[0])]
        raise ArgumentError(
            f"{log.source}: column {name!r} decreases from {time[before]:.9g} s to {time[row]:.9g} s in row {row}; "
            "expected increasing times"
        )
    rows = rows[np.concatenate([[True], steps > 0.0])[: len(rows)]]
    if len(rows) < MIN_SAMPLES:
        raise ArgumentError(
            f"{log.source}: column {name!r}: expected at least {MIN_SAMPLES} rows with different times from {start:g} "
            f"to {end:g} s, got {len(rows)}"
        )
    for key in keys:
        if (bad := rows[~np.isfinite(log.values[key][rows])]).size:
            raise ArgumentError(
                f"{_describe_entry(log, key, int(bad[0]))} (at {clock[bad[0]]:g} s); select rows by start= and end= "
                "(--start, --end)"
            )
    return rows


def _describe_entry(log: _LogColumns, key: str, row: int) -> str:
    """Returns the column, value and row of an entry that is not finite; empty entries of tables are NaN."""
    value = log.values[key][row]
    return f"{log.source}: column {log.given[key]!r} is {'empty or nan' if np.isnan(value) else value} in row {row}"


def _make_uniform(time: Array, table: Array, step: float, acts_until_next_row: NDArray[np.bool_]) -> Array:
    """Returns values at equal steps; those that act from their row to the next one become means around their time."""
    table = table.copy()
    table[1:, acts_until_next_row] = 0.5 * (table[1:, acts_until_next_row] + table[:-1, acts_until_next_row])
    uniform = time[0] + step * np.arange(1 + int((time[-1] - time[0]) / step + 1e-6))
    if len(uniform) == len(time) and np.abs(uniform - time).max() < 0.01 * step:
        return table
    return np.column_stack([np.interp(uniform, time, column) for column in table.T])


def _make_samples(
    robot: Robot, keys: list[str], table: Array, step: float, frequency: float, log: _LogColumns, feet: list[str]
) -> Samples:
    """Returns the samples of an interval without gaps at equal steps."""
    column = {key: table[:, i] for i, key in enumerate(keys)}
    n, unbounded = len(table), not frequency < 0.5 / step

    def smooth(x: Array) -> Array:
        x = np.ascontiguousarray(x)
        return x if unbounded else low_pass(x, dt=step, cutoff=frequency)

    # at the ends, differences are one-sided and the filter has no data beyond
    edge = min(2 if unbounded else 2 + round(0.5 / (frequency * step)), (n - MIN_SAMPLES // 2) // 2)
    inner = slice(edge, n - edge)
    encoders = JointPositions.actuated(robot)
    position = np.column_stack([column[f"position {joint}"] for joint in robot.actuated])
    position[:, encoders.turning] = np.unwrap(position[:, encoders.turning], axis=0)
    derivative = accelerations(smooth(position), dt=step)
    v = np.zeros((n, robot.nv))
    if any(key.startswith("velocity ") for key in keys):
        measured = np.column_stack([column[f"velocity {joint}"] for joint in robot.actuated])
        v[:, robot.actuated_index] = smooth(measured)
        n_independent = (inner.stop - inner.start) * (1.0 if unbounded else 2.0 * frequency * step)
        _check_velocities(robot, derivative[inner], v[inner, robot.actuated_index], log, n_independent)
    else:
        v[:, robot.actuated_index] = derivative
    q = np.tile(robot.q_home, (n, 1))
    q[:, encoders.at[~encoders.turning]] = position[:, ~encoders.turning]
    turning = encoders.at[encoders.turning]
    q[:, turning], q[:, turning + 1] = np.cos(position[:, encoders.turning]), np.sin(position[:, encoders.turning])
    if base := _base_keys(robot.root):
        size = ROOT_SIZES[robot.root][1]
        values = np.column_stack([column[key] for key in base])
        q[:, : len(base) - size], v[:, :size] = values[:, :-size], smooth(values[:, -size:])
        if robot.root == "free":
            q[:, 3:7] /= np.linalg.norm(q[:, 3:7], axis=1)[:, None]
    a = accelerations(v, dt=step)
    tau = smooth(np.column_stack([column[key] for key in keys if key.split(" ")[0] in ("torque", "tau")]))
    forces = {foot: smooth(np.column_stack([column[f"force {foot} {axis}"] for axis in "xyz"])) for foot in feet}
    # Filtered torques contain Coulomb friction with a filtered sign, not with the sign of filtered velocities.
    direction = smooth(_signs(v, are_means=any(key.startswith("tau ") for key in keys)))
    return Samples(q, v, a, tau, forces, "ground" if feet else "frame", direction=direction)[inner]


def _signs(v: Array, *, are_means: bool) -> Array:
    """Returns the signs (N, nv) of velocities, or the means of the signs from the row before to the row after.

    Means are those of velocities that change linearly between rows.
    """
    signs = np.sign(v)
    if are_means:
        steps = np.diff(v, axis=0)
        means = np.divide(np.diff(np.abs(v), axis=0), steps, out=signs[:-1].copy(), where=steps != 0.0)
        signs[1:-1] = 0.5 * (means[1:] + means[:-1])
    return signs


def _check_velocities(robot: Robot, derivative: Array, measured: Array, log: _LogColumns, n_independent: float) -> None:
    """Rejects velocities that are not the derivatives of positions, because of a wrong unit or a wrong sign.

    With noise only, the correlation of both has the standard deviation ``1 / sqrt(n_independent)``.  Least squares of
    the derivative by the velocity, and the inverse of those of the velocity by the derivative, bound the ratio of both
    without noise and delay from below and above, as these reduce the correlation only.
    """
    size, derived = (np.sqrt(np.mean(x**2, axis=0)) for x in (measured, derivative))
    moving = np.flatnonzero(np.maximum(size, derived) >= MIN_SPEED)
    size, derived = np.maximum(size[moving], 1e-3 * MIN_SPEED), derived[moving]
    ratios = derived / size
    cosines = np.mean(measured * derivative, axis=0)[moving] / (size * np.maximum(derived, 1e-3 * MIN_SPEED))
    opposite = np.flatnonzero(
        cosines < min(MAX_OPPOSITE_CORRELATION, -OPPOSITE_SIGNIFICANCE / np.sqrt(max(n_independent, 1.0)))
    )
    excess = np.abs(np.log(np.maximum(ratios, 1e-9)))
    known_excess = excess + np.log(np.maximum(cosines, 1e-9))  # of the bound closer to 1
    wrong = np.flatnonzero(
        (excess > np.log(MAX_UNCERTAIN_VELOCITY_RATIO)) | (known_excess > np.log(MAX_VELOCITY_RATIO))
    )
    if not len(wrong) and not len(opposite):
        return
    k = int(wrong[excess[wrong].argmax()] if len(wrong) else opposite[cosines[opposite].argmin()])
    position, velocity = (log.given[f"{x} {robot.actuated[int(moving[k])]}"] for x in ("position", "velocity"))
    if not len(wrong):
        raise ArgumentError(
            f"{log.source}: the derivative of column {position!r} has the opposite sign of column {velocity!r}; "
            "reverse the sign of the wrong one"
        )
    raise ArgumentError(
        f"{log.source}: the derivative of column {position!r} is {ratios[k]:.3g} times column {velocity!r}; the unit "
        "of one of them or of the time is wrong; give units in the names of the columns, such as 'time [ms]'"
    )
