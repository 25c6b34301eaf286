// See mutant_table.hpp.
#include "selftest/mutant_table.hpp"

#include <sstream>
#include <stdexcept>

namespace quern::conformance {
namespace {

std::vector<std::string> words(const char* text) {
  std::istringstream in(text);
  std::vector<std::string> list;
  for (std::string word; in >> word;) list.push_back(word);
  return list;
}

/// The words by which the suite tells a failure of this kind (device_run/case_run.cpp, judge/judge.cpp, case_table/exclusions.cpp).
const char* phrase(Sign sign) {
  switch (sign) {
    case Sign::value: return ", expected ";
    case Sign::repeat: return "two runs on the same inputs differ";
    case Sign::canary: return " the buffer was written";
    case Sign::gap: return " between its rows was written";
    case Sign::input: return ", an input, was changed";
    case Sign::scratch: return "scratch: ";
    case Sign::status: return "the run ended with ";
    case Sign::refusal: return "compile answered ";
    case Sign::unsupported: return "not supported, and mandatory: ";
    case Sign::fault: return "the run raised the faults ";
    case Sign::printed: return "the plugin printed ";
    case Sign::manners: return "the plugin changed the process ";
    default: return "";
  }
}

}  // namespace

const char* sign_name(Sign sign) {
  static constexpr const char* names[] = {"value",   "repeat",      "canary", "gap",     "input",   "scratch", "status",
                                          "refusal", "unsupported", "fault",  "printed", "manners", "crash",   "timeout",
                                          "lost",    "no_device",   "script", "audit",   "any"};
  return names[static_cast<int>(sign)];
}

bool shows(Sign sign, const Verdict& v) {
  switch (sign) {
    case Sign::crash: return v.status == Status::crash;
    case Sign::timeout: return v.status == Status::timeout;
    case Sign::lost: return v.status == Status::device_lost;
    case Sign::no_device:
    case Sign::audit: return false;  // no case shows it
    case Sign::script: return v.status == Status::fail;
    case Sign::any: return v.status >= Status::fail;
    case Sign::value:
      if (v.text.find(phrase(Sign::fault)) != std::string::npos) return false;  // it says what was expected too
      [[fallthrough]];
    default: return v.status == Status::fail && v.text.find(phrase(sign)) != std::string::npos;
  }
}

const std::vector<Mutant>& mutants() {
  static const std::vector<Mutant> list = {
#define QUERN_MUTANT(name, sign, cases, what, ...) {#name, Sign::sign, words(cases), what, Mutant::Of::host, false},
#define QUERN_DEVICE_MUTANT(name, sign, cases, what, ...) {#name, Sign::sign, words(cases), what, Mutant::Of::device, false},
#define QUERN_QUEUE_MUTANT(name, sign, cases, what, ...) {#name, Sign::sign, words(cases), what, Mutant::Of::queue, false},
#define QUERN_TOTAL_MUTANT(name, sign, cases, what, ...) {#name, Sign::sign, words(cases), what, Mutant::Of::host, true},
#include "mutants.def"
#undef QUERN_TOTAL_MUTANT
#undef QUERN_QUEUE_MUTANT
#undef QUERN_DEVICE_MUTANT
#undef QUERN_MUTANT
  };
  return list;
}

}  // namespace quern::conformance
