/* In place of libmlx5.so.1: the one function of it that changes the port of a running QP. */
#include <errno.h>
#include <stdlib.h>

#include "device.h"

int mlx5dv_modify_qp_udp_sport(struct ibv_qp *qp, uint16_t port)
{
    if (getenv("TEST_DEVICE_STAYS"))
        return EOPNOTSUPP;
    if (qp->state != IBV_QPS_RTS)
        return EINVAL;
    __atomic_store_n(&((struct test_qp *)qp)->moved_to, port, __ATOMIC_RELAXED);
    return 0;
}
