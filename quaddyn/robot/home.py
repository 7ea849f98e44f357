"""The home configuration, and the `Leg` records that depend on it.

`JointPositions` are the positions of the actuated joints as encoders measure them, one number for each joint.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pinocchio as pin
from numpy.typing import NDArray

from ..errors import ArgumentError, ArgumentTypeError, ModelError
from ..urdf.meshes import MeshFinder
from ..urdf.srdf import NamedPose, read_poses
from ..urdf.tree import Array, Finding, Where, frozen
from .algorithms import Algorithms
from .bodies import CompositeBody, joint_indices
from .configuration import independent_joints, joint_value, set_joint_value
from .limbs import SIDES, Limb, forward_and_left, leg_forward_and_left
from .robot import Foot, Leg, Robot
from .stance import StanceProblem, check_knee_directions, knee_offset, mid_range_configuration

#: Largest distance of a straight knee from the line from hip to foot, as a fraction of the leg length.
STRAIGHT_TOLERANCE = 1e-6
#: Name of the keyframe of an MJCF that becomes the home configuration.
HOME_KEYFRAME = "home"
#: Maximum distance of a joint of a keyframe from its limits [rad or m]; maximum difference of its foot heights [m].
LIMIT_TOLERANCE, LEVEL_TOLERANCE = 1e-6, 0.01


def compute_home(
    model: pin.Model,
    pinocchio: Algorithms,
    bodies: Sequence[CompositeBody],
    root: str,
    limbs: Mapping[str, Limb],
    requested_directions: Mapping[str, str],
    file: str,
    findings: list[Finding],
    has_loops: bool = False,
    level_soles: bool = True,
) -> Array:
    """Returns the home configuration (nq,): the stance of a robot with several legs, otherwise joints at mid-range."""
    if len(limbs) < 2:
        return mid_range_configuration(model, pinocchio, bodies, root)
    for limb in limbs.values():
        for joint in limb.chain.joints:
            if joint is not None and joint.mimic is not None:
                reason = (
                    f"joint {joint.name!r} of a leg mimics {joint.mimic.joint!r}, so that no stance is computed and "
                    "q_home "
                    "is the middle of the joint ranges"
                )
                findings.append(Finding("note", joint.where, reason, "pass q_home="))
                return mid_range_configuration(model, pinocchio, bodies, root)
    q, residual, knee_directions = StanceProblem(model, pinocchio, bodies, root, limbs, has_loops, level_soles).solve(
        knee_direction=requested_directions
    )
    where = Where(file, 0, "home stance")
    if root == "planar" and forward_and_left(limbs)[0][0] == 0.0:
        reason = "the knees bend about x, so that the robot faces along y, but a planar root moves it in x and z"
        findings.append(Finding("warning", where, reason, "rotate the base frame by base=, or pass another root="))
    for name, requested in requested_directions.items():
        if knee_directions[name] != requested:
            reason = (
                f"the knee of leg {name!r} cannot bend {requested} within its limits; in q_home it bends "
                f"{knee_directions[name]}"
            )
            findings.append(Finding("warning", where, reason, "change knee_direction= or limits="))
    if residual > 1e-6:
        reason = f"no level stance exists within the joint limits; in q_home a foot is {residual:.3g} m off the ground"
        findings.append(Finding("warning", where, reason, "pass q_home= or limits="))
    return q


def make_legs(
    bodies: Sequence[CompositeBody], root: str, limbs: Mapping[str, Limb], feet: Mapping[str, Foot], q_all: Array
) -> dict[str, Leg]:
    """Returns the `Leg` records; knee direction and knee sign are evaluated with all joints at `q_all` (nq_all,)."""
    indices = joint_indices(bodies, root, dependent=True)
    forward, left = forward_and_left(limbs)
    legs = {}
    for name, limb in limbs.items():
        joints = tuple(j for j in limb.chain.joints if j is not None)
        angles = np.array([joint_value(q_all, indices[j.name][0], j) for j in joints])
        side = SIDES.get(name[-1], "center") if len(limbs) > 1 else "center"
        knee = joints[limb.knee].name if limb.chain.n > 1 else None
        names = tuple(j.name for j in joints)
        offset = knee_offset(limb, angles, leg_forward_and_left(limb, forward, left)[0], np.cross(forward, left))
        knee_direction = (
            "straight" if abs(offset) < STRAIGHT_TOLERANCE * limb.reach else "forward" if offset > 0.0 else "backward"
        )
        legs[name] = Leg(name, names, side, feet[name], knee, _knee_sign(limb, angles), knee_direction)
    return legs


def _knee_sign(limb: Limb, angles: Array) -> int:
    """Returns +1 if an increasing knee coordinate shortens the leg, else -1.

    For a straight leg, the sign is that of the direction in which the knee has the larger range.
    """
    origins, axes, tip = limb.chain.forward(angles)
    # The rate of the squared distance from hip to foot, per unit rate of the knee.
    rate = float(np.cross(axes[limb.knee], tip - origins[limb.knee]) @ (tip - origins[limb.hip]))
    if abs(rate) > STRAIGHT_TOLERANCE * limb.reach**2:
        return 1 if rate < 0.0 else -1
    return 1 if limb.chain.upper[limb.knee] >= -limb.chain.lower[limb.knee] else -1


def validate_home(
    model: pin.Model,
    pinocchio: Algorithms,
    bodies: Sequence[CompositeBody],
    root: str,
    q_home: Array,
    findings: list[Finding],
) -> Array:
    """Returns the home configuration (nq,) given by the caller, validated; joints outside their limits are reported."""
    nq = len(pinocchio.neutral(model))
    try:
        q = np.array(q_home, dtype=np.float64)
    except (TypeError, ValueError):
        raise ArgumentTypeError(f"q_home: expected ({nq},) numbers, got {type(q_home).__name__}") from None
    if q.shape != (nq,):
        raise ArgumentError(f"q_home: expected ({nq},) numbers, got shape {q.shape}")
    if not np.isfinite(q).all():
        raise ArgumentError(f"q_home: entry {int(np.argmin(np.isfinite(q)))} is not finite")
    if root == "free" and abs(float(np.linalg.norm(q[3:7])) - 1.0) > 1e-6:
        raise ArgumentError(f"q_home: the quaternion q_home[3:7] has norm {np.linalg.norm(q[3:7]):.6g}, expected 1")
    if not pinocchio.isNormalized(model, q, 1e-6):
        raise ArgumentError("q_home: the pair (cos, sin) of a continuous joint must have norm 1; divide it by its norm")
    indices = joint_indices(bodies, root)
    for joint in independent_joints(bodies).values():
        if joint.nq == 1:
            value = float(q[indices[joint.name][0]])
            if not joint.limits.lower <= value <= joint.limits.upper:
                reason = (
                    f"q_home is {value:.4g} for this joint, outside its limits [{joint.limits.lower:.4g}, "
                    f"{joint.limits.upper:.4g}]"
                )
                findings.append(
                    Finding("warning", joint.where, reason, "pass a q_home= within the limits, or other limits=")
                )
    return q


def home_from_keyframe(
    model: pin.Model,
    pinocchio: Algorithms,
    bodies: Sequence[CompositeBody],
    root: str,
    feet: Mapping[str, Foot],
    pose: NamedPose,
    computed: Array,
    file: str,
    findings: list[Finding],
) -> Array:
    """Returns the keyframe "home" of the file (nq,) if it is feasible, otherwise the computed configuration.

    Joints have to be within their limits, and the feet of a moving robot at the same height.  The base is shifted in z
    until the lowest foot is at z = 0; its x and y in the keyframe are ignored.
    """
    q, indices = computed.copy(), joint_indices(bodies, root)
    problem = ""
    for name, joint in independent_joints(bodies).items():
        value, index = pose.joints.get(name), indices[name][0]
        if value is None:
            continue
        if joint.nq == 2:
            q[index : index + 2] = np.cos(value), np.sin(value)
            continue
        q[index] = np.clip(value, joint.limits.lower, joint.limits.upper)
        if abs(q[index] - value) > LIMIT_TOLERANCE:
            limits = f"[{joint.limits.lower:.4g}, {joint.limits.upper:.4g}]"
            problem = problem or f"in it joint {name!r} is at {value:.4g}, outside its limits {limits}"
    shift = 0.0
    if root == "free" and pose.orientation is not None:
        q[3:7] = pin.Quaternion(pose.orientation).coeffs()
    if root != "fixed" and feet:
        data = model.createData()
        pinocchio.framesForwardKinematics(model, data, q)
        frames = {name: data.oMf[model.getFrameId(name, pin.FrameType.OP_FRAME)] for name in feet}
        lowest = [float(frames[name].translation[2]) - foot.radius for name, foot in feet.items()]
        if max(lowest) - min(lowest) > LEVEL_TOLERANCE:
            problem = problem or f"in it the heights of the feet differ by {max(lowest) - min(lowest):.3g} m"
        height = 1 if root == "planar" else 2
        q[height] -= min(lowest)
        shift = 0.0 if pose.position is None else float(q[height] - pose.position[2])
    where = Where(file, 0, "home")
    if problem:
        findings.append(Finding("note", where, f"the keyframe 'home' is ignored: {problem}", "pass q_home="))
        return computed
    moved = (
        f"; the base is moved by {shift:.3g} m in z, so that the lowest foot is at z = 0"
        if abs(shift) > LIMIT_TOLERANCE
        else ""
    )
    findings.append(Finding("note", where, f"q_home is the keyframe 'home'{moved}", "pass q_home= for another one"))
    return q


def find_srdf_poses(name: str, robot_name: str, finder: MeshFinder, findings: list[Finding]) -> dict[str, NamedPose]:
    """Returns the named poses of the SRDF that belongs to a URDF.

    It is ``NAME.srdf`` beside the URDF or in the folder ``srdf`` beside the folder of the URDF, where NAME is that of
    the URDF file or of the robot.

    Args:
        name: name of the URDF file.
        robot_name: name of the robot in it.
        finder: finder of files of the URDF.
        findings: findings, to which a damaged SRDF is added.
    """
    stems = dict.fromkeys((re.sub(r"(\.(urdf|xacro|xml))+$", "", name), robot_name))
    for uri in [f"{folder}{stem}.srdf" for stem in stems for folder in ("", "../srdf/")]:
        path, _, _ = finder.find(uri)
        if path is None:
            continue
        try:
            return read_poses(path)
        except (ModelError, OSError) as error:
            findings.append(
                Finding("warning", Where(name, 0, "named poses"), f"they are not read: {error}", "correct it")
            )
    return {}


def resolve_poses(robot: Robot, poses: Mapping[str, NamedPose]) -> dict[str, Array]:
    """Returns the configuration (nq,) of each pose; joints that a pose does not name are as in ``q_home``.

    Without a pose of the base the lowest foot is at z = 0.
    """
    joints, out = independent_joints(robot.bodies), {}
    for name, pose in poses.items():
        q = np.array(robot.q_home)
        for joint, value in pose.joints.items():
            if joint in robot.joint_names:
                set_joint_value(q, robot.configuration_index(joint), joints[joint], value)
        if robot.root == "free" and pose.position is not None and pose.orientation is not None:
            q[:3], q[3:7] = pose.position, pin.Quaternion(pose.orientation).coeffs()
        elif robot.root != "fixed" and robot.legs:
            data = robot.model.createData()
            robot.algorithms.framesForwardKinematics(robot.model, data, q)
            heights = [data.oMf[robot.frame_id(n)].translation[2] - leg.foot.radius for n, leg in robot.legs.items()]
            q[1 if robot.root == "planar" else 2] -= min(heights)
        out[name] = frozen(q)
    return out


def requested_knee_directions(
    knee_direction: str | Mapping[str, str] | None, limbs: Mapping[str, Limb]
) -> dict[str, str]:
    """Returns the knee direction that the caller requests for each leg, validated."""
    if knee_direction is not None and not isinstance(knee_direction, str | Mapping):
        raise ArgumentTypeError(
            "knee_direction: expected 'forward', 'backward' or a mapping from leg to one of them, got "
            f"{type(knee_direction).__name__}"
        )
    requested_directions = (
        dict.fromkeys(limbs, knee_direction) if isinstance(knee_direction, str) else dict(knee_direction or {})
    )
    check_knee_directions(requested_directions, limbs)
    return requested_directions


@dataclass(frozen=True, slots=True, eq=False)
class JointPositions:
    """Conversion between configurations and joint positions.

    Attributes:
        at: (n,) index in q of the first entry of each joint.
        turning: (n,) whether a joint is continuous: (cos, sin) in q, an angle within half a turn here.
    """

    at: NDArray[np.intp]
    turning: NDArray[np.bool_]

    @classmethod
    def actuated(cls, robot: Robot) -> JointPositions:
        """Returns the conversion for the actuated joints of a robot, in torque order."""
        endless = {b.joint.name for b in robot.bodies if b.joint is not None and b.joint.type == "continuous"}
        at = np.array([robot.configuration_index(name) for name in robot.actuated], dtype=np.intp)
        return cls(at, np.array([name in endless for name in robot.actuated], dtype=bool))

    def of(self, q: Array) -> Array:
        """Returns positions (..., n) of the joints in configurations q (..., nq) [rad or m]."""
        position = q[..., self.at]
        if self.turning.any():
            at = self.at[self.turning]
            position[..., self.turning] = np.arctan2(q[..., at + 1], q[..., at])
        return position

    def put(self, q: Array, position: Array) -> None:
        """Writes positions (n,) into a configuration q (nq,), in place."""
        if not self.turning.any():
            q[self.at] = position
            return
        plain, turning = ~self.turning, self.turning
        q[self.at[plain]] = position[plain]
        q[self.at[turning]], q[self.at[turning] + 1] = np.cos(position[turning]), np.sin(position[turning])
