"""Contact laws behind one interface: a `ContactProblem` in, a `ContactSolution` with its certificate out."""

from . import frictional_core
from .compliant_solver import CompliantSolver
from .frictional_solver import FrictionalSolver
from .impact_solver import Impact, ImpactSolver
from .problem import (
    MAX_FRICTION,
    NOMINAL_FRICTION,
    ContactProblem,
    ContactSolution,
    ContactSolver,
    project,
    project_all,
    residual,
)
from .rigid_solver import RigidSolver

__all__ = [
    "MAX_FRICTION",
    "NOMINAL_FRICTION",
    "CompliantSolver",
    "ContactProblem",
    "ContactSolution",
    "ContactSolver",
    "FrictionalSolver",
    "Impact",
    "ImpactSolver",
    "RigidSolver",
    "project",
    "project_all",
    "residual",
    "warmup",
]


def warmup() -> None:
    """Compile what is compiled now, so that no first step is late: a second once per machine, then a tenth."""
    frictional_core.solve.compile()
