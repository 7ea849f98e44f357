"""`export_program`: writes a complete C99 program, without Python, that controls a robot in another process."""

from __future__ import annotations

import os

from ..errors import ArgumentError, ArgumentTypeError
from ..estimation import BaseEstimator
from ..locomotion import FEET, LocomotionController
from ..wbc import WholeBodyController
from ..wbc.c_files import SourceFiles, fill_template, validate_c_name
from ..wbc.export import controller_c
from .estimator_export import estimator_c
from .interface_export import interface_c
from .safety import Safety
from .safety_export import safety_c
from .walker_export import walker_c
from .walking_controller import MAX_COMPENSATED_DELAY, measured_contact_force

_MAIN = """\
/* Controls ROBOT, which runs in another process, through shared memory: state estimator, CONTROLLER_ and safety layer
   run once for every reading. MOTION_TEXT Usage: NAME_drive PATH [SECONDSARGUMENTS]

   Prints the number of processed readings, their processor times and the result. The exit code is 1 if a fault was
   latched. */
#define _POSIX_C_SOURCE 200809L

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "NAME_estimator.h"
#include "NAME_interface.h"
#include "NAME_safety.h"
#include "NAME_KIND.h"

enum { NU = UPPER_ESTIMATOR_NU, NF = UPPER_ESTIMATOR_NF };

/* Time without a new reading after which the program ends [s]. */
static const double timeout = 5.0;
/* Memory of estimator and safety layer. */
static NAME_estimator estimator;
static NAME_safety safety;
/* Damping before the first torque, and while the robot's process damps its motors after a fault [N m s/rad]. */
static const double damping[NU] = {DAMPING};

MOTION_CODE

/* Number of ticks by their processor time [us]; the last entry counts all longer ones. */
static long tick_times[2000];

static double read_clock(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static double seconds(void)
{
    return read_clock(CLOCK_MONOTONIC);
}

/* Return a quantile of the processor time of a tick [us], rounded up. */
static int tick_time(double fraction, long ticks)
{
    const int last = (int)(sizeof tick_times / sizeof *tick_times) - 1;
    long count = 0;
    for (int i = 0; i < last; i++) {
        count += tick_times[i];
        if ((double)count >= fraction * (double)ticks) {
            return i + 1;
        }
    }
    return last + 1;
}

/* Wait for the next reading. Returns 1, or 0 if there is no new reading within the timeout. */
static int wait_for_reading(const UPPER_Memory *memory, uint64_t last, UPPER_Reading *reading)
{
    const struct timespec pause = {0, 50000};
    for (const double begin = seconds(); seconds() - begin < timeout; nanosleep(&pause, NULL)) {
        if (NAME_interface_read(memory, reading) && reading->header.number != last) {
            return 1;
        }
    }
    return 0;
}

int main(int count, char **arguments)
{
    unsigned char standing[NF];
    const double length = count > 2 ? strtod(arguments[2], NULL) : 1e9;
    UPPER_Memory memory;
    UPPER_Reading reading;
    UPPER_Command command;
    double q[UPPER_ESTIMATOR_NQ], v[UPPER_ESTIMATOR_NV];
    double last_time = 0.0, first_time = 0.0, motion_start = 0.0, longest = 0.0;
    int running = 0, fault = 0, stops = 0;
    long ticks = 0, unsolved = 0;
    uint64_t last_number = 0;

    if (count < 2 || NAME_interface_open(&memory, arguments[1]) != 0) {
        fprintf(stderr, "usage: NAME_drive PATH [SECONDSARGUMENTS]; PATH is the shared memory of a robot's process\\n");
        return 2;
    }
    read_arguments(count, arguments);
    NAME_estimator_initialize(&estimator);
    NAME_safety_initialize(&safety);
    while (wait_for_reading(&memory, last_number, &reading)) {
        const double start = seconds(), cpu_start = read_clock(CLOCK_PROCESS_CPUTIME_ID);
        memset(&command, 0, sizeof command);
        first_time = ticks ? first_time : reading.header.time;
        if (!running && reading.header.state == 0) {
            /* State 0 after the first tick: the robot's process follows commands. */
            running = ticks > 0;
            motion_start = reading.header.time;
            reset_controller();
            NAME_estimator_start(&estimator, reading.position, reading.accelerometer);
        } else if (running && reading.header.state != 0) {
            running = 0;
            stops++;
        }
        if (running) {
            /* More than one period if readings were lost; one if the clock jumped. */
            const double elapsed = reading.header.time - last_time;
            const int periods = elapsed <= MAX_DELAY ? (int)(elapsed / UPPER_ESTIMATOR_PERIOD + 0.5) : 1;
            find_stance(&reading, standing);
            NAME_estimator_update(&estimator, reading.position, reading.velocity, reading.gyro, reading.accelerometer,
                standing, periods > 1 ? periods : 1);
            NAME_estimator_odometry(&estimator, q, v);
            unsolved += !compute_torques(&reading, reading.header.time - motion_start, q, v, command.tau);
        } else {
            memcpy(command.damping, damping, sizeof damping);
        }
        /* Filter the command by the safety layer. */
        const NAME_safety_reading sensors = {reading.position, reading.velocity, reading.gyro, reading.accelerometer,
            reading.torque, reading.feet, reading.temperature};
        NAME_safety_command filtered;
        memcpy(&filtered, command.tau, sizeof filtered);
        fault = NAME_safety_tick_at(&safety, &sensors, &filtered, reading.header.time, seconds(), 0);
        memcpy(command.tau, &filtered, sizeof filtered);
        NAME_interface_write(&memory, &command, reading.header.time);
        longest = fmax(longest, seconds() - start);
        const double time = fmin(1e6 * (read_clock(CLOCK_PROCESS_CPUTIME_ID) - cpu_start), 1999.0);
        tick_times[(int)fmax(time, 0.0)]++;
        last_time = reading.header.time;
        last_number = reading.header.number;
        ticks++;
        if (reading.header.time - first_time >= length) {
            break;
        }
    }
    memset(&command, 0, sizeof command);
    memcpy(command.damping, damping, sizeof damping);
    NAME_interface_write(&memory, &command, last_time);
    printf("%ld readings processed, %ld unsolved, longest tick %.0f us; the robot's process stopped %d times; %s\\n",
        ticks, unsolved, 1e6 * longest, stops, fault ? NAME_safety_name(fault) : "no fault");
    printf("processor time of a tick: median %d us, 99.9 %% within %d us\\n", tick_time(0.5, ticks),
        tick_time(0.999, ticks));
RESULT
    NAME_interface_close(&memory);
    return fault != 0;
}
"""

