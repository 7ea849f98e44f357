"""Contact solvers: solutions obey the contact laws, report their residuals, and stay finite."""

from __future__ import annotations

import numpy as np
import pytest
from contact_states import cases, violation
from hypothesis import given, settings
from hypothesis import strategies as st
from raising import raises
from slow_parameters import others_slow

import quaddyn as qd
from quaddyn.contact import CompliantPlane
from quaddyn.contact.solvers import (
    CompliantSolver,
    ContactProblem,
    FrictionalSolver,
    ImpactSolver,
    RigidSolver,
    contact_residual,
    project_to_cone,
    project_to_cones,
)
from quaddyn.contact.solvers import frictional_core as core
from quaddyn.contact.solvers.frictional_core import MAX_MULTIPLICATIONS
from quaddyn.contact.solvers.frictional_solver import Method, PinocchioConeSolvers

METHODS: tuple[Method, ...] = ("newton", "admm", "pgs")


# -- rigid ground with dry friction --------------------------------------------------------------------------------
def problem(seed: int, contacts: int, redundant: bool) -> tuple[np.ndarray, np.ndarray]:
    """A random Delassus matrix and free velocities; `redundant`: more rows than degrees of freedom."""
    rng = np.random.default_rng(seed)
    J = rng.normal(size=(3 * contacts, 6 if redundant else 3 * contacts + 6))
    return J @ J.T, J @ rng.normal(size=J.shape[1])


def check_laws(G_: np.ndarray, g: np.ndarray, mu: float, impulses: np.ndarray) -> None:
    """Asserts Signorini's and Coulomb's laws directly, not by the residual of the solver."""
    flat = impulses.ravel()
    velocity = (G_ @ flat + g).reshape(-1, 3)
    tolerance = 1e-5 * (1.0 + np.abs(g).max())
    for impulse, c in zip(impulses, velocity, strict=True):
        assert impulse[2] >= -tolerance and np.hypot(*impulse[:2]) <= mu * impulse[2] + tolerance
        assert c[2] >= -tolerance and abs(impulse[2] * c[2]) < tolerance
        if np.hypot(*c[:2]) > 1e-2 and impulse[2] > 1e-2:  # sliding: on the cone, against the motion
            assert impulse[:2] @ c[:2] == pytest.approx(-mu * impulse[2] * np.hypot(*c[:2]), rel=1e-2)
    # kinetic energy changes by lambda . (free + after) / 2
    assert flat @ (0.5 * (G_ @ flat) + g) <= tolerance


@settings(max_examples=90, deadline=None, derandomize=True)
@given(seed=st.integers(0, 10**6), contacts=st.integers(1, 6), mu=st.floats(0.0, 1.5), method=st.sampled_from(METHODS))
def test_solved_contacts_obey_signorini_and_coulomb_and_dissipate(
    seed: int, contacts: int, mu: float, method: Method
) -> None:
    G_, g = problem(seed, contacts, redundant=False)
    solution = FrictionalSolver(method).solve(ContactProblem(G_, g, mu))
    assert solution.status in ("solved", "retried") and solution.converged
    assert solution.residual == pytest.approx(contact_residual(solution.impulses, G_, g, mu), rel=1e-3, abs=1e-13)
    assert max(solution.gap_velocity, solution.cone_distance, solution.complementarity) <= 1e-6
    check_laws(G_, g, mu, solution.impulses)


def test_separating_contact_has_no_impulse_and_empty_problem_is_free() -> None:
    solver = FrictionalSolver()
    solution = solver.solve(ContactProblem(np.eye(3), np.array([0.3, 0.0, 0.2]), 0.6, initial_impulses=np.ones((1, 3))))
    np.testing.assert_allclose(solution.impulses, 0.0, atol=1e-8)
    assert solution.status == "solved"
    nothing = solver.solve(ContactProblem(np.zeros((0, 0)), np.zeros(0), 0.6))
    assert nothing.status == "free" and nothing.converged and nothing.impulses.shape == (0, 3)


