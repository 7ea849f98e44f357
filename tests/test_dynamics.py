import copy
import functools
import pickle

import numpy as np
import pinocchio as pin
import pytest
from raising import raises
from random_trees import random_robot, random_states
from urdf_text import inertial, joint, link, urdf

import quaddyn as qd
from quaddyn.dynamics import UNIT_NORM_TOLERANCE, Dynamics, State
from quaddyn.dynamics.state import _view_placements

SLIDE, SWING = {"kind": "prismatic", "axis": "1 0 0", "ends": "-1 1"}, {"kind": "continuous"}


def two_joints(first, second):
    return urdf(
        link("rail"),
        link("cart", inertial(2, moments=0.1)),
        link("rod", inertial(1, "0 0 -0.4", "0.02 0.03 0.01", "0 0.002 0")),
        joint("one", "rail", "cart", **first),
        joint("two", "cart", "rod", **second),
    )


ROBOTS = {
    "go2 free": lambda: qd.load("go2", armature=0.02, damping=0.1, friction=0.3),
    "go2 planar": lambda: qd.load("go2", root="planar", armature=0.01),
    "anymal_b_kinova free": lambda: qd.load("anymal_b_kinova"),
    "solo12 fixed": lambda: qd.load("solo12", root="fixed"),
    "kinova fixed": lambda: qd.load("kinova"),
    "slider fixed": lambda: qd.load(two_joints(SLIDE, SWING), root="fixed"),
}
EPS = np.finfo(float).eps


@functools.cache
def robot_of(key):
    return ROBOTS[key]()


@functools.cache
def dynamics_of(key):
    return Dynamics(robot_of(key))


@pytest.fixture(params=["go2 free", "go2 planar", "anymal_b_kinova free", "kinova fixed", "slider fixed"])
def some(request):
    """Robots with each kind of root and joint, for long tests."""
    return dynamics_of(request.param)


@pytest.fixture
def go2():
    return dynamics_of("go2 free")


def sample(dyn, seed=0):
    """A configuration away from home, and two random vectors of size nv."""
    robot, rng = dyn.robot, np.random.default_rng(seed)
    q = pin.integrate(robot.model, robot.q_home, 0.5 * rng.standard_normal(robot.nv))
    return q, rng.standard_normal(robot.nv), rng.standard_normal(robot.nv)


def tips(robot):
    """Names of some frames: up to two feet, the last link, the base."""
    return (*robot.feet[:2], robot.bodies[-1].name, robot.bodies[0].name)


def close(actual, expected, tolerance=1e-12):
    """Equal to `tolerance` times the larger of 1 and the largest expected entry."""
    actual, expected = np.asarray(actual), np.asarray(expected)
    assert actual.shape == expected.shape
    np.testing.assert_allclose(actual, expected, rtol=0, atol=tolerance * max(1.0, np.abs(expected).max(initial=0.0)))


@pytest.mark.parametrize("name", ["anymal_c", "random"])
def test_kinetic_energy_includes_the_rotors_of_every_joint_type(name):
    """For aligned and skew axes, revolute and prismatic joints, on every root."""
    if name == "random":
        robots = [random_robot(seed, 12) for seed in range(12)]
        assert any("Unaligned" in j.shortname() for r in robots for j in r.model.joints if j.nv == 1)
    else:
        robots = [qd.load(name, armature=0.1)]
    rng = np.random.default_rng(0)
    for robot in robots:
        dyn = Dynamics(robot)
        for q, v, _ in zip(*random_states(robot, rng, 2), strict=True):
            expected = 0.5 * v @ dyn.crba(q) @ v
            assert dyn.energy(q, v).kinetic == pytest.approx(expected, rel=1e-10)
            assert dyn.update(q, v).energy.kinetic == pytest.approx(expected, rel=1e-10)


# -- frames --------------------------------------------------------------------------------------------------


