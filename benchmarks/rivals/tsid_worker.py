"""Runs TSID on recorded ticks, in TSID's environment.

Contacts, friction and torque limits are on level 0; all tasks are terms of one weighted sum on level 1, in which the
last level has small weights.
"""

from __future__ import annotations

from typing import Any

import loop
import numpy as np
import pinocchio as pin
import tsid


class Tsid:
    """TSID's formulation with the tasks of a recording, called as in TSID's examples."""

    def __init__(self, r: dict[str, Any]) -> None:
        self.r = r
        robot = tsid.RobotWrapper(loop.urdf_file(r), pin.StdVec_StdString(), pin.JointModelFreeFlyer(), False)
        joint_order = [robot.model().joints[robot.model().getJointId(str(name))].idx_v - 6 for name in r["joints"]]
        if joint_order != list(range(robot.na)):
            raise SystemExit(f"joint order differs: {joint_order}")
        self.robot, self.formulation = robot, tsid.InverseDynamicsFormulationAccForce("tsid", robot, False)
        self.q, self.v = np.ascontiguousarray(r["q"]), np.ascontiguousarray(r["v"])
        self.formulation.computeProblemData(0.0, self.q[0], self.v[0])
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
            self._remove_gains(swing, 6)
            self.swings.append(swing)
        self.com = tsid.TaskComEquality("com", robot)
        self._remove_gains(self.com, 3)
        self.turn = tsid.TaskSE3Equality("turn", robot, str(r["base"]))
        self.turn.setMask(np.array([0.0, 0.0, 0.0, 1.0, 1.0, 1.0]))
        self.turn.useLocalFrame(False)
        self._remove_gains(self.turn, 6)
        self.posture = tsid.TaskJointPosture("posture", robot)
        self._remove_gains(self.posture, robot.na)
        self.bounds = tsid.TaskActuationBounds("bounds", robot)
        self.formulation.addMotionTask(self.com, 1.0, 1, 0.0)
        self.formulation.addMotionTask(self.turn, 1.0, 1, 0.0)
        self.formulation.addMotionTask(self.posture, float(r["posture_weight"]), 1, 0.0)
        self._set_effort(0)
        self.formulation.addActuationTask(self.bounds, 1.0, 0, 0.0)
        self.mask = np.zeros(4, dtype=bool)
        self.contact_order: list[int] = []
        self.swinging = np.zeros(4, dtype=bool)
        self.solver = tsid.SolverHQuadProgFast("solver")
        self.com_reference, self.placement = tsid.TrajectorySample(3), tsid.TrajectorySample(12, 6)
        self.joint_reference = tsid.TrajectorySample(robot.na)
        # Errors are multiplied by gains of zero, but must not be NaN.
        self.com_reference.pos(np.zeros(3))
        self.com_reference.vel(np.zeros(3))
        self.placement.pos(tsid.SE3ToVector(pin.SE3.Identity()))
        self.placement.vel(np.zeros(6))
        self.joint_reference.pos(np.zeros(robot.na))
        self.joint_reference.vel(np.zeros(robot.na))
        self.acceleration = np.zeros(6)
        self.limits = None

    @staticmethod
    def _remove_gains(task: Any, n: int) -> None:
        """Sets the n gains of a task to zero."""
        task.setKp(np.zeros(n))
        task.setKd(np.zeros(n))

    def _set_effort(self, k: int) -> None:
        """Sets the torque limits of tick k."""
        self.bounds.setBounds(-self.r["effort"][k], self.r["effort"][k])

    def set_contacts(self, mask: Any) -> None:
        """Sets the stance feet."""
        for i, in_contact in enumerate(mask):
            if in_contact and not self.mask[i]:
                self.formulation.addRigidContact(self.contacts[i], float(self.r["force_weight"]))
                self.contact_order.append(i)
            elif not in_contact and self.mask[i]:
                self.formulation.removeRigidContact(self.feet[i], 0.0)
                self.contact_order.remove(i)
            if not in_contact and not self.swinging[i]:
                self.formulation.addMotionTask(self.swings[i], 1.0, 1, 0.0)
            elif in_contact and self.swinging[i]:
                self.formulation.removeTask(f"swing {self.feet[i]}", 0.0)
            self.mask[i], self.swinging[i] = in_contact, not in_contact
        self.solver.resize(self.formulation.nVar, self.formulation.nEq, self.formulation.nIn)

    def set_references(self, k: int) -> None:
        """Sets all references of tick k."""
        r = self.r
        limits = (r["friction"][k], r["force_min"][k], r["force_max"][k])
        if limits != self.limits:
            for contact in self.contacts:
                contact.setFrictionCoefficient(float(limits[0]))
                contact.setMinNormalForce(float(limits[1]))
                contact.setMaxNormalForce(float(limits[2]))
            self.limits = limits
        self._set_effort(k)
        self.com_reference.acc(r["com"][k])
        self.com.setReference(self.com_reference)
        self.acceleration[:3], self.acceleration[3:] = 0.0, r["turn"][k]
        self.placement.acc(self.acceleration)
        self.turn.setReference(self.placement)
        self.acceleration[3:] = 0.0
        for i in range(4):
            if self.swinging[i]:
                self.acceleration[:3] = r["swing"][k, i]
                self.placement.acc(self.acceleration)
                self.swings[i].setReference(self.placement)
        self.joint_reference.acc(r["posture"][k])
        self.posture.setReference(self.joint_reference)

    def solve(self, k: int) -> tuple[Any, Any, Any, bool]:
        """Computes torques, accelerations, contact forces and success from the state of tick k."""
        problem = self.formulation.computeProblemData(0.0, self.q[k], self.v[k])
        result = self.solver.solve(problem)
        f = np.zeros((4, 3))
        if result.status != 0:
            return 0.0, 0.0, f, False
        tau = self.formulation.getActuatorForces(result)
        forces = self.formulation.getContactForces(result)  # in the order in which the contacts were added
        for j, i in enumerate(self.contact_order):
            f[i] = forces[3 * j : 3 * j + 3]
        return tau, self.formulation.getAccelerations(result), f, True


loop.serve(Tsid)
