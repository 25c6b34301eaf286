// Settings as YAML text: the resolved file of a run, and the file that a user begins with.
#pragma once

#include "quern/training/settings.hpp"

#include <span>
#include <string>
#include <string_view>

namespace quern::training {

/// Every setting by our names, with its value. `comments` are lines for its head (versions, device). Read again, it gives the same Settings.
std::string resolved_file(const Settings& settings, std::span<const std::string> comments = {});

/// A commented file for a new run of `model`. Valid once `learning_rate` and the data suit; only comments depend on the model.
std::string starter_file(Adapter adapter, std::string_view model);

}  // namespace quern::training
