// The device nodes through which a driver is reached: there, and open to this user?
#pragma once

#include "graphics_cards.hpp"
#include "quern/loader/settings.hpp"
#include "quern/loader/report.hpp"

#include <vector>

namespace quern::loader {

/// One entry for each node that a card's driver needs and that is missing or closed.
std::vector<ReportEntry> node_faults(const Settings& settings, const std::vector<GraphicsCard>& cards);

}  // namespace quern::loader
