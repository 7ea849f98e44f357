"""Collision geometry against coal, and links kept apart under hostile references.

    python benchmarks/collisions.py                       # go2, solo12, anymal_c, ur5
    python benchmarks/collisions.py --all --poses 500     # the whole catalogue
    python benchmarks/collisions.py --check               # exit code 1 if a bar is missed

Distances of `CapsuleModel` on random poses, pair of links by pair of links, against those of coal on the file's own
shapes: never larger, and smaller by the stated excess of the two at most (where capsules are apart, and but for 1e-6 m,
coal's own tolerance).  Then robots with a fixed root under whole-body control, whose posture is sent to random targets
at random times: the least distance of capsules over `margin`, with and without `CollisionLimits`, ticks that were not
solved, and what a tick costs with and without them.
Bar: no distance too large or too small; with limits, no pair nearer than the margin by more than 1e-4 m as long as
every tick was solved.
"""

from __future__ import annotations

import argparse
import sys
import time

import numpy as np

import quaddyn as qd
from quaddyn.kinematics import CapsuleModel, CollisionModel
from quaddyn.wbc import CollisionLimits, JointBounds, PostureTask, TorqueLimits

#: Tolerance of coal's distances [m], and depth that counts as none.
COAL, DEPTH = 1e-6, 1e-4


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


def hostile(name: str, ticks: int, seed: int) -> bool:
    """One robot under hostile references; whether the bar is met."""
    robot, dt = qd.load(name, root="fixed"), 1e-3
    dyn, limits = qd.Dynamics(robot), CollisionLimits(CapsuleModel(robot))
    kept = True
    for guarded in (False, True):
        rng, posture = np.random.default_rng(seed), PostureTask(robot, stiffness=400.0)
        constraints = [TorqueLimits(robot), JointBounds(robot, dt, horizon=dt)] + ([limits] if guarded else [])
        wbc = qd.WholeBodyController(robot, constraints=constraints, tasks=[[posture]], contacts=[], dt=dt)
        q, v, least, outside, bad = np.array(robot.q_home), np.zeros(robot.nv), np.inf, 0, 0
        promised = np.inf
        cost, jumps, before = list[float](), list[float](), None
        for tick in range(ticks):
            if tick % 150 == 0:
                posture.reference(robot.random_configuration(rng))
            state = dyn.update(q, v)
            start = time.process_time()
            command = wbc.compute(state)
            cost.append(time.process_time() - start)
            bad += not command.ok
            if before is not None and tick % 150:
                jumps.append(float(np.abs((command.tau - before) / robot.effort_limits).max()))
            before = command.tau.copy()
            q = robot.integrate(q, dt * v + 0.5 * dt * dt * command.acceleration)
            v = v + dt * command.acceleration
            if tick % 5 == 0:
                room = float(limits.gaps(q, v)[0].min())
                least = min(least, room)
                promised = promised if bad else min(promised, room)
            if guarded and tick % 20 == 0:
                outside += bool(command.outside)
        print(
            f"  {name} {'with' if guarded else 'without'} limits ({len(limits.labels)} pairs): {ticks} ticks, "
            f"{bad} not solved; least distance {1e3 * least:+.2f} mm over the margin, {1e3 * promised:+.2f} while all "
            f"were; torque steps of {np.median(jumps):.1e} "
            f"(median), {max(jumps):.1e} (largest) of the limit; tick {1e6 * float(np.median(cost)):.0f} us"
            + (f"; {outside} of {-(-ticks // 20)} looked at not viable" if guarded else "")
        )
        if guarded:
            kept = -DEPTH <= promised < np.inf
    return kept


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--poses", type=int, default=100, help="per robot")
    parser.add_argument("--ticks", type=int, default=3000, help="per robot")
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
    print("all bars met" if kept else "a bar is missed")
    return 1 if options.check and not kept else 0


if __name__ == "__main__":
    sys.exit(main())