def test_wrong_initial_impulses_do_not_change_the_solution() -> None:
    G_, g = problem(5, 4, redundant=False)
    good = FrictionalSolver().solve(ContactProblem(G_, g, 0.6))
    spoiled = FrictionalSolver().solve(ContactProblem(G_, g, 0.6, initial_impulses=np.full((4, 3), 1e3)))
    np.testing.assert_allclose(spoiled.impulses, good.impulses, atol=1e-6)


def test_separating_contact_without_friction_has_no_impulse() -> None:
    g = np.array([0.0, 0.0, 2.0])  # mu = 0 is a degenerate cone: 0 <= 0 n for any n
    assert contact_residual(np.zeros((1, 3)), np.eye(3), g, 0.0) == 0.0
    solution = FrictionalSolver(fallback=False).solve(ContactProblem(np.eye(3), g, 0.0))
    assert solution.status == "solved"
    np.testing.assert_array_equal(solution.impulses, 0.0)


def test_residual_detects_wrong_impulses_and_nan() -> None:
    G_, g = problem(7, 2, redundant=False)
    right = FrictionalSolver().solve(ContactProblem(G_, g, 0.6)).impulses
    assert contact_residual(right, G_, g, 0.6) < 1e-8
    assert contact_residual(right + 0.1, G_, g, 0.6) > 1e-2
    assert np.isnan(contact_residual(np.array([[0.0, 0.0, np.nan], [0.0, 0.0, 0.0]]), G_, g, 0.6))


@given(
    x=st.floats(-10, 10), y=st.floats(-10, 10), n=st.floats(-10, 10), mu=st.floats(0.0, 3.0), seed=st.integers(0, 99)
)
@settings(max_examples=200, deadline=None, derandomize=True)
def test_projection_is_the_nearest_point_of_the_cone(x: float, y: float, n: float, mu: float, seed: int) -> None:
    point, nearest = np.array([x, y, n]), np.array(project_to_cone(x, y, n, mu))
    assert np.hypot(*nearest[:2]) <= mu * nearest[2] + 1e-9
    # the variational inequality of a projection, against points of the cone
    rng = np.random.default_rng(seed)
    height, angle, share = rng.uniform(0, 10), rng.uniform(0, 2 * np.pi), rng.uniform(0, 1)
    other = height * np.array([mu * share * np.cos(angle), mu * share * np.sin(angle), 1.0])
    assert (point - nearest) @ (other - nearest) <= 1e-8 * (1.0 + point @ point + other @ other)


# -- compliant ground ----------------------------------------------------------------------------------------------
def test_mass_settles_at_the_spring_deflection_for_any_step() -> None:
    for dt, k in ((1e-3, 1e3), (1e-2, 1e5), (1e-2, 1e8)):  # the last is unstable with explicit steps
        solver = CompliantSolver(k, 2.0 * np.sqrt(2.0 * k), dt=dt)
        z, v = 0.0, 0.0
        for _ in range(round(2.0 / dt)):
            problem = ContactProblem(0.5 * np.eye(3), np.array([0.0, 0.0, v - 9.81 * dt]), 0.5, np.array([z / dt]))
            solution = solver.solve(problem)
            assert solution.status == "solved"
            v = solution.velocities[0, 2]
            z += dt * v
        assert z == pytest.approx(-2.0 * 9.81 / k, rel=1e-6)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(seed=st.integers(0, 10**6), contacts=st.integers(1, 5), mu=st.floats(0.0, 1.5))
def test_compliant_impulses_equal_the_plane_law_at_the_end_of_the_step(seed: int, contacts: int, mu: float) -> None:
    rng, dt = np.random.default_rng(seed), 1e-3
    G_, g = problem(seed, contacts, redundant=False)
    depth, k, c = rng.normal(0.0, 1e-3, contacts), 10.0 ** rng.uniform(2, 5), 10.0 ** rng.uniform(0, 3)
    solution = CompliantSolver(k, c, dt=dt).solve(ContactProblem(G_, g, mu, -depth / dt))
    assert np.isfinite(solution.impulses).all()
    assert solution.converged == (solution.status == "solved")
    assert (solution.impulses[:, 2] >= 0.0).all()
    sliding = np.hypot(solution.impulses[:, 0], solution.impulses[:, 1])
    assert (sliding <= mu * solution.impulses[:, 2] * (1.0 + 1e-12) + 1e-300).all()  # subnormal numbers
    if solution.converged:  # the law of `CompliantPlane` at the reached depth
        v = solution.velocities
        reached = np.column_stack((np.zeros((contacts, 2)), -(depth - dt * v[:, 2])))
        plane = CompliantPlane.floor(stiffness=k, damping=c, friction=mu)
        # near separation, a residual of 1e-8 m/s changes the impulse by dt k + c times as much
        np.testing.assert_allclose(solution.impulses, dt * plane.forces(reached, v), atol=1e-7 * (dt * k + c + 1.0))


