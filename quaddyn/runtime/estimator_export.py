"""`export_estimator`: writes the base state estimator as C99, for use with an exported controller."""

from __future__ import annotations

import os

from ..compiler.c99 import c_source
from ..errors import ArgumentTypeError
from ..estimation import BaseEstimator
from ..estimation.invariant_filter import (
    initialize,
    initialize_at_rest,
    update_estimate,
    write_base_state,
    write_odometry,
)
from ..kernels import tick_terms_c
from ..robot.joint_positions import JointPositions
from ..wbc.c_files import (
    SourceFiles,
    c_string_list,
    define_robot,
    fill_template,
    rename_core_functions,
    validate_c_name,
)
from ..wbc.export_data import StaticData, define_constant_array

_HEADER = """\
/* NAME: pose and velocity of the base of ROBOT, estimated from encoders, an IMU and stance feet. Written by quaddyn
   VERSION; do not edit.

   A contact-aided invariant extended Kalman filter; see quaddyn.estimation.BaseEstimator. SI units, radians;
   joints in the order of NAME_joints. No allocation: all memory is one structure, NAME, of which a program may have
   several; each is used by one thread at a time. */

#ifndef UPPER_H
#define UPPER_H

#include "NAME_memory.h"

#define UPPER_NQ NQ_
#define UPPER_NV NV_
#define UPPER_NU NU_
#define UPPER_NF NF_
#define UPPER_NX NX_
#define UPPER_PERIOD PERIOD_

#ifdef __cplusplus
extern "C" {
#endif

/* Names of the joints that have encoders, and of the feet. */
extern const char *const NAME_joints[UPPER_NU];
extern const char *const NAME_feet[UPPER_NF];

/* Set the memory to its initial values; required before any other function. */
void NAME_initialize(NAME *robot);

/* Size of the memory [bytes], for callers in other languages. */
size_t NAME_size(void);

/* Initialize with a state. */
void NAME_reset(NAME *robot, const double q[UPPER_NQ], const double v[UPPER_NV]);

/* Initialize at rest above the origin, with the lowest foot at height 0 and the vertical of the accelerometer [m/s^2],
   preferably the mean of several readings. */
void NAME_start(NAME *robot, const double position[UPPER_NU], const double accelerometer[3]);

/* Process one reading, `periods` after the previous one (more than 1 if readings were lost): gyroscope [rad/s] and
   accelerometer [m/s^2] in IMU axes; standing: 1 for each stance foot. */
void NAME_update(NAME *robot, const double position[UPPER_NU], const double velocity[UPPER_NU],
    const double gyro[3], const double accelerometer[3], const unsigned char standing[UPPER_NF], int periods);

/* Get the estimate: measured joints, and the base with its velocity in base axes; the position may jump. */
void NAME_state(const NAME *robot, double q[UPPER_NQ], double v[UPPER_NV]);

/* Get the estimate with a position without jumps, for control. */
void NAME_odometry(const NAME *robot, double q[UPPER_NQ], double v[UPPER_NV]);

/* Whether a stance foot was inconsistent with the estimate at the last reading. */
int NAME_slips(const NAME *robot, int foot);

/* (NX, NX) covariance of the errors of attitude, velocity, position, gyroscope and accelerometer bias, and feet. */
const double *NAME_covariance(const NAME *robot);

#ifdef __cplusplus
}
#endif

#endif
"""

_SOURCE = """\
/* Memory and functions of NAME.h. Written by quaddyn VERSION; do not edit. */
#include "NAME.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "NAME_core.h"
#include "NAME_terms.h"

DEFINITIONS

MODEL

MEMORY_FUNCTIONS

const char *const NAME_joints[UPPER_NU] = {JOINTS};
const char *const NAME_feet[UPPER_NF] = {FEET};

/* Index of each joint in q and v; a continuous joint is (cos, sin) in q. */
static const int q_index[UPPER_NU] = {Q_INDEX}, v_index[UPPER_NU] = {V_INDEX};
static const unsigned char is_continuous[UPPER_NU] = {IS_CONTINUOUS};

static Vector vector(const double *at, int64_t n)
{
    return (Vector){(double *)at, n};
}

/* Compute the terms of the feet with the base at rest in the origin. */
static void compute_terms(NAME *robot, const double *position, const double *velocity)
{
    static const double origin[7] = {0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0};
    for (int i = 0; i < 7; i++) {
        robot->configuration[i] = origin[i];
    }
    for (int i = 0; i < 6; i++) {
        robot->motion[i] = 0.0;
    }
    for (int i = 0; i < UPPER_NU; i++) {
        if (is_continuous[i]) {
            robot->configuration[q_index[i]] = cos(position[i]);
            robot->configuration[q_index[i] + 1] = sin(position[i]);
        } else {
            robot->configuration[q_index[i]] = position[i];
        }
        robot->motion[v_index[i]] = velocity[i];
    }
    NAME_terms(robot->configuration, robot->motion, robot->terms);
}

void NAME_reset(NAME *robot, const double q[UPPER_NQ], const double v[UPPER_NV])
{
    for (int i = 7; i < UPPER_NQ; i++) {
        robot->configuration[i] = q[i];
    }
    for (int i = 6; i < UPPER_NV; i++) {
        robot->motion[i] = v[i];
    }
    FilterState memory = view(robot);
    NAME_core_initialize(&model, &memory, vector(q, UPPER_NQ), vector(v, UPPER_NV));
}

void NAME_start(NAME *robot, const double position[UPPER_NU], const double accelerometer[3])
{
    static const double zero_velocity[UPPER_NU];
    FilterState memory = view(robot);
    compute_terms(robot, position, zero_velocity);
    NAME_core_initialize_at_rest(&model, &memory, vector(robot->terms, TERMS_), vector(accelerometer, 3),
        vector(robot->configuration, UPPER_NQ), vector(robot->motion, UPPER_NV));
}

void NAME_update(NAME *robot, const double position[UPPER_NU], const double velocity[UPPER_NU],
    const double gyro[3], const double accelerometer[3], const unsigned char standing[UPPER_NF], int periods)
{
    int64_t is_stance[UPPER_NF];
    FilterState memory = view(robot);
    for (int i = 0; i < UPPER_NF; i++) {
        is_stance[i] = standing[i] != 0;
    }
    compute_terms(robot, position, velocity);
    NAME_core_update_estimate(&model, &memory, vector(robot->terms, TERMS_), vector(gyro, 3), vector(accelerometer, 3),
        (IntVector){is_stance, UPPER_NF}, periods);
}

/* Write the measured joints into q and v. */
static void write_joints(const NAME *robot, double *q, double *v)
{
    for (int i = 7; i < UPPER_NQ; i++) {
        q[i] = robot->configuration[i];
    }
    for (int i = 6; i < UPPER_NV; i++) {
        v[i] = robot->motion[i];
    }
}

void NAME_state(const NAME *robot, double q[UPPER_NQ], double v[UPPER_NV])
{
    FilterState memory = view(robot);
    write_joints(robot, q, v);
    NAME_core_write_base_state(&model, &memory, vector(q, UPPER_NQ), vector(v, UPPER_NV));
}

void NAME_odometry(const NAME *robot, double q[UPPER_NQ], double v[UPPER_NV])
{
    FilterState memory = view(robot);
    write_joints(robot, q, v);
    NAME_core_write_odometry(&model, &memory, vector(q, UPPER_NQ), vector(v, UPPER_NV));
}

int NAME_slips(const NAME *robot, int foot)
{
    return foot >= 0 && foot < UPPER_NF && view(robot).is_slipping.at[foot] != 0;
}

const double *NAME_covariance(const NAME *robot)
{
    return view(robot).P.at;
}
"""


