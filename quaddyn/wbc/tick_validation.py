"""Checks of a saved tick before compiled code runs on it: every shape, range and index of its inputs.

Compiled code does not check indices.  Inputs from a controller are valid by construction; inputs from a file are
validated here.
"""

from __future__ import annotations

from typing import Any, NamedTuple, NoReturn

import numpy as np

from ..compiler import ByteVector, IntMatrix, IntVector, Vector
from ..errors import ArgumentError
from .constraints.collision_distances import PAIR_ENTRIES
from .constraints.collision_limits import has_invalid_run_ends
from .constraints.contact_constraints import ContactMotion
from .controller_model import MAX_LIMB_JOINTS, max_row_counts
from .element import CUSTOM, Layout, RowCounts
from .elements import ELEMENT_CLASSES
from .row_writing import CUSTOM_ROW_HEADER_SIZE
from .tick_data import MAX_STEADINESS, ContactStateData, ControllerModel, RigidBodyTerms, TickInputData

#: Largest number of levels, elements, contacts or velocities; and of entries of the solver's matrices.
MAX_COUNT, MAX_MATRIX_ENTRIES = 4096, 1 << 24

#: Ranges of finite numbers, of positive numbers, and of all numbers but NaN.
LARGEST_FLOAT, SMALLEST_FLOAT = np.finfo(np.float64).max, np.finfo(np.float64).tiny
FINITE, POSITIVE, NOT_NAN = (-LARGEST_FLOAT, LARGEST_FLOAT), (SMALLEST_FLOAT, LARGEST_FLOAT), (-np.inf, np.inf)


class WorkingSetArrays(NamedTuple):
    """Working sets from which a tick starts: the fields of `tick_data.WorkingSetMemory` that the tick reads."""

    needs_min_norm: bool  # see `WorkingSetMemory`
    skips_elimination: bool  # whether only contacts as rows are tried
    limit_starts: IntMatrix  # (2, levels + 2) of both formulations, see `FormulationMemory`; -1 without a working set
    steadiness: IntVector  # (2,) see `FormulationMemory`
    eliminated: ByteVector  # (levels + 2) working sets of all limits, flat, with contacts eliminated
    as_rows: ByteVector  # the same with contacts as rows


class TickStart(NamedTuple):
    """All inputs of a tick."""

    q: Vector
    v: Vector
    model: ControllerModel
    terms: RigidBodyTerms
    contacts: ContactStateData
    inputs: TickInputData
    memory: WorkingSetArrays


class BufferSizes(NamedTuple):
    """Sizes of the buffers of a tick.

    Attributes:
        n: largest number of unknowns.
        rows: largest number of equalities, without custom rows.
        limits: largest number of limits, without custom rows.
        custom: number of custom rows.
    """

    n: int
    rows: int
    limits: int
    custom: int


def validate_tick(t: TickStart) -> BufferSizes:
    """Validates the inputs of a tick for compiled code, and returns the sizes of its buffers.

    Raises:
        ArgumentError: an input is invalid; the message names the field.
    """
    _validate_shapes(t)
    _validate_ranges(t)
    m, c = t.model, t.contacts
    nv, nu, nf = len(t.v), len(m.actuated), int(c.size.sum())
    counts = RowCounts(
        0, len(t.q), nv, nu, len(t.terms.frames) - 1, len(c.size), len(t.inputs.force_references), len(m.index), nf,
        len(c.size) * c.cone.shape[1],
    )  # fmt: skip
    layouts = [_checked_layout(m, i, counts) for i in range(len(m.elements.code))]
    rows, limits = max_row_counts(layouts, counts)
    sizes = BufferSizes(nu + nf, rows, limits, len(t.inputs.custom_rows))
    limits += sizes.custom + 1
    if (sizes.n + m.levels) * (sizes.n + 1) * (rows + sizes.custom + limits) > MAX_MATRIX_ENTRIES:
        reject("elements.size", "fewer rows in all elements together", "too many")
    velocities = np.concatenate((m.passive, m.actuated))
    if not np.array_equal(np.sort(velocities), np.arange(nv)):
        reject("model.actuated", "every index of a velocity once, in model.actuated or model.passive", velocities)
    slot = np.empty(nv, dtype=np.int64)
    slot[m.passive], slot[m.actuated] = np.arange(len(m.passive)), -2 - np.arange(nu)
    if not np.array_equal(m.slot, slot):
        reject("model.slot", f"{slot}", m.slot)
    _validate_frames(t)
    _validate_limbs(t)
    _validate_couplings(t)
    for i, layout in enumerate(layouts):
        _validate_element(t, i, layout)
    _validate_contact_motion(t)
    _validate_custom_rows(t)
    _validate_working_sets(t.memory, m.levels, limits - 1)
    return sizes