def test_origins_equal_the_translations_of_placements():
    robot = dynamics_of("go2 free").robot
    dynamics, v = qd.Dynamics(robot), np.zeros(robot.nv)
    names, s = robot.frame_names, dynamics.update(robot.q_home, v)
    assert _view_placements(robot.model.createData()) is not None  # the vectorized path is used
    origins = s.origins(names)
    np.testing.assert_array_equal(origins, [s.placement(name).translation for name in names])
    assert not origins.flags.writeable and s.origins(()).shape == (0, 3)
    raises(qd.UnknownNameError, "FX", s.origins, ("FL", "FX"))
    dynamics.update(robot.q_home, v)
    with pytest.raises(qd.StaleStateError):
        s.origins(names)


# -- a State against the stateless calls ---------------------------------------------------------------------


PROPERTIES = sorted(k for k, x in vars(State).items() if isinstance(x, property) and k not in ("robot", "is_stale"))
FRAME_READS = ("placement", "jacobian", "velocity", "drift")


def read(s, what):
    return getattr(s, what)("FL") if what in FRAME_READS else getattr(s, what)


@pytest.mark.parametrize("is_read_before", [False, True])
@pytest.mark.parametrize("what", [*PROPERTIES, *FRAME_READS])
def test_reading_a_stale_state_raises_and_does_not_change_the_next_state(go2, what, is_read_before):
    q, v, _ = sample(go2)
    old = go2.update(q, v)
    if is_read_before:
        read(old, what)
    new = go2.update(q, 2.0 * v)
    assert old.is_stale and not new.is_stale
    raises(qd.StaleStateError, "stale", read, old, what)
    np.testing.assert_allclose(new.centroidal_momentum, go2.centroidal_momentum(q, 2.0 * v), atol=1e-11)
    read(new, what)


@pytest.mark.parametrize("what", [*PROPERTIES, *FRAME_READS])
def test_lazy_computation_does_not_change_values_read_before(go2, what):
    s = go2.update(*sample(go2)[:2])
    before = [np.array(x) for x in (s.M, s.h, s.com, s.jacobian("FL"), s.velocity("FL"))]
    read(s, what)
    for x, y in zip(before, (s.M, s.h, s.com, s.jacobian("FL"), s.velocity("FL")), strict=True):
        np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize("what", [*PROPERTIES, *FRAME_READS])
def test_arrays_of_a_state_are_read_only(go2, what):
    q, v, _ = sample(go2)
    value = read(go2.update(q, v), what)
    arrays = [x for x in (value, getattr(value, "translation", None), getattr(value, "rotation", None))]
    arrays = [x for x in arrays if isinstance(x, np.ndarray)]
    assert arrays or what == "energy"
    for array in arrays:
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0.0


def stateless(dyn):
    """Every stateless call, as (name, arguments by name)."""
    q, v, a = sample(dyn)
    name = dyn.robot.bodies[-1].name
    return {
        "rnea": dict(q=q, v=v, a=a),
        "aba": dict(q=q, v=v, tau=a),
        "crba": dict(q=q),
        "nle": dict(q=q, v=v),
        "gravity": dict(q=q),
        "coriolis": dict(q=q, v=v),
        "mass_inverse": dict(q=q),
        "joint_friction": dict(v=v),
        "energy": dict(q=q, v=v),
        "frame_placement": dict(q=q, name=name),
        "frame_jacobian": dict(q=q, name=name),
        "frame_velocity": dict(q=q, v=v, name=name),
        "frame_drift": dict(q=q, v=v, name=name),
        "center_of_mass": dict(q=q),
        "com_jacobian": dict(q=q),
        "centroidal_momentum": dict(q=q, v=v),
        "rnea_derivatives": dict(q=q, v=v, a=a),
        "aba_derivatives": dict(q=q, v=v, tau=a),
        "regressor": dict(q=q, v=v, a=a),
    }


CALLS = tuple(stateless(dynamics_of("go2 free")))


def parts(result):
    """The arrays in a result."""
    if isinstance(result, np.ndarray):
        return [result]
    if isinstance(result, tuple):
        return [np.asarray(x) for x in result]
    return [result.rotation, result.translation]


