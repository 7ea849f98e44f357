"""Batches of controllers and simulations on a GPU: the same calls, memory and code, run on the CPU.

The driver is the stand-in of `test_cuda`, whose memory is that of the process.  It interprets the PTX of the terms of
whole-body control; `HostKernel` runs the LLVM IR of the tick and the step.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest
from compiling_c import COMPILER
from lane_host import HostKernel
from raising import raises
from test_cuda import Exported, get, library, put, stand_in

import quaddyn as qd
from quaddyn.cuda import CudaArray, CudaError, arrays, driver, lane_program, to_device
from quaddyn.errors import ArgumentError, ArgumentTypeError
from quaddyn.simulation.plant import set_attribute
from quaddyn.simulation.plant_data import with_shared_memory

pytestmark = pytest.mark.skipif(COMPILER is None, reason="no C compiler")
__all__ = ["library", "stand_in"]  # fixtures


@functools.cache
def host_kernel(function: Any) -> HostKernel:
    return HostKernel(function)


@pytest.fixture
def kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels of lanes that run on the CPU."""
    monkeypatch.setattr(lane_program, "load_lane_kernel", lambda gpu, function: host_kernel(function))


@pytest.fixture
def launches(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """Arguments of the launches of kernels of lanes, which compute nothing."""
    found = list[tuple[Any, ...]]()
    methods = {"launch": lambda self, *arguments: found.append(arguments), "resident_blocks": lambda self, threads: 8}
    kernel = type("Kernel", (), methods)()
    monkeypatch.setattr(lane_program, "load_lane_kernel", lambda gpu, function: kernel)
    return found


def shares_constants(batch: Any) -> bool:
    """Whether no lane has written an array that all lanes share."""
    return all(np.array_equal(copy.to_numpy(), x) for x, copy in batch._workspace._shared.values())


@functools.cache
def robot() -> qd.Robot:
    return qd.load("go2")


def states(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return np.tile(robot().q_home, (n, 1)), rng.normal(0.0, 0.1, (n, robot().nv))


# -- controllers ------------------------------------------------------------------------------------------------------
@pytest.mark.slow
@pytest.mark.usefixtures("kernels")
def test_ticks_equal_those_of_the_cpu(library: Any) -> None:
    """The ticks have contacts, friction, references, gains and resets of single lanes, and a state with NaN.

    Some threads compute two lanes.
    """
    n, rng = 35, np.random.default_rng(1)
    controller = qd.WholeBodyController(robot())
    batch, expected = controller.batch(n, device="cuda", threads=20), controller.batch(n, threads=1)
    mask = rng.random(n) < 0.3
    for each in (batch, expected):
        each.set_parameters(friction=np.linspace(0.3, 0.9, n))
    for k in range(6):
        q, v = states(n, k)
        v[5, 2] = np.nan if k == 3 else v[5, 2]
        contacts = rng.random((n, len(batch.contacts))) < 0.8
        if k == 2:
            batch.reset(to_device(mask)), expected.reset(mask)
            for each in (batch, expected):
                each.references["com"].set(q[:, :3] + 0.01, mask=~mask)
                each.gains["com"].set(stiffness=50.0, mask=mask)
        requested = None if k == 4 else contacts
        want = expected.compute(q, v, requested)
        got = batch.compute(to_device(q), to_device(v), None if k == 4 else to_device(contacts))
        for x, y in zip(got, (want.tau, want.accelerations, None, want.violation, want.kkt, want.codes), strict=True):
            assert y is None or np.array_equal(x.to_numpy(), y), k
        assert np.array_equal(got.forces.to_numpy()[:, :, : want.forces.shape[2]], want.forces)
        assert np.array_equal(batch.contact_activations.to_numpy(), expected.contact_activations)
    assert np.array_equal(batch.references["com"].position, expected.references["com"].position)
    assert (
        shares_constants(batch)
        and get(library, "block") == 32 == batch.threads
        and f"on cuda:0, {batch.bytes_per_lane / 1024:.1f} kB" in repr(batch)
    )


def test_arguments_of_ticks_are_checked(library: Any, launches: list[tuple[Any, ...]]) -> None:
    n = 3
    controller = qd.WholeBodyController(robot())
    batch = controller.batch(n, device="cuda:1")
    q, v = states(n)
    on_gpu = [to_device(x, "cuda:1") for x in (q, v)]
    got = batch.compute(*[Exported(x) for x in on_gpu], ["FL", "RR"], stream=7)
    assert isinstance(got.tau, CudaArray) and got.tau.stream == 7 and get(library, "stream") == 7
    ((blocks, threads, stream, arguments),) = launches
    assert (blocks, threads, stream, arguments[:2]) == (1, 32, 7, [n, 1])
    assert controller.batch(1000, device="cuda").threads == 256  # as many as the GPU runs at once, see `launches`
    view = arrays.read_capsule("codes", got.codes.__dlpack__(stream=-1))
    assert (view.shape, view.typestr, view.device) == ((n,), "<i1", 1)
    long = to_device(np.zeros((robot().nq, n)), "cuda:1")
    turned = type("View", (), {"base": long, "__cuda_array_interface__": {
        "shape": (n, robot().nq), "typestr": "<f8", "data": (long.address, False), "strides": (8, 8 * n), "version": 2,
    }})()  # fmt: skip
    cases: list[tuple[type[Exception], str, Any, Any, Any]] = [
        (ArgumentTypeError, "q: .*ndarray in host memory; copy it", q, on_gpu[1], None),
        (ArgumentError, "v: .*not in the memory of this GPU", on_gpu[0], to_device(v), None),
        (ArgumentTypeError, "v: .*float32", on_gpu[0], to_device(v.astype("f4"), "cuda:1"), None),
        (ArgumentError, rf"q: expected shape \(3, {robot().nq}\)", on_gpu[1], on_gpu[1], None),
        (ArgumentError, "q: the entries have the strides .*contiguous", turned, on_gpu[1], None),
        (ArgumentTypeError, "contacts: .*bool.*float64", *on_gpu, on_gpu[0]),
        (qd.errors.UnknownNameError, "contact", *on_gpu, ["FX"]),
    ]  # fmt: skip
    for kind, text, *arguments in cases:
        raises(kind, text, batch.compute, *arguments)
    raises(ArgumentTypeError, "mask: expected bools", batch.reset, np.ones(n))


# -- simulations ------------------------------------------------------------------------------------------------------
@pytest.mark.usefixtures("kernels")
def test_steps_equal_those_of_the_cpu() -> None:
    """Up to the rounding of sine and cosine; with parameters, resets, gains and torques, and NaN in one lane."""
    n, rng, nu = 35, np.random.default_rng(0), robot().nu
    motors = qd.simulation.Actuators(robot(), delay=0.003, backlash=0.01, rotor_inertia=0.01)
    simulation = qd.Simulation(robot(), spheres={}, actuators=motors)
    batch, expected = simulation.batch(n, device="cuda", threads=1), simulation.batch(n, threads=1)
    lift, _ = states(n)
    lift[:, 2] += np.linspace(0.0, 0.02, n)
    batch.reset(q=to_device(lift)), expected.reset(q=lift)
    for each in (batch, expected):
        each.set_parameters(friction=np.linspace(0.3, 0.9, n), payload=np.linspace(0.0, 1.0, n), motor_strength=0.9)
    targets, mask = robot().q_home[7:] + rng.normal(0.0, 0.03, (n, nu)), np.arange(n) % 5 == 0
    stiffness = 10.0 * robot().mass * robot().q_home[2]
    for k in range(12):
        tau = rng.normal(size=(n, nu) if k % 2 else nu)
        given = {"stiffness": stiffness, "damping": np.full(nu, 0.03 * stiffness), "steps": 5}
        batch.step(to_device(tau), position=to_device(targets), **given)
        expected.step(tau, position=targets, **given)
        if k == 6:
            batch.reset(to_device(mask)), expected.reset(mask)
        for x, y in ((batch.q, expected.q), (batch.v, expected.v)):
            np.testing.assert_allclose(x.to_numpy(), y, rtol=0.0, atol=1e-8)
    assert shares_constants(batch) and not batch.results.to_numpy().any() and not batch.has_diverged.to_numpy().any()
    assert np.array_equal(batch.n_steps.to_numpy(), np.where(mask, 25, 60))
    np.testing.assert_allclose(batch.contact_forces.to_numpy(), expected.contact_forces, rtol=1e-4, atol=1e-3)
    before, tau = batch.q.to_numpy(), np.zeros((n, nu))
    tau[7] = np.nan
    batch.step(to_device(tau))
    expected.step()
    assert np.array_equal(np.flatnonzero(batch.has_diverged.to_numpy()), [7])
    others = np.arange(n) != 7
    np.testing.assert_allclose(batch.q.to_numpy()[others], expected.q[others], rtol=0.0, atol=1e-8)
    assert np.array_equal(batch.q.to_numpy()[7], before[7])


def test_steps_in_shared_memory_equal_those_in_separate_arrays() -> None:
    """From the air to the ground, in substeps."""
    found = []
    for is_shared in (False, True):
        sim, rng = qd.Simulation(robot(), spheres={}), np.random.default_rng(2)
        if is_shared:
            plant = with_shared_memory(sim._plant_data())
            for part in ("terms", "memory", "motion", "contacts"):
                set_attribute(sim, f"_{part}", getattr(plant, part))
        q = robot().q_home.copy()
        q[2] += 0.02
        sim.reset(q)
        for _ in range(150):
            sim.step(rng.normal(0.0, 5.0, robot().nu))
        found.append((sim.q.tobytes(), sim.v.tobytes(), sim.energy))
    assert found[0] == found[1]


@pytest.mark.slow
@pytest.mark.usefixtures("kernels")
def test_lanes_without_memory_for_their_contacts_are_unchanged() -> None:
    batch = qd.Simulation(robot(), spheres={}).batch(2, device="cuda", max_contacts=2)
    q = np.tile(robot().q_home, (2, 1))
    q[1, 2] += 1.0
    batch.reset(q=q)
    batch.step(steps=20)
    assert batch.results.to_numpy()[0] in (2, 5) and batch.results.to_numpy()[1] == 0
    assert np.array_equal(batch.n_steps.to_numpy(), [0, 20]) and np.array_equal(batch.q.to_numpy()[0], q[0])


@pytest.mark.usefixtures("launches")
def test_arguments_of_steps_are_checked() -> None:
    n, nu = 3, robot().nu
    batch = qd.Simulation(robot(), spheres={}).batch(n, device="cuda")
    rows = to_device(np.zeros((n, nu)))
    cases: list[tuple[type[Exception], str, dict[str, Any]]] = [
        (ArgumentTypeError, "tau: .*host memory", {"tau": np.zeros((n, nu))}),
        (ArgumentError, rf"tau: expected shape \(3, {nu}\) or", {"tau": to_device(np.zeros((n, nu + 1)))}),
        (ArgumentError, "position: required with stiffness", {"stiffness": 1.0}),
        (ArgumentError, "damping: required with position", {"position": rows, "stiffness": 1.0}),
        (ArgumentError, "stiffness: expected gains of 0", {"position": rows, "stiffness": -1.0, "damping": 0.0}),
        (ArgumentError, "steps", {"steps": 0}),
        (ArgumentTypeError, "stream: .*got str", {"stream": "s"}),
    ]  # fmt: skip
    for kind, text, arguments in cases:
        raises(kind, text, batch.step, **arguments)
    with pytest.raises(ArgumentTypeError, match=r"q: expected float64.*float32"):
        batch.reset(q=to_device(np.zeros((n, robot().nq), "f4")))


# -- drivers ----------------------------------------------------------------------------------------------------------
@pytest.mark.usefixtures("launches")
def test_unfit_devices_are_reported(library: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    simulation, controller = qd.Simulation(robot(), spheres={}), qd.WholeBodyController(robot())
    for owner in (simulation, controller):
        raises(ArgumentError, "threads: expected", owner.batch, 1, device="cuda", threads=0)
        raises(ArgumentError, "device: expected 'cpu', 'cuda' or 'cuda:N', got 'gpu'", owner.batch, 1, device="gpu")
        raises(ArgumentError, "'cuda:3' does not exist", owner.batch, 1, device="cuda:3")
        put(library, "memory", 10000)
        with pytest.raises(CudaError, match=r"threads: .* threads=32 \(the memory of the GPU is exhausted"):
            owner.batch(100, device="cuda")
        put(library, "memory", 1 << 30)
        batch = owner.batch(100, device="cuda", threads=32)
        block_bytes = 32 * batch.bytes_per_thread
        with pytest.warns(DeprecationWarning, match="bytes_per_thread"):
            assert batch.bytes_per_lane_in_progress == batch.bytes_per_thread
        del batch
        put(library, "memory", 3 * block_bytes)
        raises(CudaError, "threads: ", owner.batch, 100, device="cuda")
        assert owner.batch(100, device="cuda", threads=32).threads == 32
        put(library, "memory", 1 << 30)
        put(library, "driver_version", 10020)
        monkeypatch.setattr(driver, "_devices", {})
        driver.driver.cache_clear()
        raises(CudaError, r"supports CUDA 10\.2", owner.batch, 1, device="cuda")
        put(library, "driver_version", 12040)
        with monkeypatch.context() as context:
            context.setattr(driver, "LIBRARIES", ["libquaddyn_missing.so.1"])
            raises(CudaError, "there is no NVIDIA driver", owner.batch, 1, device="cuda")
