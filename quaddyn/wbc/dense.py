"""`DenseTick`: the dense path of any robot, compiled: it says in microseconds what plain matrices say.

Elements that it does not know are asked for their rows, which join those that it writes itself.  Where it has no good
answer it has none, and the ladder of `quaddyn.wbc.solving` decides.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy import empty

from ..dynamics import State
from ..hierarchy import Buffers
from ..urdf.tree import Array
from .contacts import Changes
from .dense_answer import Answer, Parting
from .dense_numbers import Numbers
from .dense_program import Program
from .parts import Parts
from .solving import least_violation
from .tick import Rows, Tick

#: To be carved in order to learn how much is taken of it.
ENDLESS = np.broadcast_to(0.0, 2**40)


class DenseTick:
    """Everything that compiled ticks of one controller share.

    Args:
        parts: of the controller.
        changes: counts what is set on contacts.

    Attributes:
        numbers: what ticks are told, such as the contacts.
        said: rows of elements that were asked for them, by name.
    """

    def __init__(self, parts: Parts, changes: Changes) -> None:
        from . import compiled_dense, compiled_memory  # they import numba

        self._core, self._memory, self._tick = compiled_dense, compiled_memory, compiled_dense.tick
        self._parts = parts
        self._program = Program(parts)
        self.numbers = Numbers(parts, self._program, changes)
        self._beforehand = self._program.strict and parts.solver.damping == 0.0
        self.said: dict[str, list[Rows]] = {}
        self._arguments: tuple[Any, ...] | None
        self._seen: tuple[Array, ...] = ()
        self._make_room(0)

    def _make_room(self, others: int) -> None:
        """Memory for all contacts at once, and for so many rows of elements that are asked for them."""
        robot, table, memory = self._parts.robot, self._program.table, self._memory
        nv, nu, K = robot.nv, robot.nu, len(self._parts.levels.elements)
        nf = sum(settings.size for settings in self._parts.settings.values())
        most, limits = (size + others for size in self._program.most(nf))
        table[memory.MOST], table[memory.LIMITS] = most, limits
        n = nu + nf + 1
        *_, at = memory.kept(ENDLESS, nv, nu, nf)
        *_, at = memory.seen(ENDLESS, at, nv, robot.model.njoints, int(table[memory.FRAMES]))
        *_, at = memory.mapping(ENDLESS, at, nv, nu, nf)
        *_, at = memory.rows(ENDLESS, at + 8 * (nv - nu), n, most, limits)
        *_, at = memory.solving(ENDLESS, at, n, limits, K)
        floats, ints = memory.solver_work(n, most + limits, limits, K)
        self._floats = np.zeros(at + floats)
        *_, at = memory.integers(ENDLESS, len(self._parts.settings), nf, K)
        self._ints = np.zeros(at + ints, dtype=np.int64)
        self._sets = np.zeros((4, (K + 1) * limits), dtype=np.int8)
        self._room = others
        self._arrange(self.numbers.forces)

    def _arrange(self, nf: int) -> None:
        """For so many forces."""
        robot = self._parts.robot
        self._forces, self._parting = nf, Parting.of(robot.nu, robot.nv, nf, len(self._parts.levels.elements))
        self._size = self._parting.ranks.stop + len(self._parts.levels.numbers)
        self._others = np.zeros((self._room, 4 + robot.nv + nf + robot.nu))
        self._arguments = None

    def _ask(self, tick: Tick) -> None:
        """Rows of elements that compiled code does not know."""
        nu, nv, nf = self._parts.robot.nu, self._parts.robot.nv, self._forces
        blocks = [np.zeros((0, 4 + nv + nf + nu))]
        self.said = {element.name: self._parts.levels.ask(element, tick) for _, element in self._program.asked}
        for level, element in self._program.asked:
            blocks += [_encoded(rows, level, nv, nf, nu) for rows in self.said[element.name]]
        others = np.concatenate(blocks)
        if len(others) != self._room:
            self._make_room(len(others))
        self._others[:] = others

    def forget(self) -> None:
        """Start cold."""
        good = self._memory.GOOD
        self._ints[good : good + 2] = 0

    def rehearse(self, state: State) -> None:
        """One tick that leaves nothing behind but compiled code."""
        self._write(state, None)
        told = self._parts.levels.numbers.copy()
        self._run(state, *state.coordinates())
        self._parts.levels.numbers[:] = told
        self.forget()

    def solve(
        self,
        state: State,
        q: Array,
        v: Array,
        before: Array | None,
        hold: Callable[[State], None],
        tick: Callable[[State], Tick],
    ) -> Answer | None:
        """One tick; None where there is no good answer.

        Args:
            state: the robot's state.
            q: its configuration.
            v: its velocity.
            before: (nu,) torques of the tick before, None on the first.
            hold: gives tasks that have no reference yet what is found, called before elements are asked.
            tick: the instant for elements that are asked for their rows.
        """
        core = self._core
        self._write(state, before)
        if self._program.asked:
            if np.isnan(self._parts.levels.numbers).any():
                return None
            hold(state)
            self._ask(tick(state))
        outcome, answer = self._run(state, q, v)
        if outcome == core.SOLVED or (outcome == core.VIOLATED and self._least()):
            return Answer(answer, self.numbers.columns, self._parting)
        return None

    def _write(self, state: State, before: Array | None) -> None:
        self.numbers.write(state, before)
        if self.numbers.forces != self._forces:
            self._arrange(self.numbers.forces)

    def _run(self, state: State, q: Array, v: Array) -> tuple[int, Array]:
        memory = state.kinematics()
        if self._arguments is None or self._seen is not memory:  # mostly the same arrays, tick by tick
            program, self._seen = self._program, memory
            self._arguments = (
                self._parts.levels.numbers, self.numbers.block, self._others, program.table, program.constants,
                self._beforehand, self._sets, self._floats, self._ints,
            )  # fmt: skip
        answer = empty(self._size)
        return self._tick(*memory, q, v, *self._arguments, answer), answer

    def _least(self) -> bool:
        """Whether no other answer violates level 0 less than the last one."""
        memory, table = self._memory, self._program.table
        K, nf = len(self._parts.levels.elements), self._forces
        at, n = (int(self._ints[i]) for i in (memory.ROWS_AT, memory.UNKNOWNS))
        A, b, w, C, lower, upper, end = memory.rows(self._floats, at, n, *map(int, table[memory.MOST : memory.HEADS]))
        _, ms, ps, _, _, _, _ = memory.integers(self._ints, len(self._parts.settings), nf, K)
        x, *_ = memory.solving(self._floats, end, n, int(ps[K]), K)
        m, p = int(ms[1]), int(ps[1])
        return least_violation(Buffers(A[:m], b[:m], w[:m], C[:p], lower[:p], upper[:p]), x)

    def inputs(self, state: State, numbers: Array) -> dict[str, Array]:
        """Copies of what the last tick was told, for `rerun`.

        Args:
            state: that of the tick, made anew.
            numbers: of the elements, as they were.
        """
        program = self._program
        arrays: dict[str, Any] = {f"memory_{i}": array for i, array in enumerate(state.kinematics())}
        arrays |= {"numbers": numbers, "told": self.numbers.block, "others": self._others, "table": program.table}
        arrays |= {"constants": program.constants, "beforehand": self._beforehand, "sets": self._sets}
        *_, header = self._memory.integers(ENDLESS, len(self._parts.settings), 0, len(self._parts.levels.elements))
        arrays |= {"header": self._ints[:header], "nf": self._forces}
        arrays["sizes"] = np.array([len(self._floats), len(self._ints), self._size])
        return {name: np.array(array) for name, array in arrays.items()}


def rerun(q: Array, v: Array, inputs: Mapping[str, Array]) -> tuple[Array, Array, Array]:
    """Torques, accelerations and forces of `DenseTick.inputs`, bit for bit those of the tick they are of."""
    from . import compiled_memory as memory
    from .compiled_dense import tick

    floats, ints, answer = (np.zeros(int(size)) for size in inputs["sizes"])
    table, header, sets = inputs["table"].astype(np.int64), inputs["header"], inputs["sets"].astype(np.int8)
    N = ints.astype(np.int64)
    N[: len(header)] = header
    N[memory.GOOD : memory.GOOD + 2] = header[memory.TOLD : memory.TOLD + 2]
    sets[1::2] = sets[::2]
    tick(
        *(inputs[f"memory_{i}"] for i in range(2)), q.copy(), v.copy(),
        *(inputs[name] for name in ("numbers", "told", "others")), table, inputs["constants"],
        bool(inputs["beforehand"]), sets, floats, N, answer,
    )  # fmt: skip
    nu, nv, nf = int(table[memory.ACTUATED]), int(table[memory.ACTUATED] + table[memory.PASSIVE]), int(inputs["nf"])
    result = Answer(answer, {}, Parting.of(nu, nv, nf, int(table[memory.LEVELS])))
    return result.tau, result.acceleration, result.stacked


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
