"""Generated kernels have few operations, agree with Pinocchio and validate their arguments."""

from __future__ import annotations

import gc
import itertools
import pickle
import platform
import sys
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pinocchio as pin
import pytest
from raising import raises
from random_trees import arm, random_robot, random_states, random_tree
from slow_parameters import NIGHT, others_slow

import quaddyn as qd
from quaddyn.compiler import machine, python_calls
from quaddyn.kernels import forward_dynamics, kernel_cache, kernels, llvm_body, llvm_module, operations
from quaddyn.kernels.graph import ADD, CONST, COS, DIV, INPUT, MUL, SIGN, SIN, SQRT, Graph, Program, make_program
from quaddyn.kernels.llvm_writer import MAX_ANGLE
from quaddyn.kernels.operations import OPERATIONS, KernelOptions, trace_operation

#: Largest numbers of multiplications and additions of inverse dynamics.
MAX_OPERATIONS = {
    "rx90": (213, 209),
    "ur5": (143, 127),
    "go2": (653, 653),
    "solo12": (546, 514),
    "anymal_b": (640, 638),
}


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A separate cache for this run, so that no old kernel is tested and every kernel is compiled once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("QUADDYN_CACHE", str(tmp_path_factory.mktemp("kernels")))
        yield


def evaluate(program: Program, *inputs: np.ndarray) -> np.ndarray:
    """(n, outputs): the program's graph interpreted by NumPy, sharing no code with any back end."""
    graph, columns = program.graph, np.concatenate(inputs, axis=-1).T
    values: dict[int, Any] = {}

    def get(ref: int) -> Any:
        return -values[ref >> 1] if ref & 1 else values[ref >> 1]

    for i in program.order:
        op, left, right = graph.op[i], graph.left[i], graph.right[i]
        if op == CONST:
            values[i] = graph.value[i]
        elif op == INPUT:
            values[i] = columns[left]
        elif op == SIGN:
            values[i] = np.sign(get(left))
        elif op == SQRT:
            values[i] = np.sqrt(get(left))
        elif op in (SIN, COS):
            values[i] = (np.sin if op == SIN else np.cos)(get(left) + graph.value[i])
        else:
            a, b = get(left), get(right)
            values[i] = a + b if op == ADD else a * b if op == MUL else a / b
            assert op in (ADD, MUL, DIV)
    return np.stack([get(r.ref) + 0.0 * columns[0] for r in program.results], axis=-1)


def inverse_dynamics(robot: qd.Robot, q: np.ndarray, v: np.ndarray, a: np.ndarray) -> np.ndarray:
    data = robot.model.createData()
    return np.array([robot.algorithms.rnea(robot.model, data, *x) for x in zip(q, v, a, strict=True)])


def max_relative_error(got: np.ndarray, wanted: np.ndarray) -> float:
    """Largest error relative to the largest torque."""
    return float(np.abs(got - wanted).max() / max(np.abs(wanted).max(), 1e-300))


def trace(what: str, robot: qd.Robot, **options: Any) -> Program:
    frame = options.pop("frame", None)
    return trace_operation(what, robot, KernelOptions(**options), frame)


# -- operations --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", MAX_OPERATIONS)
def test_operation_count_of_inverse_dynamics_is_within_bound(name: str) -> None:
    operations = trace("rnea", qd.load(name)).operations
    mul, add = MAX_OPERATIONS[name]
    assert operations.mul <= mul and operations.add <= add, operations
    assert operations.div == 0


@pytest.mark.parametrize(("name", "bar"), [("puma", (228, 219)), ("stanford", (203, 186)), ("scara", (45, 36))])
def test_textbook_arms_have_few_operations_and_correct_torques(name: str, bar: tuple[int, int]) -> None:
    robot = arm(name)
    program = trace("rnea", robot)
    assert program.operations.mul <= bar[0] and program.operations.add <= bar[1], program.operations
    for subject in (robot, arm(name, tilt=0.3)):
        q, v, a = random_states(subject, np.random.default_rng(3), 20)
        got = evaluate(trace("rnea", subject), q, v, a)
        assert max_relative_error(got, inverse_dynamics(subject, q, v, a)) < 1e-12


@pytest.mark.parametrize(
    ("name", "rank"), [("ur5", 36), ("rx90", 36), ("puma", 36), ("tilted puma", 38), ("go2", 94), ("solo12", 94)]
)
def test_grouping_leaves_only_base_parameters(name: str, rank: int) -> None:
    """All nonzero columns of the base regressor are independent, except for effects of the axis of the first joint."""
    robot = arm("puma", 0.3) if name == "tilted puma" else arm(name) if name == "puma" else qd.load(name)
    q, v, a = random_states(robot, np.random.default_rng(0), 120)
    program = trace("base_regressor", robot)
    H = evaluate(program, q, v, a).reshape(len(q) * robot.nv, -1)
    H = H[:, np.abs(H).max(axis=0) > 1e-12]
    H = H / np.linalg.norm(H, axis=0)
    sigma = np.linalg.svd(H, compute_uv=False)
    assert int(np.sum(sigma > 1e-9 * sigma[0])) == rank
    # Kxx and Kyy of a body on a fixed axis are one parameter: nothing else is left to group.
    hidden = 1 if robot.root == "fixed" else 0
    assert H.shape[1] == rank + hidden


