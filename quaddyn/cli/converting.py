"""`quaddyn convert`: writes the URDF of any source that `load` reads."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated
from xml.sax.saxutils import quoteattr

import typer

from ..robot import Robot, load
from ..urdf.tree import MeshShape
from .app import PackagesOption, RobotArgument, app
from .console import say


@app.command()
def convert(
    source: RobotArgument,
    out: Annotated[Path | None, typer.Option(help="file to write to; default: standard output", dir_okay=False)] = None,
    package: PackagesOption = None,
) -> None:
    """Write the URDF of a robot: of an MJCF, a xacro file or a catalogue name; a URDF stays as it is.

    The robot is loaded first, so that what is written is one that can be.  Relative paths of meshes are written as seen
    from the folder of --out.
    """
    robot = load(source, packages=package or ())
    text = robot.source if isinstance(robot.source, str) else robot.source.decode("utf-8", "surrogateescape")
    if out is None:
        print(text)
        return
    out.write_text(_moved(text, robot, out), encoding="utf-8", errors="surrogateescape")
    count = sum(1 for finding in robot.report.warnings)
    say(
        f"{out}: {len(robot.tree.links)} links, {robot.nv} degrees of freedom"
        + (f", {count} warnings" if count else "")
    )


def _moved(text: str, robot: Robot, out: Path) -> str:
    """Returns the document with mesh paths relative to the folder of `out`."""
    shapes = [shape for link in robot.tree.links for shape in (*link.visuals, *link.collisions)]
    for mesh in {each.shape for each in shapes if isinstance(each.shape, MeshShape)}:
        if mesh.path is not None and ":" not in mesh.uri and not mesh.uri.startswith("/"):
            here = Path(os.path.relpath(mesh.path, os.path.realpath(out.parent))).as_posix()
            text = text.replace(f"filename={quoteattr(mesh.uri)}", f"filename={quoteattr(here)}")
    return text
