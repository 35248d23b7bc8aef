/* The two files that an agent and libfairspine-verbs share. agent/verbs/layout.py is the same in Python.
 *
 * ports: written by the agent, read by processes. A header, and two halves of rows; the generation names the half that
 *   holds (its lowest bit). The agent writes the other half, and then the generation. Rows ascend by local GID, remote
 *   GID and number. A row counts only if its checksum fits, so that no torn or damaged row is ever used.
 * queue-pairs: written by processes, read by the agent. A header, and a ring of records. A process takes the next
 *   number, and writes the number of the record last.
 *
 * All numbers are little-endian. Checksums are CRC-32 (IEEE 802.3). Locks are those of open file descriptions
 * (F_OFD_SETLK), which the kernel releases when a process ends, in whatever container it is.
 */
#ifndef FAIRSPINE_VERBS_LAYOUT_H
#define FAIRSPINE_VERBS_LAYOUT_H

#include <stdint.h>

#define LAYOUT_VERSION 2u
#define GIDS_BYTES 32 /* local and remote GID */
#define PORTS_MAGIC 0x7374726f70727366ull /* "fsrports" */
#define RING_MAGIC 0x676e697271707366ull  /* "fspqring" */

/* A retired file has a successor of the same name. */
enum file_state { FILE_IN_USE = 1, FILE_RETIRED = 2 };

struct file_header {
    uint64_t magic;
    uint32_t version;
    uint32_t state;
    uint32_t capacity; /* rows of a half, or records */
    uint32_t row_bytes;
    uint64_t newest;  /* ports: the generation; queue-pairs: the number of the next record, from 1 */
    uint64_t rows[2]; /* ports: rows in use, of each half */
    uint64_t reserved[2];
};

struct port_row {
    uint8_t gids[GIDS_BYTES];
    uint16_t number; /* of a flow: unique among those of the two GIDs, and not 0 */
    uint16_t port;   /* UDP source port */
    uint32_t kbps;   /* pace: bits on the link, in thousands a second; 0: none */
    uint32_t check;  /* of the fields before and the generation */
};

enum record_kind { QP_CONNECTED = 1, QP_MOVED = 2, QP_CLOSED = 3 };

enum record_flag {
    PORT_PLANNED = 1, /* it is that of the row `number` */
    PORT_SHARED = 2,  /* there are more QPs than rows, and others have it, too */
    PORT_OWN = 4,     /* the program has set a flow label itself */
    PORT_DERIVED = 8, /* nobody has chosen it: the kernel makes it of both QP numbers */
    QP_PACED = 16,    /* the device keeps the pace of the row */
};

struct qp_record {
    uint64_t record; /* its number; 0 while it is written */
    uint64_t at_ns;  /* since 1970 */
    uint8_t gids[GIDS_BYTES];
    uint32_t process; /* random; the process holds the lock of PROCESS_LOCK + process */
    uint32_t pid;
    uint32_t qp; /* QP numbers */
    uint32_t remote_qp;
    uint16_t kind;
    uint16_t flags;
    uint16_t port; /* 0: PORT_DERIVED */
    uint16_t number;
    char device[20];
    uint32_t check; /* of all fields before */
};

/* Locks of bytes of the file queue-pairs: a process, and a row (hash of its GIDs << 16 | number). */
#define PROCESS_LOCK (1ull << 62)
/* A lock of a byte of the file ports: its agent runs. */
#define AGENT_LOCK 0ull

_Static_assert(sizeof(struct file_header) == 64, "layout of headers");
_Static_assert(sizeof(struct port_row) == 44 && sizeof(struct qp_record) == 96, "layout of rows");

#endif
