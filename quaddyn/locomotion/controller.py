"""`LocomotionController`: from a velocity command to joint torques, for any quadruped."""

from __future__ import annotations

import math
import time
from collections.abc import Collection, Sequence
from contextlib import nullcontext
from typing import NoReturn

import numpy as np

from ..attributes import StrictAttributes
from ..compiling import quietly
from ..dynamics import State
from ..errors import ArgumentError, ArgumentTypeError
from ..robot.arguments import number
from ..robot.joint_positions import JointPositions
from ..robot.robot import Robot
from ..urdf.tree import Array
from ..wbc import JointBounds, TorqueLimits, WholeBodyController
from .arguments import asked_friction, asked_jump, check_whole_body, is_estimated, named_feet
from .capability import Capability
from .command import FALLEN, JUMPS, NO_GROUND, LocomotionCommand
from .course import Course, Preview, commanded_velocity
from .curl import Curl
from .fall_watch import FallWatch
from .foothold_kernel import fit_planes, plane_under
from .foothold_map import FootholdMap, Heights
from .footing import Footing
from .footwork import Footwork
from .gait import Clock, Gait, gait_named
from .grip import Grip
from .ground import GroundPlane
from .jump import Jump, turned
from .jump_plan import JumpPlan
from .jump_planner import Ground
from .landing import Landing
from .modes import Mode
from .motion import Motion
from .motor_guard import MotorGuard
from .preview_kernel import landings, preview
from .proportions import FEET, Proportions
from .proprioception import Proprioception
from .righting import Recovery, Righting
from .steering import Steering
from .stretch import Stretch
from .swing import onward
from .thrust import LOADING
from .transitions import Transitions
from .trunk import Trunk

# Lengths in units of l, times in sqrt(l / g), speeds in sqrt(g l), accelerations in g.
#: Coulomb's coefficient that is assumed on level ground, unless it is told.
FRICTION = 0.4
#: Natural frequency of feet in the air, and the weight of their accelerations against those of the centre of mass, 1.
#: Whose joints are too slow or too weak for its swing comes late: what it loses is not taken from the centre of mass,
#: whose error would ask for a longer and faster swing.
FOOT_RATE, FOOT_WEIGHT = 8.0, 0.125
#: Time constant of the filter on the velocity that places feet.
FILTER = 0.2
#: Time constant of the slope of the ground, and where it is known or rough; of the height of ground that is known, and
#: in which a trunk that is low for its legs comes up again: on stairs the next step wants it low as well.
SLOPE_TIME, KNOWN_SLOPE_TIME, LEVEL_TIME, RISE_TIME = 2.0, 0.75, 0.25, 2.0
#: Steepest ground that counts as level for a jump, and the time to crouch before it.
LEVEL, CROUCH_TIME = 0.1, 3.0
#: How many times larger accelerations joints may have in a jump than on the way, where the whole-body controller is the
#: default one: torques limit them, too.
QUICK = 3.0


