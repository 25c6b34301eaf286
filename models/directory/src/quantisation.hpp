// How a directory says that its weights are quantised: the method, and what the shapes of its tensors do not say.
#pragma once

#include "config.hpp"

#include "quern/models/directory.hpp"

#include <cstdint>
#include <optional>
#include <string>

namespace quern::directory {

enum class Method : std::uint8_t { none, awq, gptq, compressed, fp8, bitsandbytes };

struct Quantisation {
  Method method = Method::none;
  std::uint32_t bits = 0;                                   ///< of awq and gptq; 0 where modules may differ, whose shapes say it
  std::optional<std::uint64_t> group;                       ///< columns that share a scale, 0 for all; nothing where modules may differ
  bool zeros_less_one = false;                              ///< gptq of the first version stores zero points less one
  bool symmetric = false;                                   ///< gptq: the zero point is the middle, whichever version wrote it
  models::ActOrder act_order = models::ActOrder::expanded;  ///< as the caller of open_model() takes it; no field of the directory
  std::uint64_t block_rows = 0, block_columns = 0;          ///< of fp8 with a scale for each block; 0: for a row or the tensor
};

/// Of config.json, or of quantize_config.json beside it, as older directories of GPTQ have it. Throws Error(QUERN_UNSUPPORTED) naming a method
/// or form that is not read, QUERN_BAD_MODEL for fields that make no sense.
Quantisation read_quantisation(const std::string& folder, const Config& config);

}  // namespace quern::directory