def reject(field: str, expected: str, got: object) -> NoReturn:
    """Raises an ArgumentError that names the field, the expected and the given value."""
    raise ArgumentError(f"{field}: expected {expected}, got {got}")


def _validate_shapes(t: TickStart) -> None:
    """Validates that the sizes of all arrays are consistent."""
    m, terms, c, inputs = t.model, t.terms, t.contacts, t.inputs
    nq, nv, nu, nc, nx = len(t.q), len(t.v), len(m.actuated), len(c.size), len(terms.frames) - 1
    com_size, momentum_size = min(len(terms.com_drift), 3), min(len(terms.momentum), 6)
    counts = {"q": nq, "v": nv, "model.actuated": nu, "elements.code": len(m.elements.code), "terms.frames": nx + 1}
    for field, count in {**counts, "model.levels": m.levels}.items():
        if not 1 <= count <= MAX_COUNT:
            reject(field, f"1 to {MAX_COUNT}", count)
    if nc > MAX_COUNT:
        reject("contacts.size", f"up to {MAX_COUNT} contacts", nc)
    if com_size not in (0, 3) or momentum_size not in (0, 6):
        reject("terms.com_drift, terms.momentum", "three and six numbers, or none", (com_size, momentum_size))
    shapes: dict[str, tuple[int, ...]] = {
        "model.gravity": (3,), "model.passive": (nv - nu,), "model.slot": (nv,), "model.chains": (max(1, nx), 1 + nv),
        "model.limbs": (max(1, nc), 1 + MAX_LIMB_JOINTS), "model.couplings": (nu, 1 + nv),
        **{f"elements.{name}": (len(m.elements.code),) for name in m.elements._fields},
        "terms.M": (nv, nv), "terms.h": (nv,),
        "terms.com": (3,), "terms.com_velocity": (3,), "terms.com_jacobian": (com_size, nv),
        "terms.com_drift": (com_size,), "terms.momentum": (momentum_size,),
        "terms.momentum_matrix": (momentum_size, nv), "terms.momentum_drift": (momentum_size,),
        **{f"contacts.{name}": (nc, 3) for name in ("normal", "offset", "surface_normal")},
        "contacts.cone": (nc, c.cone.shape[1], 6),
        "previous.torque": (nu,),
        "inputs.force_references": (len(inputs.force_references), nc, 8),
        "inputs.custom_rows": (len(inputs.custom_rows), CUSTOM_ROW_HEADER_SIZE + nv + 6 * nc + nu),
        "memory.limit_starts": (2, m.levels + 2),
        "memory.steadiness": (2,),
    }  # fmt: skip
    shapes |= {
        f"contacts.{name}": (nc,) for name in c._fields if name not in ("normal", "offset", "surface_normal", "cone")
    }
    for field, shape in shapes.items():
        found_shape = np.shape(_get_field(t, field))
        if found_shape != shape:
            reject(field, f"shape {shape}", found_shape)


def _validate_ranges(t: TickStart) -> None:
    """Validates the entries with fixed ranges, and rejects NaN."""
    m, c, inputs = t.model, t.contacts, t.inputs
    nv, frames, numbers = len(t.v), len(t.terms.frames) - 1, len(inputs.parameters)
    ranges: dict[str, tuple[float, float]] = {
        "q": FINITE, "v": FINITE, "model.mass": POSITIVE, "model.total_mass": POSITIVE, "model.length": POSITIVE,
        "model.period": POSITIVE, "model.faces": (0, MAX_COUNT), "model.rank_tolerance": (0.0, np.nextafter(1.0, 0.0)),
        "model.damping": (0.0, LARGEST_FLOAT), "model.contact_motion_start": (-1, numbers - 1), "model.gravity": FINITE,
        "model.passive": (0, nv - 1), "model.actuated": (0, nv - 1), "model.chains": (0, nv), "model.limbs": (0, nv),
        "model.couplings": (0, nv),
        "contacts.activation": (0.0, 1.0), "contacts.cap": (0.0, np.inf), "contacts.role": (0, 3),
        "contacts.frame": (0, frames - 1), "contacts.foot_task": (-1, len(m.elements.code) - 1),
        "contacts.is_unilateral": (0, 1),
        "contacts.is_surface": (0, 1), "contacts.cone_row_count": (0, c.cone.shape[1]), "contacts.radius": FINITE,
        "contacts.min_force": (0.0, LARGEST_FLOAT), "contacts.max_force": (0.0, np.inf),
        "contacts.surface_height": FINITE, "contacts.stiffness": (0.0, LARGEST_FLOAT),
        "contacts.damping": (0.0, LARGEST_FLOAT), "contacts.moment_arm": POSITIVE,
        "contacts.normal": FINITE,
        "contacts.offset": FINITE, "contacts.surface_normal": FINITE, "contacts.cone": FINITE,
        "inputs.parameters": NOT_NAN, "previous.exists": (0, 1),
        "previous.torque": NOT_NAN, "inputs.force_references": FINITE,
        "memory.steadiness": (0, MAX_STEADINESS), "memory.eliminated": (-1, 1), "memory.as_rows": (-1, 1),
    }  # fmt: skip
    for field, (low, high) in ranges.items():
        value = np.asarray(_get_field(t, field))
        out_of_range = ~((value >= low) & (value <= high))
        if out_of_range.any():
            reject(field, f"{low} to {high}", value[out_of_range][0])
    if not np.isin(c.size, (3, 6)).all():
        reject("contacts.size", "3 or 6", c.size)
    if (c.size[c.is_surface == 1] != 6).any():
        reject("contacts.is_surface", "0 for contacts of size 3", c.is_surface)


