// concat pad repeat sum_to.
//
// concat: the inputs one after another along an axis, bit for bit, of every dtype and block format. pad: x with elements of `value`
// around it. repeat: x again and again; sum_to, its transpose, is an accumulation: T1 over the repeats of each element.
#include "ops/make_case.hpp"

#include <cstring>

namespace quern::conformance {
namespace {

void concat_reference(const ReferenceCall& call, Expected& expected) {
  const ValueSpec& y = call.what.outputs[0];
  const auto axis = static_cast<std::size_t>(call.attribute(QUERN_KEY_AXIS, 0));
  const Unit unit = unit_of(y.dtype);
  const auto bytes_below = [&](const Dims& dims) {  // of the dimensions from the axis on
    std::uint64_t elements = 1;
    for (std::size_t d = axis; d < dims.size(); ++d) elements *= static_cast<std::uint64_t>(dims[d]);
    return elements / static_cast<std::uint64_t>(unit.elements) * unit.bytes;
  };
  std::vector<std::byte>& bytes = expected.outputs[0].bytes;
  expected.outputs[0].rule = Rule::bits;
  bytes.resize(packed_bytes(y.dtype, y.dims));
  std::int64_t outer = 1;
  for (std::size_t d = 0; d < axis; ++d) outer *= y.dims[d];
  std::uint64_t at = 0;
  for (std::int64_t o = 0; o < outer; ++o)
    for (const Tensor& x : call.inputs) {
      const std::uint64_t part = bytes_below(x.dims());
      if (part != 0) std::memcpy(bytes.data() + at, x.bytes().data() + static_cast<std::uint64_t>(o) * part, part);
      at += part;
    }
}

/// Visits each element of y with its index and the indices along its dimensions.
template <class F>
void each_element(const Dims& dims, const F& f) {
  std::vector<std::int64_t> at(dims.size(), 0);
  for (std::int64_t i = 0; i < element_count(dims); ++i) {
    f(i, at);
    for (std::size_t d = dims.size(); d-- > 0 && ++at[d] == dims[d];) at[d] = 0;
  }
}

/// The element of `small` that lies at `at` of a larger tensor, which it fills again and again.
std::int64_t wrapped(const Dims& small, const std::vector<std::int64_t>& at) {
  std::int64_t index = 0;
  const std::size_t missing = at.size() - small.size();
  for (std::size_t d = 0; d < small.size(); ++d) index = index * small[d] + at[d + missing] % small[d];
  return index;
}

void pad_reference(const ReferenceCall& call, Expected& expected) {
  const Tensor& x = call.inputs[0];
  const auto axis = static_cast<std::size_t>(call.attribute(QUERN_KEY_AXIS, 0));
  const auto before = static_cast<std::int64_t>(call.attribute(QUERN_KEY_BEFORE, 0));
  const double value = call.attribute(QUERN_KEY_VALUE, 0);
  ExpectedOutput& y = expected.outputs[0];
  y.rule = Rule::value;
  y.zero_sign = true;
  each_element(call.what.outputs[0].dims, [&](std::int64_t, std::vector<std::int64_t> at) {
    at[axis] -= before;
    y.add(at[axis] < 0 || at[axis] >= x.dims()[axis] ? value : x.at(wrapped(x.dims(), at)), 0);
  });
}

void repeat_reference(const ReferenceCall& call, Expected& expected) {
  const Tensor& x = call.inputs[0];
  ExpectedOutput& y = expected.outputs[0];
  y.rule = Rule::value;
  y.zero_sign = true;
  each_element(call.what.outputs[0].dims,
               [&](std::int64_t, const std::vector<std::int64_t>& at) { y.add(x.at(wrapped(x.dims(), at)), 0); });
}

void sum_to_reference(const ReferenceCall& call, Expected& expected) {
  const Tensor& x = call.inputs[0];
  const ValueSpec& to = call.what.outputs[0];
  const auto count = static_cast<std::size_t>(element_count(to.dims));
  ExpectedOutput& y = expected.outputs[0];
  y.rule = Rule::bounded;
  y.value.assign(count, 0.0);
  y.scale.assign(count, 0.0);
  y.length = count == 0 ? 0.0 : static_cast<double>(x.count()) / static_cast<double>(count);
  each_element(x.dims(), [&](std::int64_t i, const std::vector<std::int64_t>& at) {
    const auto place = static_cast<std::size_t>(wrapped(to.dims, at));
    y.value[place] += x.at(i);
    y.scale[place] += std::fabs(x.at(i));
  });
  for (std::size_t i = 0; i < count; ++i)
    y.bound.push_back(accumulation_bound(Tier::t1, y.length, y.scale[i]) + narrow_store(to.dtype, y.value[i]));
}

constexpr OpUnderTest concat_op{QUERN_OP_CONCAT, "copy", level_all, concat_reference};
constexpr OpUnderTest pad_op{QUERN_OP_PAD, "copy", level_all, pad_reference};
constexpr OpUnderTest repeat_op{QUERN_OP_REPEAT, "copy", level_all, repeat_reference};
constexpr OpUnderTest sum_to_op{QUERN_OP_SUM_TO, "copy", level_training, sum_to_reference};

void generate_concat(CaseSink& sink) {
  const auto add = [&](Profile profile, quern_dtype dtype, std::vector<Dims> parts, std::size_t axis, const Layout& from,
                       const Layout& to) {
    std::vector<ValueSpec> inputs;
    Dims whole = parts[0];
    whole[axis] = 0;
    for (const Dims& part : parts) {
      whole[axis] += part[axis];
      inputs.push_back(input(dtype, part, DataKind::specials, inputs.empty() ? from : Layout{}));
    }
    sink.add(make_case(concat_op, profile, std::move(inputs), {output(dtype, whole, to)},
                       unless_default({{{QUERN_KEY_AXIS, static_cast<double>(axis)}, 0}})));
  };
  for (const quern_dtype dtype : {QUERN_F32, QUERN_F16, QUERN_BF16, QUERN_I32}) {
    add(Profile::quick, dtype, {{5}}, 0, {}, {});
    add(Profile::quick, dtype, {{1}, {33}, {7}}, 0, {}, {});
    for (std::size_t axis = 0; axis < 3; ++axis) {
      Dims a{3, 4, 5}, b{3, 4, 5}, none{3, 4, 5};
      b[axis] = 7;
      none[axis] = 0;
      add(Profile::quick, dtype, {a, b}, axis, {}, {});
      add(Profile::quick, dtype, {a, none, b, a}, axis, {}, {});
      add(Profile::quick, dtype, {a, b}, axis, rows_apart(3), {});
      add(Profile::quick, dtype, {a, b}, axis, ordered({2, 0, 1}), rows_apart(1));
      add(Profile::full, dtype, {b, a}, axis, shifted(), shifted());
      add(Profile::full, dtype, {a, a, a, a, a, a, a, a, b}, axis, {}, rows_apart(5));
    }
    for (std::size_t axis = 0; axis < 4; ++axis) {
      Dims a{2, 3, 4, 33}, b{2, 3, 4, 33};
      b[axis] += 1;
      add(Profile::full, dtype, {a, b, a}, axis, {}, {});
      add(Profile::full, dtype, {a, b, a}, axis, rows_apart(1), rows_apart(2));
    }
    add(Profile::full, dtype, {{129, 1025}, {129, 31}}, 1, {}, {});
    add(Profile::full, dtype, {{129, 1025}, {31, 1025}}, 0, {}, {});
  }
  for (const quern_dtype dtype : block_dtypes) {
    const std::int64_t block = unit_of(dtype).elements;
    add(Profile::quick, dtype, {{3, 2 * block}, {3, block}}, 1, {}, {});
    add(Profile::quick, dtype, {{3, 2 * block}, {5, 2 * block}}, 0, {}, {});
    add(Profile::full, dtype, {{3, 2 * block}, {5, 2 * block}}, 0, rows_apart(1), rows_apart(2));
    add(Profile::full, dtype, {{2, 3, block}, {2, 1, block}}, 1, {}, {});
  }
}

void generate_pad(CaseSink& sink) {
  const auto add = [&](Profile profile, ValueSpec x, std::size_t axis, std::int64_t before, std::int64_t after, double value,
                       const Layout& to) {
    Dims dims = x.dims;
    dims[axis] += before + after;
    const quern_dtype dtype = x.dtype;
    sink.add(make_case(pad_op, profile, {std::move(x)}, {output(dtype, dims, to)},
                       unless_default({{{QUERN_KEY_AXIS, static_cast<double>(axis)}, 0},
                                       {{QUERN_KEY_BEFORE, static_cast<double>(before)}, 0},
                                       {{QUERN_KEY_AFTER, static_cast<double>(after)}, 0},
                                       {{QUERN_KEY_VALUE, value}, 0}})));
  };
  for (const quern_dtype dtype : float_dtypes) {
    for (std::size_t axis = 0; axis < 3; ++axis)
      for (const auto& [before, after] : {std::pair{0, 0}, std::pair{2, 0}, std::pair{0, 3}, std::pair{1, 300}}) {
        const Dims dims{3, 4, 33};
        add(Profile::quick, input(dtype, dims, DataKind::specials), axis, before, after, before == 1 ? -0.5 : 0, {});
        add(Profile::full, input(dtype, dims, DataKind::exponents, rows_apart(3)), axis, before, after, 2, rows_apart(1));
        add(Profile::full, input(dtype, dims, DataKind::exponents, ordered({1, 0, 2})), axis, before, after, 0, shifted());
      }
    add(Profile::quick, input(dtype, {1}, DataKind::specials), 0, 511, 2, -1, {});
    add(Profile::quick, input(dtype, {2, 0, 5}), 1, 2, 1, 3, {});  // nothing but padding
    add(Profile::full, input(dtype, {65, 1025}, DataKind::specials), 1, 7, 500, 1, {});
    add(Profile::full, input(dtype, {2, 3, 4, 5}, DataKind::specials), 2, 1, 1, 1, {});
  }
}

void generate_repeat(CaseSink& sink) {
  struct Pair {
    Dims small, large;
  };
  const Pair pairs[] = {{{1}, {33}},
                        {{3}, {9}},
                        {{31}, {5, 31}},
                        {{5, 1}, {5, 33}},
                        {{1, 33}, {7, 33}},
                        {{2, 3}, {4, 9}},
                        {{4, 65}, {3, 4, 65}},
                        {{3, 1, 65}, {3, 4, 65}},
                        {{1, 2, 1, 5}, {2, 4, 3, 10}},
                        {{5, 31}, {5, 31}},
                        {{300}, {4, 600}},
                        {{2, 259}, {6, 777}}};
  for (const quern_dtype dtype : float_dtypes) {
    for (const Pair& p : pairs) {
      const auto rank = static_cast<std::uint32_t>(p.large.size());
      std::vector<std::uint32_t> turned;
      for (std::uint32_t d = 0; d < rank; ++d) turned.push_back((d + 1) % rank);
      sink.add(make_case(repeat_op, Profile::quick, {input(dtype, p.small, DataKind::specials)}, {output(dtype, p.large)}));
      sink.add(make_case(repeat_op, Profile::full, {input(dtype, p.small, DataKind::exponents, shifted())},
                         {output(dtype, p.large, shifted())}));
      if (rank > 1)
        sink.add(make_case(repeat_op, Profile::full, {input(dtype, p.small, DataKind::exponents)},
                           {output(dtype, p.large, rows_apart(3))}));
      for (const DataKind data : {DataKind::gaussian, DataKind::positive, DataKind::heavy})
        sink.add(make_case(sum_to_op, data == DataKind::heavy ? Profile::full : Profile::quick, {input(dtype, p.large, data)},
                           {output(dtype, p.small)}));
      if (rank == 1) continue;
      sink.add(make_case(sum_to_op, Profile::quick, {input(dtype, p.large, DataKind::integers, ordered(turned))},
                         {output(dtype, p.small)}));
      sink.add(make_case(sum_to_op, Profile::full, {input(dtype, p.large, DataKind::gaussian, rows_apart(3))},
                         {output(dtype, p.small, shifted())}));
    }
    for (const Pair& p : {Pair{{1}, {65, 1025}}, Pair{{129}, {4099, 129}}, Pair{{3, 1}, {3, 40001}}})
      for (const DataKind data : {DataKind::positive, DataKind::gaussian})
        sink.add(make_case(sum_to_op, data == DataKind::positive ? Profile::quick : Profile::full, {input(dtype, p.large, data)},
                           {output(dtype, p.small)}));
    sink.add(make_case(sum_to_op, Profile::quick, {input(dtype, {0, 4})}, {output(dtype, {1, 4})}));  // a sum of nothing is 0
    sink.add(make_case(repeat_op, Profile::quick, {input(dtype, {1, 4})}, {output(dtype, {0, 4})}));
  }
}

void generate(CaseSink& sink) {
  generate_concat(sink);
  generate_pad(sink);
  generate_repeat(sink);
}

}  // namespace

extern const Family arrange_family;
const Family arrange_family = {"arrange", generate};

}  // namespace quern::conformance
