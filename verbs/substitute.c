/* A substitute of libibverbs.so.1 that gives each RC QP the UDP source port that an agent has for it.
 *
 * It has the name of the real library and needs that one, so that every other symbol is the real one's. Two are its own:
 * ibv_modify_qp, where a QP gets its address and its route, and ibv_destroy_qp, after which it must not be touched. The
 * functions by which data are sent are in neither library: they are pointers that the device's provider has set.
 *
 * A RoCEv2 device of Linux makes the port of the flow label (include/rdma/ib_verbs.h, rdma_flow_label_to_udp_sport), and
 * of both QP numbers where the label is 0 (rdma_calc_flow_label): so a port from 0xC000 on is chosen by a label.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "internal.h"

#define OWN __attribute__((visibility("default")))
#define BUCKETS 4096
#define FIRST_PORT IB_ROCE_UDP_ENCAP_VALID_PORT_MIN
#define TURN_NS 20000000 /* between two looks for ports that have changed */

/* Two GIDs, and the rows that QPs of this process have. */
struct pair {
    struct pair *next;
    uint8_t gids[GIDS_BYTES];
    uint8_t *taken; /* a bit for each number below 8 * bytes */
    uint32_t bytes;
    uint32_t next_number; /* rows before it are taken, or were */
    time_t looked;        /* when all rows were looked at */
    uint16_t turn; /* the last number that was given to a QP for which no row was left */
};

/* A connected QP. Rows of number 0: it has none. */
struct known_qp {
    struct known_qp *next;
    struct ibv_qp *qp;
    struct pair *pair;
    uint64_t generation; /* of the table when it was looked up */
    struct qp_record record;
    bool sends; /* it is in RTS */
};

typedef int modify_function(struct ibv_qp *, struct ibv_qp_attr *, int);
typedef int destroy_function(struct ibv_qp *);
typedef int move_function(struct ibv_qp *, uint16_t);

static modify_function *real_modify;
static destroy_function *real_destroy;
static int (*real_gid)(struct ibv_context *, uint8_t, int, union ibv_gid *);
static int (*real_gid_entry)(struct ibv_context *, uint32_t, uint32_t, struct ibv_gid_entry *, uint32_t, size_t);
static move_function *device_move;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct pair *pairs[BUCKETS];
static struct known_qp *qps[BUCKETS];
static bool is_off, moves, is_ending;
static uint64_t seen;

static void before_fork(void) { pthread_mutex_lock(&lock); }
static void in_parent(void) { pthread_mutex_unlock(&lock); }

/* The QPs, the locks and the thread are those of the parent. */
static void in_child(void)
{
    for (int n = 0; n < BUCKETS; n++) {
        for (struct known_qp *each; (each = qps[n]);) {
            qps[n] = each->next;
            free(each);
        }
        for (struct pair *each; (each = pairs[n]);) {
            pairs[n] = each->next;
            free(each->taken);
            free(each);
        }
    }
    shared_close(&table);
    shared_close(&ring);
    moves = false;
    pthread_mutex_unlock(&lock);
}

__attribute__((constructor)) static void begin(void)
{
    /* By its path: this library has the same name. */
    void *real = dlopen(REAL_LIBRARY, RTLD_LAZY | RTLD_NOLOAD);
    real_modify = dlvsym(real ? real : RTLD_NEXT, "ibv_modify_qp", "IBVERBS_1.1");
    real_destroy = dlvsym(real ? real : RTLD_NEXT, "ibv_destroy_qp", "IBVERBS_1.1");
    real_gid = dlvsym(real ? real : RTLD_NEXT, "ibv_query_gid", "IBVERBS_1.1");
    real_gid_entry = dlvsym(real ? real : RTLD_NEXT, "_ibv_query_gid_ex", "IBVERBS_1.11");
    is_off = !strcmp(setting("FAIRSPINE_VERBS", "on"), "off");
    pthread_atfork(before_fork, in_parent, in_child);
}

__attribute__((destructor)) static void end(void)
{
    pthread_mutex_lock(&lock);
    is_ending = true;
    pthread_mutex_unlock(&lock);
}

