"""Tests slip detection of trotting quadrupeds on ground whose friction drops suddenly: falls, detected slips, delays.

Robots trot in a random direction.  At a random phase of the gait the friction of the plant drops from that of the dry
ground (``--dry``) to 0.2, to 0.1 for one second, or to that of ice, 0.03.  In the case "thaw" it drops to 0.03 for half
a second, in the case "dry" not at all.  Sensors are noisy and delayed by 2 ms (``--noise 0``: the true state).

A stance foot slips if its normal force is above a twentieth of the weight, its force is on the friction cone of the
plant, and its contact point moves faster than 0.1 sqrt(g l) for at least 0.05 sqrt(l/g).  On slippery ground every foot
slides after a touchdown until its tangential velocity is braked; the first 0.15 sqrt(l/g) after a touchdown therefore
do not count.  A slip is detected if it is reported at most 0.3 sqrt(l/g) after its beginning.  A report is a false
alarm if the foot did not move faster than 0.04 sqrt(g l) with its force on the cone shortly before.  With soft contacts
(``--plants mujoco:soft``) a foot moves without slipping.  "assumed" is the friction
coefficient that the controller assumes at the end of each report, divided by the true one: 10, 50 and 90 % quantiles.
"return" is the longest time after the end of the slippery ground until 0.4 is assumed again.  "power" is the largest
power of any motor after the drop, in m g sqrt(g l).

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
from quaddyn.campaigns.trial import Trial
from quaddyn.campaigns.trial_runner import make_trial_setup
from quaddyn.campaigns.walking_campaigns import friction as slippery_ground
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
#: A force is on the friction cone from this fraction of the plant's friction coefficient on.  MuJoCo's pyramids allow
#: only sqrt(1/2) of it along a diagonal, and their soft contacts slide from a little less on.
CONE_FRACTIONS = {"mujoco:mujoco": 0.6, "mujoco:soft": 0.6}
DEFAULT_CONE_FRACTION = 0.93
#: Longest time until the assumed friction is at least `RETURN_FRICTION` again [s], and false alarms per minute.
MAX_RETURN_TIME, RETURN_FRICTION, MAX_FALSE_ALARMS = 3.0, 0.4, 0.5
#: Period [s], friction of the dry ground, earliest drop and time after it [sqrt(l/g)], time simulated after a fall [s].
DT, DRY_FRICTION, DROP_TIME, TIME_AFTER_DROP, TIME_AFTER_FALL = 2e-3, 0.6, 6.0, 24.0, 1.0
#: Smallest normal force of a slip [m g], speed of a slip, and smallest speed at which a report is not a false alarm
#: [sqrt(g l)]; shortest slip and longest delay of its detection [sqrt(l/g)].
MIN_FORCE, SLIP_SPEED, MIN_SLIDING_SPEED, MIN_SLIP_TIME, MAX_DELAY = 0.05, 0.1, 0.04, 0.05, 0.3
#: Time after a touchdown in which a foot is braked [sqrt(l/g)].
BRAKING_TIME = 0.15
#: Required fraction of detected slips, and largest motor power [m g sqrt(g l)].
MIN_DETECTED, MAX_MOTOR_POWER = 0.9, 4.0


@dataclass
class SlipStatistics:
    """Sums and samples of some runs."""

    runs: int = 0
    upright: int = 0
    slips: int = 0
    detected: int = 0
    false_alarms: int = 0
    upright_time: float = 0.0
    power: float = 0.0
    delays: list[float] = field(default_factory=list)
    friction_ratios: list[float] = field(default_factory=list)
    return_times: list[float] = field(default_factory=list)

    def add(self, other: SlipStatistics) -> None:
        """Adds the statistics of other runs."""
        for name, value in vars(other).items():
            own_value = getattr(self, name)
            setattr(self, name, max(own_value, value) if name == "power" else own_value + value)

    def __str__(self) -> str:
        delay = f"{np.median(self.delays):3.0f} ms, at most {max(self.delays):3.0f}" if self.delays else "-"
        optional_text = ""
        if self.friction_ratios:
            optional_text += "  assumed " + "/".join(
                f"{x:.2f}" for x in np.quantile(self.friction_ratios, [0.1, 0.5, 0.9])
            )
        if self.return_times:
            optional_text += f"  return {max(self.return_times):.1f} s"
        return (
            f"upright {self.upright:2d}/{self.runs:<2d}  slips detected {self.detected:3d}/{self.slips:<3d}  "
            f"false alarms {self.false_alarms / max(self.upright_time, 1e-9):4.2f}/s  delay {delay}  "
            f"power {self.power:4.2f}{optional_text}"
        )


def slip_speeds(
    plant: Plant, dynamics: qd.Dynamics, p: Morphology, contacts: tuple[str, ...], cone_fraction: float
) -> list[float]:
    """Returns the slip speed of each foot in the plant [sqrt(g l)]; 0 without load or with a force inside the cone."""
    robot, forces, speeds = plant.robot, plant.contact_forces, []
    s = dynamics.update(np.array(plant.q), np.array(plant.v))
    for foot in robot.feet:
        v, f = s.velocity(foot), forces[foot]
        tangential_velocity = v[:2] - robot.legs[foot].foot.radius * np.array([v[4], -v[3]])
        is_loaded = foot in contacts and f[2] > MIN_FORCE * p.mass * p.gravity
        is_at_cone = float(np.hypot(*f[:2])) > cone_fraction * plant.friction * float(f[2])
        speeds.append(float(np.hypot(*tangential_velocity)) / p.speed_scale if is_loaded and is_at_cone else 0.0)
    return speeds


def true_intervals(signal: Array) -> list[tuple[int, int]]:
    """Returns first and past-the-end indices of the intervals in which a signal is True."""
    edges = np.flatnonzero(np.diff(np.concatenate(([False], signal, [False])).astype(int))).tolist()
    return list(zip(edges[::2], edges[1::2], strict=True))


def find_braked(in_contact: Array, n_ticks: int) -> Array:
    """Returns at which ticks a foot has been in contact for more than `n_ticks` ticks; gaps of one tick are ignored."""
    is_braked = in_contact.copy()
    is_braked[1:-1] |= in_contact[:-2] & in_contact[2:]
    for begin, end in true_intervals(is_braked.copy()):
        is_braked[begin : min(begin + n_ticks, end)] = False
    return is_braked


def count_detections(
    speed: Array, in_contact: Array, reported_slips: Array, p: Morphology, statistics: SlipStatistics
) -> None:
    """Compares the slips of one foot with the reports and adds the counts to the statistics."""
    max_delay_ticks, min_slip_ticks = (
        round(MAX_DELAY * p.time_scale / DT),
        max(2, round(MIN_SLIP_TIME * p.time_scale / DT)),
    )
    is_braked = find_braked(in_contact, round(BRAKING_TIME * p.time_scale / DT))
    for begin, end in true_intervals((speed > SLIP_SPEED) & is_braked):
        if end - begin < min_slip_ticks:
            continue
        statistics.slips += 1
        reports = np.flatnonzero(reported_slips[begin : min(begin + max_delay_ticks, len(reported_slips))])
        if len(reports):
            statistics.detected += 1
            statistics.delays.append(1e3 * DT * int(reports[0]))
    for begin, _ in true_intervals(reported_slips):
        statistics.false_alarms += not (speed[max(0, begin - max_delay_ticks) : begin + 2] > MIN_SLIDING_SPEED).any()


def run(
    name: str, kind: str, case: str, number: int, noise: float, estimate: bool, dry: float = DRY_FRICTION
) -> SlipStatistics:
    """Simulates one run and returns its statistics."""
    robot = qd.load(name)
    p, rng = Morphology.from_robot(robot), np.random.default_rng((number, 17))
    mu, drop_duration, _ = CASES[case]
    mu = dry if mu is None else mu
    cone_fraction = CONE_FRACTIONS.get(kind, DEFAULT_CONE_FRACTION)
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
    setup = make_trial_setup(trial, robot, rng)
    plant, controller, dynamics, plant_dynamics = setup.plant, setup.controller, qd.Dynamics(robot), qd.Dynamics(robot)
    drop_tick = round((DROP_TIME + rng.uniform(0.0, 2.2)) * p.time_scale / DT)
    return_tick, last_tick = drop_tick + drop_duration / DT, drop_tick + round(TIME_AFTER_DROP * p.time_scale / DT)
    statistics, fall_tick, return_time = SlipStatistics(runs=1), None, None
    speeds, contacts, reported_slips = [], [], []
    previous_slipping_feet: tuple[str, ...] = ()
    stance_feet: tuple[str, ...] = robot.feet
    for k in range(last_tick):
        if k == drop_tick:
            plant.friction = mu
        if drop_tick < return_tick <= k < return_tick + 1:
            plant.friction = dry
        q, v = np.array(plant.q), np.array(plant.v)
        if setup.sensors is not None and setup.estimator is not None:
            m = setup.sensors.read(plant)
            setup.estimator.update(m.position, m.velocity, m.gyro, m.accelerometer, stance_feet)
            q, v = setup.estimator.odometry()
        command = controller.compute(dynamics.update(q, v), velocity if k * DT > 0.3 else (0.0, 0.0, 0.0))
        stance_feet = tuple(foot for foot in command.contacts if foot not in command.slipping_feet)
        if command.mode is LocomotionMode.FALLEN:
            fall_tick = k if fall_tick is None else fall_tick
            if k > fall_tick + TIME_AFTER_FALL / DT:
                break
        elif k * DT > 0.3:
            speeds.append(slip_speeds(plant, plant_dynamics, p, command.contacts, cone_fraction))
            contacts.append([plant.contact_forces[foot][2] > 0.0 for foot in robot.feet])
            if k > drop_tick and set(previous_slipping_feet) - set(command.slipping_feet):
                statistics.friction_ratios.append(command.friction / plant.friction)
            previous_slipping_feet = command.slipping_feet
            if return_time is None and k > return_tick and command.friction >= RETURN_FRICTION:
                return_time = DT * (k - return_tick)
            reported_slips.append([foot in command.slipping_feet for foot in robot.feet])
        joint_velocity = np.array(plant.v)[robot.actuated_index]
        plant.step(command.tau)
        if k >= drop_tick:
            statistics.power = max(
                statistics.power, float((plant.tau * joint_velocity).max()) / (p.mass * p.gravity * p.speed_scale)
            )
    if fall_tick is None and return_tick < last_tick:
        statistics.return_times.append(DT * (last_tick - return_tick) if return_time is None else return_time)
    statistics.upright, statistics.upright_time = int(fall_tick is None), DT * len(speeds)
    if estimate:
        for foot in range(4):
            columns = (np.array(rows)[:, foot] for rows in (speeds, contacts, reported_slips))
            count_detections(*columns, p, statistics)
    return statistics


def main() -> int:
    """Prints the table; returns 1 if `--check` finds a requirement that is not met."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--robots", default=",".join(ROBOTS))
    parser.add_argument("--plants", default="embedded,mujoco")
    parser.add_argument("--cases", default=DEFAULT_CASES, help="cases, separated by commas (default: %(default)s)")
    parser.add_argument("--trials", type=int, default=5)
    parser.add_argument("--first", type=int, default=0, help="number of the first trial")
    parser.add_argument("--noise", type=float, default=1.0, help="sensor noise in multiples of consumer sensors")
    parser.add_argument("--dry", type=float, default=DRY_FRICTION, help="friction coefficient before the drop")
    parser.add_argument("--told", action="store_true", help="without friction estimation: the controller assumes 0.4")
    parser.add_argument("--check", action="store_true", help="exit code 1 if a requirement is not met")
    options = parser.parse_args()
    not_met, numbers = [], range(options.first, options.first + options.trials)
    for case in options.cases.split(","):
        all_statistics = SlipStatistics()
        for name, plant_type in itertools.product(options.robots.split(","), options.plants.split(",")):
            cell_statistics = SlipStatistics()
            for number in numbers:
                cell_statistics.add(run(name, plant_type, case, number, options.noise, not options.told, options.dry))
            print(f"{case:4s} {name:9s} {plant_type:16s} {cell_statistics}", flush=True)
            all_statistics.add(cell_statistics)
        print(f"{case:4s} all                {all_statistics}", flush=True)
        not_met += [f"{case} upright"] if all_statistics.upright < CASES[case][2] * all_statistics.runs else []
        not_met += [f"{case} power"] if all_statistics.power > MAX_MOTOR_POWER else []
        not_met += [f"{case} detection"] if all_statistics.detected < MIN_DETECTED * all_statistics.slips else []
        not_met += (
            [f"{case} return"]
            if all_statistics.return_times and max(all_statistics.return_times) > MAX_RETURN_TIME
            else []
        )
        if case == "dry" and all_statistics.false_alarms > MAX_FALSE_ALARMS * all_statistics.upright_time / 60.0:
            not_met.append("dry false alarms")
    if not_met:
        print("not met:", ", ".join(not_met))
    return 1 if not_met and options.check else 0


if __name__ == "__main__":
    sys.exit(main())
