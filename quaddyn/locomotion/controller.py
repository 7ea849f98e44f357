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
from ..errors import ArgumentError, ArgumentTypeError, QuaddynError, UnknownNameError
from ..robot.arguments import number
from ..robot.robot import Robot
from ..urdf.tree import Array
from ..wbc import TorqueLimits, WholeBodyController
from .arguments import check_whole_body, named_feet
from .command import FALLEN, NO_GROUND, LocomotionCommand
from .course import Course, Preview, commanded_velocity
from .felt_friction import FeltFriction
from .felt_ground import FeltGround
from .foothold_kernel import fit_planes
from .foothold_map import FootholdMap, Heights
from .footing import Footing
from .footwork import Footwork
from .gait import Clock, Gait, gait_named
from .grip import FACE, Grip
from .ground import GroundPlane
from .landing import Landing
from .leg_limits import LegLimits
from .modes import Mode, escaping, misplaced
from .motor_guard import MotorGuard
from .preview_kernel import landings, preview
from .proportions import FEET, Proportions
from .slope_statics import SlopeStatics
from .slope_verdict import SlopeVerdict
from .stretch import Stretch
from .swing import onward
from .thrust import LOADING
from .trunk import Trunk
from .unknown_load import UnknownLoad

# Lengths in units of l, times in sqrt(l / g), speeds in sqrt(g l), accelerations in g.
#: Coulomb's coefficient that is assumed on level ground, unless it is told.
FRICTION = 0.4
#: Natural frequency of feet in the air, and the weight of their accelerations against those of the centre of mass, 1.
#: Whose joints are too slow or too weak for its swing comes late: what it loses is not taken from the centre of mass,
#: whose error would ask for a longer and faster swing.
FOOT_RATE, FOOT_WEIGHT = 8.0, 0.125
#: Time constant of the filter on the velocity that places feet.
FILTER = 0.2
#: How far the robot may lag behind its course before the course waits, and how fast the course then gives way.
LEASH, LEASH_TIME = 0.08, 0.3
#: Time constant in which the course's velocity makes up for a leash that keeps giving way, the share of the wanted
#: speed that it lets pass (from twice that on, it makes up for all), and the largest that it makes up for.
DRIFT_TIME, LEAST_DRIFT, MOST_DRIFT = 4.0, 0.05, 0.5
YAW_LEASH = 0.2
#: How fast the course changes its velocity and its yaw rate.
ACCELERATION, YAW_ACCELERATION = 0.12, 0.1
#: How much of what friction allows is used for that.
GENTLE = 0.45
#: Height of the centre of mass of who lies, of who must rise first, and below which nobody can walk, as shares of that
#: at home.
LYING_HEIGHT, LOW_HEIGHT, FALLEN_HEIGHT = 0.5, 0.95, 0.45
#: Height of who begins too high, as a share of that at home.
HIGH = 1.02
#: How far from the middle of the feet the centre of mass may begin [l], and how far it can be brought back from without
#: a step, as a share of the way to the edge.
LEAN, TOPPLING = 0.1, 0.9
#: Steepest tilt of the trunk against the ground before it counts as a fall (cosine).
FALLEN_TILT = 0.5
#: Who slips gives in from this height and this tilt (cosine) on: legs that fight on such ground are hurled about.
GIVING_IN, GIVING_IN_TILT = 0.75, 0.9
#: Time constant of the slope of the ground; of ground that is known, of its slope and of its height, and in which a
#: trunk that is low for its legs comes up again: on stairs the next step wants it low as well.
SLOPE_TIME, KNOWN_SLOPE_TIME, LEVEL_TIME, RISE_TIME = 2.0, 0.75, 0.25, 2.0


