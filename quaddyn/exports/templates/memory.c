/* Pointers to the memory of a robot. */
static QD_TYPE view(const QD_NAME *robot)
{
    QD_NAME *m = (QD_NAME *)robot;
    return (QD_TYPE)QD_POINTERS;
}

void QD_NAME_initialize(QD_NAME *m)
{
    memset(m, 0, sizeof *m);
    QD_INITIALIZATIONS
}

size_t QD_NAME_size(void)
{
    return sizeof(QD_NAME);
}
