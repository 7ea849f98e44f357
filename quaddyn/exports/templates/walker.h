/* QD_NAME: locomotion of QD_ROBOT: standing, walking, recovery steps, landing and falls. Written by quaddyn QD_VERSION; do not
   edit.

   The controller is that of quaddyn.locomotion.LocomotionController on unknown terrain. QD_PERIOD s per tick; SI units,
   radians; q = (position, quaternion x y z w, joints), v = (linear, angular velocity in base axes, joints); joints in
   the order of QD_NAME_joints, feet in the order of QD_NAME_feet. No allocation: all memory of a controller is one structure,
   QD_NAME, of which a program may have several; each is used by one thread at a time.
   Not included: terrain maps, jumps, righting after a fall, payload estimates, and the evaluation of the legs' torques
   on slopes, which limits the velocity in Python. */

#ifndef QD_UPPER_H
#define QD_UPPER_H

#include "QD_NAME_memory.h"

#define QD_UPPER_NQ QD_NQ
#define QD_UPPER_NV QD_NV
#define QD_UPPER_NU QD_NU
#define QD_UPPER_DT QD_PERIOD

/* Outcomes of a tick. */
enum {
QD_OUTCOMES
};

/* Modes of the controller. */
enum {
QD_MODES
};

/* Gaits that this robot can perform. */
enum {
QD_GAITS
};

#ifdef __cplusplus
extern "C" {
#endif

/* Names of the actuated joints in the order of tau, and of the feet. */
extern const char *const QD_NAME_joints[QD_UPPER_NU];
extern const char *const QD_NAME_feet[4];

/* Home configuration of the robot. */
extern const double QD_NAME_home[QD_UPPER_NQ];

/* Sets the memory of a controller to its initial values; required before any other function. */
void QD_NAME_initialize(QD_NAME *robot);

/* Returns the size of the memory of a controller [bytes], for callers in other languages. */
size_t QD_NAME_size(void);

/* Resets all estimates and the mode; the next tick is treated as the first one. */
void QD_NAME_reset(QD_NAME *robot);

/* Computes one tick at the state (q, v): writes the torques, and returns one of the outcomes above.
   velocity: requested forward and leftward speed [m/s] and yaw rate [rad/s], heading frame; zero if one is not finite.
   feet: 1 for each foot whose sensor measures contact, otherwise 0; NULL to estimate contacts from the torques.
   tau is always finite and within the limits of the motors. After a fall it folds the legs, and the outcome is
   QD_UPPER_SOLVED. If the state is invalid, the torques are those of the last tick. */
int QD_NAME_tick(QD_NAME *robot, const double q[QD_UPPER_NQ], const double v[QD_UPPER_NV], const double velocity[3],
    const unsigned char feet[4], double tau[QD_UPPER_NU]);

/* Starts to rise to the home height; also leaves the fallen state and cancels QD_NAME_lie_down. */
void QD_NAME_stand_up(QD_NAME *robot);

/* Stops stepping, lowers the trunk to half of the home height, and holds it there. */
void QD_NAME_lie_down(QD_NAME *robot);

/* Sets the gait of the next steps, one of those above; the transition takes some cycles. Returns 0 for other numbers,
   which change nothing, otherwise 1. */
int QD_NAME_set_gait(QD_NAME *robot, int gait);

/* Returns the mode after the last tick, one of those above, and the name of a mode. */
int QD_NAME_mode(const QD_NAME *robot);
const char *QD_NAME_mode_name(int mode);

/* Returns whether the last tick plans load on a foot, 0 to 3. */
int QD_NAME_carries(const QD_NAME *robot, int foot);

/* Returns the clamped velocity (3) of the last tick on the ground [m/s, m/s, rad/s]; and the reason of the last tick
   for clamping it or for not walking, "" for none. */
const double *QD_NAME_clamped_velocity(const QD_NAME *robot);
const char *QD_NAME_limit_reason(const QD_NAME *robot);

/* Returns the friction coefficient that the contact constraints assume. */
double QD_NAME_friction(const QD_NAME *robot);

/* Returns the largest residual of the optimality conditions of whole-body control, in its last tick. */
double QD_NAME_kkt(const QD_NAME *robot);

#ifdef __cplusplus
}
#endif

#endif
