"""`ValidationReport`: warnings with file, element and reason, and the origin of every resolved value."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from ..deprecation import renamed_attributes
from ..urdf.tree import Finding

__all__ = ["Finding", "ValidationReport"]

#: Elements that a finding on several elements lists.
MAX_LISTED_ELEMENTS = 4


@renamed_attributes(checks="check_results")
@dataclass(frozen=True)
class ValidationReport:
    """Result of the validation of one loaded robot.

    Attributes:
        findings: every warning and note, in file order; equal ones of several elements are joined in the first one.
        provenance: for each resolved quantity, such as ``"FL_calf_joint.effort"`` or ``"FL.radius"``, where its value
            comes from, as text (file and line, argument, default, geometry).
        check_results: measured values of the checks by name, each in its unit, such as the smallest eigenvalue of M(q).
    """

    findings: tuple[Finding, ...]
    provenance: Mapping[str, str]
    check_results: Mapping[str, float]

    def __post_init__(self) -> None:
        object.__setattr__(self, "findings", _join_equal(self.findings))
        for name in ("provenance", "check_results"):  # read-only
            object.__setattr__(self, name, MappingProxyType(dict(getattr(self, name))))

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.findings, dict(self.provenance), dict(self.check_results))

    @property
    def warnings(self) -> tuple[Finding, ...]:
        """The findings of level "warning"."""
        return tuple(f for f in self.findings if f.level == "warning")

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.findings)

    def __str__(self) -> str:
        lines = [str(f) for f in self.findings] or ["no findings"]
        return "\n".join(lines)


def _join_equal(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Returns the findings, where those that differ in nothing but the element are one that lists the elements."""
    groups: dict[tuple[object, ...], list[Finding]] = {}
    for each in findings:
        groups.setdefault((each.level, each.where.file, each.reason, each.advice, each.cosmetic), []).append(each)
    out = []
    for first, *others in groups.values():
        elements = [x for x in dict.fromkeys(each.where.element for each in others) if x != first.where.element]
        more = f" and {len(elements) - MAX_LISTED_ELEMENTS} more" if len(elements) > MAX_LISTED_ELEMENTS else ""
        listed = ", ".join(elements[:MAX_LISTED_ELEMENTS])
        out.append(replace(first, reason=f"{first.reason} (also {listed}{more})") if elements else first)
    return tuple(out)
