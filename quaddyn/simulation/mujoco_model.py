"""A `Robot` as a MuJoCo model, built body by body from its record and not from the file.

MuJoCo's own importer rejects many real robots for their massless links, rounds inertias and has no planar joints.

Closed loops are equality constraints between sites.  `MujocoContact` has the contact parameters of a MuJoCo model, and
presets of them.

MJCF documents of robots: `write_mjcf` writes a new one, `update_mjcf` replaces values in an existing one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any
from xml.etree.ElementTree import Element, SubElement, indent, tostring

import defusedxml.ElementTree
import numpy as np
import pinocchio as pin
from numpy.typing import NDArray

from ..errors import ArgumentError, ArgumentTypeError, ModelError, UnknownNameError
from ..robot.arguments import check_positive, check_type
from ..robot.bodies import CompositeBody
from ..robot.configuration import independent_joints
from ..robot.loops import LoopCoupling
from ..robot.model import PLANAR_ROOT, rotation_to
from ..robot.robot import Robot
from ..urdf.mjcf import import_mujoco
from ..urdf.tree import Array, BoxShape, CapsuleShape, CylinderShape, Geometry, Inertial, MeshShape, Pose, SphereShape
from .actuators import Actuators
from .spheres import PlacedSphere
from .terrain import Box, Plane, Terrain

#: Distance along the axis between the two connected points of a revolute loop [m].
HINGE_POINT_DISTANCE = 0.1


def add_loops(mujoco: Any, spec: Any, bodies: Sequence[Any], robot: Robot) -> None:
    """Adds equality constraints for the loops of a robot.

    A ball joint connects a point, a revolute joint two points on its axis, and a weld a frame.

    Args:
        mujoco: the module ``mujoco``.
        spec: ``mujoco.MjSpec`` of the robot.
        bodies: its bodies, in the order of the robot.
        robot: robot with loops.
    """
    kinds, sites = mujoco.mjtEq, mujoco.mjtObj.mjOBJ_SITE
    for loop in robot.loops:
        for n_point in range(2 if loop.kind == "revolute" else 1):
            names = [f"loop {loop.name} {side} {n_point}" for side in "AB"]
            ends = ((loop.link_a, loop.placement_a), (loop.link_b, loop.placement_b))
            for name, (link, placement) in zip(names, ends, strict=True):
                body_index, link_pose = _find_body_of_link(robot, link)
                pose_in_body = link_pose @ placement
                position = pose_in_body.translation + n_point * HINGE_POINT_DISTANCE * pose_in_body.rotation[:, 2]
                bodies[body_index].add_site(name=name, pos=position, quat=mujoco_quaternion(pose_in_body.rotation))
            kind = kinds.mjEQ_WELD if loop.kind == "weld" else kinds.mjEQ_CONNECT
            equality = spec.add_equality(type=kind, objtype=sites, name1=names[0], name2=names[1])
            if loop.kind == "weld":
                data = np.zeros(len(equality.data))
                data[10] = 1.0  # torque per force: rotation and translation alike
                equality.data = data


class LoopJoints:
    """Dependent joints of closed loops: entries in the full coordinates and in MuJoCo's qpos and qvel.

    Args:
        loops: loops of the robot.
        entries: indices of each joint in q_all, v_all, qpos and qvel.
    """

    def __init__(self, loops: LoopCoupling, entries: Sequence[tuple[int, int, int, int]]) -> None:
        self.loops = loops
        self.q, self.v, self.qpos, self.qvel = np.array(entries, dtype=np.intp).reshape(-1, 4).T

    def to_mujoco(self, q: Array, v: Array, qpos: Array, qvel: Array, zero: Array) -> None:
        """Writes the positions and velocities of the joints at (q, v) to `qpos` and `qvel`."""
        joint_state = self.loops.at(q)
        qpos[self.qpos], qvel[self.qvel] = joint_state.q[self.q] + zero[self.qpos], joint_state.velocity(v)[self.v]


def _find_body_of_link(robot: Robot, link: str) -> tuple[int, Pose]:
    """Returns the index of the body that contains a link, and the placement of the link in that body."""
    return next(
        (i, pose) for i, body in enumerate(robot.bodies) for body_link, pose in body.links if body_link.name == link
    )


def mujoco_quaternion(rotation: Array) -> Array:
    """Returns the quaternion (4,) of a rotation in MuJoCo's order, w first."""
    x, y, z, w = pin.Quaternion(np.array(rotation)).coeffs()
    return np.array([w, x, y, z])


