/* Time for which the robot stands before the first step [s]. */
static const double standing_time = 1.0;
/* Force of a foot sensor above which the foot is in contact [N]. */
static const double contact_force = QD_CONTACTFORCE;
/* Index among the feet of readings of each foot of the walker. */
static const int foot_index[4] = {QD_FOOTINDEX};

/* Find the feet in contact by their sensors, in the order of the walker. Returns 0 if a sensor is missing or invalid. */
static int read_contacts(const QD_NAME_safety_reading *reading, unsigned char contacts[4])
{
    for (int foot = 0; foot < 4; foot++) {
        const double force = reading->feet == NULL ? NAN : reading->feet[foot_index[foot]];
        if (!isfinite(force)) {
            return 0;
        }
        contacts[foot] = force > contact_force;
    }
    return 1;
}

/* Stance feet are those in contact; without sensors, those on which the last tick plans load. */
static void find_stance(const QD_NAME_drive *drive, const QD_NAME_safety_reading *reading, unsigned char *standing)
{
    unsigned char contacts[4];
    const int measured = read_contacts(reading, contacts);
    memset(standing, 0, QD_UPPER_ESTIMATOR_NF);
    for (int foot = 0; foot < 4; foot++) {
        standing[foot_index[foot]] = measured ? contacts[foot] : QD_NAME_walker_carries(&drive->controller, foot) != 0;
    }
}

static int compute_torques(QD_NAME_drive *drive, const QD_NAME_safety_reading *reading, double time, const double *q,
    const double *v, const double *velocity, double *tau)
{
    static const double zero[3];
    unsigned char contacts[4];
    const int measured = read_contacts(reading, contacts);
    const int stands = time - drive->start_time < standing_time;
    return QD_NAME_walker_tick(&drive->controller, q, v, stands ? zero : velocity, measured ? contacts : NULL, tau)
        == QD_UPPER_WALKER_SOLVED;
}
