// See judge_graph.hpp.
#include "graphs/judge_graph.hpp"

#include "case_table/case_table.hpp"
#include "graphs/reference/node_reference.hpp"
#include "judge/judge.hpp"

#include <algorithm>
#include <atomic>
#include <future>
#include <map>
#include <optional>
#include <span>
#include <stdexcept>

namespace quern::conformance {
namespace {

/// `extents`: those of the mode's run; of 0 rows in the modes of a graph whose rows are fixed, where all are live.
Dims live_dims(const GraphValue& value, const Extents& extents) {
  Dims dims = value.spec.dims;
  if (value.ranged || (value.extent != Extent::own && extents.rows != 0)) dims[0] = extents.of(value.extent);
  return dims;
}

Tensor live_part(const GraphValue& value, const Tensor& tensor, const Extents& extents) {
  const Dims dims = live_dims(value, extents);
  return Tensor(tensor.dtype(), dims, tensor.bytes().first(packed_bytes(tensor.dtype(), dims)));
}

/// One pass through the nodes for one mode.
class Walk {
 public:
  Walk(const Case& c, const CaseData& data, const ModeResult& mode) : case_(c), graph_(*c.graph), data_(data), mode_(mode) {}

  Verdict run() {
    Verdict verdict{Status::pass, {}, 0, 0, {}};
    for (std::size_t n = 0; n < graph_.nodes.size(); ++n) judge_node(n, verdict);
    return verdict;
  }

 private:
  const GraphValue& at(int v) const { return graph_.values[static_cast<std::size_t>(v)]; }
  const Tensor* observed(int v) const {
    if (at(v).output == no_value) return nullptr;
    const Tensor& t = mode_.outputs[static_cast<std::size_t>(at(v).output)];
    return t.absent() ? nullptr : &t;
  }

  /// What node inputs hold: what was written last, else the contents that were bound.
  Operand operand(int v) {
    Operand x;
    int source = v;
    while (!written_.contains(source) && at(source).alias_of != no_value) source = at(source).alias_of;
    if (const auto found = written_.find(source); found != written_.end()) {
      x = found->second;
    } else {
      const Tensor& bound = data_.inputs[static_cast<std::size_t>(at(source).input)];
      x.tensor = &kept_.emplace(source, live_part(at(source), bound, mode_.extents)).first->second;
    }
    x.dims = live_dims(at(v), mode_.extents);
    return graph_.is_part(v) ? part_of(x, at(v)) : x;
  }

  /// The elements of a part out of its root's; x.dims are the part's already.
  Operand part_of(const Operand& x, const GraphValue& part) {
    const Unit unit = unit_of(part.spec.dtype);
    const std::int64_t rows = x.dims[0], each = rows == 0 ? 0 : element_count(x.dims) / rows;
    Operand y;
    y.dims = x.dims;
    if (x.exact()) {
      y.tensor = seen_.emplace_back(std::make_unique<Tensor>(part.spec.dtype, x.dims)).get();
      const std::uint64_t bytes = static_cast<std::uint64_t>(each / unit.elements) * unit.bytes;
      for (std::int64_t row = 0; row < rows; ++row)
        std::ranges::copy(x.tensor->bytes().subspan(part.part_offset + static_cast<std::uint64_t>(row * part.part_row_bytes), bytes),
                          y.tensor->bytes().begin() + static_cast<std::ptrdiff_t>(static_cast<std::uint64_t>(row) * bytes));
      return y;
    }
    const std::int64_t first = static_cast<std::int64_t>(part.part_offset / unit.bytes),
                       apart = part.part_row_bytes / static_cast<std::int64_t>(unit.bytes);
    for (std::int64_t row = 0; row < rows; ++row) {
      const auto from = first + row * apart;
      y.value.insert(y.value.end(), x.value.begin() + from, x.value.begin() + from + each);
      y.deviation.insert(y.deviation.end(), x.deviation.begin() + from, x.deviation.begin() + from + each);
    }
    return y;
  }

  void judge_node(std::size_t n, Verdict& verdict) {
    const GraphNode& node = graph_.nodes[n];
    std::vector<Operand> operands(node.inputs.size());
    NodeCall call{node, mode_.numerics, {}, {}, {}, false, case_.name + "." + std::to_string(n)};
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.inputs[i] != no_value) operands[i] = operand(node.inputs[i]);
      call.inputs.push_back(node.inputs[i] == no_value ? nullptr : &operands[i]);
    }
    std::vector<Tensor> before(node.outputs.size());
    for (std::size_t o = 0; o < node.outputs.size(); ++o) {
      const int y = node.outputs[o];
      call.dtypes.push_back(y == no_value ? QUERN_DTYPE_NONE : at(y).spec.dtype);
      call.sparse = call.sparse || (y != no_value && observed(y) != nullptr);
      if (y != no_value && at(y).spec.kind == QUERN_VALUE_STATE) before[o] = state_before(y);
      call.states.push_back(before[o].absent() ? nullptr : &before[o]);
      const Tensor* const found = y == no_value ? nullptr : observed(y);
      call.shown.push_back(found == nullptr ? nullptr
                                            : seen_.emplace_back(std::make_unique<Tensor>(live_part(at(y), *found, mode_.extents))).get());
    }
    if (node.predicate != no_value && operand(node.predicate).tensor->at(0) == 0)
      throw std::logic_error("predicates of whole graphs are 1");
    std::vector<Result> results = node_reference(call);
    for (std::size_t o = 0; o < node.outputs.size(); ++o)
      if (node.outputs[o] != no_value) take(node.outputs[o], results[o], verdict);
  }

