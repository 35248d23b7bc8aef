/* A QP of the test's device, which remembers what it was asked for. */
#include <infiniband/verbs.h>

struct test_qp {
    struct ibv_qp qp;
    uint32_t label;
    uint16_t moved_to;
    uint32_t kbps;   /* its limit; 0: none */
    uint32_t limits; /* times that a limit was set or lifted */
    uint64_t sent;
};
