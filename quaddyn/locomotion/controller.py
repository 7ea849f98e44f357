"""`LocomotionController`: where to go becomes joint torques; any quadruped, no number of its own."""

from __future__ import annotations

import enum
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..control import JointPD
from ..dynamics import State
from ..errors import ArgumentError, ArgumentTypeError
from ..robot.arguments import number
from ..robot.robot import Robot
from ..urdf.tree import Array
from ..wbc import Command, WholeBodyController
from .course import Aim, Course, Preview, footholds
from .gait import LOADING, Clock, Gait, gait_named
from .ground import GroundPlane
from .proportions import FEET, Proportions
from .swing import Swing, quintic

# Lengths in units of l, times in sqrt(l / g), speeds in sqrt(g l), accelerations in g.
#: How high a foot is lifted, how fast it sinks at touchdown, and how far below the ground it aims.
CLEARANCE, SINK, PRESS = 0.15, 0.15, 0.01
#: Longest wait for feet that miss the ground when it is due, as a share of the swing.
PATIENCE = 0.3
#: Natural frequencies: height of the centre of mass, feet in the air.
HEIGHT_RATE, FOOT_RATE = 2.5, 8.0
#: Weights of height and attitude (per l) against the horizontal motion of the centre of mass, 1.  The two cannot be had
#: together on two feet; the trunk gives way a little, for what the pendulum does decides about falling.
HEIGHT_WEIGHT, BASE_WEIGHT = 2.0, 1.25
#: Feedback of the divergent component, over omega.
DIVERGENT_GAIN = 0.5
#: Largest horizontal acceleration asked of the ground, as a share of what its friction pyramid allows in any direction.
PUSH = 0.9
#: Time constant of the filter on the velocity that places feet.
FILTER = 0.2
#: How far the robot may lag behind its course before the course waits, and how fast the course then gives way.
LEASH, LEASH_TIME = 0.08, 0.3
YAW_LEASH = 0.2
#: How fast the course changes its velocity and its yaw rate.
ACCELERATION, YAW_ACCELERATION = 0.12, 0.1
#: Way of a foot on the ground during one stance, at most.
STRIDE = 0.75
#: How far from its place under the body a foot may be put: along, outwards, and inwards as a share of half the width.
ALONG, OUTWARDS, INWARDS = 0.5, 0.45, 0.65
#: Largest multiple of the present error that a foothold is moved by, and how much more than what keeps the motion
#: bounded, so that it returns to the course.
LOOK_AHEAD, RETURN = 1.0, 0.25
#: Time to stand up or to lie down.
RISING_TIME = 6.0
#: Height of the centre of mass of who lies, and below which nobody can walk, as shares of the height at home.
LYING_HEIGHT, FALLEN_HEIGHT = 0.5, 0.45
#: Steepest tilt of the trunk against the ground before it counts as a fall (cosine).
FALLEN_TILT = 0.5
#: What slow integral action may add, and its time constant: to the height, to the tilt [rad].
HEIGHT_TRIM, TILT_TRIM, TRIM_TIME = 0.06, 0.15, 4.0
#: Time constant of the slope of the ground.
SLOPE_TIME = 2.0
#: A foot is out of place from here on, and the divergent component out of hand beyond this share of the way to the
#: edge of the feet.
MISPLACED, ESCAPING = 0.12, 0.5


class Mode(enum.Enum):
    """What the robot is doing."""

    LYING = "lying"
    RISING = "rising"
    STANDING = "standing"
    MOVING = "moving"
    RECOVERING = "recovering"
    LOWERING = "lowering"
    FALLEN = "fallen"


