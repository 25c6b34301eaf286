// What a probe's result depends on: the key of its cache entry.
#pragma once

#include "exchange.hpp"
#include "inspect.hpp"
#include "quern/loader/settings.hpp"

#include <string>

namespace quern::loader {

/// Plugin file and build, loader and its helper (its path), request, driver versions, boot, processor, visibility variables, device nodes, cards,
/// installed libraries and user, as a text in UTF-8. Empty if the boot cannot be told: then nothing is cached.
std::string fingerprint(const HelperRequest& request, const std::string& helper, const Inspection& found, const HostFacts& facts,
                        const Settings& settings);

}  // namespace quern::loader
