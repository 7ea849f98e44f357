"""One test for every pitfall of Pinocchio's importer and of its API that quaddyn prevents.

Pinocchio accepts these files silently, returns wrong results, or crashes.  Dangerous files are
loaded in a child process under CPU, memory and wall-clock limits (`fuzzing.Child`).
"""

from __future__ import annotations

import copy
import multiprocessing
import os
import pickle
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fuzz_reading
import fuzzing
import numpy as np
import pinocchio as pin
import pytest
from raising import raises
from urdf_text import chain, star

import quaddyn as qd

INERTIA = '<inertia ixx="0.02" iyy="0.02" izz="0.01" ixy="0" ixz="0" iyz="0"/>'
INERTIAL = f'<inertial><origin xyz="0 0 -0.1"/><mass value="1.5"/>{INERTIA}</inertial>'
ORIGIN = '<origin xyz="0 0 -0.25"/>'
AXIS = '<axis xyz="0 1 0"/>'
LIMIT = '<limit lower="-1.5" upper="1.25" effort="20" velocity="15"/>'
SHAPE = '<geometry><box size="0.1 0.2 0.3"/></geometry>'
URDF = f"""<?xml version="1.0"?>
<robot name="leg">
  <link name="base">
    <inertial><mass value="4"/><inertia ixx="0.1" iyy="0.1" izz="0.1" ixy="0" ixz="0" iyz="0"/></inertial>
  </link>
  <link name="thigh">{INERTIAL}<visual>{SHAPE}</visual><collision>{SHAPE}</collision></link>
  <link name="toe"/>
  <joint name="hip" type="revolute"><parent link="base"/><child link="thigh"/>{ORIGIN}{AXIS}{LIMIT}</joint>
  <joint name="ankle" type="fixed"><parent link="thigh"/><child link="toe"/>{ORIGIN}</joint>
</robot>"""


def edited(old: str, new: str, text: str = URDF, count: int = -1) -> str:
    assert old in text
    return text.replace(old, new, count)


def added(elements: str) -> str:
    return edited("</robot>", f"{elements}</robot>")


def joint(name: str, parent: str, child: str, kind: str = "fixed") -> str:
    return f'<joint name="{name}" type="{kind}"><parent link="{parent}"/><child link="{child}"/></joint>'


def refusal(source: str | Path, *words: str, **options: Any) -> str:
    """Asserts that `source` raises a ModelError whose message contains all `words`; returns the message."""
    with pytest.raises(qd.ModelError) as caught:
        qd.load(source, **options)
    assert isinstance(caught.value, ValueError)
    message = str(caught.value)
    assert all(word in message for word in words), message
    return message


def warnings_on(robot: qd.Robot, *words: str) -> list[str]:
    return [str(w) for w in robot.report.warnings if all(word in str(w) for word in words)]


@pytest.fixture(scope="module")
def child() -> Iterator[fuzzing.Child]:
    with fuzzing.Child(wall_limit=20.0) as out:
        yield out


def test_base_file_of_these_tests_is_valid() -> None:
    for root, nv in (("free", 7), ("planar", 4), ("fixed", 1)):
        robot = qd.load(URDF, root=root)
        assert (robot.nv, robot.joint_names, robot.mass) == (nv, ("hip",), 5.5)
        assert not robot.report.warnings


