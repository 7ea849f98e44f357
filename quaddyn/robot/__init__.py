"""A URDF becomes a trusted robot: guard, `load`, `Robot`, `Leg` and `Foot` as data, the catalogue."""

from .catalogue import CATALOGUE
from .closing import closed_frames
from .loader import load
from .payload import with_payload
from .report import Finding, Report
from .robot import Foot, Leg, Robot

Robot.closing = closed_frames

__all__ = ["CATALOGUE", "Finding", "Foot", "Leg", "Report", "Robot", "load", "with_payload"]
