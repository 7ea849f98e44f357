"""Tests capsule distances against coal, and collision avoidance under references that lead through collisions.

    python benchmarks/collisions.py                                                # two minutes
    python benchmarks/collisions.py --parts distances --all --poses 3800 --jobs 2  # 1e5 poses, the whole catalogue
    python benchmarks/collisions.py --parts hostile --ticks 125000 --jobs 2        # 1e6 ticks of eight robots
    python benchmarks/collisions.py --parts rows                                   # computing time of the rows
    python benchmarks/collisions.py --check                                    # exit code 1 if a requirement is not met

With `--store FOLDER` results are stored, and an interrupted run continues.

*distances*: The distances of `CapsuleModel` in random poses are compared for each pair of links with those of coal for
the shapes of the file, which coal computes to 1e-9 m.  If the capsules are separated, their distance must not be larger
than that of coal, and must be smaller by at most the overapproximation of the two capsules.

*hostile*: Robots with a fixed root start at rest in a random configuration under whole-body control.  Every 150 ticks
the reference of their posture is set to a random configuration; most paths to it lead through self-collisions.  The
minimum distance of the capsules minus `margin` is measured after every tick, with and without `CollisionLimits`.  Level
0 also contains joint bounds and torque limits; a tick on which not all of them can be satisfied is not solved.  When
the rows of a pair are added or removed, the torques are compared with those of the same tick without these rows; the
difference is printed as a fraction of the effort limits, and so are all torque steps from tick to tick.  One tick of
250 is compared with the exact optimum (`tests/exact_optimum.py`); its explanation must name the
pair that is active, if any.

*swinging*: Quadrupeds with a free root stand on two feet; the references of the other feet lead through the adjacent
legs.

*rows*: The computing time of the rows is measured at rest and in fast motion: separately, and as part of a tick in
which no limit is active.

Requirements: no distance is too large or too small; with limits no penetration, no tick that ends below the margin
unless one of the last 200 was not solved, at least 99 % of the ticks solved, no torque changed by more than 5 % when
pairs are added or removed, verified ticks optimal; without limits, some ticks end below the margin.
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
from quaddyn.wbc.collision_data import N_PARTS as PARTS_OF_PAIR
from quaddyn.wbc.constraints.collision_rows import write_collision_rows
from quaddyn.wbc.reduction import eliminate_equations
from quaddyn.wbc.row_writing import get_item
from quaddyn.wbc.tick_core import make_tick_context
from quaddyn.wbc.tick_data import TickData

PARTS = ("distances", "hostile", "swinging", "rows")
ROBOTS = ("go2", "solo12", "anymal_c", "a1", "b1_z1", "ur5", "xarm7", "laikago")
#: Standard deviation of the joint speeds in fast motion, for the computing time of the rows [rad/s].
FAST = 3.0
#: Maximum number of ticks without limits; they show that the references lead to collisions.
UNLIMITED = 5000

Run = Callable[[Any], list[tuple[Any, Record]]]


def make_runner(jobs: int, store: str | None) -> Run:
    """Returns a function that runs a campaign, prints its progress and returns the records by case."""

    def run_campaign(campaign: Any) -> list[tuple[Any, Record]]:
        last_report = [time.monotonic()]

        def report_progress(progress: Progress) -> None:
            if time.monotonic() > last_report[0] + 20.0:
                last_report[0] = time.monotonic()
                remaining = "" if progress.remaining is None else f", {progress.remaining:.0f} s remaining"
                print(f"    {progress.done} of {progress.total} cases{remaining}", flush=True)

        path = None
        if store is not None:
            Path(store).mkdir(parents=True, exist_ok=True)
            path = Path(store) / f"{campaign.name}{'' if getattr(campaign, 'limited', True) else ', free'}.sqlite"
        with process_pool(jobs) if jobs else nullcontext() as pool:
            summary = run(campaign, pool, path, progress=report_progress)
        out = []
        for case, record in summary.results:
            if isinstance(record, Failure):
                raise RuntimeError(f"{case}: {record.error}\n{record.trace}")
            out.append((case, record))
        return out

    return run_campaign


def compare_distances(names: tuple[str, ...], poses: int, seed: int, run_campaign: Run) -> bool:
    """Compares distances of robots with those of coal; returns whether the requirements are met."""
    results = run_campaign(Distances(robot=names, poses=poses, seed=seed))
    for name in names:
        records = [record for case, record in results if case.robot == name]
        if records[0]["void"]:
            print(f"  {name}: {records[0]['void']}")
            continue
        model = geometry(name)[0]
        rng, times = np.random.default_rng(seed), list[float]()
        for q in [model.robot.random_configuration(rng) for _ in range(100)]:
            start = time.process_time()
            model.distances(q)
            times.append(time.process_time() - start)
        print(
            f"  {name}: {len(model.capsules)} capsules, {len(model.pairs)} pairs; overapproximation up to "
            f"{1e3 * model.overapproximation:.1f} mm; "
            f"{sum(each['distances'] for each in records)} distances, too large by "
            f"{max(each['too_large'] for each in records):.1e} m, too small by "
            f"{max(each['too_small'] for each in records):.1e} m, smaller than that of coal by "
            f"{1e3 * np.median([each['lack'] for each in records]):.1f} mm (median); "
            f"{1e6 * np.median(times):.0f} us per pose"
            + (f"; shapes not read: {len(model.unread)}" if model.unread else ""),
            flush=True,
        )
    return all(record["success"] for _, record in results)


def run_hostile_references(names: tuple[str, ...], ticks: int, seed: int, run_campaign: Run) -> bool:
    """Runs robots with a fixed root under references through collisions; returns whether the requirements are met."""
    met = True
    for limited in (False, True):
        count = ticks if limited else min(ticks, UNLIMITED)
        results = run_campaign(HostileReferences(robot=names, ticks=count, seed=seed, limited=limited))
        for name in names:
            records = [record for case, record in results if case.robot == name]
            total = {key: sum(each[key] for each in records) for key in records[0] if type(records[0][key]) is int}
            maxima = {key: max(each[key] for each in records) for key in ("large_step", "caused", "worst")}
            unsolved = total["infeasible"] + total["inaccurate"] + total["fallback"]
            print(
                f"  {name} {'with' if limited else 'without'} limits ({records[0]['pairs']} pairs): {count} ticks, "
                f"{total['infeasible']} infeasible, {unsolved - total['infeasible']} inaccurate, {total['below']} "
                f"below the margin, {total['broken']} of them without a preceding unsolved tick, "
                f"{total['penetrating']} penetrating; minimum distance above the margin "
                f"{1e3 * min(each['least'] for each in records):+.3f} mm; torque steps "
                f"{np.median([each['step'] for each in records]):.1e} (median), {maxima['large_step']:.1e} "
                "(99.9th percentile) of the limit",
                flush=True,
            )
            if limited:
                print(
                    f"    pairs were added or removed in {total['changes']} ticks and changed torques by at most "
                    f"{maxima['caused']:.2%} of the limit; {total['judged']} verified ticks, excess at "
                    f"most {maxima['worst']:.1e}; "
                    f"{total['outside']} outside of the viable set; a pair was active in {total['held']}, named in the "
                    f"explanation of {total['named']}",
                    flush=True,
                )
            if limited:
                met = met and all(each["success"] for each in records) and unsolved <= 0.01 * count
            else:
                met = met and total["below"] > 0
    return met


def swing_through_legs(name: str, trials: int, seed: int) -> bool:
    """Swings two feet of a quadruped through the adjacent legs; returns whether the requirement is met."""
    robot, met = qd.load(name), True
    lower = {joint for leg in robot.legs.values() for joint in leg.joints[-2:]}
    bodies = [body for body in robot.bodies if body.joint is not None and body.joint.name in lower]
    links = [link.name for body in bodies for link, _ in body.links if link.collisions]
    model, dyn = CapsuleModel(robot, links=links, reach=np.inf), qd.Dynamics(robot)
    width = abs(dyn.frame_placement(robot.q_home, "FL").translation[1])
    for limited in (False, True):
        rng, limits = np.random.default_rng(seed), CollisionLimits(model, margin=0.005)
        min_distance, below, outcomes = np.inf, 0, Counter[str]()
        for number in range(trials):
            wbc = qd.WholeBodyController(robot, dt=DT)
            if limited:
                wbc.add(limits, level=0)
            swing = (("FL", "RR"), ("FR", "RL"))[number % 2]
            stance = tuple(foot for foot in robot.feet if foot not in swing)
            start = {foot: dyn.frame_placement(robot.q_home, foot).translation for foot in swing}
            side = {foot: -1.0 if foot.endswith("L") else 1.0 for foot in swing}
            displacement = {foot: rng.uniform([-0.05, 2.0 * width, 0.0], [0.05, 3.0 * width, 0.1]) for foot in swing}
            q, v = np.array(robot.q_home), np.zeros(robot.nv)
            for tick in range(EVERY):
                for foot in swing:
                    position = start[foot] + displacement[foot] * (1.0, side[foot], 1.0) * min(1.0, tick / 60)
                    wbc.tasks.feet[foot].reference(position)
                command = wbc.compute(dyn.update(q, v), contacts=stance)
                outcomes[command.status.outcome] += 1
                a = command.acceleration
                q, v = robot.integrate(q, DT * v + 0.5 * DT * DT * a), v + DT * a
                margin_distance = float(limits.distance_margins(q, v)[0].min())
                min_distance, below = min(min_distance, margin_distance), below + (margin_distance < 0.0)
            limits.release()
        print(
            f"  {name} {'with' if limited else 'without'} limits ({len(limits.pairs)} pairs): {trials * EVERY} ticks "
            f"{dict(outcomes)}, {below} below the margin; minimum distance above the "
            f"margin {1e3 * min_distance:+.3f} mm"
        )
        met = met and (below == 0) == limited
    return met


@entry("collision rows")
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


def measure_row_time(name: str, seed: int, speed: float) -> None:
    """Measures and prints the computing time of the rows at a joint speed [rad/s]."""
    robot = qd.load(name, root="fixed")
    model, dyn, rng = CapsuleModel(robot), qd.Dynamics(robot), np.random.default_rng(seed)
    records: list[tuple[int, int, float, float]] = []
    limits = CollisionLimits(model, margin=0.005)
    controllers = [controller(robot, x, 100.0) for x in (limits, None)]
    for _ in range(40):
        q = robot.interpolate(robot.q_home, robot.random_configuration(rng), rng.uniform(0.0, 0.5))
        v = speed * rng.normal(size=robot.nv) if speed > 0.0 else np.zeros(robot.nv)
        for wbc in controllers:
            wbc.tasks["posture"].reference(q)
        s, data = dyn.update(q, v), controllers[0]._structure.solver.data
        command = controllers[0].compute(s)
        source = data.rows.C_source[: data.rows.n_limits]
        n_near = {row // PARTS_OF_PAIR for item, _, row in source.tolist() if item == 2}
        rows, row_times = write_rows(q, v, data, 1), np.inf
        for _ in range(30):
            start = time.perf_counter()
            write_rows(q, v, data, 20)
            row_times = min(row_times, (time.perf_counter() - start) / 20)
        min_times = [np.inf, np.inf]
        if not command.levels[0].active and command.ok:  # the time of the rows without iterations of the active set
            for _ in range(30):
                for k, wbc in enumerate(controllers):
                    start = time.perf_counter()
                    wbc.compute(s)
                    min_times[k] = min(min_times[k], time.perf_counter() - start)
        records.append(
            (
                len(n_near),
                rows,
                1e6 * row_times,
                1e6 * (min_times[0] - min_times[1]) if min_times[0] < np.inf else np.nan,
            )
        )
    n_near, rows, row_times, tick = np.array(records).T
    slope, offset = np.polyfit(rows, row_times, 1)
    measured = np.isfinite(tick)
    text = ""
    if len(set(rows[measured].tolist())) > 1:
        slope_tick, offset_tick = np.polyfit(rows[measured], tick[measured], 1)
        text = f", the tick {offset_tick:.1f} us and {1e3 * slope_tick:.0f} ns per row"
    motion = f"joints at {speed:.0f} rad/s" if speed > 0.0 else "at rest"
    print(
        f"  {name} {motion}: {len(limits.pairs)} pairs of {len(limits.labels)} capsules, {n_near.min():.0f} to "
        f"{n_near.max():.0f} near with {rows.min():.0f} to {rows.max():.0f} rows; time of the rows {offset:.1f} us and "
        f"{1e3 * slope:.0f} ns per row ({row_times[n_near.argmax()]:.1f} us for {n_near.max():.0f} pairs){text}",
        flush=True,
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", nargs="*", choices=PARTS, default=PARTS, help="parts that are run")
    parser.add_argument("--poses", type=int, default=100, help="number of random poses per robot")
    parser.add_argument("--ticks", type=int, default=1500, help="number of ticks per robot of the part hostile")
    parser.add_argument("--tries", type=int, default=10, help="number of trials per quadruped of the part swinging")
    parser.add_argument("--robots", nargs="*", default=ROBOTS, help="names of the catalogue")
    parser.add_argument("--all", action="store_true", help="use the whole catalogue for the part distances")
    parser.add_argument("--seed", type=int, default=0, help="seed of poses and references")
    parser.add_argument("--jobs", type=int, default=0, help="number of worker processes; 0: run in this process")
    parser.add_argument("--store", help="folder of results; an interrupted run continues from it")
    parser.add_argument("--check", action="store_true", help="exit code 1 if a requirement is not met")
    options = parser.parse_args()
    names, run_campaign, met = tuple(options.robots), make_runner(options.jobs, options.store), True
    if "distances" in options.parts:
        print("distances compared with coal", flush=True)
        met = (
            compare_distances(tuple(qd.CATALOGUE) if options.all else names, options.poses, options.seed, run_campaign)
            and met
        )
    if "hostile" in options.parts:
        print("references through collisions", flush=True)
        met = run_hostile_references(names, options.ticks, options.seed, run_campaign) and met
    if "swinging" in options.parts:
        print("references through adjacent legs, free root", flush=True)
        met = all([swing_through_legs(name, options.tries, options.seed) for name in ("go2", "solo12")]) and met
    if "rows" in options.parts:
        print("computing time of the rows", flush=True)
        for name in names:
            for speed in (0.0, FAST):
                measure_row_time(name, options.seed, speed)
    print("all requirements met" if met else "a requirement is not met")
    return 1 if options.check and not met else 0


if __name__ == "__main__":
    sys.exit(main())
