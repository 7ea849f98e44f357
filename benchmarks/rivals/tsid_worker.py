"""TSID on recorded ticks: contacts, friction and torques at level 0, all tasks weighted at level 1.

TSID is level 0 and one weighted sum: the last level becomes a small weight.  Runs in TSID's own environment.
"""

from __future__ import annotations

from typing import Any

import loop
import numpy as np
import pinocchio as pin
import tsid


class Tsid:
    """One formulation, driven as its own examples drive it."""

    def __init__(self, r: dict[str, Any]) -> None:
        self.r = r
        robot = tsid.RobotWrapper(loop.urdf_file(r), pin.StdVec_StdString(), pin.JointModelFreeFlyer(), False)
        order = [robot.model().joints[robot.model().getJointId(str(name))].idx_v - 6 for name in r["joints"]]
        if order != list(range(robot.na)):
            raise SystemExit(f"joint order differs: {order}")
        self.robot, self.inv = robot, tsid.InverseDynamicsFormulationAccForce("tsid", robot, False)
        self.q, self.v = np.ascontiguousarray(r["q"]), np.ascontiguousarray(r["v"])
        self.inv.computeProblemData(0.0, self.q[0], self.v[0])
        normal = np.array([0.0, 0.0, 1.0])
        self.feet = [str(name) for name in r["feet"]]
        self.contacts, self.swings = [], []
        for name in self.feet:
            contact = tsid.ContactPoint(
                name, robot, name, normal, float(r["friction"][0]), float(r["force_min"][0]), float(r["force_max"][0])
            )
            contact.setKp(np.zeros(3))
            contact.setKd(np.zeros(3))
            contact.useLocalFrame(False)
            self.contacts.append(contact)
            swing = tsid.TaskSE3Equality(f"swing {name}", robot, name)
            swing.setMask(np.array([1.0, 1.0, 1.0, 0.0, 0.0, 0.0]))
            swing.useLocalFrame(False)
            self._without_gains(swing, 6)
            self.swings.append(swing)
        self.com = tsid.TaskComEquality("com", robot)
        self._without_gains(self.com, 3)
        self.turn = tsid.TaskSE3Equality("turn", robot, str(r["base"]))
        self.turn.setMask(np.array([0.0, 0.0, 0.0, 1.0, 1.0, 1.0]))
        self.turn.useLocalFrame(False)
        self._without_gains(self.turn, 6)
        self.posture = tsid.TaskJointPosture("posture", robot)
        self._without_gains(self.posture, robot.na)
        self.bounds = tsid.TaskActuationBounds("bounds", robot)
        self.inv.addMotionTask(self.com, 1.0, 1, 0.0)
        self.inv.addMotionTask(self.turn, 1.0, 1, 0.0)
        self.inv.addMotionTask(self.posture, float(r["posture_weight"]), 1, 0.0)
        self._set_effort(0)
        self.inv.addActuationTask(self.bounds, 1.0, 0, 0.0)
        self.mask = np.zeros(4, dtype=bool)
        self.order: list[int] = []
        self.swinging = np.zeros(4, dtype=bool)
        self.solver = tsid.SolverHQuadProgFast("solver")
        self.point, self.place = tsid.TrajectorySample(3), tsid.TrajectorySample(12, 6)
        self.joints = tsid.TrajectorySample(robot.na)
        # Without gains errors do not count, but a NaN among them would.
        self.point.pos(np.zeros(3))
        self.point.vel(np.zeros(3))
        self.place.pos(tsid.SE3ToVector(pin.SE3.Identity()))
        self.place.vel(np.zeros(6))
        self.joints.pos(np.zeros(robot.na))
        self.joints.vel(np.zeros(robot.na))
        self.acceleration = np.zeros(6)
        self.limits = None

    @staticmethod
    def _without_gains(task: Any, n: int) -> None:
        task.setKp(np.zeros(n))
        task.setKd(np.zeros(n))

    def _set_effort(self, k: int) -> None:
        self.bounds.setBounds(-self.r["effort"][k], self.r["effort"][k])

    def stand(self, mask: Any) -> None:
        """Change the contacts."""
        for i, stands in enumerate(mask):
            if stands and not self.mask[i]:
                self.inv.addRigidContact(self.contacts[i], float(self.r["force_weight"]))
                self.order.append(i)
            elif not stands and self.mask[i]:
                self.inv.removeRigidContact(self.feet[i], 0.0)
                self.order.remove(i)
            if not stands and not self.swinging[i]:
                self.inv.addMotionTask(self.swings[i], 1.0, 1, 0.0)
            elif stands and self.swinging[i]:
                self.inv.removeTask(f"swing {self.feet[i]}", 0.0)
            self.mask[i], self.swinging[i] = stands, not stands
        self.solver.resize(self.inv.nVar, self.inv.nEq, self.inv.nIn)

    def set_references(self, k: int) -> None:
        """Set all references of tick k."""
        r = self.r
        limits = (r["friction"][k], r["force_min"][k], r["force_max"][k])
        if limits != self.limits:
            for contact in self.contacts:
                contact.setFrictionCoefficient(float(limits[0]))
                contact.setMinNormalForce(float(limits[1]))
                contact.setMaxNormalForce(float(limits[2]))
            self.limits = limits
        self._set_effort(k)
        self.point.acc(r["com"][k])
        self.com.setReference(self.point)
        self.acceleration[:3], self.acceleration[3:] = 0.0, r["turn"][k]
        self.place.acc(self.acceleration)
        self.turn.setReference(self.place)
        self.acceleration[3:] = 0.0
        for i in range(4):
            if self.swinging[i]:
                self.acceleration[:3] = r["swing"][k, i]
                self.place.acc(self.acceleration)
                self.swings[i].setReference(self.place)
        self.joints.acc(r["posture"][k])
        self.posture.setReference(self.joints)

    def solve(self, k: int) -> tuple[Any, Any, Any, bool]:
        """From state to torques."""
        problem = self.inv.computeProblemData(0.0, self.q[k], self.v[k])
        answer = self.solver.solve(problem)
        f = np.zeros((4, 3))
        if answer.status != 0:
            return 0.0, 0.0, f, False
        tau = self.inv.getActuatorForces(answer)
        forces = self.inv.getContactForces(answer)  # in the order in which the contacts were added
        for j, i in enumerate(self.order):
            f[i] = forces[3 * j : 3 * j + 3]
        return tau, self.inv.getAccelerations(answer), f, True


loop.serve(Tsid)
