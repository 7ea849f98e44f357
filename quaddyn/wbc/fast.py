"""`FastTick`: the compiled tick of a base on four legs of three revolute joints, for the elements that it knows.

It answers None whenever the dense path must decide: other robots, elements or contacts than it knows, legs near a
singularity, and a level 0 that cannot be met (the dense path then shares out the violation over the strict rows too).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pinocchio as pin

from ..dynamics import State
from ..robot.robot import Robot
from ..urdf.tree import Array
from .constraints import Constraint, ContactMotion, FrictionPyramid, NormalForce, TorqueLimits, TorqueRate
from .contacts import ContactSettings, Switch
from .forces import ForceTask
from .joint_bounds import JointBounds
from .motion import ComTask, FootTask, FrameOrientationTask, PostureTask
from .scales import Scales
from .task import Task

Element = Task | ForceTask | Constraint

#: Violation of level 0 [m/s^2] and KKT residual up to which a compiled tick stands.
VIOLATION, KKT = 1e-9, 1e-9

#: Rounds of the active set per level, after which the dense path looks at it.
ROUNDS = 200

#: Where an answer holds torques, accelerations, forces, violation, KKT residual and ranks, as in `compiled_tick`.
TAU, ACCELERATION, FORCE = slice(0, 12), slice(12, 30), slice(30, 42)
VIOLATED, RESIDUAL, RANK = 42, 43, 45


class FastTick:
    """Everything that compiled ticks of one controller share; make it with `FastTick.of`.

    Args:
        robot: a base with four legs of three revolute joints, nothing else actuated.
        elements: levels of known elements.
        settings: contacts, the four feet.
        switches: how much of each there is.
        scales: natural units.
        dt: control period [s].
        tolerance: relative, of rank.
        numbers: of all motion tasks, side by side in the order of `elements`; read anew at every tick.
    """

    def __init__(
        self,
        robot: Robot,
        elements: Sequence[Sequence[Element]],
        settings: Mapping[str, ContactSettings],
        switches: Mapping[str, Switch],
        *,
        scales: Scales,
        dt: float,
        tolerance: float,
        numbers: Array,
    ) -> None:
        from ..hierarchy.compiled import float_work, int_work  # imports numba
        from . import compiled_tick as core

        self._core, self._tick = core, core.tick
        self.robot, self._tolerance = robot, tolerance
        self._feet = robot.feet
        self._settings = tuple(settings[foot] for foot in self._feet)
        self._switches = tuple(switches[foot] for foot in self._feet)
        self._geometry, self._index, axes, feet = _legs(robot)
        self._extra = np.zeros(core.EXTRA)
        self._extra[core.GRAVITY : core.MASS] = robot.model.gravity.linear
        self._extra[core.MASS], self._extra[core.LENGTH] = scales.mass, scales.length
        self._extra[core.LEGS : core.OFFSET] = np.concatenate((axes, feet[:, None]), axis=1).ravel()
        self._extra[core.PERIOD] = dt
        self._extra[core.OFFSET : core.BEFORE] = np.eye(3).ravel()
        self._before = self._extra[core.BEFORE : core.HAS_BEFORE]
        self._has_before, self._not_given = core.HAS_BEFORE, core.NOT_GIVEN

        # The elements' numbers side by side, motion tasks first, and a program that says where each one's begin.
        flat = [(k, element) for k, level in enumerate(elements) for element in level]
        motion = sum(len(e.block) for _, e in flat if isinstance(e, Task))
        self._told, self._own = numbers, np.zeros(sum(_size(e) for _, e in flat) + 1)
        self._numbers = np.zeros(motion + len(self._own))
        self._live: list[tuple[Element, str, Array]] = []
        faces = [element.faces for _, element in flat if isinstance(element, FrictionPyramid)]
        self._faces = faces[0] if faces else 0
        program, task_at, at = [], 0, motion
        for k, element in flat:
            more = 0
            if isinstance(element, Task):
                start, task_at = task_at, task_at + len(element.block)
                if isinstance(element, FootTask):
                    more = self._feet.index(element.frame)
                elif isinstance(element, FrameOrientationTask):
                    frame = robot.model.frames[element.frame_id]
                    self._extra[core.OFFSET : core.BEFORE] = frame.placement.rotation.ravel()
            else:
                start, at = at, at + _size(element)
                self._live += _live(element, self._own[start - motion : at - motion])
                if isinstance(element, FrictionPyramid):
                    more = self._faces
            program.append((k, element.code, start, more))
        self._program = np.array(program, dtype=np.int64).reshape(-1, 4)
        self.levels = len(elements)
        self._rated = any(isinstance(e, TorqueRate) for _, e in flat)
        self._shared = frozenset(e.frame for _, e in flat if isinstance(e, FootTask))

        n, K = 24, self.levels + 1
        rows = 24 + 12 * len(flat)
        P = sum(
            4 * self._faces if isinstance(e, FrictionPyramid) else 4 if isinstance(e, NormalForce) else 12
            for _, e in flat
            if isinstance(e, Constraint)
        )
        self._contacts = np.zeros((4, core.FACES + 3 * self._faces))
        self._seen: list[Any] = []
        #: Per contact (contact, least, largest) and (share, cap) of the last tick, for those who ask later.
        self.contacts: tuple[Any, ...] = ()
        self.shares: tuple[tuple[float, float], ...] = ()
        self._last: Any = np.zeros((K + 1) * max(P, 1), dtype=np.int8)
        self._working: Any = np.zeros_like(self._last)
        self._answer = np.zeros(core.RANK + K)
        self._floats = np.zeros(float_work(n, rows + P + 2 * n, P, K))
        self._ints = np.zeros(2 * K + 10 + int_work(n, rows + P + 2 * n, P, K), dtype=np.int64)
        self._work = np.zeros(1000 + 40 * (n + 1) + rows * (n + 2) + P * (n + 2) + (K + 1) * P + 8 * K + 200)
        self._pattern: tuple[Any, ...] | None = None
        self._partial: list[int] = []
        self._guessed, self._good = False, False

    @staticmethod
    def of(
        robot: Robot,
        elements: Sequence[Sequence[Element]],
        settings: Mapping[str, ContactSettings],
        switches: Mapping[str, Switch],
        *,
        scales: Scales,
        dt: float,
        tolerance: float,
        numbers: Array,
    ) -> FastTick | None:
        """A `FastTick`, or None where the robot, an element or a contact is not of the kinds that it knows."""
        if not _known_robot(robot) or tuple(settings) != robot.feet:
            return None
        codes = [e.code for level in elements for e in level]
        if any(codes.count(code) > 1 for code in (ContactMotion.code, FrictionPyramid.code)):
            return None
        if not elements or not any(type(e) is ContactMotion for e in elements[0]):
            return None
        for k, level in enumerate(elements):
            for element in level:
                if not _known(robot, element) or (k == 0) == isinstance(element, Task | ForceTask):
                    return None
        return FastTick(robot, elements, settings, switches, scales=scales, dt=dt, tolerance=tolerance, numbers=numbers)

    def forget(self) -> None:
        """Start cold."""
        self._good = False

    def _write_own(self) -> None:
        """Numbers of constraints and force tasks, which may be set at any time."""
        for element, name, place in self._live:
            place[...] = getattr(element, name)

    def _write_contacts(self, steady: bool) -> bool:
        """The contacts' numbers; whether all are of the kind that this path knows."""
        now = [(settings.contact, settings.minimum, settings.maximum) for settings in self._settings]
        fresh = now != self._seen
        if fresh:
            self._seen = []
            if not all([self._take(i, settings) for i, settings in enumerate(self._settings)]):
                return False
            self._seen = now
            self.contacts = tuple(now)
        if fresh or not steady:
            shares = tuple([(switch.share, switch.cap) for switch in self._switches])
            if shares != self.shares:
                for i, (share, cap) in enumerate(shares):
                    self._contacts[i, 0], self._contacts[i, 1] = share, cap
                self.shares = shares
                pattern = tuple([(share > 0.0) + (share >= 1.0) for share, _ in shares])
                if pattern != self._pattern:
                    self._pattern, self._good = pattern, False
                self._partial = [i for i, (share, _) in enumerate(shares) if 0.0 < share < 1.0]
        return not self._partial or all([self._settings[i].frame in self._shared for i in self._partial])

    def _take(self, i: int, settings: ContactSettings) -> bool:
        """A contact's numbers, if it is of the kind that this path knows."""
        contact, row = settings.contact, self._contacts[i]
        if settings.role != "unilateral" or contact.kind != "point" or contact.offset.any():
            return False
        row[2], row[3], row[4] = contact.radius, settings.minimum, settings.maximum
        row[5:8] = contact.normal
        if self._faces:
            faces = settings.faces(self._faces, np.eye(3))
            if len(faces) != self._faces:
                return False  # without friction there is one row more
            row[8:] = faces.ravel()
        return True

    def solve(
        self,
        state: State,
        motion: tuple[Array, Array, Array, Array],
        tau_before: Array | None,
        hold: Callable[[State], None] | None = None,
        steady: bool = False,
    ) -> Array | None:
        """One tick.

        Args:
            state: the robot's state.
            motion: its (q, v, M, h).
            tau_before: (12,) torques of the tick before, None on the first.
            hold: called if a task has no reference yet, to give it what is found.
            steady: whether the contacts' shares are those of the tick before.

        Returns:
            Numbers as `compiled_tick` lays them out, overwritten by the next tick; None if the dense path must decide.
        """
        if not self._write_contacts(steady):
            return None
        self._write_own()
        if self._rated:
            if tau_before is None:
                self._extra[self._has_before] = 0.0
            else:
                self._extra[self._has_before] = 1.0
                self._before[:] = tau_before
        answer, (q, v, M, h) = self._answer, motion
        self._guessed = self._good
        self._last, self._working = self._working, self._last
        outcome = self._tick(
            q, v, M, h, self._geometry, self._index, self._program, self._told, self._own, self._numbers,
            self._contacts, self._extra, self._last, self._guessed, self._tolerance, ROUNDS, self._working, answer,
            self._floats, self._ints, self._work,
        )  # fmt: skip
        if outcome == self._not_given and hold is not None:
            hold(state)
            self._last, self._working = self._working, self._last
            return self.solve(state, motion, tau_before)
        self._good = outcome == 0
        if outcome or not (answer[VIOLATED] <= VIOLATION and answer[RESIDUAL] <= KKT):
            return None
        return answer

    def inputs(self, state: State, _numbers: Array | None = None) -> dict[str, Array]:
        """Copies of what the last tick was told, for `rerun`; `state` must be that of the tick, made anew."""
        arrays = {"M": state.motion()[2], "h": state.h, "geometry": self._geometry, "index": self._index}
        arrays |= {"program": self._program, "numbers": self._numbers, "contacts": self._contacts}
        arrays |= {"extra": self._extra, "last": self._last, "options": np.array([self._guessed, self._tolerance])}
        arrays["sizes"] = np.array([len(x) for x in (self._answer, self._floats, self._ints, self._work)])
        return {name: np.array(array) for name, array in arrays.items()}


