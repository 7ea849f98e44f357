"""`quaddyn convert`: writes the URDF of any source that `quaddyn.load` accepts."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated
from xml.sax.saxutils import quoteattr

import typer

from ..robot import Robot, load
from ..robot.saving import urdf_text
from ..urdf.tree import MeshShape
from .app import PackagesOption, RobotArgument, app
from .console import print_text

#: Suffixes of robot files that `convert` does not write.
OTHER_FORMATS = (".xml", ".mjcf", ".xacro", ".sdf", ".srdf")


@app.command()
def convert(
    source: RobotArgument,
    out: Annotated[Path | None, typer.Option(help="file to write to; default: standard output", dir_okay=False)] = None,
    package: PackagesOption = None,
    body: Annotated[
        str | None, typer.Option(help="body of an MJCF that is the robot; default: the one with actuators")
    ] = None,
) -> None:
    """Convert a robot (MJCF, xacro or catalogue name) to URDF; a URDF is copied.

    The robot is loaded first, so that only valid robots are written. Relative paths of meshes are made relative to the
    folder of --out. A URDF has no poses: keyframes and a home configuration from a file are named and left out.
    """
    if out is not None and out.suffix.lower() in OTHER_FORMATS:
        raise typer.BadParameter(f"{out}: convert writes URDFs; choose a name that ends in .urdf", param_hint="--out")
    robot = load(source, body=body, packages=package or ())
    text = urdf_text(robot)
    if out is None:
        print(text)
        return
    out.write_text(_relocate_meshes(text, robot, out), encoding="utf-8", errors="surrogateescape")
    count = sum(1 for finding in robot.report.warnings)
    print_text(
        f"{out}: {len(robot.tree.links)} links, {robot.nv} degrees of freedom"
        + (f", {count} warnings" if count else "")
    )
    if robot.poses:
        print_text(
            f"left out: the poses {', '.join(robot.poses)}, and q_home if one of them is the home configuration; pass "
            "q_home= when the URDF is loaded"
        )


def _relocate_meshes(text: str, robot: Robot, out: Path) -> str:
    """Returns the document with mesh paths relative to the folder of `out`."""
    shapes = [shape for link in robot.tree.links for shape in (*link.visuals, *link.collisions)]
    for mesh in {each.shape for each in shapes if isinstance(each.shape, MeshShape)}:
        if mesh.path is not None and ":" not in mesh.uri and not mesh.uri.startswith("/"):
            relative_path = Path(os.path.relpath(mesh.path, os.path.realpath(out.parent))).as_posix()
            text = text.replace(f"filename={quoteattr(mesh.uri)}", f"filename={quoteattr(relative_path)}")
    return text
