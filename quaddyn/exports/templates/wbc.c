/* Memory and functions of QD_NAME.h. Written by quaddyn QD_VERSION; do not edit. */
#include "QD_NAME.h"

#include <math.h>
#include <string.h>

#include "QD_NAME_core.h"
#include "QD_NAME_terms.h"

QD_DEFINITIONS

static const unsigned char standing[QD_SIZEOFCONTACTS] = {QD_STANDING};

QD_MEMORYFUNCTIONS

const char *const QD_NAME_joints[QD_SIZEOFJOINTS] = {QD_JOINTS};
const char *const QD_NAME_contacts[QD_SIZEOFCONTACTS] = {QD_CONTACTS};

QD_HOME

static Vector vector(const double *at, int64_t n)
{
    return (Vector){(double *)at, n};
}

static Vector optional(const double *at, int64_t n)
{
    static const double none[1];
    return at == NULL ? vector(none, 0) : vector(at, n);
}

void QD_NAME_reset(QD_NAME *robot)
{
    EmbeddedController controller = view(robot);
    QD_NAME_core_reset(&controller);
}

int QD_NAME_tick(QD_NAME *robot, const double q[QD_UPPER_NQ], const double v[QD_UPPER_NV],
    const unsigned char contacts[QD_SIZEOFCONTACTS], double tau[QD_UPPER_NU])
{
    EmbeddedController controller = view(robot);
    int64_t outcome = QD_NAME_core_validate_state(&controller, vector(q, QD_UPPER_NQ), vector(v, QD_UPPER_NV));
    for (int c = 0; c < QD_UPPER_NC; c++) {
        controller.requested.at[c] = contacts == NULL ? standing[c] : contacts[c] != 0;
    }
    if (outcome == QD_UPPER_SOLVED) {
        QD_NAME_terms(q, v, controller.data.terms.values.at);
        outcome = QD_NAME_core_controller_tick(&controller, vector(q, QD_UPPER_NQ), vector(v, QD_UPPER_NV),
            vector(tau, QD_UPPER_NU));
    } else {
        for (int i = 0; i < QD_UPPER_NU; i++) {
            tau[i] = controller.last.at[i];
        }
    }
    return (int)outcome;
}

const double *QD_NAME_acceleration(const QD_NAME *robot)
{
    EmbeddedController controller = view(robot);
    return controller.last.at + QD_NU;
}

const double *QD_NAME_forces(const QD_NAME *robot)
{
    EmbeddedController controller = view(robot);
    return controller.last.at + QD_FORCES;
}

const double *QD_NAME_shares(const QD_NAME *robot)
{
    EmbeddedController controller = view(robot);
    return controller.ramps.activation.at;
}

double QD_NAME_violation(const QD_NAME *robot)
{
    EmbeddedController controller = view(robot);
    return controller.last.at[QD_VIOLATION];
}

double QD_NAME_kkt(const QD_NAME *robot)
{
    EmbeddedController controller = view(robot);
    return controller.last.at[QD_KKT];
}

const double *QD_NAME_friction_torques(const QD_NAME *robot)
{
    EmbeddedController controller = view(robot);
    return controller.last.at + QD_FRICTION;
}

long long QD_NAME_ticks(const QD_NAME *robot)
{
    EmbeddedController controller = view(robot);
    return *controller.progress.ticks;
}

QD_FUNCTIONS