def rerun(q: Array, v: Array, inputs: Mapping[str, Array]) -> Array:
    """The answer to `FastTick.inputs`, bit for bit that of the tick they are of."""
    from . import compiled_tick as core

    names = ("contacts", "extra", "last")
    q, v, M, h = (np.array(array) for array in (q, v, inputs["M"], inputs["h"]))
    for array in (q, v, M, h):
        array.flags.writeable = False  # as a State's are: the same compiled code
    guessed, tolerance = inputs["options"]
    answer, floats, ints, work = (np.zeros(int(size)) for size in inputs["sizes"])
    core.tick(
        q, v, M, h, inputs["geometry"], inputs["index"], inputs["program"], inputs["numbers"], np.zeros(0),
        np.zeros_like(inputs["numbers"]), *(inputs[name] for name in names), bool(guessed), float(tolerance), ROUNDS,
        np.zeros_like(inputs["last"]), answer, floats, ints.astype(np.int64), work,
    )  # fmt: skip
    return answer


def _size(element: Element) -> int:
    """How many numbers an element has beside those of motion tasks."""
    if isinstance(element, ForceTask):
        return 5 + len(element.block)
    return {ContactMotion: 1, TorqueLimits: 12, TorqueRate: 12, JointBounds: 51}.get(type(element), 0)