class LocomotionController(StrictAttributes, fixed=("robot", "dt", "proportions", "whole_body")):
    """Stands, walks and trots a quadruped: state and commanded velocity in, torques out, once per period.

    The gait decides which feet stand when (`Clock`), the coming footfalls determine the motion of the centre of mass
    (`Preview`), and the whole-body controller computes forces and torques.  What the ground cannot provide at once is
    corrected by the next footholds: all coming ones move by ``(xi - xi*) / open``, after which the present divergent
    component xi is the one that stays bounded (see `Preview`).

    Nothing is known of the ground but where feet stand, a plane (`GroundPlane`); without `touching`, the gait's
    schedule is trusted.  On a slope the trunk is parallel to that plane and the centre of mass above the feet, friction
    pyramids stand on the plane (`Grip`), and who begins with its weight beside the middle of its feet shifts it first,
    in the mode "rising".  A robot that stands or rises and loses the ground, or that begins in the air, lands on its
    feet (`Footing`, `Landing`); where whole-body control cannot do what that asks of it, the motors only damp, and the
    command is not `ok`.
    Nothing is tuned to a robot: every number above is a multiple of l, ``sqrt(l / g)`` and ``m g``.  What a robot
    cannot do, such as swing its legs faster than its joints turn, is not commanded (`reach`).

    Args:
        robot: a quadruped with a free root.
        dt: control period [s].
        gait: to move with, of `GAITS` or your own; "stand" steps only to recover.
        friction: Coulomb's coefficient of the ground; choose it below the expected one.  Slopes that ask for more are
            not walked on (`SlopeVerdict`).  None to assume 0.4, and on slopes what it takes to walk there.
            "estimated" to assume the same, and to count on less as soon as a foot slips (`FeltFriction`).
        terrain: the ground as far as it is known: heights [m] of arrays x and y [m], world, NaN where unknown; a
            function, or what has one, such as `quaddyn.estimation.ElevationMap` and `quaddyn.simulation.Terrain`.  Feet
            are then put where it is even (`FootholdMap`) and lifted over what is between.
        payload: "estimated" to find mass that the robot's file does not know of from the torques, and to carry it
            (`UnknownLoad`); None to trust the file.
        touching: "estimated" to find out from the torques which feet touch, wherever `compute` is not told
            (`FeltGround`): a foot that meets the ground early carries at once, and who misses it is waited for.
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
        friction: float | str | None = None,
        terrain: Heights | None = None,
        payload: str | None = None,
        touching: str | None = None,
        whole_body: WholeBodyController | None = None,
    ) -> None:
        self.proportions = p = Proportions.of(robot)
        self.robot, self.dt = robot, number("dt", dt)
        if not 0.0 < self.dt <= 0.01:
            raise ArgumentError(f"dt: expected a period in (0, 0.01] s, got {dt}")
        self._gait = gait_named(gait)
        self._statics = _statics(robot, p)
        unit = p.time
        if isinstance(friction, str) and friction != "estimated":
            raise UnknownNameError("friction", friction, ("estimated",))
        told = FRICTION if friction is None or isinstance(friction, str) else friction
        trot = self._gait if self._gait.moves else gait_named("trot")
        ramp = LOADING * trot.period * unit
        ours = whole_body is None
        if whole_body is None:
            whole_body = WholeBodyController(robot, dt=self.dt, friction=told, ramp=ramp)
        else:
            check_whole_body(whole_body, robot, self.dt)
        self.whole_body = whole_body
        tasks = whole_body.tasks
        Trunk.prepare(p, tasks)
        for foot in FEET:
            tasks[foot].gains((FOOT_RATE / unit) ** 2)
            tasks[foot].weight = FOOT_WEIGHT
        self._legs = LegLimits(p)
        torque = next((item for item in tasks.values() if isinstance(item, TorqueLimits)), None)
        self._guard = MotorGuard(robot, p, self.dt, torque)
        self._base = robot.bodies[0].name
        self.terrain = terrain
        self._grip = Grip(whole_body, sure=ours and friction is not None and not isinstance(friction, str))
        for option, value in (("payload", payload), ("touching", touching)):
            if value not in (None, "estimated"):
                raise UnknownNameError(option, value, ("estimated",))
        self._load = None if payload is None else UnknownLoad(robot, p, self.dt)
        self._slips = FeltFriction(robot, p, self.dt) if isinstance(friction, str) else None
        self._feels = touching is not None
        self._felt = FeltGround(robot, p, self.dt) if self._feels or self._slips is not None else None
        self._preview = Preview(p)
        self._footing = Footing(robot, p, self.dt)
        self._landing = Landing(p, whole_body)
        quick = self._statics is not None and self._statics.quick
        self._slope = SlopeVerdict(self._statics if quick else None, p.speed)
        self._stretch = Stretch(robot, p)
        self._trunk = Trunk(p, whole_body, self._grip, p.height)
        self._require(self._gait)
        self.reset()

    # -- commands ------------------------------------------------------------------------------------------------
    def reset(self) -> None:
        """Forget everything: the next tick is a first one."""
        self.whole_body.reset()
        self._trunk.end()
        self.mode = Mode.STANDING
        self.ground = None
        self._lie = False
        if self._load is not None:
            self._load.reset()
        if self._felt is not None:
            self._felt.reset()
        if self._slips is not None:
            self._slips.reset()
            self._grip.show(math.inf)
        self._slope.reset()
        self._filtered = self._drift = (0.0, 0.0)
        self._tau = np.zeros(self.robot.nu)

    @property
    def gait(self) -> Gait:
        """To move with; may be set at any time, the change takes some cycles."""
        return self._gait

    @gait.setter
    def gait(self, gait: str | Gait) -> None:
        gait = gait_named(gait)
        self._require(gait)
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
        """Rise to the height at home; also out of a fall, which nothing else leaves.  Takes back `lie_down`."""
        self._lie = False
        if self.mode in (Mode.LYING, Mode.LOWERING, Mode.FALLEN):
            self.whole_body.reset()
            self.ground = None

    def lie_down(self) -> None:
        """Stop, and sink to a crouch at half the height, which the legs go on holding: only feet touch the ground."""
        if self.ground is None or self.mode not in (Mode.FALLEN, Mode.LYING):
            self._lie = True

    def warmup(self, *, quiet: bool = False) -> float:
        """Compile what is compiled at first use; see `WholeBodyController.warmup`."""
        start = time.perf_counter()
        with quietly() if quiet else nullcontext():
            self.whole_body.warmup()
            preview.ready()
            landings.ready()
            onward.ready()
            fit_planes.ready()
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
            touching: the feet that feel the ground, where that is measured; None trusts the schedule, or the torques
                where the controller was made with ``touching="estimated"``.

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
        within, limit = self._legs.within(self._gait, wanted)
        touching = None if touching is None else named_feet(touching)
        dt, p = self.dt, self.proportions
        x, y, z = state.com.tolist()
        u, v, w = state.com_velocity.tolist()
        load = self._load
        if load is not None:
            aside, across = load.shift(state)
            x, y = x + aside, y + across
        R_base = state.placement(self._base).rotation
        R = R_base @ p.heading  # heading axes of the trunk in the world
        yaw = math.atan2(R[1, 0], R[0, 0])
        feet = state.origins(FEET)
        if self.ground is None:
            self._begin((x, y, z), (u, v), yaw, feet)
        ground, clock, course = self.ground, self.clock, self.course
        assert ground is not None
        share = min(1.0, dt / (FILTER * p.time))
        a, b = self._filtered
        self._filtered = a, b = a + share * (u - a), b + share * (v - b)

        if self.mode in (Mode.STANDING, Mode.RISING) or (self.mode is Mode.MOVING and clock.phase < 0.0):
            if self._footing.lost(w, feet, touching):
                self._take_off()
        if self.mode is Mode.FALLEN or self._falls(x, y, z, R):
            return self._fall(state, wanted)
        if self.mode in (Mode.AIRBORNE, Mode.LANDING):
            if load is not None:
                load.pause()
            if self._felt is not None:
                self._felt.reset()
            return self._land(state, wanted, touching, feet, (x, y, z), (u, v, w), R_base, yaw)
        within, steep = self._slope.within(self._gait, within, self._grip, yaw, self._guard.limits)
        limit = steep or limit
        self._steer(within)
        if not self._footwork.patient(clock):
            clock.advance(dt)
        course.advance(dt)
        known = self._map
        if known is not None:
            known.advance(x, y, dt)
        normals = self._normals(ground)
        felt = touching
        touches = self._touches(state, ground, felt)
        if self._feels and felt is None:
            felt = touches
        carrying = self._footwork.place(clock, ground, feet, normals, felt, dt)
        self._grip.follow(normals)
        if self._slips is not None and self._felt is not None and touches is not None:
            down = [foot for foot in carrying if foot in touches]
            self._grip.show(self._slips.update(state, self._felt.forces, down, ground.normal))
        if known is None:
            ground.advance(dt)
        else:
            deep = self._stretch.dip(clock, course, ground, self._footwork.swings, (x, y))
            ground.follow(dt, KNOWN_SLOPE_TIME * p.time, LEVEL_TIME * p.time, RISE_TIME * p.time, deep)
        level = ground.level(course.yaw).T
        stance = p.stance * clock.spread @ level
        reference = self._preview.reference(clock, course, ground.points[:, :2], stance, self._trunk.lean)
        wanted_x, wanted_y = reference.divergent.tolist()
        omega = reference.frequency
        error = x + a / omega - wanted_x, y + b / omega - wanted_y
        self._keep_leash(error, yaw)
        self._footwork.advance(clock, course, ground, known, reference, error, (x, y), (a, b), stance, yaw, dt)
        self._decide(within, error, feet, stance)
        swings, tasks = self._footwork.swings, self.whole_body.tasks
        for i, foot in enumerate(FEET):
            swing = swings.get(i)
            if swing is None:
                tasks[foot].reference(feet[i])
            else:
                tasks[foot].reference(swing.position, swing.velocity, swing.acceleration)
        self._trunk.guide(reference, course, ground, (x, y, z), (u, v, w), R_base, dt)
        command = self.whole_body.compute(state, carrying)
        tau = command.tau
        if load is not None:
            load.update(state, self._tau)
            tau = tau + load.torques(state, command.forces)
        given_in = not command.ok and self._grip.slippery
        self._tau = self._guard.damped(state) if given_in else self._guard.within(tau, state)
        flying = {FEET[i]: swing for i, swing in swings.items()}
        return LocomotionCommand(
            self._tau,
            self.mode,
            carrying,
            command,
            reference.pressure,
            wanted,
            within,
            course.velocity.copy(),
            limit,
            flying,
            felt,
            0.0 if load is None else load.mass,
            () if self._slips is None else self._slips.detector.slipping,
            self._grip.friction,
        )

    def _touches(self, state: State, ground: GroundPlane, told: tuple[str, ...] | None) -> tuple[str, ...] | None:
        """The feet that touch: as told, or as the torques say where they are asked; None if nobody knows."""
        if self._felt is None or (told is not None and self._slips is None):
            return told
        found = self._felt.update(state, self._tau, ground.normal)
        return found if told is None else told

    def _normals(self, ground: GroundPlane) -> list[tuple[float, float, float]]:
        """Of the ground under each foot: where it is known, its own, else that of the plane of all."""
        x, y, z = ground.normal.tolist()
        if self._map is None:
            return [(x, y, z)] * len(FEET)
        return [self._map.normal(a, b) or (x, y, z) for a, b, _ in ground.points.tolist()]

    def __reduce__(self) -> NoReturn:
        raise ArgumentTypeError("a LocomotionController cannot be copied or pickled; make another")

    # -- parts of a tick -----------------------------------------------------------------------------------------
    def _begin(self, com: tuple[float, float, float], velocity: tuple[float, float], yaw: float, feet: Array) -> None:
        p = self.proportions
        self.ground = GroundPlane.under(feet, p.radii, SLOPE_TIME * p.time)
        self.course = Course(self.ground.points[:, :2].mean(axis=0), yaw)
        self.clock = Clock(self._gait if self._gait.moves else "trot", p.time)
        self._footwork = Footwork(p)
        self._filtered, self._drift = velocity, (0.0, 0.0)
        height = com[2] - self.ground.height(com[0], com[1])
        middle = self.course.position.tolist()
        lean = com[0] - middle[0], com[1] - middle[1]
        aside = math.hypot(*lean) > LEAN * p.length and not escaping(lean, feet, TOPPLING)
        low, high = height < LOW_HEIGHT * p.height, height > HIGH * p.height
        start = height if low or high else p.height
        self._trunk.end()
        self._trunk = Trunk(p, self.whole_body, self._grip, start, lean if aside else (0.0, 0.0))
        self.mode = Mode.RISING if low or aside else Mode.STANDING
        if low or aside or high:
            self._trunk.go_to(p.height)
        self._footing.reset()
        self._landing.end()
        if not self._footing.even(feet):
            self._take_off()

    def _falls(self, x: float, y: float, z: float, R: Array) -> bool:
        assert self.ground is not None
        slides = self._grip.slippery
        low = z - self.ground.height(x, y) < (GIVING_IN if slides else FALLEN_HEIGHT) * self.proportions.height
        a, b, c = R[:, 2].tolist()
        d, e, f = self.ground.normal.tolist()
        return (low and self.mode.upright) or a * d + b * e + c * f < (GIVING_IN_TILT if slides else FALLEN_TILT)

    def _fall(self, state: State, asked: Array) -> LocomotionCommand:
        """Nothing but damping, which takes the violence out of a fall."""
        self.mode = Mode.FALLEN
        self._landing.end()
        self._trunk.end()
        tau = self._guard.damped(state)
        pressure, still = self.course.position.copy(), np.zeros(3)
        return LocomotionCommand(tau, self.mode, (), None, pressure, asked, still, still, FALLEN, {})

    def _take_off(self) -> None:
        """The ground is lost."""
        self.mode = Mode.AIRBORNE
        self._footing.search()
        self._landing.begin()

    def _land(
        self,
        state: State,
        asked: Array,
        touching: tuple[str, ...] | None,
        feet: Array,
        com: tuple[float, float, float],
        velocity: tuple[float, float, float],
        R_base: Array,
        yaw: float,
    ) -> LocomotionCommand:
        """One tick in the air, or between air and stance."""
        ground, course, p, dt = self.ground, self.course, self.proportions, self.dt
        assert ground is not None
        carrying = self._footing.found(state, self._tau, touching)
        if not carrying:
            self.mode = Mode.AIRBORNE
            self._landing.hold_ready(self._landing.places(com, velocity, yaw), velocity, self._trunk)
            reference = None
        else:
            if self.mode is Mode.AIRBORNE:
                self.ground = ground = GroundPlane(np.column_stack((feet[:, :2], np.zeros(4))), SLOPE_TIME * p.time)
                self.course = course = Course(feet[:, :2].mean(axis=0), yaw)
            self.mode = Mode.LANDING
            stopped = self._landing.touch(carrying, feet, com, velocity[2], course, ground, self._trunk, dt)
            ground.advance(dt)
            self._grip.follow(self._normals(ground))
            reference = self._preview.reference(self.clock, course, ground.points[:, :2], p.stance)
            self._trunk.guide(reference, course, ground, com, velocity, R_base, dt)
            if stopped:
                self.mode = Mode.RISING
                self._footing.reset()
                self._landing.end()
                self._trunk.go_to(p.height)
        command = self.whole_body.compute(state, carrying)
        self._tau = self._guard.within(command.tau, state) if command.ok else self._guard.damped(state)
        return LocomotionCommand(
            self._tau,
            self.mode,
            carrying,
            command,
            course.position.copy() if reference is None else reference.pressure,
            asked,
            np.zeros(3),
            np.zeros(3),
            NO_GROUND,
            {},
            friction=self._grip.friction,
        )

    def reach(self, velocity: Sequence[float] | Array) -> Array:
        """The part of a commanded velocity that the gait can do: cut in all components alike.

        A foot stays within the gait's stride while it is on the ground, swings no faster than its joints can, and
        goes no further inwards than beside the other feet.  Legs without a joint that moves the foot sideways go
        straight ahead only.

        Args:
            velocity: (3,) forward and leftward speed [m/s] and yaw rate [rad/s], heading frame.

        Returns:
            (3,) of it, for the gait as it is set.

        Raises:
            ArgumentError: not three finite numbers.
        """
        return self._legs.within(self._gait, commanded_velocity(velocity))[0]

    def limit(self, velocity: Sequence[float] | Array) -> str:
        """What cuts a velocity down to `reach`, such as "stride of the gait"; "" where nothing does."""
        return self._legs.within(self._gait, commanded_velocity(velocity))[1]

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
        angle, direction = number("angle", angle), number("direction", direction)
        friction = self.friction if friction is None else number("friction", friction)
        if not (0.0 <= angle < 0.5 * math.pi and math.isfinite(direction) and friction >= 0.0):
            raise ArgumentError(
                "angle, direction, friction: expected a slope in [0, pi/2) rad, a finite direction and a friction of 0 "
                f"or more, got {angle}, {direction}, {friction}"
            )
        return self._unable(self._gait, self.reach(velocity), angle, direction, friction)

    def _unable(self, gait: Gait, velocity: Array, angle: float, direction: float, friction: float) -> str:
        """What keeps the robot from a gait on a slope."""
        statics = self._statics or SlopeStatics(self.robot, self.proportions)
        return statics.limit(gait, velocity, angle, direction, friction, self._guard.limits)

    def _require(self, gait: Gait) -> None:
        """Refuse to jump with motors that are too weak or joints that are too slow for it.

        Raises:
            ArgumentError: so it is.
        """
        if gait.thrust.steady:
            return
        why = self._legs.lifting(gait) or self._unable(gait, np.zeros(3), 0.0, 0.0, self.friction)
        if why:
            raise ArgumentError(
                f"gait: {self.robot.name!r} cannot do {gait.name!r}, which pushes off with "
                f"{float(gait.thrust.push.max()):.1f} times the weight: {why}"
            )

    def _steer(self, wanted: Array) -> None:
        """The course's velocity follows the command, which is within `reach`, as the robot can accelerate."""
        p, clock = self.proportions, self.clock
        assert self.ground is not None
        goal: tuple[float, ...] = (0.0, 0.0, 0.0)
        if self.mode in (Mode.MOVING, Mode.RECOVERING) and clock.phase >= 0.0:
            (ahead, across), (_, aside) = self.ground.level(self.course.yaw).tolist()
            x, y, turn = self._made_up(wanted)
            goal = ahead * x + across * y, aside * y, turn
        rush = min(ACCELERATION, GENTLE * FACE * self._grip.friction) * p.gravity
        steps = rush, rush, YAW_ACCELERATION / p.time**2
        now, dt = self.course.velocity, self.dt
        now[:] = [
            value + min(max(to - value, -step * dt), step * dt)
            for value, to, step in zip(now.tolist(), goal, steps, strict=True)
        ]

    def _made_up(self, wanted: Array) -> list[float]:
        """The velocity for the course whose leash gives way all the time, so that the robot's is the wanted one."""
        (u, v), yaw = self._drift, self.course.yaw
        x, y, turn = wanted.tolist()
        speed, fast = math.hypot(x, y), math.hypot(u, v)
        if fast <= LEAST_DRIFT * speed or not speed:
            return [x, y, turn]
        share = min(1.0, fast / (LEAST_DRIFT * speed) - 1.0, MOST_DRIFT * speed / fast)
        c, s = share * math.cos(yaw), share * math.sin(yaw)
        made_up: list[float]
        made_up = self._legs.within(self._gait, np.array([x - c * u - s * v, y + s * u - c * v, turn]))[0].tolist()
        return made_up

    def _keep_leash(self, error: tuple[float, float], yaw: float) -> None:
        """The course waits if the robot cannot follow."""
        p, course = self.proportions, self.course
        away, slack = math.hypot(*error), LEASH * p.length
        share = max(0.0, 1.0 - slack / max(away, 1e-12)) * min(1.0, self.dt / (LEASH_TIME * p.time))
        x, y = share * error[0], share * error[1]
        if share:
            course.position += (x, y)
        u, v = self._drift
        fresh = self.dt / (DRIFT_TIME * p.time)
        self._drift = u + (x / self.dt - u) * fresh, v + (y / self.dt - v) * fresh
        turn = math.remainder(course.yaw - yaw, 2.0 * math.pi)
        course.yaw -= turn - min(max(turn, -YAW_LEASH), YAW_LEASH)

    def _decide(self, wanted: Array, error: tuple[float, float], feet: Array, stance: Array) -> None:
        """What to do from the next tick on."""
        clock, mode, p = self.clock, self.mode, self.proportions
        still = not any(wanted.tolist())
        if mode is Mode.STANDING:
            if self._lie:
                self.mode = Mode.LOWERING
                self._trunk.go_to(LYING_HEIGHT * p.height)
            elif not still:
                clock.change(self._gait)
                clock.start()
                self.mode = Mode.MOVING
            elif self._footing.sure and (escaping(error, feet) or misplaced(feet, self.course, stance, p.length)):
                clock.change("trot")
                clock.start(lead=0.0)
                self.mode = Mode.RECOVERING
        elif mode in (Mode.MOVING, Mode.RECOVERING):
            settled = clock.phase >= 1.0 and not any(self.course.velocity.tolist())
            if not clock.running:
                self.mode = Mode.STANDING
            elif self._lie or (still and settled and max(map(abs, error)) < 0.5 * LEASH * p.length):
                clock.stop()
            elif not still:
                clock.change(self._gait)
                clock.start()  # takes back a stop
                self.mode = Mode.MOVING
        elif not self._trunk.busy:
            self.mode = Mode.STANDING if mode is Mode.RISING else Mode.LYING


def _statics(robot: Robot, proportions: Proportions) -> SlopeStatics | None:
    """None for legs whose kinematics are refused, as of joints that follow others."""
    try:
        return SlopeStatics(robot, proportions)
    except QuaddynError:
        return None