def test_every_public_call_is_listed_here():
    public = {k for k, x in vars(Dynamics).items() if callable(x) and not k.startswith("_")}
    assert public - {"update", "update_validated", "parameters"} == set(CALLS)


def test_stateless_calls_do_not_change_the_state(some):
    q, v, _ = sample(some, 1)
    s = some.update(q, v)
    names = tips(some.robot)
    before = {k: copy.deepcopy(np.asarray(getattr(s, k))) for k in PROPERTIES}
    drift = [s.drift(n) for n in names]
    for call, arguments in stateless(some).items():
        getattr(some, call)(**arguments)
    assert not s.is_stale
    for k in PROPERTIES:
        assert np.array_equal(before[k], np.asarray(getattr(s, k))), k
    assert all(np.array_equal(x, s.drift(n)) for x, n in zip(drift, names, strict=True))


@pytest.mark.parametrize("call", CALLS)
def test_results_are_fresh_copies_and_arguments_are_unchanged(go2, call):
    arguments = stateless(go2)[call]
    before = copy.deepcopy(arguments)
    first = getattr(go2, call)(**arguments)
    kept = [x.copy() for x in parts(first)]
    other = {k: sample(go2, 5)["qva".index(k)] if k in "qva" else x for k, x in arguments.items()}
    getattr(go2, call)(**other)
    go2.update(*sample(go2, 6)[:2])
    assert all(np.array_equal(x, y) for x, y in zip(parts(first), kept, strict=True))
    second = getattr(go2, call)(**arguments)
    assert not any(np.shares_memory(x, y) for x, y in zip(parts(first), parts(second), strict=True))
    assert all(np.array_equal(before[k], x) for k, x in arguments.items())


def test_state_copies_its_arguments(go2):
    q, v, _ = sample(go2)
    mine = q.copy()
    s = go2.update(mine, v)
    mine[:] = 0.0
    assert np.array_equal(s.q, q)


# -- external forces -----------------------------------------------------------------------------------------


def test_external_forces_enter_through_world_aligned_jacobians(go2):
    q, v, a = sample(go2)
    f = {"FL": np.array([1.0, -2.0, 30.0]), "RR": np.array([3.0, 0.5, 20.0, 0.1, 0.2, -0.3])}
    pushed = sum(go2.frame_jacobian(q, k)[: len(x)].T @ x for k, x in f.items())
    close(go2.rnea(q, v, a, fext=f), go2.rnea(q, v, a) - pushed)
    close(go2.rnea(q, v, go2.aba(q, v, a, fext=f), fext=f), a, 50 * EPS * np.linalg.cond(go2.crba(q)))
    assert np.array_equal(go2.rnea(q, v, a, fext={}), go2.rnea(q, v, a))


def test_joint_friction_opposes_motion_and_vanishes_at_zero_speed(go2):
    v = np.zeros(18)
    v[6:9] = 2.0, -2.0, 0.0
    friction = go2.joint_friction(v)
    close(friction[6:9], [0.1 * 2 + 0.3, -0.1 * 2 - 0.3, 0.0])
    assert not friction[:6].any()


# -- invalid arguments ---------------------------------------------------------------------------------------

CALLS_AND_UPDATE = (*CALLS, "update")


def arguments_of(dyn, call):
    q, v, _ = sample(dyn)
    return dict(q=q, v=v) if call == "update" else stateless(dyn)[call]


