"""Geometry of a robot as ``pin.GeometryModel``.

Vertices of STL and OBJ files are read to determine the size of a foot.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import coal
import numpy as np
import pinocchio as pin

from ..urdf.tree import (
    Array,
    BoxShape,
    CapsuleShape,
    CylinderShape,
    Geometry,
    Link,
    MeshShape,
    Shape,
    SphereShape,
    Tree,
)


def geometry_model(model: pin.Model, tree: Tree, geometries: Callable[[Link], Sequence[Geometry]]) -> pin.GeometryModel:
    """Returns the geometry of a model with the names and placements of ``pin.buildGeomFromUrdf``: "LINK_0" and so on.

    Args:
        model: model of the tree; each link is a frame of type BODY in it.
        tree: tree with the links.
        geometries: function that returns the geometries of a link.  Meshes without a file, or that cannot be read, are
            left out.
    """
    found, loader = pin.GeometryModel(), coal.CachedMeshLoader()
    for link in tree.links:
        frame_id = model.getFrameId(link.name, pin.FrameType.BODY)
        frame = model.frames[frame_id]
        for i, geometry in enumerate(geometries(link)):
            shape = geometry.shape
            solid = _load_mesh(shape, loader) if isinstance(shape, MeshShape) else to_coal_shape(shape)
            if solid is None:
                continue
            found.addGeometryObject(
                pin.GeometryObject(
                    f"{link.name}_{i}",
                    frame.parentJoint,
                    frame_id,
                    frame.placement * pin.SE3(geometry.placement.rotation, geometry.placement.translation),
                    solid,
                    str(shape.path)
                    if isinstance(shape, MeshShape)
                    else type(shape).__name__.removesuffix("Shape").upper(),
                    np.array(shape.scale if isinstance(shape, MeshShape) else (1.0, 1.0, 1.0)),
                    geometry.rgba is not None,
                    np.array(geometry.rgba or (0.9, 0.9, 0.9, 1.0)),
                )
            )
    return found


def to_coal_shape(shape: Shape) -> coal.CollisionGeometry | None:
    """Returns the shape as an object of the library coal; None for a mesh."""
    if isinstance(shape, SphereShape):
        return coal.Sphere(shape.radius)
    if isinstance(shape, BoxShape):
        return coal.Box(*shape.size)
    if isinstance(shape, CylinderShape):
        return coal.Cylinder(shape.radius, shape.length)
    if isinstance(shape, CapsuleShape):
        return coal.Capsule(shape.radius, shape.length)
    return None


def _load_mesh(shape: MeshShape, loader: coal.CachedMeshLoader) -> coal.CollisionGeometry | None:
    if shape.path is None:
        return None
    try:
        return loader.load(str(shape.path), np.array(shape.scale))
    except (RuntimeError, ValueError):
        return None


#: Larger meshes are not read for this purpose: a foot is small, and loading must stay quick.
MAX_FOOT_MESH_BYTES = 1_000_000


def read_vertices(path: Path) -> Array | None:
    """Returns the vertices (N, 3) of an .stl (binary or text) or .obj file; None for other or invalid files."""
    data = path.read_bytes()
    points: Array | None = None
    try:
        if path.suffix.lower() == ".obj":
            points = _read_text_lines(data, b"v ")
        elif path.suffix.lower() == ".stl":
            points = _read_stl(data)
    except ValueError:
        return None
    if points is None or points.size == 0 or not np.isfinite(points).all():
        return None
    return points


def _read_stl(data: bytes) -> Array:
    count = int.from_bytes(data[80:84], "little") if len(data) >= 84 else -1
    if len(data) != 84 + 50 * count:  # the size is the only sure sign of the binary form
        return _read_text_lines(data, b"vertex ")
    triangles = np.frombuffer(data, dtype=np.dtype([("v", "<f4", (4, 3)), ("attribute", "<u2")]), offset=84)
    return triangles["v"][:, 1:].reshape(-1, 3).astype(np.float64)


def _read_text_lines(data: bytes, key: bytes) -> Array:
    words = [w for line in data.splitlines() if line.lstrip().startswith(key) for w in line.split()[1:4]]
    return np.array(list(map(float, words))).reshape(-1, 3)
