"""Allocation of the data of ticks: arrays of the records of `quaddyn.wbc.tick_data`."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..compiler import LANE_WIDTH
from ..compiler.linalg import aligned
from ..dynamics.state_terms import AnyTerms
from ..hierarchy.problem import SUMMARY_SIZE
from ..hierarchy.workspace import make_workspace
from ..urdf.tree import Array
from .constraints.capsule_segments import MIDDLES
from .constraints.distance_rows import NEAR
from .constraints.joint_screws import SCREWS
from .constraints.segment_motion import SEGMENT
from .controller_model import MAX_LIMB_JOINTS, Tables
from .element_codes import COLLISION_LIMITS
from .problem_rows import CODE, SIZE
from .tick_data import (
    ContactPointData,
    ContactStateData,
    RigidBodyTerms,
    RowBuffer,
    TickData,
    TickInputData,
    TickScratch,
    WorkingSetMemory,
    stride,
)

#: Number of entries of a custom row before its coefficients.
CUSTOM_HEAD = 6


def _ints(*shape: int) -> Any:
    return np.zeros(shape, dtype=np.int64)


def make_terms(terms: AnyTerms, frames: tuple[str, ...]) -> RigidBodyTerms:
    """Returns views of a new vector of rigid-body terms."""
    layout = terms.layout
    values = np.zeros(layout.size)
    views, nv = layout.views(values), layout.nv

    def view(name: str, *shape: int) -> Array:
        found: Array = views.get(name, np.zeros(shape))
        return found

    starts = [layout.frames[name].rotation for name in frames]
    return RigidBodyTerms(
        view("M", nv, nv), view("h", nv), view("com", 3), view("com_velocity", 3), view("com_jacobian", 0, nv),
        view("com_drift", 0), view("momentum", 0), view("momentum_matrix", 0, nv), view("momentum_drift", 0), values,
        np.array([*starts, 0], dtype=np.int64),
    )  # fmt: skip


def make_contacts(count: int, rows: int) -> ContactStateData:
    """Returns data of `count` contacts, with cones of up to `rows` rows."""
    parts: list[Any] = [np.zeros(count), np.zeros(count), *(_ints(count) for _ in range(7))]
    parts += [np.zeros(count) for _ in range(7)]
    parts += [*(np.zeros((count, 3)) for _ in range(3)), np.zeros((count, rows, 6))]
    return ContactStateData(*parts)


def make_points(count: int, nv: int) -> ContactPointData:
    """Returns data of the points of `count` contacts."""
    return ContactPointData(
        _ints(count), _ints(count), _ints(count), np.zeros((count, 6, stride(nv))), np.zeros((count, 6)),
        np.zeros((count, 6)),
    )  # fmt: skip


def make_inputs(tables: Tables, numbers: Array, contacts: int, nv: int, nu: int, custom: int) -> TickInputData:
    """Returns inputs, with a buffer for `custom` custom rows."""
    width = CUSTOM_HEAD + nv + 6 * contacts + nu
    return TickInputData(
        numbers, _ints(1), np.zeros(nu), np.zeros((len(tables.force_tasks), contacts, 8)), np.zeros((custom, width))
    )


def make_rows(tables: Tables, n: int, custom: int) -> RowBuffer:
    """Returns row buffers for up to n unknowns."""
    m, p, wide = tables.most_rows + custom + 1, tables.most_limits + custom + 1, stride(n + 1)
    K = tables.model.levels
    return RowBuffer(
        aligned(m, wide), np.zeros(m), np.zeros(m), np.zeros(m), _ints(m, 3), aligned(p, wide), np.zeros(p),
        np.zeros(p), np.zeros(p), np.zeros(p), _ints(p, 3), _ints(2), _ints(K + 2), _ints(K + 2), _ints(1),
    )  # fmt: skip


def make_work(tables: Tables, contacts: int, n: int, nv: int, nu: int, custom: int) -> TickScratch:
    """Returns scratch arrays for up to n unknowns."""
    free, wide, nf = nv - nu, stride(n + 1), stride(6 * contacts + 1)
    m, p, K = tables.most_rows + custom + 1, tables.most_limits + custom + 1, tables.model.levels + 1
    capsules = tables.model.items[tables.model.items[:, CODE] == COLLISION_LIMITS, SIZE]
    return TickScratch(
        acceleration=aligned(nv, wide),
        torque=aligned(nu, wide),
        acceleration_length=np.zeros(nv),
        torque_length=np.zeros(nu),
        force=_ints(contacts),
        joint=_ints(nv),
        base=aligned(free, stride(free + 1)),
        right=aligned(free, wide),
        limb=aligned(contacts, MAX_LIMB_JOINTS, stride(free + 1)),
        limb_free=np.zeros((contacts, MAX_LIMB_JOINTS, MAX_LIMB_JOINTS)),
        limb_left=np.zeros((contacts, MAX_LIMB_JOINTS, MAX_LIMB_JOINTS)),
        limb_inverse=np.zeros((contacts, MAX_LIMB_JOINTS, MAX_LIMB_JOINTS)),
        limb_work=np.zeros((3, MAX_LIMB_JOINTS, MAX_LIMB_JOINTS)),
        limb_unknown=_ints(contacts),
        left=aligned(wide, nf),
        left_value=np.zeros(nf),
        null=aligned(wide, wide),
        reflectors=aligned(nf, wide + LANE_WIDTH),
        scratch_rows=aligned(4, max(wide, nf, stride(nv))),
        order=_ints(max(nf, nv)),
        J=np.zeros((6, stride(nv))),
        J_other=np.zeros((6, max(6, stride(nv)))),
        task_state=np.zeros((3, 6)),
        matrix3=np.zeros((3, 3)),
        vectors=aligned(8, max(24, stride(nv))),
        segments=np.zeros((max([1, *capsules.tolist()]), SEGMENT)),
        midpoints=aligned(MIDDLES, stride(max([1, *capsules.tolist()]) + LANE_WIDTH)),
        screws=aligned(SCREWS, stride(nv + LANE_WIDTH)),
        pair_queue=_ints(NEAR),
        bias=aligned(stride(nv)),
        all_velocities=np.arange(nv, dtype=np.int64),
        u=aligned(wide + LANE_WIDTH),
        unknowns=aligned(wide + LANE_WIDTH),
        row_values=np.zeros(max(m, p)),
        ranks=np.zeros(K + 1),
        kkt=np.zeros(K + 1),
        summary=np.zeros(SUMMARY_SIZE),
        multipliers=np.zeros((K + 1) * p),
        solver=make_workspace(n, m, p, K),
    )


def make_memory(tables: Tables, custom: int) -> WorkingSetMemory:
    """Returns the working sets of a first tick."""
    K = tables.model.levels + 1
    sets = [np.zeros((K + 1) * (tables.most_limits + custom + 1), dtype=np.int8) for _ in range(4)]
    return WorkingSetMemory(_ints(2), _ints(3), _ints(1), _ints(2, K + 1), *sets)


def make_data(
    tables: Tables, terms: RigidBodyTerms, contacts: ContactStateData, inputs: TickInputData, n: int
) -> TickData:
    """Returns the data of a first tick: these records, and new buffers for up to n unknowns."""
    count, nv, nu, custom = len(contacts.size), len(terms.h), len(tables.model.actuated), len(inputs.custom_rows)
    return TickData(
        tables.model, terms, contacts, make_points(count, nv), inputs, make_rows(tables, n, custom),
        make_work(tables, count, n, nv, nu, custom), make_memory(tables, custom),
    )  # fmt: skip
