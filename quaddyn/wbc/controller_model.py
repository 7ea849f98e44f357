"""`build_model`: robot, elements and contacts of a controller as the tables that a tick goes through."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..errors import ArgumentError
from ..robot.robot import Robot
from .constraints import ContactMotion, FrictionPyramid
from .contact_settings import RECTANGLE_CONE_ROWS, ContactSettings
from .element import Element, Layout, ReferenceResolver, RowCounts
from .element_codes import CUSTOM
from .levels import Levels
from .scales import Scales
from .tasks import FootTask, ForceTask
from .tick_data import ControllerModel

#: Largest number of joints of a limb that is eliminated.
MAX_LIMB_JOINTS = 8


@dataclass(frozen=True, slots=True, eq=False)
class Tables:
    """Model of a controller for compiled code, and further tables for Python.

    Attributes:
        model: model for compiled code.
        frames: names of the frames whose terms are needed, in the order of `ControllerModel.chains`.
        contact_frames: index of the frame of each contact.
        guides: for each contact, the index of the foot task of the same foot, or -1.
        force_tasks: force tasks, in the order of their references.
        custom: elements whose rows are computed in Python, with their indices.
        momentum: whether terms of the momentum are needed.
        most_rows: largest number of equalities of all levels, including those of the minimum norm.
        most_limits: largest number of limits of all levels.
        cone_rows: largest number of rows of a contact's friction cone.
    """

    model: ControllerModel
    frames: tuple[str, ...]
    contact_frames: tuple[int, ...]
    guides: tuple[int, ...]
    force_tasks: tuple[ForceTask, ...]
    custom: tuple[tuple[int, Element], ...]
    momentum: bool
    most_rows: int
    most_limits: int
    cone_rows: int


#: Methods that define an element's rows: the rows of a derived class that overrides one are computed in Python.
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
    own = next(each for each in kind.__mro__ if f"{each.__module__}.".startswith(f"{__package__}."))
    same = all(getattr(kind, name, None) is getattr(own, name, None) for name in ROW_DEFINING_METHODS)
    return element.code != CUSTOM and same


def build_model(
    robot: Robot,
    levels: Levels,
    contacts: Mapping[str, ContactSettings],
    *,
    scales: Scales,
    dt: float,
    rank_tolerance: float,
    damping: float,
) -> Tables:
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
    flat = [(level, e) for level, elements in enumerate(levels.elements) for e in elements]
    items = []
    for level, e in flat:
        code = e.code if has_compiled_rows(e) else CUSTOM
        items.append((level, code, levels.begin[e.name], len(e.labels), *e.bind(references)))
    custom = tuple((i, e) for i, (_, e) in enumerate(flat) if not has_compiled_rows(e))
    feet = {e.name: i for i, (_, e) in enumerate(flat) if isinstance(e, FootTask) and type(e).rows is FootTask.rows}
    foot_tasks = levels.foot_tasks(contacts)
    guides = tuple(feet.get(foot_tasks[name].name, -1) if name in foot_tasks else -1 for name in contacts)
    held = next((e for _, e in flat if isinstance(e, ContactMotion) and has_compiled_rows(e)), None)
    faces = next((e.faces for _, e in flat if isinstance(e, FrictionPyramid) and has_compiled_rows(e)), 0)
    passive = np.setdiff1d(np.arange(robot.nv), robot.actuated_index)
    slot = np.zeros(robot.nv, dtype=np.int64)
    slot[passive] = np.arange(len(passive))
    slot[robot.actuated_index] = -2 - np.arange(robot.nu)
    pin_model = robot.model
    alone = robot.root == "free" and sum(p == 0 for p in pin_model.parents) == 2  # the world itself, and the base
    model = ControllerModel(
        mass=float(scales.mass),
        total_mass=float(sum(inertia.mass for inertia in pin_model.inertias[1:])),
        length=float(scales.length),
        period=float(dt),
        floating=alone,
        faces=int(faces),
        rank_tolerance=float(rank_tolerance),
        damping=float(damping),
        contact_motion_start=-1 if held is None else levels.begin[held.name],
        has_strict_contacts=held is not None and held in levels.elements[0] and damping == 0.0,
        levels=len(levels.elements),
        gravity=np.array(pin_model.gravity.linear, dtype=np.float64),
        passive=passive.astype(np.int64),
        actuated=np.asarray(robot.actuated_index, dtype=np.int64),
        slot=slot,
        chains=_chains(robot, references.frame_ids),
        limbs=_limbs([_chain(robot, references.frame_ids[f]) for f in contact_frames], contacts, slot),
        couplings=_couplings(robot),
        items=np.array(items, dtype=np.int64).reshape(-1, 6),
        index=np.array([*references.entries, 0], dtype=np.int64),
    )
    forces, cone_rows = (
        sum(settings.size for settings in contacts.values()),
        max_cone_rows_of(model.faces, contacts.values()),
    )
    counts = RowCounts(
        0, robot.nq, robot.nv, robot.nu, len(references.frames), len(contacts), len(references.force_tasks),
        len(model.index), forces, len(contacts) * cone_rows,
    )  # fmt: skip
    force_tasks = tuple(e for e in references.force_tasks if isinstance(e, ForceTask))
    layouts = [_layout(e, counts, item) for (_, e), item in zip(flat, items, strict=True) if has_compiled_rows(e)]
    return Tables(
        model, tuple(references.frames), contact_frames, guides, force_tasks, custom,
        any(layout.momentum for layout in layouts), *max_row_counts(layouts, counts), cone_rows,
    )  # fmt: skip


def max_cone_rows_of(faces: int, contacts: Iterable[ContactSettings]) -> int:
    """Returns the largest number of rows of a contact's friction cone, at least that of a rectangle."""
    return max(RECTANGLE_CONE_ROWS, faces + 1, *(settings.max_cone_rows for settings in contacts))


