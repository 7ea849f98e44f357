"""`Jump`: a `JumpPlan` on its way: references for the push, and for the feet in flight."""

from __future__ import annotations

import math

import numpy as np
import pinocchio as pin

from ..dynamics import State
from ..urdf.tree import Array
from ..wbc import JointBounds, WholeBodyController
from .jump_plan import JumpPlan, across, footprint
from .proportions import FEET, Proportions

#: Errors of the push are made up for until it ends, but over no shorter share of it.
SOONEST = 0.35
#: Share of the flight after which the ground is looked for, once the robot sinks.
SEARCH = 0.5


class Jump:
    """One jump, from the crouch on.

    *Push*: with c* the plan's centre of mass, the acceleration is that of the plan and what makes up for errors until
    the end of the push, ``6 (c* - c) / t^2 + 4 (cdot* - cdot) / t`` with t the time left, the start of the cubic that
    meets place and velocity there.  *Flight*: from the parabola that the robot is on follows when and where it comes
    down; feet go to the planned footholds, as seen from there, whatever the push missed.

    The plan has looked at joint limits and at the end of the push; so, until the ground is found again, contacts are
    broken at once, and joint bounds look ahead by no more than a period.

    Args:
        plan: of the jump.
        proportions: of the robot.
        whole_body: the whole-body controller, whose tasks get the references.
        origin: (3,) middle of the feet on the ground, world [m].
        yaw: of the heading frame [rad].
        quick: how many times larger accelerations joints may have meanwhile.

    Attributes:
        plan: as given.
        footholds: (4, 2) where feet are to land, world [m].
        level: height of the ground there, world [m].
        yaw: of the heading after the jump [rad].
        pushing: whether feet are still on the ground.
    """

    __slots__ = (
        "_before", "_bounds", "_kept", "_left", "_origin", "_p", "_quick", "_start", "_time", "_turn", "_whole_body",
        "footholds", "level", "plan", "pushing", "yaw",
    )  # fmt: skip

    def __init__(
        self,
        plan: JumpPlan,
        proportions: Proportions,
        whole_body: WholeBodyController,
        origin: Array,
        yaw: float,
        quick: float = 1.0,
    ) -> None:
        self.plan, self._p, self._whole_body = plan, proportions, whole_body
        self._origin, self.yaw = np.array(origin), yaw + plan.turn
        self._bounds = next((item for item in whole_body.tasks.values() if isinstance(item, JointBounds)), None)
        self._quick = quick
        self._kept: tuple[float, float, Array, Array] | None = None  # ramps and bounds before the jump
        self._turn = turned(yaw)
        self.footholds = origin[:2] + footprint(proportions, plan.distance, plan.turn) @ self._turn.T
        self.level = float(origin[2]) + plan.level
        self._time, self.pushing = 0.0, True
        self._left = plan.flight_time
        self._start: Array | None = None  # (4, 2) of the feet from the centre of mass at take-off, heading axes
        self._before: Array | None = None  # (4, 3) of the feet from the centre of mass a tick ago

    @property
    def lean(self) -> tuple[float, float]:
        """Of the centre of mass from the middle of the feet as the push begins, world [m]."""
        x, y = (self._turn @ self.plan.lead).tolist()
        return x, y

    def _begin(self) -> None:
        whole, bounds, none = self._whole_body, self._bounds, np.zeros(0)
        if bounds is None:
            self._kept = whole.ramp_time, 0.0, none, none
        else:
            up, down = np.array(bounds.acceleration), np.array(bounds.deceleration)
            self._kept = whole.ramp_time, bounds.horizon, up, down
            bounds.horizon, bounds.acceleration, bounds.deceleration = whole.dt, self._quick * up, self._quick * down
        whole.ramp_time = 0.0

    def end(self) -> None:
        """The whole-body controller is as it was before; also after a jump that was not begun."""
        if self._kept is not None:
            self._whole_body.ramp_time, horizon, up, down = self._kept
            if self._bounds is not None:
                bounds = self._bounds
                bounds.horizon, bounds.acceleration, bounds.deceleration = horizon, up, down
            self._kept = None

    def push(self, state: State, dt: float) -> None:
        """References of a tick with all feet on the ground."""
        plan, p, t = self.plan, self._p, self._time
        if t == 0.0:
            self._begin()
        left = max(plan.push_time - t, SOONEST * plan.push_time)
        axes = np.eye(3)
        axes[:2, :2] = self._turn
        rush = axes @ plan.velocity / plan.push_time
        start = self._origin + axes @ np.array([*plan.lead, plan.crouch])
        com, velocity = state.com, state.com_velocity
        wanted = rush + 6.0 / left**2 * (start + 0.5 * t * t * rush - com) + 4.0 / left * (t * rush - velocity)
        tasks = self._whole_body.tasks
        tasks["com"].reference(com.copy(), velocity.copy(), wanted)
        turning = axes @ plan.spin / plan.push_time
        level = axes @ p.heading.T
        tasks["base"].reference(pin.exp3(0.5 * t * t * turning) @ level, t * turning, turning)
        force = p.mass * (wanted + np.array([0.0, 0.0, p.gravity])) / len(FEET)
        tasks["forces"].reference(dict.fromkeys(FEET, force))
        self._time += dt
        if self._time >= plan.push_time:
            self.pushing, self._time = False, 0.0

    def fly(self, state: State, base: str, yaw: float, dt: float) -> tuple[Array, Array]:
        """(4, 3) places and velocities of the feet now, world [m, m/s].

        Args:
            state: now.
            base: name of the trunk.
            yaw: where it points [rad].
            dt: [s].
        """
        plan, p, g = self.plan, self._p, self._p.gravity
        com, velocity = state.com, state.com_velocity
        turn = turned(yaw)
        if self._start is None:
            self._start = (state.origins(FEET)[:, :2] - com[:2]) @ turn
        w = float(velocity[2])
        above = float(com[2]) - self.level - plan.ready
        self._left = max((w + math.sqrt(max(w * w + 2.0 * g * above, 0.0))) / g, 0.0)
        spin = float(state.velocity(base)[5])
        share = self.share
        ends = com[:2] + self._left * velocity[:2]
        over = (self.footholds - ends) @ turned(yaw + spin * self._left)
        beside = self._start + across(share) * (over - self._start)
        from_com = np.column_stack((beside @ turn.T, p.radii - plan.below(share)))
        rate = np.zeros((4, 3)) if self._before is None else (from_com - self._before) / dt
        self._before = from_com
        self._time += dt
        return com + from_com, velocity + rate

    @property
    def share(self) -> float:
        """Of the flight that has passed."""
        return self._time / max(self._time + self._left, 1e-9)

    def searches(self, rate: float) -> bool:
        """Whether the ground may come; `rate` is the vertical velocity of the centre of mass [m/s]."""
        return not self.pushing and rate < 0.0 and self.share > SEARCH


def turned(yaw: float) -> Array:
    """(2, 2) from heading axes to the world's."""
    c, s = math.cos(yaw), math.sin(yaw)
    return np.array([[c, -s], [s, c]])
