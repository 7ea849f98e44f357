"""`Flight`: jumps, the loss of the ground, and the landing after either."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ..dynamics import State
from ..errors import ArgumentError
from ..urdf.tree import Array
from .arguments import asked_jump
from .command import JUMPS, NO_GROUND, LocomotionCommand
from .course import Course
from .footing import ENOUGH
from .ground import SLOPE_TIME, GroundPlane
from .jump import Jump, turned
from .jump_plan import JumpPlan
from .jump_planner import Ground
from .landing import Landing
from .modes import Mode
from .motion import Motion
from .proportions import FEET
from .quadruped import Quadruped

#: Steepest ground that counts as level for a jump, and the time to crouch before it [sqrt(l/g)].
LEVEL, CROUCH_TIME = 0.1, 3.0
#: Distance of a foot from the ground of a terrain map up to which it stands there at the first tick [l].
ON_GROUND = 0.02


class Flight:
    """From the crouch before a jump, or from the loss of the ground, to the stance after it.

    A robot that stands or rises and loses the ground, or that begins in the air, lands on its feet (`Footing`,
    `Landing`); who was asked for a `Jump` pushes off and flies first.  Where whole-body control cannot do what a
    landing asks of it, the motors only damp, and the command is not `ok`.

    Args:
        quadruped: that flies.
        reach: (4,) largest distance of a foot from its leg's first joint [m], see `Stretch`.

    Attributes:
        landing: legs and trunk from the loss of the ground on.
    """

    __slots__ = ("_jump", "_quadruped", "landing")

    def __init__(self, quadruped: Quadruped, reach: Array) -> None:
        self._quadruped = quadruped
        self.landing = Landing(quadruped.proportions, quadruped.whole_body, reach)
        self._jump: Jump | None = None

    @property
    def plan(self) -> JumpPlan | None:
        """Of the jump that is under way, if there is one."""
        return None if self._jump is None else self._jump.plan

    def plan_jump(self, height: float | None, distance: Sequence[float] | Array, turn: float) -> JumpPlan:
        """See `LocomotionController.plan_jump`."""
        quad, asked = self._quadruped, asked_jump(height, distance, turn)
        return quad.capability.jumps.plan(*asked, quad.grip.friction, self._ground_about())

    def crouch(self, height: float | None, distance: Sequence[float] | Array, turn: float) -> JumpPlan:
        """Begin a jump; see `LocomotionController.jump`."""
        quad, name = self._quadruped, self._quadruped.robot.name
        if quad.mode not in (Mode.STANDING, Mode.STARTING) or quad.ground is None:
            doing = "has not begun" if quad.ground is None else f"is {quad.mode.value}"
            raise ArgumentError(f"jump: {name!r} {doing}; it jumps from where it stands")
        if math.hypot(*quad.ground.slope.tolist()) > LEVEL:
            raise ArgumentError(f"jump: {name!r} stands on a slope; it jumps from level ground")
        plan = self.plan_jump(height, distance, turn)
        origin, yaw = quad.ground.points.mean(axis=0), quad.course.yaw
        self._jump = jump = Jump(plan, quad.proportions, quad.whole_body, origin, yaw, quad.capability.quick)
        quad.trunk.go_to(plan.crouch, jump.lean, CROUCH_TIME)
        quad.mode = Mode.CROUCHING
        return plan

    def _ground_about(self) -> Ground | None:
        """The ground that is known, as a jump sees it from where the robot stands."""
        known, ground = self._quadruped.map, self._quadruped.ground
        if known is None or ground is None:
            return None
        R, (x, y, z) = turned(self._quadruped.course.yaw), ground.points.mean(axis=0).tolist()
        return lambda u, v: known.heights(x + R[0, 0] * u + R[0, 1] * v, y + R[1, 0] * u + R[1, 1] * v) - z

    def end_jump(self) -> None:
        """Forget a jump, if there is one."""
        if self._jump is not None:
            self._jump.end()
            self._jump = None

    def end(self) -> None:
        """The robot has fallen: neither a jump nor a landing goes on."""
        self.end_jump()
        self.landing.end()

    # -- the ground is lost --------------------------------------------------------------------------------------
    def begin(self, motion: Motion, told: tuple[str, ...] | None) -> None:
        """The first tick: whether the robot begins in the air, on the ground, or does not know yet.

        Feet that are far from one plane have no ground under them.  Sensors that feel nothing may not have been read.

        Args:
            motion: of the robot.
            told: the feet that feel the ground; None without sensors.
        """
        quad, known = self._quadruped, self._quadruped.map
        quad.footing.reset()
        self.landing.end()
        if not quad.footing.even(motion.feet):
            self._take_off()
        elif quad.mode is Mode.STANDING and not (told is not None and len(told) >= ENOUGH):
            feet = motion.feet
            low = feet[:, 2] - quad.proportions.radii
            gaps = np.full(4, np.inf) if known is None else np.abs(low - known.heights(feet[:, 0], feet[:, 1]))
            if not (gaps <= ON_GROUND * quad.proportions.length).all():
                quad.mode = Mode.STARTING

    def watch(self, motion: Motion, told: tuple[str, ...] | None) -> None:
        """Take off where who stands has too little ground under it; at every tick.

        Args:
            motion: of the robot.
            told: the feet that feel the ground; None without sensors.
        """
        quad = self._quadruped
        if quad.mode in (Mode.STARTING, Mode.STANDING, Mode.RISING, Mode.CROUCHING) or (
            quad.mode is Mode.MOVING and quad.clock.phase < 0.0
        ):
            if quad.footing.lost(motion.velocity[2], motion.feet, told):
                self.end_jump()
                self._take_off()
            elif quad.mode is Mode.STARTING and (quad.footing.carried if told is None else len(told) >= ENOUGH):
                quad.mode = Mode.STANDING

    def _take_off(self, way: float = 0.0) -> None:
        """The ground is lost; the fall to come is stopped over at least a `way` [m]."""
        self._quadruped.mode = Mode.AIRBORNE
        self._quadruped.footing.search()
        self.landing.begin(way)

    # -- one tick ------------------------------------------------------------------------------------------------
    def spring(self, state: State, motion: Motion, asked: Array) -> LocomotionCommand:
        """One tick of the push of a jump, or of its flight until the ground is looked for.

        Args:
            state: now.
            motion: of the robot.
            asked: (3,) velocity that is commanded, which waits.
        """
        quad, jump, carrying = self._quadruped, self._jump, tuple(FEET)
        assert jump is not None
        quad.senses.pause()
        if jump.pushing:
            jump.push(state, quad.dt)
        else:
            carrying = ()
            self.landing.hold_ready(*jump.fly(state, quad.base, motion.yaw, quad.dt), quad.trunk)
            if jump.searches(motion.velocity[2]):
                self._take_off(jump.plan.ready - jump.plan.crouch)  # as a push in reverse
        command = quad.whole_body.compute(state, carrying)
        quad.tau = quad.guard.within(command.tau, state)
        still, pressure = np.zeros(3), quad.course.position.copy()
        return LocomotionCommand(
            quad.tau, quad.mode, carrying, command, pressure, asked, still, still, jump.plan.limit or JUMPS, {},
            friction=quad.grip.friction, jump=jump.plan,
        )  # fmt: skip

    def land(self, state: State, motion: Motion, asked: Array, told: tuple[str, ...] | None) -> LocomotionCommand:
        """One tick in the air, or between air and stance.

        Args:
            state: now.
            motion: of the robot.
            asked: (3,) velocity that is commanded, which waits.
            told: the feet that feel the ground; None without sensors.
        """
        quad = self._quadruped
        quad.senses.pause()
        carrying = quad.footing.found(state, quad.tau, told)
        pressure = self._touch(motion, carrying) if carrying else self._reach(state, motion)
        command = quad.whole_body.compute(state, carrying)
        quad.tau = quad.guard.within(command.tau, state) if command.ok else quad.guard.damped(state)
        still, friction = np.zeros(3), quad.grip.friction
        return LocomotionCommand(
            quad.tau, quad.mode, carrying, command, pressure, asked, still, still, NO_GROUND, {}, friction=friction,
            jump=self.plan,
        )  # fmt: skip

    def _reach(self, state: State, motion: Motion) -> Array:
        """Legs reach for the ground, or for the footholds of a jump; (2,) where the course waits, world [m]."""
        quad, jump, velocity = self._quadruped, self._jump, motion.velocity
        quad.mode = Mode.AIRBORNE
        if jump is None:
            places = self.landing.places(motion.com, velocity, motion.yaw)
            velocities = np.tile(velocity, (len(FEET), 1))
        else:
            places, velocities = jump.fly(state, quad.base, motion.yaw, quad.dt)
        self.landing.hold_ready(places, velocities, quad.trunk)
        return quad.course.position.copy()

    def _touch(self, motion: Motion, carrying: tuple[str, ...]) -> Array:
        """The feet that touch stop the fall; (2,) wanted centre of pressure, world [m]."""
        quad, p, dt, jump = self._quadruped, self._quadruped.proportions, self._quadruped.dt, self._jump
        com, velocity, feet = motion.com, motion.velocity, motion.feet
        if quad.mode is Mode.AIRBORNE:
            quad.ground = GroundPlane(np.column_stack((feet[:, :2], np.zeros(4))), SLOPE_TIME * p.time)
            quad.course = Course(feet[:, :2].mean(axis=0), motion.yaw if jump is None else jump.yaw)
            self.end_jump()
        quad.mode = Mode.LANDING
        ground, course, trunk = quad.ground, quad.course, quad.trunk
        assert ground is not None
        stopped = self.landing.touch(carrying, feet, com, velocity[2], course, ground, trunk, dt)
        ground.advance(dt)
        quad.grip.follow(quad.normals(ground))
        reference = quad.preview.reference(quad.clock, course, ground.points[:, :2], p.stance)
        trunk.guide(reference, course, ground, com, velocity, motion.R_base, dt)
        if stopped:
            quad.mode = Mode.RISING
            quad.footing.reset()
            self.landing.end()
            trunk.go_to(p.height)
        return reference.pressure
