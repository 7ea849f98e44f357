"""Reader of mesh files of a URDF for drawing: STL, OBJ and COLLADA.

- STL files, binary and ASCII.
- Wavefront OBJ files with their MTL materials.
- COLLADA (.dae) files: triangles, polygons, diffuse colors and textures, placed by the scene's nodes.

Files to which a mesh file refers are materials and small local PNG and JPEG images; they must lie in its folder or
below.  The COLLADA reader covers the part of COLLADA 1.4 (specification release 4.1, Khronos 2008) that robot files
use. As in the ROS tools, ``<up_axis>`` is ignored (a URDF has z up) and ``<unit>`` is applied.

`Part`: a piece of a mesh file as arrays, small enough to send to a browser.  Primitive shapes of URDF and markers are
made of triangles, with z as their axis.
"""

from __future__ import annotations

import base64
import io
import re
import xml.etree.ElementTree as ET
from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import unquote, urlsplit

import defusedxml.ElementTree
import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import QuaddynError
from ..safe_files import read_regular_file
from ..urdf.tree import Array

Indices = NDArray[np.int64]

#: Grid steps along the longest side, to which vertices are rounded (14 micrometers per meter).
GRID = 65535
#: Maximum number of parts of a mesh file; each is a separate object in the browser.
MAX_PARTS = 2048


class MeshError(QuaddynError, ValueError):
    """Error of a mesh file that cannot be drawn; the message states the reason."""


@dataclass(frozen=True, slots=True)
class Material:
    """Appearance of a surface: `color` (r, g, b, opacity), each 0 to 1, and a `texture` image that replaces r, g, b."""

    color: tuple[float, float, float, float]
    texture: Path | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """Triangles of one material, in the frame of the mesh.

    Normals are omitted: the browser computes them from the triangles, smooth below a crease angle, so that all formats
    look alike and a recording has a fifth of the size.
    """

    grid: NDArray[np.uint16]  # (n, 3) vertices in steps of `step` from `origin`
    origin: Array  # (3,) position [m]
    step: float  # grid step [m]
    triangles: NDArray[np.uint32]  # (m, 3) vertex indices, counterclockwise seen from outside
    uvs: NDArray[np.float32] | None  # (3 m, 2) texture coordinates of each corner, or None
    material: Material | None  # material; None if the file names none

    @staticmethod
    def from_positions(
        positions: ArrayLike,
        triangles: Indices,
        uvs: ArrayLike | None,
        material: Material | None,
        placement: Array | None = None,
    ) -> Part:
        """Returns a part from vertices: merges those at one grid point, and removes degenerate triangles.

        Args:
            positions: (k, 3) vertices [m]; unused ones are removed.
            triangles: (m, 3) indices into `positions`.
            uvs: (3 m, 2) texture coordinates, or None.
            material: material of the part.
            placement: (4, 4) placement of the vertices, or None.

        Raises:
            MeshError: an index is out of range or a value is not finite.
        """
        points = np.asarray(positions, dtype=np.float64).reshape(-1, 3)
        if len(triangles) and not 0 <= triangles.min() <= triangles.max() < len(points):
            raise MeshError(f"the index of a vertex is out of range (the file has {len(points)} vertices)")
        vertices, corner = np.unique(triangles.reshape(-1), return_inverse=True)
        used = points[vertices]
        if placement is not None:
            used = used @ placement[:3, :3].T + placement[:3, 3]
        coordinates = None if uvs is None else np.asarray(uvs, dtype=np.float32).reshape(-1, 2)
        if not np.isfinite(used).all() or (coordinates is not None and not np.isfinite(coordinates).all()):
            raise MeshError("a vertex or texture coordinate is not finite")
        origin = used.min(axis=0, initial=np.inf) if len(used) else np.zeros(3)
        step = float((used - origin).max(initial=0.0) / GRID) or 1.0
        grid = np.round((used - origin) / step).astype(np.int64)
        key, vertex_index = np.unique((grid[:, 0] << 32) | (grid[:, 1] << 16) | grid[:, 2], return_inverse=True)
        merged_triangles = vertex_index.astype(np.uint32)[corner].reshape(-1, 3)
        a, b, c = merged_triangles.T
        is_nondegenerate = (a != b) & (b != c) & (c != a)
        if coordinates is not None:
            coordinates = coordinates.reshape(-1, 6)[is_nondegenerate].reshape(-1, 2)
        merged_grid = np.stack([key >> 32, (key >> 16) & 0xFFFF, key & 0xFFFF], axis=1).astype(np.uint16)
        return Part(
            merged_grid, origin, step, np.ascontiguousarray(merged_triangles[is_nondegenerate]), coordinates, material
        )

    @property
    def positions(self) -> Array:
        """Vertices (n, 3) [m]."""
        return np.asarray(self.origin + self.step * self.grid)


