"""Reader of COLLADA (.dae) files: triangles, polygons, diffuse colors and textures, placed by the scene's nodes.

It covers the part of COLLADA 1.4 (specification release 4.1, Khronos 2008) that robot files use. As in the ROS tools,
``<up_axis>`` is ignored (a URDF has z up) and ``<unit>`` is applied.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import defusedxml.ElementTree
import numpy as np
from numpy.typing import NDArray

from ..urdf.tree import Array
from .image import AdjacentFiles
from .parts import MAX_PARTS, Indices, Material, MeshError, Part, triangulate_fans

T = TypeVar("T")
N = TypeVar("N", np.float64, np.int64)

_POLYGONS = ("triangles", "polylist", "polygons")
_SHADERS = ("phong", "lambert", "blinn", "constant")
_MAX_DEPTH = 64
#: Instances of instances multiply what a file holds: elements visited, numbers read and used, triangles drawn.
_MAX_VISITS, _MAX_NUMBERS, _MAX_TRIANGLES = 200_000, 40_000_000, 4_000_000
#: Characters that become words at a time: a word of its own takes many times its length.
_PIECE, _SPACE = 1 << 20, re.compile(r"\s")


def read_collada(text: bytes, near: AdjacentFiles) -> tuple[Part, ...]:
    """Returns the parts of a COLLADA file [m]; `near` locates its textures.

    Raises:
        MeshError: the file is malformed or contains no triangles.
    """
    try:
        root = defusedxml.ElementTree.fromstring(text, forbid_dtd=True)
    except (ET.ParseError, defusedxml.DefusedXmlException, ValueError, LookupError) as error:  # of encodings too
        raise MeshError(f"not safe XML: {error}") from None
    for element in root.iter():  # tags of every schema version alike
        element.tag = str(element.tag).rpartition("}")[2]
    try:
        with np.errstate(over="ignore", invalid="ignore"):  # what is not finite is refused when its part is made
            parts = tuple(_Document(root, near).parts())
    except (ValueError, KeyError, IndexError, OverflowError, ArithmeticError) as error:
        raise error if isinstance(error, MeshError) else MeshError(f"malformed COLLADA: {error!r}") from None
    if not parts:
        raise MeshError("no triangles")
    return parts


class _Document:
    """Parsed file; looks up elements by id, and reads each once."""

    def __init__(self, root: ET.Element, near: AdjacentFiles) -> None:
        self.root, self.near = root, near
        self.ids = {e.attrib["id"]: e for e in root.iter() if "id" in e.attrib}
        unit = root.find("asset/unit")
        self.unit = float(unit.get("meter", "1")) if unit is not None else 1.0
        self.visits = self.numbers = self.triangles = self.drawn = 0
        self._read: dict[tuple[str, ET.Element], Any] = {}

    def target(self, element: ET.Element, attribute: str = "url") -> ET.Element:
        return self.ids[element.attrib[attribute].removeprefix("#")]

    def visit(self, element: ET.Element) -> ET.Element:
        """Returns the element after counting it with its children towards the limit."""
        self.visits += 1 + len(element)
        if self.visits > _MAX_VISITS:
            raise MeshError(f"more than {_MAX_VISITS} elements to visit")
        return element

    def use(self, numbers: int) -> None:
        """Counts processed numbers towards the limit."""
        self.numbers += numbers
        if self.numbers > _MAX_NUMBERS:
            raise MeshError(f"more than {_MAX_NUMBERS} numbers")

    def parts(self) -> Iterator[Part]:
        scale = np.diag([self.unit, self.unit, self.unit, 1.0])
        instance = self.root.find("scene/instance_visual_scene")
        if instance is None:  # a library without a scene: everything in it
            for geometry in self.root.iterfind("library_geometries/geometry"):
                yield from self.geometry(geometry, scale, {})
            return
        for node in self.target(instance).iterfind("node"):
            yield from self.node(node, scale, 0)

    def node(self, node: ET.Element, parent: Array, depth: int) -> Iterator[Part]:
        if depth > _MAX_DEPTH:
            raise MeshError(f"scene nodes deeper than {_MAX_DEPTH}")
        placement = parent @ self._once("transform", self.visit(node), _transform)
        for child in node:
            if child.tag == "node":
                yield from self.node(child, placement, depth + 1)
            elif child.tag == "instance_node":
                yield from self.node(self.target(child), placement, depth + 1)
            elif child.tag == "instance_geometry":
                found = child.find("bind_material/technique_common")
                bound = self.visit(found).iterfind("instance_material") if found is not None else ()
                materials = {x.attrib["symbol"]: x for x in bound}
                yield from self.geometry(self.target(child), placement, materials)

    def geometry(self, geometry: ET.Element, placement: Array, materials: dict[str, ET.Element]) -> Iterator[Part]:
        mesh = self.visit(geometry).find("mesh")
        if mesh is None:
            return
        for polygons in self.visit(mesh):
            if polygons.tag in _POLYGONS and len(polygons):
                bound = materials.get(polygons.get("material", ""))
                part = self.polygons(polygons, placement, self.material(bound) if bound is not None else None)
                if len(part.triangles):
                    self.drawn += 1
                    if self.drawn > MAX_PARTS:
                        raise MeshError(f"more than {MAX_PARTS} parts")
                    yield part

    def polygons(self, polygons: ET.Element, placement: Array, material: Material | None) -> Part:
        inputs = polygons.findall("input")
        columns = [int(x.get("offset", "0")) for x in inputs]
        if min(columns) < 0:
            raise MeshError(f"offset {min(columns)} of an <input>")
        stride = 1 + max(columns)
        runs = [self.integers(p) for p in polygons.iterfind("p")]
        index = np.concatenate(runs or [np.zeros(0, np.int64)])
        self.use(len(index))
        index = index[: len(index) // stride * stride].reshape(-1, stride)
        if polygons.tag == "polylist":
            counts = polygons.find("vcount")
            index = index[
                triangulate_fans(self.integers(counts) if counts is not None else index[:0, 0], len(index)).reshape(-1)
            ]
        elif polygons.tag == "polygons":
            index = index[
                triangulate_fans(np.array([len(run) // stride for run in runs], np.int64), len(index)).reshape(-1)
            ]
        self.use(index.size)
        sources: dict[str, tuple[Array, Indices]] = {}
        for x in sorted(inputs, key=lambda e: int(e.get("set", "0"))):
            column = index[:, int(x.get("offset", "0"))]
            source = self.visit(self.target(x, "source"))
            # <vertices> bundles the position with attributes that share its index
            for entry in source.iterfind("input") if source.tag == "vertices" else (x,):
                semantic = entry.attrib["semantic"]
                if semantic in ("POSITION", "TEXCOORD") and semantic not in sources:
                    sources[semantic] = self.source(self.target(entry, "source")), column
        values, corners = sources["POSITION"]
        if values.shape[1] < 3:
            raise MeshError(f"positions of {values.shape[1]} numbers")
        triangles = corners.reshape(-1, 3)
        self.triangles += len(triangles)
        if self.triangles > _MAX_TRIANGLES:
            raise MeshError(f"more than {_MAX_TRIANGLES} triangles")
        uvs = None
        if material is not None and material.texture is not None and "TEXCOORD" in sources:
            texture, column = sources["TEXCOORD"]
            uvs = texture[column, :2].reshape(-1, 3, 2)
        if np.linalg.det(placement[:3, :3]) < 0:  # a mirror turns the triangles inside out
            triangles = triangles[:, ::-1]
            uvs = None if uvs is None else uvs[:, ::-1]
        return Part.from_positions(values[:, :3], triangles, uvs, material, placement)

    def source(self, source: ET.Element) -> Array:
        array = source.find("float_array")
        if array is None:
            raise MeshError(f"source {source.get('id')!r} has no float_array")
        accessor = source.find("technique_common/accessor")
        stride = int(accessor.get("stride", "1")) if accessor is not None else 3
        if stride < 1:
            raise MeshError(f"stride {stride} of source {source.get('id')!r}")
        values = self.floats(array)
        return values[: len(values) // stride * stride].reshape(-1, stride)

    # -- what is read once -----------------------------------------------------------------------------------
    def floats(self, element: ET.Element) -> Array:
        return self._once("floats", element, lambda e: _numbers(e.text, np.float64))

    def integers(self, element: ET.Element) -> Indices:
        return self._once("integers", element, lambda e: _numbers(e.text, np.int64))

    def material(self, instance: ET.Element) -> Material | None:
        """Returns the diffuse color or texture of the effect of an <instance_material>."""
        link = self.target(instance, "target").find("instance_effect")
        return None if link is None else self._once("material", self.target(link), self._material)

    def _once(self, kind: str, element: ET.Element, read: Callable[[ET.Element], T]) -> T:
        key = kind, element
        if key not in self._read:
            self._read[key] = read(element)
        found: T = self._read[key]
        return found

    def _material(self, effect: ET.Element) -> Material | None:
        shader = next((s for tag in _SHADERS for s in effect.iterfind(f"*/technique/{tag}")), None)
        if shader is None:
            return None
        color, texture = [0.8, 0.8, 0.8], None
        diffuse = shader.find("diffuse/color")
        if diffuse is not None:
            color = [float(x) for x in (diffuse.text or "").split(maxsplit=3)[:3]]
        sampler = shader.find("diffuse/texture")
        if sampler is not None:
            texture, color = (
                self._image(effect, sampler.attrib["texture"]),
                [1.0, 1.0, 1.0] if diffuse is None else color,
            )
        if not np.isfinite(color).all():
            raise MeshError("a colour that is not finite")
        return Material((color[0], color[1], color[2], _opacity(shader)), texture)

    def _image(self, effect: ET.Element, name: str) -> Path | None:
        """Returns the image of a texture via sampler and surface; some exporters name the image directly."""
        parameters = {
            p.attrib["sid"]: p for path in ("", "*/", "*/technique/") for p in effect.iterfind(f"{path}newparam")
        }
        for tag in ("sampler2D/source", "surface/init_from"):
            if name in parameters:
                name = parameters[name].findtext(tag, name).strip()
        image = self.ids.get(name)
        reference = image.findtext("init_from") if image is not None and image.tag == "image" else None
        return self.near.find(reference) if reference else None


def _transform(node: ET.Element) -> Array:
    """Returns the product of a node's transformation elements in file order, (4, 4)."""
    out = np.eye(4)
    for element in node:
        if element.tag not in ("matrix", "translate", "rotate", "scale"):
            continue
        x = _numbers(element.text, np.float64)
        step = np.eye(4)
        if element.tag == "matrix":
            step = x.reshape(4, 4)
        elif element.tag == "translate":
            step[:3, 3] = x[:3]
        elif element.tag == "scale":
            step[:3, :3] = np.diag(x[:3])
        else:
            step[:3, :3] = _rotation(x[:3], np.deg2rad(x[3]))
        out = out @ step
    return out


def _rotation(axis: Array, angle: float) -> Array:
    """Returns the rotation about an axis by Rodrigues' formula; the axis is normalized."""
    x, y, z = axis / (np.linalg.norm(axis) or 1.0)
    K = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    return np.asarray(np.eye(3) + np.sin(angle) * K + (1 - np.cos(angle)) * K @ K)


def _opacity(shader: ET.Element) -> float:
    """Returns the opacity of a shader; since exporters interpret <transparency> differently, invisible means opaque."""
    text = shader.findtext("transparent/color")
    factor = float(shader.findtext("transparency/float", "1"))
    alpha = float(text.split()[3]) * factor if text and len(text.split()) == 4 else factor
    return alpha if 0.05 < alpha < 1 else 1.0


def _numbers(text: str | None, dtype: type[N]) -> NDArray[N]:
    """Returns the numbers in a text, (n,)."""
    words, out, start = text or "", [np.zeros(0, dtype)], 0
    while start < len(words):
        gap = _SPACE.search(words, start + _PIECE)
        end = gap.start() if gap is not None else len(words)
        out.append(np.array(words[start:end].split(), dtype=dtype))
        start = end
    return np.concatenate(out)
