"""`plan_righting`: search for the motions with which a robot rolls from back and sides onto its belly, with a cache."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np

from ..compiler import object_cache
from ..deprecation import renamed_parameters
from ..errors import ArgumentError, QuaddynError
from ..locomotion.leg_folding import folded_pose
from ..locomotion.morphology import Morphology
from ..locomotion.righting import SIDES, RightingMotion, RightingPlan
from ..robot.arguments import check_integer
from ..robot.robot import Robot
from ..urdf.tree import Array
from .righting_search import RightingSearch, SearchResult, find_motion

#: Prefix of the cache keys of plans.
CACHE_KIND = "righting"
#: Decimals of the robot's numbers in a cache key, in SI units: rounding differs between processors.
KEY_DECIMALS = 10
#: Magnitude above which a number counts as infinite in a cache key.
KEY_INFINITY = 1e20


@renamed_parameters(tries="max_trials", keep="use_cache")
def plan_righting(
    robot: Robot,
    *,
    seed: int = 0,
    max_trials: int = 600,
    use_cache: bool = True,
    progress: Callable[[str], None] | None = None,
) -> RightingPlan:
    """Searches the motions with which a robot rolls onto its belly from its back and from either side.

    A motion is a sequence of poses of the legs, the same for both left and for both right legs, that starts and ends
    with the folded robot.  Poses and times are found by the cross-entropy method (Rubinstein 1999) in the embedded
    plant, with the torque limits of `LocomotionController`: those of the motors, and none that accelerates a joint
    beyond the maximum driven speed.  Joints keep a margin to their stops, and links do not collide along the path.  A
    motion must succeed with friction coefficients of 0.4 and 0.9, and from attitudes 0.15 rad to either side as well.
    For the right side the mirror image of the left side's motion is tried first.  A side on which the folded robot does
    not rest has neither a motion nor a reason.

    A search takes tens of seconds to minutes.  The plan is cached in the cache folder (``$QUADDYN_CACHE``) under a hash
    of everything on which it depends, the numbers of the robot and this code.

    Args:
        robot: a quadruped.
        seed: seed of the search.
        max_trials: maximum number of trial motions for each side.
        use_cache: whether a cached plan is used, and the new one is cached.
        progress: function that is called with a line of text now and then; None to print to stderr.

    Returns:
        The plan; `RightingPlan.infeasible` has the result of the best motion for each side without one.

    Raises:
        ArgumentTypeError: `robot` is not a Robot.
        ArgumentError: the robot is not a quadruped, or its legs cannot fold.
    """
    morphology = Morphology.from_robot(robot)
    max_trials = check_integer("max_trials", max_trials)
    seed = check_integer("seed", seed, least=0)
    pose = folded_pose(robot)
    if pose is None:
        raise ArgumentError(f"robot: the legs of {robot.name!r} have no folded pose within their joints' limits")
    key = _cache_key(robot, seed, max_trials)
    if use_cache and (cached_plan := _load_cached_plan(key, robot)) is not None:
        return cached_plan
    report = progress or _print_progress
    search = RightingSearch(robot, morphology)
    results: dict[str, SearchResult] = {}
    for side in ("left", "right", "back"):

        def report_side(text: str, side: str = side) -> None:
            report(f"righting motion of {robot.name!r} from its {side}: {text}")

        first_parameters = search.mirror(results["left"].parameters) if side == "right" and "left" in results else None
        if search.rests_on(side):
            results[side] = find_motion(
                search,
                side,
                np.random.default_rng(seed),
                max_trials=max_trials,
                first_parameters=first_parameters,
                progress=report_side,
            )
    motions = {side: each.motion for side, each in results.items() if each.motion is not None}
    infeasible = {side: results[side].reason for side in SIDES if side in results and results[side].motion is None}
    plan = RightingPlan(robot.name, key, motions, infeasible)
    if use_cache:
        object_cache.store_object(key, json.dumps(_to_json(plan)).encode())
    return plan


def _print_progress(text: str) -> None:
    """Prints a line of progress to stderr."""
    print(f"quaddyn: {text}", file=sys.stderr, flush=True)


@cache
def _hash_sources() -> str:
    """Returns a hash of the source files on which plans depend."""
    folder = Path(__file__).parent
    names = ("leg_folding", "righting", "torque_limiter")
    other_files = (folder.parent / "locomotion" / f"{name}.py" for name in names)
    return object_cache.hash_parts(*(file.read_bytes() for file in (*sorted(folder.glob("*.py")), *other_files)))


def _cache_key(robot: Robot, seed: int, max_trials: int) -> str:
    """Returns the cache key of a plan: a hash of everything on which it depends."""
    model = robot.model
    parts: list[object] = [robot.root, robot.name, _round_for_key(robot.q_home), _round_for_key(model.gravity.linear)]
    parts += [_round_for_key(each) for each in (robot.effort_limits, robot.velocity_limits, robot.armature)]
    parts += [_round_for_key(each) for each in (model.lowerPositionLimit, model.upperPositionLimit)]
    parts += [_round_for_key(each) for each in (robot.damping, robot.friction)]
    for leg in robot.legs.values():
        parts += [leg.foot.name, leg.foot.frame, _round_for_key(leg.foot.offset), _round_for_key(leg.foot.radius)]
    for body in robot.bodies:
        i, p = body.inertial, body.placement
        parts += [body.name, body.parent, _round_for_key(p.rotation), _round_for_key(p.translation)]
        parts += [_round_for_key(i.mass), _round_for_key(i.com), _round_for_key(i.inertia)]
        for link, pose in body.links:
            parts += [link.name, _round_for_key(pose.rotation), _round_for_key(pose.translation)]
            for geometry in link.collisions:
                shape_pose = geometry.placement
                parts += [
                    str(geometry.shape),
                    _round_for_key(shape_pose.rotation),
                    _round_for_key(shape_pose.translation),
                ]
    return f"{CACHE_KIND}-{object_cache.hash_parts(_hash_sources(), seed, max_trials, *parts)}"


def _round_for_key(numbers: Array | float) -> bytes:
    """Returns numbers rounded to `KEY_DECIMALS` decimals as bytes, without negative zeros."""
    return bytes((np.round(np.clip(numbers, -KEY_INFINITY, KEY_INFINITY), KEY_DECIMALS) + 0.0).tobytes())


def _to_json(plan: RightingPlan) -> dict[str, object]:
    """Returns a plan as a dictionary for JSON."""
    motions = {
        side: {
            "poses": motion.poses.tolist(),
            "times": motion.times.tolist(),
            "rest_durations": motion.rest_durations.tolist(),
        }
        for side, motion in plan.motions.items()
    }
    return {"robot": plan.robot, "motions": motions, "infeasible": dict(plan.infeasible)}


def _load_cached_plan(key: str, robot: Robot) -> RightingPlan | None:
    """Returns the cached plan of a key; None if there is none, or if it is damaged."""
    content = object_cache.load_object(key)
    if content is None:
        return None
    try:
        values = json.loads(content)
        motions = {
            side: RightingMotion(*(np.array(motion[name]) for name in ("poses", "times", "rest_durations")))
            for side, motion in values["motions"].items()
        }
        plan = RightingPlan(robot.name, key, motions, values["infeasible"])
    except (KeyError, TypeError, ValueError, QuaddynError):
        return None
    return plan if all(motion.poses.shape[1:] == (robot.nu,) for motion in motions.values()) else None