def _live(element: Element, numbers: Array) -> list[tuple[Element, str, Array]]:
    """What of an element may change between ticks, and where it goes; what may not is written here."""
    where: dict[str, int | slice] = {}
    if isinstance(element, ForceTask):
        numbers[1:5] = [element.contacts is None or foot in element.contacts for foot in element.robot.feet]
        where = {"weight": 0, "block": slice(5, None)}
    elif isinstance(element, JointBounds):
        where = {"horizon": 0, "recovery": 1, "viability": 2, "lower": slice(3, 15), "upper": slice(15, 27)}
        where |= {"velocity": slice(27, 39), "acceleration": slice(39, 51)}
    elif isinstance(element, TorqueLimits):
        where = {"limits": slice(None)}
    elif isinstance(element, TorqueRate):
        where = {"rate": slice(None)}
    elif isinstance(element, ContactMotion):
        where = {"damping": 0}
    return [(element, name, numbers[at if isinstance(at, slice) else slice(at, at + 1)]) for name, at in where.items()]


def _known(robot: Robot, element: Element) -> bool:
    kind = type(element)
    if kind is FootTask:
        return element.frame in robot.feet  # type: ignore[union-attr]
    if kind is FrameOrientationTask:
        return bool(robot.model.frames[element.frame_id].parentJoint == 1)  # type: ignore[union-attr]
    if kind is PostureTask:
        return np.array_equal(element.index, robot.actuated_index)  # type: ignore[union-attr]
    if kind is ForceTask:
        return element.contacts is None or set(element.contacts) <= set(robot.feet)  # type: ignore[union-attr]
    known = (ComTask, ContactMotion, FrictionPyramid, NormalForce, TorqueLimits, TorqueRate, JointBounds)
    return kind in known


