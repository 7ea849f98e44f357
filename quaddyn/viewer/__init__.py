"""The viewer: a robot, its forces and its motion in a browser, live or recorded."""

from .figure import Missing
from .parts import MeshError
from .posing import JointSliders
from .server import KEYS, ServerError
from .video import check_video, film
from .viewer import Viewer

__all__ = ["KEYS", "JointSliders", "MeshError", "Missing", "ServerError", "Viewer", "check_video", "film"]
