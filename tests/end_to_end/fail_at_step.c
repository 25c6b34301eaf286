/* A library to preload: counts the calls that make, write, cut, sync, rename and remove files, and make and remove folders, whose path begins
 * with QUERN_STEP_FOLDER.
 *
 *   QUERN_STEP_KILL=N   the N-th such call of a process is not made; the process ends by SIGKILL instead. A write writes half before that
 *   QUERN_STEP_FAIL=N   the N-th such call fails with the error QUERN_STEP_ERRNO, and those behind it do not
 *   QUERN_STEP_FULL=N   from the N-th write on, the disk is full (ENOSPC); a write before it takes one byte less than asked (a short write)
 *   QUERN_STEP_COUNT=F  appends a byte to the file F for each call, so that a test knows how many there are
 *
 * The disk is not waited for: a process that is killed loses nothing that it wrote, so fsync has nothing to add here.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static int calls, writes;

static int number(const char *name) {
  const char *text = getenv(name);
  return text ? atoi(text) : 0;
}

static int is_below(const char *path) {
  const char *folder = getenv("QUERN_STEP_FOLDER");
  return folder && strncmp(path, folder, strlen(folder)) == 0;
}

static int is_watched_fd(int fd) {
  char link[64], path[PATH_MAX];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  const ssize_t length = readlink(link, path, sizeof path - 1);
  if (length <= 0) return 0;
  path[length] = '\0';
  return is_below(path);
}

static int is_watched(int folder, const char *path) { return path[0] == '/' ? is_below(path) : folder != AT_FDCWD && is_watched_fd(folder); }

/* Not 0 if this call is the one to fail. */
static int step(void) {
  const char *count = getenv("QUERN_STEP_COUNT");
  if (count) {
    const int fd = (int)syscall(SYS_openat, AT_FDCWD, count, O_WRONLY | O_CREAT | O_APPEND, 0600);
    syscall(SYS_write, fd, "x", (size_t)1);
    syscall(SYS_close, fd);
  }
  if (++calls == number("QUERN_STEP_KILL")) syscall(SYS_kill, getpid(), SIGKILL);
  if (calls != number("QUERN_STEP_FAIL")) return 0;
  errno = number("QUERN_STEP_ERRNO");
  return 1;
}

/* Whether this write is the last thing that the process does. */
static int is_torn(int fd) { return calls + 1 == number("QUERN_STEP_KILL") && is_watched_fd(fd); }

/* How many bytes this write may take; 0 with errno: none. */
static size_t room(int fd, size_t count) {
  if (!is_watched_fd(fd)) return count;
  if (step()) return 0;
  const int full = number("QUERN_STEP_FULL");
  if (!full) return count;
  errno = ENOSPC;
  if (++writes >= full) return 0;
  return count > 1 ? count - 1 : count;
}

ssize_t write(int fd, const void *bytes, size_t count) {
  if (is_torn(fd)) syscall(SYS_write, fd, bytes, count / 2);
  const size_t allowed = room(fd, count);
  if (allowed == 0 && count != 0) return -1;
  return syscall(SYS_write, fd, bytes, allowed);
}

ssize_t pwrite64(int fd, const void *bytes, size_t count, off64_t at) {
  if (is_torn(fd)) syscall(SYS_pwrite64, fd, bytes, count / 2, at);
  const size_t allowed = room(fd, count);
  if (allowed == 0 && count != 0) return -1;
  return syscall(SYS_pwrite64, fd, bytes, allowed, at);
}
ssize_t pwrite(int fd, const void *bytes, size_t count, off_t at) { return pwrite64(fd, bytes, count, at); }

int openat64(int folder, const char *path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  const int mode = flags & (O_CREAT | __O_TMPFILE) ? va_arg(more, int) : 0;
  va_end(more);
  if ((flags & O_CREAT) && is_watched(folder, path) && step()) return -1;
  return (int)syscall(SYS_openat, folder, path, flags, mode);
}
int openat(int folder, const char *path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  const int mode = flags & (O_CREAT | __O_TMPFILE) ? va_arg(more, int) : 0;
  va_end(more);
  return openat64(folder, path, flags, mode);
}
int open64(const char *path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  const int mode = flags & (O_CREAT | __O_TMPFILE) ? va_arg(more, int) : 0;
  va_end(more);
  return openat64(AT_FDCWD, path, flags, mode);
}
int open(const char *path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  const int mode = flags & (O_CREAT | __O_TMPFILE) ? va_arg(more, int) : 0;
  va_end(more);
  return openat64(AT_FDCWD, path, flags, mode);
}

int fsync(int fd) {
  if (!is_watched_fd(fd)) return (int)syscall(SYS_fsync, fd);
  return step() ? -1 : 0;
}

int ftruncate64(int fd, off64_t length) {
  if (is_watched_fd(fd) && step()) return -1;
  return (int)syscall(SYS_ftruncate, fd, length);
}
int ftruncate(int fd, off_t length) { return ftruncate64(fd, length); }

int rename(const char *from, const char *to) {
  if (is_watched(AT_FDCWD, to) && step()) return -1;
  return (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
}
int renameat(int from_folder, const char *from, int to_folder, const char *to) {
  if (is_watched(to_folder, to) && step()) return -1;
  return (int)syscall(SYS_renameat2, from_folder, from, to_folder, to, 0);
}

int unlinkat(int folder, const char *path, int flags) {
  if (is_watched(folder, path) && step()) return -1;
  return (int)syscall(SYS_unlinkat, folder, path, flags);
}
int unlink(const char *path) { return unlinkat(AT_FDCWD, path, 0); }
int rmdir(const char *path) { return unlinkat(AT_FDCWD, path, AT_REMOVEDIR); }

int mkdir(const char *path, mode_t mode) {
  if (is_watched(AT_FDCWD, path) && step()) return -1;
  return (int)syscall(SYS_mkdirat, AT_FDCWD, path, mode);
}
