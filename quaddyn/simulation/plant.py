"""`Plant`: what every world that a robot can be put into offers to a controller."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
import pinocchio as pin

from ..dynamics.arguments import check_unit, check_vector
from ..errors import ArgumentError, ArgumentTypeError, DivergenceError
from ..robot.arguments import number
from ..robot.robot import Robot
from ..urdf.tree import Array

#: Beyond this generalized speed [rad/s or m/s] a simulation has diverged.
RUNAWAY_SPEED = 1e6


class Plant(ABC):
    """A robot in a world, advanced one step at a time by the torques of its motors.

    The state is Pinocchio's (q, v) whatever computes the motion: quaternions (x, y, z, w), the base's velocity in the
    base's axes.  A plant belongs to one thread.  Two runs from the same state with the same torques agree bit for bit.

    Args:
        robot: any `Robot`: free, planar or fixed root, with or without feet.
        dt: time step [s].

    Attributes:
        robot: as given.
        dt: as given [s].

    Raises:
        ArgumentError: `robot` or `dt` is not what it must be.
    """

    def __init__(self, robot: Robot, dt: float) -> None:
        if not isinstance(robot, Robot):
            raise ArgumentTypeError(f"robot: expected a Robot from quaddyn.load, got {type(robot).__name__}")
        dt = number("dt", dt)
        if not (np.isfinite(dt) and 0.0 < dt <= 0.1):
            raise ArgumentError(f"dt: expected a step in (0, 0.1] s, got {dt}")
        self.robot, self.dt = robot, dt
        self._energy_data = robot.model.createData()

    # -- state -----------------------------------------------------------------------------------------------
    def reset(self, q: Array | None = None, v: Array | None = None) -> None:
        """Put the robot into a state, at time 0, with all sums at 0.

        Args:
            q: (nq,) configuration; ``robot.q_home`` by default.
            v: (nv,) velocity; at rest by default.

        Raises:
            ArgumentError: wrong shape or type, not finite, or a quaternion or (cos, sin) in `q` not of length 1.
        """
        robot = self.robot
        q = robot.q_home if q is None else q
        v = np.zeros(robot.nv) if v is None else v
        check_vector("q", q, (robot.nq,), f"nq of {robot.name}")
        check_unit(robot.model, q)
        check_vector("v", v, (robot.nv,), f"nv of {robot.name}")
        self._q, self._v = readonly(q), readonly(v)
        self._tau = readonly(np.zeros(robot.nu))
        self._steps = 0
        self._restart()

    @property
    def q(self) -> Array:
        """Configuration (nq,), read-only."""
        return self._q

    @property
    def v(self) -> Array:
        """Velocity (nv,), read-only."""
        return self._v

    @property
    def time(self) -> float:
        """Time since the last reset [s]."""
        return self._steps * self.dt

    @property
    def tau(self) -> Array:
        """Torques of the last step after saturation (nu,) [N m], read-only."""
        return self._tau

    @property
    @abstractmethod
    def contact_forces(self) -> dict[str, Array]:
        """Mean force of the ground on each foot over the last step, (3,) on the robot, world axes [N]."""

    @property
    @abstractmethod
    def status(self) -> str:
        """Of the last contact solve: "free" (no contact), "solved", or a word for what went wrong."""

    @property
    def energy(self) -> float:
        """Mechanical energy, kinetic and potential (zero with the CoM in the plane z = 0) [J]."""
        model, data = self.robot.model, self._energy_data
        pin.computeKineticEnergy(model, data, self._q, self._v)
        pin.computePotentialEnergy(model, data, self._q)
        return float(data.kinetic_energy + data.potential_energy)

    # -- time ------------------------------------------------------------------------------------------------
    def step(self, tau: Array) -> None:
        """Advance by dt under constant torques.

        Args:
            tau: (nu,) torques of the actuated joints [N m]; those beyond ``robot.effort_limits`` are clipped.

        Raises:
            ArgumentError: `tau` has another shape or type or is not finite.
            DivergenceError: the motion left the finite numbers; the plant keeps its last good state.
        """
        check_vector("tau", tau, (self.robot.nu,), f"nu of {self.robot.name}")
        limits = self.robot.effort_limits
        clipped = readonly(np.minimum(np.maximum(tau, -limits), limits))
        self._advance(clipped)
        self._tau = clipped
        self._steps += 1

    # -- what a plant is made of -------------------------------------------------------------------------------
    @abstractmethod
    def _restart(self) -> None:
        """Take over ``_q`` and ``_v``, and forget what happened before."""

    @abstractmethod
    def _advance(self, tau: Array) -> None:
        """One step under `tau`, within the limits: new ``_q`` and ``_v``, or `DivergenceError` with the old ones."""

    def _diverged(self) -> DivergenceError:
        return DivergenceError(
            f"the simulation of {self.robot.name!r} diverged at t = {self.time:.6g} s; is dt = {self.dt:g} s too "
            "long, or are the gains too high?",
            self.time,
            self._q,
            self._v,
        )


def floor_height(robot: Robot, floor: float | None) -> float:
    """The height of a plant's floor [m]: `floor`, by default 0, and -inf under a fixed root.

    Raises:
        ArgumentError: +inf or NaN.
    """
    if floor is None:
        return -np.inf if robot.root == "fixed" else 0.0
    floor = number("floor", floor)
    if not floor < np.inf:  # also true of NaN
        raise ArgumentError(f"floor: expected a height [m] or -inf, got {floor}")
    return floor


def readonly(array: Array) -> Array:
    """A read-only copy of `array`."""
    out = np.array(array, dtype=np.float64)
    out.flags.writeable = False
    return out
