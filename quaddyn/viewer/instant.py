"""`SceneSnapshot`: what is shown of one instant, looked at before anything is drawn of it."""

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
from .checks import vector


@dataclass(frozen=True, slots=True, eq=False)
class SceneSnapshot:
    """Arguments of `Viewer.show` that are drawn, each of its shape, finite, and of frames that there are.

    Attributes:
        q: (nq,) configuration.
        v: (nv,) velocity, or None.
        wrenches: {frame: (3,) force or (6,) force and moment}, on the robot, world axes [N, N m].
        show_com: whether the centre of mass is drawn.
        cones: {frame: coefficient} of the friction cones that stand on level ground.
        contacts: of a plant.
        coned_contacts: whether the contacts have cones.
        around: feet that the support polygon goes around, none of them where it goes around contacts; None draws none.
        points: {name: (3,)} [m].
        curves: {name: (n, 3)} [m].
        desired_velocity: (3,) velocity of the centre of mass [m/s], or None.
        reference_q: (nq,) configuration of a reference, or None.
        footholds: of feet in the air.
        normals: {frame: (3,)} of the ground below, unit.
    """

    q: Array
    v: Array | None = None
    wrenches: Mapping[str, Array] = field(default_factory=dict)
    show_com: bool = True
    cones: Mapping[str, float] = field(default_factory=dict)
    contacts: tuple[ContactPoint, ...] = ()
    coned_contacts: bool = False
    around: tuple[str, ...] | None = None
    points: Mapping[str, Array] = field(default_factory=dict)
    curves: Mapping[str, Array] = field(default_factory=dict)
    desired_velocity: Array | None = None
    reference_q: Array | None = None
    footholds: tuple[Foothold, ...] = ()
    normals: Mapping[str, Array] = field(default_factory=dict)

    @classmethod
    def checked(
        cls,
        robot: Robot,
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
        footholds: Mapping[str, Foothold] | None,
        normals: Mapping[str, ArrayLike] | None,
    ) -> Self:
        """From the arguments of `Viewer.show`, which says what they mean.

        Raises:
            UnknownNameError: a name of a force, a friction or a normal that is no frame of the robot.
            ArgumentError: a wrong shape, a non-finite value, or no unit quaternion.
        """
        for what, value in (("forces", forces), ("friction", friction), ("normals", normals)):
            if isinstance(value, Mapping):
                for name in value:
                    robot.frame_id(name)
            elif what != "friction" and value is not None:
                raise ArgumentTypeError(f"{what}: expected a mapping of frame names, got {type(value).__name__}")
        wrenches = {name: vector(f"forces[{name!r}]", f, (3,), (6,)) for name, f in (forces or {}).items()}
        touching = checks.contact_points(contacts or ())
        coned = tuple(wrenches or robot.feet) if show_friction_cones and contacts is None else ()
        around: tuple[str, ...] | None = None
        if show_support_polygon and contacts is not None:
            around = () if touching else None  # in the air nothing supports
        elif show_support_polygon:
            loaded = [name for name in robot.feet if name in wrenches and wrenches[name].any()]
            around = tuple(loaded or robot.feet)
        return cls(
            q=checks.configuration("q", robot, q),
            v=None if v is None else vector("v", v, (robot.nv,)),
            wrenches=wrenches,
            show_com=show_com,
            cones={name: checks.friction_of(friction, name) for name in coned},
            contacts=touching,
            coned_contacts=show_friction_cones,
            around=around,
            points={name: vector(f"points[{name!r}]", p, (3,)) for name, p in (points or {}).items()},
            curves={name: checks.rows(f"curves[{name!r}]", c) for name, c in (curves or {}).items()},
            desired_velocity=None if desired_velocity is None else vector("desired_velocity", desired_velocity, (3,)),
            reference_q=None if reference_q is None else checks.configuration("reference_q", robot, reference_q),
            footholds=checks.footholds(footholds),
            normals={name: checks.direction(f"normals[{name!r}]", n) for name, n in (normals or {}).items()},
        )
