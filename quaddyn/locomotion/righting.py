"""`Righting`: how a robot that lies on its back or its side gets onto its feet, and `Recovery`, which does it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np

from ..control import JointPD
from ..errors import ArgumentError
from ..robot.robot import Robot
from ..urdf.tree import Array, FrozenArrays
from .curl import folded
from .motor_guard import MotorGuard
from .proportions import Proportions

#: On what a robot may lie beside its belly.
SIDES = ("back", "left", "right")
#: Largest control period that the gains are made for [s].
PERIOD = 2e-3
#: How long joints take to fold, and how long the robot then rests, before and after a roll [sqrt(l/g)].
FOLDING, RESTING = 4.0, 3.0
#: Cosine of the trunk's tilt up to which it is on its belly, and how many rolls are tried.
UPRIGHT, ATTEMPTS = 0.85, 6
#: Height of the end of a unit vector up to which it is level: rounding.  On its nose a robot lies on its left side.
SIDE_TOLERANCE = 1e-6


@dataclass(frozen=True, slots=True, eq=False)
class Roll(FrozenArrays):
    """Joints that go from pose to pose, smoothly, from the folded robot's and back to it.

    Attributes:
        poses: (k, nu) of the actuated joints [rad or m], the last the folded one.
        times: (k,) from the pose before to each [s].
        rests: (k,) how long each is held [s].
    """

    poses: Array
    times: Array
    rests: Array

    @property
    def duration(self) -> float:
        """[s]."""
        return float(self.times.sum() + self.rests.sum())

    def at(self, time: float) -> Array:
        """(nu,) wanted positions after a time [s]."""
        before = self.poses[-1]
        for pose, going, rest in zip(self.poses, self.times.tolist(), self.rests.tolist(), strict=True):
            if time < going:
                share = max(time, 0.0) / going
                return np.asarray(before + share * share * (3.0 - 2.0 * share) * (pose - before))
            time -= going + rest
            before = pose
            if time < 0.0:
                break
        return np.asarray(before)


@dataclass(frozen=True, slots=True, eq=False)
class Righting:
    """What `quaddyn.planning.plan_righting` found for a robot.

    Attributes:
        robot: its name.
        key: of all of the robot that the plan depends on.
        rolls: by what the robot lies on, of `SIDES`.
        refused: why there is none, by the others; a folded robot does not rest on those that neither names.
    """

    robot: str
    key: str
    rolls: Mapping[str, Roll]
    refused: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "rolls", MappingProxyType(dict(self.rolls)))
        object.__setattr__(self, "refused", MappingProxyType(dict(self.refused)))

    @property
    def ok(self) -> bool:
        """Whether the robot gets up from wherever it lies."""
        return not self.refused

    def __str__(self) -> str:
        """One line for each of `SIDES`."""
        lines = [
            f"{side}: {self.rolls[side].duration:.1f} s"
            if side in self.rolls
            else f"{side}: {self.refused.get(side, 'does not rest on it')}"
            for side in SIDES
        ]
        return "\n".join((f"righting of {self.robot!r}", *(f"  {line}" for line in lines)))


class JointServo:
    """Springs and dampers that take joints along a path, within what motors may be sent.

    Args:
        robot: a quadruped.
        guard: of its motors.
        dt: [s].
    """

    __slots__ = ("_guard", "_kd", "_kp")

    def __init__(self, robot: Robot, guard: MotorGuard, dt: float) -> None:
        gains = JointPD(robot, dt=max(dt, PERIOD))
        self._guard, self._kp, self._kd = guard, gains.kp, gains.kd

    def torques(self, wanted: Array, position: Array, velocity: Array) -> Array:
        """(nu,) towards wanted positions, from positions and velocities (nu,) [N m]."""
        return self._guard.cut(self._kp * (wanted - position) - self._kd * velocity, velocity)


def lies_on(axes: Array) -> str:
    """What a robot lies on: "belly", or one of `SIDES`.

    Args:
        axes: (3, 3) heading axes of the trunk in the world: columns forward, left and up.
    """
    left, up = float(axes[2, 1]), float(axes[2, 2])
    if up > UPRIGHT:
        return "belly"
    if abs(left) + SIDE_TOLERANCE < -up:
        return "back"
    return "right" if left > SIDE_TOLERANCE else "left"


class Recovery:
    """From wherever a robot lies to its belly, legs folded: fold, rest, see how it lies, roll, and again.

    Args:
        robot: a quadruped.
        proportions: of the robot.
        righting: its plan.
        guard: of its motors.
        dt: [s].

    Attributes:
        done: whether it is on its belly, ready to stand up.
        failure: why it has given up; "" while it has not.
        rolls: how many rolls were begun.

    Raises:
        ArgumentError: a plan for other joints.
    """

    __slots__ = ("_dt", "_p", "_pose", "_righting", "_roll", "_servo", "_start", "_time", "done", "failure", "rolls")

    def __init__(
        self, robot: Robot, proportions: Proportions, righting: Righting, guard: MotorGuard, dt: float
    ) -> None:
        pose = folded(robot)
        if pose is None or any(roll.poses.shape[1:] != (robot.nu,) for roll in righting.rolls.values()):
            raise ArgumentError(f"righting: of {righting.robot!r}, whose joints are not those of {robot.name!r}")
        self._p, self._righting, self._dt, self._pose = proportions, righting, dt, pose
        self._servo = JointServo(robot, guard, dt)
        self.begin()

    def begin(self) -> None:
        """The robot lies somewhere."""
        self.done, self.failure, self.rolls = False, "", 0
        self._start: Array | None = None
        self._roll: Roll | None = None
        self._time = 0.0

    def torques(self, position: Array, velocity: Array, axes: Array) -> Array:
        """(nu,) of a tick [N m].

        Args:
            position: (nu,) of the actuated joints [rad or m].
            velocity: (nu,) of them.
            axes: (3, 3) heading axes of the trunk in the world: columns forward, left and up.
        """
        unit = self._p.time
        if self._start is None:
            self._start = position.copy()
        if self._roll is not None and self._time >= self._roll.duration:
            self._roll, self._start, self._time = None, position.copy(), 0.0
        if self._roll is None and self._time >= (FOLDING + RESTING) * unit:
            self._look(lies_on(axes))
        if self._roll is not None:
            wanted = self._roll.at(self._time)
        else:
            share = min(self._time / (FOLDING * unit), 1.0)
            wanted = self._start + share * share * (3.0 - 2.0 * share) * (self._pose - self._start)
        self._time += self._dt
        return self._servo.torques(wanted, position, velocity)

    def _look(self, side: str) -> None:
        """How the robot lies decides what it does next."""
        if side == "belly":
            self.done = True
        elif side in self._righting.refused:
            self.failure = f"no roll from the {side}: {self._righting.refused[side]}"
        elif self.rolls >= ATTEMPTS:
            self.failure = f"{self.rolls} rolls did not right it"
        else:
            # Who rests on a side that it rolls off on level ground is treated as on its back.
            rolls = self._righting.rolls
            self._roll, self._time, self.rolls = rolls.get(side, rolls.get("back")), 0.0, self.rolls + 1
