// The families of directories that are read, as data.
#pragma once

#include "config.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace quern::directory {

/// What transformers' configuration class has where config.json says nothing.
struct Default {
  std::string_view name;
  double value;
};

/// Which layers attend within a window, where `layer_types` does not list them.
enum class Window : std::uint8_t { never, if_stated, if_used };

/// Which products of the attention have biases in its class: never any, always those of q, k and v, or all four or none, as `attention_bias`
/// says.
enum class Biases : std::uint8_t { never, of_qkv, if_stated };

struct Family {
  std::string_view model_type;    // of config.json
  std::string_view class_name;    // in its `architectures`
  std::string_view architecture;  // general.architecture
  bool interleaves;               // the graph rotates neighbours: rows of q and k are permuted
  Window window;                  // if_used: where use_sliding_window is true, from layer max_window_layers on
  Biases biases;
  std::span<const Default> defaults;
};

/// The family of a configuration. Throws Error(QUERN_UNSUPPORTED) naming what is not read here.
const Family& family_of(const Config& config);

/// The family of a graph with or without a window. Throws Error(QUERN_UNSUPPORTED) for a graph that no family has.
const Family& family_of(std::string_view architecture, bool windowed);

/// Nothing where the class has no such default, or its default is null.
std::optional<double> default_of(const Family& family, std::string_view name) noexcept;

}  // namespace quern::directory
