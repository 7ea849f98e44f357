"""Mesh files and solids give the correct triangles, or a MeshError."""

from __future__ import annotations

import re
import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from raising import raises

from quaddyn.viewer import MeshError
from quaddyn.viewer.figure import MAX_FIELD_SAMPLES, triangulate_height_field
from quaddyn.viewer.mesh import (
    AdjacentFiles,
    Part,
    make_arrow,
    make_box,
    make_capsule,
    make_cylinder,
    make_sphere,
    read_mesh,
    triangulate_fans,
)

# The unit cube with outward faces, which all file formats can represent.
VERTICES = np.array([[x, y, z] for x in (0, 1) for y in (0, 1) for z in (0, 1)], dtype=float)
QUADS = [[0, 1, 3, 2], [4, 6, 7, 5], [0, 4, 5, 1], [2, 3, 7, 6], [0, 2, 6, 4], [1, 5, 7, 3]]


def volume(*parts: Part) -> float:
    """Signed volume of closed parts: positive when every triangle is counter-clockwise seen from outside."""
    return sum(
        float(np.einsum("ij,ij->", a, np.cross(b, c))) / 6
        for a, b, c in (np.moveaxis(p.positions[p.triangles], 1, 0) for p in parts)
    )


def extent(*parts: Part) -> np.ndarray:
    points = np.concatenate([p.positions[p.triangles].reshape(-1, 3) for p in parts])
    return np.stack([points.min(axis=0), points.max(axis=0)])


def triangles() -> np.ndarray:
    return VERTICES[np.array(QUADS)[:, [0, 1, 2, 0, 2, 3]].reshape(-1, 3)]


def binary_stl() -> bytes:
    facets = b"".join(struct.pack("<12fH", 0, 0, 0, *t.reshape(-1), 0) for t in triangles())
    return b"solid misleading".ljust(80) + struct.pack("<I", 12) + facets


def ascii_stl() -> bytes:
    facets = "".join(
        "facet normal 0 0 0\nouter loop\n" + "".join(f"vertex {x:e} {y} {z}\n" for x, y, z in t) + "endloop\nendfacet\n"
        for t in triangles()
    )
    return f"solid cube\n{facets}endsolid\n".encode()


def obj(negative: bool = False) -> bytes:
    index = (lambda i: i - 8) if negative else (lambda i: i + 1)
    lines = ["mtllib cube.mtl", *(f"v {x} {y} {z}" for x, y, z in VERTICES), "vt 0 0", "usemtl red"]
    lines += ["f " + " ".join(f"{index(i)}/1/" if not negative else str(index(i)) for i in quad) for quad in QUADS]
    return "\n".join(lines).encode()


def dae(
    node: str = "", unit: str = '<unit meter="1"/>', polygons: str = "polylist", diffuse: str = "<color>1 0 0 1</color>"
) -> bytes:
    corners = " ".join(str(i) for quad in QUADS for i in quad)
    body = {
        "polylist": f"<vcount>{'4 ' * 6}</vcount><p>{corners}</p>",
        "polygons": "".join(f"<p>{' '.join(map(str, quad))}</p>" for quad in QUADS),
        "triangles": "<p>" + " ".join(f"{a} {b} {c} {a} {c} {d}" for a, b, c, d in QUADS) + "</p>",
    }[polygons]
    floats = " ".join(f"{x:g}" for x in VERTICES.reshape(-1))
    return f"""<?xml version="1.0"?><COLLADA xmlns="http://www.collada.org/2005/11/COLLADASchema" version="1.4.1">
    <asset>{unit}<up_axis>Y_UP</up_axis></asset>
    <library_images><image id="picture"><init_from>skin.png</init_from></image></library_images>
    <library_effects><effect id="e"><profile_COMMON><technique sid="c"><lambert><diffuse>{diffuse}</diffuse></lambert>
      </technique></profile_COMMON></effect></library_effects>
    <library_materials><material id="m"><instance_effect url="#e"/></material></library_materials>
    <library_geometries><geometry id="g"><mesh>
      <source id="s"><float_array id="a" count="24">{floats}</float_array>
        <technique_common><accessor source="#a" count="8" stride="3"/></technique_common></source>
      <vertices id="v"><input semantic="POSITION" source="#s"/></vertices>
      <{polygons} material="paint" count="6"><input semantic="VERTEX" source="#v" offset="0"/>{body}</{polygons}>
    </mesh></geometry></library_geometries>
    <library_visual_scenes><visual_scene id="scene"><node>{node}<node><instance_geometry url="#g"><bind_material>
      <technique_common><instance_material symbol="paint" target="#m"/></technique_common></bind_material>
      </instance_geometry></node></node></visual_scene></library_visual_scenes>
    <scene><instance_visual_scene url="#scene"/></scene></COLLADA>""".encode()