@dataclass(frozen=True, slots=True, eq=False)
class LocomotionCommand:
    """What is asked of the motors, and why.

    Attributes:
        tau: (nu,) torques of the actuated joints [N m].
        mode: what the robot is doing.
        contacts: the feet that are to carry.
        whole_body: the whole-body controller's command with its certificate; None when fallen.
        pressure: (2,) wanted centre of pressure, world [m].
        velocity: (3,) forward, leftward [m/s] and yaw rate [rad/s] that are steered for, heading frame.
        swings: by foot in the air, its `Swing`.
    """

    tau: Array
    mode: Mode
    contacts: tuple[str, ...]
    whole_body: Command | None
    pressure: Array
    velocity: Array
    swings: Mapping[str, Swing]

    @property
    def forces(self) -> Mapping[str, Array]:
        """Contact forces that are counted on, (3,) by foot, on the robot, world axes [N]."""
        return {} if self.whole_body is None else self.whole_body.forces

    @property
    def ok(self) -> bool:
        """Whether the whole-body controller got all it must have."""
        return self.whole_body is not None and self.whole_body.status.ok


class LocomotionController:
    """Stands, walks and trots a quadruped: state and commanded velocity in, torques out, once per period.

    The gait says who stands when (`Clock`), the footfalls to come say how the centre of mass must move (`Preview`),
    the whole-body controller finds forces and torques.  What the ground does not give at once is made up for by where
    the next foot is put: all footholds to come move by ``(xi - xi*) / open``, after which the present divergent
    component xi is the one that stays bounded (see `Preview`).

    Nothing is known of the ground but where feet stand; without `touching`, the gait's schedule is trusted.  Nothing is
    tuned to a robot: every number above is a multiple of l, ``sqrt(l / g)`` and ``m g``.

    Args:
        robot: a quadruped with a free root.
        dt: control period [s].
        gait: to move with; "stand" steps only to recover.
        friction: Coulomb's coefficient that is counted on; lower than what is expected, for nobody knows the ground.
        whole_body: instead of the default `WholeBodyController`; it must have the tasks "com", "base", and one for each
            foot by its name, and is given their references and gains.

    Attributes:
        robot: as given.
        dt: as given [s].
        proportions: of the robot.
        mode: what it is doing.
        course: the wanted motion of the middle of the feet.
        clock: of the gait.
        ground: as far as it is known; None before the first tick.

    Raises:
        ArgumentError: a robot that cannot walk, or an option out of range.
        UnknownNameError: no such gait.
    """

    def __init__(
        self,
        robot: Robot,
        *,
        dt: float = 1e-3,
        gait: str | Gait = "trot",
        friction: float = 0.4,
        whole_body: WholeBodyController | None = None,
    ) -> None:
        self.proportions = p = Proportions.of(robot)
        self.robot, self.dt = robot, number("dt", dt)
        if not 0.0 < self.dt <= 0.01:
            raise ArgumentError(f"dt: expected a period in (0, 0.01] s, got {dt}")
        self._gait = gait_named(gait)
        unit = p.time
        trot = self._gait if self._gait.moves else gait_named("trot")
        ramp = LOADING * trot.period * unit
        if whole_body is None:
            whole_body = WholeBodyController(robot, dt=self.dt, friction=friction, ramp=ramp)
        self.whole_body = whole_body
        tasks = whole_body.tasks
        rate = (HEIGHT_RATE / unit) ** 2
        tasks["com"].gains(np.array([0.0, 0.0, rate]), np.array([0.0, 0.0, 2.0 * math.sqrt(rate)]))
        tasks["com"].weight = np.array([1.0, 1.0, HEIGHT_WEIGHT])
        tasks["base"].weight = BASE_WEIGHT * p.length
        for foot in FEET:
            tasks[foot].gains((FOOT_RATE / unit) ** 2)
        self._tasks = tasks
        # The inner pyramid of mu bears mu / sqrt(2) along its faces' normals.
        self._push = PUSH * math.sqrt(0.5) * whole_body.friction * p.gravity
        self._damping = JointPD(robot, dt=self.dt).kd
        self._base = robot.bodies[0].name
        self._preview = Preview(p)
        self.reset()

    # -- commands ------------------------------------------------------------------------------------------------
    def reset(self) -> None:
        """Forget everything: the next tick is a first one."""
        self.whole_body.reset()
        self.mode = Mode.STANDING
        self.ground: GroundPlane | None = None
        self._swings: dict[int, Swing] = {}

    @property
    def gait(self) -> Gait:
        """To move with; may be set at any time, the change takes some cycles."""
        return self._gait

    @gait.setter
    def gait(self, gait: str | Gait) -> None:
        self._gait = gait_named(gait)
        if self.ground is not None and self._gait.moves:
            self.clock.change(self._gait)

    def stand_up(self) -> None:
        """Rise to the height at home; also out of a fall, which nothing else leaves."""
        if self.mode in (Mode.LYING, Mode.LOWERING, Mode.FALLEN):
            self.whole_body.reset()
            self.ground = None

    def lie_down(self) -> None:
        """Stop, and sink until the trunk is near the ground."""
        if self.ground is not None and self.mode not in (Mode.FALLEN, Mode.LYING):
            self.clock.stop()
            self._lie = True

    # -- one tick ------------------------------------------------------------------------------------------------
    def compute(
        self,
        state: State,
        velocity: Sequence[float] | Array = (0.0, 0.0, 0.0),
        *,
        touching: Collection[str] | None = None,
    ) -> LocomotionCommand:
        """One tick.

        Args:
            state: the robot's state now.
            velocity: wanted forward and leftward speed [m/s] and yaw rate [rad/s], in the heading frame: horizontal, x
                along the robot's forward direction.  What is beyond the gait's reach is cut.
            touching: the feet that feel the ground, where that is measured or estimated; None trusts the schedule.

        Raises:
            ArgumentError: `velocity` is not three finite numbers, or `state` is of another robot.
            StaleStateError: the Dynamics of `state` was updated again.
        """
        if not isinstance(state, State):
            raise ArgumentTypeError(f"state: expected the State of a Dynamics.update, got {type(state).__name__}")
        if state.robot is not self.robot:
            raise ArgumentError("state: of another robot than the controller's; load once and use that Robot for both")
        wanted = np.asarray(velocity, dtype=np.float64)
        if wanted.shape != (3,) or not np.isfinite(wanted.sum()):
            raise ArgumentError(
                f"velocity: expected three finite numbers (forward, leftward, yaw rate), got {velocity}"
            )
        dt, p = self.dt, self.proportions
        com, com_velocity = state.com, state.com_velocity
        R_base = state.placement(self._base).rotation
        R = R_base @ p.heading  # heading axes of the trunk in the world
        yaw = math.atan2(R[1, 0], R[0, 0])
        feet = np.array([state.placement(foot).translation for foot in FEET])
        if self.ground is None:
            self._begin(com, com_velocity, yaw, feet)
        assert self.ground is not None
        self._filtered += min(1.0, dt / (FILTER * p.time)) * (com_velocity[:2] - self._filtered)

        if self._fell(com, R):
            return self._fall(state)
        self._steer(wanted)
        clock, course = self.clock, self.course
        if not self._late or self._waited > PATIENCE * clock.swing_time:
            clock.advance(dt)
        course.advance(dt)
        stance = clock.stance
        loaded = self._feet_down(stance, feet, touching)
        self.ground.advance(dt)
        aim = self._preview.aim(clock, course, self.ground.points[:, :2])
        error = com[:2] + self._filtered / p.frequency - aim.divergent
        self._keep_leash(error, yaw)
        self._swing(state, aim, error, com, yaw, feet)
        self._decide(wanted, error, feet)
        self._guide(aim, com, com_velocity, R_base)
        contacts = tuple(foot for foot, on in zip(FEET, loaded, strict=True) if on)
        command = self.whole_body.compute(state, contacts)
        swings = {FEET[i]: swing for i, swing in self._swings.items()}
        return LocomotionCommand(
            command.tau, self.mode, contacts, command, aim.pressure, course.velocity.copy(), swings
        )

    # -- parts of a tick -----------------------------------------------------------------------------------------
    def _begin(self, com: Array, com_velocity: Array, yaw: float, feet: Array) -> None:
        p = self.proportions
        points = feet - np.array([0.0, 0.0, 1.0]) * p.radii[:, None]
        self.ground = GroundPlane(points, SLOPE_TIME * p.time)
        self.course = Course(points[:, :2].mean(axis=0), yaw)
        self.clock = Clock(self._gait if self._gait.moves else "trot", p.time)
        self._filtered = np.array(com_velocity[:2])
        self._swings = {}
        self._lie = self._late = False
        self._waited = 0.0
        self._trim_height, self._trim_tilt = 0.0, np.zeros(2)
        above = float(com[2]) - self.ground.height(com[0], com[1])
        self._height = (above, 0.0, 0.0)
        self._left = RISING_TIME * p.time if above < 0.95 * p.height else 0.0
        self.mode = Mode.RISING if self._left else Mode.STANDING
        if not self._left:
            self._height = (p.height, 0.0, 0.0)

    def _fell(self, com: Array, R: Array) -> bool:
        assert self.ground is not None
        if self.mode is Mode.FALLEN:
            return True
        low = float(com[2]) - self.ground.height(com[0], com[1]) < FALLEN_HEIGHT * self.proportions.height
        walking = self.mode in (Mode.STANDING, Mode.MOVING, Mode.RECOVERING)
        return bool(R[:, 2] @ self.ground.tilt[:, 2] < FALLEN_TILT or (low and walking))

    def _fall(self, state: State) -> LocomotionCommand:
        """Nothing but damping, which takes the violence out of a fall."""
        self.mode = Mode.FALLEN
        self._swings = {}
        limits = self.robot.effort_limits
        tau = np.minimum(np.maximum(-self._damping * state.v[self.robot.actuated_index], -limits), limits)
        return LocomotionCommand(tau, self.mode, (), None, self.course.position.copy(), np.zeros(3), {})

    def _steer(self, wanted: Array) -> None:
        """The course's velocity follows the command within what the gait can do and the robot can accelerate."""
        p, dt, course = self.proportions, self.dt, self.course
        if self.mode not in (Mode.MOVING, Mode.RECOVERING) or self.clock.phase < 0.0 or not self._gait.moves:
            wanted = np.zeros(3)
        fastest = STRIDE * p.length / self.clock.stance_time
        reach = float(np.hypot(*np.abs(p.stance).max(axis=0)))
        speed = math.hypot(wanted[0], wanted[1]) + abs(float(wanted[2])) * reach
        goal = wanted * min(1.0, fastest / max(speed, 1e-9))
        step = dt * np.array([ACCELERATION * p.gravity, ACCELERATION * p.gravity, YAW_ACCELERATION / p.time**2])
        course.velocity += np.minimum(np.maximum(goal - course.velocity, -step), step)

    def _feet_down(self, stance: NDArray[np.bool_], feet: Array, touching: Collection[str] | None) -> list[bool]:
        """Who carries: by schedule, unless the ground came early or has not come yet."""
        assert self.ground is not None
        loaded: list[bool] = self.clock.loaded.tolist()
        late = False
        for i, foot in enumerate(FEET):
            swing = self._swings.get(i)
            if swing is None:
                if not stance[i]:
                    p = self.proportions
                    self._swings[i] = Swing(
                        feet[i],
                        np.zeros(3),
                        duration=self.clock.swing_time,
                        clearance=CLEARANCE * p.length,
                        sink=SINK * p.speed,
                    )
                else:
                    self.ground.points[i] = feet[i]
                    self.ground.points[i, 2] -= self.proportions.radii[i]
                continue
            early = touching is not None and foot in touching and swing.progress > 0.6
            due = stance[i] and (touching is None or foot in touching)
            if due:
                del self._swings[i]
            loaded[i] = bool(due or early)
            late = late or bool(stance[i] and not due)
        self._late = late
        self._waited = self._waited + self.dt if late else 0.0
        return loaded

    def _keep_leash(self, error: Array, yaw: float) -> None:
        """The course waits for who cannot follow."""
        p, course = self.proportions, self.course
        away = float(np.hypot(error[0], error[1]))
        slack = LEASH * p.length
        if away > slack:
            share = min(1.0, self.dt / (LEASH_TIME * p.time))
            course.position += share * (1.0 - slack / away) * error
        turn = math.remainder(course.yaw - yaw, 2.0 * math.pi)
        course.yaw -= turn - min(max(turn, -YAW_LEASH), YAW_LEASH)

    def _swing(self, state: State, aim: Aim, error: Array, com: Array, yaw: float, feet: Array) -> None:
        """Move the paths of the feet in the air on, and hand them to their tasks."""
        assert self.ground is not None
        p, clock, ground = self.proportions, self.clock, self.ground
        if self._swings:
            shift = error * ((1.0 + RETURN) * min(1.0 / max(aim.open, 1e-3), LOOK_AHEAD))
            targets = footholds(self.course, clock.landing[None, :], p.stance * clock.spread)[0] + shift
            for i, swing in self._swings.items():
                left = max(0.0, (1.0 - swing.progress) * clock.swing_time)
                x, y = self._within_reach(i, targets[i], com[:2] + left * self._filtered, yaw)
                target = np.array([x, y, ground.height(x, y) + float(p.radii[i]) - PRESS * p.length])
                swing.advance(self.dt, target, clock.swing_time)
                self._tasks[FEET[i]].reference(swing.position, swing.velocity, swing.acceleration)
        for i, foot in enumerate(FEET):
            if i not in self._swings:
                self._tasks[foot].reference(feet[i])

    def _within_reach(self, i: int, target: Array, body: Array, yaw: float) -> tuple[float, float]:
        """The target, or the nearest point to it where the leg can follow and crosses no other."""
        p = self.proportions
        c, s = math.cos(yaw), math.sin(yaw)
        dx, dy = (target - body).tolist()
        home_x, home_y = p.stance[i].tolist()
        side = math.copysign(1.0, home_y)
        along = c * dx + s * dy - home_x
        out = side * (c * dy - s * dx) - abs(home_y)
        along = min(max(along, -ALONG * p.length), ALONG * p.length)
        out = min(max(out, -INWARDS * abs(home_y)), OUTWARDS * p.length)
        x, y = home_x + along, side * (abs(home_y) + out)
        return float(body[0]) + c * x - s * y, float(body[1]) + s * x + c * y

    def _decide(self, wanted: Array, error: Array, feet: Array) -> None:
        """What to do from the next tick on."""
        clock, mode = self.clock, self.mode
        still = not wanted.any() or not self._gait.moves
        if mode is Mode.STANDING:
            if self._lie:
                self.mode, self._left = Mode.LOWERING, RISING_TIME * self.proportions.time
            elif not still:
                clock.change(self._gait)
                clock.start()
                self.mode = Mode.MOVING
            elif self._escaping(error, feet) or self._misplaced(feet):
                clock.lead = 0.0
                clock.start()
                clock.lead = 0.5
                self.mode = Mode.RECOVERING
        elif mode in (Mode.MOVING, Mode.RECOVERING):
            if not clock.running:
                self.mode = Mode.STANDING
            elif self._lie or (still and self._settled(error, feet)):
                clock.stop()
            elif not still:
                clock.start()  # takes back a stop
                self.mode = Mode.MOVING
        elif self._left <= 0.0:
            self.mode = Mode.STANDING if mode is Mode.RISING else Mode.LYING

    def _escaping(self, error: Array, feet: Array) -> bool:
        """Whether the divergent component nears the edge of the feet, beyond which nobody can stay without a step."""
        if not error.any():
            return False
        centre = feet[:, :2].mean(axis=0)
        for i, j in ((0, 2), (2, 3), (3, 1), (1, 0)):  # once round, left side first: inside is to the left
            a, edge = feet[i, :2] - centre, feet[j, :2] - feet[i, :2]
            room = float(edge[1] * a[0] - edge[0] * a[1])  # of the centre from the edge, times its length
            if float(edge[1] * error[0] - edge[0] * error[1]) > ESCAPING * room:
                return True
        return False

    def _misplaced(self, feet: Array) -> bool:
        home = footholds(self.course, np.zeros((1, 4)), self.proportions.stance)[0]
        home += feet[:, :2].mean(axis=0) - home.mean(axis=0)
        return bool(np.abs(feet[:, :2] - home).max() > MISPLACED * self.proportions.length)

    def _settled(self, error: Array, feet: Array) -> bool:
        """Whether a robot that steps on the spot may stop."""
        p = self.proportions
        slow = not self.course.velocity.any() and self.clock.phase >= 1.0
        return slow and bool(np.abs(error).max() < 0.5 * LEASH * p.length)

    def _guide(self, aim: Aim, com: Array, com_velocity: Array, R_base: Array) -> None:
        """References of the trunk and of the contact forces."""
        assert self.ground is not None
        p, dt, omega = self.proportions, self.dt, self.proportions.frequency
        error = com[:2] + com_velocity[:2] / omega - aim.divergent
        gain = omega * omega * (1.0 + DIVERGENT_GAIN)
        push = omega * omega * (com[:2] - aim.pressure) - gain * error
        size = float(np.hypot(push[0], push[1]))
        push *= min(1.0, self._push / max(size, 1e-9))

        if self.mode in (Mode.RISING, Mode.LOWERING):
            goal = p.height * (1.0 if self.mode is Mode.RISING else LYING_HEIGHT)
            self._height = quintic(*self._height, goal, 0.0, self._left, dt)
            self._left -= dt
        height, rate, rush = self._height
        ground, slope = self.ground.height(com[0], com[1]), self.ground.slope
        low = ground + height - float(com[2])
        share = dt / (TRIM_TIME * p.time)
        limit = HEIGHT_TRIM * p.height
        self._trim_height = min(max(self._trim_height + share * low, -limit), limit)
        climb = float(slope @ com_velocity[:2])
        self._tasks["com"].reference(
            np.array([com[0], com[1], ground + height + self._trim_height]),
            np.array([com_velocity[0], com_velocity[1], rate + climb]),
            np.array([push[0], push[1], rush]),
        )

        yaw = self.course.yaw
        c, s = math.cos(yaw), math.sin(yaw)
        R_wanted = self.ground.tilt @ np.array([[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]]) @ p.heading.T
        turn = R_wanted @ R_base.T
        lean = 0.5 * np.array([turn[2, 1] - turn[1, 2], turn[0, 2] - turn[2, 0]])  # of small angles
        trim = self._trim_tilt + share * lean
        self._trim_tilt = np.minimum(np.maximum(trim, -TILT_TRIM), TILT_TRIM)
        wx, wy = self._trim_tilt.tolist()
        self._tasks["base"].reference(
            orthonormal(np.array([[1.0, 0.0, wy], [0.0, 1.0, -wx], [-wy, wx, 1.0]]) @ R_wanted),
            np.array([0.0, 0.0, float(self.course.velocity[2])]),
        )
        weight = p.mass * np.array([push[0], push[1], p.gravity])
        forces = {foot: share * weight for foot, share in zip(FEET, aim.shares.tolist(), strict=True) if share > 0.0}
        self._tasks["forces"].reference(forces)


def orthonormal(R: Array) -> Array:
    """The rotation next to a matrix that is almost one, by one step of Newton's iteration for the polar factor."""
    R = 0.5 * R @ (3.0 * np.eye(3) - R.T @ R)
    return np.asarray(0.5 * R @ (3.0 * np.eye(3) - R.T @ R))
