"""Gradients of compiled operations: against differences, other derivatives, and the checks of PyTorch and JAX."""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest
from finite_differences import derivative
from loop_robots import knee_leg
from raising import raises
from slow_parameters import others_slow
from test_mimic import machine

import quaddyn as qd
from quaddyn.errors import ArgumentTypeError, UnknownNameError
from quaddyn.kernels import DifferentiableDynamics
from quaddyn.kernels.differentiable import DifferentiableOperation
from quaddyn.kernels.operations import DIFFERENTIABLE_OPERATIONS, KernelOptions, start_trace

ROBOTS: dict[str, Callable[[], qd.Robot]] = {
    "arm": lambda: qd.load("ur5"),
    "quadruped": lambda: qd.load("go2"),
    "continuous": lambda: qd.load("double_pendulum_continuous"),
    "mimic": lambda: qd.load(machine(), root="free", armature=0.1),
    "loop": lambda: qd.load(knee_leg(), root="free", armature=0.01),
}
#: Relative error of central differences of fourth order.
DIFFERENCE_ERROR = 1e-7


@cache
def load(name: str) -> qd.Robot:
    return ROBOTS[name]()


class ArrayDynamics(DifferentiableDynamics[Any]):
    """Operations on arrays of NumPy, and their gradients, without a library for automatic differentiation."""

    def _load_library(self) -> None:
        pass

    def _apply(self, operation: DifferentiableOperation, arguments: Sequence[tuple[str, Any, Any]]) -> Any:
        arrays = [np.asarray(default if x is None else x) for _, x, default in arguments]
        arrays = [x.astype(arrays[0].dtype) for x in arrays]
        lead = operation.batch_shape([x.shape for x in arrays])
        self.operation, self.arrays = operation, [np.broadcast_to(x, (*lead, x.shape[-1])) for x in arrays]
        self.result = operation.value(self.arrays)
        return self.result

    def gradient(self, cotangent: np.ndarray) -> dict[str, np.ndarray]:
        """Gradient of the latest call by each argument."""
        rest = [self.result] if self.operation.uses_result else []
        parts = self.operation.gradient(self.arrays, *rest, cotangent)
        return dict(zip((name for name, _ in self.operation.arguments), parts, strict=True))


