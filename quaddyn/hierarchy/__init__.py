"""Strict priorities between linear tasks: plain matrices in, one vector out, no robot concept."""

from .null_space import Solution, Task, equal_priority, prioritized, single_task

__all__ = ["Solution", "Task", "equal_priority", "prioritized", "single_task"]
