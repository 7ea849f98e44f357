"""The `quaddyn` command: robots, files, legs, the demo, the viewer, ticks out of files, logs, the installation.

A subcommand lives in a module by its subject and registers itself on `app`; this list is the order in which help names
them.
"""

from . import robots, showing, campaigning, control, identifying, preflight, logs, codegen, doctor  # isort: skip
from .app import app, main

__all__ = [
    "app",
    "campaigning",
    "codegen",
    "control",
    "doctor",
    "identifying",
    "logs",
    "main",
    "preflight",
    "robots",
    "showing",
]
