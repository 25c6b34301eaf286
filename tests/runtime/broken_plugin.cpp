// The CPU backend, but one call fails in the way that QUERN_TEST_FAULT names (test_fault.hpp).
#include "base_plugin.hpp"
#include "test_fault.hpp"

namespace {

quern_plugin_api base;

template <const char* const* name, auto member, class Function>
struct Broken;
template <const char* const* name, auto member, class Result, class... Arguments>
struct Broken<name, member, Result (*)(Arguments...)> {
  static Result call(Arguments... arguments) {
    quern::test::fail_in(*name);
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
