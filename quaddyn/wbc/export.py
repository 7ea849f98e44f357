"""`export_c`: export of a whole controller as C99, for computers without Python."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..compiler.c99_types import c_comment, identifier
from ..errors import ArgumentError, ArgumentTypeError
from ..exports.source_files import (
    SourceFiles,
    StaticData,
    c_string_list,
    core_files,
    define_constant_array,
    define_robot,
    fill_template,
    validate_c_name,
)
from ..kernels import tick_terms_c
from ..robot.robot import Robot
from . import embedded
from .command import OUTCOMES
from .constraints import Constraint, HeldObject, JointFriction, TorqueLimits, TorqueRate
from .controller import WholeBodyController
from .element import Element
from .embedded import make_embedded_controller
from .tasks import ForceTask, Task

#: A function of C: its comment, prototype and body.
CFunction = tuple[str, str, str]

#: Meaning of each outcome of a tick, by its name.
OUTCOME_MEANINGS = dict(
    zip(
        (*OUTCOMES, "overflow", "not_a_number", "refused"),
        (
            "the strict optimum",
            "the strict optimum of least violation: level 0 is infeasible",
            "finite, but the residuals exceed the tolerances",
            "the solver found no finite solution: zero joint accelerations and contact forces, or the last torques",
            "q and v are finite, but their dynamics overflow: the torques of the last tick",
            "q, v or a parameter is NaN or infinite: the torques of the last tick",
            "a quaternion or (cos, sin) has no unit norm, or q or v is out of range: the torques of the last tick",
        ),
        strict=True,
    )
)


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
    terms = tick_terms_c(robot, solver.tables.frames, solver.tables.momentum, name=f"{name}_terms")
    record = make_embedded_controller(controller._structure, controller.dt, controller.ramp_time)
    data = StaticData("data_model", owner="m")
    memory_header, memory_functions = define_robot(data, record, name, robot)
    writer = _FunctionWriter(name, controller)
    functions, contacts = writer.functions(), writer.contacts
    last = robot.nu + robot.nv + 6 * len(contacts) + record.data.model.levels
    levels = (f"   level {k}: {', '.join(names)}" for k, names in enumerate(controller.levels))
    enum = "\n".join(f"    {name.upper()}_CONTACT_{word.upper()} = {c}," for c, word in enumerate(contacts.values()))
    default = controller._structure.default_contacts
    parts = {
        "DT": f"{controller.dt:g}",
        "PERIOD": repr(controller.dt),
        "RAMP": f"{controller.ramp_time:g}",
        "LEVELS": _plain("\n".join(textwrap.fill(level, 112, subsequent_indent="      ") for level in levels)),
        "OUTCOMES": outcome_enum(name),
        "CONTACTENUM": f"/* Indices of the contacts. */\nenum {{\n{enum}\n}};\n\n" if contacts else "",
        "NC": len(contacts),
        "SIZEOFJOINTS": max(1, robot.nu),
        "SIZEOFCONTACTS": max(1, len(contacts)),
        "CONTACTS": c_string_list(tuple(contacts)),
        "STANDING": ", ".join("1" if contact in default else "0" for contact in contacts) or "0",
        "PROTOTYPES": "\n\n".join(f"{c_comment(doc)}{_wrap(text)};" for doc, text, _ in functions),
        "FUNCTIONS": "\n\n".join(f"{_wrap(text)}\n{{\n{_VIEW}\n{body}\n}}" for _, text, body in functions),
        "DEFINITIONS": "\n\n".join(data.definitions),
        "MEMORYFUNCTIONS": memory_functions,
        "HOME": define_constant_array(f"{name}_home", robot.q_home),
        "FORCES": robot.nu + robot.nv,
        "VIOLATION": last,
        "KKT": last + 1,
        "FRICTION": last + 2,
    }
    setters = " ".join(text.split("(")[0].split()[-1] for _, text, _ in functions)
    parts |= {
        "ABOUT": "whole-body control",
        "CONTENT": "contacts, tasks, limits, hierarchical solver; the same for every robot",
        "INPUTS": "NULL",
        "CALL": "NULL",
        "VARIABLES": "",
        "TORQUES": "Torques equal those of the Python package bit for bit if neither fuses\n"
        "products and sums (`-ffp-contract=off`), otherwise up to rounding.",
        "SETTERS": "Functions that set parameters between ticks:\n\n"
        + textwrap.fill(setters, 118, initial_indent="    ", subsequent_indent="    "),
    }
    files = {
        f"{name}.h": fill_template("wbc.h", name, robot, parts),
        f"{name}.c": fill_template("wbc.c", name, robot, parts),
        f"{name}_memory.h": memory_header,
        **core_files(embedded.FUNCTIONS, "wbc_embedded", name, "Computation of a tick."),
        f"{name}_terms.h": terms.header,
        f"{name}_terms.c": terms.source,
        **standing_program(name, robot, parts, data),
    }
    return ControllerSource(name, files, data.sizes)


def outcome_enum(name: str) -> str:
    """Returns the entries of the C enumeration of the outcomes of a tick.

    Args:
        name: prefix of the names.
    """
    return "\n".join(
        f"    {name.upper()}_{word.upper()} = {k}, /* {meaning} */"
        for k, (word, meaning) in enumerate(OUTCOME_MEANINGS.items())
    )


def standing_program(name: str, robot: Robot, parts: Mapping[str, object], *data: StaticData) -> dict[str, str]:
    """Returns the README of a controller, and a program with build file in which it makes the robot stand.

    Args:
        name: prefix of the names of files and functions.
        robot: the robot.
        parts: texts of the placeholders ABOUT, CONTENT, INPUTS, CALL, VARIABLES, TORQUES, SETTERS and PERIOD.
        data: memory of the controller.
    """
    sizes = {kind: sum(each.sizes[kind] for each in data) for kind in ("constant", "set", "zero")}
    parts = {
        **parts,
        "SOURCES": f"{name}.c {name}_core.c {name}_terms.c",
        "PROGRAM": "stand",
        **{kind.upper(): f"{size / 1000.0:.0f}" for kind, size in sizes.items()},
    }
    return {
        "main.c": fill_template("stand.c", name, robot, parts),
        "CMakeLists.txt": fill_template("CMakeLists.txt", name, robot, parts),
        "README.md": fill_template("README.md", name, robot, parts),
    }


#: First statement of every function: the records of the controller that its memory contains.
_VIEW = "    EmbeddedController controller = view(robot);"


class _FunctionWriter:
    """Writer of the C functions that set references, gains, limits, friction and normal forces.

    Args:
        name: prefix of the names of functions.
        controller: the controller.

    Attributes:
        contacts: C identifier of each contact.
    """

    def __init__(self, name: str, controller: WholeBodyController) -> None:
        self.name, self.robot = name, controller.robot
        self.contacts = _c_identifiers(tuple(controller.contacts), "contacts")
        self._elements = [e for level in controller._structure.levels.elements for e in level]
        self._identifiers = _c_identifiers([e.name for e in self._elements], "tasks")

    def functions(self) -> list[CFunction]:
        """Returns all functions, whose first parameter is the memory of the controller."""
        functions = [f for i, e in enumerate(self._elements) for f in self._element_functions(e, i)]
        return [
            (doc, text.replace("(", f"({self.name} *robot, ", 1), body)
            for doc, text, body in [*functions, *self._contact_functions()]
        ]

    def _element_functions(self, e: Element, i: int) -> list[CFunction]:
        """Returns the functions of one task or constraint, the `i`-th one."""
        name = f"{self.name}_{self._identifiers[e.name]}"
        call = f"    return {self.name}_core_{{}}(&controller, {i}, {{}});"
        if isinstance(e, Task):
            n = len(e.labels)
            rows = f"rows {', '.join(e.labels)}" if n <= 6 else f"{n} rows, one per joint"
            position = f"const double position[{e.size}], " if e.size else ""
            position_argument = f"optional(position, {e.size})" if e.size else "optional(NULL, 0)"
            description = f"Sets the reference of task {e.name!r}, {rows}. "
            description += f"{e.kind.position_note} ".lstrip() if e.size else ""
            description += "A velocity or acceleration of NULL is zero" + (
                "; a position of NULL is unchanged." if e.size else "."
            )
            rates = f"optional(velocity, {n}), optional(acceleration, {n})"
            return [
                (description,
                 f"int {name}_reference({position}const double velocity[{n}], const double acceleration[{n}])",
                 call.format("set_motion_reference", f"{position_argument}, {rates}")),
                (f"Sets the feedback gains of task {e.name!r} by row, >= 0; NULL for critical damping.",
                 f"int {name}_gains(const double stiffness[{n}], const double damping[{n}])",
                 call.format("set_gains", f"vector(stiffness, {n}), optional(damping, {n})")),
            ]  # fmt: skip
        if isinstance(e, ForceTask) and self.contacts:
            size = (
                f"contact < 0 || contact >= {self.name.upper()}_NC ? 0 : (int)controller.data.contacts.size.at[contact]"
            )
            return [
                (f"Sets the reference force of a contact in task {e.name!r}, on the robot, world axes: three numbers "
                 "for a point, six for a surface; NULL for zero.",
                 f"int {name}_reference(int contact, const double *force)",
                 call.format("set_force_reference", f"contact,\n        optional(force, {size})")),
            ]  # fmt: skip
        if isinstance(e, TorqueLimits | TorqueRate):
            description, unit = ("limits", "N m") if isinstance(e, TorqueLimits) else ("rate", "N m/s")
            return [
                self._parameter_function(
                    e, name, i, description, unit, "by motor", 0, self.robot.nu, must_be_finite=False
                )
            ]
        if isinstance(e, JointFriction):
            nv, order = self.robot.nv, "by velocity"
            return [
                self._parameter_function(e, name, i, "share", "1", "(one number)", 1, 1),
                self._parameter_function(e, name, i, "damping", "N m s/rad, N s/m", order, 3, nv),
                self._parameter_function(e, name, i, "coulomb", "N m, N", order, 3 + nv, nv),
            ]
        if isinstance(e, HeldObject):
            return [
                self._parameter_function(e, name, i, "mass", "kg", "(one number)", 0, 1),
                self._parameter_function(e, name, i, "com", "m", f"in the axes of {e.frame!r}", 2, 3, signed=True),
            ]
        return []

    def _parameter_function(
        self, e: Constraint, name: str, i: int, quantity: str, unit: str, order: str, first: int, n: int, *,
        must_be_finite: bool = True, signed: bool = False,
    ) -> CFunction:  # fmt: skip
        """Returns the function that sets n parameters of a constraint from index `first` on."""
        min_value, finite = "-INFINITY" if signed else "0.0", "true" if must_be_finite else "false"
        rule = ", ".join(word for word, holds in ((">= 0", not signed), ("all finite", must_be_finite)) if holds)
        arguments = f"vector({quantity}, {n}), {min_value}, {finite}"
        return (
            f"Sets the {quantity} of constraint {e.name!r} {order} [{unit}], {rule}.",
            f"int {name}_{quantity}(const double {quantity}[{n}])",
            f"    return {self.name}_core_set_parameters(&controller, {i}, {first}, {arguments});",
        )

    def _contact_functions(self) -> list[CFunction]:
        """Returns the functions that set friction coefficients and normal forces of contacts."""
        if not self.contacts:
            return []
        name = self.name
        return [
            ("Sets the Coulomb friction coefficient of a point contact, from 0 to 10.",
             f"int {name}_friction(int contact, double coefficient)",
             f"    return {name}_core_set_friction(&controller, contact, coefficient);"),
            ("Sets the bounds of a contact's normal force [N]: 0 <= lower <= upper; upper may be infinite.",
             f"int {name}_normal_force(int contact, double lower, double upper)",
             f"    return {name}_core_set_force_limits(&controller, contact, lower, upper);"),
        ]  # fmt: skip


def _c_identifiers(names: Sequence[str], argument: str) -> dict[str, str]:
    """Returns the names as identifiers of C.

    Raises:
        ArgumentError: two of them are equal in C.
    """
    out: dict[str, str] = {}
    for name in names:
        word = identifier(name)
        for other, other_word in out.items():
            if other_word.upper() == word.upper():
                raise ArgumentError(
                    f"{argument}: the names {other!r} and {name!r} become the same identifier in C; rename one of them"
                )
        out[name] = word
    return out


def _wrap(text: str) -> str:
    """Returns the text in lines of up to 116 characters."""
    return textwrap.fill(text, 116, subsequent_indent="    ", break_long_words=False)


def _plain(text: str) -> str:
    """Returns the text without delimiters of comments of C."""
    return text.replace("*/", "* /").replace("/*", "/ *").replace("??", "? ?")
