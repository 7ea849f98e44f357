"""Kernels as C99 source, on the command line, and on processors without machine code support."""

from __future__ import annotations

import ctypes
import os
import pickle
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from raising import raises
from random_trees import random_robot, random_states
from typer.testing import CliRunner

import quaddyn as qd
from quaddyn.cli import app
from quaddyn.compiler import machine
from quaddyn.dynamics import compiled
from quaddyn.kernels import UnsupportedMachineError

FLAGS = ("-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror", "-O1", "-ffp-contract=off", "-shared", "-fPIC")
needs_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler on this machine")


def compile_c(folder: Path, source: str) -> Any:
    """Compiles a C source with the system's compiler, warnings as errors, and returns its function."""
    name = re.search(r"^void (\w+)\(", source, re.MULTILINE)[1]  # type: ignore[index]
    (folder / f"{name}.c").write_text(source, encoding="utf-8")
    library = folder / f"{name}.so"
    subprocess.run(["cc", *FLAGS, str(folder / f"{name}.c"), "-o", str(library), "-lm"], check=True, timeout=120)
    return getattr(ctypes.CDLL(str(library)), name)


def call_c(function: Any, shape: tuple[int, ...], *arrays: np.ndarray, dtype: Any = np.float64) -> np.ndarray:
    out = np.full(shape, np.nan, dtype=dtype)
    plain = [np.ascontiguousarray(x, dtype=dtype) for x in arrays]
    function(*(ctypes.c_void_p(x.ctypes.data) for x in (*plain, out)))
    return out


@needs_compiler
@pytest.mark.parametrize("name", ["go2", "panda", "any"])
def test_c_source_compiles_without_a_warning_and_equals_dynamics(name: str, tmp_path: Path) -> None:
    robot = random_robot(8, 12) if name == "any" else qd.load(name)
    dyn, (q, v, a) = qd.Dynamics(robot), random_states(robot, np.random.default_rng(0), 3)
    nv, frame = robot.nv, robot.frame_names[-1]
    rnea, crba = (compile_c(tmp_path, qd.generate_c(robot, what)) for what in ("rnea", "crba"))
    jacobian = compile_c(tmp_path, qd.generate_c(robot, "frame_jacobian", frame=frame))
    for k in range(3):
        pairs = (
            (call_c(rnea, (nv,), q[k], v[k], a[k]), dyn.rnea(q[k], v[k], a[k])),
            (call_c(crba, (nv, nv), q[k]), dyn.crba(q[k])),
            (call_c(jacobian, (6, nv), q[k]), dyn.frame_jacobian(q[k], frame)),
        )
        for got, wanted in pairs:
            assert np.abs(got - wanted).max() <= 1e-12 * max(np.abs(wanted).max(), 1.0)


@needs_compiler
def test_c_in_single_precision_with_friction_and_run_time_parameters(tmp_path: Path) -> None:
    robot = qd.load("two_link_leg", friction=0.3, damping=0.2)
    dyn, (q, v, a) = qd.Dynamics(robot), random_states(robot, np.random.default_rng(0), 2)
    single = compile_c(tmp_path, qd.generate_c(robot, "rnea", dtype=np.float32, friction=True))
    wanted = dyn.rnea(q[0], v[0], a[0]) + dyn.joint_friction(v[0])
    assert np.abs(call_c(single, (2,), q[0], v[0], a[0], dtype=np.float32) - wanted).max() < 1e-5 * np.abs(wanted).max()
    folder = tmp_path / "runtime"
    folder.mkdir()
    free = compile_c(folder, qd.generate_c(robot, "rnea", parameters="runtime", friction=True))
    fast = qd.compile(robot, "rnea", parameters="runtime", friction=True)
    beta = fast.parameter_map @ (1.3 * dyn.parameters())
    assert np.abs(call_c(free, (2,), q[0], v[0], a[0], beta) - 1.3 * wanted).max() < 1e-12 * np.abs(wanted).max()


def test_header_comment_states_operation_count_of_code() -> None:
    robot = qd.load("ur5")
    text = qd.generate_c(robot, "rnea")
    assert text == qd.generate_c(robot, "rnea")  # the output is reproducible
    lines = [line for line in text.splitlines() if line.startswith("    const double ")]
    mul = sum(" * " in line for line in lines)
    add = sum(bool(re.search(r"= \S+ [+-] \S+;", line)) for line in lines if "(q" not in line)
    add += len(set(re.findall(r"\((q\[\d+\] [+-] [^)]*)\)", "".join(lines))))  # offsets of angles
    assert f"Operations: {mul} mul, {add} add, 0 div" in text
    assert (mul, add) == (140, 117)  # reference count: change it only deliberately
    assert "wrist_3_joint" in text and "#include <math.h>" in text