#: Minimum radius of spheres in MuJoCo, used for point feet [m].
MIN_SPHERE_RADIUS = 1e-5
#: Minimum mass [kg] and inertia [kg m^2] of moving bodies in MuJoCo's compiler; exact values are set after compilation.
MIN_BODY_MASS = 1e-6
#: Minimum height range of a height field in MuJoCo [m].
MIN_FIELD_HEIGHT = 1e-6
#: Names of MuJoCo's joint types by number (mjtJoint).
KINDS = ("free", "ball", "slide", "hinge")
#: Collision bits: spheres of the robot collide with the terrain and with nothing else.
ROBOT_BIT, TERRAIN_BIT = 1, 2


@dataclass(frozen=True, slots=True, eq=False)
class RotatedJoint:
    """Joint whose linear velocity is in its own axes in Pinocchio and in the axes of its parent in MuJoCo."""

    q: int  # first entries in q and v
    v: int  # likewise
    qpos: int  # first entries in MuJoCo's coordinates
    qvel: int  # likewise
    size: int  # 3 for a floating joint (position and quaternion), 2 for a planar one (position and angle)


@dataclass(frozen=True, slots=True, eq=False)
class MujocoCoordinateMap:
    """Conversion between (q, v) of Pinocchio and (qpos, qvel) of MuJoCo."""

    q: NDArray[np.intp]  # entries that are equal in both apart from `zero`
    qpos: NDArray[np.intp]  # likewise
    v: NDArray[np.intp]  # entries of the velocities that are equal in both
    qvel: NDArray[np.intp]  # likewise
    rotated_joints: tuple[RotatedJoint, ...]  # floating and planar joints, whose linear velocities differ by a rotation
    # (first entry in q, entry in qpos) of joints that are (cos, sin) in Pinocchio and an angle in MuJoCo
    continuous_joints: tuple[tuple[int, int], ...]
    zero: Array  # (nqpos,) MuJoCo's coordinates of slides and hinges at Pinocchio's zero; zero elsewhere
    # (entry in q, in v, in qpos, in qvel, multiplier, offset) of mimic joints, which are equality constraints in MuJoCo
    mimics: tuple[tuple[int, int, int, int, float, float], ...] = ()
    dependent_joints: LoopJoints | None = None  # dependent joints of closed loops; None without loops

    def to_mujoco(self, q: Array, v: Array, qpos: Array, qvel: Array) -> None:
        """Writes (q, v) to MuJoCo's `qpos` and `qvel`, with continuous joints within (-pi, pi] of their zero."""
        qpos[self.qpos], qvel[self.qvel] = q[self.q] + self.zero[self.qpos], v[self.v]
        for cos, angle in self.continuous_joints:
            qpos[angle] = np.arctan2(q[cos + 1], q[cos]) + self.zero[angle]
        for entry_q, entry_v, angle, speed, multiplier, offset in self.mimics:
            qpos[angle] = multiplier * q[entry_q] + offset + self.zero[angle]
            qvel[speed] = multiplier * v[entry_v]
        if self.dependent_joints is not None:
            self.dependent_joints.to_mujoco(q, v, qpos, qvel, self.zero)
        for joint in self.rotated_joints:
            if joint.size == 3:
                x, y, z, w = q[joint.q + 3 : joint.q + 7]
                qpos[joint.qpos + 3 : joint.qpos + 7] = w, x, y, z
            n = joint.size
            qvel[joint.qvel : joint.qvel + n] = _joint_rotation(joint, q) @ v[joint.v : joint.v + n]

    def from_mujoco(self, qpos: Array, qvel: Array, q: Array, v: Array) -> None:
        """Writes MuJoCo's state to `q` and `v`."""
        q[self.q], v[self.v] = qpos[self.qpos] - self.zero[self.qpos], qvel[self.qvel]
        for cos, angle in self.continuous_joints:
            position = qpos[angle] - self.zero[angle]
            q[cos], q[cos + 1] = np.cos(position), np.sin(position)
        for joint in self.rotated_joints:
            if joint.size == 3:
                w, x, y, z = qpos[joint.qpos + 3 : joint.qpos + 7]
                q[joint.q + 3 : joint.q + 7] = x, y, z, w
            n = joint.size
            v[joint.v : joint.v + n] = _joint_rotation(joint, q).T @ qvel[joint.qvel : joint.qvel + n]


def _joint_rotation(joint: RotatedJoint, q: Array) -> Array:
    """Returns the rotation at q from the axes of a planar (2, 2) or floating (3, 3) joint to those of its parent."""
    if joint.size == 2:
        c, s = q[joint.q + 2 : joint.q + 4]
        return np.array([[c, -s], [s, c]])
    x, y, z, w = q[joint.q + 3 : joint.q + 7].tolist()
    return np.array(
        [
            [1.0 - 2.0 * (y * y + z * z), 2.0 * (x * y - z * w), 2.0 * (x * z + y * w)],
            [2.0 * (x * y + z * w), 1.0 - 2.0 * (x * x + z * z), 2.0 * (y * z - x * w)],
            [2.0 * (x * z - y * w), 2.0 * (y * z + x * w), 1.0 - 2.0 * (x * x + y * y)],
        ]
    )


