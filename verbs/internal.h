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
    NOTICE_FILE, NOTICE_LAYOUT, NOTICE_DAMAGED, NOTICE_AGENT, NOTICE_GID, NOTICE_REFUSED, NOTICE_LOW_PORT,
    NOTICE_STAYS, NOTICE_RING, NOTICE_WORKS
};
void notice(enum notice reason, const char *format, ...) __attribute__((format(printf, 2, 3)));
const char *setting(const char *name, const char *otherwise);
void file_path(char *path, size_t bytes, const char *name);

/* port_table.c: the file ports. */
uint32_t crc32_of(uint32_t before, const void *bytes, size_t many);
enum answer table_row(const uint8_t gids[GIDS_BYTES], uint32_t least, struct port_row *row);
uint64_t table_generation(void);
void table_close(void);

/* ring.c: the file queue-pairs. */
bool ring_ready(void);
bool claim_row(const uint8_t gids[GIDS_BYTES], uint16_t number);
void release_row(const uint8_t gids[GIDS_BYTES], uint16_t number);
void ring_report(struct qp_record *record);
void ring_close(void);

/* A lock of an open file description; -1 and errno: not obtained. */
int lock_byte(int file, short type, uint64_t at);
bool is_locked(int file, uint64_t at);

#endif
