"""The `quaddyn` command: look at robots, judge files, measure legs, run the demo, view, replay.

A subcommand lives in a module by its subject and registers itself on `app`; this list is the order in which help names
them.
"""

from . import robots, showing, control, identifying, codegen  # isort: skip
from .app import app, main

__all__ = ["app", "codegen", "control", "identifying", "main", "robots", "showing"]
