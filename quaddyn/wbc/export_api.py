"""C interface of an exported controller: its header, and public functions that call the compiled core."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from ..compiler.c99_functions import c_comment
from ..errors import ArgumentError
from ..kernels.c_source import identifier
from ..version import __version__
from .c_files import c_string_list
from .command import OUTCOMES
from .constraints import Constraint, HeldObject, JointFriction, TorqueLimits, TorqueRate
from .controller import WholeBodyController
from .element import Element
from .embedded import EmbeddedController
from .export_data import define_constant_array
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


#: Text about conventions, for the header.
CONVENTIONS = (
    "SI units, radians. Spatial vectors are linear before angular; a quaternion is x, y, z, w; the velocity of a free "
    "base is in base axes. No allocation: all memory of a controller is one structure, of which a program may have "
    "several; each is used by one thread at a time. Functions that set parameters return 1 if the values were "
    "accepted, and 0 if nothing was changed."
)


#: First statement of every function: the records of the controller that its memory contains.
_VIEW = "    EmbeddedController controller = view(robot);"


class CApi:
    """Header and source of the functions of a controller.

    Args:
        name: prefix of the names of functions.
        controller: the controller.
        record: the controller as arrays.

    Attributes:
        setters: names of the functions that set references, gains and limits.
    """

    def __init__(self, name: str, controller: WholeBodyController, record: EmbeddedController) -> None:
        self.name, self.upper = name, name.upper()
        self.robot, self.record = controller.robot, record
        self.contacts = tuple(controller.contacts)
        self._controller = controller
        elements = [e for level in controller._structure.levels.elements for e in level]
        self._element_indices = {e.name: i for i, e in enumerate(elements)}
        self._element_identifiers = _c_identifiers([*self._element_indices], "tasks")
        self._contact_identifiers = _c_identifiers([*self.contacts], "contacts")
        functions = [
            *self._controller_functions(),
            *(function for e in elements for function in self._element_functions(e)),
            *self._contact_functions(),
        ]
        self._functions = [(doc, self._with_robot(text), f"{_VIEW}\n{body}") for doc, text, body in functions]
        self.setters = [text.split("(")[0].split()[-1] for _, text, _ in self._functions if text.startswith("int ")][1:]

    def _with_robot(self, text: str) -> str:
        """Returns a prototype with the memory of the controller as first parameter."""
        is_getter = text.endswith("(void)") and not text.startswith("void ")
        robot = f"{'const ' if is_getter else ''}{self.name} *robot"
        return text.replace("(void)", f"({robot})") if text.endswith("(void)") else text.replace("(", f"({robot}, ", 1)

    # -- functions ---------------------------------------------------------------------------------------------
    def _controller_functions(self) -> list[CFunction]:
        """Returns the functions of the controller as a whole."""
        name, n, robot = self.name, self.upper, self.robot
        last, nu, nv = "controller.last.at", robot.nu, robot.nv
        summary = nu + nv + 6 * len(self.contacts) + self.record.data.model.levels
        tick = (
            f"    int64_t outcome = {name}_core_validate_state(&controller, vector(q, {n}_NQ), vector(v, {n}_NV));\n"
            f"    for (int c = 0; c < {n}_NC; c++) {{\n"
            "        controller.requested.at[c] = contacts == NULL ? standing[c] : contacts[c] != 0;\n    }\n"
            f"    if (outcome == {n}_SOLVED) {{\n"
            f"        {name}_terms(q, v, controller.data.terms.values.at);\n"
            f"        outcome = {name}_core_controller_tick(&controller, vector(q, {n}_NQ), vector(v, {n}_NV),\n"
            f"            vector(tau, {n}_NU));\n"
            "    } else {\n"
            f"        for (int i = 0; i < {n}_NU; i++) {{\n            tau[i] = {last}[i];\n        }}\n"
            "    }\n"
            "    return (int)outcome;"
        )
        if not self.contacts:
            tick = tick.replace(
                tick[tick.index("    for (int c") : tick.index("    if (outcome")], "    (void)contacts;\n"
            )
        return [
            (
                "Clears contacts, references and the last torques: in the next tick, contacts close without a ramp. "
                "",
                f"void {name}_reset(void)",
                f"    {name}_core_reset(&controller);",
            ),
            (
                "Computes one tick at the state (q, v): writes the torques, and returns one of the outcomes above. "
                "contacts: 1 for each contact that is to be closed, otherwise 0; NULL for all feet. "
                "Changes are ramped. tau is always finite.",
                f"int {name}_tick(const double q[{n}_NQ], const double v[{n}_NV], "
                f"const unsigned char contacts[{max(1, len(self.contacts))}], double tau[{n}_NU])",
                tick,
            ),
            ("Returns the (NV) accelerations due to the last torques.", f"const double *{name}_acceleration(void)",
             f"    return {last} + {nu};"),
            ("Returns the (NC, 6) contact forces on the robot, world axes [N, N m]; zero for inactive contacts.",
             f"const double *{name}_forces(void)", f"    return {last} + {nu + nv};"),
            ("Returns the (NC) activations of the contacts: 0 inactive, 1 closed, between 0 and 1 during ramps.",
             f"const double *{name}_shares(void)",
             "    return controller.ramps.activation.at;"),
            ("Returns the largest violation of level 0, as an acceleration [m/s^2].", f"double {name}_violation(void)",
             f"    return {last}[{summary}];"),
            ("Returns the largest residual of the optimality conditions.", f"double {name}_kkt(void)",
             f"    return {last}[{summary + 1}];"),
            ("Returns the (NU) part of the last torques that compensates joint friction [N m].",
             f"const double *{name}_friction_torques(void)",
             f"    return {last} + {summary + 2};"),
            ("Returns the number of ticks since the start or the last reset, without those with an invalid state.",
             f"long long {name}_ticks(void)", "    return *controller.progress.ticks;"),
        ]  # fmt: skip

    def _element_functions(self, e: Element) -> list[CFunction]:
        """Returns the functions of one task or constraint."""
        name, i = f"{self.name}_{self._element_identifiers[e.name]}", self._element_indices[e.name]
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
            size = f"contact < 0 || contact >= {self.upper}_NC ? 0 : (int)controller.data.contacts.size.at[contact]"
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

    # -- texts -------------------------------------------------------------------------------------------------
    def header(self) -> str:
        """Returns the header of the controller."""
        n, name, robot = self.upper, self.name, self.robot
        levels = [f"   level {k}: {', '.join(names)}" for k, names in enumerate(self._controller.levels)]
        ramp = self._controller.ramp_time
        banner = [
            f"/* {name}: whole-body control of {robot.name!r}, written by quaddyn {__version__}. Do not edit.",
            "",
            f"   {self._controller.dt:g} s per tick; contacts are ramped over {ramp:g} s. Strict priorities:",
            *(line for level in levels for line in textwrap.wrap(level, 112, subsequent_indent="      ")),
            "",
            *textwrap.wrap(CONVENTIONS, 112, initial_indent="   ", subsequent_indent="   "),
            "*/",
        ]
        words = list(OUTCOME_MEANINGS)
        outcomes = [f"    {n}_{word.upper()} = {k}, /* {OUTCOME_MEANINGS[word]} */" for k, word in enumerate(words)]
        contacts = [
            f"    {n}_CONTACT_{word.upper()} = {c}," for c, word in enumerate(self._contact_identifiers.values())
        ]
        parts = [
            _plain_comment("\n".join(banner)) + f"\n#ifndef {n}_H\n#define {n}_H",
            f'#include "{name}_memory.h"',
            f"#define {n}_NQ {robot.nq}\n#define {n}_NV {robot.nv}\n#define {n}_NU {robot.nu}\n"
            f"#define {n}_NC {len(self.contacts)}\n#define {n}_DT {self._controller.dt!r}",
            "/* Outcomes of a tick. */\nenum {\n" + "\n".join(outcomes) + "\n};",
            *(["/* Indices of the contacts. */\nenum {\n" + "\n".join(contacts) + "\n};"] if contacts else []),
            '#ifdef __cplusplus\nextern "C" {\n#endif',
            f"/* Names of the actuated joints in the order of tau, and of the contacts. */\n"
            f"extern const char *const {name}_joints[{max(1, robot.nu)}];\n"
            f"extern const char *const {name}_contacts[{max(1, len(self.contacts))}];",
            f"/* Home configuration of the robot. */\nextern const double {name}_home[{robot.nq}];",
            "/* Sets the memory to its initial values; required before any other function. */\n"
            f"void {name}_initialize({name} *robot);",
            f"/* Returns the size of the memory [bytes], for callers in other languages. */\nsize_t {name}_size(void);",
            *(f"{c_comment(doc)}{_wrap(text)};" for doc, text, _ in self._functions),
            "#ifdef __cplusplus\n}\n#endif\n\n#endif",
        ]
        return "\n\n".join(parts) + "\n"

    def source(self, definitions: Sequence[str], memory_functions: str) -> str:
        """Returns the source of the controller: its memory and its functions.

        Args:
            definitions: definitions of its arrays.
            memory_functions: functions of `define_robot`.
        """
        name, robot, default = self.name, self.robot, self._controller._structure.default_contacts
        standing = ", ".join("1" if contact in default else "0" for contact in self.contacts) or "0"
        helpers = (
            "static Vector vector(const double *at, int64_t n)\n{\n    return (Vector){(double *)at, n};\n}\n\n"
            "static Vector optional(const double *at, int64_t n)\n{\n"
            "    static const double none[1];\n    return at == NULL ? vector(none, 0) : vector(at, n);\n}"
        )
        parts = [
            f"/* Memory and functions of {name}.h. Written by quaddyn {__version__}; do not edit. */",
            f'#include "{name}.h"\n\n#include <math.h>\n#include <string.h>\n\n#include "{name}_core.h"\n'
            f'#include "{name}_terms.h"',
            *definitions,
            f"static const unsigned char standing[{max(1, len(self.contacts))}] = {{{standing}}};"
            if self.contacts
            else "",
            memory_functions,
            f"const char *const {name}_joints[{max(1, robot.nu)}] = {{{c_string_list(robot.actuated)}}};\n"
            f"const char *const {name}_contacts[{max(1, len(self.contacts))}] = {{{c_string_list(self.contacts)}}};",
            define_constant_array(f"{name}_home", robot.q_home),
            helpers,
            *(f"{_wrap(text)}\n{{\n{body}\n}}" for _, text, body in self._functions),
        ]
        return "\n\n".join(filter(None, parts)) + "\n"


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


def _plain_comment(text: str) -> str:
    """Returns the text as a comment of C, without nested delimiters."""
    return "/*" + text[2:-2].replace("*/", "* /").replace("/*", "/ *").replace("??", "? ?") + "*/"
