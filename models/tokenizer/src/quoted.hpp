// Text of a hostile file, made fit for an error message.
#pragma once

#include <string>
#include <string_view>

namespace quern::tokenizer {

/// 'text' in quotes, control bytes and bytes above 0x7E as \xNN, cut after 48 bytes with "...".
std::string quoted(std::string_view text);

}  // namespace quern::tokenizer
