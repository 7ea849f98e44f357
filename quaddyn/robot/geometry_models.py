"""Geometry of a robot as `pin.GeometryModel`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import coal
import numpy as np
import pinocchio as pin

from ..urdf.tree import Box, Capsule, Cylinder, Geometry, Link, Mesh, Shape, Sphere, Tree


def geometry_model(model: pin.Model, tree: Tree, geometries: Callable[[Link], Sequence[Geometry]]) -> pin.GeometryModel:
    """Returns the geometry of a model, as ``pin.buildGeomFromUrdf`` names and places it: "LINK_0" and so on.

    Args:
        model: of the tree; each link is a frame of type BODY in it.
        tree: the links.
        geometries: those of a link.  Meshes without a file, or that cannot be read, are left out.
    """
    found, loader = pin.GeometryModel(), coal.CachedMeshLoader()
    for link in tree.links:
        frame_id = model.getFrameId(link.name, pin.FrameType.BODY)
        frame = model.frames[frame_id]
        for i, geometry in enumerate(geometries(link)):
            shape = geometry.shape
            solid = _mesh(shape, loader) if isinstance(shape, Mesh) else primitive(shape)
            if solid is None:
                continue
            found.addGeometryObject(
                pin.GeometryObject(
                    f"{link.name}_{i}",
                    frame.parentJoint,
                    frame_id,
                    frame.placement * pin.SE3(geometry.placement.rotation, geometry.placement.translation),
                    solid,
                    str(shape.path) if isinstance(shape, Mesh) else type(shape).__name__.upper(),
                    np.array(shape.scale if isinstance(shape, Mesh) else (1.0, 1.0, 1.0)),
                    geometry.rgba is not None,
                    np.array(geometry.rgba or (0.9, 0.9, 0.9, 1.0)),
                )
            )
    return found


def primitive(shape: Shape) -> coal.CollisionGeometry | None:
    """Returns coal's solid of a shape; None of a mesh."""
    if isinstance(shape, Sphere):
        return coal.Sphere(shape.radius)
    if isinstance(shape, Box):
        return coal.Box(*shape.size)
    if isinstance(shape, Cylinder):
        return coal.Cylinder(shape.radius, shape.length)
    if isinstance(shape, Capsule):
        return coal.Capsule(shape.radius, shape.length)
    return None


def _mesh(shape: Mesh, loader: coal.CachedMeshLoader) -> coal.CollisionGeometry | None:
    if shape.path is None:
        return None
    try:
        return loader.load(str(shape.path), np.array(shape.scale))
    except (RuntimeError, ValueError):
        return None
