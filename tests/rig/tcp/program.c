/* A program that connects from many threads and processes, compiled together with libfairspine-tcp for sanitizers.
 *
 * program PEER PORT THREADS FORKS TIMES: each thread, and then each child, connects so many times, with sockets of IPv4
 * and of IPv6, plain, bound to an address, and asked for their port before. It prints "HOW PORT PACE" of each connection. PEER
 * is an address of its own, and nobody else listens there. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum how { PLAIN, MAPPED, BOUND, MAPPED_BOUND, ASKED, KINDS };
static const char *const names[KINDS] = {"plain", "mapped", "bound", "mapped-bound", "asked"};

static struct sockaddr_storage peer4, peer6, own4, own6;
static int times;

static void fail(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, strerror(errno));
    exit(3);
}

static void fill(struct sockaddr_storage *into4, struct sockaddr_storage *into6, const char *ip, int port)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(port)};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
    char mapped[INET6_ADDRSTRLEN];
    snprintf(mapped, sizeof mapped, "::ffff:%s", ip);
    if (inet_pton(AF_INET, ip, &v4.sin_addr) != 1 || inet_pton(AF_INET6, mapped, &v6.sin6_addr) != 1)
        fail(ip);
    memcpy(into4, &v4, sizeof v4);
    memcpy(into6, &v6, sizeof v6);
}

static void connect_once(enum how how)
{
    int is6 = how == MAPPED || how == MAPPED_BOUND;
    int one = socket(is6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    socklen_t size = is6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in), bytes = sizeof(struct sockaddr_storage);
    struct sockaddr_storage now;
    if (one < 0)
        fail("socket");
    if (how == BOUND || how == MAPPED_BOUND || how == ASKED)
        if (bind(one, (struct sockaddr *)(is6 ? &own6 : &own4), size))
            fail("bind");
    if (how == ASKED && getsockname(one, (struct sockaddr *)&now, &bytes))
        fail("getsockname");
    int asked_port = how == ASKED ? ntohs(((struct sockaddr_in *)&now)->sin_port) : 0;
    /* An address that is not aligned, as programs may give. */
    char shifted[sizeof(struct sockaddr_storage) + 1];
    memcpy(shifted + 1, is6 ? &peer6 : &peer4, size);
    if (connect(one, (struct sockaddr *)(void *)(shifted + 1), size))
        fail("connect");
    bytes = sizeof now;
    if (getsockname(one, (struct sockaddr *)&now, &bytes))
        fail("getsockname");
    int port = ntohs(is6 ? ((struct sockaddr_in6 *)&now)->sin6_port : ((struct sockaddr_in *)&now)->sin_port);
    if (how == ASKED && port != asked_port)
        fail("the port has changed");
    /* Not by stdio, whose buffer a child would have, too. */
    char line[64];
    unsigned long pace = 0;
    bytes = sizeof pace;
    if (getsockopt(one, SOL_SOCKET, SO_MAX_PACING_RATE, &pace, &bytes))
        fail("SO_MAX_PACING_RATE");
    int length = snprintf(line, sizeof line, "%s %d %lu\n", names[how], port, pace);
    if (write(STDOUT_FILENO, line, length) != length)
        fail("write");
    close(one);
}

static void *connects(void *first)
{
    for (int n = 0; n < times; n++)
        connect_once((n + *(int *)first) % KINDS);
    return NULL;
}

int main(int count, char **arguments)
{
    if (count != 6)
        return 2;
    int threads = atoi(arguments[3]), forks = atoi(arguments[4]);
    times = atoi(arguments[5]);
    fill(&peer4, &peer6, arguments[1], atoi(arguments[2]));
    fill(&own4, &own6, arguments[1], 0);
    /* The system accepts, as far as the queue goes. */
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (listener < 0 || bind(listener, (struct sockaddr *)&peer4, sizeof(struct sockaddr_in)) || listen(listener, 4096))
        fail("listen");
    pthread_t all[64];
    int firsts[64];
    for (int n = 0; n < threads; n++) {
        firsts[n] = n;
        if (pthread_create(&all[n], NULL, connects, &firsts[n]))
            fail("pthread_create");
    }
    /* Children while threads connect. */
    for (int n = 0; n < forks; n++) {
        pid_t child = fork();
        if (!child) {
            connects(&n);
            _exit(0);
        }
        int status;
        if (child < 0 || waitpid(child, &status, 0) != child || status)
            fail("a child");
    }
    for (int n = 0; n < threads; n++)
        pthread_join(all[n], NULL);
    return 0;
}
