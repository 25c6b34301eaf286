// copy: the same bytes under other strides. Every dtype and block format; bit for bit, NaN payloads too.
#include "ops/family.hpp"

#include <algorithm>

namespace quern::conformance {
namespace {

void reference(const ReferenceCall& call, Expected& expected) {
  const auto bytes = call.inputs[0].bytes();
  expected.outputs[0].rule = Rule::bits;
  expected.outputs[0].bytes.assign(bytes.begin(), bytes.end());
}

void add(CaseSink& sink, Profile profile, ValueSpec x, ValueSpec y) {
  Case c;
  c.group = "copy";
  c.op = QUERN_OP_COPY;
  c.profile = profile;
  c.level = level_basic;
  c.inputs = {std::move(x)};
  c.outputs = {std::move(y)};
  c.reference = reference;
  sink.add(std::move(c));
}

void plain_dtypes(CaseSink& sink) {
  const Dims shapes[] = {{1}, {31}, {7, 33}, {3, 5, 17}, {2, 3, 4, 9}, {64, 256}, {1, 1, 129}};
  for (const quern_dtype dtype : {QUERN_F32, QUERN_F16, QUERN_BF16, QUERN_I32})
    for (const Dims& dims : shapes) {
      add(sink, Profile::quick, input(dtype, dims, DataKind::specials), output(dtype, dims));
      if (dims.size() < 2) continue;
      const auto rank = static_cast<std::uint32_t>(dims.size());
      std::vector<std::uint32_t> swapped, rotated;
      for (std::uint32_t d = 0; d < rank; ++d) swapped.push_back(d), rotated.push_back((d + 1) % rank);
      std::swap(swapped[rank - 1], swapped[rank - 2]);
      std::vector<Layout> layouts = {rows_apart(1), rows_apart(13), shifted(), ordered(swapped)};
      if (rank > 2) layouts.push_back(ordered(rotated));  // of two dimensions it is the swapped one
      for (const Layout& layout : layouts) {
        add(sink, Profile::quick, input(dtype, dims, DataKind::exponents, layout), output(dtype, dims));
        add(sink, Profile::quick, input(dtype, dims, DataKind::exponents), output(dtype, dims, layout));
        add(sink, Profile::full, input(dtype, dims, DataKind::exponents, layout), output(dtype, dims, rows_apart(5)));
      }
      add(sink, Profile::quick, input(dtype, dims, DataKind::gaussian, repeats(1)), output(dtype, dims));
    }
}

void block_formats(CaseSink& sink) {
  for (const quern_dtype dtype : block_dtypes) {
    const std::int64_t block = unit_of(dtype).elements;
    for (const Dims& dims : {Dims{block}, Dims{5, 3 * block}, Dims{2, 3, block}}) {
      add(sink, Profile::quick, input(dtype, dims, DataKind::specials), output(dtype, dims));
      if (dims.size() < 2) continue;
      add(sink, Profile::quick, input(dtype, dims, DataKind::gaussian, rows_apart(2)), output(dtype, dims));
      add(sink, Profile::quick, input(dtype, dims, DataKind::gaussian), output(dtype, dims, rows_apart(1)));
    }
  }
}

/// Every order of four dimensions, on either side, and inner dimensions that a stride of 0 repeats.
void orders(CaseSink& sink) {
  const Dims dims = {3, 4, 5, 6};
  for (const quern_dtype dtype : {QUERN_F32, QUERN_F16, QUERN_BF16, QUERN_I32}) {
    std::vector<std::uint32_t> order = {0, 1, 2, 3};
    while (std::ranges::next_permutation(order).found) {
      add(sink, Profile::full, input(dtype, dims, DataKind::exponents, ordered(order)), output(dtype, dims));
      add(sink, Profile::full, input(dtype, dims, DataKind::exponents), output(dtype, dims, ordered(order)));
      add(sink, Profile::full, input(dtype, dims, DataKind::exponents, ordered(order)), output(dtype, dims, ordered({2, 0, 3, 1})));
    }
    for (const std::uint32_t mask : {2u, 4u, 8u, 5u, 10u, 15u})
      add(sink, Profile::quick, input(dtype, dims, DataKind::gaussian, repeats(mask)), output(dtype, dims));
    for (const Dims& wide : {Dims{257, 513}, Dims{1025, 63}, Dims{31, 1000}, Dims{2, 129, 130}}) {  // transposes beyond a tile
      std::vector<std::uint32_t> swapped;
      for (std::uint32_t d = 0; d < wide.size(); ++d) swapped.push_back(d);
      std::swap(swapped[wide.size() - 1], swapped[wide.size() - 2]);
      add(sink, Profile::full, input(dtype, wide, DataKind::exponents, ordered(swapped)), output(dtype, wide));
      add(sink, Profile::full, input(dtype, wide, DataKind::exponents), output(dtype, wide, ordered(swapped)));
    }
  }
  for (const quern_dtype dtype : block_dtypes) {
    const Dims blocks = {3, 4, 5, 2 * unit_of(dtype).elements};
    for (const std::vector<std::uint32_t>& order : {std::vector<std::uint32_t>{0, 2, 1, 3}, {1, 0, 2, 3}, {2, 1, 0, 3}}) {
      add(sink, Profile::full, input(dtype, blocks, DataKind::gaussian, ordered(order)), output(dtype, blocks));
      add(sink, Profile::full, input(dtype, blocks), output(dtype, blocks, ordered(order)));
    }
    add(sink, Profile::full, input(dtype, blocks, DataKind::gaussian, repeats(1)), output(dtype, blocks));
  }
}

void generate(CaseSink& sink) {
  plain_dtypes(sink);
  block_formats(sink);
  orders(sink);
  add(sink, Profile::quick, input(QUERN_F32, {0, 7}), output(QUERN_F32, {0, 7}));  // legal, launches nothing
  for (const quern_dtype dtype : float_dtypes)
    add(sink, Profile::full, input(dtype, {1025, 4097}, DataKind::exponents), output(dtype, {1025, 4097}));
  const Dims beyond_32_bits = {(std::int64_t{1} << 31) + 17};
  add(sink, Profile::huge, input(QUERN_F16, beyond_32_bits, DataKind::exponents), output(QUERN_F16, beyond_32_bits));
}

}  // namespace

extern const Family copy_family;
const Family copy_family = {"copy", generate};

}  // namespace quern::conformance
