"""A jump onto a step.

The terrain map of the controller contains a step in front of the robot's feet. The controller plans the whole jump
beforehand: the push-off, the parabola, the foot heights above the edge, and the landing positions.
"""

import sys

import numpy as np

import quaddyn as qd
from quaddyn.simulation.terrain import Box, Plane, Terrain

DT, HEIGHT, LENGTH = 2e-3, 0.05, 2.0  # control period [s]; height and length of the step [m]


def main(picture: str | None = None) -> dict[str, float]:
    """Returns the landing error [m], and ratios of the highest and final heights to the planned and initial ones."""
    robot = qd.load("a1")
    controller = qd.LocomotionController(robot, dt=DT, friction=0.8)
    stance, dyn = controller.morphology.nominal_stance, qd.Dynamics(robot)
    edge = stance[:, 0].max() + 0.02
    home = dyn.update(robot.q_home, np.zeros(robot.nv))
    middle, before = home.origins(robot.feet)[:, :2].mean(axis=0), float(home.com[2])
    step = Box([middle[0] + edge + 0.5 * LENGTH, middle[1], 0.5 * HEIGHT], [LENGTH, LENGTH, HEIGHT])
    controller.terrain = ground = Terrain.from_surfaces([Plane.floor(), step])
    sim, log = qd.Simulation(robot, dt=DT, friction=0.8, terrain=ground), []
    for tick in range(1400):
        if tick == 50:
            plan = controller.jump(distance=(edge - stance[:, 0].min() + 0.05, 0.0))
        s = dyn.update(sim.q, sim.v)
        command = controller.compute(s)
        log.append((s.com.copy(), s.origins(robot.feet).copy()))
        sim.step(command.tau)
    com, feet = (np.array(column) for column in zip(*log, strict=True))
    miss = np.linalg.norm(feet[-1, :, :2] - middle - stance - plan.distance, axis=1).max()
    if picture:
        from matplotlib.figure import Figure

        axes = (figure := Figure(figsize=(6, 3), layout="constrained")).subplots()
        axes.plot(com[:, 0], com[:, 2], label="center of mass")
        for foot, path in (("FL", feet[:, 0]), ("RL", feet[:, 2])):
            axes.plot(path[:, 0], path[:, 2], label=foot)
        x = np.linspace(-0.3, 0.9, 400)
        axes.fill_between(x, ground.height(x, 0.0 * x + middle[1]), -0.02, color="0.8")
        axes.set(xlabel="x [m]", ylabel="z [m]", aspect="equal")
        axes.legend()
        figure.savefig(picture, dpi=100)
    return {
        "miss": miss,
        "top": com[:, 2].max() / (plan.liftoff_com_height + plan.height),
        "end": (com[-1, 2] - HEIGHT) / before,
    }


if __name__ == "__main__":
    found = main(*sys.argv[2:])  # --picture FILE
    high, end = f"{found['top']:.0%} of the planned height", f"final height {found['end']:.0%}"
    print(f"landing error {1e3 * found['miss']:.0f} mm, {high}, {end}")
