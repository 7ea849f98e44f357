"""Pinocchio and the in-house reference side by side, from the file on: "correct" as a measured word."""

from ..deprecation import renamed_names
from .check import cross_check
from .report import Deviation, ThirdOpinion, VerificationReport, WorstSample

__getattr__ = renamed_names(__name__, {"Agreement": "VerificationReport", "State": "WorstSample"})

__all__ = ["Deviation", "ThirdOpinion", "VerificationReport", "WorstSample", "cross_check"]
