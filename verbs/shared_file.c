/* The files that are shared with the agent: mapped, and looked at whether they are still the ones to use. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "internal.h"

#define MOST_ROWS (1u << 22)

uint32_t crc32_of(uint32_t before, const void *bytes, size_t many)
{
    static uint32_t remainders[256];
    if (!remainders[1])
        for (uint32_t n = 256; n-- > 0;) {
            uint32_t rest = n;
            for (int bit = 0; bit < 8; bit++)
                rest = rest & 1 ? rest >> 1 ^ 0xEDB88320u : rest >> 1;
            remainders[n] = rest;
        }
    uint32_t rest = ~before;
    for (const uint8_t *next = bytes; many-- > 0; next++)
        rest = remainders[(rest ^ *next) & 0xFF] ^ rest >> 8;
    return ~rest;
}

bool lock_byte(int file, short type, uint64_t at)
{
    struct flock lock = {.l_type = type, .l_whence = SEEK_SET, .l_start = (off_t)at, .l_len = 1};
    return fcntl(file, F_OFD_SETLK, &lock) == 0;
}

bool is_locked(int file, uint64_t at)
{
    struct flock lock = {.l_type = F_RDLCK, .l_whence = SEEK_SET, .l_start = (off_t)at, .l_len = 1};
    return fcntl(file, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

void shared_close(struct shared_file *shared)
{
    if (shared->header)
        munmap(shared->header, shared->bytes);
    if (shared->file >= 0)
        close(shared->file);
    shared->header = NULL;
    shared->file = -1;
}

bool shared_refused(struct shared_file *shared, enum notice reason, const char *why)
{
    char path[PATH_MAX];
    file_path(path, sizeof path, shared->name);
    notice(reason, "%s: %s; %s", path, why, shared->consequence);
    shared_close(shared);
    return false;
}

/* Return whether the file is mapped, is the one of its name, and has what it should have. */
bool shared_ready(struct shared_file *shared)
{
    /* A page that a shorter file does not have must not be read. */
    struct stat about;
    if (shared->header && fstat(shared->file, &about) == 0 && about.st_size >= (off_t)shared->bytes
        && __atomic_load_n(&shared->header->state, __ATOMIC_ACQUIRE) == FILE_IN_USE)
        return true;
    shared_close(shared);
    char path[PATH_MAX], why[80];
    file_path(path, sizeof path, shared->name);
    shared->file = open(path, (shared->writes ? O_RDWR : O_RDONLY) | O_CLOEXEC);
    if (shared->file < 0 || fstat(shared->file, &about))
        return shared_refused(shared, shared->no_file, strerror(errno));
    shared->bytes = about.st_size;
    if (shared->bytes < sizeof *shared->header)
        return shared_refused(shared, shared->no_file + 1, shared->lacks);
    int protection = shared->writes ? PROT_READ | PROT_WRITE : PROT_READ;
    struct file_header *header = mmap(NULL, shared->bytes, protection, MAP_SHARED, shared->file, 0);
    if (header == MAP_FAILED)
        return shared_refused(shared, shared->no_file, strerror(errno));
    shared->header = header;
    shared->is_new = true;
    shared->capacity = __atomic_load_n(&header->capacity, __ATOMIC_RELAXED);
    if (header->magic != shared->magic || !shared->capacity || shared->capacity > MOST_ROWS
        || header->row_bytes != shared->row_bytes
        || sizeof *header + (uint64_t)shared->copies * shared->capacity * shared->row_bytes > shared->bytes)
        return shared_refused(shared, shared->no_file + 1, shared->lacks);
    snprintf(why, sizeof why, "has layout %u, and this library reads %u", header->version, LAYOUT_VERSION);
    return header->version == LAYOUT_VERSION || shared_refused(shared, shared->no_file + 2, why);
}
