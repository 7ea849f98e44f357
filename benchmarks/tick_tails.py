"""Measures the slowest of many whole-body ticks with their causes, and ticks whose level 0 is infeasible.

**The tail** is measured over blocks of ticks, each from a controller's reset on, so that a block can be run again with
the same answers; `WARM` of its ticks are done beforehand and not measured, as recording a block leaves cold caches
behind.  Go2 has joint bounds and contacts that are made and broken over time, stands and trots, calm, saturated and
hard in turn.  The garbage collector is off.  Some blocks are run `REPLAYS` times more, for the median of
what is ours; so are all ticks that took more than `TAIL` such medians, and the slowest in a thousand: the least time is
ours, the rest is the machine's.  No tick may take more than `TAIL` medians.  A tick's cause is the first of these that
holds: it comes after a reset; it was not solved; a contact changes or is on its way; another set of limits is reached
than at the tick before.

**Infeasible ticks** come from joint speeds that no torque can take away within the limits.  Their median and their 99th
percentile may take no more than `INFEASIBLE` medians of the feasible ones at the same speeds; of all ticks at these
speeds, one in 10,000 may take more than `RARE`.
"""

from __future__ import annotations

import gc
import time
from collections import Counter

import numpy as np
import pinocchio as pin
from bench_wbc import DT, GAITS, REGIMES, QuaddynRunner, record
from rivals.process import share_cpu

import quaddyn as qd

#: Medians that no tick's own time may exceed; runs of a slow tick.
TAIL, REPLAYS = 5.0, 5
#: Ticks from one reset to the next; over so many ticks contacts are made and broken.
BLOCK, RAMP = 200, 20
#: Ticks before the reset that a measured block begins with.
WARM = 10
#: Blocks of which every tick is run again, for the median, and its cause looked up.
SAMPLED = 12
#: Standard deviations of joint speeds [rad/s]; medians of feasible ticks that infeasible ones may take.
SPEEDS, INFEASIBLE, RARE = (4.0, 8.0, 15.0), 3.0, 8.0


