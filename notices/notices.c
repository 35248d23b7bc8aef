/* Lines for people: on standard error, or in the file that the variable LOG_VARIABLE names. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "notices.h"

const char *setting(const char *name, const char *otherwise)
{
    const char *value = secure_getenv(name);
    return value && *value ? value : otherwise;
}

void write_line(const char *format, ...)
{
    char text[560];
    struct stat about;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    const char *path = setting(LOG_VARIABLE, NULL);
    int file = path ? open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644) : STDERR_FILENO;
    /* A program that has closed its standard error may have a connection there. Where nothing can be written, nobody
     * can be told. */
    if (!fstat(file, &about) && (path || !S_ISSOCK(about.st_mode)))
        dprintf(file, LIBRARY_NAME "[%d]: %s\n", (int)getpid(), text);
    if (path && file >= 0)
        close(file);
}
