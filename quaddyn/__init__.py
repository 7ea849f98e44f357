"""quaddyn: a legged robot's URDF becomes a trusted model, its dynamics, torques, and motion you can see.

import quaddyn as qd
robot = qd.load("go2")
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from . import forks as _forks  # noqa: F401  # before there are threads
from .deprecation import renamed_names
from .errors import (
    ArgumentError,
    ArgumentTypeError,
    ConcurrencyError,
    DivergenceError,
    ModelError,
    QuaddynError,
    StaleStateError,
    UnknownAttributeError,
    UnknownNameError,
    UnreachableError,
)
from .robot import CATALOGUE, Foot, Leg, Robot, load
from .urdf.tree import Limits
from .version import __version__ as __version__

if TYPE_CHECKING:
    from .dynamics import Dynamics, State, compile
    from .kernels import Kernels, generate_c
    from .locomotion import LocomotionController
    from .simulation import MujocoPlant, Plant, Simulation
    from .verification import VerificationReport, cross_check
    from .viewer import Viewer
    from .wbc import WholeBodyController

# Imported on first use: viewers and simulators cost time that a controller need not pay.
_LAZY = {
    "VerificationReport": "verification",
    "Dynamics": "dynamics",
    "LocomotionController": "locomotion",
    "MujocoPlant": "simulation",
    "Plant": "simulation",
    "Simulation": "simulation",
    "State": "dynamics",
    "Viewer": "viewer",
    "WholeBodyController": "wbc",
    "Kernels": "kernels",
    "compile": "dynamics",
    "cross_check": "verification",
    "generate_c": "kernels",
}

__all__ = [
    "CATALOGUE",
    "ArgumentError",
    "ArgumentTypeError",
    "ConcurrencyError",
    "DivergenceError",
    "Dynamics",
    "Foot",
    "Kernels",
    "Leg",
    "Limits",
    "LocomotionController",
    "ModelError",
    "MujocoPlant",
    "Plant",
    "QuaddynError",
    "Robot",
    "Simulation",
    "StaleStateError",
    "State",
    "UnknownAttributeError",
    "UnknownNameError",
    "UnreachableError",
    "VerificationReport",
    "Viewer",
    "WholeBodyController",
    "compile",
    "cross_check",
    "generate_c",
    "load",
]


def _picture(robot: Robot) -> str:
    """A robot at home, for a notebook."""
    from .viewer import Viewer

    return Viewer(robot, serve=False)._repr_html_()


Robot._html_hook = _picture


_old_name = renamed_names(__name__, {"Agreement": "VerificationReport"})


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(importlib.import_module(f".{_LAZY[name]}", __name__), name)
    return _old_name(name)


def __dir__() -> list[str]:
    return sorted(__all__)
