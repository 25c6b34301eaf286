// The table of the CPU backend, for plugins that are it but for one thing.
#pragma once

#include "quern/quern_plugin.hpp"

#include <dlfcn.h>

namespace quern::test {

/// An empty table where it cannot be had.
inline quern_plugin_api base_plugin() {
  quern_plugin_api api = sdk::make_api();
  auto question = sdk::made<quern_query>();
  question.abi_minor = QUERN_ABI_MINOR;
  question.header_hash = QUERN_HEADER_HASH;
  void* library = ::dlopen(QUERN_BASE_PLUGIN, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return api;
  const auto query = reinterpret_cast<quern_plugin_query_fn>(::dlsym(library, QUERN_PLUGIN_QUERY_NAME));
  if (query != nullptr) query(&question, &api, nullptr);
  return api;
}

}  // namespace quern::test