BAD = {
    "text": (lambda x: "x" * len(x), qd.ArgumentTypeError, "str"),
    "a list of words": (lambda x: ["x"] * len(x), qd.ArgumentTypeError, "<U1"),
    "a ragged list": (lambda x: [[0.0], *x[1:]], qd.ArgumentTypeError, "list"),
    "None": (lambda x: None, qd.ArgumentTypeError, "NoneType"),
    "a number": (lambda x: 1.0, qd.ArgumentTypeError, "float"),
    "a matrix": (lambda x: x.view(np.matrix), qd.ArgumentTypeError, "matrix"),
    "a masked array": (lambda x: np.ma.masked_array(x), qd.ArgumentTypeError, "MaskedArray"),
    "bool": (lambda x: x.astype(bool), qd.ArgumentTypeError, "b1"),
    "complex": (lambda x: x.astype(complex), qd.ArgumentTypeError, "c16"),
    "object": (lambda x: x.astype(object), qd.ArgumentTypeError, "O"),
    "a column": (lambda x: x[:, None], qd.ArgumentError, "shape"),
    "a row": (lambda x: x[None, :], qd.ArgumentError, "shape"),
    "a scalar array": (lambda x: np.array(1.0), qd.ArgumentError, "shape"),
    "empty": (lambda x: np.zeros(0), qd.ArgumentError, "shape"),
    "one entry too few": (lambda x: x[:-1].copy(), qd.ArgumentError, "shape"),
    "one entry too many": (lambda x: np.append(x, 0.0), qd.ArgumentError, "shape"),
}


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("call", CALLS_AND_UPDATE)
def test_vector_of_the_wrong_type_is_rejected_by_name(go2, call, bad):
    make, error, word = BAD[bad]
    arguments = arguments_of(go2, call)
    for argument in [k for k in arguments if k != "name"]:
        with pytest.raises(error, match=rf"^{argument}: expected .*{word}") as caught:
            getattr(go2, call)(**{**arguments, argument: make(arguments[argument])})
        assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize("moving", [True, False])
@pytest.mark.parametrize("call", CALLS_AND_UPDATE)
def test_nan_and_infinity_in_any_entry_of_any_argument_raise(some, call, moving):
    """Also at home and zero velocity, where an algorithm that skips terms could miss a NaN."""
    for dyn in (some, dynamics_of("solo12 fixed")):
        arguments = arguments_of(dyn, call)
        if not moving:
            arguments = {k: x if k == "name" else np.zeros_like(x) for k, x in arguments.items()}
            arguments |= {"q": dyn.robot.q_home} if "q" in arguments else {}
            getattr(dyn, call)(**arguments)
        for argument in [k for k in arguments if k != "name"]:
            for i in range(arguments[argument].size):
                for value in (np.nan, np.inf, -np.inf):
                    bad = arguments[argument].copy()
                    bad[i] = value
                    with pytest.raises(qd.ArgumentError, match=rf"^{argument}: .*{argument}\[{i}\]"):
                        getattr(dyn, call)(**{**arguments, argument: bad})


@pytest.mark.parametrize("call", [c for c in CALLS_AND_UPDATE if c != "joint_friction"])
def test_quaternion_off_unit_norm_raises_and_names_the_joint(go2, call):
    arguments = arguments_of(go2, call)
    for scale in (1.01, 1 + 2 * UNIT_NORM_TOLERANCE, 1 - 2 * UNIT_NORM_TOLERANCE, 0.0, -1e-3):
        q = arguments["q"].copy()
        q[3:7] *= scale
        with pytest.raises(qd.ArgumentError, match=r"^q: the quaternion .* of joint 'root_joint', q\[3:7\]"):
            getattr(go2, call)(**{**arguments, "q": q})


def test_quaternion_within_tolerance_is_accepted(go2):
    q, v, a = sample(go2)
    for scale in (1 + 0.5 * UNIT_NORM_TOLERANCE, 1 - 0.5 * UNIT_NORM_TOLERANCE, -1.0):
        turned = q.copy()
        turned[3:7] *= scale
        close(go2.rnea(turned, v, a), go2.rnea(q, v, a), 10 * UNIT_NORM_TOLERANCE)


def test_continuous_joint_off_the_circle_raises_and_names_the_joint():
    dyn = dynamics_of("kinova fixed")
    q, v, a = sample(dyn)
    joint = next(b.joint.name for b in dyn.robot.bodies[1:] if b.joint.type == "continuous")
    i = dyn.robot.configuration_index(joint)
    q[i : i + 2] *= 1.001
    for call in (lambda: dyn.rnea(q, v, a), lambda: dyn.crba(q), lambda: dyn.update(q, v)):
        raises(qd.ArgumentError, rf"^q: the \(cos, sin\) of joint '{joint}'", call)