def test_most_compliant_problems_are_solved() -> None:
    solved = 0
    for seed in range(200):
        G_, g = problem(seed, 4, redundant=seed % 2 == 0)
        solved += CompliantSolver(1e4, 100.0, dt=1e-3).solve(ContactProblem(G_, g, 0.6)).converged
    assert solved >= 198


# -- feet of real robots -------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", others_slow(["go2", "solo12", "anymal_c"], ["go2"]))
@pytest.mark.parametrize(
    ("kind", "count", "bar"), [("four", 200, 0.999), ("straight", 100, 0.99), ("redundant", 60, 0.95)]
)
def test_feet_in_random_states_obey_the_contact_laws(name: str, kind: str, count: int, bar: float) -> None:
    solver, obeyed = FrictionalSolver(), 0
    for case in cases(qd.load(name), count, kind, seed=1):
        solution = solver.solve(ContactProblem(case.G, case.g, case.friction))
        assert np.isfinite(solution.impulses).all() and np.isfinite(solution.velocities).all()
        good = violation(case, solution.impulses) <= 1e-6
        assert good or not solution.converged  # a status of "solved" is correct
        obeyed += good
    assert obeyed >= bar * count


@settings(max_examples=100, deadline=None, derandomize=True)
@given(seed=st.integers(0, 10**6), contacts=st.integers(1, 5), exponent=st.integers(-200, 200))
def test_finite_problems_never_give_nan(seed: int, contacts: int, exponent: int) -> None:
    rng = np.random.default_rng(seed)
    J = rng.normal(size=(3 * contacts, 4)) * rng.choice((0.0, 1.0), (3 * contacts, 1)) * 10.0 ** min(exponent / 2, 150)
    g = rng.normal(size=3 * contacts) * 10.0 ** rng.integers(-100, 100)
    for solver in (FrictionalSolver(), RigidSolver(), ImpactSolver(0.5)):
        with np.errstate(all="ignore"):
            solution = solver.solve(ContactProblem(J @ J.T, g, 0.7))
        assert np.isfinite(solution.impulses).all()
        assert solution.converged == (solution.status != "inaccurate")


def test_extreme_magnitudes_give_finite_results_and_a_correct_status() -> None:
    for scale, speed in ((1.0, 1e308), (1e-300, 1e200), (0.0, 1e300), (1e300, 1.0)):
        asked = ContactProblem(scale * np.eye(3), speed * np.array([1.0, 0.0, -1.0]), 0.5)
        solvers = (*(FrictionalSolver(m) for m in METHODS), RigidSolver(), ImpactSolver(1.0))
        for solver in (*solvers, CompliantSolver(1e5, dt=1e-3)):  # warnings are errors in tests
            solution = solver.solve(asked)
            assert np.isfinite(solution.impulses).all() and np.isfinite(solution.velocities).all()
            assert not np.isnan([solution.residual, solution.complementarity, solution.cone_distance]).any()
            assert solution.converged == (solution.status != "inaccurate")