def export_estimator(
    estimator: BaseEstimator, folder: str | os.PathLike[str], *, name: str | None = None
) -> SourceFiles:
    """Writes a base state estimator as C99: leg kinematics, sensor noise, and the filter in its present state.

    Args:
        estimator: estimator, preferably before its first update or after a `reset`.
        folder: folder to write to, created if it does not exist.
        name: prefix of files and functions; None: ``ROBOT_estimator``.

    Returns:
        The written files.

    Raises:
        ArgumentError: `name` is not a C identifier.
        OSError: a file cannot be written.
    """
    source = estimator_c(estimator, name=name)
    source.write(folder)
    return source


def estimator_c(estimator: BaseEstimator, *, name: str | None = None) -> SourceFiles:
    """Returns the files of `export_estimator` without writing them; same arguments and errors."""
    if not isinstance(estimator, BaseEstimator):
        raise ArgumentTypeError(f"estimator: expected a BaseEstimator, got {type(estimator).__name__}")
    robot, joints = estimator.robot, JointPositions.actuated(estimator.robot)
    name = validate_c_name(name, f"{robot.name}_estimator")
    model, memory = StaticData(""), StaticData("never", owner="m")
    state = estimator._state.copy()
    for intermediate in (state.noise_effect, state.PHt, state.gain, state.error):
        intermediate[...] = 0.0
    n_terms, configuration = estimator._terms.size, estimator.state()[0]
    memory.members += [f"double terms[{n_terms}], configuration[{robot.nq}], motion[{robot.nv}];"]
    memory.definitions.append(define_constant_array("initial_configuration", configuration, static=True))
    memory.initializations.append("memcpy(m->configuration, initial_configuration, sizeof initial_configuration);")
    memory_header, memory_functions = define_robot(memory, state, name)
    terms = tick_terms_c(robot, robot.feet, name=f"{name}_terms")
    parts = {
        "MODEL": model.define_structure(estimator._model, "model", "FilterModel").replace(
            "static ", "static const ", 1
        ),
        "MEMORY_FUNCTIONS": memory_functions,
        "JOINTS": c_string_list(robot.actuated),
        "FEET": c_string_list(robot.feet),
        "V_INDEX": ", ".join(map(str, robot.actuated_index.tolist())),
        "IS_CONTINUOUS": ", ".join(str(int(x)) for x in joints.turning),
        "TERMS_": str(n_terms),
        "NX_": str(len(state.P)),
        "PERIOD_": repr(estimator.dt),
        "ROBOT": robot.name,
    }
    parts |= {"{Q_INDEX}": "{" + ", ".join(map(str, joints.at.tolist())) + "}"}
    parts |= {"NQ_": str(robot.nq), "NV_": str(robot.nv), "NU_": str(robot.nu), "NF_": str(len(robot.feet))}
    parts["DEFINITIONS"] = "\n\n".join([*model.definitions, *memory.definitions])
    core, about = (
        c_source([initialize, initialize_at_rest, write_base_state, write_odometry, update_estimate], f"{name}_core"),
        "Computation of the filter.",
    )
    files = {
        f"{name}.h": fill_template(_HEADER, name, parts),
        f"{name}.c": fill_template(_SOURCE, name, parts),
        f"{name}_memory.h": memory_header,
        f"{name}_core.h": rename_core_functions(core.header, "estimation_invariant_filter", name, about),
        f"{name}_core.c": rename_core_functions(core.source, "estimation_invariant_filter", name, about),
        f"{name}_terms.h": terms.header,
        f"{name}_terms.c": terms.source,
    }
    return SourceFiles(name, files)
