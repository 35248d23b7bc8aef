/* libfairspine-tcp: a preloaded library that lets the port agent of the host choose the source port of each TCP
 * connection, by which the routers' hash leads it over its planned path, and its pace (docs/how-to/tcp-programs.md).
 *
 * connect() asks the agent, and binds the port. A socket that was bound to an address without a port has none until it
 * connects or listens, or the program asks for it. Whatever goes wrong, the program connects as if the library were not
 * there, and one line says so. agent/tcp/programs.py describes the messages.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <netinet/in.h>
#include <arpa/inet.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "notices.h"

#define VERSION 1
#define PATIENCE_MS 3000  /* the agent answers within two seconds */
#define QUIET_SECONDS 10  /* after an agent that did not answer in time */
#define TRIES 4           /* ports of which another program may be quicker */
#define NONE 0
#define NO_FAMILY 0

/* The IPv4 address and the port of one end of a connection, in network order. Sockets of IPv6 have such ends, too, with
 * mapped addresses (::ffff:10.0.0.1). */
struct end {
    sa_family_t family; /* of the sockaddr */
    struct in_addr ip;
    in_port_t port;
};

union address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

typedef int (*with_address)(int, const struct sockaddr *, socklen_t);
typedef int (*asks_address)(int, struct sockaddr *, socklen_t *);

/* What the program would call without this library. */
#define REAL(type, name) ((type)dlsym(RTLD_NEXT, name))

static time_t seconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec;
}

/* Ask the agent; true: `answer` has its message, as a string. */
static bool asked(const char *question, char *answer, size_t bytes)
{
    static time_t quiet_until;
    if (seconds_now() < __atomic_load_n(&quiet_until, __ATOMIC_RELAXED))
        return false;
    const char *name = setting("FAIRSPINE_TCP_SOCKET", "@fairspine-tcp");
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    size_t length = strlen(name);
    if (length >= sizeof at.sun_path) {
        notice("FAIRSPINE_TCP_SOCKET is too long; ports are those of the system");
        return false;
    }
    memcpy(at.sun_path, name, length);
    bool abstract = *name == '@';
    if (abstract)
        *at.sun_path = 0;
    int agent = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (agent < 0)
        return false;
    bool is_answered = false;
    if (REAL(with_address, "connect")(agent, (struct sockaddr *)&at,
                                      offsetof(struct sockaddr_un, sun_path) + length + !abstract)
        || send(agent, question, strlen(question), MSG_NOSIGNAL) < 0) {
        notice("%s: %s; no agent chooses ports, which are those of the system", name, strerror(errno));
    } else {
        struct pollfd waits = {.fd = agent, .events = POLLIN};
        ssize_t size = poll(&waits, 1, PATIENCE_MS) > 0 ? recv(agent, answer, bytes - 1, MSG_DONTWAIT) : -1;
        if (size > 0) {
            answer[size] = 0;
            is_answered = true;
        } else {
            __atomic_store_n(&quiet_until, seconds_now() + QUIET_SECONDS, __ATOMIC_RELAXED);
            notice("%s: the agent does not answer; ports are those of the system", name);
        }
    }
    close(agent);
    return is_answered;
}

/* The family of a TCP socket; NO_FAMILY: it is none. */
static int tcp_family(int socket)
{
    int domain, kind, protocol;
    socklen_t size = sizeof(int);
    bool is_tcp = !getsockopt(socket, SOL_SOCKET, SO_DOMAIN, &domain, &size)
                  && (domain == AF_INET || domain == AF_INET6)
                  && !getsockopt(socket, SOL_SOCKET, SO_TYPE, &kind, &size) && kind == SOCK_STREAM
                  && !getsockopt(socket, SOL_SOCKET, SO_PROTOCOL, &protocol, &size) && protocol == IPPROTO_TCP;
    return is_tcp ? domain : NO_FAMILY;
}

/* Read an end; false: its address is none of IPv4. Programs may give addresses that are not aligned. */
static bool ipv4_end(const struct sockaddr *address, socklen_t size, struct end *end)
{
    union address copy = {.any.sa_family = AF_UNIX};
    if (!address || size < sizeof copy.v4)
        return false;
    memcpy(&copy, address, size < sizeof copy ? size : sizeof copy);
    /* Linux takes AF_UNSPEC for AF_INET in bind; OpenMPI 4.1 relies on it. */
    if (copy.any.sa_family == AF_INET || copy.any.sa_family == AF_UNSPEC) {
        *end = (struct end){copy.any.sa_family, copy.v4.sin_addr, copy.v4.sin_port};
        return true;
    }
    if (copy.any.sa_family != AF_INET6 || size < sizeof copy.v6)
        return false;
    const struct in6_addr *ip = &copy.v6.sin6_addr;
    if (!IN6_IS_ADDR_V4MAPPED(ip) && !IN6_IS_ADDR_UNSPECIFIED(ip))
        return false;
    *end = (struct end){.family = AF_INET6, .port = copy.v6.sin6_port};
    memcpy(&end->ip, &ip->s6_addr[12], sizeof end->ip); /* 0.0.0.0 where no address is chosen */
    return true;
}

