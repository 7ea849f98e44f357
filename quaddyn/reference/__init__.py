"""Independent reference implementation: a second reader of URDF and the textbook algorithms in plain NumPy.

It shares no code with Pinocchio nor with any other subpackage.  It is written to be compared with the textbooks line by
line, not for speed.  "Source A" to "source E" in its docstrings are the five sources of the documentation
(``docs/sources``).
"""

from ..deprecation import renamed_modules
from .closed import ClosedReference
from .model import Body, Model, build_model
from .reader import Description, read_urdf
from .reference import Reference

renamed_modules(
    __name__,
    {
        "aba": "algorithms",
        "coriolis": "algorithms",
        "derivatives": "algorithms",
        "frames": "algorithms",
        "lie_group": "algorithms",
        "mass": "algorithms",
        "momentum": "algorithms",
        "regressor": "algorithms",
        "rnea": "algorithms",
        "configuration": "kinematics",
    },
)

__all__ = ["Body", "ClosedReference", "Description", "Model", "Reference", "build_model", "read_urdf"]
