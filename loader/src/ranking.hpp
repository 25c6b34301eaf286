// Orders usable devices, best first, and says which of them are one and the same.
#pragma once

#include "quern/loader/loader.hpp"

#include <string>
#include <vector>

namespace quern::loader {

struct RankRules {
  std::vector<std::string> demand;       // plugin ids in the user's order; empty: none
  std::string named;                     // label of the device that the user named; permits a software rasteriser
  std::vector<std::string> behind = {};  // plugin ids whose devices come last: they ended an earlier program
};

struct Dropped {
  Candidate candidate;
  std::string code;
  std::string reason;
  std::string remedy;
};

struct Ranking {
  std::vector<Candidate> order;
  std::vector<Dropped> dropped;
};

/// Pure. The demand's order first, then discrete, unified, integrated, CPU, software, other. Equal classes go
/// by measured bandwidth, then by name, plugin and index, so that every run agrees. Free memory and a
/// plugin's opinion of itself play no part. A physical device that two plugins serve is kept once, with its
/// vendor's own API; a software rasteriser only if it is the named device.
Ranking rank(std::vector<Candidate> candidates, const RankRules& rules);

/// The same chip? By PCI address where both have one, else by UUID where both have one. Slices of one card
/// that one plugin lists are different devices: they have different UUIDs.
bool same_physical_device(const Candidate& a, const Candidate& b);

/// Plugin ids whose order would be decided by bandwidth that nobody measured: two GPUs of one class and
/// different names.
std::vector<std::string> unmeasured_ties(const std::vector<Candidate>& order);

}  // namespace quern::loader
