"""`SceneSnapshot`: validated arguments of `Viewer.show` for one frame.

The arguments of the viewer's other methods are validated here, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from ..errors import ArgumentError, ArgumentTypeError, UnknownNameError
from ..locomotion import Foothold
from ..robot.arguments import check_positive, check_type
from ..robot.robot import Robot
from ..simulation.records import ContactPoint
from ..urdf.tree import Array

#: Name of the robot that shows a reference configuration.
REFERENCE_ROBOT = "reference"


def validate_configuration(name: str, robot: Robot, value: ArrayLike) -> Array:
    """Returns a configuration (nq,) with unit quaternions, or raises."""
    q = validate_vector(name, value, (robot.nq,))
    if not robot.algorithms.isNormalized(robot.model, q, 1e-3):
        raise ArgumentError(
            f"{name}: a quaternion, or the cosine and sine of a continuous joint, does not have norm 1; divide it by "
            "its norm"
        )
    return q


def validate_configurations(robots: Mapping[str, Robot], values: Mapping[str, ArrayLike] | None) -> dict[str, Array]:
    """Returns the configurations of further robots by name, or raises."""
    check_type("robots", values, Mapping | None, "a mapping {name: q}")
    configurations = {}
    for name, q in (values or {}).items():
        if name not in robots or name == REFERENCE_ROBOT:
            raise UnknownNameError("robot of the viewer", name, [n for n in robots if n != REFERENCE_ROBOT])
        configurations[name] = validate_configuration(f"robots[{name!r}]", robots[name], q)
    return configurations


def validate_contact_points(contacts: Iterable[ContactPoint]) -> tuple[ContactPoint, ...]:
    """Returns the contacts of a plant as a tuple, or raises."""
    points = tuple(contacts)
    for contact in points:
        check_type("contacts", contact, ContactPoint, "ContactPoint objects of a plant")
    return points


def validate_footholds(footholds: Mapping[str, Foothold] | None) -> tuple[Foothold, ...]:
    """Returns the footholds of a `LocomotionCommand`, or raises."""
    check_type("footholds", footholds, Mapping | None, "the footholds of a LocomotionCommand")
    selected = tuple((footholds or {}).values())
    for foothold in selected:
        check_type("footholds", foothold, Foothold, "the footholds of a LocomotionCommand")
    return selected


def validate_names(names: Iterable[str]) -> Iterable[str]:
    """Returns the names unchanged; raises for a single string instead of several names."""
    if isinstance(names, str):  # a string is an iterable of strings, too
        raise ArgumentTypeError("names: expected a sequence of names, got a single string")
    return names


def validate_vector(name: str, value: ArrayLike, *shapes: tuple[int, ...]) -> Array:
    """Returns `value` as an array of finite numbers of one of the given shapes, or raises."""
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ArgumentTypeError(f"{name}: expected numbers: {error}") from None
    if array.shape not in shapes:
        raise ArgumentError(f"{name}: expected shape {' or '.join(map(str, shapes))}, got {array.shape}")
    if not np.isfinite(array).all():
        raise ArgumentError(f"{name}: expected finite numbers, got {array}")
    return array


def validate_direction(name: str, value: ArrayLike) -> Array:
    """Returns a unit vector (3,), or raises."""
    vector = validate_vector(name, value, (3,))
    length = float(np.linalg.norm(vector))
    if not length > 0.0:
        raise ArgumentError(f"{name}: expected a vector of nonzero length, got {vector}")
    return vector / length


def validate_points(name: str, value: ArrayLike) -> Array:
    """Returns points (n, 3), or raises."""
    count = np.shape(value)[:1]
    return validate_vector(name, value, (count[0] if count else 0, 3))


def find_friction(friction: float | Mapping[str, float], name: str) -> float:
    """Returns the friction coefficient of one contact, or raises."""
    value = friction.get(name) if isinstance(friction, Mapping) else friction
    if value is None:
        raise ArgumentError(f"friction: expected a coefficient for every contact, but that of {name!r} is missing")
    return check_positive("friction", value)


@dataclass(frozen=True, slots=True, eq=False)
class SceneSnapshot:
    """Validated arguments of `Viewer.show` that are drawn: of the right shape, finite, with existing frames."""

    q: Array  # (nq,) configuration
    v: Array | None = None  # (nv,) velocity, or None
    # {frame: (3,) force or (6,) force and moment} on the robot, world axes [N, N m]
    wrenches: Mapping[str, Array] = field(default_factory=dict)
    show_com: bool = True  # whether the center of mass is drawn
    # {frame: friction coefficient} of friction cones on level ground
    cones: Mapping[str, float] = field(default_factory=dict)
    contacts: tuple[ContactPoint, ...] = ()  # contacts of a plant
    show_contact_cones: bool = False  # whether the contacts have cones
    # feet of the support polygon; () for the polygon of the contacts; None for no polygon
    support_feet: tuple[str, ...] | None = None
    points: Mapping[str, Array] = field(default_factory=dict)  # {name: (3,)} world [m]
    curves: Mapping[str, Array] = field(default_factory=dict)  # {name: (n, 3)} world [m]
    desired_velocity: Array | None = None  # (3,) desired velocity of the center of mass, world [m/s], or None
    # {name: (nq,)} configurations of further robots
    other_configurations: Mapping[str, Array] = field(default_factory=dict)
    footholds: tuple[Foothold, ...] = ()  # footholds of swing feet
    normals: Mapping[str, Array] = field(default_factory=dict)  # {frame: (3,)} unit normals of the ground below

    @classmethod
    def from_arguments(
        cls,
        robot: Robot,
        other_robots: Mapping[str, Robot],
        q: ArrayLike,
        *,
        v: ArrayLike | None,
        forces: Mapping[str, ArrayLike] | None,
        show_com: bool,
        show_friction_cones: bool,
        friction: float | Mapping[str, float],
        contacts: Iterable[ContactPoint] | None,
        show_support_polygon: bool,
        points: Mapping[str, ArrayLike] | None,
        curves: Mapping[str, ArrayLike] | None,
        desired_velocity: ArrayLike | None,
        reference_q: ArrayLike | None,
        robots: Mapping[str, ArrayLike] | None,
        footholds: Mapping[str, Foothold] | None,
        normals: Mapping[str, ArrayLike] | None,
    ) -> Self:
        """Validates the arguments of `Viewer.show`, which describes them.

        Raises:
            UnknownNameError: a name in `forces`, `friction` or `normals` is not a frame of the robot.
            ArgumentError: a wrong shape, a non-finite value, or a quaternion not of unit norm.
        """
        for argument, value in (("forces", forces), ("friction", friction), ("normals", normals)):
            if isinstance(value, Mapping):
                for name in value:
                    robot.frame_id(name)
            elif argument != "friction" and value is not None:
                raise ArgumentTypeError(
                    f"{argument}: expected a mapping from frame names to vectors, got {type(value).__name__}"
                )
        configurations = validate_configurations(other_robots, robots)
        if reference_q is not None:
            configurations[REFERENCE_ROBOT] = validate_configuration("reference_q", robot, reference_q)
        wrenches = {name: validate_vector(f"forces[{name!r}]", f, (3,), (6,)) for name, f in (forces or {}).items()}
        contact_points = validate_contact_points(contacts or ())
        frames_with_cone = tuple(wrenches or robot.feet) if show_friction_cones and contacts is None else ()
        support_feet: tuple[str, ...] | None = None
        if show_support_polygon and contacts is not None:
            support_feet = () if contact_points else None  # in the air nothing supports
        elif show_support_polygon:
            loaded = [name for name in robot.feet if name in wrenches and wrenches[name].any()]
            support_feet = tuple(loaded or robot.feet)
        return cls(
            q=validate_configuration("q", robot, q),
            v=None if v is None else validate_vector("v", v, (robot.nv,)),
            wrenches=wrenches,
            show_com=show_com,
            cones={name: find_friction(friction, name) for name in frames_with_cone},
            contacts=contact_points,
            show_contact_cones=show_friction_cones,
            support_feet=support_feet,
            points={name: validate_vector(f"points[{name!r}]", p, (3,)) for name, p in (points or {}).items()},
            curves={name: validate_points(f"curves[{name!r}]", c) for name, c in (curves or {}).items()},
            desired_velocity=None
            if desired_velocity is None
            else validate_vector("desired_velocity", desired_velocity, (3,)),
            other_configurations=configurations,
            footholds=validate_footholds(footholds),
            normals={name: validate_direction(f"normals[{name!r}]", n) for name, n in (normals or {}).items()},
        )
