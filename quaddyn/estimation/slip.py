"""`SlipDetector`: which feet slip, with what probability, and the friction that their slips have shown."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping

import numpy as np

from ..attributes import StrictAttributes
from ..dynamics import State
from ..errors import ArgumentError, ArgumentTypeError, UnknownNameError
from ..robot.arguments import check_vector, number
from ..robot.robot import Robot
from ..urdf.tree import Array
from .sensor_noise import SensorNoise

#: How fast a foot that slips goes, as a standard deviation by axis [sqrt(g l)].
SLIDING = 0.3
#: How often a foot that holds begins to slip, and how long it does then, in sqrt(l/g): the chain's rates.
ONSETS, LASTING = 0.1, 0.3
#: Errors of a foot's velocity stay alike for so long: readings within it are one [sqrt(l/g)].
ALIKE = 0.02
#: Memory of the friction that is being shown [sqrt(l/g)].
MEMORY = 0.1
#: Probability from which on a foot counts as slipping, and below which no longer.
ON, OFF = 0.9, 0.5


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
        gravity = float(np.linalg.norm(robot.model.gravity.linear))
        unit = math.sqrt(length / gravity)
        self._still = noise.slip**2 + (length * noise.velocity) ** 2
        self._fast = self._still + (SLIDING * math.sqrt(gravity * length)) ** 2
        self._begins, self._ends = min(1.0, ONSETS * dt / unit), min(1.0, dt / (LASTING * unit))
        self._part = min(1.0, dt / (ALIKE * unit))
        self._fading = math.exp(-dt / (MEMORY * unit))
        self._enough = 0.02 * (robot.mass * gravity / len(robot.feet)) ** 2
        self.reset()

    def reset(self) -> None:
        """Forget everything: no foot slips, none has shown any friction."""
        feet = self.robot.feet
        self._probability = dict.fromkeys(feet, 0.0)
        self._slipping = dict.fromkeys(feet, False)
        self._evidence = dict.fromkeys(feet, (0.0, 0.0))

    @property
    def probability(self) -> dict[str, float]:
        """By foot, that it slips; 0 in the air."""
        return dict(self._probability)

    @property
    def slipping(self) -> tuple[str, ...]:
        """The feet that slip."""
        return tuple(foot for foot, slips in self._slipping.items() if slips)

    @property
    def friction(self) -> float | None:
        """Coulomb's coefficient that slipping feet show now, the least of any; None while nobody slips."""
        shown = [
            along / square
            for foot, (along, square) in self._evidence.items()
            if self._slipping[foot] and square > self._enough
        ]
        return min(shown) if shown else None

    def update(
        self, s: State, forces: Mapping[str, Array], touching: Collection[str], *, normal: Array | None = None
    ) -> tuple[str, ...]:
        """One step further; the feet that slip.

        Args:
            s: the state now, as estimated.
            forces: (3,) by foot, on the robot, world axes, as estimated [N].
            touching: the feet that touch the ground.
            normal: (3,) unit vector out of the ground; world z by default.

        Raises:
            ArgumentError: `normal` of another shape or not finite, or a state of another robot.
            UnknownNameError: `touching` or `forces` names what is no foot.
        """
        if not isinstance(s, State) or s.robot is not self.robot:
            raise ArgumentError(f"s: expected a State of {self.robot.name!r}, got {s!r}")
        n = np.array((0.0, 0.0, 1.0)) if normal is None else check_vector("normal", normal, (3,), "out of the ground")
        for foot in (*touching, *forces):
            if foot not in self._probability:
                raise UnknownNameError("foot", foot, self.robot.feet)
        for foot in self.robot.feet:
            if foot not in touching:
                self._probability[foot], self._slipping[foot], self._evidence[foot] = 0.0, False, (0.0, 0.0)
                continue
            velocity = s.velocity(foot)
            along = velocity[:3] - self.robot.legs[foot].foot.radius * np.cross(velocity[3:], n)
            along = along - (along @ n) * n
            p = self._posterior(self._probability[foot], float(along @ along))
            self._probability[foot] = p
            self._slipping[foot] = p > (OFF if self._slipping[foot] else ON)
            if foot in forces:
                self._weigh(foot, p, forces[foot], n)
        return self.slipping

    def _posterior(self, p: float, square: float) -> float:
        """Of slipping, from that before and the squared speed."""
        p = p * (1.0 - self._ends) + (1.0 - p) * self._begins
        odds = math.log(self._still / self._fast) + 0.5 * square * (1.0 / self._still - 1.0 / self._fast)
        odds = math.log(p / (1.0 - p)) + self._part * min(odds, 50.0)
        return 1.0 / (1.0 + math.exp(-min(max(odds, -50.0), 50.0)))

    def _weigh(self, foot: str, p: float, force: Array, n: Array) -> None:
        """Sums of least squares for tangential over normal force, forgetting, and each by how sure the slip is."""
        normal = float(force @ n)
        if normal <= 0.0:
            return
        tangential = math.sqrt(max(float(force @ force) - normal * normal, 0.0))
        a, b = self._evidence[foot]
        share = (1.0 - self._fading) * p
        self._evidence[foot] = (
            self._fading * a + share * tangential * normal,
            self._fading * b + share * normal * normal,
        )
