/* A program that connects QPs as it is told on standard input. It loads libibverbs as NCCL does, by dlopen and dlvsym;
 * with -DLINKED it is linked with it. libibverbs sees devices in the folder SYSFS_PATH, and /dev/null in place of theirs.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "device.h"

#define NETLINK_RDMA 20
#define MOST 100000
#define EXPORTED __attribute__((visibility("default")))

#ifdef LINKED
#define VERB(name) name
#else
static struct ibv_device **(*get_list)(int *);
static struct ibv_context *(*open_device)(struct ibv_device *);
static struct ibv_pd *(*alloc_pd)(struct ibv_context *);
static struct ibv_cq *(*create_cq)(struct ibv_context *, int, void *, struct ibv_comp_channel *, int);
static struct ibv_qp *(*create_qp)(struct ibv_pd *, struct ibv_qp_init_attr *);
static int (*modify_qp)(struct ibv_qp *, struct ibv_qp_attr *, int);
static int (*destroy_qp)(struct ibv_qp *);
#define ibv_get_device_list get_list
#define ibv_open_device open_device
#define ibv_alloc_pd alloc_pd
#undef ibv_create_cq
#define ibv_create_cq create_cq
#define ibv_create_qp create_qp
#define ibv_modify_qp modify_qp
#define ibv_destroy_qp destroy_qp

static void *symbol(void *library, const char *name)
{
    void *found = dlvsym(library, name, "IBVERBS_1.1");
    if (!found) {
        printf("error %s\n", dlerror());
        exit(1);
    }
    return found;
}

static void load(void)
{
    void *library = dlopen("libibverbs.so.1", RTLD_NOW);
    if (!library) {
        printf("error %s\n", dlerror());
        exit(1);
    }
    get_list = symbol(library, "ibv_get_device_list");
    open_device = symbol(library, "ibv_open_device");
    alloc_pd = symbol(library, "ibv_alloc_pd");
    create_cq = symbol(library, "ibv_create_cq");
    create_qp = symbol(library, "ibv_create_qp");
    modify_qp = symbol(library, "ibv_modify_qp");
    destroy_qp = symbol(library, "ibv_destroy_qp");
}
#endif

/* Devices are looked for in the folder, and not by netlink. */
EXPORTED int socket(int family, int type, int protocol)
{
    static int (*real)(int, int, int);
    if (family == AF_NETLINK && protocol == NETLINK_RDMA) {
        errno = EPROTONOSUPPORT;
        return -1;
    }
    if (!real)
        real = dlsym(RTLD_NEXT, "socket");
    return real(family, type, protocol);
}

static const char *instead(const char *path) { return strncmp(path, "/dev/infiniband/", 16) ? path : "/dev/null"; }

EXPORTED int stat(const char *path, struct stat *about)
{
    int (*real)(const char *, struct stat *) = dlsym(RTLD_NEXT, "stat");
    return real(instead(path), about);
}

EXPORTED int stat64(const char *path, struct stat64 *about) { return stat(path, (struct stat *)about); }

EXPORTED int open(const char *path, int flags, ...)
{
    va_list more;
    va_start(more, flags);
    mode_t mode = flags & O_CREAT ? va_arg(more, mode_t) : 0;
    va_end(more);
    int (*real)(const char *, int, ...) = dlsym(RTLD_NEXT, "open");
    return real(instead(path), flags, mode);
}

EXPORTED int open64(const char *path, int flags, ...)
{
    va_list more;
    va_start(more, flags);
    mode_t mode = flags & O_CREAT ? va_arg(more, mode_t) : 0;
    va_end(more);
    return open(path, flags, mode);
}

static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_qp *qps[MOST];
static int many_qps;

static struct ibv_qp *made(enum ibv_qp_type type)
{
    struct ibv_qp_init_attr attr = {.send_cq = cq, .recv_cq = cq, .qp_type = type};
    return ibv_create_qp(pd, &attr);
}

/* Bring a QP to RTR; the label is left in attr. */
static int receive(struct ibv_qp *qp, const char *to, uint32_t label, struct ibv_qp_attr *attr)
{
    memset(attr, 0, sizeof *attr);
    attr->qp_state = IBV_QPS_INIT;
    if (ibv_modify_qp(qp, attr, IBV_QP_STATE))
        return -1;
    attr->qp_state = IBV_QPS_RTR;
    attr->dest_qp_num = 77;
    attr->ah_attr.is_global = 1;
    attr->ah_attr.port_num = 1;
    attr->ah_attr.grh.sgid_index = strchr(to, '/') ? atoi(strchr(to, '/') + 1) : 0;
    attr->ah_attr.grh.flow_label = label;
    attr->ah_attr.grh.dgid.raw[10] = attr->ah_attr.grh.dgid.raw[11] = 0xFF;
    char address[32];
    snprintf(address, sizeof address, "%.*s", (int)strcspn(to, "/"), to);
    inet_pton(AF_INET, address, attr->ah_attr.grh.dgid.raw + 12);
    return ibv_modify_qp(qp, attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN);
}

