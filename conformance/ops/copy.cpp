// copy: the same bytes under other strides. Every dtype and block format; bit for bit, NaN payloads too.
#include "ops/family.hpp"

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

void generate(CaseSink& sink) {
  plain_dtypes(sink);
  block_formats(sink);
  add(sink, Profile::quick, input(QUERN_F32, {0, 7}), output(QUERN_F32, {0, 7}));  // legal, launches nothing
  for (const quern_dtype dtype : float_dtypes) add(sink, Profile::full, input(dtype, {1025, 4097}, DataKind::exponents), output(dtype, {1025, 4097}));
  const Dims beyond_32_bits = {(std::int64_t{1} << 31) + 17};
  add(sink, Profile::huge, input(QUERN_F16, beyond_32_bits, DataKind::exponents), output(QUERN_F16, beyond_32_bits));
}

}  // namespace

extern const Family copy_family;
const Family copy_family = {"copy", generate};

}  // namespace quern::conformance
