"""`GroundPhaseController`: control of a robot on the ground: standing, walking, recovering, rising or lying."""

from __future__ import annotations

import numpy as np

from ..dynamics import State
from ..urdf.tree import Array
from .centroidal_state import CentroidalState
from .com_preview_kernel import update_com_reference
from .command import LocomotionCommand
from .fall_detection import update_fall_detection
from .foot_tasks import set_foot_references
from .foothold_kernel import fit_planes
from .footwork import Footwork
from .footwork_state import run_contact_update
from .force_profile import compute_force_profile
from .gait import GaitScheduler
from .gait_timing import advance_phase
from .ground_contact import check_ground
from .ground_normals import write_ground_normals
from .ground_plane import SLOPE_TIME, GroundPlane
from .ground_state import compute_plane_height
from .jump_plan import JumpPlan
from .leg_margins import LegMargins
from .mode_decisions import next_mode
from .mode_transitions import ModeTransitions
from .modes import LocomotionMode
from .morphology import FEET
from .motion import read_motion
from .path_motion import advance_path_reference
from .path_reference import PathReference
from .progress_averages import filter_command
from .progress_monitor import ProgressMonitor
from .quadruped import Quadruped
from .slope_clamping import update_slope
from .steering import Steering
from .steering_motion import update_steering
from .step_lookahead import StepLookahead
from .step_lookahead_kernel import find_edges
from .step_rate import adapt_step_timing
from .tick_displacements import measure_tick_period
from .torque_clamping import clamp_torques
from .trunk_controller import TrunkController, compute_slope_lowering
from .trunk_height_limiter import TrunkHeightLimiter
from .trunk_references import KNOWN_SLOPE_LOWERING, update_trunk_references
from .velocity_clamping import clamp_command

# Times in sqrt(l / g).
#: Time constant of the velocity filter for the footholds.
VELOCITY_FILTER_TIME = 0.2
#: Time constants of the slope on a map or on rough ground; of the height on a map; and of the rise of a trunk that was
#: lowered for its legs: on stairs the next step needs it low as well.
MAP_SLOPE_TIME, MAP_HEIGHT_TIME, TRUNK_RISE_TIME = 0.75, 0.25, 2.0


