"""`FlightPhaseController`: jumps, loss of the ground, and the landing after either."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence

import numpy as np

from ..dynamics import State
from ..errors import ArgumentError
from ..urdf.tree import Array
from .command import JUMPS, NO_GROUND, LocomotionCommand
from .contact_estimation import MAX_STANCE_FOOT_SPEED
from .ground_phase import GroundPhaseController, carrying_feet
from .jump_plan import JumpExecution, JumpPlan, make_yaw_rotation
from .jump_planner import LocalTerrain
from .landing import begin_landing, prepare_landing, write_landing_references
from .modes import LocomotionMode
from .morphology import FEET
from .quadruped import Quadruped, validate_jump
from .walking import TickCode

#: Maximum slope of the ground for a jump, and duration of the crouch before it [sqrt(l/g)].
MAX_JUMP_SLOPE, CROUCH_TIME = 0.1, 3.0


class FlightPhaseController:
    """Control from the crouch before a jump, or from the loss of the ground, to the stance after it.

    A robot that loses the ground while it stands or rises, or that starts in the air, lands on its feet (`landing`); in
    a jump (`JumpExecution`) push-off and flight come first.  If the whole-body controller has no solution for a
    landing, the motors only damp, and the command is not `ok`.

    Args:
        quadruped: shared state of the robot.
        walking: controller of the robot on the ground, whose records are used.
    """

    __slots__ = ("_jump", "_quadruped", "_walking")

    def __init__(self, quadruped: Quadruped, walking: GroundPhaseController) -> None:
        self._quadruped, self._walking = quadruped, walking
        self._jump: JumpExecution | None = None

    @property
    def jump_plan(self) -> JumpPlan | None:
        """Plan of the jump in progress; None without one."""
        return None if self._jump is None else self._jump.plan

    def plan_jump(self, height: float | None, distance: Sequence[float] | Array, turn: float) -> JumpPlan:
        """Plans a jump; see `LocomotionController.plan_jump`."""
        quad, requested = self._quadruped, validate_jump(height, distance, turn, self._quadruped.morphology.length)
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
            self._walking.landing.is_jump = False

    # -- one tick ------------------------------------------------------------------------------------------------
    def compute_jump(self, state: State, requested: Array) -> LocomotionCommand:
        """Computes the command of one tick of the push-off, or of the flight until touchdowns are expected.

        Args:
            state: present state of the robot.
            requested: (3,) requested velocity, which has no effect meanwhile [m/s, rad/s].
        """
        quad, jump, walking, carrying = self._quadruped, self._jump, self._walking, tuple(FEET)
        assert jump is not None
        quad.estimators.pause()
        if jump.is_pushing:
            jump.push(state, quad.dt)
        else:
            carrying = ()
            self._fly(state, jump)
            if jump.expects_touchdown(walking.motion.velocity[2]):
                quad.mode = LocomotionMode.AIRBORNE
                walking.landing.is_jump, walking.landing.jump_yaw = True, jump.yaw
                # The trunk decelerates over the distance of the push-off.
                distance = jump.plan.touchdown_com_height - jump.plan.crouch_com_height
                begin_landing(walking.landing, walking.records.walker.walk, float(distance))
        command = quad.wbc.compute(state, carrying)
        walking.limit_torques(command, command.tau.copy())
        zero_velocity, cop = np.zeros(3), quad.path_reference.position.copy()
        return LocomotionCommand(
            quad.tau, quad.mode, carrying, command, cop, requested, zero_velocity, zero_velocity,
            jump.plan.limit_reason or JUMPS, {}, friction=quad.friction_model.friction, jump_plan=jump.plan,
        )  # fmt: skip

    def compute_landing(self, code: int, state: State, requested: Array) -> LocomotionCommand:
        """Computes the command of one tick in the air, or between touchdown and stance.

        Args:
            code: code of the tick, see `TickCode`.
            state: present state of the robot.
            requested: (3,) requested velocity, which has no effect meanwhile [m/s, rad/s].
        """
        quad, walking, carrying = self._quadruped, self._walking, carrying_feet(code)
        quad.estimators.pause_payload()
        if quad.mode_state.is_first_tick:
            self._warn_of_steps(state)
        if self._jump is not None and not walking.landing.is_jump:
            self.end_jump()
        cop = quad.path_reference.position
        if carrying:
            cop = quad.com_reference.cop
            if code & TickCode.HAS_NEW_CONTACTS:
                quad.friction_model.apply()
            quad.trunk.write_references()
        if self._jump is not None:
            self._fly(state, self._jump)
        else:
            self._write_custom_references()
        command = quad.wbc.compute(state, carrying)
        walking.limit_torques(command, command.tau.copy())
        zero_velocity, friction = np.zeros(3), quad.friction_model.friction
        return LocomotionCommand(
            quad.tau, quad.mode, carrying, command, cop.copy(), requested, zero_velocity, zero_velocity, NO_GROUND, {},
            friction=friction, jump_plan=self.jump_plan,
        )  # fmt: skip

    def _warn_of_steps(self, state: State) -> None:
        """Warns if the robot walks at the first tick: feet are at rest, while others are off the ground."""
        quad = self._quadruped
        max_speed = MAX_STANCE_FOOT_SPEED * quad.morphology.speed_scale
        speeds = [float(np.linalg.norm(state.velocity(foot)[:3])) for foot in FEET]
        if min(speeds) < max_speed < np.linalg.norm(self._walking.motion.velocity):
            warnings.warn(
                "state: at the first tick of the controller the robot walks with feet off the ground, so that it is "
                "treated as a robot in the air, which lands and stops first; start a new controller while the robot "
                "stands on all feet, or keep the controller, whose gait, friction and terrain may be set at any time",
                RuntimeWarning,
                stacklevel=6,
            )

    def _fly(self, state: State, jump: JumpExecution) -> None:
        """Moves the feet to the footholds of a jump."""
        quad, walking, landing = self._quadruped, self._walking, self._walking.landing
        landing.positions[:], landing.velocities[:] = jump.fly(state, quad.base, walking.motion.yaw, quad.dt)
        data = walking.records.walker.walk
        prepare_landing(landing, data)
        write_landing_references(landing, data)
        self._write_custom_references()

    def _write_custom_references(self) -> None:
        """Sets the references of the feet in flight and landing for tasks of other classes."""
        landing, tasks = self._walking.landing, self._quadruped.wbc.tasks
        if self._walking.records.walker.walk.parameters.writes_tasks:
            return
        for foot, position, velocity in zip(FEET, landing.positions.copy(), landing.velocities.copy(), strict=True):
            tasks[foot].reference(position, velocity, landing.acceleration)
