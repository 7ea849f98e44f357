"""Strict priorities between linear tasks: plain matrices in, one vector out, independent of robots."""

from ..deprecation import renamed_names
from .level import Level
from .null_space import LinearTask, NullSpaceSolution, solve_equal_priority, solve_prioritized, solve_single_task
from .solver import HierarchySolution, HierarchySolver, LevelSolution, SolverPool, solve
from .workspace import LevelBuffers

__all__ = [
    "HierarchySolution",
    "HierarchySolver",
    "Level",
    "LevelBuffers",
    "LevelSolution",
    "LinearTask",
    "NullSpaceSolution",
    "SolverPool",
    "solve",
    "solve_equal_priority",
    "solve_prioritized",
    "solve_single_task",
]

__getattr__ = renamed_names(
    __name__,
    {
        "Buffers": "LevelBuffers",
        "Solution": "NullSpaceSolution",
        "Task": "LinearTask",
        "equal_priority": "solve_equal_priority",
        "prioritized": "solve_prioritized",
        "single_task": "solve_single_task",
    },
)