def triangulate_fans(counts: Indices, corners: int) -> Indices:
    """Returns corner numbers (m, 3) of the triangle fans of polygons with `counts` (k,) consecutive corners.

    Exact for convex polygons, which exporters write; fewer than three corners give no triangle.

    Raises:
        MeshError: the polygons need more than the given number of `corners`, or one has a negative count.
    """
    if counts.min(initial=0) < 0 or sum(counts.tolist()) > corners:  # unbounded integers: no overflow
        raise MeshError(f"the polygons require {sum(counts.tolist())} corners, but the file has {corners}")
    starts = np.cumsum(counts) - counts
    triangles = np.maximum(counts - 2, 0)
    first = np.repeat(starts, triangles)
    step = np.arange(triangles.sum()) - np.repeat(np.cumsum(triangles) - triangles, triangles)
    return np.stack([first, first + step + 1, first + step + 2], axis=1)


_SEGMENTS = 32


def make_revolved(profile: Sequence[tuple[float, float]], segments: int = _SEGMENTS) -> Part:
    """Returns the solid of revolution of a `profile` of (radius, z) points, bottom to top, about z [m]."""
    angles = np.linspace(0, 2 * np.pi, segments, endpoint=False)
    circle = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    rings = [np.column_stack([radius * circle, np.full(segments, z)]) for radius, z in profile]
    index = np.arange(segments)
    next_index = (index + 1) % segments
    triangles: list[Indices] = []
    for ring in range(len(profile) - 1):
        lower, upper = ring * segments, (ring + 1) * segments
        triangles.append(np.stack([lower + index, lower + next_index, upper + next_index], axis=1))
        triangles.append(np.stack([lower + index, upper + next_index, upper + index], axis=1))
    return Part.from_positions(np.concatenate(rings), np.concatenate(triangles), None, None)