def make_specification(
    robot: Robot, spheres: Iterable[PlacedSphere], actuators: Actuators, *, joint_stops: bool
) -> Any:
    """Returns the robot as an ``mujoco.MjSpec``, to which a terrain can be added.

    Bodies, joints and actuators have the names of the file, spheres their own. Values are those of the record, apart
    from inertias that MuJoCo's compiler would reject and contributions of the motors to the joints; `compile_model`
    sets these.

    Args:
        robot: robot to convert.
        spheres: contact spheres.
        actuators: motors of the robot.
        joint_stops: whether position limits of the joints become constraints.
    """
    mujoco = import_mujoco()
    spec = mujoco.MjSpec()
    spec.modelname = robot.name
    spec.compiler.inertiafromgeom = False
    spec.compiler.degree = False
    spec.compiler.autolimits = False
    spec.option.gravity = robot.model.gravity.linear
    bodies: list[Any] = []
    for i, body in enumerate(robot.bodies):
        parent = spec.worldbody if body.parent < 0 else bodies[body.parent]
        mujoco_body = parent.add_body(
            name=body_name(body), pos=body.placement.translation, quat=mujoco_quaternion(body.placement.rotation)
        )
        bodies.append(mujoco_body)
        _set_inertia(mujoco_body, body.inertial)
        if i == 0:
            _add_root_joint(mujoco, mujoco_body, robot.root)
        else:
            _add_joint(mujoco, mujoco_body, robot, body, joint_stops)
    for sphere in spheres:
        bodies[sphere.body].add_geom(
            name=sphere.name,
            type=mujoco.mjtGeom.mjGEOM_SPHERE,
            size=[max(sphere.radius, MIN_SPHERE_RADIUS), 0.0, 0.0],
            pos=sphere.in_body,
            contype=ROBOT_BIT,
            conaffinity=TERRAIN_BIT,
        )
    add_loops(mujoco, spec, bodies, robot)
    for name, mimic in {j.name: j.mimic for j in robot.tree.joints if j.mimic is not None}.items():
        equality = spec.add_equality(type=mujoco.mjtEq.mjEQ_JOINT, name1=name, name2=mimic.joint)
        polynomial = np.zeros(len(equality.data))
        polynomial[:2] = mimic.offset, mimic.multiplier
        equality.data = polynomial
    for name, limit in zip(robot.actuated, actuators.effort, strict=True):
        motor = spec.add_actuator(name=name, target=name, trntype=mujoco.mjtTrn.mjTRN_JOINT)
        motor.set_to_motor()
        if np.isfinite(limit):
            motor.forcelimited, motor.forcerange = True, [-limit, limit]
    return spec


def add_terrain(spec: Any, terrain: Terrain, friction: float) -> None:
    """Adds the surfaces of a terrain to `spec`; `friction` is the coefficient of surfaces without one."""
    mujoco = import_mujoco()
    kinds = mujoco.mjtGeom
    for i, surface in enumerate(terrain.surfaces):
        name = f"terrain {i}"  # of height fields; geoms have no name, since a sphere may have any name
        if isinstance(surface, Plane):
            shape = {
                "type": kinds.mjGEOM_PLANE,
                "size": [0.0, 0.0, 1.0],
                "pos": surface.point,
                "quat": mujoco_quaternion(rotation_to(surface.normal)),
            }
        elif isinstance(surface, Box):
            shape = {
                "type": kinds.mjGEOM_BOX,
                "size": 0.5 * surface.size,
                "pos": surface.center,
                "quat": mujoco_quaternion(surface.rotation),
            }
        else:
            min_height = float(surface.heights.min())
            height_range = max(float(np.ptp(surface.heights)), MIN_FIELD_HEIGHT)
            half = 0.5 * surface.spacing * (np.array(surface.heights.shape) - 1)
            columns, rows = surface.heights.shape
            field = spec.add_hfield(name=name, nrow=rows, ncol=columns, size=[*half, height_range, height_range])
            field.userdata = (surface.heights.T.ravel() - min_height) / height_range
            middle = surface.origin + half
            shape = {"type": kinds.mjGEOM_HFIELD, "hfieldname": name, "pos": [*middle, min_height]}
        geom = spec.worldbody.add_geom(contype=TERRAIN_BIT, conaffinity=ROBOT_BIT, **shape)
        geom.priority = 1  # its friction applies, not that of the sphere
        geom.friction = [friction if surface.friction is None else surface.friction, 0.0, 0.0]


