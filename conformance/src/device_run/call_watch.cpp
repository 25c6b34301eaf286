// See call_watch.hpp.
#include "device_run/call_watch.hpp"

#include "quern/quern_sanitizer.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <system_error>

extern char** environ;

namespace quern::conformance {
namespace {

struct Forbidden {
  std::uint32_t number;
  const char* name;
};

/// Those of memory, of files by name or offset, and of new threads and processes. read and write are not among them: threads wake each
/// other by them.
constexpr Forbidden forbidden[] = {
// A list, which clang-format reads as calls.
// clang-format off
#define QUERN_CALL(name) {SYS_##name, #name},
    QUERN_CALL(mmap) QUERN_CALL(munmap) QUERN_CALL(mremap) QUERN_CALL(mprotect) QUERN_CALL(madvise) QUERN_CALL(brk) QUERN_CALL(mlock)
    QUERN_CALL(munlock) QUERN_CALL(memfd_create) QUERN_CALL(shmget) QUERN_CALL(shmat) QUERN_CALL(openat) QUERN_CALL(newfstatat)
    QUERN_CALL(statx) QUERN_CALL(faccessat) QUERN_CALL(readlinkat) QUERN_CALL(getdents64) QUERN_CALL(unlinkat) QUERN_CALL(renameat2)
    QUERN_CALL(mkdirat) QUERN_CALL(linkat) QUERN_CALL(symlinkat) QUERN_CALL(truncate) QUERN_CALL(ftruncate) QUERN_CALL(fallocate)
    QUERN_CALL(pread64) QUERN_CALL(pwrite64) QUERN_CALL(fsync) QUERN_CALL(lseek) QUERN_CALL(sendfile) QUERN_CALL(socket) QUERN_CALL(clone)
    QUERN_CALL(execve) QUERN_CALL(execveat) QUERN_CALL(chdir) QUERN_CALL(flock)
#ifdef SYS_open
    QUERN_CALL(open) QUERN_CALL(creat) QUERN_CALL(stat) QUERN_CALL(lstat) QUERN_CALL(access) QUERN_CALL(readlink) QUERN_CALL(getdents)
    QUERN_CALL(unlink) QUERN_CALL(rename) QUERN_CALL(mkdir) QUERN_CALL(fork) QUERN_CALL(vfork)
#endif
#ifdef SYS_openat2
    QUERN_CALL(openat2)
#endif
#ifdef SYS_faccessat2
    QUERN_CALL(faccessat2)
#endif
#ifdef SYS_clone3
    QUERN_CALL(clone3)
#endif
#undef QUERN_CALL
    // clang-format on
};

/// What the child says, in memory that both have.
struct Report {
  enum class End : std::uint32_t { none, done, system_call, environment, prepare_threw, no_filter };
  End end;
  std::uint32_t number;
  char text[512];
};
Report* report = nullptr;
void* closed_page = nullptr;
constexpr std::size_t page_bytes = 4096;

[[noreturn]] void end_with(Report::End end, std::uint32_t number) {
  report->number = number;
  report->end = end;
  ::syscall(SYS_exit_group, 0);
  __builtin_unreachable();
}

void on_system_call(int, siginfo_t* info, void*) { end_with(Report::End::system_call, static_cast<std::uint32_t>(info->si_syscall)); }

void on_fault(int signal, siginfo_t* info, void*) {
  const auto at = reinterpret_cast<std::uintptr_t>(info->si_addr), page = reinterpret_cast<std::uintptr_t>(closed_page);
  if (closed_page != nullptr && at >= page && at < page + page_bytes) end_with(Report::End::environment, 0);
  ::signal(signal, SIG_DFL);  // and the instruction faults again
}

bool handle(int signal, void (*handler)(int, siginfo_t*, void*)) {
  struct sigaction action {};
  action.sa_sigaction = handler;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  return ::sigaction(signal, &action, nullptr) == 0;
}

/// All threads of this process; for good.
bool install_filter() {
  constexpr std::size_t count = std::size(forbidden);
  std::array<sock_filter, count + 3> program{};
  program[0] = BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr));
  for (std::size_t i = 0; i < count; ++i)
    program[i + 1] = BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, forbidden[i].number, static_cast<std::uint8_t>(count - i), 0);
  program[count + 1] = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  program[count + 2] = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP);
  const sock_fprog whole{static_cast<unsigned short>(program.size()), program.data()};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &whole) == 0;
}

[[noreturn]] void be_the_child(const std::function<std::function<void()>()>& prepare, bool environment) {
  std::function<void()> call;
  try {
    call = prepare();
  } catch (const std::exception& error) {
    std::strncpy(report->text, error.what(), sizeof report->text - 1);
    end_with(Report::End::prepare_threw, 0);
  }
  if (environment) {
    closed_page = ::mmap(nullptr, page_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (closed_page == MAP_FAILED) end_with(Report::End::no_filter, 0);
  }
  if (!handle(SIGSYS, on_system_call) || (environment && !handle(SIGSEGV, on_fault))) end_with(Report::End::no_filter, 0);
  if (!install_filter()) end_with(Report::End::no_filter, 0);
  if (environment) environ = static_cast<char**>(closed_page);
  call();
  end_with(Report::End::done, 0);
}

std::string name_of(std::uint32_t number) {
  const auto* found = std::find_if(std::begin(forbidden), std::end(forbidden), [&](const Forbidden& f) { return f.number == number; });
  return "system call " + std::to_string(number) + (found == std::end(forbidden) ? "" : std::string(" (") + found->name + ")");
}

/// The child's end, or its kill after 30 s.
int await(pid_t child) {
  int status = 0;
  for (int i = 0; i < 6000; ++i) {
    if (::waitpid(child, &status, WNOHANG) == child) return status;
    ::usleep(5000);
  }
  ::kill(child, SIGKILL);
  ::waitpid(child, &status, 0);
  return status;
}

}  // namespace

bool CallWatch::available() noexcept {
#if QUERN_SANITIZER == 0
  static const bool filters = [] {
    try {
      return of([] { return [] {}; }, false).empty();
    } catch (const std::exception&) { return false; }
  }();
  return filters;
#else
  return false;
#endif
}

std::string CallWatch::of(const std::function<std::function<void()>()>& prepare, bool environment) {
  void* const shared = ::mmap(nullptr, sizeof(Report), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) throw std::system_error(errno, std::generic_category(), "memory for what a child says");
  report = new (shared) Report{};
  const pid_t child = ::fork();
  if (child == 0) be_the_child(prepare, environment);
  const int status = child < 0 ? 0 : await(child);
  const Report said = *report;
  ::munmap(shared, sizeof(Report));
  if (child < 0) throw std::runtime_error("a child to watch a call in cannot be made");
  switch (said.end) {
    case Report::End::done: return {};
    case Report::End::system_call: return name_of(said.number);
    case Report::End::environment: return "a read of the environment";
    case Report::End::prepare_threw: throw std::runtime_error(said.text);
    case Report::End::no_filter: throw std::runtime_error("system calls cannot be filtered here");
    case Report::End::none: break;
  }
  throw std::runtime_error(WIFSIGNALED(status) ? "the child ended with signal " + std::to_string(WTERMSIG(status))
                                               : "the child ended with exit code " + std::to_string(WEXITSTATUS(status)));
}

}  // namespace quern::conformance
