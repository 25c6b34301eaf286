// kv_move: single positions within sequences, in the order of the list; bit for bit.
#include "ops/given.hpp"
#include "ops/paged_batch.hpp"
#include "quern/quern_plan.h"

#include <algorithm>

namespace quern::conformance {
namespace {

void reference(const ReferenceCall& call, Expected& expected) {
  const Tensor &cache = call.inputs[0], &table = call.inputs[1], &slot = call.inputs[2], &from = call.inputs[3], &to = call.inputs[4];
  ExpectedOutput& y = expected.outputs[0];
  y.rule = Rule::bits;
  y.bytes.assign(cache.bytes().begin(), cache.bytes().end());
  const std::int64_t pages = cache.dims()[0], heads = cache.dims()[1], size = cache.dims()[2], width = table.dims()[1];
  const auto row_bytes = static_cast<std::int64_t>(y.bytes.size()) / (pages * heads * size);
  const auto page_of = [&](std::int64_t sequence, std::int64_t position) -> std::int64_t {
    if (sequence < 0 || sequence >= table.dims()[0] || position < 0 || position / size >= width) return -1;
    const auto page = static_cast<std::int64_t>(table.at(sequence * width + position / size));
    return page < 0 || page >= pages ? -1 : page;
  };
  for (std::int64_t i = 0; i < slot.count(); ++i) {
    const auto sequence = static_cast<std::int64_t>(slot.at(i)), source = static_cast<std::int64_t>(from.at(i)),
               target = static_cast<std::int64_t>(to.at(i));
    const std::int64_t source_page = page_of(sequence, source), target_page = page_of(sequence, target);
    if (!row_live(call, 0) || source_page < 0 || target_page < 0) continue;
    for (std::int64_t h = 0; h < heads; ++h)
      std::copy_n(y.bytes.begin() + ((source_page * heads + h) * size + source % size) * row_bytes, row_bytes,
                  y.bytes.begin() + ((target_page * heads + h) * size + target % size) * row_bytes);
  }
}

struct Moves {
  const char* name;
  std::vector<std::int64_t> slot, from, to;
  std::uint64_t faults = 0;
};

Case make(Profile profile, quern_dtype dtype, std::int64_t heads, std::int64_t d, const PagedBatch& batch, const Moves& moves,
          Layout layout = {}) {
  const Dims list = {static_cast<std::int64_t>(moves.slot.size())};
  const DataKind data = is_float(dtype) ? DataKind::specials : DataKind::gaussian;  // NaN payloads go as they are
  ValueSpec cache = input(dtype, {batch.pages(), heads, batch.page, d}, data, std::move(layout));
  Case c;
  c.group = "attention";
  c.op = QUERN_OP_KV_MOVE;
  c.profile = profile;
  c.level = level_inference;
  c.outputs = {in_place(cache, 0)};
  c.inputs = {std::move(cache), batch.table_input(), given(input(QUERN_I32, list), moves.name, moves.slot),
              given(input(QUERN_I32, list), moves.name, moves.from), given(input(QUERN_I32, list), moves.name, moves.to)};
  c.faults = moves.faults;
  c.note = batch.name();
  c.reference = reference;
  return c;
}

/// Positions and pages far from the first ones.
void far_apart(CaseSink& sink) {
  const Moves moves{"far_apart", {0, 1, 0, 0}, {33000, 5, 32768, 17}, {2, 40, 32767, 32999}};
  for (const quern_dtype dtype : {QUERN_F16, QUERN_Q8_0})
    sink.add(make(dtype == QUERN_F16 ? Profile::quick : Profile::full, dtype, 1, 32, {{{0, 33001}, {0, 42}}, 16}, moves));
}

void generate(CaseSink& sink) {
  far_apart(sink);
  const Moves moves[] = {
      {"one", {0}, {30}, {2}},
      {"both_sequences", {1, 0, 1}, {40, 17, 3}, {0, 16, 33}},
      {"chain", {0, 0, 0, 1, 1}, {5, 3, 1, 20, 19}, {3, 1, 31, 19, 5}},  // an entry reads what one before it wrote
      {"onto_itself", {0, 1}, {7, 20}, {7, 20}},
      {"compaction", {1, 1, 1, 1, 1, 1}, {2, 4, 6, 8, 40, 41}, {1, 2, 3, 4, 5, 6}},
      {"out_of_range", {0, 2, -1, 0, 1, 0}, {5, 1, 1, 1000, 40, -2}, {6, 2, 2, 3, 41, 8}, QUERN_FAULT_INDEX_RANGE},
  };
  for (const quern_dtype dtype : {QUERN_F32, QUERN_F16, QUERN_BF16, QUERN_Q8_0, QUERN_Q4_0})
    for (const Moves& m : moves) {
      for (const std::int64_t page : {16, 32, 8})
        sink.add(make(page == 16 ? Profile::quick : Profile::full, dtype, 2, 64, {{{0, 34}, {0, 42}}, page}, m));
      sink.add(make(Profile::full, dtype, 8, 128, {{{0, 34}, {0, 42}}, 32}, m));
      if (m.faults == 0) sink.add(with_predicate(make(Profile::quick, dtype, 2, 64, {{{0, 34}, {0, 42}}, 16}, m), {0}, "dead"));
      for (const Layout& layout : {rows_apart(1), ordered({0, 2, 1, 3}), shifted()})
        sink.add(make(m.faults == 0 ? Profile::full : Profile::quick, dtype, 3, 96, {{{0, 34}, {0, 42}}, 16}, m, layout));
    }
}

}  // namespace

extern const Family kv_move_family;
const Family kv_move_family = {"kv_move", generate};

}  // namespace quern::conformance
