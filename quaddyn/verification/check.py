"""`cross_check`: comparison of every algorithm of `Dynamics` with the reference on random states."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Literal, cast

import numpy as np

from ..deprecation import renamed_parameters
from ..dynamics import Dynamics, compile
from ..errors import ArgumentError
from ..reference import ClosedReference, Reference
from ..reference.reader import Mimic, read_loops, read_urdf
from ..robot.loop_closing import open_loops_of
from ..robot.loops import LoopCoupling
from ..robot.robot import Robot
from .algorithms import ILL_CONDITIONED, Oracle, Sample, compare, compare_kernels, compare_with_mujoco
from .bodies import STRUCTURE, apply_arguments, find_deviations
from .report import Deviation, ThirdOpinion, VerificationReport, WorstSample

Source = str | bytes | os.PathLike[str]

EPS = float(np.finfo(float).eps)


@renamed_parameters(conditioned="condition_tolerance", beyond="range_excess", derivatives="n_derivative_samples")
def cross_check(
    robot: Robot,
    samples: int = 100,
    seed: int = 0,
    *,
    source: Source | None = None,
    reference: Reference | None = None,
    tolerance: float = 1e-9,
    condition_tolerance: float = 100.0,
    range_excess: float = 0.5,
    n_derivative_samples: int | None = None,
    mujoco: bool = True,
    kernels: bool = False,
    progress: Callable[[float], object] | None = None,
) -> VerificationReport:
    """Compares the robot with an independent reading of its file: every number of the model and every algorithm.

    States are random: every other one within the joints' limits, the others also outside, with velocities of a few
    rad/s and forces and torques on three random frames.  The torques of forward dynamics are those of random
    accelerations.

    Args:
        robot: a loaded robot.
        samples: number of random states.
        seed: seed of the random states.
        source: the URDF that the reference reads, as text, bytes or path; by default that of the robot.
        reference: reference to compare with; by default it is read from `source`.
        tolerance: largest relative error of every algorithm and every number of the model.
        condition_tolerance: factor by which the error of forward dynamics may exceed ``eps cond(M)``, if that is more
            than `tolerance`; with closed loops the condition number is that of the reference's system with multipliers.
        range_excess: distance by which random states exceed the limits of a joint, as a fraction of its range.
        n_derivative_samples: number of states in which the derivatives of `rnea` and `aba` are compared too, which are
            slow (nv complex steps each); by default all, and none with closed loops.
        mujoco: whether to compare M with MuJoCo's importer, if it is installed.
        kernels: whether to compare compiled `rnea`, `crba` and `aba` (`quaddyn.compile`), which takes seconds, once.
        progress: called with the completed fraction (0 to 1); None for no reports.

    Returns:
        The `VerificationReport`; print it.

    Raises:
        ArgumentError: fewer than one sample.
        ModelError: the reference's reader rejects the file.
    """
    if samples < 1:
        raise ArgumentError(f"samples: expected at least 1, got {samples}")
    text = robot.source if source is None else source
    open_robot = open_loops_of(robot) if robot.loops else robot
    tree = read_reference(open_robot, text, _joints_on_loops(robot)) if reference is None else reference
    if robot.loops:
        tree = _with_loop_coordinates(tree, robot)
    found = find_deviations(open_robot, tree, tolerance)
    if any(d.quantity in STRUCTURE for d in found):
        return _structure_report(robot, found, seed)
    oracle = _close_reference(robot, tree, text) if robot.loops else tree
    dynamics, rng = Dynamics(robot), np.random.default_rng(seed)
    kernels_under_test = compile(robot, ("rnea", "crba", "aba")) if kernels else None
    errors: dict[str, list[float]] = {}
    limits: dict[str, list[float]] = {}
    conditions = []
    worst: WorstSample | None = None
    for k in range(samples):
        sample = draw_sample(robot, oracle, rng, range_excess if k % 2 and not robot.loops else 0.0)
        conditions.append(float(np.linalg.cond(oracle.crba(sample.q))))
        conditioned_tolerance = max(tolerance, condition_tolerance * EPS * oracle.conditioning(sample.q))
        sample_errors = compare(
            dynamics,
            oracle,
            sample,
            derivatives=not robot.loops and (n_derivative_samples is None or k < n_derivative_samples),
        )
        if kernels_under_test is not None:
            sample_errors |= compare_kernels(kernels_under_test, oracle, sample)
        for name, error in sample_errors.items():
            limit = conditioned_tolerance if name in ILL_CONDITIONED else tolerance
            errors.setdefault(name, []).append(error)
            limits.setdefault(name, []).append(limit)
            ratio = error / limit if np.isfinite(error) else np.inf
            if worst is None or ratio > worst.ratio:
                worst = WorstSample(name, ratio, sample.q, sample.v, sample.a, sample.tau, sample.fext)
        if progress is not None:
            progress((k + 1) / samples)
    assert worst is not None
    return VerificationReport(
        robot=robot.name,
        root=robot.root,
        samples=samples,
        seed=seed,
        errors={name: float(np.max(x)) for name, x in errors.items()},
        medians={name: float(np.median(x)) for name, x in errors.items()},
        tolerances={name: float(np.max(x)) for name, x in limits.items()},
        ratios={name: float(np.max(np.divide(x, limits[name]))) for name, x in errors.items()},
        condition=(float(np.median(conditions)), float(np.max(conditions))),
        deviations=found,
        third_opinion=compare_with_mujoco(tree, text, rng, tolerance) if mujoco else ThirdOpinion("not compared"),
        worst_sample=worst,
    )


def read_reference(robot: Robot, source: Source, counting: Collection[str] = ()) -> Reference:
    """Returns the reference of `source`, with the values that override the file.

    These are the armature, damping and friction passed as arguments, and the position of each foot in its link.
    """
    feet = {name: (leg.foot.frame, np.array(leg.foot.offset)) for name, leg in robot.legs.items()}
    mimic: Literal["follow", "independent"] = "independent" if robot.coupling is None else "follow"
    return apply_arguments(
        robot, Reference(source, root=_root_type(robot), frames=feet, mimic=mimic, counting=counting)
    )


def _joints_on_loops(robot: Robot) -> set[str]:
    """Returns the names of the joints of closed loops, whose angles are not wrapped."""
    if not isinstance(robot.coupling, LoopCoupling):
        return set()
    at = set(robot.coupling.closures.q.tolist())
    return {robot.model.names[i] for i in range(1, robot.model.njoints) if robot.model.joints[i].idx_q in at}


def _with_loop_coordinates(tree: Reference, robot: Robot) -> Reference:
    """Returns the reference's tree with the joint ranges of the robot's loops, and without friction on their joints."""
    damping, friction, bodies = tree.model.damping.copy(), tree.model.friction.copy(), list(tree.model.bodies)
    for i, body in enumerate(bodies):
        if body.root:
            continue
        joint = robot.tree.joints_by_name[body.joint]
        followed = any(other.mimic is not None and other.mimic.joint == joint.name for other in robot.tree.joints)
        if followed or f"{joint.name}.range" in robot.report.provenance:
            bodies[i] = replace(body, lower=joint.limits.lower, upper=joint.limits.upper)
        if joint.loop is not None:
            damping[body.v] = friction[body.v] = 0.0
    model = replace(tree.model, bodies=tuple(bodies))
    return Reference(model, armature=tree.model.armature, damping=damping, friction=friction)


def _close_reference(robot: Robot, tree: Reference, source: Source) -> ClosedReference:
    """Returns the closed reference: its own reading of loops, with the robot's home and choice of dependent joints."""
    coupling, model = robot.coupling, robot.model
    assert isinstance(coupling, LoopCoupling)
    q_all = coupling.configuration(robot.q_home)
    joints = {model.names[i]: model.joints[i].idx_q for i in range(1, model.njoints)}
    on_loops = _joints_on_loops(robot)
    ranges = {
        name: (robot.tree.joints_by_name[name].limits.lower, robot.tree.joints_by_name[name].limits.upper)
        for name in on_loops
    }
    home = {name: float(q_all[joints[name]]) for name in on_loops}
    follow: Mimic = "follow" if any(joint.mimic is not None for joint in robot.tree.joints) else "independent"
    gears = [(j.name, j.leader, j.gear, j.bias) for j in read_urdf(source, mimic=follow).joints if j.leader is not None]
    return ClosedReference(tree, read_loops(source), home, tuple(coupling.followers), ranges, gears)


