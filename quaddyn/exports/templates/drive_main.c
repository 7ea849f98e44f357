/* Controls QD_ROBOT, which runs in another process, through shared memory: state estimator, QD_LAW and safety layer
   run once for every reading. QD_MOTIONTEXT Usage: QD_NAME_drive PATH [SECONDSQD_ARGUMENTS]

   Prints the number of processed readings, their processor times and the result. The exit code is 1 if a fault was
   latched. */
#define _POSIX_C_SOURCE 200809L

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "QD_NAME_drive.h"
#include "QD_NAME_interface.h"

/* Time without a new reading after which the program ends [s]. */
static const double timeout = 5.0;
/* Memory of estimator, controller and safety layer. */
static QD_NAME_drive drive;
/* Damping before the first torque, and while the robot's process damps its motors after a fault [N m s/rad]. */
static const double damping[QD_UPPER_SAFETY_NU] = {QD_DAMPING};

QD_MOTIONCODE

/* Number of ticks by their processor time [us]; the last entry counts all longer ones. */
static long tick_times[2000];

static double read_clock(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static double seconds(void)
{
    return read_clock(CLOCK_MONOTONIC);
}

/* Return a quantile of the processor time of a tick [us], rounded up. */
static int tick_time(double fraction, long ticks)
{
    const int last = (int)(sizeof tick_times / sizeof *tick_times) - 1;
    long count = 0;
    for (int i = 0; i < last; i++) {
        count += tick_times[i];
        if ((double)count >= fraction * (double)ticks) {
            return i + 1;
        }
    }
    return last + 1;
}

/* Wait for the next reading. Returns 1, or 0 if there is no new reading within the timeout. */
static int wait_for_reading(const QD_NAME_interface_memory *memory, uint64_t last, QD_NAME_interface_reading *reading)
{
    const struct timespec pause = {0, 50000};
    for (const double begin = seconds(); seconds() - begin < timeout; nanosleep(&pause, NULL)) {
        if (QD_NAME_interface_read(memory, reading) && reading->header.number != last) {
            return 1;
        }
    }
    return 0;
}

int main(int count, char **arguments)
{
    const double length = count > 2 ? strtod(arguments[2], NULL) : 1e9;
    QD_NAME_interface_memory memory;
    QD_NAME_interface_reading reading;
    QD_NAME_interface_command command;
    double last_time = 0.0, first_time = 0.0, longest = 0.0;
    int running = 0, fault = 0, stops = 0;
    long ticks = 0, unsolved = 0;
    uint64_t last_number = 0;

    if (count < 2 || QD_NAME_interface_open(&memory, arguments[1]) != 0) {
        fprintf(stderr, "usage: QD_NAME_drive PATH [SECONDSQD_ARGUMENTS]; PATH is the shared memory of a robot's process\n");
        return 2;
    }
    read_arguments(count, arguments);
    QD_NAME_drive_initialize(&drive);
    while (wait_for_reading(&memory, last_number, &reading)) {
        const double start = seconds(), cpu_start = read_clock(CLOCK_PROCESS_CPUTIME_ID);
        const QD_NAME_safety_reading sensors = {reading.position, reading.velocity, reading.gyro, reading.accelerometer,
            reading.torque, reading.feet, reading.temperature};
        memset(&command, 0, sizeof command);
        first_time = ticks ? first_time : reading.header.time;
        if (!running && reading.header.state == 0) {
            /* State 0 after the first tick: the robot's process follows commands. */
            running = ticks > 0;
            QD_NAME_drive_start(&drive, &sensors, reading.header.time);
        } else if (running && reading.header.state != 0) {
            running = 0;
            stops++;
        }
        if (running) {
            set_reference(reading.header.time - drive.start_time);
            unsolved += !QD_NAME_drive_step(&drive, &sensors, reading.header.time, velocity, command.tau);
        } else {
            memcpy(command.damping, damping, sizeof damping);
        }
        /* Filter the command by the safety layer. */
        QD_NAME_safety_command filtered;
        memcpy(&filtered, command.tau, sizeof filtered);
        fault = QD_NAME_safety_tick_at(&drive.safety, &sensors, &filtered, reading.header.time, seconds(), 0);
        memcpy(command.tau, &filtered, sizeof filtered);
        QD_NAME_interface_write(&memory, &command, reading.header.time);
        longest = fmax(longest, seconds() - start);
        const double time = fmin(1e6 * (read_clock(CLOCK_PROCESS_CPUTIME_ID) - cpu_start), 1999.0);
        tick_times[(int)fmax(time, 0.0)]++;
        last_time = reading.header.time;
        last_number = reading.header.number;
        ticks++;
        if (reading.header.time - first_time >= length) {
            break;
        }
    }
    memset(&command, 0, sizeof command);
    memcpy(command.damping, damping, sizeof damping);
    QD_NAME_interface_write(&memory, &command, last_time);
    printf("%ld readings processed, %ld unsolved, longest tick %.0f us; the robot's process stopped %d times; %s\n",
        ticks, unsolved, 1e6 * longest, stops, fault ? QD_NAME_safety_name(fault) : "no fault");
    printf("processor time of a tick: median %d us, 99.9 %% within %d us\n", tick_time(0.5, ticks),
        tick_time(0.999, ticks));
QD_RESULT    QD_NAME_interface_close(&memory);
    return fault != 0;
}
