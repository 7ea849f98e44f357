"""PlaCo on recorded ticks: stance feet hard, friction and torque limits hard, all tasks weighted.

PlaCo is hard constraints and one weighted sum: the last level becomes small weights.  A normal force has no bounds of
its own there.  Runs in PlaCo's own environment.
"""

from __future__ import annotations

from typing import Any

import loop
import numpy as np
import placo


class Placo:
    """One solver, driven as its own examples drive it."""

    def __init__(self, r: dict[str, Any]) -> None:
        self.r = r
        self.names = [str(name) for name in r["joints"]]
        self.feet = [str(name) for name in r["feet"]]
        self.robot = robot = placo.RobotWrapper(loop.urdf_file(r), placo.Flags.ignore_collisions)
        first = [robot.get_joint_v_offset(name) for name in self.names]
        if first != list(range(6, 6 + len(first))):
            raise SystemExit(f"joint order differs: {first}")
        self.solver = solver = placo.DynamicsSolver(robot)
        solver.dt = float(r["dt"])
        solver.damping = 0.0
        solver.torque_cost = 0.0
        solver.enable_torque_limits(True)
        zero = np.zeros(3)
        self.tasks, self.contacts = [], []
        for name in self.feet:
            task = solver.add_position_task(name, zero)
            self._without_gains(task)
            self.tasks.append(task)
            self.contacts.append(None)
        self.com = solver.add_com_task(zero)
        self.com.configure("com", "soft", 1.0)
        self.turn = solver.add_orientation_task(str(r["base"]), np.eye(3))
        self.turn.configure("turn", "soft", 1.0)
        self.posture = solver.add_joints_task()
        self.posture.configure("posture", "soft", float(r["posture_weight"]))
        for task in (self.com, self.turn, self.posture):
            self._without_gains(task)
        self.mask: list[bool | None] = [None] * 4

    @staticmethod
    def _without_gains(task: Any) -> None:
        task.kp = 0.0
        task.kd = 0.0

    def stand(self, mask: Any) -> None:
        """Change the contacts."""
        for i, stands in enumerate(mask):
            if stands == self.mask[i]:
                continue
            if self.contacts[i] is not None:
                self.solver.remove_contact(self.contacts[i])
                self.contacts[i] = None
            if stands:
                contact = self.solver.add_unilateral_point_contact(self.tasks[i])
                contact.weight_forces = float(self.r["force_weight"])
                self.tasks[i].ddtarget_world = np.zeros(3)
                self.contacts[i] = contact
            self.tasks[i].configure(self.feet[i], "hard" if stands else "soft", 1.0)
            self.mask[i] = bool(stands)

    def set_references(self, k: int) -> None:
        """Set all references of tick k."""
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
        """From state to torques."""
        self.robot.state.q = self.r["q"][k]
        self.robot.state.qd = self.r["v"][k]
        self.robot.update_kinematics()
        answer = self.solver.solve(False)
        f = np.zeros((4, 3))
        if not answer.success:
            return 0.0, 0.0, f, False
        for i in range(4):
            if self.contacts[i] is not None:
                f[i] = self.contacts[i].wrench[:3]
        return answer.tau[6:], answer.qdd, f, True


loop.serve(Placo)
