"""Warnings about values of a robot that seem to be in another unit: degrees, millimeters."""

from __future__ import annotations

import math
import warnings

import numpy as np
from numpy.typing import NDArray

from ..urdf.tree import Array
from .robot import Robot

#: An angle beyond a position limit by more than this is taken to be in degrees [rad]: half a turn.
MAX_ANGLE_EXCESS = math.pi
#: The position of a sliding joint beyond a limit by more than these is taken to be in millimeters: in ranges of the
#: joint and in [m]; the larger one counts.
MAX_SLIDING_EXCESS, MIN_SLIDING_EXCESS = 10.0, 1.0
#: Relative difference up to which torques count as equal to joint positions.
EQUALITY_TOLERANCE = 1e-9
#: Larger values are not explained by another unit [degrees, mm].
MAX_VALUE = 1e4
#: Maximum plausible height or distance, divided by the size of the robot, which is the height of its base in the home
#: configuration, the leg length, or the reach; larger ones seem to be in millimeters.
MAX_LENGTH_RATIO = 100.0
#: Largest plausible angle of a direction or a turn [rad]: larger ones seem to be in degrees.
MAX_PLAUSIBLE_DIRECTION = 2.0 * math.pi
#: Largest plausible delay of readings and packets [s]; values up to a thousand times larger seem to be in milliseconds.
MAX_PLAUSIBLE_DELAY = 1.0


class JointUnits:
    """Check of the configurations that callers pass: whether they seem to be in degrees or millimeters.

    Of the joints, only those with limits are checked.  Values a little beyond a limit are accepted, as measured ones
    are.

    Args:
        robot: the robot.
        excess_factor: factor of the excess over a limit that is accepted.

    Attributes:
        index: (nu,) entries of a configuration that are the positions of the actuated joints.
    """

    def __init__(self, robot: Robot, *, excess_factor: float = 1.0) -> None:
        self._robot, self._has_warned, self._has_warned_of_torques = robot, False, False
        self._base_height = float(robot.q_home[2]) if robot.root == "free" and robot.legs else 0.0
        joints = [robot.tree.joints_by_name[name] for name in robot.actuated]
        self.index = np.array([robot.configuration_index(joint.name) for joint in joints], dtype=np.intp)
        lower, upper = robot.lower[self.index], robot.upper[self.index]
        excess = np.array([MAX_ANGLE_EXCESS] * len(joints))
        sliding = np.array([joint.type == "prismatic" for joint in joints], dtype=bool)
        excess[sliding] = np.maximum(MAX_SLIDING_EXCESS * (upper - lower)[sliding], MIN_SLIDING_EXCESS)
        excess *= excess_factor
        limited = np.isfinite(lower) & np.isfinite(upper)
        self._low, self._high = np.where(limited, lower - excess, -np.inf), np.where(limited, upper + excess, np.inf)
        smallest = np.minimum(np.abs(self._low), np.abs(self._high)).min(initial=np.inf)
        self._harmless = float(smallest**2)  # no joint is beyond, if the sum of squares is below

    def warn(self, argument: str, q: Array, *, stacklevel: int = 3) -> None:
        """Warns if joint positions of a configuration (nq,) seem to be in another unit; at most once."""
        if self._has_warned or np.vdot(q, q) < self._harmless:
            return
        values = q[self.index]
        beyond = np.flatnonzero(((values < self._low) | (values > self._high)) & (np.abs(values) <= MAX_VALUE))
        if not beyond.size:
            return
        self._has_warned, robot = True, self._robot
        k = int(beyond[0])
        name, i = robot.actuated[k], self.index[k]
        is_sliding = robot.tree.joints_by_name[name].type == "prismatic"
        unit, seems = ("m", "millimeters; pass meters") if is_sliding else ("rad", "degrees; pass np.radians(...)")
        more = f", and {beyond.size - 1} more joints are beyond theirs" if beyond.size > 1 else ""
        warnings.warn(
            f"{argument}: {values[k]:g} {unit} of {name} is far beyond its limits {robot.lower[i]:.3g} to "
            f"{robot.upper[i]:.3g} {unit}{more}: the values seem to be in {seems}",
            RuntimeWarning,
            stacklevel=stacklevel,
        )

    def warn_of_lanes(
        self, argument: str, positions: Array, lanes: NDArray[np.intp] | None = None, *, stacklevel: int = 3
    ) -> None:
        """Warns if the positions of the actuated joints of a lane seem to be in another unit; at most once.

        Args:
            argument: name of the argument, for the message.
            positions: (m, nu) positions of the actuated joints.
            lanes: (m,) numbers of the lanes; None if a single row is that of all lanes, or if all lanes are given.
            stacklevel: as of `warnings.warn`.
        """
        is_beyond = ((positions < self._low) | (positions > self._high)).any(axis=1)
        if self._has_warned or not is_beyond.any():
            return
        row = int(np.argmax(is_beyond))
        configuration = self._robot.q_home.copy()
        configuration[self.index] = positions[row]
        lane = "" if len(positions) == 1 and lanes is None else f" of lane {row if lanes is None else lanes[row]}"
        self.warn(argument + lane, configuration, stacklevel=stacklevel + 1)

    def warn_of_base(self, argument: str, q: Array, *, ground: float = 0.0, stacklevel: int = 3) -> None:
        """Warns if the height of the base above the ground seems to be in millimeters; at most once.

        Args:
            argument: name of the argument, for the message.
            q: (nq,) configuration.
            ground: height of the ground below the base [m]; NaN if there is none.
            stacklevel: as of `warnings.warn`.
        """
        size = self._base_height
        if not size:
            return
        height = float(q[2]) - (0.0 if math.isnan(ground) else ground)
        if warn_of_length(argument, height, size, what="height of the base", stacklevel=stacklevel + 1):
            self._base_height = 0.0

    def warn_of_torques(self, argument: str, torques: Array, q: Array, *, stacklevel: int = 3) -> None:
        """Warns if torques (nu,) are the joint positions of a configuration (nq,) or of home; at most once."""
        if self._has_warned_of_torques:
            return
        for which, configuration in (("present", q), ("home", self._robot.q_home)):
            positions = configuration[self.index]
            # Zeros, or the torque of a single joint, may equal a position by chance.
            if np.count_nonzero(positions) > 1 and np.allclose(torques, positions, rtol=EQUALITY_TOLERANCE, atol=0.0):
                self._has_warned_of_torques = True
                warnings.warn(
                    f"{argument}: its entries are the {which} positions of the actuated joints; pass torques [N m], "
                    f"such as kp * (q_desired - q) - kd * v of {', '.join(self._robot.actuated[:2])} ...",
                    RuntimeWarning,
                    stacklevel=stacklevel,
                )
                return


