"""A `Robot` as a MuJoCo model, built body by body from its record and not from the file.

MuJoCo's own importer rejects many real robots for their massless links, rounds inertias and has no planar joints.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import ModelError, UnknownNameError
from ..robot.bodies import CompositeBody
from ..robot.configuration import independent_joints
from ..robot.loops import LoopCoupling
from ..robot.model import PLANAR_ROOT, rotation_to
from ..robot.robot import Robot
from ..urdf.mjcf import import_mujoco
from ..urdf.tree import Array, Inertial
from .actuators import Actuators
from .mujoco_loops import LoopJoints, add_loops, wxyz
from .spheres import PlacedSphere
from .terrain import Box, Plane, Terrain

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
    """Joint whose linear velocity is in its own axes in Pinocchio and in the axes of its parent in MuJoCo.

    Attributes:
        q, v: first entries in q and v.
        qpos, qvel: first entries in MuJoCo's coordinates.
        size: 3 for a floating joint (position and quaternion), 2 for a planar one (position and angle).
    """

    q: int
    v: int
    qpos: int
    qvel: int
    size: int


@dataclass(frozen=True, slots=True, eq=False)
class MujocoCoordinateMap:
    """Conversion between (q, v) of Pinocchio and (qpos, qvel) of MuJoCo.

    Attributes:
        q, qpos: entries that are equal in both apart from `zero`.
        v, qvel: entries of the velocities that are equal in both.
        turning: floating and planar joints, whose linear velocities differ by a rotation.
        circles: (first entry in q, entry in qpos) of joints that are (cos, sin) in Pinocchio and an angle in MuJoCo.
        zero: (nqpos,) MuJoCo's coordinates of slides and hinges at Pinocchio's zero; zero elsewhere.
        mimics: (entry in q, in v, in qpos, in qvel, multiplier, offset) of mimic joints, which are equality constraints
            in MuJoCo.
        followers: dependent joints of closed loops; None without loops.
    """

    q: NDArray[np.intp]
    qpos: NDArray[np.intp]
    v: NDArray[np.intp]
    qvel: NDArray[np.intp]
    turning: tuple[RotatedJoint, ...]
    circles: tuple[tuple[int, int], ...]
    zero: Array
    mimics: tuple[tuple[int, int, int, int, float, float], ...] = ()
    followers: LoopJoints | None = None

    def to_mujoco(self, q: Array, v: Array, qpos: Array, qvel: Array) -> None:
        """Writes (q, v) to MuJoCo's `qpos` and `qvel`, with continuous joints within (-pi, pi] of their zero."""
        qpos[self.qpos], qvel[self.qvel] = q[self.q] + self.zero[self.qpos], v[self.v]
        for cos, angle in self.circles:
            qpos[angle] = np.arctan2(q[cos + 1], q[cos]) + self.zero[angle]
        for own_q, own_v, angle, speed, multiplier, offset in self.mimics:
            qpos[angle] = multiplier * q[own_q] + offset + self.zero[angle]
            qvel[speed] = multiplier * v[own_v]
        if self.followers is not None:
            self.followers.to_mujoco(q, v, qpos, qvel, self.zero)
        for t in self.turning:
            if t.size == 3:
                x, y, z, w = q[t.q + 3 : t.q + 7]
                qpos[t.qpos + 3 : t.qpos + 7] = w, x, y, z
            n = t.size
            qvel[t.qvel : t.qvel + n] = _rotation(t, q) @ v[t.v : t.v + n]

    def from_mujoco(self, qpos: Array, qvel: Array, q: Array, v: Array) -> None:
        """Writes MuJoCo's state to `q` and `v`."""
        q[self.q], v[self.v] = qpos[self.qpos] - self.zero[self.qpos], qvel[self.qvel]
        for cos, angle in self.circles:
            turn = qpos[angle] - self.zero[angle]
            q[cos], q[cos + 1] = np.cos(turn), np.sin(turn)
        for t in self.turning:
            if t.size == 3:
                w, x, y, z = qpos[t.qpos + 3 : t.qpos + 7]
                q[t.q + 3 : t.q + 7] = x, y, z, w
            n = t.size
            v[t.v : t.v + n] = _rotation(t, q).T @ qvel[t.qvel : t.qvel + n]


def _rotation(t: RotatedJoint, q: Array) -> Array:
    """Returns the rotation from the axes of a joint to those of its parent."""
    if t.size == 2:
        c, s = q[t.q + 2 : t.q + 4]
        return np.array([[c, -s], [s, c]])
    x, y, z, w = q[t.q + 3 : t.q + 7].tolist()
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
        made = parent.add_body(name=body_name(body), pos=body.placement.translation, quat=wxyz(body.placement.rotation))
        bodies.append(made)
        _inertial(made, body.inertial)
        if i == 0:
            _root(mujoco, made, robot.root)
        else:
            _joint(mujoco, made, robot, body, joint_stops)
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
        follows = spec.add_equality(type=mujoco.mjtEq.mjEQ_JOINT, name1=name, name2=mimic.joint)
        polynomial = np.zeros(len(follows.data))
        polynomial[:2] = mimic.offset, mimic.multiplier
        follows.data = polynomial
    for name, limit in zip(robot.actuated, actuators.effort, strict=True):
        motor = spec.add_actuator(name=name, target=name, trntype=mujoco.mjtTrn.mjTRN_JOINT)
        motor.set_to_motor()
        if np.isfinite(limit):
            motor.forcelimited, motor.forcerange = True, [-limit, limit]
    return spec


