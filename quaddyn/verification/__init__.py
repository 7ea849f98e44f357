"""Pinocchio and the in-house reference side by side, from the file on: "correct" as a measured word."""

from .check import cross_check
from .report import Agreement, Deviation, State, ThirdOpinion

__all__ = ["Agreement", "Deviation", "State", "ThirdOpinion", "cross_check"]
