"""Tests torque and friction limits for a set of payloads (`RobustLimits`) with payloads drawn from the set.

    python benchmarks/parameter_bands.py                      # go2, a1, anymal_c
    python benchmarks/parameter_bands.py --ticks 100000 --check

Robots stand on four or three feet in random states; the references are accelerations of the center of mass that
saturate torques and friction.  At each tick a payload is drawn from the set: its mass, center of mass and inertia.  The
accelerations of the controller are feasible with this payload if there are contact forces within the friction cones
(pyramids, with the smallest friction coefficient) and torques within their limits that result in them.  A linear
program (HiGHS) checks this with Pinocchio's equations of motion of the robot with the payload.  Solutions with and
without `RobustLimits` are checked for the same states, references and payloads.  Ticks with an infeasible level 0 are
reported by their status and are not checked.

Required is that no solution with the limits is infeasible.  Printed for comparison are the infeasible solutions without
the limits, and the time of a tick.
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

#: Smallest friction coefficient divided by the nominal one; tolerance of the check, divided by the mass [N/kg].
FRICTION_FRACTION, SLACK_FRACTION = 0.8, 1e-7


def make_controller(robot: qd.Robot, limits: RobustLimits | None) -> qd.WholeBodyController:
    """Returns the default controller, with the given limits on level 0 if there are any."""
    wbc = qd.WholeBodyController(robot, dt=1e-3, ramp_time=0.0)
    if limits is not None:
        wbc.add(limits, level=0)
    return wbc


class FeasibilityChecker:
    """Checker of accelerations of one robot with payloads on its root link, by Pinocchio's model alone."""

    def __init__(self, robot: qd.Robot) -> None:
        self.robot, self.model = robot, robot.model.copy()
        self.data, self.unloaded_inertia = self.model.createData(), self.model.inertias[1].copy()
        self.passive = np.setdiff1d(np.arange(robot.nv), robot.actuated_index)
        self.contacts = {each.name: each.contact for each in qd.WholeBodyController(robot).contacts.values()}

    def is_feasible(
        self, q: np.ndarray, v: np.ndarray, a: np.ndarray, stance: tuple[str, ...], load: pin.Inertia
    ) -> bool:
        """Returns whether contact forces and torques within their limits can produce these accelerations."""
        model, data, robot = self.model, self.data, self.robot
        model.inertias[1] = self.unloaded_inertia + load
        tau = pin.rnea(model, data, q, v, a)
        pin.computeJointJacobians(model, data, q)
        pin.updateFramePlacements(model, data)
        J, C = np.zeros((3 * len(stance), robot.nv)), np.zeros((4 * len(stance), 3 * len(stance)))
        for k, foot in enumerate(stance):
            contact = self.contacts[foot]
            frame = robot.frame_id(contact.frame)
            lever = data.oMf[frame].rotation @ contact.offset - contact.radius * contact.normal
            jacobian = pin.getFrameJacobian(model, data, frame, pin.LOCAL_WORLD_ALIGNED)
            J[3 * k : 3 * k + 3] = jacobian[:3] - pin.skew(lever) @ jacobian[3:]
            t1, t2, n = contact.axes
            friction = FRICTION_FRACTION * contact.friction * np.cos(np.pi / 4.0)
            C[4 * k : 4 * k + 4, 3 * k : 3 * k + 3] = [
                t1 - friction * n,
                t2 - friction * n,
                -t1 - friction * n,
                -t2 - friction * n,
            ]
        limit, actuated = robot.effort_limits, robot.actuated_index
        rows = np.vstack([C, J[:, actuated].T, -J[:, actuated].T])
        upper = np.concatenate([np.zeros(len(C)), limit + tau[actuated], limit - tau[actuated]])
        result = linprog(
            np.zeros(len(J)), A_ub=rows, b_ub=upper + SLACK_FRACTION * robot.mass, A_eq=J[:, self.passive].T,
            b_eq=tau[self.passive], bounds=(None, None),
        )  # fmt: skip
        return bool(result.status == 0)


