"""Two plants side by side.

The same controller, the same push, the embedded simulation and MuJoCo: a trunk that swings back in both.
"""

import sys

import numpy as np

import quaddyn as qd


def main(picture: str | None = None) -> dict[str, float]:
    """How far the trunk is moved by the push, by plant [m]."""
    robot, ways = qd.load("go2"), {}
    for plant in (qd.Simulation(robot), qd.MujocoPlant(robot)):
        dyn, wbc = qd.Dynamics(robot), qd.WholeBodyController(robot)
        wbc.tasks.com.reference(dyn.center_of_mass(plant.q))
        way = []
        for tick in range(1500):
            if tick == 300:
                plant.push("base", np.array([0.0, 60.0, 0.0]), duration=0.15)  # [N]
            s = dyn.update(plant.q, plant.v)
            way.append(s.com[1])
            plant.step(wbc.compute(s).tau)
        ways[type(plant).__name__] = np.array(way) - way[0]
    if picture:
        from matplotlib.figure import Figure

        ax = (figure := Figure(figsize=(6, 3.6), layout="constrained")).subplots()
        for (name, way), style in zip(ways.items(), ("-", "--"), strict=True):
            ax.plot(1e-3 * np.arange(len(way)), 1e3 * way, style, label=name)
        ax.set(xlabel="t [s]", ylabel="CoM to the left [mm]")
        ax.legend(frameon=False)
        figure.savefig(picture, dpi=100)
    return {name: float(way.max()) for name, way in ways.items()}


if __name__ == "__main__":
    for name, way in main(*sys.argv[2:]).items():  # --picture FILE
        print(f"{name}: pushed {1e3 * way:.1f} mm aside")