def compile_model(spec: Any, robot: Robot, actuators: Actuators) -> tuple[Any, MujocoCoordinateMap]:
    """Compiles `spec` and sets the exact masses and inertias of the record.

    Returns:
        The ``mujoco.MjModel``, and the map of its coordinates.
    """
    mujoco = import_mujoco()
    model = spec.compile()
    for body in robot.bodies:
        body_id = model.body(body_name(body)).id
        model.body_mass[body_id] = body.inertial.mass
        model.body_inertia[body_id] = _principal_inertia(body.inertial)[0]
    mimic_losses = _mimic_losses(robot)
    for name, i in zip(robot.actuated, robot.actuated_index, strict=True):
        dof = model.joint(name).dofadr[0]
        model.dof_armature[dof] = actuators.armature[i] - mimic_losses[0][i]
        model.dof_damping[dof] = actuators.damping[i] - mimic_losses[1][i]
        model.dof_frictionloss[dof] = actuators.friction[i] - mimic_losses[2][i]
    mujoco.mj_setConst(model, mujoco.MjData(model))
    return model, make_coordinate_map(model, robot)


def _mimic_losses(robot: Robot) -> tuple[Array, Array, Array]:
    """Returns the inertia and friction of mimic joints at the joints that they follow, which MuJoCo adds itself.

    Returns:
        Rotor inertia, damping and friction, (nv,) each.
    """
    losses = np.zeros((3, robot.nv))
    if robot.coupling is not None:
        for name, joint in independent_joints(robot.bodies).items():
            v = robot.velocity_index(name)
            losses[:, v] = robot.armature[v], robot.damping[v], robot.friction[v]
            losses[:, v] -= joint.armature, joint.damping, joint.friction
    return losses[0], losses[1], losses[2]


def body_name(body: CompositeBody) -> str:
    """Returns the name of a body in MuJoCo: "world (link)" for "world", which MuJoCo reserves, else its name."""
    return "world (link)" if body.name == "world" else body.name


def _set_inertia(mujoco_body: Any, inertial: Inertial) -> None:
    """Sets the inertia of a MuJoCo body, enlarged where MuJoCo's compiler would reject it."""
    moments, axes = _principal_inertia(inertial)
    mujoco_body.explicitinertial = True
    mujoco_body.mass, mujoco_body.ipos, mujoco_body.iquat = (
        max(inertial.mass, MIN_BODY_MASS),
        inertial.com,
        mujoco_quaternion(axes),
    )
    # Moments that the compiler accepts; `compile_model` sets those of points, rods and massless bodies.
    mujoco_body.inertia = np.full(3, max(float(moments.max()), MIN_BODY_MASS))


def _principal_inertia(inertial: Inertial) -> tuple[Array, Array]:
    """Returns the principal moments (3,) about the center of mass [kg m^2], and the rotation (3, 3) to their axes."""
    moments, axes = np.linalg.eigh(inertial.inertia)
    if np.linalg.det(axes) < 0.0:
        axes = axes * np.array([1.0, 1.0, -1.0])
    return np.maximum(moments, 0.0), axes


def _add_root_joint(mujoco: Any, mujoco_body: Any, root: str) -> None:
    """Adds the joints of a free or planar root to its MuJoCo body; a fixed root has none."""
    if root == "free":
        mujoco_body.add_freejoint(name="root_joint")
    elif root == "planar":
        slide, hinge = mujoco.mjtJoint.mjJNT_SLIDE, mujoco.mjtJoint.mjJNT_HINGE
        axes = ([1.0, 0.0, 0.0], [0.0, 0.0, 1.0], [0.0, 1.0, 0.0])
        for (name, _), kind, axis in zip(PLANAR_ROOT, (slide, slide, hinge), axes, strict=True):
            mujoco_body.add_joint(name=name, type=kind, axis=axis)


def _add_joint(mujoco: Any, mujoco_body: Any, robot: Robot, body: CompositeBody, stops: bool) -> None:
    """Adds the joint of a body, with damping, friction and armature."""
    joint, kinds = body.joint, mujoco.mjtJoint
    assert joint is not None
    losses = {"damping": joint.damping, "frictionloss": joint.friction, "armature": joint.armature}
    if joint.type == "floating":
        # A free joint must be at the world; three slides and a ball have the same coordinates.
        for letter, axis in zip("xyz", np.eye(3), strict=True):
            mujoco_body.add_joint(name=f"{joint.name} {letter}", type=kinds.mjJNT_SLIDE, axis=axis, **losses)
        mujoco_body.add_joint(name=f"{joint.name} turn", type=kinds.mjJNT_BALL, **losses)
    elif joint.type == "planar":
        for letter, axis in zip("xy", rotation_to(joint.axis).T[:2], strict=True):
            mujoco_body.add_joint(name=f"{joint.name} {letter}", type=kinds.mjJNT_SLIDE, axis=axis, **losses)
        mujoco_body.add_joint(name=f"{joint.name} turn", type=kinds.mjJNT_HINGE, axis=joint.axis, **losses)
    else:
        kind = kinds.mjJNT_SLIDE if joint.type == "prismatic" else kinds.mjJNT_HINGE
        mujoco_joint = mujoco_body.add_joint(name=joint.name, type=kind, axis=joint.axis, **losses)
        if not joint.independent:
            return  # limited by its equality constraint and the stops of the joint that it follows
        q = robot.configuration_index(joint.name)
        limits = np.array([robot.lower[q], robot.upper[q]])
        if stops and joint.type != "continuous" and np.isfinite(limits).any():
            mujoco_joint.limited, mujoco_joint.range = True, np.clip(limits, -1e6, 1e6)


