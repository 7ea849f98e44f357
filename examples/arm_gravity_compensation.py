"""Gravity compensation of an arm.

The motors of a UR5 compensate its weight and add joint damping. After a push at its hand, the arm moves and
comes to rest at a new position. Without gravity compensation the arm falls.
"""

import sys

import numpy as np

import quaddyn as qd
from quaddyn.control import gravity_compensation

START = np.array([0.0, -1.2, 1.5, -0.3, 1.5, 0.0])


def fall(robot: qd.Robot, fraction: float) -> np.ndarray:
    """Simulates one second with a fraction of the gravity torques; returns the heights of the hand [m]."""
    dyn, sim = qd.Dynamics(robot), qd.Simulation(robot)
    sim.reset(START)
    sim.push("tool0", np.array([0.0, 20.0, 0.0]), duration=0.2)  # [N]
    heights = []
    for _ in range(1000):
        s = dyn.update(sim.q, sim.v)
        heights.append(s.placement("tool0").translation[2])
        sim.step(fraction * gravity_compensation(s).tau - 5.0 * sim.v)  # [N m s/rad]
    return np.array(heights)


def main(picture: str | None = None) -> dict[str, float]:
    """Returns the height that the hand loses in one second, with and without compensation [m]."""
    robot = qd.load("ur5")
    heights = {"weight compensated": fall(robot, 1.0), "without": fall(robot, 0.0)}
    drops = {name: float(z[0] - z[-1]) for name, z in heights.items()}
    if picture:
        draw(heights, picture)
    return drops


def draw(heights: dict[str, np.ndarray], picture: str) -> None:
    """Plots the height of the hand over time."""
    from matplotlib.figure import Figure

    ax = (figure := Figure(figsize=(6, 3.6), layout="constrained")).subplots()
    for name, z in heights.items():
        ax.plot(1e-3 * np.arange(len(z)), z, label=name)
    ax.set(xlabel="t [s]", ylabel="height of the hand [m]")
    ax.legend(frameon=False)
    figure.savefig(picture, dpi=100)


if __name__ == "__main__":
    for name, drop in main(*sys.argv[2:]).items():  # --picture FILE
        print(f"{name}: the hand is {drop:.3f} m lower after one second")
