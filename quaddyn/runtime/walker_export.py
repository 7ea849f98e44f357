"""`export_walker`: writes a locomotion controller as C99, with its whole-body controller, for robots without Python."""

from __future__ import annotations

import os

from ..compiler.c99 import c_source
from ..errors import ArgumentTypeError, QuaddynError
from ..kernels import tick_terms_c
from ..kernels.c_source import identifier
from ..locomotion import FEET, GAITS, Gait, LocomotionController
from ..locomotion.command import FALLEN, NO_GROUND
from ..locomotion.embedded import embedded_walker
from ..locomotion.embedded.embedded_walker_data import make_embedded_walker
from ..locomotion.fall_detection import SIGN_TEXTS, FallSign
from ..locomotion.modes import LocomotionMode, ModeCode
from ..locomotion.velocity_limits import REASON_TEXTS, LimitReason, allocate_gait_limits
from ..robot.robot import Robot
from ..wbc.c_files import (
    SourceFiles,
    c_string_list,
    define_robot,
    fill_template,
    rename_core_functions,
    validate_c_name,
)
from ..wbc.export_api import OUTCOME_MEANINGS
from ..wbc.export_data import StaticData, define_constant_array

_HEADER = """\
/* NAME: locomotion of ROBOT: standing, walking, recovery steps, landing and falls. Written by quaddyn VERSION; do not
   edit.

   The controller is that of quaddyn.locomotion.LocomotionController on unknown terrain. PERIOD_ s per tick; SI units,
   radians; q = (position, quaternion x y z w, joints), v = (linear, angular velocity in base axes, joints); joints in
   the order of NAME_joints, feet in the order of NAME_feet. No allocation: all memory of a controller is one structure,
   NAME, of which a program may have several; each is used by one thread at a time.
   Not included: terrain maps, jumps, righting after a fall, payload estimates, and the evaluation of the legs' torques
   on slopes, which limits the velocity in Python. */

#ifndef UPPER_H
#define UPPER_H

#include "NAME_memory.h"

#define UPPER_NQ NQ_
#define UPPER_NV NV_
#define UPPER_NU NU_
#define UPPER_DT PERIOD_

/* Outcomes of a tick. */
enum {
OUTCOMES
};

/* Modes of the controller. */
enum {
MODES
};

/* Gaits that this robot can perform. */
enum {
GAITS_
};

#ifdef __cplusplus
extern "C" {
#endif

/* Names of the actuated joints in the order of tau, and of the feet. */
extern const char *const NAME_joints[UPPER_NU];
extern const char *const NAME_feet[4];

/* Home configuration of the robot. */
extern const double NAME_home[UPPER_NQ];

/* Sets the memory of a controller to its initial values; required before any other function. */
void NAME_initialize(NAME *robot);

/* Returns the size of the memory of a controller [bytes], for callers in other languages. */
size_t NAME_size(void);

/* Resets all estimates and the mode; the next tick is treated as the first one. */
void NAME_reset(NAME *robot);

/* Computes one tick at the state (q, v): writes the torques, and returns one of the outcomes above.
   velocity: requested forward and leftward speed [m/s] and yaw rate [rad/s], heading frame; zero if one is not finite.
   feet: 1 for each foot whose sensor measures contact, otherwise 0; NULL to estimate contacts from the torques.
   tau is always finite and within the limits of the motors. After a fall it folds the legs, and the outcome is
   UPPER_SOLVED. If the state is invalid, the torques are those of the last tick. */
int NAME_tick(NAME *robot, const double q[UPPER_NQ], const double v[UPPER_NV], const double velocity[3],
    const unsigned char feet[4], double tau[UPPER_NU]);

/* Starts to rise to the home height; also leaves the fallen state and cancels NAME_lie_down. */
void NAME_stand_up(NAME *robot);

/* Stops stepping, lowers the trunk to half of the home height, and holds it there. */
void NAME_lie_down(NAME *robot);

/* Sets the gait of the next steps, one of those above; the transition takes some cycles. Returns 0 for other numbers,
   which change nothing, otherwise 1. */
int NAME_set_gait(NAME *robot, int gait);

/* Returns the mode after the last tick, one of those above, and the name of a mode. */
int NAME_mode(const NAME *robot);
const char *NAME_mode_name(int mode);

/* Returns whether the last tick plans load on a foot, 0 to 3. */
int NAME_carries(const NAME *robot, int foot);

/* Returns the clamped velocity (3) of the last tick on the ground [m/s, m/s, rad/s]; and the reason of the last tick
   for clamping it or for not walking, "" for none. */
const double *NAME_clamped_velocity(const NAME *robot);
const char *NAME_limit_reason(const NAME *robot);

/* Returns the friction coefficient that the contact constraints assume. */
double NAME_friction(const NAME *robot);

/* Returns the largest residual of the optimality conditions of whole-body control, in its last tick. */
double NAME_kkt(const NAME *robot);

#ifdef __cplusplus
}
#endif

#endif
"""

