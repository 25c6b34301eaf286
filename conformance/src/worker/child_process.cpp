// See child_process.hpp.
#include "worker/child_process.hpp"

#include "device_run/breadcrumb.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <system_error>

extern char** environ;

namespace quern::conformance {
namespace {

/// A deadline is counted in polls of this length, not by the clock: while the whole group of processes is stopped (a suspended
/// machine, a debugger) nothing counts against the child.
constexpr int poll_milliseconds = 250;
constexpr int ending_milliseconds = 3000;  // that a process may take to end

struct Pipe {
  int read = -1, write = -1;
};
Pipe make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw std::system_error(errno, std::generic_category(), "pipe2");
  return {high_descriptor(ends[0]), high_descriptor(ends[1])};
}

void close_one(int& fd) noexcept {
  if (fd >= 0) ::close(fd);
  fd = -1;
}

}  // namespace

ChildProcess::ChildProcess(const std::vector<std::string>& arguments, const SharedMemory* inputs)
    : outputs_("outputs"), log_("log"), crumbs_("crumbs") {
  std::vector<std::string> words = arguments;
  words.insert(words.begin(), "quern-conformance");
  start("/proc/self/exe", words, inputs, nullptr, environ);
}

ChildProcess::ChildProcess(const OtherProgram& program) : outputs_("outputs"), log_("log"), crumbs_("crumbs") {
  std::vector<std::string> copy = program.environment;
  std::vector<char*> variables;
  for (std::string& variable : copy) variables.push_back(variable.data());
  variables.push_back(nullptr);
  start(program.path.c_str(), {program.name}, nullptr, program.directory.c_str(), variables.data());
}

void ChildProcess::start(const char* path, const std::vector<std::string>& words, const SharedMemory* inputs, const char* directory,
                         char** environment) {
  Pipe requests = make_pipe(), replies = make_pipe();
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, log_.fd(), 1);
  posix_spawn_file_actions_adddup2(&actions, log_.fd(), 2);
  posix_spawn_file_actions_adddup2(&actions, requests.read, child_requests);
  posix_spawn_file_actions_adddup2(&actions, replies.write, child_replies);
  if (inputs != nullptr) posix_spawn_file_actions_adddup2(&actions, inputs->fd(), child_inputs);
  posix_spawn_file_actions_adddup2(&actions, outputs_.fd(), child_outputs);
  crumbs_.map(breadcrumb_bytes, true);
  posix_spawn_file_actions_adddup2(&actions, crumbs_.fd(), child_crumbs);
  if (directory != nullptr) posix_spawn_file_actions_addchdir_np(&actions, directory);
  std::vector<std::string> copy = words;
  std::vector<char*> argv;
  for (std::string& a : copy) argv.push_back(a.data());
  argv.push_back(nullptr);
  const int error = ::posix_spawn(&pid_, path, &actions, nullptr, argv.data(), environment);
  posix_spawn_file_actions_destroy(&actions);
  close_one(requests.read);
  close_one(replies.write);
  requests_ = requests.write;
  replies_ = replies.read;
  if (error == 0) return;
  pid_ = -1;
  close_all();
  throw std::system_error(error, std::generic_category(), "a worker process cannot be started");
}

ChildProcess::~ChildProcess() {
  close_one(requests_);
  await_end();
  close_all();
  if (pid_ > 0) {
    ::kill(pid_, SIGKILL);
    int status = 0;
    while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {}
  }
}

/// Without requests the process ends, and closes its device: what a driver keeps for the next process is written then.
void ChildProcess::await_end() noexcept {
  char buffer[4096];
  for (int polls = replies_ < 0 ? 0 : ending_milliseconds / poll_milliseconds; polls > 0; --polls) {
    pollfd wait{replies_, POLLIN, 0};
    while (::poll(&wait, 1, poll_milliseconds) > 0)
      if (const ssize_t n = ::read(replies_, buffer, sizeof buffer); n == 0 || (n < 0 && errno != EINTR)) return;
  }
}

void ChildProcess::close_all() noexcept {
  close_one(requests_);
  close_one(replies_);
}

bool ChildProcess::send(const std::string& line) {
  const std::string text = line + "\n";
  for (std::size_t sent = 0; sent < text.size();) {
    const ssize_t n = ::write(requests_, text.data() + sent, text.size() - sent);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    sent += static_cast<std::size_t>(n);
  }
  return true;
}

std::string ChildProcess::reap() {
  int status = 0;
  if (pid_ <= 0) return "the process is gone";
  while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {}
  pid_ = -1;
  if (WIFSIGNALED(status)) return "signal " + std::to_string(WTERMSIG(status)) + " (" + ::strsignal(WTERMSIG(status)) + ")" + where();
  return "exit code " + std::to_string(WEXITSTATUS(status)) + where();
}

std::string ChildProcess::where() {
  const std::string words = breadcrumb_words(crumbs_.map(breadcrumb_bytes, true));
  return words.empty() ? words : " " + words;
}

ChildProcess::Answer ChildProcess::receive(double seconds) {
  auto polls = static_cast<std::int64_t>(std::ceil(seconds * 1000 / poll_milliseconds));
  for (;;) {
    if (const std::size_t line = pending_.find('\n'); line != std::string::npos) {
      Answer answer{End::answered, pending_.substr(0, line), {}};
      pending_.erase(0, line + 1);
      return answer;
    }
    pollfd wait{replies_, POLLIN, 0};
    const int ready = ::poll(&wait, 1, poll_milliseconds);
    if (ready < 0 && errno == EINTR) continue;
    if (ready == 0 && --polls > 0) continue;
    if (ready == 0) {
      ::kill(pid_, SIGKILL);
      reap();
      return {End::timed_out, {}, "no answer within " + std::to_string(static_cast<int>(seconds)) + " s" + where()};
    }
    char buffer[65536];
    const ssize_t n = ::read(replies_, buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      std::string cause = reap();
      if (const std::string said = printed(); !said.empty()) cause += "; it printed: " + said;
      return {End::died, {}, cause};
    }
    pending_.append(buffer, static_cast<std::size_t>(n));
  }
}

std::string ChildProcess::printed() {
  std::string text = read_from(log_.fd(), log_read_, 4096);
  log_read_ += text.size();
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

}  // namespace quern::conformance
