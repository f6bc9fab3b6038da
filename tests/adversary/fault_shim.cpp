// A library for LD_PRELOAD that makes chosen calls of the program fail, or kills the program at
// them.
//
// TRIL_FAULTS in the environment says what to do, as "name=value; name=value":
//   call=GROUP,…   the calls that count (groups below; write-like and all are several at once)
//   at=N           the first of them to be hit, counted from 1; 0: none
//   times=N        how many in a row from there on are hit (default 1); 0: all of them
//   do=WHAT        kill (before the call), half (half of the write is made, then kill), short
//                  (fewer bytes than requested), or the name of an errno such as EIO
//   under=PATH:…   only calls for files under these folders count; allocations and threads count
//                  from the first such call on, so that nothing before main() is affected
//   spare=NAME,…   allocations made by libraries with these names, or on their behalf, are not hit:
//                  some libraries do not survive a failed allocation
//   count=FILE     at exit, a line "GROUP N" for each group is written there
//   log=FILE       a line "N GROUP PATH" for each call that was hit
//   keep=FOLDER    every file that gets its name by a rename is hard-linked there, as
//                  NNNN@PATH with % for / (below the first folder of `under`)
//
// Calls that the C library makes inside itself (the writes behind printf) cannot be caught this
// way.
#include <dirent.h>
#include <dlfcn.h>
#include <execinfo.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

extern "C" {
void* __libc_malloc(size_t);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void* __libc_memalign(size_t, size_t);
}

