"""`export_program`: writes a complete C99 program, without Python, that controls a robot in another process."""

from __future__ import annotations

import os

from ..errors import ArgumentError, ArgumentTypeError
from ..estimation import BaseEstimator
from ..wbc import WholeBodyController
from ..wbc.export import controller_c
from .c_files import SourceFiles, fill_template, validate_c_name
from .estimator_export import estimator_c
from .interface_export import interface_c
from .safety import Safety
from .safety_export import safety_c
from .walking_controller import MAX_COMPENSATED_DELAY

_MAIN = """\
/* Drives ROBOT in another process, which shares memory with this one: state estimate, whole-body control and safety
   layer, once for every reading. Stands, and nods. Usage: NAME_drive PATH [SECONDS]

   Prints how many readings were answered and what became of them; exit code 1 if a fault was latched. */
#define _POSIX_C_SOURCE 200809L

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "NAME_estimator.h"
#include "NAME_interface.h"
#include "NAME_safety.h"
#include "NAME_wbc.h"

enum { NU = UPPER_WBC_NU, NF = UPPER_ESTIMATOR_NF };

/* How far the trunk nods [rad], how often [1/s], and how long nothing new is waited for [s]. */
static const double amplitude = 0.1, frequency = 0.5, patience = 5.0;
/* Damping before the first torque and while the robot's side has stopped [N m s/rad]. */
static const double damping[NU] = {DAMPING};

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* The next reading: 1, or 0 if the robot's process has stopped sending. */
static int await(const UPPER_Memory *memory, uint64_t last, UPPER_Reading *reading)
{
    const struct timespec pause = {0, 50000};
    for (const double begun = seconds(); seconds() - begun < patience; nanosleep(&pause, NULL)) {
        if (NAME_interface_read(memory, reading) && reading->header.number != last) {
            return 1;
        }
    }
    return 0;
}

/* A trunk that has nodded for so long. */
static void nod(double time)
{
    const double w = 2.0 * 3.14159265358979323846 * frequency, angle = amplitude * sin(w * time);
    const double c = cos(angle), s = sin(angle);
    const double rotation[9] = {c, 0.0, s, 0.0, 1.0, 0.0, -s, 0.0, c};
    const double rate[3] = {0.0, amplitude * w * cos(w * time), 0.0};
    const double change[3] = {0.0, -w * w * angle, 0.0};
    NAME_wbc_base_reference(rotation, rate, change);
}

int main(int count, char **arguments)
{
    static const unsigned char standing[NF] = {STANDING};
    const double length = count > 2 ? strtod(arguments[2], NULL) : 1e9;
    UPPER_Memory memory;
    UPPER_Reading reading;
    UPPER_Command command;
    double q[UPPER_WBC_NQ], v[UPPER_WBC_NV], before = 0.0, first = 0.0, begun = 0.0, longest = 0.0;
    int running = 0, fault = 0, stops = 0;
    long ticks = 0, unsolved = 0;
    uint64_t last = 0;

    if (count < 2 || NAME_interface_open(&memory, arguments[1]) != 0) {
        fprintf(stderr, "usage: NAME_drive PATH [SECONDS]; PATH is shared memory of a robot's process\\n");
        return 2;
    }
    NAME_safety_reset();
    while (await(&memory, last, &reading)) {
        const double start = seconds();
        memset(&command, 0, sizeof command);
        first = ticks ? first : reading.header.time;
        if (!running && reading.header.state == 0) {
            /* A command of damping has come through, or none was necessary: from here on the robot follows. */
            running = ticks > 0;
            begun = reading.header.time;
            NAME_wbc_reset();
            NAME_estimator_start(reading.position, reading.accelerometer);
        } else if (running && reading.header.state != 0) {
            running = 0;
            stops++;
        }
        if (running) {
            nod(reading.header.time - begun);
            /* Readings were lost since the last one; a clock that jumps is none to go by. */
            const double passed = reading.header.time - before;
            const int periods = passed <= LATEST ? (int)(passed / UPPER_ESTIMATOR_PERIOD + 0.5) : 1;
            NAME_estimator_update(reading.position, reading.velocity, reading.gyro, reading.accelerometer, standing,
                periods > 1 ? periods : 1);
            NAME_estimator_odometry(q, v);
            unsolved += NAME_wbc_tick(q, v, NULL, command.tau) != UPPER_WBC_SOLVED;
        } else {
            memcpy(command.damping, damping, sizeof damping);
        }
        /* The safety layer has the last word. */
        const NAME_safety_reading seen = {reading.position, reading.velocity, reading.gyro, reading.accelerometer,
            reading.torque, reading.feet, reading.temperature};
        NAME_safety_command given;
        memcpy(&given, command.tau, sizeof given);
        fault = NAME_safety_tick_at(&seen, &given, reading.header.time, seconds(), 0);
        memcpy(command.tau, &given, sizeof given);
        NAME_interface_write(&memory, &command, reading.header.time);
        longest = fmax(longest, seconds() - start);
        before = reading.header.time;
        last = reading.header.number;
        ticks++;
        if (reading.header.time - first >= length) {
            break;
        }
    }
    memset(&command, 0, sizeof command);
    memcpy(command.damping, damping, sizeof damping);
    NAME_interface_write(&memory, &command, before);
    printf("%ld readings answered, %ld unsolved, the longest took %.0f us; the robot's side stopped %d times; %s\\n",
        ticks, unsolved, 1e6 * longest, stops, fault ? NAME_safety_name(fault) : "no fault");
    NAME_interface_close(&memory);
    return fault != 0;
}
"""