#: Motion of a robot that stands and pitches its trunk.
_STAND = """\
/* Amplitude [rad] and frequency [Hz] of the pitch motion. */
static const double amplitude = 0.1, frequency = 0.5;

static void read_arguments(int count, char **arguments)
{
    (void)count;
    (void)arguments;
}

/* Memory of the controller. */
static NAME_wbc wbc;

static void reset_controller(void)
{
    NAME_wbc_initialize(&wbc);
}

/* All feet are in stance. */
static void find_stance(const UPPER_Reading *reading, unsigned char standing[NF])
{
    (void)reading;
    memset(standing, 1, NF);
}

/* Compute the torques at a time since the beginning of the motion [s]. Returns whether whole-body control solved. */
static int compute_torques(const UPPER_Reading *reading, double time, const double *q, const double *v, double *tau)
{
    const double w = 2.0 * 3.14159265358979323846 * frequency, angle = amplitude * sin(w * time);
    const double c = cos(angle), s = sin(angle);
    const double rotation[9] = {c, 0.0, s, 0.0, 1.0, 0.0, -s, 0.0, c};
    const double rate[3] = {0.0, amplitude * w * cos(w * time), 0.0};
    const double acceleration[3] = {0.0, -w * w * angle, 0.0};
    (void)reading;
    NAME_wbc_base_reference(&wbc, rotation, rate, acceleration);
    return NAME_wbc_tick(&wbc, q, v, NULL, tau) == UPPER_WBC_SOLVED;
}"""

