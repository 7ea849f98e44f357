/* Functions of QD_NAME_drive.h. Written by quaddyn QD_VERSION; do not edit. */
#include "QD_NAME_drive.h"

#include <math.h>
#include <string.h>

QD_MOTION

void QD_NAME_drive_initialize(QD_NAME_drive *drive)
{
    QD_NAME_estimator_initialize(&drive->estimator);
    QD_NAME_safety_initialize(&drive->safety);
    QD_NAME_QD_KIND_initialize(&drive->controller);
    drive->start_time = drive->last_time = 0.0;
}

void QD_NAME_drive_start(QD_NAME_drive *drive, const QD_NAME_safety_reading *reading, double time)
{
    drive->start_time = drive->last_time = time;
    QD_NAME_QD_KIND_initialize(&drive->controller);
    QD_NAME_estimator_start(&drive->estimator, reading->position, reading->accelerometer);
}

int QD_NAME_drive_step(QD_NAME_drive *drive, const QD_NAME_safety_reading *reading, double time,
    const double velocity[3], double tau[QD_UPPER_SAFETY_NU])
{
    /* More than one period if readings were lost; one if the clock jumped. */
    const double elapsed = time - drive->last_time;
    const int periods = elapsed > 0.0 && elapsed <= QD_MAXDELAY ? (int)(elapsed / QD_UPPER_ESTIMATOR_PERIOD + 0.5) : 1;
    unsigned char standing[QD_UPPER_ESTIMATOR_NF];
    double q[QD_UPPER_ESTIMATOR_NQ], v[QD_UPPER_ESTIMATOR_NV];
    drive->last_time = time;
    find_stance(drive, reading, standing);
    QD_NAME_estimator_update(&drive->estimator, reading->position, reading->velocity, reading->gyro,
        reading->accelerometer, standing, periods > 1 ? periods : 1);
    QD_NAME_estimator_odometry(&drive->estimator, q, v);
    return compute_torques(drive, reading, time, q, v, velocity, tau);
}
