"""Measures the slowest of many whole-body ticks with their causes, and the times of infeasible ticks.

**Tail**: ticks are measured in blocks.  Each block begins with a controller reset, so that it can be replayed with the
same results; `WARMUP_TICKS` ticks precede the reset without being measured, since recording a block leaves cold caches.
Go2 has joint bounds and ramped contacts, stands and trots, in the regimes calm, saturated and hard in turn.  The
garbage collector is off.  Some blocks are replayed `REPLAYS` times to obtain the median of the code's own time.  All
ticks above `MAX_TAIL_RATIO` medians, and the slowest per thousand, are replayed as well: the shortest time is the
code's own, the rest is other load of the machine.  Required is that no tick's own time exceeds `MAX_TAIL_RATIO`
medians.  The cause of a slow tick is the first that applies: it follows a reset; it was not solved; a contact switches
or is in a ramp; the active limits differ from those of the preceding tick.

**Infeasible ticks** result from joint speeds that no torques within the limits can stop.  Required are a median and a
99th percentile of at most `MAX_INFEASIBLE_RATIO` medians of the feasible ticks at the same speeds, and a 99.99th
percentile of all ticks at these speeds of at most `MAX_P9999_RATIO` medians.
"""

from __future__ import annotations

import gc
import time
from collections import Counter

import numpy as np
import pinocchio as pin
from bench_wbc import DT, GAITS, REGIMES, QuaddynRunner, record
from rivals.process import pin_to_cpu

import quaddyn as qd

#: Largest own time of a tick divided by the median; replays of a slow tick.
MAX_TAIL_RATIO, REPLAYS = 5.0, 5
#: Ticks between resets; ticks of a contact ramp.
BLOCK_TICKS, RAMP_TICKS = 200, 20
#: Ticks before the reset at the beginning of a measured block.
WARMUP_TICKS = 10
#: Number of blocks of which all ticks are replayed for the median, and classified by cause.
SAMPLED_BLOCKS = 12
#: Standard deviations of joint speeds [rad/s]; largest median and 99th percentile of infeasible ticks, and 99.99th
#: percentile of all ticks, divided by the median of feasible ticks.
SPEEDS, MAX_INFEASIBLE_RATIO, MAX_P9999_RATIO = (4.0, 8.0, 15.0), 3.0, 8.0


