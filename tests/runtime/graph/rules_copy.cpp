// Rule cases of copies and rows.
#include "rule_cases.hpp"

namespace quern::test {

std::vector<RuleCase> copy_cases() {
  return {
      {QUERN_OP_COPY,
       "BlockFormat",
       [](Bench& b) {
         ops::copy(b.g, b.weight(QUERN_Q4_K, {2, 256}));
       },
       "q4_k [2, 256]",
       {}},
      {QUERN_OP_COPY,
       "IntoATransposedView",
       [](Bench& b) {
         const ValueId base = b.state(QUERN_F32, {3, 2});
         graph::NodeOptions options;
         options.outputs = {b.g.view(base, {2, 3}, {4, 8}, 0)};
         ops::copy(b.g, b.f32({2, 3}), options);
       },
       "f32 [2, 3]",
       {}},
      {QUERN_OP_COPY, "Unsigned", [](Bench& b) { ops::copy(b.g, b.u32({2}), here()); }, "", {"x is u32 [2]"}},
      {QUERN_OP_COPY,
       "IntoAnInput",
       [](Bench& b) {
         graph::NodeOptions options = here();
         options.outputs = {b.f32({2})};
         ops::copy(b.g, b.f32({2}), options);
       },
       "",
       {"'in'", "an input"}},
      {QUERN_OP_COPY,
       "IntoOtherShape",
       [](Bench& b) {
         graph::NodeOptions options = here();
         options.outputs = {b.state(QUERN_F32, {3})};
         ops::copy(b.g, b.f32({2}), options);
       },
       "",
       {"y is f32 [2] but 'state' is f32 [3]"}},
      {QUERN_OP_COPY,
       "OntoItself",
       [](Bench& b) {
         const ValueId x = b.state(QUERN_F32, {2});
         graph::NodeOptions options = here();
         options.outputs = {x};
         ops::copy(b.g, x, options);
       },
       "",
       {"shares memory", "cannot work in place"}},
      {QUERN_OP_CAST, "FloatToFloat", [](Bench& b) { ops::cast(b.g, b.f32({2}), QUERN_BF16); }, "bf16 [2]", {}},
      {QUERN_OP_CAST,
       "Encode",
       [](Bench& b) {
         ops::cast(b.g, b.f32({2, 32}), QUERN_Q8_0);
       },
       "q8_0 [2, 32]",
       {}},
      {QUERN_OP_CAST, "Decode", [](Bench& b) { ops::cast(b.g, b.weight(QUERN_Q6_K, {256}), QUERN_F16); }, "f16 [256]", {}},
      {QUERN_OP_CAST, "EncodeF16", [](Bench& b) { ops::cast(b.g, b.f16({32}), QUERN_Q8_0, here()); }, "", {"x is f16 [32]", "q8_0"}},
      {QUERN_OP_CAST,
       "EncodeBrokenBlock",
       [](Bench& b) {
         ops::cast(b.g, b.f32({2, 33}), QUERN_Q8_0, here());
       },
       "",
       {"multiple of 32"}},
      {QUERN_OP_CAST, "ToNothing", [](Bench& b) { ops::cast(b.g, b.f32({2}), QUERN_DTYPE_NONE, here()); }, "", {"needs the dtype"}},
      {QUERN_OP_CONCAT,
       "Accepts",
       [](Bench& b) {
         ops::concat(b.g, {b.f32({b.t, 2}), b.f32({b.t, 3}), b.f32({b.t, 4})}, 1);
       },
       "f32 [tokens<=16, 9]",
       {}},
      {QUERN_OP_CONCAT,
       "Ranged",
       [](Bench& b) {
         ops::concat(b.g, {b.f32({b.t, 2}), b.f32({b.t, 2})}, 0, here());
       },
       "",
       {"fixed size"}},
      {QUERN_OP_CONCAT,
       "OtherDimension",
       [](Bench& b) {
         ops::concat(b.g, {b.f32({2, 2}), b.f32({2, 3})}, 0, here());
       },
       "",
       {"[2, 3]"}},
      {QUERN_OP_CONCAT,
       "AxisOutside",
       [](Bench& b) {
         ops::concat(b.g, {b.f32({2, 2})}, 2, here());
       },
       "",
       {"axis is 2", "0 to 1"}},
      {QUERN_OP_CONCAT, "Nothing", [](Bench& b) { ops::concat(b.g, {}, 0, here()); }, "", {"at least one input"}},
      {QUERN_OP_CONCAT,
       "SumTooLarge",
       [](Bench& b) {
         const ValueId huge = b.f32({1ll << 60});
         ops::concat(b.g, {huge, huge}, 0, here());
       },
       "",
       {"2^63"}},
      {QUERN_OP_PAD,
       "Accepts",
       [](Bench& b) {
         ops::pad(b.g, b.f32({b.t, 2}), {.axis = 1, .before = 1, .after = 2});
       },
       "f32 [tokens<=16, 5]",
       {}},
      {QUERN_OP_PAD, "Negative", [](Bench& b) { ops::pad(b.g, b.f32({2}), {.before = -1}, here()); }, "", {"before is -1"}},
      {QUERN_OP_PAD, "Overflow", [](Bench& b) { ops::pad(b.g, b.f32({2}), {.after = 9223372036854775807ll}, here()); }, "", {"overflow"}},
      {QUERN_OP_REPEAT,
       "Accepts",
       [](Bench& b) {
         ops::repeat(b.g, b.f32({1, 2}), {b.t, 4});
       },
       "f32 [tokens<=16, 4]",
       {}},
      {QUERN_OP_REPEAT, "NotAMultiple", [](Bench& b) { ops::repeat(b.g, b.f32({2}), {3}, here()); }, "", {"x is f32 [2] but y is [3]"}},
      {QUERN_OP_REPEAT, "OfNothing", [](Bench& b) { ops::repeat(b.g, b.f32({0}), {3}, here()); }, "", {"x is f32 [0]"}},
      {QUERN_OP_SUM_TO,
       "Accepts",
       [](Bench& b) {
         ops::sum_to(b.g, b.f32({b.t, 4}), {4});
       },
       "f32 [4]",
       {}},
      {QUERN_OP_SUM_TO, "NotADivisor", [](Bench& b) { ops::sum_to(b.g, b.f32({3}), {2}, here()); }, "", {"x is f32 [3] but y is [2]"}},
  };
}

std::vector<RuleCase> rows_cases() {
  return {
      {QUERN_OP_GET_ROWS,
       "Quantised",
       [](Bench& b) {
         ops::get_rows(b.g, b.weight(QUERN_Q8_0, {10, 32}), b.i32({b.t}));
       },
       "f32 [tokens<=16, 32]",
       {}},
      {QUERN_OP_GET_ROWS,
       "AsAsked",
       [](Bench& b) {
         ops::get_rows(b.g, b.weight(QUERN_F16, {10, 8}), b.in(QUERN_I64, {3}), here(QUERN_BF16));
       },
       "bf16 [3, 8]",
       {}},
      {QUERN_OP_GET_ROWS,
       "OfAFloatTable",
       [](Bench& b) {
         ops::get_rows(b.g, b.weight(QUERN_F16, {10, 8}), b.i32({3}));
       },
       "f16 [3, 8]",
       {}},
      {QUERN_OP_GET_ROWS,
       "FloatIndex",
       [](Bench& b) {
         ops::get_rows(b.g, b.f32({10, 8}), b.f32({3}), here());
       },
       "",
       {"index is f32 [3]", "i32 or i64"}},
      {QUERN_OP_GET_ROWS,
       "TableOfThree",
       [](Bench& b) {
         ops::get_rows(b.g, b.f32({1, 10, 8}), b.i32({3}), here());
       },
       "",
       {"2 dimensions"}},
      {QUERN_OP_GET_ROWS,
       "IntoABlockFormat",
       [](Bench& b) {
         ops::get_rows(b.g, b.f32({10, 32}), b.i32({3}), here(QUERN_Q8_0));
       },
       "",
       {"q8_0"}},
      {QUERN_OP_TAKE,
       "OfRangedRows",
       [](Bench& b) {
         ops::take(b.g, b.f32({b.t, 8}), b.i32({3}));
       },
       "f32 [tokens<=16, 3]",
       {}},
      {QUERN_OP_TAKE,
       "AsAsked",
       [](Bench& b) {
         ops::take(b.g, b.f32({2, 8}), b.in(QUERN_I64, {8}), here(QUERN_F16));
       },
       "f16 [2, 8]",
       {}},
      {QUERN_OP_TAKE,
       "OfBlocks",
       [](Bench& b) {
         ops::take(b.g, b.weight(QUERN_Q8_0, {10, 32}), b.i32({3}), here());
       },
       "",
       {"x is q8_0 [10, 32]"}},
      {QUERN_OP_TAKE,
       "IndexOfTwo",
       [](Bench& b) {
         ops::take(b.g, b.f32({2, 8}), b.i32({2, 8}), here());
       },
       "",
       {"index is i32 [2, 8]"}},
      {QUERN_OP_GET_ROWS_BACKWARD,
       "Accepts",
       [](Bench& b) {
         ops::get_rows_backward(b.g, b.f32({b.t, 8}), b.i32({b.t}), 10);
       },
       "f32 [10, 8]",
       {}},
      {QUERN_OP_GET_ROWS_BACKWARD,
       "RangedTable",
       [](Bench& b) {
         ops::get_rows_backward(b.g, b.f32({b.o, 8}), b.i32({b.o}), b.t);
       },
       "f32 [tokens<=16, 8]",
       {}},
      {QUERN_OP_GET_ROWS_BACKWARD,
       "Accumulates",
       [](Bench& b) {
         ops::get_rows_backward_accumulate(b.g, b.f32({b.t, 8}), b.i32({b.t}), b.state(QUERN_F32, {10, 8}));
       },
       "f32 [10, 8]",
       {}},
      {QUERN_OP_GET_ROWS_BACKWARD,
       "AccumulatesIntoAnInput",
       [](Bench& b) {
         ops::get_rows_backward_accumulate(b.g, b.f32({b.t, 8}), b.i32({b.t}), b.f32({10, 8}), here());
       },
       "",
       {"dtable", "kind state"}},
      {QUERN_OP_GET_ROWS_BACKWARD,
       "OtherCount",
       [](Bench& b) {
         ops::get_rows_backward(b.g, b.f32({b.t, 8}), b.i32({3}), 10, here());
       },
       "",
       {"index is i32 [3]"}},
      {QUERN_OP_SET_ROWS,
       "Quantised",
       [](Bench& b) {
         ops::set_rows(b.g, b.f32({b.t, 32}), b.i32({b.t}), b.state(QUERN_Q4_0, {10, 32}));
       },
       "q4_0 [10, 32]",
       {}},
      {QUERN_OP_SET_ROWS,
       "TableIsNotState",
       [](Bench& b) {
         ops::set_rows(b.g, b.f32({3, 8}), b.i32({3}), b.f32({10, 8}), here());
       },
       "",
       {"kind state"}},
      {QUERN_OP_SET_ROWS,
       "FormatThatCannotBeWritten",
       [](Bench& b) {
         ops::set_rows(b.g, b.f32({3, 256}), b.i32({3}), b.state(QUERN_Q4_K, {10, 256}), here());
       },
       "",
       {"q4_k"}},
      {QUERN_OP_SET_ROWS,
       "RowLength",
       [](Bench& b) {
         ops::set_rows(b.g, b.f32({3, 8}), b.i32({3}), b.state(QUERN_F32, {10, 9}), here());
       },
       "",
       {"table is [10, 9] but x is f32 [3, 8]"}},
      {QUERN_OP_INDEX_ADD,
       "Accepts",
       [](Bench& b) {
         ops::index_add(b.g, b.f16({3, 8}), b.i32({3}), b.state(QUERN_F32, {10, 8}));
       },
       "f32 [10, 8]",
       {}},
      {QUERN_OP_INDEX_ADD,
       "Quantised",
       [](Bench& b) {
         ops::index_add(b.g, b.f32({3, 32}), b.i32({3}), b.state(QUERN_Q8_0, {10, 32}), here());
       },
       "",
       {"q8_0"}},
  };
}

}  // namespace quern::test
