"""`LocomotionController`: computes joint torques from a velocity command, for any quadruped."""

from __future__ import annotations

import time
import warnings
from collections.abc import Collection, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import NoReturn

from ..compiler import silence_messages
from ..deprecation import renamed_attributes, renamed_parameters, renamed_values
from ..dynamics import State
from ..errors import ArgumentError, ArgumentTypeError
from ..lane_blocks import max_threads
from ..robot.arguments import check_integer, check_number
from ..robot.robot import Robot
from ..robot.units import warn_of_direction
from ..strict_attributes import StrictAttributes
from ..urdf.tree import Array
from ..wbc import WholeBodyController
from ..wbc.tick_period import describe_inconsistent_motion, reset_tick_period
from .command import LocomotionCommand
from .embedded.walker_batch import LocomotionBatch
from .fall_recovery import FallRecovery
from .flight_phase import FlightPhaseController
from .foothold_map import Heights
from .gait import Gait, GaitScheduler, find_gait
from .ground_phase import GroundPhaseController
from .ground_plane import GroundPlane
from .jump_plan import JumpPlan
from .modes import LocomotionMode
from .path_reference import PathReference, as_velocity_command
from .quadruped import Quadruped, validate_feet
from .righting import RightingPlan
from .walker import TickStage
from .walking import TickCode

#: Flags that every tick reads, as plain numbers, see `ground_phase`.
HAS_INCONSISTENT_MOTION, IS_LANDING = int(TickCode.HAS_INCONSISTENT_MOTION), int(TickCode.IS_LANDING)


