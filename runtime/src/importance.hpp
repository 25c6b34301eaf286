// How large the inputs of a model's products are over a text: its importance matrix.
#pragma once

#include "runtime.hpp"

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace quern::runtime {

struct ImportanceOptions {
  std::string dataset;                                                    // what the file says of the text
  std::vector<std::string> inputs;                                        // matrices of the same model to add to
  std::uint64_t most_chunks = 0;                                          // 0: the whole text
  std::function<bool(std::uint64_t done, std::uint64_t total)> progress;  // tokens; false cancels
};

/// Runs the text through the model in chunks, each from position 0 and with the model's first token, and writes the sums of squares of each
/// weight's inputs. Tokens behind the last whole chunk are left out, unless there is no whole one. Returns a JSON object: what
/// quern_imatrix() of quern.h says. Throws Error: what loading, reading and writing throw, QUERN_INVALID_ARGUMENT for a text without tokens.
std::string measure_importance(const std::shared_ptr<Runtime>& runtime, const std::string& model, std::string_view text,
                               const ImportanceOptions& options, const std::string& out);

}  // namespace quern::runtime
