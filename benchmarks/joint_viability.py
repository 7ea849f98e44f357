"""Tests joint limits under worst-case accelerations: a joint that starts in a viable state must not leave its limits.

    python benchmarks/joint_viability.py                  # 1e6 ticks of each formulation
    python benchmarks/joint_viability.py --ticks 10000000
    python benchmarks/joint_viability.py --check          # exit code 1 if a requirement is not met

A trial is one joint with random limits, control period and deceleration, and a random viable initial state.  At every
tick an adversary chooses an acceleration between the bounds, which is constant over the period; positions are checked
at all times, turning points included.  A violation is a tick on which position or velocity exceeds its limit by more
than 1e-9 of the range or of the maximum velocity.  The magnitude of the acceleration is limited by the deceleration of
the joint: bounds that require more are clamped, as by torque limits, and counted.

Requirement: `JointBounds` has no violation and no bounds that require more than the deceleration, while each of the
other formulations has one or the other in the same trials.  The other formulations are

- `JointBounds` with ``viability=False``;
- TSID's `TaskJointPosVelAccBounds`, as in src/tasks/task-joint-posVelAcc-bounds.cpp: Del Prete's bounds over two
  periods, with the published resolution of conflicts;
- TSID's `TaskJointBounds`: velocity and acceleration only;
- PlaCo's `DynamicsSolver` with joint and velocity limits, as in src/placo/dynamics/dynamics_solver.cpp:
  ``v + dt a <= sqrt(2 (q_max - q) a_safe)`` inside, ``a <= -a_safe`` outside.

Then robots with a fixed root are simulated under whole-body control with torque limits.  Their posture task has random
targets beyond the limits at random times.  The accelerations of the controller must meet the same requirement.
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
from quaddyn.wbc.constraints.joint_bounds import acceleration_bounds, joint_bound_parameters

#: Codes of the formulations.
QUADDYN, NOT_VIABLE, TSID, TSID_VELOCITY, PLACO = range(5)
NAMES = {
    QUADDYN: "JointBounds", NOT_VIABLE: "JointBounds, viability=False", TSID: "TSID TaskJointPosVelAccBounds",
    TSID_VELOCITY: "TSID TaskJointBounds", PLACO: "PlaCo DynamicsSolver",
}  # fmt: skip
#: Excess over a limit from which a tick is a violation, relative to the range or the maximum velocity.
LIMIT_TOLERANCE = 1e-9
STEPS = 1000  # ticks of a trial


class Joint(NamedTuple):
    """Joint of a trial: parameters of `JointBounds`, and the control period [s]."""

    block: Vector
    dt: float


@compiled()
def tsid_upper(distance: float, v: float, max_velocity: float, d: float, h: float) -> tuple[float, float]:
    """Returns TSID's upper bound of the acceleration, and its contribution by the position limit."""
    stop_bound, end_bound = -v / h, 2.0 * (distance - h * v) / (h * h)
    position_bound = end_bound
    if v > 0.0 and end_bound <= stop_bound:
        position_bound = 0.0
        if distance != 0.0:
            position_bound = min(-v * v / (2.0 * distance), stop_bound)
    b = 2.0 * h * v + d * h * h
    delta = b * b - 4.0 * h * h * (v * v - 2.0 * d * (distance - h * v))
    viable_bound = stop_bound
    if delta >= 0.0:
        viable_bound = max((-b + math.sqrt(delta)) / (2.0 * h * h), stop_bound)
    return min(min(position_bound, viable_bound), min((max_velocity - v) / h, d)), position_bound


@compiled(inline=False)
def tsid_bound(
    lower: float, upper: float, max_velocity: float, d: float, dt: float, q: float, v: float
) -> tuple[float, float]:
    """Returns TSID's bounds over two periods.

    If they conflict, the upper bound is used for both if it results from the position limit, otherwise the lower bound.
    """
    high, position_bound = tsid_upper(upper - q, v, max_velocity, d, 2.0 * dt)
    low, _ = tsid_upper(q - lower, -v, max_velocity, d, 2.0 * dt)
    low = -low
    if high < low:
        if high == position_bound:
            low = high
        else:
            high = low
    return low, high


@compiled()
def placo_upper(distance: float, v: float, max_velocity: float, d: float, dt: float) -> float:
    """Returns PlaCo's upper bound of the acceleration."""
    high = (max_velocity - v) / dt
    if distance < 0.0:
        return min(high, -d)
    return min(high, (math.sqrt(2.0 * distance * d) - v) / dt)


