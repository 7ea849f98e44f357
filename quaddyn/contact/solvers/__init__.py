"""Contact laws behind one interface: a `ContactProblem` in, a `ContactSolution` with its certificate out."""

from .compliant import CompliantSolver
from .frictional import FrictionalSolver
from .impact import Impact, ImpactSolver
from .problem import MAX_FRICTION, ContactProblem, ContactSolution, ContactSolver, project, project_all, residual
from .rigid import RigidSolver

__all__ = [
    "MAX_FRICTION",
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
    """Import and compile everything now, so that no first step is late: seconds once per machine, then a tenth."""
    import numpy as np

    FrictionalSolver().solve(ContactProblem(np.eye(3), np.array([0.1, 0.0, -1.0]), 0.5))