def _validate_frames(t: TickStart) -> None:
    """Validates the kinematic chain of each frame (indices in v) and the start of its terms in the vector of terms."""
    chains, starts, nv, size = t.model.chains, t.terms.frames, len(t.v), len(t.terms.values)
    for i in range(len(starts) - 1):
        count = int(chains[i, 0])
        chain = chains[i, 1 : 1 + count]
        if not ((chain < nv).all() and (np.diff(chain) > 0).all()):
            reject("model.chains", f"ascending indices of velocities below {nv}", chain)
        if not 0 <= int(starts[i]) <= size - 24 - 6 * count:
            reject("terms.frames", f"an index followed by at least {24 + 6 * count} of the {size} terms", starts[i])


def _validate_limbs(t: TickStart) -> None:
    """Validates limbs: their joints are in the chain of their contact only, and are actuated."""
    m, frame = t.model, t.contacts.frame
    chains = [set(m.chains[f, 1 : 1 + m.chains[f, 0]].tolist()) for f in frame.tolist()]
    for c, (chain, size) in enumerate(zip(chains, t.contacts.size.tolist(), strict=True)):
        count = int(m.limbs[c, 0])
        if count == 0:
            continue
        joints = set(m.limbs[c, 1 : 1 + count].tolist())
        if (
            count > MAX_LIMB_JOINTS
            or size > MAX_LIMB_JOINTS
            or len(joints) != count
            or joints != chain & set(m.actuated.tolist())
        ):
            reject("model.limbs", f"up to {MAX_LIMB_JOINTS} joints, all with motors that move contact {c}", m.limbs[c])
        if any(joints & other for o, other in enumerate(chains) if o != c):
            reject("model.limbs", f"joints that move only contact {c}", m.limbs[c])


def _validate_couplings(t: TickStart) -> None:
    """Validates the velocities that are coupled with motors."""
    nv = len(t.v)
    for row in t.model.couplings:
        coupled = row[1 : 1 + row[0]]
        if not ((coupled < nv).all() and len(set(coupled.tolist())) == len(coupled)):
            reject("model.couplings", f"different indices of velocities below {nv}", coupled)


def _checked_layout(m: ControllerModel, i: int, counts: RowCounts) -> Layout:
    """Returns the layout of element i."""
    code, size = int(m.elements.code[i]), int(m.elements.size[i])
    if code not in ELEMENT_CLASSES:
        reject(f"elements.code[{i}]", "the code of a kind of element", code)
    if not 0 <= size <= MAX_COUNT:
        reject(f"elements.size[{i}]", f"0 to {MAX_COUNT} rows", size)
    layout = ELEMENT_CLASSES[code].declare_layout(counts._replace(rows=size))
    if size != layout.rows:
        reject(f"elements.size[{i}]", f"{layout.rows} rows", size)
    return layout


def _validate_element(t: TickStart, i: int, layout: Layout) -> None:
    """Validates one element: its level, its parameters, and the lists to which it refers."""
    m, nq, nv = t.model, len(t.q), len(t.v)
    level, _, start, _, first, second = (int(column[i]) for column in m.elements)
    if not 0 <= level < m.levels:
        reject(f"elements.level[{i}]", f"a level below {m.levels}", level)
    if not 0 <= start <= len(t.inputs.parameters) - layout.parameter_count:
        reject(
            f"elements.first_parameter[{i}]",
            f"the first of {layout.parameter_count} parameters among {len(t.inputs.parameters)}",
            start,
        )
    for field, reference, valid in (("first", first, layout.first), ("second", second, layout.second)):
        if valid is not None and reference not in valid:
            reject(f"elements.{field}[{i}]", f"a reference from {valid.start} to {valid.stop - 1}", reference)
    if (layout.com and not m.floating and not len(t.terms.com_drift)) or (
        layout.momentum and not len(t.terms.momentum)
    ):
        reject(
            f"elements.code[{i}]", "terms of the center of mass or the momentum, which this element requires", "none"
        )
    for jv, jq, entries in m.index[first : first + 3 * layout.joints].reshape(layout.joints, 3).tolist():
        if not (0 <= jv < nv and 0 <= jq < nq - (entries == 2)):
            reject("model.index", f"indices in v below {nv} and in q below {nq}", (jv, jq, entries))
    q_entries = m.index[first : first + layout.q_entries]
    if layout.q_entries and not ((q_entries >= 0) & (q_entries < nq)).all():
        reject("model.index", f"indices in q below {nq}", q_entries)
    hands = m.index[second : second + 2 * layout.hands : 2]
    if layout.hands and not ((hands >= 0) & (hands < len(t.contacts.size))).all():
        reject("model.index", f"indices of contacts below {len(t.contacts.size)}", hands)
    if layout.capsules:
        _validate_capsules(t, first, second, layout.capsules)


