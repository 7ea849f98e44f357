/* QD_NAME: whole-body control of 'QD_ROBOT', written by quaddyn QD_VERSION. Do not edit.

   QD_DT s per tick; contacts are ramped over QD_RAMP s. Strict priorities:
QD_LEVELS

   SI units, radians. Spatial vectors are linear before angular; a quaternion is x, y, z, w; the velocity of a
   free base is in base axes. No allocation: all memory of a controller is one structure, of which a program may
   have several; each is used by one thread at a time. Functions that set parameters return 1 if the values were
   accepted, and 0 if nothing was changed.
*/
#ifndef QD_UPPER_H
#define QD_UPPER_H

#include "QD_NAME_memory.h"

#define QD_UPPER_NQ QD_NQ
#define QD_UPPER_NV QD_NV
#define QD_UPPER_NU QD_NU
#define QD_UPPER_NC QD_NC
#define QD_UPPER_DT QD_PERIOD

/* Outcomes of a tick. */
enum {
QD_OUTCOMES
};

QD_CONTACTENUM#ifdef __cplusplus
extern "C" {
#endif

/* Names of the actuated joints in the order of tau, and of the contacts. */
extern const char *const QD_NAME_joints[QD_SIZEOFJOINTS];
extern const char *const QD_NAME_contacts[QD_SIZEOFCONTACTS];

/* Home configuration of the robot. */
extern const double QD_NAME_home[QD_NQ];

/* Sets the memory to its initial values; required before any other function. */
void QD_NAME_initialize(QD_NAME *robot);

/* Returns the size of the memory [bytes], for callers in other languages. */
size_t QD_NAME_size(void);

/* Clears contacts, references and the last torques: in the next tick, contacts close without a ramp. */
void QD_NAME_reset(QD_NAME *robot);

/* Computes one tick at the state (q, v): writes the torques, and returns one of the outcomes above. contacts: 1
   for each contact that is to be closed, otherwise 0; NULL for all feet. Changes are ramped. tau is always
   finite. */
int QD_NAME_tick(QD_NAME *robot, const double q[QD_UPPER_NQ], const double v[QD_UPPER_NV],
    const unsigned char contacts[QD_SIZEOFCONTACTS], double tau[QD_UPPER_NU]);

/* Returns the (NV) accelerations due to the last torques. */
const double *QD_NAME_acceleration(const QD_NAME *robot);

/* Returns the (NC, 6) contact forces on the robot, world axes [N, N m]; zero for inactive contacts. */
const double *QD_NAME_forces(const QD_NAME *robot);

/* Returns the (NC) activations of the contacts: 0 inactive, 1 closed, between 0 and 1 during ramps. */
const double *QD_NAME_shares(const QD_NAME *robot);

/* Returns the largest violation of level 0, as an acceleration [m/s^2]. */
double QD_NAME_violation(const QD_NAME *robot);

/* Returns the largest residual of the optimality conditions. */
double QD_NAME_kkt(const QD_NAME *robot);

/* Returns the (NU) part of the last torques that compensates joint friction [N m]. */
const double *QD_NAME_friction_torques(const QD_NAME *robot);

/* Returns the number of ticks since the start or the last reset, without those with an invalid state. */
long long QD_NAME_ticks(const QD_NAME *robot);

QD_PROTOTYPES

#ifdef __cplusplus
}
#endif

#endif
