// Counts at the limits of kernels: a tile, a block, a grid, a stage or a table, with one case at the limit, one below and one above.
//
// The limits are those of the kernels of this project (conformance/limits.txt, which a test compares with their sources) and the powers of two that any
// kernel may have. A case is large in the one count that it is about. Most positions of a long sequence are behind a window, so that they cost
// nothing. Decode steps without a window read all of them, of one narrow head.
#include "ops/given.hpp"
#include "ops/resized.hpp"
#include "ops/shaped_cases.hpp"

#include <algorithm>
#include <set>

namespace quern::conformance {
namespace {

constexpr Profile quick = Profile::quick, full = Profile::full;

/// limit - step, limit, limit + step.
std::vector<std::int64_t> around(std::int64_t limit, std::int64_t step = 1) { return {limit - step, limit, limit + step}; }

void add(CaseSink& sink, Case c, const std::string& note) {
  c.note += (c.note.empty() ? "" : "_") + note;
  sink.add(std::move(c));
}

/// One narrow head of keys for two of queries.
AttentionShape narrow(PagedBatch batch, std::int64_t d = 32) {
  AttentionShape s;
  s.batch = std::move(batch);
  s.heads = 2;
  s.kv_heads = 1;
  s.d = s.dv = d;
  return s;
}

/// Sequences of different lengths, each of which decodes.
PagedBatch decoding(std::int64_t sequences) {
  PagedBatch batch;
  for (std::int64_t i = 0; i < sequences; ++i) batch.sequences.push_back({i * 5 % 23, 1});
  return batch;
}

/// `rows` rows behind `past` positions of which a window of 40 sees the last alone; the pages before it are gone.
PagedBatch behind_a_window(std::int64_t past, std::int64_t rows) {
  PagedBatch batch{{{past, rows}}, 16};
  batch.passed_pages = std::max<std::int64_t>(0, past - 40) / 16;
  return batch;
}

void attention_keys(CaseSink& sink) {
  for (const std::int64_t limit : {64, 128, 256, 512, 1024, 4096, 16384, 32768, 65536, 131072})
    for (const std::int64_t keys : around(limit)) {
      const bool in_quick = keys <= 1025 ? limit == 64 || limit == 256 : keys == 32767 || keys == 32769 || keys == 65537 || keys == 131072;
      add(sink, attention_case(in_quick ? quick : full, narrow({{{keys - 1, 1}}, 16})), "keys");
      if (limit != 32768 && limit != 131072) continue;
      AttentionShape s = narrow({{{keys - 1, 1}}, 16}, 64);
      s.k = s.v = QUERN_Q8_0;
      add(sink, attention_case(full, s), "keys");
    }
  add(sink, attention_case(quick, narrow({{{20000, 1}}, 16})), "keys");
  for (const std::int64_t limit : {256, 512})
    for (const std::int64_t of_sequence : around(limit))
      add(sink, attention_case(full, narrow({{{of_sequence * 16 - 3, 1}}, 16})), "pages");
  AttentionShape blocks = narrow({{{32767, 1}}, 32});
  blocks.k = blocks.v = QUERN_Q8_0;
  add(sink, attention_case(full, blocks), "keys");
  // Positions far behind what is read.
  for (const std::int64_t limit : {32768, 65536, 131072, 1 << 20})
    for (const std::int64_t position : around(limit)) {
      AttentionShape s = narrow(behind_a_window(position, 1));
      s.window = 40;
      add(sink, attention_case(position == limit ? quick : full, s), "window");
      s.k = s.v = QUERN_Q8_0;
      add(sink, attention_case(position == 32768 ? quick : full, s), "window");
      KvWriteShape w;
      w.batch = behind_a_window(position - 2, 3);
      w.kv_heads = 2;
      w.d = 32;
      add(sink, kv_write_case(position == limit ? quick : full, w), "position");
      w.cache = QUERN_Q8_0;
      add(sink, kv_write_case(position == 32768 ? quick : full, w), "position");
    }
}

void attention_rows(CaseSink& sink) {
  for (const std::int64_t limit : {16, 64, 128, 256, 1024, 2048, 4096})
    for (const std::int64_t rows : limit == 64 ? std::vector<std::int64_t>{63, 64, 65, 66} : around(limit)) {
      AttentionShape s = narrow({{{0, rows}}, 16}, 16);
      s.window = rows > 256 ? 24 : 0;
      add(sink, attention_case(rows == 1025 || rows == 2048 || limit == 64 ? quick : full, s), "rows");
      KvWriteShape w;
      w.batch = s.batch;
      w.kv_heads = 1;
      w.d = 32;
      add(sink, kv_write_case(rows == 1025 || rows == 2048 ? quick : full, w), "rows");
    }
  AttentionShape prompt = narrow({{{0, 2048}}, 16}, 64);  // without a window
  add(sink, attention_case(full, prompt), "prompt");
  prompt = narrow({{{0, 520}}, 16}, 8);
  prompt.heads = 1;
  add(sink, attention_case(quick, prompt), "prompt");
  for (const std::int64_t limit : {16, 32, 64, 128, 256})
    for (const std::int64_t sequences : around(limit)) {
      add(sink, attention_case(sequences > limit || limit == 256 ? quick : full, narrow(decoding(sequences))), "sequences");
      KvWriteShape w;
      w.batch = decoding(sequences);
      w.kv_heads = 1;
      w.d = 32;
      add(sink, kv_write_case(sequences > limit || limit == 256 ? quick : full, w), "sequences");
    }
}

void attention_heads(CaseSink& sink) {
  for (const std::int64_t limit : {8, 32, 64, 128})
    for (const std::int64_t heads : around(limit)) {
      for (const std::int64_t kv_heads : {std::int64_t{1}, heads}) {
        AttentionShape s = narrow({{{37, 1}}, 16});
        s.heads = heads;
        s.kv_heads = kv_heads;
        add(sink, attention_case(heads > limit ? quick : full, s), "heads");
      }
      add(sink, rope_case(heads > limit ? quick : full, {heads, 32, 32, 33, {5, 32}}), "heads");
    }
  for (const std::int64_t limit : {256, 512})
    for (const std::int64_t d : around(limit)) {
      add(sink, attention_case(d > limit ? quick : full, narrow({{{37, 2}}, 16}, d)), "size");
      add(sink, rope_case(d > limit ? quick : full, {3, d, d / 2 * 2, 33, {5, 32}}), "size");
    }
  for (const std::int64_t d : {1022, 1023, 1024}) {  // more is more than what kernels of ours take
    KvWriteShape w;
    w.batch = {{{20, 1}}, 16};
    w.kv_heads = 1;
    w.d = d;
    add(sink, kv_write_case(d == 1024 ? quick : full, w), "size");
    add(sink, rope_case(d == 1024 ? quick : full, {2, d, d / 2 * 2, 33, {5, 32}}), "size");
  }
}

void pages(CaseSink& sink) {
  for (const std::int64_t limit : {1024, 4096, 9000, 65536})
    for (const std::int64_t count : around(limit)) {
      PagedBatch batch{{{100, 1}, {5, 4}, {70, 1}}, 8};
      batch.spare_pages = count - batch.pages();
      AttentionShape s = narrow(batch, limit == 65536 ? 8 : 16);
      add(sink, attention_case(count == 4097 || count == 9001 ? quick : full, s), "pages");
      KvWriteShape w;
      w.batch = batch;
      w.kv_heads = 1;
      w.d = s.d;
      add(sink, kv_write_case(count == 4097 || count == 9001 ? quick : full, w), "pages");
    }
}

void rotations(CaseSink& sink) {
  for (const std::int64_t limit : {32768, 65536, 131072})
    for (const std::int64_t rows : around(limit))
      add(sink,
          rope_case(rows == 32769 || rows == 131072 ? quick : full,
                    {3, 64, 8, rows, {rows - 1, 0, std::min<std::int64_t>(32767, rows - 1), rows / 2, rows - 2}}),
          "table");
  for (const std::int64_t limit : {64, 1024, 2048})
    for (const std::int64_t tokens : around(limit)) {
      RopeShape s{2, 32, 32, 601, {}};
      for (std::int64_t t = 0; t < tokens; ++t) s.positions.push_back(t * 7 % 601);
      add(sink, rope_case(tokens == 1025 || tokens == 2048 ? quick : full, s), "tokens");
    }
}

void products(CaseSink& sink) {
  const auto product = [&](Profile profile, quern_dtype b, std::int64_t m, std::int64_t n, std::int64_t k, const char* note) {
    add(sink, product_case(profile, QUERN_F32, b, m, n, k), note);
  };
  std::set<std::int64_t> rows;
  for (const std::int64_t limit : {9, 16, 32, 64, 128, 240, 256, 512, 1024, 2048})
    for (const std::int64_t m : around(limit)) rows.insert(m);
  for (const std::int64_t m : rows) {
    const bool in_quick = m == 241 || m == 257 || m == 1025 || m == 2048;
    for (const quern_dtype b : {QUERN_F16, QUERN_Q4_0}) product(in_quick ? quick : full, b, m, 35, 64, "rows");
    for (const quern_dtype b : {QUERN_F32, QUERN_BF16, QUERN_Q8_0, QUERN_Q5_1}) product(full, b, m, 35, 64, "rows");
    for (const quern_dtype b : {QUERN_Q4_K, QUERN_Q6_K})
      product(in_quick && b == QUERN_Q4_K && m <= 1025 ? quick : full, b, m, 19, 256, "rows");
  }
  std::set<std::int64_t> columns = {2, 3, 5, 6, 65534};
  for (const std::int64_t limit : {8, 16, 64, 128, 256, 512, 1024, 4096, 65536})
    for (const std::int64_t n : around(limit)) columns.insert(n);
  for (const std::int64_t n : columns)
    for (const quern_dtype b : {QUERN_F16, QUERN_Q4_0})
      for (const std::int64_t m : {1, 9, 33})
        product(m == 1 && (n == 1025 || n == 4097 || n == 65537) ? quick : full, b, m, n, 32, "columns");
  constexpr std::int64_t limits_of_k[] = {256, 512, 576, 1024, 2048, 4096, 8192, 16384, 32768};
  for (const std::int64_t limit : limits_of_k)
    for (const std::int64_t k : around(limit))
      for (const quern_dtype b : {QUERN_F32, QUERN_F16, QUERN_BF16})
        for (const std::int64_t m : {1, 7}) {
          const bool in_quick = k == limit + 1 && (limit == 4096 || limit == 8192 || limit == 32768) && (b == QUERN_F16 || m == 1);
          product(in_quick ? quick : full, b, m, 9, k, "sums");
        }
  for (const quern_dtype b : {QUERN_Q4_0, QUERN_Q8_0, QUERN_Q4_1, QUERN_Q4_K, QUERN_Q6_K, QUERN_Q4_Z128, QUERN_F8_128, QUERN_NF4_64}) {
    const std::int64_t unit = unit_of(b).elements;
    std::set<std::int64_t> lengths;  // a block more than one limit may be a block less than the next
    for (const std::int64_t limit : limits_of_k)
      for (const std::int64_t k : around(limit, unit))
        if (k % unit == 0 && k > 0) lengths.insert(k);
    for (const std::int64_t k : lengths)
      for (const std::int64_t m : {1, 7}) product(m == 1 && k == 32768 + unit ? quick : full, b, m, 9, k, "sums");
  }
  for (const quern_dtype b : {QUERN_F32, QUERN_F16, QUERN_Q4_K}) product(b == QUERN_F16 ? quick : full, b, 65, 17, 11008, "sums");
  // Wide, and of many rows: judged sparsely.
  for (const quern_dtype b : {QUERN_F16, QUERN_Q4_K}) {
    product(full, b, 256, 4096, 4096, "wide");
    product(full, b, 65, 8192, 4096, "wide");
  }
  product(full, QUERN_Q4_0, 2048, 4096, 4096, "wide");
  product(full, QUERN_Q4_0, 4200, 33, 8192, "wide");  // activations of 64 MiB in 16 bits, which kernels may round some at a time
  for (const std::int64_t m : {1, 7, 33}) product(full, QUERN_Q4_K, m, 512, 28672, "wide");
  product(quick, QUERN_Q4_0, 130, 1030, 160, "wide");
}

void rows_and_lengths(CaseSink& sink) {
  constexpr quern_dtype f32 = QUERN_F32, f16 = QUERN_F16, none = QUERN_DTYPE_NONE;
  const auto of = [&](std::uint32_t op, const std::vector<quern_dtype>& dtypes, std::int64_t rows, std::int64_t n, bool in_quick,
                      const char* note) {
    Case c = like(sink, op, dtypes);
    std::vector<Dims> inputs;
    for (std::size_t i = 0; i < c.inputs.size(); ++i)
      inputs.push_back(i > 0 && c.inputs[i].kind == QUERN_VALUE_CONSTANT ? Dims{n} : Dims{rows, n});
    if (op == QUERN_OP_SOFTMAX) inputs[0] = {rows, 1, n};
    const Dims y = op == QUERN_OP_ARGMAX ? Dims{rows} : op == QUERN_OP_SUM_ROWS ? Dims{rows, 1} : inputs[0];
    add(sink, resized(std::move(c), in_quick ? quick : full, inputs, y, DataKind::gaussian), note);
  };
  struct Op {
    std::uint32_t op;
    std::vector<quern_dtype> dtypes;
  };
  const Op ops[] = {{QUERN_OP_COPY, {f32, f32}},
                    {QUERN_OP_CAST, {f32, f16}},
                    {QUERN_OP_ADD, {f32, f32, f32}},
                    {QUERN_OP_SILU, {f32, f32}},
                    {QUERN_OP_GLU, {f32, f32, f32}},
                    {QUERN_OP_RMS_NORM, {f32, f32, f32}},
                    {QUERN_OP_SOFTMAX, {f32, none, none, f32}},
                    {QUERN_OP_ARGMAX, {f32, QUERN_I32}}};
  for (const Op& op : ops) {
    for (const std::int64_t limit : {64, 256, 512, 1024, 2048, 4096, 8192, 65536})
      for (const std::int64_t n : around(limit)) of(op.op, op.dtypes, 1, n, n == 4097 || n == 65536, "length");
    for (const std::int64_t rows : {63, 64, 65, 255, 256, 257, 1023, 1024, 1025, 2047, 2048, 2049, 65534, 65535, 65536, 65537})
      of(op.op, op.dtypes, rows, 7, rows == 1025, "rows");
  }
  for (const std::int64_t n : around(1024)) of(QUERN_OP_SUM_ROWS, {f32, f32}, 3, n, false, "length");
  for (const std::int64_t n : around(512)) {
    Case c = like(sink, QUERN_OP_FILL, {f32});
    c.outputs = {output(f32, {n})};
    c.profile = full;
    add(sink, std::move(c), "length");
  }
  for (const std::int64_t n : around(256)) {
    Case c = like(sink, QUERN_OP_SET_ROWS, {f32, QUERN_I32, f32});
    c.inputs[0] = input(f32, {c.inputs[0].dims[0], n});
    c.outputs = {state(f32, {c.outputs[0].dims[0], n})};
    c.profile = full;
    add(sink, std::move(c), "length");
  }
  for (const std::int64_t limit : {1024, 2048})
    for (const std::int64_t rows : around(limit)) {
      Case c = resized(like(sink, QUERN_OP_GET_ROWS, {f16, QUERN_I32, f16}), rows == 1025 || rows == 2048 ? quick : full,
                       {{1009, 9}, {rows}}, {rows, 9}, DataKind::gaussian);
      std::vector<std::int64_t> at;
      for (std::int64_t i = 0; i < rows; ++i) at.push_back(i * 331 % 1009);
      c.inputs[1] = given(input(QUERN_I32, {rows}), "strewn", at);
      add(sink, std::move(c), "rows");
    }
  for (const std::int64_t limit : {16, 32, 64, 128, 256})
    for (const std::int64_t rows : around(limit)) add(sink, sample_case(rows > limit ? quick : full, rows, 257), "rows");
  for (const std::int64_t limit : {64, 1024, 32768})
    for (const std::int64_t n : around(limit)) add(sink, sample_case(n > limit ? quick : full, 3, n), "length");
}

/// Rows of what a batch of many sequences hands to the sampler, and of what experts hand back.
void many_sequences(CaseSink& sink) {
  constexpr std::uint32_t ops[] = {QUERN_OP_PENALIZE,   QUERN_OP_LOGIT_BIAS, QUERN_OP_TOP_K_MASK,
                                   QUERN_OP_TOP_P_MASK, QUERN_OP_MIN_P_MASK, QUERN_OP_MOE_COMBINE};
  for (const std::uint32_t op : ops) {
    const auto serves = [op](const Case& c) {
      if (c.op != op || c.script || c.graph || c.faults != 0 || c.predicated || c.outputs[0].dims[1] < 33 || !c.outputs[0].layout.packed())
        return false;
      return std::ranges::all_of(c.inputs,
                                 [&](const ValueSpec& v) { return !v.absent() && v.layout.packed() && v.dims[0] == c.outputs[0].dims[0]; });
    };
    const auto base = std::ranges::find_if(sink.cases(), serves);
    if (base == sink.cases().end()) throw std::logic_error("no family has a case of " + op_name(op) + " whose values all have rows");
    const Case of_few = *base;
    for (const std::int64_t rows : {32, 33, 64, 65, 256, 257, 1025}) {
      Case c = of_few;
      for (ValueSpec& v : c.inputs) v.dims[0] = rows;
      c.outputs[0].dims[0] = rows;
      c.profile = rows == 65 || rows == 1025 ? quick : full;
      add(sink, std::move(c), "rows");
    }
  }
}

void experts(CaseSink& sink) {
  for (const std::int64_t limit : {32, 64})
    for (const std::int64_t pairs : around(limit))
      for (const quern_dtype b : {QUERN_F16, QUERN_Q4_0})
        add(sink, matmul_id_case(pairs == 65 ? quick : full, b, pairs, 8, 1, 24, 32), "pairs");
  for (const std::int64_t tokens : {33, 256, 1025}) {
    add(sink, moe_router_case(quick, tokens, 8, 2, false), "tokens");
    add(sink, matmul_id_case(quick, QUERN_F16, tokens, 8, 2, 8, 32), "tokens");
  }
}

/// A cache of more than 2^31 elements, of which a few pages at both ends hold a sequence.
void huge_caches(CaseSink& sink) {
  PagedBatch batch{{{100, 1}, {5, 4}, {70, 1}}, 16};
  batch.spare_pages = (std::int64_t{1} << 31) / (16 * 256) + 5;
  AttentionShape s = narrow(batch, 256);
  s.dv = 8;
  s.heads = 4;
  Case c = attention_case(Profile::huge, s);
  c.deadline_seconds = 600;
  add(sink, std::move(c), "elements");
  KvWriteShape w;
  w.batch = batch;
  w.kv_heads = 1;
  w.d = 256;
  c = kv_write_case(Profile::huge, w);
  c.deadline_seconds = 600;
  add(sink, std::move(c), "elements");
}

void generate(CaseSink& sink) {
  attention_keys(sink);
  attention_rows(sink);
  attention_heads(sink);
  pages(sink);
  rotations(sink);
  products(sink);
  rows_and_lengths(sink);
  many_sequences(sink);
  experts(sink);
  huge_caches(sink);
}

}  // namespace

extern const Family limits_family;
const Family limits_family = {"limits", generate};

}  // namespace quern::conformance
