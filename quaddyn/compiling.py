"""Deprecated: the old name of `quaddyn.compiler`."""

from .deprecation import renamed_module

__getattr__ = renamed_module(__name__, "quaddyn.compiler")