def draw(robot: qd.Robot, n: int = 3) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Configurations (n, nq) within the joint limits, velocities and accelerations (n, nv)."""
    rng = np.random.default_rng(n)
    return np.stack([robot.random_configuration(k) for k in range(n)]), *rng.normal(size=(2, n, robot.nv))


def call(dyn: DifferentiableDynamics[Any], name: str, state: Sequence[Any], **optional: Any) -> Any:
    """Calls an operation with its arguments of (q, v, a) and the last frame of the robot."""
    definition = DIFFERENTIABLE_OPERATIONS[name]
    frame = (dyn.robot.frame_names[-1],) if definition.needs_frame else ()
    return getattr(dyn, name)(*state[: len(definition.arguments)], *frame, **optional)


# -- the kernels ------------------------------------------------------------------------------------------------------
#: Robot and operation of the cases that are not slow.
QUICK = {
    ("loop", "rnea"),
    ("loop", "aba"),
    ("continuous", "aba"),
    *(("mimic", what) for what in DIFFERENTIABLE_OPERATIONS),
}


@pytest.mark.parametrize(("name", "what"), others_slow(itertools.product(ROBOTS, DIFFERENTIABLE_OPERATIONS), QUICK))
def test_gradients_equal_differences(name: str, what: str) -> None:
    robot = load(name)
    definition = DIFFERENTIABLE_OPERATIONS[what]
    forces = (robot.frame_names[-1],) if definition.has_external_forces else ()
    dyn = ArrayDynamics(robot, parameters="runtime", friction=True, forces=forces)
    rng = np.random.default_rng(2)
    call(dyn, what, draw(robot))
    if "fext" in dict(dyn.operation.arguments):
        call(dyn, what, draw(robot), fext=rng.normal(size=6))
    operation, arrays = dyn.operation, dyn.arrays
    weights = rng.normal(size=dyn.result.shape)
    for k, (argument, got) in enumerate(dyn.gradient(weights).items()):
        assert got.shape == arrays[k].shape
        direction = rng.normal(size=got.shape)

        def along(t: float, k: int = k, direction: np.ndarray = direction) -> np.ndarray:
            moved = [x + t * direction if j == k else x for j, x in enumerate(arrays)]
            return np.asarray((weights * operation.value(moved)).reshape(len(weights), -1).sum(axis=1))

        step = 1e-4 * np.abs(arrays[k]).max() / np.abs(direction).max() if argument == "parameters" else 1e-4
        expected = derivative(along, step)
        scale = np.abs(got * direction).sum(axis=1).max()
        assert np.abs((got * direction).sum(axis=1) - expected).max() <= DIFFERENCE_ERROR * max(1.0, scale), argument


@pytest.mark.parametrize("name", ["mimic", "continuous"])
def test_quaternions_and_pairs_are_divided_by_their_norm(name: str) -> None:
    robot = load(name)
    dyn, (q, v, a) = ArrayDynamics(robot), draw(robot)
    expected, weights = dyn.rnea(q, v, a), np.random.default_rng(1).normal(size=v.shape)
    at_unit = dyn.gradient(weights)["q"]
    scaled = q.copy()
    assert robot.unit_norm_slices
    for k, (_, first, size) in enumerate(robot.unit_norm_slices):
        part = np.s_[:, first : first + size]
        scaled[part] *= 0.3 + 0.4 * (k % 3)
        radial = np.einsum("ni,ni->n", at_unit[part], q[part])
        assert np.abs(radial).max() < 1e-10 * np.abs(at_unit).max()
    assert np.allclose(dyn.rnea(scaled, v, a), expected, rtol=1e-10, atol=1e-10)
    at_scaled = dyn.gradient(weights)["q"]
    for k, (_, first, size) in enumerate(robot.unit_norm_slices):
        part = np.s_[:, first : first + size]
        assert np.allclose(at_scaled[part] * (0.3 + 0.4 * (k % 3)), at_unit[part], rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("norm", [0.0, 0.09, 1.5, 1e200])
def test_norms_that_are_zero_or_large_raise(norm: float) -> None:
    robot = load("mimic")
    dyn, (q, v, a) = ArrayDynamics(robot), draw(robot, 9)
    dyn.rnea(q, v, a)
    q[4, 3:7] *= norm
    raises(qd.ArgumentError, r"q\[4\]: the quaternion .* not between 0.1 and 1.41; divide it", dyn.rnea, q, v, a)
    dyn.arrays[0] = q
    raises(qd.ArgumentError, r"q\[4\]: the quaternion", dyn.gradient, v)


def test_frame_poses_equal_those_of_dynamics() -> None:
    for name in ("mimic", "loop"):
        robot = load(name)
        dyn, slow, (q, _, _) = ArrayDynamics(robot), qd.Dynamics(robot), draw(robot)
        for frame in (robot.frame_names[-1], robot.frame_names[0]):
            positions, rotations = dyn.frame_position(q, frame), dyn.frame_rotation(q, frame)
            for k in range(len(q)):
                pose = slow.frame_placement(q[k], frame)
                assert np.allclose(positions[k], pose.translation, atol=1e-12)
                assert np.allclose(rotations[k], pose.rotation, atol=1e-12)


def test_leading_axes_are_broadcast_and_threads_change_nothing() -> None:
    robot = load("continuous")
    dyn, (q, v, a) = ArrayDynamics(robot), draw(robot, 200)
    tau = dyn.rnea(q.reshape(4, 50, -1), v.reshape(4, 50, -1), a[:50])
    gradient = dyn.gradient(tau)
    assert tau.shape == (4, 50, robot.nv) and gradient["q"].shape == (4, 50, robot.nq)
    assert np.array_equal(dyn.rnea(q[3], v[3], a[3]), tau[0, 3])
    assert np.array_equal(dyn.gradient(tau[0, 3])["q"], gradient["q"][0, 3])
    threaded = ArrayDynamics(robot, threads=2)
    assert np.array_equal(threaded.rnea(q, v, np.tile(a[:50], (4, 1))), tau.reshape(200, -1))
    assert np.array_equal(threaded.gradient(threaded.result)["v"], gradient["v"].reshape(200, -1))
    assert dyn.rnea(q[:0], v[:0], a[:0]).shape == (0, robot.nv)
    assert dyn.gradient(dyn.result)["q"].shape == (0, robot.nq)


def test_float32_gradients_are_those_of_float64() -> None:
    robot = load("continuous")
    dyn, state = ArrayDynamics(robot), draw(robot)
    for what in ("rnea", "aba"):
        getattr(dyn, what)(*state)
        weights = np.random.default_rng(1).normal(size=dyn.result.shape)
        exact = dyn.gradient(weights)
        getattr(dyn, what)(*(x.astype(np.float32) for x in state))
        for name, got in dyn.gradient(weights.astype(np.float32)).items():
            assert got.dtype == np.float32
            assert np.abs(got - exact[name]).max() < 1e-4 * np.abs(exact[name]).max()


def test_copies_have_the_same_options() -> None:
    robot = load("continuous")
    dyn, (q, v, a) = ArrayDynamics(robot, parameters="runtime", friction=True, threads=2), draw(robot)
    expected = dyn.rnea(q, v, a)
    other = pickle.loads(pickle.dumps(dyn))
    assert np.array_equal(other.rnea(q, v, a), expected)
    assert other.threads == 2 and other.parameter_names == dyn.parameter_names
    assert not np.allclose(ArrayDynamics(robot).rnea(q, v, a), expected)


def test_errors_name_the_argument() -> None:
    robot = load("continuous")
    dyn, (q, v, a) = ArrayDynamics(robot), draw(robot)
    with pytest.raises(qd.ArgumentError, match=rf"q: expected shape \(\.\.\., {robot.nq}\) for .*, got \(3, 3\)"):
        dyn.rnea(q[:, :3], v, a)
    raises(qd.ArgumentError, r"q \(3, .*, v \(2, .*: the leading axes cannot be broadcast", dyn.rnea, q, v[:2], a)
    with pytest.raises(qd.ArgumentError, match=r"v: every entry must be finite, got v\[1, 0\] = nan"):
        dyn.rnea(q, np.where(np.arange(3)[:, None] == 1, np.nan, v), a)
    with pytest.raises(qd.ArgumentError, match=r"fext: not accepted, because ArrayDynamics .* without forces="):
        dyn.rnea(q, v, a, fext=np.zeros(6))
    with pytest.raises(qd.ArgumentError, match=r'parameters: not accepted, .* without parameters="runtime"'):
        dyn.aba(q, v, a, parameters=np.zeros(4))
    raises(UnknownNameError, "frame", dyn.frame_position, q, "tail")
    raises(ArgumentTypeError, "name: expected the name of a frame, got int", dyn.frame_position, q, 3)
    raises(qd.ArgumentError, "threads: expected a positive int, got 0", ArrayDynamics, robot, threads=0)


@pytest.mark.parametrize("name", ROBOTS)
def test_groups_of_unit_norm_are_those_of_the_robot(name: str) -> None:
    """The entries that `start_trace` normalizes are the ones that kernels check."""
    robot = load(name)
    definition = DIFFERENTIABLE_OPERATIONS["gravity"]
    t, _ = start_trace(definition, robot, KernelOptions(normalized=True), None)
    divided = {k for k, x in enumerate(t.inputs["q"]) if x.ref != t.graph.input(k).ref}
    checked = ArrayDynamics(robot)
    checked.gravity(draw(robot)[0])
    kernel = checked.operation._build("value", np.dtype(np.float64))
    assert divided == {k for group in kernel.signature.units for k in group}


# -- PyTorch ----------------------------------------------------------------------------------------------------------
@pytest.fixture
def torch() -> Any:
    return pytest.importorskip("torch")


@pytest.mark.slow
@pytest.mark.parametrize("what", DIFFERENTIABLE_OPERATIONS)
@pytest.mark.parametrize("name", ROBOTS)
def test_gradients_pass_gradcheck_of_pytorch(name: str, what: str, torch: Any) -> None:
    from quaddyn.torch import TorchDynamics

    robot = load(name)
    definition = DIFFERENTIABLE_OPERATIONS[what]
    forces = (robot.frame_names[-1],) if definition.has_external_forces else ()
    dyn = TorchDynamics(robot, parameters="runtime", friction=True, forces=forces)
    state = [torch.tensor(x, requires_grad=True) for x in draw(robot, 2)[: len(definition.arguments)]]
    optional = {"parameters": torch.tensor(dyn.parameters)} if definition.has_mass_properties else {}
    if forces:
        optional["fext"] = torch.tensor([1.0, -2.0, 3.0, 0.5, 0.2, -0.3], dtype=torch.float64)
    for x in optional.values():
        x.requires_grad_()

    def function(*tensors: Any) -> Any:
        return call(dyn, what, tensors, **dict(zip(optional, tensors[len(state) :], strict=True)))

    assert torch.autograd.gradcheck(function, (*state, *optional.values()), atol=1e-5, rtol=1e-5)


@pytest.mark.slow
def test_pytorch_functions_work_in_batches_and_without_copies(torch: Any) -> None:
    from quaddyn.torch import TorchDynamics

    robot = load("quadruped")
    dyn, (q, v, x) = TorchDynamics(robot), map(torch.tensor, draw(robot))
    derivatives = qd.compile(robot, "aba_derivatives").aba_derivatives(*map(np.asarray, (q, v, x)))
    by_v, by_tau = torch.func.vmap(torch.func.jacrev(dyn.aba, argnums=(1, 2)))(q, v, x)
    assert np.allclose(by_v, derivatives.da_dv) and np.allclose(by_tau, derivatives.da_dtau)
    rows = torch.func.vmap(dyn.aba, in_dims=(0, 1, None))(q, v.T, x[0])
    assert torch.equal(rows, dyn.aba(q, v, x[0]))
    single = q.float().requires_grad_()
    dyn.rnea(single, v.float(), x.float()).sum().backward()
    assert single.grad.dtype == torch.float32 and single.grad.shape == q.shape
    seen = list[Any]()
    operation = dyn._operation("rnea", None)
    compute = operation.value
    operation.value = lambda arrays: seen.extend(arrays) or compute(arrays)  # type: ignore[method-assign]
    dyn.rnea(q, v, x)
    assert [a.__array_interface__["data"][0] for a in seen] == [t.data_ptr() for t in (q, v, x)]


@pytest.mark.slow
def test_pytorch_passes_tensors_to_kernels_on_a_gpu(torch: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tensors of this test are on the CPU and say that they are on a GPU; a kernel of the CPU takes their rows."""
    from quaddyn.torch import TorchDynamics

    def on_gpu(operation: DifferentiableOperation, part: str, dtype: np.dtype[Any], index: Any) -> Any:
        kernel = operation._build(part, dtype)

        def run(*tensors: Any) -> Any:
            assert all(x.ndim == 2 and x.stride(1) == 1 for x in tensors)
            found = kernel(*(x.numpy() for x in tensors))
            return tuple(map(torch.from_numpy, found)) if part == "gradient" else torch.from_numpy(found)

        run.signature = kernel.signature  # type: ignore[attr-defined]
        return run

    def call() -> list[Any]:
        q, v, tau = (torch.tensor(x, requires_grad=True) for x in draw(load("continuous")))
        a = TorchDynamics(load("continuous")).aba(q.expand(2, *q.shape), v.T.contiguous().T, tau[0])
        M = TorchDynamics(load("continuous")).crba(q)
        return [a, M, *torch.autograd.grad((a**2).sum() + M.sum(), (q, v, tau))]

    want = call()
    monkeypatch.setattr(DifferentiableOperation, "on_gpu", on_gpu)
    monkeypatch.setattr(torch.Tensor, "is_cuda", True)
    for x, y in zip(want, call(), strict=True):
        assert torch.equal(x, y)