# -- the reason of a refusal ------------------------------------------------------------------------------------
def test_error_names_file_element_value_and_advice_and_keeps_stderr_clean(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "broken.urdf"
    path.write_text(edited('value="1.5"', 'value="heavy"'), encoding="utf-8")
    message = refusal(path, "broken.urdf", "thigh", "mass", "heavy")
    assert re.search(r"broken\.urdf:\d+", message), "the line"
    assert len(message.split(";")) > 1, "the advice"
    assert capfd.readouterr() == ("", "")


def test_bytes_that_are_not_text_raise_a_model_error(tmp_path: Path) -> None:
    path = tmp_path / "noise.urdf"
    for data in (b"", b"\xff\xfe\x00", URDF.encode().replace(b"thigh", b"th\xffgh"), b"\x7fELF" + bytes(100)):
        path.write_bytes(data)
        refusal(path, "noise.urdf")


# -- trees ------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", ["universe", ""])
def test_reserved_and_empty_names_are_refused(name: str) -> None:
    refusal(edited('"toe"', f'"{name}"'), "link")
    refusal(edited('"ankle"', f'"{name}"'), "joint")
    refusal(edited('"hip"', f'"{name}"'), "joint")


def test_duplicate_names_are_refused() -> None:
    refusal(added('<link name="toe"/>'), "toe")
    refusal(edited('"ankle"', '"hip"'), "hip")
    refusal(edited('"toe"', '"base"'), "base")


def test_links_are_neither_lost_nor_added() -> None:
    wrist = joint("wrist", "toe", "tip", "revolute").replace("</joint>", f"{LIMIT}</joint>")
    robot = qd.load(added(f'<link name="tip">{INERTIAL}</link>{wrist}'))
    names = {"base", "thigh", "toe", "tip"}
    assert {link.name for link in robot.tree.links} == names
    assert {f.name for f in robot.model.frames if f.type == pin.FrameType.BODY} == names
    assert robot.joint_names == ("hip", "wrist")


# -- axes and numbers -------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "axis",
    ["0 0 0", "0 5e-324 0", "0 1e-310 0", "0 1e308 0", "1e308 1e308 1e308", "nan 0 1", "0 1", "0 1 0 0", "", "y"],
)
@pytest.mark.parametrize("kind", ["revolute", "continuous", "prismatic"])
def test_axis_that_cannot_be_made_a_unit_vector_is_refused_on_a_moving_joint(axis: str, kind: str) -> None:
    refusal(edited("0 1 0", axis, edited('"revolute"', f'"{kind}"')), "hip", "axis")


@pytest.mark.parametrize("kind", ["revolute", "continuous", "prismatic"])
def test_axis_of_another_length_is_normalized(kind: str) -> None:
    robot = qd.load(edited("0 1 0", "0 3 4", edited('"revolute"', f'"{kind}"')), root="free")
    assert np.allclose(robot.tree.joints_by_name["hip"].axis, [0, 0.6, 0.8], atol=1e-15)
    dyn = qd.Dynamics(robot)
    q = pin.neutral(robot.model)
    column = dyn.frame_jacobian(q, "thigh")[:, -1]
    moved = column[:3] if kind == "prismatic" else column[3:]
    assert np.allclose(moved, [0, 0.6, 0.8], atol=1e-15)


def test_zero_axis_of_a_fixed_joint_is_accepted() -> None:
    robot = qd.load(edited(f'link="toe"/>{ORIGIN}', f'link="toe"/>{ORIGIN}<axis xyz="0 0 0"/>'))
    assert robot.joint_names == ("hip",)
    data = next(data for name, data in fuzzing.files() if name.endswith("go2.urdf"))
    assert b'<axis xyz="0 0 0"' in re.sub(rb"\s+", b" ", data)
    assert qd.load("go2").nu == 12


NOT_NUMBERS = (*"nan -nan inf -inf 1e308 1e400 abc 1,5 1.5kg 0x1p1 1_5 \u0661".split(), "", "1.5 2")


@pytest.mark.parametrize("value", NOT_NUMBERS)
def test_mass_that_is_not_a_bounded_number_is_refused(value: str) -> None:
    refusal(edited('value="1.5"', f'value="{value}"'), "thigh", "mass")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('<mass value="1.5"/>', ""),
        ('<mass value="1.5"/>', "<mass/>"),
        ('<mass value="1.5"/>', '<mass kg="1.5"/>'),
        (INERTIA, ""),
        (INERTIA, "<inertia/>"),
        (' izz="0.01"', ""),
        (INERTIAL, "<inertial/>"),
        (INERTIAL, ""),
    ],
)
def test_incomplete_inertial_is_refused_instead_of_read_as_zero(old: str, new: str) -> None:
    refusal(edited(old, new), "thigh")


@pytest.mark.parametrize("value", ["nan", "abc", "1,5", ""])
@pytest.mark.parametrize("key", ["lower", "upper", "effort", "velocity"])
def test_limit_that_is_not_a_number_is_refused(key: str, value: str) -> None:
    refusal(re.sub(rf'{key}="[^"]*"', f'{key}="{value}"', URDF), "hip", key)


# -- mass distributions -----------------------------------------------------------------------------------------
@pytest.mark.parametrize("mass", ["-1.5", "0", "-0.0", "5e-324", "1e-200"])
def test_moving_body_without_positive_mass_is_refused(mass: str) -> None:
    refusal(edited('value="1.5"', f'value="{mass}"'), "thigh")


