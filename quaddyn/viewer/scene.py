"""`Scene`: geometry that the browser draws, as binary packets; it only grows, and poses move its slots.

A packet is a little-endian uint32 with the size of a JSON header, the header (padded to eight bytes), and the arrays to
which the header refers by ``{"type", "offset", "length"}``. The live page and the recorded file use the same packets.

A *slot* is a named group that moves as one. A frame of the animation is an array of ten numbers per slot: position (x,
y, z) [m], unit quaternion (x, y, z, w) and scale (x, y, z), all in the world; scale 0 hides the slot.

`SceneSnapshot`: validated arguments of `Viewer.show` for one frame.  The arguments of the other methods of the viewer
are validated here, too.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import ArgumentError, ArgumentTypeError, UnknownNameError
from ..locomotion import Foothold
from ..robot.arguments import check_positive, check_type
from ..robot.robot import Robot
from ..simulation.records import ContactPoint
from ..urdf.tree import Array, Pose
from .mesh import Material, Part, encode_image_uri

#: Number of values of a slot in a frame.
SLOT = 10


class Blob:
    """Collector of the arrays after a packet's header."""

    def __init__(self) -> None:
        self._chunks: list[bytes] = []
        self._size = 0

    def add(self, array: NDArray[np.generic]) -> dict[str, object]:
        """Appends `array`; returns the reference to it for the header."""
        data = np.ascontiguousarray(array).tobytes()
        reference: dict[str, object] = {"type": array.dtype.name, "offset": self._size, "length": int(array.size)}
        data += bytes(-len(data) % 8)
        self._chunks.append(data)
        self._size += len(data)
        return reference

    def make_packet(self, header: Mapping[str, object]) -> bytes:
        """Returns the packet of `header` and all arrays added so far."""
        text = json.dumps(header, separators=(",", ":")).encode()
        text += b" " * (-(len(text) + 4) % 8)
        return len(text).to_bytes(4, "little") + text + b"".join(self._chunks)


class Scene:
    """Geometries, materials and slots, each identified by its number in the browser."""

    def __init__(self) -> None:
        self.slots: list[tuple[str, ...]] = []
        self.packets: list[bytes] = []
        self._numbers: dict[tuple[str, Hashable], int] = {}
        self._count = {"geometries": 0, "materials": 0}
        self._start_packet()

    def _start_packet(self) -> None:
        """Starts a new packet."""
        self._blob = Blob()
        kinds = ("geometries", "materials", "slots", "meshes", "bodies")
        self._new: dict[str, list[dict[str, object]]] = {kind: [] for kind in kinds}

    def add_slot(self, *path: str) -> int:
        """Adds a slot, listed under `path` in the page's scene menu; returns its number."""
        self.slots.append(path)
        self._new["slots"].append({"path": path})
        return len(self.slots) - 1

    def add_geometry(self, key: Hashable, part: Part) -> int:
        """Returns the number of the geometry `part`, which is sent once for each `key`."""
        if (number := self._numbers.get(("geometries", key))) is not None:
            return number
        index_type = np.uint16 if len(part.grid) <= 2**16 else np.uint32
        return self._add_item(
            "geometries",
            key,
            {
                "grid": self._blob.add(part.grid),
                "origin": part.origin.tolist(),
                "step": part.step,
                "triangles": self._blob.add(part.triangles.astype(index_type)),
                "uvs": None if part.uvs is None else self._blob.add(part.uvs),
            },
        )

    def add_material(self, material: Material, *, glow: bool = False, through: bool = False) -> int:
        """Returns the number of a material.

        Args:
            material: color and texture.
            glow: whether the color is independent of lighting and casts no shadow, for markers.
            through: whether the object is visible through objects before it.
        """
        key = (material, glow, through)
        if (number := self._numbers.get(("materials", key))) is not None:
            return number
        image = encode_image_uri(material.texture) if material.texture is not None else None
        item: dict[str, object] = {"color": material.color, "texture": image, "glow": glow, "through": through}
        return self._add_item("materials", key, item)

    def _add_item(self, kind: str, key: Hashable, item: dict[str, object]) -> int:
        """Adds a geometry or material and returns its number."""
        number = self._numbers[kind, key] = self._count[kind]
        self._count[kind] += 1
        self._new[kind].append(item)
        return number

    def add_mesh(
        self,
        slot: int,
        geometry: int,
        material: int,
        placement: Pose,
        scale: tuple[float, ...] = (1, 1, 1),
        *,
        collision: bool = False,
    ) -> None:
        """Adds a geometry to a slot.

        Args:
            slot: number of the slot.
            geometry: number of the geometry.
            material: number of the material.
            placement: placement in the frame of the slot.
            scale: (x, y, z) scale of the geometry.
            collision: whether the page shows it only with the collision shapes.
        """
        matrix = placement.homogeneous @ np.diag([*scale, 1.0])
        item = {"slot": slot, "geometry": geometry, "material": material, "matrix": matrix.T.reshape(-1).tolist()}
        self._new["meshes"].append(item | ({"collision": True} if collision else {}))

    def add_body(self, slot: int, description: Mapping[str, object]) -> None:
        """Adds the description of the rigid body that a slot shows, see `describe_body`."""
        self._new["bodies"].append({"slot": slot, **description})

    def flush(self) -> bytes | None:
        """Returns the packet of everything new since the last call, or None if there is nothing."""
        if not any(self._new.values()):
            return None
        packet = self._blob.make_packet({"kind": "scene", **self._new})
        self.packets.append(packet)
        self._start_packet()
        return packet


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
