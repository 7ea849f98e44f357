"""`MomentumObserver`: the generalized force of the surroundings, without any accelerometer or force sensor."""

from __future__ import annotations

import numpy as np

from ..attributes import StrictAttributes
from ..dynamics import Dynamics, State
from ..errors import ArgumentError, ArgumentTypeError
from ..robot.arguments import check_vector, number
from ..robot.robot import Robot
from ..urdf.tree import Array, frozen


class MomentumObserver(StrictAttributes, fixed=("robot", "dt", "gain", "beta")):
    """Estimates ``tau_ext = sum_i J_i^T f_i`` from measured motion and torques.

    The generalized momentum ``p = M v`` of any robot, its root included, obeys

        dp/dt = S^T tau - tau_friction + C^T v - g + tau_ext        (since dM/dt = C + C^T),

    in which no acceleration appears.  The residual r of De Luca and Mattone (2003, 2005) follows tau_ext through a
    first order filter, ``dr/dt = K (tau_ext - r)``; it was meant for collisions of arms, and serves legs as well (Bledt
    et al. 2018, "Contact model fusion for event-based locomotion").

    *In discrete time.*  Over a step the balance gives the mean of tau_ext, ``u = (p+ - p) / dt - mean(S^T tau -
    tau_friction + C^T v - g)``, the terms of motion by the trapezoidal rule.  The filter is then exact for a force
    that is constant over a step, at any gain: ``r+ = beta r + (1 - beta) u`` with ``beta = exp(-K dt)``.  A step of the
    force is followed to 63 % within 1 / K.  White noise of size s in the velocities leaves noise of about ``K |M| s``,
    more exactly ``(1 - beta) / dt sqrt(2 / (1 + beta)) |M| s``: the price of a quick observer.

    Args:
        robot: any robot; of a free root position and velocity have to be measured or estimated.
        dt: time between updates [s].
        gain: K [1/s], for all or (nv,); inf for the unfiltered u.
        joint_friction: subtract the robot's own viscous and Coulomb friction.
        stiction_speed: joint speed below which Coulomb friction is proportional to it [rad/s or m/s].

    Raises:
        ArgumentTypeError: no robot.
        ArgumentError: a value out of range.
    """

    def __init__(
        self,
        robot: Robot,
        *,
        dt: float,
        gain: float | Array = 100.0,
        joint_friction: bool = True,
        stiction_speed: float = 1e-3,
    ) -> None:
        if not isinstance(robot, Robot):
            raise ArgumentTypeError(f"robot: expected a Robot from quaddyn.load, got {type(robot).__name__}")
        self.robot, self.dt = robot, number("dt", dt)
        if not (np.isfinite(self.dt) and self.dt > 0.0):
            raise ArgumentError(f"dt: expected a positive time [s], got {dt}")
        if isinstance(gain, np.ndarray):
            if gain.dtype.kind not in "fiu":
                raise ArgumentTypeError(f"gain: expected numbers [1/s], got an array of {gain.dtype}")
            K = gain.astype(np.float64)
        else:
            K = np.full(robot.nv, number("gain", gain))
        if K.shape != (robot.nv,) or not (K > 0.0).all():  # False of NaN
            raise ArgumentError(f"gain: expected positive gains [1/s], one or {robot.nv}, got {gain}")
        self._stiction = number("stiction_speed", stiction_speed)
        if not (np.isfinite(self._stiction) and self._stiction > 0.0):
            raise ArgumentError(f"stiction_speed: expected a positive speed, got {stiction_speed}")
        self.gain, self.beta = frozen(K), frozen(np.exp(-K * self.dt))
        self._with_friction = bool(joint_friction)
        self._dynamics = Dynamics(robot, validate=False)
        self.reset()

    @property
    def residual(self) -> Array:
        """(nv,) the estimate r of tau_ext [N m, N], read-only."""
        return self._r

    @property
    def started(self) -> bool:
        """Whether there was an update since the last reset, so that the next residual is one."""
        return self._p is not None

    def reset(self) -> None:
        """Forget the motion; the next update is the first."""
        self._r = frozen(np.zeros(self.robot.nv))
        self._p: Array | None = None
        self._drive = np.zeros(self.robot.nv)

    def update(self, s: State, tau: Array) -> Array:
        """One step further.

        Args:
            s: the state now, dt after the last one.
            tau: (nu,) torques that the motors exerted since the last update, mean over the step [N m]; of the first
                update they are not used.

        Returns:
            (nv,) the estimate of tau_ext [N m, N], zero at the first update; a force on a free root's six comes in its
            own frame, like its velocity.

        Raises:
            ArgumentError: `tau` of another shape or not finite, or a state of another robot.
            StaleStateError: the Dynamics of `s` was updated again.
        """
        robot = self.robot
        if not isinstance(s, State) or s.robot is not robot:
            raise ArgumentError(f"s: expected a State of {robot.name!r}, got {s!r}")
        tau = check_vector("tau", tau, (robot.nu,), f"nu of {robot.name}")
        v = s.v
        momentum = s.M @ v
        # What drives the momentum but motors and surroundings, at this end of the step.
        drive = self._dynamics.coriolis(s.q, v).T @ v - s.gravity
        if self._with_friction:
            drive -= robot.damping * v + robot.friction * v / np.maximum(np.abs(v), self._stiction)
        if self._p is not None:
            u = (momentum - self._p) / self.dt - 0.5 * (self._drive + drive)
            u[robot.actuated_index] -= tau
            self._r = frozen(self.beta * self._r + (1.0 - self.beta) * u)
        self._p, self._drive = momentum, drive
        return self._r
