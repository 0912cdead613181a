/* A disk on which one operation fails: preloaded into a process, it stands between it and the C library.
 *
 * Every write, sync, rename, removal, truncation, new file and new folder below one folder is counted. The n-th of them
 * fails with the error that was asked for; or it and all after it, as on a full disk. Built by tests/faulty_disk/.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

static char root[PATH_MAX];
static long counted, failing;
static int error_number, lasting, armed;

/* Counts from now on, below this folder; the n-th operation fails (0: none), with `lasting` all after it as well. */
void faults_arm(const char *folder, long n, int error, int persistent) {
    snprintf(root, sizeof root, "%s", folder);
    counted = 0, failing = n, error_number = error, lasting = persistent, armed = 1;
}

long faults_counted(void) { return counted; }

static int below(const char *path) { return armed && path != NULL && strncmp(path, root, strlen(root)) == 0; }

static int open_below(int descriptor) {
    char link[64], path[PATH_MAX];
    if (!armed) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0) return 0;
    path[length] = 0;
    return below(path);
}

static int fails(int concerned) {
    if (!concerned) return 0;
    long now = __atomic_add_fetch(&counted, 1, __ATOMIC_SEQ_CST);
    if (failing == 0 || (lasting ? now < failing : now != failing)) return 0;
    errno = error_number;
    return 1;
}

#define REAL(name) ((__typeof__(name) *)dlsym(RTLD_NEXT, #name))
#define FAULTY(result, name, parameters, arguments, concerned) \
    result name parameters {                                   \
        if (fails(concerned)) return -1;                       \
        return REAL(name) arguments;                           \
    }

FAULTY(ssize_t, write, (int fd, const void *data, size_t size), (fd, data, size), open_below(fd))
FAULTY(ssize_t, writev, (int fd, const struct iovec *parts, int count), (fd, parts, count), open_below(fd))
FAULTY(ssize_t, pwrite, (int fd, const void *data, size_t size, off_t at), (fd, data, size, at), open_below(fd))
FAULTY(ssize_t, pwrite64, (int fd, const void *data, size_t size, off64_t at), (fd, data, size, at), open_below(fd))
FAULTY(int, fsync, (int fd), (fd), open_below(fd))
FAULTY(int, fdatasync, (int fd), (fd), open_below(fd))
FAULTY(int, ftruncate, (int fd, off_t size), (fd, size), open_below(fd))
FAULTY(int, ftruncate64, (int fd, off64_t size), (fd, size), open_below(fd))
FAULTY(int, fallocate, (int fd, int mode, off_t at, off_t size), (fd, mode, at, size), open_below(fd))
FAULTY(int, rename, (const char *from, const char *to), (from, to), below(to))
FAULTY(int, unlink, (const char *path), (path), below(path))
FAULTY(int, mkdir, (const char *path, mode_t mode), (path, mode), below(path))
FAULTY(int, fflush, (FILE *file), (file), file != NULL && open_below(fileno(file)))

size_t fwrite(const void *data, size_t size, size_t count, FILE *file) {
    if (fails(open_below(fileno(file)))) return 0;
    return REAL(fwrite)(data, size, count, file);
}

ssize_t sendfile(int to, int from, off_t *at, size_t size) {
    if (fails(open_below(to))) return -1;
    return ((ssize_t(*)(int, int, off_t *, size_t))dlsym(RTLD_NEXT, "sendfile"))(to, from, at, size);
}

/* Only opening to make a file is an operation that a full disk refuses. */
#define FAULTY_OPEN(name)                                                      \
    int name(const char *path, int flags, ...) {                               \
        va_list rest;                                                          \
        va_start(rest, flags);                                                 \
        mode_t mode = (flags & (O_CREAT | O_TMPFILE)) ? va_arg(rest, mode_t) : 0; \
        va_end(rest);                                                          \
        if ((flags & O_CREAT) && fails(below(path))) return -1;                \
        return ((int (*)(const char *, int, ...))dlsym(RTLD_NEXT, #name))(path, flags, mode); \
    }
FAULTY_OPEN(open)
FAULTY_OPEN(open64)
