"""Comparison of the two simulators.

The same controller and the same push are simulated in the embedded simulator and in MuJoCo. The trunk returns in both.
"""

import sys

import numpy as np

import quaddyn as qd


def main(picture: str | None = None) -> dict[str, float]:
    """Returns the largest displacement by the push in each simulator [m]."""
    robot, results = qd.load("go2"), {}
    for plant in (qd.Simulation(robot), qd.MujocoPlant(robot)):
        dyn, wbc = qd.Dynamics(robot), qd.WholeBodyController(robot)
        wbc.tasks.com.reference(dyn.center_of_mass(plant.q))
        displacement = []
        for tick in range(1500):
            if tick == 300:
                plant.push("base", np.array([0.0, 60.0, 0.0]), duration=0.15)  # [N]
            s = dyn.update(plant.q, plant.v)
            displacement.append(s.com[1])
            plant.step(wbc.compute(s).tau)
        results[type(plant).__name__] = np.array(displacement) - displacement[0]
    if picture:
        from matplotlib.figure import Figure

        ax = (figure := Figure(figsize=(6, 3.6), layout="constrained")).subplots()
        for (name, displacement), style in zip(results.items(), ("-", "--"), strict=True):
            ax.plot(1e-3 * np.arange(len(displacement)), 1e3 * displacement, style, label=name)
        ax.set(xlabel="t [s]", ylabel="CoM to the left [mm]")
        ax.legend(frameon=False)
        figure.savefig(picture, dpi=100)
    return {name: float(displacement.max()) for name, displacement in results.items()}


if __name__ == "__main__":
    for name, displacement in main(*sys.argv[2:]).items():  # --picture FILE
        print(f"{name}: largest lateral displacement {1e3 * displacement:.1f} mm")
