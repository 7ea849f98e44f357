"""What is wrong with a reading: the checks of the safety layer, in restricted Python.

Every check compares what sensors say with limits, with what they said before, or with each other; none knows what the
controller is about.  The first that fails names a code and an index, and writes what was found and what was allowed.
"""

import math
from typing import NamedTuple

from ..compiler import IntMatrix, IntVector, Matrix, Vector, compiled, local

# Codes, in the order in which checks are made; 0 is "nothing". `faults.KINDS` has the words.
NOTHING = 0
CONTROLLER_FAILED, CONTROLLER_LATE, LINK_LOST, STOPPED = 1, 2, 3, 4
STALE, NOT_A_NUMBER, JUMP, FROZEN_JOINT, CONTRADICTION = 5, 6, 7, 8, 9
FROZEN_GYRO, FROZEN_ACCELEROMETER, IMU_CONTRADICTION, TILT = 10, 11, 12, 13
POSITION, SPEED, TORQUE, NOT_FOLLOWING, TEMPERATURE, POWER = 14, 15, 16, 17, 18, 19
COMMAND = 20
# Raised by others, after those above.
ROBOT_STOPPED, GAVE_UP = 21, 22
# A sensor that was there and is no more.
MISSING = 23
# What is said where no command has come; no fault.
UNCOMMANDED = -1

# Columns of `SafetyMemory.joints`: readings in a row.
FAST, STRONG, HOT, SAME = 0, 1, 2, 3
# Entries of `SafetyMemory.counts`.
WAITED, SEEN, SAME_GYRO, SAME_ACCELEROMETER, POWERFUL = 0, 1, 2, 3, 4
# Entries of `SafetyMemory.stamps`: of the last reading that counted [s].
STAMP, CLOCK = 0, 1
# Entries of `SafetyMemory.present`, and index of a fault of theirs.
TORQUES, FEET, TEMPERATURES = 0, 1, 2
# Entries of `SafetyMemory.notes`: how often what was asked for has been cut, and feet have been left out.
CUT_TORQUE, CUT_RATE, CUT_SPEED, CUT_POSITION, CUT_GAIN, LOST_FOOT = 0, 1, 2, 3, 4, 5

# Joints that move faster than this say that a robot is not at rest [rad/s or m/s].
MOVING = 0.2
# How fast what contradicts itself is forgotten [s], and what pulls the vertical to the accelerometer [1/s].
FORGETTING, LEANING = 0.25, 1.0
# Time constants of the low-passes on torques and on what corrects the vertical [s].
SETTLING, WEIGHING = 0.1, 0.5
# Weight of a reading that is trusted with the vertical at the beginning, within 10 % of 1 g, and how long one is
# waited for [s].
TRUSTED, FALLING = 0.8, 1.0
# Of the earth [m/s^2].
GRAVITY = 9.81
# Readings further apart than this tell nothing about each other [periods].
APART = 8.0
# By how much more than the caller's clock a robot's clock may go on from one reading to the next [s].
AHEAD = 0.05
# From rest to its speed limit no joint gets sooner [s]; with the speed limit it bounds accelerations.
REACHING = 0.01


class Allowed(NamedTuple):
    """What is allowed, by joint (nu,) where it is an array."""

    effort: Vector  # torque [N m]
    rate: Vector  # change of the torque from tick to tick [N m]
    speed: Vector  # [rad/s]
    lower: Vector  # [rad]
    upper: Vector  # [rad]
    temperature: Vector  # [degrees Celsius]
    stiffness: Vector  # largest gain [N m/rad]
    damping: Vector  # largest gain [N m s/rad]
    brake: Vector  # damping that a fault ends in [N m s/rad]
    jump: Vector  # difference between a position and the one that velocities lead to [rad]
    turning: IntVector  # whether a joint turns without end
    imu: Matrix  # (3, 3) from IMU axes to the base's
    power: float  # that the motors give in all [W]
    tilt: float  # least cosine between the base's vertical axis and the vertical
    overtravel: float  # beyond the position limits, before it is a fault [rad]
    drift: float  # rate at which gyroscope and accelerometer disagree about the vertical [rad/s]
    following: float  # difference between torques asked for and measured, as a share of the limit
    period: float  # of the loop [s]
    stale: int  # periods without a new reading
    patience: int  # readings in a row that are beyond a limit
    frozen: int  # readings in a row that are equal to the last bit


class Reading(NamedTuple):
    """Sensor readings; see `quaddyn.simulation.Measurement`.

    A sensor that the robot does not have is an array of length 0 or, as in packets, NaN alone.
    """

    position: Vector
    velocity: Vector
    gyro: Vector
    accelerometer: Vector
    torque: Vector
    feet: Vector
    temperature: Vector