_SOURCE = """\
/* Memory and functions of NAME.h. Written by quaddyn VERSION; do not edit. */
#include "NAME.h"

#include <math.h>
#include <string.h>

#include "NAME_core.h"
#include "NAME_terms.h"

DEFINITIONS

GAIT_LIMITS

MEMORY_FUNCTIONS

const char *const NAME_joints[UPPER_NU] = {JOINTS};
const char *const NAME_feet[4] = {FEET_};

HOME

static const char *const mode_names[] = {MODE_NAMES};
static const char *const limit_reasons[] = {REASONS};
static const char *const fall_signs[] = {SIGNS};

static Vector vector(const double *at, int64_t n)
{
    return (Vector){(double *)at, n};
}

void NAME_reset(NAME *robot)
{
    EmbeddedWalker e = view(robot);
    NAME_core_reset_embedded_walker(&e);
}

int NAME_tick(NAME *robot, const double q[UPPER_NQ], const double v[UPPER_NV], const double velocity[3],
    const unsigned char feet[4], double tau[UPPER_NU])
{
    int64_t contacts[4] = {0, 0, 0, 0};
    EmbeddedWalker e = view(robot);
    for (int foot = 0; foot < 4 && feet != NULL; foot++) {
        contacts[foot] = feet[foot] != 0;
    }
    NAME_terms(q, v, e.wbc.data.terms.values.at);
    return (int)NAME_core_walker_tick(&e, vector(q, UPPER_NQ), vector(v, UPPER_NV), vector(velocity, 3),
        (IntVector){contacts, feet == NULL ? 0 : 4}, vector(tau, UPPER_NU));
}

void NAME_stand_up(NAME *robot)
{
    EmbeddedWalker e = view(robot);
    NAME_core_stand_up(&e);
}

void NAME_lie_down(NAME *robot)
{
    EmbeddedWalker e = view(robot);
    NAME_core_lie_down(&e);
}

int NAME_set_gait(NAME *robot, int gait)
{
    EmbeddedWalker e = view(robot);
    switch (gait) {
GAIT_CASES
    default:
        return 0;
    }
    return 1;
}

int NAME_mode(const NAME *robot)
{
    return (int)*view(robot).walker.walk.mode.mode;
}

const char *NAME_mode_name(int mode)
{
    return mode >= 0 && mode < (int)(sizeof mode_names / sizeof *mode_names) ? mode_names[mode] : "";
}

int NAME_carries(const NAME *robot, int foot)
{
    return foot >= 0 && foot < 4 && view(robot).output.contacts.at[foot] != 0;
}

const double *NAME_clamped_velocity(const NAME *robot)
{
    return view(robot).walker.walk.report.velocity.at;
}

const char *NAME_limit_reason(const NAME *robot)
{
    const Walker walker = view(robot).walker;
    if (*walker.walk.mode.mode == UPPER_FALLEN) {
        return fall_signs[*walker.walk.fall.sign];
    }
    return *walker.landing.is_active ? NO_GROUND_ : limit_reasons[*walker.walk.report.reason];
}

double NAME_friction(const NAME *robot)
{
    return *view(robot).walker.walk.friction.friction;
}

double NAME_kkt(const NAME *robot)
{
    return view(robot).wbc.last.at[KKT_];
}
"""

