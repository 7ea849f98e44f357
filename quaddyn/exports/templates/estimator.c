/* Memory and functions of QD_NAME.h. Written by quaddyn QD_VERSION; do not edit. */
#include "QD_NAME.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "QD_NAME_core.h"
#include "QD_NAME_terms.h"

QD_DEFINITIONS

QD_MODEL

QD_MEMORYFUNCTIONS

const char *const QD_NAME_joints[QD_UPPER_NU] = {QD_JOINTS};
const char *const QD_NAME_feet[QD_UPPER_NF] = {QD_FEET};

static Vector vector(const double *at, int64_t n)
{
    return (Vector){(double *)at, n};
}

/* Copy a reading, and compute the terms of the feet with the base at rest in the origin, if it is finite: return 1. */
static int compute_terms(QD_NAME *robot, double *reading, const double *position, const double *velocity,
    const double *gyro, const double *accelerometer)
{
    static const double origin[7] = {0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0};
    memcpy(robot->configuration, origin, sizeof origin);
    memset(robot->motion, 0, 6 * sizeof *robot->motion);
    memcpy(reading, position, QD_UPPER_NU * sizeof *reading);
    memcpy(reading + QD_UPPER_NU, velocity, QD_UPPER_NU * sizeof *reading);
    memcpy(reading + 2 * QD_UPPER_NU, gyro, 3 * sizeof *reading);
    memcpy(reading + 2 * QD_UPPER_NU + 3, accelerometer, 3 * sizeof *reading);
    if (!QD_NAME_core_read_joints(&sensors, vector(reading, QD_READING), vector(robot->configuration, QD_UPPER_NQ),
            vector(robot->motion, QD_UPPER_NV))) {
        return 0;
    }
    QD_NAME_terms(robot->configuration, robot->motion, robot->terms);
    return 1;
}

void QD_NAME_reset(QD_NAME *robot, const double q[QD_UPPER_NQ], const double v[QD_UPPER_NV])
{
    for (int i = 7; i < QD_UPPER_NQ; i++) {
        robot->configuration[i] = q[i];
    }
    for (int i = 6; i < QD_UPPER_NV; i++) {
        robot->motion[i] = v[i];
    }
    FilterState memory = view(robot);
    QD_NAME_core_initialize(&model, &memory, vector(q, QD_UPPER_NQ), vector(v, QD_UPPER_NV));
}

void QD_NAME_start(QD_NAME *robot, const double position[QD_UPPER_NU], const double accelerometer[3])
{
    static const double zero_velocity[QD_UPPER_NU], zero_gyro[3];
    double reading[QD_READING];
    FilterState memory = view(robot);
    if (!compute_terms(robot, reading, position, zero_velocity, zero_gyro, accelerometer)) {
        return;
    }
    QD_NAME_core_initialize_at_rest(&model, &memory, vector(robot->terms, QD_TERMS), vector(accelerometer, 3),
        vector(robot->configuration, QD_UPPER_NQ), vector(robot->motion, QD_UPPER_NV));
}

void QD_NAME_update(QD_NAME *robot, const double position[QD_UPPER_NU], const double velocity[QD_UPPER_NU],
    const double gyro[3], const double accelerometer[3], const unsigned char standing[QD_UPPER_NF], int periods)
{
    double reading[QD_READING];
    int64_t stance = 0;
    FilterState memory = view(robot);
    for (int i = 0; i < QD_UPPER_NF; i++) {
        stance += (int64_t)(standing[i] != 0) << i;
    }
    if (!compute_terms(robot, reading, position, velocity, gyro, accelerometer)) {
        return;
    }
    QD_NAME_core_update_estimate(&model, &memory, &sensors, vector(robot->terms, QD_TERMS),
        vector(reading, QD_READING), stance, periods);
}

/* Write the measured joints into q and v. */
static void write_joints(const QD_NAME *robot, double *q, double *v)
{
    for (int i = 7; i < QD_UPPER_NQ; i++) {
        q[i] = robot->configuration[i];
    }
    for (int i = 6; i < QD_UPPER_NV; i++) {
        v[i] = robot->motion[i];
    }
}

void QD_NAME_state(const QD_NAME *robot, double q[QD_UPPER_NQ], double v[QD_UPPER_NV])
{
    FilterState memory = view(robot);
    write_joints(robot, q, v);
    QD_NAME_core_write_base_state(&model, &memory, vector(q, QD_UPPER_NQ), vector(v, QD_UPPER_NV));
}

void QD_NAME_odometry(const QD_NAME *robot, double q[QD_UPPER_NQ], double v[QD_UPPER_NV])
{
    FilterState memory = view(robot);
    write_joints(robot, q, v);
    QD_NAME_core_write_odometry(&model, &memory, vector(q, QD_UPPER_NQ), vector(v, QD_UPPER_NV));
}

int QD_NAME_slips(const QD_NAME *robot, int foot)
{
    return foot >= 0 && foot < QD_UPPER_NF && view(robot).is_slipping.at[foot] != 0;
}

const double *QD_NAME_covariance(const QD_NAME *robot)
{
    return view(robot).P.at;
}
