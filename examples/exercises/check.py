"""Checker of the exercises: ``python check.py rnea my_rnea.py``."""

from __future__ import annotations

import argparse
import importlib.util
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import numpy as np

import quaddyn as qd
from quaddyn.contact import Contact, cone_margin, friction_pyramid
from quaddyn.contact.solvers import project_to_cone
from quaddyn.hierarchy import solve_prioritized
from quaddyn.locomotion import FEET
from quaddyn.reference import Reference, build_model, read_urdf
from quaddyn.wbc import ComTask, FootTask, ForceTask, FrameOrientationTask, PostureTask

DT, PAUSE, SPEED = 2e-3, 0.5, 0.3  # of the trot: time step, time before the first step [s], commanded speed [m/s]

#: Name of a check, whether it passed, and its figures.
Result = tuple[str, bool, str]


def relative_error(found: object, expected: np.ndarray) -> float:
    """Returns the largest difference, relative to the largest expected number; inf for another shape or NaN."""
    array = np.asarray(found, dtype=float)
    if array.shape != np.shape(expected) or not np.isfinite(array).all():
        return np.inf
    return float(np.abs(array - expected).max() / max(np.abs(expected).max(), 1e-9))


def check_rnea(work: ModuleType) -> Iterator[Result]:
    """Compares the torques of an arm and of the legs of a quadruped with the reference implementation."""
    rng = np.random.default_rng(0)
    for name in ("ur5", "solo12"):
        source = qd.load(name, root="fixed").source
        text = source if isinstance(source, str) else source.decode()
        reference, model = Reference(text, root="fixed"), build_model(read_urdf(text), "fixed")
        states = rng.standard_normal((5, 3, model.nv))
        zero = np.zeros(model.nv)
        cases = {
            "gravity": [(q, zero, zero) for q, _, _ in states],
            "accelerations": [(q, zero, a) for q, _, a in states],
            "velocities": [(q, v, zero) for q, v, _ in states],
            "all": [tuple(state) for state in states],
        }
        for case, given in cases.items():
            expected = np.array([reference.rnea(*state) for state in given])
            found = np.array([work.rnea(list(model.bodies), model.gravity, *state) for state in given])
            error = relative_error(found, expected)
            yield f"{name}, {case}", error < 1e-9, f"relative error {error:.1e}"


def check_null_space(work: ModuleType) -> Iterator[Result]:
    """Checks projectors, priorities and self motions of random and of singular Jacobians of an arm."""
    rng, arm = np.random.default_rng(0), qd.load("ur5")
    dyn = qd.Dynamics(arm)
    singular = np.zeros(6)  # the stretched arm
    jacobians = {"random": rng.standard_normal((3, 7)), "singular arm": dyn.frame_jacobian(singular, "tool0")}
    for name, J in jacobians.items():
        n, rank = J.shape[1], np.linalg.matrix_rank(J, tol=1e-9 * np.linalg.norm(J))
        N = np.asarray(work.projector(J), dtype=float)
        worst = max(float(np.abs(x).max()) for x in (J @ N, N @ N - N, N - N.T)) if N.shape == (n, n) else np.inf
        yield f"{name}: projector", worst < 1e-9, f"J N, N N - N, N - N^T at most {worst:.1e}"
        yield f"{name}: dimension", bool(abs(np.trace(N) - (n - rank)) < 1e-6), f"{np.trace(N):.3f} of {n - rank}"
        desired = rng.standard_normal(n)
        moved = np.asarray(work.self_motion(J, desired))
        error = relative_error(moved, N @ desired)
        at_rest = float(np.abs(J @ moved).max())
        yield f"{name}: self motion", at_rest < 1e-9 and error < 1e-9, f"hand moves by {at_rest:.1e}, {error:.1e} off"
    for name in ("independent", "conflicting"):
        J1, J2 = rng.standard_normal((3, 7)), rng.standard_normal((2, 7))
        if name == "conflicting":
            J2 = np.vstack([J1[0] + J1[1], J2[0]])
        e1, e2 = rng.standard_normal(3), rng.standard_normal(2)
        v = np.asarray(work.prioritized(J1, e1, J2, e2))
        first, expected = float(np.abs(J1 @ v - e1).max()), solve_prioritized([(J1, e1), (J2, e2)])
        error = relative_error(v, expected.x)
        yield f"{name} tasks", first < 1e-9 and error < 1e-6, f"task 1 is {first:.1e} off, v {error:.1e}, relative"


