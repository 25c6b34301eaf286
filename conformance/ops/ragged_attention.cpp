// See ragged_attention.hpp.
#include "ops/ragged_attention.hpp"

#include "quern/quern_plan.h"

#include <climits>
#include <cstring>
#include <limits>
#include <numeric>
#include <set>

namespace quern::conformance {
namespace {

constexpr std::uint32_t start_input = 3;

std::vector<std::int64_t> starts_of(const RaggedShape& s) {
  if (!s.bad_start.empty()) return s.bad_start;
  std::vector<std::int64_t> starts = {0};
  for (const std::int64_t length : s.lengths) starts.push_back(starts.back() + length);
  return starts;
}

/// Which example each row is in; -1: none.
std::vector<std::int64_t> examples_of(const RaggedShape& s) {
  std::vector<std::int64_t> examples;
  for (std::size_t e = 0; s.bad_start.empty() && e < s.lengths.size(); ++e)
    examples.resize(examples.size() + static_cast<std::size_t>(s.lengths[e]), static_cast<std::int64_t>(e));
  examples.resize(static_cast<std::size_t>(s.rows()), -1);
  return examples;
}

ValueSpec rows_input(const RaggedShape& s, std::int64_t heads, std::int64_t size, bool values) {
  return filled(input(s.dtype, {s.rows(), heads, size}, s.data, s.layout), std::string(data_name(s.data)) + "_unseen_nan",
                [s, values](const Tensor& x, const CounterRandom& random) {
                  constexpr double nan = std::numeric_limits<double>::quiet_NaN(), infinity = std::numeric_limits<double>::infinity();
                  fill(x, s.data, random);
                  const std::vector<std::int64_t> examples = examples_of(s);
                  const std::int64_t row = x.dim_from_end(0) * x.dim_from_end(1);
                  for (std::int64_t i = 0; i < x.count(); ++i) {
                    const std::int64_t example = examples[static_cast<std::size_t>(i / row)];
                    if (example < 0) x.set(i, i % 3 == 1 ? infinity : nan);
                    else if (s.nan_example && example == 1) x.set(i, i % row == 1 ? nan : x.at(i));
                    else if (values && s.data == DataKind::gaussian && example % 2 == 1) x.set(i, x.at(i) + 1000.0);
                  }
                });
}

std::string list_name(const std::vector<std::int64_t>& numbers) {
  constexpr std::size_t most = 16;  // of which each is named
  if (numbers.size() > most) return "_" + std::to_string(numbers.size()) + "_of_" + std::to_string(numbers.front());
  std::string name;
  for (const std::int64_t n : numbers) name += "_" + std::to_string(n);
  return name;
}

void each_of_dtype(const RaggedShape& base, std::uint32_t row_inputs, std::uint32_t row_outputs,
                   const std::function<void(Profile, const RaggedShape&)>& add) {
  using Lengths = std::vector<std::int64_t>;
  const bool f32 = base.dtype == QUERN_F32;
  const auto with = [&](const Lengths& lengths) {
    RaggedShape s = base;
    s.lengths = lengths;
    return s;
  };
  for (const Lengths& lengths :
       {Lengths{1}, {5}, {1, 1, 1}, {3, 0, 4}, {0, 5, 0, 0}, {0}, {17, 1, 30, 1, 16}, {2, 63, 1}, {64, 3}, {1, 65}}) {
    add(Profile::quick, with(lengths));
    RaggedShape s = with(lengths);
    s.tail = 3;
    add(lengths.size() == 3 ? Profile::quick : Profile::full, s);
    s = with(lengths);
    s.causal = false;
    add(Profile::full, s);
  }
  RaggedShape no_example = with({});
  no_example.tail = 3;
  add(Profile::quick, no_example);
  no_example.tail = 0;
  add(Profile::full, no_example);
  for (const Lengths& lengths : {Lengths{63, 64, 65}, {127, 1, 128}, {129, 127}}) {
    add(f32 ? Profile::quick : Profile::full, with(lengths));
    RaggedShape s = with(lengths);
    s.heads = s.kv_heads = 1;
    s.causal = false;
    add(Profile::full, s);
    s.causal = true;
    s.window = 64;
    add(Profile::full, s);
  }
  struct Heads {
    std::int64_t heads, kv_heads;
  };
  for (const Heads h : {Heads{1, 1}, {9, 3}, {4, 4}, {8, 1}, {7, 1}, {16, 2}}) {
    RaggedShape s = with({6, 11, 1});
    s.heads = h.heads;
    s.kv_heads = h.kv_heads;
    add(Profile::quick, s);
    s.lengths = {70, 20};
    add(Profile::full, s);
  }
  struct Sizes {
    std::int64_t d, dv;
  };
  for (const Sizes z : {Sizes{1, 1}, {8, 24}, {33, 33}, {64, 64}, {80, 80}, {96, 96}, {128, 128}, {192, 128}, {256, 256}}) {
    RaggedShape s = with({4, 7});
    s.d = z.d;
    s.dv = z.dv;
    add(Profile::quick, s);
    s.lengths = {5, 70, 3};
    add(Profile::full, s);
  }
  for (const std::int64_t window : {1, 2, 7, 64}) {
    RaggedShape s = with({20, 9});
    s.window = window;
    add(Profile::quick, s);
    s.causal = false;
    add(window == 2 ? Profile::quick : Profile::full, s);
    s = with({140, 3});  // tiles that the window leaves out as a whole
    s.window = window;
    s.softcap = 30;
    add(Profile::full, s);
  }
  for (const std::int64_t rows : {63, 64, 65}) add(Profile::full, with({rows}));  // a tile, less and more
  RaggedShape s = with({9, 1, 4});
  s.causal = false;
  add(Profile::quick, s);
  s.causal = true;
  s.scale = 1;
  for (const double softcap : {0.5, 30.0}) {
    s.softcap = softcap;
    add(Profile::quick, s);
  }
  s = with({9, 1, 4});
  for (const DataKind data : {DataKind::positive, DataKind::heavy, DataKind::one_hot}) {
    s.data = data;
    add(data == DataKind::positive ? Profile::quick : Profile::full, s);
  }
  s.data = DataKind::gaussian;
  for (const Layout& layout : {rows_apart(3), ordered({1, 0, 2}), shifted()}) {
    s.layout = layout;
    add(Profile::quick, s);
    s.layout = {};
    s.y_layout = layout;
    add(Profile::quick, s);
    s.y_layout = {};
  }
  s.nan_example = true;
  add(Profile::quick, s);
  s.nan_example = false;
  for (const bool on_device : {false, true}) {
    RaggedShape ranged = with({9, 1, 4});
    ranged.tail = 2;
    ranged.ranged = {ranged.rows() + 7, row_inputs, row_outputs, on_device};
    add(Profile::quick, ranged);
    ranged.ranged = {static_cast<std::int64_t>(ranged.lengths.size()) + 6, 1u << start_input, 0, on_device};
    add(Profile::quick, ranged);
  }
  // 9 rows: a first that is not 0, a step back, an end behind the rows, numbers below 0.
  for (const Lengths& start : {Lengths{1, 5, 9}, {0, 5, 3, 9}, {0, 5, 10}, {0, 4, -1}, {-4, 9}, {0, INT_MAX}, {0, INT_MIN, 9}}) {
    RaggedShape refused = with({9});
    refused.bad_start = start;
    add(f32 ? Profile::quick : Profile::full, refused);
    if (start.back() != 10) continue;  // 12 rows of memory, of which a run has 9
    refused.ranged = {12, row_inputs, row_outputs, true};
    add(Profile::quick, refused);
  }
}

/// The rows of some whole examples, ascending, and the case of them alone.
struct SomeExamples {
  std::vector<std::int64_t> rows, starts = {0};
  Case what;
  std::vector<Tensor> inputs;

