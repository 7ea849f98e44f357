"""Tests slip detection of trotting quadrupeds on ground whose friction drops suddenly: falls, detected slips, delays.

Robots trot in a random direction.  At a random phase of the gait the friction of the plant drops from that of the dry
ground (``--dry``) to 0.2, to 0.1 for one second, or to that of ice, 0.03.  In the case "thaw" it drops to 0.03 for half
a second, in the case "dry" not at all.  Sensors are noisy and delayed by 2 ms (``--noise 0``: the true state).

A stance foot slips if its normal force is above a twentieth of the weight, its force is on the friction cone of the
plant, and its contact point moves faster than 0.1 sqrt(g l) for at least 0.05 sqrt(l/g).  A slip is detected if it is
reported at most 0.3 sqrt(l/g) after its begin.  A report is a false alarm if the foot did not move faster than
0.04 sqrt(g l) with its force on the cone shortly before.  With soft contacts (``--plants mujoco:soft``) a foot moves
without slipping.  "assumed" is the friction coefficient that the controller assumes at the end of each report, divided
by the true one: 10, 50 and 90 % quantiles.  "return" is the longest time after the end of the slippery ground until 0.4
is assumed again.  "power" is the largest power of any motor after the drop, in m g sqrt(g l).

``--check`` exits with 1 if fewer than 90 % of the robots stay upright at 0.2 or fewer than 70 % at 0.1, if a motor
power exceeds `MAX_MOTOR_POWER`, if less than 90 % of the slips are detected, if there are more than `MAX_FALSE_ALARMS`
per minute in the case "dry", or if the return takes longer than `MAX_RETURN_TIME`.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from dataclasses import dataclass, field

import numpy as np

import quaddyn as qd
from quaddyn.campaigns.disturbances import friction as slippery_ground
from quaddyn.campaigns.trial import Trial
from quaddyn.campaigns.trial_setup import make_trial_setup
from quaddyn.locomotion import LocomotionMode, Morphology
from quaddyn.simulation import Plant
from quaddyn.urdf.tree import Array

ROBOTS = ("go2", "a1", "solo12", "anymal_b", "anymal_c", "hyq", "b1", "laikago")
#: Friction coefficient after the drop (None: no drop), duration [s], and required fraction of upright robots.
CASES = {
    "0.2": (0.2, np.inf, 0.9),
    "0.1": (0.1, 1.0, 0.7),
    "ice": (0.03, np.inf, 0.0),
    "thaw": (0.03, 0.5, 0.0),
    "dry": (None, np.inf, 0.9),
}
DEFAULT_CASES = "0.2,0.1,ice"
#: Fraction of the plant's friction from which on the force of a foot is at the cone: along a diagonal, a pyramid of
#: MuJoCo allows sqrt(1/2) of it.
AT_CONE = {"mujoco:mujoco": 0.67, "mujoco:soft": 0.67}
ROUND_CONE = 0.93
#: Longest time until the assumed friction is at least `RETURN_FRICTION` again [s], and false alarms per minute.
MAX_RETURN_TIME, RETURN_FRICTION, MAX_FALSE_ALARMS = 3.0, 0.4, 0.5
#: Period [s], friction of the dry ground, earliest drop and time after it [sqrt(l/g)], time simulated after a fall [s].
DT, DRY_FRICTION, DROP_TIME, TIME_AFTER_DROP, TIME_AFTER_FALL = 2e-3, 0.6, 6.0, 24.0, 1.0
#: Least normal force [m g], speed of a slip and of a motion that is no false alarm [sqrt(g l)], duration of a slip and
#: longest delay of its detection [sqrt(l/g)].
MIN_FORCE, SLIP_SPEED, MIN_SPEED, MIN_SLIP_TIME, MAX_DELAY = 0.05, 0.1, 0.04, 0.05, 0.3
#: Required fraction of detected slips, and largest motor power [m g sqrt(g l)].
MIN_DETECTED, MAX_MOTOR_POWER = 0.9, 4.0


@dataclass
class Figures:
    """Sums and samples over some runs."""

    runs: int = 0
    upright: int = 0
    slips: int = 0
    found: int = 0
    false: int = 0
    upright_time: float = 0.0
    power: float = 0.0
    delays: list[float] = field(default_factory=list)
    friction_ratios: list[float] = field(default_factory=list)
    returns: list[float] = field(default_factory=list)

    def add(self, other: Figures) -> None:
        """Adds the figures of other runs."""
        for name, value in vars(other).items():
            mine = getattr(self, name)
            setattr(self, name, max(mine, value) if name == "power" else mine + value)

    def __str__(self) -> str:
        delay = f"{np.median(self.delays):3.0f} ms, at most {max(self.delays):3.0f}" if self.delays else "-"
        more = ""
        if self.friction_ratios:
            more += "  assumed " + "/".join(f"{x:.2f}" for x in np.quantile(self.friction_ratios, [0.1, 0.5, 0.9]))
        if self.returns:
            more += f"  return {max(self.returns):.1f} s"
        return (
            f"up {self.upright:2d}/{self.runs:<2d}  slips found {self.found:3d}/{self.slips:<3d}  false "
            f"{self.false / max(self.upright_time, 1e-9):4.2f}/s  delay {delay}  power {self.power:4.2f}{more}"
        )


def sliding(
    plant: Plant, dynamics: qd.Dynamics, p: Morphology, contacts: tuple[str, ...], at_cone: float
) -> list[float]:
    """Returns the slip speed of each foot in the plant [sqrt(g l)]; 0 of feet that do not carry or hold."""
    robot, forces, out = plant.robot, plant.contact_forces, []
    s = dynamics.update(np.array(plant.q), np.array(plant.v))
    for foot in robot.feet:
        v, f = s.velocity(foot), forces[foot]
        along = v[:2] - robot.legs[foot].foot.radius * np.array([v[4], -v[3]])
        pressed = foot in contacts and f[2] > MIN_FORCE * p.mass * p.gravity
        yields = float(np.hypot(*f[:2])) > at_cone * plant.friction * float(f[2])
        out.append(float(np.hypot(*along)) / p.speed_scale if pressed and yields else 0.0)
    return out


def spans(on: Array) -> list[tuple[int, int]]:
    """Returns first and past-the-end indices of the intervals in which a signal is True."""
    edges = np.flatnonzero(np.diff(np.concatenate(([False], on, [False])).astype(int))).tolist()
    return list(zip(edges[::2], edges[1::2], strict=True))


def count_detections(speed: Array, reported_slips: Array, p: Morphology, figures: Figures) -> None:
    """Compares the slips of one foot with the reports and adds them to the figures."""
    soon, long = round(MAX_DELAY * p.time_scale / DT), max(2, round(MIN_SLIP_TIME * p.time_scale / DT))
    for begin, end in spans(speed > SLIP_SPEED):
        if end - begin < long:
            continue
        figures.slips += 1
        near = np.flatnonzero(reported_slips[begin : min(begin + soon, len(reported_slips))])
        if len(near):
            figures.found += 1
            figures.delays.append(1e3 * DT * int(near[0]))
    for begin, _ in spans(reported_slips):
        figures.false += not (speed[max(0, begin - soon) : begin + 2] > MIN_SPEED).any()


def run(
    name: str, kind: str, case: str, number: int, noise: float, estimate: bool, dry: float = DRY_FRICTION
) -> Figures:
    """Simulates one run and returns its figures."""
    robot = qd.load(name)
    p, rng = Morphology.from_robot(robot), np.random.default_rng((number, 17))
    mu, lasting, _ = CASES[case]
    mu = dry if mu is None else mu
    at_cone = AT_CONE.get(kind, ROUND_CONE)
    velocity = slippery_ground(p, mu, rng)["velocity"]
    options = (("controller.friction", "estimated" if estimate else "nominal"),)
    trial = Trial(
        robot=name,
        plant=kind,
        velocity=velocity,
        noise_scale=noise,
        delay=2e-3 * bool(noise),
        friction=dry,
        options=options,
    )
    made = make_trial_setup(trial, robot, rng)
    plant, controller, dynamics, truth = made.plant, made.controller, qd.Dynamics(robot), qd.Dynamics(robot)
    begins = round((DROP_TIME + rng.uniform(0.0, 2.2)) * p.time_scale / DT)
    ends, last = begins + lasting / DT, begins + round(TIME_AFTER_DROP * p.time_scale / DT)
    figures, true, reported_slips, fell, back = Figures(runs=1), [], [], None, None
    reported: tuple[str, ...] = ()
    standing: tuple[str, ...] = robot.feet
    for k in range(last):
        if k == begins:
            plant.friction = mu
        if begins < ends <= k < ends + 1:
            plant.friction = dry
        q, v = np.array(plant.q), np.array(plant.v)
        if made.sensors is not None and made.estimator is not None:
            m = made.sensors.read(plant)
            made.estimator.update(m.position, m.velocity, m.gyro, m.accelerometer, standing)
            q, v = made.estimator.odometry()
        command = controller.compute(dynamics.update(q, v), velocity if k * DT > 0.3 else (0.0, 0.0, 0.0))
        standing = tuple(foot for foot in command.contacts if foot not in command.slipping_feet)
        if command.mode is LocomotionMode.FALLEN:
            fell = k if fell is None else fell
            if k > fell + TIME_AFTER_FALL / DT:
                break
        elif k * DT > 0.3:
            true.append(sliding(plant, truth, p, command.contacts, at_cone))
            if k > begins and set(reported) - set(command.slipping_feet):
                figures.friction_ratios.append(command.friction / plant.friction)
            reported = command.slipping_feet
            if back is None and k > ends and command.friction >= RETURN_FRICTION:
                back = DT * (k - ends)
            reported_slips.append([foot in command.slipping_feet for foot in robot.feet])
        before = np.array(plant.v)[robot.actuated_index]
        plant.step(command.tau)
        if k >= begins:
            figures.power = max(figures.power, float((plant.tau * before).max()) / (p.mass * p.gravity * p.speed_scale))
    if fell is None and ends < last:
        figures.returns.append(DT * (last - ends) if back is None else back)
    figures.upright, figures.upright_time = int(fell is None), DT * len(true)
    if estimate:
        for foot in range(4):
            count_detections(np.array(true)[:, foot], np.array(reported_slips)[:, foot], p, figures)
    return figures


def main() -> int:
    """Prints the table; returns 1 if `--check` fails."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--robots", default=",".join(ROBOTS))
    parser.add_argument("--plants", default="embedded,mujoco")
    parser.add_argument("--cases", default=DEFAULT_CASES)
    parser.add_argument("--trials", type=int, default=5)
    parser.add_argument("--first", type=int, default=0, help="number of the first trial")
    parser.add_argument("--noise", type=float, default=1.0, help="sensor noise in multiples of consumer sensors")
    parser.add_argument("--dry", type=float, default=DRY_FRICTION, help="friction coefficient before the drop")
    parser.add_argument("--told", action="store_true", help="without friction estimation: the controller assumes 0.4")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    missed, numbers = [], range(options.first, options.first + options.trials)
    for case in options.cases.split(","):
        every = Figures()
        for name, kind in itertools.product(options.robots.split(","), options.plants.split(",")):
            cell = Figures()
            for number in numbers:
                cell.add(run(name, kind, case, number, options.noise, not options.told, options.dry))
            print(f"{case:4s} {name:9s} {kind:16s} {cell}", flush=True)
            every.add(cell)
        print(f"{case:4s} all                {every}", flush=True)
        missed += [f"{case} up"] if every.upright < CASES[case][2] * every.runs else []
        missed += [f"{case} power"] if every.power > MAX_MOTOR_POWER else []
        missed += [f"{case} found"] if every.found < MIN_DETECTED * every.slips else []
        missed += [f"{case} return"] if every.returns and max(every.returns) > MAX_RETURN_TIME else []
        if case == "dry" and every.false > MAX_FALSE_ALARMS * every.upright_time / 60.0:
            missed.append("dry false alarms")
    if missed:
        print("missed:", ", ".join(missed))
    return 1 if missed and options.check else 0


if __name__ == "__main__":
    sys.exit(main())
