// What the files of abi/ share: how a script becomes a case.
//
// Graphs of scripts use what level 1 names (copy and matmul in f32), so that a plugin that has just these passes all of them. rules.def
// says which case shows which rule of CONTRACT.md; a test holds it whole.
#pragma once

#include "abi/objects.hpp"
#include "case_table/case_table.hpp"

namespace quern::conformance::abi {

/// The case "abi.<name>" of the group abi.
inline void add(CaseSink& sink, const std::string& name, void (*run)(ScriptContext&), int level = level_basic,
                Profile profile = Profile::quick) {
  sink.add_script("abi." + name, "abi", profile, level, run);
}

}  // namespace quern::conformance::abi
