"""Tests torque and friction limits with payloads of which the controller has only a range of parameters.

    python benchmarks/parameter_bands.py                      # go2, a1, anymal_c
    python benchmarks/parameter_bands.py --ticks 100000 --check

Robots stand on four or three feet in random states, and are asked for accelerations of the center of mass and forces at
the feet that saturate torques and friction.  At each tick a payload is drawn from the band: its mass, place and own
inertia.  Judged is whether the accelerations that the controller decided on are possible with it: whether there are
contact forces within the friction cones (pyramids, at the least friction) and torques within their limits that give
them, by Pinocchio's equations of motion of the robot with this payload and a linear program (HiGHS).
Both answers, with `RobustLimits` and without, are judged on the same states, references and payloads.  Ticks whose
level 0 cannot be met say so and are not judged.

Bar: with the limits, no violation; printed beside it are those without, and what a tick costs.
"""

from __future__ import annotations

import argparse
import sys
import time

import numpy as np
import pinocchio as pin
from scipy.optimize import linprog

import quaddyn as qd
from quaddyn.wbc import PayloadSet, RobustLimits

#: Share of the friction coefficient that the ground has at least; slack of the judge, in shares of weight.
FRICTION, SLACK = 0.8, 1e-7


def controller(robot: qd.Robot, limits: RobustLimits | None) -> qd.WholeBodyController:
    """The default controller, with or without the limits on level 0."""
    wbc = qd.WholeBodyController(robot, dt=1e-3, ramp_time=0.0)
    if limits is not None:
        wbc.add(limits, level=0)
    return wbc


class Judge:
    """What is possible for one robot with payloads on its root link, by its model in Pinocchio alone."""

    def __init__(self, robot: qd.Robot) -> None:
        self.robot, self.model = robot, robot.model.copy()
        self.data, self.bare = self.model.createData(), self.model.inertias[1].copy()
        self.passive = np.setdiff1d(np.arange(robot.nv), robot.actuated_index)
        self.contacts = {each.name: each.contact for each in qd.WholeBodyController(robot).contacts.values()}

    def possible(self, q: np.ndarray, v: np.ndarray, a: np.ndarray, stance: tuple[str, ...], load: pin.Inertia) -> bool:
        """Whether forces and torques within their limits give these accelerations."""
        model, data, robot = self.model, self.data, self.robot
        model.inertias[1] = self.bare + load
        tau = pin.rnea(model, data, q, v, a)
        pin.computeJointJacobians(model, data, q)
        pin.updateFramePlacements(model, data)
        J, C = np.zeros((3 * len(stance), robot.nv)), np.zeros((4 * len(stance), 3 * len(stance)))
        for k, foot in enumerate(stance):
            contact = self.contacts[foot]
            frame = robot.frame_id(contact.frame)
            lever = data.oMf[frame].rotation @ contact.offset - contact.radius * contact.normal
            whole = pin.getFrameJacobian(model, data, frame, pin.LOCAL_WORLD_ALIGNED)
            J[3 * k : 3 * k + 3] = whole[:3] - pin.skew(lever) @ whole[3:]
            t1, t2, n = contact.axes
            least = FRICTION * contact.friction * np.cos(np.pi / 4.0)
            C[4 * k : 4 * k + 4, 3 * k : 3 * k + 3] = [t1 - least * n, t2 - least * n, -t1 - least * n, -t2 - least * n]
        limit, driven = robot.effort_limits, robot.actuated_index
        rows = np.vstack([C, J[:, driven].T, -J[:, driven].T])
        upper = np.concatenate([np.zeros(len(C)), limit + tau[driven], limit - tau[driven]])
        found = linprog(
            np.zeros(len(J)), A_ub=rows, b_ub=upper + SLACK * robot.mass, A_eq=J[:, self.passive].T,
            b_eq=tau[self.passive], bounds=(None, None),
        )  # fmt: skip
        return bool(found.status == 0)


def run(name: str, ticks: int, seed: int) -> bool:
    """One robot; whether the bar is met."""
    robot, rng = qd.load(name), np.random.default_rng(seed)
    length = abs(qd.Dynamics(robot).frame_placement(robot.q_home, robot.feet[0]).translation[2] - robot.q_home[2])
    reach = 0.2 * length
    band = PayloadSet(
        (0.0, 0.3 * robot.mass), (-reach, -reach, 0.0), (reach, reach, reach), radius_of_gyration=0.2 * reach
    )
    both = (controller(robot, RobustLimits(robot, band, friction_fraction=FRICTION)), controller(robot, None))
    dyn, judge = qd.Dynamics(robot), Judge(robot)
    judged, wrong, infeasible, cost = [0, 0], [0, 0], [0, 0], ([], [])
    start = time.perf_counter()
    for tick in range(ticks):
        stance = robot.feet if tick % 2 else tuple(foot for foot in robot.feet if foot != robot.feet[tick // 2 % 4])
        q = robot.integrate(robot.q_home, np.r_[0.0, 0.0, 0.0, rng.normal(0.0, 0.1, 3), rng.normal(0.0, 0.1, robot.nu)])
        v = rng.normal(0.0, 0.3, robot.nv)
        push = rng.normal(0.0, 4.0, 3) + np.array((0.0, 0.0, 4.0))
        mass, place = rng.uniform(*band.mass), rng.uniform(band.com_lower, band.com_upper)
        load = pin.Inertia(mass, place, mass * band.radius_of_gyration**2 * np.eye(3))
        for k, wbc in enumerate(both):
            wbc.reset()
            state = dyn.update(q, v)
            com = wbc.tasks["com"]
            com.reference(state.com, np.zeros(3), push)
            begin = time.process_time()
            command = wbc.compute(state, contacts=stance)
            cost[k].append(time.process_time() - begin)
            if command.status.outcome != "solved":
                infeasible[k] += 1
                continue
            judged[k] += 1
            wrong[k] += not judge.possible(q, v, command.acceleration, stance, load)
        if tick % 200 == 199 and sys.stderr.isatty():
            print(f"\r  {name}: {tick + 1} of {ticks}", end="", file=sys.stderr)
    micro = [1e6 * float(np.median(each)) for each in cost]
    print(
        f"  {name}, to {band.mass[1]:.1f} kg within {2e3 * reach:.0f} mm: with limits {wrong[0]} of {judged[0]} "
        f"impossible ({infeasible[0]} said infeasible), without {wrong[1]} of {judged[1]} ({infeasible[1]}); a tick "
        f"{micro[0]:.0f} and {micro[1]:.0f} us; {time.perf_counter() - start:.0f} s"
    )
    return wrong[0] == 0 and wrong[1] > 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--robots", nargs="*", default=("go2", "a1", "anymal_c"))
    parser.add_argument("--ticks", type=int, default=1000, help="per robot")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--check", action="store_true", help="exit code 1 if a requirement is not met")
    options = parser.parse_args()
    met = all([run(name, options.ticks, options.seed) for name in options.robots])
    print("all requirements met" if met else "a requirement is not met")
    return 1 if options.check and not met else 0


if __name__ == "__main__":
    sys.exit(main())
