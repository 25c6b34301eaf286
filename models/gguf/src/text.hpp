// Names that come from a file, made safe to show in an error.
#pragma once

#include <string>
#include <string_view>

namespace quern::gguf {

/// In single quotes; bytes outside printable ASCII become \xNN, and what is longer than 80 bytes is cut.
std::string shown(std::string_view bytes);

}  // namespace quern::gguf