class SafetyMemory(NamedTuple):
    """What the checks remember from tick to tick."""

    position: Vector  # (nu,) last reading
    velocity: Vector  # (nu,) last reading
    gyro: Vector  # (3,) last reading
    accelerometer: Vector  # (3,) last reading
    feet: Vector  # (feet,) last reading
    asked: Vector  # (nu,) torque of the last command [N m]
    drift: Vector  # (nu,) by how much positions have gone elsewhere than velocities lead to [rad]
    lag: Vector  # (nu,) torque measured less torque asked for, low-passed [N m]
    up: Vector  # (3,) the vertical in base axes; zero until it has been felt
    lean: Vector  # (3,) what corrects it, low-passed [rad/s]
    joints: IntMatrix  # (nu, 4) readings in a row
    counts: IntVector  # (5,)
    same_feet: IntVector  # (feet,) readings in a row
    present: IntVector  # (3,) whether a sensor has said anything
    notes: IntVector  # (6,) ticks
    latched: IntVector  # (2,) code of the fault, and its index
    details: Vector  # (2,) what was found, and what was allowed
    stamps: Vector  # (2,) of the last reading that counted, and the caller's clock then [s]


@compiled()
def found(m: SafetyMemory, code: int, value: float, allowed: float) -> int:
    """A code, with what belongs to it written down."""
    m.details[0] = value
    m.details[1] = allowed
    return code


@compiled()
def is_finite(x: Vector) -> bool:
    """Whether all entries are."""
    sound = True
    for i in range(len(x)):
        sound = sound and math.isfinite(x[i])
    return sound


@compiled()
def is_same(x: Vector, y: Vector) -> bool:
    """Whether all entries are equal."""
    same = True
    for i in range(len(x)):
        same = same and x[i] == y[i]
    return same


@compiled()
def is_there(x: Vector) -> bool:
    """Returns whether a sensor reports a value; see `Reading`."""
    there = False
    for i in range(len(x)):
        there = there or x[i] == x[i]
    return there


@compiled()
def is_stamp(time: float) -> bool:
    """Whether a number can be a time stamp: finite, and not negative."""
    return math.isfinite(time) and time >= 0.0


@compiled()
def is_later(time: float, last: float, passed: float) -> bool:
    """Whether a reading with this stamp is newer than the last one that counted, as far as clocks can tell.

    One that is not counts as none: a stamp that is NaN, infinite or negative, that repeats or goes back, or that is
    ahead of the caller's clock, by which `passed` [s] went by since.
    """
    return is_stamp(time) and time > last and time - last <= passed + AHEAD


@compiled()
def wrapped(angle: float) -> float:
    """An angle within half a turn."""
    return angle - 2.0 * math.pi * math.floor(angle / (2.0 * math.pi) + 0.5)


@compiled()
def missing(r: Reading, m: SafetyMemory) -> int:
    """Returns the index of a sensor that reported values before and does not now, or -1; updates which ones report."""
    gone = -1
    for k in range(3):
        sensor = r.torque if k == TORQUES else r.feet if k == FEET else r.temperature
        if is_there(sensor):
            m.present[k] = 1
        elif m.present[k] != 0:
            gone = k
    return gone


@compiled(inline=False)
def check_reading(lim: Allowed, r: Reading, m: SafetyMemory, elapsed: float) -> tuple[int, int]:
    """Code and index of what is wrong with a new reading, `elapsed` [s] after the last one; then it is the last one."""
    gone = missing(r, m)
    if gone >= 0:
        return found(m, MISSING, 0.0, 0.0), gone
    n = len(r.position)
    for i in range(n):
        if not (math.isfinite(r.position[i]) and math.isfinite(r.velocity[i])):
            return found(m, NOT_A_NUMBER, 0.0, 0.0), i
        if m.present[TORQUES] != 0 and not math.isfinite(r.torque[i]):
            return found(m, NOT_A_NUMBER, 0.0, 0.0), i
        if m.present[TEMPERATURES] != 0 and not math.isfinite(r.temperature[i]):
            return found(m, NOT_A_NUMBER, 0.0, 0.0), i
    if not (is_finite(r.gyro) and is_finite(r.accelerometer)):
        return found(m, NOT_A_NUMBER, 0.0, 0.0), -1
    first = m.counts[SEEN] == 0
    m.counts[SEEN] += 1
    code, index = NOTHING, 0
    if not first:
        code, index = check_joints_against_before(lim, r, m, elapsed)
    if code == NOTHING and len(r.gyro) > 0:
        code = check_imu(lim, r, m, elapsed, first)
    if code == NOTHING:
        code, index = check_joints(lim, r, m)
    if m.present[FEET] != 0:
        watch_feet(lim, r, m)
    for i in range(n):
        m.position[i] = r.position[i]
        m.velocity[i] = r.velocity[i]
    for i in range(len(r.gyro)):
        m.gyro[i] = r.gyro[i]
        m.accelerometer[i] = r.accelerometer[i]
    return code, index


