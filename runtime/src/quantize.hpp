// A model's weights in other types, as a GGUF file or as a quantised directory.
#pragma once

#include "quern/models/mix.hpp"

#include <functional>
#include <string>

namespace quern::runtime {

struct QuantizeOptions {
  std::string type;                         // of the file: "Q4_K_M"
  std::string to;                           // a directory's form: "awq"; "": a GGUF file
  double target_bits = 0;                   // in place of a type: for a weight of the file, at most; 0: none
  std::string importance;                   // path of a matrix; "": none
  std::vector<std::string> tensor_types;    // "REGEX=TYPE"
  std::string output_type, embedding_type;  // "": by the mix
  bool pure = false, allow_requantize = false, dry_run = false;
  std::uint32_t threads = 1;
  std::function<bool(std::uint64_t done, std::uint64_t total)> progress;  // bytes of the model that is read; false cancels
};

/// Writes `in`, a GGUF file or a directory, as a GGUF file with the tensor types of the mix. Some rows of one tensor at a time are in memory.
/// With `to`, a directory is written instead, and one tensor at a time is in memory as f32.
/// Returns a JSON object: what quern_quantize() of quern.h says. Throws Error: what reading and writing throw, QUERN_INVALID_ARGUMENT for
/// options that mean nothing, an output that exists, and weights that lie in blocks already; QUERN_UNSUPPORTED for a type that is not written.
std::string quantize(const std::string& in, const std::string& out, const QuantizeOptions& options);

}  // namespace quern::runtime