_MAIN = """\
/* Ticks of a robot that stands at its home configuration: prints torques and times. Usage: NAME_stand [TICKS] */
#define _POSIX_C_SOURCE 199309L

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "NAME.h"

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

int main(int count, char **arguments)
{
    static NAME robot;
    static const double v[UPPER_NV], velocity[3];
    static const unsigned char feet[4] = {1, 1, 1, 1};
    double tau[UPPER_NU];
    const long ticks = count > 1 ? strtol(arguments[1], NULL, 10) : 1000;
    const double start = seconds();
    int outcome = UPPER_SOLVED;
    NAME_initialize(&robot);
    for (long k = 0; k < ticks && outcome == UPPER_SOLVED; k++) {
        outcome = NAME_tick(&robot, NAME_home, v, velocity, feet, tau);
    }
    const double end = seconds();
    for (int i = 0; i < UPPER_NU; i++) {
        printf("%-24s %9.4f\\n", NAME_joints[i], tau[i]);
    }
    printf("%s; %.2f us per tick; outcome %d, residual %.1e\\n", NAME_mode_name(NAME_mode(&robot)),
        1e6 * (end - start) / (double)(ticks > 0 ? ticks : 1), outcome, NAME_kkt(&robot));
    return outcome == UPPER_SOLVED ? 0 : 1;
}
"""

_README = """\
# NAME: locomotion of ROBOT in C99

Written by quaddyn VERSION. C99 and the C library's mathematics; no allocation, no files, no threads.
Memory: CONSTANT_KB kB of constants and initial values; per controller MEMORY_KB kB; some kB of stack.

    cc -std=c99 -O2 main.c NAME.c NAME_core.c NAME_terms.c -lm -o NAME_stand && ./NAME_stand

| File | Content |
|---|---|
| `NAME.h`, `NAME.c` | public functions; parameters and initial values of the controller |
| `NAME_memory.h` | memory of a controller |
| `NAME_core.c` | computation of a tick: gait, footholds, balance, contacts, falls, whole-body control |
| `NAME_terms.c` | rigid-body terms of the robot at (q, v) |
| `main.c` | example program: ticks of a standing robot |

    static NAME robot;                                              /* one for each robot */
    double tau[UPPER_NU], velocity[3] = {0.3, 0.0, 0.0};
    NAME_initialize(&robot);
    int outcome = NAME_tick(&robot, q, v, velocity, NULL, tau);     /* once per PERIOD_ s */

Except for the velocity limit on slopes, the torques are those of the Python package, up to fused products and sums.
"""


def export_walker(
    controller: LocomotionController, folder: str | os.PathLike[str], *, name: str | None = None
) -> SourceFiles:
    """Writes a locomotion controller on unknown terrain as C99.

    The C controller has the gains, nominal friction and gait of this controller, and starts with a first tick.

    Args:
        controller: controller without terrain map and payload estimate, of a robot without coupled joints.  A righting
            plan is not exported.
        folder: folder to write to, created if it does not exist.
        name: prefix of files and functions; None: ``ROBOT_walker``.

    Returns:
        The written files.

    Raises:
        ArgumentError: the controller uses a feature that only Python has, or `name` is not a C identifier.
        OSError: a file cannot be written.
    """
    source = walker_c(controller, name=name)
    source.write(folder)
    return source


