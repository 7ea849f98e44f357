"""The in-house oracle: a second reading of the file and the textbook's algorithms in plain NumPy.

It shares no code with Pinocchio nor with any other room here.  Speed does not matter; that it can be read beside the
book does.
"""

from .closed import ClosedReference
from .model import Body, Model, build_model
from .reader import Description, read_urdf
from .reference import Reference

__all__ = ["Body", "ClosedReference", "Description", "Model", "Reference", "build_model", "read_urdf"]
