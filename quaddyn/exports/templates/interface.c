/* Functions of QD_NAME.h. Written by quaddyn QD_VERSION; do not edit. */
#define _POSIX_C_SOURCE 200809L

#include "QD_NAME.h"

#include <fcntl.h>
#include <math.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* Layout of the file: see quaddyn.runtime.shared_memory. */
enum { SLOTS = QD_SLOTS, NEWEST = QD_NEWEST, BEGIN = QD_BEGIN, HEAD = QD_HEAD, SIZE = QD_SIZE, TRIES = QD_TRIES, CHECKED = 16 };

/* Required first bytes of the file. */
static const unsigned char head[HEAD] = {QD_HEADBYTES};

/* Compilation fails if structures have padding. */
typedef char reading_without_padding[sizeof(QD_NAME_reading) == QD_READINGSIZE ? 1 : -1];
typedef char command_without_padding[sizeof(QD_NAME_command) == QD_COMMANDSIZE ? 1 : -1];

const char *const QD_NAME_joints[QD_UPPER_NU] = {QD_JOINTS};
const char *const QD_NAME_feet[QD_UPPER_FEET] = {QD_FEET};

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

void QD_NAME_seal(QD_NAME_command *command, uint64_t number, double time)
{
    QD_NAME_header *header = &command->header;
    memcpy(header->magic, "QDRT", 4);
    header->version = QD_FORMAT;
    header->kind = QD_UPPER_COMMAND;
    header->joints = QD_UPPER_NU;
    header->feet = QD_UPPER_NF;
    header->number = number;
    header->time = time;
    header->state = 0;
    header->crc = crc32((const unsigned char *)command + CHECKED, sizeof *command - CHECKED);
}

int QD_NAME_valid(const void *bytes, size_t size)
{
    QD_NAME_header header;
    if (size != sizeof(QD_NAME_reading)) {
        return 0;
    }
    memcpy(&header, bytes, sizeof header);
    return memcmp(header.magic, "QDRT", 4) == 0 && header.version == QD_FORMAT && header.kind == QD_UPPER_READING
        && header.joints == QD_UPPER_NU && header.feet == QD_UPPER_NF && isfinite(header.time) && header.time >= 0.0
        && header.crc == crc32((const unsigned char *)bytes + CHECKED, size - CHECKED);
}

/* Number of the newest packet of a ring (0: readings, 1: commands); each has one writer, and readers check the CRC. */
static volatile uint64_t *newest(const QD_NAME_memory *memory, int ring)
{
    return (volatile uint64_t *)((char *)memory->map + NEWEST) + ring;
}

int QD_NAME_open(QD_NAME_memory *memory, const char *path)
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

int QD_NAME_read(const QD_NAME_memory *memory, QD_NAME_reading *reading)
{
    for (int k = 0; k < TRIES; k++) {
        const uint64_t number = *newest(memory, 0);
        if (number == 0) {
            return 0;
        }
        QD_NAME_reading copy;
        memcpy(&copy, (char *)memory->map + BEGIN + (number % SLOTS) * sizeof copy, sizeof copy);
        if (QD_NAME_valid(&copy, sizeof copy) && copy.header.number == number) {
            *reading = copy;
            return 1;
        }
    }
    return 0;
}

void QD_NAME_write(QD_NAME_memory *memory, QD_NAME_command *command, double time)
{
    const uint64_t number = ++memory->written;
    QD_NAME_seal(command, number, time);
    char *begin = (char *)memory->map + BEGIN + SLOTS * sizeof(QD_NAME_reading);
    memcpy(begin + (number % SLOTS) * sizeof *command, command, sizeof *command);
#if defined(__GNUC__)
    __sync_synchronize(); /* write the packet before its number */
#endif
    *newest(memory, 1) = number;
}

void QD_NAME_close(QD_NAME_memory *memory)
{
    munmap(memory->map, SIZE);
    memory->map = NULL;
}
