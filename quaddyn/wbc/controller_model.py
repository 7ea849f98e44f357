"""`build_model`: the tables of robot, elements and contacts that a compiled tick reads.

The module also allocates the data of ticks, the arrays of the records of `quaddyn.wbc.tick_data`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..compiler import LANE_WIDTH
from ..compiler.linalg import aligned
from ..dynamics.state_terms import AnyTerms
from ..errors import ArgumentError
from ..hierarchy.workspace import HierarchyWorkspace, SolutionSummary, make_workspace
from ..robot.robot import Robot
from ..urdf.tree import Array
from .collision_data import make_collision_scratch
from .constraints import CollisionLimits, ContactMotion, FrictionPyramid
from .contact_settings import ContactSettings
from .element import CUSTOM, Element, Layout, ReferenceResolver, RowCounts, Scales
from .elements import ELEMENT_CLASSES, Levels
from .row_writing import CUSTOM_ROW_HEADER_SIZE
from .tasks import FootTask, ForceTask
from .tick_data import (
    ContactPointData,
    ContactStateData,
    ControllerModel,
    ElementTable,
    PreviousTick,
    RigidBodyTerms,
    RowBuffer,
    TickData,
    TickInputData,
    TickScratch,
    WorkingSetMemory,
    padded_length,
)

#: Largest number of joints of a limb that is eliminated.
MAX_LIMB_JOINTS = 8


@dataclass(frozen=True, slots=True, eq=False)
class ControllerTables:
    """Tables of a controller: the model for compiled code, and further tables for Python.

    Attributes:
        model: model for compiled code.
        frames: names of the frames whose terms are needed, in the order of `ControllerModel.chains`.
        contact_frames: index of the frame of each contact.
        foot_task_indices: for each contact, the index of the foot task of the same foot, or -1.
        force_tasks: force tasks, in the order of their references.
        custom_elements: elements whose rows are computed in Python, with their indices.
        momentum: whether a task reads terms of the momentum.
        max_equality_rows: largest number of equalities of all levels, including those of the minimum norm.
        max_level_equalities: largest number of equalities of one level, with those of contacts that are ramped.
        max_level_rows: largest number of rows of one level, with one for each unknown from the limits of levels above.
        max_limit_rows: largest number of limits of all levels.
        max_cone_rows: largest number of rows of a contact's friction cone.
    """

    model: ControllerModel
    frames: tuple[str, ...]
    contact_frames: tuple[int, ...]
    foot_task_indices: tuple[int, ...]
    force_tasks: tuple[ForceTask, ...]
    custom_elements: tuple[tuple[int, Element], ...]
    momentum: bool
    max_equality_rows: int
    max_level_equalities: int
    max_level_rows: int
    max_limit_rows: int
    max_cone_rows: int


#: Methods that define the rows of an element: if a derived class overrides one, its rows are computed in Python.
ROW_DEFINING_METHODS = (
    "rows",
    "position",
    "error",
    "velocity",
    "jacobian",
    "drift",
    "desired",
    "set_reference_from_state",
)


def has_compiled_rows(element: Element) -> bool:
    """Returns whether the rows of an element are compiled: its class is built in, or derived with the same rows."""
    kind = type(element)
    built_in = next(base for base in kind.__mro__ if f"{base.__module__}.".startswith(f"{__package__}."))
    has_same_methods = all(getattr(kind, name, None) is getattr(built_in, name, None) for name in ROW_DEFINING_METHODS)
    return element.kind is not CUSTOM and has_same_methods


def build_model(
    robot: Robot,
    levels: Levels,
    contacts: Mapping[str, ContactSettings],
    *,
    scales: Scales,
    dt: float,
    rank_tolerance: float,
    damping: float,
) -> ControllerTables:
    """Builds the tables of a controller.

    Args:
        robot: the robot.
        levels: elements of the controller.
        contacts: contacts by name.
        scales: natural units of the robot.
        dt: control period [s].
        rank_tolerance: relative tolerance below which directions are treated as linearly dependent.
        damping: damping of the solver.
    """
    references = ReferenceResolver(robot, tuple(contacts.values()))
    contact_frames = tuple(references.add_frame(settings.frame) for settings in contacts.values())
    leveled_elements = [(level, e) for level, elements in enumerate(levels.elements) for e in elements]
    items = []
    for level, e in leveled_elements:
        kind = e.kind if has_compiled_rows(e) else CUSTOM
        if kind.code not in ELEMENT_CLASSES:
            raise ArgumentError(
                f"{e.name}: no tick would write its rows; export {type(e).__name__} from quaddyn.wbc.tasks or "
                "quaddyn.wbc.constraints, where kinds of elements are found"
            )
        items.append((level, kind.code, levels.first_parameter[e.name], len(e.labels), *e.bind(references)))
    custom = tuple((i, e) for i, (_, e) in enumerate(leveled_elements) if not has_compiled_rows(e))
    foot_task_by_name = {
        e.name: i
        for i, (_, e) in enumerate(leveled_elements)
        if isinstance(e, FootTask) and type(e).rows is FootTask.rows
    }
    foot_tasks = levels.foot_tasks(contacts)
    foot_task_indices = tuple(
        foot_task_by_name.get(foot_tasks[name].name, -1) if name in foot_tasks else -1 for name in contacts
    )
    contact_motion = next(
        (e for _, e in leveled_elements if isinstance(e, ContactMotion) and has_compiled_rows(e)), None
    )
    faces = next((e.faces for _, e in leveled_elements if isinstance(e, FrictionPyramid) and has_compiled_rows(e)), 0)
    passive = np.setdiff1d(np.arange(robot.nv), robot.actuated_index)
    slot = np.zeros(robot.nv, dtype=np.int64)
    slot[passive] = np.arange(len(passive))
    slot[robot.actuated_index] = -2 - np.arange(robot.nu)
    pin_model = robot.model
    has_single_base = (
        robot.root == "free" and sum(p == 0 for p in pin_model.parents) == 2
    )  # the joints of the world and of the base
    model = ControllerModel(
        mass=float(scales.mass),
        total_mass=float(sum(inertia.mass for inertia in pin_model.inertias[1:])),
        length=float(scales.length),
        period=float(dt),
        floating=has_single_base,
        faces=int(faces),
        rank_tolerance=float(rank_tolerance),
        damping=float(damping),
        contact_motion_start=-1 if contact_motion is None else levels.first_parameter[contact_motion.name],
        has_strict_contacts=contact_motion is not None and contact_motion in levels.elements[0] and damping == 0.0,
        levels=len(levels.elements),
        gravity=np.array(pin_model.gravity.linear, dtype=np.float64),
        passive=passive.astype(np.int64),
        actuated=np.asarray(robot.actuated_index, dtype=np.int64),
        slot=slot,
        chains=_make_chains(robot, references.frame_ids),
        limbs=_find_limbs([_find_chain(robot, references.frame_ids[f]) for f in contact_frames], contacts, slot),
        couplings=_find_couplings(robot),
        elements=ElementTable(*np.array(items, dtype=np.int64).reshape(-1, 6).T.copy()),
        index=np.array([*references.entries, 0], dtype=np.int64),
    )
    n_forces, cone_rows = (
        sum(settings.size for settings in contacts.values()),
        max_cone_row_count(model.faces, contacts.values()),
    )
    counts = RowCounts(
        0, robot.nq, robot.nv, robot.nu, len(references.frames), len(contacts), len(references.force_tasks),
        len(model.index), n_forces, len(contacts) * cone_rows,
    )  # fmt: skip
    force_tasks = tuple(e for e in references.force_tasks if isinstance(e, ForceTask))
    layouts, (level_equalities, level_limits) = list[Layout](), np.zeros((2, len(levels.elements) + 1), dtype=np.int64)
    for (level, e), item in zip(leveled_elements, items, strict=True):
        if has_compiled_rows(e):
            layouts.append(_checked_layout(e, counts, item))
            level_equalities[level] += layouts[-1].equalities
            level_limits[level] += layouts[-1].limits
    level_equalities[-1] = min_norm_row_count(counts)
    level_rows = level_equalities + level_limits
    level_rows += np.minimum(np.cumsum(level_limits) - level_limits, min_norm_row_count(counts))
    level_rows[min(1, model.levels - 1) :] += n_forces  # no contact is ramped on level 0, unless it is the only level
    equalities, limits = max_row_counts(layouts, counts)
    return ControllerTables(
        model, tuple(references.frames), contact_frames, foot_task_indices, force_tasks, custom,
        any(layout.momentum for layout in layouts), equalities,
        int(level_equalities.max()) + n_forces, int(level_rows.max()), limits, cone_rows,
    )  # fmt: skip


def max_cone_row_count(faces: int, contacts: Iterable[ContactSettings]) -> int:
    """Returns the largest number of rows of a contact's friction cone, at least 1."""
    return max([1, *(s.max_cone_rows if s.contact.kind == "surface" else faces + 1 for s in contacts)])