def make_coordinate_map(
    model: Any, robot: Robot, *, root_joint: str | int = "root_joint", prefix: str = "", zero: Array | None = None
) -> MujocoCoordinateMap:
    """Returns the conversion between the coordinates of a robot and those of a MuJoCo model with the same joint names.

    Args:
        model: ``mujoco.MjModel``, with joints in any order and possibly further joints.
        robot: robot with these joints.
        root_joint: name or number of the free joint, for a robot with a free root.
        prefix: prefix of the joint names in MuJoCo.
        zero: (nqpos,) as in `MujocoCoordinateMap`; None: zeros.

    Raises:
        UnknownNameError: MuJoCo has no joint of such a name.
        ModelError: a joint is of a different kind in MuJoCo.
    """
    q: list[tuple[int, int]] = []
    v: list[tuple[int, int]] = []
    rotated_joints: list[RotatedJoint] = []
    continuous_joints: list[tuple[int, int]] = []

    names = [model.joint(j).name for j in range(model.njnt)]

    def add_equal_entries(pairs: list[tuple[int, int]], first_pinocchio: int, first_mujoco: int, count: int) -> None:
        pairs += [(first_pinocchio + i, first_mujoco + i) for i in range(count)]

    def find_addresses(name: str | int, kind: str = "hinge or slide") -> tuple[int, int]:
        if isinstance(name, str) and name not in names:
            raise UnknownNameError("MuJoCo joint", name, names)
        joint = model.joint(name)
        joint_kind = KINDS[int(joint.type[0])]
        if joint_kind not in kind:
            raise ModelError(
                f"MuJoCo joint {name!r}: expected a {kind} joint, as {robot.name!r} has it, found {joint_kind}"
            )
        return int(joint.qposadr[0]), int(joint.dofadr[0])

    def add_floating_joint(q_first: int, v_first: int, qpos: int, qvel: int) -> None:
        add_equal_entries(q, q_first, qpos, 3)
        add_equal_entries(v, v_first + 3, qvel + 3, 3)
        rotated_joints.append(RotatedJoint(q_first, v_first, qpos, qvel, 3))

    if robot.root == "free":
        add_floating_joint(0, 0, *find_addresses(root_joint, "free"))
    elif robot.root == "planar":
        for i, (name, _) in enumerate(PLANAR_ROOT):
            addresses = find_addresses(prefix + name)
            add_equal_entries(q, i, addresses[0], 1)
            add_equal_entries(v, i, addresses[1], 1)
    mimics, dependent_joints = [], []
    for body in robot.bodies[1:]:
        joint = body.joint
        assert joint is not None
        if joint.loop is not None:
            addresses = robot.model.joints[robot.model.getJointId(joint.name)]
            dependent_joints.append((int(addresses.idx_q), int(addresses.idx_v), *find_addresses(prefix + joint.name)))
            continue
        mimic = joint.mimic
        independent_name = joint.name if mimic is None else mimic.joint
        q_index, v_index = robot.configuration_index(independent_name), robot.velocity_index(independent_name)
        qpos, qvel = find_addresses(prefix + (joint.name if joint.nv == 1 else f"{joint.name} x"))
        if mimic is not None:
            mimics.append((q_index, v_index, qpos, qvel, mimic.multiplier, mimic.offset))
        elif joint.type == "floating":
            add_floating_joint(q_index, v_index, qpos, qvel)
        elif joint.type == "planar":
            add_equal_entries(q, q_index, qpos, 2)
            add_equal_entries(v, v_index + 2, qvel + 2, 1)
            continuous_joints.append((q_index + 2, qpos + 2))
            rotated_joints.append(RotatedJoint(q_index, v_index, qpos, qvel, 2))
        else:
            add_equal_entries(v, v_index, qvel, 1)
            if joint.type == "continuous":
                continuous_joints.append((q_index, qpos))
            else:
                add_equal_entries(q, q_index, qpos, 1)
    pairs = [np.array(p, dtype=np.intp).reshape(-1, 2).T for p in (q, v)]
    zero = np.zeros(model.nq) if zero is None else zero
    return MujocoCoordinateMap(
        pairs[0][0], pairs[0][1], pairs[1][0], pairs[1][1], tuple(rotated_joints), tuple(continuous_joints), zero,
        tuple(mimics),
        LoopJoints(robot.coupling, dependent_joints) if isinstance(robot.coupling, LoopCoupling) else None,
    )  # fmt: skip


