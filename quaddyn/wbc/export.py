"""`export_c`: export of a whole controller as C99, for computers without Python."""

from __future__ import annotations

import os
from dataclasses import dataclass

from ..compiler.c99 import c_source
from ..errors import ArgumentError, ArgumentTypeError
from ..kernels import tick_terms_c
from . import embedded
from .c_files import SourceFiles, define_robot, rename_core_functions, validate_c_name
from .controller import WholeBodyController
from .embedded_data import make_embedded_controller
from .export_api import CApi
from .export_data import StaticData
from .export_text import cmake_file, main_program, readme


@dataclass(frozen=True, slots=True)
class ControllerSource(SourceFiles):
    """Source code that `controller_c` returns.

    Attributes:
        name: prefix of the names of files and functions.
        files: texts by name of the file.
        memory: bytes of constants ("constant"), of data with initial values ("set") and of zero-initialized data
            ("zero").
    """

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
    source.write(folder)
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
    name = validate_c_name(name, f"{robot.name}_wbc")
    custom_names = [element.name for _, element in solver.tables.custom_elements]
    if custom_names:
        raise ArgumentError(
            f"controller: the elements {', '.join(map(repr, custom_names))} cannot be exported, because their rows "
            "are computed in Python; remove them"
        )
    controller._structure.levels.validate_parameters()
    core, about = c_source(embedded.FUNCTIONS, f"{name}_core"), "Computation of a tick."
    terms = tick_terms_c(robot, solver.tables.frames, solver.tables.momentum, name=f"{name}_terms")
    record = make_embedded_controller(controller._structure, controller.dt, controller.ramp_time)
    data = StaticData("data_model", owner="m")
    memory_header, memory_functions = define_robot(data, record, name)
    api = CApi(name, controller, record)
    files = {
        f"{name}.h": api.header(),
        f"{name}.c": api.source(data.definitions, memory_functions),
        f"{name}_memory.h": memory_header,
        f"{name}_core.h": rename_core_functions(core.header, "wbc_embedded", name, about),
        f"{name}_core.c": rename_core_functions(core.source, "wbc_embedded", name, about),
        f"{name}_terms.h": terms.header,
        f"{name}_terms.c": terms.source,
        "main.c": main_program(name),
        "CMakeLists.txt": cmake_file(name),
        "README.md": readme(name, robot, api.setters, data.sizes),
    }
    return ControllerSource(name, {file: to_ascii(text) for file, text in files.items()}, data.sizes)


def to_ascii(text: str) -> str:
    """Returns the text in ASCII."""
    return text.encode("ascii", "backslashreplace").decode()
