/* libfairspine-tcp: a preloaded library that lets the port agent of the host choose the source port of each TCP
 * connection, by which the routers' hash leads it over its planned path (docs/how-to/tcp-programs.md).
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
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define VERSION 1
#define PATIENCE_MS 3000  /* the agent answers within two seconds */
#define QUIET_SECONDS 10  /* after an agent that did not answer in time */
#define TRIES 4           /* ports of which another program may be quicker */
#define NONE 0

enum notice { NOTICE_ABSENT, NOTICE_LATE, NOTICE_TOLD, NOTICE_TAKEN, NOTICE_WORKS };

typedef int (*with_address)(int, const struct sockaddr *, socklen_t);
typedef int (*asks_address)(int, struct sockaddr *, socklen_t *);

/* What the program would call without this library. */
#define REAL(type, name) ((type)dlsym(RTLD_NEXT, name))

static const char *setting(const char *name, const char *otherwise)
{
    const char *value = secure_getenv(name);
    return value && *value ? value : otherwise;
}

/* Write one line for each reason, once in a process. */
static void __attribute__((format(printf, 2, 3))) notice(enum notice reason, const char *format, ...)
{
    static unsigned told;
    if (__atomic_fetch_or(&told, 1u << reason, __ATOMIC_RELAXED) & 1u << reason)
        return;
    char text[400], line[500];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    int size = snprintf(line, sizeof line, "fairspine-tcp[%d]: %s\n", (int)getpid(), text);
    ssize_t written = write(STDERR_FILENO, line, size); /* where nothing can be written, nobody can be told */
    (void)written;
}

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
        notice(NOTICE_ABSENT, "FAIRSPINE_TCP_SOCKET is too long; ports are those of the system");
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
        notice(NOTICE_ABSENT, "%s: %s; no agent chooses ports, which are those of the system", name, strerror(errno));
    } else {
        struct pollfd waits = {.fd = agent, .events = POLLIN};
        ssize_t size = poll(&waits, 1, PATIENCE_MS) > 0 ? recv(agent, answer, bytes - 1, MSG_DONTWAIT) : -1;
        if (size > 0) {
            answer[size] = 0;
            is_answered = true;
        } else {
            __atomic_store_n(&quiet_until, seconds_now() + QUIET_SECONDS, __ATOMIC_RELAXED);
            notice(NOTICE_LATE, "%s: the agent does not answer; ports are those of the system", name);
        }
    }
    close(agent);
    return is_answered;
}

static bool is_tcp(int socket)
{
    int domain, kind, protocol;
    socklen_t size = sizeof(int);
    return !getsockopt(socket, SOL_SOCKET, SO_DOMAIN, &domain, &size) && domain == AF_INET
           && !getsockopt(socket, SOL_SOCKET, SO_TYPE, &kind, &size) && kind == SOCK_STREAM
           && !getsockopt(socket, SOL_SOCKET, SO_PROTOCOL, &protocol, &size) && protocol == IPPROTO_TCP;
}

static bool is_loopback(const struct sockaddr_in *address)
{
    return ntohl(address->sin_addr.s_addr) >> 24 == 127;
}

/* Bind the port that the agent chooses, if the socket has none, and one is planned. */
static void choose_port(int socket, const struct sockaddr_in *peer)
{
    struct sockaddr_in own;
    socklen_t size = sizeof own;
    if (!is_tcp(socket) || REAL(asks_address, "getsockname")(socket, (struct sockaddr *)&own, &size) || own.sin_port)
        return;
    char local[INET_ADDRSTRLEN], remote[INET_ADDRSTRLEN], question[80], answer[256], source[INET_ADDRSTRLEN];
    inet_ntop(AF_INET, &own.sin_addr, local, sizeof local);
    inet_ntop(AF_INET, &peer->sin_addr, remote, sizeof remote);
    snprintf(question, sizeof question, "%d %s %s %u", VERSION, local, remote, ntohs(peer->sin_port));
    for (int n = 0; n < TRIES; n++) {
        unsigned port = NONE;
        if (!asked(question, answer, sizeof answer))
            return;
        if (*answer == '!') {
            notice(NOTICE_TOLD, "%s:%u has a port of the system:%s", remote, ntohs(peer->sin_port), answer + 1);
            return;
        }
        if (sscanf(answer, "%u %15s", &port, source) != 2 || port > 65535
            || inet_pton(AF_INET, source, &own.sin_addr) != 1)
            return; /* nothing is planned */
        own.sin_port = htons(port);
        if (!REAL(with_address, "bind")(socket, (struct sockaddr *)&own, sizeof own)) {
            notice(NOTICE_WORKS, "connections get ports of the plan (the first one: %u, to %s)", port, remote);
            return;
        }
        if (errno != EADDRINUSE)
            break;
    }
    notice(NOTICE_TAKEN, "%s:%u: %s; it has a port of the system", remote, ntohs(peer->sin_port), strerror(errno));
}

static bool is_off(void)
{
    return !strcmp(setting("FAIRSPINE_TCP", "on"), "off");
}

__attribute__((visibility("default"))) int connect(int socket, const struct sockaddr *address, socklen_t size)
{
    int before = errno;
    const struct sockaddr_in *peer = (const struct sockaddr_in *)address;
    if (address && size >= sizeof *peer && address->sa_family == AF_INET && !is_loopback(peer) && !is_off())
        choose_port(socket, peer);
    errno = before;
    return REAL(with_address, "connect")(socket, address, size);
}

/* A socket that is bound to an address alone gets its port later, so that another one can be chosen. Linux takes
 * AF_UNSPEC for AF_INET here; OpenMPI 4.1 relies on it. */
__attribute__((visibility("default"))) int bind(int socket, const struct sockaddr *address, socklen_t size)
{
    int before = errno, yes = 1;
    const struct sockaddr_in *own = (const struct sockaddr_in *)address;
    if (address && size >= sizeof *own && (address->sa_family == AF_INET || address->sa_family == AF_UNSPEC)
        && !own->sin_port && !is_loopback(own) && !is_off() && is_tcp(socket))
        setsockopt(socket, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &yes, sizeof yes);
    errno = before;
    return REAL(with_address, "bind")(socket, address, size);
}

/* A program that asks for the port before it listens or connects gets one now. */
__attribute__((visibility("default"))) int getsockname(int socket, struct sockaddr *restrict address,
                                                       socklen_t *restrict size)
{
    asks_address real = REAL(asks_address, "getsockname");
    int before = errno, late = 0, no = 0;
    struct sockaddr_in own;
    socklen_t bytes = sizeof own;
    if (!is_off() && is_tcp(socket) && !real(socket, (struct sockaddr *)&own, &bytes) && !own.sin_port
        && (bytes = sizeof late)
        && !getsockopt(socket, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &late, &bytes) && late) {
        setsockopt(socket, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &no, sizeof no);
        REAL(with_address, "bind")(socket, (struct sockaddr *)&own, sizeof own);
    }
    errno = before;
    return real(socket, address, size);
}
