/* Counts the calls by which a process changes files below a folder, and lets one of them fail, be cut short, or be the last.

   Loaded with LD_PRELOAD; `arm` begins. What the C library calls by itself, as in fwrite, is not seen. fsync and fdatasync do not
   reach the disk, which would take long: what ends here is a process and not the machine. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { COUNT, KILL, TEAR, FAIL_ONCE, FAIL_FROM };

static char root[PATH_MAX];
static int mode = -1, error_number, log_handle = -1;
static long wanted;
static atomic_long calls;

/* Counts the calls from now on that change something below `folder`, notes each as a line of the file `log`, and at number `point`,
   from 1, does what `how` says; `number` is the errno of failures, of
   FAIL_FROM those from then on that take room. */
void arm(const char *folder, const char *log, int how, long point, int number) {
    snprintf(root, sizeof root, "%s/", folder);
    log_handle = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    error_number = number;
    wanted = point;
    atomic_store(&calls, 0);
    mode = how;
}

static int is_below(int directory, const char *path, char *full) {
    if (mode < 0 || !path) return 0;
    if (path[0] == '/') {
        snprintf(full, PATH_MAX, "%s", path);
    } else {
        char link[64], base[PATH_MAX];
        snprintf(link, sizeof link, directory == AT_FDCWD ? "/proc/self/cwd" : "/proc/self/fd/%d", directory);
        ssize_t length = readlink(link, base, sizeof base - 1);
        if (length < 0) return 0;
        base[length] = 0;
        snprintf(full, PATH_MAX, "%.2000s/%.2000s", base, path);
    }
    return !strncmp(full, root, strlen(root)) || !strncmp(full, root, strlen(root) - 1);
}

static int is_file_below(int file, char *full) {
    char link[64];
    if (mode < 0) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = readlink(link, full, PATH_MAX - 1);
    if (length < 0) return 0;
    full[length] = 0;
    return !strncmp(full, root, strlen(root));
}

/* Whether the call has to fail, or -1 if it has to be cut short. Does not return from the last one. */
static int event(const char *kind, const char *path) {
    long number = atomic_fetch_add(&calls, 1) + 1;
    char line[2 * PATH_MAX];
    int length = snprintf(line, sizeof line, "%s %s\n", kind, path);
    if (log_handle >= 0) syscall(SYS_write, log_handle, line, length);
    int is_write = !strcmp(kind, "write"); // threads may have taken another order, and this be another call
    if (number == wanted && (mode == KILL || (mode == TEAR && !is_write))) syscall(SYS_kill, getpid(), SIGKILL);
    if (number == wanted && mode == TEAR) return -1;
    int takes_room = kind[0] != 'u' && strcmp(kind, "rmdir");
    if ((mode == FAIL_ONCE && number == wanted) || (mode == FAIL_FROM && number >= wanted && takes_room)) {
        errno = error_number;
        return 1;
    }
    return 0;
}

#define NEXT(type, name) static type (*next)(); if (!next) next = (type (*)())dlsym(RTLD_NEXT, #name)

static int changes(int flags) { return flags & (O_CREAT | O_TRUNC); }

#define OPEN(name)                                                                             \
    int name(const char *path, int flags, ...) {                                               \
        NEXT(int, name);                                                                       \
        va_list arguments;                                                                     \
        va_start(arguments, flags);                                                            \
        mode_t permissions = va_arg(arguments, mode_t);                                        \
        va_end(arguments);                                                                     \
        char full[PATH_MAX];                                                                   \
        if (changes(flags) && is_below(AT_FDCWD, path, full) && event("open", full)) return -1; \
        return next(path, flags, permissions);                                                 \
    }
OPEN(open)
OPEN(open64)

#define OPENAT(name)                                                                           \
    int name(int directory, const char *path, int flags, ...) {                                \
        NEXT(int, name);                                                                       \
        va_list arguments;                                                                     \
        va_start(arguments, flags);                                                            \
        mode_t permissions = va_arg(arguments, mode_t);                                        \
        va_end(arguments);                                                                     \
        char full[PATH_MAX];                                                                   \
        if (changes(flags) && is_below(directory, path, full) && event("open", full)) return -1; \
        return next(directory, path, flags, permissions);                                      \
    }
OPENAT(openat)
OPENAT(openat64)

#define FOPEN(name)                                                                            \
    FILE *name(const char *path, const char *how) {                                            \
        NEXT(FILE *, name);                                                                    \
        char full[PATH_MAX];                                                                   \
        int below = how[0] != 'r' && is_below(AT_FDCWD, path, full);                           \
        if (below && event("open", full)) return NULL;                                      \
        return next(path, how);                                                                \
    }
