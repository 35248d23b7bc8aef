/* What the agent is told of QPs, and which rows of the table are taken: the file queue-pairs. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "internal.h"

struct shared_file ring = {
    .name = "queue-pairs",
    .lacks = "is no ring of QPs",
    .consequence = "QPs are not reported, and get no ports of plans",
    .magic = RING_MAGIC,
    .row_bytes = sizeof(struct qp_record),
    .copies = 1,
    .writes = true,
    .no_file = NOTICE_NO_RING,
    .file = -1,
};
static uint32_t process;

/* Return whether QPs can be reported, and rows be taken. */
bool ring_ready(void)
{
    if (!shared_ready(&ring))
        return false;
    if (!ring.is_new)
        return true;
    do {
        if (getrandom(&process, sizeof process, 0) != sizeof process)
            return shared_refused(&ring, NOTICE_NO_RING, strerror(errno));
    } while (is_locked(ring.file, PROCESS_LOCK + process));
    if (!lock_byte(ring.file, F_WRLCK, PROCESS_LOCK + process))
        return shared_refused(&ring, NOTICE_NO_RING, strerror(errno));
    ring.is_new = false;
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
    return lock_byte(ring.file, F_WRLCK, lock_of(gids, number));
}

void release_row(const uint8_t gids[GIDS_BYTES], uint16_t number)
{
    if (ring.file >= 0)
        lock_byte(ring.file, F_UNLCK, lock_of(gids, number));
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
    record->record = __atomic_fetch_add(&ring.header->newest, 1, __ATOMIC_RELAXED);
    record->check = crc32_of(0, record, offsetof(struct qp_record, check));
    uint64_t words[sizeof *record / sizeof(uint64_t)];
    memcpy(words, record, sizeof *record);
    uint64_t *to = (uint64_t *)((struct qp_record *)(ring.header + 1) + record->record % ring.capacity);
    __atomic_store_n(to, 0, __ATOMIC_RELAXED);
    for (size_t n = 1; n < sizeof words / sizeof *words; n++)
        __atomic_store_n(to + n, words[n], __ATOMIC_RELEASE);
    __atomic_store_n(to, words[0], __ATOMIC_RELEASE);
}
