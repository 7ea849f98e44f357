"""`export_interface`: writes packets and shared memory as C99, for programs that control a robot process."""

from __future__ import annotations

import os

from ..errors import ArgumentTypeError
from ..robot.robot import Robot
from ..wbc.c_files import SourceFiles, c_string_list, fill_template, validate_c_name
from . import packets, shared_memory
from .packets import Packets

_HEADER = """\
/* NAME: readings and commands of ROBOT as bytes, in shared memory or as datagrams. Written by quaddyn VERSION; do not
   edit.

   Numbers are little-endian; the target machine must be, too. SI units, radians; joints in the
   order of NAME_joints, feet in that of NAME_feet. Values without a sensor are NaN. Packets require C99, and shared
   memory requires POSIX. */

#ifndef UPPER_H
#define UPPER_H

#include <stddef.h>
#include <stdint.h>

#define UPPER_NU NU_
#define UPPER_NF NF_

/* Kinds of packets. */
enum { UPPER_READING = READING_, UPPER_COMMAND = COMMAND_ };

typedef struct {
    char magic[4];                        /* "QDRT" */
    uint16_t version, kind, joints, feet; /* VERSION_, a packet kind, NU, NF */
    uint32_t crc;                         /* CRC-32 of all bytes from number on */
    uint64_t number;                      /* sequence number from 1, by kind of packet */
    double time;    /* of a reading: time of the robot; of a command: time of the reading that it uses [s] */
    uint64_t state; /* of a reading: 0 if the robot follows commands; otherwise code of the fault after which it
                       damps its motors, until a command requests only damping */
} NAME_header;

typedef struct {
    NAME_header header;
    double position[UPPER_NU];    /* [rad or m] */
    double velocity[UPPER_NU];    /* [rad/s or m/s] */
    double gyro[3];               /* IMU axes [rad/s] */
    double accelerometer[3];      /* specific force, IMU axes [m/s^2] */
    double torque[UPPER_NU];      /* [N m or N] */
    double feet[UPPER_FEET];      /* [N] */
    double temperature[UPPER_NU]; /* [degrees Celsius] */
} NAME_reading;

/* The torque of every motor is tau + stiffness (position - q) + damping (velocity - v) until the next command. */
typedef struct {
    NAME_header header;
    double tau[UPPER_NU], position[UPPER_NU], velocity[UPPER_NU], stiffness[UPPER_NU], damping[UPPER_NU];
} NAME_command;

/* Mapped file of the robot process. */
typedef struct {
    void *map;
    uint64_t written; /* number of the last command */
} NAME_memory;

#ifdef __cplusplus
extern "C" {
#endif

/* Names of the joints and of the feet. */
extern const char *const NAME_joints[UPPER_NU];
extern const char *const NAME_feet[UPPER_FEET];

/* Fill in the header of a command: its number, one more than that of the last one, and the time of its reading. */
void NAME_seal(NAME_command *command, uint64_t number, double time);

/* Returns 1 if bytes are a complete reading of this robot with a finite, nonnegative time stamp, otherwise 0. */
int NAME_valid(const void *bytes, size_t size);

/* Map the file of a robot process. Returns 0, or -1 if it does not exist or is of another robot, or if other users may
   have created it or can write to it: a symbolic link, another owner, or a mode such as 0666. errno may give the
   reason. */
int NAME_open(NAME_memory *memory, const char *path);

/* Copy the newest reading. Returns 1, or 0 if there is no reading yet. The reading is new if its number has changed. */
int NAME_read(const NAME_memory *memory, NAME_reading *reading);

/* Fill in the header of a command and publish it; time: that of the reading that the command uses [s]. */
void NAME_write(NAME_memory *memory, NAME_command *command, double time);

/* Unmap the file. */
void NAME_close(NAME_memory *memory);

#ifdef __cplusplus
}
#endif

#endif
"""

