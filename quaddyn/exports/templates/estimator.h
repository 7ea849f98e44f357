/* QD_NAME: pose and velocity of the base of QD_ROBOT, estimated from encoders, an IMU and stance feet. Written by quaddyn
   QD_VERSION; do not edit.

   A contact-aided invariant extended Kalman filter; see quaddyn.estimation.BaseEstimator. SI units, radians;
   joints in the order of QD_NAME_joints. No allocation: all memory is one structure, QD_NAME, of which a program may have
   several; each is used by one thread at a time. */

#ifndef QD_UPPER_H
#define QD_UPPER_H

#include "QD_NAME_memory.h"

#define QD_UPPER_NQ QD_NQ
#define QD_UPPER_NV QD_NV
#define QD_UPPER_NU QD_NU
#define QD_UPPER_NF QD_NF
#define QD_UPPER_NX QD_NX
#define QD_UPPER_PERIOD QD_PERIOD

#ifdef __cplusplus
extern "C" {
#endif

/* Names of the joints that have encoders, and of the feet. */
extern const char *const QD_NAME_joints[QD_UPPER_NU];
extern const char *const QD_NAME_feet[QD_UPPER_NF];

/* Set the memory to its initial values; required before any other function. */
void QD_NAME_initialize(QD_NAME *robot);

/* Size of the memory [bytes], for callers in other languages. */
size_t QD_NAME_size(void);

/* Initialize with a state. */
void QD_NAME_reset(QD_NAME *robot, const double q[QD_UPPER_NQ], const double v[QD_UPPER_NV]);

/* Initialize at rest above the origin, with the lowest foot at height 0 and the vertical of the accelerometer [m/s^2],
   preferably the mean of several readings. */
void QD_NAME_start(QD_NAME *robot, const double position[QD_UPPER_NU], const double accelerometer[3]);

/* Process one reading, `periods` after the previous one (more than 1 if readings were lost): gyroscope [rad/s] and
   accelerometer [m/s^2] in IMU axes; standing: 1 for each stance foot. Readings that are not finite are ignored. */
void QD_NAME_update(QD_NAME *robot, const double position[QD_UPPER_NU], const double velocity[QD_UPPER_NU],
    const double gyro[3], const double accelerometer[3], const unsigned char standing[QD_UPPER_NF], int periods);

/* Get the estimate: measured joints, and the base with its velocity in base axes; the position may jump. */
void QD_NAME_state(const QD_NAME *robot, double q[QD_UPPER_NQ], double v[QD_UPPER_NV]);

/* Get the estimate with a position without jumps, for control. */
void QD_NAME_odometry(const QD_NAME *robot, double q[QD_UPPER_NQ], double v[QD_UPPER_NV]);

/* Whether a stance foot was inconsistent with the estimate at the last reading. */
int QD_NAME_slips(const QD_NAME *robot, int foot);

/* (NX, NX) covariance of the errors of attitude, velocity, position, gyroscope and accelerometer bias, and feet. */
const double *QD_NAME_covariance(const QD_NAME *robot);

#ifdef __cplusplus
}
#endif

#endif
