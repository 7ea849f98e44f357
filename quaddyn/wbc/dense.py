"""`DenseTick`: the dense path of any robot, compiled: it says in microseconds what plain matrices say.

Elements that it does not know are asked for their rows, which join those that it writes itself.  Where it has no good
answer it has none, and the ladder of `quaddyn.wbc.solving` decides.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..dynamics import State
from ..hierarchy import HierarchySolver
from ..robot.robot import Robot
from ..urdf.tree import Array
from .constraints import Constraint, ContactMotion, FrictionPyramid, NormalForce, TorqueLimits, TorqueRate
from .contacts import ContactSettings, Switch
from .dense_answer import HEAD, Answer
from .forces import ForceTask
from .joint_bounds import JointBounds
from .motion import (
    ComTask,
    FootTask,
    FrameOrientationTask,
    FramePositionTask,
    FrameTask,
    JointAccelerationTask,
    PostureTask,
    RelativeFrameTask,
)
from .scales import Scales
from .solving import SHAPES, VIOLATION, least_violation
from .task import Task
from .tick import Rows, Tick

Element = Task | ForceTask | Constraint

#: Violation of level 0 [m/s^2] up to which contacts solved beforehand stand.
KEPT = 1e-9

#: KKT residual up to which an answer stands; beyond it a warm start is taken back first.
VERIFIED = 1e-9

FRAMED = (FramePositionTask, FootTask, FrameOrientationTask, FrameTask)
POSTURES = (PostureTask, JointAccelerationTask)
ROLES = ("unilateral", "bilateral", "compliant", "force")
#: What compiled code writes itself; of contact motions and friction pyramids one each.
KNOWN = (ComTask, *FRAMED, RelativeFrameTask, *POSTURES, ForceTask, NormalForce, TorqueLimits, TorqueRate, JointBounds)
ONCE = (ContactMotion, FrictionPyramid)


@dataclass(slots=True, eq=False)
class Shape:
    """A solver for problems of one shape.

    Attributes:
        numbers: unknowns, then where the levels' equalities and inequalities begin.
        solver: its memory is where rows are written.
        width: number of unknowns.
        told: what the two sets of arguments were put together for.
        before: arguments of `assemble`, all arrays.
        after: of `finish`, likewise.
    """

    numbers: Any
    solver: HierarchySolver
    width: int
    told: tuple[Any, ...] = (None, None, None, None)
    before: tuple[Any, ...] = ()
    after: tuple[Any, ...] = ()

    @staticmethod
    def of(numbers: Any) -> Shape:
        """A new one, cold."""
        ms, ps = numbers[1:].reshape(2, -1)
        sizes = list(zip(np.diff(ms).tolist(), np.diff(ps).tolist(), strict=True))
        return Shape(numbers.copy(), HierarchySolver(max(1, int(numbers[0])), sizes), int(numbers[0]))


class DenseTick:
    """Everything that compiled ticks of one controller share.

    Args:
        robot: any robot.
        elements: the levels.
        settings: contacts.
        switches: how much of each there is.
        scales: natural units.
        dt: control period [s].
        tolerance: relative, of rank.
        damping: of the solver.
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
        damping: float,
        numbers: Array,
    ) -> None:
        from . import compiled_answer, compiled_contacts  # they import numba
        from . import compiled_rows as core

        self._assemble, self._finish, self._slots = core.assemble, compiled_answer.finish, compiled_contacts
        self._core, self.robot, self._numbers = core, robot, numbers
        self._mass, self._tolerance, self._damping = scales.mass, tolerance, damping
        self._settings, self._switches = tuple(settings.values()), tuple(switches[name] for name in settings)
        self._names = tuple(settings)
        self._compile(elements, settings, scales, dt)
        self._extra = np.zeros(core.BEFORE + robot.nu)
        self._last_tau = self._extra[core.BEFORE :]
        self._q, self._v, self._com_jacobian = np.zeros(robot.nq), np.zeros(robot.nv), np.zeros((robot.nv, 3))
        self._wishes: dict[int, object] = {}
        self._expected: dict[Any, Shape] = {}
        self._shapes: dict[bytes, Shape] = {}
        self._shape = np.zeros(1 + 2 * (self._levels + 1), dtype=np.int64)
        self._seen: list[Any] = [None] * len(self._settings)
        #: Columns of each contact's force.
        self.columns: dict[str, slice] = {}
        #: Rows of elements that were asked for them, by name.
        self.said: dict[str, list[Rows]] = {}
        #: Per contact (contact, least, largest, height) and (share, cap) of the last tick, for those who ask later.
        self.contacts: tuple[Any, ...] = ()
        self.shares: tuple[tuple[float, float], ...] = ()
        self._room(0)
        self._used: tuple[Shape, bool] | None = None

    # -- what does not change ---------------------------------------------------------------------------------
    def _compile(
        self,
        elements: Sequence[Sequence[Element]],
        settings: Mapping[str, ContactSettings],
        scales: Scales,
        dt: float,
    ) -> None:
        """Tables of the robot and a program of the elements."""
        robot, model = self.robot, self.robot.model
        frames: list[int] = []

        def place(frame: int) -> int:
            if frame not in frames:
                frames.append(frame)
            return frames.index(frame)

        self._frame_of = [place(robot.frame_id(s.frame)) for s in self._settings]
        flat = [(k, e) for k, level in enumerate(elements) for e in level]
        self._levels = len(elements)
        kinds = [type(e) for _, e in flat]
        feet = {e.frame: i for i, (_, e) in enumerate(flat) if isinstance(e, FootTask)}
        self._rated = any(type(e) is TorqueRate for _, e in flat)
        self._strict = any(type(e) is ContactMotion for e in elements[0])
        program: list[tuple[int, ...]] = []
        index: list[int] = []
        fixed = start = 0
        written: list[tuple[Any, slice]] = []
        self._asked: list[tuple[int, Element]] = []
        self._faces = 0
        self._drifts = False
        item_of: dict[int, int] = {}
        for i, (k, e) in enumerate(flat):
            kind = type(e)
            begin = start
            start += len(e.block) if isinstance(e, Task) else 0
            if not (kind in KNOWN or (kind in ONCE and kinds.index(kind) == i)):
                self._asked.append((k, e))
                continue
            one = two = size = 0
            if isinstance(e, Task):
                size = len(e.labels)
                self._drifts |= isinstance(e, ComTask)
                if isinstance(e, RelativeFrameTask):
                    one, two = place(e.frame_id), place(e.other_id)
                elif isinstance(e, FRAMED):
                    one = place(e.frame_id)
                    two = self._names.index(e.frame) if kind is FootTask and e.frame in settings else -1
                elif isinstance(e, PostureTask):
                    one = len(index)
                    for j in e.index:
                        joint = int(model.idx_vs.tolist().index(j))
                        index += [int(j), int(model.idx_qs[joint]), int(model.nqs[joint])]
            else:
                begin = fixed
                fixed += self._size(e)
                written.append((e, slice(begin, fixed)))
                if isinstance(e, JointBounds):
                    one = len(index)
                    index += [robot.configuration_index(joint) for joint in robot.actuated]
                elif isinstance(e, FrictionPyramid):
                    self._faces = e.faces
            item_of[i] = len(program)
            program.append((k, e.code, begin, size, one, two))
        self._shared = [item_of.get(feet.get(s.frame, -1), -1) for s in self._settings]
        self._fixed = np.zeros(fixed + 1)
        self._forces = [(e, self._fixed[where]) for e, where in written if isinstance(e, ForceTask)]
        self._live = [live for e, where in written for live in _live(e, self._fixed[where])]
        joints = [(model.parents[j], model.idx_vs[j], model.nvs[j]) for j in range(model.njoints)]
        passive = np.setdiff1d(np.arange(robot.nv), robot.actuated_index)
        heads = (model.njoints, len(frames), robot.nu, len(passive), len(program), self._levels)
        parents = [model.frames[f].parentJoint for f in frames]
        parts = (heads, np.ravel(joints), parents, robot.actuated_index, passive, np.ravel(program), index)
        self._table = np.concatenate([np.asarray(part, dtype=np.int64) for part in parts])
        bodies = sum(inertia.mass for inertia in model.inertias[1:])
        self._free = robot.root == "free" and sum(p == 0 for p in model.parents) == 2  # the world itself, and the base
        fixed_at = [
            np.vstack((model.frames[f].placement.rotation.T, model.frames[f].placement.translation)) for f in frames
        ]
        head = [scales.mass, scales.length, dt, bodies, float(self._free), *model.gravity.linear]
        self._constants = np.concatenate((head, np.ravel(fixed_at)))
        self._frames = len(frames)
        self._contacts = np.zeros((len(self._settings), self._slots.FACES + 6 * max(17, self._faces + 1)))

    def _size(self, e: Element) -> int:
        nu = self.robot.nu
        if isinstance(e, ForceTask):
            return 2 + 8 * len(self._settings)
        return {ContactMotion: 1, TorqueLimits: nu, TorqueRate: nu, JointBounds: 3 + 4 * nu}.get(type(e), 0)

    # -- what may change between ticks --------------------------------------------------------------------------
    def _write_fixed(self) -> None:
        """Numbers of constraints and force tasks."""
        for e, name, to in self._live:
            to[...] = getattr(e, name)
        for task, to in self._forces:
            self._write_forces(task, to)

    def _write_forces(self, e: ForceTask, to: Array) -> None:
        wanted, to[0] = e.told, e.weight
        to[1] = e.bandwidth
        if self._wishes.get(id(e)) is wanted:  # a force task never changes its references, it takes new ones
            return
        self._wishes[id(e)] = wanted
        parts = to[2:].reshape(-1, 8)
        parts[:, 1:] = 0.0
        for name, part in zip(self._names, parts, strict=True):
            part[0] = e.contacts is None or name in e.contacts
            if name in wanted:
                part[1] = 1.0
                part[2 : 2 + len(wanted[name])] = wanted[name]

    def _write_contacts(self) -> None:
        shares = tuple([(switch.share, switch.cap) for switch in self._switches])
        fresh = False
        for i, s in enumerate(self._settings):
            seen = self._seen[i]
            if (
                seen is None
                or seen[0] is not s.contact
                or seen[1] != s.minimum
                or seen[2] != s.maximum
                or seen[3] != s.height
            ):
                self._seen[i] = (s.contact, s.minimum, s.maximum, s.height)
                self._take(i, s)
                fresh = True
        if fresh:
            self.contacts = tuple(self._seen)
        if shares != self.shares or fresh:
            self.shares = shares
            self._contacts[:, :2] = shares
            self.columns, nf = {}, 0
            for s, (share, _) in zip(self._settings, shares, strict=True):
                if share > 0.0:
                    self.columns[s.name] = slice(nf, nf + s.size)
                    nf += s.size
            if nf != self._nf:
                self._room(nf)

    def _take(self, i: int, s: ContactSettings) -> None:
        slots, contact, row = self._slots, s.contact, self._contacts[i]
        rows = s.faces(self._faces, np.eye(3)) if self._faces and contact.unilateral else np.zeros((0, s.size))
        row[slots.ROLE], row[slots.SIZE] = ROLES.index(s.role), s.size
        row[slots.RADIUS], row[slots.LEAST], row[slots.LARGEST] = contact.radius, s.minimum, s.maximum
        row[slots.HEIGHT], row[slots.STIFFNESS], row[slots.DAMPING] = (
            s.height,
            contact.stiffness or 0.0,
            contact.damping,
        )
        row[slots.PUSHES], row[slots.COUNT], row[slots.AT] = contact.unilateral, len(rows), self._frame_of[i]
        row[slots.SHARED], row[slots.TURNED] = self._shared[i] if s.size == 3 else -1, contact.kind == "surface"
        row[slots.AXIS : slots.OFFSET], row[slots.OFFSET : slots.FACES] = contact.normal, contact.offset
        row[slots.FACES : slots.FACES + 6 * len(rows)].reshape(-1, 6)[:, : s.size] = rows

    def _room(self, nf: int) -> None:
        """Memory for so many forces."""
        robot, core = self.robot, self._core
        nv, nu, n = robot.nv, robot.nu, robot.nu + nf
        free, S = nv - nu, core.stride(n)
        kept = free * free + nf * nv + 3 * nf + (nv + nf + nu) * S + nv + nf
        frames = 12 * robot.model.njoints + core.FRAME * self._frames + 12 * nv + 100 + S
        maps = (free + 2 * n + nf + 1) * S + nv + nf + free + S + nf + 3 * (S + nf)
        self._nf, self._work = nf, np.zeros(kept + frames + maps + 9 * free)
        self._ints = np.zeros(len(self._settings) + nf, dtype=np.int64)
        self._answer = np.zeros(HEAD + nu + nv + nf)
        self._none = self._others = np.zeros((0, 4 + nv + nf + nu))

    def _ask(self, tick: Tick) -> Array:
        """Rows of elements that compiled code does not know."""
        nv, nf, blocks = self.robot.nv, self._nf, [self._none]
        self.said = {element.name: element.rows(tick) for _, element in self._asked}
        for level, element in self._asked:
            blocks += [_encoded(rows, level, nv, nf, self.robot.nu) for rows in self.said[element.name]]
        return np.concatenate(blocks)

    # -- a tick -------------------------------------------------------------------------------------------------
    def forget(self) -> None:
        """Start cold."""
        for shape in self._shapes.values():
            shape.solver.forget()

    def rehearse(self, state: State) -> None:
        """One tick that leaves nothing behind but compiled code."""
        self._write_contacts()
        self._extra[self._core.ANYWAY] = 1.0
        self._q[:], self._v[:] = state.coordinates()
        self._run(state, False, lambda _: None)
        self.forget()

    def solve(
        self,
        state: State,
        tau_before: Array | None,
        hold: Callable[[State], None],
        tick: Callable[[State], Tick],
    ) -> Answer | None:
        """One tick; None where there is no good answer.

        Args:
            state: the robot's state.
            tau_before: (nu,) torques of the tick before, None on the first.
            hold: called if a task has no reference yet, to give it what is found.
            tick: the instant for elements that are asked for their rows.
        """
        core = self._core
        self._write_contacts()
        self._write_fixed()
        extra = self._extra
        extra[core.ANYWAY] = 0.0
        if self._rated:
            extra[core.HAS_BEFORE] = tau_before is not None
            if tau_before is not None:
                self._last_tau[:] = tau_before
        if self._drifts and not self._free:
            extra[core.COM_BIAS : core.COM_SPEED] = state.com_drift
            extra[core.COM_SPEED : core.BEFORE] = state.com_velocity
            self._com_jacobian[:] = state.com_jacobian.T
        self._q[:], self._v[:] = state.coordinates()
        if self._asked:
            hold(state)
            self._others = self._ask(tick(state))
        if self._strict and self._damping == 0.0:
            answer = self._run(state, True, hold)
            if answer is not None and answer.violation <= KEPT and answer.kkt <= KEPT:
                return answer
        answer = self._run(state, False, hold)
        if answer is None or not answer.kkt <= VERIFIED:
            return None
        assert self._used is not None
        solver = self._used[0].solver
        if answer.violation > VIOLATION and not least_violation(solver.levels[0], solver.x):
            return None
        return answer

    def _run(self, state: State, reduced: bool, hold: Callable[[State], None]) -> Answer | None:
        core, memory, key = self._core, state.memory(), (reduced, self._nf)
        shape = self._expected.get(key)
        if shape is None:
            shape = self._find(self._shape)
        while True:
            told = shape.told
            if (
                told[0] is not memory
                or told[1] is not self._work
                or told[2] is not self._others
                or told[3] is not reduced
            ):
                self._tell(shape, memory, reduced)
            outcome = self._assemble(*shape.before)
            if outcome == core.READY:
                break
            if outcome == core.OTHER_SHAPE:
                shape = self._expected[key] = self._find(self._shape)
            elif outcome == core.NOT_GIVEN:
                hold(state)
                self._extra[core.ANYWAY] = 1.0
            else:
                return None
        solver = shape.solver
        solver.run(rank_tolerance=self._tolerance, damping=self._damping)
        if not (solver.ended and solver.kkt <= VERIFIED) and solver.told is not None:
            solver.forget()
            solver.run(rank_tolerance=self._tolerance, damping=self._damping)
        self._used = shape, reduced
        answer = self._answer
        if not self._finish(*shape.after, answer):
            solver.forget()
            return None
        nu = self.robot.nu
        kkt = solver.kkt if solver.ended else np.inf
        solved = nu + self._nf - shape.width
        return Answer(answer.copy(), kkt, self.columns, nu, solver.ranks, solved)

    def _tell(self, shape: Shape, memory: tuple[Array, ...], reduced: bool) -> None:
        """Put together what compiled code is called with: mostly the same arrays, tick by tick."""
        rows = shape.solver.stacked
        shape.told = memory, self._work, self._others, reduced
        written = rows.A, rows.b, rows.C, rows.lower, rows.upper, self._work
        shape.before = (
            *memory, self._com_jacobian, self._q, self._v, self._numbers, self._fixed, self._contacts, self._extra,
            self._others, self._table, self._constants, self._tolerance, reduced, shape.numbers, self._shape, *written,
            self._ints,
        )  # fmt: skip
        head = memory[0], memory[1], shape.solver.x, self._table, self._mass, self._nf, reduced, shape.numbers
        shape.after = *head, *written

    def _find(self, numbers: Any) -> Shape:
        key = numbers.tobytes()
        shape = self._shapes.get(key)
        if shape is None:
            if len(self._shapes) > SHAPES:
                self._shapes.clear()
                self._expected.clear()
            shape = self._shapes[key] = Shape.of(numbers)
        return shape

    def inputs(self, state: State, numbers: Array) -> dict[str, Array]:
        """Copies of what the last tick was told, for `rerun`.

        Args:
            state: that of the tick, made anew.
            numbers: of the motion tasks, as they were.
        """
        assert self._used is not None
        shape, reduced = self._used
        told = shape.solver.told
        arrays: dict[str, Any] = {f"memory_{i}": array for i, array in enumerate(state.memory())}
        arrays |= {"numbers": numbers, "fixed": self._fixed, "contacts": self._contacts, "extra": self._extra}
        arrays |= {"others": self._others, "table": self._table}
        arrays |= {"constants": self._constants, "shape": shape.numbers, "com_jacobian": self._com_jacobian}
        arrays["options"] = np.array([self._mass, self._tolerance, self._damping, reduced, self._nf])
        arrays["sizes"] = np.array([len(self._work), len(self._answer), len(self._ints)])
        if told is not None:
            arrays["told"] = told
        return {name: np.array(array) for name, array in arrays.items()}


