// bitsandbytes: codes of four bits for numbers of a table, or signed bytes with a scale a row.
#include "block_packing.hpp"
#include "quantised_modules.hpp"
#include "stored_numbers.hpp"

#include "quern/base/terminal_text.hpp"
#include "quern/models/floats.hpp"
#include "quern/quern_formats.h"

#include <algorithm>
#include <utility>

namespace quern::directory {
namespace {

using safetensors::Dtype;

constexpr std::uint64_t block = 64;
constexpr std::uint64_t most_side = 1 << 30;

/// What the tensor "quant_state" says, a JSON text.
struct State {
  std::uint64_t rows = 0, columns = 0, nested_block = 0;
  float nested_offset = 0;
};

State read_state(const ModuleContext& context, const StoredTensor& tensor) {
  constexpr std::uint64_t most_bytes = 1 << 16;
  if (tensor.info.dtype != Dtype::u8 || tensor.info.bytes > most_bytes)
    throw context.refused(QUERN_BAD_MODEL, tensor, concat("is no text of at most ", most_bytes, " bytes"));
  const std::vector<std::byte> bytes = context.read(tensor);
  const std::optional<Json> json = Json::parse({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  if (!json || !json->is_object()) throw context.refused(QUERN_BAD_MODEL, tensor, "is not a JSON object");
  const auto count = [&](const Json* value, std::string_view field) {
    if (value == nullptr || value->count() == nullptr || *value->count() < 1 || *value->count() > most_side)
      throw context.refused(QUERN_BAD_MODEL, tensor, concat("its ", in_quotes(field), " is not a whole number of 1 to ", most_side));
    return *value->count();
  };
  if (const std::uint64_t size = count(json->find("blocksize"), "blocksize"); size != block)
    throw context.refused(QUERN_UNSUPPORTED, tensor, concat("its 'blocksize' is ", size, "; blocks of ", block, " are read"));
  const Json* const shape = json->find("shape");
  if (shape == nullptr || shape->list() == nullptr || shape->list()->size() != 2)
    throw context.refused(QUERN_BAD_MODEL, tensor, "its 'shape' is not two numbers");
  State state;
  state.rows = count(&(*shape->list())[0], "shape");
  state.columns = count(&(*shape->list())[1], "shape");
  if (const Json* nested = json->find("nested_blocksize"); nested != nullptr && !nested->is_null()) {
    state.nested_block = count(nested, "nested_blocksize");
    const Json* const offset = json->find("nested_offset");
    const std::optional<double> number = offset == nullptr ? std::nullopt : offset->number();
    if (!number) throw context.refused(QUERN_BAD_MODEL, tensor, "its 'nested_offset' is not a number");
    state.nested_offset = static_cast<float>(*number);
  }
  return state;
}

void check_map(const ModuleContext& context, const StoredTensor& map, std::span<const float> known) {
  context.check(map, {known.size()}, {Dtype::f32});
  const std::vector<float> found = models::decode_floats(QUERN_F32, context.read(map));
  if (!std::ranges::equal(found, known))
    throw context.refused(QUERN_UNSUPPORTED, map, "has other numbers than bitsandbytes writes; only its own tables are read");
}

/// The largest magnitude of block i, which may be a code of a second table.
float block_scale(gguf::LyingPieces lying, const State& state, std::uint64_t i) noexcept {
  if (state.nested_block == 0) return StoredNumbers(Dtype::f32, lying[1])[i];
  const StoredNumbers outer(Dtype::f32, lying[2]), map(Dtype::f32, lying[3]);
  const float product = map[std::to_integer<std::size_t>(lying[1][i])] * outer[i / state.nested_block];
  return product + state.nested_offset;
}

QuantisedWeight table_weight(const ModuleContext& context, const QuantisedModule& module, const StoredTensor& codes) {
  const StoredTensor* const nf4 = module.find("weight.quant_state.bitsandbytes__nf4");
  const StoredTensor& described = nf4 != nullptr ? *nf4 : context.require(module, "weight.quant_state.bitsandbytes__fp4");
  const StoredTensor &absmax = context.require(module, "weight.absmax"), &map = context.require(module, "weight.quant_map");
  const State state = read_state(context, described);
  check_map(context, map, nf4 != nullptr ? std::span<const float>(quern_nf4_values) : std::span<const float>(quern_fp4_values));
  if (state.columns % block != 0)
    throw context.refused(QUERN_UNSUPPORTED, codes,
                          concat("has ", state.columns, " columns, and blocks of ", block,
                                 " cross its rows; use the original directory or a GGUF file"));
  const std::uint64_t blocks = state.rows * state.columns / block;
  context.check(codes, {state.rows * state.columns / 2, 1}, {Dtype::u8});
  QuantisedWeight made{&codes, {&absmax}, state.rows, state.columns, nf4 != nullptr ? QUERN_NF4_64 : QUERN_FP4_64, {}, {}};
  if (state.nested_block == 0) {
    context.check(absmax, {blocks}, {Dtype::f32});
  } else {
    const StoredTensor &outer = context.require(module, "weight.nested_absmax"),
                       &inner = context.require(module, "weight.nested_quant_map");
    context.check(absmax, {blocks}, {Dtype::u8});
    context.check(outer, {(blocks + state.nested_block - 1) / state.nested_block}, {Dtype::f32});
    context.check(inner, {256}, {Dtype::f32});
    made.further = {&absmax, &outer, &inner};
  }
  made.change = [=, format = made.dtype, where = context.where(absmax)](gguf::LyingPieces lying, const MadeRows& to) {
    Codes packed{format, state.rows, state.columns, block, {}, {}, {}, {}};
    packed.read_pairs = [=](const Tile& tile, std::uint8_t* out) {
      const auto low_first = [&](std::uint64_t word) {  // the high nibble of a byte comes first
        const std::uint32_t bits = word_at(lying[0], word), low = 0x0f0f0f0f;
        return (bits >> 4 & low) | (bits & low) << 4;
      };
      for (std::uint64_t row = tile.row; row < tile.row + tile.rows; ++row, out += tile.pitch) {
        const std::uint64_t first = (row * state.columns + tile.column) / 8;
        for (std::uint64_t i = 0; i < tile.columns / 8; i += 4)
          for (std::uint64_t half = 0; half < 2; ++half)
            put_pairs(low_first(first + i + half), low_first(first + i + half + 2), out + 4 * i + 8 * half);
      }
    };
    packed.scales =
        by_groups(block, [=](std::uint64_t row, std::uint64_t g) { return block_scale(lying, state, row * (state.columns / block) + g); });
    return packed_blocks(std::move(packed), where, to);
  };
  return made;
}

QuantisedWeight byte_weight(const ModuleContext& context, const QuantisedModule& module, const StoredTensor& codes) {
  constexpr std::uint64_t bytes = 128;
  const StoredTensor& largest = context.require(module, "SCB");
  if (codes.info.shape.size() != 2 || codes.info.elements() == 0) throw context.refused(QUERN_BAD_MODEL, codes, "is not a matrix");
  const std::uint64_t rows = codes.info.shape[0], columns = codes.info.shape[1];
  context.check(codes, {rows, columns}, {Dtype::i8});
  context.check(largest, {rows}, {Dtype::f32});
  if (columns % bytes != 0)
    throw context.refused(QUERN_UNSUPPORTED, codes, concat("has ", columns, " columns; multiples of ", bytes, " are read"));
  QuantisedWeight made{&codes, {&largest}, rows, columns, QUERN_Q8_128, {}, {}};
  made.change = [=, where = context.where(largest)](gguf::LyingPieces lying, const MadeRows& to) {
    const StoredNumbers most(Dtype::f32, lying[1]);
    Codes packed{QUERN_Q8_128, rows, columns, bytes, {}, {}, {}, {}};
    packed.lying = lying[0];
    packed.scales = by_groups(bytes, [=](std::uint64_t row, std::uint64_t) { return most[row] / 127.0f; });
    return packed_blocks(std::move(packed), where, to);
  };
  return made;
}

}  // namespace

QuantisedWeight bitsandbytes_weight(const ModuleContext& context, const QuantisedModule& module) {
  const StoredTensor& codes = context.require(module, "weight");
  return codes.info.dtype == Dtype::i8 ? byte_weight(context, module, codes) : table_weight(context, module, codes);
}

}  // namespace quern::directory
