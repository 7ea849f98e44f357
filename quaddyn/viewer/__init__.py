"""Viewer of a robot, its forces and its motion in a browser, live or recorded."""

from ..deprecation import renamed_names
from .figure import MissingMesh
from .mesh import MeshError
from .server import KEY_CODES, ServerError
from .video import check_video, render_video
from .viewer import JointSliders, Viewer

__all__ = [
    "KEY_CODES",
    "JointSliders",
    "MeshError",
    "MissingMesh",
    "ServerError",
    "Viewer",
    "check_video",
    "render_video",
]

__getattr__ = renamed_names(__name__, {"KEYS": "KEY_CODES", "Missing": "MissingMesh", "film": "render_video"})
