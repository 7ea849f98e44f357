"""A custom limit.

A constraint with one row on level 0 keeps the center of mass on one side of a plane. It limits the acceleration
early enough to stop before the plane, although the reference of the center of mass is beyond it.
"""

import sys

import numpy as np

import quaddyn as qd
from quaddyn.wbc import CustomConstraint


class BehindPlane(CustomConstraint):
    """Keeps the center of mass on one side of a plane, ``x <= limit``."""

    def __init__(self, robot: qd.Robot, limit: float) -> None:
        super().__init__(robot, "wall", rows=1, stiffness=225.0)  # [1/s^2]
        self.limit = limit

    def value(self, s: qd.State) -> np.ndarray:
        return self.limit - s.com[:1]

    def jacobian(self, s: qd.State) -> np.ndarray:
        return -s.com_jacobian[:1]


def main(picture: str | None = None) -> dict[str, float]:
    """Returns the smallest distances to the plane, with and without the limit [m]."""
    robot, results = qd.load("go2"), {}
    for name in ("with the limit", "without"):
        dyn, sim, wbc = qd.Dynamics(robot), qd.Simulation(robot), qd.WholeBodyController(robot)
        start = dyn.center_of_mass(sim.q)
        if name == "with the limit":
            wbc.add(BehindPlane(robot, start[0] + 0.02), level=0)
        distances = []
        for tick in range(1200):
            wbc.tasks.com.reference(start + [0.05 * min(tick / 400, 1.0), 0.0, 0.0])
            s = dyn.update(sim.q, sim.v)
            distances.append(start[0] + 0.02 - s.com[0])
            sim.step(wbc.compute(s).tau)
        results[name] = np.array(distances)
    if picture:
        from matplotlib.figure import Figure

        ax = (figure := Figure(figsize=(6, 3.6), layout="constrained")).subplots()
        for name, distances in results.items():
            ax.plot(1e-3 * np.arange(len(distances)), 1e3 * distances, label=name)
        ax.set(xlabel="t [s]", ylabel="distance to the plane [mm]")
        ax.legend(frameon=False)
        figure.savefig(picture, dpi=100)
    return {name: float(distances.min()) for name, distances in results.items()}


if __name__ == "__main__":
    for name, distance in main(*sys.argv[2:]).items():  # --picture FILE
        print(f"{name}: smallest distance {1e3 * distance:.1f} mm")
