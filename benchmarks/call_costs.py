"""Measures the processor time of the calls that a program makes: dynamics, kernels, controllers, plants, batches.

    python benchmarks/call_costs.py           # prints a table of this computer
    python benchmarks/call_costs.py --save    # also writes its column of docs/call-costs.md, and docs/call_costs.json
    python benchmarks/call_costs.py --page    # writes the tables of docs/call-costs.md from docs/call_costs.json

The times are processor times of one thread, called from Python; the smallest mean of `ROUNDS` rounds is reported,
because other programs only make calls slower.  A walking tick is the mean over a second of a trot.  A second computer
whose processor has the same name needs another ``--name`` for its column.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from collections.abc import Callable
from pathlib import Path

import mujoco
import numpy as np
import pinocchio as pin
from batches import processor_name

import quaddyn as qd
from quaddyn.contact import ContactSet
from quaddyn.contact.solvers import FrictionalSolver
from quaddyn.control import JointPD, gravity_compensation
from quaddyn.envs import VelocityTask
from quaddyn.estimation import BaseEstimator
from quaddyn.kinematics import LegKinematics
from quaddyn.runtime import MotorCommand, PlantInterface, Safety
from quaddyn.wbc import VelocityController

DOCS = Path(__file__).resolve().parent.parent / "docs"
TIMES, PAGE = DOCS / "call_costs.json", DOCS / "call-costs.md"
#: Rounds of every measurement, processor time of a round [s], and lanes of batches.
ROUNDS, ROUND_TIME, LANES = 7, 0.03, 1000
KERNELS = ("rnea", "aba", "crba", "rnea_derivatives", "aba_derivatives")

Call = Callable[[], object]


def smallest_mean(call: Call, per_call: int = 1) -> float:
    """Returns the smallest mean processor time of a call over the rounds [us], divided by the states of a call."""
    call()
    start = time.process_time()
    call()
    repeats = max(1, round(ROUND_TIME / max(time.process_time() - start, 1e-7)))
    means = []
    for _ in range(ROUNDS):
        start = time.process_time()
        for _ in range(repeats):
            call()
        means.append((time.process_time() - start) / repeats)
    return 1e6 * min(means) / per_call


def dynamics_calls(robot: qd.Robot) -> dict[str, float]:
    """Returns the times of `Dynamics`, of compiled kernels, and of leg kinematics [us]."""
    rng = np.random.default_rng(0)
    q = robot.integrate(robot.q_home, 0.1 * rng.standard_normal(robot.nv))
    v, a, tau = rng.standard_normal((3, robot.nv))
    dyn, fast = qd.Dynamics(robot), qd.compile(robot, KERNELS)
    arguments = {"rnea": (q, v, a), "aba": (q, v, tau), "crba": (q,)}
    arguments |= {"rnea_derivatives": (q, v, a), "aba_derivatives": (q, v, tau)}
    found = {
        "`qd.load(name)`": smallest_mean(lambda: qd.load("go2")),
        "`dyn.update(q, v)`": smallest_mean(lambda: dyn.update(q, v)),
        "`dyn.update(q, v)`, then `M`, `h`, `com`": smallest_mean(
            lambda: [getattr(s, name) for s in [dyn.update(q, v)] for name in ("M", "h", "com")]
        ),
    }
    s = dyn.update(q, v)
    found["`s.jacobian(foot)`"] = smallest_mean(lambda: s.jacobian("FL"))
    for name in KERNELS:
        own, compiled, given = getattr(dyn, name), getattr(fast, name), arguments[name]
        many = [np.tile(x, (LANES, 1)) for x in given]
        found[f"`dyn.{name}`"] = smallest_mean(lambda own=own, given=given: own(*given))
        found[f"`fast.{name}`, one state"] = smallest_mean(lambda f=compiled, given=given: f(*given))
        found[f"`fast.{name}`, a state of {LANES}"] = smallest_mean(lambda f=compiled, many=many: f(*many), LANES)
    leg = LegKinematics(robot, "FL")
    foot = leg.forward(robot.q_home[7:10])
    found["`leg.inverse(p)`"] = smallest_mean(lambda: leg.inverse(foot, knee="backward", hip="below"))
    return found


def control_calls(robot: qd.Robot) -> dict[str, float]:
    """Returns the times of controllers, estimator, safety layer and contact solver of a standing robot [us]."""
    dyn, q, v = qd.Dynamics(robot), robot.q_home.copy(), np.zeros(robot.nv)
    s, other = dyn.update(q, v), qd.Dynamics(robot)
    wbc, ik, pd = qd.WholeBodyController(robot), VelocityController(robot), JointPD(robot)
    contacts = ContactSet.from_feet(robot, friction=0.6)
    free = v + 1e-3 * np.linalg.solve(s.M, -s.h)
    problem, solver = contacts.contact_problem(s, free), FrictionalSolver()
    command = wbc.compute(s)
    side = PlantInterface(qd.Simulation(robot, dt=2e-3))
    reading, safety = side.read(), Safety(robot, dt=2e-3)
    motors = MotorCommand.from_torques(command.tau)
    estimator = BaseEstimator(robot, dt=2e-3)
    estimator.reset(q)
    up = np.array([0.0, 0.0, 9.81])
    found = {
        "`JointPD.compute`": smallest_mean(lambda: pd.compute(q, v, q)),
        "`gravity_compensation(s)`": smallest_mean(lambda: gravity_compensation(s)),
        "`FrictionalSolver.solve`, four feet": smallest_mean(lambda: solver.solve(problem)),
        "`WholeBodyController.compute(s)`": smallest_mean(lambda: wbc.compute(s)),
        "the same with `dyn.update`": smallest_mean(lambda: wbc.compute(other.update(q, v))),
        "`command.explain()`": smallest_mean(lambda: wbc.compute(s).explain()),
        "`VelocityController.compute(s)`": smallest_mean(lambda: ik.compute(s)),
        "`BaseEstimator.update`": smallest_mean(lambda: estimator.update(q[7:], v[6:], v[:3], up, robot.feet)),
        "`Safety.filter_command`": smallest_mean(lambda: safety.filter_command(reading, motors)),
    }
    return found


def walking_calls(robot: qd.Robot) -> dict[str, float]:
    """Returns the times of a tick of the locomotion controller and of a step of each plant in a trot [us]."""
    found: dict[str, float] = {}
    for plant in (qd.Simulation(robot, dt=2e-3), qd.MujocoPlant(robot, dt=2e-3)):
        name, dyn = type(plant).__name__, qd.Dynamics(robot)
        controller, means = qd.LocomotionController(robot, dt=2e-3), []
        for round_number in range(ROUNDS):
            control = plant_time = 0.0
            for _ in range(500):  # 1 s
                t0 = time.process_time()
                command = controller.compute(dyn.update(plant.q, plant.v), (0.3, 0.0, 0.0))
                t1 = time.process_time()
                plant.step(command.tau)
                t2 = time.process_time()
                control, plant_time = control + t1 - t0, plant_time + t2 - t1
            if round_number:  # the first second contains the beginning
                means.append((control / 500, plant_time / 500))
        if not found:
            found["`LocomotionController.compute` with `dyn.update`, trot"] = 1e6 * min(m[0] for m in means)
        found[f"`{name}.step`, trot"] = 1e6 * min(m[1] for m in means)
    return found


def batch_calls(robot: qd.Robot) -> dict[str, float]:
    """Returns the times of a lane in calls of batches with one thread [us]."""
    rng = np.random.default_rng(0)
    feet = qd.Simulation(robot, spheres={}).batch(LANES)
    targets = robot.q_home[7:] + rng.normal(0.0, 0.03, (LANES, robot.nu))
    stiffness = 10.0 * robot.mass * robot.q_home[2]
    controllers = qd.WholeBodyController(robot).batch(LANES)
    q, v = np.tile(robot.q_home, (LANES, 1)), rng.normal(0.0, 0.02, (LANES, robot.nv))
    task = VelocityTask(LANES, robot)
    task.reset()
    still = np.zeros((LANES, task.action_size))
    step: Call = lambda: feet.step(position=targets, stiffness=stiffness, damping=0.03 * stiffness)  # noqa: E731
    return {
        "`Simulation.batch(n).step`, a lane": smallest_mean(step, LANES),
        "`WholeBodyController.batch(n).compute`, a lane": smallest_mean(lambda: controllers.compute(q, v), LANES),
        "`VelocityTask.step` (20 ms), a lane": smallest_mean(lambda: task.step(still), LANES),
    }


GROUPS: dict[str, Callable[[qd.Robot], dict[str, float]]] = {
    "Model, dynamics, kernels, kinematics": dynamics_calls,
    "Control of a standing robot": control_calls,
    "Walking": walking_calls,
    f"Batches of {LANES:,}": batch_calls,
}


def measure() -> dict[str, dict[str, float]]:
    """Returns the times of all calls with Go2 by group and call [us], with two significant digits."""
    robot = qd.load("go2")
    return {group: {call: float(f"{us:.2g}") for call, us in calls(robot).items()} for group, calls in GROUPS.items()}


def tables(machines: dict[str, dict[str, dict[str, dict[str, float]]]]) -> str:
    """Returns the Markdown tables of all processors, a column each."""
    lines: list[str] = []
    for group in GROUPS:
        calls = dict.fromkeys(call for m in machines.values() for call in m["times"].get(group, {}))
        lines += [f"## {group}", "", f"| call | {' | '.join(machines)} |", "|---|" + "---:|" * len(machines)]
        for call in calls:
            times = [m["times"].get(group, {}).get(call) for m in machines.values()]
            lines.append(f"| {call} | {' | '.join('' if t is None else f'{t:,g} us' for t in times)} |")
        lines.append("")
    return "\n".join(lines)


def page_with_tables(page: str, machines: dict[str, dict[str, dict[str, dict[str, float]]]]) -> str:
    """Returns the text of the page with the tables between its two markers replaced."""
    head, _, rest = page.partition("<!-- tables -->\n")
    _, _, tail = rest.partition("<!-- end of tables -->\n")
    return f"{head}<!-- tables -->\n\n{tables(machines)}\n<!-- end of tables -->\n{tail}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--save", action="store_true", help="write the times of this processor to the documentation")
    parser.add_argument("--name", default=processor_name(), help="name of the column")
    parser.add_argument("--page", action="store_true", help="write the page without measuring")
    arguments = parser.parse_args()
    machines = json.loads(TIMES.read_text(encoding="utf-8")) if TIMES.exists() else {}
    if not arguments.page:
        versions = f"Python {platform.python_version()}, pin {pin.__version__}, NumPy {np.__version__}"
        found = {"versions": f"{versions}, MuJoCo {mujoco.__version__}", "times": measure()}
        print(arguments.name, found["versions"], sep="\n")
        print(tables({arguments.name: found}))
        machines[arguments.name] = found
    if arguments.save:
        TIMES.write_text(json.dumps(machines, indent=1) + "\n", encoding="utf-8")
    if arguments.save or arguments.page:
        PAGE.write_text(page_with_tables(PAGE.read_text(encoding="utf-8"), machines), encoding="utf-8")


if __name__ == "__main__":
    main()
