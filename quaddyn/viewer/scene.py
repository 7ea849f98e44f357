"""`Scene`: geometry that the browser draws, as binary packets; it only grows, and poses move its slots.

A packet is a little-endian uint32 with the size of a JSON header, the header (padded to eight bytes), and the arrays to
which the header refers by ``{"type", "offset", "length"}``. The live page and the recorded file use the same packets.

A *slot* is a named group that moves as one. A frame of the animation is an array of ten numbers per slot: position (x,
y, z) [m], unit quaternion (x, y, z, w) and scale (x, y, z), all in the world; scale 0 hides the slot.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Mapping

import numpy as np
from numpy.typing import NDArray

from ..urdf.tree import Pose
from .mesh import encode_image_uri
from .parts import Material, Part

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
