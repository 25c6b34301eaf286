// spec_accept token_publish: integers, exact.
#include "ops/make_case.hpp"

#include <algorithm>

namespace quern::conformance {
namespace {

void accept_reference(const ReferenceCall& call, Expected& expected) {
  const Tensor &draft = call.inputs[0], &target = call.inputs[1], &live = call.inputs[2];
  const std::int64_t k = draft.dim_from_end(0);
  ExpectedOutput &token = expected.outputs[0], &count = expected.outputs[1];
  token.rule = count.rule = Rule::value;  // below 2^24, or -1
  for (std::int64_t row = 0; row < live.count(); ++row) {
    std::int64_t taken = 0;
    if (live.at(row) != 0) {
      while (taken < k && draft.at(row * k + taken) == target.at(row * (k + 1) + taken)) ++taken;
      ++taken;
    }
    for (std::int64_t i = 0; i <= k; ++i) token.add(i < taken ? target.at(row * (k + 1) + i) : -1.0, 0);
    count.add(static_cast<double>(taken), 0);
  }
}

void publish_reference(const ReferenceCall& call, Expected& expected) {
  const Tensor &token = call.inputs[0], &number = call.inputs[1], &before = call.states[0];
  const std::int64_t rows = token.count(), entries = before.dims()[0];
  const auto now = static_cast<std::uint32_t>(static_cast<std::int32_t>(number.at(0)));
  ExpectedOutput &ring = expected.outputs[0], &after = expected.outputs[1];
  ring.rule = Rule::value;
  ring.value = before.values();
  const auto entry = static_cast<std::int64_t>(now % static_cast<std::uint64_t>(entries));
  for (std::int64_t s = 0; s < rows; ++s) ring.value[static_cast<std::size_t>(entry * rows + s)] = token.at(s);
  const Tensor next(QUERN_I32, {1});
  next.set(0, static_cast<double>(static_cast<std::int32_t>(now + 1)));
  after.rule = Rule::bits;
  after.bytes.assign(next.bytes().begin(), next.bytes().end());
}

constexpr OpUnderTest accept_op{QUERN_OP_SPEC_ACCEPT, "sampling", level_all, accept_reference};
constexpr OpUnderTest publish_op{QUERN_OP_TOKEN_PUBLISH, "sampling", level_all, publish_reference};

/// Row r agrees with the other tensor of this fill up to element r (and so at every length), then differs; token ids of a row.
ValueSpec agreeing(Dims dims, bool draft) {
  return filled(input(QUERN_I32, std::move(dims)), draft ? "draft" : "target", [draft](const Tensor& t, const CounterRandom&) {
    const std::int64_t n = t.dim_from_end(0), k = draft ? n : n - 1;
    for (std::int64_t i = 0; i < t.count(); ++i) {
      const std::int64_t row = i / n, column = i % n, same = k == 0 ? 0 : row % (k + 1);
      const std::int64_t token = 1000 * row + 7 * column;  // beyond the first that differs they agree again, which counts for nothing
      t.set(i, static_cast<double>(draft && column == same ? token + 1 : token));
    }
  });
}
ValueSpec live_rows(std::int64_t rows, std::string name, std::vector<double> values) {
  return filled(input(QUERN_I32, {rows}), std::move(name), [values](const Tensor& t, const CounterRandom&) {
    for (std::int64_t i = 0; i < t.count(); ++i) t.set(i, values[static_cast<std::size_t>(i) % values.size()]);
  });
}

void generate_accept(CaseSink& sink) {
  for (const std::int64_t rows : {1, 2, 9, 65, 257})
    for (const std::int64_t k : {0, 1, 4, 7, 16, 33}) {
      const std::vector<std::pair<std::string, std::vector<double>>> lives = {
          {"all_live", {1}}, {"none_live", {0}}, {"some_live", {1, 0, 7, 1, -1}}};
      for (const auto& [name, values] : lives)
        for (const Layout& layout : {Layout{}, rows_apart(3)})
          sink.add(make_case(accept_op, rows <= 9 || layout.row_gap == 0 ? Profile::quick : Profile::full,
                             {agreeing({rows, k}, true), agreeing({rows, k + 1}, false), live_rows(rows, name, values)},
                             {output(QUERN_I32, {rows, k + 1}, layout), output(QUERN_I32, {rows})}));
    }
}

void generate_publish(CaseSink& sink) {
  for (const std::int64_t rows : {1, 3, 64})
    for (const std::int64_t entries : {1, 3, 8, 61})
      for (const double number : {0.0, 1.0, 7.0, 1000003.0, 2147483647.0, -2147483648.0, -1.0}) {  // as u32; the last wraps to 0
        const ValueSpec sequence = filled(input(QUERN_I32, {1}), "number" + std::to_string(static_cast<std::int64_t>(number)),
                                          [number](const Tensor& t, const CounterRandom&) { t.set(0, number); });
        for (const Layout& layout : {Layout{}, rows_apart(3)})
          sink.add(make_case(publish_op, layout.row_gap == 0 ? Profile::quick : Profile::full, {input(QUERN_I32, {rows}), sequence},
                             {state(QUERN_I32, {entries, rows}, DataKind::integers, layout), observed(sequence, 1)}));
      }
}

void generate(CaseSink& sink) {
  generate_accept(sink);
  generate_publish(sink);
}

}  // namespace

extern const Family decoding_family;
const Family decoding_family = {"decoding", generate};

}  // namespace quern::conformance
