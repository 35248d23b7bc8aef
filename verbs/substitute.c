/* A substitute of libibverbs.so.1 that gives each RC QP the UDP source port and the pace that an agent has for
 * it.
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
#include <search.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "agent_files.h"
#include "notices.h"

#define OWN __attribute__((visibility("default")))
#define TURN_NS 20000000 /* between two looks for ports and paces that have changed */

/* Two GIDs, and the rows that QPs of this process have. */
struct pair {
    uint8_t gids[GIDS_BYTES];
    uint32_t next_number;      /* rows before it are taken, or were */
    time_t looked;             /* when all rows were looked at */
    uint16_t turn;             /* the last number that was given to a QP for which no row was left */
    uint16_t holders[1 << 16]; /* QPs by number; pages that are not used take no memory */
};

/* A connected QP. The row of number 0: it has none. */
struct known_qp {
    struct ibv_qp *qp;
    struct pair *pair;
    uint64_t generation; /* of the table when it was looked up */
    struct qp_record record;
    uint32_t planned_kbps, asked_kbps; /* the pace of its row, and of the device; 0: none */
    bool sends;                        /* it is in RTS */
    bool stays;                        /* the device does not move it */
    bool own_limit;                    /* the program has set a limit itself */
};

static int (*real_modify)(struct ibv_qp *, struct ibv_qp_attr *, int);
static int (*real_destroy)(struct ibv_qp *);
static int (*real_gid_entry)(struct ibv_context *, uint32_t, uint32_t, struct ibv_gid_entry *, uint32_t, size_t);
static int (*device_move)(struct ibv_qp *, uint16_t);

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void *pairs, *qps; /* trees (tsearch(3)) */
static bool is_off, follows, is_ending;
static uint64_t generation; /* of the table, as it was seen last; 0: there is none */
static bool is_changed;     /* how many QPs share a row */

static void before_fork(void) { pthread_mutex_lock(&lock); }
static void in_parent(void) { pthread_mutex_unlock(&lock); }

/* The QPs, the locks and the thread are those of the parent. */
static void in_child(void)
{
    tdestroy(qps, free);
    tdestroy(pairs, free);
    pairs = qps = NULL;
    close_files();
    follows = false;
    pthread_mutex_unlock(&lock);
}

