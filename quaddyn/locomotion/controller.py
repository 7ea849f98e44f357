"""`LocomotionController`: from a velocity command to joint torques, for any quadruped."""

from __future__ import annotations

import time
import warnings
from collections.abc import Collection, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import NoReturn

from ..compiler import silence_messages
from ..dynamics import State
from ..errors import ArgumentError, ArgumentTypeError
from ..robot.robot import Robot
from ..strict_attributes import StrictAttributes
from ..urdf.tree import Array
from ..wbc import WholeBodyController
from .arguments import named_feet
from .command import LocomotionCommand
from .course import Course, commanded_velocity
from .fall import Fall
from .flight import Flight
from .foothold_map import Heights
from .gait import Clock, Gait, gait_named
from .ground import GroundPlane
from .jump_plan import JumpPlan
from .modes import Mode
from .motion import Motion
from .quadruped import Quadruped
from .righting import Righting
from .tick_period import TickPeriod
from .walking import Walking


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
    Who is told to go and gets nowhere, as against a wall, is stuck: it stands, and says so, until the command is
    another one or `stand_up` is called (`Headway`).
    Nothing is tuned to a robot: every number is a multiple of l, ``sqrt(l / g)`` and ``m g``.  What a robot
    cannot do, such as swing its legs faster than its joints turn, is not commanded (`reach`).

    Args:
        robot: a quadruped with a free root.
        dt: control period [s].
        gait: to move with, of `GAITS` or your own; "stand" steps only to recover.
        friction: "estimated" to assume Coulomb's coefficient, on level ground 0.4, two thirds of what plants have by
            default (`quaddyn.contact.NOMINAL_FRICTION`), and on slopes what it takes to walk there, and less once
            feet have slipped (`FeltFriction`); or the coefficient of the ground, which is then an upper bound: choose
            it below the expected one, since slopes that need more are refused (`SlopeVerdict`).
            "assumed" to look for no slips; the coefficient may then be set by `friction` below.
        terrain: the ground as far as it is known: heights [m] of arrays x and y [m], world, NaN where unknown; a
            function, or what has one, such as `quaddyn.estimation.ElevationMap` and `quaddyn.simulation.Terrain`.  Feet
            are then put where it is even (`FootholdMap`) and lifted over what is between.  It is asked again and again,
            for a few rows of a grid at a time.
        payload: "estimated" to find mass that the robot's file does not know of from the torques, and to carry it
            (`UnknownLoad`); None to trust the file.
        touching: "estimated" to find out from the torques which feet touch, wherever `compute` is not told and the
            gait has no flight phases (`FeltGround`): a foot that meets the ground early carries at once, who misses it
            is waited for, and feet that trip over something are lifted over it (`Stumbles`).  "scheduled" to
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

    Raises:
        ArgumentError: a robot that cannot walk, a gait with flight phases that its motors are too weak or too slow for,
            or an option out of range.
        UnknownNameError: no such gait.
    """

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
        self._quadruped = quad = Quadruped(
            robot, dt=dt, gait=gait, friction=friction, terrain=terrain, payload=payload, touching=touching,
            whole_body=whole_body,
        )  # fmt: skip
        self.robot, self.dt, self.proportions, self.whole_body = robot, quad.dt, quad.proportions, quad.whole_body
        self._walking, self._fall = Walking(quad), Fall(quad, righting)
        self._flight = Flight(quad, self._walking.reach)
        self._period = TickPeriod(quad.dt)
        self.reset()

    # -- commands ------------------------------------------------------------------------------------------------
    def reset(self) -> None:
        """Forget everything: the next tick is a first one."""
        self._quadruped.reset()
        self._flight.end_jump()
        self._fall.reset()
        self._walking.transitions.lie = False
        self._period.reset()
        self._timing = ""

    @property
    def mode(self) -> Mode:
        """What the robot is doing."""
        return self._quadruped.mode

    @property
    def course(self) -> Course:
        """The wanted motion of the middle of the feet, from the first tick on."""
        return self._quadruped.course

    @property
    def clock(self) -> Clock:
        """Of the gait, from the first tick on."""
        return self._quadruped.clock

    @property
    def ground(self) -> GroundPlane | None:
        """As far as it is known; None before the first tick."""
        return self._quadruped.ground

    @property
    def gait(self) -> Gait:
        """To move with; may be set at any time, the change takes some cycles."""
        return self._quadruped.gait

    @gait.setter
    def gait(self, gait: str | Gait) -> None:
        quad, gait = self._quadruped, gait_named(gait)
        quad.capability.require(gait, self.friction)
        quad.gait = gait
        if quad.ground is not None and gait.moves:
            quad.clock.change(gait)

    @property
    def friction(self) -> float:
        """Coulomb's coefficient that is assumed on level ground, see `Grip`; may be set at any time."""
        return self._quadruped.grip.told

    @friction.setter
    def friction(self, value: float) -> None:
        self._quadruped.grip.told = value

    @property
    def terrain(self) -> Heights | None:
        """The ground, as far as it is known; may be set at any time, None for nothing."""
        return self._quadruped.terrain

    @terrain.setter
    def terrain(self, terrain: Heights | None) -> None:
        self._quadruped.know(terrain)

    def stand_up(self) -> None:
        """Rise to the height at home; also out of a fall, which nothing else leaves.  Takes back `lie_down`.

        Who has fallen first folds its legs and gets onto its belly, where the controller knows how (`righting`); what
        keeps it from that is the `limit` of the commands to come, which say "fallen" again.
        """
        self._walking.transitions.lie = False
        self._walking.headway.reset()
        if not self._fall.recover() and self.mode in (Mode.LYING, Mode.LOWERING, Mode.FALLEN):
            self._quadruped.start_over()

    def lie_down(self) -> None:
        """Stop, and sink to a crouch at half the height, which the legs go on holding: only feet touch the ground."""
        if self.ground is None or self.mode not in (Mode.FALLEN, Mode.LYING):
            self._walking.transitions.lie = True

    def plan_jump(
        self, *, height: float | None = None, distance: Sequence[float] | Array = (0.0, 0.0), turn: float = 0.0
    ) -> JumpPlan:
        """What `jump` would do now, without doing it; before the first tick, on level ground."""
        return self._flight.plan_jump(height, distance, turn)

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
        return self._flight.crouch(height, distance, turn)

    def warmup(self, *, quiet: bool = False) -> float:
        """Compile what is compiled at first use; see `WholeBodyController.warmup`."""
        start = time.perf_counter()
        with silence_messages() if quiet else nullcontext():
            self.whole_body.warmup()
            self._quadruped.senses.warmup()
            self._walking.warmup()
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

        Warns:
            RuntimeWarning: once, where the robot moves from tick to tick by what takes visibly another time than `dt`;
                the commands from then on are not `ok`, and their `timing` says why.
        """
        if not isinstance(state, State):
            raise ArgumentTypeError(f"state: expected the State of a Dynamics.update, got {type(state).__name__}")
        if state.robot is not self.robot:
            raise ArgumentError("state: of another robot than the controller's; load once and use that Robot for both")
        wanted = commanded_velocity(velocity)
        told = None if touching is None else named_feet(touching)
        quad = self._quadruped
        motion = Motion.of(state, quad.base, quad.proportions.heading, quad.senses.shift(state))
        period = self._period.measured(motion)
        if period is not None and not self._timing:
            self._timing = (
                f"dt: the controller was made for a tick every {self.dt:g} s, the robot moves as if one came every "
                f"{period:.2g} s; call it at its period, or make it with another dt"
            )
            warnings.warn(self._timing, RuntimeWarning, stacklevel=2)
        command = self._tick(state, motion, wanted, told)
        return replace(command, timing=self._timing) if self._timing else command

    def _tick(self, state: State, motion: Motion, wanted: Array, told: tuple[str, ...] | None) -> LocomotionCommand:
        quad, walking, flight, fall = self._quadruped, self._walking, self._flight, self._fall
        if quad.ground is None:
            walking.begin(motion)
            flight.begin(motion, told)
        walking.follow(motion)
        flight.watch(motion, told)
        if quad.mode is Mode.RIGHTING:
            return fall.right(state, motion, wanted)
        why = fall.why(state, motion)
        if why:
            flight.end()
            return fall.fold(state, wanted, why)
        if quad.mode is Mode.JUMPING:
            return flight.spring(state, motion, wanted)
        if quad.mode in (Mode.AIRBORNE, Mode.LANDING):
            return flight.land(state, motion, wanted, told)
        return walking.tick(state, motion, wanted, told, flight.plan)

    def __reduce__(self) -> NoReturn:
        raise ArgumentTypeError("a LocomotionController cannot be copied or pickled; make another")

    # -- what the robot can do -----------------------------------------------------------------------------------
    def reach(self, velocity: Sequence[float] | Array) -> Array:
        """The part of a commanded velocity that the gait can do: cut in all components alike.

        A foot stays within the gait's stride and its leg's reach, joint limits included, while it is on the ground,
        swings no faster than its joints can, and goes no further inwards than beside the other feet.  Legs without a
        joint that moves the foot sideways go straight ahead only, in gaits that keep their width.

        Args:
            velocity: (3,) forward and leftward speed [m/s] and yaw rate [rad/s], heading frame.

        Returns:
            (3,) of it, for the gait as it is set.

        Raises:
            ArgumentError: not three finite numbers.
        """
        return self._within(velocity)[0]

    def limit(self, velocity: Sequence[float] | Array) -> str:
        """What cuts a velocity down to `reach`, such as "stride of the gait"; "" where nothing does."""
        return self._within(velocity)[1]

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
        return self._quadruped.capability.slope_limit(self.gait, within, angle, direction, friction)

    def _within(self, velocity: Sequence[float] | Array) -> tuple[Array, str]:
        """The part of a velocity that the gait can do, and what cuts it."""
        return self._quadruped.capability.legs.within(self.gait, commanded_velocity(velocity))