def _checked_layout(e: Element, counts: RowCounts, item: Sequence[int]) -> Layout:
    """Returns the numbers of rows, parameters and list entries that an element declares, after a check against it.

    Raises:
        ArgumentError: the layout does not fit the element.  Compiled code, which checks no indices, would read the
            parameters of other elements.
    """
    layout = e.declare_layout(counts._replace(rows=len(e.labels)))
    rows, parameters, problem = len(e.labels), len(e.block), layout.describe_invalid_reference(*item[-2:])
    if (layout.rows, layout.parameter_count) != (rows, parameters):
        problem = f"expected {layout.rows} rows and {layout.parameter_count} parameters, got {rows} and {parameters}"
    if problem:
        raise ArgumentError(
            f"{e.name}: the layout that {type(e).__name__}.declare_layout returns does not fit the element: {problem}"
        )
    return layout


def _find_chain(robot: Robot, frame: int) -> list[int]:
    """Returns the indices of the velocities that move a frame, ascending."""
    model = robot.model
    supports = model.supports[model.frames[frame].parentJoint]
    entries = [model.idx_vs[j] + k for j in supports for k in range(model.nvs[j])]
    return sorted(entries) if robot.coupling is None else robot.coupling.chain(entries)


def _make_chains(robot: Robot, frames: Sequence[int]) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    """Returns, per frame, the number of the velocities that move it, then their indices (frames, 1 + nv)."""
    out = np.zeros((max(1, len(frames)), 1 + robot.nv), dtype=np.int64)
    for i, frame in enumerate(frames):
        chain = _find_chain(robot, frame)
        out[i, 0], out[i, 1 : 1 + len(chain)] = len(chain), chain
    return out


