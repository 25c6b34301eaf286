// All cases of the suite, made by the families of ops/ and graphs/.
#pragma once

#include "case_table/case.hpp"

#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace quern::conformance {

/// Receives the cases of a family, names them and refuses a name that comes twice.
class CaseSink {
 public:
  /// The cases that follow are of this family.
  void begin_family(std::string name) { family_ = std::move(name); }
  /// Names the case group.op.dtypes.shape.attributes.layout.data[.conditions][.note] from its contents, and raises its level to
  /// least_level. Throws std::logic_error if two cases have one name (they would not be told apart), or if a case has neither a
  /// reference nor a script.
  void add(Case c);
  /// Same with a name of its own ("abi.queue.fence_order"), for scripts; it begins with the group, as every name does.
  void add_script(std::string name, std::string group, Profile profile, int level, std::function<void(ScriptContext&)> script);

  /// Same for a whole graph, whose inputs and outputs are set (GraphBuilder does it). Throws std::logic_error without a graph.
  void add_graph(std::string name, Case c);

  /// Those that were added until now.
  const std::vector<Case>& cases() const noexcept { return cases_; }
  std::vector<Case> take() { return std::move(cases_); }

 private:
  /// Throws std::logic_error if there is a case of this name.
  void keep(Case c);

  std::vector<Case> cases_;
  std::string family_;
  std::unordered_set<std::string> names_;
};

/// One file of ops/: `generate` adds its cases.
struct Family {
  std::string_view name;
  void (*generate)(CaseSink&);
};

class CaseTable {
 public:
  /// Every family, every profile. Takes milliseconds; no tensor is made.
  CaseTable();

  const std::vector<Case>& all() const noexcept { return cases_; }
  /// Null if there is no such case.
  const Case* find(std::string_view name) const;
  /// In the order of the table: quick, full (with quick's), or huge.
  std::vector<const Case*> of(Profile profile) const;

 private:
  std::vector<Case> cases_;
  std::unordered_map<std::string_view, const Case*> by_name_;
};

/// The lowest level that may demand the case: level_basic only for what case.hpp names there.
int least_level(const Case& c);
/// The part of a name that says what a case is, from its contents.
std::string case_name(const Case& c);
/// "matmul"; "op4097" for an id without a row.
std::string op_name(std::uint32_t op);

}  // namespace quern::conformance
