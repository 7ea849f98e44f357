/* All feet are in stance. */
static void find_stance(const QD_NAME_drive *drive, const QD_NAME_safety_reading *reading, unsigned char *standing)
{
    (void)drive;
    (void)reading;
    memset(standing, 1, QD_UPPER_ESTIMATOR_NF);
}

static int compute_torques(QD_NAME_drive *drive, const QD_NAME_safety_reading *reading, double time, const double *q,
    const double *v, const double *velocity, double *tau)
{
    (void)reading;
    (void)time;
    (void)velocity;
    return QD_NAME_wbc_tick(&drive->controller, q, v, NULL, tau) == QD_UPPER_WBC_SOLVED;
}