def add_terrain(spec: Any, terrain: Terrain, friction: float) -> None:
    """Adds the surfaces of a terrain to `spec`, with friction coefficient `friction` if they have none of their own."""
    mujoco = import_mujoco()
    kinds = mujoco.mjtGeom
    for i, surface in enumerate(terrain.surfaces):
        name = f"terrain {i}"  # of height fields; geoms have no name, since a sphere may have any name
        if isinstance(surface, Plane):
            shape = {
                "type": kinds.mjGEOM_PLANE,
                "size": [0.0, 0.0, 1.0],
                "pos": surface.point,
                "quat": wxyz(rotation_to(surface.normal)),
            }
        elif isinstance(surface, Box):
            shape = {
                "type": kinds.mjGEOM_BOX,
                "size": 0.5 * surface.size,
                "pos": surface.center,
                "quat": wxyz(surface.rotation),
            }
        else:
            low, span = float(surface.heights.min()), max(float(np.ptp(surface.heights)), MIN_FIELD_HEIGHT)
            half = 0.5 * surface.spacing * (np.array(surface.heights.shape) - 1)
            columns, rows = surface.heights.shape
            made = spec.add_hfield(name=name, nrow=rows, ncol=columns, size=[*half, span, span])
            made.userdata = (surface.heights.T.ravel() - low) / span
            middle = surface.origin + half
            shape = {"type": kinds.mjGEOM_HFIELD, "hfieldname": name, "pos": [*middle, low]}
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
        b = model.body(body_name(body)).id
        model.body_mass[b] = body.inertial.mass
        model.body_inertia[b] = _principal(body.inertial)[0]
    followed = _mimic_losses(robot)
    for name, i in zip(robot.actuated, robot.actuated_index, strict=True):
        dof = model.joint(name).dofadr[0]
        model.dof_armature[dof] = actuators.armature[i] - followed[0][i]
        model.dof_damping[dof] = actuators.damping[i] - followed[1][i]
        model.dof_frictionloss[dof] = actuators.friction[i] - followed[2][i]
    mujoco.mj_setConst(model, mujoco.MjData(model))
    return model, make_coordinate_map(model, robot)


def _mimic_losses(robot: Robot) -> tuple[Array, Array, Array]:
    """Returns what mimic joints add to the joints that they follow, which MuJoCo adds itself.

    Returns:
        Rotor inertia, damping and friction, (nv,) each.
    """
    out = np.zeros((3, robot.nv))
    if robot.coupling is not None:
        for name, joint in independent_joints(robot.bodies).items():
            v = robot.velocity_index(name)
            out[:, v] = robot.armature[v], robot.damping[v], robot.friction[v]
            out[:, v] -= joint.armature, joint.damping, joint.friction
    return out[0], out[1], out[2]


def body_name(body: CompositeBody) -> str:
    """Returns the name of `body` in the MuJoCo model: its own, unless MuJoCo reserves that for the world."""
    return "world (link)" if body.name == "world" else body.name


def _inertial(made: Any, inertial: Inertial) -> None:
    """Sets the inertia of a MuJoCo body, enlarged where MuJoCo's compiler would reject it."""
    moments, axes = _principal(inertial)
    made.explicitinertial = True
    made.mass, made.ipos, made.iquat = max(inertial.mass, MIN_BODY_MASS), inertial.com, wxyz(axes)
    # Moments that the compiler accepts; `compile_model` sets those of points, rods and massless bodies.
    made.inertia = np.full(3, max(float(moments.max()), MIN_BODY_MASS))


def _principal(inertial: Inertial) -> tuple[Array, Array]:
    """Returns the principal moments (3,) about the center of mass [kg m^2], and the rotation (3, 3) to their axes."""
    moments, axes = np.linalg.eigh(inertial.inertia)
    if np.linalg.det(axes) < 0.0:
        axes = axes * np.array([1.0, 1.0, -1.0])
    return np.maximum(moments, 0.0), axes


def _root(mujoco: Any, made: Any, root: str) -> None:
    """Adds the joint of the root."""
    if root == "free":
        made.add_freejoint(name="root_joint")
    elif root == "planar":
        slide, hinge = mujoco.mjtJoint.mjJNT_SLIDE, mujoco.mjtJoint.mjJNT_HINGE
        axes = ([1.0, 0.0, 0.0], [0.0, 0.0, 1.0], [0.0, 1.0, 0.0])
        for (name, _), kind, axis in zip(PLANAR_ROOT, (slide, slide, hinge), axes, strict=True):
            made.add_joint(name=name, type=kind, axis=axis)


