"""The live and the recorded web page: meshcat's viewer, the scripts of this package, and no access to the network."""

from __future__ import annotations

import functools
import html
import importlib.resources
import importlib.util
import json
import re
from collections.abc import Iterable
from pathlib import Path

from ..errors import QuaddynError
from ..operating_system import SystemPath, describe_os_error

#: Content security policy: the page loads nothing from outside, whatever a mesh or text contains.
_POLICY = (
    "default-src 'none'; script-src {script}; style-src 'unsafe-inline'; img-src data: blob:; connect-src {connect}"
)


#: Scripts in the order of their dependencies; uPlot (MIT license, beside it) draws the plots.
_SCRIPTS = (
    "geometry.js", "flags.js", "stage.js", "plots.js", "player.js", "inspector.js", "panel.js", "drive.js", "main.js"
)  # fmt: skip


@functools.cache
def _read_text(name: str) -> str:
    """Returns the text of a file in the folder ``web`` of this subpackage."""
    return (importlib.resources.files(__package__) / "web" / name).read_text(encoding="utf-8")


@functools.cache
def _make_scripts() -> str:
    """Returns the scripts of the page, with the plot library."""
    license_text = "/*! uPlot\n" + _read_text("uPlot.LICENSE") + "*/\n"
    return "".join(
        _make_script_element(text)
        for text in (license_text + _read_text("uPlot.iife.min.js"), *map(_read_text, _SCRIPTS))
    )


@functools.cache
def read_meshcat_script() -> str:
    """Returns the viewer script of meshcat (three.js, orbit controls, menu) from its package, with its license note.

    Raises:
        QuaddynError: the installed meshcat has no viewer script.
    """
    spec = importlib.util.find_spec("meshcat")
    folder = Path(spec.origin).parent / "viewer" / "dist" if spec is not None and spec.origin else Path("-")
    try:
        script = (folder / "main.min.js").read_text(encoding="utf-8")
        license_file = folder / "main.min.js.LICENSE.txt"
        license_text = license_file.read_text(encoding="utf-8") if license_file.is_file() else ""
    except OSError as error:
        raise QuaddynError(
            f"the file main.min.js of meshcat, which the viewer requires, cannot be read: {describe_os_error(error)}; "
            "reinstall meshcat"
        ) from None
    return license_text + "\n" + script


class RecordedPage(SystemPath):
    """Path of a recorded page, which displays the page in a notebook."""

    def _repr_html_(self) -> str:
        return embed_in_iframe(self.read_text(encoding="utf-8"))


def embed_in_iframe(page: str, *, height: int = 480) -> str:
    """Returns a page in a frame for a notebook, without access to the notebook and without a server."""
    style = f"width: 100%; height: {height}px; border: 1px solid #8884; border-radius: 6px"
    return f'<iframe sandbox="allow-scripts" style="{style}" srcdoc="{html.escape(page)}"></iframe>'


def _make_page(title: str, policy: str, scripts: str) -> str:
    """Returns an HTML page with its content security policy."""
    styles = _read_text("uPlot.min.css") + _read_text("page.css")
    values = {"title": html.escape(title), "policy": policy, "styles": styles, "scripts": scripts}
    return re.sub(r"\{\{(\w+)\}\}", lambda match: values[match[1]], _read_text("page.html"))


def make_live_page(title: str, hosts: Iterable[str], port: int, view_path: str, *, may_control: bool) -> str:
    """Returns the page of the server, which loads meshcat and the frames from the server.

    Args:
        title: title of the page.
        hosts: names and addresses of the server.
        port: port of the server.
        view_path: path of the page without control, for links that are passed on.
        may_control: whether the server accepts input of this page.
    """
    connect = " ".join(("'self'", *(f"ws://{host}:{port}" for host in hosts)))
    policy = _POLICY.format(script="'self' 'unsafe-inline'", connect=connect)
    call = f"showLive({json.dumps(may_control)}, {json.dumps(view_path)});"
    scripts = '<script src="meshcat.js"></script>\n' + _make_scripts() + _make_script_element(call)
    return _make_page(title, policy, scripts)


def make_recorded_page(title: str, data: str) -> str:
    """Returns the self-contained page of `data`: base64 of gzip of length-prefixed packets."""
    policy = _POLICY.format(script="'unsafe-inline'", connect="'none'")
    scripts = _make_script_element(read_meshcat_script()) + _make_scripts()
    scripts += f'<script type="application/octet-stream" id="data">{data}</script>\n' + _make_script_element(
        "playRecording();"
    )
    return _make_page(title, policy, scripts)


def _make_script_element(source: str) -> str:
    """Returns an HTML script element with this source."""
    return "<script>" + source.replace("</script", "<\\/script") + "</script>\n"
