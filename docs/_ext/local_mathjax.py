"""MathJax from the installed package `sphinx-mathjax-offline`: one script in the site, no request to another host."""

from __future__ import annotations

import shutil
from importlib.metadata import files
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.config import Config

#: TeX in, SVG out: glyphs are in the script, so that pages opened from a disk need no font files.
SCRIPT = "tex-svg.js"


def use(app: Sphinx, config: Config) -> None:
    """Sets the path of the local copy."""
    config.mathjax_path = SCRIPT


def copy(app: Sphinx) -> None:
    """Copies the script to the static files."""
    (found,) = (file for file in files("sphinx-mathjax-offline") or () if file.name == SCRIPT)
    to = Path(app.outdir) / "_static"
    to.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(str(found.locate()), to / SCRIPT)


def setup(app: Sphinx) -> dict[str, bool]:
    """Registers the extension."""
    app.connect("config-inited", use)
    app.connect("builder-inited", copy)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
