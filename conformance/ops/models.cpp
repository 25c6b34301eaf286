// Cases that follow from the models of models.def: what their attention, rotation, cache, products, tables and experts are shaped like.
//
// A case has the dimension that it is about in its true size and the others small. So quick has every model: all heads of a decode step over few
// positions, every k of a product with a few rows of weights, every n with a short k. Two models of one shape share a case, named after the first. Full
// has prompts and batches of them, other formats, and weights of true width and height, judged sparsely.
#include "ops/given.hpp"
#include "ops/model_table.hpp"
#include "ops/resized.hpp"
#include "ops/shaped_cases.hpp"

#include <algorithm>
#include <set>
#include <string_view>

namespace quern::conformance {
namespace {

/// Whether a shape comes for the first time.
class Shapes {
 public:
  bool first(std::vector<std::int64_t> shape) { return seen_.insert(std::move(shape)).second; }

 private:
  std::set<std::vector<std::int64_t>> seen_;
};

void add_named(CaseSink& sink, Case c, const Model& m) {
  c.note += (c.note.empty() ? "" : "_") + std::string(m.name);
  sink.add(std::move(c));
}

AttentionShape attention_of(const Model& m, PagedBatch batch, quern_dtype cache = QUERN_F16) {
  AttentionShape s;
  s.batch = std::move(batch);
  s.heads = m.heads;
  s.kv_heads = m.kv_heads;
  s.d = m.key;
  s.dv = m.value;
  s.k = s.v = cache;
  return s;
}

void attention(CaseSink& sink) {
  const PagedBatch decode{{{19, 1}}, 16}, prompt{{{3, 6}}, 16}, batch{{{0, 3}, {70, 1}, {0, 1}, {20, 5}}, 16};
  Shapes shapes, ratios;
  for (const Model& m : model_table) {
    if (!shapes.first({m.heads, m.kv_heads, m.key, m.value})) continue;
    add_named(sink, attention_case(Profile::quick, attention_of(m, decode)), m);
    const bool small = m.heads * m.key <= 8192;
    add_named(
        sink,
        attention_case(small && ratios.first({m.heads / m.kv_heads, m.key}) ? Profile::quick : Profile::full, attention_of(m, prompt)), m);
    add_named(sink, attention_case(Profile::full, attention_of(m, batch)), m);
    if (m.key % 32 == 0) add_named(sink, attention_case(Profile::full, attention_of(m, batch, QUERN_Q8_0)), m);
  }
}

/// What some models' attention has besides: windows, caps, sinks, ALiBi, with their heads.
void attention_rules(CaseSink& sink) {
  const auto of = [](const char* name) {
    return *std::ranges::find_if(model_table, [&](const Model& m) { return std::string_view(m.name) == name; });
  };
  const auto add = [&](const char* name, const auto& rule) {
    for (const PagedBatch& batch : {PagedBatch{{{33, 1}}, 16}, PagedBatch{{{0, 3}, {70, 1}, {9, 2}}, 16}}) {
      const Model m = of(name);
      AttentionShape s = attention_of(m, batch);
      rule(s);
      add_named(sink, attention_case(batch.sequences.size() == 1 ? Profile::quick : Profile::full, s), m);
    }
  };
  add("bloom_176b", [](AttentionShape& s) { s.mask = AttentionMask::additive, s.max_bias = 8; });
  add("falcon_7b", [](AttentionShape& s) { s.mask = AttentionMask::additive, s.max_bias = 8; });
  add("gpt_oss_20b", [](AttentionShape& s) { s.sinks = true, s.window = 24; });
  add("gemma2_9b", [](AttentionShape& s) { s.softcap = 50, s.window = 24; });
  add("gemma3_27b", [](AttentionShape& s) { s.window = 17; });
  add("gemma4_31b_full_layers", [](AttentionShape& s) { s.window = 17; });
  add("deepseek_v3_671b_absorbed", [](AttentionShape& s) { s.window = 17; });
  add("command_r_plus_104b", [](AttentionShape& s) { s.sinks = true; });
}

/// Rows as wide as a model, its feed-forward part and its vocabulary, in what works by rows.
void rows(CaseSink& sink) {
  constexpr quern_dtype f32 = QUERN_F32, none = QUERN_DTYPE_NONE;
  Shapes widths, parts, vocabularies;
  for (const Model& m : model_table) {
    if (widths.first({m.width}))
      add_named(sink,
                resized(like(sink, QUERN_OP_RMS_NORM, {f32, f32, f32}), Profile::quick, {{3, m.width}, {m.width}}, {3, m.width},
                        DataKind::gaussian),
                m);
    if (parts.first({m.ffn}))
      add_named(
          sink,
          resized(like(sink, QUERN_OP_GLU, {f32, f32, f32}), Profile::quick, {{3, m.ffn}, {3, m.ffn}}, {3, m.ffn}, DataKind::gaussian), m);
    if (!vocabularies.first({m.vocab})) continue;
    const Profile profile = m.vocab == 262144 ? Profile::quick : Profile::full;
    Case best = resized(like(sink, QUERN_OP_ARGMAX, {f32, QUERN_I32}), profile, {{3, m.vocab}}, {3}, DataKind::gaussian);
    best.inputs[0] = filled(input(f32, {3, m.vocab}), "best_at_end", [](const Tensor& t, const CounterRandom& random) {
      for (std::int64_t i = 0; i < t.count(); ++i) t.set(i, random.gaussian(static_cast<std::uint64_t>(i)));
      t.set(t.dim_from_end(0) - 1, 9);  // of the first row, the last; of the second, one in the middle
      t.set(t.dim_from_end(0) * 3 / 2, 9);
    });
    add_named(sink, std::move(best), m);
    add_named(sink,
              resized(like(sink, QUERN_OP_SOFTMAX, {f32, none, none, f32}), Profile::full, {{2, 1, m.vocab}, {}, {}}, {2, 1, m.vocab},
                      DataKind::gaussian),
              m);
    add_named(sink, sample_case(profile, 2, m.vocab), m);
  }
}

void rotations(CaseSink& sink) {
  Shapes shapes;
  for (const Model& m : model_table) {
    const bool latent = m.key != m.value;  // its heads turn in a part that is a tensor of its own
    RopeShape s{m.heads, latent ? m.rope : m.key, m.rope, 33, {32, 0, 7}, 1, QUERN_F32};
    if (m.rope == 0 || !shapes.first({s.heads, s.size, s.rotated})) continue;
    add_named(sink, rope_case(Profile::quick, s), m);
    s.mode = 0;
    s.dtype = QUERN_F16;
    add_named(sink, rope_case(Profile::full, s), m);
  }
}

void caches(CaseSink& sink) {
  Shapes shapes;
  for (const Model& m : model_table) {
    if (!shapes.first({m.kv_heads, m.key})) continue;
    KvWriteShape s;
    s.batch = {{{20, 1}, {0, 3}}, 16};
    s.kv_heads = m.kv_heads;
    s.d = m.key;
    add_named(sink, kv_write_case(Profile::quick, s), m);
    s.cache = QUERN_Q8_0;
    if (m.key % 32 == 0) add_named(sink, kv_write_case(Profile::full, s), m);
  }
}

/// A format that rows of k fit in; another one for the next k.
quern_dtype format_for(std::int64_t k, std::size_t turn) {
  constexpr quern_dtype any[] = {QUERN_F16, QUERN_BF16, QUERN_F32}, of_32[] = {QUERN_Q4_0, QUERN_Q8_0, QUERN_F16, QUERN_Q5_1},
                        of_256[] = {QUERN_Q4_K, QUERN_Q8_0, QUERN_Q6_K, QUERN_F16, QUERN_Q5_K};
  return k % 256 == 0 ? of_256[turn % std::size(of_256)] : k % 32 == 0 ? of_32[turn % std::size(of_32)] : any[turn % std::size(any)];
}

void products(CaseSink& sink) {
  Shapes lengths, heights, weights;
  std::size_t turn = 0;
  for (const Model& m : model_table) {
    for (const std::int64_t k : {m.width, m.ffn, m.heads * m.value}) {
      if (!lengths.first({k})) continue;
      const quern_dtype b = format_for(k, turn++);
      // Devices make a kernel for each k of one row, which costs more than to run it: quick has a quarter of them.
      add_named(sink, product_case(turn % 4 == 0 ? Profile::quick : Profile::full, QUERN_F32, b, 1, 17, k), m);
      add_named(sink, product_case(Profile::quick, QUERN_F32, b, 7, 9, k), m);
      add_named(sink, product_case(Profile::full, QUERN_F32, format_for(k, turn), 65, 33, k), m);
    }
    for (const std::int64_t n : {m.ffn, m.vocab, m.heads * m.key}) {
      if (!heights.first({n})) continue;
      add_named(sink, product_case(n <= 20480 ? Profile::quick : Profile::full, QUERN_F32, format_for(32, turn++), 1, n, 32), m);
      add_named(sink, product_case(Profile::full, QUERN_F32, format_for(64, turn), n <= 65536 ? 33 : 3, n, 64), m);
    }
    // True weights, judged sparsely, up to what a host holds several of.
    for (const auto& [n, k] : {std::pair{m.ffn, m.width}, std::pair{m.width, m.heads * m.value}})
      if (n * k <= std::int64_t{64} << 20 && n * k > 16 << 20 && weights.first({n, k}))
        add_named(sink, product_case(Profile::full, QUERN_F32, format_for(k, turn++), 1, n, k), m);
  }
}

void experts(CaseSink& sink) {
  Shapes shapes;
  const auto add = [&](const Model& m) {
    if (m.experts == 0 || !shapes.first({m.experts, m.used})) return;
    add_named(sink, moe_router_case(Profile::quick, 3, m.experts, m.used, m.experts == 256 || m.experts == 384), m);
    add_named(sink, moe_router_case(Profile::full, 65, m.experts, m.used, false), m);
    add_named(sink, matmul_id_case(Profile::quick, QUERN_F16, 3, m.experts, m.used, 8, 32), m);
    add_named(sink, matmul_id_case(Profile::quick, QUERN_Q8_0, 1, m.experts, m.used, 8, 32), m);
    add_named(sink, matmul_id_case(Profile::full, QUERN_Q4_0, 40, m.experts, m.used, 16, 64), m);
  };
  for (const Model& m : model_table) add(m);
  Model ten = *std::ranges::find_if(model_table, [](const Model& m) { return m.experts == 256; });
  ten.name = "of_256_ten_used";
  ten.used = 10;
  add(ten);
}

void tables(CaseSink& sink) {
  Shapes shapes;
  for (const Model& m : model_table) {
    if (!shapes.first({m.vocab})) continue;
    const std::vector<std::int64_t> at = {m.vocab - 1, 0, m.vocab / 2, std::min<std::int64_t>(32767, m.vocab - 3), m.vocab - 2};
    Case c = resized(like(sink, QUERN_OP_GET_ROWS, {QUERN_F16, QUERN_I32, QUERN_F16}), m.vocab <= 65536 ? Profile::quick : Profile::full,
                     {{m.vocab, 16}, {5}}, {5, 16}, DataKind::gaussian);
    c.inputs[1] = given(input(QUERN_I32, {5}), "both_ends", at);
    add_named(sink, std::move(c), m);
  }
}

void generate(CaseSink& sink) {
  attention(sink);
  attention_rules(sink);
  rows(sink);
  rotations(sink);
  caches(sink);
  products(sink);
  experts(sink);
  tables(sink);
}

}  // namespace

extern const Family models_family;
const Family models_family = {"models", generate};

}  // namespace quern::conformance
