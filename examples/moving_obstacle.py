"""Avoiding a moving obstacle.

A ball moves through the space of a standing robot's trunk. With `CollisionLimits` the trunk leans aside, and the links
keep a minimum distance from the ball and from each other. Without them the ball passes through the trunk.
"""

import sys

import numpy as np

import quaddyn as qd
from quaddyn.kinematics import CapsuleModel, Obstacle
from quaddyn.wbc import CollisionLimits

START, VELOCITY = np.array([0.0, 0.3, 0.42]), np.array([0.0, -0.3, 0.0])  # [m], [m/s]


def main(picture: str | None = None) -> dict[str, float]:
    """Returns the smallest distance between the ball and the links, with and without limits [m]."""
    robot, results = qd.load("go2"), {}
    model = CapsuleModel(robot, links=("base", "FL_thigh", "FL_calf", "FR_thigh", "FR_calf"))
    for name in ("with the limits", "without"):
        dyn, sim, wbc = qd.Dynamics(robot), qd.Simulation(robot), qd.WholeBodyController(robot)
        limits = CollisionLimits(
            model, obstacles={"ball": Obstacle.sphere(0.05)}, obstacle_positions={"ball": START}, margin=0.01
        )
        if name == "with the limits":
            wbc.add(limits, level=0)
        distances = []
        for tick in range(600):
            limits.set_obstacle_pose("ball", START + tick * 1e-3 * VELOCITY, velocity=VELOCITY)
            command = wbc.compute(dyn.update(sim.q, sim.v))
            sim.step(command.tau)
            distances.append(
                limits.distance_margins(sim.q, sim.v)[0].min() + limits.margin if tick % 10 == 0 else distances[-1]
            )
        results[name] = np.array(distances)
    if picture:
        from matplotlib.figure import Figure

        ax = (figure := Figure(figsize=(6, 3.6), layout="constrained")).subplots()
        for name, distances in results.items():
            ax.plot(1e-3 * np.arange(len(distances)), 1e3 * distances, label=name)
        ax.set(xlabel="t [s]", ylabel="nearest distance [mm]")
        ax.legend(frameon=False)
        figure.savefig(picture, dpi=100)
    return {name: float(distances.min()) for name, distances in results.items()}


if __name__ == "__main__":
    for name, distance in main(*sys.argv[2:]).items():  # --picture FILE
        print(f"{name}: nearest distance {1e3 * distance:.1f} mm")