@pytest.mark.parametrize(
    "moments",
    [
        ("-0.02", "0.02", "0.01", "0"),  # negative
        ("0.02", "0.02", "0.05", "0"),  # breaks the triangle inequality: 0.02 + 0.02 < 0.05
        ("0.02", "0.02", "0.01", "0.03"),  # indefinite by its product of inertia
        ("0", "0", "0.01", "0"),
    ],
)
def test_inertia_without_a_mass_distribution_is_refused(moments: tuple[str, ...]) -> None:
    xx, yy, zz, xy = moments
    inertia = f'<inertia ixx="{xx}" iyy="{yy}" izz="{zz}" ixy="{xy}" ixz="0" iyz="0"/>'
    refusal(edited(INERTIA, inertia), "thigh")


def test_triangle_inequality_is_checked_for_the_composite_body_not_the_single_link() -> None:
    """The toe alone violates it by 0.001; the composite body satisfies it, and the file only gives a warning."""
    toe = (
        '<inertial><mass value="0.1"/><inertia ixx="0.001" iyy="0.001" izz="0.003" ixy="0" ixz="0" iyz="0"/></inertial>'
    )
    text = edited('<link name="toe"/>', f'<link name="toe">{toe}</link>')
    robot = qd.load(text)
    assert warnings_on(robot, "toe")
    refusal(text, "toe", strict=True)
    heavy = edited('mass value="0.1"', 'mass value="0.1"', text).replace('izz="0.003"', 'izz="0.3"')
    refusal(heavy, "thigh")


def test_point_masses_are_accepted() -> None:
    point = '<inertia ixx="0" iyy="0" izz="0" ixy="0" ixz="0" iyz="0"/>'
    robot = qd.load(edited(INERTIA, point), root="fixed")
    assert np.allclose(qd.Dynamics(robot).crba(np.zeros(1)), 1.5 * 0.1**2, rtol=1e-14)


def test_massless_dummy_links_fixed_to_a_body_are_accepted() -> None:
    zero = '<inertial><mass value="0"/><inertia ixx="0" iyy="0" izz="0" ixy="0" ixz="0" iyz="0"/></inertial>'
    plain, dummy = qd.load(URDF), qd.load(edited('<link name="toe"/>', f'<link name="toe">{zero}</link>'))
    assert plain.mass == dummy.mass
    assert warnings_on(dummy, "toe")


# -- elements said twice ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("element", "other"),
    [
        (INERTIAL, INERTIAL.replace("1.5", "2.5")),
        (AXIS, '<axis xyz="1 0 0"/>'),
        (LIMIT, LIMIT.replace("1.25", "1.0")),
        ('<mass value="1.5"/>', '<mass value="2.5"/>'),
        ('<parent link="base"/>', '<parent link="toe"/>'),
    ],
)
def test_contradictory_duplicate_element_is_refused(element: str, other: str) -> None:
    refusal(edited(element, element + other))
    refusal(edited(element, other + element))


# -- sizes ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("links", [140, 4000, 100_000])
def test_deep_tree_is_refused_and_does_not_overflow_the_stack(links: int, child: fuzzing.Child) -> None:
    answer = child.ask("load", chain(links, *([INERTIAL] if links < 50_000 else [])), "free")
    assert answer["verdict"] == "refused", answer


def test_thousands_of_nested_elements_do_not_overflow_the_stack(child: fuzzing.Child) -> None:
    text = edited("</robot>", "<gazebo>" * 20_000 + "</gazebo>" * 20_000 + "</robot>")
    assert child.ask("load", text, "free")["verdict"] in ("refused", "loaded")