def _find_limbs(chains: Sequence[list[int]], contacts: Mapping[str, ContactSettings], slot: np.ndarray) -> np.ndarray:
    """Returns for each contact the number of its joints and their velocity indices (contacts, 1 + MAX_LIMB_JOINTS).

    The number is 0 for a contact that shares a joint with another one, or has too many joints.
    """
    out = np.zeros((max(1, len(contacts)), 1 + MAX_LIMB_JOINTS), dtype=np.int64)
    for c, (chain, settings) in enumerate(zip(chains, contacts.values(), strict=True)):
        joints = [j for j in chain if slot[j] < 0]
        other_joints = {j for o, other in enumerate(chains) if o != c for j in other}
        if (
            0 < len(joints) <= MAX_LIMB_JOINTS
            and settings.size <= MAX_LIMB_JOINTS
            and not other_joints.intersection(joints)
        ):
            out[c, 0], out[c, 1 : 1 + len(joints)] = len(joints), joints
    return out


def _find_couplings(robot: Robot) -> np.ndarray:
    """Returns `ControllerModel.couplings`: velocities between the root and the joint of a motor, and beyond it."""
    model = robot.model
    joint = {model.idx_vs[j] + k: j for j in range(1, model.njoints) for k in range(model.nvs[j])}
    supports = {
        v: {model.idx_vs[i] + k for i in model.supports[j] for k in range(model.nvs[i])} for v, j in joint.items()
    }
    out = np.zeros((robot.nu, 1 + robot.nv), dtype=np.int64)
    for row, v in zip(out, robot.actuated_index, strict=True):
        driven = {int(v)} if robot.coupling is None else {w for w in joint if int(v) in robot.coupling.chain([w])}
        coupled = sorted(w for w in joint if any(w in supports[u] or u in supports[w] for u in driven))
        coupled = coupled if robot.coupling is None else robot.coupling.chain(coupled)
        row[0], row[1 : 1 + len(coupled)] = len(coupled), coupled
    return out


def min_norm_row_count(counts: RowCounts) -> int:
    """Returns the number of rows of the minimum norm, the level below the others."""
    return counts.nu + counts.forces


def max_row_counts(layouts: Sequence[Layout], counts: RowCounts) -> tuple[int, int]:
    """Returns the largest numbers of equalities and limits of a tick, without rows that are computed in Python.

    Args:
        layouts: layouts of all elements.
        counts: sizes of the controller.
    """
    ramped_contact_rows = counts.forces
    equalities = ramped_contact_rows + min_norm_row_count(counts) + sum(layout.equalities for layout in layouts)
    return equalities, sum(layout.limits for layout in layouts)


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
    n_passive, row_length, force_length = nv - nu, padded_length(n + 1), padded_length(n - nu + 1)
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
        null_space_map=aligned(n + 1, row_length),
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
        solver=make_solver_workspace(tables, n, custom),
    )


def make_solver_workspace(
    tables: ControllerTables, n: int, custom: int, *, is_compact: bool = False
) -> HierarchyWorkspace:
    """Returns the workspace of the solver for up to n unknowns; `is_compact` is for lanes on a GPU."""
    m, p, K = tables.max_equality_rows + custom + 1, tables.max_limit_rows + custom + 1, tables.model.levels + 1
    level_rows, has_damping = tables.max_level_equalities + custom + 1, tables.model.damping > 0.0
    compact_rows = tables.max_level_rows + custom + 2 if is_compact else 0
    return make_workspace(n, level_rows, m, p, K, has_damping=has_damping, compact_rows=compact_rows)


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
