/* The table of ports that an agent keeps: searched. Without one, and with a damaged one, there is no row for anybody. */
#include <string.h>

#include "internal.h"

#define TRIES 64 /* to read while the agent writes */

struct shared_file table = {
    .name = "ports",
    .lacks = "is no table of ports",
    .consequence = "ports stay those of the device",
    .magic = PORTS_MAGIC,
    .row_bytes = sizeof(struct port_row),
    .copies = 2,
    .no_file = NOTICE_NO_TABLE,
    .file = -1,
};

/* Words of the file are read one by one, as another process may write them at the same time. */
static uint64_t word(const void *at) { return __atomic_load_n((const uint64_t *)at, __ATOMIC_ACQUIRE); }

static void copied(void *to, const void *from, size_t bytes)
{
    for (size_t n = 0; n < bytes; n += sizeof(uint64_t)) {
        uint64_t value = word((const char *)from + n);
        memcpy((char *)to + n, &value, sizeof value);
    }
}

/* Return whether there is a table, and an agent that keeps it. */
static bool table_ready(void)
{
    if (!shared_ready(&table))
        return false;
    if (is_locked(table.file, AGENT_LOCK))
        return true;
    notice(NOTICE_AGENT, "the agent does not run; ports stay those of the device");
    /* The next agent may have made another file. */
    shared_close(&table);
    return false;
}

uint64_t table_generation(void) { return table.header ? word(&table.header->newest) : 0; }

/* Read row n of a half. */
static bool row_at(uint64_t generation, uint64_t n, struct port_row *row)
{
    const char *rows = (const char *)(table.header + 1) + (generation & 1) * table.capacity * sizeof *row;
    copied(row, rows + n * sizeof *row, sizeof *row);
    uint32_t check = crc32_of(0, row, offsetof(struct port_row, check));
    return crc32_of(check, &generation, sizeof generation) == row->check;
}

static int compared(const struct port_row *row, const uint8_t gids[GIDS_BYTES], uint32_t number)
{
    int order = memcmp(row->local, gids, GIDS_BYTES);
    return order ? order : (row->number > number) - (row->number < number);
}

/* ANSWER_NO_TABLE: what was read is not whole. */
static enum answer searched(uint64_t generation, const uint8_t gids[GIDS_BYTES], uint32_t least, struct port_row *row)
{
    uint64_t many = word(&table.header->rows[generation & 1]), low = 0;
    if (many > table.capacity)
        return ANSWER_NO_TABLE;
    for (uint64_t high = many; low < high;) {
        uint64_t middle = low + (high - low) / 2;
        if (!row_at(generation, middle, row))
            return ANSWER_NO_TABLE;
        if (compared(row, gids, least) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == many)
        return ANSWER_NO_ROW;
    if (!row_at(generation, low, row))
        return ANSWER_NO_TABLE;
    return memcmp(row->local, gids, GIDS_BYTES) ? ANSWER_NO_ROW : ANSWER_ROW;
}

/* Find the row of these GIDs with the lowest number that is at least `least`. */
enum answer table_row(const uint8_t gids[GIDS_BYTES], uint32_t least, struct port_row *row)
{
    if (!table_ready())
        return ANSWER_NO_TABLE;
    for (int n = 0; n < TRIES; n++) {
        uint64_t generation = table_generation();
        enum answer answer = searched(generation, gids, least, row);
        if (answer != ANSWER_NO_TABLE && generation == table_generation())
            return answer;
    }
    notice(NOTICE_TABLE_DAMAGED, "the table of ports is damaged; ports stay those of the device");
    return ANSWER_NO_TABLE;
}
