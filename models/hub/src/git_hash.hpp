// The name that Git gives a file: SHA-1 (FIPS 180-4) of "blob", its size and its bytes. The hub lists no other sum of small files.
#pragma once

#include <string>

namespace quern::hub {

/// 40 hex digits. Throws Error naming the file where it cannot be read.
std::string git_hash_of_file(const std::string& path);

}  // namespace quern::hub
