/* A provider of libibverbs without a device: its QPs have the states of real ones, and no packets.
 *
 * The structures are those of the private interface 34 of rdma-core (libibverbs/driver.h), as far as they are needed.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "device.h"

struct match {
    void *data;
    const char *pattern;
    uint16_t vendor, device;
    uint8_t kind; /* 2: by name */
};

struct driver {
    const char *name;
    uint32_t least_abi, most_abi;
    const struct match *table;
    void *static_providers, *match_device;
    struct verbs_context *(*alloc_context)(struct ibv_device *, int, void *);
    void *import_context;
    void *(*alloc_device)(void *);
    void (*uninit_device)(void *);
};

/* The functions of a context, by their places in struct verbs_context_ops. */
enum operation {
    ALLOC_PD = 5, CREATE_CQ = 15, CREATE_QP = 19, DEALLOC_PD = 26, DESTROY_CQ = 31, DESTROY_QP = 34, FREE_CONTEXT = 39,
    MODIFY_QP = 47, MODIFY_QP_RATE_LIMIT = 48, POST_SEND = 55, QUERY_DEVICE_EX = 58, QUERY_PORT = 60, OPERATIONS = 100
};

void verbs_register_driver_34(const struct driver *);
void *_verbs_init_and_alloc_context(struct ibv_device *, int, size_t, struct verbs_context *, uint32_t);
void verbs_set_ops(struct verbs_context *, void *const *);
void verbs_uninit_context(struct verbs_context *);

static uint32_t next_number = 1000;

static struct ibv_pd *alloc_pd(struct ibv_context *context)
{
    struct ibv_pd *pd = calloc(1, sizeof *pd);
    pd->context = context;
    return pd;
}

static int dealloc_pd(struct ibv_pd *pd)
{
    free(pd);
    return 0;
}

static struct ibv_cq *create_cq(struct ibv_context *context, int entries, struct ibv_comp_channel *channel, int vector)
{
    (void)context, (void)entries, (void)channel, (void)vector;
    return calloc(1, sizeof(struct ibv_cq));
}

static int destroy_cq(struct ibv_cq *cq)
{
    free(cq);
    return 0;
}

static struct ibv_qp *create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
    struct test_qp *made = calloc(1, sizeof *made);
    made->qp.context = pd->context;
    made->qp.pd = pd;
    made->qp.qp_type = attr->qp_type;
    made->qp.qp_num = __atomic_fetch_add(&next_number, 1, __ATOMIC_RELAXED);
    return &made->qp;
}

static int modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
    struct test_qp *own = (struct test_qp *)qp;
    if (mask & IBV_QP_AV) {
        if (attr->ah_attr.grh.flow_label && getenv("TEST_DEVICE_REFUSES"))
            return EINVAL;
        own->label = attr->ah_attr.grh.flow_label;
    }
    if (mask & IBV_QP_STATE)
        qp->state = attr->qp_state;
    return 0;
}

/* TEST_DEVICE_PACES: the lowest and the highest rate in kbit/s that the device keeps; without it, it keeps none. */
static int query_device_ex(struct ibv_context *context, const struct ibv_query_device_ex_input *input,
                           struct ibv_device_attr_ex *attr, size_t bytes)
{
    (void)context, (void)input, (void)bytes;
    struct ibv_packet_pacing_caps *caps = &attr->packet_pacing_caps;
    const char *rates = getenv("TEST_DEVICE_PACES");
    if (rates && sscanf(rates, "%u %u", &caps->qp_rate_limit_min, &caps->qp_rate_limit_max) == 2)
        caps->supported_qpts = 1u << IBV_QPT_RC;
    return 0;
}

/* As devices of mlx5: in RTS only. */
static int modify_qp_rate_limit(struct ibv_qp *qp, struct ibv_qp_rate_limit_attr *attr)
{
    struct test_qp *own = (struct test_qp *)qp;
    if (qp->state != IBV_QPS_RTS || getenv("TEST_DEVICE_REFUSES_PACES"))
        return EINVAL;
    __atomic_store_n(&own->kbps, attr->rate_limit, __ATOMIC_RELAXED);
    __atomic_fetch_add(&own->limits, 1, __ATOMIC_RELAXED);
    return 0;
}

static int destroy_qp(struct ibv_qp *qp)
{
    if (getenv("TEST_DEVICE_KEEPS"))
        return EBUSY;
    free(qp);
    return 0;
}

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *work, struct ibv_send_wr **bad)
{
    (void)work, (void)bad;
    ((struct test_qp *)qp)->sent++;
    return 0;
}

static int query_port(struct ibv_context *context, uint8_t number, struct ibv_port_attr *attr)
{
    (void)context, (void)number;
    attr->link_layer = IBV_LINK_LAYER_ETHERNET;
    return 0;
}

static void free_context(struct ibv_context *context)
{
    struct verbs_context *whole = verbs_get_ctx(context);
    verbs_uninit_context(whole);
    free(whole);
}

static struct verbs_context *alloc_context(struct ibv_device *device, int file, void *unused)
{
    static void *const operations[OPERATIONS] = {
        [ALLOC_PD] = alloc_pd,     [CREATE_CQ] = create_cq,   [CREATE_QP] = create_qp,       [DEALLOC_PD] = dealloc_pd,
        [DESTROY_CQ] = destroy_cq, [DESTROY_QP] = destroy_qp, [FREE_CONTEXT] = free_context, [MODIFY_QP] = modify_qp,
        [POST_SEND] = post_send,   [QUERY_PORT] = query_port,
        [MODIFY_QP_RATE_LIMIT] = modify_qp_rate_limit,  [QUERY_DEVICE_EX] = query_device_ex,
    };
    (void)unused;
    struct verbs_context *made = _verbs_init_and_alloc_context(device, file, sizeof *made, NULL, 0);
    if (!made)
        return NULL;
    verbs_set_ops(made, operations);
    /* libibverbs would ask the kernel for one. */
    made->context.async_fd = dup(file);
    return made;
}

static void *alloc_device(void *sysfs)
{
    (void)sysfs;
    /* More than a struct verbs_device. */
    return calloc(1, sizeof(struct ibv_device) + 256);
}

static const struct match names[] = {{.pattern = "rdma_device:*Nfake*", .kind = 2}, {0}};
static const struct driver driver = {
    .name = "fake",
    .most_abi = 1000,
    .table = names,
    .alloc_context = alloc_context,
    .alloc_device = alloc_device,
    .uninit_device = free,
};

__attribute__((constructor)) static void begin(void) { verbs_register_driver_34(&driver); }
