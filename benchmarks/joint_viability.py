"""Tests joint limits under worst-case accelerations: a joint that starts in a viable state must not leave its limits.

    python benchmarks/joint_viability.py                  # 1e6 ticks of each form
    python benchmarks/joint_viability.py --ticks 10000000
    python benchmarks/joint_viability.py --check          # exit code 1 if a requirement is not met

A try is one joint with random limits, control period and deceleration, and a random viable start.  At every tick an
adversary chooses an acceleration between the bounds, which is held for the period; positions are judged at every
instant, turning points included.  A violation is a tick on which position or velocity is beyond its limit by more
than 1e-9 of the range or of the largest velocity.  The joint never accelerates by more than its deceleration allows:
what a form asks for beyond that is cut off, as torque limits do, and counted.

Bar: `JointBounds` has no violation and asks for nothing beyond, while each of the others does one or the other on the
same tries.  The others are

- `JointBounds` with ``viability=False``;
- TSID's `TaskJointPosVelAccBounds`, as in src/tasks/task-joint-posVelAcc-bounds.cpp: Del Prete's bounds over two
  periods, with the published resolution of conflicts;
- TSID's `TaskJointBounds`: velocity and acceleration alone;
- PlaCo's `DynamicsSolver` with joint and velocity limits, as in src/placo/dynamics/dynamics_solver.cpp:
  ``v + dt a <= sqrt(2 (q_max - q) a_safe)`` inside, ``a <= -a_safe`` outside.

Then robots with a fixed root under whole-body control, whose posture task is given random targets beyond the limits at
random times: the same bar on the accelerations that the controller found, on top of torque limits.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from typing import NamedTuple

import numpy as np

import quaddyn as qd
from quaddyn.compiler import Vector, compiled, entry
from quaddyn.wbc import JointBounds, PostureTask, TorqueLimits
from quaddyn.wbc.constraints.joint_bound_rows import acceleration_bounds, joint_bound_parameters

OURS, PLAIN, TSID, TSID_VELOCITY, PLACO = range(5)
NAMES = {
    OURS: "JointBounds", PLAIN: "JointBounds, viability=False", TSID: "TSID TaskJointPosVelAccBounds",
    TSID_VELOCITY: "TSID TaskJointBounds", PLACO: "PlaCo DynamicsSolver",
}  # fmt: skip
#: Beyond a limit, relative to the range or the largest velocity.
LEAST = 1e-9
STEPS = 1000


class Joint(NamedTuple):
    """One try, as `JointBounds` has it."""

    block: Vector  # parameters of `JointBounds` for one joint
    dt: float


@compiled()
def tsid_upper(room: float, v: float, fastest: float, d: float, h: float) -> tuple[float, float]:
    """TSID's largest acceleration, and the part of it that is about positions."""
    stop, end = -v / h, 2.0 * (room - h * v) / (h * h)
    position = end
    if v > 0.0 and end <= stop:
        position = 0.0
        if room != 0.0:
            position = min(-v * v / (2.0 * room), stop)
    b = 2.0 * h * v + d * h * h
    delta = b * b - 4.0 * h * h * (v * v - 2.0 * d * (room - h * v))
    viable = stop
    if delta >= 0.0:
        viable = max((-b + math.sqrt(delta)) / (2.0 * h * h), stop)
    return min(min(position, viable), min((fastest - v) / h, d)), position


@compiled(inline=False)
def tsid_bound(
    lower: float, upper: float, fastest: float, d: float, dt: float, q: float, v: float
) -> tuple[float, float]:
    """Bounds over two periods; in a conflict the upper one wins if it is about the position, else the lower one."""
    high, position = tsid_upper(upper - q, v, fastest, d, 2.0 * dt)
    low, _ = tsid_upper(q - lower, -v, fastest, d, 2.0 * dt)
    low = -low
    if high < low:
        if high == position:
            low = high
        else:
            high = low
    return low, high


@compiled()
def placo_upper(room: float, v: float, fastest: float, d: float, dt: float) -> float:
    """PlaCo's largest acceleration."""
    high = (fastest - v) / dt
    if room < 0.0:
        return min(high, -d)
    return min(high, (math.sqrt(2.0 * room * d) - v) / dt)


