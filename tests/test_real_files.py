"""Variants of the robot files in `tests/cases`, with other names, numbers and folders."""

from __future__ import annotations

import functools
import math
import re
import sys
import tomllib
from pathlib import Path

import numpy as np
import pinocchio as pin
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from raising import raises
from urdf_text import inertial
from xacro_stand_in import provide_xacro

import quaddyn as qd
from quaddyn.locomotion import LocomotionController
from quaddyn.robot.catalogue import CATALOGUE, REQUIREMENT
from quaddyn.robot.legs import find_wheels
from quaddyn.robot.saving import from_record, to_record
from quaddyn.robot.validation import find_unit_errors
from quaddyn.urdf import MeshFinder, parse
from quaddyn.urdf.values import FOREIGN_ATTRIBUTES, FOREIGN_ELEMENTS

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
    if reason.startswith("the file is outside"):
        assert finder.advice(uri) == f"pass packages=[{str(workspace)!r}] to allow it to be opened"
        assert MeshFinder(workspace / folder / urdf, [workspace]).find(uri)[0] == workspace / "secret.stl"
    else:
        assert "packages=" in finder.advice(uri) and str(workspace / folder) in finder.advice(uri)


def test_advice_names_the_package_and_the_searched_folders(workspace: Path) -> None:
    finder = MeshFinder(workspace / "dog" / "urdf", [])
    assert finder.advice("package://fish/meshes/a.stl") == (
        "pass packages= with the folder 'fish' or its parent folder (looked in: "
        f"{workspace / 'dog' / 'urdf'}, {workspace / 'dog'})"
    )
    assert finder.package("dog") == workspace / "dog" and finder.package("fish") is None
    assert MeshFinder(None, [workspace]).package("cat") == workspace / "cat"
    assert MeshFinder(workspace / "bird-main" / "urdf", []).package("bird") == workspace / "bird-main"
    assert finder.package("..") is finder.package("") is finder.package("a/b") is None


def test_message_for_a_missing_mesh_names_the_packages_option(workspace: Path) -> None:
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


