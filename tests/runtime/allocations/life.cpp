// See life.hpp.
#include "life.hpp"

#include <cstring>

namespace quern::test::allocations {

void Life::note(const char* name, quern_status status) {
  if (status != QUERN_HOST_OUT_OF_MEMORY && status != QUERN_OUT_OF_MEMORY && !is_of_memory(status))
    say(std::string(name) + " gave " + quern_status_name(status) + ": " + quern_last_error());
  if (*quern_last_error() == '\0') say(std::string(name) + " failed without a word");
  if (first_failure == QUERN_OK) first_failure = status;
}

quern_runtime_options Life::runtime_options() const {
  quern_runtime_options options{};
  options.struct_size = sizeof options;
  options.ignore_environment = 1;
  options.backend = subject_.backend.c_str();  // one plugin, one thread that asks for it: the same order each time
  options.backend_path = subject_.plugins.c_str();
  options.cache_dir = subject_.cache.c_str();
  options.threads = 2;
  return options;
}

quern_runtime* Life::ready_runtime() {
  quern_runtime_options options = runtime_options();
  options.probe_in_process = 1;  // a process of a process of a test of thousands would take minutes
  quern_runtime* runtime = nullptr;
  const auto create = [&] { return step("quern_runtime_create", [&] { return quern_runtime_create(&options, &runtime); }); };
  if (!create()) return nullptr;
  // A plugin that had no memory for its self-test is refused by this runtime, which says so; another runtime asks it again.
  if (quern_runtime_ready(runtime) == QUERN_OK) return runtime;
  counting = false;
  if (std::strstr(quern_last_error(), "memory") == nullptr) say(std::string("quern_runtime_ready: ") + quern_last_error());
  first_failure = QUERN_BACKEND_UNAVAILABLE;
  quern_runtime_release(runtime);
  runtime = nullptr;
  if (!create()) return nullptr;
  counting = true;
  return runtime;
}

}  // namespace quern::test::allocations
