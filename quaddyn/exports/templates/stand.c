/* Ticks of a robot that stands at its home configuration: prints torques and times. Usage: QD_NAME_stand [TICKS] */
#define _POSIX_C_SOURCE 199309L

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "QD_NAME.h"

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

int main(int count, char **arguments)
{
    static QD_NAME robot;
    static const double v[QD_UPPER_NV];
    double tau[QD_UPPER_NU] = {0.0};
    const long ticks = count > 1 ? strtol(arguments[1], NULL, 10) : 1000;
    int outcome = QD_UPPER_SOLVED;
    const double start = seconds();
    double first = start;
    QD_NAME_initialize(&robot);
    for (long k = 0; k < ticks && outcome == QD_UPPER_SOLVED; k++) {
        outcome = QD_NAME_tick(&robot, QD_NAME_home, v, QD_INPUTS, tau);
        first = k == 0 ? seconds() : first;
    }
    const double end = seconds();
    for (int i = 0; i < QD_UPPER_NU; i++) {
        printf("%-24s %9.4f\n", QD_NAME_joints[i], tau[i]);
    }
    printf("first torque after %.3f ms, then %.2f us per tick\n", 1e3 * (first - start),
        ticks > 1 ? 1e6 * (end - first) / (double)(ticks - 1) : 0.0);
    printf("outcome %d, optimal to %.1e\n", outcome, QD_NAME_kkt(&robot));
    return outcome == QD_UPPER_SOLVED ? 0 : 1;
}
