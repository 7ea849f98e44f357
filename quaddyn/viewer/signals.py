"""`Signals`: values over time that the page plots beside the scene, as lines in panels."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import pinocchio as pin
from numpy.typing import NDArray

from ..errors import ArgumentError, ArgumentTypeError
from ..robot.arguments import check_number, check_type
from ..robot.home import JointPositions
from ..robot.robot import Robot
from ..robot.validation import effective_effort_limits
from ..simulation.records import ContactPoint
from ..urdf.tree import Array

#: {panel: {line: value}}; a panel's name ends with its unit in brackets.
Panels = Mapping[str, Mapping[str, float]]

#: Maximum number of lines of all panels together.
MAX_LINES = 256
#: Maximum number of joints whose positions and velocities are plotted.
MAX_PLOTTED_JOINTS = 64
SPEED, HEIGHT, FORCE = "speed [m/s]", "height [m]", "force [N]"
LOAD, TORQUE, ACTUATOR_FORCE = "torque / limit [%]", "torque [N m]", "actuator force [N]"
#: Titles of the panels of joints, for revolute and for prismatic joints.
JOINT_POSITION = ("joint position [rad]", "joint position [m]")
JOINT_VELOCITY = ("joint velocity [rad/s]", "joint velocity [m/s]")


class Signals:
    """Plot channels in the order of their first occurrence; a frame has a value, or NaN, for each.

    Args:
        folded: titles of panels that the page shows folded at first.
    """

    def __init__(self, folded: Collection[str] = ()) -> None:
        self._folded = folded
        self._numbers: dict[tuple[str, str], int] = {}
        self._new: list[dict[str, str | bool]] = []

    def __len__(self) -> int:
        return len(self._numbers)

    def values(self, panels: Panels) -> NDArray[np.float32]:
        """Returns the values (n,) of all channels so far; adds new channels.

        Raises:
            ArgumentError: more than `MAX_LINES` lines.
        """
        new_values: dict[int, float] = {}
        for panel, lines in panels.items():
            for name, value in lines.items():
                key = panel, name
                if key not in self._numbers:
                    if len(self._numbers) >= MAX_LINES:
                        raise ArgumentError(
                            f"signals: expected at most {MAX_LINES} lines in all panels together; line {name!r} of "
                            f"panel {panel!r} exceeds this number"
                        )
                    self._numbers[key] = len(self._numbers)
                    self._new.append({"panel": panel, "name": name, "folded": panel in self._folded})
                new_values[self._numbers[key]] = value
        values = np.full(len(self._numbers), np.nan, dtype=np.float32)
        for i, value in new_values.items():
            values[i] = value
        return values

    def flush(self) -> list[dict[str, str | bool]]:
        """Returns the channels that are new since the last call."""
        new, self._new = self._new, []
        return new


def validate_signals(signals: Any) -> dict[str, dict[str, float]]:
    """Returns the argument `signals` of `Viewer.show` as panels of lines, or raises.

    Raises:
        ArgumentTypeError: not a mapping of mappings of numbers.
    """
    if signals is None:
        return {}
    check_type("signals", signals, Mapping, "a mapping {panel: {line: value}}")
    panels: dict[str, dict[str, float]] = {}
    for panel, lines in signals.items():
        if not (isinstance(panel, str) and isinstance(lines, Mapping) and all(isinstance(n, str) for n in lines)):
            raise ArgumentTypeError(f"signals[{panel!r}]: expected a mapping from line names to values")
        panels[panel] = {name: check_number(f"signals[{panel!r}][{name!r}]", value) for name, value in lines.items()}
    return panels


def make_motion_panels(
    robot: Robot, data: pin.Data, center: Array, has_velocity: bool, desired_velocity: Array | None
) -> dict[str, dict[str, float]]:
    """Returns panels of height and velocity of the center of mass, in the heading of the base.

    `data` must be as after ``centerOfMass``.
    """
    panels = {HEIGHT: {"center of mass": float(center[2])}}
    if has_velocity:
        R = data.oMi[1].rotation if robot.root == "free" else np.eye(3)
        x, y = float(R[0, 0]), float(R[1, 0])
        length = max(float(np.hypot(x, y)), 1e-9)
        x, y = x / length, y / length
        u, v, w = data.vcom[0].tolist()
        lines = {"forward": x * u + y * v, "left": x * v - y * u, "up": w}
        if desired_velocity is not None:
            a, b = float(desired_velocity[0]), float(desired_velocity[1])
            lines |= {"forward, desired": x * a + y * b, "left, desired": x * b - y * a}
        panels[SPEED] = lines
    return panels


class JointSignals:
    """Panels of the actuated joints: positions, velocities and torques.

    Torques are in percent of their limits. Those of joints whose limit is missing or too large to have an effect are in
    N m or N, because such a limit would flatten them.
    """

    def __init__(self, robot: Robot) -> None:
        self._names, self._positions = robot.actuated, JointPositions.actuated(robot)
        self._velocity_index = robot.actuated_index
        joints = {body.joint.name: body.joint for body in robot.bodies if body.joint is not None}
        self._is_prismatic = [joints[name].type == "prismatic" for name in robot.actuated]
        limits = effective_effort_limits(robot)
        self._limits = [limits.get(name) for name in robot.actuated]

    def make_motion_panels(self, q: Array, v: Array | None) -> dict[str, dict[str, float]]:
        """Returns panels of positions, and of velocities if `v` (nv,) is given; none for very many joints."""
        panels: dict[str, dict[str, float]] = {}
        if len(self._names) > MAX_PLOTTED_JOINTS:
            return panels
        lines = [(JOINT_POSITION, self._positions.of(q))]
        if v is not None:
            lines.append((JOINT_VELOCITY, v[self._velocity_index]))
        for titles, values in lines:
            for name, is_prismatic, value in zip(self._names, self._is_prismatic, values.tolist(), strict=True):
                panels.setdefault(titles[is_prismatic], {})[name] = value
        return panels

    def make_torque_panels(self, tau: Array) -> dict[str, dict[str, float]]:
        """Returns panels of the joint torques (nu,) [N m or N]."""
        panels: dict[str, dict[str, float]] = {}
        for name, is_prismatic, value, limit in zip(
            self._names, self._is_prismatic, tau.tolist(), self._limits, strict=True
        ):
            if limit is not None:
                panels.setdefault(LOAD, {})[name] = 100.0 * value / limit
            else:
                panels.setdefault(ACTUATOR_FORCE if is_prismatic else TORQUE, {})[name] = value
        return panels


def make_force_panel(
    robot: Robot, wrenches: Mapping[str, Array], contacts: tuple[ContactPoint, ...]
) -> dict[str, dict[str, float]]:
    """Returns a panel of the magnitudes of the forces on each foot, and on all other contacts."""
    total: dict[str, Array] = {foot: np.zeros(3) for foot in robot.feet}
    for contact in contacts:
        name = contact.sphere if contact.link is None else "body"
        total[name] = total.get(name, np.zeros(3)) + contact.force
    for name, wrench in wrenches.items():
        total[name] = total.get(name, np.zeros(3)) + wrench[:3]
    return {FORCE: {name: float(np.linalg.norm(force)) for name, force in total.items()}} if total else {}
