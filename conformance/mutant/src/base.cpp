// See base.hpp.
#include "base.hpp"

#include <dlfcn.h>

#include <map>
#include <mutex>

namespace quern::mutant {

namespace {

/// Libraries are loaded once a process and never unloaded, as a plugin may not be.
struct Loaded {
  std::mutex lock;
  std::map<std::string, std::shared_ptr<const Base>, std::less<>> by_path;
};
Loaded& loaded() {
  static Loaded all;
  return all;
}

}  // namespace

std::shared_ptr<const Base> Base::open(const std::string& path) {
  const std::lock_guard guard(loaded().lock);
  if (const auto known = loaded().by_path.find(path); known != loaded().by_path.end()) return known->second;
  if (path.empty()) throw sdk::Failure(QUERN_INVALID_ARGUMENT, "the option 'base' names no plugin to wrap");
  void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw sdk::Failure(QUERN_NOT_FOUND, sdk::concat("base plugin: ", ::dlerror()));
  const auto query = reinterpret_cast<quern_plugin_query_fn>(::dlsym(library, QUERN_PLUGIN_QUERY_NAME));
  if (query == nullptr) throw sdk::Failure(QUERN_VERSION, sdk::concat("base plugin ", path, " exports no ", QUERN_PLUGIN_QUERY_NAME));
  auto question = sdk::made<quern_query>();
  question.abi_minor = QUERN_ABI_MINOR;
  question.header_hash = QUERN_HEADER_HASH;
  auto base = std::make_shared<Base>();
  if (const quern_status status = query(&question, &base->api_, nullptr); status != QUERN_OK)
    throw sdk::Failure(status, sdk::concat("base plugin ", path, " refuses this host"));
  return loaded().by_path.emplace(path, std::move(base)).first->second;
}

}  // namespace quern::mutant