def write(folder: Path, name: str, data: bytes) -> Path:
    path = folder / name
    path.write_bytes(data)
    return path


FILES = {
    "binary.stl": binary_stl(),
    "ascii.STL": ascii_stl(),
    "plain.obj": obj(),
    "negative.obj": obj(negative=True),
    "polylist.dae": dae(),
    "polygons.dae": dae(polygons="polygons"),
    "triangles.dae": dae(polygons="triangles"),
}


@pytest.mark.parametrize("name", FILES)
def test_every_format_reads_the_same_cube(name: str, tmp_path: Path) -> None:
    parts = read_mesh(write(tmp_path, name, FILES[name]))
    assert volume(*parts) == pytest.approx(1, abs=1e-4)
    np.testing.assert_allclose(extent(*parts), [[0, 0, 0], [1, 1, 1]], atol=2e-5)
    assert sum(len(p.grid) for p in parts) == 8, "equal vertices are welded"


def test_collada_applies_units_and_nodes_but_not_the_up_axis(tmp_path: Path) -> None:
    node = "<translate>100 0 0</translate><rotate>0 0 1 90</rotate><scale>2 1 -1</scale>"
    parts = read_mesh(write(tmp_path, "x.dae", dae(node, '<unit meter="0.01"/>')))
    # 2 x 1 x 1 cm, turned about z, mirrored in z, one meter away; y up would have swapped y and z
    np.testing.assert_allclose(extent(*parts), [[0.99, 0, -0.01], [1.0, 0.02, 0]], atol=1e-6)
    assert volume(*parts) == pytest.approx(2e-6, rel=1e-3), "a mirrored part still has its outside outside"


def test_collada_matrix_is_row_major(tmp_path: Path) -> None:
    parts = read_mesh(write(tmp_path, "x.dae", dae("<matrix>0 -1 0 5 1 0 0 6 0 0 1 7 0 0 0 1</matrix>")))
    np.testing.assert_allclose(extent(*parts), [[4, 6, 7], [5, 7, 8]], atol=2e-5)


@pytest.mark.parametrize(
    ("color", "factor", "opacity"), [("1 1 1 0.5", "0.6", 0.3), ("1 1 1", "0.6", 0.6), ("1 1 1 0", "1", 1.0)]
)
def test_opacity_of_a_collada_surface_is_the_product_of_color_and_factor(
    color: str, factor: str, opacity: float, tmp_path: Path
) -> None:
    said = f"<transparent><color>{color}</color></transparent><transparency><float>{factor}</float></transparency>"
    data = dae().replace(b"</lambert>", said.encode() + b"</lambert>")
    (part,) = read_mesh(write(tmp_path, "x.dae", data))
    assert part.material is not None and part.material.color == pytest.approx((1.0, 0.0, 0.0, opacity))


def test_materials_of_mesh_files_are_read(tmp_path: Path) -> None:
    (tmp_path / "cube.mtl").write_text("newmtl red\nKd 1 0.5 0\nd 0.25\n", encoding="utf-8")
    (part,) = read_mesh(write(tmp_path, "x.obj", obj()))
    assert part.material is not None
    assert part.material.color == (1.0, 0.5, 0.0, 0.25)
    (part,) = read_mesh(write(tmp_path, "x.dae", dae()))
    assert part.material is not None
    assert part.material.color == (1.0, 0.0, 0.0, 1.0)


def test_textures_are_read_only_from_the_neighborhood_of_the_mesh(tmp_path: Path) -> None:
    folder = tmp_path / "robot" / "meshes"
    folder.mkdir(parents=True)
    inside, outside = folder / "skin.png", tmp_path / "secret.png"
    for path in (inside, outside):
        path.write_bytes(b"\x89PNG\r\n\x1a\n")
    (folder / "link.png").symlink_to(outside)
    mesh = folder / "x.dae"
    near = AdjacentFiles(mesh, tmp_path / "robot")
    assert near.find("skin.png") == inside.resolve()
    assert near.find("../meshes/skin.png") == inside.resolve()
    above = tmp_path / "robot" / "cover.png"
    above.write_bytes(inside.read_bytes())
    assert near.find("../cover.png") == above.resolve()
    for root in (folder, None):
        assert AdjacentFiles(mesh, root).find("../cover.png") is None, "that lies outside the package root"
    for reference in (
        "../../secret.png",
        str(outside),
        outside.as_uri(),
        "link.png",
        "http://127.0.0.1/skin.png",
        "//127.0.0.1/skin.png",
        "//[",
        "absent.png",
        "",
        "\0",
    ):
        assert near.find(reference) is None, reference
    write(folder, "x.dae", dae(diffuse='<texture texture="picture" texcoord="UV"/>'))
    (part,) = read_mesh(mesh)
    assert part.material is not None
    assert part.material.texture == inside.resolve()