@entry("hostile ticks of joints")
def hostile(form: int, joint: Joint, q: float, v: float, wishes: Vector, found: Vector) -> int:
    """Ticks that violate a limit.

    Args:
        form: of the bounds.
        joint: the try.
        q: where it starts.
        v: how fast.
        wishes: -1 to 1 per tick, between the bounds.
        found: (3,) largest excess of position over the range and of velocity over the largest; ticks that asked for
            what the joint cannot do.
    """
    p, dt = joint_bound_parameters(joint.block, 1), joint.dt
    lower, upper, fastest, d = p.lower[0], p.upper[0], p.velocity[0], p.deceleration[0]
    violations = 0
    for i in range(len(wishes)):
        if form == OURS or form == PLAIN:
            low, high = acceleration_bounds(p, 0, q, v)
        elif form == TSID:
            low, high = tsid_bound(lower, upper, fastest, d, dt, q, v)
        elif form == TSID_VELOCITY:
            low, high = max(-d, (-fastest - v) / dt), min(d, (fastest - v) / dt)
        else:
            high = placo_upper(upper - q, v, fastest, d, dt)
            low = -placo_upper(q - lower, -v, fastest, d, dt)
        if low > high + 1e-9 * (abs(low) + abs(high)):
            found[2] += 1.0
            low = -v / dt  # in a conflict that a form does not resolve it brakes
            high = low
        elif high < -d * (1.0 + 1e-9) or low > d * (1.0 + 1e-9):
            found[2] += 1.0
        most = d if form != OURS else p.acceleration[0]
        low, high = min(max(low, -most), most), min(max(high, -most), most)
        a = 0.5 * (low + high) + 0.5 * wishes[i] * (high - low)
        after = q + dt * v + 0.5 * dt * dt * a
        highest, lowest = max(q, after), min(q, after)
        if v * (v + dt * a) < 0.0:
            turn = q - 0.5 * v * v / a
            highest, lowest = max(highest, turn), min(lowest, turn)
        q, v = after, v + dt * a
        excess = max(highest - upper, lower - lowest) / (upper - lower)
        speed = abs(v) / fastest - 1.0
        found[0] = max(found[0], excess)
        found[1] = max(found[1], speed)
        if excess > LEAST or speed > LEAST:
            violations += 1
    return violations


def tries(count: int, seed: int) -> list[tuple[Joint, float, float, np.ndarray]]:
    """Joints, viable starts and wishes."""
    rng, out = np.random.default_rng(seed), []
    for _ in range(count):
        width, d, fastest = 10 ** rng.uniform(-3, 0.8), 10 ** rng.uniform(0, 3.3), 10 ** rng.uniform(-0.5, 1.7)
        dt = 10 ** rng.uniform(-4, -2)
        h = dt * float(rng.choice([1.0, 2.0, 10.0]))
        lower = rng.uniform(-3.0, 3.0)
        most = d * float(rng.choice([1.0, 3.0]))
        block = np.array([h, 0.1, 1.0, lower, lower + width, fastest, most, d])
        braking = min(d, width / h**2, fastest / h)
        q = lower + width * rng.uniform()
        bottom = -min(fastest, np.sqrt(2.0 * braking * (q - lower)))
        top = min(fastest, np.sqrt(2.0 * braking * (lower + width - q)))
        v = float(rng.choice([bottom, top, rng.uniform(bottom, top)]))
        kind = rng.integers(4)
        wishes = rng.uniform(-1.0, 1.0, STEPS)
        if kind == 0:
            wishes = np.sign(wishes)
        elif kind == 1:  # flat out to one side, then to the other
            wishes = np.repeat(np.sign(rng.uniform(-1.0, 1.0, STEPS)), rng.integers(1, 300, STEPS))[:STEPS]
        elif kind == 2:
            wishes = np.full(STEPS, float(rng.choice([-1.0, 1.0])))
        out.append((Joint(block, dt), q, v, wishes))
    return out