# -- invalid arguments ---------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("g", {"g": np.zeros(4)}),
        ("g", {"g": np.array([0.0, np.nan, 0.0])}),
        ("g", {"g": ["a", 0.0, 0.0]}),
        ("G", {"G": np.eye(6)}),
        ("G", {"G": np.full((3, 3), np.inf)}),
        ("G", {"G": -np.eye(3)}),
        ("G", {"G": np.array([[1.0, 0.1, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])}),
        ("G", {"G": np.eye(3, dtype=complex)}),
        ("friction", {"friction": 50.0}),
        ("friction", {"friction": -0.1}),
        ("friction", {"friction": np.nan}),
        ("friction", {"friction": np.full(2, 0.5)}),
        ("offset", {"offset": np.zeros(3)}),
        ("previous_velocity", {"previous_velocity": np.full(3, np.nan)}),
        ("initial_impulses", {"initial_impulses": np.zeros(3)}),
    ],
)
def test_invalid_problem_raises_an_error_that_names_the_argument(name: str, change: dict[str, object]) -> None:
    good = {"G": np.eye(3), "g": np.zeros(3), "friction": 0.5}
    raises(qd.ArgumentError, f"^{name}", ContactProblem, **good | change)


@pytest.mark.parametrize("method", METHODS)
def test_solver_accepts_varying_sizes_and_array_layouts(method: Method) -> None:
    solver = FrictionalSolver(method)
    for contacts in (1, 4, 0, 8, 2, 12, 1):
        G_, g = problem(contacts, contacts, redundant=False)
        sliced, fixed = np.repeat(g, 2)[::2], G_.copy(order="F")
        fixed.flags.writeable = False
        solution = solver.solve(ContactProblem(fixed, sliced, np.full(contacts, 0.5)))
        assert solution.converged and solution.impulses.shape == (contacts, 3)


def test_solvers_accept_only_contact_problems() -> None:
    for solver in (FrictionalSolver(), RigidSolver(), ImpactSolver(), CompliantSolver(1e4, dt=1e-3)):
        raises(qd.ArgumentTypeError, "problem", solver.solve, np.eye(3))


def test_invalid_options_raise_errors_that_name_them() -> None:
    for options in ({"method": "magic"}, {"tolerance": 0.0}, {"tolerance": np.nan}, {"max_iterations": 0}):
        raises(qd.ArgumentError, next(iter(options)), FrictionalSolver, **options)
    for name, arguments in (
        ("stiffness", {"stiffness": 0.0}),
        ("stiffness", {"stiffness": np.ones((2, 2))}),
        ("damping", {"damping": -1.0}),
        ("dt", {"dt": 0.0}),
        ("stiction_speed", {"stiction_speed": np.nan}),
    ):
        raises(qd.ArgumentError, name, CompliantSolver, **{"stiffness": 1e4, "dt": 1e-3} | arguments)
    with pytest.raises(qd.ArgumentError, match="stiffness"):
        CompliantSolver(np.ones(2), dt=1e-3).solve(ContactProblem(np.eye(3), np.zeros(3), 0.5))
    raises(qd.ArgumentError, "restitution", ImpactSolver, 1.1)
    raises(qd.ArgumentError, "rank_tolerance", RigidSolver, rank_tolerance=1.0)


# -- rigid contacts ------------------------------------------------------------------------------------------------
def test_rigid_contacts_stop_with_and_without_redundancy() -> None:
    for redundant in (False, True):
        G_, g = problem(11, 4, redundant)
        solution = RigidSolver().solve(ContactProblem(G_, g, 0.0))
        assert solution.status == "solved"
        np.testing.assert_allclose(solution.velocities, 0.0, atol=1e-9)
        np.testing.assert_allclose(solution.impulses.ravel(), -np.linalg.pinv(G_, hermitian=True) @ g, atol=1e-8)


def test_contradictory_bilateral_contacts_are_reported() -> None:
    G_ = np.tile(np.eye(3), (2, 2))  # the same point twice
    solution = RigidSolver().solve(ContactProblem(G_, np.zeros(6), 0.0, offset=np.array([0.1, -0.1])))
    assert solution.status == "inaccurate" and not solution.converged
    assert solution.residual == pytest.approx(0.1)
    np.testing.assert_allclose(solution.impulses, 0.0, atol=1e-12)