#: Friction cones of MuJoCo.
CONES = ("elliptic", "pyramidal")
#: Contact dimensions of MuJoCo that have sliding friction: sliding, with torsion, with torsion and rolling.
CONTACT_DIMENSIONS = (3, 4, 6)


def _validate_numbers(name: str, values: object, count: int) -> tuple[float, ...]:
    """Returns a tuple of `count` finite numbers; raises if `values` is not one."""
    if not isinstance(values, tuple) or len(values) != count:
        raise ArgumentTypeError(f"{name}: expected a tuple of {count} numbers, got {values!r}")
    for value in values:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ArgumentTypeError(f"{name}: expected a tuple of {count} numbers, got {values!r}")
        if not math.isfinite(value):
            raise ArgumentError(f"{name}: expected finite numbers, got {values}")
    return values


@dataclass(frozen=True, slots=True, kw_only=True)
class MujocoContact:
    """Contact parameters of a MuJoCo model, named as in MuJoCo; the defaults are MuJoCo's.

    Sliding friction is a property of the plant and its terrain (`MujocoPlant.friction`).

    Attributes:
        cone: shape of the friction cones, "pyramidal" or "elliptic".
        impratio: ratio of frictional to normal constraint impedance.  With elliptic cones a larger ratio means less
            creep under tangential load.
        solref: time constant [s] and damping ratio of the contact springs, both positive; or the negated stiffness
            [1/s^2] and damping [1/s], both negative.  None: critically damped, twice the time step of the plant.
        solimp: impedance at no penetration, impedance at full width, width [m], midpoint and power of the transition.
        condim: contact dimension; 3 for sliding friction, 4 with torsional, 6 with torsional and rolling friction.
        torsional: coefficient of torsional friction [m].
        rolling: coefficient of rolling friction [m].

    Raises:
        ArgumentError: an attribute out of range.
        ArgumentTypeError: an attribute of the wrong type.
    """

    cone: str = "pyramidal"
    impratio: float = 1.0
    solref: tuple[float, float] | None = (0.02, 1.0)
    solimp: tuple[float, float, float, float, float] = (0.9, 0.95, 0.001, 0.5, 2.0)
    condim: int = 3
    torsional: float = 0.005
    rolling: float = 0.0001

    def __post_init__(self) -> None:
        if self.cone not in CONES:
            raise ArgumentError(f"cone: expected one of {', '.join(CONES)}, got {self.cone!r}")
        check_positive("impratio", self.impratio)
        if isinstance(self.condim, bool) or self.condim not in CONTACT_DIMENSIONS:
            raise ArgumentError(f"condim: expected one of {CONTACT_DIMENSIONS}, got {self.condim!r}")
        for name in ("torsional", "rolling"):
            check_positive(name, getattr(self, name), zero=True)
        if self.solref is not None:
            time, damping = _validate_numbers("solref", self.solref, 2)
            if not ((time > 0.0 and damping > 0.0) or (time < 0.0 and damping < 0.0)):
                raise ArgumentError(f"solref: expected two positive or two negative numbers, got {self.solref}")
        min_impedance, max_impedance, width, midpoint, power = _validate_numbers("solimp", self.solimp, 5)
        if not (
            0.0 < min_impedance <= 1.0
            and 0.0 < max_impedance <= 1.0
            and width > 0.0
            and 0.0 < midpoint < 1.0
            and power >= 1.0
        ):
            raise ArgumentError(
                "solimp: expected two impedances in (0, 1], a positive width, a midpoint in (0, 1) and a power of at "
                f"least 1, got {self.solimp}"
            )


#: Presets by name.  "stiff": as rigid as the time step allows, friction cones circular.  "mujoco": MuJoCo's defaults.
#: "menagerie": feet of quadrupeds in MuJoCo Menagerie (Go2, A1, ANYmal C), where the width of `solimp` is about the
#: foot's radius.  "soft": a mat in which feet sink by some millimeters and creep under tangential load.
PRESETS: Mapping[str, MujocoContact] = MappingProxyType(
    {
        "stiff": MujocoContact(cone="elliptic", impratio=100.0, solref=None, torsional=0.0, rolling=0.0),
        "mujoco": MujocoContact(),
        "menagerie": MujocoContact(
            cone="elliptic",
            impratio=100.0,
            solimp=(0.015, 1.0, 0.022, 0.5, 2.0),
            condim=6,
            torsional=0.02,
            rolling=0.01,
        ),
        "soft": MujocoContact(solref=(0.04, 1.0), solimp=(0.8, 0.9, 0.01, 0.5, 2.0)),
    }
)