@renamed_attributes(
    reach="clamp_velocity",
    limit="velocity_limit_reason",
    slope_limit="slope_limit_reason",
    course="path_reference",
    clock="gait_scheduler",
    proportions="morphology",
    whole_body="wbc",
)
class LocomotionController(StrictAttributes, fixed=("robot", "dt", "morphology", "wbc")):
    """Controller that makes a quadruped stand, walk, trot, jump and get up, with one call per control period.

    The gait scheduler (`GaitScheduler`) decides which feet are in stance, the coming footholds determine the motion of
    the center of mass (`preview_com`), and the whole-body controller computes contact forces and torques.  An error of
    the divergent component of motion xi that the ground cannot correct at once is corrected by the next footholds: all
    coming footholds are shifted by ``(xi - xi*) / gain``, after which the present xi is the bounded one (see
    `preview_com`).

    Without a terrain map, the ground is estimated from proprioception: the plane through the stance feet
    (`GroundPlane`), the feet in contact, and the friction coefficient from slips.  On a slope the trunk is parallel to
    that plane, the center of mass is above the feet, and the friction cones are aligned with the plane
    (`FrictionModel`).  A robot that starts with its center of mass beside the center of its feet shifts it first, in
    the mode "rising".  A robot that loses the ground while it stands or rises, or that starts in the air, lands on its
    feet; so does one that walks at the first tick, with feet off the ground.  If the whole-body controller has no
    solution for a landing, the motors only damp, and the command is not `ok`.
    If the robot does not follow the velocity command, for example at a wall, the controller stops and sets
    `LocomotionCommand.limit_reason`, until the command changes or `stand_up` is called.
    There is no tuning per robot: every parameter is a multiple of leg length l, ``sqrt(l / g)`` and ``m g``.
    Velocities that the robot cannot reach, for example for its joint speeds, are clamped (`clamp_velocity`).

    Args:
        robot: a quadruped with a free root.
        dt: control period [s], in (0, 0.01].
        gait: name of a gait in `GAITS`, or a `Gait`; "stand" steps only to recover from pushes.
        friction: "estimated" to assume 0.4 on level ground (two thirds of the default of the plants, see
            `quaddyn.contact.NOMINAL_FRICTION`), on slopes what is needed to walk there, and less after slips
            (`FrictionEstimate`).  A number is the friction coefficient of the ground and an upper bound: choose it
            below the expected one, since slopes that need more are refused (`SlopeLimiter`).  "nominal" disables slip
            detection; the coefficient may then be set by the attribute `friction`.
        terrain: heights of the ground [m], NaN where unknown: a function of arrays x and y [m], world, or an object
            with a method ``height(x, y)`` such as `quaddyn.estimation.ElevationMap` and `quaddyn.simulation.Terrain`.
            It is read again as the robot moves, a few grid rows per tick.  Feet are then placed on even ground
            (`FootholdMap`) and lifted over obstacles.  None for blind locomotion.
        payload: "estimated" to estimate mass beyond the robot's model from the torques and to compensate it
            (`PayloadCompensation`); None to use the model alone.
        contact_detection: "estimated" to detect contacts from the torques where `compute` is not given measured ones
            and the gait has no flight phases (`ContactEstimate`): a foot that touches down early carries load at
            once, the gait waits for a foot that touches down late, and feet that trip are lifted over the obstacle.
            "scheduled" to use the gait's schedule.
        rotor_inertia: "estimated" to estimate rotor inertias that the robot's model lacks from the torques of swing
            legs, and to compensate them (`quaddyn.estimation.rotor_inertia`); "model" to use the model alone.
        righting_plan: motions from back and sides onto the belly, from `quaddyn.planning.plan_righting`; `stand_up`
            then works from any side.  None: the robot cannot get up from its back.
        wbc: whole-body controller of the same robot and period, whose friction is used; None for the default one.  It
            needs the tasks "com", "base", "forces" and one for each foot by its name; their references
            and gains are set by this controller.

    Attributes:
        robot: the robot.
        dt: control period [s].
        morphology: lengths, mass and units of the robot.
        wbc: the whole-body controller that was passed, or the default one.

    Raises:
        ArgumentError: the robot cannot walk, its motors are too weak or too slow for a gait with flight phases, or an
            option is out of range.
        UnknownNameError: there is no gait of this name.
    """

    @renamed_values("friction", assumed="nominal")
    @renamed_parameters(touching="contact_detection", righting="righting_plan", whole_body="wbc")
    def __init__(
        self,
        robot: Robot,
        *,
        dt: float = 1e-3,
        gait: str | Gait = "trot",
        friction: float | str = "estimated",
        terrain: Heights | None = None,
        payload: str | None = None,
        contact_detection: str = "estimated",
        rotor_inertia: str = "estimated",
        righting_plan: RightingPlan | None = None,
        wbc: WholeBodyController | None = None,
    ) -> None:
        self._quadruped = quad = Quadruped(
            robot, dt=dt, gait=gait, friction=friction, terrain=terrain, payload=payload,
            contact_detection=contact_detection, rotor_inertia=rotor_inertia, wbc=wbc,
        )  # fmt: skip
        self.robot, self.dt, self.morphology, self.wbc = robot, quad.dt, quad.morphology, quad.wbc
        self._walking = GroundPhaseController(quad)
        self._fall = FallRecovery(quad, self._walking.leg_folding, righting_plan)
        self._flight, self._has_ticked = FlightPhaseController(quad, self._walking), False
        self.reset()

    # -- commands ------------------------------------------------------------------------------------------------
    def reset(self) -> None:
        """Resets all estimates and the mode; the next tick is treated as the first one."""
        self._flight.end_jump()
        self._walking.reset()
        reset_tick_period(self._quadruped.displacements)
        self._timing = ""

    @property
    def mode(self) -> LocomotionMode:
        """Mode of the controller, such as standing or moving."""
        return self._quadruped.mode

    @property
    def path_reference(self) -> PathReference:
        """Reference of the position and heading of the robot, between its feet; available after the first tick."""
        return self._require_start("path_reference").path_reference

    @property
    def gait_scheduler(self) -> GaitScheduler:
        """Phases of the gait; available after the first tick."""
        return self._require_start("gait_scheduler").gait_scheduler

    @property
    def ground(self) -> GroundPlane | None:
        """Plane of the stance feet; None before the first tick."""
        return self._quadruped.ground if self._quadruped.has_started else None

    def _require_start(self, name: str) -> Quadruped:
        """Returns the shared components.

        Raises:
            AttributeError: there was no tick yet, so that the attribute `name` is not available.
        """
        if not self._has_ticked:
            raise AttributeError(f"a LocomotionController has no {name} before its first tick; call compute first")
        return self._quadruped

    @property
    def gait(self) -> Gait:
        """Gait of the next steps; may be set at any time.  The transition takes some cycles."""
        return self._quadruped.gait

    @gait.setter
    def gait(self, gait: str | Gait) -> None:
        quad, gait = self._quadruped, find_gait(gait)
        quad.capability.require_feasible(gait, self.friction)
        quad.gait = gait
        if quad.has_started and gait.has_swing_phase:
            quad.gait_scheduler.set_gait(gait)

    @property
    def friction(self) -> float:
        """Friction coefficient assumed on level ground, dimensionless, see `FrictionModel`; may be set at any time."""
        return self._quadruped.friction_model.nominal

    @friction.setter
    def friction(self, value: float) -> None:
        self._quadruped.friction_model.nominal = value

    @property
    def estimated_rotor_inertia(self) -> dict[str, float]:
        """Rotor inertia in addition to the robot's model, by name of the actuated joint [kg m^2, kg]."""
        rotors, robot = self._quadruped.estimators.contacts.rotors, self.robot
        return dict(zip(robot.actuated, rotors.inertia[robot.actuated_index].tolist(), strict=True))

    @property
    def terrain(self) -> Heights | None:
        """Terrain heights, see the constructor; may be set at any time.  None for blind locomotion."""
        return self._quadruped.terrain

    @terrain.setter
    def terrain(self, terrain: Heights | None) -> None:
        self._quadruped.set_terrain_knowledge(terrain)

    def stand_up(self) -> None:
        """Starts to rise to the home height; also leaves the fallen state and cancels `lie_down`.

        A fallen robot first folds its legs and rolls onto its belly if there is a `righting_plan`.  If that fails,
        `limit_reason` of the following commands gives the reason, and the mode is "fallen" again.
        """
        must_restart = self._walking.request_standing()
        if not self._fall.begin_righting() and must_restart:
            self._quadruped.request_restart()

    def lie_down(self) -> None:
        """Starts to stop and to sink to a crouch at half the height, which the legs then hold."""
        self._walking.request_lying()

    def plan_jump(
        self, *, height: float | None = None, distance: Sequence[float] | Array = (0.0, 0.0), turn: float = 0.0
    ) -> JumpPlan:
        """Returns the plan that `jump` would execute now; before the first tick, on level ground."""
        return self._flight.plan_jump(height, distance, turn)

    def jump(
        self, *, height: float | None = None, distance: Sequence[float] | Array = (0.0, 0.0), turn: float = 0.0
    ) -> JumpPlan:
        """Starts a jump: crouch, push-off with all feet, flight, landing on all feet; see `JumpPlanner`.

        Jumps beyond torque, joint or friction limits are scaled down in all components alike (`JumpPlan.is_limited`).
        Planning takes some tenths of a second; call `plan_jump` to plan beforehand.  With a terrain map the feet land
        on it, up or down a step or across a gap, and clear what is between; a jump that would have to be scaled down
        there is refused.  Velocity commands have no effect until the robot stands again.

        Args:
            height: rise of the center of mass after lift-off [m]; None to choose it from distance and terrain.
            distance: (2,) forward and leftward displacement of the center of the feet [m].
            turn: yaw angle of the jump, positive to the left [rad].

        Returns:
            The plan; `LocomotionCommand.jump_plan` holds it until touchdown.

        Raises:
            ArgumentError: the jump is impossible, or the robot does not stand on level ground.
            ArgumentTypeError: an argument is not a number.
        """
        return self._flight.begin_jump(height, distance, turn)

    def warmup(self, *, quiet: bool = False) -> float:
        """Compiles all compiled functions and returns the time that took [s]; see `WholeBodyController.warmup`.

        Args:
            quiet: whether messages of the compiler are suppressed.
        """
        start = time.perf_counter()
        with silence_messages() if quiet else nullcontext():
            self.wbc.warmup()
            self._quadruped.estimators.warmup()
            self._walking.warmup()
        return time.perf_counter() - start

    def batch(self, n: int, *, threads: int | None = None) -> LocomotionBatch:
        """Returns n controllers like this one whose states are arrays, to compute them together; see `LocomotionBatch`.

        The lanes have the gait, gains and nominal friction of this controller, and start with a first tick.  Later
        changes of this controller do not affect them.

        Args:
            n: number of robots.
            threads: number of threads; None: the number of cores available to this process.

        Raises:
            ArgumentError: `n` or `threads` is not a positive integer; or the controller has a terrain map, a payload
                estimate, custom elements or coupled joints.
        """
        return LocomotionBatch(self._walking, check_integer("n", n), min(max_threads(threads), n))

    # -- one tick ------------------------------------------------------------------------------------------------
    @renamed_parameters(touching="measured_contacts")
    def compute(
        self,
        state: State,
        velocity: Sequence[float] | Array = (0.0, 0.0, 0.0),
        *,
        measured_contacts: Collection[str] | None = None,
    ) -> LocomotionCommand:
        """Computes the command of one tick.

        Args:
            state: present state of the robot.
            velocity: (3,) requested forward and leftward speed [m/s] and yaw rate [rad/s] in the heading frame (in the
                ground plane, x along the robot's forward direction).  It is clamped by `clamp_velocity`; the command
                reports the reason.
            measured_contacts: names of the feet in contact, from foot sensors.  None to estimate them from the torques,
                or to use the gait schedule if the controller was made with ``contact_detection="scheduled"``.

        Raises:
            ArgumentError: `velocity` is not three finite numbers, or `state` belongs to another robot.
            ArgumentTypeError: `state` is not a State, `velocity` is not numeric, or `measured_contacts` is not a
                collection of names.
            UnknownNameError: `measured_contacts` has a name that is not a foot.
            StaleStateError: the Dynamics of `state` was updated again.

        Warns:
            RuntimeWarning: once, if the motion of the robot between ticks shows another period than `dt`, or a base
                velocity in world axes or a quaternion with w first; commands from then on are not `ok`, and their
                `timing` gives the reason; or if the robot walks at the first tick.  Also once, if the feet stand far
                from the ground of the terrain map in several steps.
        """
        if not isinstance(state, State):
            raise ArgumentTypeError(f"state: expected the State of a Dynamics.update, got {type(state).__name__}")
        if state.robot is not self.robot:
            raise ArgumentError(
                "state: belongs to another robot than the controller; compute it with qd.Dynamics(controller.robot)"
            )
        requested = as_velocity_command(velocity)
        contacts = None if measured_contacts is None else validate_feet(measured_contacts, self.robot)
        code = self._walking.begin_tick(state, requested, contacts)
        self._has_ticked = True
        if (code < 0 or code & HAS_INCONSISTENT_MOTION) and not self._timing:
            self._check_timing()
        command = self._finish_tick(code, state, requested, contacts)
        return replace(command, timing=self._timing) if self._timing else command

    def _check_timing(self) -> None:
        """Warns once if the motion between ticks has shown another period or another convention of the state."""
        self._timing = describe_inconsistent_motion(self._quadruped.displacements)
        if self._timing:
            warnings.warn(self._timing, RuntimeWarning, stacklevel=4)

    def _finish_tick(
        self, code: int, state: State, requested: Array, measured_contacts: tuple[str, ...] | None
    ) -> LocomotionCommand:
        """Computes the rest of a tick; `code` is the result of `walker.begin_tick`."""
        walking, flight, fall, reason = self._walking, self._flight, self._fall, None
        if code < 0:
            match min(-code, TickStage.WALKING):
                case TickStage.FOLDING:
                    flight.end_jump()
                    return fall.fold_legs(state, requested)
                case TickStage.RIGHTING:
                    return fall.advance_righting(state, walking.motion, requested)
                case TickStage.JUMPING:
                    return flight.compute_jump(state, requested)
                case TickStage.LANDING_ON_MAP:
                    code = walking.finish_landing_on_map()
                case _:
                    code, reason = walking.continue_tick(-code - TickStage.WALKING, state, flight.jump_plan)
        if code & IS_LANDING:
            return flight.compute_landing(code, state, requested)
        return walking.finish_tick(code, state, requested, measured_contacts, flight.jump_plan, reason)

    def __reduce__(self) -> NoReturn:
        raise ArgumentTypeError("a LocomotionController cannot be copied or pickled; create another one")

    # -- limits --------------------------------------------------------------------------------------------------
    def clamp_velocity(self, velocity: Sequence[float] | Array) -> Array:
        """Returns the velocity scaled down, in all components alike, to the limits of the gait and the legs.

        While it is in stance, a foot stays within the stride of the gait and the reach of its leg, joint limits
        included; in swing, it is no faster than its joints; and it moves inward no farther than beside the other feet.
        Legs without lateral motion walk straight ahead only, in gaits of nominal footprint width.

        Args:
            velocity: (3,) forward and leftward speed [m/s] and yaw rate [rad/s], heading frame.

        Returns:
            (3,) the clamped velocity, for the present gait.

        Raises:
            ArgumentError: `velocity` is not three finite numbers.
        """
        return self._clamp_and_explain(velocity)[0]

    def velocity_limit_reason(self, velocity: Sequence[float] | Array) -> str:
        """Returns the reason for which `clamp_velocity` limits a velocity, such as "stride of the gait", or "".

        Args:
            velocity: (3,) forward and leftward speed [m/s] and yaw rate [rad/s], heading frame.
        """
        return self._clamp_and_explain(velocity)[1]

    def slope_limit_reason(
        self,
        angle: float,
        direction: float = 0.0,
        velocity: Sequence[float] | Array = (0.0, 0.0, 0.0),
        *,
        friction: float | None = None,
    ) -> str:
        """Returns the reason for which the robot cannot walk on a slope, such as "friction of the ground", or "".

        Only statics is checked, see `SlopeStatics`: a robot may fall on a slope that passes.

        Args:
            angle: angle of the slope [rad], in [0, pi / 2).
            direction: uphill direction, from the robot's forward direction [rad].
            velocity: (3,) velocity to walk at [m/s, rad/s]; it is clamped first.
            friction: friction coefficient of the ground; None for that of the controller.

        Raises:
            ArgumentError: `angle` is not in [0, pi / 2), `friction` is negative, or `velocity` is invalid.
        """
        clamped, friction = self.clamp_velocity(velocity), self.friction if friction is None else friction
        warn_of_direction("direction", check_number("direction", direction))
        return self._quadruped.capability.slope_limit_reason(self.gait, clamped, angle, direction, friction)

    def _clamp_and_explain(self, velocity: Sequence[float] | Array) -> tuple[Array, str]:
        """Returns the clamped velocity (3,) [m/s, rad/s] and the reason, "" if it was not limited."""
        return self._quadruped.capability.velocity_limits.clamp_velocity(self.gait, as_velocity_command(velocity))
