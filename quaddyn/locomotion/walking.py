"""`Walking`: the motion of a robot that is on the ground: standing, walking, recovering, rising or lying."""

from __future__ import annotations

import numpy as np

from ..dynamics import State
from ..urdf.tree import Array
from .command import LocomotionCommand
from .course import Course
from .foothold import Foothold
from .foothold_kernel import fit_planes, plane_under
from .footwork import Footwork
from .gait import Clock
from .ground import SLOPE_TIME, GroundPlane
from .headway import Headway
from .jump_plan import JumpPlan
from .leg_margins import LegMargins
from .modes import Mode
from .motion import Motion
from .preview_kernel import landings, preview
from .proportions import FEET
from .quadruped import Quadruped
from .steering import Steering
from .steps import Steps
from .steps_kernel import find_edges
from .stretch import Stretch
from .swing import onward
from .transitions import Transitions
from .trunk import CROUCH, Trunk, crouch

# Times in sqrt(l / g).
#: Time constant of the filter on the velocity that places feet.
FILTER = 0.2
#: Time constant of the slope of ground that is known or rough; of the height of ground that is known, and in which a
#: trunk that is low for its legs comes up again: on stairs the next step wants it low as well.
KNOWN_SLOPE_TIME, LEVEL_TIME, RISE_TIME = 0.75, 0.25, 2.0