def test_errors_of_invalid_mesh_files_state_the_reason(tmp_path: Path) -> None:
    cases = {
        "absent.stl": (None, "the file does not exist"),
        "short.stl": (binary_stl()[:-1], "STL file"),
        "empty.stl": (b"", "STL file"),
        "other.ply": (b"ply", "format"),
        "empty.obj": (b"", "no faces"),
        "word.obj": (b"v 0 0 zero\n", "line 1"),
        "range.obj": (b"v 0 0 0\nf 1 2 3\n", "out of range"),
        "nan.obj": (b"v 0 0 nan\nv 1 0 0\nv 0 1 0\nf 1 2 3\n", "finite"),
        "text.dae": (b"hello", "XML"),
        "entity.dae": (b'<!DOCTYPE x [<!ENTITY a "b">]><COLLADA>&a;</COLLADA>', "XML"),
        "empty.dae": (b"<COLLADA/>", "the file contains no triangles"),
        "loop.dae": (dae('<instance_node url="#loop"/>').replace(b"<node>", b'<node id="loop">', 1), "deep"),
        "huge.dae": (dae().replace(b"<vcount>4", b"<vcount>99999999999"), "corners"),
        "lost.dae": (dae().replace(b'url="#g"', b'url="#h"'), "not valid COLLADA"),
        "infinite.dae": (re.sub(rb"(<float_array[^>]*>)\s*\S+", rb"\1 1e999", dae()), "finite"),
    }
    for name, (data, reason) in cases.items():
        path = tmp_path / name if data is None else write(tmp_path, name, data)
        raises(MeshError, reason, read_mesh, path)


@settings(max_examples=400, deadline=None)
@given(st.sampled_from(sorted(FILES)), st.data())
def test_corrupted_mesh_files_raise_only_mesh_errors(
    tmp_path_factory: pytest.TempPathFactory, name: str, data: st.DataObject
) -> None:
    content = bytearray(FILES[name])
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(content) - 1))
        match data.draw(st.integers(0, 2)):
            case 0:
                content[at] = data.draw(st.integers(0, 255))
            case 1:
                del content[at : at + data.draw(st.integers(1, 40))]
            case _:
                content[at:at] = data.draw(
                    st.sampled_from([b"-1 ", b"1e999 ", b"nan ", b"99999999999999999999 ", b"999999999 ", b"<", b"#"])
                )
        content = content or bytearray(b" ")
    path = write(tmp_path_factory.getbasetemp(), name, bytes(content))
    try:
        parts = read_mesh(path)
    except MeshError:
        return
    assert all(np.isfinite(p.positions).all() and p.triangles.max(initial=0) < max(len(p.grid), 1) for p in parts)


def test_solids_have_the_volume_of_geometry() -> None:
    assert volume(make_box((1, 2, 3))) == pytest.approx(6, rel=1e-3)
    assert volume(make_sphere(1)) == pytest.approx(4 / 3 * np.pi, rel=0.02)
    assert volume(make_cylinder(1, 2)) == pytest.approx(2 * np.pi, rel=0.01)
    assert volume(make_capsule(1, 2)) == pytest.approx((2 + 4 / 3) * np.pi, rel=0.02)
    np.testing.assert_allclose(extent(make_capsule(1, 2)), [[-1, -1, -2], [1, 1, 2]], atol=1e-4)
    np.testing.assert_allclose(extent(make_arrow())[:, 2], [0, 1], atol=1e-4)


@given(st.lists(st.integers(0, 7), max_size=20))
def test_fan_triangulation_uses_every_corner_of_every_polygon(counts: list[int]) -> None:
    corners = triangulate_fans(np.array(counts, dtype=np.int64), sum(counts))
    assert len(corners) == sum(max(n - 2, 0) for n in counts)
    starts = np.cumsum(counts) - counts
    expected = {int(s) + i for s, n in zip(starts, counts, strict=True) if n > 2 for i in range(n)}
    assert set(corners.reshape(-1).tolist()) == expected


def test_large_height_field_is_drawn_coarser_and_up_to_its_edges() -> None:
    rows, columns = 2 * MAX_FIELD_SAMPLES + 7, MAX_FIELD_SAMPLES + 1
    part = triangulate_height_field(np.zeros((rows, columns)), np.array([0.1, 0.2]))
    x, y = (np.unique(part.origin[axis] + part.step * part.grid[:, axis]) for axis in (0, 1))
    assert len(x) == 137 and len(y) == columns  # every third row and the last one, every column
    assert (x[0], y[0]) == (0.0, 0.0)
    np.testing.assert_allclose((x[1], x[-1], y[-1]), (0.3, 0.1 * (rows - 1), 0.2 * (columns - 1)), atol=1e-3)
