// The front matter of README.md, and the keys of GGUF that have the same: name, licence, base models, tags, languages.
#pragma once

#include "quern/models/gguf_writer.hpp"

#include <string>

namespace quern::directory {

/// Of a file that has none, or one in another form, nothing is written: no model depends on it.
void write_card_keys(const std::string& folder, gguf::Writer& keys);

/// A README.md with the front matter that the keys give; empty where they give none.
std::string model_card_text(const gguf::File& model);

}  // namespace quern::directory