@pytest.mark.parametrize(("kind", "unit"), [("planar", slice(4, 6)), ("floating", slice(5, 9))])
def test_unit_norms_of_inner_joints_are_checked(kind, unit):
    dyn = Dynamics(qd.load(two_joints(SWING, {"kind": kind, "axis": "0 0 1"}), root="fixed"))
    q, v, a = sample(dyn)
    close(dyn.rnea(q, v, a), dyn.crba(q) @ a + dyn.nle(q, v))
    q[unit] *= 1.001
    raises(qd.ArgumentError, rf"of joint 'two', q\[{unit.start}:{unit.stop}\]", dyn.rnea, q, v, a)


def test_unknown_frame_raises_with_near_matches(go2):
    q, v, a = sample(go2)
    s = go2.update(q, v)
    for call in (
        lambda n: go2.frame_placement(q, n),
        lambda n: go2.frame_jacobian(q, n),
        lambda n: go2.frame_velocity(q, v, n),
        lambda n: go2.frame_drift(q, v, n),
        lambda n: go2.rnea(q, v, a, fext={n: np.zeros(3)}),
        lambda n: go2.aba(q, v, a, fext={n: np.zeros(3)}),
        *(getattr(s, what) for what in FRAME_READS),
    ):
        raises(qd.UnknownNameError, "FL_foot", call, "FL_fot")
        for nonsense in ("", "universe", 7, -1, 2**63, None, 1.5, b"FL", ("FL",)):
            with pytest.raises(qd.UnknownNameError):
                call(nonsense)


@pytest.mark.parametrize("reference", ["World", "", None, 0, pin.FIXED_JOINT, ["local"]])
def test_unknown_reference_frame_raises_and_lists_valid_ones(go2, reference):
    q, v, _ = sample(go2)
    s = go2.update(q, v)
    for call in (
        lambda: go2.frame_jacobian(q, "FL", reference=reference),
        lambda: go2.frame_velocity(q, v, "FL", reference=reference),
        lambda: go2.frame_drift(q, v, "FL", reference=reference),
        lambda: s.jacobian("FL", reference=reference),
        lambda: s.velocity("FL", reference=reference),
        lambda: s.drift("FL", reference=reference),
    ):
        raises(qd.ArgumentError, "'local_world_aligned', 'local', 'world'", call)


@pytest.mark.parametrize(
    ("fext", "error", "named"),
    [
        *(
            ({"FL": bad}, qd.ArgumentTypeError, r"^fext\['FL'\]: ")
            for bad in (["0", "0", "1"], np.zeros(3, complex), None, 10.0)
        ),
        *(
            ({"FL": bad}, qd.ArgumentError, r"^fext\['FL'\]: ")
            for bad in (np.zeros(4), np.zeros((3, 1)), np.array([0.0, np.nan, 0.0]), np.array([*np.zeros(5), np.inf]))
        ),
        *((bad, qd.ArgumentTypeError, "^fext: ") for bad in (np.zeros(3), [("FL", np.zeros(3))], [], 0, "FL")),
    ],
)
def test_invalid_external_force_is_rejected_by_name(go2, fext, error, named):
    q, v, a = sample(go2)
    for call in (go2.rnea, go2.aba):
        raises(error, named, call, q, v, a, fext=fext)


def test_errors_name_the_invalid_argument_with_external_forces(go2):
    f = {"FL": np.ones(3)}
    for call, names in (("rnea", ("q", "v", "a")), ("aba", ("q", "v", "tau"))):
        arguments = dict(zip(names, sample(go2), strict=True))
        for name in names:
            bad = arguments[name].copy()
            bad[0] = np.nan
            with pytest.raises(qd.ArgumentError, match=rf"^{name}: every entry must be finite"):
                getattr(go2, call)(**{**arguments, name: bad}, fext=f)
        with pytest.raises(qd.ArgumentError, match=rf"^{call}: .* overflows"):
            getattr(go2, call)(**arguments, fext={"FL": np.full(3, 1.7e308), "base": np.full(6, 1.7e308)})


