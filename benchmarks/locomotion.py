"""Tests trotting quadrupeds in both plants with pushes, payloads, ice, steps and slopes: success rates.

``--fleet`` runs eight robots with forward, sideways and turning commands (`quaddyn campaign gaits`) in the gait that
``--gait`` names; the controller rejects a gait if the robot is too weak or too slow for it.  ``--trials N`` runs N
seeded trials of each disturbance on one robot (`quaddyn campaign robustness`).  ``--endurance S`` runs one long
trot, and ``--cost`` measures the time of a tick on level ground, on rubble without a terrain map, and on rubble and
stairs with one.  A trial succeeds if the robot is upright 24 sqrt(l/g) (5 s for a Go2) after the disturbance and
reaches 70 % of the commanded speed.  ``--check`` exits with 1 if a requirement is not met: the success rate of each
disturbance and of each command of the fleet; RNEA base residual, errors and memory growth of the long trot; the 99th
percentile of ticks relative to those on level ground and to `pinocchio.computeAllTerms`.
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
from quaddyn.campaigns.campaign_runner import OutcomeCounts
from quaddyn.campaigns.trial import Trial
from quaddyn.campaigns.trial_campaign import DEFAULT_COMMAND_SPEED, draw_velocity
from quaddyn.campaigns.trial_runner import make_trial_setup
from quaddyn.campaigns.walking_campaigns import (
    CONTACT_DETECTION_OPTIONS,
    DISTURBANCES,
    GaitCampaign,
    ObstacleCampaign,
    RobustnessCampaign,
)
from quaddyn.locomotion import GAITS, LocomotionController, Morphology
from quaddyn.simulation import Simulation

#: Disturbances that are tested by default; `DISTURBANCES` has more.
DEFAULT_DISTURBANCES = ("push-standing", "push", "friction", "payload", "strips", "slope", "noise")
#: Terrains on which ticks are timed: fields of a `Trial`, or the name of an obstacle.
TERRAINS: dict[str, dict[str, Any]] = {
    "level ground, scheduled contacts": {"options": CONTACT_DETECTION_OPTIONS["scheduled"]},
    "level ground": {},
    "rubble, no terrain map": {"obstacle": "blind-rubble-0.08"},
    "rubble, terrain map": {"obstacle": "rubble-0.15"},
    "stairs, terrain map": {"obstacle": "up-0.15-0.6"},
}
FLEET = ("go2", "a1", "solo12", "anymal_b", "anymal_c", "hyq", "b1", "laikago")


def measure_ticks(name: str) -> tuple[dict[str, tuple[float, float]], float]:
    """Measures the time of a locomotion tick by terrain, and of `pinocchio.computeAllTerms` [s].

    Returns for each terrain the median and the 99th percentile over ticks, each tick at its fastest of 5 replays.
    Terrains alternate, so that other load of the processor affects all of them alike.
    """
    robot, dt, ticks = qd.load(name), 2e-3, 1500
    dynamics, data, terms = qd.Dynamics(robot), robot.model.createData(), []
    recordings = {}
    for title, fields in TERRAINS.items():
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
        setup = make_trial_setup(case, robot, np.random.default_rng(0))
        states = []
        for _ in range(ticks):
            q, v = np.array(setup.plant.q), np.array(setup.plant.v)
            states.append((q, v))
            setup.plant.step(setup.controller.compute(dynamics.update(q, v), case.velocity).tau)
        recordings[title] = setup.controller, case.velocity, states
    times = {title: np.full((5, ticks), np.inf) for title in recordings}
    for replay in range(5):
        for title, (controller, command_velocity, states) in recordings.items():
            controller.reset()
            for k, (q, v) in enumerate(states):
                start = time.perf_counter()
                controller.compute(dynamics.update(q, v), command_velocity)
                times[title][replay, k] = time.perf_counter() - start
                if k % 10 == 0:
                    start = time.perf_counter()
                    pin.computeAllTerms(robot.model, data, q, v)
                    terms.append(time.perf_counter() - start)
    fastest = {title: replays.min(axis=0)[200:] for title, replays in times.items()}
    return {title: (float(np.median(b)), float(np.percentile(b, 99))) for title, b in fastest.items()}, float(
        np.median(terms)
    )


def run_endurance(name: str, seconds: float, dt: float) -> list[str]:
    """Simulates a long trot in changing directions; returns the requirements that are not met."""
    robot = qd.load(name)
    plant, dynamics = Simulation(robot, dt=dt), qd.Dynamics(robot)
    controller, reference = LocomotionController(robot, dt=dt), qd.Dynamics(robot)
    p, rng = controller.morphology, np.random.default_rng(0)
    weight, max_residual, n_flagged, start = p.mass * p.gravity, 0.0, 0, 0
    errors, velocity, begin_time = [], np.zeros(3), time.perf_counter()
    for k in range(round(seconds / dt)):
        if k % round(5.0 / dt) == 0:
            velocity = np.array(draw_velocity(p, rng)) + np.array([0.0, 0.0, 1.0]) * rng.uniform(-0.5, 0.5)
        q, v = np.array(plant.q), np.array(plant.v)
        out = controller.compute(dynamics.update(q, v), velocity)
        if out.wbc_command is None or not np.isfinite(out.tau).all():
            errors.append(f"fall or torque that is not finite at {k * dt:.1f} s")
            break
        n_flagged += not out.ok
        forces = {}
        for foot, force in out.desired_forces.items():
            lever = np.array([0.0, 0.0, -robot.legs[foot].foot.radius])
            forces[foot] = np.concatenate((force, np.cross(lever, force)))
        max_residual = max(
            max_residual,
            float(np.abs(reference.rnea(q, v, np.array(out.wbc_command.acceleration), fext=forces)[:6]).max()),
        )
        plant.step(out.tau)
        if k == round(20.0 / dt):
            start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    memory_growth = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - start
    print(
        f"{name}: {plant.time:.0f} s of trot simulated in {time.perf_counter() - begin_time:.0f} s; "
        f"base residual of RNEA at most {max_residual / weight:.1e} m g; ticks without certificate {n_flagged}; "
        f"memory grew by {memory_growth} kB"
    )
    errors += (
        [f"residual of the equations of motion {max_residual / weight:.1e} m g"] if max_residual > 1e-8 * weight else []
    )
    errors += [f"memory grew by {memory_growth} kB"] if memory_growth > 20_000 else []
    return errors


def run_fleet(options: argparse.Namespace, pool: object) -> list[str]:
    """Runs all robots with all commands, prints the results and returns the failed cases."""
    print(f"{options.gait} for {options.seconds:g} s, controller at {1 / options.dt:.0f} Hz with the exact state")
    campaign = GaitCampaign(
        robot=tuple(options.robots.split(",")),
        gaits=(options.gait,),
        speeds=(options.speed,),
        directions=("forward", "sideways", "turning"),
        plants=tuple(options.plants.split(",")),
        seconds=options.seconds,
        dt=options.dt,
    )
    not_met = []
    for case, record in run(campaign, pool, options.store).results:
        commanded = [round(x, 3) for x in case.velocity]
        if isinstance(record, Failure):
            details, verdict = "", record.error
            if "cannot move with the gait" in verdict:
                print(f"{case.robot:9s} {case.plant:8s} rejected: {verdict}", flush=True)
                continue
        else:
            measured = [None if record[name] is None else round(record[name], 3) for name in ("vx", "vy", "wz")]
            details = f"commanded {commanded} measured {measured}, ticks without certificate {record['flagged']:.2%}, "
            fall_text = f"fell at {record['fell']:.2f} s: " if record["fell"] is not None else ""
            verdict = "ok" if record["success"] else f"{fall_text}{record['reason']}"
        print(f"{case.robot:9s} {case.plant:8s} {details}{verdict}", flush=True)
        not_met += [] if verdict == "ok" else [f"{case.robot} {case.plant} {commanded}"]
    return not_met


def run_trials(options: argparse.Namespace, pool: object) -> list[str]:
    """Runs seeded trials of each disturbance, prints the results and returns those below the required success rate."""
    print(f"{options.robot}, {options.trials} trials of seed {options.seed}")
    print(f"{'disturbance':42s} {'plant':9s} success   min  causes of failure")
    not_met = []
    for name, disturbance in DISTURBANCES.items():
        searched_text = f"{name} {disturbance.title}"
        name_parts = options.scenarios.split(",") if options.scenarios else ()
        if not (any(part in searched_text for part in name_parts) if name_parts else name in DEFAULT_DISTURBANCES):
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
            causes = "; ".join(f"{n} x {cause}" for cause, n in (*tally.failures.items(), *tally.errors.items()))
            rate = f"{tally.successes:4d}/{tally.total:<4d} {disturbance.bar:.0%}"
            print(f"{disturbance.title:42s} {plant:9s} {rate}  {causes}", flush=True)
            not_met += [f"{name} {plant}"] if tally.successes < disturbance.bar * tally.total else []
    return not_met


def main() -> int:
    """Runs the selected test; returns 1 if `--check` finds a requirement that is not met."""
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
        help="parts of names of disturbances, separated by commas (default: " + ", ".join(DEFAULT_DISTURBANCES) + ")",
    )
    parser.add_argument("--store", default=None, help="file of results; an interrupted run continues from it")
    parser.add_argument("--fleet", action="store_true", help="all robots of `--robots` with three commands")
    parser.add_argument(
        "--gait", default="trot", choices=[name for name, gait in GAITS.items() if gait.has_swing_phase]
    )
    parser.add_argument(
        "--speed", type=float, default=DEFAULT_COMMAND_SPEED, help="commanded speed of the fleet [sqrt(g l)]"
    )
    parser.add_argument("--robots", default=",".join(FLEET))
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--cost", action="store_true", help="time of a tick by terrain")
    parser.add_argument("--endurance", type=float, metavar="SECONDS", help="duration of one long trot")
    parser.add_argument("--check", action="store_true", help="exit code 1 if a requirement is not met")
    options = parser.parse_args()
    if options.endurance:
        not_met = run_endurance(options.robot, options.endurance, options.dt)
    elif options.cost:
        times, terms = measure_ticks(options.robot)
        level_p99 = times["level ground, scheduled contacts"][1]
        for title, (median, p99) in times.items():
            print(
                f"{options.robot}: tick on {title}: {1e6 * median:.0f} us, p99 {1e6 * p99:.0f} us = "
                f"{p99 / level_p99:.2f} of that on level ground = "
                f"{p99 / terms:.0f} x computeAllTerms ({1e6 * terms:.1f} us)"
            )
        not_met = [title for title, (_, p99) in times.items() if p99 > 60.0 * terms]
        not_met += [
            title
            for title, (_, p99) in times.items()
            if p99 > (2.0 if title.endswith(", terrain map") else 1.2) * level_p99
        ]
    else:
        with nullcontext() if options.jobs == 0 else process_pool(options.jobs) as pool:
            not_met = run_fleet(options, pool) if options.fleet else run_trials(options, pool)
    if not_met:
        print("not met:", ", ".join(not_met))
    return 1 if not_met and options.check else 0


if __name__ == "__main__":
    sys.exit(main())