# -- impacts -------------------------------------------------------------------------------------------------------
def test_ball_rebounds_with_the_restitution_coefficient() -> None:
    for e in (0.0, 0.5, 1.0):
        impact = ImpactSolver(e).collide(ContactProblem(0.5 * np.eye(3), np.array([0.0, 0.0, -2.0]), 0.3))
        assert impact.solution.velocities[0, 2] == pytest.approx(2.0 * e, abs=1e-9)
        assert impact.restitution == e
        assert impact.work == pytest.approx(-0.5 * 2.0 * 2.0**2 * (1.0 - e * e), abs=1e-9)  # 2 kg


@settings(max_examples=60, deadline=None, derandomize=True)
@given(seed=st.integers(0, 10**6), contacts=st.integers(1, 5), mu=st.floats(0.0, 2.0), e=st.floats(0.0, 1.0))
def test_impact_never_creates_energy(seed: int, contacts: int, mu: float, e: float) -> None:
    G_, g = problem(seed, contacts, redundant=False)
    impact = ImpactSolver(e).collide(ContactProblem(G_, g, mu))
    flat = impact.solution.impulses.ravel()
    assert flat @ (0.5 * (G_ @ flat) + g) == pytest.approx(impact.work, abs=1e-9)
    assert impact.work <= (1e-8 if impact.restitution == e else 0.0) and 0.0 <= impact.restitution <= e


def test_zero_delassus_matrix_needs_no_admm_iteration() -> None:
    programs, free = PinocchioConeSolvers(1e-8, 100), np.array([0.0, 0.0, -1.0])
    impulses, iterations = programs.admm(np.zeros((3, 3)), free, np.full(1, 0.5), None)
    assert impulses.tolist() == [[0.0, 0.0, 0.0]] and iterations == 0


def test_batch_projection_onto_cones_matches_known_points() -> None:
    points = np.array([[3.0, 4.0, 0.0], [0.3, 0.4, 2.0], [0.0, 0.0, -1.0], [3.0, -4.0, 1.0]])
    onto = [[1.5, 2.0, 2.5], [0.3, 0.4, 2.0], [0.0, 0.0, 0.0], [0.84, -1.12, 2.8]]
    np.testing.assert_allclose(project_to_cones(points, np.array([1.0, 0.5, 0.5, 0.5])), onto, atol=1e-15)


def test_scalar_friction_applies_to_every_contact() -> None:
    rng = np.random.default_rng(0)
    J, v = rng.normal(size=(6, 5)), rng.normal(size=5)
    one, each = (ContactProblem.from_jacobian(J, np.eye(5), v, friction) for friction in (0.5, np.full(2, 0.5)))
    assert one.friction.tolist() == each.friction.tolist() == [0.5, 0.5]


def test_work_on_a_hard_problem_of_many_contacts_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """134 contacts of a robot with 18 degrees of freedom inside the ground, which have no solution."""
    attempts: list[int] = []
    solve = PinocchioConeSolvers._solve
    monkeypatch.setattr(
        PinocchioConeSolvers, "_solve", lambda self, *arguments: attempts.append(0) or solve(self, *arguments)
    )
    k, rng = 134, np.random.default_rng(0)
    J = rng.normal(size=(3 * k, 18))
    G, g, mu = J @ J.T, rng.normal(size=3 * k), np.full(k, 0.6)
    solver = FrictionalSolver()
    solution = solver.solve(ContactProblem(G, g, mu))
    assert solution.status == "inaccurate" and np.isfinite(solution.impulses).all() and len(attempts) <= 1
    solver.prior_multiplications = 2.0 * MAX_MULTIPLICATIONS
    again = ContactProblem(G, g, mu, initial_impulses=solution.impulses)
    np.testing.assert_array_equal(solver.solve(again).impulses, solution.impulses)
    assert solver.prior_multiplications == 0.0 and len(attempts) <= 1
    steps = []
    for prior_multiplications in (0.0, 2.0 * MAX_MULTIPLICATIONS):
        work = core.make_contact_workspace(40)
        work.effort.multiplications = prior_multiplications
        core.solve_contact_problem(np.ascontiguousarray(G[:120, :120]), g[:120], mu[:40], np.zeros(120), 1e-8, 8, work)
        steps.append(work.effort.steps)
    assert steps[0] > 100 and steps[1] <= core.MAX_FIRST_NEWTON_STEPS + core.MAX_SWEEPS