_SOURCE = """\
/* Functions of NAME.h. Written by quaddyn VERSION; do not edit. */
#define _POSIX_C_SOURCE 200809L

#include "NAME.h"

#include <fcntl.h>
#include <math.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* Layout of the file: see quaddyn.runtime.shared_memory. */
enum { SLOTS = SLOTS_, NEWEST = NEWEST_, BEGIN = BEGIN_, HEAD = HEAD_, SIZE = SIZE_, TRIES = TRIES_, CHECKED = 16 };

/* Required first bytes of the file. */
static const unsigned char head[HEAD] = {HEAD_BYTES};

/* Compilation fails if structures have padding. */
typedef char reading_without_padding[sizeof(NAME_reading) == READING_SIZE_ ? 1 : -1];
typedef char command_without_padding[sizeof(NAME_command) == COMMAND_SIZE_ ? 1 : -1];

const char *const NAME_joints[UPPER_NU] = {JOINTS};
const char *const NAME_feet[UPPER_FEET] = {FEET};

/* CRC-32 as in zlib: reflected, polynomial 0x04C11DB7. */
static uint32_t crc32(const unsigned char *bytes, size_t size)
{
    static uint32_t table[256];
    if (table[1] == 0) {
        for (uint32_t i = 0; i < 256; i++) {
            uint32_t x = i;
            for (int k = 0; k < 8; k++) {
                x = x & 1 ? 0xEDB88320u ^ (x >> 1) : x >> 1;
            }
            table[i] = x;
        }
    }
    uint32_t crc = 0xFFFFFFFFu;
    for (size_t i = 0; i < size; i++) {
        crc = table[(crc ^ bytes[i]) & 0xFF] ^ (crc >> 8);
    }
    return crc ^ 0xFFFFFFFFu;
}

void NAME_seal(NAME_command *command, uint64_t number, double time)
{
    NAME_header *header = &command->header;
    memcpy(header->magic, "QDRT", 4);
    header->version = VERSION_;
    header->kind = UPPER_COMMAND;
    header->joints = UPPER_NU;
    header->feet = UPPER_NF;
    header->number = number;
    header->time = time;
    header->state = 0;
    header->crc = crc32((const unsigned char *)command + CHECKED, sizeof *command - CHECKED);
}

int NAME_valid(const void *bytes, size_t size)
{
    NAME_header header;
    if (size != sizeof(NAME_reading)) {
        return 0;
    }
    memcpy(&header, bytes, sizeof header);
    return memcmp(header.magic, "QDRT", 4) == 0 && header.version == VERSION_ && header.kind == UPPER_READING
        && header.joints == UPPER_NU && header.feet == UPPER_NF && isfinite(header.time) && header.time >= 0.0
        && header.crc == crc32((const unsigned char *)bytes + CHECKED, size - CHECKED);
}

/* Number of the newest packet of a ring (0: readings, 1: commands); each has one writer, and readers check the CRC. */
static volatile uint64_t *newest(const NAME_memory *memory, int ring)
{
    return (volatile uint64_t *)((char *)memory->map + NEWEST) + ring;
}

int NAME_open(NAME_memory *memory, const char *path)
{
    struct stat status;
    const int file = open(path, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (file < 0) {
        return -1;
    }
    memory->map = MAP_FAILED;
    if (fstat(file, &status) == 0 && S_ISREG(status.st_mode) && status.st_nlink == 1 && status.st_uid == geteuid()
        && (status.st_mode & (S_IWGRP | S_IWOTH)) == 0 && status.st_size == SIZE) {
        memory->map = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    }
    close(file);
    if (memory->map == MAP_FAILED) {
        return -1;
    }
    if (memcmp(memory->map, head, HEAD) != 0) {
        munmap(memory->map, SIZE);
        return -1;
    }
    memory->written = *newest(memory, 1);
    return 0;
}

int NAME_read(const NAME_memory *memory, NAME_reading *reading)
{
    for (int k = 0; k < TRIES; k++) {
        const uint64_t number = *newest(memory, 0);
        if (number == 0) {
            return 0;
        }
        NAME_reading copy;
        memcpy(&copy, (char *)memory->map + BEGIN + (number % SLOTS) * sizeof copy, sizeof copy);
        if (NAME_valid(&copy, sizeof copy) && copy.header.number == number) {
            *reading = copy;
            return 1;
        }
    }
    return 0;
}

void NAME_write(NAME_memory *memory, NAME_command *command, double time)
{
    const uint64_t number = ++memory->written;
    NAME_seal(command, number, time);
    char *begin = (char *)memory->map + BEGIN + SLOTS * sizeof(NAME_reading);
    memcpy(begin + (number % SLOTS) * sizeof *command, command, sizeof *command);
#if defined(__GNUC__)
    __sync_synchronize(); /* write the packet before its number */
#endif
    *newest(memory, 1) = number;
}

void NAME_close(NAME_memory *memory)
{
    munmap(memory->map, SIZE);
    memory->map = NULL;
}
"""


