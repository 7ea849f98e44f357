"""Explanation of infeasible commands.

A robot on ice has a reference acceleration that friction does not permit. If it is a task, the task has a residual; if
it is a constraint on level 0, the command is infeasible. In both cases the command reports the limit that is the cause.
"""

import sys

import numpy as np

import quaddyn as qd
from quaddyn.wbc import LinearConstraint


def main(picture: str | None = None) -> dict[str, str]:
    """Returns the outcomes of the command with the task and of the command with the constraint."""
    robot = qd.load("go2")
    s = qd.Dynamics(robot).update(robot.q_home, np.zeros(robot.nv))
    wbc = qd.WholeBodyController(robot, friction=0.1)
    wbc.tasks.com.reference(s.com, acceleration=np.array([3.0, 0.0, 0.0]))  # [m/s^2]
    with_task = wbc.compute(s)
    print(with_task.explain(threshold=0.1))
    lower, upper = np.array([3.0, -np.inf]), np.array([np.inf, 0.0])  # forward by at least 3 m/s^2, not upward
    constraint = LinearConstraint("must go", lower, upper, acceleration=s.com_jacobian[[0, 2]], unit="m/s^2")
    wbc.add(constraint, level=0)
    with_constraint = wbc.compute(s)
    print(with_constraint.explain(threshold=0.1))
    if picture:
        from matplotlib.figure import Figure

        axes = (figure := Figure(figsize=(7, 3), layout="constrained")).subplots(1, 2, sharey=True)
        for ax, command, name in zip(axes, (with_task, with_constraint), ("task", "constraint"), strict=True):
            for foot, force in command.forces.items():
                ax.plot(force[2], np.hypot(force[0], force[1]), "o", label=foot)
            ax.plot([0, 100], [0, 10], color="0.5", lw=1)
            ax.set(xlabel="normal force [N]", title=f"{name}: {command.status.outcome}")
        axes[0].set(ylabel="tangential force [N]")
        axes[1].legend(frameon=False)
        figure.savefig(picture, dpi=100)
    return {"task": with_task.status.outcome, "constraint": with_constraint.status.outcome}


if __name__ == "__main__":
    main(*sys.argv[2:])  # --picture FILE
