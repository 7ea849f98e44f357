"""Runs PlaCo on recorded ticks, in PlaCo's environment.

Stance feet, friction and torque limits are hard constraints; all tasks are terms of one weighted sum, in which the last
level has small weights.  PlaCo has no bounds of normal forces.
"""

from __future__ import annotations

from typing import Any

import loop
import numpy as np
import placo


class Placo:
    """PlaCo's solver with the tasks of a recording, called as in PlaCo's examples."""

    def __init__(self, r: dict[str, Any]) -> None:
        self.r = r
        self.names = [str(name) for name in r["joints"]]
        self.feet = [str(name) for name in r["feet"]]
        self.robot = robot = placo.RobotWrapper(loop.urdf_file(r), placo.Flags.ignore_collisions)
        velocity_indices = [robot.get_joint_v_offset(name) for name in self.names]
        if velocity_indices != list(range(6, 6 + len(velocity_indices))):
            raise SystemExit(f"joint order differs: {velocity_indices}")
        self.solver = solver = placo.DynamicsSolver(robot)
        solver.dt = float(r["dt"])
        solver.damping = 0.0
        solver.torque_cost = 0.0
        solver.enable_torque_limits(True)
        zero = np.zeros(3)
        self.tasks, self.contacts = [], []
        for name in self.feet:
            task = solver.add_position_task(name, zero)
            self._remove_gains(task)
            self.tasks.append(task)
            self.contacts.append(None)
        self.com = solver.add_com_task(zero)
        self.com.configure("com", "soft", 1.0)
        self.turn = solver.add_orientation_task(str(r["base"]), np.eye(3))
        self.turn.configure("turn", "soft", 1.0)
        self.posture = solver.add_joints_task()
        self.posture.configure("posture", "soft", float(r["posture_weight"]))
        for task in (self.com, self.turn, self.posture):
            self._remove_gains(task)
        self.mask: list[bool | None] = [None] * 4

    @staticmethod
    def _remove_gains(task: Any) -> None:
        """Sets the gains of a task to zero."""
        task.kp = 0.0
        task.kd = 0.0

    def set_contacts(self, mask: Any) -> None:
        """Sets the stance feet."""
        for i, in_contact in enumerate(mask):
            if in_contact == self.mask[i]:
                continue
            if self.contacts[i] is not None:
                self.solver.remove_contact(self.contacts[i])
                self.contacts[i] = None
            if in_contact:
                contact = self.solver.add_unilateral_point_contact(self.tasks[i])
                contact.weight_forces = float(self.r["force_weight"])
                self.tasks[i].ddtarget_world = np.zeros(3)
                self.contacts[i] = contact
            self.tasks[i].configure(self.feet[i], "hard" if in_contact else "soft", 1.0)
            self.mask[i] = bool(in_contact)

    def set_references(self, k: int) -> None:
        """Sets all references of tick k."""
        r = self.r
        self.com.ddtarget_world = r["com"][k]
        self.turn.domega_world = r["turn"][k]
        for i in range(4):
            if self.contacts[i] is None:
                self.tasks[i].ddtarget_world = r["swing"][k, i]
            else:
                self.contacts[i].mu = float(r["friction"][k])
        for j, name in enumerate(self.names):
            self.posture.set_joint(name, 0.0, 0.0, float(r["posture"][k, j]))
            self.solver.set_torque_limit(name, float(r["effort"][k, j]))

    def solve(self, k: int) -> tuple[Any, Any, Any, bool]:
        """Computes torques, accelerations, contact forces and success from the state of tick k."""
        self.robot.state.q = self.r["q"][k]
        self.robot.state.qd = self.r["v"][k]
        self.robot.update_kinematics()
        result = self.solver.solve(False)
        f = np.zeros((4, 3))
        if not result.success:
            return 0.0, 0.0, f, False
        for i in range(4):
            if self.contacts[i] is not None:
                f[i] = self.contacts[i].wrench[:3]
        return result.tau[6:], result.qdd, f, True


loop.serve(Placo)
