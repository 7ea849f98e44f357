"""Robot files as their authors write them: every kind of `tests/cases`, with other names, numbers and places."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

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
