/* Amplitude [rad] and frequency [Hz] of the pitch motion. */
static const double amplitude = 0.1, frequency = 0.5;

static void read_arguments(int count, char **arguments)
{
    (void)count;
    (void)arguments;
}

/* Memory of the controller. */
static QD_NAME_wbc wbc;

static void reset_controller(void)
{
    QD_NAME_wbc_initialize(&wbc);
}

/* All feet are in stance. */
static void find_stance(const QD_NAME_interface_reading *reading, unsigned char standing[NF])
{
    (void)reading;
    memset(standing, 1, NF);
}

/* Compute the torques at a time since the beginning of the motion [s]. Returns whether whole-body control solved. */
static int compute_torques(const QD_NAME_interface_reading *reading, double time, const double *q, const double *v, double *tau)
{
    const double w = 2.0 * 3.14159265358979323846 * frequency, angle = amplitude * sin(w * time);
    const double c = cos(angle), s = sin(angle);
    const double rotation[9] = {c, 0.0, s, 0.0, 1.0, 0.0, -s, 0.0, c};
    const double rate[3] = {0.0, amplitude * w * cos(w * time), 0.0};
    const double acceleration[3] = {0.0, -w * w * angle, 0.0};
    (void)reading;
    QD_NAME_wbc_base_reference(&wbc, rotation, rate, acceleration);
    return QD_NAME_wbc_tick(&wbc, q, v, NULL, tau) == QD_UPPER_WBC_SOLVED;
}
