"""Contact solvers with one interface: a `ContactProblem` in, a `ContactSolution` with its residual out."""

from ...deprecation import renamed_names
from . import frictional_core
from .compliant_solver import CompliantSolver
from .frictional_solver import FrictionalSolver
from .problem import (
    MAX_FRICTION,
    NOMINAL_FRICTION,
    ContactProblem,
    ContactSolution,
    ContactSolver,
    contact_residual,
    project_to_cone,
    project_to_cones,
)
from .rigid_solver import Impact, ImpactSolver, RigidSolver

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
    "contact_residual",
    "project_to_cone",
    "project_to_cones",
    "warmup",
]

__getattr__ = renamed_names(
    __name__,
    {"project": "project_to_cone", "project_all": "project_to_cones", "residual": "contact_residual"},
)


def warmup() -> None:
    """Compiles the compiled solver, so that the first step is not delayed: 1 s once per machine, later 0.1 s."""
    frictional_core.solve_contact_problem.compile()