class Blocks:
    """Numbered blocks of ticks, each of which can be replayed.

    Args:
        robot: the robot.
        seed: seed of all blocks.
    """

    def __init__(self, robot: qd.Robot, seed: int) -> None:
        self.robot, self.seed = robot, seed
        self.runners = {
            regime: QuaddynRunner(robot, record(robot, "stand", regime, 1, seed), bounds=True, ramp=RAMP_TICKS * DT)
            for regime in REGIMES
        }

    def kind(self, number: int) -> tuple[str, str]:
        """Returns gait and regime of a block."""
        return GAITS[number // len(REGIMES) % len(GAITS)], REGIMES[number % len(REGIMES)]

    def run(self, number: int) -> tuple[np.ndarray, list[str]]:
        """Runs a block; returns times [s] and outcomes of its ticks."""
        runner = self._prepare(number)
        r, times, outcomes = runner.r, np.zeros(BLOCK_TICKS), []
        clock, update, compute = time.perf_counter, runner.dyn.update, runner.wbc.compute
        for k in range(WARMUP_TICKS):
            runner.limits.limits[:] = r["effort"][k]
            runner.set_references(k)
            compute(update(r["q"][k].copy(), r["v"][k].copy()), runner.stand[k])
        runner.wbc.reset()
        for k in range(BLOCK_TICKS):
            runner.limits.limits[:] = r["effort"][k]
            q, v, feet = r["q"][k].copy(), r["v"][k].copy(), runner.stand[k]
            runner.set_references(k)
            start = clock()
            command = compute(update(q, v), feet)
            times[k] = clock() - start
            outcomes.append(command.status.outcome)
        return times, outcomes

    def replay(self, own_times: np.ndarray, mask: np.ndarray, target: float) -> None:
        """Replays blocks, up to `REPLAYS` times, and lowers the times of selected ticks to the shortest ones.

        Args:
            own_times: (blocks, ticks) shortest times so far [s], updated in place.
            mask: (blocks, ticks) selected ticks.
            target: the replays of a block end when the times of all selected ticks are at most this one [s].
        """
        for number in np.flatnonzero(mask.any(axis=1)):
            for turn in range(REPLAYS):
                pin_to_cpu(turn, ())
                times, _ = self.run(number)
                own_times[number] = np.where(mask[number], np.minimum(own_times[number], times), own_times[number])
                if (own_times[number][mask[number]] <= target).all():
                    break

    def causes_in_block(self, number: int, ticks: list[int]) -> list[str]:
        """Returns the causes of some ticks of a block."""
        runner = self._prepare(number)
        r, causes, active_limits = runner.r, [], {}
        needed_ticks = set(ticks) | {k - 1 for k in ticks}
        for k in range(max(ticks) + 1):
            runner.limits.limits[:] = r["effort"][k]
            runner.set_references(k)
            command = runner.wbc.compute(runner.dyn.update(r["q"][k].copy(), r["v"][k].copy()), runner.stand[k])
            if k in needed_ticks:
                active_limits[k] = [level.active for level in command.levels]
            if k not in ticks:
                continue
            recent_contacts = r["contacts"][max(k - RAMP_TICKS, 0) : k + 1]
            if k == 0:
                causes.append("first tick")
            elif command.status.outcome != "solved":
                causes.append(command.status.outcome)
            elif (recent_contacts != recent_contacts[0]).any():
                causes.append("contact switch")
            else:
                causes.append("active limits" if active_limits[k] != active_limits[k - 1] else "none")
        return causes

    def find_causes(self, mask: np.ndarray) -> dict[tuple[int, int], str]:
        """Returns the causes of the ticks selected by a mask (blocks, ticks), by block and tick."""
        causes: dict[tuple[int, int], str] = {}
        for number in np.flatnonzero(mask.any(axis=1)).tolist():
            ticks = np.flatnonzero(mask[number]).tolist()
            causes |= {(number, k): cause for k, cause in zip(ticks, self.causes_in_block(number, ticks), strict=True)}
        return causes

    def _prepare(self, number: int) -> QuaddynRunner:
        gait, regime = self.kind(number)
        runner = self.runners[regime]
        runner.r = record(self.robot, gait, regime, BLOCK_TICKS, [self.seed, number])
        feet = np.array(self.robot.feet)
        runner.stand = [tuple(feet[mask].tolist()) for mask in runner.r["contacts"]]
        runner.wbc.reset()
        return runner


def measure_tail(name: str, ticks: int, seed: int) -> list[str]:
    """Prints percentiles of many ticks and causes of the slowest ones; returns the requirements that are not met."""
    blocks, count = Blocks(qd.load(name), seed), -(-ticks // BLOCK_TICKS)
    for number in range(len(GAITS) * len(REGIMES)):
        blocks.run(number)  # compiles and warms up
    times, outcomes = np.zeros((count, BLOCK_TICKS)), Counter()
    sampled = np.zeros(times.shape, dtype=bool)
    sampled[:SAMPLED_BLOCKS] = True
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        for number in range(count):
            times[number], block_outcomes = blocks.run(number)
            outcomes.update(block_outcomes)
            if number % 50 == 49:
                gc.collect()
        own_times = times.copy()
        blocks.replay(own_times, sampled, 0.0)
        median = float(np.median(own_times[sampled]))
        is_slow = times > min(MAX_TAIL_RATIO * median, float(np.percentile(times, 99.9)))
        blocks.replay(own_times, is_slow & ~sampled, MAX_TAIL_RATIO * median)
    finally:
        gc.enable()
        gc.unfreeze()
    exceeds = (own_times > MAX_TAIL_RATIO * median) & (is_slow | sampled)
    print(f"{name}: {times.size} ticks, no garbage collection, seed {seed}: {dict(outcomes)}")
    for title, values, maximum in (
        ("all, with other load", times, times.max()),
        (
            f"{np.count_nonzero(sampled)} of them, best of {REPLAYS}",
            own_times[sampled],
            own_times[is_slow | sampled].max(),
        ),
    ):
        p50, p99, p999 = 1e6 * np.percentile(values, (50, 99, 99.9))
        print(f"  {title:24s} median {p50:6.1f}  p99 {p99:6.1f}  p99.9 {p999:7.1f}  max {1e6 * maximum:8.1f}")
    print(
        f"  above {MAX_TAIL_RATIO:g} medians of {1e6 * median:.1f}: "
        f"{np.count_nonzero(times > MAX_TAIL_RATIO * median)} with other load, {np.count_nonzero(exceeds)} in own time"
    )
    is_slow |= exceeds
    causes = blocks.find_causes(is_slow)
    sampled_causes = blocks.find_causes(sampled)
    print(f"  {'cause':16s} {'of all':>7s} {'median':>13s} {'slow':>15s} {'slow in own time':>16s}")
    for cause in sorted({*causes.values(), *sampled_causes.values()}):
        own_times_of_cause = [own_times[at] for at, other in sampled_causes.items() if other == cause]
        median_text = f"{1e6 * np.median(own_times_of_cause):13.1f}" if own_times_of_cause else f"{'-':>13s}"
        flags = [exceeds[at] for at, other in causes.items() if other == cause]
        print(
            f"  {cause:16s} {len(own_times_of_cause) / len(sampled_causes):7.1%} {median_text} "
            f"{len(flags):15d} {sum(flags):16d}"
        )
    for at in sorted(map(tuple, np.argwhere(exceeds).tolist()), key=lambda at: -own_times[at])[:5]:
        print(f"  block {at[0]} ({' '.join(blocks.kind(at[0]))}) tick {at[1]}: {1e6 * own_times[at]:.1f}, {causes[at]}")
    if not exceeds.any():
        return []
    return [
        f"{name}: {np.count_nonzero(exceeds)} ticks above {MAX_TAIL_RATIO:g} medians, "
        f"up to {own_times[exceeds].max() / median:.1f}"
    ]


def measure_infeasible(name: str, ticks: int, replays: int, seed: int) -> list[str]:
    """Prints the times of ticks with fast joints; returns the requirements that are not met."""
    robot = qd.load(name)
    dynamics, controller = qd.Dynamics(robot), qd.WholeBodyController(robot, ramp_time=0.0)
    diagonal = (robot.feet[0], robot.feet[3])
    results = []
    for speed in SPEEDS:
        rng = np.random.default_rng([seed, round(10.0 * speed)])
        q = [pin.integrate(robot.model, robot.q_home, 0.05 * rng.normal(size=robot.nv)) for _ in range(ticks)]
        v = [np.r_[0.1 * rng.normal(size=6), speed * rng.normal(size=robot.nv - 6)] for _ in range(ticks)]
        times, outcomes = np.full(ticks, np.inf), [""] * ticks
        for replay in range(replays + 1):  # the first pass compiles
            pin_to_cpu(replay, ())
            controller.reset()
            for k in range(ticks):
                feet = robot.feet if 2 * k < ticks else diagonal
                state, contacts = (q[k].copy(), v[k].copy()), tuple(feet)
                start = time.perf_counter()
                command = controller.compute(dynamics.update(*state), contacts)
                times[k] = min(times[k], time.perf_counter() - start)
                outcomes[k] = command.status.outcome
        results.append((speed, times, np.array(outcomes)))
    feasible = np.concatenate([times[outcomes == "solved"] for _, times, outcomes in results])
    not_met = []
    if not len(feasible):
        return [f"{name}: no feasible tick for comparison; increase --ticks"]
    reference_time = float(np.median(feasible))
    title = f"{name}: fast joints, seed {seed}"
    print(f"{title}; {len(feasible)} of {len(SPEEDS) * ticks} ticks are feasible, median {1e6 * reference_time:.1f}")
    for speed, times, outcomes in results:
        infeasible_times = times[outcomes != "solved"]
        line = f"  std {speed:4.1f} rad/s: {dict(Counter(outcomes.tolist()))}, "
        line += f"infeasible {len(infeasible_times) / ticks:4.0%}"
        for title, percentile in (("median", 50), ("p99", 99)) if len(infeasible_times) else ():
            value = float(np.percentile(infeasible_times, percentile))
            line += f", {title} {1e6 * value:.1f} ({value / reference_time:.1f} of feasible)"
            if value > MAX_INFEASIBLE_RATIO * reference_time:
                ratio = f"{value / reference_time:.1f} > {MAX_INFEASIBLE_RATIO}"
                not_met.append(f"{name} at {speed:g} rad/s, infeasible {title}: {ratio}")
        print(line)
    ratios = np.concatenate([times for _, times, _ in results]) / reference_time
    p50, p99, p999, p9999 = np.percentile(ratios, (50, 99, 99.9, 99.99))
    print(
        f"  all {len(ratios)}, in medians of feasible ticks: median {p50:.1f}, p99 {p99:.1f}, p99.9 {p999:.1f}, "
        f"p99.99 {p9999:.1f}, max {ratios.max():.1f}"
    )
    if p9999 > MAX_P9999_RATIO:
        not_met.append(f"{name}: p99.99 {p9999:.1f} > {MAX_P9999_RATIO}")
    return not_met
