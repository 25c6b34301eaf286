// See selection.hpp.
#include "case_table/selection.hpp"

#include <fnmatch.h>

#include <algorithm>

namespace quern::conformance {
namespace {

bool has_dtype(const Case& c, const std::string& name) {
  const auto is = [&](const ValueSpec& v) { return !v.absent() && dtype_name(v.dtype) == name; };
  return std::ranges::any_of(c.inputs, is) || std::ranges::any_of(c.outputs, is);
}

/// Whether `matches` holds for one of the words, or there are none. Each word that matches is marked.
template <class F>
bool chosen(const std::vector<std::string>& words, std::vector<bool>& used, const F& matches) {
  bool any = words.empty();
  for (std::size_t i = 0; i < words.size(); ++i)
    if (matches(words[i])) any = used[i] = true;
  return any;
}

void require_used(const std::vector<std::string>& words, const std::vector<bool>& used, const char* flag, Profile profile) {
  for (std::size_t i = 0; i < words.size(); ++i)
    if (!used[i]) throw UsageError(std::string(flag) + ": '" + words[i] + "' matches no case of the profile " + profile_name(profile));
}

}  // namespace

std::vector<const Case*> select_cases(const CaseTable& table, const Options& o) {
  std::vector<bool> filters(o.filters.size()), ops(o.ops.size()), dtypes(o.dtypes.size()), groups(o.groups.size());
  std::vector<const Case*> result;
  for (const Case* c : table.of(o.profile)) {
    const bool by_name = chosen(o.filters, filters, [&](const std::string& g) { return ::fnmatch(g.c_str(), c->name.c_str(), 0) == 0; });
    const bool by_op = chosen(o.ops, ops, [&](const std::string& w) { return !c->script && op_name(c->op) == w; });
    const bool by_dtype = chosen(o.dtypes, dtypes, [&](const std::string& w) { return has_dtype(*c, w); });
    const bool by_group = chosen(o.groups, groups, [&](const std::string& w) { return c->group == w; });
    const bool in_shard = o.shards == 0 || CounterRandom::of(c->name).below(0, o.shards) == o.shard - 1;
    if (by_name && by_op && by_dtype && by_group && in_shard && c->level <= o.level) result.push_back(c);
  }
  require_used(o.filters, filters, "--filter", o.profile);
  require_used(o.ops, ops, "--op", o.profile);
  require_used(o.dtypes, dtypes, "--dtype", o.profile);
  require_used(o.groups, groups, "--group", o.profile);
  return result;
}

}  // namespace quern::conformance