def joints(ticks: int, seed: int) -> bool:
    """Every form on the same tries; whether the bar is met."""
    kept, cases = True, tries(max(1, ticks // STEPS), seed)
    print(f"{len(cases) * STEPS} hostile ticks of each form from viable starts")
    for form, name in NAMES.items():
        found, bad, lost, start = np.zeros(3), 0, 0, time.process_time()
        for joint, q, v, wishes in cases:
            if form == PLAIN:
                joint = joint._replace(block=np.where(np.arange(8) == 2, 0.0, joint.block))
            count = hostile(form, joint, q, v, wishes, found)
            bad, lost = bad + count, lost + (count > 0)
        seconds = time.process_time() - start
        print(
            f"  {name:32} {bad:>9} violations in {lost} of {len(cases)} tries; beyond the range by {found[0]:.1e}, "
            f"largest velocity by {found[1]:.1e}; {found[2]:.0f} ticks ask for the impossible "
            f"({1e9 * seconds / (len(cases) * STEPS):.0f} ns a tick)"
        )
        kept = kept and ((bad == 0 and found[2] == 0) if form == OURS else bad + found[2] > 0)
    return kept


def whole_body(name: str, ticks: int, seed: int) -> bool:
    """A robot with a fixed root under whole-body control; whether no joint leaves its limits."""
    robot, dt = qd.load(name, root="fixed"), 1e-3
    rng, dyn = np.random.default_rng(seed), qd.Dynamics(robot)
    bounds = JointBounds(robot, dt, acceleration=400.0, deceleration=capability(robot, rng), horizon=dt)
    posture = PostureTask(robot)
    wbc = qd.WholeBodyController(robot, constraints=[TorqueLimits(robot), bounds], tasks=[[posture]], dt=dt)
    middle, width = 0.5 * (bounds.lower + bounds.upper), bounds.upper - bounds.lower
    entries = [robot.configuration_index(joint) for joint in robot.actuated]
    q, v = np.array(robot.q_home), np.zeros(robot.nv)
    worst, speed, outcomes, outside = -np.inf, -np.inf, dict[str, int](), 0
    for tick in range(ticks):
        if tick % 50 == 0:
            target = q.copy()
            target[entries] = middle + width * rng.choice([-1.0, 1.0, 0.0], robot.nu) * rng.uniform(0.4, 2.0)
            posture.reference(target)
        command = wbc.compute(dyn.update(q, v))
        outside += bool(command.nonviable)
        outcomes[command.status.outcome] = outcomes.get(command.status.outcome, 0) + 1
        q, v = q + dt * v + 0.5 * dt * dt * command.acceleration, v + dt * command.acceleration
        there = q[entries]
        worst = max(worst, float((np.maximum(there - bounds.upper, bounds.lower - there) / width).max()))
        speed = max(speed, float((np.abs(v) / bounds.velocity).max()) - 1.0)
    print(
        f"  {name}: {ticks} ticks {outcomes}, {outside} from outside of the viable set; at most "
        f"{worst:.1e} of the range beyond it, {speed:.1e} beyond the largest velocity"
    )
    return worst <= LEAST and speed <= LEAST and set(outcomes) == {"solved"} and outside == 0


def capability(robot: qd.Robot, rng: np.random.Generator) -> float:
    """A deceleration that torque limits leave to all joints at once: the least over random states, times 0.5."""
    dyn, least = qd.Dynamics(robot), np.inf
    limits = robot.effort_limits
    for _ in range(300):
        s = dyn.update(robot.random_configuration(rng), rng.uniform(-1.0, 1.0, robot.nv) * 0.5 * robot.velocity_limits)
        room = limits - np.abs(s.h)
        least = min(least, float((room / np.abs(s.M).sum(axis=1)).min()))
    return max(0.5 * least, 1.0)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ticks", type=int, default=1_000_000, help="of each form")
    parser.add_argument("--whole-body", type=int, default=2000, help="ticks of each robot")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--check", action="store_true", help="exit code 1 if a requirement is not met")
    options = parser.parse_args()
    kept = joints(options.ticks, options.seed)
    print("whole-body control with hostile targets")
    for name in ("three_link_leg", "go2"):
        kept = whole_body(name, options.whole_body, options.seed) and kept
    print("all requirements met" if kept else "a requirement is not met")
    return 1 if options.check and not kept else 0


if __name__ == "__main__":
    sys.exit(main())
