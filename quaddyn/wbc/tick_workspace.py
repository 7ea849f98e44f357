"""Allocation of the data of ticks: arrays of the records of `quaddyn.wbc.tick_data`."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..compiler import LANE_WIDTH
from ..compiler.linalg import aligned
from ..dynamics.state_terms import AnyTerms
from ..hierarchy.problem import SolutionSummary
from ..hierarchy.workspace import make_workspace
from ..urdf.tree import Array
from .collision_data import make_collision_scratch
from .constraints import CollisionLimits
from .controller_model import MAX_LIMB_JOINTS, ControllerTables
from .row_writing import CUSTOM_ROW_HEADER_SIZE
from .tick_data import (
    ContactPointData,
    ContactStateData,
    PreviousTick,
    RigidBodyTerms,
    RowBuffer,
    TickData,
    TickInputData,
    TickScratch,
    WorkingSetMemory,
    padded_length,
)


def _int_zeros(*shape: int) -> Any:
    """Returns an array of integer zeros."""
    return np.zeros(shape, dtype=np.int64)


def make_terms(terms: AnyTerms, frames: tuple[str, ...]) -> RigidBodyTerms:
    """Returns views of a new vector of rigid-body terms."""
    layout = terms.layout
    values = np.zeros(layout.size)
    views, nv = layout.views(values), layout.nv

    def view(name: str, *shape: int) -> Array:
        """Returns the view of a term, or zeros if the robot does not need it."""
        term: Array = views.get(name, np.zeros(shape))
        return term

    starts = [layout.frames[name].rotation for name in frames]
    return RigidBodyTerms(
        view("M", nv, nv), view("h", nv), view("com", 3), view("com_velocity", 3), view("com_jacobian", 0, nv),
        view("com_drift", 0), view("momentum", 0), view("momentum_matrix", 0, nv), view("momentum_drift", 0), values,
        np.array([*starts, 0], dtype=np.int64),
    )  # fmt: skip


def make_contacts(count: int, rows: int) -> ContactStateData:
    """Returns data of `count` contacts, with cones of up to `rows` rows."""
    parts: list[Any] = [np.zeros(count), np.zeros(count), *(_int_zeros(count) for _ in range(7))]
    parts += [np.zeros(count) for _ in range(7)]
    parts += [*(np.zeros((count, 3)) for _ in range(3)), np.zeros((count, rows, 6))]
    return ContactStateData(*parts)


def make_points(count: int, nv: int) -> ContactPointData:
    """Returns data of the points of `count` contacts."""
    return ContactPointData(
        _int_zeros(count), _int_zeros(count), _int_zeros(count), np.zeros((count, 6, padded_length(nv))),
        np.zeros((count, 6)), np.zeros((count, 6)),
    )  # fmt: skip


def make_inputs(
    tables: ControllerTables, parameters: Array, contacts: int, nv: int, nu: int, custom: int
) -> TickInputData:
    """Returns inputs, with a buffer for `custom` custom rows."""
    width = CUSTOM_ROW_HEADER_SIZE + nv + 6 * contacts + nu
    return TickInputData(
        parameters,
        PreviousTick.allocate(torque=nu),
        np.zeros((len(tables.force_tasks), contacts, 8)),
        np.zeros((custom, width)),
    )


def make_rows(tables: ControllerTables, n: int, custom: int) -> RowBuffer:
    """Returns row buffers for up to n unknowns."""
    m, p, row_length = tables.max_equality_rows + custom + 1, tables.max_limit_rows + custom + 1, padded_length(n + 1)
    K = tables.model.levels
    return RowBuffer.allocate(
        A=(m, row_length), b=m, A_length=m, A_weight=m, A_source=(m, 3),
        C=(p, row_length), lower=p, upper=p, C_length=p, C_weight=p, C_source=(p, 3), A_start=K + 2, C_start=K + 2,
    )  # fmt: skip


def make_scratch(tables: ControllerTables, contacts: int, n: int, nv: int, nu: int, custom: int) -> TickScratch:
    """Returns scratch arrays for up to n unknowns."""
    n_passive, row_length, force_length = nv - nu, padded_length(n + 1), padded_length(6 * contacts + 1)
    m, p, K = tables.max_equality_rows + custom + 1, tables.max_limit_rows + custom + 1, tables.model.levels + 1
    elements = tables.model.elements
    capsules = elements.size[elements.code == CollisionLimits.kind.code]
    return TickScratch(
        acceleration=aligned(nv, row_length),
        torque=aligned(nu, row_length),
        acceleration_length=np.zeros(nv),
        torque_length=np.zeros(nu),
        force=_int_zeros(contacts),
        joint_unknown=_int_zeros(nv),
        passive_matrix=aligned(n_passive, padded_length(n_passive + 1)),
        passive_rhs=aligned(n_passive, row_length),
        limb_map=aligned(contacts, MAX_LIMB_JOINTS, padded_length(n_passive + 1)),
        limb_redundancy=np.zeros((contacts, MAX_LIMB_JOINTS, MAX_LIMB_JOINTS)),
        limb_leftover=np.zeros((contacts, MAX_LIMB_JOINTS, MAX_LIMB_JOINTS)),
        limb_inverse=np.zeros((contacts, MAX_LIMB_JOINTS, MAX_LIMB_JOINTS)),
        limb_scratch=np.zeros((3, MAX_LIMB_JOINTS, MAX_LIMB_JOINTS)),
        limb_unknown=_int_zeros(contacts),
        leftover_columns=aligned(row_length, force_length),
        leftover_targets=np.zeros(force_length),
        null_space_map=aligned(row_length, row_length),
        reflectors=aligned(force_length, row_length + LANE_WIDTH),
        scratch_rows=aligned(4, max(row_length, force_length, padded_length(nv))),
        permutation=_int_zeros(max(force_length, nv)),
        J=np.zeros((6, padded_length(nv))),
        J_other=np.zeros((6, max(6, padded_length(nv)))),
        task_state=np.zeros((3, 6)),
        matrix3=np.zeros((3, 3)),
        vectors=aligned(8, max(24, padded_length(nv))),
        collisions=make_collision_scratch(max([1, *capsules.tolist()]), nv),
        bias=aligned(padded_length(nv)),
        all_velocities=np.arange(nv, dtype=np.int64),
        full_unknowns=aligned(row_length + LANE_WIDTH),
        unknowns=aligned(row_length + LANE_WIDTH),
        row_values=np.zeros(max(m, p)),
        ranks=np.zeros(K + 1),
        kkt=np.zeros(K + 1),
        summary=SolutionSummary.allocate(),
        multipliers=np.zeros((K + 1) * p),
        solver=make_workspace(n, m, p, K),
    )


def make_memory(tables: ControllerTables, custom: int) -> WorkingSetMemory:
    """Returns the working sets of a first tick."""
    K = tables.model.levels + 2
    size = K * (tables.max_limit_rows + custom + 1)
    shapes = {"limit_starts": K, "previous": size, "current": size}
    return WorkingSetMemory.allocate(eliminated=shapes, as_rows=shapes)


def make_data(
    tables: ControllerTables, terms: RigidBodyTerms, contacts: ContactStateData, inputs: TickInputData, n: int
) -> TickData:
    """Returns the data of a first tick: these records, and new buffers for up to n unknowns."""
    count, nv, nu, custom = len(contacts.size), len(terms.h), len(tables.model.actuated), len(inputs.custom_rows)
    return TickData(
        tables.model, terms, contacts, make_points(count, nv), inputs, make_rows(tables, n, custom),
        make_scratch(tables, count, n, nv, nu, custom), make_memory(tables, custom),
    )  # fmt: skip
