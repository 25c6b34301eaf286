// The parent's side of the helper process.
//
// The helper gets its request as argument, answers in lines of JSON on descriptor 3, and its stdout and
// stderr are caught: nothing that a plugin or driver prints reaches the user's terminal. It leads its own
// process group, so that what it started dies with it. A process that the kernel does not let die (a hung
// driver) is left behind.
#include "child.hpp"

#include "progress.hpp"
#include "quern/graph/error.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>
#include <thread>
#include <utility>

extern char** environ;

namespace quern::loader {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t max_result = 1 << 20;
constexpr std::size_t max_printed = 4096;
constexpr auto grace = std::chrono::milliseconds(500);

class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  ~Fd() { reset(); }
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    if (this != &other) reset(), fd_ = std::exchange(other.fd_, -1);
    return *this;
  }
  int get() const { return fd_; }
  void reset() {
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  }

 private:
  int fd_ = -1;
};

struct Pipe {
  Fd read, write;
};

/// Both ends above 9, so that setting up the helper's 0 to 3 cannot overwrite them.
std::optional<Pipe> make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return std::nullopt;
  const Fd low_read(ends[0]), low_write(ends[1]);
  Pipe pipe{Fd(::fcntl(ends[0], F_DUPFD_CLOEXEC, 10)), Fd(::fcntl(ends[1], F_DUPFD_CLOEXEC, 10))};
  if (pipe.read.get() < 0 || pipe.write.get() < 0) return std::nullopt;
  ::fcntl(pipe.read.get(), F_SETFL, O_NONBLOCK);
  return pipe;
}

int spawn(const std::string& program, const std::string& argument, int result, int output, pid_t& process) {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&actions);
  posix_spawnattr_init(&attributes);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, output, 1);
  posix_spawn_file_actions_adddup2(&actions, output, 2);
  posix_spawn_file_actions_adddup2(&actions, result, helper_result_fd);
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  std::string name = program, text = argument;
  char* argv[] = {name.data(), text.data(), nullptr};
  const int error = ::posix_spawn(&process, program.c_str(), &actions, &attributes, argv, environ);
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  return error;
}

/// Takes what is there; keeps at most `most` bytes. False: the other side closed.
bool drain(int fd, std::string& to, std::size_t most) {
  char block[4096];
  for (;;) {
    const ssize_t got = ::read(fd, block, sizeof block);
    if (got < 0) return errno == EAGAIN || errno == EINTR;
    if (got == 0) return false;
    to.append(block, std::min<std::size_t>(static_cast<std::size_t>(got), most - std::min(most, to.size())));
  }
}

struct End {
  bool timed_out = false;
  bool known = false;  // false: somebody else reaped it, or it does not die
  int status = 0;
};

/// True if the process is gone. ECHILD: the program ignores SIGCHLD or reaps all children itself.
bool reap(pid_t process, End& end) {
  siginfo_t ended{};
  if (::waitid(P_PID, static_cast<id_t>(process), &ended, WEXITED | WNOHANG | WNOWAIT) != 0) return errno == ECHILD;
  if (ended.si_pid != process) return false;
  ::kill(-process, SIGKILL);  // what it left behind; its number cannot be another's before it is reaped
  if (::waitpid(process, &end.status, WNOHANG) == process) end.known = true;
  return true;
}

End watch(pid_t process, HangWatch& hang, const Pipe& result, const Pipe& output, std::string& answer, std::string& printed) {
  End end;
  bool result_open = true, output_open = true;
  while (!hang.hangs()) {
    pollfd fds[2] = {{result_open ? result.read.get() : -1, POLLIN, 0}, {output_open ? output.read.get() : -1, POLLIN, 0}};
    // In slices: a process that its plugin forked may hold the pipes open after the helper is gone.
    const bool any_open = result_open || output_open;
    ::poll(fds, 2, any_open ? 20 : 1);
    if (result_open) result_open = drain(result.read.get(), answer, max_result);
    if (output_open) output_open = drain(output.read.get(), printed, max_printed);
    if (reap(process, end)) {
      if (result_open) drain(result.read.get(), answer, max_result);
      if (output_open) drain(output.read.get(), printed, max_printed);
      return end;
    }
  }
  end.timed_out = true;
  ::kill(-process, SIGKILL);
  ::kill(process, SIGKILL);
  const auto give_up = Clock::now() + grace;
  while (!reap(process, end) && Clock::now() < give_up) std::this_thread::sleep_for(std::chrono::milliseconds(2));
  return end;
}

