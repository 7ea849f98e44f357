"""Deprecated: the old name of `quaddyn.verification`."""

from .deprecation import renamed_module

__getattr__ = renamed_module(__name__, "quaddyn.verification")