@pytest.mark.parametrize("call", [c for c in CALLS if "v" in stateless(dynamics_of("go2 free"))[c]])
def test_overflowing_result_raises(call):
    dyn = Dynamics(qd.load("go2", damping=10.0))
    huge = {**arguments_of(dyn, call), "v": np.full(18, 1.7e308)}
    raises(qd.ArgumentError, rf"^{call}: .* overflows", getattr(dyn, call), **huge)


def test_large_finite_result_is_returned(go2):
    q, v, _ = sample(go2)
    a = np.full(18, 1e200)
    tau = go2.rnea(q, v, a)
    np.testing.assert_allclose(tau, go2.crba(q) @ a, rtol=1e-10)
    np.testing.assert_allclose(go2.aba(q, v, tau), a, rtol=1e-8)


def test_prismatic_position_with_overflowing_mass_matrix_is_rejected():
    dyn = Dynamics(qd.load(two_joints(SWING, SLIDE), root="fixed"))
    q = dyn.robot.q_home.copy()
    i = dyn.robot.configuration_index("two")
    q[i] = 1e60
    assert np.isfinite(dyn.crba(q)).all()
    q[i] = 1e200
    raises(qd.ArgumentError, r"^crba: .* overflows", dyn.crba, q)


def test_update_rejects_too_large_positions_and_velocities(go2):
    q, v, _ = sample(go2)
    kept = go2.update(q, v)
    far = q.copy()
    for place in (1e9, -1e160, 1.7e308):
        far[0] = place
        raises(qd.ArgumentError, r"^q: the norm .* exceeds", go2.update, far, v)
    assert not kept.is_stale
    for speed in (1e100, 1e308):
        raises(qd.ArgumentError, r"^v: the kinetic energy .* exceeds", go2.update, q, np.full(18, speed))


def test_strided_and_read_only_arguments_are_accepted(go2):
    q, v, a = sample(go2)
    expected = go2.rnea(q, v, a)
    spread_q, spread_v = np.repeat(q, 2)[::2], v[::-1].copy()[::-1]
    a.flags.writeable = False
    assert np.array_equal(go2.rnea(spread_q, spread_v, a), expected)
    s = go2.update(spread_q, spread_v)
    assert np.array_equal(go2.rnea(s.q, s.v, a), expected)


def test_equivalent_float64_dtypes_are_accepted(go2):
    q, v, a = sample(go2)
    tagged = v.astype(np.dtype(np.float64, metadata={"unit": "rad/s"}))
    assert tagged.dtype is not np.dtype(np.float64)
    assert np.array_equal(go2.rnea(q, tagged, a), go2.rnea(q, v, a))


def test_position_of_the_base_does_not_reduce_accuracy():
    for key, place in (("go2 free", 3), ("go2 planar", 2)):
        dyn = dynamics_of(key)
        q, v, a = sample(dyn)
        far = q.copy()
        far[:place] = 1e6
        for call in ("rnea", "aba", "crba", "nle", "gravity", "coriolis", "mass_inverse", "com_jacobian", "regressor"):
            arguments = arguments_of(dyn, call)
            near_result = getattr(dyn, call)(**{**arguments, "q": q})
            close(getattr(dyn, call)(**{**arguments, "q": far}), near_result, 1e-12)
        near, away = dyn.rnea_derivatives(q, v, a), dyn.rnea_derivatives(far, v, a)
        close(away.dtau_dq, near.dtau_dq, 1e-12)


# -- without validation; lifetime ----------------------------------------------------------------------------


