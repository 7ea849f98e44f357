/* QD_NAME: readings and commands of QD_ROBOT as bytes, in shared memory or as datagrams. Written by quaddyn QD_VERSION; do not
   edit.

   Numbers are little-endian; the target machine must be, too. SI units, radians; joints in the
   order of QD_NAME_joints, feet in that of QD_NAME_feet. Values without a sensor are NaN. Packets require C99, and shared
   memory requires POSIX. */

#ifndef QD_UPPER_H
#define QD_UPPER_H

#include <stddef.h>
#include <stdint.h>

#define QD_UPPER_NU QD_NU
#define QD_UPPER_NF QD_NF

/* Kinds of packets. */
enum { QD_UPPER_READING = QD_READING, QD_UPPER_COMMAND = QD_COMMAND };

typedef struct {
    char magic[4];                        /* "QDRT" */
    uint16_t version, kind, joints, feet; /* QD_FORMAT, a packet kind, NU, NF */
    uint32_t crc;                         /* CRC-32 of all bytes from number on */
    uint64_t number;                      /* sequence number from 1, by kind of packet */
    double time;    /* of a reading: time of the robot; of a command: time of the reading that it uses [s] */
    uint64_t state; /* of a reading: 0 if the robot follows commands; otherwise code of the fault after which it
                       damps its motors, until a command requests only damping */
} QD_NAME_header;

typedef struct {
    QD_NAME_header header;
    double position[QD_UPPER_NU];    /* [rad or m] */
    double velocity[QD_UPPER_NU];    /* [rad/s or m/s] */
    double gyro[3];               /* IMU axes [rad/s] */
    double accelerometer[3];      /* specific force, IMU axes [m/s^2] */
    double torque[QD_UPPER_NU];      /* [N m or N] */
    double feet[QD_UPPER_FEET];      /* [N] */
    double temperature[QD_UPPER_NU]; /* [degrees Celsius] */
} QD_NAME_reading;

/* The torque of every motor is tau + stiffness (position - q) + damping (velocity - v) until the next command. */
typedef struct {
    QD_NAME_header header;
    double tau[QD_UPPER_NU], position[QD_UPPER_NU], velocity[QD_UPPER_NU], stiffness[QD_UPPER_NU], damping[QD_UPPER_NU];
} QD_NAME_command;

/* Mapped file of the robot process. */
typedef struct {
    void *map;
    uint64_t written; /* number of the last command */
} QD_NAME_memory;

#ifdef __cplusplus
extern "C" {
#endif

/* Names of the joints and of the feet. */
extern const char *const QD_NAME_joints[QD_UPPER_NU];
extern const char *const QD_NAME_feet[QD_UPPER_FEET];

/* Fill in the header of a command: its number, one more than that of the last one, and the time of its reading. */
void QD_NAME_seal(QD_NAME_command *command, uint64_t number, double time);

/* Returns 1 if bytes are a complete reading of this robot with a finite, nonnegative time stamp, otherwise 0. */
int QD_NAME_valid(const void *bytes, size_t size);

/* Map the file of a robot process. Returns 0, or -1 if it does not exist or is of another robot, or if other users may
   have created it or can write to it: a symbolic link, another owner, or a mode such as 0666. errno may give the
   reason. */
int QD_NAME_open(QD_NAME_memory *memory, const char *path);

/* Copy the newest reading. Returns 1, or 0 if there is no reading yet. The reading is new if its number has changed. */
int QD_NAME_read(const QD_NAME_memory *memory, QD_NAME_reading *reading);

/* Fill in the header of a command and publish it; time: that of the reading that the command uses [s]. */
void QD_NAME_write(QD_NAME_memory *memory, QD_NAME_command *command, double time);

/* Unmap the file. */
void QD_NAME_close(QD_NAME_memory *memory);

#ifdef __cplusplus
}
#endif

#endif