def test_accepted_and_refused_depths_do_not_overflow_small_stacks() -> None:
    """A 512 kB thread, in which Pinocchio's importer crashes with 300 links, and a process with a 1 MB main stack."""
    script = (
        "import sys, threading, resource; import quaddyn as qd; sys.path.insert(0, sys.argv[1])\n"
        "import test_importer_pitfalls as t\n"
        "def work():\n"
        "    print(len(qd.load(t.chain(120, t.INERTIAL), root='free').tree.links))\n"
        "    for n in (300, 4000):\n"
        "        try: qd.load(t.chain(n, t.INERTIAL), root='free')\n"
        "        except qd.ModelError: print('refused')\n"
        "threading.stack_size(512 * 1024)\n"
        "thread = threading.Thread(target=work); thread.start(); thread.join()\n"
        "resource.setrlimit(resource.RLIMIT_STACK, (1 << 20, resource.getrlimit(resource.RLIMIT_STACK)[1])); work()\n"
    )
    here = str(Path(__file__).parent)
    done = subprocess.run(
        [sys.executable, "-c", script, here], capture_output=True, encoding="utf-8", timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["120", "refused", "refused"] * 2


def test_more_than_two_hundred_degrees_of_freedom_are_refused_before_memory_is_taken(child: fuzzing.Child) -> None:
    answer = child.ask("load", star(900, INERTIAL, kind="continuous"), "free")
    assert answer["verdict"] == "refused" and "200" in answer["message"], answer
    refusal(star(202, INERTIAL, kind="continuous"), "200", root="free")


# -- things that are no files -----------------------------------------------------------------------------------
def test_paths_that_the_system_rejects_are_refused(tmp_path: Path) -> None:
    refusal(tmp_path / ("x" * 5000 + ".urdf"))
    refusal(tmp_path / "nul\0.urdf")
    (tmp_path / "loop.urdf").symlink_to(tmp_path / "loop.urdf")
    refusal(tmp_path / "loop.urdf", "loop.urdf")


# -- meshes -----------------------------------------------------------------------------------------------------
def with_mesh(uri: str) -> str:
    return edited(f"<visual>{SHAPE}</visual>", f'<visual><geometry><mesh filename="{uri}"/></geometry></visual>')


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A package root with a valid mesh, and beside it a pipe that blocks when it is opened."""
    root = tmp_path / "my_robot"
    (root / "meshes").mkdir(parents=True)
    (root / "meshes" / "thigh.stl").write_bytes(b"solid thigh\nendsolid thigh\n")
    os.mkfifo(tmp_path / "secret.stl")
    (root / "meshes" / "link.stl").symlink_to(tmp_path / "secret.stl")
    (root / "meshes" / "up").symlink_to(tmp_path)
    os.mkfifo(root / "meshes" / "pipe.stl")
    return root


def mesh_of(robot: qd.Robot) -> Any:
    shapes = [v.shape for v in robot.tree.links_by_name["thigh"].visuals]
    assert len(shapes) == 1, "the mesh is in the record, found or not"
    return shapes[0]


@pytest.mark.parametrize("by_parent", [False, True])
def test_mesh_inside_a_package_root_is_found(package: Path, by_parent: bool) -> None:
    robot = qd.load(
        with_mesh("package://my_robot/meshes/thigh.stl"), packages=(package.parent if by_parent else package,)
    )
    assert mesh_of(robot).path == package / "meshes" / "thigh.stl"
    assert not warnings_on(robot, "thigh")


@pytest.mark.parametrize(
    "uri",
    [
        "package://my_robot/../secret.stl",
        "package://my_robot/meshes/../../secret.stl",
        "package://../secret.stl",
        "package://my_robot/meshes/link.stl",
        "package://my_robot/meshes/up/secret.stl",
        "package://my_robot/meshes/pipe.stl",
        "package://my_robot/meshes/%2e%2e/%2e%2e/secret.stl",
        "{outside}/secret.stl",
        "file://{outside}/secret.stl",
        "../secret.stl",
        "package://other/secret.stl",
        "package:///etc/hostname",
        "http://127.0.0.1:9/secret.stl",
        "package://" + "x" * 1000 + "/meshes/a.stl",
    ],
)
def test_mesh_outside_its_package_or_missing_is_a_warning_and_never_opened(package: Path, uri: str) -> None:
    path = package / "robot.urdf"
    path.write_text(with_mesh(uri.format(outside=package.parent)), encoding="utf-8")
    alone = mesh_of(qd.load(path)).path
    assert alone is None or alone.resolve().is_relative_to(package)
    robot = qd.load(path, packages=(package,))
    assert mesh_of(robot).path is None
    assert warnings_on(robot, "thigh"), [str(f) for f in robot.report]


def test_load_does_not_parse_meshes(package: Path) -> None:
    """A mutated .dae of 20 kB kept an asset importer busy for a minute; `load` needs no triangles."""
    (package / "meshes" / "bomb.dae").write_bytes(b"<COLLADA>" + b"<a>" * 7000)
    robot = qd.load(with_mesh("package://my_robot/meshes/bomb.dae"), packages=(package,))
    assert mesh_of(robot).path is not None


# -- XML --------------------------------------------------------------------------------------------------------
BILLION = "".join(f'<!ENTITY e{i + 1} "{f"&e{i};" * 10}">' for i in range(12))


@pytest.mark.parametrize(
    "doctype",
    [
        "<!DOCTYPE robot>",
        '<!DOCTYPE robot SYSTEM "robot.dtd">',
        '<!DOCTYPE robot SYSTEM "http://127.0.0.1:9/robot.dtd">',
        '<!DOCTYPE robot [<!ENTITY m "1.5">]>',
        '<!DOCTYPE robot [<!ENTITY e0 "1">' + BILLION + "]>",
        '<!DOCTYPE robot [<!ENTITY m SYSTEM "file:///etc/hostname">]>',
        '<!DOCTYPE robot [<!ENTITY % p SYSTEM "file:///dev/zero"> %p;]>',
        '<!DOCTYPE robot [<!ATTLIST mass value CDATA "1.5">]>',
    ],
)
def test_document_types_and_entities_are_refused(doctype: str, child: fuzzing.Child) -> None:
    text = edited("<robot name", f"{doctype}<robot name")
    if "ENTITY m " in doctype:
        text = edited('value="1.5"', 'value="&m;"', text)
    elif "ENTITY e0" in doctype:
        text = edited('value="1.5"', 'value="&e12;"', text)
    answer = child.ask("load", text, "free")
    assert answer["verdict"] == "refused" and answer["cpu"] < 1.0, answer


# -- what real files say ----------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def real() -> dict[str, tuple[fuzz_reading.Reading, qd.Robot | qd.ModelError]]:
    """Every real URDF: its independent reading, and the robot or the error."""
    out: dict[str, tuple[fuzz_reading.Reading, qd.Robot | qd.ModelError]] = {}
    for base in fuzzing.bases():
        try:
            robot: qd.Robot | qd.ModelError = qd.load(base.data.decode(), root=base.root)
        except qd.ModelError as error:
            robot = error
        out[base.name] = (fuzzing.reading_of(base.data, base.root), robot)
    return out


@pytest.mark.slow
def test_every_inconsistent_single_link_gives_a_warning_that_names_it(real: dict[str, Any]) -> None:
    odd_files = 0
    for name, (reading, robot) in real.items():
        odd = []
        for link, (mass, _, _, inertia) in reading.inertials.items():
            low = np.linalg.eigvalsh(0.5 * np.trace(inertia) * np.eye(3) - inertia)[0]
            if mass <= 0 or low < -1e-9 * abs(np.trace(inertia)):
                odd.append(link)
        odd_files += bool(odd)
        if not isinstance(robot, qd.ModelError):
            assert [n for n in odd if not warnings_on(robot, f'"{n}"')] == [], name
    assert odd_files >= 40, "single links must not be judged: most real files would be refused"


# -- pitfalls of pinocchio's api --------------------------------------------------------------------------------------
@pytest.fixture
def dyn(go2: qd.Robot) -> qd.Dynamics:
    return qd.Dynamics(go2)


# -- the API: arguments -----------------------------------------------------------------------------------------
def state(robot: qd.Robot, seed: int = 0) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(seed)
    q = pin.integrate(robot.model, robot.q_home, 0.3 * rng.standard_normal(robot.nv))
    return q, rng.standard_normal(robot.nv), rng.standard_normal(robot.nv)


CALLS = {"rnea": 3, "aba": 3, "crba": 1, "nle": 2, "gravity": 1, "coriolis": 2, "mass_inverse": 1, "update": 2}


def test_results_of_a_robot_with_one_joint_have_the_usual_dimensions() -> None:
    """Pinocchio's bindings convert a matrix of one column to a vector."""
    robot = qd.load(URDF, root="fixed")
    dyn = qd.Dynamics(robot)
    one = np.array([0.5])
    for call in ("rnea", "aba", "gravity", "nle"):
        assert getattr(dyn, call)(*[one] * CALLS[call]).shape == (1,), call
    for call in ("crba", "coriolis", "mass_inverse"):
        assert getattr(dyn, call)(*[one] * CALLS[call]).shape == (1, 1), call
    for reference in ("local_world_aligned", "local", "world"):
        assert dyn.frame_jacobian(one, "toe", reference=reference).shape == (6, 1), reference
        assert dyn.update(one, one).jacobian("toe", reference=reference).shape == (6, 1), reference
    assert dyn.com_jacobian(one).shape == dyn.update(one, one).com_jacobian.shape == (3, 1)
    assert dyn.update(one, one).M.shape == (1, 1)


# -- the API: names ---------------------------------------------------------------------------------------------


def test_error_for_a_pinocchio_frame_id_contains_the_frame_name(dyn: qd.Dynamics) -> None:
    q, v, a = state(dyn.robot)
    i = dyn.robot.model.getFrameId("FL_calf")
    for name in (i, np.int64(i)):
        for call in (
            lambda n: dyn.frame_placement(q, n),
            lambda n: dyn.rnea(q, v, a, fext={n: np.zeros(3)}),
            lambda n: dyn.update(q, v).jacobian(n),
            lambda n: qd.Simulation(dyn.robot).push(n, [1.0, 0.0, 0.0], duration=0.1),
        ):
            raises(qd.UnknownNameError, rf"^frame: expected a name.* {i}; did you mean 'FL_calf'", call, name)
    raises(qd.UnknownNameError, r"^frame: expected a name, got the int -1; known: ", dyn.frame_placement, q, -1)


def test_pinocchio_force_is_accepted_as_an_external_force(dyn: qd.Dynamics) -> None:
    q, v, a = state(dyn.robot)
    wrench = np.array([3.0, -2.0, 40.0, 0.5, 0.1, -0.2])
    force = pin.Force(wrench[:3], wrench[3:])
    for each in (dyn, qd.Dynamics(dyn.robot, validate=False)):
        for call in (each.rnea, each.aba):
            np.testing.assert_array_equal(call(q, v, a, fext={"FL": force}), call(q, v, a, fext={"FL": wrench}))
    plants = qd.Simulation(dyn.robot), qd.Simulation(dyn.robot)
    for plant, given in zip(plants, (force, wrench), strict=True):
        plant.push("base", given, duration=1.0)
        plant.step(np.zeros(dyn.robot.nu), external={"FL": given})
    np.testing.assert_array_equal(plants[0].v, plants[1].v)
    with pytest.raises(qd.ArgumentError, match=r"fext\['FL'\].*finite"):
        dyn.rnea(q, v, a, fext={"FL": pin.Force(wrench * np.nan)})


def test_every_frame_is_available_in_a_new_workspace(dyn: qd.Dynamics) -> None:
    """Pinocchio aborts when its Data is older than the model's last frame."""
    q, _, _ = state(dyn.robot)
    for name in dyn.robot.frame_names:
        jacobian = dyn.frame_jacobian(q, name)
        assert jacobian.shape == (6, 18) and np.isfinite(jacobian).all() and jacobian.any()


# -- the API: memory --------------------------------------------------------------------------------------------
def test_vectors_of_the_robot_are_copies_of_the_model(go2: qd.Robot) -> None:
    robot = copy.deepcopy(go2)
    robot.model.lowerPositionLimit[:] = 7.0
    robot.model.effortLimit[:] = 7.0
    assert np.array_equal(robot.lower, go2.lower) and np.array_equal(robot.effort_limits, go2.effort_limits)


# -- the API: threads and processes -----------------------------------------------------------------------------
def test_threads_with_separate_workspaces_agree_with_one_thread(go2: qd.Robot) -> None:
    states = [state(go2, seed) for seed in range(40)]
    alone = qd.Dynamics(go2)
    truth = [(alone.rnea(q, v, a), alone.frame_placement(q, "RL").translation) for q, v, a in states]
    wrong: list[int] = []

    def work(offset: int) -> None:
        mine = qd.Dynamics(go2)
        for round_ in range(5):
            for i in range(len(states)):
                k = (i + offset + round_) % len(states)
                q, v, a = states[k]
                if not (
                    np.array_equal(mine.rnea(q, v, a), truth[k][0])
                    and np.array_equal(mine.frame_placement(q, "RL").translation, truth[k][1])
                ):
                    wrong.append(k)

    threads = [threading.Thread(target=work, args=(10 * i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def _torque(robot: qd.Robot) -> Any:
    return qd.Dynamics(robot).rnea(*state(robot))


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_robot_works_in_another_process(go2: qd.Robot, method: str) -> None:
    with multiprocessing.get_context(method).Pool(1) as pool:
        assert np.array_equal(pool.apply(_torque, (go2,)), _torque(go2))


def test_pickled_errors_keep_their_message() -> None:
    with pytest.raises(qd.ModelError) as caught:
        qd.load(edited('value="1.5"', 'value="heavy"'))
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
