/* QD_NAME_drive: state estimator, QD_LAW and safety layer of QD_ROBOT as one structure. Written by quaddyn QD_VERSION; do not
   edit. SI units, radians; joints in the order of QD_NAME_safety_joints. No allocation. */
#ifndef QD_UPPER_DRIVE_H
#define QD_UPPER_DRIVE_H

#include "QD_NAME_QD_KIND.h"
#include "QD_NAME_estimator.h"
#include "QD_NAME_safety.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Memory of a robot; a program may have several. */
typedef struct {
    QD_NAME_estimator estimator;
    QD_NAME_safety safety;
    QD_NAME_QD_KIND controller;
    double start_time, last_time; /* time stamps of the first and of the last reading [s] */
} QD_NAME_drive;

/* Clear the state and a latched fault; required before any other function. */
void QD_NAME_drive_initialize(QD_NAME_drive *drive);

/* Start estimator and controller at rest with a complete reading; time: its time stamp [s]. */
void QD_NAME_drive_start(QD_NAME_drive *drive, const QD_NAME_safety_reading *reading, double time);

/* Compute the torques for a complete reading, and with which velocity in heading axes: forward and leftward speed [m/s]
   and yaw rate [rad/s]; a robot that only stands ignores it. Returns whether whole-body control solved. */
int QD_NAME_drive_step(QD_NAME_drive *drive, const QD_NAME_safety_reading *reading, double time,
    const double velocity[3], double tau[QD_UPPER_SAFETY_NU]);

#ifdef __cplusplus
}
#endif

#endif
