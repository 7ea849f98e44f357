/* Requested forward and leftward speed [m/s] and yaw rate [rad/s]. */
static double velocity[3];
/* Force of a foot sensor above which the foot is in contact [N]. */
static const double contact_force = QD_CONTACTFORCE;
/* Memory of the walker. */
static QD_NAME_walker walker;
/* Index among the feet of readings of each foot of the walker. */
static const int foot_index[4] = {QD_FOOTINDEX};

static void read_arguments(int count, char **arguments)
{
    for (int i = 0; i < 3; i++) {
        velocity[i] = count > 3 + i ? strtod(arguments[3 + i], NULL) : 0.0;
    }
}

static void reset_controller(void)
{
    QD_NAME_walker_initialize(&walker);
}

/* Find the feet in contact by their sensors, in the order of the walker. Returns 0 if a sensor is invalid. */
static int read_contacts(const QD_NAME_interface_reading *reading, unsigned char contacts[4])
{
    for (int foot = 0; foot < 4; foot++) {
        const double force = reading->feet[foot_index[foot]];
        if (!isfinite(force)) {
            return 0;
        }
        contacts[foot] = force > contact_force;
    }
    return 1;
}

/* Stance feet are those in contact; without sensors, those on which the last tick plans load. */
static void find_stance(const QD_NAME_interface_reading *reading, unsigned char standing[NF])
{
    unsigned char contacts[4];
    const int measured = read_contacts(reading, contacts);
    memset(standing, 0, NF);
    for (int foot = 0; foot < 4; foot++) {
        standing[foot_index[foot]] = measured ? contacts[foot] : QD_NAME_walker_carries(&walker, foot) != 0;
    }
}

/* Compute the torques. Returns whether whole-body control solved. */
static int compute_torques(const QD_NAME_interface_reading *reading, double time, const double *q, const double *v, double *tau)
{
    static const double zero[3];
    unsigned char contacts[4];
    const int measured = read_contacts(reading, contacts);
    /* Stand for a second before the first step. */
    const int outcome = QD_NAME_walker_tick(&walker, q, v, time < 1.0 ? zero : velocity, measured ? contacts : NULL, tau);
    return outcome == QD_UPPER_WALKER_SOLVED;
}