def rerun(q: Array, v: Array, inputs: Mapping[str, Array]) -> tuple[Array, Array, Array]:
    """Torques, accelerations and forces of `DenseTick.inputs`, bit for bit those of the tick they are of."""
    from .compiled_answer import finish
    from .compiled_rows import assemble

    memory = [inputs[f"memory_{i}"] for i in range(5)]
    mass, tolerance, damping, reduced, nf = inputs["options"].tolist()
    table, numbers = inputs["table"].astype(np.int64), inputs["shape"].astype(np.int64)
    work, answer, ints = (np.zeros(int(size)) for size in inputs["sizes"])
    solver = Shape.of(numbers).solver
    rows = solver.stacked
    names = ("numbers", "fixed", "contacts", "extra", "others")
    assemble(
        *memory, inputs["com_jacobian"], q.copy(), v.copy(), *(inputs[name] for name in names), table,
        inputs["constants"], tolerance, bool(reduced), numbers, np.zeros_like(numbers), rows.A, rows.b, rows.C,
        rows.lower, rows.upper, work, ints.astype(np.int64),
    )  # fmt: skip
    if "told" in inputs:
        solver.memory = inputs["told"].astype(np.int8)
    y = solver.run(rank_tolerance=tolerance, damping=damping)
    finish(
        memory[0], memory[1], y, table, mass, int(nf), bool(reduced), numbers, rows.A, rows.b, rows.C, rows.lower,
        rows.upper, work, answer,
    )  # fmt: skip
    nu, nv = int(table[2]), len(v)
    cut = HEAD + nu
    return answer[HEAD:cut], answer[cut : cut + nv], answer[cut + nv :]


def _live(e: Element, to: Array) -> list[tuple[Element, str, Array]]:
    """What of a constraint may change between ticks, and where it goes."""
    if isinstance(e, JointBounds):
        nu = len(e.index)
        parts = [to[i : i + 1] for i in range(3)] + [to[3 + i * nu : 3 + (i + 1) * nu] for i in range(4)]
        names = ("horizon", "recovery", "viability", "lower", "upper", "velocity", "acceleration")
        return [(e, name, part) for name, part in zip(names, parts, strict=True)]
    kinds: dict[type, str] = {ContactMotion: "damping", TorqueLimits: "limits", TorqueRate: "rate"}
    name = kinds.get(type(e))
    return [] if name is None else [(e, name, to)]


def _encoded(rows: Rows, level: int, nv: int, nf: int, nu: int) -> Array:
    out = np.zeros((rows.size, 4 + nv + nf + nu))
    out[:, 0], out[:, 1], out[:, 2] = level, rows.lower, rows.upper
    out[:, 3] = 1.0 if rows.weights is None else rows.weights
    at = 4
    for part, size in ((rows.acceleration, nv), (rows.force, nf), (rows.torque, nu)):
        if part is not None:
            out[:, at : at + size] = part
        at += size
    return out
