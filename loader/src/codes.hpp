// The stable codes of the load report; codes.def has them with their meaning.
#pragma once

namespace quern::loader::code {

#define QUERN_LOADER_CODE(name, code, meaning, command) inline constexpr const char* name = code;
#include "codes.def"
#undef QUERN_LOADER_CODE

}  // namespace quern::loader::code
