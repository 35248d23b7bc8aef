/* The table of ports that an agent keeps: found, checked and searched. Without one, and with a damaged one, there is no
 * row for anybody. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "internal.h"

#define TRIES 64           /* to read while the agent writes */
#define MOST_ROWS (1u << 22)

static const struct ports_header *table;
static size_t table_bytes;
static uint32_t capacity; /* as checked: the file may be damaged later */
static int table_file = -1;

uint32_t crc32_of(uint32_t before, const void *bytes, size_t many)
{
    static uint32_t remainders[256];
    if (!remainders[1])
        for (uint32_t n = 256; n-- > 0;) {
            uint32_t rest = n;
            for (int bit = 0; bit < 8; bit++)
                rest = rest & 1 ? rest >> 1 ^ 0xEDB88320u : rest >> 1;
            remainders[n] = rest;
        }
    uint32_t rest = ~before;
    for (const uint8_t *next = bytes; many-- > 0; next++)
        rest = remainders[(rest ^ *next) & 0xFF] ^ rest >> 8;
    return ~rest;
}

int lock_byte(int file, short type, uint64_t at)
{
    struct flock lock = {.l_type = type, .l_whence = SEEK_SET, .l_start = (off_t)at, .l_len = 1};
    return fcntl(file, F_OFD_SETLK, &lock);
}

bool is_locked(int file, uint64_t at)
{
    struct flock lock = {.l_type = F_RDLCK, .l_whence = SEEK_SET, .l_start = (off_t)at, .l_len = 1};
    return fcntl(file, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

void table_close(void)
{
    if (table)
        munmap((void *)table, table_bytes);
    if (table_file >= 0)
        close(table_file);
    table = NULL;
    table_file = -1;
}

/* Words of the file are read one by one, as another process may write them at the same time. */
static uint64_t word(const void *at) { return __atomic_load_n((const uint64_t *)at, __ATOMIC_ACQUIRE); }

static void copied(void *to, const void *from, size_t bytes)
{
    for (size_t n = 0; n < bytes; n += sizeof(uint64_t)) {
        uint64_t value = word((const char *)from + n);
        memcpy((char *)to + n, &value, sizeof value);
    }
}

static bool table_open(void)
{
    char path[PATH_MAX];
    file_path(path, sizeof path, "ports");
    table_file = open(path, O_RDONLY | O_CLOEXEC);
    struct stat about;
    if (table_file < 0 || fstat(table_file, &about)) {
        notice(NOTICE_FILE, "%s: %s; no agent gives QPs their ports, which stay those of the device", path, strerror(errno));
        table_close();
        return false;
    }
    struct ports_header header;
    if (about.st_size < (off_t)sizeof header
        || (table = mmap(NULL, about.st_size, PROT_READ, MAP_SHARED, table_file, 0)) == MAP_FAILED) {
        table = NULL;
        notice(NOTICE_DAMAGED, "%s: is no table of ports; ports stay those of the device", path);
        table_close();
        return false;
    }
    table_bytes = about.st_size;
    copied(&header, table, sizeof header);
    if (header.magic != PORTS_MAGIC || header.capacity > MOST_ROWS || header.row_bytes != sizeof(struct port_row)
        || sizeof header + 2ull * header.capacity * header.row_bytes > table_bytes) {
        notice(NOTICE_DAMAGED, "%s: is no table of ports; ports stay those of the device", path);
        table_close();
        return false;
    }
    if (header.version != LAYOUT_VERSION) {
        notice(NOTICE_LAYOUT, "%s: has layout %u, and this library reads %u; ports stay those of the device", path,
               header.version, LAYOUT_VERSION);
        table_close();
        return false;
    }
    capacity = header.capacity;
    return true;
}

/* Return whether there is a table, and an agent that keeps it. */
static bool table_ready(void)
{
    /* A page that a shorter file does not have must not be read. The second word has the version and the state. */
    struct stat about;
    if (table && (fstat(table_file, &about) || about.st_size < (off_t)table_bytes
                  || word(&table->version) >> 32 != FILE_IN_USE))
        table_close();
    if (!table && !table_open())
        return false;
    if (is_locked(table_file, AGENT_LOCK))
        return true;
    notice(NOTICE_AGENT, "the agent does not run; ports stay those of the device");
    /* The next agent may have made another file. */
    table_close();
    return false;
}

uint64_t table_generation(void) { return table ? __atomic_load_n(&table->generation, __ATOMIC_ACQUIRE) : 0; }

enum reading { READ_ROW, READ_NONE, READ_WRONG };

/* Read row n of a half. */
static bool row_at(uint64_t generation, uint64_t n, struct port_row *row)
{
    const char *rows = (const char *)(table + 1) + (generation & 1) * capacity * sizeof *row;
    copied(row, rows + n * sizeof *row, sizeof *row);
    uint32_t check = crc32_of(0, row, offsetof(struct port_row, check));
    return crc32_of(check, &generation, sizeof generation) == row->check;
}

static int compared(const struct port_row *row, const uint8_t gids[GIDS_BYTES], uint32_t number)
{
    int order = memcmp(row->local, gids, GIDS_BYTES);
    return order ? order : (row->number > number) - (row->number < number);
}

static enum reading searched(uint64_t generation, const uint8_t gids[GIDS_BYTES], uint32_t least, struct port_row *row)
{
    uint64_t many = word(&table->rows[generation & 1]), low = 0;
    if (many > capacity)
        return READ_WRONG;
    for (uint64_t high = many; low < high;) {
        uint64_t middle = low + (high - low) / 2;
        if (!row_at(generation, middle, row))
            return READ_WRONG;
        if (compared(row, gids, least) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == many)
        return READ_NONE;
    if (!row_at(generation, low, row))
        return READ_WRONG;
    return memcmp(row->local, gids, GIDS_BYTES) ? READ_NONE : READ_ROW;
}

/* Find the row of these GIDs with the lowest number that is at least `least`. */
enum answer table_row(const uint8_t gids[GIDS_BYTES], uint32_t least, struct port_row *row)
{
    if (!table_ready())
        return ANSWER_NO_TABLE;
    for (int n = 0; n < TRIES; n++) {
        uint64_t generation = table_generation();
        enum reading read = searched(generation, gids, least, row);
        if (read != READ_WRONG && generation == table_generation())
            return read == READ_ROW ? ANSWER_ROW : ANSWER_NO_ROW;
    }
    notice(NOTICE_DAMAGED, "the table of ports is damaged; ports stay those of the device");
    return ANSWER_NO_TABLE;
}