@entry("simulation of a joint")
def simulate_joint(formulation: int, joint: Joint, q: float, v: float, choices: Vector, results: Vector) -> int:
    """Simulates a joint with adversarial accelerations and returns the number of ticks that violate a limit.

    Args:
        formulation: code of the formulation of the bounds.
        joint: joint of the trial.
        q: initial position.
        v: initial velocity.
        choices: acceleration of each tick, from -1 (lower bound) to 1 (upper bound).
        results: (3,) output: largest excess of the position relative to the range, largest excess of the velocity
            relative to the maximum velocity, number of ticks with bounds that require more than the deceleration.
    """
    p, dt = joint_bound_parameters(joint.block, 1), joint.dt
    lower, upper, max_velocity, d = p.lower[0], p.upper[0], p.velocity[0], p.deceleration[0]
    violations = 0
    for i in range(len(choices)):
        if formulation == QUADDYN or formulation == NOT_VIABLE:
            low, high = acceleration_bounds(p, 0, q, v)
        elif formulation == TSID:
            low, high = tsid_bound(lower, upper, max_velocity, d, dt, q, v)
        elif formulation == TSID_VELOCITY:
            low, high = max(-d, (-max_velocity - v) / dt), min(d, (max_velocity - v) / dt)
        else:
            high = placo_upper(upper - q, v, max_velocity, d, dt)
            low = -placo_upper(q - lower, -v, max_velocity, d, dt)
        if low > high + 1e-9 * (abs(low) + abs(high)):
            results[2] += 1.0
            low = -v / dt  # the joint brakes in a conflict that the formulation does not resolve
            high = low
        elif high < -d * (1.0 + 1e-9) or low > d * (1.0 + 1e-9):
            results[2] += 1.0
        max_acceleration = d if formulation != QUADDYN else p.acceleration[0]
        low, high = (
            min(max(low, -max_acceleration), max_acceleration),
            min(max(high, -max_acceleration), max_acceleration),
        )
        a = 0.5 * (low + high) + 0.5 * choices[i] * (high - low)
        next_q = q + dt * v + 0.5 * dt * dt * a
        max_q, min_q = max(q, next_q), min(q, next_q)
        if v * (v + dt * a) < 0.0:
            turning_point = q - 0.5 * v * v / a
            max_q, min_q = max(max_q, turning_point), min(min_q, turning_point)
        q, v = next_q, v + dt * a
        excess = max(max_q - upper, lower - min_q) / (upper - lower)
        velocity_excess = abs(v) / max_velocity - 1.0
        results[0] = max(results[0], excess)
        results[1] = max(results[1], velocity_excess)
        if excess > LIMIT_TOLERANCE or velocity_excess > LIMIT_TOLERANCE:
            violations += 1
    return violations


def draw_trials(count: int, seed: int) -> list[tuple[Joint, float, float, np.ndarray]]:
    """Draws joints, viable initial positions and velocities, and accelerations between the bounds."""
    rng, out = np.random.default_rng(seed), []
    for _ in range(count):
        width, d, max_velocity = 10 ** rng.uniform(-3, 0.8), 10 ** rng.uniform(0, 3.3), 10 ** rng.uniform(-0.5, 1.7)
        dt = 10 ** rng.uniform(-4, -2)
        h = dt * float(rng.choice([1.0, 2.0, 10.0]))
        lower = rng.uniform(-3.0, 3.0)
        max_acceleration = d * float(rng.choice([1.0, 3.0]))
        block = np.array([h, 0.1, 1.0, lower, lower + width, max_velocity, max_acceleration, d])
        braking = min(d, width / h**2, max_velocity / h)
        q = lower + width * rng.uniform()
        min_v = -min(max_velocity, np.sqrt(2.0 * braking * (q - lower)))
        max_v = min(max_velocity, np.sqrt(2.0 * braking * (lower + width - q)))
        v = float(rng.choice([min_v, max_v, rng.uniform(min_v, max_v)]))
        kind = rng.integers(4)
        choices = rng.uniform(-1.0, 1.0, STEPS)
        if kind == 0:
            choices = np.sign(choices)
        elif kind == 1:  # maximum acceleration to one side, then to the other
            choices = np.repeat(np.sign(rng.uniform(-1.0, 1.0, STEPS)), rng.integers(1, 300, STEPS))[:STEPS]
        elif kind == 2:
            choices = np.full(STEPS, float(rng.choice([-1.0, 1.0])))
        out.append((Joint(block, dt), q, v, choices))
    return out


