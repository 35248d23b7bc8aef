/* What the agent is told of QPs, and which rows of the table are taken: the file queue-pairs. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "internal.h"

static struct ring_header *ring;
static size_t ring_bytes;
static uint32_t capacity; /* as checked: others may write the file */
static int ring_file = -1;
static uint32_t process;

void ring_close(void)
{
    if (ring)
        munmap(ring, ring_bytes);
    if (ring_file >= 0)
        close(ring_file);
    ring = NULL;
    ring_file = -1;
}

static bool refused(const char *path, const char *why)
{
    notice(NOTICE_RING, "%s: %s; QPs are not reported, and get no ports of plans", path, why);
    ring_close();
    return false;
}

/* Return whether QPs can be reported, and rows be taken. */
bool ring_ready(void)
{
    struct stat about;
    if (ring && fstat(ring_file, &about) == 0 && about.st_size >= (off_t)ring_bytes
        && __atomic_load_n(&ring->state, __ATOMIC_RELAXED) == FILE_IN_USE)
        return true;
    ring_close();
    char path[PATH_MAX];
    file_path(path, sizeof path, "queue-pairs");
    if ((ring_file = open(path, O_RDWR | O_CLOEXEC)) < 0 || fstat(ring_file, &about))
        return refused(path, strerror(errno));
    if (about.st_size < (off_t)sizeof *ring)
        return refused(path, "is no ring of QPs");
    ring_bytes = about.st_size;
    if ((ring = mmap(NULL, ring_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, ring_file, 0)) == MAP_FAILED) {
        ring = NULL;
        return refused(path, strerror(errno));
    }
    capacity = ring->capacity;
    if (ring->magic != RING_MAGIC || ring->record_bytes != sizeof(struct qp_record) || !capacity
        || sizeof *ring + (uint64_t)capacity * sizeof(struct qp_record) > ring_bytes)
        return refused(path, "is no ring of QPs");
    if (ring->version != LAYOUT_VERSION)
        return refused(path, "has another layout");
    do {
        if (getrandom(&process, sizeof process, 0) != sizeof process)
            return refused(path, strerror(errno));
    } while (is_locked(ring_file, PROCESS_LOCK + process));
    if (lock_byte(ring_file, F_WRLCK, PROCESS_LOCK + process))
        return refused(path, strerror(errno));
    return true;
}

static uint64_t lock_of(const uint8_t gids[GIDS_BYTES], uint16_t number)
{
    uint64_t hash = 0xCBF29CE484222325ull; /* FNV-1a */
    for (int n = 0; n < GIDS_BYTES; n++)
        hash = (hash ^ gids[n]) * 0x100000001B3ull;
    return hash >> 18 << 16 | number;
}

/* Take a row for this process, if no other process has it. */
bool claim_row(const uint8_t gids[GIDS_BYTES], uint16_t number)
{
    return lock_byte(ring_file, F_WRLCK, lock_of(gids, number)) == 0;
}

void release_row(const uint8_t gids[GIDS_BYTES], uint16_t number)
{
    if (ring_file >= 0)
        lock_byte(ring_file, F_UNLCK, lock_of(gids, number));
}

/* Append a record; the number, the time, the process and the checksum are set here. */
void ring_report(struct qp_record *record)
{
    if (!ring_ready())
        return;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    record->at_ns = now.tv_sec * 1000000000ull + now.tv_nsec;
    record->process = process;
    record->pid = getpid();
    record->record = __atomic_fetch_add(&ring->next, 1, __ATOMIC_RELAXED);
    record->check = crc32_of(0, record, offsetof(struct qp_record, check));
    uint64_t words[sizeof *record / sizeof(uint64_t)];
    memcpy(words, record, sizeof *record);
    uint64_t *to = (uint64_t *)((struct qp_record *)(ring + 1) + record->record % capacity);
    __atomic_store_n(to, 0, __ATOMIC_RELAXED);
    for (size_t n = 1; n < sizeof words / sizeof *words; n++)
        __atomic_store_n(to + n, words[n], __ATOMIC_RELEASE);
    __atomic_store_n(to, words[0], __ATOMIC_RELEASE);
}
