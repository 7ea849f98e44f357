"""Malicious files: bounded time and memory, only documented errors, no access outside of package roots."""

from __future__ import annotations

import json
import os
import signal
import tracemalloc
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import damaged_bytes
import numpy as np
import pytest
from raising import raises
from test_viewer import dae, triangles, write

import quaddyn as qd
from quaddyn import identification
from quaddyn.compiler import object_cache
from quaddyn.simulation import Log
from quaddyn.urdf import MeshFinder, parse
from quaddyn.urdf.reader import MAX_SHAPES
from quaddyn.urdf.xml import MAX_BYTES
from quaddyn.viewer import MeshError, server
from quaddyn.viewer.mesh import read_mesh
from quaddyn.wbc import replay

INERTIAL = '<inertial><mass value="1"/><inertia ixx="1" ixy="0" ixz="0" iyy="1" iyz="0" izz="1"/></inertial>'


@contextmanager
def cpu_time_limit(seconds: float) -> Iterator[None]:
    """Raises TimeoutError after `seconds` of CPU time of this process, independent of the load of the machine."""

    def late(*_: object) -> None:
        raise TimeoutError(f"{seconds} s of CPU time")

    before = signal.signal(signal.SIGVTALRM, late)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0.0)
        signal.signal(signal.SIGVTALRM, before)


@contextmanager
def memory_limit(megabytes: float) -> Iterator[None]:
    """Fails if Python and NumPy allocate more than `megabytes` at once."""
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < megabytes * 1e6
    finally:
        tracemalloc.stop()


def robot(content: str = "", name: str = "r") -> str:
    return f'<robot name="{name}"><link name="base">{INERTIAL}{content}</link></robot>'


# -- URDF ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "word", ["1" * 100_000 + "x", "1" * 50_000 + "." + "1" * 50_000 + "x", "1e" + "9" * 100_000 + "x"]
)
def test_long_invalid_number_is_rejected_quickly_and_shortened_in_the_message(word: str) -> None:
    text = robot(f'<collision><origin xyz="{word} 0 0"/><geometry><sphere radius="1"/></geometry></collision>')
    with cpu_time_limit(5.0), pytest.raises(qd.ModelError, match="not a finite decimal number") as caught:
        parse(text)
    assert len(str(caught.value)) < 2000


@pytest.mark.parametrize(
    ("word", "value"), [("1.", 1.0), (".5", 0.5), ("-1.5e-3", -0.0015), ("+2E2", 200.0), ("007", 7.0)]
)
def test_number_formats_are_read(word: str, value: float) -> None:
    tree = parse(robot(f'<visual><origin xyz="{word} 0 0"/><geometry><sphere radius="1"/></geometry></visual>'))
    assert tree.links[0].visuals[0].placement.translation[0] == value


def test_many_missing_meshes_need_few_system_calls_or_are_rejected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def shape(i: int) -> str:
        return f'<visual><geometry><mesh filename="package://p/{i % 1000}/{i}.stl"/></geometry></visual>'

    with pytest.raises(qd.ModelError, match=rf"60000 <visual> .* at most {MAX_SHAPES}"), cpu_time_limit(20.0):
        parse(robot("".join(map(shape, range(60_000)))))
    calls, real = [0], os.path.realpath
    monkeypatch.setattr(os.path, "realpath", lambda *a, **k: (calls.__setitem__(0, calls[0] + 1), real(*a, **k))[1])
    finder = MeshFinder(tmp_path, [tmp_path])
    before = calls[0]
    tree = parse(robot("".join(map(shape, range(2000)))), meshes=finder)
    assert len(tree.findings) == 1000 and calls[0] == before, "links are resolved only for existing files"
    assert finder.find("a/" * 65 + "b.stl")[2] == "this is not a file name"