namespace {

enum Group {
  kOpen,
  kCreate,
  kRead,
  kWrite,
  kSync,
  kRename,
  kUnlink,
  kTruncate,
  kMkdir,
  kLink,
  kChmod,
  kLock,
  kMap,
  kSeek,
  kStat,
  kClose,
  kMalloc,
  kMallocLarge,
  kThread,
  kGroups
};
constexpr const char* kNames[kGroups] = {
    "open",  "create", "read", "write", "sync", "rename", "unlink", "truncate",     "mkdir", "link",
    "chmod", "lock",   "map",  "seek",  "stat", "close",  "malloc", "malloc-large", "thread"};
constexpr unsigned kWriteLike = 1u << kCreate | 1u << kWrite | 1u << kSync | 1u << kRename |
                                1u << kUnlink | 1u << kTruncate | 1u << kMkdir | 1u << kLink |
                                1u << kChmod;
constexpr size_t kLarge = 16384;  // bytes of an allocation in malloc-large

struct NamedError {
  const char* name;
  int value;
};
constexpr NamedError kErrors[] = {{"EIO", EIO},       {"ENOSPC", ENOSPC}, {"EMFILE", EMFILE},
                                  {"ENOMEM", ENOMEM}, {"EINTR", EINTR},   {"EAGAIN", EAGAIN},
                                  {"ENOLCK", ENOLCK}, {"EACCES", EACCES}, {"EDQUOT", EDQUOT},
                                  {"ENFILE", ENFILE}, {"EROFS", EROFS}};

enum class Act { pass, fail, shorten, half };

// Nothing here allocates: it is used from inside malloc().
struct Plan {
  bool ready = false;
  char text[4096] = {};
  unsigned groups = 0;
  long at = 0;
  long times = 1;
  Act act = Act::pass;
  bool kill = false;
  int error = 0;
  const char* under = "";
  char* spare = nullptr;
  const char* count = nullptr;
  const char* log = nullptr;
  const char* keep = nullptr;
};
constinit Plan plan;                     // before any constructor runs
std::atomic<long> met{0};                // matching calls
std::atomic<long> per_group[kGroups]{};  // all calls under the folders
std::atomic<long> kept{0};
std::atomic<bool> begun{false};
// Initial-exec: any other model may allocate at its first use.
__attribute__((tls_model("initial-exec"))) thread_local bool inside = false;

unsigned groups_from(char* list) {
  unsigned groups = 0;
  char* rest = nullptr;
  for (char* name = strtok_r(list, ",", &rest); name != nullptr;
       name = strtok_r(nullptr, ",", &rest)) {
    if (strcmp(name, "write-like") == 0) groups |= kWriteLike;
    if (strcmp(name, "all") == 0) groups |= ~0u;
    for (int i = 0; i < kGroups; ++i) {
      if (strcmp(name, kNames[i]) == 0) groups |= 1u << i;
    }
  }
  return groups;
}

void set_what(const char* what) {
  if (strcmp(what, "kill") == 0) plan.kill = true;
  if (strcmp(what, "half") == 0) plan.act = Act::half;
  if (strcmp(what, "short") == 0) plan.act = Act::shorten;
  for (const NamedError& one : kErrors) {
    if (strcmp(what, one.name) != 0) continue;
    plan.act = Act::fail;
    plan.error = one.value;
  }
}

__attribute__((constructor)) void begin() {
  const char* given = getenv("TRIL_FAULTS");
  if (given == nullptr || strlen(given) >= sizeof plan.text) return;
  strcpy(plan.text, given);
  char* rest = nullptr;
  for (char* item = strtok_r(plan.text, ";", &rest); item != nullptr;
       item = strtok_r(nullptr, ";", &rest)) {
    while (*item == ' ') ++item;
    char* value = strchr(item, '=');
    if (value == nullptr) continue;
    *value++ = '\0';
    if (strcmp(item, "call") == 0) plan.groups = groups_from(value);
    if (strcmp(item, "at") == 0) plan.at = atol(value);
    if (strcmp(item, "times") == 0) plan.times = atol(value);
    if (strcmp(item, "do") == 0) set_what(value);
    if (strcmp(item, "under") == 0) plan.under = value;
    if (strcmp(item, "spare") == 0) plan.spare = value;
    if (strcmp(item, "count") == 0) plan.count = value;
    if (strcmp(item, "log") == 0) plan.log = value;
    if (strcmp(item, "keep") == 0) plan.keep = value;
  }
  plan.ready = true;
}

// Straight to the system, past the functions below.
void append_to(const char* file, const char* text, size_t size) {
  const long descriptor =
      syscall(SYS_openat, AT_FDCWD, file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (descriptor < 0) return;
  if (syscall(SYS_write, descriptor, text, size) < 0) return;
  syscall(SYS_close, descriptor);
}

__attribute__((destructor)) void end() {
  if (!plan.ready || plan.count == nullptr) return;
  char text[1024];
  int size = 0;
  for (int i = 0; i < kGroups; ++i) {
    size += snprintf(text + size, sizeof text - static_cast<size_t>(size), "%s %ld\n", kNames[i],
                     per_group[i].load());
  }
  append_to(plan.count, text, static_cast<size_t>(size));
}

// The file a call is for.
struct Place {
  char path[4096];

  explicit Place(const char* name) { set(name); }
  Place(int folder, const char* name) {
    if (name != nullptr && name[0] != '/' && folder != AT_FDCWD) {
      *this = Place(folder);
      const size_t size = strlen(path);
      snprintf(path + size, sizeof path - size, "/%s", name);
    } else {
      set(name);
    }
  }
  explicit Place(int descriptor) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    const long size = syscall(SYS_readlinkat, AT_FDCWD, link, path, sizeof path - 1);
    path[size < 0 ? 0 : size] = '\0';
  }

  void set(const char* name) {
    path[0] = '\0';
    if (name == nullptr) return;
    if (name[0] == '/') {
      snprintf(path, sizeof path, "%s", name);
      return;
    }
    char here[2048];
    if (syscall(SYS_getcwd, here, sizeof here) < 0) return;
    snprintf(path, sizeof path, "%s/%s", here, name);
  }

  bool is_under_any() const {
    for (const char* folder = plan.under; *folder != '\0';) {
      const size_t size = strcspn(folder, ":");
      if (size > 0 && strncmp(path, folder, size) == 0 &&
          (path[size] == '/' || path[size] == '\0')) {
        return true;
      }
      folder += size + (folder[size] == ':' ? 1 : 0);
    }
    return *plan.under == '\0';
  }
};

[[noreturn]] void die() {
  syscall(SYS_kill, syscall(SYS_getpid), SIGKILL);
  for (;;) pause();
}

// Whether one of the functions that led here belongs to a library that is spared.
bool is_spared() {
  if (plan.spare == nullptr) return false;
  void* frames[64];
  const int count = backtrace(frames, 64);
  for (int i = 0; i < count; ++i) {
    Dl_info info;
    if (dladdr(frames[i], &info) == 0 || info.dli_fname == nullptr) continue;
    for (const char* name = plan.spare; *name != '\0';) {
      const size_t size = strcspn(name, ",");
      const char* found =
          static_cast<const char*>(memmem(info.dli_fname, strlen(info.dli_fname), name, size));
      if (size > 0 && found != nullptr) return true;
      name += size + (name[size] == ',' ? 1 : 0);
    }
  }
  return false;
}

Act hit(Group group, const char* path) {
  const long number = ++met;
  const bool now =
      plan.at > 0 && number >= plan.at && (plan.times == 0 || number < plan.at + plan.times);
  if (!now) return Act::pass;
  if ((group == kMalloc || group == kMallocLarge) && is_spared()) {
    --met;  // the next one is hit instead
    return Act::pass;
  }
  if (plan.log != nullptr) {
    char line[4300];
    const int size = snprintf(line, sizeof line, "%ld %s %s\n", number, kNames[group], path);
    append_to(plan.log, line, static_cast<size_t>(size));
  }
  if (plan.kill || (plan.act == Act::half && group != kWrite)) die();
  errno = plan.error;
  return plan.act;
}

Act meet(Group group, const Place& place) {
  if (!place.is_under_any()) return Act::pass;
  begun = true;
  ++per_group[group];
  return (plan.groups >> group & 1u) == 0 ? Act::pass : hit(group, place.path);
}

// For calls that concern no file.
Act meet(Group group) {
  if (!plan.ready || inside || !begun) return Act::pass;
  ++per_group[group];
  if ((plan.groups >> group & 1u) == 0) return Act::pass;
  inside = true;
  const Act act = hit(group, "");
  inside = false;
  return act;
}

template <class... Where>
Act meet_file(Group group, Where... where) {
  if (!plan.ready || inside) return Act::pass;
  inside = true;
  const int before = errno;
  const Act act = meet(group, Place(where...));
  if (act != Act::fail) errno = before;
  inside = false;
  return act;
}

bool fails(Act act) { return act == Act::fail; }
size_t shorter(size_t size) { return size < 7 ? (size + 1) / 2 : 7; }

void keep_version(int folder, const char* name) {
  if (!plan.ready || plan.keep == nullptr) return;
  const int before = errno;
  Place place(folder, name);
  if (place.is_under_any()) {
    const size_t root = strcspn(plan.under, ":");
    char* below = place.path + (root < strlen(place.path) ? root + 1 : 0);
    char target[8300];
    int size = snprintf(target, sizeof target, "%s/%04ld@", plan.keep, kept++);
    for (const char* c = below; *c != '\0' && size < 8200; ++c) {
      target[size++] = *c == '/' ? '%' : *c;
    }
    target[size] = '\0';
    syscall(SYS_linkat, AT_FDCWD, place.path, AT_FDCWD, target, 0);
  }
  errno = before;
}

bool writes(int flags) { return (flags & (O_CREAT | O_TRUNC | O_WRONLY | O_RDWR)) != 0; }
Group opening(int flags) { return writes(flags) ? kCreate : kOpen; }

}  // namespace