FOPEN(fopen)
FOPEN(fopen64)

/* A write that is cut short writes half of its bytes, and the process ends. */
#define WRITE(name, parameters, arguments, half)                                               \
    ssize_t name parameters {                                                                  \
        NEXT(ssize_t, name);                                                                   \
        char full[PATH_MAX];                                                                   \
        if (is_file_below(file, full)) {                                                       \
            int what = event("write", full);                                                \
            if (what > 0) return -1;                                                           \
            if (what < 0) {                                                                    \
                half;                                                                          \
                syscall(SYS_kill, getpid(), SIGKILL);                                          \
            }                                                                                  \
        }                                                                                      \
        return next arguments;                                                                 \
    }
WRITE(write, (int file, const void *data, size_t size), (file, data, size), next(file, data, size / 2))
WRITE(pwrite, (int file, const void *data, size_t size, off_t at), (file, data, size, at), next(file, data, size / 2, at))
WRITE(pwrite64, (int file, const void *data, size_t size, off64_t at), (file, data, size, at), next(file, data, size / 2, at))
WRITE(writev, (int file, const struct iovec *data, int count), (file, data, count), next(file, data, count / 2))
WRITE(pwritev, (int file, const struct iovec *data, int count, off_t at), (file, data, count, at), next(file, data, count / 2, at))
WRITE(pwritev64, (int file, const struct iovec *data, int count, off64_t at), (file, data, count, at), next(file, data, count / 2, at))
WRITE(sendfile, (int file, int from, off_t *at, size_t size), (file, from, at, size), next(file, from, at, size / 2))
WRITE(sendfile64, (int file, int from, off64_t *at, size_t size), (file, from, at, size), next(file, from, at, size / 2))
WRITE(copy_file_range, (int from, off64_t *from_at, int file, off64_t *at, size_t size, unsigned flags),
      (from, from_at, file, at, size, flags), next(from, from_at, file, at, size / 2, flags))

#define ON_FILE(name, parameters, arguments, kind, otherwise)                                  \
    int name parameters {                                                                      \
        NEXT(int, name);                                                                       \
        char full[PATH_MAX];                                                                   \
        if (is_file_below(file, full) && event(kind, full) > 0) return -1;                  \
        return otherwise;                                                                      \
    }
ON_FILE(fsync, (int file), (file), "fsync", next ? 0 : -1)
ON_FILE(fdatasync, (int file), (file), "fsync", next ? 0 : -1)
ON_FILE(ftruncate, (int file, off_t size), (file, size), "truncate", next(file, size))
ON_FILE(ftruncate64, (int file, off64_t size), (file, size), "truncate", next(file, size))

#define ON_PATH(name, parameters, arguments, directory, path, kind)                            \
    int name parameters {                                                                      \
        NEXT(int, name);                                                                       \
        char full[PATH_MAX];                                                                   \
        if (is_below(directory, path, full) && event(kind, full) > 0) return -1;            \
        return next arguments;                                                                 \
    }
ON_PATH(rename, (const char *from, const char *to), (from, to), AT_FDCWD, to, "rename")
ON_PATH(renameat, (int from_in, const char *from, int in, const char *to), (from_in, from, in, to), in, to, "rename")
ON_PATH(renameat2, (int from_in, const char *from, int in, const char *to, unsigned flags), (from_in, from, in, to, flags), in, to, "rename")
ON_PATH(link, (const char *from, const char *to), (from, to), AT_FDCWD, to, "link")
ON_PATH(symlink, (const char *from, const char *to), (from, to), AT_FDCWD, to, "link")
ON_PATH(unlink, (const char *path), (path), AT_FDCWD, path, "unlink")
ON_PATH(unlinkat, (int in, const char *path, int flags), (in, path, flags), in, path, "unlink")
ON_PATH(remove, (const char *path), (path), AT_FDCWD, path, "unlink")
ON_PATH(rmdir, (const char *path), (path), AT_FDCWD, path, "rmdir")
ON_PATH(mkdir, (const char *path, mode_t permissions), (path, permissions), AT_FDCWD, path, "mkdir")
ON_PATH(mkdirat, (int in, const char *path, mode_t permissions), (in, path, permissions), in, path, "mkdir")
ON_PATH(truncate, (const char *path, off_t size), (path, size), AT_FDCWD, path, "truncate")
ON_PATH(truncate64, (const char *path, off64_t size), (path, size), AT_FDCWD, path, "truncate")
