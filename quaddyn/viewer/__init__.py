"""The viewer: a robot, its forces and its motion in a browser, live or recorded."""

from .figure import Missing
from .parts import MeshError
from .server import KEYS, ServerError
from .viewer import Viewer

__all__ = ["KEYS", "MeshError", "Missing", "ServerError", "Viewer"]
