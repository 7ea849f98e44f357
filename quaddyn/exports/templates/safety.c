/* Memory and functions of QD_NAME.h. Written by quaddyn QD_VERSION; do not edit. */
#include "QD_NAME.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#include "QD_NAME_core.h"

QD_DEFINITIONS

QD_LIMITS

QD_MEMORYFUNCTIONS

const char *const QD_NAME_joints[QD_UPPER_NU] = {QD_JOINTS};

/* An optional sensor; empty if it is missing. */
static Vector optional(const double *at, int64_t n)
{
    static const double none[1];
    return at == NULL ? (Vector){(double *)none, 0} : (Vector){(double *)at, n};
}

/* A required sensor; all NaN if it is missing. */
static Vector required(const double *at, int64_t n)
{
    static const double unknown[QD_UPPER_NU + 3] = {QD_UNKNOWN};
    return optional(at == NULL ? unknown : at, n);
}

void QD_NAME_reset(QD_NAME *robot)
{
    QD_NAME_initialize(robot);
}

int QD_NAME_tick_at(QD_NAME *robot, const QD_NAME_reading *reading, QD_NAME_command *command, double time, double now, int raised)
{
    SensorArrays r = {required(reading->position, QD_UPPER_NU), required(reading->velocity, QD_UPPER_NU), QD_GYRO,
        QD_ACCELEROMETER, optional(reading->torque, QD_UPPER_NU), optional(reading->feet, QD_UPPER_NF),
        optional(reading->temperature, QD_UPPER_NU)};
    CommandArrays arrays = {{command->tau, QD_UPPER_NU}, {command->position, QD_UPPER_NU}, {command->velocity, QD_UPPER_NU},
        {command->stiffness, QD_UPPER_NU}, {command->damping, QD_UPPER_NU}};
    SafetyMemory memory = view(robot);
    return (int)QD_NAME_core_filter_command(&limits, &r, &arrays, &memory, time, now, raised);
}

int QD_NAME_tick(QD_NAME *robot, const QD_NAME_reading *reading, QD_NAME_command *command, bool fresh, double elapsed, int raised)
{
    const SafetyMemory memory = view(robot);
    return QD_NAME_tick_at(
        robot, reading, command, fresh ? *memory.reading_stamp + elapsed : NAN, *memory.caller_clock, raised);
}

const char *QD_NAME_name(int code)
{
    static const char *const names[] = {QD_NAMES};
    return code >= 0 && code < (int)(sizeof names / sizeof *names) ? names[code] : "unknown";
}

int QD_NAME_joint(const QD_NAME *robot)
{
    static const unsigned char has_joint[] = {QD_HASJOINT};
    const SafetyMemory memory = view(robot);
    const int64_t code = *memory.fault;
    return has_joint[code] && *memory.fault_index >= 0 ? (int)*memory.fault_index : -1;
}
