"""`find_sole`: the flat underside of a foot, from the shapes in the robot's file."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pinocchio as pin

from ..errors import ArgumentError, ArgumentTypeError, UnknownNameError
from ..robot.mesh_vertices import read_vertices
from ..robot.model import body_joint
from ..robot.robot import Robot
from ..urdf.tree import Array, BoxShape, CylinderShape, MeshShape, Pose, Shape, SphereShape, first_largest
from .support import support_polygon

#: Points within this fraction of the foot's extent above its lowest point belong to the sole.
FLATNESS_TOLERANCE = 2e-3
#: Smallest width of a sole, as a fraction of the foot's extent.
MIN_WIDTH_FRACTION = 0.1
#: Number of positions along a sole at which its rectangle may begin and end, besides the corners of its outline.
N_EDGE_SAMPLES = 65
#: Number of points around the rim of a cylinder.
N_RIM_POINTS = 16


class Sole(NamedTuple):
    """The rectangle of a sole, in the frame of its foot.

    Attributes:
        offset: (3,) its center [m].
        rotation: (3, 3) its axes: forward, to the left, and up.
        half_size: (2,) half of its sides [m].
        outline: (m, 2) corners of the whole sole about the center, in these axes, counter-clockwise [m].
    """

    offset: Array
    rotation: Array
    half_size: Array
    outline: Array


def simplify_outline(outline: Array, corners: int) -> Array:
    """Returns a convex polygon without the corners that reduce its area least, with at most `corners` corners.

    Of corners with the same area the first one is removed.
    """
    remaining = np.array(outline)
    while len(remaining) > corners:
        before, after = np.roll(remaining, 1, axis=0) - remaining, np.roll(remaining, -1, axis=0) - remaining
        removed_area = np.abs(before[:, 0] * after[:, 1] - before[:, 1] * after[:, 0])
        remaining = np.delete(remaining, first_largest(-removed_area, float(removed_area.max())), axis=0)
    return remaining


def find_sole(robot: Robot, foot: str) -> Sole:
    """Finds the sole of a foot, see `Contact.from_sole`.

    Args:
        robot: the robot.
        foot: name of the foot.

    Raises:
        UnknownNameError: no such foot.
        ArgumentError: the lowest points of its shapes span no area.
    """
    if not isinstance(robot, Robot):
        raise ArgumentTypeError(f"robot: expected a Robot from quaddyn.load, got {type(robot).__name__}")
    if foot not in robot.legs:
        raise UnknownNameError("foot", foot, robot.feet)
    axes = _upright_axes(robot, foot)
    points = _underside_points(robot, foot, axes[:, 2]) @ axes
    extent = float(np.ptp(points, axis=0).max()) if len(points) else 0.0
    lowest = points[points[:, 2] <= points[:, 2].min() + FLATNESS_TOLERANCE * extent] if len(points) else points
    outline = support_polygon(lowest[:, :2])
    low, high = _largest_rectangle(outline) if len(outline) > 2 else (np.zeros(2), np.zeros(2))
    if not (high - low).min() > MIN_WIDTH_FRACTION * extent:
        width, length = 1e3 * np.sort(high - low)
        raise ArgumentError(
            f"foot: {foot!r} of {robot.name!r} has no flat sole in its file: the lowest points of the "
            f"shapes of {robot.legs[foot].foot.frame!r} span {length:.1f} x {width:.1f} mm; "
            "make a Contact of kind 'surface' with offset and half_size"
        )
    center = np.array([*(low + high) / 2.0, lowest[:, 2].min()])
    return Sole(axes @ center, axes, (high - low) / 2.0, outline - center[:2])


def _upright_axes(robot: Robot, foot: str) -> Array:
    """Returns the axes (3, 3) of a sole, columns forward, left, up along axes of the foot's frame, joints at zero."""
    data = robot.model.createData()
    robot.algorithms.framesForwardKinematics(robot.model, data, np.array(robot.neutral))
    R = data.oMf[robot.frame_id(foot)].rotation
    axes = np.vstack((np.eye(3), -np.eye(3)))
    up = axes[first_largest(axes @ R[2])]
    level = axes[np.abs(axes @ up) < 0.5]
    forward = level[first_largest(level @ R[0])]
    return np.column_stack((forward, np.cross(up, forward), up))


def _underside_points(robot: Robot, foot: str, up: Array) -> Array:
    """Returns points (n, 3) in the foot's frame [m] whose convex hull contains the underside of the foot's shapes."""
    model = robot.model
    frame = model.frames[robot.frame_id(foot)]
    body = next(b for b in robot.bodies if body_joint(model, b) == frame.parentJoint)
    body_placement = model.frames[model.getFrameId(body.name, pin.FrameType.BODY)].placement
    to_foot = frame.placement.actInv(body_placement)
    out = [np.zeros((0, 3))]
    for kind in ("collisions", "visuals"):
        for link, pose in body.links:
            for geometry in getattr(link, kind):
                placement: Pose = pose @ geometry.placement
                R = to_foot.rotation @ placement.rotation
                points = _shape_underside(geometry.shape, R.T @ up)
                out.append(to_foot.translation + to_foot.rotation @ placement.translation + points @ R.T)
        if len(out) > 1:
            break
    return np.vstack(out)


def _shape_underside(shape: Shape, up: Array) -> Array:
    """Returns points (n, 3) in a shape's axes [m] whose convex hull contains its underside; none for a bad mesh."""
    if isinstance(shape, SphereShape):
        return -shape.radius * up[None]
    if isinstance(shape, BoxShape):
        return np.array([[x, y, z] for x in (-0.5, 0.5) for y in (-0.5, 0.5) for z in (-0.5, 0.5)]) * shape.size
    if isinstance(shape, MeshShape):
        points = None if shape.path is None else read_vertices(shape.path)
        return np.zeros((0, 3)) if points is None else points * np.array(shape.scale)
    ends = np.array([[0.0, 0.0, -0.5 * shape.length], [0.0, 0.0, 0.5 * shape.length]])
    if isinstance(shape, CylinderShape):
        angles = 2.0 * np.pi * np.arange(N_RIM_POINTS) / N_RIM_POINTS
        rim = shape.radius * np.column_stack((np.cos(angles), np.sin(angles), np.zeros(N_RIM_POINTS)))
        return np.vstack([end + rim for end in ends])
    return ends - shape.radius * up


def _largest_rectangle(outline: Array) -> tuple[Array, Array]:
    """Returns the lower and upper corner of the largest axis-parallel rectangle in a convex polygon (h, 2)."""
    x = np.unique(
        np.concatenate((outline[:, 0], np.linspace(outline[:, 0].min(), outline[:, 0].max(), N_EDGE_SAMPLES)))
    )
    edges = np.roll(outline, -1, axis=0) - outline
    low, high = np.full(len(x), -np.inf), np.full(len(x), np.inf)
    for (px, py), (dx, dy) in zip(outline, edges, strict=True):
        if dx != 0.0:
            edge = py + dy / dx * (x - px)
            low, high = (np.maximum(low, edge), high) if dx > 0.0 else (low, np.minimum(high, edge))
    bottom, top = np.maximum.outer(low, low), np.minimum.outer(high, high)
    area = np.maximum(top - bottom, 0.0) * np.subtract.outer(x, x)
    j, i = np.unravel_index(first_largest(area.ravel()), area.shape)
    return np.array([x[i], bottom[i, j]]), np.array([x[j], top[i, j]])
