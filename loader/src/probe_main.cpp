// quern-probe: loads and probes one plugin in a process of its own, so that a crash or a hang costs only
// that.
//
// Started by the loader only. It leaves with _exit: destructors of half-initialised drivers are none of its
// business.
#include "child.hpp"

#include "quern/base/terminal_output.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdio>
#include <exception>
#include <string>

int main(int argc, char** argv) {
  quern::TerminalOutput messages(STDERR_FILENO, quern::TerminalOutput::Kind::messages);
  if (argc != 2 || ::fcntl(quern::loader::helper_result_fd, F_GETFD) < 0) {
    messages.write("quern-probe is started by the quern runtime; run 'quern doctor' for what it finds\n");
    return 2;
  }
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  const rlimit no_core{0, 0};
  ::setrlimit(RLIMIT_CORE, &no_core);
  ::fcntl(quern::loader::helper_result_fd, F_SETFD, FD_CLOEXEC);
#ifdef SYS_close_range
  ::syscall(SYS_close_range, quern::loader::helper_result_fd + 1u, ~0u, 0u);  // what the program left open
#endif
  int status = 70;
  try {
    status = quern::loader::serve_probe(argv[1]);
  } catch (const std::exception& failed) {
    messages.write("quern-probe: " + quern::printable(failed.what()) + "\n");
    status = 2;
  }
  std::fflush(nullptr);  // what the plugin printed
  ::_exit(status);
}
