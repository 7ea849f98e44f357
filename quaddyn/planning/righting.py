"""`plan_righting`: how a robot gets off its back and its sides, found once per robot and kept."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np

from ..compiler import object_cache
from ..errors import ArgumentError, QuaddynError
from ..locomotion.curl import folded
from ..locomotion.proportions import Proportions
from ..locomotion.righting import SIDES, Righting, Roll
from ..robot.arguments import whole
from ..robot.robot import Robot
from ..urdf.tree import Array
from .rolling import Found, Rolling, search

#: What the names of kept plans begin with.
KIND = "righting"
#: Decimals of the robot's numbers that a kept plan is found by, in SI units: rounding differs between processors.
KEY_DECIMALS = 10
#: Magnitude from which on a number counts as infinite there.
KEY_INFINITY = 1e20


def plan_righting(
    robot: Robot,
    *,
    seed: int = 0,
    tries: int = 600,
    keep: bool = True,
    progress: Callable[[str], None] | None = None,
) -> Righting:
    """Find out how a robot gets onto its belly from its back and from either side, or why it does not.

    Every roll is a sequence of poses of the legs, left and right ones alike among themselves, that starts and ends
    with the folded robot.  Poses and times are sought by the cross-entropy method (Rubinstein 1999) in the embedded
    plant, with torques as `LocomotionController` sends them: within the motors' limits, and none that adds to the
    speed of a joint that races.  Joints keep away from their stops, and links that could meet are apart all along the
    path.  A roll counts as found where it succeeds with friction of 0.4 and of 0.9 and from attitudes 0.15 rad to
    either side as well.  The right side is first tried with the left one's mirror image.  Of sides that the folded
    robot does not rest on, but rolls off by itself, there is neither a roll nor a refusal.

    A search takes tens of seconds to minutes.  It happens once: the plan is kept in the cache folder (see
    ``$QUADDYN_CACHE``) under all that it depends on, the robot's numbers and this code.

    Args:
        robot: a quadruped.
        seed: of the search.
        tries: motions that are tried from each of back and sides at most.
        keep: whether to look for a plan that is kept, and to keep this one.
        progress: gets a line now and then; by default stderr does.

    Returns:
        The plan.  Where no roll was found its `refused` says how far the best one came.

    Raises:
        ArgumentTypeError: `robot` is no Robot.
        ArgumentError: no quadruped, or legs that cannot fold.
    """
    proportions, tries, seed = Proportions.of(robot), whole("tries", tries), whole("seed", seed, least=0)
    pose = folded(robot)
    if pose is None:
        raise ArgumentError(f"robot: the legs of {robot.name!r} have no folded pose within their joints' limits")
    key = _key(robot, seed, tries)
    if keep and (known := _kept(key, robot)) is not None:
        return known
    say = progress or _say
    rolling = Rolling(robot, proportions)
    found: dict[str, Found] = {}
    for side in ("left", "right", "back"):

        def tell(text: str, side: str = side) -> None:
            say(f"righting {robot.name!r} from its {side}: {text}")

        first = rolling.mirrored(found["left"].numbers) if side == "right" and "left" in found else None
        if rolling.rests_on(side):
            found[side] = search(rolling, side, np.random.default_rng(seed), tries=tries, first=first, progress=tell)
    rolls = {side: each.roll for side, each in found.items() if each.roll is not None}
    refused = {side: found[side].reason for side in SIDES if side in found and found[side].roll is None}
    plan = Righting(robot.name, key, rolls, refused)
    if keep:
        object_cache.keep(key, json.dumps(_packed(plan)).encode())
    return plan


def _say(text: str) -> None:
    print(f"quaddyn: {text}", file=sys.stderr, flush=True)


@cache
def _sources() -> str:
    """Of this room's code, and of what plays its plans."""
    room = Path(__file__).parent
    others = (room.parent / "locomotion" / f"{name}.py" for name in ("curl", "righting", "motor_guard"))
    return object_cache.digest(*(file.read_bytes() for file in (*sorted(room.glob("*.py")), *others)))


def _key(robot: Robot, seed: int, tries: int) -> str:
    """Of all that a plan depends on."""
    model = robot.model
    parts: list[object] = [robot.root, robot.name, _rounded(robot.q_home), _rounded(model.gravity.linear)]
    parts += [_rounded(each) for each in (robot.effort_limits, robot.velocity_limits, robot.armature)]
    parts += [_rounded(each) for each in (model.lowerPositionLimit, model.upperPositionLimit)]
    parts += [_rounded(each) for each in (robot.damping, robot.friction)]
    for leg in robot.legs.values():
        parts += [leg.foot.name, leg.foot.frame, _rounded(leg.foot.offset), _rounded(leg.foot.radius)]
    for body in robot.bodies:
        i, p = body.inertial, body.placement
        parts += [body.name, body.parent, _rounded(p.rotation), _rounded(p.translation)]
        parts += [_rounded(i.mass), _rounded(i.com), _rounded(i.inertia)]
        for link, pose in body.links:
            parts += [link.name, _rounded(pose.rotation), _rounded(pose.translation)]
            for geometry in link.collisions:
                placed = geometry.placement
                parts += [str(geometry.shape), _rounded(placed.rotation), _rounded(placed.translation)]
    return f"{KIND}-{object_cache.digest(_sources(), seed, tries, *parts)}"


def _rounded(numbers: Array | float) -> bytes:
    """The numbers to `KEY_DECIMALS` decimals, without a sign of zero."""
    return bytes((np.round(np.clip(numbers, -KEY_INFINITY, KEY_INFINITY), KEY_DECIMALS) + 0.0).tobytes())


def _packed(plan: Righting) -> dict[str, object]:
    """For JSON."""
    rolls = {
        side: {"poses": roll.poses.tolist(), "times": roll.times.tolist(), "rests": roll.rests.tolist()}
        for side, roll in plan.rolls.items()
    }
    return {"robot": plan.robot, "rolls": rolls, "refused": dict(plan.refused)}


def _kept(key: str, robot: Robot) -> Righting | None:
    """The plan that is kept, if it is whole."""
    content = object_cache.cached(key)
    if content is None:
        return None
    try:
        read = json.loads(content)
        rolls = {
            side: Roll(*(np.array(roll[name]) for name in ("poses", "times", "rests")))
            for side, roll in read["rolls"].items()
        }
        plan = Righting(robot.name, key, rolls, read["refused"])
    except (KeyError, TypeError, ValueError, QuaddynError):
        return None
    return plan if all(roll.poses.shape[1:] == (robot.nu,) for roll in rolls.values()) else None
