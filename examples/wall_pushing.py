"""A foot that pushes against a wall.

A hybrid controller regulates the force along the normal of a stiff wall to 30 N. At the same time it controls the
motion of the foot on the wall along a vertical line.
"""

import sys

import numpy as np

import quaddyn as qd
from quaddyn.contact import CompliantPlane, foot_forces
from quaddyn.control import HybridControl

DT = 1e-3


def main(picture: str | None = None) -> dict[str, float]:
    """Returns the final force [N] and the largest deviation of the foot from its line [m]."""
    robot = qd.load("go2", root="fixed")
    dyn, q, v = qd.Dynamics(robot), robot.q_home.copy(), np.zeros(robot.nv)
    foot = dyn.frame_placement(q, "FL").translation
    wall = CompliantPlane.wall(foot[0] + robot.legs["FL"].foot.radius, stiffness=1e5, damping=100.0)
    press = HybridControl(robot, "FL", force=("x",), bandwidth=8.0, dt=DT)
    force_reference = np.array([-30.0])  # [N] on the robot: the wall is in front of it
    forces, off = [], []
    for tick in range(1500):
        s = dyn.update(q, v)
        f = foot_forces(s, wall, ("FL",))["FL"]
        line = foot + [0.0, 0.0, 0.03 * (1.0 - np.cos(2 * np.pi * tick * DT))]
        along = np.array([0.0, 0.0, 0.06 * np.pi * np.sin(2 * np.pi * tick * DT)])
        tau = press.compute(s, line, force_reference, measured=f[:1].copy(), velocity=along).tau
        forces.append(f[0])
        off.append(np.linalg.norm((s.placement("FL").translation - line)[1:]))
        v = v + DT * dyn.aba(q, v, robot.generalized_torques(tau), fext={"FL": f})
        q = q + DT * v
    if picture:
        from matplotlib.figure import Figure

        ax = (figure := Figure(figsize=(6, 3.6), layout="constrained")).subplots()
        ax.plot(DT * np.arange(len(forces)), forces, label="force of the wall")
        ax.axhline(force_reference[0], ls="--", color="tab:red", label="reference")
        ax.set(xlabel="t [s]", ylabel="normal force on the robot [N]")
        ax.legend(frameon=False)
        figure.savefig(picture, dpi=100)
    return {"force": float(np.mean(forces[-100:])), "off": max(off[500:])}


if __name__ == "__main__":
    found = main(*sys.argv[2:])  # --picture FILE
    print(f"{found['force']:.1f} N on the robot, {1e3 * found['off']:.1f} mm from the line")
