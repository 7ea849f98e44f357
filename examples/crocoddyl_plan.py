"""A plan of Crocoddyl, tracked by whole-body control.

Crocoddyl plans how Go2 gives its left front paw: it shifts its weight, raises the foot, holds it and puts it down. In
the simulation the robot carries 2 kg that the plan does not contain. The torques of the plan alone let it fall;
whole-body control with the plan as its reference does not. The plan is read from examples/crocoddyl/paw.npz. --python
FILE plans again, with the Python of an environment in which examples/crocoddyl/requirements.txt is installed, because
Crocoddyl 3.2 and quaddyn need different versions of Pinocchio.
"""

import argparse
import subprocess
import tempfile
from pathlib import Path

import numpy as np

import quaddyn as qd
from quaddyn.robot import with_payload
from quaddyn.wbc import ComTask, FootTask, ForceTask, FrameOrientationTask, PostureTask

DT, PAW, FOLDER = 1e-3, "FL", Path(__file__).resolve().parent / "crocoddyl"


def solve(robot: qd.Robot, python: str) -> Path:
    """Runs Crocoddyl in another environment and returns the file of the plan."""
    folder = Path(tempfile.mkdtemp())
    urdf = robot.source if isinstance(robot.source, str) else robot.source.decode()
    feet = [robot.legs[foot].foot.frame for foot in robot.feet]  # the paw first
    np.savez(folder / "model.npz", urdf=urdf, q_home=robot.q_home, joints=robot.actuated, feet=feet)
    files = [str(folder / name) for name in ("model.npz", "plan.npz")]
    subprocess.run([python, str(FOLDER / "plan_paw.py"), *files], check=True)
    return folder / "plan.npz"


class Plan:
    """Configurations, velocities and torques of a plan as functions of time, linear between its nodes."""

    def __init__(self, robot: qd.Robot, file: Path) -> None:
        with np.load(file) as arrays:
            self.q, self.v, self.tau, self.on_ground, node = (
                arrays[name] for name in ("q", "v", "tau", "on_ground", "node")
            )
        if self.q.shape[1:] != (robot.nq,) or self.v.shape != (len(self.tau) + 1, robot.nv):
            raise qd.QuaddynError(f"plan: expected states of {robot.name}, got shapes {self.q.shape}, {self.v.shape}")
        self.robot, self.node, self.duration = robot, float(node), float(node) * len(self.tau)

    def at(self, t: float) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, bool]:
        """Returns q, v, acceleration, torques, and whether the paw is on the ground, at a time [s]."""
        k = min(int(t / self.node), len(self.tau) - 1)
        alpha = min(t / self.node - k, 1.0)
        q, a = self.robot.interpolate(self.q[k], self.q[k + 1], alpha), (self.v[k + 1] - self.v[k]) / self.node
        return q, self.v[k] + alpha * (self.v[k + 1] - self.v[k]), a, self.tau[k], bool(self.on_ground[k])


class Tracker:
    """Whole-body controller that follows a plan: paw, center of mass and trunk on level 1, joints on level 2."""

    def __init__(self, plan: Plan) -> None:
        robot = plan.robot
        self.plan, self.measured, self.planned = plan, qd.Dynamics(robot), qd.Dynamics(robot)
        self.com, self.paw = ComTask(robot), FootTask(robot, PAW)
        self.trunk, self.posture = FrameOrientationTask(robot, "base", "trunk"), PostureTask(robot)
        levels = [[self.com, self.trunk, self.paw], [self.posture, ForceTask(robot)]]
        self.wbc = qd.WholeBodyController(robot, dt=DT, tasks=levels)

    def compute(self, plant: qd.Simulation) -> np.ndarray:
        """Returns the torques (nu,) [N m] of a tick."""
        q, v, a, _, on_ground = self.plan.at(plant.time)
        p = self.planned.update(q, v)
        self.com.reference(p.com, p.com_velocity, p.com_jacobian @ a + p.com_drift)
        base, foot = p.placement("base"), p.jacobian(PAW)[:3] @ a + p.drift(PAW)[:3]
        angular = (p.jacobian("base") @ a + p.drift("base"))[3:]
        self.trunk.reference(base.rotation, p.velocity("base")[3:], angular)
        self.paw.reference(p.placement(PAW).translation, p.velocity(PAW)[:3], foot)
        self.posture.reference(q, v[6:], a[6:])
        contacts = [name for name in self.plan.robot.feet if on_ground or name != PAW]
        return self.wbc.compute(self.measured.update(plant.q, plant.v), contacts).tau


def run(plan: Plan, controller: object, loaded: qd.Robot) -> tuple[np.ndarray, np.ndarray, float]:
    """Returns positions of the paw, planned and simulated (ticks, 3) [m], and the height of the base at the end [m]."""
    plant, dyn, paws = qd.Simulation(loaded, dt=DT), qd.Dynamics(plan.robot), []
    while plant.time < plan.duration + 0.3:
        plant.step(controller(plant))
        planned = dyn.frame_placement(plan.at(plant.time)[0], PAW).translation
        paws.append((planned, dyn.frame_placement(plant.q, PAW).translation))
    paws = np.array(paws)
    return paws[:, 0], paws[:, 1], float(plant.q[2])


def main(picture: str | None = None, *, python: str | None = None) -> dict[str, float]:
    """Returns the largest error of the paw and its largest height [m], and the final base heights [m]."""
    robot = qd.load("go2")
    plan = Plan(robot, solve(robot, python) if python else FOLDER / "paw.npz")
    loaded = with_payload(robot, 2.0, (0.0, 0.0, 0.08))  # [kg], [m]
    planned, paw, end = run(plan, Tracker(plan).compute, loaded)
    *_, alone = run(plan, lambda plant: plan.at(plant.time)[3], loaded)
    if picture:
        from matplotlib.figure import Figure

        ax = (figure := Figure(figsize=(6, 3.6), layout="constrained")).subplots()
        for axis, color in (("x", "tab:blue"), ("z", "tab:orange")):
            t, i = DT * np.arange(len(paw)), "xyz".index(axis)
            ax.plot(t, planned[:, i], "--", color=color, label=f"{axis}, planned")
            ax.plot(t, paw[:, i], color=color, label=f"{axis}, simulated")
        ax.set(xlabel="t [s]", ylabel="paw [m]")
        ax.legend(frameon=False)
        figure.savefig(picture, dpi=100)
    error = float(np.linalg.norm(paw - planned, axis=1).max())
    return {"error": error, "raised": float(paw[:, 2].max()), "base": end, "base of torques alone": alone}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--picture", help="file to plot to")
    parser.add_argument("--python", help="Python of an environment with Crocoddyl, to plan again")
    found = main(**vars(parser.parse_args()))
    print(f"the paw is {found['raised']:.2f} m high and at most {1e3 * found['error']:.0f} mm from the plan")
    print(f"base at the end: {found['base']:.2f} m; torques of the plan alone: {found['base of torques alone']:.2f} m")
