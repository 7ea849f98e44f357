"""Tests trotting quadrupeds in both plants with pushes, payloads, ice, steps and slopes: rates of success.

``--fleet`` runs eight robots with forward, sideways and turning commands (`quaddyn campaign gaits`), at a trot or with
``--gait pronk``, which a robot may refuse as too weak or too slow; ``--trials N`` runs N seeded trials of each
disturbance on one robot (`quaddyn campaign robustness`); ``--endurance S`` is one long trot, ``--cost`` the time of a
tick on level ground, blind on rubble, and told of rubble and stairs.  A trial succeeds when the robot is upright
24 sqrt(l/g) (5 s for a Go2) after the disturbance and reaches 70 % of the commanded speed.  ``--check`` exits with 1
where a bar is missed.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from contextlib import nullcontext
from typing import Any

import numpy as np
import pinocchio as pin

import quaddyn as qd
from quaddyn.campaigns import Failure, process_pool, run
from quaddyn.campaigns.disturbances import DISTURBANCES
from quaddyn.campaigns.gaits import GaitCampaign
from quaddyn.campaigns.obstacles import CONTACT_DETECTION_OPTIONS, ObstacleCampaign
from quaddyn.campaigns.outcome_counts import OutcomeCounts
from quaddyn.campaigns.robustness import RobustnessCampaign
from quaddyn.campaigns.trial import Trial
from quaddyn.campaigns.trial_campaign import DEFAULT_COMMAND_SPEED, draw_velocity
from quaddyn.campaigns.trial_setup import make_trial_setup
from quaddyn.locomotion import GAITS, LocomotionController, Morphology
from quaddyn.simulation import Simulation

#: Disturbances of the acceptance; `DISTURBANCES` has more.
USUAL = ("push-standing", "push", "friction", "payload", "strips", "slope", "noise")
#: Where the cost of a tick is measured: fields of a `Trial`, or an obstacle.
GROUNDS: dict[str, dict[str, Any]] = {
    "level, by schedule": {"options": CONTACT_DETECTION_OPTIONS["scheduled"]},
    "level": {},
    "rubble, blind": {"obstacle": "blind-rubble-0.08"},
    "rubble, told": {"obstacle": "rubble-0.15"},
    "stairs, told": {"obstacle": "up-0.15-0.6"},
}
FLEET = ("go2", "a1", "solo12", "anymal_b", "anymal_c", "hyq", "b1", "laikago")


def tick_cost(name: str) -> tuple[dict[str, tuple[float, float]], float]:
    """Median and 99th percentile of the whole locomotion tick by ground, the best of 5 replays, and computeAllTerms.

    The grounds take turns, so that what else the machine does meets all of them alike.
    """
    robot, dt, ticks = qd.load(name), 2e-3, 1500
    dynamics, data, terms = qd.Dynamics(robot), robot.model.createData(), []
    scenes = {}
    for title, fields in GROUNDS.items():
        obstacle = fields.get("obstacle")
        if obstacle is not None:
            case = ObstacleCampaign(robot=(name,), dt=dt).case(name, obstacle, "embedded", 0)
        else:
            case = Trial(
                robot=name,
                dt=dt,
                velocity=(DEFAULT_COMMAND_SPEED * Morphology.from_robot(robot).speed_scale, 0.0, 0.0),
                **fields,
            )
        made = make_trial_setup(case, robot, np.random.default_rng(0))
        states = []
        for _ in range(ticks):
            q, v = np.array(made.plant.q), np.array(made.plant.v)
            states.append((q, v))
            made.plant.step(made.controller.compute(dynamics.update(q, v), case.velocity).tau)
        scenes[title] = made.controller, case.velocity, states
    times = {title: np.full((5, ticks), np.inf) for title in scenes}
    for again in range(5):
        for title, (controller, wanted, states) in scenes.items():
            controller.reset()
            for k, (q, v) in enumerate(states):
                start = time.perf_counter()
                controller.compute(dynamics.update(q, v), wanted)
                times[title][again, k] = time.perf_counter() - start
                if k % 10 == 0:
                    start = time.perf_counter()
                    pin.computeAllTerms(robot.model, data, q, v)
                    terms.append(time.perf_counter() - start)
    best = {title: each.min(axis=0)[200:] for title, each in times.items()}
    return {title: (float(np.median(b)), float(np.percentile(b, 99))) for title, b in best.items()}, float(
        np.median(terms)
    )


def endurance(name: str, seconds: float, dt: float) -> list[str]:
    """A long trot in changing directions; what went wrong."""
    robot = qd.load(name)
    plant, dynamics = Simulation(robot, dt=dt), qd.Dynamics(robot)
    controller, check = LocomotionController(robot, dt=dt), qd.Dynamics(robot)
    p, rng = controller.morphology, np.random.default_rng(0)
    weight, worst, flagged, start = p.mass * p.gravity, 0.0, 0, 0
    wrong, wanted, began = [], np.zeros(3), time.perf_counter()
    for k in range(round(seconds / dt)):
        if k % round(5.0 / dt) == 0:
            wanted = np.array(draw_velocity(p, rng)) + np.array([0.0, 0.0, 1.0]) * rng.uniform(-0.5, 0.5)
        q, v = np.array(plant.q), np.array(plant.v)
        out = controller.compute(dynamics.update(q, v), wanted)
        if out.wbc_command is None or not np.isfinite(out.tau).all():
            wrong.append(f"fell or not finite at {k * dt:.1f} s")
            break
        flagged += not out.ok
        forces = {}
        for foot, force in out.desired_forces.items():
            lever = np.array([0.0, 0.0, -robot.legs[foot].foot.radius])
            forces[foot] = np.concatenate((force, np.cross(lever, force)))
        worst = max(
            worst, float(np.abs(check.rnea(q, v, np.array(out.wbc_command.acceleration), fext=forces)[:6]).max())
        )
        plant.step(out.tau)
        if k == round(20.0 / dt):
            start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - start
    print(
        f"{name}: {plant.time:.0f} s of trot in {time.perf_counter() - began:.0f} s; base rows of RNEA at most "
        f"{worst / weight:.1e} m g; flagged ticks {flagged}; memory grew by {grown} kB"
    )
    wrong += [f"equations of motion miss by {worst / weight:.1e} m g"] if worst > 1e-8 * weight else []
    wrong += [f"memory grew by {grown} kB"] if grown > 20_000 else []
    return wrong


def fleet(options: argparse.Namespace, pool: object) -> list[str]:
    """Every robot with every command; which missed theirs."""
    print(f"{options.gait} for {options.seconds:g} s, controller at {1 / options.dt:.0f} Hz, true state")
    campaign = GaitCampaign(
        robot=tuple(options.robots.split(",")),
        gaits=(options.gait,),
        speeds=(options.speed,),
        directions=("forward", "sideways", "turning"),
        plants=tuple(options.plants.split(",")),
        seconds=options.seconds,
        dt=options.dt,
    )
    missed = []
    for case, record in run(campaign, pool, options.store).results:
        wanted = [round(x, 3) for x in case.velocity]
        if isinstance(record, Failure):
            said, verdict = "", record.error
            if "cannot do" in verdict:
                print(f"{case.robot:9s} {case.plant:8s} refused: {verdict}", flush=True)
                continue
        else:
            got = [None if record[name] is None else round(record[name], 3) for name in ("vx", "vy", "wz")]
            said = f"wanted {wanted} got {got}, flagged {record['flagged']:.2%}, "
            fell = f"fell at {record['fell']:.2f} s: " if record["fell"] is not None else ""
            verdict = "ok" if record["success"] else f"{fell}{record['reason']}"
        print(f"{case.robot:9s} {case.plant:8s} {said}{verdict}", flush=True)
        missed += [] if verdict == "ok" else [f"{case.robot} {case.plant} {wanted}"]
    return missed


def trials(options: argparse.Namespace, pool: object) -> list[str]:
    """Seeded trials of every disturbance; which fell short of their bars."""
    print(f"{options.robot}, {options.trials} trials of seed {options.seed}")
    print(f"{'disturbance':42s} {'plant':9s} success   bar  causes of failure")
    missed = []
    for name, disturbance in DISTURBANCES.items():
        words = f"{name} {disturbance.title}"
        parts = options.scenarios.split(",") if options.scenarios else ()
        if not (any(part in words for part in parts) if parts else name in USUAL):
            continue
        for plant in options.plants.split(","):
            campaign = RobustnessCampaign(
                robot=options.robot,
                trials=options.trials,
                disturbances=(name,),
                plants=(plant,),
                dt=options.dt,
                seed=options.seed,
            )
            tally: OutcomeCounts = run(campaign, pool, options.store).tally
            said = "; ".join(f"{n} x {why}" for why, n in (*tally.failures.items(), *tally.errors.items()))
            share = f"{tally.successes:4d}/{tally.total:<4d} {disturbance.bar:.0%}"
            print(f"{disturbance.title:42s} {plant:9s} {share}  {said}", flush=True)
            missed += [f"{name} {plant}"] if tally.successes < disturbance.bar * tally.total else []
    return missed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--robot", default="go2")
    parser.add_argument("--trials", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--dt", type=float, default=2e-3)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--plants", default="embedded,mujoco")
    parser.add_argument(
        "--scenarios",
        default=None,
        help="parts of names of disturbances, separated by commas; by default the seven that have always been measured",
    )
    parser.add_argument("--store", default=None, help="file of results; an interrupted run continues from it")
    parser.add_argument("--fleet", action="store_true")
    parser.add_argument(
        "--gait", default="trot", choices=[name for name, gait in GAITS.items() if gait.has_swing_phase]
    )
    parser.add_argument("--speed", type=float, default=DEFAULT_COMMAND_SPEED, help="of the fleet, in sqrt(g l)")
    parser.add_argument("--robots", default=",".join(FLEET))
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--cost", action="store_true")
    parser.add_argument("--endurance", type=float, metavar="SECONDS", help="of one long trot")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    if options.endurance:
        missed = endurance(options.robot, options.endurance, options.dt)
    elif options.cost:
        found, terms = tick_cost(options.robot)
        level = found["level, by schedule"][1]
        for title, (median, p99) in found.items():
            print(
                f"{options.robot}: tick on {title}: {1e6 * median:.0f} us, p99 {1e6 * p99:.0f} us = {p99 / level:.2f} "
                f"of the level one's = {p99 / terms:.0f} x computeAllTerms ({1e6 * terms:.1f} us)"
            )
        missed = [title for title, (_, p99) in found.items() if p99 > 60.0 * terms]
        missed += [title for title, (_, p99) in found.items() if p99 > (2.0 if "told" in title else 1.2) * level]
    else:
        with nullcontext() if options.jobs == 0 else process_pool(options.jobs) as pool:
            missed = fleet(options, pool) if options.fleet else trials(options, pool)
    if missed:
        print("missed:", ", ".join(missed))
    return 1 if missed and options.check else 0


if __name__ == "__main__":
    sys.exit(main())
