/* What the parts of libfairspine-verbs have of each other. All of it is called with the lock of substitute.c held. */
#ifndef FAIRSPINE_VERBS_INTERNAL_H
#define FAIRSPINE_VERBS_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "layout.h"

#define GIDS_BYTES 32 /* local and remote GID */

enum answer { ANSWER_ROW, ANSWER_NO_ROW, ANSWER_NO_TABLE };

/* notices.c: one line for each reason, once in a process. */
enum notice {
    NOTICE_NO_TABLE, NOTICE_TABLE_DAMAGED, NOTICE_TABLE_LAYOUT, NOTICE_NO_RING, NOTICE_RING_DAMAGED, NOTICE_RING_LAYOUT,
    NOTICE_AGENT, NOTICE_GID, NOTICE_REFUSED, NOTICE_LOW_PORT, NOTICE_STAYS, NOTICE_WORKS
};
void notice(enum notice reason, const char *format, ...) __attribute__((format(printf, 2, 3)));
const char *setting(const char *name, const char *otherwise);
void file_path(char *path, size_t bytes, const char *name);

/* shared_file.c */
struct shared_file {
    const char *name, *lacks, *consequence;
    uint64_t magic;
    uint32_t row_bytes, copies;
    bool writes;
    enum notice no_file; /* it cannot be opened; those of damage and of another layout follow */
    int file;
    struct file_header *header; /* NULL: the file is not mapped */
    size_t bytes;
    uint32_t capacity; /* as checked: the file may be damaged later */
    bool is_new;
};
bool shared_ready(struct shared_file *shared);
bool shared_refused(struct shared_file *shared, enum notice reason, const char *why);
void shared_close(struct shared_file *shared);
uint32_t crc32_of(uint32_t before, const void *bytes, size_t many);
bool lock_byte(int file, short type, uint64_t at); /* of an open file description */
bool is_locked(int file, uint64_t at);

/* port_table.c: the file ports. */
extern struct shared_file table;
enum answer table_row(const uint8_t gids[GIDS_BYTES], uint32_t least, struct port_row *row);
uint64_t table_generation(void);

/* ring.c: the file queue-pairs. */
extern struct shared_file ring;
bool ring_ready(void);
bool claim_row(const uint8_t gids[GIDS_BYTES], uint16_t number);
void release_row(const uint8_t gids[GIDS_BYTES], uint16_t number);
void ring_report(struct qp_record *record);

#endif
