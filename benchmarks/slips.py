"""Quadrupeds on ground that turns slippery under them, told nothing: who stays up, and which slips are found.

Robots trot in a direction at random; at a random moment of a cycle the friction of the plant falls from that of the dry
ground (``--dry``): to 0.2, to 0.1 for one second, and to that of ice, 0.03.  In the case "thaw" it falls to 0.03 for
half a second.  In the case "dry" it stays.  Sensors are noisy and 2 ms late (``--noise 0``: the true state).

A slip is a foot that is to carry, presses with a twentieth of the weight, whose force is at the cone of the plant, and
whose point of contact moves faster than 0.1 sqrt(g l) for at least 0.05 sqrt(l/g).  It is found if it is reported at
most 0.3 sqrt(l/g) after it began.  A report is a false alarm if the foot neither moved faster than 0.04 sqrt(g l) with
its force at the cone shortly before.  With soft contacts (``--plants mujoco:soft``) a foot moves without slipping.
"believed" is the friction that the controller assumes at the end of each report, divided by the true one: quantiles
of 10, 50 and 90 %.  "return" is the longest time after the end of the slippery ground until 0.4 is assumed again.
Power is the maximum that any motor put in after the fall of friction, in m g sqrt(g l).

``--check`` exits with 1 where fewer than 90 % stay up at 0.2 or fewer than 70 % at 0.1, where a motor puts in more than
its share (`VIOLENT`), where less than 90 % of the slips are found, where a foot slips per minute of the case "dry", or
where the return takes longer than `RETURN`.  ``--robots``, ``--plants`` and ``--cases`` run it in parts.
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
#: Friction, for how long [s], and the share of runs that have to stay up.
CASES = {
    "0.2": (0.2, np.inf, 0.9),
    "0.1": (0.1, 1.0, 0.7),
    "ice": (0.03, np.inf, 0.0),
    "thaw": (0.03, 0.5, 0.0),
    "dry": (None, np.inf, 0.9),
}
USUAL = "0.2,0.1,ice"
#: Fraction of the plant's friction from which on the force of a foot is at the cone: along a diagonal, a pyramid of
#: MuJoCo allows sqrt(1/2) of it.
AT_CONE = {"mujoco:mujoco": 0.67, "mujoco:soft": 0.67}
ROUND_CONE = 0.93
#: Longest time until the friction counted on is back at `BACK` [s], and false alarms per minute of dry ground.
RETURN, BACK, MAX_FALSE = 3.0, 0.4, 0.5
DT, DRY, START, AFTER, FALLING = 2e-3, 0.6, 6.0, 24.0, 1.0
LOAD, SLIDING, SLOW, LONG, SOON = 0.05, 0.1, 0.04, 0.05, 0.3
FOUND, VIOLENT = 0.9, 4.0


@dataclass
class Figures:
    """Of some runs."""

    runs: int = 0
    upright: int = 0
    slips: int = 0
    found: int = 0
    false: int = 0
    stood: float = 0.0
    power: float = 0.0
    delays: list[float] = field(default_factory=list)
    believed: list[float] = field(default_factory=list)
    returns: list[float] = field(default_factory=list)

    def add(self, other: Figures) -> None:
        """Put further runs to these."""
        for name, value in vars(other).items():
            mine = getattr(self, name)
            setattr(self, name, max(mine, value) if name == "power" else mine + value)

    def __str__(self) -> str:
        delay = f"{np.median(self.delays):3.0f} ms, at most {max(self.delays):3.0f}" if self.delays else "-"
        more = ""
        if self.believed:
            more += "  believed " + "/".join(f"{x:.2f}" for x in np.quantile(self.believed, [0.1, 0.5, 0.9]))
        if self.returns:
            more += f"  return {max(self.returns):.1f} s"
        return (
            f"up {self.upright:2d}/{self.runs:<2d}  slips found {self.found:3d}/{self.slips:<3d}  false "
            f"{self.false / max(self.stood, 1e-9):4.2f}/s  delay {delay}  power {self.power:4.2f}{more}"
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
        pressed = foot in contacts and f[2] > LOAD * p.mass * p.gravity
        yields = float(np.hypot(*f[:2])) > at_cone * plant.friction * float(f[2])
        out.append(float(np.hypot(*along)) / p.speed_scale if pressed and yields else 0.0)
    return out


def spans(on: Array) -> list[tuple[int, int]]:
    """Where a signal is on: begins and ends."""
    edges = np.flatnonzero(np.diff(np.concatenate(([False], on, [False])).astype(int))).tolist()
    return list(zip(edges[::2], edges[1::2], strict=True))


def compared(speed: Array, said: Array, p: Morphology, figures: Figures) -> None:
    """Slips of one foot, and what was said of it."""
    soon, long = round(SOON * p.time_scale / DT), max(2, round(LONG * p.time_scale / DT))
    for begin, end in spans(speed > SLIDING):
        if end - begin < long:
            continue
        figures.slips += 1
        near = np.flatnonzero(said[begin : min(begin + soon, len(said))])
        if len(near):
            figures.found += 1
            figures.delays.append(1e3 * DT * int(near[0]))
    for begin, _ in spans(said):
        figures.false += not (speed[max(0, begin - soon) : begin + 2] > SLOW).any()


def run(name: str, kind: str, case: str, number: int, noise: float, estimate: bool, dry: float = DRY) -> Figures:
    """One run."""
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
    begins = round((START + rng.uniform(0.0, 2.2)) * p.time_scale / DT)
    ends, last = begins + lasting / DT, begins + round(AFTER * p.time_scale / DT)
    figures, true, said, fell, back = Figures(runs=1), [], [], None, None
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
            if k > fell + FALLING / DT:
                break
        elif k * DT > 0.3:
            true.append(sliding(plant, truth, p, command.contacts, at_cone))
            if k > begins and set(reported) - set(command.slipping_feet):
                figures.believed.append(command.friction / plant.friction)
            reported = command.slipping_feet
            if back is None and k > ends and command.friction >= BACK:
                back = DT * (k - ends)
            said.append([foot in command.slipping_feet for foot in robot.feet])
        before = np.array(plant.v)[robot.actuated_index]
        plant.step(command.tau)
        if k >= begins:
            figures.power = max(figures.power, float((plant.tau * before).max()) / (p.mass * p.gravity * p.speed_scale))
    if fell is None and ends < last:
        figures.returns.append(DT * (last - ends) if back is None else back)
    figures.upright, figures.stood = int(fell is None), DT * len(true)
    if estimate:
        for foot in range(4):
            compared(np.array(true)[:, foot], np.array(said)[:, foot], p, figures)
    return figures


def main() -> int:
    """Prints the table; returns 1 if `--check` fails."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--robots", default=",".join(ROBOTS))
    parser.add_argument("--plants", default="embedded,mujoco")
    parser.add_argument("--cases", default=USUAL)
    parser.add_argument("--trials", type=int, default=5)
    parser.add_argument("--first", type=int, default=0, help="number of the first trial")
    parser.add_argument("--noise", type=float, default=1.0, help="in multiples of what consumer sensors have")
    parser.add_argument("--dry", type=float, default=DRY, help="friction of the ground before")
    parser.add_argument("--told", action="store_true", help="without an estimate: what is told, 0.4, is believed")
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
        missed += [f"{case} power"] if every.power > VIOLENT else []
        missed += [f"{case} found"] if every.found < FOUND * every.slips else []
        missed += [f"{case} return"] if every.returns and max(every.returns) > RETURN else []
        if case == "dry" and every.false > MAX_FALSE * every.stood / 60.0:
            missed.append("dry false alarms")
    if missed:
        print("missed:", ", ".join(missed))
    return 1 if missed and options.check else 0


if __name__ == "__main__":
    sys.exit(main())
