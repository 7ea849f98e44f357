"""Compiled programs, made once and kept: found again by all that they depend on."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

from ..compiler import machine, object_cache
from ..compiler.source_fingerprint import fingerprint
from ..robot.loops import LoopCoupling
from ..robot.robot import Robot
from . import native_kernel
from .llvm_writer import Target
from .native_kernel import Native
from .program import Operations, Program

#: What the names of kept files begin with.
KIND = "kernel"


@dataclass(frozen=True, slots=True)
class Interface:
    """What a caller must know of a compiled program.

    Attributes:
        inputs: (name, size) in order.
        outputs: (name, shape) of one state, in order.
        units: entries of q whose squares sum to one.
        angles: entries of q that are angles.
        operations: counts.
    """

    inputs: tuple[tuple[str, int], ...]
    outputs: tuple[tuple[str, tuple[int, ...]], ...]
    units: tuple[tuple[int, ...], ...]
    angles: tuple[int, ...]
    operations: Operations


@cache
def _sources() -> str:
    """A key for this room's own code, for all that it imports, and for what makes machine code of it."""
    return fingerprint(*sorted(Path(__file__).parent.glob("*.py")))


def model_key(robot: Robot) -> str:
    """A key for all that a kernel may depend on: root, tree and numbers of the robot."""
    parts: list[object] = [robot.root, robot.nq, robot.nv, robot.name]
    parts += [(leg.foot.name, leg.foot.frame, leg.foot.offset.tobytes()) for leg in robot.legs.values()]
    for link in robot.tree.joints:
        parts += [link.name, link.type, link.child]
    for body in robot.bodies:
        j, i = body.joint, body.inertial
        parts += [body.name, body.parent, body.placement.rotation.tobytes(), body.placement.translation.tobytes()]
        parts += [(link.name, pose.rotation.tobytes(), pose.translation.tobytes()) for link, pose in body.links]
        parts += [float(i.mass).hex(), i.com.tobytes(), i.inertia.tobytes()]
        if j is not None:
            parts += [
                j.type,
                j.axis.tobytes(),
                float(j.armature).hex(),
                float(j.damping).hex(),
                float(j.friction).hex(),
            ]
            if j.mimic is not None:
                parts += [j.mimic.joint, float(j.mimic.multiplier).hex(), float(j.mimic.offset).hex()]
    if isinstance(robot.coupling, LoopCoupling):
        parts += [x.tobytes() for x in robot.coupling.closures]
    return object_cache.digest(*parts)


def prepared(
    robot: Robot,
    element: str,
    what: Sequence[object],
    trace: Callable[[], Program],
    write: Callable[[Program, Target], str],
) -> tuple[Interface, Native]:
    """A program in machine code: from the cache, or traced, compiled and kept there.

    Args:
        robot: whose program it is.
        element: "double" or "float".
        what: its name, and all else that the program depends on.
        trace: makes the program.
        write: makes its IR module for a target.

    Raises:
        Unsupported: machine code cannot be made or run here.
    """
    here = machine.host()
    follows = (machine.llvm_version(), here.cpu, here.features, here.bits, model_key(robot), element, *what)
    key = f"{KIND}-{object_cache.digest(_sources(), *follows)}"
    kept = object_cache.cached(key)
    if kept is not None:
        head, code = _parted(kept)
        interface = _decoded(head["interface"])
    else:
        program = trace()
        interface = Interface(program.inputs, program.outputs, program.units, program.angles, program.operations)
        code = machine.object_code(write(program, native_kernel.target(here, element)), here, optimize=False)
        text = {"robot": robot.name, "what": program.name, "interface": asdict(interface)}
        encoded = json.dumps(text).encode()
        object_cache.keep(key, len(encoded).to_bytes(8, "little") + encoded + code)
    return interface, native_kernel.load(code, here, len(interface.inputs) + len(interface.outputs))


def _parted(kept: bytes) -> tuple[dict[str, Any], bytes]:
    """What is said of kept code, and the code."""
    end = 8 + int.from_bytes(kept[:8], "little")
    head: dict[str, Any] = json.loads(kept[8:end])
    return head, kept[end:]


def _decoded(data: dict[str, Any]) -> Interface:
    return Interface(
        tuple((n, s) for n, s in data["inputs"]),
        tuple((n, tuple(s)) for n, s in data["outputs"]),
        tuple(map(tuple, data["units"])),
        tuple(data["angles"]),
        Operations(**data["operations"]),
    )


@dataclass(frozen=True, slots=True)
class Kept:
    """A compiled program on disk.

    Attributes:
        robot: whose.
        what: its name.
        file: where it lies.
        size: of the file [bytes].
    """

    robot: str
    what: str
    file: Path
    size: int


def kept_kernels() -> Iterator[Kept]:
    """Every whole compiled program in the cache folder, also those of other versions and robots of old."""
    folder = object_cache.cache_folder()
    for file in sorted(folder.glob(f"{KIND}-*.bin")) if folder is not None else ():
        found = object_cache.read(file, file.stem)
        if found is not None:
            head, _ = _parted(found)
            yield Kept(head["robot"], head["what"], file, file.stat().st_size)