def run_robot(name: str, ticks: int, seed: int) -> bool:
    """Tests one robot and prints the result; returns whether only solutions without the limits are infeasible."""
    robot, rng = qd.load(name), np.random.default_rng(seed)
    length = abs(qd.Dynamics(robot).frame_placement(robot.q_home, robot.feet[0]).translation[2] - robot.q_home[2])
    reach = 0.2 * length
    payloads = PayloadSet(
        (0.0, 0.3 * robot.mass), (-reach, -reach, 0.0), (reach, reach, reach), radius_of_gyration=0.2 * reach
    )
    controllers = (
        make_controller(robot, RobustLimits(robot, payloads, friction_fraction=FRICTION_FRACTION)),
        make_controller(robot, None),
    )
    dyn, checker = qd.Dynamics(robot), FeasibilityChecker(robot)
    n_checked, n_violated, n_infeasible_ticks, times = [0, 0], [0, 0], [0, 0], ([], [])
    start = time.perf_counter()
    for tick in range(ticks):
        stance = robot.feet if tick % 2 else tuple(foot for foot in robot.feet if foot != robot.feet[tick // 2 % 4])
        q = robot.integrate(robot.q_home, np.r_[0.0, 0.0, 0.0, rng.normal(0.0, 0.1, 3), rng.normal(0.0, 0.1, robot.nu)])
        v = rng.normal(0.0, 0.3, robot.nv)
        acceleration = rng.normal(0.0, 4.0, 3) + np.array((0.0, 0.0, 4.0))
        mass, com_position = rng.uniform(*payloads.mass), rng.uniform(payloads.com_lower, payloads.com_upper)
        payload = pin.Inertia(mass, com_position, mass * payloads.radius_of_gyration**2 * np.eye(3))
        for k, wbc in enumerate(controllers):
            wbc.reset()
            state = dyn.update(q, v)
            com = wbc.tasks["com"]
            com.reference(state.com, np.zeros(3), acceleration)
            tick_start = time.process_time()
            command = wbc.compute(state, contacts=stance)
            times[k].append(time.process_time() - tick_start)
            if command.status.outcome != "solved":
                n_infeasible_ticks[k] += 1
                continue
            n_checked[k] += 1
            n_violated[k] += not checker.is_feasible(q, v, command.acceleration, stance, payload)
        if tick % 200 == 199 and sys.stderr.isatty():
            print(f"\r  {name}: {tick + 1} of {ticks}", end="", file=sys.stderr)
    microseconds = [1e6 * float(np.median(each)) for each in times]
    print(
        f"  {name}, payload to {payloads.mass[1]:.1f} kg within {2e3 * reach:.0f} mm: with limits {n_violated[0]} of "
        f"{n_checked[0]} solutions infeasible ({n_infeasible_ticks[0]} ticks not solved), without limits "
        f"{n_violated[1]} of {n_checked[1]} ({n_infeasible_ticks[1]} ticks not solved); time of a tick "
        f"{microseconds[0]:.0f} and {microseconds[1]:.0f} us; {time.perf_counter() - start:.0f} s"
    )
    return n_violated[0] == 0 and n_violated[1] > 0


def main() -> int:
    """Tests all robots; returns 1 if `--check` finds a requirement that is not met."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--robots", nargs="*", default=("go2", "a1", "anymal_c"))
    parser.add_argument("--ticks", type=int, default=1000, help="number of ticks per robot")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--check", action="store_true", help="exit code 1 if a requirement is not met")
    options = parser.parse_args()
    is_met = all([run_robot(name, options.ticks, options.seed) for name in options.robots])
    print("all requirements met" if is_met else "a requirement is not met")
    return 1 if options.check and not is_met else 0


if __name__ == "__main__":
    sys.exit(main())