@compiled()
def unexplained(apart: float, change: float, speed: float, elapsed: float, period: float) -> float:
    """What remains of a difference between a motion and its velocity's integral over the time h between two readings.

    The trapezoidal rule errs by at most ``|change| h / 2`` where the velocity goes from one reading to the other in one
    direction, however suddenly, as in a landing; and where readings were lost in between by ``a h^2 / 4`` more, as an
    acceleration of up to a may have taken it elsewhere and back.
    """
    lost = max(elapsed - period, 0.0)
    error = 0.5 * abs(change) * elapsed + speed * lost * min(0.25 * elapsed / REACHING, 1.0)
    return apart - min(max(apart, -error), error)


@compiled(inline=False)
def check_joints_against_before(lim: Allowed, r: Reading, m: SafetyMemory, elapsed: float) -> tuple[int, int]:
    """Encoders that jump, stick, or contradict their velocities."""
    n = len(r.position)
    near = elapsed < APART * lim.period
    total = 0.0
    for i in range(n):
        total += abs(r.velocity[i])
    code, index = NOTHING, 0
    for i in range(n):
        moved = r.position[i] - m.position[i]
        if lim.turning[i] != 0:
            moved = wrapped(moved)
        apart = moved - 0.5 * (r.velocity[i] + m.velocity[i]) * elapsed
        # What the rule may be wrong by counts for the joint: a sum of its errors would be a fault that is none.
        apart = unexplained(apart, r.velocity[i] - m.velocity[i], lim.speed[i], elapsed, lim.period) if near else 0.0
        if abs(apart) > lim.jump[i] and code == NOTHING:
            code, index = found(m, JUMP, apart, lim.jump[i]), i
        m.drift[i] = (m.drift[i] + apart) * math.exp(-elapsed / FORGETTING)
        if abs(m.drift[i]) > lim.jump[i] and code == NOTHING:
            code, index = found(m, CONTRADICTION, m.drift[i], lim.jump[i]), i
        same = r.position[i] == m.position[i] and r.velocity[i] == m.velocity[i]
        m.joints[i, SAME] = m.joints[i, SAME] + 1 if same else 0
        others = (total - abs(r.velocity[i])) / max(n - 1, 1)
        moving = others > MOVING or abs(r.velocity[i]) > MOVING
        if m.joints[i, SAME] >= lim.frozen and moving and code == NOTHING:
            code, index = found(m, FROZEN_JOINT, float(m.joints[i, SAME]), float(lim.frozen)), i
    return code, index


@compiled(inline=False)
def check_imu(lim: Allowed, r: Reading, m: SafetyMemory, elapsed: float, first: bool) -> int:
    """An IMU that sticks, gyroscope and accelerometer that disagree, a robot that leans too far."""
    omega, felt, turn = local(3), local(3), local(3)
    for i in range(3):
        omega[i] = lim.imu[i, 0] * r.gyro[0] + lim.imu[i, 1] * r.gyro[1] + lim.imu[i, 2] * r.gyro[2]
        felt[i] = (
            lim.imu[i, 0] * r.accelerometer[0] + lim.imu[i, 1] * r.accelerometer[1] + lim.imu[i, 2] * r.accelerometer[2]
        )
    size = math.sqrt(felt[0] * felt[0] + felt[1] * felt[1] + felt[2] * felt[2])
    # What falls or hits something feels no gravity: it counts the less, the further it is from 1 g.
    weight = max(0.0, 1.0 - abs(size / GRAVITY - 1.0) / 0.5)
    if not first:
        speed = 0.0
        for i in range(len(r.velocity)):
            speed = max(speed, abs(r.velocity[i]))
        m.counts[SAME_GYRO] = m.counts[SAME_GYRO] + 1 if is_same(r.gyro, m.gyro) else 0
        m.counts[SAME_ACCELEROMETER] = (
            m.counts[SAME_ACCELEROMETER] + 1 if is_same(r.accelerometer, m.accelerometer) else 0
        )
        if m.counts[SAME_GYRO] >= lim.frozen and speed > MOVING:
            return found(m, FROZEN_GYRO, float(m.counts[SAME_GYRO]), float(lim.frozen))
        if m.counts[SAME_ACCELEROMETER] >= lim.frozen and speed > MOVING:
            return found(m, FROZEN_ACCELEROMETER, float(m.counts[SAME_ACCELEROMETER]), float(lim.frozen))
    up = m.up
    if up[0] == 0.0 and up[1] == 0.0 and up[2] == 0.0:  # not known yet: a robot may fall when it is first heard of
        if weight < TRUSTED and float(m.counts[SEEN]) * lim.period < FALLING:
            return NOTHING
        for i in range(3):
            up[i] = felt[i] / size if size > 0.0 else (1.0 if i == 2 else 0.0)
    # The vertical turns as the base does, and what is felt pulls it (Mahony, Hamel, Pflimlin 2008).
    for i in range(3):
        j, k = (i + 1) % 3, (i + 2) % 3
        turn[i] = up[j] * omega[k] - up[k] * omega[j]
    share = LEANING * elapsed
    settled = min(elapsed / WEIGHING, 1.0)
    norm = 0.0
    for i in range(3):
        away = weight * (felt[i] / size - up[i]) if size > 0.0 else 0.0
        m.lean[i] = m.lean[i] + settled * (LEANING * away - m.lean[i])
        turn[i] = up[i] + elapsed * turn[i] + share * away
        norm += turn[i] * turn[i]
    norm = math.sqrt(norm)
    for i in range(3):
        up[i] = turn[i] / norm if norm > 0.0 else up[i]
    wrong = math.sqrt(m.lean[0] * m.lean[0] + m.lean[1] * m.lean[1] + m.lean[2] * m.lean[2])
    if wrong > lim.drift:
        return found(m, IMU_CONTRADICTION, wrong, lim.drift)
    if up[2] < lim.tilt:
        return found(m, TILT, up[2], lim.tilt)
    return NOTHING