@pytest.mark.slow
def test_pytorch_errors_name_the_argument(torch: Any) -> None:
    from quaddyn.torch import TorchDynamics

    robot = load("continuous")
    dyn, arrays = TorchDynamics(robot), draw(robot)
    q, v, a = map(torch.tensor, arrays)
    raises(ArgumentTypeError, r"q: expected a torch.Tensor, got ndarray", dyn.rnea, arrays[0], v, a)
    with pytest.raises(ArgumentTypeError, match=r"v: expected the dtype torch.float64 as for q, got torch.float32"):
        dyn.rnea(q, v.float(), a)
    raises(ArgumentTypeError, r"q: expected the dtype float64 or float32, got torch.int64", dyn.rnea, q.long(), v, a)
    raises(qd.ArgumentError, r"v: expected a tensor on cpu as q, got one on meta", dyn.rnea, q, v.to("meta"), a)
    v.requires_grad_()
    (gradient,) = torch.autograd.grad(dyn.rnea(q, v, a).sum(), v, create_graph=True)
    raises(qd.ArgumentError, "rnea: second derivatives are not available", gradient.sum().backward)


# -- JAX --------------------------------------------------------------------------------------------------------------
@pytest.fixture
def jax() -> Iterator[Any]:
    jax = pytest.importorskip("jax")
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    yield jax
    jax.config.update("jax_enable_x64", before)


