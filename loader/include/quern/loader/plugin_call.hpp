// Calls into plugins: each is on record until it returns, so that a signal handler can name the one that crashed or hangs.
//
// The record is an array of atomics. Entering and leaving a call takes no lock and no memory. Up to 256 calls can be on it at the same time;
// further ones run without.
#pragma once

#include "quern/quern_plugin_api.h"

#include <atomic>
#include <cstdint>
#include <cstring>
#include <exception>
#include <string>
#include <type_traits>

namespace quern::loader {

/// What a call is about, a plugin or one of its devices, in printable text.
struct CallTexts {
  std::string backend;          // "cpu"
  std::string device = {};      // "cpu:0"; empty for the plugin as a whole
  std::string path = {};        // of its file, or "registered:<id>"
  std::string fault_file = {};  // that keep_fault() writes; empty: nothing is kept
  std::string identity = {};    // of the plugin's file, which a kept fault holds for

  bool operator==(const CallTexts&) const = default;
};

/// The same, never freed, so that a handler may read it at any time.
struct CallTarget : CallTexts {
  explicit CallTarget(const CallTexts& texts) : CallTexts(texts) {}
  /// A call has returned.
  void returned(const char* name) const noexcept {
    if (const char* wanted = suspect.load(std::memory_order_relaxed); wanted != nullptr && std::strcmp(wanted, name) == 0) passed = true;
  }

  mutable std::atomic<const char*> suspect{nullptr};  // the call that failed in an earlier program
  mutable std::atomic<bool> passed{false};            // it has returned since
};

/// The one target with these texts.
const CallTarget& call_target(const CallTexts& texts);

/// One call on record for as long as the object lives. Any thread, signal handlers too.
class OpenCall {
 public:
  /// `name` lives as long as the process.
  OpenCall(const CallTarget& target, const char* name) noexcept;
  ~OpenCall();
  OpenCall(const OpenCall&) = delete;
  OpenCall& operator=(const OpenCall&) = delete;

 private:
  struct Slot* slot_;  // null where the record is full
};

/// A call that has not returned.
struct OpenCallInfo {
  const CallTarget* target = nullptr;
  const char* name = nullptr;
  std::uint64_t number = 0;  // no other call of this process has it
  bool this_thread = false;
};

/// Call `index` of those on record; the calling thread's come first, and of these the innermost. False behind the last. Safe in a signal handler.
bool read_open_call(std::uint64_t index, OpenCallInfo& out) noexcept;

/// Told behind a call during which something was printed. Called by the thread that made the call.
using PrintedSink = void (*)(void* user, const OpenCallInfo& call, const char* text, std::uint64_t bytes);

/// From now on `file` is looked at behind each call, and what lies in it is told and taken away. The program has put it in the place of its standard
/// output, and prints nothing there itself. -1 ends it.
void watch_output(int file, PrintedSink told, void* user) noexcept;

enum class FaultKind : std::uint32_t { crashed = 1, exited = 2, hung = 3, threw = 4 };

/// Keeps for the next program that a call failed. False where nothing could be kept. Safe in a signal handler.
bool keep_fault(const CallTarget& target, const char* name, FaultKind kind, int signal) noexcept;

/// "submit" of &quern_plugin_api::submit; null for a function that the host does not call.
template <auto function>
inline constexpr const char* call_name = nullptr;
#define QUERN_PLUGIN_CALL(name) \
  template <> \
  inline constexpr const char* call_name<&quern_plugin_api::name> = #name;
#include "quern/loader/plugin_calls.def"
#undef QUERN_PLUGIN_CALL

/// What stands for the functions of the table before there is one: the linker with the plugin's constructors, and its entry.
inline constexpr const char* load_call = "load";
inline constexpr const char* query_call = "query";

/// Calls into a plugin, on record. A contract-abiding plugin lets no exception out; one that does gets QUERN_INTERNAL and its words in `thrown`.
/// The record is left behind the handlers: an exception of a foreign C++ library may end the process in them.
template <typename Call>
quern_status guarded(const CallTarget& target, const char* name, Call&& call, std::string& thrown) noexcept {
  const OpenCall open(target, name);
  try {
    const quern_status status = call();
    target.returned(name);
    return status;
  } catch (const std::exception& e) {
    try {
      thrown = e.what();
    } catch (...) {}
  } catch (...) {}
  if (thrown.empty()) try {
      thrown = "an exception of an unknown type";
    } catch (...) {}
  return QUERN_INTERNAL;
}

/// The quern_error that a call is given: its last argument, or null.
inline quern_error* error_of() noexcept { return nullptr; }
template <typename First, typename... Rest>
quern_error* error_of(First first, Rest... rest) noexcept {
  if constexpr (sizeof...(Rest) > 0) return error_of(rest...);
  else if constexpr (std::is_same_v<First, quern_error*>) return first;
  else return nullptr;
}

}  // namespace quern::loader