def _joint(mujoco: Any, made: Any, robot: Robot, body: CompositeBody, stops: bool) -> None:
    """Adds the joint of a body, with damping, friction and armature."""
    joint, kinds = body.joint, mujoco.mjtJoint
    assert joint is not None
    losses = {"damping": joint.damping, "frictionloss": joint.friction, "armature": joint.armature}
    if joint.type == "floating":
        # A free joint must be at the world; three slides and a ball have the same coordinates.
        for letter, axis in zip("xyz", np.eye(3), strict=True):
            made.add_joint(name=f"{joint.name} {letter}", type=kinds.mjJNT_SLIDE, axis=axis, **losses)
        made.add_joint(name=f"{joint.name} turn", type=kinds.mjJNT_BALL, **losses)
    elif joint.type == "planar":
        for letter, axis in zip("xy", rotation_to(joint.axis).T[:2], strict=True):
            made.add_joint(name=f"{joint.name} {letter}", type=kinds.mjJNT_SLIDE, axis=axis, **losses)
        made.add_joint(name=f"{joint.name} turn", type=kinds.mjJNT_HINGE, axis=joint.axis, **losses)
    else:
        kind = kinds.mjJNT_SLIDE if joint.type == "prismatic" else kinds.mjJNT_HINGE
        one = made.add_joint(name=joint.name, type=kind, axis=joint.axis, **losses)
        if not joint.independent:
            return  # limited by its equality constraint and the stops of the joint that it follows
        q = robot.configuration_index(joint.name)
        ends = np.array([robot.lower[q], robot.upper[q]])
        if stops and joint.type != "continuous" and np.isfinite(ends).any():
            one.limited, one.range = True, np.clip(ends, -1e6, 1e6)


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
    turning: list[RotatedJoint] = []
    circles: list[tuple[int, int]] = []

    names = [model.joint(j).name for j in range(model.njnt)]

    def same(pairs: list[tuple[int, int]], ours: int, theirs: int, count: int) -> None:
        pairs += [(ours + i, theirs + i) for i in range(count)]

    def place(name: str | int, kind: str = "hinge or slide") -> tuple[int, int]:
        if isinstance(name, str) and name not in names:
            raise UnknownNameError("MuJoCo joint", name, names)
        joint = model.joint(name)
        found = KINDS[int(joint.type[0])]
        if found not in kind:
            raise ModelError(f"MuJoCo joint {name!r}: expected a {kind} joint, as {robot.name!r} has it, found {found}")
        return int(joint.qposadr[0]), int(joint.dofadr[0])

    def floating(at_q: int, at_v: int, qpos: int, qvel: int) -> None:
        same(q, at_q, qpos, 3)
        same(v, at_v + 3, qvel + 3, 3)
        turning.append(RotatedJoint(at_q, at_v, qpos, qvel, 3))

    if robot.root == "free":
        floating(0, 0, *place(root_joint, "free"))
    elif robot.root == "planar":
        for i, (name, _) in enumerate(PLANAR_ROOT):
            at = place(prefix + name)
            same(q, i, at[0], 1)
            same(v, i, at[1], 1)
    mimics, followers = [], []
    for body in robot.bodies[1:]:
        joint = body.joint
        assert joint is not None
        if joint.loop is not None:
            at = robot.model.joints[robot.model.getJointId(joint.name)]
            followers.append((int(at.idx_q), int(at.idx_v), *place(prefix + joint.name)))
            continue
        mimic = joint.mimic
        own = joint.name if mimic is None else mimic.joint
        ours_q, ours_v = robot.configuration_index(own), robot.velocity_index(own)
        qpos, qvel = place(prefix + (joint.name if joint.nv == 1 else f"{joint.name} x"))
        if mimic is not None:
            mimics.append((ours_q, ours_v, qpos, qvel, mimic.multiplier, mimic.offset))
        elif joint.type == "floating":
            floating(ours_q, ours_v, qpos, qvel)
        elif joint.type == "planar":
            same(q, ours_q, qpos, 2)
            same(v, ours_v + 2, qvel + 2, 1)
            circles.append((ours_q + 2, qpos + 2))
            turning.append(RotatedJoint(ours_q, ours_v, qpos, qvel, 2))
        else:
            same(v, ours_v, qvel, 1)
            if joint.type == "continuous":
                circles.append((ours_q, qpos))
            else:
                same(q, ours_q, qpos, 1)
    pairs = [np.array(p, dtype=np.intp).reshape(-1, 2).T for p in (q, v)]
    zero = np.zeros(model.nq) if zero is None else zero
    return MujocoCoordinateMap(
        pairs[0][0], pairs[0][1], pairs[1][0], pairs[1][1], tuple(turning), tuple(circles), zero, tuple(mimics),
        LoopJoints(robot.coupling, followers) if isinstance(robot.coupling, LoopCoupling) else None,
    )  # fmt: skip
