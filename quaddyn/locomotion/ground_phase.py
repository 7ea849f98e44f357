"""`GroundPhaseController`: control of a robot on the ground: standing, walking, recovering, rising or lying."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..dynamics import State
from ..urdf.tree import Array
from ..wbc.command import TickCommand
from ..wbc.tasks import FootTask
from ..wbc.tick_solver import TickSolver
from . import walker, walking
from .com_preview import update_com_reference
from .command import LocomotionCommand, WalkDetails, make_mask
from .foothold_map import FootholdMap, fit_planes
from .footwork import Footwork, allocate_balance, compute_nominal_clearance, set_foot_references
from .friction_model import set_normals
from .gait import GAITS, advance_phase, compute_force_profile
from .ground_plane import advance_on_map, plane_height
from .jump_plan import JumpPlan
from .landing import make_landing_state
from .leg_folding import LegFolding
from .leg_margins import LegMargins, compute_required_lowering, measure_leg_lengths
from .modes import LocomotionMode
from .morphology import FEET
from .motion import CentroidalState, allocate_motion, find_motion_terms
from .progress_monitor import allocate_progress
from .quadruped import Quadruped
from .slope_limiter import SlopeEvaluation
from .state_fields import RecordSnapshot
from .steering import allocate_steering_state
from .step_lookahead import StepLookahead, find_edges
from .trunk_controller import KNOWN_SLOPE_LOWERING, write_task_references
from .velocity_limits import LimitReason, clamp_command
from .walker import Walker
from .walking import (
    ROUGH_SLOPE_TIME,
    TickCode,
    WalkCommand,
    WalkData,
    WalkParameters,
    WalkTasks,
    allocate_tick_report,
)

#: Members of enumerations that every tick reads: Python 3.11 needs 0.3 us to look one up.
CARRYING, IS_FIRST, HAS_COMMAND, HAS_NEW_CONTACTS = map(
    int, (TickCode.CARRYING, TickCode.IS_FIRST, TickCode.HAS_COMMAND, TickCode.HAS_NEW_CONTACTS)
)
MOVING, RECOVERING = LocomotionMode.MOVING, LocomotionMode.RECOVERING
#: Names of the feet by the mask of `TickCode.CARRYING`.
CARRYING_FEET = tuple(tuple(foot for i, foot in enumerate(FEET) if mask >> i & 1) for mask in range(1 << len(FEET)))
#: Time constants of the height of the ground on a map, and of the rise of a trunk that was lowered for its legs: on
#: stairs the next step needs it low as well [sqrt(l/g)].
MAP_HEIGHT_TIME, TRUNK_RISE_TIME = 0.25, 2.0
#: Maximum distance of a foot from the mapped terrain at which it counts as in contact at the first tick [l].
MAX_GROUND_DISTANCE = 0.02


def carrying_feet(code: int) -> tuple[str, ...]:
    """Returns the names of the feet that are to carry load from the code of a tick, see `TickCode`."""
    return CARRYING_FEET[code // CARRYING % len(CARRYING_FEET)]


class GroundPhaseController:
    """Control from a velocity command to footholds, center-of-mass motion and torques.

    One tick (`compute`): the path reference follows the command (`update_steering`), the contacts and the plane of the
    feet are updated (`Footwork`), the coming footfalls determine the motion of the center of mass (`preview_com`), its
    error corrects the next footholds and decides about the mode (`next_mode`), and the whole-body controller computes
    the torques.

    Args:
        quadruped: shared state of the robot.

    Attributes:
        footwork: contact states and swing feet.
        landing: state of legs and trunk from the loss of the ground on.
        leg_folding: controller that folds the legs after a fall.
        motion: present state of center of mass and trunk.
        max_leg_length: (4,) maximum distance of a foot from its leg's first joint [m].
    """

    __slots__ = (
        "_balance",
        "_calls",
        "_initial_footwork",
        "_last_mode",
        "_margins",
        "_progress",
        "_quadruped",
        "_records",
        "_steering",
        "_step_lookahead",
        "footwork",
        "landing",
        "leg_folding",
        "max_leg_length",
        "motion",
    )

    _calls: WalkerCalls | None
    _records: WalkerRecords | None

    def __init__(self, quadruped: Quadruped) -> None:
        quad, p = quadruped, quadruped.morphology
        self._quadruped = quad
        self.max_leg_length = measure_leg_lengths(quad.robot)
        self._margins = LegMargins(quad.robot, p, self.max_leg_length)
        self._step_lookahead = StepLookahead(quad.robot, p, quad.capability.velocity_limits)
        self._steering, self._progress = allocate_steering_state(quad.dt), allocate_progress(quad.dt, p.time_scale)
        self.footwork, self.motion = Footwork(p, self.max_leg_length), CentroidalState(allocate_motion())
        self.landing = make_landing_state(self.max_leg_length)
        self.leg_folding = LegFolding(quad.robot, p, quad.torque_limiter, quad.dt)
        self._balance, self._calls, self._records = allocate_balance(), None, None
        self._initial_footwork, self._last_mode = self.footwork.state.copy(), LocomotionMode.STANDING

    @staticmethod
    def warmup() -> None:
        """Compiles all compiled functions of the controller."""
        for function in (
            walking.detect,
            advance_phase,
            compute_force_profile,
            plane_height,
            compute_nominal_clearance,
            write_task_references,
            update_com_reference,
            set_normals,
            set_foot_references,
            fit_planes,
            find_edges,
            clamp_command,
        ):
            function.compile()

    # -- commands --------------------------------------------------------------------------------------------------
    def reset(self) -> None:
        """Resets all estimates and the mode; the next tick is treated as the first one."""
        quad = self._quadruped
        quad.request_restart()
        quad.set_terrain_knowledge(quad.terrain)
        quad.friction_model.read_friction()
        if walker.reset_walker.python(self.records.walker):
            quad.friction_model.apply()
        quad.estimators.reset()
        quad.capability.reset()
        quad.tau = np.zeros(quad.robot.nu)

    def request_standing(self) -> bool:
        """Cancels `request_lying`, and executes commands again that were stopped for lack of progress.

        Returns:
            Whether the robot must restart, because it lies or has fallen.
        """
        must_restart: bool = walker.request_standing.python(self.records.walker.walk)
        return must_restart

    def request_lying(self) -> None:
        """Makes the robot stop stepping and lower its trunk."""
        walker.request_lying.python(self.records.walker.walk)

    # -- one tick --------------------------------------------------------------------------------------------------
    def begin_tick(self, state: State, requested: Array, measured_contacts: tuple[str, ...] | None) -> int:
        """Computes a tick in any mode up to the references of the whole-body controller, or to a `TickStage`.

        Args:
            state: present state of the robot.
            requested: (3,) requested velocity [m/s, rad/s], heading frame.
            measured_contacts: names of the feet in contact; None without foot sensors.

        Returns:
            The result of `walker.begin_tick`.
        """
        quad, estimators = self._quadruped, self._quadruped.estimators
        q, v = state.writable_coordinates()
        calls = self.bind()
        if estimators.estimates_payload:
            self.motion.state.payload_shift = np.array([*estimators.com_shift(state), 0.0])
        if calls.has_coupled_joints:
            estimators.read_coupled_dynamics(state)
        quad.capability.velocity_limits.gait_limits(quad.gait)
        if quad.foothold_map is None:
            calls.set_map_known(False, quad.capability.slope_lowering)
            self.footwork.set_map_known(False)
        else:
            calls.set_map_known(True, KNOWN_SLOPE_LOWERING)
        calls.update_terms(q, v)
        contacts = make_mask(measured_contacts)
        code: int = calls.begin_tick(q, v, quad.tau, requested, quad.wbc.friction, contacts)
        if code & IS_FIRST if code >= 0 else quad.mode_state.is_first_tick:
            self._step_lookahead.reset()
            self.footwork.restart()
            quad.gait_scheduler.gait = quad.gait if quad.gait.has_swing_phase else GAITS["trot"]
            self._last_mode = LocomotionMode.STANDING
            if quad.mode is LocomotionMode.STARTING and self._stands_on_map():
                quad.mode = LocomotionMode.STANDING
        return code

    def _stands_on_map(self) -> bool:
        """Returns whether all feet are on the terrain of the map; False without one."""
        quad, feet = self._quadruped, self.motion.feet
        if quad.foothold_map is None:
            return False
        gaps = np.abs(feet[:, 2] - quad.morphology.radii - quad.foothold_map.heights(feet[:, 0], feet[:, 1]))
        return bool((gaps <= MAX_GROUND_DISTANCE * quad.morphology.length).all())

    def finish_landing_on_map(self) -> int:
        """Computes the rest of a tick after `TickStage.LANDING_ON_MAP`; returns its code."""
        quad, calls = self._quadruped, self.bind()
        calls.data.contact_inputs.normals[:] = quad.ground_normals(quad.ground)
        code: int = calls.finish_landing()
        return code

    def continue_tick(self, evaluation: int, state: State, jump_plan: JumpPlan | None) -> tuple[int, str]:
        """Computes the rest of a tick after `TickStage.WALKING`, stage by stage on a terrain map.

        Args:
            evaluation: `SlopeEvaluation` that is required.
            state: present state of the robot.
            jump_plan: plan of a jump for which it crouches: the robot is then assumed to stand on a plane, since it is
                often right before an edge that the map smooths.

        Returns:
            Code of the tick, see `TickCode`, and the text of the reason for a limit of the velocity on slopes or steps.
        """
        quad, calls, v = self._quadruped, self.bind(), state.writable_coordinates()[1]
        limiter, foothold_map = quad.capability.slope_limiter, quad.foothold_map
        if evaluation != SlopeEvaluation.NONE:
            velocity, timing = calls.data.command.velocity, calls.data.gait_limits.timing
            limiter.advance_evaluation(evaluation, quad.gait, timing, velocity, quad.torque_limiter.limits)
        if foothold_map is None:
            return calls.continue_tick(v, quad.tau), limiter.leg_reason
        self.footwork.set_map_known(True)
        calls.set_map_read(jump_plan is None)
        return self._walk_on_map(calls, foothold_map, v, limiter.leg_reason, jump_plan is not None)

    def finish_tick(
        self,
        code: int,
        state: State,
        requested: Array,
        measured_contacts: tuple[str, ...] | None,
        jump_plan: JumpPlan | None,
        reason: str | None = None,
    ) -> LocomotionCommand:
        """Computes torques and command of a tick whose references are set.

        Args:
            code: code of the tick, see `TickCode`.
            state: present state of the robot.
            requested: (3,) requested velocity [m/s, rad/s], heading frame.
            measured_contacts: names of the feet in contact; None without foot sensors.
            jump_plan: plan of the jump that begins with this crouch; None without one.
            reason: text for `LimitReason.LEGS_ON_SLOPE` or `LimitReason.TERRAIN_STEP`; None for that of the slope
                limiter.
        """
        quad, estimators, calls = self._quadruped, self._quadruped.estimators, self._calls
        assert calls is not None
        if reason is None:
            reason = quad.capability.slope_limiter.leg_reason
        if code & HAS_NEW_CONTACTS:
            quad.friction_model.apply()
        mode = LocomotionMode.from_code(code % CARRYING)
        if mode is MOVING and code & HAS_COMMAND:
            quad.gait_scheduler.gait = quad.gait
        elif mode is RECOVERING and self._last_mode is not RECOVERING:
            quad.gait_scheduler.gait = GAITS["trot"]
        self._last_mode = mode

        # Torques.
        carrying = carrying_feet(code)
        if calls.writes_tasks:
            calls.force_task.set_point_forces(FEET, calls.data.tasks.forces)
        else:
            self.footwork.update_references(quad.wbc.tasks, calls.data.motion.feet)
            quad.trunk.write_references()
        command = quad.wbc.compute(state, carrying)
        tau = command.tau.copy()
        if estimators.estimates_payload:
            tau += estimators.payload_torques(state, quad.tau, command)
        self.limit_torques(command, tau)
        return LocomotionCommand.from_tick(
            WalkDetails(calls.reports, self.footwork, self._margins, reason, carrying, measured_contacts),
            tau=tau,
            mode=mode,
            contacts=carrying,
            wbc_command=command,
            requested_velocity=requested,
            estimated_payload_mass=estimators.payload_mass,
            jump_plan=jump_plan,
        )

    def limit_torques(self, command: TickCommand, tau: Array) -> None:
        """Sets the torques for the motors, see `walker.finish_tick`.

        Args:
            command: command of the whole-body controller.
            tau: (nu,) its torques, plus those of a payload [N m]; overwritten.
        """
        assert self._calls is not None
        self._calls.finish_tick(command.start_inputs[1], command.values, command.ok, tau)
        self._quadruped.tau = tau

    # -- records -----------------------------------------------------------------------------------------------------
    @property
    def quadruped(self) -> Quadruped:
        """Components that all controllers of the robot share."""
        return self._quadruped

    @property
    def records(self) -> WalkerRecords:
        """The records of the controller, which change with the elements of the whole-body controller."""
        quad, records = self._quadruped, self._records
        if records is None or records.solver is not quad.wbc.solver:
            terms, foot_frames, update_terms = find_motion_terms(quad.wbc)
            records = WalkerRecords(
                Walker(
                    walk=self._make_data(),
                    landing=self.landing,
                    folding=self.leg_folding.state,
                    initial_footwork=self._initial_footwork,
                    motors=quad.torque_limiter.motors,
                    terms=terms,
                    foot_frames=foot_frames,
                    jacobian=quad.estimators.jacobian,
                    displacements=quad.displacements,
                ),
                quad.wbc.solver,
                update_terms,
            )
            self._records, self._calls = records, None
        return records

    def bind(self) -> WalkerCalls:
        """Returns the compiled functions, bound to the records of the controller."""
        records, calls = self.records, self._calls
        if calls is None:
            self._calls = calls = WalkerCalls(records, self._quadruped.wbc.tasks["forces"])
        return calls

    def _make_data(self) -> WalkData:
        """Returns the records of a tick on the ground."""
        quad, limits = self._quadruped, self._quadruped.capability.velocity_limits
        estimators, tasks = quad.estimators, quad.wbc.tasks
        feet = [tasks[foot] for foot in FEET]
        quad.trunk.attach_force_rows()
        parameters = WalkParameters.from_values(
            dt=quad.dt,
            lead_phase=quad.gait_scheduler.lead_phase,
            writes_tasks=quad.trunk.has_standard_tasks and all(type(task) is FootTask for task in feet),
            has_coupled_joints=quad.robot.coupling is not None,
            has_map=False,
            reads_map=False,
            lowering_fraction=float(quad.capability.slope_lowering),
            folds_legs=True,
        )
        return WalkData(
            parameters=parameters,
            body=limits.body,
            legs=limits.legs,
            gait_limits=limits.gait_limits(quad.gait),
            motion=self.motion.state,
            command=WalkCommand.allocate(velocity=3),
            slope=quad.capability.slope_limiter.state,
            progress=self._progress,
            steering=self._steering,
            gait=quad.gait_scheduler.state,
            path=quad.path_reference.state,
            ground=quad.ground.state,
            ground_contact=quad.contact_monitor.state,
            fall=quad.fall_detector,
            footwork=self.footwork.state,
            foot_contacts=self.footwork.contacts,
            balance=self._balance,
            contact_model=estimators.contact_model,
            contact_inputs=estimators.contact_inputs,
            contacts=estimators.contacts,
            friction_parameters=estimators.friction_parameters,
            friction_inputs=estimators.friction_inputs,
            slips=estimators.slips,
            friction=quad.friction_model.state,
            preview=quad.preview,
            reference=quad.com_reference,
            trunk=quad.trunk.state,
            mode=quad.mode_state,
            tasks=WalkTasks(
                com=tasks["com"].block,
                base=tasks["base"].block,
                fl=tasks["FL"].block,
                fr=tasks["FR"].block,
                rl=tasks["RL"].block,
                rr=tasks["RR"].block,
                forces=quad.trunk.force_rows,
            ),
            report=allocate_tick_report(),
        )

    def _walk_on_map(
        self,
        calls: WalkerCalls,
        foothold_map: FootholdMap,
        v: Array,
        reason: str,
        ignores_map: bool,
    ) -> tuple[int, str]:
        """Runs the stages of a tick on a terrain map.

        Args:
            calls: compiled stages.
            foothold_map: foothold map.
            v: (nv,) velocity.
            reason: text of the reason on slopes.
            ignores_map: whether the normals are those of the plane of the feet.

        Returns:
            Code of the tick, see `TickCode`, and the text of the reason for a limit of the velocity.
        """
        quad, data, footwork, motion = self._quadruped, calls.data, self.footwork, self.motion
        x, y, _ = motion.com
        ground, p, dt = quad.ground, quad.morphology, quad.dt
        calls.limit_command_on_ground()
        foothold_map.advance(x, y, dt)
        velocity, text = self._step_lookahead.clamp_velocity(
            quad.gait, data.command.velocity.copy(), "", foothold_map.window, (x, y), motion.yaw
        )
        if text:
            data.command.velocity[:], data.command.reason, reason = velocity, LimitReason.TERRAIN_STEP, text
        calls.steer()
        if not ignores_map:
            data.contact_inputs.normals[:] = quad.ground_normals(ground)
        footwork.read_ground(quad.gait_scheduler, ground, data.motion.feet, data.contact_inputs.normals, foothold_map)
        jacobian, terms = calls.walker.jacobian, calls.walker.terms
        calls.detect(jacobian.columns, jacobian.placements, terms.M, v, quad.tau)
        required_lowering = compute_required_lowering(
            data.body, self.max_leg_length, data.gait, data.path, data.ground, data.footwork.swings, x, y
        )
        times = ROUGH_SLOPE_TIME * p.time_scale, MAP_HEIGHT_TIME * p.time_scale, TRUNK_RISE_TIME * p.time_scale
        advance_on_map(ground.state, dt, *times, required_lowering)
        calls.plan_com_motion()
        footwork.advance_on_map(
            quad.gait_scheduler, quad.path_reference, ground, foothold_map, motion, self._balance, dt
        )
        return calls.decide(), reason


class WalkerRecords(NamedTuple):
    """Records of a controller.

    Attributes:
        walker: the records.
        solver: solver of the whole-body controller, whose parameters the records share.
        update_terms: function that computes the rigid-body terms of the records at (q, v).
    """

    walker: Walker
    solver: TickSolver
    update_terms: Callable[[Array, Array], Any]


class WalkerCalls:
    """Compiled functions of a controller, bound to its records.

    Args:
        records: the records.
        force_task: task "forces".

    Attributes:
        walker, update_terms: as in `records`.
        data: records of a tick on the ground.
        force_task: as given.
        reports: source of copies of the report of a tick.
        writes_tasks: whether the functions write the references of all tasks except "forces".
        has_coupled_joints: as in `WalkParameters`.
    """

    __slots__ = (
        "_has_map",
        "_reads_map",
        "begin_tick",
        "continue_tick",
        "data",
        "decide",
        "detect",
        "finish_landing",
        "finish_tick",
        "force_task",
        "has_coupled_joints",
        "limit_command_on_ground",
        "plan_com_motion",
        "reports",
        "steer",
        "update_terms",
        "walker",
        "writes_tasks",
    )

    def __init__(self, records: WalkerRecords, force_task: Any) -> None:
        self.walker, _, self.update_terms = records
        self.force_task = force_task
        self.data = data = self.walker.walk
        self.reports, self.writes_tasks = RecordSnapshot(data.report), data.parameters.writes_tasks
        self.has_coupled_joints = data.parameters.has_coupled_joints
        self._has_map = self._reads_map = False
        self.begin_tick, self.finish_tick = walker.begin_tick.bind(self.walker), walker.finish_tick.bind(self.walker)
        self.continue_tick = walker.continue_tick.bind(self.walker)
        self.finish_landing = walker.finish_landing.bind(self.walker)
        self.limit_command_on_ground = walking.limit_command_on_ground.bind(data)
        self.steer, self.detect = walking.steer.bind(data), walking.detect.bind(data)
        self.plan_com_motion, self.decide = walking.plan_com_motion.bind(data), walking.decide.bind(data)

    def set_map_known(self, is_known: bool, lowering_fraction: float) -> None:
        """Sets whether there is a terrain map; without one, it is not read.

        Args:
            is_known: whether there is a map.
            lowering_fraction: lowering of the trunk on slopes in that case, see `WalkParameters`.
        """
        if is_known is not self._has_map:
            self.data.parameters.has_map = self._has_map = is_known
            self.data.parameters.lowering_fraction = float(lowering_fraction)
            if not is_known:
                self.set_map_read(False)

    def set_map_read(self, is_read: bool) -> None:
        """Sets whether the normals of the ground are those of the terrain map."""
        if is_read is not self._reads_map:
            self.data.parameters.reads_map = self._reads_map = is_read
