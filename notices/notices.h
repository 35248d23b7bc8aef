/* Lines for people, of the libraries that programs load: libfairspine-verbs and libfairspine-tcp. */
#ifndef FAIRSPINE_NOTICES_H
#define FAIRSPINE_NOTICES_H

#include <stdbool.h>

/* Write a line, once in a process for each place that has one. */
#define notice(...) \
    do { \
        static bool told; \
        if (!__atomic_exchange_n(&told, true, __ATOMIC_RELAXED)) \
            write_line(__VA_ARGS__); \
    } while (0)

void write_line(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Return a variable of the environment; `otherwise` if it is empty, or the program has more rights than its user. */
const char *setting(const char *name, const char *otherwise);

#endif