def find_contact_parameters(contact: str | MujocoContact) -> MujocoContact:
    """Returns contact parameters by the name of a preset, or as given.

    Raises:
        ArgumentTypeError: neither a name nor a `MujocoContact`.
        UnknownNameError: there is no such preset.
    """
    if isinstance(contact, MujocoContact):
        return contact
    check_type("contact", contact, str, "the name of a preset or a MujocoContact")
    if contact not in PRESETS:
        raise UnknownNameError("contact", contact, PRESETS)
    return PRESETS[contact]


#: Attributes of a joint for viscous friction, Coulomb friction and rotor inertia.
LOSS_ATTRIBUTES = ("damping", "frictionloss", "armature")


#: Attributes of geoms that are only drawn, and of those that only collide, as MuJoCo's own models have them.
VISUAL = {"group": "2", "contype": "0", "conaffinity": "0"}
COLLISION = {"group": "3"}


def write_mjcf(
    robot: Robot, losses: Mapping[str, Array] | None = None, *, mesh_files: Mapping[MeshShape, str] | None = None
) -> str:
    """Returns a robot as MJCF, with all digits of its numbers.

    The document contains bodies, joints with limits, friction and rotor inertia, motors with effort limits, closed
    loops, mimic joints and the home configuration as keyframe "home".  MJCF has no velocity limits.

    Args:
        robot: the robot.
        losses: by joint (3,) viscous friction, Coulomb friction and rotor inertia in SI units; None: those of the
            robot.
        mesh_files: file of each mesh (.stl or .obj), relative to the folder of the document; meshes that are missing
            are left out.  None: without links that are attached to others, and without shapes.

    Raises:
        ModelError: MuJoCo is not installed, or rejects the robot.
    """
    joints = {body.joint.name: body.joint for body in robot.bodies if body.joint is not None}
    if losses is None:
        losses = {
            name: np.array([joint.damping, joint.friction, joint.armature])
            for name, joint in joints.items()
            if joint.nv == 1
        }
    specification = make_specification(robot, (), Actuators(robot), joint_stops=True)
    model = specification.compile()
    inertials = {body_name(body): (body.inertial, Pose.identity()) for body in robot.bodies if body.inertial.mass > 0.0}
    root = _parse(_write(specification.to_xml(), inertials, (), losses))
    elements = {element.get("name"): element for element in root.iter("body")}
    files = mesh_files or {}
    assets = Element("asset")
    names = {
        shape: SubElement(assets, "mesh", name=f"mesh {i}", file=file, scale=_text(shape.scale)).get("name", "")
        for i, (shape, file) in enumerate(files.items())
    }
    for body in robot.bodies:
        element = elements[body_name(body)]
        _place(element, body.placement)
        for joint in element.findall("joint"):  # MuJoCo writes six digits
            own = joints.get(joint.get("name", ""))
            if own is not None and own.nv == 1:
                joint.set("axis", _text(own.axis))
                if joint.get("range") is not None:
                    q = robot.configuration_index(own.name)
                    joint.set("range", _text(np.clip([robot.lower[q], robot.upper[q]], -1e6, 1e6)))
        if mesh_files is None:
            continue
        for link, placement in body.links:
            owner = element
            if link.name != body.name:  # a body without a joint, which keeps the name and frame of the link
                owner = SubElement(element, "body", name=link.name)
                _place(owner, placement)
            own_placement = placement if owner is element else Pose.identity()
            for geometries, attributes in ((link.visuals, VISUAL), (link.collisions, COLLISION)):
                for geometry in geometries:
                    _add_geom(owner, geometry, own_placement, names, attributes)
    for motor, effort in zip(root.iter("general"), Actuators(robot).effort.tolist(), strict=True):
        if motor.get("forcerange") is not None:
            motor.set("forcerange", _text([-effort, effort]))
    if len(assets):
        root.insert(1, assets)
    qpos = np.array(model.qpos0)
    make_coordinate_map(model, robot).to_mujoco(robot.q_home, np.zeros(robot.nv), qpos, np.zeros(model.nv))
    SubElement(SubElement(root, "keyframe"), "key", name="home", qpos=_text(qpos))
    indent(root)
    return tostring(root, encoding="unicode") + "\n"


def _text(numbers: Any) -> str:
    """Returns numbers as the text of an attribute, with all digits."""
    return " ".join(map(repr, np.asarray(numbers, dtype=np.float64).tolist()))


def _place(element: Element, placement: Pose) -> None:
    """Sets the placement of a body."""
    element.set("pos", _text(placement.translation))
    element.set("quat", _text(mujoco_quaternion(placement.rotation)))


