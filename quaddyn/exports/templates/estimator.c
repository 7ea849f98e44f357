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

/* Index of each joint in q and v; a continuous joint is (cos, sin) in q. */
static const int q_index[QD_UPPER_NU] = {QD_QINDEX}, v_index[QD_UPPER_NU] = {QD_VINDEX};
static const unsigned char is_continuous[QD_UPPER_NU] = {QD_ISCONTINUOUS};

static Vector vector(const double *at, int64_t n)
{
    return (Vector){(double *)at, n};
}

/* Compute the terms of the feet with the base at rest in the origin. */
static void compute_terms(QD_NAME *robot, const double *position, const double *velocity)
{
    static const double origin[7] = {0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0};
    for (int i = 0; i < 7; i++) {
        robot->configuration[i] = origin[i];
    }
    for (int i = 0; i < 6; i++) {
        robot->motion[i] = 0.0;
    }
    for (int i = 0; i < QD_UPPER_NU; i++) {
        if (is_continuous[i]) {
            robot->configuration[q_index[i]] = cos(position[i]);
            robot->configuration[q_index[i] + 1] = sin(position[i]);
        } else {
            robot->configuration[q_index[i]] = position[i];
        }
        robot->motion[v_index[i]] = velocity[i];
    }
    QD_NAME_terms(robot->configuration, robot->motion, robot->terms);
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
    static const double zero_velocity[QD_UPPER_NU];
    FilterState memory = view(robot);
    compute_terms(robot, position, zero_velocity);
    QD_NAME_core_initialize_at_rest(&model, &memory, vector(robot->terms, QD_TERMS), vector(accelerometer, 3),
        vector(robot->configuration, QD_UPPER_NQ), vector(robot->motion, QD_UPPER_NV));
}

void QD_NAME_update(QD_NAME *robot, const double position[QD_UPPER_NU], const double velocity[QD_UPPER_NU],
    const double gyro[3], const double accelerometer[3], const unsigned char standing[QD_UPPER_NF], int periods)
{
    int64_t is_stance[QD_UPPER_NF];
    FilterState memory = view(robot);
    for (int i = 0; i < QD_UPPER_NF; i++) {
        is_stance[i] = standing[i] != 0;
    }
    compute_terms(robot, position, velocity);
    QD_NAME_core_update_estimate(&model, &memory, vector(robot->terms, QD_TERMS), vector(gyro, 3), vector(accelerometer, 3),
        (IntVector){is_stance, QD_UPPER_NF}, periods);
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
