/* The files that are shared with the agent: the table of ports, which is searched, and the ring of queue pairs, by
 * which the agent is told of QPs, and in which rows of the table are taken. Without a file, and with a damaged one, QPs
 * connect as without this library.
 */
#define _GNU_SOURCE
#include "agent_files.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "notices.h"

#define TRIES 64 /* to read while the agent writes */

struct shared_file {
    const char *name, *told; /* why it was refused last */
    uint64_t magic;
    uint32_t row_bytes, copies;
    bool writes;
    uint32_t process; /* the number of this one; 0: it is not locked yet */
    int file;
    struct file_header *header; /* NULL: the file is not mapped */
    size_t bytes;
    uint32_t capacity; /* as checked: the file may be damaged later */
};

static struct shared_file table = {
    .name = "ports", .magic = PORTS_MAGIC, .row_bytes = sizeof(struct port_row), .copies = 2, .file = -1,
};
static struct shared_file ring = {
    .name = "queue-pairs", .magic = RING_MAGIC, .row_bytes = sizeof(struct qp_record), .copies = 1, .file = -1,
    .writes = true,
};

static uint32_t crc32_of(uint32_t before, const void *bytes, size_t many)
{
    /* Remainders of half bytes. */
    static const uint32_t of[16] = {
        0x00000000, 0x1DB71064, 0x3B6E20C8, 0x26D930AC, 0x76DC4190, 0x6B6B51F4, 0x4DB26158, 0x5005713C,
        0xEDB88320, 0xF00F9344, 0xD6D6A3E8, 0xCB61B38C, 0x9B64C2B0, 0x86D3D2D4, 0xA00AE278, 0xBDBDF21C,
    };
    uint32_t rest = ~before;
    for (const uint8_t *next = bytes; many-- > 0; next++) {
        rest = rest >> 4 ^ of[(rest ^ *next) & 15];
        rest = rest >> 4 ^ of[(rest ^ *next >> 4) & 15];
    }
    return ~rest;
}

/* Lock or unlock a byte (F_OFD_SETLK), or ask for its lock; return what holds it then. */
static bool lock_byte(int file, int command, struct flock lock, uint64_t at)
{
    lock.l_start = (off_t)at;
    lock.l_len = 1;
    return fcntl(file, command, &lock) == 0 && (command == F_OFD_SETLK || lock.l_type != F_UNLCK);
}

static void close_file(struct shared_file *shared)
{
    if (shared->header)
        munmap(shared->header, shared->bytes);
    if (shared->file >= 0)
        close(shared->file);
    shared->header = NULL;
    shared->process = 0;
    shared->file = -1;
}

void close_files(void)
{
    close_file(&table);
    close_file(&ring);
}

static const char *folder(void) { return setting("FAIRSPINE_VERBS_DIR", "/run/fairspine/verbs"); }

static bool refused(struct shared_file *shared, const char *why)
{
    if (shared->told != why)
        write_line("%s/%s: %s; ports stay those of the device", folder(), shared->name, why);
    shared->told = why;
    close_file(shared);
    return false;
}

/* Return whether the file is mapped, is the one of its name, and has what it should have. */
static bool is_ready(struct shared_file *shared)
{
    /* A page that a shorter file does not have must not be read. */
    struct stat about;
    if (shared->header && fstat(shared->file, &about) == 0 && about.st_size >= (off_t)shared->bytes
        && __atomic_load_n(&shared->header->state, __ATOMIC_ACQUIRE) == FILE_IN_USE)
        return true;
    close_file(shared);
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", folder(), shared->name);
    shared->file = open(path, (shared->writes ? O_RDWR : O_RDONLY) | O_CLOEXEC);
    if (shared->file < 0 || fstat(shared->file, &about))
        return refused(shared, strerror(errno));
    shared->bytes = about.st_size;
    if (shared->bytes < sizeof *shared->header)
        return refused(shared, "is damaged");
    int protection = shared->writes ? PROT_READ | PROT_WRITE : PROT_READ;
    struct file_header *header = mmap(NULL, shared->bytes, protection, MAP_SHARED, shared->file, 0);
    if (header == MAP_FAILED)
        return refused(shared, strerror(errno));
    shared->header = header;
    shared->capacity = __atomic_load_n(&header->capacity, __ATOMIC_RELAXED);
    if (header->magic == shared->magic && header->version != LAYOUT_VERSION)
        return refused(shared, "has another layout than this library knows");
    if (header->magic != shared->magic || !shared->capacity || header->row_bytes != shared->row_bytes
        || sizeof *header + (uint64_t)shared->copies * shared->capacity * shared->row_bytes > shared->bytes)
        return refused(shared, "is damaged");
    return true;
}