def check_friction_cone(work: ModuleType) -> Iterator[Result]:
    """Compares memberships, pyramids and projections of random forces with `quaddyn.contact`."""
    rng = np.random.default_rng(0)
    forces, mu = rng.normal(size=(400, 3)) + [0.0, 0.0, 0.5], 0.6
    contact = Contact(name="foot", frame="foot", friction=mu)
    inside = np.array([np.hypot(f[0], f[1]) <= mu * f[2] for f in forces])
    wrong = int(sum(bool(work.is_inside(f, mu)) != expected for f, expected in zip(forces, inside, strict=True)))
    yield "membership", wrong == 0, f"{wrong} of {len(forces)} forces wrong"
    for faces in (4, 8):
        A, expected = np.asarray(work.pyramid(mu, faces)), friction_pyramid(contact, faces=faces)[:-1]
        lengths = np.linalg.norm(A, axis=-1, keepdims=True)
        error = relative_error(A / lengths, expected / np.linalg.norm(expected, axis=1, keepdims=True))
        allowed = forces[(forces @ A.T <= 0.0).all(axis=1)]
        outside = int(sum(cone_margin(contact, f) < -1e-9 for f in allowed))
        yield (
            f"pyramid of {faces} faces",
            error < 1e-9 and not outside,
            f"rows {error:.1e} off; allows {outside} forces outside the cone",
        )
    found = np.array([work.project(f, mu) for f in forces])
    error = relative_error(found, np.array([project_to_cone(*f, mu) for f in forces]))
    yield "projection", error < 1e-9, f"relative error {error:.1e}"
    angles = np.radians([0.0, 10.0, 30.0])
    error = relative_error([work.friction_on_slope(angle) for angle in angles], np.sin(angles) / np.cos(angles))
    yield "slope", error < 1e-9, f"relative error {error:.1e}"


def check_trot(work: ModuleType) -> Iterator[Result]:
    """Checks the swing trajectory, and simulates three seconds of a trot."""
    start, goal = np.array([0.0, 0.1, 0.02]), np.array([0.1, 0.1, 0.02])
    path = np.array([work.swing(start, goal, alpha) for alpha in np.linspace(0.0, 1.0, 201)])
    ends = max(np.abs(path[0] - start).max(), np.abs(path[-1] - goal).max())
    speeds = 200.0 * np.linalg.norm(np.diff(path, axis=0)[[0, -1]], axis=1)
    top = path[:, 2].max() - start[2]
    yield "swing: ends", bool(ends < 1e-9 and speeds.max() < 0.02), f"{ends:.1e} m off, {speeds.max():.3f} m a swing"
    yield "swing: height", bool(abs(top - work.HEIGHT) < 0.005), f"{top:.3f} m of {work.HEIGHT} m"
    neutral, reference, excess = np.array([0.2, 0.1, 0.0]), np.array([0.3, 0.1, 0.0]), np.array([0.1, 0.0, 0.0])
    steady, pushed = (np.asarray(work.touchdown(neutral, v, reference)) for v in (reference, reference + excess))
    error = relative_error(steady - neutral, 0.5 * work.DUTY * work.PERIOD * reference)
    yield "touchdown: below the hip in mid-stance", error < 0.05, f"relative error {error:.2f}"
    gain = float((pushed - steady)[0] / excess[0])
    yield "touchdown: farther out for a velocity error", 0.02 < gain < 0.3, f"{gain:.2f} m for 1 m/s"
    pairs = [("FL", "RR"), ("FR", "RL")]
    times = np.linspace(0.0, 2.0 * work.PERIOD, 400, endpoint=False)
    down = {foot: np.array([work.phase(foot, t) < work.DUTY for t in times]) for foot in FEET}
    diagonal = all((down[a] == down[b]).all() for a, b in pairs)
    duty = max(abs(mask.mean() - work.DUTY) for mask in down.values())
    never_both = any((~down[a] & ~down[b]).any() for a, b in [("FL", "FR")])
    yield "schedule: diagonal legs together", diagonal, ""
    yield "schedule: duty factor, pairs in turn", bool(duty < 0.02 and not never_both), f"{duty:.2f} off"
    yield from simulate_trot(work)