class Walking:
    """From a velocity to footholds, to the motion of the centre of mass, to torques.

    One tick (`tick`) reads from top to bottom: the course follows the command (`Steering`), feet carry and the ground
    is learnt from them (`Footwork`), their footfalls to come give the motion of the centre of mass (`Preview`), its
    error the next footholds and the next mode (`Transitions`), and whole-body control the torques.

    Args:
        quadruped: that walks.

    Attributes:
        footwork: of the gait, from the first tick on.
        headway: whether it gets anywhere.
        transitions: between the modes of who is on the ground.
    """

    __slots__ = (
        "_margins",
        "_quadruped",
        "_smooth",
        "_steering",
        "_steps",
        "_stretch",
        "footwork",
        "headway",
        "transitions",
    )

    footwork: Footwork
    _smooth: tuple[float, float]

    def __init__(self, quadruped: Quadruped) -> None:
        quad, p = quadruped, quadruped.proportions
        self._quadruped = quad
        self._stretch = Stretch(quad.robot, p)
        self._margins = LegMargins(quad.robot, p, self._stretch.reach)
        self._steps = Steps(quad.robot, p, quad.capability.legs)
        self._steering = Steering(p, quad.capability.legs, quad.dt)
        self.transitions, self.headway = Transitions(p), Headway(p, quad.dt)

    @property
    def reach(self) -> Array:
        """(4,) largest distance of a foot from its leg's first joint [m]."""
        return self._stretch.reach

    @staticmethod
    def warmup() -> None:
        """Compile what is compiled at first use."""
        for each in (preview, landings, onward, fit_planes, plane_under, find_edges):
            each.compile()

    def begin(self, motion: Motion) -> None:
        """The first tick, or the first after a fall: the ground is under the feet, and the trunk where it is."""
        quad, p = self._quadruped, self._quadruped.proportions
        quad.ground = ground = GroundPlane.under(motion.feet, p.radii, SLOPE_TIME * p.time)
        quad.course = Course(ground.points[:, :2].mean(axis=0), motion.yaw)
        quad.clock = Clock(quad.gait if quad.gait.moves else "trot", p.time)
        self.footwork = Footwork(p, self._stretch.reach)
        self._smooth = motion.velocity[:2]
        self._steering.reset()
        self.headway.reset()
        self._steps.reset()
        deep = quad.capability.crouch if quad.map is None else CROUCH
        low = crouch(p, ground.axes(motion.yaw), deep)
        height, lean = self.transitions.start(motion, ground, low, quad.course)
        quad.trunk.end()
        quad.trunk = Trunk(p, quad.whole_body, quad.grip, height, lean, quad.capability.crouch)
        quad.mode = Mode.RISING if height < p.height or any(lean) else Mode.STANDING
        if height != p.height or any(lean):
            quad.trunk.go_to(p.height)

    def follow(self, motion: Motion) -> None:
        """The velocity of the centre of mass seen from above, smoothed, by which feet are placed; at every tick."""
        quad, (a, b), (u, v, _) = self._quadruped, self._smooth, motion.velocity
        share = min(1.0, quad.dt / (FILTER * quad.proportions.time))
        self._smooth = a + share * (u - a), b + share * (v - b)

    def _is_obstructed(self) -> bool:
        """Whether an obstacle that no map has, or slipping feet, hold the robot up."""
        stumbles, quad = self.footwork.stumbles, self._quadruped
        return bool(stumbles.lift or stumbles.lowered or quad.grip.slippery or quad.senses.slipping)

    def tick(
        self, state: State, motion: Motion, wanted: Array, told: tuple[str, ...] | None, jump: JumpPlan | None
    ) -> LocomotionCommand:
        """One tick on the ground.

        Args:
            state: now.
            motion: of the robot.
            wanted: (3,) forward and leftward speed [m/s] and yaw rate [rad/s], heading frame.
            told: the feet that feel the ground, where that is measured.
            jump: that it crouches for: who jumps stands on a plane, often right before an edge that a map smears.
        """
        quad, footwork = self._quadruped, self.footwork
        ground, clock, course, known, trunk = quad.ground, quad.clock, quad.course, quad.map, quad.trunk
        assert ground is not None
        p, dt, grip, senses = quad.proportions, quad.dt, quad.grip, quad.senses
        feet, (x, y, _) = motion.feet, motion.com

        # Where the robot is to go.
        within, limit = quad.capability.legs.within(quad.gait, wanted)
        within, steep = quad.capability.on_ground(quad.gait, within, grip, motion.yaw)
        limit = steep or limit
        if known is not None:
            known.advance(x, y, dt)
            within, limit = self._steps.within(quad.gait, within, limit, known.window, (x, y), motion.yaw)
        within, limit = self.headway.within(within, limit, motion, state.velocity(quad.base).item(5))
        moving = quad.mode in (Mode.MOVING, Mode.RECOVERING) and clock.phase >= 0.0
        going = within if moving else np.zeros(3)
        self._steering.measure(course, motion.velocity)
        obstructed = self._is_obstructed()
        self._steering.steer(
            course, ground, quad.gait, going, grip.friction, changing=clock.changing, obstructed=obstructed
        )
        if clock.haste > 1.0 or not footwork.patient(clock):  # who was pushed cannot wait for the ground
            clock.advance(dt)
        course.advance(dt)

        # Which feet carry it, and the ground under them.
        normals = quad.normals(ground, even=jump is not None)
        blocked, flight = footwork.blocked(feet, normals), not clock.thrust.steady
        felt = senses.touching(state, quad.tau, normals, told, blocked, footwork.airborne, flight=flight)
        carrying = footwork.place(
            clock, ground, feet, normals, felt, dt, known, senses.forces,
            uncertainty=senses.uncertainty, model_mismatch=told is None and senses.model_mismatch,
        )  # fmt: skip
        grip.follow(normals)
        # Where a slope takes all of the friction, feet creep without saying how much there is.  A single foot scrapes
        # along an edge of rough ground; on ice the robot is not where the plan has it, and level ground looks rough.
        rough = footwork.stumbles.lift > 0.0 and not grip.slippery
        senses.slips(state, footwork.planted(carrying), telling=not grip.steep, rough=rough)
        if known is None:
            ground.advance(dt, KNOWN_SLOPE_TIME * p.time if footwork.stumbles.lift else None)
        else:
            deep = self._stretch.dip(clock, course, ground, footwork.swings, (x, y))
            ground.follow(dt, KNOWN_SLOPE_TIME * p.time, LEVEL_TIME * p.time, RISE_TIME * p.time, deep)

        # How its centre of mass moves, and where feet have to be put for it.
        stance = p.stance * clock.spread @ ground.level(course.yaw).T
        reference = quad.preview.reference(clock, course, ground.points[:, :2], stance, trunk.lean)
        error = reference.error((x, y), self._smooth)
        self._steering.keep_leash(course, error, motion.yaw)
        footwork.advance(clock, course, ground, known, reference, error, (x, y), self._smooth, stance, motion.yaw, dt)
        quad.mode = self.transitions.after(
            quad.mode, quad.gait, within, error, feet, stance, clock, course, trunk, quad.footing
        )

        # Torques.
        footwork.guide(quad.whole_body.tasks, feet)
        hurried = clock.haste > 1.0
        trunk.guide(reference, course, ground, motion.com, motion.velocity, motion.R_base, dt, hurried=hurried)
        command = quad.whole_body.compute(state, carrying)
        tau = senses.carry(state, quad.tau, command)
        given_in = not command.ok and grip.slippery
        quad.tau = quad.guard.damped(state) if given_in else quad.guard.within(tau, state)
        return LocomotionCommand(
            quad.tau,
            quad.mode,
            carrying,
            command,
            reference.pressure,
            wanted,
            within,
            course.velocity.copy(),
            limit,
            {FEET[i]: swing for i, swing in footwork.swings.items()},
            felt,
            senses.mass,
            senses.slipping,
            grip.friction,
            jump,
            {FEET[i]: Foothold(choice, self._margins) for i, choice in footwork.choices.items()},
            {foot: normals[i] for i, foot in enumerate(FEET) if foot in carrying},
            senses.model_mismatch,
        )