/* Ask for the own end of a socket, as the system knows it. */
static bool own_end(int socket, struct end *end, union address *own, socklen_t *size)
{
    *size = sizeof *own;
    return !REAL(asks_address, "getsockname")(socket, &own->any, size) && ipv4_end(&own->any, *size, end);
}

static int bind_to(int socket, int family, const struct end *end)
{
    union address at = {.v6 = {.sin6_family = AF_INET6, .sin6_port = end->port}};
    socklen_t size = sizeof at.v6;
    if (family == AF_INET) {
        at.v4 = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr = end->ip, .sin_port = end->port};
        size = sizeof at.v4;
    } else {
        memset(&at.v6.sin6_addr.s6_addr[10], 0xff, 2);
        memcpy(&at.v6.sin6_addr.s6_addr[12], &end->ip, sizeof end->ip);
    }
    return REAL(with_address, "bind")(socket, &at.any, size);
}

static bool is_loopback(const struct end *end)
{
    return ntohl(end->ip.s_addr) >> 24 == 127;
}

/* Bind the port that the agent chooses, if the socket has none, and one is planned. */
static void choose_port(int socket, const struct end *peer)
{
    union address before;
    struct end own;
    socklen_t size;
    int family = tcp_family(socket);
    if (family == NO_FAMILY || !own_end(socket, &own, &before, &size) || own.port)
        return;
    char local[INET_ADDRSTRLEN], remote[INET_ADDRSTRLEN], question[80], answer[256], source[INET_ADDRSTRLEN];
    inet_ntop(AF_INET, &own.ip, local, sizeof local);
    inet_ntop(AF_INET, &peer->ip, remote, sizeof remote);
    snprintf(question, sizeof question, "%d %s %s %u", VERSION, local, remote, ntohs(peer->port));
    for (int n = 0; n < TRIES; n++) {
        unsigned port = NONE;
        unsigned long pace = NONE; /* bytes a second */
        if (!asked(question, answer, sizeof answer))
            return;
        if (*answer == '!') {
            notice("%s:%u has a port of the system:%s", remote, ntohs(peer->port), answer + 1);
            return;
        }
        if (sscanf(answer, "%5u %15s %20lu", &port, source, &pace) < 2 || port == NONE || port > 65535
            || inet_pton(AF_INET, source, &own.ip) != 1)
            return; /* nothing is planned */
        own.port = htons(port);
        if (!bind_to(socket, family, &own)) {
            if (pace != NONE)
                setsockopt(socket, SOL_SOCKET, SO_MAX_PACING_RATE, &pace, sizeof pace);
            notice("connections get ports of the plan (the first one: %u, to %s)", port, remote);
            return;
        }
        if (errno != EADDRINUSE)
            break;
    }
    notice("%s:%u: %s; it has a port of the system", remote, ntohs(peer->port), strerror(errno));
}

static bool is_off(void)
{
    return !strcmp(setting("FAIRSPINE_TCP", "on"), "off");
}

__attribute__((visibility("default"))) int connect(int socket, const struct sockaddr *address, socklen_t size)
{
    int before = errno;
    struct end peer;
    /* AF_UNSPEC ends a connection. */
    if (ipv4_end(address, size, &peer) && peer.family != AF_UNSPEC && !is_loopback(&peer) && !is_off())
        choose_port(socket, &peer);
    errno = before;
    return REAL(with_address, "connect")(socket, address, size);
}

/* A socket that is bound to an address alone gets its port later, so that another one can be chosen. */
__attribute__((visibility("default"))) int bind(int socket, const struct sockaddr *address, socklen_t size)
{
    int before = errno, yes = 1;
    struct end own;
    if (ipv4_end(address, size, &own) && !own.port && !is_loopback(&own) && !is_off()
        && tcp_family(socket) != NO_FAMILY)
        setsockopt(socket, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &yes, sizeof yes);
    errno = before;
    return REAL(with_address, "bind")(socket, address, size);
}

/* A program that asks for the port before it listens or connects gets one now. */
__attribute__((visibility("default"))) int getsockname(int socket, struct sockaddr *restrict address,
                                                       socklen_t *restrict size)
{
    int before = errno, late = 0, no = 0;
    union address bound;
    struct end own;
    socklen_t bytes;
    if (!is_off() && tcp_family(socket) != NO_FAMILY && own_end(socket, &own, &bound, &bytes) && !own.port) {
        socklen_t one = sizeof late;
        if (!getsockopt(socket, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &late, &one) && late) {
            setsockopt(socket, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &no, sizeof no);
            REAL(with_address, "bind")(socket, &bound.any, bytes);
        }
    }
    errno = before;
    return REAL(asks_address, "getsockname")(socket, address, size);
}