def draw_sample(robot: Robot, oracle: Oracle, rng: np.random.Generator, beyond: float) -> Sample:
    """Returns a random state with external forces, proportional to the robot's weight, on three frames."""
    q = oracle.random_configuration(rng, beyond=beyond)
    v, a, b = rng.normal(size=(3, oracle.nv)) * np.array([[2.0], [10.0], [10.0]])
    weight = robot.mass * 9.81
    force = weight * np.array([0.3, 0.3, 0.3, 0.03, 0.03, 0.03])
    fext = {str(name): rng.normal(size=6) * force for name in rng.choice(robot.frame_names, size=3)}
    return Sample(q, v, a, oracle.rnea(q, v, b, fext=fext), fext)


def _root_type(robot: Robot) -> Literal["free", "planar", "fixed"]:
    return cast(Literal["free", "planar", "fixed"], robot.root)


def _structure_report(robot: Robot, found: tuple[Deviation, ...], seed: int) -> VerificationReport:
    """Returns the report of a robot whose joints or frames differ, so that no states can be compared."""
    wrong, nothing, nan = {"structure": np.inf}, np.zeros(0), float("nan")
    worst = WorstSample("structure", np.inf, nothing, nothing, nothing, nothing, {})
    none, third = {"structure": 0.0}, ThirdOpinion("not compared")
    return VerificationReport(
        robot.name, robot.root, 0, seed, wrong, wrong, none, wrong, (nan, nan), found, third, worst
    )
