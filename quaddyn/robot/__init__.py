"""Robots: `load` reads and validates a robot description and returns a `Robot` with its `Leg` and `Foot` records."""

from ..deprecation import renamed_names
from .catalogue import CATALOGUE
from .loader import load
from .loop_closing import close_frames
from .payload import with_payload
from .report import Finding, ValidationReport
from .robot import Foot, Leg, Robot

Robot._close_loop_hook = close_frames

__getattr__ = renamed_names(__name__, {"Report": "ValidationReport"})

__all__ = ["CATALOGUE", "Finding", "Foot", "Leg", "Robot", "ValidationReport", "load", "with_payload"]
