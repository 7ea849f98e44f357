"""Trotting over boxes.

A Go2 trots over boxes without a terrain map. A swing ends when the foot measures contact (`measured_contacts=`), and
the controller plans the next steps from the measured height.
"""

import sys

import numpy as np

import quaddyn as qd
from quaddyn.simulation import Box, Plane

DT = 2e-3


def main(picture: str | None = None) -> dict[str, float | str]:
    """Returns the final trunk position [m], the maximum foot height [m] and the final mode."""
    robot = qd.load("go2")
    boxes = [
        Box(center=np.array([0.6 + 0.35 * i, 0.2 * (-1) ** i, 0.0]), size=np.array([0.3, 0.5, 0.04 + 0.02 * (i % 2)]))
        for i in range(4)
    ]
    plant = qd.Simulation(robot, dt=DT, terrain=(Plane.floor(), *boxes))
    dyn, walker = qd.Dynamics(robot), qd.LocomotionController(robot, dt=DT, gait="trot")
    log = []
    for tick in range(2500):
        contacts = [foot for foot in robot.feet if plant.contact_forces[foot][2] > 5.0]
        s = dyn.update(plant.q, plant.v)
        command = walker.compute(s, (0.4 if tick > 200 else 0.0, 0.0, 0.0), measured_contacts=contacts)
        log.append([plant.q[0], plant.q[2], *(s.placement(foot).translation[2] for foot in robot.feet)])
        plant.step(command.tau)
    positions = np.array(log)
    if picture:
        from matplotlib.figure import Figure
        from matplotlib.patches import Rectangle

        ax = (figure := Figure(figsize=(7, 3.2), layout="constrained")).subplots()
        for box in boxes:
            x, height = box.center[0] - box.size[0] / 2, box.size[2] / 2
            ax.add_patch(Rectangle((x, 0.0), box.size[0], height, color="0.8"))
        ax.plot(positions[:, 0], positions[:, 1], label="trunk")
        ax.plot(positions[:, 0], positions[:, 2:], lw=0.8)
        ax.set(xlabel="x of the trunk [m]", ylabel="height of trunk and feet [m]")
        figure.savefig(picture, dpi=100)
    return {
        "distance": positions[-1, 0],
        "ground": float(positions[:, 2:].max(axis=1).max()),
        "mode": command.mode.value,
    }


if __name__ == "__main__":
    found = main(*sys.argv[2:])  # --picture FILE
    print(f"{found['mode']} after {found['distance']:.2f} m")