def test_graph_folds_constants_shares_subexpressions_and_cancels_terms() -> None:
    g = Graph()
    x, y = g.inputs(0, 2)
    assert (x + y).ref == (y + x).ref
    assert (x - y).ref == (-(y - x)).ref
    assert (x * y).ref == (-((-x) * y)).ref
    assert (x - x).is_zero and (0.0 * x).is_zero
    assert (3.0 * x + 4.0 * x).ref == (7.0 * x).ref
    assert (2.0 * (3.0 * x)).ref == (6.0 * x).ref
    assert (g.constant(2.0) * 3.0 - 6.0).is_zero
    s, c = g.sin_cos(x, np.pi / 2)
    assert (s.ref, c.ref) == (g.sin_cos(x)[1].ref, (-g.sin_cos(x)[0]).ref)
    with pytest.raises(ValueError, match="finite"):
        g.constant(float("nan"))


# -- agreement ---------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", [name for name in qd.CATALOGUE if name != "closed_leg_biped"])  # see test_loop_kernels
def test_traced_inverse_dynamics_equals_pinocchio_on_every_robot(name: str) -> None:
    robot = qd.load(name)
    q, v, a = random_states(robot, np.random.default_rng(3), 20)
    wanted = inverse_dynamics(robot, q, v, a)
    assert max_relative_error(evaluate(trace("rnea", robot), q, v, a), wanted) < 1e-12


@pytest.mark.parametrize("start", others_slow(range(0, 200, 20), {0}))
def test_traced_inverse_dynamics_equals_pinocchio_on_random_trees(start: int) -> None:
    for seed in range(start, start + (20 if NIGHT else 8)):
        robot = random_robot(seed)
        q, v, a = random_states(robot, np.random.default_rng(seed), 4)
        wanted = inverse_dynamics(robot, q, v, a)
        assert max_relative_error(evaluate(trace("rnea", robot), q, v, a), wanted) < 1e-12, seed


@pytest.fixture(scope="module")
def go2() -> qd.Robot:
    return qd.load("go2", damping=0.1, friction=0.2, armature=0.01)


@pytest.fixture(scope="module")
def fast(go2: qd.Robot) -> qd.Kernels:
    return qd.compile(go2, ("rnea", "nle", "gravity"))


@pytest.fixture(scope="module")
def states(go2: qd.Robot) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return random_states(go2, np.random.default_rng(0), 37)


def test_every_batch_size_equals_single_calls(fast: qd.Kernels, states: Any) -> None:
    q, v, a = states
    single = np.array([fast.rnea(*x) for x in zip(q, v, a, strict=True)])
    for n in range(len(q) + 1):
        got = fast.rnea(q[:n], v[:n], a[:n])
        assert got.shape == (n, 18)
        assert n == 0 or max_relative_error(got, single[:n]) < 1e-14


@pytest.mark.parametrize("element", ("double", "float"))
def test_sine_and_cosine_are_accurate_to_one_ulp(element: str) -> None:
    """For all accepted angles, and close to multiples of a quarter turn, where digits cancel."""
    kind = np.dtype(np.float64 if element == "double" else np.float32)
    largest, rng, graph = MAX_ANGLE[element], np.random.default_rng(0), Graph()
    made = make_program("sincos", graph, (("q", 1),), (("s", (1,)), ("c", (1,))), graph.sin_cos(graph.input(0)))
    here = machine.kernel_machine()
    code = machine.compile_ir(
        llvm_module.batch_module(made, kernel_cache.vector_target(here, element)), here, optimize=False
    )
    run = kernel_cache.link_kernel(code, here, 3)
    angles_of = [rng.uniform(-x, x, 20_000) for x in (1.0, 10.0, 1e3, largest)]
    quarters = np.round(rng.uniform(-largest, largest, 20_000) / (np.pi / 2)) * (np.pi / 2)
    x = np.clip(np.concatenate([*angles_of, quarters]), -largest, largest).astype(kind)
    s, c = np.empty_like(x), np.empty_like(x)
    assert run.batch(len(x), *kernel_cache.data_addresses([x, s, c])) == 0
    exact = x.astype(np.longdouble)
    assert np.abs(s - np.sin(exact)).max() < np.finfo(kind).eps
    assert np.abs(c - np.cos(exact)).max() < np.finfo(kind).eps
    for k in (0, 7):
        assert run.one(*kernel_cache.data_addresses([x[k:], s[k:], c[k:]])) == 0
        assert abs(s[k] - np.sin(exact[k])) < np.finfo(kind).eps
    for wrong in (1.01 * largest, np.nan, np.inf):
        x[17] = wrong
        assert run.batch(len(x), *kernel_cache.data_addresses([x, s, c])) != 0
        assert run.one(*kernel_cache.data_addresses([x[17:], s, c])) != 0


