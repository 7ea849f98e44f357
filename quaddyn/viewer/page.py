"""The live and the recorded web page: meshcat's viewer, the scripts of this package, and no access to the network."""

from __future__ import annotations

import functools
import html
import importlib.resources
import importlib.util
import re
from pathlib import Path, PosixPath

from ..errors import QuaddynError

#: Content security policy: the page loads nothing from outside, whatever a mesh or text contains.
_POLICY = (
    "default-src 'none'; script-src {script}; style-src 'unsafe-inline'; img-src data: blob:; connect-src {connect}"
)


#: Scripts in the order of their dependencies; uPlot (MIT license, beside it) draws the plots.
_SCRIPTS = ("geometry.js", "stage.js", "plots.js", "player.js", "panel.js", "drive.js", "main.js")


@functools.cache
def _text(name: str) -> str:
    """Returns the text of a file of the page."""
    return (importlib.resources.files(__package__) / "web" / name).read_text(encoding="utf-8")


@functools.cache
def _own() -> str:
    """Returns the scripts of the page, with the plot library."""
    licence = "/*! uPlot\n" + _text("uPlot.LICENSE") + "*/\n"
    return "".join(_script(text) for text in (licence + _text("uPlot.iife.min.js"), *map(_text, _SCRIPTS)))


@functools.cache
def meshcat_script() -> str:
    """Returns the viewer script of meshcat (three.js, orbit controls, menu) from its package, with its license note.

    Raises:
        QuaddynError: the installed meshcat has no viewer script.
    """
    spec = importlib.util.find_spec("meshcat")
    folder = Path(spec.origin).parent / "viewer" / "dist" if spec is not None and spec.origin else Path("-")
    try:
        script = (folder / "main.min.js").read_text(encoding="utf-8")
        licence = folder / "main.min.js.LICENSE.txt"
        note = licence.read_text(encoding="utf-8") if licence.is_file() else ""
    except OSError as error:
        raise QuaddynError(f"the viewer needs meshcat's main.min.js: {error}; reinstall meshcat") from None
    return note + "\n" + script


class RecordedPage(PosixPath):
    """Path of a recorded page, which displays the page in a notebook."""

    def _repr_html_(self) -> str:
        return embed_in_iframe(self.read_text(encoding="utf-8"))


def embed_in_iframe(page: str, *, height: int = 480) -> str:
    """Returns a page in a frame for a notebook, without access to the notebook and without a server."""
    style = f"width: 100%; height: {height}px; border: 1px solid #8884; border-radius: 6px"
    return f'<iframe sandbox="allow-scripts" style="{style}" srcdoc="{html.escape(page)}"></iframe>'


def _page(title: str, policy: str, scripts: str) -> str:
    """Returns an HTML page with its content security policy."""
    styles = _text("uPlot.min.css") + _text("page.css")
    values = {"title": html.escape(title), "policy": policy, "styles": styles, "scripts": scripts}
    return re.sub(r"\{\{(\w+)\}\}", lambda match: values[match[1]], _text("page.html"))


def live_page(title: str, port: int) -> str:
    """Returns the page of the server, which loads meshcat and the frames from the server."""
    hosts = ("127.0.0.1", "localhost")
    connect = " ".join(("'self'", *(f"ws://{h}:{port}" for h in hosts)))
    policy = _POLICY.format(script="'self' 'unsafe-inline'", connect=connect)
    scripts = '<script src="meshcat.js"></script>\n' + _own() + _script("live();")
    return _page(title, policy, scripts)


def recorded_page(title: str, data: str) -> str:
    """Returns the self-contained page of `data`: base64 of gzip of length-prefixed packets."""
    policy = _POLICY.format(script="'unsafe-inline'", connect="'none'")
    scripts = _script(meshcat_script()) + _own()
    scripts += f'<script type="application/octet-stream" id="data">{data}</script>\n' + _script("recorded();")
    return _page(title, policy, scripts)


def _script(source: str) -> str:
    """Returns a script element."""
    return "<script>" + source.replace("</script", "<\\/script") + "</script>\n"
