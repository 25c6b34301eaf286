// Operations on str that methods and filters share.
#pragma once

#include "runtime.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace quern::jinja {

Value recase(Runtime& runtime, const Text& text, void (*convert)(TextBuilder&, std::string_view));
/// str.replace(); a negative count replaces all.
Value replace_text(Runtime& runtime, const Text& text, const Text& old_part, const Text& new_part, std::int64_t count);
/// separator.join(str(item) for item in items)
Value join_values(Runtime& runtime, const Text& separator, const Counted<Value>& items);
/// str.center() with one fill character: the extra one of an odd rest goes where Python puts it.
Value center_text(Runtime& runtime, const Text& text, std::int64_t width, const Text& fill);

/// Whether the text has a letter with case and every such letter is `wanted` (is_lower or is_upper).
bool has_only(Runtime& runtime, std::string_view text, bool (*wanted)(char32_t) noexcept);

}  // namespace quern::jinja
