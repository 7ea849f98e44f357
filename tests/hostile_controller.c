#include "hostile_numbers.h"

#include "NAME.h"

/* Ticks of states far out; exits with 1 if a torque is not finite or a bad state is not flagged. */
int main(int count, char **arguments)
{
    const long ticks = count > 1 ? strtol(arguments[1], NULL, 10) : 1000;
    static NAME robot;
    long outcomes[7] = {0};
    NAME_initialize(&robot);
    for (long k = 0; k < ticks; k++) {
        double *q = malloc(sizeof(double) * UPPER_NQ), *v = malloc(sizeof(double) * UPPER_NV);
        double *tau = malloc(sizeof(double) * UPPER_NU);
        unsigned char *contacts = malloc(UPPER_NC > 0 ? UPPER_NC : 1);
        const double far = pow(10.0, 8.0 * uniform() - 3.0);
        const double fast = pow(10.0, (uniform() < 0.2 ? 160.0 : 14.0) * uniform() - 3.0);
        const int kind = (int)(16.0 * uniform());
        double length = 0.0;
        int bad = 0;
        for (int i = 0; i < UPPER_NQ; i++) {
            q[i] = NAME_home[i] + far * (2.0 * uniform() - 1.0);
        }
        for (int i = 3; i < 7 && FREE; i++) {
            q[i] = 2.0 * uniform() - 1.0;
            length += q[i] * q[i];
        }
        for (int i = 3; i < 7 && FREE && kind != 0; i++) {
            q[i] /= sqrt(length);
        }
        for (int i = 0; i < UPPER_NV; i++) {
            v[i] = fast * (2.0 * uniform() - 1.0);
        }
        if (kind == 1) {
            double *x = uniform() < 0.5 ? q + (int)(UPPER_NQ * uniform()) : v + (int)(UPPER_NV * uniform());
            *x = strange();
            bad = !isfinite(*x);
        }
        if (kind == 2) {
            const double wanted[UPPER_NQ + 6] = {strange(), strange(), strange()};
            SET;
        }
        if (kind == 3) {
            NAME_reset(&robot);
        }
        for (int c = 0; c < UPPER_NC; c++) {
            contacts[c] = (unsigned char)(uniform() < 0.7 ? 255 : 0);
        }
        const int outcome = NAME_tick(&robot, q, v, uniform() < 0.1 ? NULL : contacts, tau);
        if (outcome < 0 || outcome > 6 || (bad && outcome != UPPER_NOT_A_NUMBER)) {
            printf("tick %ld: outcome %d\n", k, outcome);
            return 1;
        }
        outcomes[outcome]++;
        for (int i = 0; i < UPPER_NU; i++) {
            if (!isfinite(tau[i])) {
                printf("tick %ld: a torque is not finite, outcome %d\n", k, outcome);
                return 1;
            }
        }
        free(q);
        free(v);
        free(tau);
        free(contacts);
    }
    printf("%ld ticks:", ticks);
    for (int i = 0; i < 7; i++) {
        printf(" %ld", outcomes[i]);
    }
    printf("\n");
    return 0;
}
