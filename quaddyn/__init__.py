"""quaddyn: a legged robot's URDF becomes a trusted model, its dynamics, torques, and motion you can see.

import quaddyn as qd
robot = qd.load("go2")
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import forks as _forks  # noqa: F401  # before there are threads
from .deprecation import renamed_modules, renamed_names
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
from .extras import lazy_names
from .version import __version__ as __version__

if TYPE_CHECKING:
    from .dynamics import Dynamics, State, compile
    from .kernels import Kernels, generate_c
    from .locomotion import LocomotionController
    from .robot import CATALOGUE, Foot, Leg, Robot, load
    from .simulation import MujocoPlant, Plant, Simulation
    from .urdf.tree import Limits
    from .verification import VerificationReport, cross_check
    from .viewer import Viewer
    from .wbc import WholeBodyController

# Imported on first use, because subpackages, Pinocchio and NumPy take time to import; "": the subpackage itself.
_LAZY = {
    "CATALOGUE": "robot",
    "Dynamics": "dynamics",
    "Foot": "robot",
    "Kernels": "kernels",
    "Leg": "robot",
    "Limits": "urdf.tree",
    "LocomotionController": "locomotion",
    "MujocoPlant": "simulation",
    "Plant": "simulation",
    "Robot": "robot",
    "Simulation": "simulation",
    "State": "dynamics",
    "VerificationReport": "verification",
    "Viewer": "viewer",
    "WholeBodyController": "wbc",
    "compile": "dynamics",
    "cross_check": "verification",
    "generate_c": "kernels",
    "load": "robot",
    "robot": "",
    "urdf": "",
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
    """Returns the HTML of a robot at home, for notebooks."""
    from .viewer import Viewer

    return Viewer(robot, serve=False)._repr_html_()


renamed_modules(__name__, {"agreement": "verification", "compiling": "compiler"})
__getattr__ = lazy_names(__name__, _LAZY, renamed_names(__name__, {"Agreement": "VerificationReport"}))


def __dir__() -> list[str]:
    return sorted(__all__)