WIDTHS = [(dtype, bits) for dtype in (np.float64, np.float32) for bits in (128, 256, 512)]


@pytest.mark.parametrize(("dtype", "bits"), others_slow(WIDTHS, [WIDTHS[0], WIDTHS[5]]))
def test_results_do_not_depend_on_vector_width(
    dtype: Any, bits: int, go2: qd.Robot, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Processors have 16 or 32 vector registers of 2 to 16 numbers; results and errors do not depend on it."""
    monkeypatch.setenv("QUADDYN_CACHE", "")
    monkeypatch.setenv("QUADDYN_TARGET", f"lanes={bits // 64}")
    assert machine.kernel_machine().bits == bits  # LLVM splits vectors that are wider than those of this processor
    q, v, a = (x.astype(dtype) for x in random_states(go2, np.random.default_rng(3), 35))
    fast = qd.compile(go2, ("rnea", "crba"), dtype=dtype)
    dynamics, digits = qd.Dynamics(go2), 1e-13 if dtype is np.float64 else 3e-6
    wide = [x.astype(np.float64) for x in (q, v, a)]
    wide[0][:, 3:7] /= np.linalg.norm(wide[0][:, 3:7], axis=1, keepdims=True)
    tau = np.array([dynamics.rnea(*x) for x in zip(*wide, strict=True)])
    M = np.array([dynamics.crba(x) for x in wide[0]])
    for n in (1, 2, 15, 16, 17, 35):
        assert max_relative_error(fast.rnea(q[:n], v[:n], a[:n]), tau[:n]) < digits
        assert max_relative_error(fast.crba(q[:n]), M[:n]) < digits
    for array, at in ((q, (33, 9)), (v, (34, 0)), (a, (16, 17)), (q, (2, 5)), (q, (3, 0))):
        kept, array[at] = array[at], np.nan
        raises(qd.ArgumentError, "finite", fast.rnea, q, v, a)
        array[at] = kept


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the processor is of another family")
def test_results_are_correct_without_fused_multiply_add(go2: qd.Robot, monkeypatch: pytest.MonkeyPatch) -> None:
    """The function ``fma`` of the C library replaces the instruction."""
    monkeypatch.setenv("QUADDYN_CACHE", "")
    monkeypatch.setenv("QUADDYN_TARGET", "x86-64")
    q, v, a = random_states(go2, np.random.default_rng(4), 5)
    fast = qd.compile(go2, "rnea")
    assert max_relative_error(fast.rnea(q, v, a), inverse_dynamics(go2, q, v, a)) < 1e-13
    assert max_relative_error(fast.rnea(q[0], v[0], a[0]), inverse_dynamics(go2, q[:1], v[:1], a[:1])[0]) < 1e-13


def test_large_angles_lose_no_precision() -> None:
    """Offsets of a joint angle are added after whole turns are subtracted."""
    robot = random_robot(5, 6)
    fast = qd.compile(robot, "rnea")
    turning = [i for i, n in enumerate(robot.joint_names) if robot.tree.joints_by_name[n].type == "revolute"]
    assert turning
    q, v, a = random_states(robot, np.random.default_rng(1), 8)
    columns = [robot.configuration_index(robot.joint_names[i]) for i in turning]
    small = fast.rnea(q, v, a)
    turns = np.random.default_rng(2).integers(-1500, 1500, size=(8, len(columns)))
    q[:, columns] += turns * 2 * np.pi  # itself rounded to 1e-12
    assert max_relative_error(fast.rnea(q, v, a), inverse_dynamics(robot, q, v, a)) < 1e-14
    assert max_relative_error(fast.rnea(q, v, a), small) < 1e-10


def test_runtime_parameters_default_to_robot_and_can_be_passed(states: Any) -> None:
    robot = qd.load("go2", friction=0.3, damping=0.2)
    fast = qd.compile(robot, "rnea", parameters="runtime", friction=True)
    dyn, (q, v, a) = qd.Dynamics(robot), states
    delta = dyn.parameters()
    rng = np.random.default_rng(4)
    other = delta * rng.uniform(0.5, 1.5, size=delta.shape)
    for k in range(4):
        own = dyn.regressor(q[k], v[k], a[k]) @ delta
        assert max_relative_error(fast.rnea(q[k], v[k], a[k]), own) < 1e-12
        wanted = dyn.regressor(q[k], v[k], a[k]) @ other
        assert max_relative_error(fast.rnea(q[k], v[k], a[k], fast.parameter_map @ other), wanted) < 1e-12
    assert len(fast.parameter_names) == len(fast.parameters)
    batch = fast.rnea(q, v, a, parameters=fast.parameter_map @ other)
    assert max_relative_error(batch[3], wanted) < 1e-12


# -- the kin of inverse dynamics ---------------------------------------------------------------------------------
def dynamics_result(dyn: qd.Dynamics, what: str, frame: str, q: Any, v: Any, a: Any, fext: Any) -> Any:
    answers: dict[str, Any] = {
        "crba": lambda: dyn.crba(q),
        "aba": lambda: dyn.aba(q, v, a, fext=fext),
        "rnea": lambda: dyn.rnea(q, v, a, fext=fext),
        "nle": lambda: dyn.nle(q, v),
        "gravity": lambda: dyn.gravity(q),
        "regressor": lambda: dyn.regressor(q, v, a),
        "rnea_derivatives": lambda: np.stack(dyn.rnea_derivatives(q, v, a)),
        "aba_derivatives": lambda: np.stack(dyn.aba_derivatives(q, v, a)),
        "center_of_mass": lambda: dyn.center_of_mass(q),
        "com_jacobian": lambda: dyn.com_jacobian(q),
        "centroidal_momentum": lambda: dyn.centroidal_momentum(q, v),
        "frame_jacobian": lambda: dyn.frame_jacobian(q, frame),
        "frame_drift": lambda: dyn.frame_drift(q, v, frame),
    }
    return answers[what]()


def results_of_dynamics(
    robot: qd.Robot, what: str, frame: str, forces: tuple[str, ...], inputs: list[np.ndarray]
) -> np.ndarray:
    """Returns the flattened results of `Dynamics` (n, ...)."""
    dyn, out = qd.Dynamics(robot), []
    for q, v, a, f in zip(*inputs, strict=True):
        fext = {name: f[6 * k : 6 * k + 6] for k, name in enumerate(forces)}
        out.append(dynamics_result(dyn, what, frame, q, v, a, fext).ravel())
    return np.array(out)


ARGUMENTS = {name: recipe.arguments for name, recipe in OPERATIONS.items() if name != "base_regressor"}
SUBJECTS: dict[str, Any] = {
    "ur5": lambda: qd.load("ur5", armature=0.1),
    "go2": lambda: qd.load("go2"),
    "continuous": lambda: qd.load("double_pendulum_continuous"),
    "any": lambda: random_robot(8, 12),
    "other": lambda: random_robot(7, 12),
}


@pytest.mark.parametrize("what", ARGUMENTS)
@pytest.mark.parametrize("name", SUBJECTS)
def test_every_traced_operation_equals_dynamics(name: str, what: str) -> None:
    robot = SUBJECTS[name]()
    frame, forces = robot.frame_names[-1], (robot.frame_names[-1], robot.frame_names[0])
    recipe, rng = OPERATIONS[what], np.random.default_rng(5)
    q, v, a = random_states(robot, rng, 3)
    f = rng.normal(size=(3, 12)) * 20
    program = trace(what, robot, forces=forces, frame=frame if recipe.needs_frame else None)
    given = {"q": q, "v": v, "a": a, "tau": a, "fext": f}
    got = evaluate(program, *(given[n] for n, _ in program.inputs))
    expected = results_of_dynamics(robot, what, frame, forces, [q, v, a, f])
    digits = 1e-12 * (1.0 if what != "aba" else max(1.0, np.linalg.cond(qd.Dynamics(robot).crba(q[0])) / 1e3))
    assert np.abs(got - expected).max() <= digits * max(np.abs(expected).max(), 1.0)


@pytest.mark.parametrize("seed", others_slow(range(3), {0, 2}))
def test_base_regressor_times_runtime_parameters_equals_torque(seed: int) -> None:
    robot = qd.load("go2", friction=0.2) if seed == 2 else random_robot(seed + 30, 10)
    q, v, a = random_states(robot, np.random.default_rng(seed), 4)
    columns, torque = trace("base_regressor", robot), trace("rnea", robot, runtime=True)
    k = columns.outputs[0][1][1]
    beta = np.random.default_rng(seed).normal(size=dict(torque.inputs)["parameters"])
    beta[k:] = 0.0  # friction and rotors
    H = evaluate(columns, q, v, a).reshape(4, robot.nv, k)
    assert max_relative_error(H @ beta[:k], evaluate(torque, q, v, a, np.tile(beta, (4, 1)))) < 1e-12


def test_frame_names_refer_to_same_frames_as_in_dynamics() -> None:
    for robot in (qd.load("solo12"), qd.load("small_quadruped", root="planar"), random_robot(8, 12)):
        dyn, (q, _, _) = qd.Dynamics(robot), random_states(robot, np.random.default_rng(6), 1)
        for frame in robot.frame_names:
            got = evaluate(trace("frame_jacobian", robot, frame=frame), q).reshape(6, -1)
            assert np.abs(got - dyn.frame_jacobian(q[0], frame)).max() < 1e-12, frame


def test_compiled_operations_accept_states_and_batches(go2: qd.Robot, states: Any) -> None:
    fast = qd.compile(go2, ("crba", "aba", "frame_jacobian", "frame_drift"), frames=("FL", "RR_calf"), forces=("FL",))
    dyn, (q, v, a) = qd.Dynamics(go2), states
    M, f = fast.crba(q), np.tile([1.0, 2.0, 30.0], (len(q), 1))
    J, drifts = fast.frame_jacobian(q, "FL"), fast.frame_drift(q, v, name="RR_calf")
    accelerations = fast.aba(q, v, a, fext={"FL": f})
    assert M.shape == (len(q), 18, 18) and J.shape == (len(q), 6, 18)
    for k in (0, 8, 36):
        assert max_relative_error(M[k], dyn.crba(q[k])) < 1e-13 and np.array_equal(M[k], M[k].T)
        assert max_relative_error(J[k], dyn.frame_jacobian(q[k], "FL")) < 1e-13
        assert max_relative_error(drifts[k], dyn.frame_drift(q[k], v[k], "RR_calf")) < 1e-13
        assert max_relative_error(accelerations[k], dyn.aba(q[k], v[k], a[k], fext={"FL": f[k]})) < 1e-11
        assert max_relative_error(fast.aba(q[k], v[k], a[k]), dyn.aba(q[k], v[k], a[k])) < 1e-11
    assert set(fast.operations) >= {"crba", "frame_jacobian:FL", "frame_drift:RR_calf"}
    raises(qd.UnknownNameError, "FR", fast.frame_jacobian, q, "FR")
    raises(qd.UnknownNameError, "forces", fast.aba, q, v, a, fext={"RL": f})
    raises(qd.ArgumentError, "fext", fast.aba, q, v, a, fext={"FL": np.zeros(4)})
    raises(qd.ArgumentTypeError, "expected the name of a frame as the last argument, got none", fast.frame_jacobian)
    with pytest.raises(qd.UnknownNameError):
        qd.compile(go2, "frame_jacobian", frames=("tail",))
    with pytest.raises(qd.ArgumentError, match="feet"):
        qd.compile(qd.load("ur5"), "frame_jacobian")


def test_splitting_long_programs_preserves_results(monkeypatch: pytest.MonkeyPatch) -> None:
    """The parts of a program pass values through memory; smaller parts pass more values."""
    robot = qd.load("two_link_leg")
    q, v, a = random_states(robot, np.random.default_rng(2), 11)
    expected = results_of_dynamics(robot, "rnea_derivatives", "", (), [q, v, a, a])
    for part, stores in ((1200, 400), (20, 400), (7, 8)):
        monkeypatch.setenv("QUADDYN_CACHE", "")
        monkeypatch.setattr(llvm_body, "MAX_OPERATIONS_PER_FUNCTION", part)
        monkeypatch.setattr(llvm_body, "MAX_STORES_PER_FUNCTION", stores)
        parts = qd.compile(robot, "rnea_derivatives").rnea_derivatives(q, v, a)
        assert parts._fields == ("dtau_dq", "dtau_dv", "dtau_da")
        assert max_relative_error(np.stack(parts, axis=1).reshape(11, -1), expected) < 1e-13
        single = qd.compile(robot, "rnea_derivatives").rnea_derivatives(q[0], v[0], a[0])
        assert max_relative_error(np.stack(single).ravel(), expected[0]) < 1e-13


def test_batches_of_any_size_are_computed_and_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows after the last whole vector are computed one by one, or with the rows before them."""
    robot = qd.load("ur5")
    q, v, a = random_states(robot, np.random.default_rng(2), 2 * 16 + 3)
    monkeypatch.setenv("QUADDYN_CACHE", "")
    fast = qd.compile(robot, "rnea")
    expected = inverse_dynamics(robot, q, v, a)
    for n in range(len(q) + 1):
        guard = np.full((n + 1, robot.nv), 7.0)
        fast.rnea(q[:n].copy(), v[:n].copy(), a[:n].copy(), out=guard[:n])
        assert n == 0 or max_relative_error(guard[:n], expected[:n]) < 1e-12
        assert (guard[n] == 7.0).all()
        if n:
            broken = a[:n].copy()
            broken[-1, 3] = np.nan
            with pytest.raises(qd.ArgumentError, match=rf"a\[{n - 1}, 3\] = nan"):
                fast.rnea(q[:n].copy(), v[:n].copy(), broken)


@pytest.mark.parametrize("joints", others_slow((12, 20, 40), {12}))
def test_long_chains_use_articulated_body_algorithm(joints: int) -> None:
    """Forward dynamics uses the algorithm with fewer operations; a sparse factorization grows faster than the chain."""
    rng = np.random.default_rng(joints)
    robot = qd.load(random_tree(rng, joints, chain=True), root="fixed", armature=0.02)
    costs = {
        way: forward_cost(robot, way)
        for way in (forward_dynamics.solve_by_factorization, forward_dynamics.solve_by_articulated_bodies)
    }
    chosen = trace_operation("aba", robot, KernelOptions()).operations
    assert chosen.mul + chosen.add <= 1.001 * costs[forward_dynamics.solve_by_articulated_bodies]
    assert (
        costs[forward_dynamics.solve_by_articulated_bodies]
        < (0.9, 0.65, 0.4)[(12, 20, 40).index(joints)] * costs[forward_dynamics.solve_by_factorization]
    )
    q, v, a = random_states(robot, rng, 5)
    data = robot.model.createData()
    tau = np.array([pin.rnea(robot.model, data, *x) for x in zip(q, v, a, strict=True)])
    digits = 1e-13 * np.linalg.cond(qd.Dynamics(robot).crba(q[0]))
    assert max_relative_error(qd.compile(robot, "aba").aba(q, v, tau), a) < digits


def forward_cost(robot: qd.Robot, way: Any) -> int:
    """Number of multiplications and additions of one forward dynamics algorithm."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(operations, "FORWARD_DYNAMICS_SOLVERS", (way,))
        counts = trace_operation("aba", robot, KernelOptions()).operations
    return counts.mul + counts.add


# -- calls -------------------------------------------------------------------------------------------------------
def test_out_is_written_and_returned(fast: qd.Kernels, states: Any) -> None:
    q, v, a = states
    wanted = fast.rnea(q, v, a)
    out = np.full_like(wanted, np.nan)
    assert fast.rnea(q, v, a, out=out) is out and np.array_equal(out, wanted)
    strided = np.full((len(q), 36), np.nan)[:, ::2]
    assert fast.rnea(q, v, a, out=strided) is strided and np.array_equal(strided, wanted)
    shared = v.copy()  # the result overwrites an argument
    assert fast.rnea(q, shared, a, out=shared) is shared and np.array_equal(shared, wanted)


def test_strided_and_single_precision_arguments_are_converted(fast: qd.Kernels, states: Any) -> None:
    q, v, a = states
    wanted = fast.rnea(q, v, a)
    assert np.array_equal(fast.rnea(np.asfortranarray(q), np.asfortranarray(v), a), wanted)
    assert np.array_equal(fast.rnea(q, np.repeat(v, 2, axis=1)[:, ::2], a), wanted)
    rounded = v.astype(np.float32)
    assert np.array_equal(fast.rnea(q, rounded, a), fast.rnea(q, rounded.astype(float), a))
    swapped = v.astype(">f8")
    assert np.array_equal(fast.rnea(q, swapped, a), wanted)


def test_number_of_threads_is_limited_by_min_rows_per_thread(
    fast: qd.Kernels, states: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[int] = []

    def pool(threads: int) -> ThreadPoolExecutor:
        started.append(threads)
        return ThreadPoolExecutor(threads)

    monkeypatch.setattr(kernels, "ThreadPoolExecutor", pool)
    q, v, a = (np.tile(x, (30, 1)) for x in states)
    assert np.array_equal(fast.rnea(q, v, a, threads=100_000), fast.rnea(q, v, a))
    assert started == [len(q) // kernels.MIN_ROWS_PER_THREAD]


def test_kernels_are_thread_safe(fast: qd.Kernels, states: Any) -> None:
    q, v, a = states
    wanted, wrong = fast.rnea(q, v, a), []

    def work() -> None:
        for _ in range(50):
            if not np.array_equal(fast.rnea(q, v, a), wanted):
                wrong.append(1)

    workers = [threading.Thread(target=work) for _ in range(4)]
    for w in workers:
        w.start()
    for w in workers:
        w.join()
    assert not wrong


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        (lambda q, v, a: (q[:-1], v, a), qd.ArgumentError, r"q: expected shape \(19,\)"),
        (lambda q, v, a: (q, v[None], a), qd.ArgumentError, "v: has shape"),
        (lambda q, v, a: (q[None], v, a), qd.ArgumentError, "v: has shape"),
        (lambda q, v, a: (q, v, a[None, None]), qd.ArgumentError, "a: expected shape"),
        (lambda q, v, a: (list(q), v, a), qd.ArgumentTypeError, "q: expected a numpy array"),
        (lambda q, v, a: (q, v.astype(int), a), qd.ArgumentTypeError, "int64"),
        (lambda q, v, a: (q, v.astype(complex), a), qd.ArgumentTypeError, "complex"),
        (lambda q, v, a: (q, v.view(np.recarray), a), qd.ArgumentTypeError, "v: expected a numpy array"),
        (lambda q, v, a: (q, v, None), qd.ArgumentTypeError, "a: expected a numpy array"),
        (lambda q, v, a: (q, v), qd.ArgumentTypeError, "'a' is missing"),
        (lambda q, v, a: (q, v, a, a), qd.ArgumentTypeError, "4 arguments"),
        (lambda q, v, a: (q, v, np.where(np.arange(18) == 7, np.nan, a)), qd.ArgumentError, r"a\[7\] = nan"),
        (lambda q, v, a: (q, np.where(np.arange(18) == 3, -np.inf, v), a), qd.ArgumentError, r"v\[3\] = -inf"),
        (lambda q, v, a: (q * 1.01, v, a), qd.ArgumentError, "norm 1.01"),
        (lambda q, v, a: (q + 1e10 * (np.arange(19) == 9), v, a), qd.ArgumentError, "entry 9 exceeds"),
        (lambda q, v, a: (q, v * 1e200, a), qd.ArgumentError, "overflows"),
    ],
)
def test_invalid_argument_is_named_in_error(
    fast: qd.Kernels, states: Any, change: Any, error: type[Exception], words: str
) -> None:
    q, v, a = (x[0].copy() for x in states)
    with pytest.raises(error, match=words):
        fast.rnea(*change(q, v, a))


def test_invalid_row_of_batch_is_named(fast: qd.Kernels, states: Any) -> None:
    q, v, a = (x.copy() for x in states)
    v[20, 4] = np.nan
    raises(qd.ArgumentError, r"v\[20, 4\] = nan", fast.rnea, q, v, a)
    v[20, 4], q[36, 3:7] = 0.0, 0.1
    raises(qd.ArgumentError, r"q\[36\]: the quaternion", fast.rnea, q, v, a)


def test_invalid_out_arrays_and_options_are_rejected(fast: qd.Kernels, go2: qd.Robot, states: Any) -> None:
    q, v, a = (x[0] for x in states)
    frozen = np.zeros(18)
    frozen.flags.writeable = False
    for out, words in ((frozen, "read-only"), (np.zeros(17), "shape"), (np.zeros(18, np.float32), "float64")):
        raises(qd.ArgumentError, words, fast.rnea, q, v, a, out=out)
    raises(qd.ArgumentError, "threads", fast.rnea, q, v, a, threads=0)
    raises(qd.ArgumentTypeError, "'w'", fast.rnea, q, v, a, w=1)
    raises(qd.UnknownNameError, "rnea", qd.compile, go2, ("rnae",))
    raises(qd.ArgumentError, "dtype", qd.compile, go2, dtype=np.float16)
    raises(qd.ArgumentError, "runtime", qd.compile, go2, parameters="variable")
    raises(qd.ArgumentError, "expected at least one operation", qd.compile, go2, ())
    raises(qd.ArgumentTypeError, "Robot", qd.compile, "go2")
    assert {"rnea", "nle", "gravity"} <= set(OPERATIONS)
    with pytest.raises(AttributeError):
        fast.nonsense  # noqa: B018


def test_operation_that_is_not_compiled_is_not_an_attribute(fast: qd.Kernels) -> None:
    assert not hasattr(fast, "base_regressor")
    with pytest.raises(qd.UnknownNameError, match=r"'base_regressor' is not one of .*'rnea'.*qd.compile"):
        _ = fast.base_regressor


def test_force_frames_are_unique_and_forces_are_optional(go2: qd.Robot, states: Any) -> None:
    raises(qd.ArgumentError, "each frame once", qd.compile, go2, forces=("FL", "FL"))
    q, v, a = (x[0] for x in states)
    pushed = qd.compile(go2, forces=("FL",))
    assert np.array_equal(pushed.rnea(q, v, a, fext=None), pushed.rnea(q, v, a))


def test_out_arrays_that_share_memory_are_rejected(states: Any) -> None:
    robot = qd.load("two_link_leg")
    q, v, a = (x[0] for x in random_states(robot, np.random.default_rng(0), 1))
    fast = qd.compile(robot, ("rnea_derivatives", "aba"), parameters="runtime")
    same, apart = np.zeros((2, 2)), np.zeros((2, 2, 3))
    raises(qd.ArgumentError, "share memory", fast.rnea_derivatives, q, v, a, out=(same, same, np.zeros((2, 2))))
    out = fast.rnea_derivatives(q, v, a, out=tuple(np.moveaxis(apart, 2, 0)))
    assert all(np.array_equal(x, y) for x, y in zip(out, fast.rnea_derivatives(q, v, a), strict=True))
    with pytest.raises(qd.ArgumentError, match="singular"):
        fast.aba(q, v, a, np.zeros(len(fast.parameters)))
    with pytest.raises(ValueError, match="read-only"):
        fast.parameters[0] = 1.0


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_several_results_are_separate_parts_of_one_block_of_memory(dtype: Any) -> None:
    robot = qd.load("two_link_leg")
    fast = qd.compile(robot, ("rnea_derivatives",), dtype=dtype)
    for n in (1, 3, 64):
        results = fast.rnea_derivatives(*(x.astype(dtype) for x in random_states(robot, np.random.default_rng(0), n)))
        assert len({id(x.base) for x in results}) == 1
        assert not any(np.may_share_memory(x, y) for x, y in itertools.combinations(results, 2))


def test_read_only_arguments_are_accepted(fast: qd.Kernels, states: Any) -> None:
    q, v, a = (x.copy() for x in states)
    for x in (q, v, a):
        x.flags.writeable = False
    assert np.array_equal(fast.rnea(q, v, a), fast.rnea(*states))


def test_pickled_kernels_give_same_results(fast: qd.Kernels, states: Any) -> None:
    again = pickle.loads(pickle.dumps(fast))
    assert np.array_equal(again.rnea(*states), fast.rnea(*states))
    assert again.operations == fast.operations


def test_kernel_function_remains_valid_after_its_kernels_are_deleted() -> None:
    """Machine code is freed when the last object that can call it is deleted."""
    robot, x = qd.load("two_link_leg"), np.ones(2)
    wanted = qd.compile(robot, ("rnea", "crba")).rnea(x, x, x)
    gc.freeze()  # excludes objects of other tests from the collection
    try:
        for _ in range(2):
            rnea = qd.compile(robot, ("rnea", "crba")).rnea
            gc.collect()
            assert np.array_equal(rnea(x, x, x), wanted)
            code = weakref.ref(rnea.__self__.code.engine)
            del rnea
            gc.collect()
            assert code() is None
    finally:
        gc.unfreeze()


# -- the machine -------------------------------------------------------------------------------------------------
def test_fast_call_path_is_used_and_array_layout_is_checked(fast: qd.Kernels) -> None:
    assert type(fast.rnea).__name__ == "builtin_function_or_method"
    assert python_calls.has_expected_array_layout(np.dtype(np.float64))
    assert "instructions" in (fast.rnea.__doc__ or "")


def test_matching_arrays_bypass_python(
    fast: qd.Kernels, go2: qd.Robot, states: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In single calls and batches, with and without `out`, only the kernel runs; reference counts do not change."""
    every = qd.compile(go2, ("rnea", "crba", "aba"))
    given = {"rnea": states, "crba": states[:1], "aba": states}
    wanted = {name: getattr(every, name)(*x) for name, x in given.items()}

    def never(*_: object, **__: object) -> None:
        raise AssertionError("the slow way was taken")

    monkeypatch.setattr(kernels.Operation, "__call__", never)
    for name, arrays in given.items():
        call = getattr(every, name)
        for n in (None, 1, 7, 40):
            these = [x[0].copy() if n is None else x[:n].copy() for x in arrays]
            right = wanted[name][0 if n is None else slice(n)]
            out = np.full_like(right, np.nan)
            counts = [sys.getrefcount(x) for x in (out, *these)]
            for _ in range(3):
                assert call(*these, out=out) is out
            assert counts == [sys.getrefcount(x) for x in (out, *these)]
            assert np.array_equal(out, call(*these))
            assert np.abs(out - right).max() <= 1e-12 * np.abs(right).max()


def test_out_array_that_does_not_match_uses_checked_call_path(fast: qd.Kernels, states: Any) -> None:
    """An array that does not match, or overlaps an argument partly, is converted or rejected before it is written."""
    q, v, a = states
    wanted = fast.rnea(q, v, a)
    memory = np.zeros(3 * v.size)
    for shift in (0, 1, v.size - 1, v.size, v.size + 1):  # adjacent to, overlapping and directly behind an argument
        inside = memory[v.size : 2 * v.size].reshape(v.shape)
        inside[:] = v
        out = memory[shift : shift + v.size].reshape(v.shape)
        assert np.array_equal(fast.rnea(q, inside, a, out=out), wanted)
    n = len(q)
    frozen = np.zeros((n, 18))
    frozen.flags.writeable = False
    swapped = np.zeros((n, 18), dtype=np.dtype(np.float64).newbyteorder())
    wrong = (np.zeros((n + 1, 18)), np.zeros((n, 17)), np.zeros(18), np.zeros((1, n, 18)), frozen, swapped, None, [0.0])
    for out in (*wrong[:-2], wrong[-1]):
        before = np.array(out)
        raises(qd.ArgumentError, "out", fast.rnea, q, v, a, out=out)
        assert np.array_equal(np.array(out), before)
    assert np.array_equal(fast.rnea(q, v, a, out=None), wanted)
    raises(qd.ArgumentTypeError, "'a' is missing", fast.rnea, q, v, out=np.zeros((n, 18)))


@pytest.mark.parametrize(("name", "value"), [("_ABI", 0x03000000), ("has_expected_array_layout", lambda dtype: False)])
def test_unknown_numpy_uses_checked_call_path(
    name: str, value: object, monkeypatch: pytest.MonkeyPatch, states: Any
) -> None:
    monkeypatch.setattr(kernel_cache, name, value)
    fast = qd.compile(qd.load("go2", damping=0.1, friction=0.2, armature=0.01), "rnea")
    assert type(fast.rnea).__name__ == "Kernel"
    q, v, a = states
    assert fast.rnea(q, v, a).shape == v.shape and fast.rnea(q[0], v[0], a[0]).shape == (18,)


def test_cached_kernels_are_listed_with_robot_and_operation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUADDYN_CACHE", str(tmp_path / "own"))
    robot = qd.load("two_link_leg")
    qd.compile(robot, ("rnea", "crba"))
    (tmp_path / "own" / "kernel-0.bin").write_bytes(b"damaged")
    kept = list(kernel_cache.cached_kernels())
    assert sorted((each.robot, each.what) for each in kept) == [(robot.name, "crba"), (robot.name, "rnea")]
    assert all(each.size == each.file.stat().st_size for each in kept)
