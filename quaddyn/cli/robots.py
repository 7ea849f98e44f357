"""`quaddyn robots`, `check` and `convert`: the catalogue, validation of robots, and robots as URDF or MJCF."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from xml.sax.saxutils import escape, quoteattr

import numpy as np
import typer

from ..robot import CATALOGUE, Robot, load
from ..robot.saving import urdf_text
from ..safe_files import read_regular_file
from ..urdf.capsules import replace_capsules
from ..urdf.tree import MeshShape
from .app import EXIT_INTERRUPTED_AFTER_REPORT, JsonOption, PackagesOption, RobotArgument, RootOption, app
from .console import check_writable, err, print_text, progress
from .loading import load_robot
from .options import COMPLETIONS
from .tables import Verdict, add_cross_check, print_report, print_robots, print_summary, validate

if TYPE_CHECKING:
    from ..viewer.mesh import Part


@app.command()
def robots(as_json: JsonOption = False) -> None:
    """List the robots of the catalogue with degrees of freedom, mass, legs and feet."""
    rows = []
    for name, entry in progress(list(CATALOGUE.items()), "loading"):
        robot = load(name)
        rows.append(
            {
                "name": name,
                "kind": entry.kind,
                "root": robot.root,
                "dof": robot.nv,
                "joints": robot.nu,
                "mass": round(robot.mass, 3),
                "legs": {n: leg.n for n, leg in robot.legs.items()},
                "feet": {n: leg.foot.frame for n, leg in robot.legs.items()},
            }
        )
    if as_json:
        print(json.dumps(rows, indent=2))
        return
    print_robots(rows)


@app.command()
def check(
    source: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME|FILE", help="a catalogue name or a URDF file", autocompletion=COMPLETIONS["robot"]
        ),
    ] = None,
    root: RootOption = None,
    package: PackagesOption = None,
    damping: Annotated[float | None, typer.Option(min=0.0, help="viscous damping of every joint [N m s/rad]")] = None,
    friction: Annotated[float | None, typer.Option(min=0.0, help="Coulomb friction of every joint [N m]")] = None,
    armature: Annotated[float | None, typer.Option(min=0.0, help="rotor inertia at every joint [kg m^2]")] = None,
    strict: Annotated[bool, typer.Option(help="reject the robot if there are warnings")] = False,
    everything: Annotated[bool, typer.Option("--all", help="check the whole catalogue")] = False,
    samples: Annotated[int, typer.Option(min=0, help="random states of the cross-check; 0: validation only")] = 5,
    seed: Annotated[int, typer.Option(min=0, help="seed of the random states")] = 0,
    against: Annotated[
        str | None,
        typer.Option(
            metavar="NAME|FILE", help="robot that the reference reads instead", autocompletion=COMPLETIONS["robot"]
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Validate a robot, and compare Pinocchio with the independent reference, which has its own file reader.

    Exit code 1 if validation rejects the robot, or an algorithm disagrees by more than its tolerance. With --against,
    the reference reads that robot instead: use it to find the links in which two versions of a file differ.
    """
    if everything == (source is not None):
        raise typer.BadParameter("expected either the NAME or FILE of a robot, or the option --all")
    names = list(CATALOGUE) if everything else [str(source)]
    other = load(against, root=root, packages=package or ()).source if against is not None else None
    verdicts, interrupted = list[Verdict](), False
    try:
        for name in progress(names, "checking"):
            loaded = validate(
                name,
                root=root,
                packages=package or [],
                strict=strict,
                damping=damping,
                friction=friction,
                armature=armature,
            )
            verdicts.append(add_cross_check(loaded, samples=samples, seed=seed, source=other) if samples else loaded)
    except KeyboardInterrupt:
        if not verdicts:
            raise
        interrupted = True
    if as_json:
        print(json.dumps([v.to_json() for v in verdicts], indent=2))
    elif everything:
        print_summary(verdicts)
    else:
        print_report(verdicts[0])
    if interrupted:
        err.print("interrupted", highlight=False)
        raise typer.Exit(EXIT_INTERRUPTED_AFTER_REPORT)
    if not all(v.passed for v in verdicts):
        raise typer.Exit(1)


SINGLE_QUOTE = "'"
#: Suffixes of MJCF files.
MJCF_SUFFIXES = (".xml", ".mjcf")
#: Sizes of the header and of a triangle of binary STL [bytes].
STL_HEADER, STL_TRIANGLE = 84, 50


@app.command()
def convert(
    source: RobotArgument,
    out: Annotated[Path | None, typer.Option(help="file to write to; default: standard output", dir_okay=False)] = None,
    package: PackagesOption = None,
    body: Annotated[
        str | None, typer.Option(help="body of an MJCF that is the robot; default: the one with actuators")
    ] = None,
) -> None:
    """Convert a robot (URDF, MJCF, xacro or catalogue name) to URDF, or to MJCF if --out ends in .xml.

    The robot is loaded first, so that only valid robots are written. Relative paths of meshes are made relative to the
    folder of --out; meshes with package:// or another URI or an absolute path are copied to the folder NAME_meshes next
    to --out. A URDF has no poses: keyframes and a home configuration from a file are reported and omitted. It has
    no capsules: a capsule becomes a cylinder and two spheres. An MJCF has no velocity limits; all its meshes are
    copied, those in Collada (.dae) as STL.
    """
    check_writable(out, (".urdf", *MJCF_SUFFIXES))
    robot = load_robot(source, body=body, packages=package or ())
    if out is not None and out.suffix.lower() in MJCF_SUFFIXES:
        _write_mjcf(robot, out)
        return
    text = replace_capsules(urdf_text(robot))
    if out is None:
        print(text)
        return
    text, copied, missing = _relocate_meshes(text, robot, out)
    out.write_text(text, encoding="utf-8", errors="surrogateescape")
    count = sum(1 for finding in robot.report.warnings)
    print_text(
        f"{out}: {len(robot.tree.links)} links, {robot.nv} degrees of freedom"
        + (f", {copied} meshes copied to {out.stem}_meshes" if copied else "")
        + (f", {count} warnings" if count else "")
    )
    if missing:
        print_text(f"not copied: the meshes {', '.join(missing)}, which were not found; their paths are unchanged")
    if robot.poses:
        print_text(
            f"left out: the poses {', '.join(robot.poses)}, and q_home if one of them is the home configuration; pass "
            "q_home= when the URDF is loaded"
        )


