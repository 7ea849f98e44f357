"""`PayloadEstimator`: what a robot carries that its file does not know, from torques, while it stands or walks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..contact import ContactSet
from ..contact.contact_kinematics import cross_matrix
from ..deprecation import renamed_attributes, renamed_parameters
from ..dynamics import State
from ..errors import ArgumentError, ArgumentTypeError, UnknownNameError
from ..robot.arguments import number
from ..robot.payload import with_payload
from ..robot.robot import Robot
from ..strict_attributes import StrictAttributes
from ..urdf.tree import Array, FrozenArrays
from .momentum_observer import MomentumObserver


@renamed_attributes(place="com", moment="first_moment", deviation="standard_deviation")
@dataclass(frozen=True, slots=True, eq=False)
class Payload(FrozenArrays):
    """An estimate of a payload.

    Attributes:
        mass: [kg]; negative where the robot is lighter than its file says.
        first_moment: (3,) mass times the centre of mass, in the link's axes [kg m].
        standard_deviation: (4,) standard deviations of mass [kg] and moment [kg m].
    """

    mass: float
    first_moment: Array
    standard_deviation: Array

    @property
    def com(self) -> Array:
        """(3,) centre of mass in the link's axes [m]; zero where the mass is smaller than its deviation."""
        return self.first_moment / self.mass if abs(self.mass) > self.standard_deviation[0] else np.zeros(3)


@renamed_attributes(loaded="loaded_robot")
class PayloadEstimator(StrictAttributes, fixed=("robot", "link", "observer")):
    r"""Mass and centre of mass of a payload on one link, from a `MomentumObserver` and Kalman's rule.

    What the surroundings do to the robot is the feet's forces and the payload's weight,

    .. math:: \tau_{ext} = J_c^T f + J_v^T m g + J_\omega^T (R\, l \times g)

    with its mass m and its first moment l in the link's axes.  Whatever forces at all feet can do is projected out, so
    that it need not be known which of them touch; what is left is linear in m and l.  The payload's own acceleration
    is neglected: over a gait's cycle it is zero in the mean.  Along gravity, the place of its centre shows in the
    link's tilt alone, and keeps what was assumed, zero, while there is none.  Older readings are forgotten with the
    time constant `time_constant`, never the assumption that there is no payload.

    Joint friction that the robot's record does not know looks like payload while a robot stands still; it averages out
    as it moves to and fro.  Owns mutable memory: one per thread.

    Args:
        robot: legged, or an arm that carries the payload in its hand.
        dt: time between updates [s].
        link: that carries the payload; the root link by default.
        time_constant: time constant of forgetting [s].
        noise: standard deviation of the generalized forces over one second [N m]; by default that of a hundredth of
            the weight at the distance `max_offset`.
        max_mass: standard deviation of the mass before anything was measured; half the robot's mass by default [kg].
        max_offset: the same of the place [m]; by default a tenth of the root of third order of the mass in kg.

    Raises:
        ArgumentTypeError: no robot.
        ArgumentError: a number that is not positive.
        UnknownNameError: no such link.
    """

    @renamed_parameters(memory="time_constant", largest="max_mass", reach="max_offset")
    def __init__(
        self,
        robot: Robot,
        *,
        dt: float,
        link: str | None = None,
        time_constant: float = 2.0,
        noise: float | None = None,
        max_mass: float | None = None,
        max_offset: float | None = None,
    ) -> None:
        if not isinstance(robot, Robot):
            raise ArgumentTypeError(f"robot: expected a Robot from quaddyn.load, got {type(robot).__name__}")
        self.robot, self.link = robot, link or robot.bodies[0].name
        if self.link not in robot.frame_names:
            raise UnknownNameError("link", self.link, robot.frame_names)
        self.observer = MomentumObserver(robot, dt=dt, gain=np.inf)  # a filter would mix one stance with the next
        self._feet = ContactSet.of_feet(robot)
        span = 0.1 * robot.mass ** (1.0 / 3.0) if max_offset is None else number("max_offset", max_offset)
        most = 0.5 * robot.mass if max_mass is None else number("max_mass", max_mass)
        self._gravity = np.array(robot.model.gravity.linear)
        if noise is None:
            noise = 0.01 * robot.mass * float(np.linalg.norm(self._gravity)) * span
        for name, value in (
            ("time_constant", time_constant),
            ("noise", noise),
            ("max_mass", most),
            ("max_offset", span),
        ):
            if not 0.0 < number(name, value) < np.inf:
                raise ArgumentError(f"{name}: expected a positive number, got {value}")
        self._decay = float(np.exp(-self.observer.dt / time_constant))
        self._weight = self.observer.dt / noise**2  # readings one after the other are not independent: per time
        self._prior_information = np.diag(1.0 / np.array([most, *(most * span for _ in range(3))]) ** 2)
        self._weight_moment = -cross_matrix(self._gravity)  # of a first moment, world axes
        self.reset()

    def reset(self) -> None:
        """Forget all readings."""
        self.observer.reset()
        self._information, self._right = np.zeros((4, 4)), np.zeros(4)

    def update(self, s: State, tau: Array) -> Payload:
        """One step further.

        Args:
            s: the state now, dt after the last one.
            tau: (nu,) torques that the motors exerted since the last update [N m].

        Returns:
            The estimate now.

        Raises:
            ArgumentError: `tau` of another shape or not finite, or a state of another robot.
            StaleStateError: the Dynamics of `s` was updated again.
        """
        began = self.observer.is_initialized
        r = self.observer.update(s, tau)
        self._information *= self._decay
        self._right *= self._decay
        if began:
            free = _compute_null_space(self._feet.jacobian(s))
            A = free @ self._columns(s)
            self._information += self._weight * (A.T @ A)
            self._right += self._weight * (A.T @ (free @ r))
        return self.estimate

    @property
    def estimate(self) -> Payload:
        """The estimate now."""
        covariance = np.linalg.inv(self._prior_information + self._information)
        mass, *moment = (covariance @ self._right).tolist()
        return Payload(mass, np.array(moment), np.sqrt(covariance.diagonal()))

    def loaded_robot(self) -> Robot:
        """The robot with the payload that was found; see `quaddyn.robot.with_payload`."""
        found = self.estimate
        return with_payload(self.robot, found.mass, found.com, link=self.link)

    def _columns(self, s: State) -> Array:
        """(nv, 4) generalized force of the weight by mass and moment."""
        J, R = s.jacobian(self.link), s.placement(self.link).rotation
        return np.column_stack((J[:3].T @ self._gravity, J[3:].T @ (self._weight_moment @ R)))


def _compute_null_space(J: Array) -> Array:
    """(n - m, n) orthonormal rows that no force through J (m, n) reaches."""
    return np.asarray(np.linalg.qr(J.T, mode="complete")[0].T[len(J) :])
