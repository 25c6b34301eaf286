// Base64, in which tokenizer files spell bytes.
#pragma once

#include <string>
#include <string_view>

namespace quern {

/// Throws Error(QUERN_BAD_MODEL) naming `field`.
std::string decode_base64(std::string_view field, std::string_view text);

}  // namespace quern
