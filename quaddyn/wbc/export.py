"""`export_c`: export of a whole controller as C99, for computers without Python."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from ..compiler.c99 import c_source
from ..contact import friction_pyramid, pyramid_friction_ratio
from ..errors import ArgumentError, ArgumentTypeError
from ..kernels import tick_terms_c
from ..kernels.c_source import identifier
from ..robot.robot import Robot
from ..urdf.tree import Array
from ..version import __version__
from . import embedded
from .contact_ramps import make_ramps
from .controller import WholeBodyController
from .embedded import ControllerProgress, EmbeddedController
from .export_api import CApi
from .export_data import StaticData
from .export_text import cmake_file, main_program, readme
from .tick_solver import TickSolver


@dataclass(frozen=True, slots=True)
class ControllerSource:
    """Source code that `controller_c` returns.

    Attributes:
        name: prefix of the names of files and functions.
        files: texts by name of the file.
        memory: bytes of constants ("constant"), of data with initial values ("set") and of zero-initialized data
            ("zero").
    """

    name: str
    files: dict[str, str]
    memory: dict[str, int]


def export_c(
    controller: WholeBodyController, folder: str | os.PathLike[str], *, name: str | None = None
) -> ControllerSource:
    """Writes a controller as C99: the terms of its robot, its ticks, contacts, references and limits.

    The C controller starts in the current state of this controller, including gains, limits and references, with a
    first tick.  Export a controller that has not run yet, or call `WholeBodyController.reset` first: references that
    ticks have captured are exported like others.

    Args:
        controller: controller without custom elements.
        folder: folder to write to; created if it does not exist.
        name: prefix of the names of files and functions; ``ROBOT_wbc`` if None.

    Returns:
        The source code that was written.

    Raises:
        ArgumentError: custom elements, names that are equal in C, or an invalid prefix.
        OSError: a file cannot be written.
    """
    source = controller_c(controller, name=name)
    out = Path(folder)
    out.mkdir(parents=True, exist_ok=True)
    for file, text in source.files.items():
        (out / file).write_text(text, encoding="ascii")
    return source


def controller_c(controller: WholeBodyController, *, name: str | None = None) -> ControllerSource:
    """Returns a controller as C99 without writing files.

    Args:
        controller: controller without custom elements.
        name: prefix of the names of files and functions; ``ROBOT_wbc`` if None.

    Raises:
        ArgumentError: see `export_c`.
    """
    if not isinstance(controller, WholeBodyController):
        raise ArgumentTypeError(f"controller: expected a WholeBodyController, got {type(controller).__name__}")
    robot, solver = controller.robot, controller._structure.solver
    if name is None:
        name = identifier(f"{robot.name}_wbc")
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]{0,60}", name):
        raise ArgumentError(f"name: expected a letter followed by up to 60 letters, digits or _, got {name!r}")
    custom_names = [element.name for _, element in solver.tables.custom_elements]
    if custom_names:
        raise ArgumentError(
            f"controller: the elements {', '.join(map(repr, custom_names))} cannot be exported, because their rows "
            "are computed in Python; remove them"
        )
    controller._structure.levels.validate_parameters()
    core = c_source(embedded.FUNCTIONS, f"{name}_core")
    terms = tick_terms_c(robot, solver.tables.frames, solver.tables.momentum, name=f"{name}_terms")
    record, data = make_embedded_controller(controller), StaticData("data_model")
    structure = data.define_structure(record, "controller", "EmbeddedController")
    api = CApi(name, controller, record)
    files = {
        f"{name}.h": api.header(),
        f"{name}.c": api.source(data.definitions, structure),
        f"{name}_core.h": _add_prefix_to_core(core.header, name),
        f"{name}_core.c": _add_prefix_to_core(core.source, name),
        f"{name}_terms.h": terms.header,
        f"{name}_terms.c": terms.source,
        "main.c": main_program(name),
        "CMakeLists.txt": cmake_file(name),
        "README.md": readme(name, robot, api.setters, data.sizes),
    }
    return ControllerSource(name, {file: to_ascii(text) for file, text in files.items()}, data.sizes)


def make_embedded_controller(controller: WholeBodyController) -> EmbeddedController:
    """Returns a copy of a controller as arrays, before its first tick."""
    robot, solver, schedule = controller.robot, controller._structure.solver, controller._structure.schedule
    data, count, scale = solver.make_first_tick_data(), len(schedule.names), solver.scales
    size = solver.result_size
    return EmbeddedController(
        data=data,
        ramps=make_ramps(count),
        values=np.zeros(size),
        last=np.zeros(size),
        requested=np.zeros(count, dtype=np.int64),
        progress=ControllerProgress.allocate(),
        home=np.array(robot.q_home, dtype=np.float64),
        unit_norm_parts=_unit_norm_parts(robot),
        frictionless_pyramids=_frictionless_pyramids(solver),
        activation_step=controller.dt / controller.ramp_time if controller.ramp_time > 0.0 else np.inf,
        weight=scale.mass * scale.gravity,
        pyramid_friction_ratio=pyramid_friction_ratio(data.model.faces) if data.model.faces else 0.0,
    )


def _unit_norm_parts(robot: Robot) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    """Returns first index and size (n, 2) of each part of q that has unit norm, such as a quaternion."""
    return np.array([(first, size) for _, first, size in robot.unit_norm_slices], dtype=np.int64).reshape(-1, 2)


def _frictionless_pyramids(solver: TickSolver) -> Array:
    """Returns the rows (contacts, faces + 1, 3) of the friction pyramids at zero friction; zeros without a pyramid."""
    faces, contacts = solver.tables.model.faces, solver.contacts
    pyramids = np.zeros((len(contacts), faces + 1, 3))
    for rows, settings in zip(pyramids, contacts, strict=True):
        if faces and settings.contact.unilateral and settings.contact.kind != "surface":
            rows[:] = friction_pyramid(replace(settings.contact, friction=0.0), faces=faces)
    return pyramids


def _add_prefix_to_core(text: str, name: str) -> str:
    """Returns the core's source with the controller's prefix, so that one program may contain several controllers."""
    text = re.sub(r"\bwbc_embedded_", f"{name}_core_", text)
    return f"/* Computation of a tick. Written by quaddyn {__version__}; do not edit. */\n{text}"


def to_ascii(text: str) -> str:
    """Returns the text in ASCII."""
    return text.encode("ascii", "backslashreplace").decode()