def test_unvalidated_calls_return_the_same_numbers(some):
    fast = Dynamics(some.robot, validate=False)
    assert some.validate and not fast.validate
    for call, arguments in stateless(some).items():
        mine, theirs = parts(getattr(fast, call)(**arguments)), parts(getattr(some, call)(**arguments))
        assert all(np.array_equal(x, y) for x, y in zip(mine, theirs, strict=True)), call
    q, v, a = sample(some)
    assert np.array_equal(fast.update(q, v).M, some.update(q, v).M)
    f = {some.robot.bodies[-1].name: np.array([1.0, 2.0, 3.0])}
    assert np.array_equal(fast.rnea(q, v, a, fext=f), some.rnea(q, v, a, fext=f))


def test_unvalidated_calls_skip_the_checks(go2):
    fast = Dynamics(go2.robot, validate=False)
    q, v, a = sample(go2)
    assert np.isnan(fast.rnea(q, v * np.nan, a)).all()
    assert np.isnan(fast.update(q * np.nan, v).M).any()
    assert np.isfinite(fast.rnea(q, v, a)).all()


def test_rejected_call_does_not_affect_the_next(go2):
    for call in CALLS:
        arguments = arguments_of(go2, call)
        expected = parts(getattr(go2, call)(**arguments))
        argument = next(iter(arguments))
        with pytest.raises(qd.ArgumentError):
            getattr(go2, call)(**{**arguments, argument: arguments[argument] * np.nan})
        assert all(np.array_equal(x, y) for x, y in zip(parts(getattr(go2, call)(**arguments)), expected, strict=True))


def test_dynamics_can_be_pickled(go2):
    for validate in (True, False):
        twin = pickle.loads(pickle.dumps(Dynamics(go2.robot, validate=validate)))
        q, v, a = sample(go2)
        assert twin.validate is validate
        assert np.array_equal(twin.rnea(q, v, a), go2.rnea(q, v, a))


def test_copied_dynamics_has_its_own_state(go2):
    twin = copy.deepcopy(go2)
    q, v, _ = sample(go2)
    mine = go2.update(q, v)
    M = mine.M.copy()
    twin.update(go2.robot.q_home, v)
    assert np.array_equal(mine.M, M)


def test_state_cannot_be_pickled_or_copied(go2):
    s = go2.update(*sample(go2)[:2])
    for attempt in (pickle.dumps, copy.copy, copy.deepcopy):
        raises(TypeError, "copy its q and v", attempt, s)


@pytest.mark.parametrize(("nq", "nv"), [(3, 2), (1, 2), (2, 3), (2, 1)])
def test_wrong_sizes_are_rejected_without_validation(nq, nv):
    dynamics = qd.Dynamics(qd.load("two_link_leg"), validate=False)
    raises(ValueError, "size", dynamics.update, np.zeros(nq), np.zeros(nv))


def test_nan_is_rejected_if_torques_do_not_depend_on_it():
    """The torque of a single prismatic joint does not depend on its position."""
    text = urdf(link("a"), link("b", inertial()), joint("j", "a", "b", "0 0 1", kind="prismatic"))
    slide = qd.Dynamics(qd.load(text, root="fixed"))
    assert slide.rnea([0.3], [0.0], [0.0]) == pytest.approx([9.81])
    for k in range(3):
        state = [[0.0], [0.0], [0.0]]
        state[k] = [np.nan]
        raises(qd.ArgumentError, f"^{'qva'[k]}", slide.rnea, *map(np.array, state))
    assert slide._nan_reaches_tau() is False and qd.Dynamics(qd.load("go2"))._nan_reaches_tau() is True


def test_arrays_of_a_state_outlive_the_dynamics():
    robot = qd.load("go2")
    q, v = robot.q_home, np.linspace(-1.0, 1.0, robot.nv)
    names = "M", "h", "gravity", "com", "com_jacobian", "com_velocity", "centroidal_momentum"
    expected = [getattr(Dynamics(robot).update(q, v), name).copy() for name in names]
    for _ in range(10):
        arrays = [getattr(Dynamics(robot).update(q, v), name) for name in names]  # the Dynamics is freed here
        others = [robot.model.createData() for _ in range(4)]  # may take over its memory
        for name, found, right in zip(names, arrays, expected, strict=True):
            np.testing.assert_array_equal(found, right, err_msg=name)
        del others
