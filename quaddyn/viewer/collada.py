"""COLLADA (.dae) files: triangles, polygons, diffuse colours and textures, placed by their scene's nodes.

What robot files need of COLLADA 1.4 (specification release 4.1, Khronos 2008).  As in the ROS tools, ``<up_axis>``
is ignored (a URDF is z up) and ``<unit>`` is applied.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path

import defusedxml.ElementTree
import numpy as np

from ..urdf.tree import Array
from .image import texture_path
from .parts import Indices, Material, MeshError, Part, fan

_POLYGONS = ("triangles", "polylist", "polygons")
_SHADERS = ("phong", "lambert", "blinn", "constant")
_MAX_NODES = 10_000
_MAX_TRIANGLES = 4_000_000


def read_collada(text: bytes, path: Path) -> tuple[Part, ...]:
    """The parts of a COLLADA file in metres; `path` is where textures are looked up.

    Raises:
        MeshError: the file is malformed or holds no triangles.
    """
    try:
        root = defusedxml.ElementTree.fromstring(text, forbid_dtd=True)
    except (ET.ParseError, defusedxml.DefusedXmlException) as error:
        raise MeshError(f"not safe XML: {error}") from None
    for element in root.iter():  # tags of every schema version alike
        element.tag = str(element.tag).rpartition("}")[2]
    try:
        with np.errstate(over="ignore", invalid="ignore"):  # what is not finite is refused when its part is made
            parts = tuple(_Document(root, path).parts())
    except (ValueError, KeyError, IndexError, OverflowError) as error:
        raise error if isinstance(error, MeshError) else MeshError(f"malformed COLLADA: {error!r}") from None
    if not parts:
        raise MeshError("no triangles")
    return parts


class _Document:
    """One parsed file: looks elements up by their ids."""

    def __init__(self, root: ET.Element, path: Path) -> None:
        self.root, self.path = root, path
        self.ids = {e.attrib["id"]: e for e in root.iter() if "id" in e.attrib}
        unit = root.find("asset/unit")
        self.unit = float(unit.get("meter", "1")) if unit is not None else 1.0
        self.visited = self.triangles = 0

    def target(self, element: ET.Element, attribute: str = "url") -> ET.Element:
        return self.ids[element.attrib[attribute].removeprefix("#")]

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
        self.visited += 1
        if depth > 64 or self.visited > _MAX_NODES:
            raise MeshError("too many or too deep scene nodes")
        placement = parent @ _transform(node)
        for child in node:
            if child.tag == "node":
                yield from self.node(child, placement, depth + 1)
            elif child.tag == "instance_node":
                yield from self.node(self.target(child), placement, depth + 1)
            elif child.tag == "instance_geometry":
                materials = {x.attrib["symbol"]: x for x in child.iterfind(".//instance_material")}
                yield from self.geometry(self.target(child), placement, materials)

    def geometry(self, geometry: ET.Element, placement: Array, materials: dict[str, ET.Element]) -> Iterator[Part]:
        mesh = geometry.find("mesh")
        if mesh is None:
            return
        for polygons in mesh:
            if polygons.tag in _POLYGONS and len(polygons):
                bound = materials.get(polygons.get("material", ""))
                part = self.polygons(polygons, placement, self.material(bound) if bound is not None else None)
                self.triangles += len(part.triangles)
                if self.triangles > _MAX_TRIANGLES:  # instances of instances multiply
                    raise MeshError(f"more than {_MAX_TRIANGLES} triangles")
                if len(part.triangles):
                    yield part

    def polygons(self, polygons: ET.Element, placement: Array, material: Material | None) -> Part:
        inputs = polygons.findall("input")
        stride = 1 + max(int(x.get("offset", "0")) for x in inputs)
        index = np.concatenate([_integers(p.text) for p in polygons.iterfind("p")] or [np.zeros(0, np.int64)])
        index = index[: len(index) // stride * stride].reshape(-1, stride)
        if polygons.tag == "polylist":
            index = index[fan(_integers(polygons.findtext("vcount")), len(index)).reshape(-1)]
        elif polygons.tag == "polygons":
            counts = np.array([len(_integers(p.text)) // stride for p in polygons.iterfind("p")], dtype=np.int64)
            index = index[fan(counts, len(index)).reshape(-1)]
        sources: dict[str, tuple[Array, Indices]] = {}
        for x in sorted(inputs, key=lambda e: int(e.get("set", "0"))):
            column = index[:, int(x.get("offset", "0"))]
            source = self.target(x, "source")
            # <vertices> bundles the position with attributes that share its index
            for entry in source.iterfind("input") if source.tag == "vertices" else (x,):
                semantic = entry.attrib["semantic"]
                if semantic in ("POSITION", "TEXCOORD") and semantic not in sources:
                    sources[semantic] = self.source(self.target(entry, "source")), column
        values, corners = sources["POSITION"]
        positions = values[:, :3] @ placement[:3, :3].T + placement[:3, 3]
        triangles = corners.reshape(-1, 3)
        uvs = None
        if material is not None and material.texture is not None and "TEXCOORD" in sources:
            values, column = sources["TEXCOORD"]
            uvs = values[column, :2].reshape(-1, 3, 2)
        if np.linalg.det(placement[:3, :3]) < 0:  # a mirror turns the triangles inside out
            triangles = triangles[:, ::-1]
            uvs = None if uvs is None else uvs[:, ::-1]
        return Part.of(positions, triangles, uvs, material)

    def source(self, source: ET.Element) -> Array:
        array = source.find("float_array")
        if array is None:
            raise MeshError(f"source {source.get('id')!r} has no float_array")
        accessor = source.find("technique_common/accessor")
        stride = int(accessor.get("stride", "1")) if accessor is not None else 3
        values = np.array((array.text or "").split(), dtype=np.float64)
        return values[: len(values) // stride * stride].reshape(-1, stride)

    def material(self, instance: ET.Element) -> Material | None:
        """The diffuse colour or texture of the effect behind an <instance_material>."""
        link = self.target(instance, "target").find("instance_effect")
        effect = self.target(link) if link is not None else None
        shader = next((s for t in _SHADERS if effect is not None for s in effect.iter(t)), None)
        if effect is None or shader is None:
            return None
        color, texture = [0.8, 0.8, 0.8], None
        diffuse = shader.find("diffuse/color")
        if diffuse is not None:
            color = [float(x) for x in (diffuse.text or "").split()[:3]]
        sampler = shader.find("diffuse/texture")
        if sampler is not None:
            texture, color = (
                self.image(effect, sampler.attrib["texture"]),
                [1.0, 1.0, 1.0] if diffuse is None else color,
            )
        return Material((color[0], color[1], color[2], _opacity(shader)), texture)

    def image(self, effect: ET.Element, name: str) -> Path | None:
        """Follows sampler -> surface -> image; exporters also name the image at once."""
        parameters = {p.attrib["sid"]: p for p in effect.iter("newparam")}
        for tag in ("sampler2D/source", "surface/init_from"):
            if name in parameters:
                name = parameters[name].findtext(tag, name).strip()
        image = self.ids.get(name)
        reference = image.findtext("init_from") if image is not None and image.tag == "image" else None
        return texture_path(reference, self.path) if reference else None


def _transform(node: ET.Element) -> Array:
    """The product of a node's transformation elements in file order, (4, 4)."""
    out = np.eye(4)
    for element in node:
        if element.tag not in ("matrix", "translate", "rotate", "scale"):
            continue
        x = np.array((element.text or "").split(), dtype=np.float64)
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
    """Rodrigues' formula; the axis need not be a unit vector."""
    x, y, z = axis / (np.linalg.norm(axis) or 1.0)
    K = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    return np.asarray(np.eye(3) + np.sin(angle) * K + (1 - np.cos(angle)) * K @ K)


def _opacity(shader: ET.Element) -> float:
    """Opacity of a shader; exporters disagree about <transparency>, so an invisible surface is read as opaque."""
    text = shader.findtext("transparent/color")
    factor = float(shader.findtext("transparency/float", "1"))
    alpha = float(text.split()[3]) * factor if text and len(text.split()) == 4 else factor
    return alpha if 0.05 < alpha < 1 else 1.0


def _integers(text: str | None) -> Indices:
    return np.array((text or "").split(), dtype=np.int64)