#: Motion of a robot that walks.
_WALK = """\
/* Requested forward and leftward speed [m/s] and yaw rate [rad/s]. */
static double velocity[3];
/* Force of a foot sensor above which the foot is in contact [N]. */
static const double contact_force = CONTACT_FORCE;
/* Memory of the walker. */
static NAME_walker walker;
/* Index among the feet of readings of each foot of the walker. */
static const int foot_index[4] = {FOOT_INDEX};

static void read_arguments(int count, char **arguments)
{
    for (int i = 0; i < 3; i++) {
        velocity[i] = count > 3 + i ? strtod(arguments[3 + i], NULL) : 0.0;
    }
}

static void reset_controller(void)
{
    NAME_walker_initialize(&walker);
}

/* Find the feet in contact by their sensors, in the order of the walker. Returns 0 if a sensor is invalid. */
static int read_contacts(const UPPER_Reading *reading, unsigned char contacts[4])
{
    for (int foot = 0; foot < 4; foot++) {
        const double force = reading->feet[foot_index[foot]];
        if (!isfinite(force)) {
            return 0;
        }
        contacts[foot] = force > contact_force;
    }
    return 1;
}

/* Stance feet are those in contact; without sensors, those on which the last tick plans load. */
static void find_stance(const UPPER_Reading *reading, unsigned char standing[NF])
{
    unsigned char contacts[4];
    const int measured = read_contacts(reading, contacts);
    memset(standing, 0, NF);
    for (int foot = 0; foot < 4; foot++) {
        standing[foot_index[foot]] = measured ? contacts[foot] : NAME_walker_carries(&walker, foot) != 0;
    }
}

/* Compute the torques. Returns whether whole-body control solved. */
static int compute_torques(const UPPER_Reading *reading, double time, const double *q, const double *v, double *tau)
{
    static const double zero[3];
    unsigned char contacts[4];
    const int measured = read_contacts(reading, contacts);
    /* Stand for a second before the first step. */
    const int outcome = NAME_walker_tick(&walker, q, v, time < 1.0 ? zero : velocity, measured ? contacts : NULL, tau);
    return outcome == UPPER_WALKER_SOLVED;
}"""

_WALK_RESULT = """\
    const char *reason = NAME_walker_limit_reason(&walker);
    printf("%s%s%s\\n", NAME_walker_mode_name(NAME_walker_mode(&walker)), *reason ? ": " : "", reason);"""

