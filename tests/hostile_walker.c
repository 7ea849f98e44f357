#include "hostile_numbers.h"

#include "NAME.h"

/* Ticks of states near home and far out, with changes of gait and mode and with strange commands. Exits with 1 if a
   torque is not finite or beyond its limit, or if a state that is not finite is not flagged. */
int main(int count, char **arguments)
{
    static const double limits[UPPER_NU] = {LIMITS};
    const long ticks = count > 1 ? strtol(arguments[1], NULL, 10) : 1000;
    long modes[16] = {0};
    static NAME robot;
    double q[UPPER_NQ], v[UPPER_NV], tau[UPPER_NU], spread = 0.0, speed = 0.0, velocity[3] = {0.0, 0.0, 0.0};
    unsigned char feet[4] = {1, 1, 1, 1};
    int measured = 1;
    NAME_initialize(&robot);
    for (long k = 0; k < ticks; k++) {
        const int kind = (int)(400.0 * uniform());
        double length = 0.0;
        int bad = 0;
        if (kind < 20) {
            spread = kind < 10 ? 0.01 : pow(10.0, 5.0 * uniform() - 3.0);
            speed = kind < 10 ? 0.01 : pow(10.0, (kind == 19 ? 160.0 : 8.0) * uniform() - 3.0);
            measured = uniform() < 0.5;
        } else if (kind < 30) {
            for (int i = 0; i < 3; i++) {
                velocity[i] = kind == 20 ? strange() : 2.0 * uniform() - 1.0;
            }
        } else if (kind < 34) {
            (void)NAME_set_gait(&robot, (int)(12.0 * uniform()) - 1);
        } else if (kind == 34) {
            NAME_lie_down(&robot);
        } else if (kind < 40) {
            NAME_stand_up(&robot);
        } else if (kind == 40) {
            NAME_reset(&robot);
        } else if (kind < 50) {
            for (int foot = 0; foot < 4; foot++) {
                feet[foot] = (unsigned char)(uniform() < 0.7 ? 255 : 0);
            }
        }
        for (int i = 0; i < UPPER_NQ; i++) {
            q[i] = NAME_home[i] + spread * (2.0 * uniform() - 1.0);
            length += i >= 3 && i < 7 ? q[i] * q[i] : 0.0;
        }
        for (int i = 3; i < 7; i++) {
            q[i] /= sqrt(length);
        }
        for (int i = 0; i < UPPER_NV; i++) {
            v[i] = speed * (2.0 * uniform() - 1.0);
        }
        if (kind == 399) {
            double *x = uniform() < 0.5 ? q + (int)(UPPER_NQ * uniform()) : v + (int)(UPPER_NV * uniform());
            *x = strange();
            bad = !isfinite(*x);
        }
        const int outcome = NAME_tick(&robot, q, v, velocity, measured ? feet : NULL, tau);
        if (outcome < 0 || outcome > 6 || (bad && outcome != UPPER_NOT_A_NUMBER)) {
            printf("tick %ld: outcome %d\n", k, outcome);
            return 1;
        }
        for (int i = 0; i < UPPER_NU; i++) {
            if (!(fabs(tau[i]) <= limits[i] * (1.0 + 1e-9))) {
                printf("tick %ld: torque %d is %g of %g, mode %d, outcome %d\n", k, i, tau[i], limits[i], NAME_mode(&robot),
                    outcome);
                return 1;
            }
        }
        modes[NAME_mode(&robot)]++;
    }
    printf("%ld ticks:", ticks);
    for (int i = 0; i < 13; i++) {
        printf(" %s %ld", NAME_mode_name(i), modes[i]);
    }
    printf("\n");
    return NAME_mode_name(-1)[0] != 0 || NAME_carries(&robot, -1) || NAME_carries(&robot, 4) ||
        NAME_set_gait(&robot, -1) || NAME_set_gait(&robot, 1000);
}
