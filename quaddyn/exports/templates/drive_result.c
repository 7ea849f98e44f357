    const char *reason = QD_NAME_walker_limit_reason(&drive.controller);
    printf("%s%s%s\n", QD_NAME_walker_mode_name(QD_NAME_walker_mode(&drive.controller)), *reason ? ": " : "", reason);
