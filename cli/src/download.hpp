// A model into the cache, with a bar.
#pragma once

#include "settings.hpp"

#include <cstdint>
#include <string>

namespace quern::cli {

/// What a download must be.
struct Demands {
  std::string sha256;              // of its one file; empty: any
  std::uint64_t memory_bytes = 0;  // the most of its weights; 0: no limit
};

/// Downloads a model, unless it is there, and gives the path of its file or folder. Ctrl-C ends the program by the signal, behind
/// the sentence that what came is kept. Throws Failure.
std::string download_model(const std::string& name, const Demands& demands, const Settings& settings, bool quiet);

}  // namespace quern::cli