def compare_formulations(ticks: int, seed: int) -> bool:
    """Tests all formulations in the same trials; returns whether the requirement is met."""
    met, cases = True, draw_trials(max(1, ticks // STEPS), seed)
    print(f"{len(cases) * STEPS} adversarial ticks of each formulation from viable states")
    for formulation, name in NAMES.items():
        results, n_violations, n_failed, start = np.zeros(3), 0, 0, time.process_time()
        for joint, q, v, choices in cases:
            if formulation == NOT_VIABLE:
                joint = joint._replace(block=np.where(np.arange(8) == 2, 0.0, joint.block))
            count = simulate_joint(formulation, joint, q, v, choices, results)
            n_violations, n_failed = n_violations + count, n_failed + (count > 0)
        seconds = time.process_time() - start
        print(
            f"  {name:32} {n_violations:>9} violations in {n_failed} of {len(cases)} trials; excess of position "
            f"{results[0]:.1e} of the range, of velocity {results[1]:.1e} of the maximum; {results[2]:.0f} ticks "
            f"require more than the deceleration ({1e9 * seconds / (len(cases) * STEPS):.0f} ns per tick)"
        )
        met = met and (
            (n_violations == 0 and results[2] == 0) if formulation == QUADDYN else n_violations + results[2] > 0
        )
    return met


def simulate_whole_body(name: str, ticks: int, seed: int) -> bool:
    """Simulates a robot with a fixed root under whole-body control; returns whether no joint leaves its limits."""
    robot, dt = qd.load(name, root="fixed"), 1e-3
    rng, dyn = np.random.default_rng(seed), qd.Dynamics(robot)
    bounds = JointBounds(robot, dt, acceleration=400.0, deceleration=available_deceleration(robot, rng), horizon=dt)
    posture = PostureTask(robot)
    wbc = qd.WholeBodyController(robot, constraints=[TorqueLimits(robot), bounds], tasks=[[posture]], dt=dt)
    middle, width = 0.5 * (bounds.lower + bounds.upper), bounds.upper - bounds.lower
    entries = [robot.configuration_index(joint) for joint in robot.actuated]
    q, v = np.array(robot.q_home), np.zeros(robot.nv)
    position_excess, velocity_excess, outcomes, outside = -np.inf, -np.inf, dict[str, int](), 0
    for tick in range(ticks):
        if tick % 50 == 0:
            target = q.copy()
            target[entries] = middle + width * rng.choice([-1.0, 1.0, 0.0], robot.nu) * rng.uniform(0.4, 2.0)
            posture.reference(target)
        command = wbc.compute(dyn.update(q, v))
        outside += bool(command.nonviable)
        outcomes[command.status.outcome] = outcomes.get(command.status.outcome, 0) + 1
        q, v = q + dt * v + 0.5 * dt * dt * command.acceleration, v + dt * command.acceleration
        positions = q[entries]
        position_excess = max(
            position_excess, float((np.maximum(positions - bounds.upper, bounds.lower - positions) / width).max())
        )
        velocity_excess = max(velocity_excess, float((np.abs(v) / bounds.velocity).max()) - 1.0)
    print(
        f"  {name}: {ticks} ticks {outcomes}, {outside} outside of the viable set; excess of position at "
        f"most {position_excess:.1e} of the range, of velocity {velocity_excess:.1e} of the maximum"
    )
    return (
        position_excess <= LIMIT_TOLERANCE
        and velocity_excess <= LIMIT_TOLERANCE
        and set(outcomes) == {"solved"}
        and outside == 0
    )


def available_deceleration(robot: qd.Robot, rng: np.random.Generator) -> float:
    """Returns a deceleration that all joints can have at once within torque limits [rad/s^2].

    It is half the minimum over random states, and at least 1.
    """
    dyn, min_deceleration = qd.Dynamics(robot), np.inf
    limits = robot.effort_limits
    for _ in range(300):
        s = dyn.update(robot.random_configuration(rng), rng.uniform(-1.0, 1.0, robot.nv) * 0.5 * robot.velocity_limits)
        torque_margin = limits - np.abs(s.h)
        min_deceleration = min(min_deceleration, float((torque_margin / np.abs(s.M).sum(axis=1)).min()))
    return max(0.5 * min_deceleration, 1.0)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ticks", type=int, default=1_000_000, help="number of ticks of each formulation")
    parser.add_argument(
        "--whole-body", type=int, default=2000, help="number of ticks of each robot under whole-body control"
    )
    parser.add_argument("--seed", type=int, default=0, help="seed of the trials")
    parser.add_argument("--check", action="store_true", help="exit code 1 if a requirement is not met")
    options = parser.parse_args()
    met = compare_formulations(options.ticks, options.seed)
    print("whole-body control with targets beyond the limits")
    for name in ("three_link_leg", "go2"):
        met = simulate_whole_body(name, options.whole_body, options.seed) and met
    print("all requirements met" if met else "a requirement is not met")
    return 1 if options.check and not met else 0


if __name__ == "__main__":
    sys.exit(main())