def _validate_capsules(t: TickStart, first: int, second: int, count: int) -> None:
    """Validates the frames of capsules, and their pairs."""
    m, frames = t.model, len(t.terms.frames) - 1
    capsule_frames, n_pairs = m.index[first : first + count], max(0, int(m.index[second]))
    entries = m.index[second + 1 : second + 1 + PAIR_ENTRIES * n_pairs]
    if not ((capsule_frames >= -1) & (capsule_frames < frames)).all():
        reject("model.index", f"indices of frames below {frames}", capsule_frames)
    if len(entries) != PAIR_ENTRIES * m.index[second]:
        reject("model.index", f"the number of pairs, followed by pairs of capsule indices below {count}", entries)
    table = entries.reshape(-1, PAIR_ENTRIES)
    pairs = table[:, :2]
    if not ((pairs >= 0) & (pairs < count)).all():
        reject("model.index", f"the number of pairs, followed by pairs of capsule indices below {count}", pairs)
    if (capsule_frames[pairs[:, 0]] < 0).any():
        reject("model.index", "a capsule on a body as the first of every pair", pairs)
    if has_invalid_run_ends(table):
        reject("model.index", "the end of its run behind each pair", table[:, 2])


def _validate_contact_motion(t: TickStart) -> None:
    """Validates that the model and the table of elements agree on the `ContactMotion` constraint."""
    m, is_contact_motion = t.model, t.model.elements.code == ContactMotion.kind.code
    starts, levels = m.elements.first_parameter[is_contact_motion], m.elements.level[is_contact_motion]
    if m.contact_motion_start != (starts[0] if len(starts) else -1):
        reject("model.contact_motion_start", "the first parameter of the ContactMotion element", m.contact_motion_start)
    if m.has_strict_contacts != (len(levels) > 0 and levels[0] == 0 and m.damping == 0.0):
        reject(
            "model.has_strict_contacts",
            "true only with contact motion on level 0 and without damping",
            m.has_strict_contacts,
        )


def _validate_custom_rows(t: TickStart) -> None:
    """Validates the rows of custom elements."""
    z, m = t.inputs.custom_rows, t.model
    custom_elements = np.flatnonzero(m.elements.code == CUSTOM.code)
    low, high = z[:, 1], z[:, 2]
    if not ((low <= high) & (low < np.inf) & (high > -np.inf)).all():
        reject("inputs.custom_rows", "lower and upper bounds between which a finite number exists", (low, high))
    if not np.isin(z[:, 4], custom_elements).all():
        reject("inputs.custom_rows", f"the indices of custom elements, {custom_elements}", z[:, 4])
    if not (np.isin(z[:, 5], np.arange(len(z))) & (z[:, 3] >= 0.0)).all() or not np.isfinite(z[:, 3:]).all():
        reject("inputs.custom_rows", "finite coefficients, valid indices and weights >= 0", "other values")


def _validate_working_sets(memory: WorkingSetArrays, levels: int, limits: int) -> None:
    """Validates the sizes of working sets."""
    for field, sets, end in zip(
        ("eliminated", "as_rows"), memory[4:], memory.limit_starts[:, -1].tolist(), strict=True
    ):
        if not -1 <= end <= limits:
            reject("memory.limit_starts", f"up to {limits} limits", end)
        if len(sets) != (levels + 2) * max(end, 0):
            reject(f"memory.{field}", f"{levels + 2} sets of {max(end, 0)} limits", f"{len(sets)} entries")


def _get_field(t: TickStart, field: str) -> Any:
    """Returns the value of a field such as "model.mass"."""
    record, _, name = field.partition(".")
    owner: Any = {"elements": t.model, "previous": t.inputs}.get(record, t)
    value = getattr(owner, record)
    return value[value._fields.index(name)] if name else value  # of a mutable record, the array of the field
