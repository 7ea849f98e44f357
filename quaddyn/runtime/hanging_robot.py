"""`HangingRobot`: simulated robot whose trunk is held in a stand, to rehearse the preflight checks."""

from __future__ import annotations

import numpy as np
import pinocchio as pin

from ..deprecation import renamed_attributes
from ..errors import ArgumentError, ArgumentTypeError
from ..robot.arguments import check_number
from ..robot.robot import Robot
from ..robot.saving import from_record, to_record
from ..simulation import Simulation
from ..simulation.sensors import Observable, Sensors
from ..urdf.tree import Array
from .preflight_report import OperatorPrompt
from .simulated_interface import SimulatedInterface, make_noisy_sensors

#: Rate at which the trunk is tilted [rad/s].
LEAN_RATE = 0.5
#: Penetration of a joint stop at which it produces a tenth of the motor's torque limit [rad or m].
STOP_PENETRATION = 0.01
#: Torque scale of a stop of a motor without a torque limit [N m].
DEFAULT_STOP_TORQUE = 20.0


class _HangingState(Observable):
    """State of the whole robot: joints from the plant, trunk pose from the stand."""

    def __init__(self, robot: Robot, plant: Simulation) -> None:
        self.robot, self.plant = robot, plant
        self.rpy, self.rpy_rate = np.zeros(3), np.zeros(3)

    @property
    def q(self) -> Array:
        """(nq,) configuration."""
        if self.robot.root == "fixed":
            return self.plant.q
        turn = pin.Quaternion(pin.rpy.rpyToMatrix(*self.rpy.tolist())).coeffs()
        return np.concatenate([[0.0, 0.0, 1.0], turn, self.plant.q])

    @property
    def v(self) -> Array:
        """(nv,) velocity."""
        if self.robot.root == "fixed":
            return self.plant.v
        omega = pin.rpy.computeRpyJacobian(self.rpy, pin.LOCAL) @ self.rpy_rate
        return np.concatenate([np.zeros(3), omega, self.plant.v])

    @property
    def time(self) -> float:
        """Time of the simulation [s]."""
        return self.plant.time

    @property
    def tau(self) -> Array:
        """(nu,) torques of the motors [N m]."""
        return self.plant.tau

    @property
    def contact_forces(self) -> dict[str, Array]:
        """Contact forces by foot; none in the air."""
        return {}

    @property
    def backlash_state(self) -> tuple[Array, Array] | None:
        """Backlash state of the joints, see `Plant`."""
        return self.plant.backlash_state


@renamed_attributes(obey="perform")
class HangingRobot(SimulatedInterface, fixed=("plant",)):
    """Simulated robot whose trunk is held in the air, with joint stops; pass it as the clock of the loop, too.

    Tilting the trunk rotates the IMU only; the gravity load of the joints does not change.

    Args:
        robot: robot with a free or a fixed root.
        dt: step of the simulation [s].
        sensors: sensors of `read`; None: `make_noisy_sensors`.

    Attributes:
        plant: the simulation of its joints, under a fixed root.

    Raises:
        ArgumentError: another root, or sensors of another robot.
    """

    def __init__(self, robot: Robot, *, dt: float = 1e-3, sensors: Sensors | None = None) -> None:
        if not isinstance(robot, Robot):
            raise ArgumentTypeError(f"robot: expected a Robot from quaddyn.load, got {type(robot).__name__}")
        if robot.root == "planar":
            raise ArgumentError("robot: expected a free or fixed root, got planar; load it with root='free'")
        super().__init__(robot, make_noisy_sensors(robot) if sensors is None else sensors)
        fixed_robot = robot
        if robot.root == "free":
            record = to_record(robot)
            fixed_robot = from_record({**record, "root": "fixed", "q_home": record["q_home"][7:]})
        self.plant = Simulation(fixed_robot, dt=dt)
        self._state = _HangingState(robot, self.plant)
        self._target_rpy = np.zeros(3)
        effort = np.where(np.isfinite(robot.effort_limits), robot.effort_limits, DEFAULT_STOP_TORQUE)
        self._stop_stiffness, self._lower, self._upper = (
            0.1 * effort / STOP_PENETRATION,
            robot.lower_position_limits,
            robot.upper_position_limits,
        )

    @property
    def simulator(self) -> Observable:
        """The state of the whole robot."""
        return self._state

    @property
    def step_time(self) -> float:
        """Step of the simulation [s]."""
        return self.plant.dt

    def lean(self, *, roll: float = 0.0, pitch: float = 0.0) -> None:
        """Tilts the trunk slowly to these angles while the simulation runs; only with a free root.

        Args:
            roll: roll angle [rad].
            pitch: pitch angle [rad].
        """
        self._target_rpy = np.array([check_number("roll", roll), check_number("pitch", pitch), 0.0])

    def perform(self, what: OperatorPrompt) -> None:
        """Performs the action that a preflight prompt requests from a person."""
        self.lean(
            **{
                OperatorPrompt.NOSE_DOWN: {"pitch": 0.35},
                OperatorPrompt.LEFT_DOWN: {"roll": -0.35},
                OperatorPrompt.LEVEL: {},
            }[what]
        )

    def step(self) -> None:
        """Advances the simulation by one step under the last command."""
        state, dt = self._state, self.plant.dt
        rotation = np.clip(self._target_rpy - state.rpy, -LEAN_RATE * dt, LEAN_RATE * dt)
        state.rpy_rate, state.rpy = rotation / dt, state.rpy + rotation
        position = self._joints.of(state.q)
        penetration = np.minimum(position - self._lower, 0.0) + np.maximum(position - self._upper, 0.0)
        v = state.v[self.robot.actuated_index]
        stop_torque = np.where(
            penetration != 0.0,
            -self._stop_stiffness * (penetration + 2.0 * STOP_PENETRATION * np.clip(v, -1.0, 1.0)),
            0.0,
        )
        self.plant.step(self.commanded_torque() + stop_torque)
