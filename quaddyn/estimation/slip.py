"""`SlipDetector`: which feet slip, with what probability, and the friction that their slips have shown."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping

import numpy as np

from ..attributes import StrictAttributes
from ..dynamics import State
from ..errors import ArgumentError, ArgumentTypeError, UnknownNameError
from ..robot.arguments import number
from ..robot.robot import Robot
from ..urdf.tree import Array
from .foot_forces import FootForces
from .moving_points import points_of
from .sensor_noise import SensorNoise
from .slip_chain import SlipMemory, SlipModel, listen, shown_friction, watch

#: How fast a foot that slips goes, as a standard deviation by axis [sqrt(g l)].
SLIDING = 0.3
#: How often a foot that holds begins to slip, and how long it does then, in sqrt(l/g): the chain's rates.
ONSETS, LASTING = 0.1, 0.3
#: Errors of a foot's velocity stay alike for so long: readings within it are one [sqrt(l/g)].
ALIKE = 0.02
#: Memory of the friction that is being shown [sqrt(l/g)].
MEMORY = 0.1


class SlipDetector(StrictAttributes, fixed=("robot", "dt", "length", "noise")):
    """Slip of feet that touch the ground, from how fast their points of contact move along it.

    Each foot is a hidden Markov chain of two states.  Who holds has the velocity that noise gives it, who slips a
    larger one: both are normal distributions along the two tangents of the ground, and Bayes' rule turns each reading
    v into odds, ``L = (s0 / s1)^2 exp(|v|^2 (1 / s0^2 - 1 / s1^2) / 2)`` (forward recursion of Rabiner 1989, "A
    tutorial on hidden Markov models").  Errors of an estimated velocity last, and a reading that says the same as the
    one before counts as a part of one.  Feet in the air have no slip, and begin anew at touchdown.

    While a foot slips, the ground gives what its friction allows: tangential over normal force is Coulomb's
    coefficient, by least squares over the last forces.

    Args:
        robot: whose feet.
        dt: time between updates [s].
        length: of its legs [m].
        noise: of the sensors; a vendor's by default.

    Attributes:
        robot: as given.
        dt: as given [s].
        length: as given [m].
        noise: as given.

    Raises:
        ArgumentTypeError: no robot, or no `SensorNoise`.
        ArgumentError: no feet, or a number out of range.
    """

    def __init__(self, robot: Robot, *, dt: float, length: float, noise: SensorNoise | None = None) -> None:
        if not isinstance(robot, Robot):
            raise ArgumentTypeError(f"robot: expected a Robot from quaddyn.load, got {type(robot).__name__}")
        if not robot.feet:
            raise ArgumentError(f"robot: expected one with feet, got {robot.name!r}")
        noise = SensorNoise() if noise is None else noise
        if not isinstance(noise, SensorNoise):
            raise ArgumentTypeError(f"noise: expected a SensorNoise, got {type(noise).__name__}")
        self.robot, self.dt, self.length, self.noise = robot, number("dt", dt), number("length", length), noise
        for name, value in (("dt", self.dt), ("length", self.length)):
            if not 0.0 < value < math.inf:
                raise ArgumentError(f"{name}: expected a positive number, got {value}")
        gravity, n, feet = float(np.linalg.norm(robot.model.gravity.linear)), len(robot.feet), robot.feet
        unit = math.sqrt(length / gravity)
        still = noise.slip**2 + (length * noise.velocity) ** 2
        self._model = SlipModel(
            still=still,
            fast=still + (SLIDING * math.sqrt(gravity * length)) ** 2,
            begins=min(1.0, ONSETS * dt / unit),
            ends=min(1.0, dt / (LASTING * unit)),
            part=min(1.0, dt / (ALIKE * unit)),
            fading=math.exp(-dt / (MEMORY * unit)),
            enough=0.02 * (robot.mass * gravity / n) ** 2,
            radius=np.array([robot.legs[foot].foot.radius for foot in feet]),
        )
        self._memory = SlipMemory(np.zeros(n), np.zeros(n, dtype=np.int64), np.zeros((n, 2)))
        self._points = points_of(robot, [(foot, np.zeros(3)) for foot in feet]) if robot.coupling is None else None
        self._forces, self._motion, self._touching = FootForces(feet), np.zeros((n, 6)), np.zeros(n, dtype=np.int64)

    def reset(self) -> None:
        """Forget everything: no foot slips, none has shown any friction."""
        for array in self._memory:
            array[:] = 0

    @property
    def probability(self) -> dict[str, float]:
        """By foot, that it slips; 0 in the air."""
        return dict(zip(self.robot.feet, self._memory.probability.tolist(), strict=True))

    @property
    def slipping(self) -> tuple[str, ...]:
        """The feet that slip."""
        return tuple(foot for foot, slips in zip(self.robot.feet, self._memory.slipping.tolist(), strict=True) if slips)

    @property
    def friction(self) -> float | None:
        """Coulomb's coefficient that slipping feet show now, the least of any; None while nobody slips."""
        least = float(shown_friction(self._model, self._memory))
        return None if least == math.inf else least

    def update(
        self, s: State, forces: Mapping[str, Array] | Array, touching: Collection[str], *, normal: Array | None = None
    ) -> tuple[str, ...]:
        """One step further; the feet that slip.

        Args:
            s: the state now, as estimated.
            forces: (3,) by foot, or (nf, 3) of all feet, on the robot, world axes, as estimated [N].
            touching: the feet that touch the ground.
            normal: (3,) unit vector out of the ground, or (nf, 3) of the ground under each foot; world z by default.

        Raises:
            ArgumentError: `normal` of another shape or not finite, or a state of another robot.
            UnknownNameError: `touching` or `forces` names what is no foot.
        """
        if not isinstance(s, State) or s.robot is not self.robot:
            raise ArgumentError(f"s: expected a State of {self.robot.name!r}, got {s!r}")
        feet, forced = self.robot.feet, self._forces
        n = forced.facing(normal)
        for foot in touching:
            if foot not in feet:
                raise UnknownNameError("foot", foot, feet)
        forced.take(forces)
        self._touching[:] = [foot in touching for foot in feet]
        model, memory, motion = self._model, self._memory, self._motion
        if self._points is not None:
            v = s.coordinates()[1]
            watch(
                model, memory, self._points, *s.kinematics(), v, forced.values, forced.given, self._touching, n, motion
            )
        else:
            for row, foot in zip(motion, feet, strict=True):
                row[:] = s.velocity(foot)
            listen(model, memory, motion, forced.values, forced.given, self._touching, n)
        return self.slipping
