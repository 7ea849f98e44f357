"""Robot files as their authors write them: every kind of `tests/cases`, with other names, numbers and places."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xacro_stand_in import provide_xacro

import quaddyn as qd
from quaddyn.urdf import MeshFinder

# -- meshes -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Packages in the usual layouts, each with a mesh ``meshes/visual/Foot 1.stl``, and a file outside of them."""
    src = tmp_path_factory.mktemp("ws") / "src"
    for package, urdf, manifest in (
        ("dog", "urdf", False),
        ("cat", "robots", True),
        ("bird-main", "urdf/variants/small", True),
        ("flat", "", False),
    ):
        (src / package / "meshes" / "visual").mkdir(parents=True)
        (src / package / urdf).mkdir(parents=True, exist_ok=True)
        (src / package / "meshes" / "visual" / "Foot 1.stl").write_bytes(b"solid")
        if manifest:
            name = package.removesuffix("-main")
            (src / package / "package.xml").write_text(f"<package><name> {name} </name></package>", encoding="utf-8")
    (src / "secret.stl").write_bytes(b"solid")
    return src


LAYOUTS = {"dog": ("dog", "urdf"), "cat": ("cat", "robots"), "bird": ("bird-main", "urdf/variants/small"),
           "flat": ("flat", "")}  # fmt: skip


@settings(max_examples=60)
@given(
    name=st.sampled_from(list(LAYOUTS)),
    form=st.sampled_from(
        ["package://{name}/{inner}", "model://{name}/{inner}", "package:///{inner}", "package://renamed/{inner}",
         "PACKAGE://{name}/{inner}", "file://{absolute}", "file://localhost{absolute}", "file:{absolute}", "{absolute}",
         "{up}{inner}", "file://{up}{inner}", "file:{up}{inner}", "./{up}{inner}"]
    ),
    letters=st.sampled_from([str, str.lower, str.upper, str.title]),
    backslashes=st.booleans(),
    quoted=st.booleans(),
)  # fmt: skip
def test_meshes_of_the_files_own_package_are_found_in_any_spelling(
    workspace: Path, name: str, form: str, letters, backslashes: bool, quoted: bool
) -> None:
    folder, urdf = LAYOUTS[name]
    package = workspace / folder
    inner = letters("meshes/visual/Foot 1.stl")
    up = "../" * (urdf.count("/") + 1 if urdf else 0)
    uri = form.format(name=name, inner=inner, up=up, absolute=package / inner)
    if quoted:
        uri = uri.replace(" ", "%20")
    if backslashes:
        scheme, separator, rest = uri.rpartition("://")
        uri = scheme + separator + rest.replace("/", "\\")
    path, root, reason = MeshFinder(package / urdf, []).find(uri)
    assert (path, root, reason) == (package / "meshes" / "visual" / "Foot 1.stl", package, "")


@settings(max_examples=40)
@given(
    form=st.sampled_from(["{up}secret.stl", "file://{src}/secret.stl", "{src}/secret.stl", "package://dog/../secret.stl",
                          "package:///../secret.stl", "{up}SECRET.stl", "package://x/../../secret.stl"]),
    backslashes=st.booleans(),
    name=st.sampled_from(list(LAYOUTS)),
)  # fmt: skip
def test_nothing_outside_the_package_is_opened_and_the_advice_names_its_folder(
    workspace: Path, form: str, backslashes: bool, name: str
) -> None:
    folder, urdf = LAYOUTS[name]
    up = "../" * (urdf.count("/") + 2 if urdf else 1)
    uri = form.format(up=up, src=workspace)
    uri = uri.replace("/", "\\") if backslashes and "://" not in uri else uri
    finder = MeshFinder(workspace / folder / urdf, [])
    path, root, reason = finder.find(uri)
    assert path is None and root is None and reason
    if reason.startswith("outside"):
        assert finder.advice(uri) == f"pass packages=[{str(workspace)!r}] to have it opened"
        assert MeshFinder(workspace / folder / urdf, [workspace]).find(uri)[0] == workspace / "secret.stl"
    else:
        assert "packages=" in finder.advice(uri) and str(workspace / folder) in finder.advice(uri)


def test_advice_names_the_package_and_where_was_looked(workspace: Path) -> None:
    finder = MeshFinder(workspace / "dog" / "urdf", [])
    assert finder.advice("package://fish/meshes/a.stl") == (
        "pass packages= with the folder 'fish' or the one that holds it (looked in: "
        f"{workspace / 'dog' / 'urdf'}, {workspace / 'dog'})"
    )
    assert finder.package("dog") == workspace / "dog" and finder.package("fish") is None
    assert MeshFinder(None, [workspace]).package("cat") == workspace / "cat"
    assert MeshFinder(workspace / "bird-main" / "urdf", []).package("bird") == workspace / "bird-main"
    assert finder.package("..") is finder.package("") is finder.package("a/b") is None


