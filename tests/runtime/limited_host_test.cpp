// A process that the system gives no more threads, descriptors, memory or file bytes: a status each time, and what works again afterwards.
#include "every_call.hpp"
#include "in_child.hpp"

#include "quern/quern_sanitizer.h"

#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <fcntl.h>

namespace quern::test {
namespace {

void limit(int resource, rlim_t most) {
  rlimit now{};
  getrlimit(static_cast<__rlimit_resource_t>(resource), &now);
  now.rlim_cur = std::min(most, now.rlim_max);
  setrlimit(static_cast<__rlimit_resource_t>(resource), &now);
}
void lift(int resource) {
  rlimit now{};
  getrlimit(static_cast<__rlimit_resource_t>(resource), &now);
  now.rlim_cur = now.rlim_max;
  setrlimit(static_cast<__rlimit_resource_t>(resource), &now);
}

/// All calls; each that fails has a sentence, and none is an error of ours. How many failed.
std::size_t call_all(World& w, bool& right) {
  std::size_t failed = 0;
  for (const ApiCall& call : every_call()) {
    const quern_status status = call.call(w);
    if (status == QUERN_OK) continue;
    ++failed;
    const bool no_trace = std::strcmp(call.name, "quern_session_trace_json") == 0;  // where its start had failed
    if (status == QUERN_INTERNAL || (*quern_last_error() == '\0' && !no_trace)) {
      std::fprintf(stderr, "%s: %s: %s\n", call.name, quern_status_name(status), quern_last_error());
      right = false;
    }
  }
  return failed;
}

TEST(LimitedHost, WithoutMoreDescriptorsEveryCallAnswersAndWorksAgainLater) {
  if (QUERN_SANITIZER == 1)
    GTEST_SKIP() << "the sanitizer looks through a pipe whether an object can be read, and has no descriptor for it";
  EXPECT_EQ(in_child(60,
                     [] {
                       OwnedWorld w;
                       bool right = true;
                       std::vector<int> all;
                       limit(RLIMIT_NOFILE, 64);
                       for (int fd = dup(0); fd >= 0; fd = dup(0)) all.push_back(fd);
                       if (call_all(w, right) == 0) right = false;  // a load opens a file
                       for (const int fd : all) close(fd);
                       lift(RLIMIT_NOFILE);
                       return right && call_all(w, right) == 0 && right;
                     }),
            0);
}

TEST(LimitedHost, WithoutMoreAddressesEveryCallAnswersAndWorksAgainLater) {
  if (QUERN_SANITIZER != 0) GTEST_SKIP() << "a sanitizer needs terabytes of addresses";
  for (const rlim_t more : {0ul, 1ul << 20, 4ul << 20, 16ul << 20, 40ul << 20}) {
    EXPECT_EQ(in_child(60,
                       [more] {
                         OwnedWorld w;
                         bool right = true;
                         std::ifstream statm("/proc/self/statm");
                         rlim_t pages = 0;
                         statm >> pages;
                         limit(RLIMIT_AS, pages * static_cast<rlim_t>(sysconf(_SC_PAGESIZE)) + more);
                         call_all(w, right);
                         lift(RLIMIT_AS);
                         return right && call_all(w, right) == 0 && right;
                       }),
              0)
        << more << " bytes more";
  }
}

TEST(LimitedHost, WithoutMoreThreadsEveryCallAnswersAndWorksAgainLater) {
  EXPECT_EQ(in_child(60,
                     [] {
                       OwnedWorld w;
                       bool right = true;
                       // Root is not held by the limit, so the child becomes nobody where it can.
                       if (getuid() == 0) {
                         for (const auto& entry : std::filesystem::recursive_directory_iterator(w.folder))
                           (void)::chmod(entry.path().c_str(), 0666);
                         (void)::chmod(w.folder.c_str(), 0777);
                         if (setgid(65534) != 0 || setuid(65534) != 0) return true;
                       }
                       limit(RLIMIT_NPROC, 1);
                       call_all(w, right);
                       return right;
                     }),
            0);
}

/// Without a handler SIGXFSZ ends the process; no call of the library may raise it for the host.
TEST(LimitedHost, AFileThatMayNotGrowIsAnErrorAndNoSignal) {
  EXPECT_EQ(in_child(60,
                     [] {
                       OwnedWorld w;
                       bool right = true;
                       std::signal(SIGXFSZ, SIG_DFL);
                       limit(RLIMIT_FSIZE, 100);
                       if (call_all(w, right) == 0) right = false;  // the state does not fit in 100 bytes
                       lift(RLIMIT_FSIZE);
                       return right && call_all(w, right) == 0 && right;
                     }),
            0);
}

/// A program may run with 0, 1 and 2 closed. Its own messages to 2 must not land in a file of ours.
TEST(LimitedHost, NoFileOfTheLibraryTakesAClosedStandardDescriptor) {
  EXPECT_EQ(in_child(60,
                     [] {
                       OwnedWorld w;
                       for (int fd = 0; fd < 3; ++fd) close(fd);
                       quern_model_options options = small_model();
                       options.progress = [](void*, std::uint64_t, std::uint64_t) {
                         for (int fd = 0; fd < 3; ++fd)
                           if (fcntl(fd, F_GETFD) >= 0) _exit(3);  // the model's file is open now
                         return 0;
                       };
                       quern_model* model = nullptr;
                       if (quern_model_load(w.runtime, w.model_file.c_str(), &options, &model) != QUERN_OK) return false;
                       quern_model_release(model);
                       bool right = true;
                       return call_all(w, right) == 0 && right;
                     }),
            0);
}

}  // namespace
}  // namespace quern::test
