"""Deprecated: the old name of `quaddyn.campaigns.binomial_bounds`."""

from ..deprecation import renamed_module

__getattr__ = renamed_module(__name__, "quaddyn.campaigns.binomial_bounds")
