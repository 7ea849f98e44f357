"""Collision geometry against coal, and links kept apart under hostile references.

    python benchmarks/collisions.py                       # go2, solo12, anymal_c, ur5
    python benchmarks/collisions.py --all --poses 500     # the whole catalogue
    python benchmarks/collisions.py --check               # exit code 1 if a bar is missed

Distances of `CapsuleModel` on random poses, pair of links by pair of links, against those of coal on the file's own
shapes: never larger, and smaller by the stated excess of the two at most (where capsules are apart, and but for 1e-6 m,
coal's own tolerance).

Then robots with a fixed root under whole-body control, whose posture is sent to random configurations, most of which
lead through themselves, at every 150th tick: the least distance of capsules over `margin` after every tick, with and
without `CollisionLimits`, and the torques' steps in between.  Joint bounds and torque limits are on level 0, too: a
tick on which all of them cannot be met is not solved.  Then quadrupeds with a free root that stand on two feet, with
the others sent through the legs beside them.  Last, what rows cost where none is active.

Bars: no distance too large or too small; with limits no penetration, no tick that ends nearer than the margin unless
one of the last 200 was not solved, and at least 99 % solved; without them, some.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter

import numpy as np

import quaddyn as qd
from quaddyn.kinematics import CapsuleModel, CollisionModel
from quaddyn.wbc import CollisionLimits, JointBounds, PostureTask, TorqueLimits

#: Tolerance of coal's distances [m]; control period [s]; ticks from one reference to the next.
COAL, DT, EVERY = 1e-6, 1e-3, 150
#: Ticks after an unsolved one that count as its consequence.
AFTER = 200


def distances(name: str, poses: int, seed: int) -> bool:
    """One robot against coal; whether the bar is met."""
    robot = qd.load(name)
    try:
        model, exact = CapsuleModel(robot, reach=np.inf), CollisionModel(robot)
    except qd.ArgumentError as error:
        print(f"  {name}: {error}")
        return True
    rng, links = np.random.default_rng(seed), [each.link for each in model.capsules]
    excess = np.array([each.excess for each in model.capsules])
    too_large, too_small, count, lacks, cost = 0.0, 0.0, 0, list[float](), list[float]()
    for _ in range(poses):
        q = robot.random_configuration(rng)
        true = {frozenset(s.links): s.distance for s in exact.separations(q)}
        start = time.process_time()
        found = model.distances(q)
        cost.append(time.process_time() - start)
        nearest: dict[frozenset[str], tuple[float, float]] = {}
        for (i, j), distance in zip(model.pairs.tolist(), found.tolist(), strict=True):
            pair = frozenset((links[i], links[j]))
            nearest[pair] = min(nearest.get(pair, (np.inf, 0.0)), (distance, float(excess[i] + excess[j])))
        for pair, (distance, fit) in nearest.items():
            if distance > 0.0 and pair in true:
                count += 1
                lacks.append(true[pair] - distance)
                too_large, too_small = max(too_large, -lacks[-1]), max(too_small, lacks[-1] - fit)
    typical = 1e3 * float(np.median(lacks)) if lacks else 0.0
    print(
        f"  {name}: {len(model.capsules)} capsules, {len(model.pairs)} pairs; excess up to "
        f"{1e3 * model.excess:.1f} mm; {count} distances, too large by {too_large:.1e} m, "
        f"beyond the excess by {too_small:.1e} m, below coal's by "
        f"{typical:.1f} mm (median); {1e6 * float(np.median(cost)):.0f} us a pose"
        + (f"; unread: {len(model.unread)}" if model.unread else "")
    )
    return too_large <= COAL and too_small <= COAL


def controller(robot: qd.Robot, limits: CollisionLimits | None, stiffness: float) -> qd.WholeBodyController:
    """Torque limits, joint bounds and, if any, collision limits over a posture."""
    bounds = JointBounds(robot, DT, acceleration=300.0)
    constraints = [TorqueLimits(robot), bounds] + ([limits] if limits else [])
    tasks = [[PostureTask(robot, stiffness=stiffness)]]
    return qd.WholeBodyController(robot, constraints=constraints, tasks=tasks, contacts=[], dt=DT)


def limited(name: str) -> qd.Robot:
    """The robot with a fixed root, and with limits where its file has void ones."""
    robot = qd.load(name, root="fixed")
    if robot.velocity_limits.max() < 100.0:
        return robot
    limits = {"lower": -3.0, "upper": 3.0, "velocity": 10.0, "effort": 5.0}
    return qd.load(name, root="fixed", limits=dict.fromkeys(robot.actuated, limits))


def least_room(limits: CollisionLimits, q: np.ndarray, kept: list[int]) -> float:
    return float(limits.model.distances(q)[kept].min()) - limits.margin


def hostile(name: str, ticks: int, seed: int) -> bool:
    """One robot with a fixed root under hostile references; whether the bar is met."""
    robot = limited(name)
    dyn, limits = qd.Dynamics(robot), CollisionLimits(CapsuleModel(robot), margin=0.005)
    links = [capsule.link for capsule in limits.model.capsules]
    pairs = [f"{links[i]} - {links[j]}" for i, j in limits.model.pairs.tolist()]
    kept = [k for k, pair in enumerate(pairs) if pair in limits.pairs]
    met = True
    for guarded in (False, True):
        rng = np.random.default_rng(seed)
        wbc = controller(robot, limits if guarded else None, 200.0)
        count = ticks if guarded else min(ticks, 5000)
        q, v, before = np.array(robot.q_home), np.zeros(robot.nv), None
        least, below, outcomes, outside, steps, named = np.inf, 0, Counter[str](), 0, list[float](), 0
        unsolved, broken = -AFTER, 0  # the last tick that was not solved; ticks nearer than the margin long after it
        for tick in range(count):
            if tick % EVERY == 0:  # to the middle of somewhere, or at once to where links would cross
                wbc.tasks["posture"].reference(robot.random_configuration(rng))
            command = wbc.compute(dyn.update(q, v))
            outcomes[command.status.outcome] += 1
            unsolved = unsolved if command.ok else tick
            if before is not None and tick % EVERY:
                steps.append(float((np.abs(command.tau - before) / robot.effort_limits).max()))
            before = command.tau.copy()
            if guarded and tick % 1000 == 500:
                outside += bool(command.outside)
                active = [row for row in command.levels[0].active if row.endswith(" distance")]
                named += any(row.removesuffix(" distance") in limits.pairs for row in active)
            a = command.acceleration
            q, v = robot.integrate(q, DT * v + 0.5 * DT * DT * a), v + DT * a
            room = least_room(limits, q, kept)
            least, below = min(least, room), below + (room < 0.0)
            broken += room < 0.0 and tick > unsolved + AFTER
        print(
            f"  {name} {'with' if guarded else 'without'} limits ({len(kept)} pairs): {count} ticks {dict(outcomes)}, "
            f"{below} nearer than the margin, {broken} of them not after an unsolved one; "
            f"least room {1e3 * least:+.3f} mm; torque steps {np.median(steps):.1e} "
            f"(median), {np.quantile(steps, 0.999):.1e} (one in a thousand) of the limit"
            + (f"; {outside} states seen outside, {named} with a pair as active row" if guarded else "")
        )
        if guarded:
            met = broken == 0 and least > -limits.margin and outcomes["solved"] >= 0.99 * count
        else:
            met = met and below > 0
    return met


def swinging(name: str, tries: int, seed: int) -> bool:
    """A quadruped on two feet, the others sent through the legs beside them; whether the bar is met."""
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
                room = float(limits.gaps(q, v)[0].min())
                least, below = min(least, room), below + (room < 0.0)
            limits.release()
        print(
            f"  {name} {'with' if guarded else 'without'} limits ({len(limits.pairs)} pairs): {tries * EVERY} ticks "
            f"{dict(outcomes)}, {below} nearer than the margin; least room {1e3 * least:+.3f} mm"
        )
        met = met and (below == 0) == guarded
    return met


def cost(name: str, seed: int) -> None:
    """What the rows cost."""
    robot = qd.load(name, root="fixed")
    model, dyn, rng = CapsuleModel(robot), qd.Dynamics(robot), np.random.default_rng(seed)
    found: list[tuple[int, float]] = []
    limits = CollisionLimits(model, margin=0.005)
    both = [controller(robot, x, 100.0) for x in (limits, None)]
    for _ in range(40):
        q = robot.interpolate(robot.q_home, robot.random_configuration(rng), rng.uniform(0.0, 0.5))
        s, least = dyn.update(q, np.zeros(robot.nv)), [np.inf, np.inf]
        for wbc in both:
            wbc.tasks["posture"].reference(q)
        command = both[0].compute(s)
        near = sum(len(g.names) for g in command.details.problem.levels[0] if g.owner == limits.name)
        if command.levels[0].active or not command.ok:
            continue  # rows alone, without the search for what is active
        for _ in range(30):
            for k, wbc in enumerate(both):
                start = time.perf_counter()
                wbc.compute(s)
                least[k] = min(least[k], time.perf_counter() - start)
        found.append((near, 1e6 * (least[0] - least[1])))
    near, micro = np.array(found).T
    slope, offset = np.polyfit(near, micro, 1)
    print(
        f"  {name}: {near.min():.0f} to {near.max():.0f} rows of {len(limits.pairs)} pairs; {offset:.1f} us and "
        f"{1e3 * slope:.0f} ns a row"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--poses", type=int, default=100, help="per robot")
    parser.add_argument("--ticks", type=int, default=3000, help="per robot")
    parser.add_argument("--tries", type=int, default=10, help="of crossing legs, per quadruped")
    parser.add_argument("--robots", nargs="*", default=("go2", "solo12", "anymal_c", "ur5"))
    parser.add_argument("--all", action="store_true", help="the whole catalogue")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--check", action="store_true", help="exit code 1 if a bar is missed")
    options = parser.parse_args()
    print("distances against coal")
    kept = all(
        [distances(name, options.poses, options.seed) for name in (qd.CATALOGUE if options.all else options.robots)]
    )
    print("hostile references")
    kept = all([hostile(name, options.ticks, options.seed) for name in options.robots]) and kept
    print("legs that are told to cross, on a free root")
    kept = all([swinging(name, options.tries, options.seed) for name in ("go2", "solo12")]) and kept
    print("rows")
    for name in options.robots:
        cost(name, options.seed)
    print("all bars met" if kept else "a bar is missed")
    return 1 if options.check and not kept else 0


if __name__ == "__main__":
    sys.exit(main())