@pytest.mark.slow
@pytest.mark.parametrize("what", DIFFERENTIABLE_OPERATIONS)
@pytest.mark.parametrize("name", ROBOTS)
def test_gradients_pass_check_grads_of_jax(name: str, what: str, jax: Any) -> None:
    from jax.test_util import check_grads

    from quaddyn.jax import JaxDynamics

    robot = load(name)
    definition = DIFFERENTIABLE_OPERATIONS[what]
    forces = (robot.frame_names[-1],) if definition.has_external_forces else ()
    dyn = JaxDynamics(robot, parameters="runtime", friction=True, forces=forces)
    state = draw(robot, 2)[: len(definition.arguments)]
    optional = {"parameters": np.ones(len(dyn.parameters))} if definition.has_mass_properties else {}
    if forces:
        optional["fext"] = np.array([1.0, -2.0, 3.0, 0.5, 0.2, -0.3])

    def function(*arrays: Any) -> Any:
        named = dict(zip(optional, arrays[len(state) :], strict=True))
        if "parameters" in named:  # relative to the robot's own, as steps of differences are equal in all arguments
            named["parameters"] = named["parameters"] * dyn.parameters
        return call(dyn, what, arrays, **named)

    inputs, options = (*state, *optional.values()), {"atol": 1e-5, "rtol": 1e-5, "eps": 1e-5}
    check_grads(jax.jit(function), inputs, order=1, modes=["rev"], **options)