/* The port that Linux 5.8 and later derive of both QP numbers. */
static uint16_t derived_port(uint64_t local, uint64_t remote)
{
    uint64_t product = local * remote;
    product ^= product >> 20;
    product ^= product >> 40;
    return ibv_flow_label_to_udp_sport(product & IB_GRH_FLOWLABEL_MASK);
}

/* A label of which a device makes this port; never 0, which means that there is none. */
static uint32_t label_of(uint16_t port)
{
    uint32_t low = port & 0x3FFF;
    return low ? low : 1u << 14 | 1;
}

static struct pair *pair_of(const uint8_t gids[GIDS_BYTES])
{
    struct pair **at = &pairs[crc32_of(0, gids, GIDS_BYTES) % BUCKETS];
    for (struct pair *each = *at; each; each = each->next)
        if (!memcmp(each->gids, gids, GIDS_BYTES))
            return each;
    struct pair *made = calloc(1, sizeof *made);
    if (made) {
        memcpy(made->gids, gids, GIDS_BYTES);
        made->next = *at;
        *at = made;
    }
    return made;
}

static bool is_taken(const struct pair *pair, uint32_t number)
{
    return number / 8 < pair->bytes && pair->taken[number / 8] & 1u << number % 8;
}

static bool take(struct pair *pair, uint32_t number)
{
    if (number / 8 >= pair->bytes) {
        uint32_t bytes = number / 8 + 32;
        uint8_t *taken = realloc(pair->taken, bytes);
        if (!taken)
            return false;
        memset(taken + pair->bytes, 0, bytes - pair->bytes);
        pair->taken = taken;
        pair->bytes = bytes;
    }
    if (!claim_row(pair->gids, number))
        return false;
    pair->taken[number / 8] |= 1u << number % 8;
    return true;
}

static void release(struct pair *pair, struct qp_record *record)
{
    if (record->number && !(record->flags & PORT_SHARED)) {
        pair->taken[record->number / 8] &= ~(1u << record->number % 8);
        release_row(pair->gids, record->number);
        if (record->number < pair->next_number)
            pair->next_number = record->number;
    }
    record->flags &= ~(PORT_PLANNED | PORT_SHARED);
    record->number = 0;
}

/* Take the first row at `next` or behind it that nobody has. */
static enum answer first_free(struct pair *pair, struct port_row *row)
{
    for (;; pair->next_number = row->number + 1u) {
        enum answer answer = table_row(pair->gids, pair->next_number, row);
        if (answer != ANSWER_ROW || (!is_taken(pair, row->number) && take(pair, row->number)))
            return answer;
    }
}

/* Give a QP a row that no other QP of this host has; if there is none left, one of them in turn. */
static bool assign(struct pair *pair, struct qp_record *record, bool may_share)
{
    struct port_row row;
    struct timespec now;
    if (!ring_ready())
        return false;
    uint16_t flags = PORT_PLANNED;
    enum answer answer = first_free(pair, &row);
    clock_gettime(CLOCK_MONOTONIC, &now);
    if (answer == ANSWER_NO_ROW && (!pair->looked || now.tv_sec > pair->looked)) {
        /* Rows of programs that have ended are free; to look for them at each QP would take too long. */
        pair->looked = now.tv_sec;
        pair->next_number = 1;
        answer = first_free(pair, &row);
    }
    if (answer == ANSWER_NO_ROW && may_share) {
        flags |= PORT_SHARED;
        if ((answer = table_row(pair->gids, pair->turn + 1u, &row)) == ANSWER_NO_ROW)
            answer = table_row(pair->gids, 1, &row);
        pair->turn = answer == ANSWER_ROW ? row.number : 0;
    }
    if (answer != ANSWER_ROW)
        return false;
    record->flags = flags;
    record->port = row.port;
    record->number = row.number;
    return true;
}

static struct known_qp **place_of(const struct ibv_qp *qp)
{
    struct known_qp **at = &qps[((uintptr_t)qp >> 5) % BUCKETS];
    while (*at && (*at)->qp != qp)
        at = &(*at)->next;
    return at;
}

static struct known_qp *taken_out(const struct ibv_qp *qp)
{
    struct known_qp **at = place_of(qp), *known = *at;
    if (known)
        *at = known->next;
    return known;
}

