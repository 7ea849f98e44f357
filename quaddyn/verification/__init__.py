"""Cross-check of the package's dynamics (Pinocchio) against the independent reference, both starting from the file."""

from ..deprecation import renamed_names
from .check import cross_check
from .report import Deviation, ThirdOpinion, VerificationReport, WorstSample

__getattr__ = renamed_names(__name__, {"Agreement": "VerificationReport", "State": "WorstSample"})

__all__ = ["Deviation", "ThirdOpinion", "VerificationReport", "WorstSample", "cross_check"]
