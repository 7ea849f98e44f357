"""Deprecated: the old name of `quaddyn.campaigns.friction_drop`."""

from ..deprecation import renamed_module

__getattr__ = renamed_module(__name__, "quaddyn.campaigns.friction_drop")