static void put_in(struct known_qp *known)
{
    struct known_qp **at = &qps[((uintptr_t)known->qp >> 5) % BUCKETS];
    known->next = *at;
    *at = known;
}

static void report(struct known_qp *known, enum record_kind kind)
{
    known->record.kind = kind;
    ring_report(&known->record);
}

static void close_qp(struct known_qp *known)
{
    report(known, QP_CLOSED);
    release(known->pair, &known->record);
    free(known);
}

/* Move a running QP to the port that the table has for it now. */
static void follow(struct known_qp *known)
{
    struct port_row row;
    struct qp_record *record = &known->record, before = *record;
    known->generation = table_generation();
    if (record->flags & PORT_OWN)
        return;
    bool has_own = record->flags & PORT_PLANNED && !(record->flags & PORT_SHARED);
    if ((has_own || !assign(known->pair, record, !record->number)) && record->number
        && table_row(known->pair->gids, record->number, &row) == ANSWER_ROW && row.number == record->number)
        record->port = row.port;
    int failed = record->port == before.port ? 0 : device_move(known->qp, record->port);
    if (failed) {
        notice(NOTICE_STAYS, "%s: running QPs keep their ports (%s): new ones take effect when QPs connect again",
               record->device, strerror(failed));
        if (!has_own)
            release(known->pair, record);
        *record = before;
    } else if (memcmp(record, &before, sizeof before))
        report(known, QP_MOVED);
}

static void *mover(void *unused)
{
    for (;;) {
        nanosleep(&(struct timespec){.tv_nsec = TURN_NS}, NULL);
        pthread_mutex_lock(&lock);
        if (is_ending)
            break;
        struct port_row row;
        static const uint8_t nobody[GIDS_BYTES];
        /* This finds out, too, whether the agent runs. */
        if (table_generation() != seen && table_row(nobody, 0, &row) != ANSWER_NO_TABLE) {
            seen = table_generation();
            for (int n = 0; n < BUCKETS; n++)
                for (struct known_qp *each = qps[n]; each; each = each->next)
                    if (each->sends && each->generation != seen)
                        follow(each);
        }
        pthread_mutex_unlock(&lock);
    }
    pthread_mutex_unlock(&lock);
    return unused;
}

/* Begin to look for new ports, if the library of the device can change those of running QPs. */
static void begin_moves(void)
{
    if (!device_move) {
        void *library = dlopen("libmlx5.so.1", RTLD_LAZY | RTLD_NOLOAD);
        device_move = library ? (move_function *)dlvsym(library, "mlx5dv_modify_qp_udp_sport", "MLX5_1.17") : NULL;
    }
    if (!device_move || moves)
        return;
    sigset_t all, before;
    pthread_t thread;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    moves = pthread_create(&thread, NULL, mover, NULL) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (moves)
        pthread_detach(thread);
}

/* Write both GIDs of a RoCEv2 route; false: it is none. */
static bool gids_of(struct ibv_qp *qp, const struct ibv_ah_attr *to, uint8_t gids[GIDS_BYTES])
{
    struct ibv_gid_entry entry = {.gid_type = IBV_GID_TYPE_ROCE_V2};
    int failed = ENOSYS;
    if (real_gid_entry)
        failed = real_gid_entry(qp->context, to->port_num, to->grh.sgid_index, &entry, 0, sizeof entry);
    else if (real_gid)
        failed = real_gid(qp->context, to->port_num, to->grh.sgid_index, &entry.gid);
    if (failed) {
        notice(NOTICE_GID, "%s: the GID of a QP cannot be read; its port stays that of the device",
               qp->context->device->name);
        return false;
    }
    memcpy(gids, entry.gid.raw, sizeof entry.gid);
    memcpy(gids + sizeof entry.gid, to->grh.dgid.raw, sizeof entry.gid);
    return entry.gid_type == IBV_GID_TYPE_ROCE_V2;
}