def test_long_names_are_rejected_within_bounded_memory() -> None:
    """2,000 findings about elements of a link with a name of 100,000 letters."""
    name = "n" * 100_000
    text = f'<robot name="r"><link name="{name}">{"<inertail/>" * 2_000}</link></robot>'
    with memory_limit(60.0), pytest.raises(qd.ModelError, match="longer than 256"):
        parse(text)


def test_largest_file_is_read_in_linear_time() -> None:
    """Reading time is linear in the numbers of findings, attributes and elements."""
    filler = f'<inertail a="{"x" * 200}"/>' * 60_000
    with cpu_time_limit(60.0):
        assert len(parse(robot(filler)).findings) == 60_000
        parse(robot(f"<!-- {'-x' * (MAX_BYTES // 2 - 1000)} -->"))


# -- meshes --------------------------------------------------------------------------------------------------------
def stl_of(word: str) -> bytes:
    return f"solid s\nfacet normal 0 0 0\nouter loop\nvertex 0 0 {word}\n".encode()


@pytest.mark.parametrize("word", ["1" * 200_000 + "x", "0." + "1" * 200_000 + "x", " " * 200_000 + "x"])
def test_text_stl_is_read_in_linear_time(word: str, tmp_path: Path) -> None:
    with cpu_time_limit(5.0), pytest.raises(MeshError):
        read_mesh(write(tmp_path, "x.stl", stl_of(word)))


def test_obj_with_too_many_materials_is_rejected_quickly(tmp_path: Path) -> None:
    lines = ["v 0 0 0", "v 1 0 0", "v 0 1 0", *(f"usemtl m{i}\nf 1 2 3" for i in range(100_000))]
    with cpu_time_limit(10.0), pytest.raises(MeshError, match="more than 2048 materials"):
        read_mesh(write(tmp_path, "x.obj", "\n".join(lines).encode()))


def test_materials_of_an_obj_share_its_vertices(tmp_path: Path) -> None:
    """100,000 vertices of 2,000 materials are converted to an array only once."""
    lines = ["v 0 0 0\nv 1 0 0\nv 0 1 0" + "\nv 0 0 1" * 100_000, *(f"usemtl m{i}\nf 1 2 3" for i in range(2000))]
    with cpu_time_limit(10.0):
        assert len(read_mesh(write(tmp_path, "x.obj", "\n".join(lines).encode()))) == 2000


def test_memory_for_an_obj_is_proportional_to_its_size(tmp_path: Path) -> None:
    path = write(tmp_path, "x.obj", b"v 0 0 0\nv 1 0 0\nv 0 1 0\n" + b"f 1 2 3\n" * 10_000)
    with memory_limit(60 * path.stat().st_size / 1e6):
        read_mesh(path)


