"""Collision geometry against coal.

    python benchmarks/collisions.py                       # go2, solo12, anymal_c, ur5
    python benchmarks/collisions.py --all --poses 500     # the whole catalogue
    python benchmarks/collisions.py --check               # exit code 1 if a bar is missed

Distances of `CapsuleModel` on random poses, pair of links by pair of links, against those of coal on the file's own
shapes: never larger, and smaller by the stated excess of the two at most (where capsules are apart, and but for 1e-6 m,
coal's own tolerance).
"""

from __future__ import annotations

import argparse
import sys
import time

import numpy as np

import quaddyn as qd
from quaddyn.kinematics import CapsuleModel, CollisionModel

#: Tolerance of coal's distances [m].
COAL = 1e-6


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


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--poses", type=int, default=100, help="per robot")
    parser.add_argument("--robots", nargs="*", default=("go2", "solo12", "anymal_c", "ur5"))
    parser.add_argument("--all", action="store_true", help="the whole catalogue")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--check", action="store_true", help="exit code 1 if a bar is missed")
    options = parser.parse_args()
    print("distances against coal")
    kept = all(
        [distances(name, options.poses, options.seed) for name in (qd.CATALOGUE if options.all else options.robots)]
    )
    print("all bars met" if kept else "a bar is missed")
    return 1 if options.check and not kept else 0


if __name__ == "__main__":
    sys.exit(main())
