"""Strict priorities between linear tasks: plain matrices in, one vector out, no robot concept."""

from .level import Level
from .null_space import Solution, Task, equal_priority, prioritized, single_task
from .problem import Buffers
from .solution import HierarchySolution, LevelSolution
from .solve import solve
from .solver import HierarchySolver, SolverPool

__all__ = [
    "Buffers",
    "HierarchySolution",
    "HierarchySolver",
    "Level",
    "LevelSolution",
    "Solution",
    "SolverPool",
    "Task",
    "equal_priority",
    "prioritized",
    "single_task",
    "solve",
]
