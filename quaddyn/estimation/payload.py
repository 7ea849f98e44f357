"""`PayloadEstimator`: mass and center of mass of a payload, from motor torques, at rest and while walking."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..contact import ContactSet
from ..contact.contact_set import cross_matrix
from ..deprecation import renamed_attributes, renamed_parameters
from ..dynamics import State
from ..errors import ArgumentError, ArgumentTypeError, UnknownNameError
from ..robot.arguments import check_number
from ..robot.inertial_update import with_payload
from ..robot.robot import Robot
from ..strict_attributes import StrictAttributes
from ..urdf.tree import Array, FrozenArrays
from .momentum_observer import MomentumObserver


@renamed_attributes(place="com", moment="first_moment", deviation="standard_deviation")
@dataclass(frozen=True, slots=True, eq=False)
class Payload(FrozenArrays):
    """Estimated mass and first moment of a payload.

    Attributes:
        mass: mass [kg]; negative where the robot is lighter than its model.
        first_moment: (3,) mass times center of mass, axes of the link [kg m].
        standard_deviation: (4,) standard deviations of mass [kg] and first moment [kg m].
    """

    mass: float
    first_moment: Array
    standard_deviation: Array

    @property
    def com(self) -> Array:
        """(3,) center of mass, axes of the link [m]; zero where the mass is below its standard deviation."""
        return self.first_moment / self.mass if abs(self.mass) > self.standard_deviation[0] else np.zeros(3)


@renamed_attributes(loaded="loaded_robot")
class PayloadEstimator(StrictAttributes, fixed=("robot", "link", "observer")):
    r"""Estimator of mass and center of mass of a payload on one link: a `MomentumObserver` and a Kalman filter.

    The external force on the robot consists of contact forces and the weight of the payload,

    .. math:: \tau_{ext} = J_c^T f + J_v^T m g + J_\omega^T (R\, l \times g)

    with its mass m and its first moment l in the axes of the link.  The components that contact forces at any foot can
    cause are projected out, so that the contact states are not needed; the rest is linear in m and l.  The
    payload's own acceleration is neglected: its mean over a gait cycle is zero.  The component of the center of mass
    along gravity is observable only if the link tilts, and keeps its prior value, zero, while it does not.  Readings
    are forgotten with the time constant, the prior (no payload) is not.

    Joint friction that is not in the robot's model appears as payload while a robot stands still; it averages out in
    motion.  Owns mutable memory: one per thread.

    Args:
        robot: a legged robot, or an arm that carries the payload.
        dt: time between updates [s].
        link: link that carries the payload; None for the root link.
        time_constant: time constant with which readings are forgotten [s].
        noise: standard deviation of the generalized forces over one second [N m]; None for that of a hundredth of the
            weight at the distance `max_offset`.
        max_mass: prior standard deviation of the mass [kg]; None for half of the robot's mass.
        max_offset: prior standard deviation of the center of mass [m]; None for a tenth of the cubic root of the
            robot's mass in kg.

    Raises:
        ArgumentTypeError: `robot` is not a Robot.
        ArgumentError: a number is not positive.
        UnknownNameError: there is no such link.
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
        self.observer = MomentumObserver(robot, dt=dt, gain=np.inf)  # a filter would mix successive stances
        self._feet = ContactSet.from_feet(robot)
        span = 0.1 * robot.mass ** (1.0 / 3.0) if max_offset is None else check_number("max_offset", max_offset)
        max_std = 0.5 * robot.mass if max_mass is None else check_number("max_mass", max_mass)
        self._gravity = np.array(robot.model.gravity.linear)
        if noise is None:
            noise = 0.01 * robot.mass * float(np.linalg.norm(self._gravity)) * span
        for name, value in (
            ("time_constant", time_constant),
            ("noise", noise),
            ("max_mass", max_std),
            ("max_offset", span),
        ):
            if not 0.0 < check_number(name, value) < np.inf:
                raise ArgumentError(f"{name}: expected a positive number, got {value}")
        self._decay = float(np.exp(-self.observer.dt / time_constant))
        self._weight = self.observer.dt / noise**2  # per time, since successive readings are correlated
        self._prior_information = np.diag(1.0 / np.array([max_std, *(max_std * span for _ in range(3))]) ** 2)
        self._weight_moment = -cross_matrix(self._gravity)  # per first moment, world axes
        self.reset()

    def reset(self) -> None:
        """Resets the estimate to the prior."""
        self.observer.reset()
        self._information, self._information_vector = np.zeros((4, 4)), np.zeros(4)

    def update(self, s: State, tau: Array) -> Payload:
        """Updates the estimated mass and center of mass by one step.

        Args:
            s: present state, dt after the last one.
            tau: (nu,) motor torques since the last update [N m].

        Returns:
            The present estimate.

        Raises:
            ArgumentError: `tau` has a wrong shape or is not finite, or the state belongs to another robot.
            StaleStateError: the Dynamics of `s` was updated again.
        """
        has_residual = self.observer.is_initialized
        r = self.observer.update(s, tau)
        self._information *= self._decay
        self._information_vector *= self._decay
        if has_residual:
            projection = _compute_null_space(self._feet.jacobian(s))
            A = projection @ self._columns(s)
            self._information += self._weight * (A.T @ A)
            self._information_vector += self._weight * (A.T @ (projection @ r))
        return self.estimate

    @property
    def estimate(self) -> Payload:
        """Present estimate of the payload."""
        covariance = np.linalg.inv(self._prior_information + self._information)
        mass, *moment = (covariance @ self._information_vector).tolist()
        return Payload(mass, np.array(moment), np.sqrt(covariance.diagonal()))

    def loaded_robot(self) -> Robot:
        """Returns the robot with the estimated payload; see `quaddyn.robot.with_payload`."""
        payload = self.estimate
        return with_payload(self.robot, payload.mass, payload.com, link=self.link)

    def _columns(self, s: State) -> Array:
        """Computes the generalized force (nv, 4) of the payload's weight per unit of mass and first moment."""
        J, R = s.jacobian(self.link), s.placement(self.link).rotation
        return np.column_stack((J[:3].T @ self._gravity, J[3:].T @ (self._weight_moment @ R)))


def _compute_null_space(J: Array) -> Array:
    """Computes orthonormal rows (n - m, n) that are orthogonal to the rows of J (m, n)."""
    return np.asarray(np.linalg.qr(J.T, mode="complete")[0].T[len(J) :])