class GroundPhaseController:
    """Control from a velocity command to footholds, center-of-mass motion and torques.

    One tick (`compute`): the path reference follows the command (`Steering`), the contacts and the plane of the feet
    are updated (`Footwork`), the coming footfalls determine the motion of the center of mass (`ComPreview`), its error
    corrects the next footholds and decides about the mode (`ModeTransitions`), and the whole-body controller computes
    the torques.

    Args:
        quadruped: shared state of the robot.

    Attributes:
        footwork: contact states and swing feet; available after the first tick.
        progress_monitor: detector of a robot that does not follow the command.
        transitions: transitions between the modes on the ground.
    """

    __slots__ = (
        "_filtered_velocity",
        "_height_limiter",
        "_margins",
        "_quadruped",
        "_steering",
        "_step_lookahead",
        "footwork",
        "progress_monitor",
        "transitions",
    )

    footwork: Footwork
    _filtered_velocity: tuple[float, float]

    def __init__(self, quadruped: Quadruped) -> None:
        quad, p = quadruped, quadruped.morphology
        self._quadruped = quad
        self._height_limiter = TrunkHeightLimiter(quad.robot, p)
        self._margins = LegMargins(quad.robot, p, self._height_limiter.max_leg_length)
        self._step_lookahead = StepLookahead(quad.robot, p, quad.capability.velocity_limits)
        self._steering = Steering(p, quad.capability.velocity_limits, quad.dt)
        self.transitions, self.progress_monitor = ModeTransitions(p), ProgressMonitor(p, quad.dt)

    @property
    def max_leg_length(self) -> Array:
        """(4,) maximum distance of a foot from its leg's first joint [m]."""
        return self._height_limiter.max_leg_length

    @staticmethod
    def warmup() -> None:
        """Compiles all compiled functions of the controller."""
        for function in (
            advance_phase,
            compute_force_profile,
            advance_path_reference,
            update_com_reference,
            compute_plane_height,
            update_trunk_references,
            clamp_torques,
            run_contact_update,
            set_foot_references,
            fit_planes,
            find_edges,
            read_motion,
            check_ground,
            write_ground_normals,
            update_fall_detection,
            clamp_command,
            update_slope,
            filter_command,
            update_steering,
            adapt_step_timing,
            next_mode,
            measure_tick_period,
        ):
            function.compile()

    def begin(self, motion: CentroidalState) -> None:
        """Initializes all components at the first tick, or at the first one after a fall."""
        quad, p = self._quadruped, self._quadruped.morphology
        quad.ground = ground = GroundPlane.from_feet(motion.feet, p.radii, SLOPE_TIME * p.time_scale)
        quad.path_reference = PathReference(ground.points[:, :2].mean(axis=0), motion.yaw)
        quad.gait_scheduler = GaitScheduler(quad.gait if quad.gait.has_swing_phase else "trot", p.time_scale)
        self.footwork = Footwork(p, self._height_limiter.max_leg_length)
        self._filtered_velocity = motion.velocity[:2]
        self._steering.reset()
        self.progress_monitor.reset()
        self._step_lookahead.reset()
        slope_lowering = quad.capability.slope_lowering if quad.foothold_map is None else KNOWN_SLOPE_LOWERING
        lowering = compute_slope_lowering(p, ground.axes(motion.yaw), slope_lowering)
        height, com_offset = self.transitions.initial_trunk_state(motion, ground, lowering, quad.path_reference)
        quad.trunk.restore_base_weight()
        quad.trunk = TrunkController(
            p, quad.wbc, quad.friction_model, height, com_offset, quad.capability.slope_lowering
        )
        quad.mode = LocomotionMode.RISING if height < p.height or any(com_offset) else LocomotionMode.STANDING
        if height != p.height or any(com_offset):
            quad.trunk.go_to(p.height)

    def update_velocity_filter(self, motion: CentroidalState) -> None:
        """Updates the filtered horizontal velocity that determines footholds; call it at every tick."""
        quad, (a, b), (u, v, _) = self._quadruped, self._filtered_velocity, motion.velocity
        alpha = min(1.0, quad.dt / (VELOCITY_FILTER_TIME * quad.morphology.time_scale))
        self._filtered_velocity = a + alpha * (u - a), b + alpha * (v - b)

    def _is_obstructed(self) -> bool:
        """Returns whether an unknown obstacle or slipping feet block the robot."""
        reflex, quad = self.footwork.stumble_reflex, self._quadruped
        return bool(reflex.has_met_obstacle or quad.friction_model.is_slippery or quad.estimators.slipping_feet)

    def compute(
        self,
        state: State,
        motion: CentroidalState,
        requested: Array,
        measured_contacts: tuple[str, ...] | None,
        jump_plan: JumpPlan | None,
    ) -> LocomotionCommand:
        """Computes the command of one tick on the ground.

        Args:
            state: present state of the robot.
            motion: present state of center of mass and trunk.
            requested: (3,) requested forward and leftward speed [m/s] and yaw rate [rad/s], heading frame.
            measured_contacts: names of the feet in contact; None without foot sensors.
            jump_plan: plan of a jump for which it crouches: the robot is then assumed to stand on a plane, since it is
                often right before an edge that the map smooths.
        """
        quad, footwork = self._quadruped, self.footwork
        ground, scheduler, path, foothold_map, trunk = (
            quad.ground,
            quad.gait_scheduler,
            quad.path_reference,
            quad.foothold_map,
            quad.trunk,
        )
        assert ground is not None
        p, dt, friction_model, estimators = quad.morphology, quad.dt, quad.friction_model, quad.estimators
        feet, (x, y, _) = motion.feet, motion.com

        # Velocity within all limits, and path reference.
        velocity, limit_reason = quad.capability.velocity_limits.clamp_velocity(quad.gait, requested)
        velocity, slope_reason = quad.capability.clamp_velocity_on_ground(
            quad.gait, velocity, friction_model, motion.yaw
        )
        limit_reason = slope_reason or limit_reason
        if foothold_map is not None:
            foothold_map.advance(x, y, dt)
            velocity, limit_reason = self._step_lookahead.clamp_velocity(
                quad.gait, velocity, limit_reason, foothold_map.window, (x, y), motion.yaw
            )
        velocity, limit_reason = self.progress_monitor.filter_command(
            velocity, limit_reason, motion, motion.angular_velocity[2]
        )
        is_stepping = quad.mode in (LocomotionMode.MOVING, LocomotionMode.RECOVERING) and scheduler.phase >= 0.0
        path_command = velocity if is_stepping else np.zeros(3)
        self._steering.update_speed_averages(path, motion.velocity)
        is_obstructed = self._is_obstructed()
        self._steering.update_velocity(
            path,
            ground,
            quad.gait,
            path_command,
            friction_model.friction,
            is_transitioning=scheduler.is_transitioning,
            is_obstructed=is_obstructed,
        )
        if scheduler.rate_scale > 1.0 or not footwork.is_waiting_for_touchdown(
            scheduler
        ):  # after a push the gait does not wait for late touchdowns
            scheduler.advance(dt)
        path.advance(dt)

        # Contacts, and the ground under them.
        normals = quad.ground_normals(ground, ignore_map=jump_plan is not None)
        blocked, has_flight_phase = (
            footwork.find_blocked_feet(feet, normals),
            not scheduler.has_constant_force,
        )
        contacts = estimators.detect_contacts(
            state,
            quad.tau,
            quad.normals,
            measured_contacts,
            blocked,
            footwork.mid_swing_feet,
            has_flight_phase=has_flight_phase,
        )
        carrying = footwork.update_contacts(
            scheduler, ground, feet, normals, contacts, dt, foothold_map, estimators.forces,
            uncertainty=estimators.uncertainty, model_mismatch=measured_contacts is None and estimators.model_mismatch,
        )  # fmt: skip
        friction_model.set_normals(quad.normals)
        # On a slope at the friction limit feet creep, which gives no estimate of the friction.  On rough ground a
        # single foot may scrape along an edge.  During slip, the deviation from the plan must not be classified as
        # roughness.
        is_rough = footwork.stumble_reflex.extra_clearance > 0.0 and not friction_model.is_slippery
        estimators.update_friction(
            state, footwork.grounded_feet, lower_bound=not friction_model.is_steep, rough=is_rough
        )
        if foothold_map is None:
            ground.advance(dt, MAP_SLOPE_TIME * p.time_scale if footwork.stumble_reflex.extra_clearance else None)
        else:
            required_lowering = self._height_limiter.required_lowering(scheduler, path, ground, footwork.swings, (x, y))
            ground.advance_on_map(
                dt,
                MAP_SLOPE_TIME * p.time_scale,
                MAP_HEIGHT_TIME * p.time_scale,
                TRUNK_RISE_TIME * p.time_scale,
                required_lowering,
            )

        # Center-of-mass motion and footholds.
        stance = p.nominal_stance * scheduler.footprint_scale @ ground.compute_projection(path.yaw).T
        reference = quad.preview.reference(scheduler, path, ground.points[:, :2], stance, trunk.com_offset)
        error = reference.dcm_error((x, y), self._filtered_velocity)
        self._steering.limit_reference_lead(path, error, motion.yaw)
        footwork.advance(
            scheduler,
            path,
            ground,
            foothold_map,
            reference,
            error,
            motion,
            self._filtered_velocity,
            stance,
            dt,
        )
        quad.mode = self.transitions.next_mode(
            quad.mode, quad.gait, velocity, error, feet, stance, scheduler, path, trunk, quad.contact_monitor
        )

        # Torques.
        footwork.update_references(quad.wbc.tasks, feet)
        is_stepping_fast = scheduler.rate_scale > 1.0
        trunk.update_references(
            reference, path, ground, motion.com, motion.velocity, motion.R_base, dt, is_stepping_fast=is_stepping_fast
        )
        command = quad.wbc.compute(state, carrying)
        tau = estimators.add_payload_torques(state, quad.tau, command)
        damps_only = not command.ok and friction_model.is_slippery
        quad.tau = quad.torque_limiter.damping_torque(state) if damps_only else quad.torque_limiter.clamp(tau, state)
        snapshot = footwork.take_snapshot(self._margins)
        return LocomotionCommand(
            quad.tau,
            quad.mode,
            carrying,
            command,
            reference.cop,
            requested,
            velocity,
            path.velocity.copy(),
            limit_reason,
            snapshot.swings,
            contacts,
            estimators.payload_mass,
            estimators.slipping_feet,
            friction_model.friction,
            jump_plan,
            snapshot.footholds,
            {foot: normals[i] for i, foot in enumerate(FEET) if foot in carrying},
            estimators.model_mismatch,
        )