__attribute__((constructor)) static void begin(void)
{
    /* By its path: this library has the same name. */
    void *real = dlopen(REAL_LIBRARY, RTLD_LAZY | RTLD_NOLOAD);
    real_modify = dlvsym(real ? real : RTLD_NEXT, "ibv_modify_qp", "IBVERBS_1.1");
    real_destroy = dlvsym(real ? real : RTLD_NEXT, "ibv_destroy_qp", "IBVERBS_1.1");
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

/* A label of which a device makes this port; never 0, which means that there is none. */
static uint32_t label_of(uint16_t port) { return port & 0x3FFF ? port & 0x3FFF : 1u << 14 | 1; }

static int by_gids(const void *one, const void *other) { return memcmp(one, other, GIDS_BYTES); }

static struct pair *pair_of(const uint8_t gids[GIDS_BYTES])
{
    struct pair **at = tfind(gids, &pairs, by_gids), *made = at ? *at : calloc(1, sizeof *made);
    if (!at && made) {
        memcpy(made->gids, gids, GIDS_BYTES);
        tsearch(made, &pairs, by_gids);
    }
    return made;
}

/* QPs that share a row share its pace. */
static void drop(struct pair *pair, uint16_t number)
{
    if (!number)
        return;
    is_changed = true;
    if (--pair->holders[number])
        return;
    lock_row(false, pair->gids, number);
    if (number < pair->next_number)
        pair->next_number = number;
}

/* Take the first row at `next_number` or behind it that nobody has. */
static enum answer first_free(struct pair *pair, struct port_row *row)
{
    for (;; pair->next_number = row->number + 1u) {
        enum answer answer = table_row(pair->gids, pair->next_number, row);
        if (answer != ANSWER_ROW || (!pair->holders[row->number] && lock_row(true, pair->gids, row->number)))
            return answer;
    }
}

/* Give a QP a row that no other QP of this host has; if there is none left, one of them in turn. */
static bool assign(struct known_qp *known, bool may_share)
{
    struct pair *pair = known->pair;
    struct qp_record *record = &known->record;
    struct port_row row;
    time_t now = time(NULL);
    unsigned flags = PORT_PLANNED;
    enum answer answer = ring_ready() ? first_free(pair, &row) : ANSWER_NO_TABLE;
    if (answer == ANSWER_NO_ROW && now != pair->looked) {
        /* Rows of programs that have ended are free; to look for them at each QP would take too long. */
        pair->looked = now;
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
    is_changed |= pair->holders[row.number]++ > 0;
    drop(pair, record->number);
    record->flags = flags | (record->flags & QP_PACED);
    record->port = row.port;
    record->number = row.number;
    known->planned_kbps = row.kbps;
    return true;
}

static int by_qp(const void *one, const void *other)
{
    const struct ibv_qp *left = ((const struct known_qp *)one)->qp, *right = ((const struct known_qp *)other)->qp;
    return (left > right) - (left < right);
}

static struct known_qp *known_of(struct ibv_qp *qp)
{
    struct known_qp **at = tfind(&(struct known_qp){.qp = qp}, &qps, by_qp);
    return at ? *at : NULL;
}

static struct known_qp *taken_out(struct ibv_qp *qp)
{
    struct known_qp *known = known_of(qp);
    if (known)
        tdelete(known, &qps, by_qp);
    return known;
}

static void close_qp(struct known_qp *known)
{
    if (!known)
        return;
    ring_report(&known->record, QP_CLOSED);
    drop(known->pair, known->record.number);
    free(known);
}

/* Return the rates in kbit/s at which a device can keep RC QPs; the highest is 0: it cannot. */
static struct ibv_packet_pacing_caps rates_of(struct ibv_qp *qp)
{
    struct ibv_device_attr_ex about = {0};
    struct verbs_context *device = verbs_get_ctx_op(qp->context, query_device_ex);
    bool is_known = device && !device->query_device_ex(qp->context, NULL, &about, sizeof about);
    bool is_able = is_known && about.packet_pacing_caps.supported_qpts & 1u << IBV_QPT_RC;
    return is_able ? about.packet_pacing_caps : (struct ibv_packet_pacing_caps){0};
}

/* Make the device keep the pace of a running QP, or lift it. */
static void pace(struct known_qp *known)
{
    struct qp_record *record = &known->record;
    uint32_t kbps = known->planned_kbps ? known->planned_kbps / known->pair->holders[record->number] : 0;
    if (known->own_limit || kbps == known->asked_kbps)
        return;
    known->asked_kbps = kbps;
    struct ibv_packet_pacing_caps rates = rates_of(known->qp);
    /* No limit, rather than one that is lower than the pace. */
    struct ibv_qp_rate_limit_attr limit = {.rate_limit = kbps > rates.qp_rate_limit_max ? 0 : kbps};
    if (kbps && kbps < rates.qp_rate_limit_min)
        limit.rate_limit = rates.qp_rate_limit_min;
    int failed = rates.qp_rate_limit_max ? ibv_modify_qp_rate_limit(known->qp, &limit) : EOPNOTSUPP;
    record->flags &= ~QP_PACED;
    if (failed)
        notice("%s: does not keep the paces of QPs (%s)", record->device, strerror(failed));
    else if (limit.rate_limit) {
        notice("%s: QPs keep the paces of the agent", record->device);
        record->flags |= QP_PACED;
    }
}

/* Find what the table has for a running QP now, and move it there. */
static void look_up(struct known_qp *known)
{
    struct port_row row;
    struct qp_record *record = &known->record;
    uint16_t before = record->port;
    known->generation = generation;
    known->planned_kbps = 0;
    /* Without an agent, nobody knows whether the pace is still right. */
    if (!generation || record->flags & PORT_OWN)
        return;
    bool has_own = record->flags & PORT_PLANNED && !(record->flags & PORT_SHARED);
    if ((has_own || known->stays || !assign(known, !record->number)) && record->number
        && table_row(known->pair->gids, record->number, &row) == ANSWER_ROW && row.number == record->number) {
        record->port = row.port;
        known->planned_kbps = row.kbps;
    }
    int failed = record->port == before ? 0 : known->stays ? EOPNOTSUPP : device_move(known->qp, record->port);
    if (!failed)
        return;
    notice("%s: running QPs keep their ports (%s): new ones take effect when QPs connect again", record->device,
           strerror(failed));
    known->stays = true;
    record->port = before;
}

static void follow(struct known_qp *known)
{
    struct qp_record before = known->record;
    if (known->generation != generation)
        look_up(known);
    pace(known);
    if (memcmp(&before, &known->record, sizeof before))
        ring_report(&known->record, QP_MOVED);
}

static void visit(const void *node, VISIT order, int depth)
{
    struct known_qp *known = *(struct known_qp *const *)node;
    if ((order == postorder || order == leaf) && known->sends && depth >= 0)
        follow(known);
}

static void *follower(void *unused)
{
    uint64_t followed = UINT64_MAX;
    for (;;) {
        nanosleep(&(struct timespec){.tv_nsec = TURN_NS}, NULL);
        pthread_mutex_lock(&lock);
        if (is_ending)
            break;
        generation = table_generation();
        if (generation != followed || is_changed)
            twalk(qps, visit);
        followed = generation;
        is_changed = false;
        pthread_mutex_unlock(&lock);
    }
    pthread_mutex_unlock(&lock);
    return unused;
}

/* Begin to look for new ports and paces, if the device can change those of running QPs. */
static void begin_to_follow(struct ibv_qp *qp)
{
    void *library = follows ? NULL : dlopen("libmlx5.so.1", RTLD_LAZY | RTLD_NOLOAD);
    if (library)
        device_move = dlvsym(library, "mlx5dv_modify_qp_udp_sport", "MLX5_1.17");
    if (follows || (!device_move && !rates_of(qp).qp_rate_limit_max))
        return;
    sigset_t all, before;
    pthread_t thread;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    follows = pthread_create(&thread, NULL, follower, NULL) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (follows)
        pthread_detach(thread);
}

/* Return a QP that is about to get a RoCEv2 route, with both GIDs; NULL: it is another one. */
static struct known_qp *new_qp(struct ibv_qp *qp, const struct ibv_ah_attr *to)
{
    struct known_qp *known = calloc(1, sizeof *known);
    struct ibv_gid_entry entry = {0};
    if (!real_gid_entry || real_gid_entry(qp->context, to->port_num, to->grh.sgid_index, &entry, 0, sizeof entry))
        notice("%s: the GID of a QP cannot be read; its port stays that of the device", qp->context->device->name);
    if (!known || entry.gid_type != IBV_GID_TYPE_ROCE_V2) {
        free(known);
        return NULL;
    }
    memcpy(known->record.gids, entry.gid.raw, sizeof entry.gid);
    memcpy(known->record.gids + sizeof entry.gid, to->grh.dgid.raw, sizeof entry.gid);
    return known;
}

/* Say that a QP has the port that it has without this library. */
static void as_without(struct known_qp *known, uint32_t label)
{
    drop(known->pair, known->record.number);
    known->record.number = known->planned_kbps = 0;
    known->record.flags = label ? PORT_OWN : PORT_DERIVED;
    known->record.port = label ? ibv_flow_label_to_udp_sport(label) : 0;
}

static int connect_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask, struct known_qp *known)
{
    uint32_t own = attr->ah_attr.grh.flow_label, label = 0;
    struct qp_record *record = &known->record;
    pthread_mutex_lock(&lock);
    close_qp(taken_out(qp));
    begin_to_follow(qp);
    known->qp = qp;
    known->stays = !device_move;
    known->generation = generation = table_generation();
    known->pair = pair_of(record->gids);
    record->qp = qp->qp_num;
    record->remote_qp = attr->dest_qp_num;
    snprintf(record->device, sizeof record->device, "%.19s", qp->context->device->name);
    as_without(known, own);
    if (known->pair && !own && assign(known, true) && record->port >= IB_ROCE_UDP_ENCAP_VALID_PORT_MIN)
        label = label_of(record->port);
    else if (record->number)
        notice("port %u is below %u: no flow label gives it; the QP keeps the port of the device", record->port,
               IB_ROCE_UDP_ENCAP_VALID_PORT_MIN);
    pthread_mutex_unlock(&lock);

    /* The caller's struct stays as it is, and old programs have a shorter one. */
    struct ibv_qp_attr labelled = {0};
    memcpy(&labelled, attr, mask & IBV_QP_RATE_LIMIT ? sizeof labelled : offsetof(struct ibv_qp_attr, rate_limit));
    labelled.ah_attr.grh.flow_label = label;
    int failed = real_modify(qp, label ? &labelled : attr, mask);
    if (failed && label && !(failed = real_modify(qp, attr, mask))) {
        notice("%s: refuses flow labels; ports stay those of the device", record->device);
        label = 0;
    }
    int number = errno;
    pthread_mutex_lock(&lock);
    if (label && !failed)
        notice("%s: QPs get the ports of the agent", record->device);
    else
        as_without(known, own);
    if (failed || !known->pair || !tsearch(known, &qps, by_qp)) {
        drop(known->pair, record->number);
        free(known);
    } else
        ring_report(record, QP_CONNECTED);
    pthread_mutex_unlock(&lock);
    errno = number;
    return failed;
}

OWN int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
    if (is_off || !(mask & IBV_QP_STATE))
        return real_modify(qp, attr, mask);
    struct known_qp *known = NULL;
    enum ibv_qp_state state = attr->qp_state;
    if (state == IBV_QPS_RTR && mask & IBV_QP_AV && mask & IBV_QP_DEST_QPN && qp->qp_type == IBV_QPT_RC
        && attr->ah_attr.is_global && (known = new_qp(qp, &attr->ah_attr)))
        return connect_qp(qp, attr, mask, known);
    int failed = real_modify(qp, attr, mask);
    if (failed || (state != IBV_QPS_RTS && state != IBV_QPS_RESET))
        return failed;
    pthread_mutex_lock(&lock);
    known = known_of(qp);
    if (state == IBV_QPS_RESET)
        close_qp(taken_out(qp));
    else if (known) {
        known->sends = true;
        known->own_limit |= (mask & IBV_QP_RATE_LIMIT) != 0;
        follow(known);
    }
    pthread_mutex_unlock(&lock);
    return 0;
}

OWN int ibv_destroy_qp(struct ibv_qp *qp)
{
    /* A QP that is gone must not be followed, and another one may get its address at once. */
    pthread_mutex_lock(&lock);
    struct known_qp *known = taken_out(qp);
    pthread_mutex_unlock(&lock);
    int failed = real_destroy(qp), number = errno;
    pthread_mutex_lock(&lock);
    if (!failed || (known && !tsearch(known, &qps, by_qp)))
        close_qp(known);
    pthread_mutex_unlock(&lock);
    errno = number;
    return failed;
}
