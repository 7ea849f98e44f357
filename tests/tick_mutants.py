"""Saved ticks with random changes and a valid digest are rejected by name or solved in a replay.

    python tests/tick_mutants.py --runs 400 --seed 0 [--judged 0.01]

Compiled code checks no index, so this runs in a separate process: a crash is a failure.  The results of a fraction
of the mutants are compared with the same functions in Python, which checks every index.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import tempfile
from collections import Counter
from pathlib import Path

import numpy as np
import pinocchio as pin
from wbc_elements import check_that_every_kind_is_there

import quaddyn as qd
from quaddyn.compiler import interpret
from quaddyn.contact import Contact
from quaddyn.wbc import (
    ComTask,
    FootTask,
    ForceTask,
    FrameAxisTask,
    FrameOrientationTask,
    FramePositionTask,
    FrameTask,
    HeldObject,
    JointAccelerationTask,
    LinearConstraint,
    MomentumTask,
    PostureTask,
    RelativeFrameTask,
    TorqueRate,
    default_constraints,
    replay,
    tick_file,
)

FLOATS = (0.0, -0.0, 1.0, -1.0, 0.5, np.nan, np.inf, -np.inf, 1e308, -1e308, 1e-308, 1e17, 3.0, 1e3)
#: Omitted kinds, by file: fitting capsules takes too long, and the other rows are like those of linear constraints.
LEFT_OUT = ("collision_limits", "robust_limits", "motor_limits")
INTS = (0, 1, -1, 2, 3, 6, 7, 12, 18, 200, -2, 4096, 2**31, 2**62, -(2**63))


def make_controller_with_every_element(robot: qd.Robot) -> qd.WholeBodyController:
    """A controller with every kind of element, and contacts of every role except force-only."""
    hand, feet = "j2s6s200_end_effector", robot.feet
    tasks = [
        [ComTask(robot), MomentumTask(robot, weight=1e-3), *(FootTask(robot, foot) for foot in feet)],
        [
            FrameTask(robot, hand),
            FrameAxisTask(robot, feet[2], "axis", axis="z"),
            FrameOrientationTask(robot, robot.bodies[0].name, "base"),
        ],
        [RelativeFrameTask(robot, feet[0], feet[1], "apart"), FramePositionTask(robot, feet[3], "foot")],
        [JointAccelerationTask(robot, weight=0.1), PostureTask(robot), ForceTask(robot)],
    ]
    whole = LinearConstraint("own", [-1.0, 0.5], [np.inf, 0.5], acceleration=np.eye(robot.nv)[[2, 7]])
    load = HeldObject(robot, ("palm", "thumb"), hand, 0.5, com=(0.1, 0.0, 0.0), inertia=1e-3 * np.eye(3))
    level_0 = [*default_constraints(robot, 1e-3), TorqueRate(robot, 1e4), whole, load]
    contacts = [
        Contact(name=hand, frame=hand, kind="surface", half_size=(0.05, 0.05)),
        Contact(name=feet[2], frame=feet[2], stiffness=1e4, damping=10.0),
        Contact(name="palm", frame=hand, kind="surface", half_size=(0.05, 0.05), force_only=True),
        Contact(name="thumb", frame=robot.bodies[-1].name, force_only=True),
    ]
    check_that_every_kind_is_there([*level_0, *(e for level in tasks for e in level)], *LEFT_OUT)
    return qd.WholeBodyController(
        robot, tasks=tasks, constraints=level_0, contacts=contacts, friction=0.3, ramp_time=0.004
    )


def ticks(folder: Path) -> list[Path]:
    """Ticks with a history: active limits, ramped contacts, conflicts in level 0, all elements, no feet."""
    out = []
    for name in ("go2", "solo8", "anymal_b_kinova", "ur5"):
        robot, rng = qd.load(name), np.random.default_rng(1)
        wbc = (
            make_controller_with_every_element(robot)
            if name == "anymal_b_kinova"
            else qd.WholeBodyController(robot, friction=0.2)
        )
        if name == "solo8":
            wbc.tasks["torque"].limits[:] = 0.3
        dyn = qd.Dynamics(robot)
        for k in range(6):
            q = pin.integrate(robot.model, robot.q_home, 0.03 * rng.normal(size=robot.nv))
            state = dyn.update(q, 0.1 * rng.normal(size=robot.nv))
            if "com" in wbc.tasks:
                wbc.tasks["com"].reference(state.com, acceleration=np.array([3.0, 1.0, -1.0]))
            known = tuple(wbc.contacts) if robot.root == "free" else ()
            wbc.compute(state, known if k % 4 < 2 else known[:3])
        out.append(folder / f"{name}.npz")
        wbc.save_tick(out[-1])
    return out


def mutate(arrays: dict[str, np.ndarray], rng: np.random.Generator) -> str:
    """Changes one entry and returns its description."""
    name = str(rng.choice([n for n in arrays if n != "digest"]))
    if name == "meta":
        return _other_words(arrays, rng)
    array, how = arrays[name], rng.integers(12)
    if how == 0:
        del arrays[name]
    elif how == 1:
        arrays[name] = array[:-1] if array.ndim and len(array) else array[None]
    elif how == 2:
        arrays[name] = np.concatenate((array, array[-1:])) if array.ndim else array[None]
    elif how == 3:
        arrays[name] = array.T.copy() if array.ndim > 1 else array.astype(rng.choice(["f4", "i4", ">f8", "U5"]))
    elif how == 4:
        arrays[name] = arrays[str(rng.choice(list(arrays)))]
    elif array.size:
        changed = np.array(array)
        flat = changed.reshape(-1)
        for where in rng.integers(array.size, size=rng.integers(1, 4)):
            if array.dtype.kind == "f":
                flat[where] = FLOATS[rng.integers(len(FLOATS))]
                if rng.random() < 0.3:
                    flat[where] = math.exp(rng.uniform(-30.0, 30.0)) * rng.normal()
            elif rng.random() < 0.3:
                flat[where] ^= np.array(1 << rng.integers(3)).astype(array.dtype)  # a nearby value
            else:
                flat[where] = np.array(INTS[rng.integers(len(INTS))]).astype(array.dtype)
        arrays[name] = changed
    return name


def _other_words(arrays: dict[str, np.ndarray], rng: np.random.Generator) -> str:
    meta = json.loads(arrays["meta"].tobytes())
    name = str(rng.choice([n for n in meta if n != "format"]))
    meta[name] = [None, 3, "x", [], ["a"], {}, -1.5, [{"level": 99}], [[]]][rng.integers(9)]
    arrays["meta"] = np.frombuffer(json.dumps(meta).encode(), dtype=np.uint8)
    return "meta"


def agrees_with_python(path: Path) -> bool:
    """Returns whether Python, with all indices checked, gives the result of compiled code up to rounding."""
    record = tick_file.read(path)
    outcome, answer = tick_file.rerun_tick(record.inputs)
    with interpret():
        other, expected = tick_file.rerun_tick(record.inputs)
    if outcome != other or outcome != 0:
        return True  # for unsolvable numbers the result depends on rounding
    size = 1.0 + np.abs(expected.torque).max(initial=0.0)
    return bool(np.abs(answer.torque - expected.torque).max(initial=0.0) <= 1e-6 * size)


def campaign(runs: int, seed: int, judged: float) -> Counter[str]:
    """Replays `runs` mutants and returns their outcomes."""
    tally: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as place:
        path, saved = Path(place) / "mutant.npz", []
        for each in ticks(Path(place)):
            with np.load(each) as archive:
                saved.append(dict(archive))
            assert replay(each).identical, each
        for run in range(runs):
            rng = np.random.default_rng([seed, run])
            arrays = dict(saved[rng.integers(len(saved))])
            names = [mutate(arrays, rng) for _ in range(rng.integers(1, 3)) if "meta" in arrays]
            arrays.pop("digest", None)
            np.savez(path, digest=tick_file.digest(arrays), **arrays)
            try:
                again = replay(path)
                if run % 40 == 0:  # texts, which do not affect the rows
                    again.command.explain(include_last_level=True)
            except qd.ArgumentError as error:
                said = str(error)
                unnamed = "was not saved by" in said and "meta" not in names
                if unnamed:
                    print(f"run {run}: {names}: {said}", file=sys.stderr)
                tally["refused without a name" if unnamed else "refused"] += 1
                continue
            tally[again.command.status.outcome] += 1
            if rng.random() < judged:
                good = agrees_with_python(path)
                if not good:
                    print(f"run {run}: {names}: other numbers by Python", file=sys.stderr)
                tally["judged" if good else "judged another"] += 1
    return tally


def main() -> int:
    """Runs the campaign and prints the outcomes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--judged", type=float, default=0.01, help="share of the answers that Python judges")
    options = parser.parse_args()
    with np.errstate(all="ignore"):
        tally = campaign(options.runs, options.seed, options.judged)
    print(json.dumps(tally))
    return 1 if tally["refused without a name"] or tally["judged another"] else 0


if __name__ == "__main__":
    sys.exit(main())
