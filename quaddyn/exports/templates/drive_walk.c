/* Requested forward and leftward speed [m/s] and yaw rate [rad/s]. */
static double velocity[3];

static void read_arguments(int count, char **arguments)
{
    for (int i = 0; i < 3; i++) {
        velocity[i] = count > 3 + i ? strtod(arguments[3 + i], NULL) : 0.0;
    }
}

static void set_reference(double time)
{
    (void)time;
}
