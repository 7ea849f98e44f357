"""`export_safety`: the safety layer as C99, to stand beside an exported controller."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from ..compiling.c99 import c_source
from ..errors import ArgumentError, ArgumentTypeError
from ..kernels.c_source import identifier
from ..version import __version__
from ..wbc.export_data import StaticData
from .faults import KINDS
from .safety import Safety
from .safety_core import guard

_HEADER = """\
/* NAME: the safety layer of ROBOT, written by quaddyn VERSION. Do not edit.

   Stands between any controller and the motors. SI units, radians; the order of joints is that of NAME_joints.
   Static memory, no allocation, not thread-safe. What a fault is, and what is only cut, is in the Python package's
   documentation of quaddyn.runtime.Safety; the bits are the same where neither contracts products and sums
   (-ffp-contract=off). */

#ifndef UPPER_H
#define UPPER_H

#include <stdbool.h>

#define UPPER_NU NU_
#define UPPER_NF NF_
#define UPPER_PERIOD PERIOD_

/* What may be wrong. */
enum {
CODES
};

/* A sensor reading; pointers may be NULL where the robot has no such sensor, and for the IMU of a fixed robot. */
typedef struct {
    const double *position;      /* (NU) [rad] */
    const double *velocity;      /* (NU) [rad/s] */
    const double *gyro;          /* (3) [rad/s] */
    const double *accelerometer; /* (3) specific force [m/s^2] */
    const double *torque;        /* (NU) [N m] or NULL */
    const double *feet;          /* (NF) [N] or NULL */
    const double *temperature;   /* (NU) [degrees Celsius] or NULL */
} NAME_reading;

/* A command, in: what the controller wants; out: what the motors may get. */
typedef struct {
    double tau[UPPER_NU], position[UPPER_NU], velocity[UPPER_NU], stiffness[UPPER_NU], damping[UPPER_NU];
} NAME_command;

#ifdef __cplusplus
extern "C" {
#endif

/* Names of the joints. */
extern const char *const NAME_joints[UPPER_NU];

/* Forget everything, a latched fault included. */
void NAME_reset(void);

/* One tick: the code of the fault that is latched, 0 for none. fresh: whether the reading is another one than at the
   last tick; elapsed: between this one and the one before [s]; raised: a code that others have found, or 0. */
int NAME_tick(const NAME_reading *reading, NAME_command *command, bool fresh, double elapsed, int raised);

/* The fault in words, and number of the joint that it is about, -1 for none. */
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

void NAME_reset(void)
{
CLEAR
}

int NAME_tick(const NAME_reading *reading, NAME_command *command, bool fresh, double elapsed, int raised)
{
    Reading r = {given(reading->position, UPPER_NU), given(reading->velocity, UPPER_NU), given(reading->gyro, 3),
        given(reading->accelerometer, 3), given(reading->torque, UPPER_NU), given(reading->feet, UPPER_NF),
        given(reading->temperature, UPPER_NU)};
    Asked asked = {{command->tau, UPPER_NU}, {command->position, UPPER_NU}, {command->velocity, UPPER_NU},
        {command->stiffness, UPPER_NU}, {command->damping, UPPER_NU}};
    return (int)NAME_core_guard(&limits, &r, &asked, &memory, fresh, elapsed, raised);
}

const char *NAME_name(int code)
{
    static const char *const names[] = {NAMES};
    return code >= 0 && code < (int)(sizeof names / sizeof *names) ? names[code] : "unknown";
}

int NAME_joint(void)
{
    static const unsigned char about[] = {ABOUT};
    int64_t code = memory.latched.at[0];
    return about[code] && memory.latched.at[1] >= 0 ? (int)memory.latched.at[1] : -1;
}
"""


@dataclass(frozen=True, slots=True)
class SafetySource:
    """What `safety_c` writes.

    Attributes:
        name: what files and functions begin with.
        files: texts by name of the file.
    """

    name: str
    files: dict[str, str]


def export_safety(safety: Safety, folder: str | os.PathLike[str], *, name: str | None = None) -> SafetySource:
    """Write a safety layer as C99: its limits, its memory as after a reset, and a tick.

    Args:
        safety: with its limits.
        folder: to write to; made if it is missing.
        name: what files and functions begin with; ``ROBOT_safety`` by default.

    Returns:
        What was written.

    Raises:
        ArgumentError: a name that is none to C.
        OSError: a file cannot be written.
    """
    source = safety_c(safety, name=name)
    out = Path(folder)
    out.mkdir(parents=True, exist_ok=True)
    for file, text in source.files.items():
        (out / file).write_text(text, encoding="ascii")
    return source


def safety_c(safety: Safety, *, name: str | None = None) -> SafetySource:
    """`export_safety` without writing; the same arguments and errors."""
    if not isinstance(safety, Safety):
        raise ArgumentTypeError(f"safety: expected a Safety, got {type(safety).__name__}")
    robot = safety.robot
    if name is None:
        name = identifier(f"{robot.name}_safety").lstrip("_")
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]{0,60}", name):
        raise ArgumentError(f"name: expected up to 61 letters, digits and _, a letter first, got {name!r}")
    fresh = Safety(robot, dt=safety.dt).memory
    limits, memory = StaticData(""), StaticData("never")
    parts = {
        "LIMITS": limits.structure(safety.allowed, "limits", "Allowed").replace("static ", "static const ", 1),
        "MEMORY": memory.structure(fresh, "memory", "SafetyMemory"),
    }
    parts["DEFINITIONS"] = "\n\n".join([*limits.definitions, *memory.definitions])
    parts["CLEAR"] = "\n".join(f"    memset({each}, 0, sizeof {each});" for each in fresh._fields)
    parts["JOINTS"] = ", ".join(_string(each) for each in robot.actuated)
    parts["NAMES"] = ", ".join(_string(each) for each in ("none", *(KINDS[code][0] for code in sorted(KINDS))))
    parts["ABOUT"] = ", ".join(
        ["0", *(str(int("{joint}" in KINDS[code][1] or "{sensor}" in KINDS[code][1])) for code in sorted(KINDS))]
    )
    parts["CODES"] = "\n".join(
        f"    {name.upper()}_{identifier(KINDS[code][0]).upper()} = {code}," for code in sorted(KINDS)
    ).rstrip(",")
    parts |= {"NU_": str(robot.nu), "NF_": str(len(robot.feet)), "PERIOD_": repr(safety.dt), "ROBOT": robot.name}
    parts |= {"UPPER": name.upper(), "NAME": name, "VERSION": __version__}
    words = re.compile("|".join(sorted(parts, key=len, reverse=True)))
    core = c_source([guard], f"{name}_core")

    def filled(text: str) -> str:
        """In one go: what is filled in may contain the same words."""
        return words.sub(lambda found: parts[found[0]], text).encode("ascii", "backslashreplace").decode()

    def own(text: str) -> str:
        text = re.sub(r"\bruntime_safety_core_", f"{name}_core_", text)
        return f"/* What a tick consists of. Written by quaddyn {__version__}; do not edit. */\n{text}"

    files = {
        f"{name}.h": filled(_HEADER),
        f"{name}.c": filled(_SOURCE),
        f"{name}_core.h": own(core.header),
        f"{name}_core.c": own(core.source),
    }
    return SafetySource(name, files)


def _string(text: str) -> str:
    quoted = text.encode("ascii", "backslashreplace").decode().replace("\\", "\\\\").replace('"', '\\"')
    return f'"{quoted}"'