def walker_c(controller: LocomotionController, *, name: str | None = None) -> SourceFiles:
    """Returns the files of `export_walker` without writing them; same arguments and errors."""
    if not isinstance(controller, LocomotionController):
        raise ArgumentTypeError(f"controller: expected a LocomotionController, got {type(controller).__name__}")
    robot, solver = controller.robot, controller.wbc.solver
    name = validate_c_name(name, f"{robot.name}_walker")
    walker = make_embedded_walker(controller._walking)
    data, limits_data = StaticData("wbc_data_model", owner="m"), StaticData("gait")
    memory_header, memory_functions = define_robot(data, walker, name)
    gaits = dict[str, Gait]()
    for gait in _feasible_gaits(controller):
        gaits.setdefault(identifier(gait.name), gait)  # a gait of the controller replaces the standard one of its name
    gait_limits = []
    for word, gait in gaits.items():
        limits = allocate_gait_limits()
        controller._quadruped.capability.velocity_limits.write_gait(limits, gait)
        gait_limits.append(limits_data.define_structure(limits, f"gait_{word}", "GaitLimits", f"gait_{word}_"))
    core = c_source(embedded_walker.FUNCTIONS, f"{name}_core")
    terms = tick_terms_c(robot, solver.tables.frames, solver.tables.momentum, name=f"{name}_terms")
    upper, about = name.upper(), "Computation of a tick."
    levels = solver.tables.model.levels
    parts = {
        "OUTCOMES": "\n".join(
            f"    {upper}_{word.upper()} = {k}, /* {meaning} */"
            for k, (word, meaning) in enumerate(OUTCOME_MEANINGS.items())
        ),
        "MODES": "\n".join(f"    {upper}_{code.name} = {int(code)}," for code in ModeCode),
        "GAITS_": "\n".join(f"    {upper}_GAIT_{word.upper()} = {k}," for k, word in enumerate(gaits)),
        "GAIT_LIMITS": "\n\n".join(gait_limits),
        "GAIT_CASES": "\n".join(
            f"    case {upper}_GAIT_{word.upper()}:\n        {name}_core_select_gait(&e, &gait_{word});\n        break;"
            for word in gaits
        ),
        "MEMORY_FUNCTIONS": memory_functions,
        "DEFINITIONS": "\n\n".join([*data.definitions, *limits_data.definitions]),
        "JOINTS": c_string_list(robot.actuated),
        "FEET_": c_string_list(FEET),
        "HOME": define_constant_array(f"{name}_home", robot.q_home),
        "MODE_NAMES": c_string_list(tuple(LocomotionMode.from_code(code).value for code in ModeCode)),
        "REASONS": c_string_list(tuple(REASON_TEXTS.get(reason, "") for reason in LimitReason)),
        "SIGNS": c_string_list(tuple(SIGN_TEXTS[sign] or FALLEN for sign in FallSign)),
        "NO_GROUND_": c_string_list((NO_GROUND,)),
        "KKT_": str(robot.nu + robot.nv + 6 * len(solver.names) + levels + 1),
        "PERIOD_": repr(controller.dt),
        "ROBOT": robot.name,
        "CONSTANT_KB": _kilobytes(data.sizes["constant"] + data.sizes["set"] + sum(limits_data.sizes.values())),
        "MEMORY_KB": _kilobytes(data.sizes["set"] + data.sizes["zero"]),
    } | _sizes(robot)
    files = {
        f"{name}.h": fill_template(_HEADER, name, parts),
        f"{name}.c": fill_template(_SOURCE, name, parts),
        f"{name}_memory.h": memory_header,
        f"{name}_core.h": rename_core_functions(core.header, "locomotion_embedded_embedded_walker", name, about),
        f"{name}_core.c": rename_core_functions(core.source, "locomotion_embedded_embedded_walker", name, about),
        f"{name}_terms.h": terms.header,
        f"{name}_terms.c": terms.source,
        "main.c": fill_template(_MAIN, name, parts),
        "README.md": fill_template(_README, name, parts),
    }
    return SourceFiles(name, files)


def _sizes(robot: Robot) -> dict[str, str]:
    """Returns the sizes of states and torques by their placeholders."""
    return {"NQ_": str(robot.nq), "NV_": str(robot.nv), "NU_": str(robot.nu)}


def _kilobytes(size: int) -> str:
    """Returns a number of bytes in kB."""
    return f"{size / 1000.0:.0f}"


def _feasible_gaits(controller: LocomotionController) -> list[Gait]:
    """Returns the gaits that a robot can perform."""
    out = []
    for gait in dict.fromkeys((controller.gait, *GAITS.values())):
        try:
            controller._quadruped.capability.require_feasible(gait, controller.friction)
        except QuaddynError:
            continue
        out.append(gait)
    return out