def warn_of_time(argument: str, time: float, max_time: float, *, stacklevel: int = 3) -> None:
    """Warns if a time [s] seems to be in milliseconds: it is finite and above the largest plausible one.

    Args:
        argument: name of the argument, for the message.
        time: the time [s].
        max_time: largest plausible time [s].
        stacklevel: as of `warnings.warn`.
    """
    if max_time < time <= 1e3 * max_time:
        warnings.warn(
            f"{argument}: {time:g} s seems to be in milliseconds; pass seconds", RuntimeWarning, stacklevel=stacklevel
        )


def warn_of_direction(argument: str, angle: float, *, stacklevel: int = 3) -> None:
    """Warns if the angle [rad] of a direction or a turn seems to be in degrees.

    Args:
        argument: name of the argument, for the message.
        angle: the angle [rad].
        stacklevel: as of `warnings.warn`.
    """
    if MAX_PLAUSIBLE_DIRECTION + EQUALITY_TOLERANCE < abs(angle) <= MAX_VALUE:
        warnings.warn(
            f"{argument}: {angle:g} rad is more than a full turn and seems to be in degrees; pass "
            f"np.radians({angle:g})",
            RuntimeWarning,
            stacklevel=stacklevel,
        )


def warn_of_length(
    argument: str,
    length: float,
    size: float,
    *,
    what: str = "height",
    unit: str = "millimeters",
    max_ratio: float = MAX_LENGTH_RATIO,
    stacklevel: int = 3,
) -> bool:
    """Warns if a length [m] seems to be in millimeters or another unit; returns whether it does.

    Args:
        argument: name of the argument, for the message.
        length: the length [m].
        size: leg length or another size of the robot [m]; 0 if it is not known.
        what: the quantity, for the message.
        unit: the likely unit, for the message.
        max_ratio: maximum length, divided by `size`.
        stacklevel: as of `warnings.warn`.
    """
    if not MAX_VALUE >= abs(length) > max_ratio * size > 0.0:
        return False
    warnings.warn(
        f"{argument}: the {what} {length:g} m is {abs(length) / size:.0f} times the size of the robot, "
        f"{size:.3g} m: it seems to be in {unit}; pass meters",
        RuntimeWarning,
        stacklevel=stacklevel,
    )
    return True