def test_material_files_and_textures_outside_of_the_package_root_are_not_read(tmp_path: Path) -> None:
    meshes, secret = tmp_path / "pkg" / "meshes", tmp_path / "secret"
    meshes.mkdir(parents=True)
    secret.mkdir()
    (secret / "t.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    (secret / "t.mtl").write_text("newmtl m\nKd 1 0 0\nmap_Kd t.png\n", encoding="utf-8")
    (meshes / "linked.mtl").symlink_to(secret / "t.mtl")
    (meshes / "own.mtl").write_text("newmtl m\nKd 0 1 0\nmap_Kd ../../secret/t.png\n", encoding="utf-8")
    cube = "".join(f"v {x} {y} {z}\n" for t in triangles() for x, y, z in t)
    faces = "usemtl m\nvt 0 0\n" + "".join(f"f {3 * i + 1}/1 {3 * i + 2}/1 {3 * i + 3}/1\n" for i in range(12))
    for library, color in {
        "../../secret/t.mtl": None,
        str(secret / "t.mtl"): None,
        (secret / "t.mtl").as_uri(): None,
        "linked.mtl": None,
        "own.mtl": (0.0, 1.0, 0.0, 1.0),
    }.items():
        (part,) = read_mesh(write(meshes, "x.obj", f"mtllib {library}\n{cube}{faces}".encode()), tmp_path / "pkg")
        assert part.uvs is None and (part.material is None or part.material.texture is None), library
        assert (part.material.color if part.material is not None else None) == color, library
    urdf = tmp_path / "pkg" / "r.urdf"
    urdf.write_text(
        robot('<visual><geometry><mesh filename="package://pkg/meshes/x.obj"/></geometry></visual>'), encoding="utf-8"
    )
    (shape,) = [v.shape for v in qd.load(urdf, root="free").tree.links[0].visuals]
    assert shape.root == tmp_path / "pkg", "the shape contains the package root for the viewer"


@pytest.mark.parametrize("line", ["d ", "d x", "Kd 1 1", "Kd 1 nan 1", "d -halo", "map_Kd ", "newmtl ", "Kd"])
def test_invalid_material_lines_are_ignored_or_rejected(line: str, tmp_path: Path) -> None:
    (tmp_path / "m.mtl").write_text(f"newmtl m\n{line}\n", encoding="utf-8")
    path = write(tmp_path, "x.obj", b"mtllib m.mtl\nv 0 0 0\nv 1 0 0\nv 0 1 0\nusemtl m\nf 1 2 3\n")
    try:
        (part,) = read_mesh(path)
    except MeshError as error:
        assert "m.mtl:2" in str(error)
    else:
        assert part.material is None or np.isfinite(part.material.color).all()


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        (b'stride="3"', b'stride="0"', "stride 0"),
        (b'stride="3"', b'stride="-1"', "stride -1"),
        (b'stride="3"', b'stride="2"', "positions must have 3 numbers"),
        (b'offset="0"', b'offset="-1"', "offset -1"),
        (b'offset="0"', b'offset="99999999999999999999"', "not valid COLLADA"),
        (b'<?xml version="1.0"?>', b'<?xml version="1.0" encoding="klingon"?>', "not safe XML"),
        (b'<?xml version="1.0"?>', b'<?xml version="1.0" encoding="utf-32"?>', "not safe XML"),
        (b"<color>1 0 0 1</color>", b"<color>1 0</color>", "not valid COLLADA"),
        (b"<color>1 0 0 1</color>", b"<color>nan 0 0 1</color>", "finite"),
        (b'meter="1"', b'meter="x"', "not valid COLLADA"),
        (b'meter="1"', b'meter="inf"', "finite"),
        (b"<vcount>4 ", b"<vcount>-4 ", "corners"),
    ],
)
def test_invalid_collada_files_raise_a_mesh_error(old: bytes, new: bytes, reason: str, tmp_path: Path) -> None:
    assert old in dae()
    raises(MeshError, reason, read_mesh, write(tmp_path, "x.dae", dae().replace(old, new)))


def test_collada_instances_share_geometry_and_their_number_is_bounded(tmp_path: Path) -> None:
    start, end = dae().index(b"<instance_geometry"), dae().index(b"</instance_geometry>") + len(b"</instance_geometry>")
    many = dae()[:start] + dae()[start:end] * 300 + dae()[end:]
    with cpu_time_limit(20.0):
        assert len(read_mesh(write(tmp_path, "x.dae", many.replace(b"</float", b" 0" * 900_000 + b"</float")))) == 300
    long = many.replace(b"<p>", b"<p>" + b"0 1 2 " * 100_000)
    with cpu_time_limit(20.0), pytest.raises(MeshError, match="numbers"):
        read_mesh(write(tmp_path, "x.dae", long))
    doubling = [
        f'<node id="n{i}"><instance_node url="#n{i + 1}"/><instance_node url="#n{i + 1}"/></node>' for i in range(40)
    ]
    with cpu_time_limit(20.0), pytest.raises(MeshError, match="elements, which is not accepted"):
        read_mesh(write(tmp_path, "x.dae", dae("".join(doubling) + '<node id="n40"/>')))