_CMAKE = """\
# State estimator, controller, safety layer and interface of a robot, and a program that controls it.
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
    controller: WholeBodyController | LocomotionController,
    folder: str | os.PathLike[str],
    *,
    estimator: BaseEstimator | None = None,
    safety: Safety | None = None,
    name: str | None = None,
) -> SourceFiles:
    """Writes a program that controls a robot in another process, such as `RobotProcess`, through shared memory.

    Writes the C files of state estimator, controller, safety layer and interface, see their exports, an example
    ``main.c``, and ``CMakeLists.txt``.  With a `LocomotionController` the robot walks with a velocity that is given as
    arguments of the program; with a `WholeBodyController` it stands and pitches its trunk.

    Args:
        controller: controller of a robot with a free root and feet: a `WholeBodyController` with the default tasks, see
            `quaddyn.wbc.export_c`, or a `LocomotionController`, see `export_walker`.
        folder: folder to write to, created if it does not exist.
        estimator: estimator of the same robot and period; None: one with default noise.
        safety: safety layer of the same robot and period; None: one with default limits.
        name: prefix of files and functions; None: the name of the robot.

    Returns:
        The written files.

    Raises:
        ArgumentError: `estimator` or `safety` has another robot or period, `controller` cannot be exported, or `name`
            is not a C identifier.
        OSError: a file cannot be written.
    """
    source = program_c(controller, estimator=estimator, safety=safety, name=name)
    source.write(folder)
    return source


def program_c(
    controller: WholeBodyController | LocomotionController,
    *,
    estimator: BaseEstimator | None = None,
    safety: Safety | None = None,
    name: str | None = None,
) -> SourceFiles:
    """Returns the files of `export_program` without writing them; same arguments and errors."""
    name, files, safety = controller_files(controller, estimator=estimator, safety=safety, name=name)
    robot, walks = controller.robot, isinstance(controller, LocomotionController)
    files |= interface_c(robot, name=f"{name}_interface").files
    parts = {
        "DAMPING": ", ".join(map(repr, safety.limit_arrays.fault_damping.tolist())),
        "MAX_DELAY": repr(MAX_COMPENSATED_DELAY),
        "UPPER_Memory": f"{name}_interface_memory",
        "UPPER_Reading": f"{name}_interface_reading",
        "UPPER_Command": f"{name}_interface_command",
        "SOURCES": " ".join(sorted(file for file in files if file.endswith(".c"))),
        "KIND": "walker" if walks else "wbc",
        "CONTROLLER_": "locomotion controller" if walks else "whole-body controller",
        "MOTION_TEXT": "The robot walks." if walks else "The robot stands and pitches its trunk.",
        "ARGUMENTS": " [FORWARD LEFT TURN]" if walks else "",
        "ROBOT": robot.name,
    }
    if walks:
        parts["FOOT_INDEX"] = ", ".join(str(robot.feet.index(foot)) for foot in FEET)
        parts["CONTACT_FORCE"] = repr(measured_contact_force(robot))
    parts["MOTION_CODE"] = fill_template(_WALK if walks else _STAND, name, parts)
    parts["RESULT\n"] = fill_template(_WALK_RESULT, name, parts) + "\n" if walks else ""
    files["main.c"] = fill_template(_MAIN, name, parts)
    files["CMakeLists.txt"] = fill_template(_CMAKE, name, parts | {"VERSION": "VERSION"})  # a word of CMake
    return SourceFiles(name, files)


def controller_files(
    controller: WholeBodyController | LocomotionController,
    *,
    estimator: BaseEstimator | None = None,
    safety: Safety | None = None,
    name: str | None = None,
    lower: bool = False,
) -> tuple[str, dict[str, str], Safety]:
    """Returns the C files of controller, estimator and safety layer; arguments and errors of `export_program`.

    Args:
        controller: the controller.
        estimator: its estimator, or None.
        safety: its safety layer, or None.
        name: prefix of files and functions, or None.
        lower: whether the prefix is converted to lower case.

    Returns:
        The prefix, the texts by file name, and the safety layer.
    """
    if not isinstance(controller, WholeBodyController | LocomotionController):
        raise ArgumentTypeError(
            "controller: expected a WholeBodyController or a LocomotionController, got " + type(controller).__name__
        )
    robot = controller.robot
    name = validate_c_name(name, robot.name)
    name = name.lower() if lower else name
    if robot.root != "free" or not robot.feet:
        raise ArgumentError(
            f"controller: the program requires a free root and feet, which {robot.name!r} does not have"
        )
    estimator = BaseEstimator(robot, dt=controller.dt) if estimator is None else estimator
    safety = Safety(robot, dt=controller.dt) if safety is None else safety
    for argument, part in (("estimator", estimator), ("safety", safety)):
        if part.robot is not robot or part.dt != controller.dt:
            raise ArgumentError(f"{argument}: expected the robot and the period of the controller; create it with them")
    if isinstance(controller, LocomotionController):
        source = walker_c(controller, name=f"{name}_walker").files
    else:
        source = controller_c(controller, name=f"{name}_wbc").files
    files = {file: text for file, text in source.items() if file.endswith((".c", ".h")) and file != "main.c"}
    files |= safety_c(safety, name=f"{name}_safety").files
    files |= estimator_c(estimator, name=f"{name}_estimator").files
    return name, files, safety
