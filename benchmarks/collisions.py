"""Tests capsule distances against coal, and collision avoidance under references that lead through collisions.

    python benchmarks/collisions.py                                                # two minutes
    python benchmarks/collisions.py --parts distances --all --poses 3800 --jobs 2  # 1e5 poses, the whole catalogue
    python benchmarks/collisions.py --parts hostile --ticks 125000 --jobs 2        # 1e6 ticks of eight robots
    python benchmarks/collisions.py --parts rows                                   # what rows cost
    python benchmarks/collisions.py --check                                    # exit code 1 if a requirement is not met

With `--store FOLDER` results are stored, and an interrupted run continues.

Distances of `CapsuleModel` on random poses, pair of links by pair of links, against those of coal on the file's own
shapes, which it finds to 1e-9 m: never larger, and smaller by the stated excess of the two at most, where capsules are
apart.

Then robots with a fixed root under whole-body control, at rest somewhere to begin with, whose posture is sent to random
configurations, most of which lead through themselves, at every 150th tick: the least distance of capsules over `margin`
after every tick, with and without `CollisionLimits`.  Joint bounds and torque limits are on level 0, too: a tick on
which all of them cannot be met is not solved.  Where pairs come or go, torques are compared with those of the same tick
without their rows: what pairs cause, as a share of the effort limits; all steps of torques are printed beside it.  One
tick of 250 is judged by the conditions of optimality, with code that the solver does not share, and is to say which
pair holds it up, if any does.

Then quadrupeds with a free root that stand on two feet, with the others sent through the legs beside them.  Last, what
rows cost, at rest and in fast motion: by themselves, and in a tick where none is active.

Bars: no distance too large or too small; with limits no penetration, no tick that ends nearer than the margin unless
one of the last 200 was not solved, at least 99 % solved, no torque moved by more than 5 % as pairs come and go, judged
ticks optimal; without limits, some below the margin.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import numpy as np
from collision_campaign import DT, EVERY, Distances, HostileReferences, controller, geometry

import quaddyn as qd
from quaddyn.campaigns import Failure, Progress, Record, process_pool, run
from quaddyn.compiler import Vector, entry
from quaddyn.kinematics import CapsuleModel
from quaddyn.wbc import CollisionLimits
from quaddyn.wbc.constraints.collision_blocks import N_PARTS as PARTS_OF_PAIR
from quaddyn.wbc.constraints.collision_rows import write_collision_rows
from quaddyn.wbc.reduction import eliminate_equations
from quaddyn.wbc.row_writing import get_item
from quaddyn.wbc.tick_core import make_tick_context
from quaddyn.wbc.tick_data import TickData

PARTS = ("distances", "hostile", "swinging", "rows")
ROBOTS = ("go2", "solo12", "anymal_c", "a1", "b1_z1", "ur5", "xarm7", "laikago")
#: Standard deviation of the speeds of joints that move [rad/s], where rows are timed.
FAST = 3.0
#: Ticks without limits, at most: they show what references do.
UNLIMITED = 5000

Run = Callable[[Any], list[tuple[Any, Record]]]


def runner(jobs: int, store: str | None) -> Run:
    """Returns a function that runs a campaign, prints its progress and returns the records by case."""

    def drive(campaign: Any) -> list[tuple[Any, Record]]:
        said = [time.monotonic()]

        def say(at: Progress) -> None:
            if time.monotonic() > said[0] + 20.0:
                said[0] = time.monotonic()
                left = "" if at.remaining is None else f", {at.remaining:.0f} s to go"
                print(f"    {at.done} of {at.total} cases{left}", flush=True)

        path = None
        if store is not None:
            Path(store).mkdir(parents=True, exist_ok=True)
            path = Path(store) / f"{campaign.name}{'' if getattr(campaign, 'limited', True) else ', free'}.sqlite"
        with process_pool(jobs) if jobs else nullcontext() as pool:
            summary = run(campaign, pool, path, progress=say)
        out = []
        for case, record in summary.results:
            if isinstance(record, Failure):
                raise RuntimeError(f"{case}: {record.error}\n{record.trace}")
            out.append((case, record))
        return out

    return drive


def distances(names: tuple[str, ...], poses: int, seed: int, drive: Run) -> bool:
    """Compares distances of robots with those of coal; returns whether the requirements are met."""
    results = drive(Distances(robot=names, poses=poses, seed=seed))
    for name in names:
        found = [record for case, record in results if case.robot == name]
        if found[0]["void"]:
            print(f"  {name}: {found[0]['void']}")
            continue
        model = geometry(name)[0]
        rng, cost = np.random.default_rng(seed), list[float]()
        for q in [model.robot.random_configuration(rng) for _ in range(100)]:
            start = time.process_time()
            model.distances(q)
            cost.append(time.process_time() - start)
        print(
            f"  {name}: {len(model.capsules)} capsules, {len(model.pairs)} pairs; excess up to "
            f"{1e3 * model.overapproximation:.1f} mm; "
            f"{sum(each['distances'] for each in found)} distances, too large by "
            f"{max(each['too_large'] for each in found):.1e} m, beyond the excess by "
            f"{max(each['too_small'] for each in found):.1e} m, below coal's by "
            f"{1e3 * np.median([each['lack'] for each in found]):.1f} mm (median); "
            f"{1e6 * np.median(cost):.0f} us a pose" + (f"; unread: {len(model.unread)}" if model.unread else ""),
            flush=True,
        )
    return all(record["success"] for _, record in results)


def hostile(names: tuple[str, ...], ticks: int, seed: int, drive: Run) -> bool:
    """Runs robots with a fixed root under references through collisions; returns whether the requirements are met."""
    met = True
    for limited in (False, True):
        count = ticks if limited else min(ticks, UNLIMITED)
        results = drive(HostileReferences(robot=names, ticks=count, seed=seed, limited=limited))
        for name in names:
            found = [record for case, record in results if case.robot == name]
            total = {key: sum(each[key] for each in found) for key in found[0] if type(found[0][key]) is int}
            most = {key: max(each[key] for each in found) for key in ("large_step", "caused", "worst")}
            unsolved = total["infeasible"] + total["inaccurate"] + total["fallback"]
            print(
                f"  {name} {'with' if limited else 'without'} limits ({found[0]['pairs']} pairs): {count} ticks, "
                f"{total['infeasible']} infeasible, {unsolved - total['infeasible']} inaccurate, {total['below']} "
                f"nearer than the margin, {total['broken']} of them not after an unsolved one, {total['penetrating']} "
                f"penetrating; least room {1e3 * min(each['least'] for each in found):+.3f} mm; torque steps "
                f"{np.median([each['step'] for each in found]):.1e} (median), {most['large_step']:.1e} (one in a "
                "thousand) of the limit",
                flush=True,
            )
            if limited:
                print(
                    f"    pairs came or went on {total['changes']} ticks and moved torques by up to "
                    f"{most['caused']:.2%} of the limit; {total['judged']} ticks optimal to {most['worst']:.1e}; "
                    f"{total['outside']} outside; a pair held {total['held']}, explained by it {total['named']}",
                    flush=True,
                )
            if limited:
                met = met and all(each["success"] for each in found) and unsolved <= 0.01 * count
            else:
                met = met and total["below"] > 0
    return met


def swinging(name: str, tries: int, seed: int) -> bool:
    """Swings two feet of a quadruped through the legs beside them; returns whether the requirement is met."""
    robot, met = qd.load(name), True
    lower = {joint for leg in robot.legs.values() for joint in leg.joints[-2:]}
    bodies = [body for body in robot.bodies if body.joint is not None and body.joint.name in lower]
    links = [link.name for body in bodies for link, _ in body.links if link.collisions]
    model, dyn = CapsuleModel(robot, links=links, reach=np.inf), qd.Dynamics(robot)
    width = abs(dyn.frame_placement(robot.q_home, "FL").translation[1])
    for guarded in (False, True):
        rng, limits = np.random.default_rng(seed), CollisionLimits(model, margin=0.005)
        least, below, outcomes = np.inf, 0, Counter[str]()
        for number in range(tries):
            wbc = qd.WholeBodyController(robot, dt=DT)
            if guarded:
                wbc.add(limits, level=0)
            swing = (("FL", "RR"), ("FR", "RL"))[number % 2]
            stance = tuple(foot for foot in robot.feet if foot not in swing)
            start = {foot: dyn.frame_placement(robot.q_home, foot).translation for foot in swing}
            side = {foot: -1.0 if foot.endswith("L") else 1.0 for foot in swing}
            way = {foot: rng.uniform([-0.05, 2.0 * width, 0.0], [0.05, 3.0 * width, 0.1]) for foot in swing}
            q, v = np.array(robot.q_home), np.zeros(robot.nv)
            for tick in range(EVERY):
                for foot in swing:
                    there = start[foot] + way[foot] * (1.0, side[foot], 1.0) * min(1.0, tick / 60)
                    wbc.tasks.feet[foot].reference(there)
                command = wbc.compute(dyn.update(q, v), contacts=stance)
                outcomes[command.status.outcome] += 1
                a = command.acceleration
                q, v = robot.integrate(q, DT * v + 0.5 * DT * DT * a), v + DT * a
                room = float(limits.distance_margins(q, v)[0].min())
                least, below = min(least, room), below + (room < 0.0)
            limits.release()
        print(
            f"  {name} {'with' if guarded else 'without'} limits ({len(limits.pairs)} pairs): {tries * EVERY} ticks "
            f"{dict(outcomes)}, {below} nearer than the margin; least room {1e3 * least:+.3f} mm"
        )
        met = met and (below == 0) == guarded
    return met


@entry("rows of pairs")
def write_rows(q: Vector, v: Vector, data: TickData, times: int) -> int:
    """Writes the rows of `CollisionLimits` of the last tick a number of times; returns the number of rows."""
    codes, item = data.model.elements.code, 0
    for i in range(len(codes)):
        if codes[i] == CollisionLimits.kind.code:
            item = i
    n = eliminate_equations(data.model, data.terms, data.contacts, data.points, data.work, False)
    t = make_tick_context(q, v, data, n, False)
    for _ in range(times):
        data.rows.n_equalities = 0
        data.rows.n_limits = 0
        write_collision_rows(get_item(data.model, data.inputs, item), t)
    return data.rows.n_limits


def cost(name: str, seed: int, speed: float) -> None:
    """Measures and prints the computing time of the rows at a joint speed [rad/s]."""
    robot = qd.load(name, root="fixed")
    model, dyn, rng = CapsuleModel(robot), qd.Dynamics(robot), np.random.default_rng(seed)
    found: list[tuple[int, int, float, float]] = []
    limits = CollisionLimits(model, margin=0.005)
    both = [controller(robot, x, 100.0) for x in (limits, None)]
    for _ in range(40):
        q = robot.interpolate(robot.q_home, robot.random_configuration(rng), rng.uniform(0.0, 0.5))
        v = speed * rng.normal(size=robot.nv) if speed > 0.0 else np.zeros(robot.nv)
        for wbc in both:
            wbc.tasks["posture"].reference(q)
        s, data = dyn.update(q, v), both[0]._structure.solver.data
        command = both[0].compute(s)
        source = data.rows.C_source[: data.rows.count[1]]
        near = {row // PARTS_OF_PAIR for item, _, row in source.tolist() if item == 2}
        rows, alone = write_rows(q, v, data, 1), np.inf
        for _ in range(30):
            start = time.perf_counter()
            write_rows(q, v, data, 20)
            alone = min(alone, (time.perf_counter() - start) / 20)
        least = [np.inf, np.inf]
        if not command.levels[0].active and command.ok:  # rows alone, without the search for what is active
            for _ in range(30):
                for k, wbc in enumerate(both):
                    start = time.perf_counter()
                    wbc.compute(s)
                    least[k] = min(least[k], time.perf_counter() - start)
        found.append((len(near), rows, 1e6 * alone, 1e6 * (least[0] - least[1]) if least[0] < np.inf else np.nan))
    near, rows, alone, tick = np.array(found).T
    slope, offset = np.polyfit(rows, alone, 1)
    calm = np.isfinite(tick)
    text = ""
    if len(set(rows[calm].tolist())) > 1:
        slope_tick, offset_tick = np.polyfit(rows[calm], tick[calm], 1)
        text = f", a tick with them {offset_tick:.1f} us and {1e3 * slope_tick:.0f} ns a row"
    how = f"joints at {speed:.0f} rad/s" if speed > 0.0 else "at rest"
    print(
        f"  {name} {how}: {len(limits.pairs)} pairs of {len(limits.labels)} capsules, {near.min():.0f} to "
        f"{near.max():.0f} near with {rows.min():.0f} to {rows.max():.0f} rows; they take {offset:.1f} us and "
        f"{1e3 * slope:.0f} ns a row ({alone[near.argmax()]:.1f} us for {near.max():.0f} pairs){text}",
        flush=True,
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", nargs="*", choices=PARTS, default=PARTS)
    parser.add_argument("--poses", type=int, default=100, help="per robot")
    parser.add_argument("--ticks", type=int, default=1500, help="per robot")
    parser.add_argument("--tries", type=int, default=10, help="of crossing legs, per quadruped")
    parser.add_argument("--robots", nargs="*", default=ROBOTS)
    parser.add_argument("--all", action="store_true", help="distances: the whole catalogue")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=0, help="number of worker processes; 0: none")
    parser.add_argument("--store", help="folder of results; an interrupted run continues from it")
    parser.add_argument("--check", action="store_true", help="exit code 1 if a requirement is not met")
    options = parser.parse_args()
    names, drive, met = tuple(options.robots), runner(options.jobs, options.store), True
    if "distances" in options.parts:
        print("distances against coal", flush=True)
        met = distances(tuple(qd.CATALOGUE) if options.all else names, options.poses, options.seed, drive) and met
    if "hostile" in options.parts:
        print("hostile references", flush=True)
        met = hostile(names, options.ticks, options.seed, drive) and met
    if "swinging" in options.parts:
        print("legs that are told to cross, on a free root", flush=True)
        met = all([swinging(name, options.tries, options.seed) for name in ("go2", "solo12")]) and met
    if "rows" in options.parts:
        print("rows", flush=True)
        for name in names:
            for speed in (0.0, FAST):
                cost(name, options.seed, speed)
    print("all requirements met" if met else "a requirement is not met")
    return 1 if options.check and not met else 0


if __name__ == "__main__":
    sys.exit(main())
