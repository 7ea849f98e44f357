"""A swinging leg on a spring.

A foot follows an ellipse by Cartesian impedance control and is pushed once. It yields like a spring with the
given stiffness, and returns without oscillation, because the damping is computed from the task-space inertia
of the foot.
"""

import sys

import numpy as np

import quaddyn as qd
from quaddyn.control import CartesianImpedance

PERIOD = 0.5  # [s]


def target(start: np.ndarray, t: float) -> tuple[np.ndarray, np.ndarray]:
    """Returns the position [m] and velocity [m/s] on an ellipse in the sagittal plane."""
    phase = 2 * np.pi * t / PERIOD
    c, s = np.cos(phase), np.sin(phase)
    return (
        start + [0.06 * s, 0.0, 0.04 * (1.0 - c)],
        2 * np.pi / PERIOD * np.array([0.06 * c, 0.0, 0.04 * s]),
    )


def main(picture: str | None = None) -> dict[str, float]:
    """Returns the largest position errors before, during and after the push [m]."""
    robot = qd.load("go2", root="fixed")
    dyn, sim = qd.Dynamics(robot), qd.Simulation(robot)
    spring = CartesianImpedance(robot, "FL", stiffness=2000.0)  # [N/m]
    start = dyn.frame_placement(sim.q, "FL").translation
    positions, errors = [], []
    for tick in range(1500):
        if tick == 700:
            sim.push("FL", np.array([-40.0, 0.0, 0.0]), duration=0.03)  # [N]
        s = dyn.update(sim.q, sim.v)
        p, v = target(start, sim.time)
        positions.append((p, s.placement("FL").translation))
        errors.append(np.linalg.norm(positions[-1][0] - positions[-1][1]))
        sim.step(spring.compute(s, p, velocity=v).tau)
    if picture:
        from matplotlib.figure import Figure

        ax = (figure := Figure(figsize=(6, 3.6), layout="constrained")).subplots()
        desired, reached = (np.array([each[i] for each in positions]) for i in (0, 1))
        ax.plot(desired[:, 0], desired[:, 2], "--", label="target")
        ax.plot(reached[:, 0], reached[:, 2], label="foot, pushed once")
        ax.set(xlabel="x [m]", ylabel="z [m]", aspect="equal")
        ax.legend(frameon=False)
        figure.savefig(picture, dpi=100)
    return {"before": max(errors[300:700]), "hit": max(errors[700:800]), "after": max(errors[1200:])}


if __name__ == "__main__":
    for when, error in main(*sys.argv[2:]).items():  # --picture FILE
        print(f"{when}: largest position error {1e3 * error:.1f} mm")