@compiled(inline=False)
def check_joints(lim: Allowed, r: Reading, m: SafetyMemory) -> tuple[int, int]:
    """Positions, velocities, torques, temperatures and power beyond their limits."""
    n, power = len(r.position), 0.0
    code, index = NOTHING, 0
    share = min(lim.period / SETTLING, 1.0)
    for i in range(n):
        beyond = max(r.position[i] - lim.upper[i], lim.lower[i] - r.position[i])
        if beyond > lim.overtravel and code == NOTHING:
            code, index = found(m, POSITION, beyond, lim.overtravel), i
        m.joints[i, FAST] = m.joints[i, FAST] + 1 if abs(r.velocity[i]) > lim.speed[i] else 0
        if m.joints[i, FAST] >= lim.patience and code == NOTHING:
            code, index = found(m, SPEED, r.velocity[i], lim.speed[i]), i
        tau = m.asked[i]
        if m.present[TORQUES] != 0:
            tau = r.torque[i]
            m.joints[i, STRONG] = m.joints[i, STRONG] + 1 if abs(tau) > 1.1 * lim.effort[i] else 0
            if m.joints[i, STRONG] >= lim.patience and code == NOTHING:
                code, index = found(m, TORQUE, tau, lim.effort[i]), i
            m.lag[i] = m.lag[i] + share * (tau - m.asked[i] - m.lag[i])
            if abs(m.lag[i]) > lim.following * lim.effort[i] and code == NOTHING:
                code, index = found(m, NOT_FOLLOWING, m.lag[i], lim.following * lim.effort[i]), i
        if m.present[TEMPERATURES] != 0:
            m.joints[i, HOT] = m.joints[i, HOT] + 1 if r.temperature[i] > lim.temperature[i] else 0
            if m.joints[i, HOT] >= lim.patience and code == NOTHING:
                code, index = found(m, TEMPERATURE, r.temperature[i], lim.temperature[i]), i
        power += max(tau * r.velocity[i], 0.0)
    m.counts[POWERFUL] = m.counts[POWERFUL] + 1 if power > lim.power else 0
    if m.counts[POWERFUL] >= lim.patience and code == NOTHING:
        code, index = found(m, POWER, power, lim.power), 0
    return code, index


@compiled(inline=False)
def watch_feet(lim: Allowed, r: Reading, m: SafetyMemory) -> None:
    """Feet that feel nothing new while others do: they are not to be believed, which is no reason to stop."""
    changed = False
    for i in range(len(r.feet)):
        changed = changed or r.feet[i] != m.feet[i]
    lost = False
    for i in range(len(r.feet)):
        # A foot in the air says 0 for long; one that says the same number while it carries is stuck.
        stuck = r.feet[i] == m.feet[i] and r.feet[i] != 0.0 and changed
        if not math.isfinite(r.feet[i]):
            m.same_feet[i] = lim.frozen
        elif stuck:
            m.same_feet[i] += 1
        elif r.feet[i] != m.feet[i]:
            m.same_feet[i] = 0
        lost = lost or m.same_feet[i] >= lim.frozen
        m.feet[i] = r.feet[i]
    if lost:
        m.notes[LOST_FOOT] += 1
