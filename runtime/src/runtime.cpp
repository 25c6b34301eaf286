// See runtime.hpp.
#include "runtime.hpp"

#include "quern/base/byte_sizes.hpp"
#include "quern/base/terminal_text.hpp"
#include "quern/graph/error.hpp"
#include "quern/graph/stack.hpp"
#include "quern/loader/host_limits.hpp"

#include <algorithm>
#include <exception>

namespace quern::runtime {
std::map<std::string, std::uint64_t> parse_memory_limits(std::string_view text, std::string_view from) {
  std::map<std::string, std::uint64_t> limits;
  for (std::string_view rest = text; !rest.empty();) {
    const std::size_t comma = std::min(rest.find(','), rest.size());
    const std::string_view item = rest.substr(0, comma);
    rest.remove_prefix(std::min(comma + 1, rest.size()));
    const std::size_t equals = item.find('=');
    if (equals == std::string_view::npos || equals == 0) {
      throw Error(QUERN_INVALID_ARGUMENT, concat(from, ": ", in_quotes(item, 200), " has no device; write for example cuda:0=8G,cpu=512M"));
    }
    const std::optional<std::uint64_t> bytes = parse_bytes(item.substr(equals + 1));
    if (!bytes) {
      throw Error(QUERN_INVALID_ARGUMENT,
                  concat(from, ": ", in_quotes(text, 200), " is not a list of limits; write for example cuda:0=8G,cpu=512M"));
    }
    if (*bytes == 0)
      throw Error(QUERN_INVALID_ARGUMENT,
                  concat(from, ": ", in_quotes(item, 200), " is no limit above 0; disable a backend to leave it out"));
    limits[std::string(item.substr(0, equals))] = *bytes;
  }
  return limits;
}

Fallback parse_fallback(std::string_view text, std::string_view from) {
  if (text == "auto") return Fallback::automatic;
  if (text == "warn") return Fallback::warn;
  if (text == "strict") return Fallback::strict;
  throw Error(QUERN_INVALID_ARGUMENT, concat(from, " is ", in_quotes(text, 200), "; it takes auto, warn or strict"));
}

WeightsCacheMode parse_weights_cache(std::string_view text, std::string_view from) {
  if (text == "off" || text == "0") return WeightsCacheMode::off;
  if (text == "on" || text == "1") return WeightsCacheMode::on;
  if (text == "verify") return WeightsCacheMode::verify;
  throw Error(QUERN_INVALID_ARGUMENT, concat(from, " is ", in_quotes(text, 200), "; it takes off, on or verify"));
}

std::uint64_t parse_weights_cache_limit(std::string_view text, std::string_view from) {
  const std::optional<std::uint64_t> bytes = parse_bytes(text);
  if (!bytes)
    throw Error(QUERN_INVALID_ARGUMENT, concat(from, " is ", in_quotes(text, 200), "; write bytes, for example 32G, or 0 for no limit"));
  return *bytes;
}

Runtime::Runtime(RuntimeSettings settings)
    : settings_(std::move(settings)),
      loader_(settings_.loader),
      threads_(settings_.loader.threads.value != 0 ? settings_.loader.threads.value
                                                   : loader::usable_processors(loader::root_of(settings_.loader))) {}

std::shared_ptr<MemoryBudget> Runtime::open(const loader::Candidate& candidate) {
  if (const auto known = opened_.find(candidate.label); known != opened_.end()) return known->second;
  if (candidate.device.device_class != QUERN_DEVICE_CPU) require_stack(stack_for_a_driver, "opening this device");
  const auto& limits = settings_.memory_limits;
  auto limit = limits.find(candidate.label);
  if (limit == limits.end()) limit = limits.find(candidate.plugin_id);
  auto budget = std::make_shared<MemoryBudget>(loader_.open(candidate), limit == limits.end() ? 0 : limit->second);
  opened_.emplace(candidate.label, budget);
  return budget;
}

bool Runtime::demanded() const {
  const loader::Settings& settings = loader_.settings();
  return !settings.backends.value.empty() || !settings.device.value.empty() || settings.force_cpu.value;
}

std::vector<std::shared_ptr<MemoryBudget>> Runtime::open_best(const std::vector<loader::Candidate>& candidates) {
  std::vector<std::shared_ptr<MemoryBudget>> opened;
  if (!loader_.settings().backends.value.empty()) {
    std::vector<std::string> backends;
    for (const loader::Candidate& candidate : candidates) {
      if (std::ranges::find(backends, candidate.plugin_id) != backends.end()) continue;
      backends.push_back(candidate.plugin_id);
      opened.push_back(open(candidate));  // a demand: the first failure is the caller's answer
    }
    return opened;
  }
  std::optional<Error> first_failure;
  const auto try_open = [&](const loader::Candidate& candidate) {
    try {
      opened.push_back(open(candidate));
      return true;
    } catch (const Error& failure) {
      log(QUERN_LOG_WARN, concat(candidate.label, " is not used: ", failure.what()));
      if (!first_failure) first_failure = failure;
      return false;
    }
  };
  (void)std::ranges::any_of(candidates, try_open);
  if (opened.empty()) throw first_failure.value();
  if (opened[0]->device()->info().device_class != QUERN_DEVICE_CPU) {
    const auto cpu = std::ranges::find_if(candidates, [](const loader::Candidate& c) { return c.device.device_class == QUERN_DEVICE_CPU; });
    if (cpu != candidates.end()) try_open(*cpu);
  }
  return opened;
}

std::vector<std::shared_ptr<MemoryBudget>> Runtime::devices() {
  const std::scoped_lock lock(mutex_);
  while (devices_.empty()) {
    const std::vector<loader::Candidate>& candidates = loader_.require();
    std::vector<std::shared_ptr<MemoryBudget>> opened;
    std::exception_ptr failure;
    try {
      opened = open_best(candidates);
    } catch (const Error&) { failure = std::current_exception(); }
    if (&loader_.require() != &candidates) continue;  // a kept probe was wrong, and what is best was decided anew
    if (failure) std::rethrow_exception(failure);
    devices_ = std::move(opened);
  }
  return devices_;
}

std::shared_ptr<MemoryBudget> Runtime::device(const std::string& label) {
  if (label.empty()) return devices().front();
  const std::scoped_lock lock(mutex_);
  std::string labels;
  for (const loader::Candidate& candidate : loader_.require()) {
    if (candidate.label == label) return open(candidate);
    labels += concat(labels.empty() ? "" : ", ", candidate.label);
  }
  throw Error(QUERN_NOT_FOUND, concat("there is no device ", in_quotes(label, 200), " that may be used; there is ", labels));
}

void Runtime::log(std::uint32_t level, const std::string& text) const {
  if (settings_.loader.log) settings_.loader.log(level, "runtime", text);
}

bool shares_host_memory(const MemoryBudget& budget) {
  const std::uint32_t kind = budget.device()->info().device_class;
  return budget.host_memory() || kind == QUERN_DEVICE_CPU || kind == QUERN_DEVICE_SOFTWARE || kind == QUERN_DEVICE_INTEGRATED ||
         kind == QUERN_DEVICE_UNIFIED;
}

Room room_on(const MemoryBudget& budget) {
  Room room;
  if (!budget.host_memory() && budget.device()->api().heap_info != nullptr) {
    quern_heap_info heap{};
    heap.header = {sizeof(heap), QUERN_TYPE_HEAP_INFO, nullptr};
    if (budget.device()->call<&quern_plugin_api::heap_info>(budget.device()->handle(), 0, &heap, nullptr) == QUERN_OK &&
        heap.budget_figure != QUERN_FIGURE_UNKNOWN) {
      room.free = heap.budget;
    }
  }
  if (shares_host_memory(budget)) {
    const loader::HostMemory host = loader::host_memory();
    if (host.available && (!room.free || *host.available < *room.free)) {
      room.free = host.available;
      room.limit = host.limit;
    }
  }
  room.available = room.free;
  if (budget.limit() != 0) {
    const std::uint64_t used = budget.statistics().in_use;
    const std::uint64_t left = budget.limit() > used ? budget.limit() - used : 0;
    room.available = std::min(left, room.free.value_or(left));
  }
  return room;
}

void require_room(const MemoryBudget& budget, std::uint64_t bytes, const char* what) {
  if (!shares_host_memory(budget)) return;  // its driver refuses by itself
  const Room room = room_on(budget);
  if (!room.free || bytes <= *room.free) return;
  const auto [asked, free] = byte_words_apart(bytes, *room.free);
  throw Error(QUERN_OUT_OF_MEMORY, concat(budget.device()->label(), ": no memory for ", what, ": ", asked, " requested, ", free,
                                          " available", room.limit.empty() ? "" : concat(" (", room.limit, ")")));
}

}  // namespace quern::runtime
