"""`export_safety`: writes the safety layer as C99, for use with an exported controller."""

from __future__ import annotations

import os

from ..compiler.c99 import c_source
from ..errors import ArgumentTypeError
from ..kernels.c_source import identifier
from ..wbc.export_data import StaticData
from .c_files import SourceFiles, c_string_list, fill_template, rename_core_functions, validate_c_name
from .faults import FAULT_TEXTS
from .safety import Safety
from .safety_filter import filter_command

_HEADER = """\
/* NAME: the safety layer of ROBOT, written by quaddyn VERSION. Do not edit.

   Filters the commands of any controller for the motors. SI units, radians; the order of joints is that of NAME_joints.
   Static memory, no allocation, not thread-safe. Faults and limits are documented with quaddyn.runtime.Safety; results
   are equal to the bit if both are compiled without contraction of products and sums (-ffp-contract=off). */

#ifndef UPPER_H
#define UPPER_H

#include <stdbool.h>

#define UPPER_NU NU_
#define UPPER_NF NF_
#define UPPER_PERIOD PERIOD_

/* Fault codes. */
enum {
CODES
};

/* A sensor reading. NULL, or an array of NaN, means that the robot has no such sensor; a sensor that stops reporting is
   a fault, and so are missing positions, velocities and, unless the base is fixed, IMU values. */
typedef struct {
    const double *position;      /* (NU) [rad] */
    const double *velocity;      /* (NU) [rad/s] */
    const double *gyro;          /* (3) [rad/s] */
    const double *accelerometer; /* (3) specific force [m/s^2] */
    const double *torque;        /* (NU) [N m] or NULL */
    const double *feet;          /* (NF) [N] or NULL */
    const double *temperature;   /* (NU) [degrees Celsius] or NULL */
} NAME_reading;

/* A command. Input: command of the controller; output: command for the motors. */
typedef struct {
    double tau[UPPER_NU], position[UPPER_NU], velocity[UPPER_NU], stiffness[UPPER_NU], damping[UPPER_NU];
} NAME_command;

#ifdef __cplusplus
extern "C" {
#endif

/* Names of the joints. */
extern const char *const NAME_joints[UPPER_NU];

/* Clear all state, including a latched fault. */
void NAME_reset(void);

/* One tick: the code of the fault that is latched, 0 for none. time: stamp of the reading, by the robot's clock [s];
   one that is NaN, infinite, negative or not later than the last one that counted is no new reading, and so is one that
   goes on by 50 ms more than now, the caller's clock [s]; where that stands still, calls are counted, one a period.
   raised: a code that others have found, 0 for none, -1 where no command has come: motors are damped at this tick, and
   nothing is latched. */
int NAME_tick_at(const NAME_reading *reading, NAME_command *command, double time, double now, int raised);

/* The same without stamps. fresh: whether the reading is another one than at the last tick; elapsed: between this one
   and the last one that counted [s]. */
int NAME_tick(const NAME_reading *reading, NAME_command *command, bool fresh, double elapsed, int raised);

/* Name of a fault, and index of the joint concerned, -1 for none. */
const char *NAME_name(int code);
int NAME_joint(void);

#ifdef __cplusplus
}
#endif

#endif
"""

