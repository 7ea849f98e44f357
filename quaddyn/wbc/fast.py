"""`FastTick`: the compiled tick of a base on four legs of three revolute joints, for the elements that it knows.

It answers None whenever the dense path must decide: other robots, elements or contacts than it knows, legs near a
singularity, and a level 0 that cannot be met (the dense path then shares out the violation over the strict rows too).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pinocchio as pin
from numpy import empty

from ..dynamics import State
from ..robot.robot import Robot
from ..urdf.tree import Array
from .constraints import ContactMotion, FrictionPyramid, NormalForce, TorqueLimits, TorqueRate
from .contacts import Changes, ContactSettings
from .forces import ForceTask
from .joint_bounds import JointBounds
from .levels import Element
from .motion import ComTask, FootTask, FrameOrientationTask, PostureTask
from .parts import Parts
from .task import Task

#: Violation of level 0 [m/s^2] and KKT residual up to which a compiled tick stands.
VIOLATION, KKT = 1e-9, 1e-9

#: Rounds of the active set per level, after which the dense path looks at it.
ROUNDS = 200

#: Where an answer holds torques, accelerations, forces, violation, KKT residual and ranks, as in `compiled_tick`; the
#: elements' numbers as they were stand at its end.
TAU, ACCELERATION, FORCE = slice(0, 12), slice(12, 30), slice(30, 42)
VIOLATED, RESIDUAL, RANK = 42, 43, 45


class FastTick:
    """Everything that compiled ticks of one controller share; make it with `FastTick.of`.

    Args:
        parts: of the controller; its robot a base with four legs of three revolute joints, nothing else actuated, its
            elements known, its contacts the four feet.
        changes: counts what is set on contacts.

    Attributes:
        contacts, shares: per contact (contact, least, largest force) and (share, cap) of the last tick.
        size: of an answer.
    """

    def __init__(self, parts: Parts, changes: Changes) -> None:
        from ..hierarchy.compiled import float_work, int_work  # imports numba
        from . import compiled_tick as core

        self._core, self._tick = core, core.tick
        robot, levels, self._changes = parts.robot, parts.levels, changes
        self._feet, self._numbers = robot.feet, levels.numbers
        self._settings = tuple(parts.settings[foot] for foot in self._feet)
        flat = [(k, element) for k, level in enumerate(levels.elements) for element in level]
        self._faces = next((e.faces for _, e in flat if isinstance(e, FrictionPyramid)), 0)

        # A program that says which elements there are and where the numbers of each begin.
        program = []
        for k, element in flat:
            more = 0
            if isinstance(element, FootTask):
                more = self._feet.index(element.frame)
            elif isinstance(element, FrictionPyramid):
                more = self._faces
            program += [k, element.code, levels.begin[element.name], more]
        geometry, index, fixed = _legs(robot)
        wide = core.FACES + 3 * self._faces
        self._table: Any = np.concatenate(([len(flat), wide, ROUNDS], index.ravel(), program)).astype(np.int64)
        self._constants = np.zeros(core.CONTACTS + 4 * wide)
        self._contacts = self._constants[core.CONTACTS :].reshape(4, wide)
        base = next((e.frame_id for _, e in flat if isinstance(e, FrameOrientationTask)), None)
        turned = np.eye(3) if base is None else robot.model.frames[base].placement.rotation
        head = (
            *robot.model.gravity.linear,
            parts.scales.mass,
            parts.scales.length,
            parts.dt,
            parts.solver.rank_tolerance,
        )
        self._constants[: core.BEFORE] = head
        side_by_side = (turned, geometry, fixed, _bodies(robot), robot.model.armature)
        self._constants[core.OFFSET : core.CONTACTS] = np.concatenate([np.ravel(part) for part in side_by_side])
        self._before = self._constants[core.BEFORE : core.HAS_BEFORE]
        self._rated = any(isinstance(e, TorqueRate) for _, e in flat)
        #: Per foot its numbers, its switch, and whether a task guides it while its contact comes or goes.
        shared = {e.frame for _, e in flat if isinstance(e, FootTask)}
        self._each = [
            (row, parts.switches[foot], settings.frame in shared)
            for row, foot, settings in zip(self._contacts, self._feet, self._settings, strict=True)
        ]

        n, K = 24, len(levels.elements) + 1
        rows = 24 + 12 * len(flat)
        P = 12 * len(flat) + 4 * self._faces
        work = 1000 + 13 * core.KNOWN + 40 * (n + 1) + rows * (n + 2) + P * (n + 2) + (K + 1) * P + 8 * K + 200
        self._last: Any = np.zeros((K + 1) * P, dtype=np.int8)
        self._working: Any = np.zeros_like(self._last)
        self.size = core.RANK + K + len(self._numbers)
        self._floats = np.zeros(work + float_work(n, rows + P + 2 * n, P, K))
        self._ints = np.zeros(2 * K + 10 + int_work(n, rows + P + 2 * n, P, K), dtype=np.int64)
        self._seen = self._taken = -1
        self._usable = self._known = False
        self._pattern: list[int] = []
        self.contacts: tuple[Any, ...] = ()
        self.shares: tuple[tuple[float, float], ...] = ()
        self._guessed = self._good = False

    @staticmethod
    def of(parts: Parts, changes: Changes) -> FastTick | None:
        """A `FastTick`, or None where the robot, an element or a contact is not of the kinds that it knows."""
        robot, elements = parts.robot, parts.levels.elements
        if not _known_robot(robot) or tuple(parts.settings) != robot.feet:
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
        return FastTick(parts, changes)

    def forget(self) -> None:
        """Start cold."""
        self._good = False

    def _look(self) -> bool:
        """The contacts' numbers after a change; whether all are of the kind that this path knows."""
        if self._taken != self._changes.settings:
            self._taken, self._known = self._changes.settings, True
            self.contacts = tuple([self._take(i, settings) for i, settings in enumerate(self._settings)])
        if not self._known:
            return False
        shares, pattern, usable = [], [], True
        for row, switch, shared in self._each:
            row[0], row[1] = share, cap = switch.share, switch.cap
            shares.append((share, cap))
            pattern.append((share > 0.0) + (share >= 1.0))
            usable &= shared or not 0.0 < share < 1.0
        self.shares = tuple(shares)
        if pattern != self._pattern:
            self._pattern, self._good = pattern, False
        return usable

    def _take(self, i: int, settings: ContactSettings) -> tuple[Any, float, float]:
        """A contact's numbers, if it is of the kind that this path knows."""
        contact, row = settings.contact, self._contacts[i]
        faces = settings.faces(self._faces, np.eye(3)) if self._faces else np.zeros((0, 3))
        # Without friction there is one row more.
        if (
            settings.role != "unilateral"
            or contact.kind != "point"
            or contact.offset.any()
            or len(faces) != self._faces
        ):
            self._known = False
        else:
            row[2], row[3], row[4] = contact.radius, settings.minimum, settings.maximum
            row[5:8], row[8:] = contact.normal, faces.ravel()
        return contact, settings.minimum, settings.maximum

    def solve(self, q: Array, v: Array, before: Array | None) -> Array | None:
        """One tick.

        Args:
            q: (19,).
            v: (18,).
            before: (12,) torques of the tick before, None on the first.

        Returns:
            Numbers as `compiled_tick` lays them out; None if the dense path must decide.
        """
        if self._seen != self._changes.shares:
            self._usable = self._look()
            self._seen = self._changes.shares
        if not self._usable:
            return None
        if self._rated:
            self._constants[self._core.HAS_BEFORE] = before is not None
            if before is not None:
                self._before[:] = before
        self._guessed = self._good
        self._last, self._working = last, working = self._working, self._last
        answer = empty(self.size)
        outcome = self._tick(
            q,
            v,
            self._numbers,
            self._constants,
            self._table,
            last,
            self._guessed,
            working,
            answer,
            self._floats,
            self._ints,
        )
        self._good = outcome == 0
        if outcome or not (answer[VIOLATED] <= VIOLATION and answer[RESIDUAL] <= KKT):
            return None
        return answer

    def rehearse(self, state: State) -> None:
        """One tick that leaves nothing behind but compiled code, above all no references at `state`."""
        numbers = self._numbers.copy()
        self.solve(*state.coordinates(), None)
        self._numbers[:] = numbers
        self.forget()

    def inputs(self) -> dict[str, Array]:
        """Copies of what the last tick was told beside its state and its numbers, for `rerun`."""
        sizes = np.array([len(x) for x in (self._floats, self._ints)])
        arrays = {"constants": self._constants, "table": self._table, "last": self._last, "sizes": sizes}
        arrays["guessed"] = np.array([self._guessed])
        return {name: np.array(array) for name, array in arrays.items()}