def simulate_trot(work: ModuleType) -> Iterator[Result]:
    """Simulates Go2 with the functions of the exercise."""
    robot = qd.load("go2")
    sim, dyn = qd.Simulation(robot, dt=DT), qd.Dynamics(robot)
    com, trunk = ComTask(robot), FrameOrientationTask(robot, "base", "trunk")
    feet = {foot: FootTask(robot, foot) for foot in robot.feet}
    levels = [[com, trunk, *feet.values()], [PostureTask(robot), ForceTask(robot)]]
    wbc = qd.WholeBodyController(robot, dt=DT, tasks=levels)
    s = dyn.update(sim.q, sim.v)
    home, velocity = s.com.copy(), np.zeros(3)
    ground = s.placement("FL").translation[2]
    offsets = {foot: s.placement(foot).translation - home for foot in robot.feet}
    lifted: dict[str, np.ndarray] = {}
    lowest, tilt, clearance, loads = np.inf, 0.0, 0.0, {foot: 0 for foot in robot.feet}
    while sim.time < PAUSE + 3.0:
        t = sim.time - PAUSE
        velocity[0] = SPEED if t > 0.0 else 0.0
        s = dyn.update(sim.q, sim.v)
        com.reference(home + max(t, 0.0) * velocity, velocity)
        stance = [foot for foot in robot.feet if t < 0.0 or work.phase(foot, t) < work.DUTY]
        for foot in robot.feet:
            p = s.placement(foot).translation
            if foot in stance:
                lifted[foot] = p.copy()
                continue
            clearance = max(clearance, float(p[2] - ground))
            neutral = s.com + offsets[foot]
            goal = np.array(work.touchdown(neutral, s.com_velocity, velocity), dtype=float)
            goal[2] = ground
            alpha = (work.phase(foot, t) - work.DUTY) / (1.0 - work.DUTY)
            duration, step = (1.0 - work.DUTY) * work.PERIOD, 1e-3
            before, at, after = (work.swing(lifted[foot], goal, alpha + k * step) for k in (-1, 0, 1))
            speed, acceleration = (after - before) / (2.0 * step), (after - 2.0 * at + before) / step**2
            feet[foot].reference(at, speed / duration, acceleration / duration**2)
        sim.step(wbc.compute(s, stance).tau)
        lowest = min(lowest, float(sim.q[2]))
        tilt = max(tilt, float(np.degrees(np.arccos(np.clip(s.placement("base").rotation[2, 2], -1.0, 1.0)))))
        for foot, force in sim.contact_forces.items():
            loads[foot] += t > 0.0 and force[2] > 1.0
    distance = float(dyn.center_of_mass(sim.q)[0] - home[0])
    expected = SPEED * (sim.time - PAUSE)
    on_ground = [DT * count / 3.0 for count in loads.values()]
    height = home[2] - ground
    yield "walks: distance", bool(abs(distance - expected) < 0.1 * expected), f"{distance:.2f} m of {expected:.2f} m"
    yield (
        "walks: upright",
        lowest > 0.7 * height and tilt < 10.0,
        f"base at least {lowest:.2f} m high, {tilt:.0f} degrees",
    )
    yield "walks: clearance", clearance > 0.4 * work.HEIGHT, f"{clearance:.3f} m"
    yield "walks: feet leave the ground", max(on_ground) < work.DUTY + 0.15, f"on it {max(on_ground):.0%} of the time"


CHECKS: dict[str, Callable[[ModuleType], Iterator[Result]]] = {
    "rnea": check_rnea,
    "null_space": check_null_space,
    "friction_cone": check_friction_cone,
    "trot": check_trot,
}


def load(file: Path) -> ModuleType:
    """Imports the file of a student."""
    spec = importlib.util.spec_from_file_location(f"exercise_{file.stem}", file)
    if spec is None or spec.loader is None or not file.exists():
        raise SystemExit(f"FILE: expected a Python file, got {file}")
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def check(name: str, file: Path) -> bool:
    """Prints the results of the checks of an exercise and returns whether all passed."""
    passed, work = True, load(file)
    try:
        for title, ok, figures in CHECKS[name](work):
            print(f"{'passed' if ok else 'FAILED'}  {title}{f': {figures}' if figures else ''}")
            passed &= ok
    except NotImplementedError as gap:
        print(f"FAILED  a gap is not filled yet: {gap}")
        return False
    except Exception as error:
        line = traceback.extract_tb(error.__traceback__)[-1]
        print(f"FAILED  {type(error).__name__}: {error} ({Path(line.filename).name}:{line.lineno})")
        return False
    print("all checks passed" if passed else "not all checks passed")
    return bool(passed)


def main() -> int:
    """Checks the exercise that the arguments name; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("exercise", choices=sorted(CHECKS))
    parser.add_argument("file", type=Path, nargs="?", help="file with the filled gaps; the exercise itself by default")
    given = parser.parse_args()
    file = given.file or Path(__file__).resolve().parent / f"{given.exercise}.py"
    return 0 if check(given.exercise, file) else 1


if __name__ == "__main__":
    sys.exit(main())