def export_interface(robot: Robot, folder: str | os.PathLike[str], *, name: str | None = None) -> SourceFiles:
    """Writes the packets of readings and commands of a robot, and access to its shared memory, as C99.

    Args:
        robot: robot with the joints and feet of the packets.
        folder: folder to write to, created if it does not exist.
        name: prefix of files and functions; None: ``ROBOT_interface``.

    Returns:
        The written files.

    Raises:
        ArgumentError: `name` is not a C identifier.
        OSError: a file cannot be written.
    """
    source = interface_c(robot, name=name)
    source.write(folder)
    return source


def interface_c(robot: Robot, *, name: str | None = None) -> SourceFiles:
    """Returns the files of `export_interface` without writing them; same arguments and errors."""
    if not isinstance(robot, Robot):
        raise ArgumentTypeError(f"robot: expected a Robot from quaddyn.load, got {type(robot).__name__}")
    name = validate_c_name(name, f"{robot.name}_interface")
    nu, nf, layout = robot.nu, len(robot.feet), Packets(robot.nu, len(robot.feet))
    slots, begin = shared_memory.SLOTS, shared_memory.BEGIN
    head = shared_memory.HEAD.pack(shared_memory.MAGIC, shared_memory.VERSION, slots, nu, nf)
    numbers = {
        "NU_": nu,
        "NF_": nf,
        "READING_": packets.READING,
        "COMMAND_": packets.COMMAND,
        "VERSION_": packets.VERSION,
        "SLOTS_": slots,
        "NEWEST_": shared_memory.NEWEST,
        "BEGIN_": begin,
        "HEAD_": len(head),
        "SIZE_": begin + slots * (layout.reading_size + layout.command_size),
        "TRIES_": shared_memory.TRIES,
        "READING_SIZE_": layout.reading_size,
        "COMMAND_SIZE_": layout.command_size,
    }
    parts = {word: str(number) for word, number in numbers.items()}
    parts |= {"JOINTS": c_string_list(robot.actuated), "FEET}": c_string_list(robot.feet) + "}", "ROBOT": robot.name}
    parts["HEAD_BYTES"] = ", ".join(map(str, head))
    header, source = _HEADER, _SOURCE
    if nf:
        header, source = header.replace("UPPER_FEET", "UPPER_NF"), source.replace("UPPER_FEET", "UPPER_NF")
    else:  # C has no arrays of size 0
        lines = [line for line in header.splitlines(keepends=True) if "UPPER_FEET" not in line]
        header = "".join(lines).replace("joints and of the feet", "joints")
        source = "".join(line for line in source.splitlines(keepends=True) if "UPPER_FEET" not in line)
    return SourceFiles(
        name, {f"{name}.h": fill_template(header, name, parts), f"{name}.c": fill_template(source, name, parts)}
    )