def make_sphere(radius: float) -> Part:
    """Returns a sphere of `radius` [m]."""
    angles = np.linspace(-np.pi / 2, np.pi / 2, _SEGMENTS // 2 + 1)
    return make_revolved([(radius * np.cos(a), radius * np.sin(a)) for a in angles])


def make_cylinder(radius: float, length: float) -> Part:
    """Returns a closed, centered cylinder [m]."""
    h = length / 2
    return make_revolved([(0, -h), (radius, -h), (radius, h), (0, h)])


def make_capsule(radius: float, length: float) -> Part:
    """Returns a centered cylinder of `length` between two half spheres [m]."""
    angles = np.linspace(0, np.pi / 2, _SEGMENTS // 4 + 1)
    top = [(radius * np.cos(a), length / 2 + radius * np.sin(a)) for a in angles]
    return make_revolved([*((r, -z) for r, z in reversed(top)), *top])


def make_box(size: tuple[float, float, float]) -> Part:
    """Returns a centered box of full `size` (x, y, z) [m]."""
    corners = np.array([[x, y, z] for x in (-0.5, 0.5) for y in (-0.5, 0.5) for z in (-0.5, 0.5)]) * size
    quads = np.array([[0, 1, 3, 2], [4, 6, 7, 5], [0, 4, 5, 1], [2, 3, 7, 6], [0, 2, 6, 4], [1, 5, 7, 3]])
    return Part.from_positions(corners, quads[:, [0, 1, 2, 0, 2, 3]].reshape(-1, 3), None, None)


def make_arrow() -> Part:
    """Returns an arrow of length 1 from the origin along z."""
    return make_revolved([(0, 0), (0.025, 0), (0.025, 0.78), (0.075, 0.78), (0, 1)], 20)


def make_cone() -> Part:
    """Returns the open surface of a cone with its tip at the origin, height 1 and radius 1 at z = 1."""
    return make_revolved([(0, 0), (1, 1)])


def make_disc(radius: float) -> Part:
    """Returns a flat disc seen from above [m]."""
    return make_revolved([(radius, 0), (0, 0)])


def make_line(radius: float) -> Part:
    """Returns a thin open cylinder of length 1 from the origin along z."""
    return make_revolved([(radius, 0), (radius, 1)], 8)


#: Largest texture that is drawn [bytes].
MAX_IMAGE_BYTES = 16 * 1024 * 1024
_MAGIC = {b"\x89PNG\r\n\x1a\n": "image/png", b"\xff\xd8\xff": "image/jpeg"}


@dataclass(frozen=True, slots=True)
class AdjacentFiles:
    """Files to which a mesh file may refer: in its folder and the folder above, but not outside its package root.

    Mesh files are untrusted: references to other hosts or to the rest of the disk must not be followed.
    """

    mesh: Path  # mesh file
    root: Path | None = None  # package root that contains it; None: only files in the folder of the mesh

    def find(self, reference: str, beside: Path | None = None) -> Path | None:
        """Returns the regular file of a reference relative to the mesh or to the file `beside`, or None."""
        try:
            parts = urlsplit(reference.strip().replace("\\", "/"))
            if parts.netloc or parts.scheme not in ("", "file"):
                return None
            folder = self.mesh.parent.resolve()
            path = ((beside or self.mesh).parent / unquote(parts.path)).resolve()
            top_folder = folder.parent if self.root is not None and folder != self.root.resolve() else folder
            return path if path.is_relative_to(top_folder) and path.is_file() else None
        except (OSError, ValueError):
            return None


def encode_image_uri(path: Path) -> str | None:
    """Returns the image as a ``data:`` URI, or None if the file is neither PNG nor JPEG, or too large."""
    try:
        data = read_regular_file(path, MAX_IMAGE_BYTES)
    except OSError:
        return None
    media_type = next((name for magic, name in _MAGIC.items() if data.startswith(magic)), None)
    return None if media_type is None else f"data:{media_type};base64,{base64.b64encode(data).decode()}"


_FACET = np.dtype([("normal", "<f4", 3), ("corners", "<f4", (3, 3)), ("attribute", "<u2")])
# Each digit can be matched in one way only: otherwise a long word that is not a number would take quadratic time.
_NUMBER = rb"([-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?)"
_VERTEX = re.compile(rb"vertex\s+" + _NUMBER + rb"\s+" + _NUMBER + rb"\s+" + _NUMBER)


def read_stl(data: bytes) -> tuple[Part, ...]:
    """Returns the part of an STL file; its facet normals are ignored in favor of the order of the corners.

    Raises:
        MeshError: neither binary (84 bytes and 50 per facet) nor ASCII with vertices.
    """
    count = int.from_bytes(data[80:84], "little")
    if len(data) >= 84 and len(data) == 84 + 50 * count:  # the word "solid" also begins some binary files
        corners = np.frombuffer(data, _FACET, count, 84)["corners"].reshape(-1, 3)
    elif data.lstrip()[:5].lower() == b"solid":
        words = (float(word) for match in _VERTEX.finditer(data) for word in match.groups())
        with np.errstate(over="ignore"):  # numbers that are not finite are rejected by `Part`
            corners = np.fromiter(words, dtype=np.float64).astype(np.float32).reshape(-1, 3)
    else:
        raise MeshError(
            f"the file is not an STL file: it has {len(data)} bytes, but its header specifies {84 + 50 * count}"
        )
    if len(corners) == 0 or len(corners) % 3:
        raise MeshError(f"the STL file has {len(corners)} vertices, which is not a positive multiple of 3")
    return (Part.from_positions(corners, np.arange(len(corners)).reshape(-1, 3), None, None),)


_DEFAULT_COLOR = (0.8, 0.8, 0.8)
#: Largest material file that is read [bytes].
MAX_MATERIAL_BYTES = 1024 * 1024
#: Maximum number of material files.
MAX_LIBRARIES = 16


@dataclass(slots=True)
class _Faces:
    """Faces of one material: number of corners of each, and (position, texture) index of every corner."""

    counts: array[int] = field(default_factory=lambda: array("q"))
    corners: array[int] = field(default_factory=lambda: array("q"))


def read_obj(text: str, adjacent_files: AdjacentFiles) -> tuple[Part, ...]:
    """Returns the parts of an OBJ file, one per material; `adjacent_files` locates its ``mtllib`` and textures.

    Raises:
        MeshError: a line cannot be read, an index is out of range, or there are too many materials.
    """
    vertices, coordinates = array("d"), array("d")
    faces: dict[str, _Faces] = {}
    materials: dict[str, Material] = {}
    libraries: set[str] = set()
    current = ""
    for number, line in enumerate(io.StringIO(text, newline=None), 1):
        word, _, rest = line.strip().partition(" ")
        try:
            if word == "v":
                x, y, z = rest.split(maxsplit=3)[:3]
                vertices.extend((float(x), float(y), float(z)))
            elif word == "vt":
                u, v = rest.split(maxsplit=2)[:2]
                coordinates.extend((float(u), float(v)))
            elif word == "f":
                group = faces.setdefault(current, _Faces())
                if len(faces) > MAX_PARTS:
                    raise MeshError(f"the file has more than {MAX_PARTS} materials, which is not accepted")
                n_before = len(group.corners)
                for corner in rest.split():
                    group.corners.extend(_parse_corner(corner, len(vertices) // 3, len(coordinates) // 2))
                group.counts.append((len(group.corners) - n_before) // 2)
            elif word == "usemtl":
                current = rest.strip()
            elif word == "mtllib" and rest.strip() not in libraries:
                libraries.add(rest.strip())
                if len(libraries) > MAX_LIBRARIES:
                    raise MeshError(
                        f"the file refers to more than {MAX_LIBRARIES} material files, which is not accepted"
                    )
                materials |= _read_mtl(rest, adjacent_files)
        except (ValueError, OverflowError) as error:
            raise error if isinstance(error, MeshError) else MeshError(f"line {number}: {error}") from None
    if not faces:
        raise MeshError("the file contains no faces")
    positions = np.array(vertices, dtype=np.float64).reshape(-1, 3)
    uvs = np.array(coordinates, dtype=np.float64).reshape(-1, 2)
    return tuple(_make_part(group_faces, positions, uvs, materials.get(name)) for name, group_faces in faces.items())


def _parse_corner(word: str, vertices: int, coordinates: int) -> tuple[int, int]:
    """Returns the indices (position, texture coordinate) of "7", "7/2", "7//3" or "7/2/3"; -1 if there is none."""
    v, vt, *_ = [*word.split("/"), ""]
    indices = []
    for text, count in ((v, vertices), (vt, coordinates)):
        index = int(text or 0)
        indices.append(index - 1 if index >= 0 else count + index)  # negative indices count back from the last one read
    return indices[0], indices[1]


def _make_part(faces: _Faces, positions: Array, coordinates: Array, material: Material | None) -> Part:
    """Returns the part that consists of the faces of one material."""
    corners: Indices = np.array(faces.corners, dtype=np.int64).reshape(-1, 2)
    corners = corners[triangulate_fans(np.array(faces.counts, dtype=np.int64), len(corners)).reshape(-1)]
    uvs = None
    if material is not None and material.texture is not None and (corners[:, 1] >= 0).all():
        if corners[:, 1].max(initial=-1) >= len(coordinates):
            raise MeshError("the index of a texture coordinate is out of range")
        uvs = coordinates[corners[:, 1]]
    return Part.from_positions(positions, corners[:, 0].reshape(-1, 3), uvs, material)


def _read_mtl(reference: str, adjacent_files: AdjacentFiles) -> dict[str, Material]:
    """Returns the materials of an MTL file by name; none if the file does not exist, as in other viewers."""
    path = adjacent_files.find(reference)
    if path is None:
        return {}
    try:
        text = read_regular_file(path, MAX_MATERIAL_BYTES).decode("utf-8", errors="replace")
    except OSError:
        return {}
    materials: dict[str, Material] = {}
    name = ""
    for number, line in enumerate(io.StringIO(text, newline=None), 1):
        word, _, rest = line.strip().partition(" ")
        words = rest.split()
        if word == "newmtl":
            name = rest.strip()
            materials[name] = Material((*_DEFAULT_COLOR, 1.0))
        if not name or not words:
            continue
        color, texture = materials[name].color, materials[name].texture
        try:
            if word == "Kd":
                red, green, blue = map(float, words[:3])
                color = (red, green, blue, color[3])
            elif word == "d":
                color = (*color[:3], float(words[-1]))
            elif word == "map_Kd":
                texture = adjacent_files.find(words[-1], beside=path)
        except ValueError as error:
            raise MeshError(f"{path.name}:{number}: {error}") from None
        if not np.isfinite(color).all():
            raise MeshError(f"{path.name}:{number}: the color is not finite")
        materials[name] = Material(color, texture)
    return materials


T = TypeVar("T")
N = TypeVar("N", np.float64, np.int64)

_POLYGONS = ("triangles", "polylist", "polygons")
_SHADERS = ("phong", "lambert", "blinn", "constant")
_MAX_DEPTH = 64
#: Limits, since nested instances multiply the content of a file: elements visited, numbers processed, triangles drawn.
_MAX_VISITS, _MAX_NUMBERS, _MAX_TRIANGLES = 200_000, 40_000_000, 4_000_000
#: Number of characters that are split into words at a time, since a separate word takes many times its length in
#: memory.
_CHUNK_LENGTH, _SPACE = 1 << 20, re.compile(r"\s")


def read_collada(text: bytes, adjacent_files: AdjacentFiles) -> tuple[Part, ...]:
    """Returns the parts of a COLLADA file, meshes of one material each [m]; `adjacent_files` locates its textures.

    Raises:
        MeshError: the file is malformed or contains no triangles.
    """
    try:
        root = defusedxml.ElementTree.fromstring(text, forbid_dtd=True)
    except (
        ET.ParseError,
        defusedxml.DefusedXmlException,
        ValueError,
        LookupError,
    ) as error:  # ValueError, LookupError: unknown encodings
        raise MeshError(f"the file is not valid or not safe XML: {error}") from None
    for element in root.iter():  # removes the namespace, which differs between schema versions
        element.tag = str(element.tag).rpartition("}")[2]
    try:
        with np.errstate(over="ignore", invalid="ignore"):  # numbers that are not finite are rejected by `Part`
            parts = tuple(_Document(root, adjacent_files).read_parts())
    except (ValueError, KeyError, IndexError, OverflowError, ArithmeticError) as error:
        raise (
            error if isinstance(error, MeshError) else MeshError(f"the file is not valid COLLADA: {error!r}")
        ) from None
    if not parts:
        raise MeshError("the file contains no triangles")
    return parts


class _Document:
    """Parsed COLLADA file, which looks up elements by id and reads each only once."""

    def __init__(self, root: ET.Element, adjacent_files: AdjacentFiles) -> None:
        self.root, self.adjacent_files = root, adjacent_files
        self.ids = {e.attrib["id"]: e for e in root.iter() if "id" in e.attrib}
        unit = root.find("asset/unit")
        self.unit = float(unit.get("meter", "1")) if unit is not None else 1.0
        self.n_visits = self.n_numbers = self.n_triangles = self.n_parts = 0
        self._cache: dict[tuple[str, ET.Element], Any] = {}

    def find_target(self, element: ET.Element, attribute: str = "url") -> ET.Element:
        """Returns the element to whose id an attribute of `element` refers."""
        return self.ids[element.attrib[attribute].removeprefix("#")]

    def count_visit(self, element: ET.Element) -> ET.Element:
        """Counts an element and its children towards the limit of visits, and returns the element."""
        self.n_visits += 1 + len(element)
        if self.n_visits > _MAX_VISITS:
            raise MeshError(f"the scene has more than {_MAX_VISITS} elements, which is not accepted")
        return element

    def count_numbers(self, numbers: int) -> None:
        """Counts processed numbers towards the limit."""
        self.n_numbers += numbers
        if self.n_numbers > _MAX_NUMBERS:
            raise MeshError(f"the file has more than {_MAX_NUMBERS} numbers, which is not accepted")

    def read_parts(self) -> Iterator[Part]:
        """Yields the parts of the scene, or of all geometries of a file without a scene."""
        scale = np.diag([self.unit, self.unit, self.unit, 1.0])
        instance = self.root.find("scene/instance_visual_scene")
        if instance is None:  # a library without a scene
            for geometry in self.root.iterfind("library_geometries/geometry"):
                yield from self.read_geometry(geometry, scale, {})
            return
        for node in self.find_target(instance).iterfind("node"):
            yield from self.read_node(node, scale, 0)

    def read_node(self, node: ET.Element, parent: Array, depth: int) -> Iterator[Part]:
        """Yields the parts of a scene node and its children; `parent` (4, 4) is the placement of its parent."""
        if depth > _MAX_DEPTH:
            raise MeshError(f"scene nodes are nested more than {_MAX_DEPTH} deep")
        placement = parent @ self._read_once("transform", self.count_visit(node), _read_transform)
        for child in node:
            if child.tag == "node":
                yield from self.read_node(child, placement, depth + 1)
            elif child.tag == "instance_node":
                yield from self.read_node(self.find_target(child), placement, depth + 1)
            elif child.tag == "instance_geometry":
                bindings = child.find("bind_material/technique_common")
                instances = self.count_visit(bindings).iterfind("instance_material") if bindings is not None else ()
                materials = {instance.attrib["symbol"]: instance for instance in instances}
                yield from self.read_geometry(self.find_target(child), placement, materials)

    def read_geometry(self, geometry: ET.Element, placement: Array, materials: dict[str, ET.Element]) -> Iterator[Part]:
        """Yields the parts of a geometry, with materials by the symbols that it uses."""
        mesh = self.count_visit(geometry).find("mesh")
        if mesh is None:
            return
        for polygons in self.count_visit(mesh):
            if polygons.tag in _POLYGONS and len(polygons):
                instance = materials.get(polygons.get("material", ""))
                part = self.read_polygons(
                    polygons, placement, self.read_material(instance) if instance is not None else None
                )
                if len(part.triangles):
                    self.n_parts += 1
                    if self.n_parts > MAX_PARTS:
                        raise MeshError(f"the file has more than {MAX_PARTS} parts, which is not accepted")
                    yield part

    def read_polygons(self, polygons: ET.Element, placement: Array, material: Material | None) -> Part:
        """Reads a <triangles>, <polylist> or <polygons> element and returns its triangles as one part of the mesh.

        Args:
            polygons: the element.
            placement: (4, 4) transformation of its positions to the axes and meters of the file's scene.
            material: material of all triangles of the part; None: no material.
        """
        inputs = polygons.findall("input")
        columns = [int(entry_input.get("offset", "0")) for entry_input in inputs]
        if min(columns) < 0:
            raise MeshError(f"an <input> has the negative offset {min(columns)}")
        stride = 1 + max(columns)
        index_lists = [self.read_integers(p) for p in polygons.iterfind("p")]
        index = np.concatenate(index_lists or [np.zeros(0, np.int64)])
        self.count_numbers(len(index))
        index = index[: len(index) // stride * stride].reshape(-1, stride)
        if polygons.tag == "polylist":
            counts = polygons.find("vcount")
            index = index[
                triangulate_fans(
                    self.read_integers(counts) if counts is not None else index[:0, 0], len(index)
                ).reshape(-1)
            ]
        elif polygons.tag == "polygons":
            index = index[
                triangulate_fans(
                    np.array([len(index_list) // stride for index_list in index_lists], np.int64), len(index)
                ).reshape(-1)
            ]
        self.count_numbers(index.size)
        sources: dict[str, tuple[Array, Indices]] = {}
        for entry_input in sorted(inputs, key=lambda e: int(e.get("set", "0"))):
            column = index[:, int(entry_input.get("offset", "0"))]
            source = self.count_visit(self.find_target(entry_input, "source"))
            # <vertices> bundles the position with attributes that share its index
            for entry in source.iterfind("input") if source.tag == "vertices" else (entry_input,):
                semantic = entry.attrib["semantic"]
                if semantic in ("POSITION", "TEXCOORD") and semantic not in sources:
                    sources[semantic] = self.read_source(self.find_target(entry, "source")), column
        values, corners = sources["POSITION"]
        if values.shape[1] < 3:
            raise MeshError(f"positions must have 3 numbers, got {values.shape[1]}")
        triangles = corners.reshape(-1, 3)
        self.n_triangles += len(triangles)
        if self.n_triangles > _MAX_TRIANGLES:
            raise MeshError(f"the file has more than {_MAX_TRIANGLES} triangles, which is not accepted")
        uvs = None
        if material is not None and material.texture is not None and "TEXCOORD" in sources:
            texture, column = sources["TEXCOORD"]
            uvs = texture[column, :2].reshape(-1, 3, 2)
        if np.linalg.det(placement[:3, :3]) < 0:  # a mirror turns the triangles inside out
            triangles = triangles[:, ::-1]
            uvs = None if uvs is None else uvs[:, ::-1]
        return Part.from_positions(values[:, :3], triangles, uvs, material, placement)

    def read_source(self, source: ET.Element) -> Array:
        """Returns the rows (n, stride) of numbers of a <source>."""
        array = source.find("float_array")
        if array is None:
            raise MeshError(f"the source {source.get('id')!r} has no <float_array>")
        accessor = source.find("technique_common/accessor")
        stride = int(accessor.get("stride", "1")) if accessor is not None else 3
        if stride < 1:
            raise MeshError(f"the source {source.get('id')!r} has the stride {stride}, which must be positive")
        values = self.read_floats(array)
        return values[: len(values) // stride * stride].reshape(-1, stride)

    # -- elements that are read only once --------------------------------------------------------------------
    def read_floats(self, element: ET.Element) -> Array:
        """Returns the floating-point numbers in the text of an element, (n,)."""
        return self._read_once("floats", element, lambda e: _parse_numbers(e.text, np.float64))

    def read_integers(self, element: ET.Element) -> Indices:
        """Returns the integers in the text of an element, (n,)."""
        return self._read_once("integers", element, lambda e: _parse_numbers(e.text, np.int64))

    def read_material(self, instance: ET.Element) -> Material | None:
        """Returns the diffuse color or texture of the effect of an <instance_material>."""
        link = self.find_target(instance, "target").find("instance_effect")
        return None if link is None else self._read_once("material", self.find_target(link), self._read_effect)

    def _read_once(self, kind: str, element: ET.Element, read: Callable[[ET.Element], T]) -> T:
        """Returns ``read(element)``, cached by element and `kind` of the result."""
        key = kind, element
        if key not in self._cache:
            self._cache[key] = read(element)
        result: T = self._cache[key]
        return result

    def _read_effect(self, effect: ET.Element) -> Material | None:
        """Returns the diffuse color or texture of an <effect>; None without a known shader."""
        shader = next((s for tag in _SHADERS for s in effect.iterfind(f"*/technique/{tag}")), None)
        if shader is None:
            return None
        color, texture = [0.8, 0.8, 0.8], None
        diffuse = shader.find("diffuse/color")
        if diffuse is not None:
            color = [float(x) for x in (diffuse.text or "").split(maxsplit=3)[:3]]
        sampler = shader.find("diffuse/texture")
        if sampler is not None:
            texture = self._find_image(effect, sampler.attrib["texture"])
            color = [1.0, 1.0, 1.0] if diffuse is None else color
        if not np.isfinite(color).all():
            raise MeshError("a color is not finite")
        return Material((color[0], color[1], color[2], _read_opacity(shader)), texture)

    def _find_image(self, effect: ET.Element, name: str) -> Path | None:
        """Returns the image of a texture via sampler and surface; some exporters name the image directly."""
        parameters = {
            p.attrib["sid"]: p for path in ("", "*/", "*/technique/") for p in effect.iterfind(f"{path}newparam")
        }
        for tag in ("sampler2D/source", "surface/init_from"):
            if name in parameters:
                name = parameters[name].findtext(tag, name).strip()
        image = self.ids.get(name)
        reference = image.findtext("init_from") if image is not None and image.tag == "image" else None
        return self.adjacent_files.find(reference) if reference else None


def _read_transform(node: ET.Element) -> Array:
    """Returns the product of a node's transformation elements in file order, (4, 4)."""
    product = np.eye(4)
    for element in node:
        if element.tag not in ("matrix", "translate", "rotate", "scale"):
            continue
        numbers = _parse_numbers(element.text, np.float64)
        transform = np.eye(4)
        if element.tag == "matrix":
            transform = numbers.reshape(4, 4)
        elif element.tag == "translate":
            transform[:3, 3] = numbers[:3]
        elif element.tag == "scale":
            transform[:3, :3] = np.diag(numbers[:3])
        else:
            transform[:3, :3] = _axis_rotation(numbers[:3], np.deg2rad(numbers[3]))
        product = product @ transform
    return product


def _axis_rotation(axis: Array, angle: float) -> Array:
    """Returns the rotation about an axis by Rodrigues' formula; the axis is normalized."""
    x, y, z = axis / (np.linalg.norm(axis) or 1.0)
    K = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    return np.asarray(np.eye(3) + np.sin(angle) * K + (1 - np.cos(angle)) * K @ K)


def _read_opacity(shader: ET.Element) -> float:
    """Returns the opacity of a shader; since exporters interpret <transparency> differently, invisible means opaque."""
    text = shader.findtext("transparent/color")
    factor = float(shader.findtext("transparency/float", "1"))
    alpha = float(text.split()[3]) * factor if text and len(text.split()) == 4 else factor
    return alpha if 0.05 < alpha < 1 else 1.0


def _parse_numbers(text: str | None, dtype: type[N]) -> NDArray[N]:
    """Returns the numbers in a text, (n,)."""
    characters, chunks, start = text or "", [np.zeros(0, dtype)], 0
    while start < len(characters):
        separator = _SPACE.search(characters, start + _CHUNK_LENGTH)
        end = separator.start() if separator is not None else len(characters)
        chunks.append(np.array(characters[start:end].split(), dtype=dtype))
        start = end
    return np.concatenate(chunks)


#: Largest mesh file that is drawn [bytes].
MAX_BYTES = 64 * 1024 * 1024


def read_mesh(path: Path, root: Path | None = None) -> tuple[Part, ...]:
    """Returns the parts of a mesh file in its own frame [m]; its suffix (.stl, .obj, .dae) selects the format.

    Args:
        path: mesh file.
        root: package root that contains it; materials and textures outside of it are not opened. None: only those in
            the folder of the file are opened.

    Raises:
        MeshError: the file does not exist, is too large, of another format or malformed; the message states which.
    """
    try:
        data = read_regular_file(path, MAX_BYTES)
    except FileNotFoundError:
        raise MeshError("the file does not exist") from None
    except OSError as error:
        raise MeshError(f"the file cannot be read: {error.strerror}") from None
    match path.suffix.lower():
        case ".stl":
            return read_stl(data)
        case ".obj":
            return read_obj(data.decode("utf-8", errors="replace"), AdjacentFiles(path, root))
        case ".dae":
            return read_collada(data, AdjacentFiles(path, root))
        case other:
            raise MeshError(f"the format {other!r} is not supported; use .stl, .obj or .dae")
