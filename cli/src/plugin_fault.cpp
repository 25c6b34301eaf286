// See plugin_fault.hpp. Handlers write a sentence from a fixed array, which needs no memory and no lock.
#include "plugin_fault.hpp"

#include "exit_code.hpp"
#include "interrupt.hpp"
#include "output.hpp"

#include "quern.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <string_view>

namespace quern::cli {
namespace {

/// One line for standard error. What does not fit is left out.
class Sentence {
 public:
  Sentence& add(std::string_view text) noexcept {
    const std::size_t fits = std::min(text.size(), sizeof bytes_ - 1 - size_);
    std::memcpy(bytes_ + size_, text.data(), fits);
    size_ += fits;
    return *this;
  }
  Sentence& add(int number) noexcept {
    char digits[16];
    return add(std::string_view(digits, static_cast<std::size_t>(std::to_chars(digits, digits + sizeof digits, number).ptr - digits)));
  }
  Sentence& add_signal(int signal) noexcept {
    add("signal ").add(signal);
    const char* words = sigdescr_np(signal);
    return words == nullptr ? *this : add(" (").add(words).add(")");
  }
  void write() noexcept {
    bytes_[size_++] = '\n';
    write_error_in_handler({bytes_, size_});
  }

 private:
  char bytes_[8192];
  std::size_t size_ = 0;
};

/// Of an exception that nobody took; written before abort().
char thrown[256];

std::atomic<pthread_t> speaker{};  // the thread that ends the program

quern_open_call open_call(std::uint64_t index) noexcept {
  quern_open_call call{};
  call.struct_size = sizeof call;
  if (quern_open_calls(index, &call) == 0) call.struct_size = 0;
  return call;
}

std::string_view who(const quern_open_call& call) noexcept { return *call.device != '\0' ? call.device : call.backend; }

void add_advice(Sentence& sentence, const quern_open_call& call) noexcept {
  sentence.add(": ").add(call.path).add("; update this plugin, or leave it out with --backend-disable ").add(call.backend);
}

[[noreturn]] void end_by(int signal) noexcept {
  std::signal(signal, SIG_DFL);
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, signal);
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
  std::raise(signal);
  _exit(128 + signal);  // a debugger or a tracer took it
}

void on_crash(int signal, siginfo_t* info, void*) {
  const bool sent = info->si_code <= 0 && info->si_pid != getpid();  // by another process: no fault of ours
  pthread_t nobody{};
  if (sent || (!speaker.compare_exchange_strong(nobody, pthread_self()) && pthread_equal(nobody, pthread_self()) != 0)) end_by(signal);
  if (nobody != pthread_t{})
    for (;;) pause();  // another thread ends the program
  const quern_open_call call = open_call(0);
  Sentence sentence;
  sentence.add("quern: ");
  if (call.struct_size == 0) {
    sentence.add("a bug: ").add_signal(signal).add(" outside of any plugin");
  } else if (call.this_thread != 0) {
    sentence.add(who(call)).add(" crashed in ").add(call.call).add(" with ").add_signal(signal);
  } else {
    sentence.add_signal(signal).add(" on another thread while ").add(who(call)).add(" was in ").add(call.call);
  }
  if (thrown[0] != '\0') sentence.add(", after the exception '").add(thrown).add("'");
  if (call.struct_size != 0) {
    add_advice(sentence, call);
    quern_keep_fault(&call, QUERN_FAULT_CRASHED, signal);
  }
  show_typing();
  sentence.write();
  std::signal(signal, SIG_DFL);
  std::raise(signal);  // comes when this handler returns
}

void on_exit_in_a_call() {
  const quern_open_call call = open_call(0);
  if (call.struct_size == 0) return;
  Sentence sentence;
  sentence.add("quern: ").add(who(call)).add(" ended the program in ").add(call.call);
  add_advice(sentence, call);
  quern_keep_fault(&call, QUERN_FAULT_EXITED, 0);
  show_typing();
  sentence.write();
  _exit(exit_bug);
}

[[noreturn]] void on_terminate() {
  if (const std::exception_ptr current = std::current_exception()) try {
      std::rethrow_exception(current);
    } catch (const std::exception& error) { printable_into(error.what(), thrown, sizeof thrown); } catch (...) {
    }
  std::abort();
}

void on_interrupt_in_a_call(int signal) {
  if (const quern_open_call call = open_call(0); call.struct_size != 0)
    Sentence().add("quern: interrupted while ").add(who(call)).add(" was in ").add(call.call).add(": ").add(call.path).write();
  end_by(signal);
}

constexpr int patience = 4;  // seconds

/// A call that was open at a tick of the watch.
struct Seen {
  std::uint64_t number;
  int tick;  // the first
};
std::array<Seen, 16> seen;  // of the handler of SIGALRM, and of watch_for_hang() before the first tick
std::size_t seen_count = 0;
int ticks = 0;
std::atomic<AtHang> at_hang{AtHang::end_the_program};

/// Since which tick a call is known; now, for a new one.
int first_tick(std::uint64_t number) noexcept {
  for (std::size_t i = 0; i < seen_count; ++i)
    if (seen[i].number == number) return seen[i].tick;
  if (seen_count < seen.size()) seen[seen_count++] = {number, ticks};
  return ticks;
}

void on_tick(int) {
  ++ticks;
  for (std::uint64_t i = 0;; ++i) {
    const quern_open_call call = open_call(i);
    if (call.struct_size == 0) break;
    if (ticks - first_tick(call.number) < patience) continue;
    Sentence sentence;
    sentence.add("quern: ").add(who(call)).add(" has not returned from ").add(call.call).add(" since Ctrl-C");
    if (at_hang == AtHang::name_it) {
      sentence.add(": ").add(call.path).add("; a second Ctrl-C ends the program").write();
      return;
    }
    add_advice(sentence, call);
    quern_keep_fault(&call, QUERN_FAULT_HUNG, 0);
    show_typing();
    sentence.write();
    end_by(SIGINT);
  }
  alarm(1);
}

/// Handlers of a sanitizer or of whoever started us stay.
template <typename Handler>
void handle_if_default(int signal, Handler set, int flags) {
  struct sigaction before {};
  if (sigaction(signal, nullptr, &before) != 0 || (before.sa_flags & SA_SIGINFO) != 0 || before.sa_handler != SIG_DFL) return;
  struct sigaction action {};
  set(action);
  sigemptyset(&action.sa_mask);
  action.sa_flags = flags;
  sigaction(signal, &action, nullptr);
}

}  // namespace

