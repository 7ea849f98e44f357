"""The `quaddyn` command: look at robots, judge files, measure legs, run the demo, open the viewer.

A subcommand lives in a module by its subject and registers itself on `app`; this list is the order in which help names
them.
"""

from . import robots, showing
from .app import app, main

__all__ = ["app", "main", "robots", "showing"]
