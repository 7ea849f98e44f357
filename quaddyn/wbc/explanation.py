"""Which rows of a tick are not met, and which limit or task they conflict with.

A row that is not met is explained by the one limit, or else the one task, whose removal reduces its residual most.
This is found by solving again without each candidate, because a multiplier holds for infinitesimal changes only.  All
limits of one contact together are a candidate too: its friction cone and its least normal force both keep it from
pulling, so that neither alone makes a difference where a robot tips over it.  It takes one solve per candidate: it is
meant for people, not for loops.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ..deprecation import renamed_attributes
from ..urdf.tree import Array
from .causes import likely_cause, six_digits
from .certificate import Details, Status, active_rows
from .problem import Group, Problem

#: A suspect is named when its removal gives back at least this share of what was lost.
SHARE = 0.05
#: Suspects that explain a loss alike, as those of two feet of a symmetric stance, up to this share: the first is named.
TIE = 1e-6
#: Sentences about losses at most, where nothing else is asked for; and names in one.
LINES, LISTED = 5, 3
#: At the end of the names of rows that bound normal forces.
NORMAL_FORCE = " normal force"
#: What keeps a robot from tipping over a contact.
CANNOT_PULL = "cannot pull on the ground"

#: Groups of rows that are left out together, each by its level and its place there.
Suspect = tuple[tuple[int, int], ...]


@renamed_attributes(
    amount="deficit", wanted="target", culprit="cause", without="deficit_without_cause", owner="element"
)
@dataclass(frozen=True, slots=True)
class Loss:
    """One row's loss.

    Attributes:
        row: its name, such as "com x".
        level: its level.
        amount: wanted minus reached, or the violation of a limit [unit].
        wanted: what was wanted, or the limit.
        unit: of the row.
        culprit: what it was lost to; "" where nothing single is to blame.
        without: what would still be lost without the culprit [unit].
        owner: name of the task or constraint that the row is of.
    """

    row: str
    level: int
    deficit: float
    target: float
    unit: str
    cause: str
    deficit_without_cause: float
    element: str = ""

    def __str__(self) -> str:
        if not self.cause:
            return f"{self.row}: {abs(self.deficit):.3g} {self.unit} lost; no single limit or task is to blame"
        rest = (
            f"; {abs(self.deficit_without_cause):.2g} would be lost without it"
            if abs(self.deficit_without_cause) > 0.01 * abs(self.deficit)
            else ""
        )
        return f"{self.row}: {abs(self.deficit):.3g} {self.unit} lost to {self.cause}{rest}"


def explain(
    status: Status,
    details: Details,
    *,
    threshold: float = 1e-3,
    include_last_level: bool = False,
    max_lines: int | None = LINES,
) -> str:
    """The sentences, one a line: the status, a likely cause, losses, the most important level first, then remarks.

    Rows of one task or constraint that lose to the same culprit share a sentence, which tells of the largest; within a
    level the largest come first.

    Args:
        status: of the command.
        details: of the command.
        threshold: as for `find_losses`.
        include_last_level: as for `find_losses`.
        max_lines: about losses at most; None for all.
    """
    groups: dict[tuple[int, str, str], list[Loss]] = {}
    for loss in find_losses(details, threshold=threshold, include_last_level=include_last_level):
        groups.setdefault((loss.level, loss.element, loss.cause), []).append(loss)
    together = [sorted(each, key=lambda loss: -six_digits(abs(loss.deficit))) for each in groups.values()]
    together.sort(key=lambda each: (each[0].level, -six_digits(abs(each[0].deficit))))
    what = [_sentence(*each) for each in together] or ["nothing was lost: tasks have what they wanted"]
    if max_lines is not None and len(what) > max_lines:
        what[max_lines:] = [f"... and {len(what) - max_lines} more lines; explain(max_lines=None) has them all"]
    cause = likely_cause(details, status.outcome) if together else ""
    return "\n".join([str(status), *([cause] if cause else []), *what, *details.remarks])


def _sentence(largest: Loss, *others: Loss) -> str:
    """About the rows of one task or constraint that lose to the same."""
    if not others:
        return str(largest)
    names = list(dict.fromkeys(loss.row for loss in others if loss.row != largest.row))
    listed = f" ({', '.join(names)})" if 0 < len(names) <= LISTED else ""
    return f"{largest}; {len(others)} more of {largest.element}{listed} lose up to {abs(others[0].deficit):.3g}"


def find_losses(details: Details, *, threshold: float = 1e-3, include_last_level: bool = False) -> list[Loss]:
    """Every row that lacks something, and what it was lost to.

    Args:
        details: of a command.
        threshold: losses below this do not count, in the rows' own units.
        include_last_level: whether to include rows of the last of three or more levels, which only fills the
            freedom that the others leave.
    """
    out: list[Loss] = []
    cache: dict[Suspect, Array] = {}
    levels = len(details.problem.levels)
    for level, index, row, amount in _lacking(details, threshold):
        if level == levels - 1 and levels > 2 and not include_last_level:
            continue
        culprit, without = _blame(details, level, index, row, amount, cache)
        group = details.problem.levels[level][index]
        wanted = group.lower[row] if group.wanted[row] else 0.0
        out.append(
            Loss(
                group.names[row],
                level,
                amount,
                float(wanted + group.offset[row]),
                group.unit,
                culprit,
                without,
                group.owner,
            )
        )
    return out


def _lacking(details: Details, threshold: float) -> Iterator[tuple[int, int, int, float]]:
    for level, groups in enumerate(details.problem.levels):
        for index, group in enumerate(groups):
            lack = _lack(group.A @ details.x, group.lower, group.upper)
            for row in np.flatnonzero(np.abs(lack) > threshold):
                yield level, index, int(row), float(lack[row])


def _lack(y: Array, lower: Array, upper: Array) -> Array:
    """What rows lack: positive below their range, negative above it."""
    return np.asarray(np.maximum(lower - y, 0.0) - np.maximum(y - upper, 0.0))


def _blame(
    details: Details, level: int, index: int, row: int, amount: float, cache: dict[Suspect, Array]
) -> tuple[str, float]:
    """The suspect whose removal gives the row back most, limits before tasks, one limit before several of a contact."""
    problem = details.problem
    group = problem.levels[level][index]
    for limits in (True, False):
        best, without, name = abs(amount) * (1.0 - SHARE), 0.0, ""
        for suspect in _suspects(details, level, index, limits=limits):
            if suspect not in cache:
                cache[suspect] = details.resolve(problem.without(*suspect))
            y = group.A[row] @ cache[suspect]
            rest = abs(float(_lack(y, group.lower[row], group.upper[row])))
            score = rest + (SHARE * abs(amount) if len(suspect) > 1 else 0.0)
            if score < best - TIE * abs(amount):
                best, without, name = score, rest, _title(problem, suspect, details.x, limits=limits)
        if name:
            return name, without
    return "", abs(amount)


def _suspects(details: Details, level: int, index: int, *, limits: bool) -> Iterator[Suspect]:
    """Each group alone; behind them, all groups with active limits of one contact."""
    together: dict[str, Suspect] = {}
    for k in range(level + 1):
        for i, group in enumerate(details.problem.levels[k]):
            if (k, i) == (level, index):
                continue
            if limits and active_rows(group, group.A @ details.x):
                yield ((k, i),)
                if group.contact:
                    together[group.contact] = (*together.get(group.contact, ()), (k, i))
            elif not limits and group.wanted.any():
                yield ((k, i),)
    yield from (suspect for suspect in together.values() if len(suspect) > 1)


def _title(problem: Problem, suspect: Suspect, x: Array, *, limits: bool) -> str:
    if len(suspect) > 1:
        return _title_of_contact([problem.levels[k][i] for k, i in suspect], x)
    ((level, index),) = suspect
    group = problem.levels[level][index]
    if not limits:
        return f"the {group.owner} task" if level else f"the {group.owner} of level 0"
    names = list(dict.fromkeys(group.names[i] for i in active_rows(group, group.A @ x)))
    if len(names) > 3:
        return f"the {group.owner} limits of {len(names)} rows"
    return "the " + " and the ".join(names)


def _title_of_contact(groups: Sequence[Group], x: Array) -> str:
    """Of all limits of one contact."""
    contact = groups[0].contact
    for group in groups:
        for i in active_rows(group, group.A @ x):
            value = float(group.A[i] @ x)
            if group.names[i].endswith(NORMAL_FORCE) and value - group.lower[i] < group.upper[i] - value:
                least = float(group.lower[i] + group.offset[i])
                return f"{contact}, which " + (f"pushes with {least:.3g} N at least" if least > 0.0 else CANNOT_PULL)
    return f"the limits of the {contact} contact force"