void watch_plugin_calls() {
  alignas(16) static char stack[64 * 1024];  // an overflow of the main thread's leaves none there
  stack_t other{};
  other.ss_sp = stack;
  other.ss_size = sizeof stack;
  sigaltstack(&other, nullptr);
  for (const int signal : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT})
    handle_if_default(
        signal, [](struct sigaction& action) { action.sa_sigaction = on_crash; }, SA_SIGINFO | static_cast<int>(SA_ONSTACK));
  handle_if_default(
      SIGINT, [](struct sigaction& action) { action.sa_handler = on_interrupt_in_a_call; }, SA_RESTART);
  handle_if_default(
      SIGALRM, [](struct sigaction& action) { action.sa_handler = on_tick; }, SA_RESTART);
  std::set_terminate(on_terminate);
  std::atexit(on_exit_in_a_call);
  std::at_quick_exit(on_exit_in_a_call);
}

void watch_for_hang(AtHang what) noexcept {
  alarm(0);
  at_hang = what;
  ticks = 0;
  seen_count = 0;
  for (std::uint64_t i = 0;; ++i) {
    const quern_open_call call = open_call(i);
    if (call.struct_size == 0) break;
    first_tick(call.number);
  }
  alarm(1);
}

void end_hang_watch() noexcept { alarm(0); }

}  // namespace quern::cli