class Blocks:
    """Blocks of ticks by number, any of which can be run again.

    Args:
        robot: whose ticks.
        seed: of all blocks.
    """

    def __init__(self, robot: qd.Robot, seed: int) -> None:
        self.robot, self.seed = robot, seed
        self.ours = {
            regime: QuaddynRunner(robot, record(robot, "stand", regime, 1, seed), bounds=True, ramp=RAMP * DT)
            for regime in REGIMES
        }

    def kind(self, number: int) -> tuple[str, str]:
        """Gait and regime of a block."""
        return GAITS[number // len(REGIMES) % len(GAITS)], REGIMES[number % len(REGIMES)]

    def run(self, number: int) -> tuple[np.ndarray, list[str]]:
        """Seconds and outcome of each tick."""
        ours = self._ready(number)
        r, times, outcomes = ours.r, np.zeros(BLOCK), []
        clock, update, compute = time.perf_counter, ours.dyn.update, ours.wbc.compute
        for k in range(WARM):
            ours.limits.limits[:] = r["effort"][k]
            ours.set_references(k)
            compute(update(r["q"][k].copy(), r["v"][k].copy()), ours.stand[k])
        ours.wbc.reset()
        for k in range(BLOCK):
            ours.limits.limits[:] = r["effort"][k]
            q, v, feet = r["q"][k].copy(), r["v"][k].copy(), ours.stand[k]
            ours.set_references(k)
            start = clock()
            command = compute(update(q, v), feet)
            times[k] = clock() - start
            outcomes.append(command.status.outcome)
        return times, outcomes

    def again(self, own: np.ndarray, which: np.ndarray, enough: float) -> None:
        """Run blocks again, for the least time of some of their ticks, until all take `enough` at most.

        Args:
            own: (blocks, ticks) times so far [s], written in place.
            which: of the same shape, the ticks that are wanted.
            enough: [s]
        """
        for number in np.flatnonzero(which.any(axis=1)):
            for turn in range(REPLAYS):
                share_cpu(turn, ())
                times, _ = self.run(number)
                own[number] = np.where(which[number], np.minimum(own[number], times), own[number])
                if (own[number][which[number]] <= enough).all():
                    break

    def causes(self, number: int, ticks: list[int]) -> list[str]:
        """What happened at some ticks of a block."""
        ours = self._ready(number)
        r, found, reached = ours.r, [], {}
        wanted = set(ticks) | {k - 1 for k in ticks}
        for k in range(max(ticks) + 1):
            ours.limits.limits[:] = r["effort"][k]
            ours.set_references(k)
            command = ours.wbc.compute(ours.dyn.update(r["q"][k].copy(), r["v"][k].copy()), ours.stand[k])
            if k in wanted:
                reached[k] = [level.active for level in command.levels]
            if k not in ticks:
                continue
            stood = r["contacts"][max(k - RAMP, 0) : k + 1]
            if k == 0:
                found.append("first tick")
            elif command.status.outcome != "solved":
                found.append(command.status.outcome)
            elif (stood != stood[0]).any():
                found.append("contact switch")
            else:
                found.append("other limits" if reached[k] != reached[k - 1] else "none")
        return found

    def why(self, which: np.ndarray) -> dict[tuple[int, int], str]:
        """Cause of each of some ticks: `which` is (blocks, ticks), True where it is wanted."""
        out: dict[tuple[int, int], str] = {}
        for number in np.flatnonzero(which.any(axis=1)).tolist():
            ticks = np.flatnonzero(which[number]).tolist()
            out |= {(number, k): cause for k, cause in zip(ticks, self.causes(number, ticks), strict=True)}
        return out

    def _ready(self, number: int) -> QuaddynRunner:
        gait, regime = self.kind(number)
        ours = self.ours[regime]
        ours.r = record(self.robot, gait, regime, BLOCK, [self.seed, number])
        feet = np.array(self.robot.feet)
        ours.stand = [tuple(feet[mask].tolist()) for mask in ours.r["contacts"]]
        ours.wbc.reset()
        return ours


def tail(name: str, ticks: int, seed: int) -> list[str]:
    """Percentiles of many ticks, and what the slowest ones have in common; the bars that were missed."""
    blocks, count = Blocks(qd.load(name), seed), -(-ticks // BLOCK)
    for number in range(len(GAITS) * len(REGIMES)):
        blocks.run(number)  # compiled, and warm
    times, outcomes = np.zeros((count, BLOCK)), Counter()
    sampled = np.zeros(times.shape, dtype=bool)
    sampled[:SAMPLED] = True
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        for number in range(count):
            times[number], block = blocks.run(number)
            outcomes.update(block)
            if number % 50 == 49:
                gc.collect()
        own = times.copy()
        blocks.again(own, sampled, 0.0)
        median = float(np.median(own[sampled]))
        slow = times > min(TAIL * median, float(np.percentile(times, 99.9)))
        blocks.again(own, slow & ~sampled, TAIL * median)
    finally:
        gc.enable()
        gc.unfreeze()
    late = (own > TAIL * median) & (slow | sampled)
    print(f"{name}: {times.size} ticks, no garbage collection, seed {seed}: {dict(outcomes)}")
    for title, values, most in (
        ("as they came", times, times.max()),
        (f"{np.count_nonzero(sampled)} of them, least of {REPLAYS}", own[sampled], own[slow | sampled].max()),
    ):
        p50, p99, p999 = 1e6 * np.percentile(values, (50, 99, 99.9))
        print(f"  {title:24s} median {p50:6.1f}  p99 {p99:6.1f}  p99.9 {p999:7.1f}  most {1e6 * most:8.1f}")
    print(
        f"  beyond {TAIL:g} medians of {1e6 * median:.1f}: {np.count_nonzero(times > TAIL * median)} as they came, "
        f"{np.count_nonzero(late)} of our own"
    )
    slow |= late
    why = blocks.why(slow)
    usual = blocks.why(sampled)
    print(f"  {'cause':16s} {'of all':>7s} {'their median':>13s} {'among the slow':>15s} {'slow of our own':>16s}")
    for cause in sorted({*why.values(), *usual.values()}):
        mine = [own[at] for at, other in usual.items() if other == cause]
        typical = f"{1e6 * np.median(mine):13.1f}" if mine else f"{'-':>13s}"
        among = [late[at] for at, other in why.items() if other == cause]
        print(f"  {cause:16s} {len(mine) / len(usual):7.1%} {typical} {len(among):15d} {sum(among):16d}")
    for at in sorted(map(tuple, np.argwhere(late).tolist()), key=lambda at: -own[at])[:5]:
        print(f"  block {at[0]} ({' '.join(blocks.kind(at[0]))}) tick {at[1]}: {1e6 * own[at]:.1f}, {why[at]}")
    if not late.any():
        return []
    return [f"{name}: {np.count_nonzero(late)} ticks beyond {TAIL:g} medians, up to {own[late].max() / median:.1f}"]


def infeasible(name: str, ticks: int, replays: int, seed: int) -> list[str]:
    """What ticks take whose joints are too fast to be held within the limits; the bars that were missed."""
    robot = qd.load(name)
    dynamics, controller = qd.Dynamics(robot), qd.WholeBodyController(robot, ramp_time=0.0)
    diagonal = (robot.feet[0], robot.feet[3])
    found = []
    for speed in SPEEDS:
        rng = np.random.default_rng([seed, round(10.0 * speed)])
        q = [pin.integrate(robot.model, robot.q_home, 0.05 * rng.normal(size=robot.nv)) for _ in range(ticks)]
        v = [np.r_[0.1 * rng.normal(size=6), speed * rng.normal(size=robot.nv - 6)] for _ in range(ticks)]
        times, outcomes = np.full(ticks, np.inf), [""] * ticks
        for turn in range(replays + 1):  # the first one compiles
            share_cpu(turn, ())
            controller.reset()
            for k in range(ticks):
                feet = robot.feet if 2 * k < ticks else diagonal
                state, on = (q[k].copy(), v[k].copy()), tuple(feet)
                start = time.perf_counter()
                command = controller.compute(dynamics.update(*state), on)
                times[k] = min(times[k], time.perf_counter() - start)
                outcomes[k] = command.status.outcome
        found.append((speed, times, np.array(outcomes)))
    feasible = np.concatenate([times[outcomes == "solved"] for _, times, outcomes in found])
    missed = []
    if not len(feasible):
        return [f"{name}: no feasible tick to compare with; more ticks are needed"]
    base = float(np.median(feasible))
    title = f"{name}: joints too fast, seed {seed}"
    print(f"{title}; {len(feasible)} of {len(SPEEDS) * ticks} ticks are feasible and take {1e6 * base:.1f}")
    for speed, times, outcomes in found:
        others = times[outcomes != "solved"]
        line = f"  std {speed:4.1f} rad/s: {dict(Counter(outcomes.tolist()))}, infeasible {len(others) / ticks:4.0%}"
        for title, percentile in (("median", 50), ("p99", 99)) if len(others) else ():
            value = float(np.percentile(others, percentile))
            line += f", {title} {1e6 * value:.1f} ({value / base:.1f} of feasible)"
            if value > INFEASIBLE * base:
                missed.append(f"{name} at {speed:g} rad/s, infeasible {title}: {value / base:.1f} > {INFEASIBLE}")
        print(line)
    every = np.concatenate([times for _, times, _ in found]) / base
    p50, p99, p999, p9999 = np.percentile(every, (50, 99, 99.9, 99.99))
    print(
        f"  all {len(every)}, in medians of feasible ones: median {p50:.1f}, p99 {p99:.1f}, p99.9 {p999:.1f}, "
        f"p99.99 {p9999:.1f}, most {every.max():.1f}"
    )
    if p9999 > RARE:
        missed.append(f"{name}: p99.99 {p9999:.1f} > {RARE}")
    return missed