# -- data sets -----------------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def arm() -> qd.Robot:
    return qd.load("planar_3r")


def npz(path: Path, robot: qd.Robot, **change: object) -> Path:
    n, zero = 4, np.zeros
    arrays = {"q": zero((n, robot.nq)), "v": zero((n, robot.nv)), "a": zero((n, robot.nv)), "tau": zero((n, robot.nu))}
    np.savez(path, **{**arrays, **change})
    return path


def with_wrong_header(path: Path, robot: qd.Robot, name: str, shape: str, dtype: str = "<f8") -> Path:
    """Archive with an array whose header has a wrong shape."""
    npz(path, robot, joints=np.array(robot.actuated))
    with zipfile.ZipFile(path) as archive:
        members = {x: archive.read(x) for x in archive.namelist()}
    head = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}".ljust(117).encode() + b"\n"
    members[f"{name}.npy"] = b"\x93NUMPY\x01\x00" + len(head).to_bytes(2, "little") + head + bytes(96)
    with zipfile.ZipFile(path, "w") as archive:
        for x, data in members.items():
            archive.writestr(x, data)
    return path


@pytest.mark.parametrize(
    ("name", "shape", "dtype"),
    [
        ("q", "(1000000000000, 3)", "<f8"),
        ("q", "(4, 1000000000000)", "<f8"),
        ("q", "(-4, 3)", "<f8"),
        ("q", "(4, 3)", "|O"),
        ("joints", "(1000000000000,)", "<U3"),
        ("joints", "(3,)", "<U1000000000"),
        ("joints", "(-3,)", "<U3"),
        ("place", "(10000000000000000000000, 10)", "<U3"),
    ],
)
def test_arrays_with_wrong_header_shapes_are_rejected(
    arm: qd.Robot, name: str, shape: str, dtype: str, tmp_path: Path
) -> None:
    path = with_wrong_header(tmp_path / "x.npz", arm, name, shape, dtype)
    with cpu_time_limit(5.0), memory_limit(20.0), pytest.raises(qd.ArgumentError, match=rf"x\.npz: array '{name}'"):
        identification.load_samples(path, arm)


def test_archive_with_extreme_compression_is_rejected(arm: qd.Robot, tmp_path: Path) -> None:
    path, rows = tmp_path / "bomb.npz", 400_000
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in ("q", "v", "a", "tau"):
            with archive.open(f"{name}.npy", "w") as file:
                np.lib.format.write_array_header_1_0(file, {"descr": "<f8", "fortran_order": False, "shape": (rows, 3)})
                file.write(bytes(24 * rows))
    assert path.stat().st_size < 50_000
    with cpu_time_limit(5.0), memory_limit(20.0), pytest.raises(qd.ArgumentError, match="the archive expands from"):
        identification.load_samples(path, arm)


