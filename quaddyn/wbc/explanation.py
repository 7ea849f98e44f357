"""Explanation of a tick: rows with a deficit, and the limit or task that causes each deficit.

The cause of a deficit is the limit or task whose removal reduces the residual of the row most.  Limits take precedence
over tasks of the same level, which always compete, and over tasks of higher priority if they explain most of the
deficit.  The cause is found by solving again without each candidate, because a multiplier is valid for infinitesimal
changes only.  All limits of one contact
together are a candidate, too: where a robot would tip over a contact, the friction cone and the lower bound of the
normal force both prevent pulling, so that removing one of them alone makes no difference.  If there is no single cause,
all limits together are one; and if a deficit remains without all other elements, it is the rank of the rows.  Each
candidate takes one solve, so explanations are for diagnosis, not for control loops.

The likely cause of a tick with deficits is a heuristic, from the size of the accelerations that rows require.
`friction_remarks` adds sentences about joint friction.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ..deprecation import renamed_attributes
from ..robot.robot import Robot
from ..urdf.tree import Array, first_largest
from .constraints.joint_friction import JointFriction, joint_friction_parameters
from .tick_data import ControllerModel
from .tick_problem import RowGroup, Status, TickDetails, TickProblem, active_rows

#: Required acceleration [m/s^2] beyond which a contact that should be at rest was moving: three times gravity.
MOVING_CONTACT_ACCELERATION = 30.0
#: Middle of the names of rows that keep contacts at rest, and end of those that keep joints within their bounds.
CONTACT_ROW_INFIX, JOINT_BOUND_SUFFIX = " contact ", " joint bound"
#: Largest number of names that a sentence lists.
MAX_CAUSE_NAMES = 4


def likely_cause(details: TickDetails, outcome: str) -> str:
    """Returns one sentence about the likely cause of the deficits; "" if nothing stands out.

    Contacts that are to be held at rest require the acceleration that stops them.  Joints beyond their bounds, or too
    fast for them, require one that brings them back.
    """
    level0 = details.problem.levels[0]
    if outcome == "infeasible":
        fast_contacts = _name_fast_contacts(
            [g for g in level0 if CONTACT_ROW_INFIX in g.names[0]], MOVING_CONTACT_ACCELERATION
        )
        if fast_contacts:
            return (
                f"likely cause: {fast_contacts} move fast although they are assumed to carry load; check whether the "
                "contacts are closed and whether the measured velocity is right"
            )
        nonviable_joints = [
            name.removesuffix(JOINT_BOUND_SUFFIX)
            for g in level0
            for name, low, high in zip(g.names, g.lower + g.offset, g.upper + g.offset, strict=True)
            if name.endswith(JOINT_BOUND_SUFFIX) and (low > 0.0 or high < 0.0)
        ]
        if nonviable_joints:
            return (
                "likely cause: joints that are beyond their bounds or too fast to stop in time: "
                f"{_join_names(nonviable_joints)}"
            )
    if (
        details.problem.n
        and not details.has_fixed_root
        and not any(g.unit == "N" for level in details.problem.levels for g in level)
    ):
        return "likely cause: no contact was assumed to carry load"
    return ""


def round_to_six_digits(size: float) -> float:
    """Rounds to six significant digits, so that rounding errors do not order numbers that are equal."""
    return float(f"{size:.6g}")


def _name_fast_contacts(groups: list[RowGroup], threshold: float) -> str:
    """Returns the names of the contacts whose required accelerations exceed `threshold` [m/s^2], the largest first."""
    fast: list[tuple[float, str]] = []
    for group in groups:
        required: Array = np.where(group.is_equality, group.lower + group.offset, 0.0)[:3]
        if np.linalg.norm(required) > threshold:
            fast.append(
                (-round_to_six_digits(float(np.linalg.norm(required))), group.names[0].rpartition(CONTACT_ROW_INFIX)[0])
            )
    return _join_names([name for _, name in sorted(fast)])


def _join_names(names: list[str]) -> str:
    """Returns the first names, separated by commas, and the number of the others."""
    more = f" and {len(names) - MAX_CAUSE_NAMES} more" if len(names) > MAX_CAUSE_NAMES else ""
    return ", ".join(names[:MAX_CAUSE_NAMES]) + more


#: Fraction of a deficit that the removal of a cause must reduce at least, and from which on a limit takes precedence
#: over tasks.
MIN_CAUSE_FRACTION, MAIN_CAUSE_FRACTION = 0.05, 0.5
#: Smallest singular value of the rows of an element that counts for their rank, divided by the largest.
RANK_TOLERANCE = 1e-6
#: Causes whose removal reduces a deficit equally, such as two feet of a symmetric stance, up to this fraction of the
#: deficit: the first one is reported.
CAUSE_TIE_TOLERANCE = 1e-6
#: Largest number of lines about deficits by default, and of names in a sentence.
DEFAULT_MAX_LINES, MAX_LISTED_NAMES = 5, 3
#: End of the names of rows that bound normal forces.
NORMAL_FORCE_SUFFIX = " normal force"
#: Smallest friction coefficient that is described.
MIN_DESCRIBED_FRICTION = 1e-9
#: Text for a contact over which the robot would tip.
CANNOT_PULL = "cannot pull on the ground"

#: Groups of rows that are removed together, each as its level and its index there.
Candidate = tuple[tuple[int, int], ...]


@renamed_attributes(
    amount="deficit", wanted="target", culprit="cause", without="deficit_without_cause", owner="element"
)
@dataclass(frozen=True, slots=True)
class Loss:
    """Deficit of one row.

    Attributes:
        row: name of the row, such as "com x".
        level: index of its level.
        deficit: target minus achieved value, or the violation of a limit [unit].
        target: target value of the row, or the value of the limit that is violated [unit].
        unit: unit of the row.
        cause: the limit or task that causes the deficit; "" if no single one does.
        deficit_without_cause: size of the deficit that remains without the cause [unit].
        element: name of the task or constraint to which the row belongs.
        is_limit: whether the row is a limit instead of a target.
    """

    row: str
    level: int
    deficit: float
    target: float
    unit: str
    cause: str
    deficit_without_cause: float
    element: str = ""
    is_limit: bool = False

    def __str__(self) -> str:
        # The text contains the target, because for a negative one "more" means a smaller magnitude.
        bound = f"the {'permitted' if self.is_limit else 'required'} {self.target + 0.0:.3g}"
        text = (
            f"{self.row}: {abs(self.deficit):.3g} {self.unit} {'less' if self.deficit > 0.0 else 'more'} than {bound}"
        )
        if not self.cause:
            return f"{text}; no single limit or task is the cause"
        rest = (
            f"; without it, {abs(self.deficit_without_cause):.2g} would remain"
            if abs(self.deficit_without_cause) > 0.01 * abs(self.deficit)
            else ""
        )
        return f"{text} because of {self.cause}{rest}"


def explain(
    status: Status,
    details: TickDetails,
    *,
    threshold: float = 1e-3,
    include_last_level: bool = False,
    max_lines: int | None = DEFAULT_MAX_LINES,
) -> str:
    """Returns one sentence per line: the status, a likely cause, deficits by level, then remarks.

    Rows of one task or constraint with the same cause share a sentence, which reports the largest deficit.  Within a
    level the largest deficits come first.

    Args:
        status: status of the command.
        details: details of the command.
        threshold: as for `find_losses`.
        include_last_level: as for `find_losses`.
        max_lines: largest number of lines about deficits; None for all.
    """
    groups: dict[tuple[int, str, str], list[Loss]] = {}
    for loss in find_losses(details, threshold=threshold, include_last_level=include_last_level):
        groups.setdefault((loss.level, loss.element, loss.cause), []).append(loss)
    sentence_groups = [
        sorted(group, key=lambda loss: -round_to_six_digits(abs(loss.deficit))) for group in groups.values()
    ]
    sentence_groups.sort(key=lambda group: (group[0].level, -round_to_six_digits(abs(group[0].deficit))))
    lines = [_sentence(*group) for group in sentence_groups] or ["no deficits: all tasks reach their targets"]
    if max_lines is not None and len(lines) > max_lines:
        lines[max_lines:] = [
            f"... and {len(lines) - max_lines} more lines; explain(max_lines=None) returns all of them"
        ]
    cause = likely_cause(details, status.outcome) if sentence_groups else ""
    return "\n".join([str(status), *([cause] if cause else []), *lines, *details.remarks])


def _sentence(largest: Loss, *others: Loss) -> str:
    """Returns one sentence about rows of one element with the same cause; `largest` has the largest deficit."""
    if not others:
        return str(largest)
    names = list(dict.fromkeys(loss.row for loss in others if loss.row != largest.row))
    listed = f" ({', '.join(names)})" if 0 < len(names) <= MAX_LISTED_NAMES else ""
    return f"{largest}; {len(others)} more of {largest.element}{listed}, up to {abs(others[0].deficit):.3g}"


def find_losses(details: TickDetails, *, threshold: float = 1e-3, include_last_level: bool = False) -> list[Loss]:
    """Returns every row with a deficit, and its cause.

    Args:
        details: details of a command.
        threshold: smallest deficit to report, in the unit of the row.
        include_last_level: whether to include rows of the last of three or more levels, which only determines the
            freedom that the others leave.
    """
    losses: list[Loss] = []
    cache: dict[Candidate, Array] = {}
    levels = len(details.problem.levels)
    for level, index, row, deficit in _rows_with_deficit(details, threshold):
        if level == levels - 1 and levels > 2 and not include_last_level:
            continue
        cause, remaining = _find_cause(details, level, index, row, deficit, cache)
        group = details.problem.levels[level][index]
        target = group.lower[row] if deficit > 0.0 else group.upper[row]
        losses.append(
            Loss(
                group.names[row],
                level,
                deficit,
                float(target + group.offset[row]),
                group.unit,
                cause,
                remaining,
                group.element,
                not group.is_equality[row],
            )
        )
    return losses


def _rows_with_deficit(details: TickDetails, threshold: float) -> Iterator[tuple[int, int, int, float]]:
    """Yields level, index of the group, row and deficit of every row whose deficit exceeds the threshold."""
    for level, groups in enumerate(details.problem.levels):
        for index, group in enumerate(groups):
            deficits = _deficits(group.A @ details.x, group.lower, group.upper)
            for row in np.flatnonzero(np.abs(deficits) > threshold):
                yield level, index, int(row), float(deficits[row])


def _deficits(y: Array, lower: Array, upper: Array) -> Array:
    """Returns the deficits of rows: positive below their range, negative above it."""
    return np.asarray(np.maximum(lower - y, 0.0) - np.maximum(y - upper, 0.0))


def _find_cause(
    details: TickDetails, level: int, index: int, row: int, deficit: float, cache: dict[Candidate, Array]
) -> tuple[str, float]:
    """Returns the cause of the deficit of a row as text, and the deficit that remains without it.

    A limit takes precedence over tasks of higher priority if it explains most of the deficit, over other equalities
    always, and one limit over several limits of a contact.  Equalities of level 0 keep contacts at rest.
    """
    problem = details.problem
    group = problem.levels[level][index]

    def remaining_without(candidate: Candidate) -> float:
        if candidate not in cache:
            cache[candidate] = details.resolve(problem.without_groups(*candidate))
        y = group.A[row] @ cache[candidate]
        return abs(float(_deficits(y, group.lower[row], group.upper[row])))

    size = abs(deficit)
    limits, tasks = (list(_candidate_causes(details, level, index, limits=limits)) for limits in (True, False))
    best_score, remaining, name = size * (1.0 - MIN_CAUSE_FRACTION), size, ""
    higher = [candidate for candidate in tasks if 0 < candidate[0][0] < level]
    equal = [candidate for candidate in tasks if candidate[0][0] == level]
    level_0 = [candidate for candidate in tasks if candidate[0][0] == 0 < level]
    for candidates, are_limits in ((limits, True), (higher, False), (equal, False), (level_0, False)):
        if name and (candidates is not higher or remaining <= (1.0 - MAIN_CAUSE_FRACTION) * size):
            break
        for candidate in candidates:
            candidate_remaining = remaining_without(candidate)
            score = candidate_remaining + (MIN_CAUSE_FRACTION * size if are_limits and len(candidate) > 1 else 0.0)
            if score < best_score - CAUSE_TIE_TOLERANCE * size:
                best_score, remaining = score, candidate_remaining
                name = _cause_text(problem, candidate, details.x, limits=are_limits)
    if name:
        return name, remaining
    all_limits = tuple(dict.fromkeys(part for candidate in limits for part in candidate))
    if len(limits) > 1 and (remaining := remaining_without(all_limits)) <= (1.0 - MAIN_CAUSE_FRACTION) * size:
        elements = list(dict.fromkeys(problem.levels[k][i].element for k, i in all_limits))
        return f"several limits together ({_join_names(elements)})", remaining
    everything = tuple(
        (k, i) for k, each in enumerate(problem.levels) for i in range(len(each)) if (k, i) != (level, index)
    )
    rows = group.A[group.is_equality] if group.is_equality[row] else group.A[row : row + 1]
    scales = np.linalg.svd(rows, compute_uv=False)
    rank = int(np.count_nonzero(scales > RANK_TOLERANCE * max(float(scales.max(initial=0.0)), 1.0)))
    if rank < len(rows) and remaining_without(everything) > (1.0 - MIN_CAUSE_FRACTION) * size:
        return f"the configuration, in which the rows of {group.element} have rank {rank} instead of {len(rows)}", size
    return "", size


def _candidate_causes(details: TickDetails, level: int, index: int, *, limits: bool) -> Iterator[Candidate]:
    """Yields the groups of rows up to a level that can cause the deficit of a row.

    Each group is a candidate alone.  With `limits`, these are the groups with active limits, and then all such groups
    of one contact together; otherwise the groups with equalities.

    Args:
        details: the solved problem.
        level: level of the row with the deficit.
        index: index of its group in the level, which is no candidate itself.
        limits: whether to yield limits or tasks.
    """
    groups_by_contact: dict[str, Candidate] = {}
    for k in range(level + 1):
        for i, group in enumerate(details.problem.levels[k]):
            if (k, i) == (level, index):
                continue
            if limits and active_rows(group, group.A @ details.x):
                yield ((k, i),)
                if group.contact:
                    groups_by_contact[group.contact] = (*groups_by_contact.get(group.contact, ()), (k, i))
            elif not limits and group.is_equality.any():
                yield ((k, i),)
    yield from (candidate for candidate in groups_by_contact.values() if len(candidate) > 1)


def _cause_text(problem: TickProblem, candidate: Candidate, x: Array, *, limits: bool) -> str:
    """Returns the name of a cause for sentences."""
    if len(candidate) > 1:
        return _contact_cause_text([problem.levels[k][i] for k, i in candidate], x)
    ((level, index),) = candidate
    group = problem.levels[level][index]
    if not limits:
        return f"the {group.element} task" if level else f"the {group.element} of level 0"
    names = list(dict.fromkeys(group.names[i] for i in active_rows(group, group.A @ x)))
    if len(names) > 3:
        return f"the {group.element} limits of {len(names)} rows"
    if names == [f"{group.contact} friction cone"] and (pyramid := _describe_pyramid(group)):
        return f"the {group.contact} friction pyramid ({pyramid})"
    return "the " + " and the ".join(names)


def _describe_pyramid(group: RowGroup) -> str:
    """Returns the friction of a pyramid inside Coulomb's cone as text; "" for a surface or without friction.

    A row is the outward direction of a face minus the friction coefficient across it times the normal, and the
    directions of all faces add up to zero.
    """
    rows = group.A[:, np.any(group.A != 0.0, axis=0)]
    mean = rows.mean(axis=0)
    across = float(np.linalg.norm(mean) / np.linalg.norm(rows[0] - mean))
    if rows.shape[1] != 3 or across < MIN_DESCRIBED_FRICTION:
        return ""
    return f"{len(rows)} faces: friction {across:.3g} to {across / math.cos(math.pi / len(rows)):.3g}, by direction"


def _contact_cause_text(groups: Sequence[RowGroup], x: Array) -> str:
    """Returns the name of the cause "all limits of one contact" for sentences."""
    contact = groups[0].contact
    for group in groups:
        for i in active_rows(group, group.A @ x):
            value = float(group.A[i] @ x)
            if group.names[i].endswith(NORMAL_FORCE_SUFFIX) and value - group.lower[i] < group.upper[i] - value:
                min_force = float(group.lower[i] + group.offset[i])
                return f"{contact}, which " + (
                    f"pushes with at least {min_force:.3g} N" if min_force > 0.0 else CANNOT_PULL
                )
    return f"the limits of the {contact} contact force"


#: Smallest friction torque [N m] that is reported.
MIN_REPORTED_TORQUE = 1e-3


def friction_remarks(
    robot: Robot, model: ControllerModel, parameters: Array, v: Array, compensating_torque: Array
) -> tuple[str, ...]:
    """Returns at most two sentences about joint friction.

    Args:
        robot: the robot, with the friction and damping of its joints.
        model: model of the controller.
        parameters: parameters of the elements at the tick.
        v: (nv,) velocity.
        compensating_torque: (nu,) torques that compensate friction [N m].
    """
    is_compensated = np.zeros(robot.nv, dtype=bool)
    elements = model.elements
    for code, start in zip(elements.code, elements.first_parameter, strict=True):
        if code == JointFriction.kind.code:
            p = joint_friction_parameters(parameters[start:], robot.nv)
            is_compensated |= ((p.damping > 0.0) | (p.coulomb > 0.0)) & (p.compensation_fraction > 0.0)
    uncompensated = np.where(is_compensated, 0.0, robot.friction + robot.damping * np.abs(v))[robot.actuated_index]
    sentences = []
    if np.abs(compensating_torque).max(initial=0.0) > MIN_REPORTED_TORQUE:
        sentences.append(
            f"compensation of joint friction requires torques {_describe_largest(robot.actuated, compensating_torque)}"
        )
    if uncompensated.max(initial=0.0) > MIN_REPORTED_TORQUE:
        sentences.append(
            "joint friction that is not compensated causes torque errors "
            f"{_describe_largest(robot.actuated, uncompensated)}"
        )
    return tuple(sentences)


def _describe_largest(joints: Sequence[str], torques: Array) -> str:
    """Returns the largest torque and its joint as text."""
    i = first_largest(np.abs(torques))
    return f"up to {abs(torques[i]):.3g} N m ({joints[i]})"
