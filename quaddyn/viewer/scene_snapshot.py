"""`SceneSnapshot`: validated arguments of `Viewer.show` for one frame."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Self

from numpy.typing import ArrayLike

from ..errors import ArgumentTypeError
from ..locomotion import Foothold
from ..robot.robot import Robot
from ..simulation.records import ContactPoint
from ..urdf.tree import Array
from . import checks
from .checks import REFERENCE_ROBOT, validate_vector


@dataclass(frozen=True, slots=True, eq=False)
class SceneSnapshot:
    """Validated arguments of `Viewer.show` that are drawn: of the right shape, finite, with existing frames.

    Attributes:
        q: (nq,) configuration.
        v: (nv,) velocity, or None.
        wrenches: {frame: (3,) force or (6,) force and moment} on the robot, world axes [N, N m].
        show_com: whether the center of mass is drawn.
        cones: {frame: friction coefficient} of friction cones on level ground.
        contacts: contacts of a plant.
        show_contact_cones: whether the contacts have cones.
        support_feet: feet of the support polygon; () for the polygon of the contacts; None for no polygon.
        points: {name: (3,)} world [m].
        curves: {name: (n, 3)} world [m].
        desired_velocity: (3,) desired velocity of the center of mass, world [m/s], or None.
        other_configurations: {name: (nq,)} configurations of further robots.
        footholds: footholds of swing feet.
        normals: {frame: (3,)} unit normals of the ground below.
    """

    q: Array
    v: Array | None = None
    wrenches: Mapping[str, Array] = field(default_factory=dict)
    show_com: bool = True
    cones: Mapping[str, float] = field(default_factory=dict)
    contacts: tuple[ContactPoint, ...] = ()
    show_contact_cones: bool = False
    support_feet: tuple[str, ...] | None = None
    points: Mapping[str, Array] = field(default_factory=dict)
    curves: Mapping[str, Array] = field(default_factory=dict)
    desired_velocity: Array | None = None
    other_configurations: Mapping[str, Array] = field(default_factory=dict)
    footholds: tuple[Foothold, ...] = ()
    normals: Mapping[str, Array] = field(default_factory=dict)

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
        configurations = checks.validate_configurations(other_robots, robots)
        if reference_q is not None:
            configurations[REFERENCE_ROBOT] = checks.validate_configuration("reference_q", robot, reference_q)
        wrenches = {name: validate_vector(f"forces[{name!r}]", f, (3,), (6,)) for name, f in (forces or {}).items()}
        contact_points = checks.validate_contact_points(contacts or ())
        frames_with_cone = tuple(wrenches or robot.feet) if show_friction_cones and contacts is None else ()
        support_feet: tuple[str, ...] | None = None
        if show_support_polygon and contacts is not None:
            support_feet = () if contact_points else None  # in the air nothing supports
        elif show_support_polygon:
            loaded = [name for name in robot.feet if name in wrenches and wrenches[name].any()]
            support_feet = tuple(loaded or robot.feet)
        return cls(
            q=checks.validate_configuration("q", robot, q),
            v=None if v is None else validate_vector("v", v, (robot.nv,)),
            wrenches=wrenches,
            show_com=show_com,
            cones={name: checks.find_friction(friction, name) for name in frames_with_cone},
            contacts=contact_points,
            show_contact_cones=show_friction_cones,
            support_feet=support_feet,
            points={name: validate_vector(f"points[{name!r}]", p, (3,)) for name, p in (points or {}).items()},
            curves={name: checks.validate_points(f"curves[{name!r}]", c) for name, c in (curves or {}).items()},
            desired_velocity=None
            if desired_velocity is None
            else validate_vector("desired_velocity", desired_velocity, (3,)),
            other_configurations=configurations,
            footholds=checks.validate_footholds(footholds),
            normals={name: checks.validate_direction(f"normals[{name!r}]", n) for name, n in (normals or {}).items()},
        )