@pytest.mark.parametrize("method", [zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2, zipfile.ZIP_DEFLATED])
def test_damaged_archives_raise_argument_errors(arm: qd.Robot, method: int, tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    npz(path, arm, q=np.random.default_rng(0).normal(size=(4, arm.nq)))
    with zipfile.ZipFile(path) as archive:
        members = {x: archive.read(x) for x in archive.namelist()}
    with zipfile.ZipFile(path, "w", method) as archive:
        for x, data in members.items():
            archive.writestr(x, data)
    whole, rng, refused = path.read_bytes(), np.random.default_rng(1), 0
    for _ in range(150):
        damaged = bytearray(whole)
        for where in rng.integers(len(whole), size=2):
            damaged[where] = rng.integers(256)
        path.write_bytes(damaged)
        try:
            identification.load_samples(path, arm)
        except qd.ArgumentError as error:
            assert "x.npz" in str(error)
            refused += 1
    assert refused > 100


def test_csv_files_are_read_in_bounded_time_and_memory(arm: qd.Robot, tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    header = ",".join(f"c{i}" for i in range(100_000))
    path.write_text(f"{header},c99999\n", encoding="utf-8")
    with cpu_time_limit(5.0), pytest.raises(qd.ArgumentError, match="'c99999' occurs twice"):
        identification.load_samples(path, arm)
    path.write_text("q 0," * 400_000, encoding="utf-8")
    with cpu_time_limit(5.0), memory_limit(20.0), pytest.raises(qd.ArgumentError, match="a line has"):
        identification.load_samples(path, arm)
    names = [f"{x} {i}" for x in "qva" for i in range(3)] + [f"tau {joint}" for joint in arm.actuated]
    path.write_text(",".join(names) + "\n" + "1" * 2_000_000, encoding="utf-8")
    with cpu_time_limit(5.0), memory_limit(20.0), pytest.raises(qd.ArgumentError, match="a line has"):
        identification.load_samples(path, arm)


# -- special files -------------------------------------------------------------------------------------------------
def fifo(folder: Path, name: str) -> Path:
    path = folder / name
    path.unlink(missing_ok=True)
    os.mkfifo(path)
    return path


def link_to_endless_device(folder: Path, name: str) -> Path:
    path = folder / name
    path.unlink(missing_ok=True)
    path.symlink_to("/dev/zero")
    return path


def test_error_for_a_folder_says_that_it_is_a_folder(tmp_path: Path) -> None:
    raises(qd.ModelError, "the path is a folder", qd.load, tmp_path)


@pytest.mark.parametrize("make", [fifo, link_to_endless_device])
def test_pipes_and_devices_are_rejected_by_every_reader(
    arm: qd.Robot, make: Callable[[Path, str], Path], tmp_path: Path
) -> None:
    """Reading a pipe without writer or an endless device would never return."""
    signal.alarm(60)  # ends a blocked read
    try:
        for ending in (".csv", ".npz"):
            raises(OSError, "not a regular file", identification.load_samples, make(tmp_path, f"x{ending}"), arm)
        raises(OSError, "not a regular file", replay, make(tmp_path, "tick.npz"))
        raises(OSError, "not a regular file", Log.load, make(tmp_path, "log.npz"))
        raises(qd.ModelError, "not a regular file", qd.load, make(tmp_path, "x.urdf"))
        raises(MeshError, "not a regular file", read_mesh, make(tmp_path, "x.stl"))
        assert object_cache.read_object(make(tmp_path, "key.bin"), "key") is None
    finally:
        signal.alarm(0)


@pytest.mark.parametrize("source", ["", "  \n", "\ufeff"])
def test_empty_text_is_rejected_as_robot(source: str) -> None:
    raises(qd.ModelError, "expected a catalogue name, a path or URDF text", qd.load, source)


@pytest.mark.parametrize("number", ["1" + "0" * 400, "-1" + "0" * 400, "1e999", "NaN"])
def test_gamepad_axes_beyond_float_range_are_ignored(number: str) -> None:
    axes = json.loads(f"[{number}, 0, 0]")
    assert server._parse_axes(axes) == (0.0, 0.0, 0.0) and not server._is_finite_number(axes[0])


def test_damaged_dumps_and_logs_raise_argument_errors(arm: qd.Robot, tmp_path: Path) -> None:
    log = qd.Simulation(arm).run(lambda plant: np.zeros(arm.nu), 0.003)
    accumulator, reads = identification.Accumulator(arm), []
    whole = log.save(tmp_path / "log.npz").read_bytes()
    reads.append((whole, lambda data: type(log).load(write(tmp_path, "log.npz", data))))
    reads.append((accumulator.dump(), accumulator.load))
    for content, read in reads:
        for seed in range(25):
            rng = np.random.default_rng(seed)
            with suppress(qd.ArgumentError):
                read((damaged_bytes.repacked if seed % 2 else damaged_bytes.mutated)(content, rng))