def _write_mjcf(robot: Robot, out: Path) -> None:
    """Writes a robot as MJCF with its meshes, and prints the names of data that an MJCF cannot contain."""
    from ..simulation.mujoco_model import write_mjcf

    files, missing = _copy_meshes(_mesh_shapes(robot), out, formats=(".obj",))
    out.write_text(write_mjcf(robot, mesh_files=files), encoding="utf-8", errors="surrogateescape")
    print_text(f"{out}: {len(robot.bodies)} bodies, {robot.nv} degrees of freedom, {len(files)} meshes")
    if missing:
        print_text(f"left out: the meshes {', '.join(missing)}, which were not found or have another format")
    if np.isfinite(robot.velocity_limits).any():
        print_text("left out: velocity limits, which MJCF does not have; pass limits= when the MJCF is loaded")


def _mesh_shapes(robot: Robot) -> list[MeshShape]:
    """Returns the meshes of a robot, each once."""
    shapes = [each.shape for link in robot.tree.links for each in (*link.visuals, *link.collisions)]
    return list(dict.fromkeys(shape for shape in shapes if isinstance(shape, MeshShape)))


def _copy_meshes(
    shapes: Iterable[MeshShape], out: Path, *, formats: tuple[str, ...] | None
) -> tuple[dict[MeshShape, str], list[str]]:
    """Copies meshes to the folder NAME_meshes next to `out`.

    Args:
        shapes: the meshes.
        out: output file.
        formats: suffixes of the mesh files that are copied unchanged; files with other suffixes are converted to binary
            STL. None: all files are copied unchanged.

    Returns:
        The paths of the copies, relative to the folder of `out`, and the URIs of meshes that were not found or read.
    """
    folder, files, missing = out.with_name(f"{out.stem}_meshes"), dict[MeshShape, str](), list[str]()
    numbers: dict[Path, str] = {}
    for shape in shapes:
        if shape.path is not None and shape.path not in numbers:
            name = _copy_mesh(shape, folder, len(numbers), formats)
            if name is not None:
                numbers[shape.path] = f"{folder.name}/{name}"
        if shape.path in numbers:
            files[shape] = numbers[shape.path]
        else:
            missing.append(shape.uri)
    return files, list(dict.fromkeys(missing))


def _copy_mesh(shape: MeshShape, folder: Path, number: int, formats: tuple[str, ...] | None) -> str | None:
    """Copies a mesh to a folder, see `_copy_meshes`; returns its name, None if it cannot be read."""
    from ..viewer.mesh import MAX_BYTES, MeshError, read_mesh

    path = shape.path
    assert path is not None
    try:
        data, suffix = read_regular_file(path, MAX_BYTES), path.suffix.lower()
        if formats is not None and suffix not in formats and not _is_binary_stl(data, suffix):
            data, suffix = _binary_stl(read_mesh(path, shape.root)), ".stl"
    except (MeshError, OSError):
        return None
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / f"{number}_{path.stem}{suffix}"
    target.write_bytes(data)
    return target.name


def _is_binary_stl(data: bytes, suffix: str) -> bool:
    """Returns whether data are binary STL, the only kind of STL that MuJoCo reads."""
    return suffix == ".stl" and len(data) == STL_HEADER + STL_TRIANGLE * int.from_bytes(data[80:84], "little")


def _binary_stl(parts: Iterable[Part]) -> bytes:
    """Returns parts of a mesh as binary STL [m]."""
    corners = np.concatenate([(part.origin + part.step * part.grid)[part.triangles] for part in parts])
    record = np.zeros(len(corners), dtype=[("normal", "<f4", 3), ("corners", "<f4", (3, 3)), ("attribute", "<u2")])
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    record["normal"] = normals / np.maximum(np.linalg.norm(normals, axis=1, keepdims=True), 1e-300)
    record["corners"] = corners
    return bytes(80) + len(record).to_bytes(4, "little") + record.tobytes()


def _relocate_meshes(text: str, robot: Robot, out: Path) -> tuple[str, int, list[str]]:
    """Makes mesh paths relative to the folder of `out`, and copies meshes with URIs or absolute paths.

    Returns:
        The document, the number of copied meshes, and the URIs of meshes that were not found.
    """
    shapes = _mesh_shapes(robot)
    others = [mesh for mesh in shapes if ":" in mesh.uri or mesh.uri.startswith("/")]
    paths, missing = _copy_meshes(others, out, formats=None)
    copied = len(set(paths.values()))
    for mesh in shapes:
        if mesh.path is not None and mesh not in others:
            paths[mesh] = Path(os.path.relpath(mesh.path, os.path.realpath(out.parent))).as_posix()
    for mesh, path in paths.items():
        quoted = (quoteattr(mesh.uri), f"'{escape(mesh.uri, {SINGLE_QUOTE: '&apos;'})}'")
        written = re.compile(rf"\bfilename\s*=\s*(?:{'|'.join(map(re.escape, quoted))})")
        text = written.sub(f"filename={quoteattr(path)}".replace("\\", r"\\"), text)
    return text, copied, missing