def present(inputs: Mapping[str, Array]) -> list[int]:
    """Which feet had a contact in the tick of `FastTick.inputs`."""
    from . import compiled_tick as core

    return [int(i) for i in np.flatnonzero(inputs["constants"][core.CONTACTS :].reshape(4, -1)[:, 0])]


def rerun(q: Array, v: Array, inputs: Mapping[str, Array]) -> Array:
    """The answer to `FastTick.inputs` and "numbers", bit for bit that of the tick they are of."""
    from . import compiled_tick as core

    floats, ints = (np.zeros(int(size)) for size in inputs["sizes"])
    numbers, constants, last = (np.array(inputs[name]) for name in ("numbers", "constants", "last"))
    table = inputs["table"].astype(np.int64)
    levels = 2 + int(table[core.PROGRAM :: 4].max())
    answer = np.zeros(core.RANK + levels + len(numbers))
    core.tick(
        q.copy(), v.copy(), numbers, constants, table, last.astype(np.int8), bool(inputs["guessed"][0]),
        np.zeros(len(last), dtype=np.int8), answer, floats, ints.astype(np.int64),
    )  # fmt: skip
    return answer


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


def _legs(robot: Robot) -> tuple[Array, Any, Array]:
    """(geometry, index, axes and feet) as `compiled_tick.tick` wants them."""
    model = robot.model
    geometry, index, fixed = np.zeros((4, 12, 3)), np.zeros((3, 4, 3), dtype=np.int64), np.zeros((4, 4, 3))
    for k, foot in enumerate(robot.feet):
        for i, name in enumerate(robot.legs[foot].joints):
            joint = model.getJointId(name)
            placement = model.jointPlacements[joint]
            geometry[k, 3 * i : 3 * i + 3], geometry[k, 9 + i] = placement.rotation, placement.translation
            axis = _axis(model, joint)
            assert axis is not None
            fixed[k, i] = axis
            index[:, k, i] = model.idx_qs[joint], model.idx_vs[joint], robot.actuated.index(name)
        fixed[k, 3] = model.frames[robot.frame_id(foot)].placement.translation
    return geometry, index, fixed


def _bodies(robot: Robot) -> Array:
    """(13, 10) the base and the bodies of the legs, as `compiled_inertia.body` wants them."""
    model = robot.model
    joints = [1, *(model.getJointId(name) for foot in robot.feet for name in robot.legs[foot].joints)]
    upper = np.triu_indices(3)
    return np.array([(Y.mass, *Y.lever, *Y.inertia[upper]) for Y in (model.inertias[joint] for joint in joints)])