def _add_geom(
    owner: Element, geometry: Geometry, placement: Pose, names: Mapping[MeshShape, str], attributes: Mapping[str, str]
) -> None:
    """Adds a shape as a geom, at a placement in the body; meshes without a name are left out."""
    match shape := geometry.shape:
        case SphereShape():
            kind = {"type": "sphere", "size": _text([shape.radius])}
        case BoxShape():
            kind = {"type": "box", "size": _text(0.5 * np.array(shape.size))}
        case CylinderShape():
            kind = {"type": "cylinder", "size": _text([shape.radius, 0.5 * shape.length])}
        case CapsuleShape():
            kind = {"type": "capsule", "size": _text([shape.radius, 0.5 * shape.length])}
        case MeshShape():
            if shape not in names:
                return
            kind = {"type": "mesh", "mesh": names[shape]}
    geom = SubElement(owner, "geom", {**kind, **attributes})
    _place(geom, placement @ geometry.placement)
    if geometry.rgba is not None:
        geom.set("rgba", _text(geometry.rgba))


def update_mjcf(
    document: bytes | str, robot: Robot, inertials: Mapping[str, Inertial], losses: Mapping[str, Array]
) -> str:
    """Returns an MJCF with other inertias and joint attributes; all else is unchanged, apart from comments.

    The inertia of bodies without joints is that of the body that carries them.

    Args:
        document: the MJCF from which the robot was loaded, in one file.
        robot: the robot.
        inertials: inertias of composite bodies of the robot, by name, in the axes of their joint frames.
        losses: by joint (3,) viscous friction, Coulomb friction and rotor inertia in SI units.

    Raises:
        ArgumentError: a body or joint of the robot is not in the document.
    """
    root = _parse(document)
    names = {element.get("name") for element in root.iter("body")}
    bodies: dict[str, tuple[Inertial, Pose]] = {}
    merged = []
    for body in robot.bodies:
        if body.name not in inertials or inertials[body.name].mass <= 0.0:
            continue
        own = [(link.name, placement) for link, placement in body.links if link.name in names]
        if not own:
            raise ArgumentError(
                f"source: the MJCF has no body {body.name!r}; expected the file from which {robot.name!r} was loaded, "
                "without <include> and <attach>"
            )
        bodies[own[0][0]] = inertials[body.name], own[0][1]
        merged += [name for name, _ in own[1:]]
    return _write(tostring(root, encoding="unicode"), bodies, merged, losses)


def _parse(document: bytes | str) -> Any:
    try:
        return defusedxml.ElementTree.fromstring(document, forbid_dtd=True)
    except (defusedxml.ElementTree.ParseError, defusedxml.DefusedXmlException, ValueError) as error:
        raise ModelError(f"source: the MJCF is not valid XML: {error}") from None


def _write(
    document: str,
    bodies: Mapping[str, tuple[Inertial, Pose]],
    merged: list[str] | tuple[()],
    losses: Mapping[str, Array],
) -> str:
    """Writes inertias, given with the placement of the MJCF body in their frame, and joint attributes.

    The inertia of the bodies `merged` becomes zero.
    """
    root, missing = _parse(document), set(losses)
    for compiler in root.iter("compiler"):
        if compiler.get("inertiafromgeom") == "true":  # it would replace the inertias
            compiler.set("inertiafromgeom", "auto")
    for element in root.iter("body"):
        name = element.get("name", "")
        if name in bodies or name in merged:
            for old in element.findall("inertial"):
                element.remove(old)
            element.insert(0, _inertial_element(*bodies[name]) if name in bodies else _no_inertia())
        for joint in element.findall("joint"):
            joint_name = joint.get("name") or f"{name}_joint"
            if joint_name in losses:
                missing.discard(joint_name)
                for attribute, value in zip(LOSS_ATTRIBUTES, losses[joint_name].tolist(), strict=True):
                    joint.set(attribute, repr(value))
    if missing:
        raise ArgumentError(
            f"source: the MJCF has no joint {min(missing)!r}; expected the file from which the robot was loaded, "
            "without <include> and <attach>"
        )
    indent(root)
    return tostring(root, encoding="unicode") + "\n"


def _inertial_element(inertial: Inertial, placement: Pose) -> Element:
    """Returns the <inertial> of an inertia, expressed in a frame at `placement`."""
    rotation = placement.rotation
    com = rotation.T @ (inertial.com - placement.translation)
    moments = rotation.T @ inertial.inertia @ rotation
    upper = [moments[i, j] for i, j in ((0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2))]
    values = {"pos": com.tolist(), "mass": [float(inertial.mass)], "fullinertia": np.array(upper).tolist()}
    return Element("inertial", {name: " ".join(map(repr, numbers)) for name, numbers in values.items()})


def _no_inertia() -> Element:
    return Element("inertial", {"pos": "0 0 0", "mass": "0", "diaginertia": "0 0 0"})
