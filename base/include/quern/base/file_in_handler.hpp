// A small file, written from a signal handler. Everything else goes through files.hpp.
#pragma once

#include <string_view>

namespace quern::base {

/// Writes aside, with mode 0600, and renames: nothing is written through a link or into another name of the file. False where it failed. Uses no
/// memory and keeps errno.
bool write_file_in_handler(const char* path, std::string_view bytes) noexcept;

}  // namespace quern::base