static int connect_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask, const uint8_t gids[GIDS_BYTES])
{
    struct known_qp *known = calloc(1, sizeof *known);
    if (!known)
        return real_modify(qp, attr, mask);
    struct qp_record *record = &known->record;
    known->qp = qp;
    record->qp = qp->qp_num;
    record->remote_qp = attr->dest_qp_num;
    memcpy(record->local, gids, GIDS_BYTES);
    snprintf(record->device, sizeof record->device, "%.19s", qp->context->device->name);
    record->flags = PORT_DERIVED;
    record->port = derived_port(qp->qp_num, attr->dest_qp_num);
    if (attr->ah_attr.grh.flow_label) {
        record->flags = PORT_OWN;
        record->port = ibv_flow_label_to_udp_sport(attr->ah_attr.grh.flow_label);
    }
    pthread_mutex_lock(&lock);
    struct known_qp *before = taken_out(qp);
    if (before)
        close_qp(before);
    begin_moves();
    struct qp_record unplanned = *record;
    bool planned = (known->pair = pair_of(gids)) && record->flags != PORT_OWN && assign(known->pair, record, true);
    known->generation = table_generation();
    if (planned && record->port < FIRST_PORT) {
        notice(NOTICE_LOW_PORT, "port %u is below %u: no flow label gives it; the QP keeps the port of the device",
               record->port, FIRST_PORT);
        planned = false;
    }
    pthread_mutex_unlock(&lock);

    /* The caller's struct stays as it is, and old programs have a shorter one. */
    struct ibv_qp_attr labelled = {0};
    memcpy(&labelled, attr, mask & IBV_QP_RATE_LIMIT ? sizeof labelled : offsetof(struct ibv_qp_attr, rate_limit));
    labelled.ah_attr.grh.flow_label = planned ? label_of(record->port) : attr->ah_attr.grh.flow_label;
    int failed = planned ? real_modify(qp, &labelled, mask) : real_modify(qp, attr, mask);
    if (failed && planned && !(failed = real_modify(qp, attr, mask))) {
        notice(NOTICE_REFUSED, "%s: refuses flow labels; ports stay those of the device", record->device);
        planned = false;
    }
    int number = errno;
    pthread_mutex_lock(&lock);
    if ((failed || !planned) && known->pair) {
        release(known->pair, record);
        record->flags = unplanned.flags;
        record->port = unplanned.port;
    }
    if (failed || !known->pair)
        free(known);
    else {
        if (planned)
            notice(NOTICE_WORKS, "%s: QPs get the ports of the agent", record->device);
        put_in(known);
        report(known, QP_CONNECTED);
    }
    pthread_mutex_unlock(&lock);
    errno = number;
    return failed;
}

OWN int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
    if (is_off || !(mask & IBV_QP_STATE))
        return real_modify(qp, attr, mask);
    uint8_t gids[GIDS_BYTES];
    if (attr->qp_state == IBV_QPS_RTR && mask & IBV_QP_AV && mask & IBV_QP_DEST_QPN && qp->qp_type == IBV_QPT_RC
        && attr->ah_attr.is_global && gids_of(qp, &attr->ah_attr, gids))
        return connect_qp(qp, attr, mask, gids);
    enum ibv_qp_state state = attr->qp_state;
    int failed = real_modify(qp, attr, mask);
    if (failed || (state != IBV_QPS_RTS && state != IBV_QPS_RESET))
        return failed;
    int number = errno;
    pthread_mutex_lock(&lock);
    if (state == IBV_QPS_RESET) {
        struct known_qp *known = taken_out(qp);
        if (known)
            close_qp(known);
    } else if (*place_of(qp)) {
        struct known_qp *known = *place_of(qp);
        known->sends = true;
        if (known->generation != table_generation())
            seen = 0;
    }
    pthread_mutex_unlock(&lock);
    errno = number;
    return failed;
}

OWN int ibv_destroy_qp(struct ibv_qp *qp)
{
    if (is_off)
        return real_destroy(qp);
    pthread_mutex_lock(&lock);
    struct known_qp *known = taken_out(qp);
    pthread_mutex_unlock(&lock);
    int failed = real_destroy(qp), number = errno;
    if (known) {
        pthread_mutex_lock(&lock);
        if (failed)
            put_in(known);
        else
            close_qp(known);
        pthread_mutex_unlock(&lock);
    }
    errno = number;
    return failed;
}
