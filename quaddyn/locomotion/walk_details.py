"""`WalkDetails`: what a command shows of a tick on the ground, computed when it is read."""

from __future__ import annotations

from typing import Any

from .foot_masks import find_feet
from .footwork import FootworkSnapshot
from .morphology import FEET
from .record_snapshot import RecordSnapshot
from .velocity_limits import REASON_TEXTS, LimitReason
from .walking import TickReport


class WalkDetails:
    """Attributes of a `LocomotionCommand` that are read seldom.

    Args:
        source: source of the copies of the report of a tick.
        footwork: swings and footholds of the tick.
        reason: text of the reason for a limit of the velocity that depends on robot or terrain.
        carrying: names of the feet that are to carry load.
        measured: names of the feet in contact; None without foot sensors.
    """

    __slots__ = ("_carrying", "_footwork", "_measured", "_memory", "_reason", "_report", "_source")

    def __init__(
        self,
        source: RecordSnapshot[TickReport],
        footwork: FootworkSnapshot,
        reason: str,
        carrying: tuple[str, ...],
        measured: tuple[str, ...] | None,
    ) -> None:
        self._source, self._memory, self._footwork = source, source.take(), footwork
        self._reason, self._carrying, self._measured = reason, carrying, measured
        self._report: TickReport | None = None

    def read(self, name: str) -> Any:
        """Returns an attribute of the command."""
        report = self._report
        if report is None:
            report = self._report = self._source.restore(self._memory)
        match name:
            case "desired_cop":
                return report.cop
            case "clamped_velocity":
                return report.velocity
            case "reference_velocity":
                return report.reference_velocity
            case "limit_reason":
                depends = report.reason in (LimitReason.LEGS_ON_SLOPE, LimitReason.TERRAIN_STEP)
                return self._reason if depends else REASON_TEXTS[report.reason]
            case "swings":
                return self._footwork.make_swings()
            case "footholds":
                return self._footwork.make_footholds()
            case "detected_contacts":
                if self._measured is not None:
                    return self._measured
                return find_feet(report.in_contact) if report.follows_contacts else None
            case "slipping_feet":
                return find_feet(report.is_slipping)
            case "friction":
                return report.friction
            case "contact_normals":
                normals = zip(FEET, report.normals.tolist(), strict=True)
                return {foot: tuple(normal) for foot, normal in normals if foot in self._carrying}
            case "model_mismatch":
                return report.has_model_mismatch
        raise AttributeError(name)
