// adapter_config.json: what of it the adapter needs, and what of it is refused.
#pragma once

#include "quern/models/peft.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace quern::peft {

/// Numbers by module: rank_pattern and alpha_pattern, in the order of the file. A key applies to a module whose name is the key or ends in
/// "." and the key; the first that applies counts.
template <typename T>
using Pattern = std::vector<std::pair<std::string, T>>;

struct Config {
  double alpha = 0;
  std::int64_t rank = 0;
  bool rslora = false;
  double dropout = 0;
  std::string base_model;
  Pattern<std::int64_t> ranks;
  Pattern<double> alphas;
  std::optional<std::vector<std::string>> modules;  ///< target_modules, where it is a list
};

/// Throws Error(QUERN_BAD_MODEL) for malformed text and values, Error(QUERN_UNSUPPORTED) for a setting that Quern lacks. `file` begins the
/// texts.
Config read_config(std::string_view text, const std::string& file);

/// Whether a key of target_modules or of a pattern applies to "model.layers.3.self_attn.q_proj".
bool applies_to(std::string_view key, std::string_view module) noexcept;

/// The 41 keys that peft 0.21 writes, in its form. `targets` are those that the adapter has.
std::string config_text(const Adapter& adapter);

}  // namespace quern::peft