class LocomotionController(StrictAttributes, fixed=("robot", "dt", "proportions", "whole_body")):
    """Stands, walks and trots a quadruped: state and commanded velocity in, torques out, once per period.

    The gait decides which feet stand when (`Clock`), the coming footfalls determine the motion of the centre of mass
    (`Preview`), and the whole-body controller computes forces and torques.  What the ground cannot provide at once is
    corrected by the next footholds: all coming ones move by ``(xi - xi*) / open``, after which the present divergent
    component xi is the one that stays bounded (see `Preview`).

    Nothing is known of the ground but what the feet tell: the plane that they stand on (`GroundPlane`), which of them
    touch, and the friction of those that slip.  On a slope the trunk is parallel to that plane and the centre of mass
    above the feet, friction pyramids stand on the plane (`Grip`), and who begins with its weight beside the middle of
    its feet shifts it first, in the mode "rising".  A robot that stands or rises and loses the ground, or that begins
    in the air, lands on its feet (`Footing`, `Landing`); where whole-body control cannot do what that asks of it, the
    motors only damp, and the command is not `ok`.
    Nothing is tuned to a robot: every number above is a multiple of l, ``sqrt(l / g)`` and ``m g``.  What a robot
    cannot do, such as swing its legs faster than its joints turn, is not commanded (`reach`).

    Args:
        robot: a quadruped with a free root.
        dt: control period [s].
        gait: to move with, of `GAITS` or your own; "stand" steps only to recover.
        friction: "estimated" to assume Coulomb's coefficient, 0.4 on level ground and on slopes what it takes to walk
            there, and to count on less as soon as feet slip (`FeltFriction`); a number to be told what the ground has,
            of which the lower counts: choose it below the expected one, slopes that ask for more are not walked on
            (`SlopeVerdict`).  "assumed" to look for no slips; the coefficient may then be set by `friction` below.
        terrain: the ground as far as it is known: heights [m] of arrays x and y [m], world, NaN where unknown; a
            function, or what has one, such as `quaddyn.estimation.ElevationMap` and `quaddyn.simulation.Terrain`.  Feet
            are then put where it is even (`FootholdMap`) and lifted over what is between.
        payload: "estimated" to find mass that the robot's file does not know of from the torques, and to carry it
            (`UnknownLoad`); None to trust the file.
        touching: "estimated" to find out from the torques which feet touch, wherever `compute` is not told and the
            gait has no flight phases (`FeltGround`): a foot that meets the ground early carries at once, who misses it
            is waited for, and feet that trip over what is not known are lifted over it (`Stumbles`).  "scheduled" to
            trust the gait's schedule.
        righting: how to get onto the belly from back and sides, of `quaddyn.planning.plan_righting`; `stand_up` then
            begins with it wherever the robot has fallen.  None: who lies on its back stays there.
        whole_body: instead of the default `WholeBodyController`, of the same robot and period; friction is then its
            own.  It must have the tasks "com", "base", "forces" and one for each foot by its name, and is given their
            references and gains.

    Attributes:
        robot: as given.
        dt: as given [s].
        proportions: of the robot.
        mode: what it is doing.
        course: the wanted motion of the middle of the feet, from the first tick on.
        clock: of the gait, from the first tick on.
        ground: as far as it is known; None before the first tick.

    Raises:
        ArgumentError: a robot that cannot walk, a gait with flight phases that its motors are too weak or too slow for,
            or an option out of range.
        UnknownNameError: no such gait.
    """

    mode: Mode
    course: Course
    clock: Clock
    ground: GroundPlane | None

    def __init__(
        self,
        robot: Robot,
        *,
        dt: float = 1e-3,
        gait: str | Gait = "trot",
        friction: float | str = "estimated",
        terrain: Heights | None = None,
        payload: str | None = None,
        touching: str = "estimated",
        righting: Righting | None = None,
        whole_body: WholeBodyController | None = None,
    ) -> None:
        self.proportions = p = Proportions.of(robot)
        self.robot, self.dt = robot, number("dt", dt)
        if not 0.0 < self.dt <= 0.01:
            raise ArgumentError(f"dt: expected a period in (0, 0.01] s, got {dt}")
        self._gait = gait_named(gait)
        told, known, slips = asked_friction(friction, FRICTION)
        ours = whole_body is None
        if whole_body is None:
            trot = self._gait if self._gait.moves else gait_named("trot")
            whole_body = WholeBodyController(robot, dt=self.dt, friction=told, ramp=LOADING * trot.period * p.time)
        else:
            check_whole_body(whole_body, robot, self.dt)
        self.whole_body = whole_body
        tasks = whole_body.tasks
        Trunk.prepare(p, tasks)
        for foot in FEET:
            tasks[foot].gains((FOOT_RATE / p.time) ** 2)
            tasks[foot].weight = FOOT_WEIGHT
        torque = next((item for item in tasks.values() if isinstance(item, TorqueLimits)), None)
        self._guard = MotorGuard(robot, p, self.dt, torque)
        bounds = next((item for item in tasks.values() if isinstance(item, JointBounds)), None)
        self._capability = Capability(robot, p, self._guard, bounds, QUICK if ours else 1.0)
        self._base = robot.bodies[0].name
        self.terrain = terrain
        self._grip = Grip(whole_body, sure=ours and known)
        self._senses = Proprioception(
            robot, p, self.dt, self._grip, payload=is_estimated("payload", payload),
            touching=is_estimated("touching", touching, "scheduled"), friction=slips,
        )  # fmt: skip
        self._preview, self._stretch = Preview(p), Stretch(robot, p)
        self._steering = Steering(p, self._capability.legs, self.dt)
        self._transitions = Transitions(p)
        self._footing, self._landing = Footing(robot, p, self.dt), Landing(p, whole_body)
        self._trunk = Trunk(p, whole_body, self._grip, p.height, deep=self._capability.crouch)
        self._capability.require(self._gait, self.friction)
        self._jump: Jump | None = None
        self._watch = FallWatch(p, self.dt)
        self._curl, self._joints = Curl(robot, p, self._guard, self.dt), JointPositions.actuated(robot)
        self._recovery = None if righting is None else Recovery(robot, p, righting, self._guard, self.dt)
        self.reset()

    # -- commands ------------------------------------------------------------------------------------------------
    def reset(self) -> None:
        """Forget everything: the next tick is a first one."""
        self.whole_body.reset()
        self._trunk.end()
        self._end_jump()
        self.mode = Mode.STANDING
        self.ground = None
        self._why = FALLEN
        self._watch.reset()
        self._transitions.lie = False
        self._senses.reset()
        self._capability.reset()
        self._tau = np.zeros(self.robot.nu)

    @property
    def gait(self) -> Gait:
        """To move with; may be set at any time, the change takes some cycles."""
        return self._gait

    @gait.setter
    def gait(self, gait: str | Gait) -> None:
        gait = gait_named(gait)
        self._capability.require(gait, self.friction)
        self._gait = gait
        if self.ground is not None and self._gait.moves:
            self.clock.change(self._gait)

    @property
    def friction(self) -> float:
        """Coulomb's coefficient that is assumed on level ground, see `Grip`; may be set at any time."""
        return self._grip.told

    @friction.setter
    def friction(self, value: float) -> None:
        self._grip.told = value

    @property
    def terrain(self) -> Heights | None:
        """The ground, as far as it is known; may be set at any time, None for nothing."""
        return self._terrain

    @terrain.setter
    def terrain(self, terrain: Heights | None) -> None:
        self._map = None if terrain is None else FootholdMap(terrain, self.proportions)
        self._terrain = terrain

    def stand_up(self) -> None:
        """Rise to the height at home; also out of a fall, which nothing else leaves.  Takes back `lie_down`.

        Who has fallen first folds its legs and gets onto its belly, where the controller knows how (`righting`); what
        keeps it from that is the `limit` of the commands to come, which say "fallen" again.
        """
        self._transitions.lie = False
        if self.mode is Mode.FALLEN and self._recovery is not None:
            self._recovery.begin()
            self.mode = Mode.RIGHTING
            return
        if self.mode in (Mode.LYING, Mode.LOWERING, Mode.FALLEN):
            self.whole_body.reset()
            self.ground = None

    def lie_down(self) -> None:
        """Stop, and sink to a crouch at half the height, which the legs go on holding: only feet touch the ground."""
        if self.ground is None or self.mode not in (Mode.FALLEN, Mode.LYING):
            self._transitions.lie = True

    def plan_jump(
        self, *, height: float | None = None, distance: Sequence[float] | Array = (0.0, 0.0), turn: float = 0.0
    ) -> JumpPlan:
        """What `jump` would do now, without doing it; before the first tick, on level ground."""
        asked = asked_jump(height, distance, turn)
        return self._capability.jumps.plan(*asked, self._grip.friction, self._ground_about())

    def jump(
        self, *, height: float | None = None, distance: Sequence[float] | Array = (0.0, 0.0), turn: float = 0.0
    ) -> JumpPlan:
        """Crouch, push off with all feet, fly, land on all feet and stand; see `JumpPlanner`.

        What is beyond torques, joints or friction is cut in all components alike, and the plan says so (`limited`).  It
        takes some tenths of a second to find out: `plan_jump` does so beforehand.  On ground that is known
        (`terrain`), the feet land on it, up or down a step or across a gap, and pass over what is between; a jump that
        would have to be cut there is refused.  Velocities that are commanded meanwhile wait until the robot stands.

        Args:
            height: rise of the centre of mass from where the feet leave the ground [m]; None to leave it to the plan.
            distance: forward and leftward, from the middle of the feet to that where they land [m].
            turn: to the left [rad].

        Returns:
            The `JumpPlan`; the commands to come carry it until the feet touch the ground again.

        Raises:
            ArgumentError: no such jump, a robot that cannot do any of it, or that does not stand on level ground.
            ArgumentTypeError: what is no number.
        """
        if self.mode is not Mode.STANDING or self.ground is None:
            doing = "has not begun" if self.ground is None else f"is {self.mode.value}"
            raise ArgumentError(f"jump: {self.robot.name!r} {doing}; it jumps from where it stands")
        if math.hypot(*self.ground.slope.tolist()) > LEVEL:
            raise ArgumentError(f"jump: {self.robot.name!r} stands on a slope; it jumps from level ground")
        plan = self.plan_jump(height=height, distance=distance, turn=turn)
        self._jump = Jump(
            plan,
            self.proportions,
            self.whole_body,
            self.ground.points.mean(axis=0),
            self.course.yaw,
            self._capability.quick,
        )
        self._trunk.go_to(plan.crouch, self._jump.lean, CROUCH_TIME)
        self.mode = Mode.CROUCHING
        return plan

    def warmup(self, *, quiet: bool = False) -> float:
        """Compile what is compiled at first use; see `WholeBodyController.warmup`."""
        start = time.perf_counter()
        with quietly() if quiet else nullcontext():
            self.whole_body.warmup()
            self._senses.warmup()
            for each in (preview, landings, onward, fit_planes, plane_under):
                each.ready()
        return time.perf_counter() - start

    # -- one tick ------------------------------------------------------------------------------------------------
    def compute(
        self,
        state: State,
        velocity: Sequence[float] | Array = (0.0, 0.0, 0.0),
        *,
        touching: Collection[str] | None = None,
    ) -> LocomotionCommand:
        """One tick.

        Args:
            state: the robot's state now.
            velocity: wanted forward and leftward speed [m/s] and yaw rate [rad/s], in the heading frame: in the plane
                of the ground, x along the robot's forward direction.  What is beyond `reach` is cut, and the command
                says so.
            touching: the feet that feel the ground, where that is measured; None goes by the torques, or by the
                schedule where the controller was made with ``touching="scheduled"``.

        Raises:
            ArgumentError: `velocity` is not three finite numbers, or `state` is of another robot.
            ArgumentTypeError: `state` is no State, `velocity` not of numbers, or `touching` no collection of names.
            UnknownNameError: `touching` names what is no foot.
            StaleStateError: the Dynamics of `state` was updated again.
        """
        if not isinstance(state, State):
            raise ArgumentTypeError(f"state: expected the State of a Dynamics.update, got {type(state).__name__}")
        if state.robot is not self.robot:
            raise ArgumentError("state: of another robot than the controller's; load once and use that Robot for both")
        wanted = commanded_velocity(velocity)
        told = None if touching is None else named_feet(touching)
        motion = Motion.of(state, self._base, self.proportions.heading, self._senses.shift(state))
        if self.ground is None:
            self._begin(motion)
        assert self.ground is not None
        self._filter(motion)
        if self.mode in (Mode.STANDING, Mode.RISING, Mode.CROUCHING) or (
            self.mode is Mode.MOVING and self.clock.phase < 0.0
        ):
            if self._footing.lost(motion.velocity[2], motion.feet, told):
                self._end_jump()
                self._take_off()
        if self.mode is Mode.RIGHTING:
            self._senses.pause()
            return self._right(state, motion, wanted)
        why = self._why if self.mode is Mode.FALLEN else self._falls(state, motion)
        if why:
            return self._fall(state, wanted, why)
        if self.mode is Mode.JUMPING:
            self._senses.pause()
            return self._spring(state, motion, wanted)
        if self.mode in (Mode.AIRBORNE, Mode.LANDING):
            self._senses.pause()
            return self._land(state, motion, wanted, told)
        return self._walk(state, motion, wanted, told)

    def __reduce__(self) -> NoReturn:
        raise ArgumentTypeError("a LocomotionController cannot be copied or pickled; make another")

    # -- parts of a tick -----------------------------------------------------------------------------------------
    def _begin(self, motion: Motion) -> None:
        """The first tick, or the first after a fall."""
        p, feet = self.proportions, motion.feet
        self.ground = GroundPlane.under(feet, p.radii, SLOPE_TIME * p.time)
        self.course = Course(self.ground.points[:, :2].mean(axis=0), motion.yaw)
        self.clock = Clock(self._gait if self._gait.moves else "trot", p.time)
        self._footwork = Footwork(p, self._stretch.reach)
        self._smooth = motion.velocity[:2]
        self._steering.reset()
        height, lean = self._transitions.start(motion, self.ground, self.course)
        self._trunk.end()
        self._trunk = Trunk(p, self.whole_body, self._grip, height, lean, self._capability.crouch)
        self.mode = Mode.RISING if height < p.height or any(lean) else Mode.STANDING
        if height != p.height or any(lean):
            self._trunk.go_to(p.height)
        self._footing.reset()
        self._landing.end()
        if not self._footing.even(feet):
            self._take_off()

    def _filter(self, motion: Motion) -> None:
        """The velocity of the centre of mass seen from above, smoothed, by which feet are placed."""
        share, (a, b), (u, v, _) = min(1.0, self.dt / (FILTER * self.proportions.time)), self._smooth, motion.velocity
        self._smooth = a + share * (u - a), b + share * (v - b)

    def _walk(self, state: State, motion: Motion, wanted: Array, told: tuple[str, ...] | None) -> LocomotionCommand:
        """One tick of a robot that is on the ground: standing, walking, rising or lying."""
        ground, clock, course, known = self.ground, self.clock, self.course, self._map
        assert ground is not None
        p, dt, footwork, feet, (x, y, _) = self.proportions, self.dt, self._footwork, motion.feet, motion.com

        # Where the robot is to go.
        within, limit = self._capability.legs.within(self._gait, wanted)
        within, steep = self._capability.on_ground(self._gait, within, self._grip, motion.yaw)
        moving = self.mode in (Mode.MOVING, Mode.RECOVERING) and clock.phase >= 0.0
        self._steering.steer(course, ground, self._gait, within if moving else np.zeros(3), self._grip.friction)
        if clock.haste > 1.0 or not footwork.patient(clock):  # who was pushed cannot wait for the ground
            clock.advance(dt)
        course.advance(dt)

        # Which feet carry it, and the ground under them.
        if known is not None:
            known.advance(x, y, dt)
        normals, normal = self._normals(ground), ground.normal
        blocked, flight = footwork.blocked(feet, normals), not clock.thrust.steady
        felt = self._senses.touching(state, self._tau, normal, told, blocked, flight=flight)
        carrying = footwork.place(clock, ground, feet, normals, felt, dt, known, self._senses.forces)
        self._grip.follow(normals)
        # Feet scrape along edges, and creep where a slope takes all of the friction: neither says how much there is.
        planted = () if footwork.stumbles.lift or self._grip.steep else footwork.planted(carrying)
        self._senses.slips(state, planted, normal)
        if known is None:
            ground.advance(dt, KNOWN_SLOPE_TIME * p.time if footwork.stumbles.lift else None)
        else:
            deep = self._stretch.dip(clock, course, ground, footwork.swings, (x, y))
            ground.follow(dt, KNOWN_SLOPE_TIME * p.time, LEVEL_TIME * p.time, RISE_TIME * p.time, deep)

        # How its centre of mass moves, and where feet have to be put for it.
        stance = p.stance * clock.spread @ ground.level(course.yaw).T
        reference = self._preview.reference(clock, course, ground.points[:, :2], stance, self._trunk.lean)
        error = reference.error((x, y), self._smooth)
        self._steering.keep_leash(course, error, motion.yaw)
        footwork.advance(clock, course, ground, known, reference, error, (x, y), self._smooth, stance, motion.yaw, dt)
        self.mode = self._transitions.after(
            self.mode, self._gait, within, error, feet, stance, clock, course, self._trunk, self._footing
        )

        # Torques.
        footwork.guide(self.whole_body.tasks, feet)
        self._trunk.guide(reference, course, ground, motion.com, motion.velocity, motion.R_base, dt)
        command = self.whole_body.compute(state, carrying)
        tau = self._senses.carry(state, self._tau, command)
        given_in = not command.ok and self._grip.slippery
        self._tau = self._guard.damped(state) if given_in else self._guard.within(tau, state)
        return LocomotionCommand(
            self._tau,
            self.mode,
            carrying,
            command,
            reference.pressure,
            wanted,
            within,
            course.velocity.copy(),
            steep or limit,
            {FEET[i]: swing for i, swing in footwork.swings.items()},
            felt,
            self._senses.mass,
            self._senses.slipping,
            self._grip.friction,
            None if self._jump is None else self._jump.plan,
        )

    def _normals(self, ground: GroundPlane) -> list[tuple[float, float, float]]:
        """Of the ground under each foot: where it is known, its own, else that of the plane of all.

        Who jumps stands on a plane, often right before an edge that a map smears.
        """
        x, y, z = ground.normal.tolist()
        if self._map is None or self._jump is not None:
            return [(x, y, z)] * len(FEET)
        return [self._map.normal(*point) or (x, y, z) for point in ground.points.tolist()]

    def _falls(self, state: State, motion: Motion) -> str:
        """Why the robot cannot go on, "" while it can."""
        assert self.ground is not None
        if self._transitions.falls(self.mode, motion, self.ground, slippery=self._grip.slippery):
            return FALLEN
        if not self.mode.upright:
            self._watch.reset()
            return ""
        return self._watch.sees(motion, state.velocity(self._base)[3:], self.ground, self.course)

    def _fall(self, state: State, asked: Array, why: str) -> LocomotionCommand:
        """Legs fold, by dampers alone, which take the violence out of a fall."""
        if self.mode is not Mode.FALLEN:
            self.mode = Mode.FALLEN
            self._end_jump()
            self._landing.end()
            self._trunk.end()
            self._curl.begin()
            self._why = why
        return self._helpless(self._curl.torques(state), asked, self._why)

    def _right(self, state: State, motion: Motion, asked: Array) -> LocomotionCommand:
        """One tick from back or side to the belly; on it, the next tick is a first one."""
        recovery = self._recovery
        assert recovery is not None
        tau = recovery.torques(self._joints.of(state.q), state.v[self.robot.actuated_index], motion.axes)
        command = self._helpless(tau, asked, FALLEN)
        if recovery.failure:
            self.mode, self._why = Mode.FALLEN, recovery.failure
        elif recovery.done:
            self.whole_body.reset()
            self.ground = None
        return command

    def _helpless(self, tau: Array, asked: Array, limit: str) -> LocomotionCommand:
        """Of a robot that is not on its feet."""
        pressure, still = self.course.position.copy(), np.zeros(3)
        self._tau = tau
        return LocomotionCommand(tau, self.mode, (), None, pressure, asked, still, still, limit, {})

    def _take_off(self, way: float = 0.0) -> None:
        """The ground is lost; the fall to come is stopped over at least a `way` [m]."""
        self.mode = Mode.AIRBORNE
        self._footing.search()
        self._landing.begin(way)

    def _ground_about(self) -> Ground | None:
        """The ground that is known, as a jump sees it from where the robot stands."""
        known, ground = self._map, self.ground
        if known is None or ground is None:
            return None
        R, (x, y, z) = turned(self.course.yaw), ground.points.mean(axis=0).tolist()
        return lambda u, v: known.heights(x + R[0, 0] * u + R[0, 1] * v, y + R[1, 0] * u + R[1, 1] * v) - z

    def _end_jump(self) -> None:
        """Forget a jump, if there is one."""
        if self._jump is not None:
            self._jump.end()
            self._jump = None

    def _spring(self, state: State, motion: Motion, asked: Array) -> LocomotionCommand:
        """One tick of the push of a jump, or of its flight until the ground is looked for."""
        jump, carrying = self._jump, tuple(FEET)
        assert jump is not None
        if jump.pushing:
            jump.push(state, self.dt)
        else:
            carrying = ()
            self._landing.hold_ready(*jump.fly(state, self._base, motion.yaw, self.dt), self._trunk)
            if jump.searches(motion.velocity[2]):
                self._take_off(jump.plan.ready - jump.plan.crouch)  # as a push in reverse
        command = self.whole_body.compute(state, carrying)
        self._tau = self._guard.within(command.tau, state)
        still, pressure = np.zeros(3), self.course.position.copy()
        return LocomotionCommand(
            self._tau, self.mode, carrying, command, pressure, asked, still, still, jump.plan.limit or JUMPS, {},
            friction=self._grip.friction, jump=jump.plan,
        )  # fmt: skip

    def _land(self, state: State, motion: Motion, asked: Array, told: tuple[str, ...] | None) -> LocomotionCommand:
        """One tick in the air, or between air and stance."""
        ground, course, p, dt = self.ground, self.course, self.proportions, self.dt
        assert ground is not None
        com, velocity, feet = motion.com, motion.velocity, motion.feet
        carrying, jump = self._footing.found(state, self._tau, told), self._jump
        if not carrying:
            self.mode = Mode.AIRBORNE
            if jump is None:
                places, velocities = self._landing.places(com, velocity, motion.yaw), np.tile(velocity, (len(FEET), 1))
            else:
                places, velocities = jump.fly(state, self._base, motion.yaw, dt)
            self._landing.hold_ready(places, velocities, self._trunk)
            reference = None
        else:
            if self.mode is Mode.AIRBORNE:
                self.ground = ground = GroundPlane(np.column_stack((feet[:, :2], np.zeros(4))), SLOPE_TIME * p.time)
                yaw = motion.yaw if jump is None else jump.yaw
                self.course = course = Course(feet[:, :2].mean(axis=0), yaw)
                self._end_jump()
            self.mode = Mode.LANDING
            stopped = self._landing.touch(carrying, feet, com, velocity[2], course, ground, self._trunk, dt)
            ground.advance(dt)
            self._grip.follow(self._normals(ground))
            reference = self._preview.reference(self.clock, course, ground.points[:, :2], p.stance)
            self._trunk.guide(reference, course, ground, com, velocity, motion.R_base, dt)
            if stopped:
                self.mode = Mode.RISING
                self._footing.reset()
                self._landing.end()
                self._trunk.go_to(p.height)
        command = self.whole_body.compute(state, carrying)
        self._tau = self._guard.within(command.tau, state) if command.ok else self._guard.damped(state)
        still, pressure = np.zeros(3), course.position.copy() if reference is None else reference.pressure
        friction = self._grip.friction
        return LocomotionCommand(
            self._tau, self.mode, carrying, command, pressure, asked, still, still, NO_GROUND, {}, friction=friction,
            jump=None if self._jump is None else self._jump.plan,
        )  # fmt: skip

    # -- what the robot can do -----------------------------------------------------------------------------------
    def reach(self, velocity: Sequence[float] | Array) -> Array:
        """The part of a commanded velocity that the gait can do: cut in all components alike.

        A foot stays within the gait's stride and its leg's reach, joint limits included, while it is on the ground,
        swings no faster than its joints can, and goes no further inwards than beside the other feet.  Legs without a
        joint that moves the foot sideways go straight ahead only.

        Args:
            velocity: (3,) forward and leftward speed [m/s] and yaw rate [rad/s], heading frame.

        Returns:
            (3,) of it, for the gait as it is set.

        Raises:
            ArgumentError: not three finite numbers.
        """
        return self._capability.legs.within(self._gait, commanded_velocity(velocity))[0]

    def limit(self, velocity: Sequence[float] | Array) -> str:
        """What cuts a velocity down to `reach`, such as "stride of the gait"; "" where nothing does."""
        return self._capability.legs.within(self._gait, commanded_velocity(velocity))[1]

    def slope_limit(
        self,
        angle: float,
        direction: float = 0.0,
        velocity: Sequence[float] | Array = (0.0, 0.0, 0.0),
        *,
        friction: float | None = None,
    ) -> str:
        """What keeps the robot from a slope, such as "friction of the ground"; "" where nothing does.

        Statics alone, see `SlopeStatics`: a robot may fall where they see nothing.

        Args:
            angle: of the slope [rad].
            direction: uphill, from the robot's forward direction [rad].
            velocity: to walk at, as far as it is within `reach`.
            friction: Coulomb's coefficient of the ground; that of the controller by default.

        Raises:
            ArgumentError: an angle that is not in [0, pi / 2), a friction below 0, or a velocity that is none.
        """
        within, friction = self.reach(velocity), self.friction if friction is None else friction
        return self._capability.slope_limit(self._gait, within, angle, direction, friction)
