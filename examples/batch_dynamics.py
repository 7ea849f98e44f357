"""A map of torques.

One call of a compiled kernel computes the inverse dynamics of a UR5 in ten thousand postures. The picture shows
the gravity torque of the shoulder over its workspace.
"""

import sys

import numpy as np

import quaddyn as qd


def main(picture: str | None = None) -> dict[str, float]:
    """Returns the largest shoulder torque and the largest difference from single calls [N m]."""
    robot = qd.load("ur5")
    fast, dyn = qd.compile(robot, ("rnea",)), qd.Dynamics(robot)
    lift, elbow = np.meshgrid(np.linspace(-np.pi, 0.0, 100), np.linspace(-2.5, 2.5, 100))
    q = np.zeros((lift.size, robot.nq))
    q[:, 1], q[:, 2] = lift.ravel(), elbow.ravel()
    zero = np.zeros_like(q)
    tau = fast.rnea(q, zero, zero)  # (10000, 6)
    some = np.random.default_rng(0).integers(len(q), size=50)
    single = np.array([dyn.rnea(q[i], zero[i], zero[i]) for i in some])
    if picture:
        from matplotlib.figure import Figure

        ax = (figure := Figure(figsize=(6, 4), layout="constrained")).subplots()
        drawn = ax.contourf(lift, elbow, tau[:, 1].reshape(lift.shape), 24, cmap="RdBu_r")
        figure.colorbar(drawn, label="torque of the shoulder [N m]")
        ax.set(xlabel="shoulder lift [rad]", ylabel="elbow [rad]")
        figure.savefig(picture, dpi=100)
    return {"largest": float(np.abs(tau[:, 1]).max()), "error": float(np.abs(tau[some] - single).max())}


if __name__ == "__main__":
    found = main(*sys.argv[2:])  # --picture FILE
    print(f"largest torque {found['largest']:.1f} N m; single calls differ by {found['error']:.0e} N m")
