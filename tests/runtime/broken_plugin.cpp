// The CPU backend, but one call fails in the way that QUERN_TEST_FAULT names: "submit:crash". In the helper process it is good. A call that is
// to hang puts a byte into the pipe whose number is QUERN_TEST_WAIT. QUERN_TEST_AFTER=3 lets three calls pass before.
#include "base_plugin.hpp"

#include <errno.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string_view>

namespace {

quern_plugin_api base;

void fail(std::string_view fault) {
  if (fault == "crash") *static_cast<volatile int*>(nullptr) = 1;
  if (fault == "abort") std::abort();
  if (fault == "exit") std::exit(0);
  if (fault == "throw") throw std::runtime_error("no such luck");
  if (fault == "print") std::puts("printed by the plugin"), std::fflush(stdout);
  if (fault != "hang") return;
  const char* pipe = std::getenv("QUERN_TEST_WAIT");
  if (pipe == nullptr || ::write(std::atoi(pipe), "", 1) != 1) return;
  for (;;) ::pause();
}

void fail_in(std::string_view call) {
  const char* value = std::getenv("QUERN_TEST_FAULT");
  if (value == nullptr || std::string_view(program_invocation_short_name) == "quern-probe") return;
  const std::string_view wanted = value;
  const std::size_t colon = wanted.find(':');
  if (wanted.substr(0, colon) != call) return;
  static std::atomic<int> passed{0};
  const char* after = std::getenv("QUERN_TEST_AFTER");
  if (after == nullptr || ++passed > std::atoi(after)) fail(wanted.substr(colon + 1));
}

template <const char* const* name, auto member, class Function>
struct Broken;
template <const char* const* name, auto member, class Result, class... Arguments>
struct Broken<name, member, Result (*)(Arguments...)> {
  static Result call(Arguments... arguments) {
    fail_in(*name);
    return (base.*member)(arguments...);
  }
};

quern_plugin_api wrapped() {
  quern_plugin_api api = quern::test::base_plugin();
  base = api;
  api.id = quern::sdk::text_of("broken");
#define QUERN_BREAK(function) \
  static constexpr const char* name_of_##function = #function; \
  api.function = Broken<&name_of_##function, &quern_plugin_api::function, decltype(api.function)>::call;
  QUERN_BREAK(device_open)
  QUERN_BREAK(support)
  QUERN_BREAK(compile)
  QUERN_BREAK(instance_create)
  QUERN_BREAK(prepare)
  QUERN_BREAK(submit)
  QUERN_BREAK(plan_destroy)
  QUERN_BREAK(device_close)
  QUERN_BREAK(destroy)
#undef QUERN_BREAK
  return api;
}

const quern_plugin_api& table() noexcept {
  static const quern_plugin_api api = wrapped();
  return api;
}

}  // namespace

QUERN_PLUGIN_NOTE("broken", "1.0", QUERN_DEVICE_CPU, 0, "");
QUERN_PLUGIN_ENTRY(table())