def test_robot_name_is_escaped_in_identifiers_and_comments() -> None:
    text = Path(qd.CATALOGUE["two_link_leg"].path).read_text(encoding="utf-8")
    robot = qd.load(re.sub(r'<robot name="[^"]*"', '<robot name="2 legs */ é"', text), root="fixed")
    source = qd.generate_c(robot)
    assert source.isascii()
    assert re.search(r"^void _2_legs____u00e9_\w*rnea\(", source, re.MULTILINE)
    assert source.count("*/") == 1


def test_invalid_options_of_generate_c_are_rejected() -> None:
    robot = qd.load("go2")
    raises(qd.UnknownNameError, "rnea", qd.generate_c, robot, "rnae")
    raises(qd.ArgumentError, "frame", qd.generate_c, robot, "frame_jacobian")
    raises(qd.ArgumentError, "does not use a frame", qd.generate_c, robot, "rnea", frame="FL")
    with pytest.raises(qd.UnknownNameError):
        qd.generate_c(robot, "frame_drift", frame="tail")
    for dtype in (np.int32, "banana"):
        raises(qd.ArgumentTypeError, "dtype", qd.generate_c, robot, dtype=dtype)


def test_codegen_writes_files_with_headers(tmp_path: Path) -> None:
    command = ["codegen", "solo8", "--target", "rnea, crba,frame_drift", "--frame", "FL", "--out", str(tmp_path / "c")]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    names = {"solo_rnea", "solo_crba", "solo_frame_drift_FL"}
    assert {p.stem for p in (tmp_path / "c").iterdir()} == names
    assert "mul" in result.output and "void solo_rnea(" in (tmp_path / "c" / "solo_rnea.h").read_text(encoding="utf-8")
    assert CliRunner().invoke(app, ["codegen", "solo8", "--target", "nonsense"]).exit_code != 0
    assert CliRunner().invoke(app, ["codegen", "ur5", "--target", "frame_drift"]).exit_code != 0
    (tmp_path / "file").touch()
    taken = CliRunner().invoke(app, ["codegen", "ur5", "--out", str(tmp_path / "file")])
    assert taken.exit_code == 2 and "'--out'" in taken.output
    unread = CliRunner().invoke(app, ["codegen", "solo8", "--frame", "FL", "--out", str(tmp_path / "none")])
    assert unread.exit_code != 0 and not (tmp_path / "none").exists()  # no operation uses a frame


