"""`FlightPhaseController`: jumps, loss of the ground, and the landing after either."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ..dynamics import State
from ..errors import ArgumentError
from ..urdf.tree import Array
from .arguments import validate_jump
from .command import JUMPS, NO_GROUND, LocomotionCommand
from .contact_monitor import MIN_STANCE_FEET
from .ground_phase import GroundPhaseController
from .jump_execution import JumpExecution, make_yaw_rotation
from .jump_plan import JumpPlan
from .jump_planner import LocalTerrain
from .landing import (
    balance_landing,
    begin_landing,
    begin_stop,
    detect_touchdowns,
    extend_legs,
    make_landing_state,
    prepare_landing,
    restore_com_weight,
    stop_fall,
    write_landing_references,
)
from .modes import LocomotionMode
from .morphology import FEET
from .motion import CentroidalState
from .quadruped import Quadruped
from .walk_start import is_in_the_air
from .walking import OBSERVED_LOST_GROUND, OBSERVED_SUPPORT, WalkData

#: Maximum slope of the ground for a jump, and duration of the crouch before it [sqrt(l/g)].
MAX_JUMP_SLOPE, CROUCH_TIME = 0.1, 3.0
#: Maximum distance of a foot from the mapped terrain at which it counts as in contact at the first tick [l].
MAX_GROUND_DISTANCE = 0.02


class FlightPhaseController:
    """Control from the crouch before a jump, or from the loss of the ground, to the stance after it.

    A robot that loses the ground while it stands or rises, or that starts in the air, lands on its feet (`landing`); in
    a jump (`JumpExecution`) push-off and flight come first.  If the whole-body controller has no solution for a
    landing, the motors only damp, and the command is not `ok`.

    Args:
        quadruped: shared state of the robot.
        walking: controller of the robot on the ground, whose records are used.

    Attributes:
        landing: state of legs and trunk from the loss of the ground on.
    """

    __slots__ = ("_jump", "_quadruped", "_walking", "landing")

    def __init__(self, quadruped: Quadruped, walking: GroundPhaseController) -> None:
        self._quadruped, self._walking = quadruped, walking
        self.landing = make_landing_state(walking.max_leg_length)
        self._jump: JumpExecution | None = None

    @property
    def jump_plan(self) -> JumpPlan | None:
        """Plan of the jump in progress; None without one."""
        return None if self._jump is None else self._jump.plan

    def plan_jump(self, height: float | None, distance: Sequence[float] | Array, turn: float) -> JumpPlan:
        """Plans a jump; see `LocomotionController.plan_jump`."""
        quad, requested = self._quadruped, validate_jump(height, distance, turn)
        return quad.capability.jump_planner.plan(*requested, quad.friction_model.friction, self._local_terrain())

    def begin_jump(self, height: float | None, distance: Sequence[float] | Array, turn: float) -> JumpPlan:
        """Starts a jump; see `LocomotionController.jump`."""
        quad, name = self._quadruped, self._quadruped.robot.name
        if quad.mode not in (LocomotionMode.STANDING, LocomotionMode.STARTING) or not quad.has_started:
            state_text = (
                "has not computed its first tick" if not quad.has_started else f"is in the mode {quad.mode.value!r}"
            )
            raise ArgumentError(f"jump: {name!r} {state_text}, but a jump can only start while the robot stands")
        if math.hypot(*quad.ground.slope.tolist()) > MAX_JUMP_SLOPE:
            raise ArgumentError(f"jump: {name!r} stands on a slope, but a jump can only start on level ground")
        plan = self.plan_jump(height, distance, turn)
        origin, yaw = quad.ground.points.mean(axis=0), quad.path_reference.yaw
        self._jump = jump = JumpExecution(
            plan, quad.morphology, quad.wbc, origin, yaw, quad.capability.jump_acceleration_ratio
        )
        quad.trunk.go_to(plan.crouch_com_height, jump.com_offset, CROUCH_TIME)
        quad.mode = LocomotionMode.CROUCHING
        return plan

    def _local_terrain(self) -> LocalTerrain | None:
        """Returns the terrain heights relative to the stance, in heading axes; None in blind locomotion."""
        foothold_map, ground = self._quadruped.foothold_map, self._quadruped.ground
        if foothold_map is None or not self._quadruped.has_started:
            return None
        R, (x, y, z) = make_yaw_rotation(self._quadruped.path_reference.yaw), ground.points.mean(axis=0).tolist()
        return lambda u, v: foothold_map.heights(x + R[0, 0] * u + R[0, 1] * v, y + R[1, 0] * u + R[1, 1] * v) - z

    def end_jump(self) -> None:
        """Ends a jump, if one is in progress."""
        if self._jump is not None:
            self._jump.restore_limits()
            self._jump = None

    def end(self) -> None:
        """Ends jump and landing, after a fall."""
        self.end_jump()
        self._restore_com_weight()

    def _restore_com_weight(self) -> None:
        """Restores the weight of the task "com" of a robot on the ground."""
        restore_com_weight(self.landing, self._quadruped.wbc.tasks["com"].block)

    # -- loss of ground contact ----------------------------------------------------------------------------------
    def classify_start(self, motion: CentroidalState, measured_contacts: tuple[str, ...] | None) -> None:
        """Decides at the first tick whether the robot is on the ground, in the air, or still "starting".

        Feet that are far from a common plane have no ground under them.  Foot sensors without any contact may not have
        been read yet.

        Args:
            motion: present state of center of mass and trunk.
            measured_contacts: names of the feet in contact; None without foot sensors.
        """
        quad, foothold_map = self._quadruped, self._quadruped.foothold_map
        self._restore_com_weight()
        if is_in_the_air(self._walking.bind(motion).data):
            self._begin_landing(motion)
        elif quad.mode is LocomotionMode.STANDING and not (
            measured_contacts is not None and len(measured_contacts) >= MIN_STANCE_FEET
        ):
            feet = motion.feet
            bottoms = feet[:, 2] - quad.morphology.radii
            gaps = (
                np.full(4, np.inf)
                if foothold_map is None
                else np.abs(bottoms - foothold_map.heights(feet[:, 0], feet[:, 1]))
            )
            if not (gaps <= MAX_GROUND_DISTANCE * quad.morphology.length).all():
                quad.mode = LocomotionMode.STARTING

    def change_ground(self, motion: CentroidalState, observed: int) -> int:
        """Changes the mode where the ground is lost, or is found to carry the robot; returns the `FallSign`.

        Args:
            motion: present state of center of mass and trunk.
            observed: result of `walking.observe`.
        """
        quad = self._quadruped
        if observed >= OBSERVED_LOST_GROUND:
            self.end_jump()
            self._begin_landing(motion)
            return observed - OBSERVED_LOST_GROUND
        quad.mode = LocomotionMode.STANDING
        return observed - OBSERVED_SUPPORT

    def _begin_landing(self, motion: CentroidalState, distance: float = 0.0) -> None:
        """Switches to the mode "airborne" and prepares the landing.

        Args:
            motion: present state of center of mass and trunk.
            distance: minimum vertical distance over which the legs stop the fall [m].
        """
        self._quadruped.mode = LocomotionMode.AIRBORNE
        begin_landing(self.landing, self._walking.bind(motion).data, float(distance))

    def _set_foot_references(self, data: WalkData) -> None:
        """Sets the references of the feet in flight and landing."""
        landing, tasks = self.landing, self._quadruped.wbc.tasks
        if data.parameters.writes_tasks:
            write_landing_references(landing, data)
            return
        for foot, position, velocity in zip(FEET, landing.positions.copy(), landing.velocities.copy(), strict=True):
            tasks[foot].reference(position, velocity, landing.acceleration)

    # -- one tick ------------------------------------------------------------------------------------------------
    def compute_jump(self, state: State, motion: CentroidalState, requested: Array) -> LocomotionCommand:
        """Computes the command of one tick of the push-off, or of the flight until touchdowns are expected.

        Args:
            state: present state of the robot.
            motion: present state of center of mass and trunk.
            requested: (3,) requested velocity, which has no effect meanwhile [m/s, rad/s].
        """
        quad, jump, carrying = self._quadruped, self._jump, tuple(FEET)
        assert jump is not None
        quad.estimators.pause()
        if jump.is_pushing:
            jump.push(state, quad.dt)
        else:
            carrying = ()
            self._fly(state, motion, jump)
            if jump.expects_touchdown(motion.velocity[2]):
                # like the push-off in reverse
                self._begin_landing(motion, jump.plan.touchdown_com_height - jump.plan.crouch_com_height)
        command = quad.wbc.compute(state, carrying)
        quad.tau = quad.torque_limiter.clamp(quad.estimators.add_rotor_torques(command), state)
        zero_velocity, cop = np.zeros(3), quad.path_reference.position.copy()
        return LocomotionCommand(
            quad.tau, quad.mode, carrying, command, cop, requested, zero_velocity, zero_velocity,
            jump.plan.limit_reason or JUMPS, {}, friction=quad.friction_model.friction, jump_plan=jump.plan,
        )  # fmt: skip

    def compute_landing(
        self, state: State, motion: CentroidalState, requested: Array, measured_contacts: tuple[str, ...] | None
    ) -> LocomotionCommand:
        """Computes the command of one tick in the air, or between touchdown and stance.

        Args:
            state: present state of the robot.
            motion: present state of center of mass and trunk.
            requested: (3,) requested velocity, which has no effect meanwhile [m/s, rad/s].
            measured_contacts: names of the feet in contact; None without foot sensors.
        """
        quad, landing, data = self._quadruped, self.landing, self._walking.bind(motion).data
        quad.estimators.pause_payload()
        arrays = quad.estimators.read_dynamics(state, is_landing=True)
        detect_touchdowns(landing, data, *arrays, quad.tau, measured_contacts is not None)
        carrying = tuple(foot for foot, in_contact in zip(FEET, landing.in_contact.tolist(), strict=True) if in_contact)
        cop = self._stop_fall(motion) if carrying else self._extend_legs(state, motion)
        command = quad.wbc.compute(state, carrying)
        quad.tau = (
            quad.torque_limiter.clamp(quad.estimators.add_rotor_torques(command), state)
            if command.ok
            else quad.torque_limiter.damping_torque(state)
        )
        zero_velocity, friction = np.zeros(3), quad.friction_model.friction
        return LocomotionCommand(
            quad.tau, quad.mode, carrying, command, cop, requested, zero_velocity, zero_velocity, NO_GROUND, {},
            friction=friction, jump_plan=self.jump_plan,
        )  # fmt: skip

    def _fly(self, state: State, motion: CentroidalState, jump: JumpExecution) -> None:
        """Moves the feet to the footholds of a jump."""
        landing, data = self.landing, self._walking.bind(motion).data
        landing.positions[:], landing.velocities[:] = jump.fly(
            state, self._quadruped.base, motion.yaw, self._quadruped.dt
        )
        prepare_landing(landing, data)
        self._set_foot_references(data)

    def _extend_legs(self, state: State, motion: CentroidalState) -> Array:
        """Moves the feet to their landing positions; returns the position (2,) of the path reference, world [m]."""
        quad, data = self._quadruped, self._walking.bind(motion).data
        quad.mode = LocomotionMode.AIRBORNE
        if self._jump is not None:
            self._fly(state, motion, self._jump)
        else:
            extend_legs(self.landing, data)
            self._set_foot_references(data)
        return quad.path_reference.position.copy()

    def _stop_fall(self, motion: CentroidalState) -> Array:
        """Stops the fall with the feet in contact; returns the desired center of pressure (2,), world [m]."""
        quad, jump, landing, data = self._quadruped, self._jump, self.landing, self._walking.bind(motion).data
        if quad.mode is LocomotionMode.AIRBORNE:
            begin_stop(data, motion.yaw if jump is None else jump.yaw)
            self.end_jump()
        quad.mode = LocomotionMode.LANDING
        is_stopped = stop_fall(landing, data)
        self._set_foot_references(data)
        data.contact_inputs.normals[:] = quad.ground_normals(quad.ground)
        quad.friction_model.read_friction()
        balance_landing(landing, data, is_stopped)
        quad.friction_model.apply()
        quad.trunk.write_references()
        if is_stopped:
            quad.mode = LocomotionMode.RISING
        return quad.com_reference.cop.copy()
