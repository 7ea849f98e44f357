"""`GroundPhaseController`: control of a robot on the ground: standing, walking, recovering, rising or lying."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..dynamics import State
from ..urdf.tree import Array
from ..wbc.tasks import FootTask
from ..wbc.tick_solver import TickSolver
from . import walking
from .com_preview import update_com_reference
from .command import LocomotionCommand
from .contact_monitor import check_ground
from .estimators import DynamicsArrays
from .foothold_map import FootholdMap
from .footwork import Footwork, allocate_balance, compute_nominal_clearance, set_foot_references
from .friction_model import set_normals
from .gait import GAITS, advance_phase
from .ground_plane import advance_on_map, plane_height
from .jump_plan import JumpPlan
from .leg_margins import LegMargins
from .leg_reach import compute_required_lowering, measure_leg_lengths
from .modes import LocomotionMode, allocate_mode_state
from .morphology import FEET
from .motion import CentroidalState, MotionReader
from .progress_monitor import allocate_progress, reset_progress
from .quadruped import Quadruped
from .record_snapshot import RecordSnapshot
from .slope_limiter import SlopeEvaluation
from .steering import allocate_steering_state
from .step_lookahead import StepLookahead, find_edges
from .terrain_window import fit_planes
from .torque_limiter import clamp_torques
from .trunk_controller import KNOWN_SLOPE_LOWERING, write_task_references
from .velocity_limits import LimitReason, clamp_command
from .vertical_force import compute_force_profile
from .walk_details import WalkDetails
from .walk_start import begin_walk
from .walking import (
    ROUGH_SLOPE_TIME,
    TickBuffers,
    TickCode,
    WalkCommand,
    WalkData,
    WalkParameters,
    WalkTasks,
    allocate_tick_report,
)

#: Names of the feet by the mask of `TickCode.CARRYING`.
CARRYING_FEET = tuple(tuple(foot for i, foot in enumerate(FEET) if mask >> i & 1) for mask in range(1 << len(FEET)))
#: Time constants of the height of the ground on a map, and of the rise of a trunk that was lowered for its legs: on
#: stairs the next step needs it low as well [sqrt(l/g)].
MAP_HEIGHT_TIME, TRUNK_RISE_TIME = 0.25, 2.0


#: Modes whose ticks this controller computes.
GROUND_MODES = frozenset(
    (
        LocomotionMode.STARTING, LocomotionMode.LYING, LocomotionMode.RISING, LocomotionMode.STANDING,
        LocomotionMode.MOVING, LocomotionMode.RECOVERING, LocomotionMode.LOWERING, LocomotionMode.CROUCHING,
    )
)  # fmt: skip


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
        max_leg_length: (4,) maximum distance of a foot from its leg's first joint [m].
        mode_state: conditions of the changes of the mode on the ground.
    """

    __slots__ = (
        "_balance",
        "_calls",
        "_margins",
        "_progress",
        "_quadruped",
        "_steering",
        "_step_lookahead",
        "footwork",
        "initial_footwork",
        "max_leg_length",
        "mode_state",
    )

    _calls: WalkCalls | None

    def __init__(self, quadruped: Quadruped) -> None:
        quad, p = quadruped, quadruped.morphology
        self._quadruped = quad
        self.max_leg_length = measure_leg_lengths(quad.robot)
        self._margins = LegMargins(quad.robot, p, self.max_leg_length)
        self._step_lookahead = StepLookahead(quad.robot, p, quad.capability.velocity_limits)
        self._steering, self._progress = allocate_steering_state(quad.dt), allocate_progress(quad.dt, p.time_scale)
        self.mode_state = allocate_mode_state()
        self.footwork = Footwork(p, self.max_leg_length)
        self.initial_footwork = self.footwork.state.copy()
        self._balance, self._calls = allocate_balance(), None

    @staticmethod
    def warmup() -> None:
        """Compiles all compiled functions of the controller."""
        for function in (
            walking.walk,
            advance_phase,
            compute_force_profile,
            plane_height,
            compute_nominal_clearance,
            write_task_references,
            update_com_reference,
            set_normals,
            clamp_torques,
            set_foot_references,
            fit_planes,
            find_edges,
            begin_walk,
            check_ground,
            clamp_command,
        ):
            function.compile()

    def begin(self, motion: CentroidalState) -> None:
        """Initializes all components at the first tick, or at the first one after a fall."""
        quad = self._quadruped
        self._step_lookahead.reset()
        quad.capability.velocity_limits.gait_limits(quad.gait)
        lowering_fraction = quad.capability.slope_lowering if quad.foothold_map is None else KNOWN_SLOPE_LOWERING
        mode = begin_walk(self.bind(motion).data, self.initial_footwork, float(lowering_fraction))
        self.footwork.restart()
        quad.mode, quad.has_started = LocomotionMode.from_code(mode), True
        quad.gait_scheduler.gait = quad.gait if quad.gait.has_swing_phase else GAITS["trot"]

    def accept_commands(self) -> None:
        """Makes every command be followed again, also one with which the robot was stuck."""
        reset_progress.python(self._progress)

    def observe(self, motion: CentroidalState, measured_contacts: tuple[str, ...] | None) -> int:
        """Filters the velocity that determines footholds, and detects lost ground and falls; call it at every tick.

        Args:
            motion: present state of center of mass and trunk.
            measured_contacts: names of the feet in contact; None without foot sensors.

        Returns:
            The result of `walking.observe`.
        """
        quad, is_measured = self._quadruped, measured_contacts is not None
        if measured_contacts is not None:
            quad.contact_monitor.set_measured_contacts(measured_contacts)
        code: int = self.bind(motion).observe(int(quad.mode.code), is_measured)
        return code

    # -- one tick --------------------------------------------------------------------------------------------------
    def begin_blind_tick(
        self, reader: MotionReader, state: State, requested: Array, measured_contacts: tuple[str, ...] | None
    ) -> int | None:
        """Computes a tick up to the references of the whole-body controller, in blind locomotion on the ground.

        Args:
            reader: motion reader; its `motion` is updated.
            state: present state of the robot.
            requested: (3,) requested velocity [m/s, rad/s], heading frame.
            measured_contacts: names of the feet in contact; None without foot sensors.

        Returns:
            The result of `walking.walk_blind`; None if it was not called, and `compute` must compute the whole tick.
        """
        quad, estimators = self._quadruped, self._quadruped.estimators
        if not quad.has_started or quad.foothold_map is not None or quad.mode not in GROUND_MODES:
            return None
        if estimators.jacobian is None or estimators.estimates_payload:
            return None
        q, v = state.writable_coordinates()
        calls = self.bind(reader.motion)
        if calls.walk_blind is None:
            reader.bind()
            walk_state = TickBuffers(reader.terms, reader.foot_frames, estimators.jacobian, quad.displacements)
            calls.walk_blind = walking.walk_blind.bind(calls.data, walk_state)
        estimators.set_measured_contacts(measured_contacts)
        if measured_contacts is not None:
            quad.contact_monitor.set_measured_contacts(measured_contacts)
        self.footwork.set_map_known(False)
        if calls.reads_map:
            calls.data.parameters.reads_map = calls.reads_map = False
        quad.capability.velocity_limits.gait_limits(quad.gait)
        reader.update_terms(q, v)
        code: int = calls.walk_blind(q, v, quad.tau, requested, int(quad.mode.code), quad.wbc.friction)
        return code

    def compute(
        self,
        state: State,
        motion: CentroidalState,
        requested: Array,
        measured_contacts: tuple[str, ...] | None,
        jump_plan: JumpPlan | None,
        evaluation: int | None = None,
    ) -> LocomotionCommand:
        """Computes the command of one tick on the ground, stage by stage.

        Args:
            state: present state of the robot.
            motion: present state of center of mass and trunk.
            requested: (3,) requested forward and leftward speed [m/s] and yaw rate [rad/s], heading frame.
            measured_contacts: names of the feet in contact; None without foot sensors.
            jump_plan: plan of a jump for which it crouches: the robot is then assumed to stand on a plane, since it is
                often right before an edge that the map smooths.
            evaluation: `SlopeEvaluation` if `begin_blind_tick` has already limited the command.
        """
        quad, estimators, foothold_map = self._quadruped, self._quadruped.estimators, self._quadruped.foothold_map
        calls = self.bind(motion)
        reason = self._limit_command(calls, requested, evaluation)
        estimators.set_measured_contacts(measured_contacts)
        arrays = estimators.read_dynamics(state)
        self.footwork.set_map_known(foothold_map is not None)
        calls.reads_map = foothold_map is not None and jump_plan is None
        calls.data.parameters.reads_map = calls.reads_map
        if foothold_map is None:
            code = calls.walk(*arrays, quad.tau)
        else:
            code, reason = self._walk_on_map(calls, foothold_map, motion, arrays, reason, jump_plan is not None)
        return self.finish_tick(code, state, requested, measured_contacts, jump_plan, reason)

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
        quad, estimators, mode, calls = self._quadruped, self._quadruped.estimators, self._quadruped.mode, self._calls
        friction_model = quad.friction_model
        assert calls is not None
        if reason is None:
            reason = quad.capability.slope_limiter.leg_reason
        if code & TickCode.HAS_NEW_CONTACTS:
            friction_model.apply()
        quad.mode = LocomotionMode.from_code(code % TickCode.CARRYING)
        if quad.mode is LocomotionMode.MOVING and code & TickCode.HAS_COMMAND:
            quad.gait_scheduler.gait = quad.gait
        elif quad.mode is LocomotionMode.RECOVERING and mode is not LocomotionMode.RECOVERING:
            quad.gait_scheduler.gait = GAITS["trot"]

        # Torques.
        carrying = CARRYING_FEET[code // TickCode.CARRYING % len(CARRYING_FEET)]
        if calls.writes_tasks:
            calls.force_task.set_point_forces(FEET, calls.data.tasks.forces)
        else:
            self.footwork.update_references(quad.wbc.tasks, calls.data.motion.feet)
            quad.trunk.write_references()
        command = quad.wbc.compute(state, carrying)
        tau = estimators.add_torques(state, quad.tau, command)
        damps_only = not command.ok and friction_model.is_slippery
        quad.tau = quad.torque_limiter.damping_torque(state) if damps_only else quad.torque_limiter.clamp(tau, state)
        return LocomotionCommand.from_tick(
            WalkDetails(calls.report, self.footwork.take_snapshot(self._margins), reason, carrying, measured_contacts),
            tau=quad.tau,
            mode=quad.mode,
            contacts=carrying,
            wbc_command=command,
            requested_velocity=requested,
            estimated_payload_mass=estimators.payload_mass,
            jump_plan=jump_plan,
        )

    def bind(self, motion: CentroidalState) -> WalkCalls:
        """Returns the compiled stages, bound to the records of the controller."""
        quad = self._quadruped
        calls, solver = self._calls, quad.wbc.solver
        if calls is None or calls.motion is not motion or calls.solver is not solver:
            self._calls = calls = WalkCalls(motion, solver, self.make_data(motion), quad.wbc.tasks["forces"])
        return calls

    def make_data(self, motion: CentroidalState) -> WalkData:
        """Returns the records of the controller."""
        quad, limits = self._quadruped, self._quadruped.capability.velocity_limits
        estimators, tasks = quad.estimators, quad.wbc.tasks
        feet = [tasks[foot] for foot in FEET]
        parameters = WalkParameters.from_values(
            dt=quad.dt,
            lead_phase=quad.gait_scheduler.lead_phase,
            writes_tasks=quad.trunk.has_standard_tasks and all(type(task) is FootTask for task in feet),
            has_coupled_joints=quad.robot.coupling is not None,
            reads_map=False,
        )
        return WalkData(
            parameters=parameters,
            body=limits.body,
            legs=limits.legs,
            gait_limits=limits.gait_limits(quad.gait),
            motion=motion.state,
            command=WalkCommand.allocate(velocity=3),
            slope=quad.capability.slope_limiter.state,
            progress=self._progress,
            steering=self._steering,
            gait=quad.gait_scheduler.state,
            path=quad.path_reference.state,
            ground=quad.ground.state,
            ground_contact=quad.contact_monitor.state,
            measured_contacts=quad.contact_monitor.measured_contacts,
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
            mode=self.mode_state,
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

    def _limit_command(self, calls: WalkCalls, requested: Array, evaluation: int | None) -> str:
        """Clamps the command to the limits of gait and legs, and returns the text of the reason on slopes.

        Args:
            calls: compiled stages.
            requested: (3,) requested velocity [m/s, rad/s], heading frame.
            evaluation: `SlopeEvaluation` if the command is clamped already.
        """
        quad, data = self._quadruped, calls.data
        limits, limiter = quad.capability.velocity_limits, quad.capability.slope_limiter
        limits.gait_limits(quad.gait)
        if evaluation is None:
            evaluation = calls.limit_command(requested, int(quad.mode.code), quad.wbc.friction)
        if evaluation != SlopeEvaluation.NONE:
            velocity, timing = data.command.velocity, data.gait_limits.timing
            limiter.advance_evaluation(evaluation, quad.gait, timing, velocity, quad.torque_limiter.limits)
        return limiter.leg_reason

    def _walk_on_map(
        self,
        calls: WalkCalls,
        foothold_map: FootholdMap,
        motion: CentroidalState,
        arrays: DynamicsArrays,
        reason: str,
        ignores_map: bool,
    ) -> tuple[int, str]:
        """Runs the stages of a tick on a terrain map.

        Args:
            calls: compiled stages.
            foothold_map: foothold map.
            motion: present state of center of mass and trunk.
            arrays: Jacobians, placements, inertia and velocity of the robot.
            reason: text of the reason on slopes.
            ignores_map: whether the normals are those of the plane of the feet.

        Returns:
            Code of the tick, see `TickCode`, and the text of the reason for a limit of the velocity.
        """
        quad, data, footwork, (x, y, _) = self._quadruped, calls.data, self.footwork, motion.com
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
        calls.detect(*arrays, quad.tau)
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


class WalkCalls:
    """Compiled stages of a tick, bound to records.

    Args:
        motion: state of center of mass and trunk whose record is in `data`.
        solver: solver of the whole-body controller, views of whose parameters are in `data`.
        data: the records.
        force_task: task "forces".

    Attributes:
        motion, solver, data, force_task: as given.
        walk_blind: all stages in one call, bound at the first tick of blind locomotion; None before.
        reads_map: whether the normals of the ground are those of the terrain map, as in `WalkParameters`.
        report: source of copies of the report of a tick.
        writes_tasks: whether the stages write the references of all tasks but the record of the forces.
    """

    __slots__ = (
        "data",
        "decide",
        "detect",
        "force_task",
        "limit_command",
        "limit_command_on_ground",
        "motion",
        "observe",
        "plan_com_motion",
        "reads_map",
        "report",
        "solver",
        "steer",
        "walk",
        "walk_blind",
        "writes_tasks",
    )

    def __init__(self, motion: CentroidalState, solver: TickSolver, data: WalkData, force_task: Any) -> None:
        self.motion, self.solver, self.data, self.force_task = motion, solver, data, force_task
        self.walk_blind: Callable[..., int] | None = None
        self.reads_map = data.parameters.reads_map
        self.report, self.writes_tasks = RecordSnapshot(data.report), data.parameters.writes_tasks
        self.observe = walking.observe.bind(data)
        self.limit_command = walking.limit_command.bind(data)
        self.limit_command_on_ground = walking.limit_command_on_ground.bind(data)
        self.steer, self.detect = walking.steer.bind(data), walking.detect.bind(data)
        self.plan_com_motion, self.decide = walking.plan_com_motion.bind(data), walking.decide.bind(data)
        self.walk = walking.walk.bind(data)