static int send_too(struct ibv_qp *qp)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTS};
    return ibv_modify_qp(qp, &attr, IBV_QP_STATE);
}

static void connected(const char *to, uint32_t label, enum ibv_qp_type type)
{
    struct ibv_qp_attr attr;
    struct ibv_qp *qp = qps[many_qps] = made(type);
    int failed = receive(qp, to, label, &attr);
    failed = failed ? failed : send_too(qp);
    printf("%d %u %d %u %u\n", many_qps++, qp->qp_num, failed, ((struct test_qp *)qp)->label,
           attr.ah_attr.grh.flow_label);
}

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

struct share {
    pthread_t thread;
    const char *to;
    int first, end, failed;
};

static void *connect_share(void *argument)
{
    struct share *share = argument;
    struct ibv_qp_attr attr;
    for (int n = share->first; n < share->end; n++) {
        qps[n] = made(IBV_QPT_RC);
        share->failed += receive(qps[n], share->to, 0, &attr) || send_too(qps[n]);
    }
    return NULL;
}

static void connect_many(int many, int threads, const char *to)
{
    struct share shares[64];
    double begin = now();
    int failed = 0;
    for (int n = 0; n < threads; n++) {
        shares[n] = (struct share){.to = to, .first = many_qps + many * n / threads, .end = many_qps + many * (n + 1) / threads};
        pthread_create(&shares[n].thread, NULL, connect_share, &shares[n]);
    }
    for (int n = 0; n < threads; n++) {
        pthread_join(shares[n].thread, NULL);
        failed += shares[n].failed;
    }
    printf("%d %.9f\n", failed, now() - begin);
    many_qps += many;
}

static void destroy_all(int threads)
{
    (void)threads;
    int failed = 0;
    for (int n = 0; n < many_qps; n++)
        if (qps[n]) {
            failed += ibv_destroy_qp(qps[n]) != 0;
            qps[n] = NULL;
        }
    printf("%d\n", failed);
}

int main(void)
{
    char line[200], to[64];
    unsigned label, many, threads;
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (getenv("TEST_MLX5"))
        dlopen(getenv("TEST_MLX5"), RTLD_NOW);
#ifndef LINKED
    load();
#endif
    int number = 0;
    struct ibv_device **devices = ibv_get_device_list(&number);
    struct ibv_context *context = number ? ibv_open_device(devices[0]) : NULL;
    if (!context) {
        printf("error %d devices\n", number);
        return 1;
    }
    pd = ibv_alloc_pd(context);
    cq = ibv_create_cq(context, 1, NULL, NULL, 0);
    Dl_info where;
    dladdr((void *)ibv_modify_qp, &where);
    printf("%s %s\n", devices[0]->name, where.dli_fname);
    while (fgets(line, sizeof line, stdin)) {
        if (sscanf(line, "connect %63s %u", to, &label) == 2)
            connected(to, label, IBV_QPT_RC);
        else if (sscanf(line, "datagram %63s", to) == 1)
            connected(to, 0, IBV_QPT_UC);
        else if (sscanf(line, "many %u %u %63s", &many, &threads, to) == 3)
            connect_many(many, threads, to);
        else if (sscanf(line, "destroy %u", &many) == 1) {
            int failed = ibv_destroy_qp(qps[many]);
            qps[many] = failed ? qps[many] : NULL;
            printf("%d\n", failed);
        } else if (!strncmp(line, "end", 3))
            destroy_all(1);
        else if (sscanf(line, "reset %u", &many) == 1)
            printf("%d\n", ibv_modify_qp(qps[many], &(struct ibv_qp_attr){.qp_state = IBV_QPS_RESET}, IBV_QP_STATE));
        else if (sscanf(line, "limit %u", &many) == 1)
            printf("%d\n", ibv_modify_qp(qps[many], &(struct ibv_qp_attr){.qp_state = IBV_QPS_RTS, .rate_limit = 7},
                                         IBV_QP_STATE | IBV_QP_RATE_LIMIT));
        else if (sscanf(line, "show %u", &many) == 1)
            printf("%u %u %u %u\n", ((struct test_qp *)qps[many])->label,
                   __atomic_load_n(&((struct test_qp *)qps[many])->moved_to, __ATOMIC_RELAXED),
                   __atomic_load_n(&((struct test_qp *)qps[many])->kbps, __ATOMIC_RELAXED),
                   __atomic_load_n(&((struct test_qp *)qps[many])->limits, __ATOMIC_RELAXED));
        else if (sscanf(line, "send %u %u", &many, &label) == 2) {
            struct ibv_send_wr work = {.opcode = IBV_WR_SEND}, *bad;
            double begin = now();
            for (unsigned n = 0; n < label; n++)
                ibv_post_send(qps[many], &work, &bad);
            printf("%.9f\n", now() - begin);
        } else if (sscanf(line, "fork %63s", to) == 1) {
            int child = fork(), status;
            if (!child) {
                connected(to, 0, IBV_QPT_RC);
                fflush(stdout);
                _exit(0);
            }
            waitpid(child, &status, 0);
            printf("%d\n", status);
        } else
            printf("error %s", line);
    }
    return 0;
}