  Tensor state_before(int v) const {
    const auto found = written_.find(v);
    return found != written_.end() ? *found->second.tensor : data_.inputs[static_cast<std::size_t>(at(v).input)];
  }

  /// Judges an output that was observed; the nodes behind it then read what the device had.
  void take(int v, const Result& result, Verdict& verdict) {
    Operand x;
    x.dims = live_dims(at(v), mode_.extents);
    if (const Tensor* found = observed(v)) {
      const Tensor& live = seen_.emplace_back(std::make_unique<Tensor>(live_part(at(v), *found, mode_.extents))).operator*();
      Verdict one = judge_result(result, live, mode_.numerics, mode_.flushes);
      if (one.status != Status::pass) one.text = at(v).name + ": " + one.text;
      if (live.count() != 0) verdict.merge(one);
      x.tensor = &live;
    } else {
      x = unobserved(result, at(v).spec.dtype, x.dims);
    }
    written_[v] = std::move(x);
  }

  const Case& case_;
  const WholeGraph& graph_;
  const CaseData& data_;
  const ModeResult& mode_;
  std::map<int, Operand> written_;
  std::map<int, Tensor> kept_;
  std::vector<std::unique_ptr<Tensor>> seen_;
};

/// Where the first value lies in which two modes differ, among those that both show; empty: they agree.
std::string difference(const WholeGraph& graph, const ModeResult& a, const ModeResult& b) {
  const Extents both{std::min(a.extents.rows, b.extents.rows), std::min(a.extents.outputs, b.extents.outputs)};
  for (const GraphNode& node : graph.nodes)
    for (const int y : node.outputs) {
      if (y == no_value) continue;
      const GraphValue& value = graph.values[static_cast<std::size_t>(y)];
      const auto o = static_cast<std::size_t>(value.output);
      if (a.outputs[o].absent() || b.outputs[o].absent()) continue;
      if (a.extents != b.extents && value.extent == Extent::own) continue;  // states hold another number of rows
      const Tensor left = live_part(value, a.outputs[o], both), right = live_part(value, b.outputs[o], both);
      if (std::ranges::equal(left.bytes(), right.bytes())) continue;
      std::size_t first = 0;
      while (left.bytes()[first] == right.bytes()[first]) ++first;
      const Unit unit = unit_of(left.dtype());
      return value.name + " differs first in " + (unit.elements == 1 ? "element " : "block ") + std::to_string(first / unit.bytes);
    }
  return {};
}

/// Whether each value that the mode shows has the bits that a mode before it showed and was judged by, in the same numerics or in
/// exact ones, whose bounds are within those of fast ones.
bool shows_judged_values(const WholeGraph& graph, std::span<const ModeResult* const> judged, const ModeResult& mode) {
  for (const GraphValue& value : graph.values) {
    if (value.output == no_value || mode.outputs[static_cast<std::size_t>(value.output)].absent()) continue;
    const auto o = static_cast<std::size_t>(value.output);
    const Tensor shown = live_part(value, mode.outputs[o], mode.extents);
    const bool known = std::ranges::any_of(judged, [&](const ModeResult* m) {
      if (m->outcome != Outcome::ran || m->extents != mode.extents || (m->numerics != mode.numerics && m->numerics != Numerics::exact))
        return false;
      return !m->outputs[o].absent() && std::ranges::equal(live_part(value, m->outputs[o], m->extents).bytes(), shown.bytes());
    });
    if (!known) return false;
  }
  return true;
}

bool invariant(const ModeResult& mode) { return mode.facts.told && mode.facts.determinism == QUERN_DETERMINISM_INVARIANT; }

const ModeResult* find(const std::vector<ModeResult>& modes, const ModeResult& like, Role role, int step) {
  const auto at = std::ranges::find_if(modes, [&](const ModeResult& m) {
    return m.role == role && m.step == step && m.family == like.family && m.numerics == like.numerics && m.packed == like.packed &&
           m.as_session == like.as_session && m.outcome == Outcome::ran;
  });
  return at == modes.end() ? nullptr : &*at;
}

std::optional<Verdict> not_run(const ModeResult& mode) {
  switch (mode.outcome) {
    case Outcome::ran: return std::nullopt;
    case Outcome::unsupported: return Verdict{Status::unsupported, mode.text, 0, 0, {}};
    case Outcome::failed: return Verdict{Status::fail, mode.text, 0, 0, {}};
    case Outcome::resource: return Verdict{Status::resource, mode.text, 0, 0, {}};
    case Outcome::device_lost: return Verdict{Status::device_lost, mode.text, 0, 0, {}};
  }
  return std::nullopt;
}

