// What the user selected, as the loader's settings.
#pragma once

#include "cli/options.hpp"
#include "quern/loader/loader.hpp"

namespace quern::conformance {

/// Environment first, then the flags. A --plugin file is searched before all and demanded by its id.
loader::Settings loader_settings(const Selection& selection);

}  // namespace quern::conformance
