"""Robots: `load` reads and validates a robot description and returns a `Robot` with its `Leg` and `Foot` records."""

from typing import TYPE_CHECKING, Any

from ..deprecation import renamed_names
from ..extras import lazy_names
from .catalogue import CATALOGUE
from .loader import load
from .report import Finding, ValidationReport
from .robot import Foot, Leg, Robot

if TYPE_CHECKING:
    from .inertial_update import with_payload


def _close_frames(*arguments: Any) -> Robot:
    from .loop_closing import close_frames  # imports the compiler

    return close_frames(*arguments)


Robot._close_loop_hook = _close_frames

__getattr__ = lazy_names(
    __name__, {"with_payload": "inertial_update"}, renamed_names(__name__, {"Report": "ValidationReport"})
)

__all__ = ["CATALOGUE", "Finding", "Foot", "Leg", "Robot", "ValidationReport", "load", "with_payload"]