def test_packages_of_a_xacro_file_are_found_by_option_and_in_parent_folders(
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
    raises(qd.ModelError, message, qd.load, file, arguments={"mass": 2})
    raises(qd.ModelError, r"pass arguments=\{'mass': \.\.\.\}", qd.load, file, packages=[tmp_path])


def test_parent_package_of_a_xacro_file_is_found_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    provide_xacro(monkeypatch)
    robot = qd.load(xacro_workspace(tmp_path, "alone/urdf/variant", "alone"), arguments={"mass": 3})
    assert robot.mass == 3.0 and robot.tree.root.visuals[0].shape.path is not None


def test_xacro_leaves_no_package_stubs_in_sys_modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    provide_xacro(monkeypatch)
    with pytest.raises(qd.ModelError):
        qd.load(xacro_workspace(tmp_path, "a", "b"))
    assert not [name for name in sys.modules if name.startswith("ament_index_python")]


@pytest.mark.parametrize(
    ("arguments", "error", "says"),
    [
        ({"mass": 1}, qd.ArgumentError, "arguments: <text> is not a xacro file and has no arguments"),
        ("mass", qd.ArgumentTypeError, "arguments: expected a mapping"),
        ({"mass": [1]}, qd.ArgumentTypeError, "arguments['mass']: expected a text or a number, got list"),
    ],
)
def test_invalid_xacro_arguments_are_rejected(arguments: object, error: type[Exception], says: str) -> None:
    with pytest.raises(error) as caught:
        qd.load(f'<robot name="r"><link name="a">{INERTIAL.format(mass=1)}</link></robot>', arguments=arguments)
    assert says in str(caught.value)
    assert qd.load(f'<robot name="r"><link name="a">{INERTIAL.format(mass=1)}</link></robot>', arguments={}).mass == 1.0


def test_space_before_the_declaration_and_nul_characters_at_the_end_of_a_file_are_accepted(tmp_path: Path) -> None:
    text = f'<?xml version="1.0"?>\n<robot name="r"><link name="a">{INERTIAL.format(mass=1)}</link></robot>\n'
    file = tmp_path / "r.urdf"
    for before, after in (("", "\0"), ("\n\n  ", ""), ("\r\n", "\0\0")):
        file.write_bytes((before + text + after).encode())
        robot = qd.load(file)
        assert robot.mass == 1.0 and qd.cross_check(robot, samples=1, n_derivative_samples=0).passed
        assert robot.tree.root.where.line == 2 + before.count("\n")
    file.write_bytes(text.replace("robot>", "rob\0ot>", 1).encode())
    raises(qd.ModelError, "not well-formed", qd.load, file)
    file.write_bytes(text.replace('version="1.0"', 'version="1.0" encoding="UTF-16"').encode("utf-16"))
    assert qd.load(file).mass == 1.0


# -- appearance and other tools' tags -----------------------------------------------------------------------------
ARM = (
    '<robot name="r">{robot}<link name="a">{link}</link><link name="b">{link}<inertial>{inertial}<mass value="1"/>'
    '<inertia ixx="0.01" ixy="0" ixz="0" iyy="0.01" iyz="0" izz="0.01"/></inertial></link>'
    '<joint name="j" type="revolute">{joint}<parent link="a"/><child link="b"/><origin xyz="0 0 0.1"/>'
    '<axis xyz="0 1 0"/><limit lower="-1" upper="1" effort="10" velocity="5"{limit}/></joint></robot>'
)
PLAIN = dict.fromkeys(("robot", "link", "inertial", "joint", "limit"), "")
NUMBERS = st.sampled_from(["0", "-1", "nan", "x", "", "1e999", "0 0", "0.1, 0.2, 0.3", "1 2 3 4", "0.1"])


@settings(max_examples=60)
@given(
    tag=st.sampled_from(["box size", "sphere radius", "cylinder radius", "capsule length", "mesh filename", "cone x"]),
    value=NUMBERS, origin=NUMBERS, colour=NUMBERS, scale=NUMBERS, twice=st.booleans(),
)  # fmt: skip
def test_invalid_visuals_do_not_reject_a_file(
    tag: str, value: str, origin: str, colour: str, scale: str, twice: bool
) -> None:
    name, attribute = tag.split()
    shape = f'<{name} {attribute}="{value}" scale="{scale}"/>' * (1 + twice)
    visual = (
        f'<visual><origin xyz="{origin}"/><geometry>{shape}</geometry>'
        f'<material name="m"><color rgba="{colour}"/></material></visual>'
    )
    material = f'<material name="n"><color rgba="{colour}"/></material>'
    robot = qd.load(ARM.format(**PLAIN | {"link": visual, "robot": material}), strict=True)
    assert qd.Dynamics(robot).crba([0.3]).item() == pytest.approx(0.01)
    assert all(warning.cosmetic for warning in robot.report.warnings)
    for drawn in robot.tree.links_by_name["b"].visuals:
        assert drawn.rgba is None or len(drawn.rgba) == 4


TAGS = sorted(FOREIGN_ELEMENTS - {"contact"})


@settings(max_examples=60)
@given(
    places=st.lists(st.tuples(st.sampled_from([*PLAIN][:4]), st.sampled_from(TAGS)), max_size=6),
    prefixes=st.lists(st.tuples(st.sampled_from(["gz", "drake", "xs.d", "a-b"]), st.sampled_from(["robot", "link"]))),
    declared=st.booleans(),
    as_bytes=st.booleans(),
    attributes=st.lists(st.sampled_from(sorted(FOREIGN_ATTRIBUTES["limit"])), unique=True, max_size=3),
)  # fmt: skip
def test_tags_of_other_tools_are_ignored_with_one_note(
    places: list[tuple[str, str]],
    prefixes: list[tuple[str, str]],
    declared: bool,
    as_bytes: bool,
    attributes: list[str],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    parts = dict(PLAIN)
    for place, tag in places:
        parts[place] += f'<{tag} name="{tag}" value="x"><axis xyz="9 9 9"/><joint name="j"/></{tag}>'
    for prefix, place in prefixes:
        parts[place] += f'<{prefix}:thing {prefix}:odd="1"><{prefix}:mass value="3"/></{prefix}:thing>\n'
    parts["limit"] = "".join(f' {name}="3"' for name in attributes)
    text = '<?xml version="1.0"?>\n<!-- gz:a > -->\n' + ARM.format(**parts)
    if declared:
        names = "".join(f' xmlns:{p}="urn:{p}"' for p in {prefix for prefix, _ in prefixes})
        text = text.replace('<robot name="r"', f'<robot name="r"{names}')
    source: str | Path = text
    if as_bytes:
        source = tmp_path_factory.mktemp("foreign") / "r.urdf"
        source.write_bytes(b"\xef\xbb\xbf" + text.encode())
    robot = qd.load(source, strict=True)
    assert qd.Dynamics(robot).crba([0.3]).item() == pytest.approx(0.01)
    notes = [x for x in robot.report if "only other tools use them" in x.reason and x.level == "note"]
    assert len(notes) == (1 if {tag for _, tag in places} - {"gazebo", "transmission"} or attributes else len(notes))
    assert not any("misspelled" in finding.advice for finding in robot.report)
    undeclared = set() if declared else {prefix for prefix, _ in prefixes}
    assert {w.reason.split("'")[1] for w in robot.report.warnings} == undeclared


@given(tag=st.sampled_from(["inertial", "visual", "collision"]), at=st.integers(1, 6), letter=st.sampled_from("abxyz"))
def test_tag_similar_to_a_known_one_is_reported_as_misspelled(tag: str, at: int, letter: str) -> None:
    wrong = tag[:at] + letter + tag[at:]
    with pytest.raises(qd.ModelError, match=f"unknown element <{wrong}>"):
        qd.load(ARM.format(**PLAIN | {"link": f"<{wrong}/>"}), strict=True)
    (warning,) = qd.load(ARM.format(**PLAIN | {"link": f"<{wrong}/>"})).report.warnings
    assert warning.advice == "is it misspelled?" and "(also <link" in warning.reason


@pytest.mark.parametrize(
    "text",
    ["<a:robot", "<!-- ", "<?xml", "<!-- --><!-- <a:b/>", "<robot><a:b></robot>", "a:b", "<robot a:b='x'/><c:d/>",
     "<?x y:z?>", "<!--a:b-->" * 20_000, "<robot>" + "<" + "a:b " * 100_000],
)  # fmt: skip
def test_malformed_documents_with_prefixes_are_rejected_quickly(text: str) -> None:
    with pytest.raises(qd.ModelError):
        parse(text)
    with pytest.raises(qd.ModelError):
        parse(text.encode("utf-16"))


# -- units --------------------------------------------------------------------------------------------------------
QUADRUPED = (Path(__file__).parent / "cases" / "limits_in_degrees" / "robot.urdf").read_text(encoding="utf-8")
#: Attributes by quantity; their numbers are scaled to emulate other units.
KINDS = {
    "lengths": re.compile(r'(<origin xyz=")([^"]*)'),
    "masses": re.compile(r'(<mass value=")([^"]*)'),
    "inertias": re.compile(r'(i[xyz][xyz]=")([^"]*)'),
    "angles": re.compile(r'((?:lower|upper)=")([^"]*)'),
}


def scaled(text: str, **factors: float) -> str:
    """The document with the numbers of each quantity multiplied by a factor."""

    def times(factor: float, found: re.Match[str]) -> str:
        return found[1] + " ".join(f"{factor * float(word):.9g}" for word in found[2].split())

    for kind, factor in factors.items():
        text = KINDS[kind].sub(functools.partial(times, factor), text)
    return text


RADIANS = scaled(QUADRUPED, angles=math.pi / 180.0)


@pytest.mark.parametrize(
    ("factors", "unit"),
    [
        ({}, ""),
        ({"lengths": 1e3}, "millimeters"),
        ({"lengths": 1e2}, "centimeters"),
        ({"lengths": 1 / 0.0254}, "inches"),
        ({"lengths": 1e3, "inertias": 1e6}, "millimeters"),
        ({"masses": 1e3}, "masses seem to be in grams"),
        ({"masses": 1e3, "inertias": 1e3}, "masses seem to be in grams"),
        ({"inertias": 1e3}, "g m^2"),
        ({"inertias": 1e4}, "kg cm^2"),
        ({"inertias": 1e6}, "kg mm^2"),
        ({"angles": 180.0 / math.pi}, "degrees"),
    ],
)
@pytest.mark.parametrize(("size", "order"), [(0.5, "FL FR RL RR"), (1.0, "RR FL RL FR"), (1.3, "FR FL RR RL")])
def test_numbers_in_other_units_give_one_warning(factors: dict[str, float], unit: str, size: float, order: str) -> None:
    text = scaled(RADIANS, lengths=size, masses=size**3, inertias=size**5)
    text = scaled(text, **factors)
    for new, old in zip(order.split(), ("FL", "FR", "RL", "RR"), strict=True):
        text = text.replace(f"{old}_", f"leg {new.lower()} ")
    found = [f"{finding.reason}; {finding.advice}" for finding in find_unit_errors(parse(text))]
    assert len(found) == bool(unit) and all(unit in each for each in found), found


def test_link_with_the_inertia_of_a_larger_body_is_reported() -> None:
    thigh = RADIANS.index('<link name="RL_thigh">')
    text = RADIANS[:thigh] + RADIANS[thigh:].replace('ixx="0.000333333"', 'ixx="3"', 1)
    (finding,) = find_unit_errors(parse(text))
    assert finding.where.element == '<link name="RL_thigh">' and "larger than the robot" in finding.reason


@pytest.mark.parametrize(
    ("link", "factor", "word"),
    [(f"RL_{link}", f, word) for link in ("hip", "thigh", "calf") for f, word in ((1e3, "large"), (4.0, ""), (0.1, ""))]
    + [("RL_hip", 1e-3, "small"), ("RL_thigh", 1e-3, "small"), ("RL_calf", 1e-3, "")],  # the foot moves with the calf
)
def test_single_link_with_an_inertia_in_another_unit_is_reported(link: str, factor: float, word: str) -> None:
    start = RADIANS.index(f'<link name="{link}">')
    end = RADIANS.index("</link>", start)
    text = RADIANS[:start] + scaled(RADIANS[start:end], inertias=factor) + RADIANS[end:]
    found = [warning for warning in qd.load(text).report.warnings if "inertia" in warning.reason]
    assert len(found) == bool(word)
    for finding in found:
        assert finding.where.element == f'<link name="{link}">'
        assert f"too {word} for its mass and size" in finding.reason or "larger than the robot" in finding.reason


@pytest.mark.parametrize("limit", [13.0, 25.0, 100.0, 1000.0, 1e5])
def test_multi_turn_and_unlimited_ranges_are_not_taken_for_degrees(limit: float) -> None:
    text = KINDS["angles"].sub(lambda found: f"{found[1]}{limit if 'upper' in found[1] else -limit}", RADIANS)
    assert not find_unit_errors(parse(text))


@pytest.mark.parametrize("name", sorted(name for name, entry in CATALOGUE.items() if entry.own))
def test_own_robots_are_in_si_units(name: str) -> None:
    assert not [w for w in qd.load(name).report.warnings if "seem to be" in w.advice + w.reason]


# -- names --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", ["root_joint", "root_x", "root_z", "root_pitch"])
@pytest.mark.parametrize("what", ["j", "b"])
def test_root_joint_names_are_allowed_with_a_fixed_root(name: str, what: str) -> None:
    text = ARM.format(**PLAIN).replace(f'"{what}"', f'"{name}"')
    robot = qd.load(text)
    assert robot.root == "fixed" and name in (*robot.tree.joints_by_name, *robot.tree.links_by_name)
    assert np.isfinite(qd.Dynamics(robot).frame_placement([0.3], name).translation).all()
    for root in ("free", "planar"):
        raises(qd.ModelError, f"'{name}' is reserved for the joints of a {root} root", qd.load, text, root=root)


def test_floating_joint_may_have_the_name_of_the_root_joint() -> None:
    text = ARM.format(**PLAIN).replace('"j"', '"root_joint"').replace("revolute", "floating")
    assert qd.load(text).root == qd.load(text, root="planar").root.replace("planar", "free") == "free"


# -- loops --------------------------------------------------------------------------------------------------------
FOUR_BAR = (Path(__file__).parent / "cases" / "loop_massless_rod" / "robot.urdf").read_text(encoding="utf-8")


@pytest.mark.parametrize("mass", [1e-9, 1e-6, 1e-3])
@pytest.mark.parametrize("q", [-0.5, 0.3])
def test_massless_rod_is_the_limit_of_light_rods(mass: float, q: float) -> None:
    I = mass * 0.3**2 / 12.0  # noqa: E741
    light = qd.load(FOUR_BAR.replace('<link name="rod">', f'<link name="rod">{inertial(mass, moments=I)}'))
    bare = qd.load(FOUR_BAR)
    M = qd.Dynamics(bare).crba([q]).item()
    assert qd.Dynamics(light).crba([q]).item() == pytest.approx(M, rel=2.0 * mass / 0.01 + 1e-12)
    assert qd.cross_check(light, samples=2).passed and qd.cross_check(bare, samples=2).passed


def test_robot_with_a_massless_rod_is_simulated_and_saved() -> None:
    robot = qd.load(FOUR_BAR)
    again = from_record(to_record(robot))
    dyn, twin = qd.Dynamics(robot), qd.Dynamics(again)
    a = dyn.aba([0.2], [0.1], [0.5])
    assert dyn.rnea([0.2], [0.1], a) == pytest.approx([0.5]) and twin.aba([0.2], [0.1], [0.5]) == pytest.approx(a)
    simulation = qd.Simulation(robot, dt=1e-3)
    for _ in range(20):
        simulation.step(np.array([0.1]))
    assert np.isfinite(simulation.q).all() and simulation.q[0] != robot.q_home[0]


def test_loop_without_any_mass_is_rejected() -> None:
    bare = re.sub(r"<inertial>.*?</inertial>", "", FOUR_BAR.replace('name="base"', 'name="base" '))
    raises(qd.ModelError, r"moves no mass|the diagonal entry", qd.load, bare, root="fixed")


# -- wheels and guesses -------------------------------------------------------------------------------------------
WHEELED = (Path(__file__).parent / "cases" / "wheels_trot" / "robot.urdf").read_text(encoding="utf-8")
TYRE = '<collision><origin rpy="1.570796 0 0"/><geometry><cylinder radius="0.07" length="0.04"/></geometry></collision>'
SHAPES = {
    "cylinder": TYRE,
    "turned": TYRE.replace("1.570796 0 0", "-1.570796 0.3 0"),
    "sphere": '<collision><geometry><sphere radius="0.07"/></geometry></collision>',
    "box": '<collision><geometry><box size="0.14 0.04 0.14"/></geometry></collision>',
    "visual": TYRE.replace("collision", "visual"),
    "hub beside": TYRE + TYRE.replace('rpy="1', 'xyz="0 0.03 0" rpy="1').replace("0.07", "0.02"),
}


@pytest.mark.parametrize("shape", list(SHAPES))
@pytest.mark.parametrize(("axis", "offset"), [("0 1 0", 0.0), ("0 -1 0", 0.05)])
def test_wheel_contact_is_below_the_axle_in_the_wheel_plane(shape: str, axis: str, offset: float) -> None:
    drawn = SHAPES[shape]
    drawn = drawn.replace('<origin rpy="', f'<origin xyz="0 {offset} 0" rpy="').replace(
        "<collision><geometry>", f'<collision><origin xyz="0 {offset} 0"/><geometry>'
    )
    text = WHEELED.replace(TYRE, drawn)
    text = re.sub(r'(type="continuous">.*?<axis xyz=")0 1 0', rf"\g<1>{axis}", text)
    robot = qd.load(text)
    for leg in robot.legs.values():
        assert leg.foot.radius == pytest.approx(0.07, rel=1e-3)
        assert leg.foot.offset == pytest.approx([0.0, offset, 0.0], abs=1e-6)
    assert not [w for w in robot.report.warnings if "is assumed, not read" in w.reason]
    s = qd.Dynamics(robot).update(robot.q_home, np.zeros(robot.nv))
    assert [s.placement(foot).translation[2] for foot in robot.feet] == pytest.approx([0.07] * 4, abs=1e-4)
    assert set(find_wheels(robot).values()) == {f"{leg}_wheel_joint" for leg in robot.feet}


def test_wheels_with_wide_limits_and_inexact_balance_are_wheels() -> None:
    limited = re.sub('"continuous">(.*?)<limit ', r'"revolute">\g<1><limit lower="-1000" upper="1000" ', WHEELED)
    unbalanced = re.sub('(_foot"><inertial>)<origin[^>]*>', r'\g<1><origin xyz="0.001 0 -0.001"/>', WHEELED)
    for text in (limited, unbalanced):
        assert text != WHEELED
        robot = qd.load(text)
        assert set(find_wheels(robot)) == set(robot.feet)
        assert {leg.foot.radius for leg in robot.legs.values()} == {0.07}


def test_wheels_of_meshes_have_the_radius_of_their_vertices(tmp_path: Path) -> None:
    rim = [(0.07 * math.cos(a), y, 0.07 * math.sin(a)) for a in np.linspace(0.0, 6.2, 40) for y in (0.01, 0.05)]
    (tmp_path / "wheel.obj").write_text("".join(f"v {x} {y} {z}\n" for x, y, z in rim), encoding="utf-8")
    (tmp_path / "r.urdf").write_text(
        WHEELED.replace(TYRE, '<collision><geometry><mesh filename="wheel.obj"/></geometry></collision>'),
        encoding="utf-8",
    )
    foot = qd.load(tmp_path / "r.urdf").legs["FL"].foot
    assert foot.radius == pytest.approx(0.07) and foot.offset == pytest.approx([0.0, 0.03, 0.0])


@pytest.mark.parametrize(
    ("shape", "says"),
    [
        ("", "no shape gives the radius of the wheel"),
        ('<visual><geometry><mesh filename="w.dae"/></geometry></visual>', "'w.dae'"),
    ],
)
def test_assumed_contact_is_reported_once_with_its_reason(shape: str, says: str) -> None:
    warnings = [w for w in qd.load(WHEELED.replace(TYRE, shape)).report.warnings if "is assumed, not read" in w.reason]
    assert len(warnings) == 1 and says in warnings[0].reason and "feet=" in warnings[0].advice
    raises(qd.ModelError, "strict=True", qd.load, WHEELED.replace(TYRE, shape), strict=True)


@pytest.mark.parametrize("drawn", ["", '<collision><geometry><mesh filename="shank.dae"/></geometry></collision>'])
def test_foot_position_of_a_leg_without_readable_shape_is_assumed(drawn: str) -> None:
    text = re.sub(r'<joint name="(..)_ankle" type="fixed">.*?</joint>', "", RADIANS)
    text = re.sub(r'<link name=".._foot">.*?</link>', "", text)
    text = re.sub(r'(<link name=".._calf">)', rf"\1{drawn}", text)
    robot = qd.load(text)
    (warning,) = [w for w in robot.report.warnings if "is assumed, not read" in w.reason]
    assert "FL, FR, RL, RR" in warning.reason and "twice as far away as the center of mass" in warning.reason
    given = {name: qd.Foot(name, f"{name}_calf", 0.02, np.array([0.0, 0.0, -0.2])) for name in robot.feet}
    assert not [w for w in qd.load(text, feet=given).report.warnings if "is assumed, not read" in w.reason]


def test_missing_foot_mesh_gives_a_warning_about_the_foot() -> None:
    text = RADIANS.replace('<sphere radius="0.02"/>', '<mesh filename="package://p/foot.stl"/>')
    (warning,) = [w for w in qd.load(text).report.warnings if "is assumed, not read" in w.reason]
    assert "foot.stl' is not found" in warning.reason


# -- catalogue ----------------------------------------------------------------------------------------------------
def test_example_robot_data_version_5_is_accepted() -> None:
    """Crocoddyl 3.2 and mim_solvers need example-robot-data 5."""
    project = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert [d for d in project["dependencies"] if d.startswith("example-robot-data")] == [REQUIREMENT]
    assert REQUIREMENT == "example-robot-data>=5,<7"


def test_limit_of_minus_one_is_no_limit() -> None:
    text = ARM.format(**PLAIN).replace('effort="10" velocity="5"', 'effort="-1" velocity="-1.0"')
    robot = qd.load(text)
    assert np.isinf(robot.effort_limits).all() and np.isinf(robot.velocity_limits).all()
    assert {w.reason for w in robot.report.warnings} >= {
        "effort=-1 is read as no limit",
        "velocity=-1 is read as no limit",
    }
    raises(qd.ModelError, "must not be negative", qd.load, text.replace('"-1"', '"-1.5"'))


# -- rounding -----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("residue", [-5e-20, -1e-300, -3e-17])
def test_negative_rounding_residues_are_read_as_zero(residue: float) -> None:
    arm = ARM.format(**PLAIN)
    losses = f'<dynamics damping="{residue}" friction="{residue}"/></joint>'
    robot = qd.load(arm.replace("</joint>", losses).replace('effort="10"', f'effort="{residue}"'), actuated=("j",))
    assert (robot.damping.item(), robot.friction.item(), robot.effort_limits.item()) == (0.0, 0.0, 0.0)
    point = (
        arm.replace('ixx="0.01"', f'ixx="{residue}"').replace('iyy="0.01"', 'iyy="0"').replace('izz="0.01"', 'izz="0"')
    )
    point = point.replace("<inertial><mass", '<inertial><origin xyz="0 0 0.5"/><mass')
    robot = qd.load(point)
    assert qd.Dynamics(robot).crba([0.1]).item() == pytest.approx(0.25)
    (reason,) = [w.reason for w in robot.report.warnings]
    assert reason == "all moments of inertia are 0; the link is a point mass of 1 kg"
    locked = qd.load(arm.replace('lower="-1" upper="1"', f'lower="0" upper="{residue}"'))
    assert locked.lower.item() == locked.upper.item() == residue
    for wrong in ('damping="-1e-9"', 'friction="-0.1"'):
        raises(qd.ModelError, "would create energy", qd.load, arm.replace("</joint>", f"<dynamics {wrong}/></joint>"))


# -- the small inputs of `tests/cases`, each with the result that its readme states -----------------------------------
CASES = Path(__file__).parent / "cases"


def test_xacro_file_of_macros_alone_is_rejected_with_advice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    provide_xacro(monkeypatch)
    (tmp_path / "macros.xacro").write_text('<robot name="r"/>', encoding="utf-8")
    message = r"no <link>; if it only defines macros, load the file that includes it"
    raises(qd.ModelError, message, qd.load, tmp_path / "macros.xacro")


def test_unknown_tags_and_default_namespaces_are_passed_over_but_not_misspelled_tags() -> None:
    text = (CASES / "root_joint_name" / "robot.urdf").read_text(encoding="utf-8")
    head, tag, rest = text.partition("<robot")
    name, end, rest = rest.partition(">")
    strange = "<webots><link/></webots><made_up_by_a_tool/>"
    file = f"{head}<!-- <robot> -->{tag} xmlns='http://drake.mit.edu'{name}{end}{strange}{rest}"
    robot = qd.load(file, strict=True)
    (note,) = [f for f in robot.report if "ignored, because only other tools" in f.reason]
    assert "<webots>" in note.reason and "<made_up_by_a_tool>" in note.reason
    with pytest.raises(qd.ModelError, match=r"unknown element <joit> in <robot>"):
        qd.load(file.replace("made_up_by_a_tool", "joit"), strict=True)
    with pytest.raises(qd.ModelError, match=r"has no mass; .*<inertal> in <link> is ignored: is it misspelled\?"):
        qd.load(file.replace("inertial>", "inertal>"))


def test_link_with_mass_above_a_floating_joint_raises_a_warning() -> None:
    text = (CASES / "quadruped_backwards" / "robot.urdf").read_text(encoding="utf-8")
    joint = '<joint name="float" type="floating"><parent link="ground"/><child link="trunk"/></joint>'
    for body in (inertial(), ""):
        robot = qd.load(text.replace("</robot>", f'<link name="ground">{body}</link>{joint}</robot>'))
        assert robot.root == "free" and robot.nv == qd.load(text).nv + 6 * bool(body)
        assert any("'ground' has a mass and moves freely" in w.reason for w in robot.report.warnings) is bool(body)


@pytest.mark.parametrize(
    ("old", "new", "names", "unit"),
    [
        (r'(RL_calf"/><origin xyz="0 0 )-0.2', r"\g<1>-200", "joint 'RL_calf_joint' is 200 m", "millimeters"),
        (r'(<sphere radius=")[^"]*', r"\g<1>22", "shape of link 'FL_foot' is 22 m", "centimeters or inches"),
        (
            r'(name="\w\w_calf".*?<mass value=")0.2',
            r"\g<1>200",
            "FL_calf, FR_calf, RL_calf, RR_calf",
            "masses .* grams",
        ),
        (
            r'(RR_thigh"/><origin xyz="0 )-?0.08',
            r"\g<1>-8",
            "origin of joint 'RR_thigh_joint' is at 8 m",
            "another unit",
        ),
        (
            r'(RR_thigh"><inertial><origin xyz="0 0 )-0.1',
            r"\g<1>-10",
            "center of mass of body 'RR_thigh'",
            "another unit",
        ),
        (r'(<sphere radius=")[^"]*', r"\g<1>2", "feet FL, FR, RL, RR is 2 m", "seems to be in millimeters"),
        (r'(<sphere radius=")[^"]*', r"\g<1>2e-5", "feet FL, FR, RL, RR is 2e-05 m", "meters twice"),
        (r'(i[xyz][xyz]="0\.\d+)"', r'\g<1>e6"', "moved by the root", "kg mm.2"),
    ],
    ids=["one origin", "feet", "calves", "hip", "thigh", "large feet", "small feet", "inertias"],
)
def test_wrong_units_in_a_part_of_the_file_are_located(old: str, new: str, names: str, unit: str) -> None:
    text, count = re.subn(old, new, (CASES / "quadruped_backwards" / "robot.urdf").read_text(encoding="utf-8"))
    assert count
    try:
        said = " ".join(f"{w.reason}; {w.advice}" for w in qd.load(text).report.warnings)
    except qd.ModelError as error:
        said = str(error)
    assert re.search(names, said) and re.search(unit, said), said


def test_loop_with_a_massless_rod_is_solved() -> None:
    file = CASES / "loop_massless_rod" / "robot.urdf"
    for options in ({}, {"allow_massless": True}):
        robot = qd.load(file, **options)
        assert robot.actuated == ("motor",)
        assert qd.Dynamics(robot).crba([0.3]).item() == pytest.approx(0.002871, abs=5e-7)
    assert qd.cross_check(robot, samples=5).passed
    raises(qd.ModelError, "joint 'pin'", qd.load, file, loops=False, allow_massless=True)


def test_driven_wheels_are_rejected_by_locomotion() -> None:
    robot = qd.load(CASES / "wheels_trot" / "robot.urdf", strict=True)
    assert {leg.foot.radius for leg in robot.legs.values()} == {0.07}
    raises(qd.ArgumentError, r"does not support wheels.*FL_wheel_joint.*type=\"fixed\"", LocomotionController, robot)
    text = (CASES / "wheels_trot" / "robot.urdf").read_text(encoding="utf-8")
    held = qd.load(text.replace('type="continuous"', 'type="fixed"'))
    assert [leg.foot.radius for leg in held.legs.values()] == pytest.approx([0.07] * 4)
    LocomotionController(held)


def test_spherical_joint_has_the_dynamics_of_a_ball_joint() -> None:
    body = inertial(2, "0.02 -0.1 0.05", "0.02 0.03 0.04", "0.001 0 0.002")
    text = (
        '<robot name="r"><link name="base"/><!-- a comment -->'
        '<joint name="ball" type="spherical"><parent link="base"/><child link="arm"/><origin xyz="0.1 0 0.3" '
        'rpy="0.2 0.1 0"/><axis xyz="0 0 1"/><limit effort="9" lower="0.2" upper="0.8" twist="0.3"/></joint>'
        f'<link name="arm">{body}</link></robot>'
    )
    robot = qd.load(text)
    assert robot.joint_names == ("ball_x", "ball_y", "ball_z") and list(robot.effort_limits) == [9.0] * 3
    (warning,) = [w for w in robot.report.warnings if "spherical" in w.reason]
    assert "ball" in warning.reason and qd.cross_check(robot, samples=2).passed
    x, y, z = angles = np.array([0.4, -0.7, 1.1])
    dynamics = qd.Dynamics(robot)
    q = robot.configuration(joints=dict(zip(robot.joint_names, angles, strict=True)))
    turn = pin.utils.rotate("x", x) @ pin.utils.rotate("y", y) @ pin.utils.rotate("z", z)
    at = dynamics.frame_placement(q, "arm")
    np.testing.assert_allclose(at.rotation, pin.rpy.rpyToMatrix(0.2, 0.1, 0.0) @ turn, atol=1e-15)
    body = robot.bodies[-1].inertial
    about_joint = pin.Inertia(body.mass, body.com, body.inertia).matrix()[3:, 3:]
    J = at.rotation.T @ dynamics.frame_jacobian(q, "arm")[3:]
    np.testing.assert_allclose(dynamics.crba(q), J.T @ about_joint @ J, atol=1e-14)