  SomeExamples(const RaggedShape& s, const ReferenceCall& call) : what(call.what) {
    choose(s);
    const auto some = static_cast<std::int64_t>(rows.size());
    inputs = call.inputs;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (i == start_input) {
        inputs[i] = Tensor(QUERN_I32, {static_cast<std::int64_t>(starts.size())});
        for (std::size_t e = 0; e < starts.size(); ++e) inputs[i].set(static_cast<std::int64_t>(e), static_cast<double>(starts[e]));
      } else if (!inputs[i].absent()) {
        Dims dims = inputs[i].dims();
        dims[0] = some;
        inputs[i] = Tensor(inputs[i].dtype(), dims);
        copy_rows(call.inputs[i], inputs[i], true);
      }
      what.inputs[i].dims = inputs[i].dims();
    }
    for (ValueSpec& y : what.outputs) y.dims[0] = some;
  }

  /// Between a whole value and one of the chosen rows.
  void copy_rows(const Tensor& whole, const Tensor& chosen, bool to_chosen) const {
    const std::uint64_t bytes = chosen.bytes().size() / rows.size();
    for (std::size_t r = 0; r < rows.size(); ++r) {
      std::byte* const in_whole = whole.bytes().data() + static_cast<std::uint64_t>(rows[r]) * bytes;
      std::byte* const in_chosen = chosen.bytes().data() + r * bytes;
      std::memcpy(to_chosen ? in_chosen : in_whole, to_chosen ? in_whole : in_chosen, bytes);
    }
  }

