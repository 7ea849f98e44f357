"""One tick of the safety layer, in restricted Python: runs as machine code here and as C99 beside a controller."""

import math
from typing import NamedTuple

from ..compiler import Vector, compiled, entry
from .safety_checks import (
    CLOCK,
    COMMAND,
    CUT_GAIN,
    CUT_POSITION,
    CUT_RATE,
    CUT_SPEED,
    CUT_TORQUE,
    NOTHING,
    SEEN,
    STALE,
    STAMP,
    UNCOMMANDED,
    WAITED,
    Allowed,
    Reading,
    SafetyMemory,
    check_reading,
    found,
    is_later,
    is_stamp,
    wrapped,
)

# Share of the speed limit beyond which torques no longer drive, and the way before a stop on which they fall [rad].
EASING, NEAR = 0.9, 0.05


class Asked(NamedTuple):
    """A command, which is changed in place; see `quaddyn.runtime.MotorCommand`."""

    tau: Vector
    position: Vector
    velocity: Vector
    stiffness: Vector
    damping: Vector


@compiled(inline=False)
def check_command(asked: Asked, m: SafetyMemory) -> tuple[int, int]:
    """Commands that are not finite, or with a negative gain."""
    for i in range(len(asked.tau)):
        total = asked.tau[i] + asked.position[i] + asked.velocity[i] + asked.stiffness[i] + asked.damping[i]
        if not (math.isfinite(total) and asked.stiffness[i] >= 0.0 and asked.damping[i] >= 0.0):
            return found(m, COMMAND, 0.0, 0.0), i
    return NOTHING, 0


@compiled(inline=False)
def limit(lim: Allowed, r: Reading, asked: Asked, m: SafetyMemory) -> None:
    """Cut what is asked for: gains, then the torque that they make at the present reading, by each limit in turn."""
    for i in range(len(asked.tau)):
        q, v, most = r.position[i], r.velocity[i], lim.effort[i]
        kp, kd = min(asked.stiffness[i], lim.stiffness[i]), min(asked.damping[i], lim.damping[i])
        if kp < asked.stiffness[i] or kd < asked.damping[i]:
            m.notes[CUT_GAIN] += 1
        asked.stiffness[i] = kp
        asked.damping[i] = kd
        error = asked.position[i] - q
        if lim.turning[i] != 0:
            error = wrapped(error)
        spring = kp * error + kd * (asked.velocity[i] - v)
        wanted = asked.tau[i] + spring
        total = min(max(wanted, -most), most)
        if total != wanted:
            m.notes[CUT_TORQUE] += 1
        if abs(total - m.asked[i]) > lim.rate[i]:
            m.notes[CUT_RATE] += 1
            total = min(max(total, m.asked[i] - lim.rate[i]), m.asked[i] + lim.rate[i])
        if total * v > 0.0 and abs(v) > EASING * lim.speed[i]:
            m.notes[CUT_SPEED] += 1
            driving = most * max(lim.speed[i] - abs(v), 0.0) / ((1.0 - EASING) * lim.speed[i])
            total = min(max(total, -driving), driving)
        room = lim.upper[i] - q if total > 0.0 else q - lim.lower[i]
        if room < NEAR and total != 0.0:
            left = most * max(room, 0.0) / NEAR
            if abs(total) > left:
                m.notes[CUT_POSITION] += 1
            total = min(max(total, -left), left)
        # What cannot be computed is no torque.
        if not math.isfinite(total):
            total = 0.0
        # A spring that asks for more than the motor has would do so wherever the joint goes until the next tick, and
        # what is subtracted to make up for it would be lost in rounding: what it may give becomes a plain torque.
        if not abs(spring) <= most:
            spring = 0.0
            asked.position[i] = 0.0
            asked.velocity[i] = 0.0
            asked.stiffness[i] = 0.0
            asked.damping[i] = 0.0
        asked.tau[i] = total - spring
        m.asked[i] = total


@compiled(inline=False)
def brake(lim: Allowed, r: Reading, asked: Asked, m: SafetyMemory) -> None:
    """Nothing but damping, as far as the motors have the torque."""
    for i in range(len(asked.tau)):
        v = r.velocity[i]
        kd = lim.brake[i]
        if math.isfinite(v) and kd * abs(v) > lim.effort[i]:
            kd = lim.effort[i] / abs(v)
        asked.tau[i] = 0.0
        asked.position[i] = 0.0
        asked.velocity[i] = 0.0
        asked.stiffness[i] = 0.0
        asked.damping[i] = kd
        m.asked[i] = -kd * v if math.isfinite(v) else 0.0


@compiled(inline=False)
def arrive(lim: Allowed, m: SafetyMemory, time: float, now: float) -> float:
    """How long after the last reading that counted this one was taken [s]; 0 for one that does not count."""
    m.counts[WAITED] += 1
    passed = float(m.counts[WAITED]) * lim.period
    if now - m.stamps[CLOCK] > passed:  # a clock that stands still, goes back or is NaN says nothing
        passed = now - m.stamps[CLOCK]
    first = m.counts[SEEN] == 0
    if not (is_stamp(time) if first else is_later(time, m.stamps[STAMP], passed)):
        return 0.0
    elapsed = lim.period if first else time - m.stamps[STAMP]
    m.counts[WAITED] = 0
    m.stamps[STAMP] = time
    m.stamps[CLOCK] = now
    return elapsed


@entry("the safety layer")
def guard(lim: Allowed, r: Reading, asked: Asked, m: SafetyMemory, time: float, now: float, raised: int) -> int:
    """One tick: what is wrong is latched, and what the motors get is safe.

    Args:
        lim: what is allowed.
        r: the newest reading.
        asked: the controller's command; on return what the motors are to get.
        m: from tick to tick.
        time: stamp of the reading, by the robot's clock [s]; one that is not `is_later` is no new reading.
        now: the caller's clock [s]; where it stands still, periods are counted.
        raised: the code of what others have found, such as that the controller failed; 0 for nothing, `UNCOMMANDED`
            where no command has come: motors are damped at this tick, and nothing is latched.

    Returns:
        The code of the fault that is latched, 0 for none.
    """
    elapsed = arrive(lim, m, time, now)
    if m.latched[0] == NOTHING:
        code, index = NOTHING, 0
        m.details[0] = 0.0
        m.details[1] = 0.0
        if m.counts[WAITED] > lim.stale:
            code = found(m, STALE, float(m.counts[WAITED]) * lim.period, float(lim.stale) * lim.period)
        if code == NOTHING and elapsed > 0.0:
            code, index = check_reading(lim, r, m, elapsed)
        # Sensors first: a controller that fails on a bad reading is not what has to be looked for.
        if code == NOTHING and raised != UNCOMMANDED:
            code = raised
        if code == NOTHING:
            code, index = check_command(asked, m)
        m.latched[0] = code
        m.latched[1] = index
    if m.latched[0] == NOTHING and raised != UNCOMMANDED:
        limit(lim, r, asked, m)
    else:
        brake(lim, r, asked, m)
    fault: int = m.latched[0]
    return fault