def _layout(e: Element, counts: RowCounts, item: Sequence[int]) -> Layout:
    """Returns the layout of an element.

    Raises:
        ArgumentError: the layout does not fit the element.  Compiled code, which checks no indices, would read the
            parameters of other elements.
    """
    layout = e.declare_layout(counts._replace(rows=len(e.labels)))
    rows, numbers, wrong = len(e.labels), len(e.block), layout.misplaced(*item[-2:])
    if (layout.rows, layout.numbers) != (rows, numbers):
        wrong = f"expected {layout.rows} rows and {layout.numbers} numbers, got {rows} and {numbers}"
    if wrong:
        raise ArgumentError(f"{e.name}: {type(e).__name__}.declare_layout does not fit the element: {wrong}")
    return layout


def _chain(robot: Robot, frame: int) -> list[int]:
    """Returns the indices of the velocities that move a frame, ascending."""
    model = robot.model
    supports = model.supports[model.frames[frame].parentJoint]
    entries = [model.idx_vs[j] + k for j in supports for k in range(model.nvs[j])]
    return sorted(entries) if robot.coupling is None else robot.coupling.chain(entries)


def _chains(robot: Robot, frames: Sequence[int]) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    """Returns `ControllerModel.chains`."""
    out = np.zeros((max(1, len(frames)), 1 + robot.nv), dtype=np.int64)
    for i, frame in enumerate(frames):
        where = _chain(robot, frame)
        out[i, 0], out[i, 1 : 1 + len(where)] = len(where), where
    return out


def _limbs(chains: Sequence[list[int]], contacts: Mapping[str, ContactSettings], slot: np.ndarray) -> np.ndarray:
    """Returns `ControllerModel.limbs`."""
    out = np.zeros((max(1, len(contacts)), 1 + MAX_LIMB_JOINTS), dtype=np.int64)
    for c, (chain, settings) in enumerate(zip(chains, contacts.values(), strict=True)):
        joints = [j for j in chain if slot[j] < 0]
        others = {j for o, other in enumerate(chains) if o != c for j in other}
        if 0 < len(joints) <= MAX_LIMB_JOINTS and settings.size <= MAX_LIMB_JOINTS and not others.intersection(joints):
            out[c, 0], out[c, 1 : 1 + len(joints)] = len(joints), joints
    return out


def _couplings(robot: Robot) -> np.ndarray:
    """Returns `ControllerModel.couplings`: velocities between the root and the joint of a motor, and beyond it."""
    model = robot.model
    joint = {model.idx_vs[j] + k: j for j in range(1, model.njoints) for k in range(model.nvs[j])}
    supports = {
        v: {model.idx_vs[i] + k for i in model.supports[j] for k in range(model.nvs[i])} for v, j in joint.items()
    }
    out = np.zeros((robot.nu, 1 + robot.nv), dtype=np.int64)
    for row, v in zip(out, robot.actuated_index, strict=True):
        own = {int(v)} if robot.coupling is None else {w for w in joint if int(v) in robot.coupling.chain([w])}
        where = sorted(w for w in joint if any(w in supports[u] or u in supports[w] for u in own))
        where = where if robot.coupling is None else robot.coupling.chain(where)
        row[0], row[1 : 1 + len(where)] = len(where), where
    return out


def max_row_counts(layouts: Sequence[Layout], counts: RowCounts) -> tuple[int, int]:
    """Returns the largest numbers of equalities and limits of a tick, without rows that are computed in Python.

    Args:
        layouts: layouts of all elements.
        counts: sizes of the controller.
    """
    coming_and_going, minimum_norm = counts.forces, counts.nu + counts.forces
    equalities = coming_and_going + minimum_norm + sum(layout.equalities for layout in layouts)
    return equalities, sum(layout.limits for layout in layouts)
