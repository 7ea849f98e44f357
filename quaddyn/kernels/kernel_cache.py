"""Cache of kernels on disk: `load_or_compile` makes the key and loads or compiles a kernel."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

from ..compiler import machine, object_cache
from ..compiler.object_cache import fingerprint
from ..robot.loops import LoopCoupling
from ..robot.robot import Robot
from . import native_kernel
from .llvm_writer import Target
from .native_kernel import NativeKernel
from .program import OperationCounts, Program

#: Prefix of the file names of cached kernels.
CACHE_KIND = "kernel"


@dataclass(frozen=True, slots=True)
class KernelSignature:
    """Description of a compiled kernel that callers need.

    Attributes:
        inputs: (name, size) in order.
        outputs: (name, shape) of one state, in order.
        units: groups of entries of q that have unit norm.
        angles: entries of q that are angles.
        operations: operation counts.
    """

    inputs: tuple[tuple[str, int], ...]
    outputs: tuple[tuple[str, tuple[int, ...]], ...]
    units: tuple[tuple[int, ...], ...]
    angles: tuple[int, ...]
    operations: OperationCounts


@cache
def _sources() -> str:
    """Returns the hash of the sources of this subpackage, of all that they import, and of the compiler."""
    return fingerprint(*sorted(Path(__file__).parent.glob("*.py")))


def hash_robot_properties(robot: Robot) -> str:
    """Returns the hash of all properties of a robot on which a kernel may depend: root, tree and numbers."""
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
    return object_cache.hash_parts(*parts)


def kernel_cache_key(robot: Robot, element: str, what: Sequence[object], processor: machine.Machine) -> str:
    """Returns the name under which a kernel is stored: a hash of all that its machine code depends on.

    These are the sources that generate it, the compiler, the processor, the robot, and the arguments of
    `load_or_compile`.
    """
    target = (machine.llvm_version(), processor.triple, processor.cpu, processor.features, processor.bits)
    parts = (_sources(), *target, hash_robot_properties(robot), element, *what)
    return f"{CACHE_KIND}-{object_cache.hash_parts(*parts)}"


def load_or_compile(
    robot: Robot,
    element: str,
    what: Sequence[object],
    trace: Callable[[], Program],
    write: Callable[[Program, Target], str],
) -> tuple[KernelSignature, NativeKernel]:
    """Returns a program as machine code: loaded from the cache, or traced, compiled and stored there.

    Args:
        robot: the robot of the program.
        element: "double" or "float".
        what: name of the program, and all options that it depends on.
        trace: returns the program.
        write: returns its IR module for a target.

    Raises:
        UnsupportedMachineError: machine code cannot be made or run here.
    """
    here = machine.kernel_machine()
    target = native_kernel.vector_target(here, element)
    interface, code = load_or_generate(
        robot,
        element,
        what,
        here,
        trace,
        lambda program: machine.compile_ir(write(program, target), here, optimize=False),
    )
    return interface, native_kernel.link_kernel(code, here, len(interface.inputs) + len(interface.outputs))


def load_or_generate(
    robot: Robot,
    element: str,
    what: Sequence[object],
    processor: machine.Machine,
    trace: Callable[[], Program],
    generate: Callable[[Program], bytes],
) -> tuple[KernelSignature, bytes]:
    """Returns the code of a program: loaded from the cache, or traced, generated and stored there.

    Args:
        robot: the robot of the program.
        element: "double" or "float".
        what: name of the program, and all options that it depends on.
        processor: processor of the code.
        trace: returns the program.
        generate: returns its code.
    """
    key = kernel_cache_key(robot, element, what, processor)
    cached = object_cache.load_object(key)
    if cached is not None:
        head, code = _split_kernel_file(cached)
        interface = _decode_signature(head["interface"])
    else:
        program = trace()
        interface = KernelSignature(program.inputs, program.outputs, program.units, program.angles, program.operations)
        code = generate(program)
        text = {"robot": robot.name, "what": program.name, "interface": asdict(interface)}
        encoded = json.dumps(text).encode()
        object_cache.store_object(key, len(encoded).to_bytes(8, "little") + encoded + code)
    return interface, code


def _split_kernel_file(content: bytes) -> tuple[dict[str, Any], bytes]:
    """Splits the content of a cached kernel into its header (JSON) and the machine code."""
    end = 8 + int.from_bytes(content[:8], "little")
    head: dict[str, Any] = json.loads(content[8:end])
    return head, content[end:]


def _decode_signature(data: dict[str, Any]) -> KernelSignature:
    """Returns the signature in a header."""
    return KernelSignature(
        tuple((n, s) for n, s in data["inputs"]),
        tuple((n, tuple(s)) for n, s in data["outputs"]),
        tuple(map(tuple, data["units"])),
        tuple(data["angles"]),
        OperationCounts(**data["operations"]),
    )


@dataclass(frozen=True, slots=True)
class CachedKernel:
    """A kernel in the cache folder.

    Attributes:
        robot: name of the robot.
        what: name of the algorithm, such as "rnea".
        file: path.
        size: size of the file [bytes].
    """

    robot: str
    what: str
    file: Path
    size: int


def cached_kernels() -> Iterator[CachedKernel]:
    """Yields every undamaged kernel in the cache folder, also those of other versions and of earlier robots."""
    folder = object_cache.cache_folder()
    for file in sorted(folder.glob(f"{CACHE_KIND}-*.bin")) if folder is not None else ():
        found = object_cache.read_object(file, file.stem)
        if found is not None:
            head, _ = _split_kernel_file(found)
            yield CachedKernel(head["robot"], head["what"], file, file.stat().st_size)
