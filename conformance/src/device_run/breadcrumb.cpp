// See breadcrumb.hpp.
#include "device_run/breadcrumb.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <new>

namespace quern::conformance {
namespace {

constexpr const char* call_names[] = {
#define QUERN_PLUGIN_CALL(name) #name,
#include "quern/loader/plugin_calls.def"
#undef QUERN_PLUGIN_CALL
};
enum Call : std::uint32_t {
#define QUERN_PLUGIN_CALL(name) call_##name,
#include "quern/loader/plugin_calls.def"
#undef QUERN_PLUGIN_CALL
  call_count
};

struct Crumb {
  std::atomic<std::uint32_t> open[call_count];  // how often a call is open, in all threads
  std::atomic<std::uint64_t> refused;
  std::atomic<std::uint32_t> claim_bytes;
  char claim[1024];
};
static_assert(sizeof(Crumb) <= breadcrumb_bytes);
static_assert(std::atomic<std::uint32_t>::is_always_lock_free && std::atomic<std::uint64_t>::is_always_lock_free);

Crumb nowhere{};
std::atomic<Crumb*> crumb{&nowhere};

quern_plugin_api original{};

/// One function of the table between two marks.
template <std::uint32_t Index, auto Member, class Function>
struct Traced;
template <std::uint32_t Index, auto Member, class Result, class... Arguments>
struct Traced<Index, Member, Result (*)(Arguments...)> {
  struct Open {
    Open() noexcept { ++crumb.load()->open[Index]; }
    ~Open() { --crumb.load()->open[Index]; }
    Open(const Open&) = delete;
    Open& operator=(const Open&) = delete;
  };
  static Result call(Arguments... arguments) {
    const Open open;
    return (original.*Member)(arguments...);
  }
};

}  // namespace

void leave_breadcrumbs_in(std::span<std::byte> memory) noexcept { crumb = new (memory.data()) Crumb{}; }

void trace_calls(quern_plugin_api& api) noexcept {
#define QUERN_PLUGIN_CALL(name) \
  if (api.name != nullptr && api.name != &Traced<call_##name, &quern_plugin_api::name, decltype(api.name)>::call) { \
    original.name = api.name; \
    api.name = &Traced<call_##name, &quern_plugin_api::name, decltype(api.name)>::call; \
  }
#include "quern/loader/plugin_calls.def"
#undef QUERN_PLUGIN_CALL
}

quern_plugin_api untraced(const quern_plugin_api& api) noexcept {
  quern_plugin_api plain = api;
#define QUERN_PLUGIN_CALL(name) \
  if (plain.name == &Traced<call_##name, &quern_plugin_api::name, decltype(plain.name)>::call) plain.name = original.name;
#include "quern/loader/plugin_calls.def"
#undef QUERN_PLUGIN_CALL
  return plain;
}

void crumb_of_claim(const std::string& claim) noexcept {
  Crumb& c = *crumb.load();
  const std::size_t bytes = std::min(claim.size(), sizeof c.claim);
  c.claim_bytes = 0;
  std::memcpy(c.claim, claim.data(), bytes);
  c.claim_bytes = static_cast<std::uint32_t>(bytes);
}

void crumb_of_refusal(std::uint64_t allocation) noexcept { crumb.load()->refused = allocation; }

void clear_breadcrumbs() noexcept {
  Crumb& c = *crumb.load();
  for (std::atomic<std::uint32_t>& open : c.open) open = 0;  // of a child that a script forked and that was ended inside of a call
  c.claim_bytes = 0;
  c.refused = 0;
}

std::string breadcrumb_words(std::span<const std::byte> memory) {
  if (memory.size() < sizeof(Crumb)) return {};
  const Crumb& c = *reinterpret_cast<const Crumb*>(memory.data());
  std::string text;
  for (std::uint32_t i = 0; i < call_count; ++i)
    if (const std::uint32_t open = c.open[i]; open != 0 && open < 1000)
      text += (text.empty() ? "in " : " and in ") + std::string(call_names[i]);
  const auto add = [&](const std::string& more) { text += (text.empty() ? "" : ", ") + more; };
  const std::uint32_t bytes = c.claim_bytes;
  if (bytes != 0 && bytes <= sizeof c.claim) add("after the claim '" + std::string(c.claim, bytes) + "'");
  if (const std::uint64_t refused = c.refused; refused != 0) add("with allocation " + std::to_string(refused) + " refused");
  return text;
}

}  // namespace quern::conformance
