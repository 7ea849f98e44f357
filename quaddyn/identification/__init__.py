"""From measured motion to parameters: base parameters, exciting motion, least squares, physically consistent fits."""

from .base import BaseParameters, RankCertificate, base_parameters
from .grouping import Grouping, group_by_rule

__all__ = ["BaseParameters", "Grouping", "RankCertificate", "base_parameters", "group_by_rule"]