def test_a_missing_mesh_says_packages(workspace: Path) -> None:
    file = workspace / "dog" / "urdf" / "r.urdf"
    shape = '<visual><geometry><mesh filename="package://fish/meshes/a.stl"/></geometry></visual>'
    inertial = '<inertial><mass value="1"/><inertia ixx="1" ixy="0" ixz="0" iyy="1" iyz="0" izz="1"/></inertial>'
    file.write_text(f'<robot name="r"><link name="a">{inertial}{shape}</link></robot>', encoding="utf-8")
    (warning,) = qd.load(file).report.warnings
    assert "pass packages= with the folder 'fish'" in warning.advice and "looked in" in warning.advice


# -- xacro --------------------------------------------------------------------------------------------------------
NAMESPACE = 'xmlns:xacro="http://www.ros.org/wiki/xacro"'
INERTIAL = '<inertial><mass value="{mass}"/><inertia ixx="1" ixy="0" ixz="0" iyy="1" iyz="0" izz="1"/></inertial>'


def xacro_workspace(folder: Path, package: str, other: str) -> Path:
    """A xacro file in one package that includes a part of another one, with arguments and a mesh."""
    for name in (package, other):
        (folder / name / "urdf").mkdir(parents=True, exist_ok=True)
        (folder / name / "shapes").mkdir()
    (folder / other / "shapes" / "a.stl").write_bytes(b"solid")
    shape = f'<visual><geometry><mesh filename="file://$(find {other})/shapes/a.stl"/></geometry></visual>'
    inertial = INERTIAL.format(mass="$(arg mass)")
    (folder / other / "urdf" / "part.xacro").write_text(
        f'<robot {NAMESPACE}><link name="$(arg prefix)base">{inertial}{shape}</link></robot>', encoding="utf-8"
    )
    file = folder / package / "urdf" / "robot.urdf.xacro"
    file.write_text(
        f'<robot name="r" {NAMESPACE}><xacro:arg name="prefix" default="own_"/>'
        f'<xacro:include filename="$(find {other})/urdf/part.xacro"/></robot>',
        encoding="utf-8",
    )
    return file


def test_packages_of_a_xacro_file_are_found_in_packages_and_around_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    provide_xacro(monkeypatch)
    file = xacro_workspace(tmp_path, "robot_bringup", "robot_description")
    for packages in ([tmp_path], [tmp_path / "robot_description"]):
        robot = qd.load(file, packages=packages, arguments={"mass": 2.5, "prefix": "my_"})
        assert robot.mass == 2.5 and robot.tree.root.name == "my_base"
        assert robot.tree.root.visuals[0].shape.path == tmp_path / "robot_description" / "shapes" / "a.stl"
    assert qd.load(file, packages=[tmp_path], arguments={"mass": "2"}).tree.root.name == "own_base"
    message = r"\$\(find robot_description\) names a package that is not found .*packages= with the folder"
    with pytest.raises(qd.ModelError, match=message):
        qd.load(file, arguments={"mass": 2})
    with pytest.raises(qd.ModelError, match=r"pass arguments=\{'mass': \.\.\.\}"):
        qd.load(file, packages=[tmp_path])


def test_a_package_around_a_xacro_file_is_found_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    provide_xacro(monkeypatch)
    robot = qd.load(xacro_workspace(tmp_path, "alone/urdf/variant", "alone"), arguments={"mass": 3})
    assert robot.mass == 3.0 and robot.tree.root.visuals[0].shape.path is not None


def test_xacro_leaves_no_trace_of_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    provide_xacro(monkeypatch)
    with pytest.raises(qd.ModelError):
        qd.load(xacro_workspace(tmp_path, "a", "b"))
    assert not [name for name in sys.modules if name.startswith("ament_index_python")]


@pytest.mark.parametrize(
    ("arguments", "error", "says"),
    [
        ({"mass": 1}, qd.ArgumentError, "arguments: <text> is no xacro file and takes none"),
        ("mass", qd.ArgumentTypeError, "arguments: expected a mapping"),
        ({"mass": [1]}, qd.ArgumentTypeError, "arguments: expected texts or numbers by name, got 'mass': list"),
    ],
)
def test_arguments_that_are_none_are_refused(arguments: object, error: type[Exception], says: str) -> None:
    with pytest.raises(error) as caught:
        qd.load(f'<robot name="r"><link name="a">{INERTIAL.format(mass=1)}</link></robot>', arguments=arguments)
    assert says in str(caught.value)
    assert qd.load(f'<robot name="r"><link name="a">{INERTIAL.format(mass=1)}</link></robot>', arguments={}).mass == 1.0
