// Importance matrices: how large the inputs of each product were over a text, column by column.
//
// Files are llama.cpp's: GGUF ones are read and written, the older `.dat` ones are read. Everything in them is untrusted.
#pragma once

#include "quern/graph/error.hpp"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace quern::quantize {

/// Of one weight; a weight of experts has several matrices.
struct ImportanceEntry {
  std::vector<double> sums;    // of squares, column by column, one matrix after another
  std::vector<double> counts;  // tokens that each matrix has seen
};

struct Importance {
  std::string path;                                // of what was read, for messages
  std::map<std::string, ImportanceEntry> entries;  // by the weight's name in GGUF files
  std::vector<std::string> datasets;
  std::uint32_t chunks = 0, chunk_tokens = 0;

  /// Throws Error: QUERN_BAD_MODEL for a malformed file or one of another kind, and what opening files throws.
  static Importance read(const std::string& path);
  /// Throws Error(QUERN_IO or QUERN_PERMISSION).
  void write(const std::string& path) const;

  /// Sums and counts are added. Throws Error(QUERN_BAD_MODEL) where both have a weight in different sizes.
  void add(const Importance& other);

  /// The mean square of each column for `matrices` of `columns` each, one after another; 1 in all columns of a matrix that no token has
  /// reached. Empty if the weight has no entry. Throws Error(QUERN_BAD_MODEL) for another size.
  std::vector<float> weights(const std::string& tensor, std::uint64_t columns, std::uint64_t matrices) const;
};

}  // namespace quern::quantize
