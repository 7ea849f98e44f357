/* Random numbers and numbers at the limits of doubles, for programs that test exported controllers. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static uint64_t state = 88172645463325252u;

static double uniform(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (double)(state >> 11) / 9007199254740992.0;
}

static double strange(void)
{
    static const double values[8] = {NAN, INFINITY, -INFINITY, 1e300, -1e300, 1e160, 5e-324, 0.0};
    return values[(int)(8.0 * uniform())];
}
