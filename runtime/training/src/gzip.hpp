// Unpacks gzip files.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace quern::training {

/// All members of a gzip file, one behind the other. Throws Error(QUERN_BAD_MODEL) naming the file for bytes that are damaged, cut off or
/// no gzip, and as soon as the text has more than `most` bytes.
std::string unpack_gzip(const std::string& name, std::string_view bytes, std::uint64_t most);

}  // namespace quern::training