_SOURCE = """\
/* Memory and functions of NAME.h. Written by quaddyn VERSION; do not edit. */
#include "NAME.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#include "NAME_core.h"

#if defined(__GNUC__)
#define ALIGNED __attribute__((aligned(64)))
#else
#define ALIGNED
#endif

DEFINITIONS

LIMITS

MEMORY

const char *const NAME_joints[UPPER_NU] = {JOINTS};

static Vector given(const double *at, int64_t n)
{
    static const double none[1];
    return at == NULL ? (Vector){(double *)none, 0} : (Vector){(double *)at, n};
}

/* A required sensor; all NaN if it is missing. */
static Vector needed(const double *at, int64_t n)
{
    static double unknown[UPPER_NU + 3];
    for (int64_t i = 0; at == NULL && i < n; i++) {
        unknown[i] = NAN;
    }
    return given(at == NULL ? unknown : at, n);
}

void NAME_reset(void)
{
CLEAR
}

int NAME_tick_at(const NAME_reading *reading, NAME_command *command, double time, double now, int raised)
{
    SensorArrays r = {needed(reading->position, UPPER_NU), needed(reading->velocity, UPPER_NU), GYRO_,
        ACCELEROMETER_, given(reading->torque, UPPER_NU), given(reading->feet, UPPER_NF),
        given(reading->temperature, UPPER_NU)};
    CommandArrays asked = {{command->tau, UPPER_NU}, {command->position, UPPER_NU}, {command->velocity, UPPER_NU},
        {command->stiffness, UPPER_NU}, {command->damping, UPPER_NU}};
    return (int)NAME_core_filter_command(&limits, &r, &asked, &memory, time, now, raised);
}

int NAME_tick(const NAME_reading *reading, NAME_command *command, bool fresh, double elapsed, int raised)
{
    const double *last = memory.stamps.at;
    return NAME_tick_at(reading, command, fresh ? last[0] + elapsed : NAN, last[1], raised);
}

const char *NAME_name(int code)
{
    static const char *const names[] = {NAMES};
    return code >= 0 && code < (int)(sizeof names / sizeof *names) ? names[code] : "unknown";
}

int NAME_joint(void)
{
    static const unsigned char about[] = {ABOUT};
    int64_t code = memory.latched_fault.at[0];
    return about[code] && memory.latched_fault.at[1] >= 0 ? (int)memory.latched_fault.at[1] : -1;
}
"""


def export_safety(safety: Safety, folder: str | os.PathLike[str], *, name: str | None = None) -> SourceFiles:
    """Writes a safety layer as C99: its limits, its memory as after a reset, and the function of a tick.

    Args:
        safety: safety layer with its limits.
        folder: folder to write to, created if it does not exist.
        name: prefix of files and functions; None: ``ROBOT_safety``.

    Returns:
        The written files.

    Raises:
        ArgumentError: `name` is not a C identifier.
        OSError: a file cannot be written.
    """
    source = safety_c(safety, name=name)
    source.write(folder)
    return source


def safety_c(safety: Safety, *, name: str | None = None) -> SourceFiles:
    """Returns the files of `export_safety` without writing them; same arguments and errors."""
    if not isinstance(safety, Safety):
        raise ArgumentTypeError(f"safety: expected a Safety, got {type(safety).__name__}")
    robot = safety.robot
    name = validate_c_name(name, f"{robot.name}_safety")
    fresh = Safety(robot, dt=safety.dt).memory
    limits, memory = StaticData(""), StaticData("never")
    parts = {
        "LIMITS": limits.define_structure(safety.limit_arrays, "limits", "LimitArrays").replace(
            "static ", "static const ", 1
        ),
        "MEMORY": memory.define_structure(fresh, "memory", "SafetyMemory"),
    }
    parts["DEFINITIONS"] = "\n\n".join([*limits.definitions, *memory.definitions])
    parts["CLEAR"] = "\n".join(f"    memset({each}, 0, sizeof {each});" for each in fresh._fields)
    parts["JOINTS"] = c_string_list(robot.actuated)
    parts["NAMES"] = c_string_list(("none", *(FAULT_TEXTS[code][0] for code in sorted(FAULT_TEXTS))))
    parts["ABOUT"] = ", ".join(
        [
            "0",
            *(
                str(int("{joint}" in FAULT_TEXTS[code][1] or "{sensor}" in FAULT_TEXTS[code][1]))
                for code in sorted(FAULT_TEXTS)
            ),
        ]
    )
    parts["CODES"] = "\n".join(
        f"    {name.upper()}_{identifier(FAULT_TEXTS[code][0]).upper()} = {code}," for code in sorted(FAULT_TEXTS)
    ).rstrip(",")
    parts |= {"NU_": str(robot.nu), "NF_": str(len(robot.feet)), "PERIOD_": repr(safety.dt), "ROBOT": robot.name}
    for sensor in ("gyro", "accelerometer"):  # what is fixed needs none
        parts[f"{sensor.upper()}_"] = f"needed(reading->{sensor}, 3)" if robot.root == "free" else "given(NULL, 3)"
    core, about = c_source([filter_command], f"{name}_core"), "What a tick consists of."
    files = {
        f"{name}.h": fill_template(_HEADER, name, parts),
        f"{name}.c": fill_template(_SOURCE, name, parts),
        f"{name}_core.h": rename_core_functions(core.header, "runtime_safety_filter", name, about),
        f"{name}_core.c": rename_core_functions(core.source, "runtime_safety_filter", name, about),
    }
    return SourceFiles(name, files)