_CMAKE = """\
# State estimate, whole-body control, safety layer and interface of a robot, and a program that drives it.
cmake_minimum_required(VERSION 3.10)
project(NAME_drive C)

set(CMAKE_C_STANDARD 99)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()

add_executable(NAME_drive main.c SOURCES)
target_link_libraries(NAME_drive PRIVATE m)
"""


def export_program(
    controller: WholeBodyController,
    folder: str | os.PathLike[str],
    *,
    estimator: BaseEstimator | None = None,
    safety: Safety | None = None,
    name: str | None = None,
) -> SourceFiles:
    """Writes a program that controls a robot in another process, such as `RobotProcess`, through shared memory.

    The program has state estimator, controller, safety layer and interface as of the separate exports, an example
    ``main.c``, in which the robot stands and pitches its trunk, and ``CMakeLists.txt``.

    Args:
        controller: controller of a robot with a free root and feet, with the default tasks; see
            `quaddyn.wbc.export_c`.
        folder: folder to write to, created if it does not exist.
        estimator: estimator of the same robot and period; None: one with default noise.
        safety: safety layer of the same robot and period; None: one with default limits.
        name: prefix of files and functions; None: the name of the robot.

    Returns:
        The written files.

    Raises:
        ArgumentError: another robot or period, a controller that cannot be exported, or `name` is not a C
            identifier.
        OSError: a file cannot be written.
    """
    source = program_c(controller, estimator=estimator, safety=safety, name=name)
    source.write(folder)
    return source


def program_c(
    controller: WholeBodyController,
    *,
    estimator: BaseEstimator | None = None,
    safety: Safety | None = None,
    name: str | None = None,
) -> SourceFiles:
    """Returns the files of `export_program` without writing them; same arguments and errors."""
    if not isinstance(controller, WholeBodyController):
        raise ArgumentTypeError(f"controller: expected a WholeBodyController, got {type(controller).__name__}")
    robot = controller.robot
    name = validate_c_name(name, robot.name)
    if robot.root != "free" or not robot.feet:
        raise ArgumentError(f"controller: the program stands on feet, {robot.name!r} has none or no free root")
    estimator = BaseEstimator(robot, dt=controller.dt) if estimator is None else estimator
    safety = Safety(robot, dt=controller.dt) if safety is None else safety
    for what, part in (("estimator", estimator), ("safety", safety)):
        if part.robot is not robot or part.dt != controller.dt:
            raise ArgumentError(f"{what}: of another robot or period than the controller")
    written = controller_c(controller, name=f"{name}_wbc").files
    files = {file: text for file, text in written.items() if file.endswith((".c", ".h")) and file != "main.c"}
    files |= safety_c(safety, name=f"{name}_safety").files
    files |= estimator_c(estimator, name=f"{name}_estimator").files
    files |= interface_c(robot, name=f"{name}_interface").files
    parts = {
        "DAMPING": ", ".join(map(repr, safety.limit_arrays.fault_damping.tolist())),
        "STANDING": ", ".join("1" for _ in robot.feet),
        "LATEST": repr(MAX_COMPENSATED_DELAY),
        "UPPER_Memory": f"{name}_interface_memory",
        "UPPER_Reading": f"{name}_interface_reading",
        "UPPER_Command": f"{name}_interface_command",
        "SOURCES": " ".join(sorted(file for file in files if file.endswith(".c"))),
        "ROBOT": robot.name,
    }
    files["main.c"] = fill_template(_MAIN, name, parts)
    files["CMakeLists.txt"] = fill_template(_CMAKE, name, parts)
    return SourceFiles(name, files)