/// The last stage that the helper entered, and its result if it got so far.
struct Answer {
  Stage stage = Stage::load;
  std::optional<Examination> examination;
  std::string fault;
};

Answer read_answer(const std::string& text) {
  Answer answer;
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t end = text.find('\n', at);
    if (end == std::string::npos) break;  // cut off
    const Json line = Json::parse(std::string_view(text).substr(at, end - at)).value_or(Json());
    at = end + 1;
    if (const Json* entering = line.find("entering"); entering != nullptr && entering->count() != nullptr) {
      const std::uint64_t number = *entering->count();
      if (number >= static_cast<std::uint64_t>(Stage::load) && number <= static_cast<std::uint64_t>(Stage::probe))
        answer.stage = static_cast<Stage>(number);
    }
    if (const Json* result = line.find("result")) {
      try {
        answer.examination = examination_from(*result);
      } catch (const Error& wrong) { answer.fault = wrong.what(); }
    }
  }
  return answer;
}

const char* during(Stage stage) {
  switch (stage) {
    case Stage::load: return "while it was loaded";
    case Stage::negotiate: return "in its entry";
    default: return "while it was probed";
  }
}

const char* pick(Stage stage, const char* at_load, const char* at_negotiate, const char* at_probe) {
  return stage == Stage::load ? at_load : stage == Stage::negotiate ? at_negotiate : at_probe;
}

std::string how_it_ended(const End& end) {
  if (!end.known) return "its helper process vanished";
  if (WIFSIGNALED(end.status)) return concat("crashed with signal ", WTERMSIG(end.status), " (", ::strsignal(WTERMSIG(end.status)), ")");
  return concat("ended its helper process with status ", WEXITSTATUS(end.status));
}

}  // namespace

Examination probe_in_child(const std::string& program, const HelperRequest& request, std::chrono::milliseconds limit) {
  Examination result;
  const auto not_started = [&](const std::string& why) {
    result.verdict = {code::no_helper,
                      concat(request.path, ": cannot be probed: the helper process ",
                             program.empty() ? std::string("quern-probe") : "'" + program + "'", " cannot be started: ", why),
                      "install the helper with the runtime, or ask for probing in this process",
                      {}};
    return result;
  };
  if (program.empty()) return not_started("it was not found beside this library");
  std::optional<Pipe> answers = make_pipe(), output = make_pipe();
  if (!answers || !output) return not_started(std::strerror(errno));
  pid_t process = -1;
  if (const int error = spawn(program, write_request(request), answers->write.get(), output->write.get(), process))
    return not_started(std::strerror(error));
  answers->write.reset();
  output->write.reset();
  std::string text, printed;
  HangWatch hang(limit, [process] { return work_of(process); });
  const End end = watch(process, hang, *answers, *output, text, printed);

  Answer answer = read_answer(text);
  if (answer.examination && !end.timed_out) {
    answer.examination->printed = printed;
    return *answer.examination;
  }
  result.stage = answer.stage;
  result.printed = printed;
  if (end.timed_out)
    result.verdict = {pick(answer.stage, code::load_hung, code::negotiate_hung, code::probe_hung),
                      concat(request.path, ": did not finish ", during(answer.stage), " ", hang.passed(),
                             end.known ? "" : "; its helper process does not die"),
                      "look for a driver that hangs (dmesg); it is probed again when it is demanded (QUERN_BACKEND), or after ten minutes",
                      {}};
  else if (end.known && WIFEXITED(end.status) && WEXITSTATUS(end.status) == 127 && text.empty())
    return not_started("it cannot be executed here");
  else if (!answer.fault.empty())
    result.verdict = {code::result_unreadable, concat(request.path, ": ", answer.fault), "install runtime and helper of one version", {}};
  else
    result.verdict = {pick(answer.stage, code::load_crashed, code::negotiate_crashed, code::probe_crashed),
                      concat(request.path, ": ", how_it_ended(end), " ", during(answer.stage)),
                      "install another version of the plugin or of its driver", printed};
  return result;
}

}  // namespace quern::loader
