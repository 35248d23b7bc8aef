/* The files that are shared with the agent. All of it is called with the lock of substitute.c held. */
#ifndef FAIRSPINE_VERBS_AGENT_FILES_H
#define FAIRSPINE_VERBS_AGENT_FILES_H

#include <stdbool.h>
#include <stdint.h>

#include "layout.h"

enum answer { ANSWER_ROW, ANSWER_NO_ROW, ANSWER_NO_TABLE };

void close_files(void);
uint64_t table_generation(void);
enum answer table_row(const uint8_t gids[GIDS_BYTES], uint32_t least, struct port_row *row);
bool ring_ready(void);
bool lock_row(bool takes, const uint8_t gids[GIDS_BYTES], uint16_t number);
void ring_report(struct qp_record *record, enum record_kind kind);

#endif
