// From proven devices to candidates, with a word for each device that is none.
#pragma once

#include "demand.hpp"
#include "graphics_cards.hpp"
#include "survey.hpp"

#include <string>
#include <vector>

namespace quern::loader {

struct Choice {
  std::vector<Candidate> candidates;  // ranked
  std::vector<ReportEntry> entries;   // one a plugin, in the survey's order
  std::vector<ReportEntry> notes;     // about plugins that may be used
};

/// Pure: hidden cards out, the named device, then the ranking.
Choice choose(const Settings& settings, const Demand& demand, const Survey& survey, const std::vector<GraphicsCard>& cards);

/// One entry for each graphics card that nothing uses, with the reason.
std::vector<ReportEntry> unused_cards(const Settings& settings, const Choice& choice, const std::vector<GraphicsCard>& cards);

/// A note for each demanded backend that cannot be used where another one of the demand can.
std::vector<ReportEntry> passed_over(const Demand& demand, const Choice& choice, const Survey& survey);

/// Why the demand cannot be met and what to do, in one text; empty if it is met. Also for no candidates
/// without a demand.
std::string unmet(const Settings& settings, const Demand& demand, const Choice& choice, const Survey& survey);

}  // namespace quern::loader