 private:
  void choose(const RaggedShape& s) {
    const std::vector<std::int64_t> examples = examples_of(s), whole = starts_of(s);
    std::set<std::int64_t> chosen = {0, static_cast<std::int64_t>(s.lengths.size()) - 1};
    const auto bytes = static_cast<std::int64_t>(packed_bytes(s.dtype, {s.heads * s.d}));
    for (int power = 8; power < 40; ++power)
      for (const std::int64_t unit : {std::int64_t{1}, s.heads * s.d, bytes})
        for (const std::int64_t beside : {-1, 0, 1})
          if (const std::int64_t row = (std::int64_t{1} << power) / unit + beside; row >= 0 && row < s.rows())
            chosen.insert(examples[static_cast<std::size_t>(row)]);
    chosen.erase(-1);
    for (const std::int64_t e : chosen) {
      for (std::int64_t row = whole[static_cast<std::size_t>(e)]; row < whole[static_cast<std::size_t>(e) + 1]; ++row) rows.push_back(row);
      starts.push_back(static_cast<std::int64_t>(rows.size()));
    }
  }
};

}  // namespace

std::int64_t RaggedShape::rows() const { return std::accumulate(lengths.begin(), lengths.end(), tail); }

void add_ragged_inputs(Case& c, const RaggedShape& s) {
  const std::vector<std::int64_t> starts = starts_of(s);
  c.inputs = {rows_input(s, s.heads, s.d, false), rows_input(s, s.kv_heads, s.d, false), rows_input(s, s.kv_heads, s.dv, true),
              given(input(QUERN_I32, {static_cast<std::int64_t>(starts.size())}), "starts", starts)};
}

Reference some_examples(const RaggedShape& s, Reference reference) {
  return [s, reference = std::move(reference)](const ReferenceCall& call, Expected& expected) {
    const SomeExamples some(s, call);
    reference({some.what, some.inputs, call.states}, expected);
    for (std::size_t y = 0; y < expected.outputs.size(); ++y) {
      const std::int64_t each = element_count(some.what.outputs[y].dims) / static_cast<std::int64_t>(some.rows.size());
      for (const std::int64_t row : some.rows)
        for (std::int64_t i = 0; i < each; ++i) expected.outputs[y].index.push_back(row * each + i);
    }
  };
}

std::function<void(const ReferenceCall&)> derive_some_examples(const RaggedShape& s, void (*derive)(const ReferenceCall&)) {
  return [s, derive](const ReferenceCall& call) {
    const SomeExamples some(s, call);
    derive({some.what, some.inputs, call.states});
    for (std::size_t i = start_input + 1; i < some.inputs.size(); ++i) some.copy_rows(call.inputs[i], some.inputs[i], false);
  };
}

RaggedShape many_examples(std::int64_t count) {
  RaggedShape s;
  s.dtype = QUERN_F16;
  s.lengths.assign(static_cast<std::size_t>(count), 41);
  return s;
}

void finish_ragged_case(Case& c, const RaggedShape& s) {
  add_dense_attributes(c, s);
  c.ranged = s.ranged;
  c.note = s.bad_start.empty() ? "examples" + list_name(s.lengths) : "refused" + list_name(s.bad_start);
  if (s.tail != 0) c.note += "_tail_" + std::to_string(s.tail);
  if (s.nan_example) c.note += ".nan_example";
  if (!s.bad_start.empty()) c.faults = QUERN_FAULT_INDEX_RANGE;
}

void each_ragged_shape(std::uint32_t row_inputs, std::uint32_t row_outputs, const std::function<void(Profile, const RaggedShape&)>& add) {
  for (const quern_dtype dtype : float_dtypes) {
    RaggedShape base;
    base.dtype = dtype;
    each_of_dtype(base, row_inputs, row_outputs, add);
  }
}

}  // namespace quern::conformance
