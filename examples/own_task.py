"""A custom task.

The task controls the height difference between two feet. Its class defines two methods, the error and the Jacobian.
The robot stands on three feet and lifts the fourth by this task.
"""

import sys

import numpy as np

import quaddyn as qd
from quaddyn.wbc import CustomTask


class HeightBetween(CustomTask):
    """Task for the height of one frame above another frame [m]."""

    def __init__(self, robot: qd.Robot, frame: str, other: str) -> None:
        super().__init__(robot, "height", rows=1, stiffness=100.0)
        self.frames, self.desired_height = (frame, other), 0.0

    def height(self, s: qd.State) -> np.ndarray:
        high, low = (s.placement(frame).translation for frame in self.frames)
        return high[2:] - low[2:]

    def error(self, s: qd.State) -> np.ndarray:
        return self.desired_height - self.height(s)

    def jacobian(self, s: qd.State) -> np.ndarray:
        high, low = (s.jacobian(frame) for frame in self.frames)
        return high[2:3] - low[2:3]


def main(picture: str | None = None) -> float:
    """Returns the final height difference [m]."""
    robot = qd.load("go2")
    dyn, sim, wbc = qd.Dynamics(robot), qd.Simulation(robot), qd.WholeBodyController(robot)
    own = HeightBetween(robot, "FL", "FR")
    wbc.add(own, level=1)
    wbc.remove("FL")  # the default task keeps a lifted foot at its position
    start, heights = dyn.center_of_mass(sim.q), []
    for tick in range(1500):
        wbc.tasks.com.reference(start + min(tick / 500, 1.0) * np.array([-0.06, -0.04, 0.0]))
        own.desired_height = 0.08 * min(max(tick / 500 - 1.2, 0.0), 1.0)
        s = dyn.update(sim.q, sim.v)
        heights.append(own.height(s)[0])
        sim.step(wbc.compute(s, robot.feet if tick < 600 else robot.feet[1:]).tau)
    if picture:
        from matplotlib.figure import Figure

        ax = (figure := Figure(figsize=(6, 3.6), layout="constrained")).subplots()
        ax.plot(1e-3 * np.arange(len(heights)), 1e3 * np.array(heights))
        ax.set(xlabel="t [s]", ylabel="FL above FR [mm]")
        figure.savefig(picture, dpi=100)
    return heights[-1]


if __name__ == "__main__":
    print(f"the foot is {1e3 * main(*sys.argv[2:]):.0f} mm higher")  # --picture FILE
