"""`export_safety`: writes the safety layer as C99, for use with an exported controller."""

from __future__ import annotations

import os

from ..compiler.c99 import c_source
from ..errors import ArgumentTypeError
from ..kernels.c_source import identifier
from ..wbc.c_files import (
    SourceFiles,
    c_string_list,
    define_robot,
    fill_template,
    rename_core_functions,
    validate_c_name,
)
from ..wbc.export_data import StaticData
from .faults import FAULT_TEXTS
from .safety import Safety
from .safety_filter import filter_command

_HEADER = """\
/* NAME: the safety layer of ROBOT, written by quaddyn VERSION. Do not edit.

   Filters the commands of any controller for the motors. SI units, radians; the order of joints is that of NAME_joints.
   No allocation: all memory is one structure, NAME, of which a program may have several; each is used by one thread at
   a time. Faults and limits are documented in quaddyn.runtime.Safety. Results
   equal those of Python bit for bit if products and sums are not contracted in either one (-ffp-contract=off). */

#ifndef UPPER_H
#define UPPER_H

#include <stdbool.h>

#include "NAME_memory.h"

#define UPPER_NU NU_
#define UPPER_NF NF_
#define UPPER_PERIOD PERIOD_

/* Fault codes. */
enum {
CODES
};

/* A sensor reading. NULL, or an array of NaN, means that the robot does not have the sensor. A fault is raised if a
   sensor stops reporting, or if positions, velocities or, unless the base is fixed, IMU values are missing. */
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

/* Set the memory to its initial values; required before any other function. */
void NAME_initialize(NAME *robot);

/* Size of the memory [bytes], for callers in other languages. */
size_t NAME_size(void);

/* Clear all state, including a latched fault. */
void NAME_reset(NAME *robot);

/* Filter the command of one tick. Returns the code of the latched fault, 0 if there is none.
   time: time stamp of the reading, by the robot's clock [s]. The reading is not new if the stamp is NaN, infinite,
   negative, not later than that of the last accepted reading, or if it advances by over 50 ms more than now.
   now: the caller's clock [s]. If it advances by less than a period per call, one period per call is counted.
   raised: code of a fault detected elsewhere, 0 for none; -1 if no command was received: the motors are damped in this
   tick, and no fault is latched. */
int NAME_tick_at(NAME *robot, const NAME_reading *reading, NAME_command *command, double time, double now, int raised);

/* The same without time stamps. fresh: whether the reading is new since the last tick; elapsed: time between this
   reading and the last accepted one [s]. */
int NAME_tick(NAME *robot, const NAME_reading *reading, NAME_command *command, bool fresh, double elapsed, int raised);

/* Name of a fault code; index of the joint of the latched fault, -1 if there is none. */
const char *NAME_name(int code);
int NAME_joint(const NAME *robot);

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

DEFINITIONS

LIMITS

MEMORY_FUNCTIONS

const char *const NAME_joints[UPPER_NU] = {JOINTS};

/* An optional sensor; empty if it is missing. */
static Vector optional(const double *at, int64_t n)
{
    static const double none[1];
    return at == NULL ? (Vector){(double *)none, 0} : (Vector){(double *)at, n};
}

/* A required sensor; all NaN if it is missing. */
static Vector required(const double *at, int64_t n)
{
    static const double unknown[UPPER_NU + 3] = {UNKNOWN};
    return optional(at == NULL ? unknown : at, n);
}

void NAME_reset(NAME *robot)
{
    NAME_initialize(robot);
}

int NAME_tick_at(NAME *robot, const NAME_reading *reading, NAME_command *command, double time, double now, int raised)
{
    SensorArrays r = {required(reading->position, UPPER_NU), required(reading->velocity, UPPER_NU), GYRO_,
        ACCELEROMETER_, optional(reading->torque, UPPER_NU), optional(reading->feet, UPPER_NF),
        optional(reading->temperature, UPPER_NU)};
    CommandArrays arrays = {{command->tau, UPPER_NU}, {command->position, UPPER_NU}, {command->velocity, UPPER_NU},
        {command->stiffness, UPPER_NU}, {command->damping, UPPER_NU}};
    SafetyMemory memory = view(robot);
    return (int)NAME_core_filter_command(&limits, &r, &arrays, &memory, time, now, raised);
}

int NAME_tick(NAME *robot, const NAME_reading *reading, NAME_command *command, bool fresh, double elapsed, int raised)
{
    const SafetyMemory memory = view(robot);
    return NAME_tick_at(
        robot, reading, command, fresh ? *memory.reading_stamp + elapsed : NAN, *memory.caller_clock, raised);
}

const char *NAME_name(int code)
{
    static const char *const names[] = {NAMES};
    return code >= 0 && code < (int)(sizeof names / sizeof *names) ? names[code] : "unknown";
}

int NAME_joint(const NAME *robot)
{
    static const unsigned char has_joint[] = {HAS_JOINT};
    const SafetyMemory memory = view(robot);
    const int64_t code = *memory.fault;
    return has_joint[code] && *memory.fault_index >= 0 ? (int)*memory.fault_index : -1;
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
    limits, memory = StaticData(""), StaticData("never", owner="m")
    memory_header, memory_functions = define_robot(memory, fresh, name)
    parts = {
        "LIMITS": limits.define_structure(safety.limit_arrays, "limits", "LimitArrays").replace(
            "static ", "static const ", 1
        ),
        "MEMORY_FUNCTIONS": memory_functions,
        "UNKNOWN": ", ".join(["NAN"] * (robot.nu + 3)),
    }
    parts["DEFINITIONS"] = "\n\n".join([*limits.definitions, *memory.definitions])
    parts["JOINTS"] = c_string_list(robot.actuated)
    parts["NAMES"] = c_string_list(("none", *(FAULT_TEXTS[code][0] for code in sorted(FAULT_TEXTS))))
    parts["HAS_JOINT"] = ", ".join(
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
    for sensor in ("gyro", "accelerometer"):  # a fixed base needs no IMU
        parts[f"{sensor.upper()}_"] = f"required(reading->{sensor}, 3)" if robot.root == "free" else "optional(NULL, 3)"
    core, about = c_source([filter_command], f"{name}_core"), "Computation of a tick."
    files = {
        f"{name}.h": fill_template(_HEADER, name, parts),
        f"{name}.c": fill_template(_SOURCE, name, parts),
        f"{name}_memory.h": memory_header,
        f"{name}_core.h": rename_core_functions(core.header, "runtime_safety_filter", name, about),
        f"{name}_core.c": rename_core_functions(core.source, "runtime_safety_filter", name, about),
    }
    return SourceFiles(name, files)
