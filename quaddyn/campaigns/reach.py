"""Deprecated: the old name of `quaddyn.campaigns.velocity_limits`."""

from ..deprecation import renamed_module

__getattr__ = renamed_module(__name__, "quaddyn.campaigns.velocity_limits")
