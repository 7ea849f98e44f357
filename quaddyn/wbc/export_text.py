"""Further files of an exported controller: an example program, a build file, and a README."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..robot.robot import Robot
from ..version import __version__

_MAIN = """\
/* Stands the robot: ticks at its home configuration, and prints torques and times. Usage: NAME_stand [TICKS] */
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
    static const double v[UPPER_NV];
    double tau[UPPER_NU];
    const long ticks = count > 1 ? strtol(arguments[1], NULL, 10) : 1000;
    const double start = seconds();
    NAME_initialize(&robot);
    int outcome = NAME_tick(&robot, NAME_home, v, NULL, tau);
    const double first = seconds();
    for (long k = 1; k < ticks && outcome == UPPER_SOLVED; k++) {
        outcome = NAME_tick(&robot, NAME_home, v, NULL, tau);
    }
    const double end = seconds();
    for (int i = 0; i < UPPER_NU; i++) {
        printf("%-24s %9.4f\\n", NAME_joints[i], tau[i]);
    }
    printf("first torque after %.3f ms, then %.2f us per tick\\n", 1e3 * (first - start),
        ticks > 1 ? 1e6 * (end - first) / (double)(ticks - 1) : 0.0);
    printf("outcome %d, limits violated by %.1e m/s^2, optimal to %.1e\\n", outcome, NAME_violation(&robot),
        NAME_kkt(&robot));
    return outcome == UPPER_SOLVED ? 0 : 1;
}
"""

_CMAKE = """\
# Whole-body control as a library, and an example that uses it.
cmake_minimum_required(VERSION 3.10)
project(NAME C)

set(CMAKE_C_STANDARD 99)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()
option(NATIVE "code for this machine's processor: faster, with different rounding" OFF)

add_library(NAME STATIC NAME.c NAME_core.c NAME_terms.c)
target_include_directories(NAME PUBLIC ${CMAKE_CURRENT_SOURCE_DIR})
target_link_libraries(NAME PUBLIC m)
if(CMAKE_C_COMPILER_ID MATCHES "GNU|Clang")
  target_compile_options(NAME PRIVATE -Wall -Wextra -pedantic)
  if(NATIVE)
    target_compile_options(NAME PRIVATE -march=native)
  endif()
endif()

add_executable(NAME_stand main.c)
target_link_libraries(NAME_stand PRIVATE NAME)
"""

_README = """\
# NAME: whole-body control of ROBOT in C99

Written by quaddyn VERSION. C99 and the C library's mathematics; no allocation, no files, no threads.
Memory: CONSTANT kB of constants; per controller SET kB with initial values and ZERO kB that are initially zero; some kB
of stack.

    cmake -B build && cmake --build build && build/NAME_stand
    cc -std=c99 -O2 main.c NAME.c NAME_core.c NAME_terms.c -lm -o NAME_stand     # the same without cmake

| File | Content |
|---|---|
| `NAME.h`, `NAME.c` | public functions; parameters and initial values of the controller |
| `NAME_memory.h` | memory of a controller |
| `NAME_core.c` | computation of a tick: contacts, tasks, limits, hierarchical solver; the same for every robot |
| `NAME_terms.c` | rigid-body terms of the robot at (q, v): M, h, center of mass and frames |
| `main.c` | example program that makes the robot stand |

    static NAME robot;                            /* one for each robot */
    double tau[UPPER_NU];
    NAME_initialize(&robot);
    int outcome = NAME_tick(&robot, q, v, NULL, tau);     /* all feet on the ground; once per period */
    if (outcome != UPPER_SOLVED) { ... }          /* see NAME.h; tau is finite in any case */

Order of `tau`: `NAME_joints`. Functions that set parameters between ticks:

SETTERS

The controller measures time in ticks. Copying its memory copies the controller. Torques equal those of the Python
package bit for bit if neither fuses products and sums (`-ffp-contract=off`), otherwise up to rounding.
"""


def main_program(name: str) -> str:
    """Returns an example program that makes the robot stand."""
    return _fill_template(_MAIN, name)


def cmake_file(name: str) -> str:
    """Returns the build file of library and example."""
    return _fill_template(_CMAKE, name)


def readme(name: str, robot: Robot, setters: Sequence[str], sizes: Mapping[str, int]) -> str:
    """Returns the text of the README of an exported controller.

    Args:
        name: prefix of the names of files and functions.
        robot: the robot.
        setters: names of functions that set references, gains and limits.
        sizes: memory by kind [bytes], see `StaticData`.
    """
    text = _README.replace("ROBOT", robot.name).replace("VERSION", __version__)
    for kind, size in sizes.items():
        text = text.replace(f"{kind.upper()} kB", f"{size / 1000.0:.0f} kB")
    lines, line = [], "   "
    for setter in setters:
        if len(line) + len(setter) > 118:
            lines.append(line)
            line = "   "
        line += f" {setter}"
    return _fill_template(text.replace("SETTERS", "\n".join([*lines, line])), name)


def _fill_template(text: str, name: str) -> str:
    """Returns a template with the prefix of the controller."""
    return text.replace("UPPER", name.upper()).replace("NAME", name)