@pytest.mark.slow
def test_jax_functions_work_in_jit_and_vmap(jax: Any) -> None:
    from quaddyn.jax import JaxDynamics

    robot = load("quadruped")
    dyn, (q, v, x) = JaxDynamics(robot), draw(robot)
    derivatives = qd.compile(robot, "aba_derivatives").aba_derivatives(q, v, x)
    by_v, by_tau = jax.jit(jax.vmap(jax.jacrev(dyn.aba, argnums=(1, 2))))(q, v, x)
    assert np.allclose(by_v, derivatives.da_dv) and np.allclose(by_tau, derivatives.da_dtau)
    rows = jax.vmap(dyn.aba, in_axes=(0, 1, None))(q, v.T, x[0])
    assert np.array_equal(rows, dyn.aba(q, v, x[0]))
    repeated = [np.tile(y, (1366, 1))[:4096] for y in (q, v, x)]  # arrays that JAX does not copy into the call
    tau = jax.jit(dyn.rnea)(*repeated)
    assert np.array_equal(tau[:3], dyn.rnea(q, v, x)) and tau.shape == (4096, robot.nv)
    jax.config.update("jax_enable_x64", False)
    single = jax.jit(jax.grad(lambda q: dyn.rnea(q, v, x).sum()))(q)
    assert single.dtype == np.float32 and single.shape == q.shape


@pytest.mark.slow
def test_jax_errors_name_the_argument(jax: Any) -> None:
    from quaddyn.jax import JaxDynamics

    robot = load("continuous")
    dyn, (q, v, a) = JaxDynamics(robot), draw(robot)
    raises(ArgumentTypeError, "v: expected an array of JAX or NumPy, got list", dyn.rnea, q, v.tolist(), a)
    with pytest.raises(ArgumentTypeError, match="a: expected an array of float64 or float32, got one of int64"):
        dyn.rnea(q, v, a.astype(int))
    with pytest.raises(ArgumentTypeError, match="v: expected the dtype float64 as for q, got float32"):
        dyn.rnea(q, v.astype(np.float32), a)
    with pytest.raises(Exception, match=r"q: every entry must be finite, got q\[0, 0\] = nan"):
        dyn.rnea(q * np.nan, v, a).block_until_ready()
