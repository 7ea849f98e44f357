"""A task of your own.

How high one foot is above another, in five methods. On a controller that stands on three feet, it lifts the fourth.
"""

import sys

import numpy as np

import quaddyn as qd
from quaddyn.dynamics import State
from quaddyn.wbc import Task


class HeightBetween(Task):
    """Height of a frame above another one [m]."""

    def __init__(self, robot: qd.Robot, frame: str, other: str) -> None:
        self.pair = frame, other
        super().__init__(robot, "height", ("z",), ("m/s^2",), 1, stiffness=100.0, damping=None, weight=1.0, axes=None)

    def position(self, s: State) -> np.ndarray:
        return (s.placement(self.pair[0]).translation - s.placement(self.pair[1]).translation)[2:]

    def error(self, s: State) -> np.ndarray:
        return self._position - self.position(s)

    def velocity(self, s: State) -> np.ndarray:
        return self.jacobian(s) @ s.v

    def jacobian(self, s: State) -> np.ndarray:
        return (s.jacobian(self.pair[0]) - s.jacobian(self.pair[1]))[2:3]

    def drift(self, s: State) -> np.ndarray:
        return (s.drift(self.pair[0]) - s.drift(self.pair[1]))[2:3]


def main(picture: str | None = None) -> float:
    """Height reached [m]."""
    robot = qd.load("go2")
    dyn, sim, wbc = qd.Dynamics(robot), qd.Simulation(robot), qd.WholeBodyController(robot)
    wbc.add(height := HeightBetween(robot, "FL", "FR"), level=1)
    wbc.remove("FL")  # the task that holds a lifted foot where it is
    start, heights = dyn.center_of_mass(sim.q), []
    for tick in range(1500):
        wbc.tasks["com"].reference(start + min(tick / 500, 1.0) * np.array([-0.06, -0.04, 0.0]))
        height.reference(np.array([0.08 * min(max(tick / 500 - 1.2, 0.0), 1.0)]))
        s = dyn.update(sim.q, sim.v)
        heights.append(height.position(s)[0])
        sim.step(wbc.compute(s, robot.feet if tick < 600 else robot.feet[1:]).tau)
    if picture:
        from matplotlib.figure import Figure

        (figure := Figure((6, 3.6))).subplots(subplot_kw={"ylabel": "FL above FR [m]"}).plot(heights)
        figure.savefig(picture, dpi=100)
    return heights[-1]


if __name__ == "__main__":
    print(f"the foot is {1e3 * main(*sys.argv[2:]):.0f} mm higher")  # --picture FILE
