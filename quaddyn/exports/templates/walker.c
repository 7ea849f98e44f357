/* Memory and functions of QD_NAME.h. Written by quaddyn QD_VERSION; do not edit. */
#include "QD_NAME.h"

#include <math.h>
#include <string.h>

#include "QD_NAME_core.h"
#include "QD_NAME_terms.h"

QD_DEFINITIONS

QD_GAITLIMITS

QD_MEMORYFUNCTIONS

const char *const QD_NAME_joints[QD_UPPER_NU] = {QD_JOINTS};
const char *const QD_NAME_feet[4] = {QD_FEET};

QD_HOME

static const char *const mode_names[] = {QD_MODENAMES};
static const char *const limit_reasons[] = {QD_REASONS};
static const char *const fall_signs[] = {QD_SIGNS};

static Vector vector(const double *at, int64_t n)
{
    return (Vector){(double *)at, n};
}

void QD_NAME_reset(QD_NAME *robot)
{
    EmbeddedWalker e = view(robot);
    QD_NAME_core_reset_embedded_walker(&e);
}

int QD_NAME_tick(QD_NAME *robot, const double q[QD_UPPER_NQ], const double v[QD_UPPER_NV], const double velocity[3],
    const unsigned char feet[4], double tau[QD_UPPER_NU])
{
    int64_t contacts[4] = {0, 0, 0, 0};
    EmbeddedWalker e = view(robot);
    for (int foot = 0; foot < 4 && feet != NULL; foot++) {
        contacts[foot] = feet[foot] != 0;
    }
    QD_NAME_terms(q, v, e.wbc.data.terms.values.at);
    return (int)QD_NAME_core_walker_tick(&e, vector(q, QD_UPPER_NQ), vector(v, QD_UPPER_NV), vector(velocity, 3),
        (IntVector){contacts, feet == NULL ? 0 : 4}, vector(tau, QD_UPPER_NU));
}

void QD_NAME_stand_up(QD_NAME *robot)
{
    EmbeddedWalker e = view(robot);
    QD_NAME_core_stand_up(&e);
}

void QD_NAME_lie_down(QD_NAME *robot)
{
    EmbeddedWalker e = view(robot);
    QD_NAME_core_lie_down(&e);
}

int QD_NAME_set_gait(QD_NAME *robot, int gait)
{
    EmbeddedWalker e = view(robot);
    switch (gait) {
QD_GAITCASES
    default:
        return 0;
    }
    return 1;
}

int QD_NAME_mode(const QD_NAME *robot)
{
    return (int)*view(robot).walker.walk.mode.mode;
}

const char *QD_NAME_mode_name(int mode)
{
    return mode >= 0 && mode < (int)(sizeof mode_names / sizeof *mode_names) ? mode_names[mode] : "";
}

int QD_NAME_carries(const QD_NAME *robot, int foot)
{
    return foot >= 0 && foot < 4 && view(robot).output.contacts.at[foot] != 0;
}

const double *QD_NAME_clamped_velocity(const QD_NAME *robot)
{
    return view(robot).walker.walk.report.velocity.at;
}

const char *QD_NAME_limit_reason(const QD_NAME *robot)
{
    const Walker walker = view(robot).walker;
    if (*walker.walk.mode.mode == QD_UPPER_FALLEN) {
        return fall_signs[*walker.walk.fall.sign];
    }
    return *walker.landing.is_active ? QD_NOGROUND : limit_reasons[*walker.walk.report.reason];
}

double QD_NAME_friction(const QD_NAME *robot)
{
    return *view(robot).walker.walk.friction.friction;
}

double QD_NAME_kkt(const QD_NAME *robot)
{
    return view(robot).wbc.last.at[QD_KKT];
}