#define REAL(name) \
  static const auto real = reinterpret_cast<decltype(&::name)>(dlsym(RTLD_NEXT, #name))

// A call that fails with -1: its group, the file it is for (in brackets), its arguments.
#define FAILING(result, name, parameters, group, where, arguments) \
  result name parameters noexcept(noexcept(::name arguments)) {    \
    REAL(name);                                                    \
    if (fails(meet_file(group, where))) return -1;                 \
    return real arguments;                                         \
  }
#define PLACE(...) __VA_ARGS__

extern "C" {

int open(const char* path, int flags, ...) {
  va_list list;
  va_start(list, flags);
  const mode_t mode = va_arg(list, mode_t);
  va_end(list);
  REAL(open);
  if (fails(meet_file(opening(flags), path))) return -1;
  return real(path, flags, mode);
}
int open64(const char* path, int flags, ...) {
  va_list list;
  va_start(list, flags);
  const mode_t mode = va_arg(list, mode_t);
  va_end(list);
  REAL(open64);
  if (fails(meet_file(opening(flags), path))) return -1;
  return real(path, flags, mode);
}
int openat(int folder, const char* path, int flags, ...) {
  va_list list;
  va_start(list, flags);
  const mode_t mode = va_arg(list, mode_t);
  va_end(list);
  REAL(openat);
  if (fails(meet_file(opening(flags), folder, path))) return -1;
  return real(folder, path, flags, mode);
}
int openat64(int folder, const char* path, int flags, ...) {
  va_list list;
  va_start(list, flags);
  const mode_t mode = va_arg(list, mode_t);
  va_end(list);
  REAL(openat64);
  if (fails(meet_file(opening(flags), folder, path))) return -1;
  return real(folder, path, flags, mode);
}
int creat(const char* path, mode_t mode) {
  REAL(creat);
  if (fails(meet_file(kCreate, path))) return -1;
  return real(path, mode);
}
int mkostemp(char* path, int flags) {
  REAL(mkostemp);
  if (fails(meet_file(kCreate, static_cast<const char*>(path)))) return -1;
  return real(path, flags);
}
int mkstemp(char* path) {
  REAL(mkstemp);
  if (fails(meet_file(kCreate, static_cast<const char*>(path)))) return -1;
  return real(path);
}
FILE* fopen(const char* path, const char* mode) {
  REAL(fopen);
  if (fails(meet_file(mode[0] == 'r' ? kOpen : kCreate, path))) return nullptr;
  return real(path, mode);
}
FILE* fopen64(const char* path, const char* mode) {
  REAL(fopen64);
  if (fails(meet_file(mode[0] == 'r' ? kOpen : kCreate, path))) return nullptr;
  return real(path, mode);
}
DIR* opendir(const char* path) {
  REAL(opendir);
  if (fails(meet_file(kOpen, path))) return nullptr;
  return real(path);
}

ssize_t read(int descriptor, void* memory, size_t size) {
  REAL(read);
  const Act act = meet_file(kRead, descriptor);
  if (fails(act)) return -1;
  return real(descriptor, memory, act == Act::shorten ? shorter(size) : size);
}
ssize_t pread(int descriptor, void* memory, size_t size, off_t offset) {
  REAL(pread);
  const Act act = meet_file(kRead, descriptor);
  if (fails(act)) return -1;
  return real(descriptor, memory, act == Act::shorten ? shorter(size) : size, offset);
}
ssize_t pread64(int descriptor, void* memory, size_t size, off64_t offset) {
  REAL(pread64);
  const Act act = meet_file(kRead, descriptor);
  if (fails(act)) return -1;
  return real(descriptor, memory, act == Act::shorten ? shorter(size) : size, offset);
}
ssize_t readv(int descriptor, const iovec* parts, int count) {
  REAL(readv);
  const Act act = meet_file(kRead, descriptor);
  if (fails(act)) return -1;
  return real(descriptor, parts, act == Act::shorten ? 1 : count);
}

ssize_t write(int descriptor, const void* memory, size_t size) {
  REAL(write);
  const Act act = meet_file(kWrite, descriptor);
  if (fails(act)) return -1;
  if (act == Act::half) {
    if (real(descriptor, memory, size / 2) < 0) die();
    die();
  }
  return real(descriptor, memory, act == Act::shorten ? shorter(size) : size);
}
ssize_t pwrite(int descriptor, const void* memory, size_t size, off_t offset) {
  REAL(pwrite);
  const Act act = meet_file(kWrite, descriptor);
  if (fails(act)) return -1;
  if (act == Act::half) {
    if (real(descriptor, memory, size / 2, offset) < 0) die();
    die();
  }
  return real(descriptor, memory, act == Act::shorten ? shorter(size) : size, offset);
}
ssize_t pwrite64(int descriptor, const void* memory, size_t size, off64_t offset) {
  REAL(pwrite64);
  const Act act = meet_file(kWrite, descriptor);
  if (fails(act)) return -1;
  if (act == Act::half) {
    if (real(descriptor, memory, size / 2, offset) < 0) die();
    die();
  }
  return real(descriptor, memory, act == Act::shorten ? shorter(size) : size, offset);
}
ssize_t writev(int descriptor, const iovec* parts, int count) {
  REAL(writev);
  const Act act = meet_file(kWrite, descriptor);
  if (fails(act)) return -1;
  if (act == Act::half) {
    if (real(descriptor, parts, count / 2) < 0) die();
    die();
  }
  return real(descriptor, parts, act == Act::shorten ? 1 : count);
}
ssize_t sendfile(int to, int from, off_t* offset, size_t size) noexcept {
  REAL(sendfile);
  const Act act = meet_file(kWrite, to);
  if (fails(act)) return -1;
  if (act == Act::half) {
    if (real(to, from, offset, size / 2) < 0) die();
    die();
  }
  return real(to, from, offset, act == Act::shorten ? shorter(size) : size);
}
ssize_t copy_file_range(int from, off64_t* from_offset, int to, off64_t* to_offset, size_t size,
                        unsigned flags) {
  REAL(copy_file_range);
  const Act act = meet_file(kWrite, to);
  if (fails(act)) return -1;
  if (act == Act::half) {
    if (real(from, from_offset, to, to_offset, size / 2, flags) < 0) die();
    die();
  }
  return real(from, from_offset, to, to_offset, act == Act::shorten ? shorter(size) : size, flags);
}

FAILING(int, fsync, (int descriptor), kSync, descriptor, (descriptor))
FAILING(int, fdatasync, (int descriptor), kSync, descriptor, (descriptor))
FAILING(int, unlink, (const char* path), kUnlink, path, (path))
FAILING(int, unlinkat, (int folder, const char* path, int flags), kUnlink, PLACE(folder, path),
        (folder, path, flags))
FAILING(int, remove, (const char* path), kUnlink, path, (path))
FAILING(int, rmdir, (const char* path), kUnlink, path, (path))
FAILING(int, ftruncate, (int descriptor, off_t size), kTruncate, descriptor, (descriptor, size))
FAILING(int, ftruncate64, (int descriptor, off64_t size), kTruncate, descriptor, (descriptor, size))
FAILING(int, truncate, (const char* path, off_t size), kTruncate, path, (path, size))
FAILING(int, truncate64, (const char* path, off64_t size), kTruncate, path, (path, size))
FAILING(int, posix_fallocate, (int descriptor, off_t offset, off_t size), kTruncate, descriptor,
        (descriptor, offset, size))
FAILING(int, mkdir, (const char* path, mode_t mode), kMkdir, path, (path, mode))
FAILING(int, mkdirat, (int folder, const char* path, mode_t mode), kMkdir, PLACE(folder, path),
        (folder, path, mode))
FAILING(int, symlink, (const char* target, const char* path), kLink, path, (target, path))
FAILING(int, fchmod, (int descriptor, mode_t mode), kChmod, descriptor, (descriptor, mode))
FAILING(int, chmod, (const char* path, mode_t mode), kChmod, path, (path, mode))
FAILING(int, flock, (int descriptor, int operation), kLock, descriptor, (descriptor, operation))
FAILING(off_t, lseek, (int descriptor, off_t offset, int from), kSeek, descriptor,
        (descriptor, offset, from))
FAILING(off64_t, lseek64, (int descriptor, off64_t offset, int from), kSeek, descriptor,
        (descriptor, offset, from))
FAILING(int, stat, (const char* path, struct stat* status), kStat, path, (path, status))
FAILING(int, lstat, (const char* path, struct stat* status), kStat, path, (path, status))
FAILING(int, fstat, (int descriptor, struct stat* status), kStat, descriptor, (descriptor, status))
FAILING(int, stat64, (const char* path, struct stat64* status), kStat, path, (path, status))
FAILING(int, lstat64, (const char* path, struct stat64* status), kStat, path, (path, status))
FAILING(int, fstat64, (int descriptor, struct stat64* status), kStat, descriptor,
        (descriptor, status))
FAILING(int, fstatat, (int folder, const char* path, struct stat* status, int flags), kStat,
        PLACE(folder, path), (folder, path, status, flags))

int rename(const char* from, const char* to) noexcept {
  REAL(rename);
  if (fails(meet_file(kRename, to))) return -1;
  const int result = real(from, to);
  if (result == 0) keep_version(AT_FDCWD, to);
  return result;
}
int renameat(int from_folder, const char* from, int to_folder, const char* to) noexcept {
  REAL(renameat);
  if (fails(meet_file(kRename, to_folder, to))) return -1;
  const int result = real(from_folder, from, to_folder, to);
  if (result == 0) keep_version(to_folder, to);
  return result;
}
int renameat2(int from_folder, const char* from, int to_folder, const char* to,
              unsigned flags) noexcept {
  REAL(renameat2);
  if (fails(meet_file(kRename, to_folder, to))) return -1;
  const int result = real(from_folder, from, to_folder, to, flags);
  if (result == 0) keep_version(to_folder, to);
  return result;
}
int link(const char* from, const char* to) noexcept {
  REAL(link);
  if (fails(meet_file(kLink, to))) return -1;
  const int result = real(from, to);
  if (result == 0) keep_version(AT_FDCWD, to);
  return result;
}
int linkat(int from_folder, const char* from, int to_folder, const char* to, int flags) noexcept {
  REAL(linkat);
  if (fails(meet_file(kLink, to_folder, to))) return -1;
  const int result = real(from_folder, from, to_folder, to, flags);
  if (result == 0) keep_version(to_folder, to);
  return result;
}

// As the system does it: the descriptor is closed, whatever close() returns.
int close(int descriptor) {
  REAL(close);
  const Act act = meet_file(kClose, descriptor);
  const int error = errno;
  const int result = real(descriptor);
  if (!fails(act)) return result;
  errno = error;
  return -1;
}

int fcntl(int descriptor, int command, ...) {
  va_list list;
  va_start(list, command);
  void* argument = va_arg(list, void*);
  va_end(list);
  REAL(fcntl);
  const bool locks = command == F_SETLK || command == F_SETLKW || command == F_OFD_SETLK ||
                     command == F_OFD_SETLKW;
  if (locks && fails(meet_file(kLock, descriptor))) return -1;
  return real(descriptor, command, argument);
}

void* mmap(void* address, size_t size, int protection, int flags, int descriptor,
           off_t offset) noexcept {
  REAL(mmap);
  const Act act = descriptor >= 0  ? meet_file(kMap, descriptor)
                  : size >= kLarge ? meet(kMallocLarge)
                                   : Act::pass;
  if (fails(act)) return MAP_FAILED;
  return real(address, size, protection, flags, descriptor, offset);
}

int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*start)(void*),
                   void* argument) noexcept {
  REAL(pthread_create);
  if (fails(meet(kThread))) return plan.error;
  return real(thread, attributes, start, argument);
}

// Allocations. The C library's own names for them are used, because looking up others allocates.
static bool refused(size_t size) {
  return fails(meet(kMalloc)) || (size >= kLarge && fails(meet(kMallocLarge)));
}
void* malloc(size_t size) noexcept { return refused(size) ? nullptr : __libc_malloc(size); }
void* calloc(size_t count, size_t size) noexcept {
  return refused(count * size) ? nullptr : __libc_calloc(count, size);
}
void* realloc(void* memory, size_t size) noexcept {
  return refused(size) ? nullptr : __libc_realloc(memory, size);
}
void* memalign(size_t alignment, size_t size) noexcept {
  return refused(size) ? nullptr : __libc_memalign(alignment, size);
}
void* aligned_alloc(size_t alignment, size_t size) noexcept {
  return refused(size) ? nullptr : __libc_memalign(alignment, size);
}
int posix_memalign(void** memory, size_t alignment, size_t size) noexcept {
  if (refused(size)) return ENOMEM;
  void* result = __libc_memalign(alignment, size);
  if (result == nullptr) return ENOMEM;
  *memory = result;
  return 0;
}

}  // extern "C"
