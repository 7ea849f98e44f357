/* Amplitude [rad] and frequency [Hz] of the pitch motion. */
static const double amplitude = 0.1, frequency = 0.5;
/* The robot stands. */
static const double velocity[3];

static void read_arguments(int count, char **arguments)
{
    (void)count;
    (void)arguments;
}

/* Set the reference of the trunk at a time since the beginning of the motion [s]. */
static void set_reference(double time)
{
    const double w = 2.0 * 3.14159265358979323846 * frequency, angle = amplitude * sin(w * time);
    const double c = cos(angle), s = sin(angle);
    const double rotation[9] = {c, 0.0, s, 0.0, 1.0, 0.0, -s, 0.0, c};
    const double rate[3] = {0.0, amplitude * w * cos(w * time), 0.0};
    const double acceleration[3] = {0.0, -w * w * angle, 0.0};
    QD_NAME_wbc_base_reference(&drive.controller, rotation, rate, acceleration);
}
