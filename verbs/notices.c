/* Lines for people: on standard error, or in the file FAIRSPINE_VERBS_LOG. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "internal.h"

const char *setting(const char *name, const char *otherwise)
{
    const char *value = secure_getenv(name);
    return value && *value ? value : otherwise;
}

void file_path(char *path, size_t bytes, const char *name)
{
    snprintf(path, bytes, "%s/%s", setting("FAIRSPINE_VERBS_DIR", "/run/fairspine/verbs"), name);
}

void notice(enum notice reason, const char *format, ...)
{
    static unsigned told;
    if (__atomic_fetch_or(&told, 1u << reason, __ATOMIC_RELAXED) & 1u << reason)
        return;
    char line[600];
    int used = snprintf(line, sizeof line, "fairspine-verbs[%d]: ", (int)getpid());
    va_list arguments;
    va_start(arguments, format);
    int more = vsnprintf(line + used, sizeof line - used - 1, format, arguments);
    va_end(arguments);
    if (more < 0)
        return;
    used += more < (int)sizeof line - used - 1 ? more : (int)sizeof line - used - 2;
    line[used++] = '\n';
    const char *path = setting("FAIRSPINE_VERBS_LOG", NULL);
    int file = path ? open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644) : STDERR_FILENO;
    /* Where nothing can be written, nobody can be told. */
    ssize_t written = file < 0 ? 0 : write(file, line, used);
    (void)written;
    if (path && file >= 0)
        close(file);
}
