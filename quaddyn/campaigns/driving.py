"""Deprecated: the old name of `quaddyn.campaigns.trial_runner`."""

from ..deprecation import renamed_module

__getattr__ = renamed_module(__name__, "quaddyn.campaigns.trial_runner")
