"""`Scene`: what the browser draws, as binary packets; it only ever grows, and poses move its slots.

A packet is a little-endian uint32 with the size of a JSON header, the header (padded to eight bytes) and the arrays
that the header refers to as ``{"type", "offset", "length"}``.  The same packets feed the live page and the recorded
file.

A *slot* is a named group that moves as one.  A frame of the animation is an array of ten numbers a slot: position
(x, y, z) [m], unit quaternion (x, y, z, w) and scale (x, y, z), all in the world; scale 0 hides it.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Mapping

import numpy as np
from numpy.typing import NDArray

from ..urdf.tree import Pose
from .image import data_uri
from .parts import Material, Part

#: Numbers of a slot in a frame.
SLOT = 10


class Blob:
    """Collects arrays behind a packet's header."""

    def __init__(self) -> None:
        self._chunks: list[bytes] = []
        self._size = 0

    def add(self, array: NDArray[np.generic]) -> dict[str, object]:
        """Appends `array`; returns how the header refers to it."""
        data = np.ascontiguousarray(array).tobytes()
        reference: dict[str, object] = {"type": array.dtype.name, "offset": self._size, "length": int(array.size)}
        data += bytes(-len(data) % 8)
        self._chunks.append(data)
        self._size += len(data)
        return reference

    def packet(self, header: Mapping[str, object]) -> bytes:
        """The packet of `header` and every array added so far."""
        text = json.dumps(header, separators=(",", ":")).encode()
        text += b" " * (-(len(text) + 4) % 8)
        return len(text).to_bytes(4, "little") + text + b"".join(self._chunks)


class Scene:
    """Geometries, materials and slots, each known to the browser by its number."""

    def __init__(self) -> None:
        self.slots: list[tuple[str, ...]] = []
        self.packets: list[bytes] = []
        self._numbers: dict[tuple[str, Hashable], int] = {}
        self._count = {"geometries": 0, "materials": 0}
        self._start()

    def _start(self) -> None:
        self._blob = Blob()
        self._new: dict[str, list[dict[str, object]]] = {k: [] for k in ("geometries", "materials", "slots", "meshes")}

    def slot(self, *path: str) -> int:
        """Number of a new slot, shown under `path` in the page's scene menu."""
        self.slots.append(path)
        self._new["slots"].append({"path": path})
        return len(self.slots) - 1

    def geometry(self, key: Hashable, part: Part) -> int:
        """Number of the geometry `part`; sent once for each `key`."""
        if (number := self._numbers.get(("geometries", key))) is not None:
            return number
        narrow = np.uint16 if len(part.grid) <= 2**16 else np.uint32
        return self._add(
            "geometries",
            key,
            {
                "grid": self._blob.add(part.grid),
                "origin": part.origin.tolist(),
                "step": part.step,
                "triangles": self._blob.add(part.triangles.astype(narrow)),
                "uvs": None if part.uvs is None else self._blob.add(part.uvs),
            },
        )

    def material(self, material: Material, *, glow: bool = False, through: bool = False) -> int:
        """Number of a material.

        Args:
            material: colour and texture.
            glow: keeps a marker's colour in the shade and lets it cast no shadow.
            through: is seen through whatever stands before it.
        """
        key = (material, glow, through)
        if (number := self._numbers.get(("materials", key))) is not None:
            return number
        image = data_uri(material.texture) if material.texture is not None else None
        item: dict[str, object] = {"color": material.color, "texture": image, "glow": glow, "through": through}
        return self._add("materials", key, item)

    def _add(self, kind: str, key: Hashable, item: dict[str, object]) -> int:
        number = self._numbers[kind, key] = self._count[kind]
        self._count[kind] += 1
        self._new[kind].append(item)
        return number

    def mesh(
        self, slot: int, geometry: int, material: int, placement: Pose, scale: tuple[float, ...] = (1, 1, 1)
    ) -> None:
        """Puts a geometry into a slot; `placement` and `scale` in the slot's frame."""
        matrix = placement.homogeneous @ np.diag([*scale, 1.0])
        self._new["meshes"].append(
            {"slot": slot, "geometry": geometry, "material": material, "matrix": matrix.T.reshape(-1).tolist()}
        )

    def flush(self) -> bytes | None:
        """The packet of everything new since the last flush, None when there is nothing."""
        if not any(self._new.values()):
            return None
        packet = self._blob.packet({"kind": "scene", **self._new})
        self.packets.append(packet)
        self._start()
        return packet
