"""Motions of the squat demo: squatting on the ground, or swinging the joints of a robot without ground."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

import numpy as np

from ..contact import contact_jacobian
from ..control import gravity_compensation
from ..dynamics import Dynamics, State
from ..errors import ArgumentError
from ..robot import Robot
from ..urdf.tree import Array

#: Maximum depth of the squat divided by the height of the base at home, and maximum fraction of the effort limits.
MAX_DEPTH_FRACTION, MAX_TORQUE_FRACTION = 0.3, 0.8
#: Maximum acceleration of the base in the squat, divided by gravity.
MAX_ACCELERATION_FRACTION = 0.2
#: Tolerance of joint limits for rounding [rad or m].
LIMIT_ROUNDING = 1e-9
#: Maximum amplitude of a joint's swing about home [rad or m], and divided by the distance to its limits.
MAX_SWING, SWING_RANGE_FRACTION = 0.3, 0.25


class DesiredState(NamedTuple):
    """Desired state of a motion at one time."""

    q: Array  # (nq,) configuration
    v: Array  # (nv,) velocity
    a: Array  # (nv,) acceleration
    height: float  # height of the base [m]; 0 for motions without ground


class DemoMotion(ABC):
    """Base class of the motions of the squat demo."""

    name: str  # name of the motion
    feet: tuple[str, ...]  # feet that are assumed to be in contact

    @abstractmethod
    def at(self, t: float) -> DesiredState:
        """Returns the desired state at time t [s]."""


class SquatMotion(DemoMotion):
    """Squat: the robot stands, then lowers and raises its base, which stays level, without slip of the feet.

    The path down is integrated from ``q_home`` at the velocity level (fourth-order Runge-Kutta): the base moves
    straight down and the lowest points of the foot spheres have no velocity, so that the spheres roll. It ends at
    `MAX_DEPTH_FRACTION` of the height of the base, or earlier at a joint limit, at `MAX_TORQUE_FRACTION` of an effort
    limit, or where the acceleration would exceed `MAX_ACCELERATION_FRACTION` of gravity.
    """

    name = "squat"
    nodes = 100

    def __init__(self, dyn: Dynamics, seconds: float, friction: float) -> None:
        self.robot = robot = dyn.robot
        self.feet = _feet_on_ground(robot)
        self._base = robot.bodies[0].name
        s = dyn.update(robot.q_home, np.zeros(robot.nv))
        support = gravity_compensation(s, self.feet, friction=friction)
        weight = robot.mass * gravity_magnitude(robot)
        if support.residual > 1e-6 * weight or support.margin < 0.0:
            raise ArgumentError(
                f"robot: forces at the feet of {robot.name!r} cannot balance its weight at q_home (residual "
                f'{support.residual:.3g} N or N m); load it with root="fixed"'
            )
        self.home_height = float(s.placement(self._base).translation[2])
        self.pause = min(1.0, seconds / 4.0)
        cycles = max(1, round((seconds - 2.0 * self.pause) / 2.0))
        self.rate = np.pi * cycles / (seconds - 2.0 * self.pause)  # [rad/s]
        self.end = seconds - self.pause
        # The acceleration is largest at the bottom, 4 depth rate^2.
        max_depth = 0.25 * MAX_ACCELERATION_FRACTION * gravity_magnitude(robot) / self.rate**2
        depth_limit = min(MAX_DEPTH_FRACTION * self.home_height, max_depth)
        self.desired_depth = min(depth_limit, 0.05 * self.home_height)
        self._step = depth_limit / self.nodes
        self._q, self._tangent = [np.array(robot.q_home)], [self._descent(s)]
        for _ in range(self.nodes):
            q = self._next_node(dyn, self._q[-1], self._tangent[-1])
            s = dyn.update(q, np.zeros(robot.nv))
            tau = gravity_compensation(s, self.feet, friction=friction).tau
            if (
                (q < robot.lower - LIMIT_ROUNDING).any()
                or (q > robot.upper + LIMIT_ROUNDING).any()
                or (np.abs(tau) > MAX_TORQUE_FRACTION * robot.effort_limits).any()
            ):
                break
            self._q.append(q)
            self._tangent.append(self._descent(s))
        self.depth = depth_limit * ((len(self._q) - 1) / self.nodes)

    def at(self, t: float) -> DesiredState:
        """Returns the desired state at time t [s]."""
        # depth sin^4(phase): position, velocity, acceleration and jerk all start and end at zero
        phase = self.rate * (min(max(t, self.pause), self.end) - self.pause)
        sine, cosine = np.sin(phase), np.cos(phase)
        descent = self.depth * sine**4
        speed = 4.0 * self.depth * self.rate * sine**3 * cosine
        acceleration = 4.0 * self.depth * self.rate**2 * sine**2 * (3.0 * cosine**2 - sine**2)
        i = min(int(descent / self._step), max(len(self._q) - 2, 0))
        j = min(i + 1, len(self._q) - 1)
        alpha = descent / self._step - i
        q = self.robot.algorithms.interpolate(self.robot.model, self._q[i], self._q[j], alpha)
        tangent = (1.0 - alpha) * self._tangent[i] + alpha * self._tangent[j]
        curvature = (self._tangent[j] - self._tangent[i]) / self._step
        return DesiredState(
            q, speed * tangent, acceleration * tangent + speed**2 * curvature, self.home_height - descent
        )

    def _descent(self, s: State) -> Array:
        """Returns the velocity (nv,) per descent speed: base straight down, contact points at rest."""
        base = s.jacobian(self._base)
        rows = np.vstack([base, *(contact_jacobian(s, foot) for foot in self.feet)])
        desired = np.zeros(len(rows))
        desired[2] = -1.0
        return np.asarray(np.linalg.lstsq(rows, desired, rcond=1e-8)[0])

    def _next_node(self, dyn: Dynamics, q: Array, first: Array) -> Array:
        """Integrates one step down from q by the Runge-Kutta method."""
        model, step, rest = self.robot.model, self._step, np.zeros(self.robot.nv)

        def descent(tangent: Array, length: float) -> Array:
            return self._descent(dyn.update(self.robot.algorithms.integrate(model, q, length * tangent), rest))

        second = descent(first, 0.5 * step)
        third = descent(second, 0.5 * step)
        fourth = descent(third, step)
        return np.asarray(
            self.robot.algorithms.integrate(model, q, step / 6.0 * (first + 2.0 * second + 2.0 * third + fourth))
        )


class JointSwingMotion(DemoMotion):
    """Smooth oscillation of all joints about ``q_home``, within their limits and those of the motors."""

    name = "swing"
    feet = ()

    def __init__(self, dyn: Dynamics, seconds: float) -> None:
        self.robot = robot = dyn.robot
        self.rate = 2.0 * np.pi * max(1, round(seconds / 4.0)) / seconds
        self.amplitude = np.zeros(robot.nv)
        for name, i in zip(robot.actuated, robot.actuated_index, strict=True):
            k = robot.configuration_index(name)
            distance_to_limit = min(robot.q_home[k] - robot.lower[k], robot.upper[k] - robot.q_home[k])
            self.amplitude[i] = min(MAX_SWING, SWING_RANGE_FRACTION * max(float(distance_to_limit), 0.0))
        for _ in range(20):  # halve until the torques are within the limits of the motors
            desired_states = [self.at(t) for t in np.linspace(0.0, 2.0 * np.pi / self.rate, 41)]
            tau = np.array([dyn.rnea(w.q, w.v, w.a) + dyn.joint_friction(w.v) for w in desired_states])
            if (np.abs(tau[:, robot.actuated_index]) <= MAX_TORQUE_FRACTION * robot.effort_limits).all():
                break
            self.amplitude *= 0.5

    def at(self, t: float) -> DesiredState:
        """Returns the desired state at time t [s]; ``sin^3`` starts and ends with zero velocity and acceleration."""
        sine, cosine, w = np.sin(self.rate * t), np.cos(self.rate * t), self.rate
        q = self.robot.algorithms.integrate(self.robot.model, self.robot.q_home, sine**3 * self.amplitude)
        v = 3.0 * w * sine**2 * cosine * self.amplitude
        a = 3.0 * w**2 * (2.0 * sine * cosine**2 - sine**3) * self.amplitude
        return DesiredState(q, v, a, 0.0)


def _feet_on_ground(robot: Robot) -> tuple[str, ...]:
    """Returns the feet whose spheres are in contact with z = 0 at home, to within 1 mm."""
    s = Dynamics(robot).update(robot.q_home, np.zeros(robot.nv))
    return tuple(name for name, leg in robot.legs.items() if s.placement(name).translation[2] - leg.foot.radius < 1e-3)


def gravity_magnitude(robot: Robot) -> float:
    """Returns the magnitude of gravity [m/s^2]."""
    return float(np.linalg.norm(robot.model.gravity.linear))