# -- where no machine code can be run ----------------------------------------------------------------------------
@pytest.fixture
def no_machine_code(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise UnsupportedMachineError("processor '6502' has no vectors")

    monkeypatch.setattr(machine, "kernel_machine", refuse)
    monkeypatch.setattr(compiled, "_warned_reasons", set())


def test_pinocchio_replaces_machine_code_with_one_warning(no_machine_code: None) -> None:
    robot = qd.load("go2")
    with pytest.warns(RuntimeWarning, match="6502"):
        fast = qd.compile(
            robot, ("rnea", "rnea_derivatives", "aba_derivatives", "com_jacobian", "frame_jacobian"), forces=("FL",)
        )
    again = qd.compile(robot, "aba", dtype=np.float32)  # a second warning would be an error here
    dyn, (q, v, a) = qd.Dynamics(robot), random_states(robot, np.random.default_rng(0), 3)
    f = np.array([1.0, 2.0, 3.0])
    out = np.zeros((3, 18))
    assert fast.rnea(q, v, a, fext={"FL": np.tile(f, (3, 1))}, out=out) is out
    assert np.array_equal(out[1], dyn.rnea(q[1], v[1], a[1], fext={"FL": f}))
    assert np.array_equal(fast.rnea(q[1], v[1], a[1]), dyn.rnea(q[1], v[1], a[1]))
    assert np.array_equal(fast.frame_jacobian(q, "FL")[2], dyn.frame_jacobian(q[2], "FL"))
    assert np.array_equal(fast.rnea_derivatives(q, v, a).dtau_dv[2], dyn.rnea_derivatives(q[2], v[2], a[2]).dtau_dv)
    assert np.array_equal(fast.aba_derivatives(q, v, a).da_dq[2], dyn.aba_derivatives(q[2], v[2], a[2]).da_dq)
    assert np.array_equal(fast.com_jacobian(q)[1], dyn.com_jacobian(q[1]))
    assert again.aba(q, v, a).dtype == np.float32
    with pytest.raises(qd.UnknownNameError):
        fast.crba(q)
    with pytest.raises(qd.ArgumentError):
        fast.rnea(q, v[:2], a)


@pytest.mark.filterwarnings("ignore:compiled kernels are not available:RuntimeWarning")
def test_pinocchio_kernels_validate_arguments_like_compiled_kernels(no_machine_code: None) -> None:
    robot = qd.load("go2")
    fast = qd.compile(robot, ("rnea", "frame_jacobian"), forces=("FL", "base"), frames=("FL",))
    assert type(fast) is compiled.PinocchioKernels and not hasattr(fast, "crba")
    dyn, (q, v, a) = qd.Dynamics(robot), random_states(robot, np.random.default_rng(0), 3)
    stacked = np.random.default_rng(1).standard_normal((3, 12))
    forces = {"FL": stacked[2, :6], "base": stacked[2, 6:]}
    assert np.array_equal(fast.rnea(q, v, a, stacked)[2], dyn.rnea(q[2], v[2], a[2], fext=forces))
    assert fast.rnea(q[:0], v[:0], a[:0]).shape == (0, 18)
    broken = v.copy()
    broken[1, 4] = np.nan
    wrong: list[tuple[type[Exception], str, Any]] = [
        (qd.UnknownNameError, "FR", lambda: fast.rnea(q, v, a, fext={"FR": np.zeros(3)})),
        (qd.ArgumentError, "fext: has shape", lambda: fast.rnea(q, v, a, fext={"FL": np.zeros((5, 3))})),
        (qd.ArgumentError, "pass single states only", lambda: fast.rnea(q, v[0], a)),
        (
            qd.ArgumentError,
            r"v\[1, 4\] = nan",
            lambda: fast.rnea(q, broken, a),
        ),
        (qd.ArgumentError, "threads", lambda: fast.rnea(q, v, a, threads=0)),
        (qd.ArgumentError, "out: expected shape", lambda: fast.rnea(q[0], v[0], a[0], out=np.zeros((5, 18)))),
        (qd.ArgumentError, "float64", lambda: fast.rnea(q[0], v[0], a[0], out=np.zeros(18, np.float32))),
        (qd.UnknownNameError, "FR", lambda: fast.frame_jacobian(q, "FR")),
    ]
    for error, words, call in wrong:
        raises(error, words, call)
    copy = pickle.loads(pickle.dumps(fast))
    assert np.array_equal(copy.rnea(q, v, a, stacked), fast.rnea(q, v, a, stacked))


def test_pinocchio_kernels_are_thread_safe(no_machine_code: None) -> None:
    """The kernels share one workspace, which threads must not use at the same time."""
    robot = qd.load("go2")
    with pytest.warns(RuntimeWarning, match="6502"):
        fast = qd.compile(robot, "rnea")
    q, v, a = random_states(robot, np.random.default_rng(0), 40)
    expected = fast.rnea(q, v, a)
    with ThreadPoolExecutor(4) as pool:
        assert all(np.array_equal(x, expected) for x in pool.map(lambda _: fast.rnea(q, v, a), range(20)))


def test_operations_missing_in_pinocchio_are_rejected_without_machine_code(no_machine_code: None) -> None:
    robot = qd.load("two_link_leg")
    with pytest.raises(UnsupportedMachineError):
        qd.compile(robot, "base_regressor")
    with pytest.raises(UnsupportedMachineError):
        qd.compile(robot, "rnea", parameters="runtime")


# -- nothing is read or written beyond its end -------------------------------------------------------------------
def test_kernels_do_not_access_memory_beyond_arrays() -> None:
    """In a separate process, which an overrun would terminate."""
    script = Path(__file__).resolve().parents[1] / "benchmarks" / "kernel_stress.py"
    done = subprocess.run(
        [sys.executable, str(script), "--calls", "6000" if "QUADDYN_SLOW" in os.environ else "2000"],
        capture_output=True,
        encoding="utf-8",
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "no out-of-bounds access" in done.stdout


def test_header_comment_lists_velocity_indices_of_joints() -> None:
    inertial = '<inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial>'
    joints = (("first", "revolute"), ("table", "planar"), ("last", "continuous"))
    links = "".join(f'<link name="l{k}">{inertial}</link>' for k in range(4))
    for k, (name, kind) in enumerate(joints):
        links += f'<joint name="{name}" type="{kind}"><parent link="l{k}"/><child link="l{k + 1}"/><axis xyz="0 0 1"/>'
        links += '<limit lower="-1" upper="1" effort="1" velocity="1"/></joint>'
    robot = qd.load(f'<robot name="tables">{links}</robot>', root="fixed")
    assert "0 first, 1-3 table, 4 last." in qd.generate_c(robot, "rnea")