def _known_robot(robot: Robot) -> bool:
    """A free base, four legs of three revolute joints each that hang on it, and no other joint."""
    model = robot.model
    if robot.root != "free" or robot.nv != 18 or robot.nu != 12 or len(robot.feet) != 4 or len(robot.legs) != 4:
        return False
    seen: set[int] = set()
    for foot in robot.feet:
        names = robot.legs[foot].joints
        if len(names) != 3:
            return False
        before = 1
        for name in names:
            joint = model.getJointId(name)
            if name not in robot.actuated or model.parents[joint] != before or _axis(model, joint) is None:
                return False
            seen.add(joint)
            before = joint
        if model.frames[robot.frame_id(foot)].parentJoint != before:
            return False
    return len(seen) == 12


def _axis(model: pin.Model, joint: int) -> Array | None:
    """(3,) unit axis of a revolute joint with one angle, in its own coordinates; None for other joints."""
    kind = model.joints[joint]
    if kind.nq != 1 or kind.nv != 1:
        return None
    data = kind.createData()
    kind.calc(data, np.zeros(model.nq))
    S = np.asarray(data.S, dtype=np.float64).reshape(-1)
    if S.shape != (6,) or S[:3].any() or abs(float(np.linalg.norm(S[3:])) - 1.0) > 1e-12:
        return None
    return np.array(S[3:])


def _legs(robot: Robot) -> tuple[Array, Any, Array, Array]:
    """(geometry, index, axes, feet) as `compiled_tick.tick` wants them."""
    model = robot.model
    geometry, index = np.zeros((4, 12, 3)), np.zeros((3, 4, 3), dtype=np.int64)
    axes, feet = np.zeros((4, 3, 3)), np.zeros((4, 3))
    for k, foot in enumerate(robot.feet):
        for i, name in enumerate(robot.legs[foot].joints):
            joint = model.getJointId(name)
            placement = model.jointPlacements[joint]
            geometry[k, 3 * i : 3 * i + 3], geometry[k, 9 + i] = placement.rotation, placement.translation
            axis = _axis(model, joint)
            assert axis is not None
            axes[k, i] = axis
            index[:, k, i] = model.idx_qs[joint], model.idx_vs[joint], robot.actuated.index(name)
        feet[k] = model.frames[robot.frame_id(foot)].placement.translation
    return geometry, index, axes, feet
