/* QD_NAME: the safety layer of QD_ROBOT, written by quaddyn QD_VERSION. Do not edit.

   Filters the commands of any controller for the motors. SI units, radians; the order of joints is that of QD_NAME_joints.
   No allocation: all memory is one structure, QD_NAME, of which a program may have several; each is used by one thread at
   a time. Faults and limits are documented in quaddyn.runtime.Safety. Results
   equal those of Python bit for bit if products and sums are not contracted in either one (-ffp-contract=off). */

#ifndef QD_UPPER_H
#define QD_UPPER_H

#include <stdbool.h>

#include "QD_NAME_memory.h"

#define QD_UPPER_NU QD_NU
#define QD_UPPER_NF QD_NF
#define QD_UPPER_PERIOD QD_PERIOD

/* Fault codes. */
enum {
QD_CODES
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
} QD_NAME_reading;

/* A command. Input: command of the controller; output: command for the motors. */
typedef struct {
    double tau[QD_UPPER_NU], position[QD_UPPER_NU], velocity[QD_UPPER_NU], stiffness[QD_UPPER_NU], damping[QD_UPPER_NU];
} QD_NAME_command;

#ifdef __cplusplus
extern "C" {
#endif

/* Names of the joints. */
extern const char *const QD_NAME_joints[QD_UPPER_NU];

/* Set the memory to its initial values; required before any other function. */
void QD_NAME_initialize(QD_NAME *robot);

/* Size of the memory [bytes], for callers in other languages. */
size_t QD_NAME_size(void);

/* Clear all state, including a latched fault. */
void QD_NAME_reset(QD_NAME *robot);

/* Filter the command of one tick. Returns the code of the latched fault, 0 if there is none.
   time: time stamp of the reading, by the robot's clock [s]. The reading is not new if the stamp is NaN, infinite,
   negative, not later than that of the last accepted reading, or if it advances by over 50 ms more than now.
   now: the caller's clock [s]. If it advances by less than a period per call, one period per call is counted.
   raised: code of a fault detected elsewhere, 0 for none; -1 if no command was received: the motors are damped in this
   tick, and no fault is latched. */
int QD_NAME_tick_at(QD_NAME *robot, const QD_NAME_reading *reading, QD_NAME_command *command, double time, double now, int raised);

/* The same without time stamps. fresh: whether the reading is new since the last tick; elapsed: time between this
   reading and the last accepted one [s]. */
int QD_NAME_tick(QD_NAME *robot, const QD_NAME_reading *reading, QD_NAME_command *command, bool fresh, double elapsed, int raised);

/* Name of a fault code; index of the joint of the latched fault, -1 if there is none. */
const char *QD_NAME_name(int code);
int QD_NAME_joint(const QD_NAME *robot);

#ifdef __cplusplus
}
#endif

#endif