/* Return the generation of the table; 0: there is none, or no agent that keeps it. */
uint64_t table_generation(void)
{
    if (!is_ready(&table))
        return 0;
    if (lock_byte(table.file, F_OFD_GETLK, (struct flock){.l_type = F_RDLCK}, AGENT_LOCK))
        return __atomic_load_n(&table.header->newest, __ATOMIC_ACQUIRE);
    notice("the agent does not run; ports stay those of the device");
    /* The next agent may have made another file. */
    close_file(&table);
    return 0;
}

/* Read row n of a half, which another process may be writing; false: it is not whole. */
static bool row_at(uint64_t generation, uint64_t n, struct port_row *row)
{
    const struct port_row *rows = (const struct port_row *)(table.header + 1);
    memcpy(row, rows + (generation & 1) * table.capacity + n, sizeof *row);
    /* What is checked is what is used. */
    __asm__ volatile("" ::: "memory");
    uint32_t check = crc32_of(0, row, offsetof(struct port_row, check));
    return crc32_of(check, &generation, sizeof generation) == row->check;
}

/* Find the row of these GIDs with the lowest number that is at least `least`. */
enum answer table_row(const uint8_t gids[GIDS_BYTES], uint32_t least, struct port_row *row)
{
    for (int n = 0; n < TRIES; n++) {
        uint64_t generation = table_generation(), low = 0;
        if (!generation)
            return ANSWER_NO_TABLE;
        const uint64_t rows = __atomic_load_n(&table.header->rows[generation & 1], __ATOMIC_ACQUIRE);
        bool is_whole = rows <= table.capacity;
        for (uint64_t high = rows; is_whole && low < high;) {
            uint64_t middle = low + (high - low) / 2;
            is_whole = row_at(generation, middle, row);
            int order = memcmp(row->gids, gids, GIDS_BYTES);
            if (order < 0 || (order == 0 && row->number < least))
                low = middle + 1;
            else
                high = middle;
        }
        if (is_whole && low < rows)
            is_whole = row_at(generation, low, row);
        if (is_whole && generation == __atomic_load_n(&table.header->newest, __ATOMIC_ACQUIRE))
            return low < rows && !memcmp(row->gids, gids, GIDS_BYTES) ? ANSWER_ROW : ANSWER_NO_ROW;
    }
    notice("the table of ports is damaged; ports stay those of the device");
    return ANSWER_NO_TABLE;
}

/* Return whether QPs can be reported, and rows be taken. */
bool ring_ready(void)
{
    if (!is_ready(&ring))
        return false;
    /* A random number tells processes of all containers apart. */
    while (!ring.process)
        if (getrandom(&ring.process, sizeof ring.process, 0) != sizeof ring.process
            || !lock_byte(ring.file, F_OFD_SETLK, (struct flock){.l_type = F_WRLCK}, PROCESS_LOCK + ring.process))
            return refused(&ring, "cannot be locked");
    return true;
}

/* Take a row for this process, if no other process has it, or give it back. */
bool lock_row(bool takes, const uint8_t gids[GIDS_BYTES], uint16_t number)
{
    return lock_byte(ring.file, F_OFD_SETLK, (struct flock){.l_type = takes ? F_WRLCK : F_UNLCK},
                     (uint64_t)crc32_of(0, gids, GIDS_BYTES) << 16 | number);
}

/* Append a record; the number, the time, the process and the checksum are set here. */
void ring_report(struct qp_record *record, enum record_kind kind)
{
    if (!ring_ready())
        return;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    record->at_ns = now.tv_sec * 1000000000ull + now.tv_nsec;
    record->process = ring.process;
    record->kind = kind;
    record->pid = getpid();
    record->record = __atomic_fetch_add(&ring.header->newest, 1, __ATOMIC_RELAXED);
    record->check = crc32_of(0, record, offsetof(struct qp_record, check));
    struct qp_record *to = (struct qp_record *)(ring.header + 1) + record->record % ring.capacity;
    const size_t first = sizeof to->record;
    __atomic_store_n(&to->record, 0, __ATOMIC_RELAXED);
    memcpy((char *)to + first, (const char *)record + first, sizeof *to - first);
    __atomic_store_n(&to->record, record->record, __ATOMIC_RELEASE);
}