/// What the contract demands of two modes to the bit.
Verdict judge_bits(const WholeGraph& graph, const std::vector<ModeResult>& modes, const ModeResult& mode) {
  const auto claim = [&](const ModeResult* other, const char* why) -> Verdict {
    const std::string text = difference(graph, mode, *other);
    return text.empty() ? Verdict{Status::pass, {}, 0, 1, {}}
                        : Verdict{Status::fail, text + " from " + other->mode() + ", and " + why, 0, 1, {}};
  };
  Verdict none{Status::pass, {}, 0, 0, {}};
  if (mode.role == Role::unfused || mode.role == Role::marked) {
    const ModeResult* whole = find(modes, mode, Role::whole, mode.step);
    if (whole != nullptr && mode.facts.told && mode.facts.numerics_key == whole->facts.numerics_key)
      return claim(whole, "both plans have one numerics_key [C17]");
  }
  if (mode.role == Role::node_by_node) {
    const ModeResult* unfused = find(modes, mode, Role::unfused, mode.step);
    if (unfused != nullptr && invariant(mode) && invariant(*unfused) && mode.facts.kernels == unfused->facts.kernels)
      return claim(unfused, "both run the same kernels and are invariant [C17]");
  }
  if (mode.role == Role::other_rows) {
    const ModeResult* whole = find(modes, mode, Role::whole, mode.step);
    if (whole != nullptr && invariant(mode) && invariant(*whole))
      return claim(whole, "rows of an invariant plan do not depend on their number [C17]");
  }
  return none;
}

/// Walks the modes `which` of `order`, up to `threads` at a time, and merges each result into the mode's verdict.
void walk_all(const Case& c, const CaseData& data, const std::vector<const ModeResult*>& order, const std::vector<std::size_t>& which,
              std::uint32_t threads, std::vector<Verdict>& verdicts) {
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    for (std::size_t w = next++; w < which.size(); w = next++) verdicts[which[w]].merge(Walk(c, data, *order[which[w]]).run());
  };
  std::vector<std::future<void>> helpers;
  for (std::size_t t = 1; t < std::min<std::size_t>(threads, which.size()); ++t) helpers.push_back(std::async(std::launch::async, work));
  work();
  for (std::future<void>& helper : helpers) helper.get();
}

}  // namespace

Verdict judge_result(const Result& result, const Tensor& found, Numerics numerics, bool flushes) {
  if (result.check) {
    const std::string text = result.check(found);
    return {text.empty() ? Status::pass : Status::fail, text, 0, static_cast<std::uint64_t>(found.count()), {}};
  }
  ExpectedOutput expected;
  expected.rule = Rule::bounded;
  expected.index = result.index;
  expected.value = result.value;
  expected.bound = result.bound;
  expected.deviation = result.deviation;
  expected.independent = result.independent && numerics == Numerics::fast;
  expected.sharing = result.sharing;
  expected.gain_variance = result.gain_variance;
  // `fast` takes the deviations into account; in exact numerics they are the inputs'.
  const Verdict verdict = judge(expected, found, Numerics::fast);
  return verdict.status == Status::fail && flushes ? judge(expected, found, Numerics::fast, &expected) : verdict;
}

Verdict judge_graph(const Case& c, const CaseData& data, const std::vector<ModeResult>& modes, std::uint32_t threads) {
  if (modes.empty()) return {Status::unknown, "no mode was run", 0, 0, {}};
  std::vector<const ModeResult*> order;
  for (const ModeResult& mode : modes) order.push_back(&mode);
  std::ranges::stable_partition(order, [](const ModeResult* m) { return m->role == Role::node_by_node; });
  std::vector<Verdict> verdicts;
  std::vector<std::size_t> unknown;  // modes with bits that none before them showed
  for (std::size_t m = 0; m < order.size(); ++m) {
    if (const auto ended = not_run(*order[m])) {
      verdicts.push_back(*ended);
      continue;
    }
    verdicts.push_back(judge_bits(*c.graph, modes, *order[m]));
    if (!shows_judged_values(*c.graph, std::span(order).first(m), *order[m])) unknown.push_back(m);
  }
  walk_all(c, data, order, unknown, threads, verdicts);
  Verdict verdict{Status::pass, {}, 0, 0, {}};
  for (std::size_t m = 0; m < order.size(); ++m) {
    const ModeResult& mode = *order[m];
    if (verdicts[m].status != Status::pass)
      verdicts[m].text = mode.mode() + ": " + verdicts[m].text + (mode.kernel.empty() ? "" : " (" + mode.kernel + ")");
    verdict.merge(verdicts[m]);
  }
  if (verdict.status == Status::pass && verdict.compared == 0) return {Status::unknown, "no value was compared", 0, 0, {}};
  return verdict;
}

}  // namespace quern::conformance
