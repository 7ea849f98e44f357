"""`Rolling`: motions of the legs, tried in a plant by how far they right a robot; and the search among them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pinocchio as pin

from ..errors import ArgumentError, QuaddynError
from ..kinematics.collision_model import CollisionModel
from ..locomotion.motor_guard import MotorGuard
from ..locomotion.proportions import Proportions
from ..locomotion.righting import PERIOD, RESTING, UPRIGHT, JointServo, Roll, lies_on
from ..robot.joint_positions import JointPositions
from ..robot.robot import Robot
from ..simulation import Simulation
from ..urdf.tree import Array
from .leg_poses import LegPoses

#: Poses on the way, and how long each is held [sqrt(l/g)].
POSES, REST = 2, 0.8
#: Shortest, middle and longest time from pose to pose [sqrt(l/g)], and how the latter grows with a number.
SHORT, MIDDLE, LONG, GROWTH = 0.6, 1.75, 6.0, 0.7
#: How far the robot falls onto the ground [l], and how long it settles [sqrt(l/g)].
DROP, SETTLING = 0.1, 6.0
#: Friction and further roll [rad] under which a roll must succeed; the first is that of the search.
VARIATIONS = ((0.6, 0.0), (0.4, 0.0), (0.9, 0.0), (0.6, -0.15), (0.6, 0.15))
#: Of a search: first tries, those of a generation, the best of them that count, and the spread that is left.
FIRST, GENERATION, ELITE, LEAST = 48, 24, 6, 0.03
#: Weights: of the most upright attitude on the way, of the largest power of a joint in ``m g sqrt(g l)``.
BEST, POWER = 0.3, 0.02
#: What a path costs on which links meet, and how many configurations between two poses are looked at.
MEETING, BETWEEN = 2.0, 6
#: How much deeper than in the folded pose links may be in each other [m].
TOLERANCE = 1e-3

TURNED = {"back": math.pi - 0.05, "left": -0.5 * math.pi, "right": 0.5 * math.pi}


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """What a search came to.

    Attributes:
        roll: None where none succeeded.
        numbers: of the best one.
        reason: why there is none.
    """

    roll: Roll | None
    numbers: Array
    reason: str


class Rolling:
    """A plant in which a robot lies, and what sequences of poses do to it.

    Args:
        robot: a quadruped.
        proportions: of the robot.

    Attributes:
        size: how many numbers make a roll.
    """

    def __init__(self, robot: Robot, proportions: Proportions) -> None:
        self._robot, self._p = robot, proportions
        self._legs, self._joints = LegPoses(robot, proportions), JointPositions.actuated(robot)
        guard = MotorGuard(robot, proportions, PERIOD, None)
        self._servo = JointServo(robot, guard, PERIOD)
        self._plant = Simulation(robot, dt=PERIOD)
        self._starts: dict[tuple[str, float, float], object] = {}
        try:
            self._collisions: CollisionModel | None = CollisionModel(robot)
        except ArgumentError:  # nothing that could meet
            self._collisions = None
        self._allowed = self._depths(self._legs.fold)
        self.size = LegPoses.SIZE * POSES + POSES + 1

    def mirrored(self, numbers: Array) -> Array:
        """With left and right exchanged."""
        poses, times = numbers[: -POSES - 1].reshape(POSES, LegPoses.SIZE), numbers[-POSES - 1 :]
        return np.concatenate((self._legs.mirrored(poses).ravel(), times))

    def roll(self, numbers: Array) -> Roll:
        """The motion that numbers (size,) stand for."""
        poses = [self._legs.pose(each) for each in numbers[: -POSES - 1].reshape(POSES, LegPoses.SIZE)]
        times = np.clip(MIDDLE * np.exp(GROWTH * numbers[-POSES - 1 :]), SHORT, LONG) * self._p.time
        return Roll(np.array([*poses, self._legs.fold]), times, np.full(POSES + 1, REST * self._p.time))

    def overlap(self, roll: Roll) -> float:
        """How deep links are in each other on the way, at the worst [m]; 0 where they keep apart."""
        if self._collisions is None:
            return 0.0
        before, worst = roll.poses[-1], 0.0
        for pose in roll.poses:
            for share in np.arange(1, BETWEEN + 1) / BETWEEN:
                for links, depth in self._depths(before + share * (pose - before)).items():
                    worst = max(worst, depth - self._allowed.get(links, 0.0) - TOLERANCE)
            before = pose
        return worst

    def _depths(self, position: Array) -> dict[tuple[str, str], float]:
        """By pair of links, how deep they are in each other [m]."""
        if self._collisions is None:
            return {}
        q = np.array(self._robot.q_home)
        self._joints.put(q, position)
        return {s.links: -s.distance for s in self._collisions.separations(q) if s.distance < 0.0}

    def axes(self) -> Array:
        """(3, 3) heading axes of the trunk in the world, now."""
        R = pin.Quaternion(np.array(self._plant.q[3:7])).toRotationMatrix()
        return np.asarray(R @ self._p.heading)

    def rests_on(self, side: str, friction: float = VARIATIONS[0][0], further: float = 0.0) -> bool:
        """Whether the folded robot stays on its back or side when it is put there."""
        self.lie(side, friction, further)
        return lies_on(self.axes()) == side

    def _follow(self, wanted: Callable[[float], Array], duration: float) -> tuple[float, float]:
        """Largest height of the upward axis and largest power of a joint on the way [W]."""
        plant, best, power = self._plant, -1.0, 0.0
        index = self._robot.actuated_index
        for k in range(round(duration / PERIOD)):
            speed = plant.v[index]
            tau = self._servo.torques(wanted(k * PERIOD), self._joints.of(plant.q), speed)
            plant.step(tau)
            power = max(power, float(np.abs(tau * speed).max()))
            if k % 10 == 0:
                best = max(best, float(self.axes()[2, 2]))
        return best, power

    def lie(self, side: str, friction: float, further: float) -> None:
        """Put the folded robot on its back or side, where it settles."""
        key = side, friction, further
        self._plant.friction = friction
        if key in self._starts:
            self._plant.restore(self._starts[key])  # type: ignore[arg-type]
            return
        q = np.array(self._robot.q_home)
        self._joints.put(q, self._legs.fold)
        heading = self._p.heading
        turn = pin.exp3(np.array([TURNED[side] + further, 0.0, 0.0]))
        q[3:7] = pin.Quaternion(turn @ heading.T).coeffs()
        q[2] += DROP * self._p.length
        self._plant.reset(q)
        self._follow(lambda _: self._legs.fold, SETTLING * self._p.time)
        self._starts[key] = self._plant.checkpoint()

    def tried(self, roll: Roll, side: str, friction: float, further: float) -> tuple[float, float, float]:
        """Height of the upward axis after a roll, the largest on the way, and the largest power of a joint [W]."""
        try:
            self.lie(side, friction, further)
            best, power = self._follow(roll.at, roll.duration + RESTING * self._p.time)
        except QuaddynError:  # diverged
            return -1.0, -1.0, np.inf
        return float(self.axes()[2, 2]), best, power

    def cost(self, numbers: Array, side: str) -> float:
        """Of a motion; less is better."""
        roll = self.roll(numbers)
        depth = self.overlap(roll)
        if depth > 0.0:
            return MEETING + min(depth / self._p.length, 1.0)
        end, best, power = self.tried(roll, side, *VARIATIONS[0])
        scale = self._p.mass * self._p.gravity * self._p.speed
        return -(end + BEST * best) + min(POWER * power / scale, 1.0)

    def holds(self, numbers: Array, side: str) -> bool:
        """Whether a motion rights the robot under all `VARIATIONS` in which it rests on this side at all."""
        roll = self.roll(numbers)
        return all(not self.rests_on(side, *each) or self.tried(roll, side, *each)[0] > UPRIGHT for each in VARIATIONS)


def search(
    rolling: Rolling,
    side: str,
    rng: np.random.Generator,
    *,
    tries: int,
    first: Array | None,
    progress: Callable[[str], None],
) -> Found:
    """Find a motion that rights a robot.

    Args:
        rolling: tries them.
        side: what the robot lies on.
        rng: of the motions.
        tries: at most.
        first: a motion to begin with.
        progress: gets a line for every generation.
    """
    if first is not None and rolling.cost(first, side) < MEETING and rolling.holds(first, side):
        return Found(rolling.roll(first), first, "")
    mean, spread = np.zeros(rolling.size), np.full(rolling.size, 0.6)
    best, least, done = np.zeros(rolling.size), np.inf, 0
    rows = rng.uniform(-1.0, 1.0, (FIRST, rolling.size))
    while True:
        costs = np.array([rolling.cost(row, side) for row in rows])
        done += len(rows)
        order = np.argsort(costs, kind="stable")
        if costs[order[0]] < least:
            best, least = rows[order[0]].copy(), float(costs[order[0]])
        for i in order[:2]:  # the best, then the next
            if costs[i] < -UPRIGHT and rolling.holds(rows[i], side):
                return Found(rolling.roll(rows[i]), rows[i].copy(), "")
        end, most, _ = rolling.tried(rolling.roll(best), side, *VARIATIONS[0])
        tilt = math.degrees(math.acos(min(max(max(end, most) if least < MEETING else -1.0, -1.0), 1.0)))
        progress(f"{done} tries, at best {tilt:.0f} deg from upright")
        if done >= tries:
            if least >= MEETING:
                reason = f"links would meet on all paths of the legs that were tried, {done}"
            elif end > UPRIGHT:
                reason = f"no motion that also holds with other friction and attitude in {done} tries"
            else:
                reason = f"joints and torques bring it within {tilt:.0f} deg of upright at best, in {done} tries"
            return Found(None, best, reason)
        chosen = np.vstack((rows[order[:ELITE]], best))
        mean, spread = 0.3 * mean + 0.7 * chosen.mean(axis=0), 0.3 * spread + 0.7 * chosen.std(axis=0) + LEAST
        rows = np.clip(mean + spread * rng.standard_normal((min(GENERATION, tries - done), rolling.size)), -1.2, 1.2)
