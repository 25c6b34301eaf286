// The name that somebody may have meant.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace quern {

/// The one of `names` that is nearest to `given`: the shortest that begins with it, else the one with the fewest edits (a
/// character inserted, deleted, replaced, or two neighbours exchanged), if they are at most a third of its length. "" if
/// none is near. Case and the difference between '-' and '_' do not count.
std::string nearest(std::string_view given, std::span<const std::string> names);

/// "; did you mean --temperature?", or "" where no name is near.
std::string did_you_mean(std::string_view given, std::span<const std::string> names);

}  // namespace quern
