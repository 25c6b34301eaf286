// Decoder graphs: a two-layer block, the decode, batch and prefill steps of real models with their true widths, and steps of many sequences.
//
// A step has what a session's has: embedding, layers, the rows that are wanted, norm, head, the best token. Two layers: what the third
// would show, the second does. Rows with logits: all of a decode or batch, the last of a prefill. Steps of many sequences have a number of them of
// its own, by which plugins choose kernels: few are a prompt's.
#include "graphs/decoder_parts.hpp"

namespace quern::conformance {
namespace {

constexpr std::uint32_t conversions = QUERN_CONVERT_INT8 | QUERN_CONVERT_F16 | QUERN_CONVERT_BF16;  // as sessions send them

constexpr ModelShape block_256 = {"h256", 256, 512, 4, 2, 64, 512, 2, false, 0, 1e-5, false};
// The true widths of SmolLM2 135M, with a head that costs little.
constexpr ModelShape narrow_head = {"smollm2_width", 576, 1536, 9, 3, 64, 512, 2, false, 0, 1e-5, true};
// Rows of the true width of LLaMA 7B's feed-forward, longer than kernels that read f32 themselves take, in a model that costs little.
constexpr ModelShape wide_ffn = {"llama_7b_ffn", 256, 11008, 4, 2, 64, 512, 2, false, 0, 1e-5, false};
constexpr ModelShape shapes[] = {
    {"smollm2_135m", 576, 1536, 9, 3, 64, 49152, 30, false, 0, 1e-5, true},
    {"tinyllama_1b", 2048, 5632, 32, 4, 64, 32000, 22, false, 0, 1e-5, false},
    {"llama_7b", 4096, 11008, 32, 32, 128, 32000, 32, false, 0, 1e-5, false},
    {"mistral_7b", 4096, 14336, 32, 8, 128, 32000, 32, false, 0, 1e-5, false},
    {"qwen25_3b", 2048, 11008, 16, 2, 128, 151936, 36, true, 1, 1e-6, true},
};

/// Q4_K_M as converters write it: v and down in Q6_K; rows of 576 are no multiple of 256 and fall back to Q5_0 and Q8_0.
WeightFormats q4_k_m(const ModelShape& m) {
  const bool wide = m.hidden % 256 == 0;
  const quern_dtype k4 = wide ? QUERN_Q4_K : QUERN_Q5_0, k6 = wide ? QUERN_Q6_K : QUERN_Q8_0;
  const quern_dtype head = wide ? QUERN_Q6_K : QUERN_Q8_0;
  return {"q4_k_m", k4, k6, k4, k4, QUERN_Q6_K, m.tied ? head : k4, head};
}

/// Two formats for products of one operand: as Q5_K_M has them, and as other files mix them.
const WeightFormats q5_k_m{"q5_k_m", QUERN_Q5_K, QUERN_Q6_K, QUERN_Q5_K, QUERN_Q5_K, QUERN_Q6_K, QUERN_Q5_K, QUERN_Q6_K},
    two_a_product{"q4_0_and_q8_0", QUERN_Q4_0, QUERN_Q8_0, QUERN_Q4_1, QUERN_Q4_0, QUERN_Q5_1, QUERN_Q4_0, QUERN_Q8_0};

/// Layers of blocks, and a table and a head of 16-bit floats, as directories of quantised models have them.
WeightFormats of_half_head(quern_dtype blocks, quern_dtype half) {
  WeightFormats formats = all_of(blocks);
  formats.name += "_and_" + dtype_name(half);
  formats.table = formats.head = half;
  return formats;
}

constexpr Batch batches[] = {{"decode", 1, 1, 20}, {"batch8", 8, 8, 9}, {"prefill", 17, 1, 5}};

/// Rows of a block's graph, and with how many it runs.
struct BlockRows {
  Batch batch{"rows", 33, 3, 7};
  std::vector<std::int64_t> counts = {17, 1, 33, 0};
  bool exact_attention = false;  // in fast numerics too, beside products that may convert
  std::int64_t heads = 4, kv_heads = 2, head = 64;
  std::int64_t turned = 0;  // elements of a head that rope turns; 0: all
  bool one_output = false;  // a product of one row lies behind, as a prompt's logits do
};

void add_block(CaseSink& sink, Profile profile, const WeightFormats& formats, quern_dtype cache, quern_dtype activations, bool bias,
               int window, std::string note, const BlockRows& of = {}) {
  ModelShape shape = block_256;
  shape.bias = bias;
  shape.rope_mode = bias ? 1 : 0;
  shape.heads = of.heads, shape.kv_heads = of.kv_heads, shape.head = of.head;
  const Batch& batch = of.batch;
  GraphBuilder graph(batch.rows, of.counts);
  graph.graph().mark_each = batch.rows == 1;  // one row has all of a block's values; each of many rows takes minutes on a slow device
  graph.allow(conversions);
  const RowValues rows = add_row_values(graph, batch, of.turned != 0 ? of.turned : shape.head, 10000);
  const Layer layer{shape, formats, batch, rows, cache, window, activations};
  int x = graph.input("x", input(activations, {rows_dim, shape.hidden}));
  for (const char* prefix : {"blk.0", "blk.1"}) x = add_feed_forward(graph, layer, prefix, add_attention(graph, layer, prefix, x));
  graph.output(x);
  if (of.one_output) {
    const int row =
        graph.input("output_row", filled(input(QUERN_I32, {1}), "row", [](const Tensor& t, const CounterRandom&) { t.set(0, 0); }));
    const int last = graph.node(QUERN_OP_GET_ROWS, "output_rows", {x, row}, {1, shape.hidden});
    const int head = graph.weight("output.weight", formats.head, {shape.vocab, shape.hidden});
    graph.output(graph.node(QUERN_OP_MATMUL, "output", {last, head}, {1, shape.vocab}));
  }
  if (of.exact_attention)
    for (GraphNode& node : graph.graph().nodes)
      if (node.op == QUERN_OP_ATTENTION) node.fast_conversions = QUERN_CONVERT_NONE;
  sink.add_graph("graphs.block." + formats.name + ".cache_" + dtype_name(cache) + "." + dtype_name(activations) + note,
                 graph.finish(profile, level_inference));
}

void blocks(CaseSink& sink) {
  const WeightFormats mix = q4_k_m(block_256);
  add_block(sink, Profile::quick, mix, QUERN_F16, QUERN_F32, false, 0, "");
  add_block(sink, Profile::quick, all_of(QUERN_Q8_0), QUERN_Q8_0, QUERN_F32, true, 5, ".bias_window");
  add_block(sink, Profile::quick, all_of(QUERN_Q4_0), QUERN_F32, QUERN_F32, false, 0, "");
  add_block(sink, Profile::quick, all_of(QUERN_F16), QUERN_F16, QUERN_F32, true, 0, ".bias");
  add_block(sink, Profile::quick, all_of(QUERN_F16), QUERN_F16, QUERN_F16, false, 0, "");
  // Prompts: of one sequence, longer than any tile of rows or keys, and of three whose rows alternate.
  const BlockRows prompt{{"rows", 150, 1, 70, 64}, {150, 70}}, alternating{{"rows", 99, 3, 7}, {99}};
  add_block(sink, Profile::quick, mix, QUERN_F16, QUERN_F32, false, 0, ".prompt", prompt);
  add_block(sink, Profile::quick, all_of(QUERN_F16), QUERN_F16, QUERN_F32, true, 0, ".bias.prompt", prompt);
  add_block(sink, Profile::quick, all_of(QUERN_F16), QUERN_BF16, QUERN_F32, false, 40, ".window.prompt", prompt);
  add_block(sink, Profile::quick, all_of(QUERN_F16), QUERN_F16, QUERN_F32, false, 0, ".alternating", alternating);
  // Few rows behind many keys, which a GPU's blocks share: of one sequence, and of three whose rows alternate.
  const auto few = [](std::int64_t sequences, std::int64_t heads, std::int64_t kv_heads, std::int64_t head) {
    return BlockRows{{"rows", 40, sequences, 600}, {40, 2}, false, heads, kv_heads, head, 0, true};
  };
  add_block(sink, Profile::quick, mix, QUERN_F16, QUERN_F32, false, 0, ".few_rows", few(1, 4, 2, 64));
  add_block(sink, Profile::full, mix, QUERN_BF16, QUERN_F32, false, 0, ".few_rows.128", few(1, 6, 1, 128));
  add_block(sink, Profile::full, all_of(QUERN_F16), QUERN_F16, QUERN_F32, false, 300, ".few_rows.window", few(1, 4, 2, 64));
  add_block(sink, Profile::full, all_of(QUERN_Q8_0), QUERN_F16, QUERN_F32, false, 0, ".few_rows.alternating", few(3, 4, 2, 64));
  // One row behind many keys, whose parts are joined, also of a window: by one, three, seven, eight and twelve query heads a key head.
  const auto one = [](std::int64_t heads, std::int64_t kv_heads, std::int64_t head) {
    return BlockRows{{"rows", 2, 1, 600}, {1}, false, heads, kv_heads, head};
  };
  const WeightFormats q8 = all_of(QUERN_Q8_0);
  add_block(sink, Profile::quick, q8, QUERN_F16, QUERN_F32, false, 0, ".one_row.6x2x64", one(6, 2, 64));
  add_block(sink, Profile::full, q8, QUERN_BF16, QUERN_F32, false, 0, ".one_row.3x3x64", one(3, 3, 64));
  add_block(sink, Profile::full, q8, QUERN_F16, QUERN_F32, true, 0, ".one_row.7x1x128", one(7, 1, 128));
  add_block(sink, Profile::full, q8, QUERN_F32, QUERN_F32, false, 0, ".one_row.8x1x96", one(8, 1, 96));
  add_block(sink, Profile::full, q8, QUERN_F16, QUERN_F32, false, 300, ".one_row.window.12x1x64", one(12, 1, 64));
  add_block(sink, Profile::full, mix, QUERN_F16, QUERN_F32, false, 0, ".one_row.4x2x256", one(4, 2, 256));
  for (const std::int64_t head : {80, 96, 256})  // no power of two, or none of the sizes that most have
    add_block(sink, head == 96 ? Profile::quick : Profile::full, all_of(QUERN_Q8_0), QUERN_F16, QUERN_F32, true, 0,
              ".prompt." + std::to_string(head), {{"rows", 150, 1, 70, 64}, {150, 20}, false, 4, 2, head, 0, true});
  add_block(sink, Profile::full, all_of(QUERN_F16), QUERN_F16, QUERN_F32, false, 0, ".exact_attention",
            {{"rows", 70, 1, 30}, {70, 9, 1}, true});
  // Batches that decode, of enough rows and heads that a large card has one of its blocks for each: by one query head a key head and by four.
  for (const quern_dtype cache : {QUERN_F16, QUERN_BF16})
    for (const std::int64_t head : {64, 128})
      for (const std::int64_t heads : {8, 32}) {
        const BlockRows batch{{"rows", 32, 3, 7}, {32, 12}, false, heads, 8, head};
        const Profile profile = cache == QUERN_F16 && head == 64 && heads == 8 ? Profile::quick : Profile::full;
        add_block(sink, profile, mix, cache, QUERN_F32, cache == QUERN_BF16, 0,
                  ".batch_" + std::to_string(heads) + "x8x" + std::to_string(head), batch);
      }
  // Whose sequences have more keys than a block of that card holds at once.
  add_block(sink, Profile::full, all_of(QUERN_F16), QUERN_F16, QUERN_F32, false, 0, ".batch_8x8x64.long",
            {{"rows", 32, 3, 450}, {32}, false, 8, 8, 64});
  // Rows between those that products of tokens and of prompts are made for.
  add_block(sink, Profile::quick, all_of(QUERN_F16), QUERN_F16, QUERN_F32, false, 0, ".twelve_rows", {{"rows", 12, 3, 7}, {12, 9}});
  add_block(sink, Profile::full, mix, QUERN_F16, QUERN_F32, false, 0, ".sixty_rows", {{"rows", 64, 3, 7}, {64, 50}});
  // Heads that rope turns a part of, in pairs that are no whole fours, as Pythia 2.8B's.
  add_block(sink, Profile::quick, mix, QUERN_F16, QUERN_F32, true, 0, ".partial_rope",
            {{"rows", 12, 3, 7}, {12, 3, 1}, false, 4, 2, 64, 20});
  for (const quern_dtype dtype : block_dtypes)
    add_block(sink, Profile::full, all_of(dtype), QUERN_BF16, QUERN_F32, true, 3, ".bias_window");
  for (const quern_dtype dtype : {QUERN_F32, QUERN_BF16}) add_block(sink, Profile::full, all_of(dtype), QUERN_F16, dtype, false, 0, "");
  // Batches that decode, in each format; and products of one operand in two formats.
  const BlockRows batch{{"rows", 32, 32, 7}, {32, 12, 2, 1}};
  for (const quern_dtype dtype : block_dtypes)
    add_block(sink, Profile::full, all_of(dtype), QUERN_F16, QUERN_F32, false, 0, ".batch", batch);
  add_block(sink, Profile::quick, q5_k_m, QUERN_F16, QUERN_F32, false, 0, "");
  for (const WeightFormats& formats : {q5_k_m, two_a_product})
    add_block(sink, Profile::full, formats, QUERN_F16, QUERN_F32, false, 0, ".batch", batch);
}

/// A graph of ranged rows: with how many, and with how many outputs, it runs. Empty: both are fixed, and each row is one of the batch.
struct StepRuns {
  std::vector<std::int64_t> rows, outputs;
  bool early_outputs = false;  // the last layer computes the rows of the outputs alone, as sessions on CPUs have it
};

void add_step(CaseSink& sink, Profile profile, const ModelShape& m, const WeightFormats& formats, const Batch& batch, int layers,
              const StepRuns& runs = {}) {
  GraphBuilder graph = runs.rows.empty() ? GraphBuilder(batch.rows) : GraphBuilder(batch.rows, runs.rows);
  graph.have_outputs(batch.sequences == 1 ? 1 : batch.rows, runs.outputs);
  graph.allow(conversions);
  // What each value is for 1 row, it is for several; and a large vocabulary changes none of them.
  graph.graph().mark_each = profile == Profile::quick && batch.rows == 1 && m.vocab < 32768;
  const RowValues rows = add_row_values(graph, batch, m.head, m.rope_mode == 1 ? 1e6 : 1e4);
  const int token = add_tokens(graph, m.vocab), output_row = add_output_rows(graph);
  const int table = graph.weight("token_embd.weight", formats.table, {m.vocab, m.hidden});
  int x = graph.node(QUERN_OP_GET_ROWS, "token_embd", {table, token}, {rows_dim, m.hidden});
  Layer layer{m, formats, batch, rows};
  for (int l = 0; l < layers; ++l) {
    const std::string prefix = "blk." + std::to_string(l);
    if (runs.early_outputs && l + 1 == layers) layer.early_outputs = output_row;
    x = add_feed_forward(graph, layer, prefix, add_attention(graph, layer, prefix, x));
  }
  if (!runs.early_outputs) x = graph.node(QUERN_OP_GET_ROWS, "output_rows", {x, output_row}, {outputs_dim, m.hidden});
  add_head(graph, m, formats, x, m.tied ? table : no_value);
  Case c = graph.finish(profile, level_inference);
  c.deadline_seconds = layers <= 2 ? 120 : 600;
  sink.add_graph("graphs." + std::string(m.name) + "." + batch.name + "." + formats.name + (layers <= 2 ? "" : ".all_layers") +
                     (runs.early_outputs ? ".early_outputs" : ""),
                 std::move(c));
}

void steps(CaseSink& sink) {
  for (const Batch& batch : batches)
    for (const WeightFormats& formats : {q4_k_m(block_256), all_of(QUERN_Q8_0), all_of(QUERN_F16)})
      add_step(sink, Profile::quick, block_256, formats, batch, 2);
  // A session's decode step: one row of a graph that may have more, which is what GPUs fuse and capture. The steps below have their rows fixed.
  constexpr Batch one_of_eight{"one_row", 8, 8, 20};
  for (const WeightFormats& formats : {q4_k_m(narrow_head), all_of(QUERN_Q8_0), all_of(QUERN_Q4_1), all_of(QUERN_F16)})
    add_step(sink, Profile::quick, narrow_head, formats, one_of_eight, 2, {{1}, {1}});
  add_step(sink, Profile::quick, wide_ffn, q4_k_m(wide_ffn), one_of_eight, 2, {{1}, {1}});
  for (const quern_dtype dtype : {QUERN_Q8_0, QUERN_F16})
    add_step(sink, Profile::full, wide_ffn, all_of(dtype), one_of_eight, 2, {{1}, {1}});
  for (const ModelShape& m : shapes)
    for (const WeightFormats& formats : {q4_k_m(m), all_of(QUERN_Q8_0), all_of(QUERN_F16)})
      for (const Batch& batch : batches) {
        // Of the wide models the other formats decode: tinyllama has their batches, and weights take most of a case's time to make.
        const bool costly = m.hidden > 576 && batch.rows > 1 && formats.name != "q4_k_m" && std::string_view(m.name) != "tinyllama_1b";
        add_step(sink, m.hidden == 576 ? Profile::quick : costly ? Profile::huge : Profile::full, m, formats, batch, 2);
        add_step(sink, Profile::huge, m, formats, batch, m.layers);
      }
}

/// Steps of many sequences, around the 32, 48 and 64 for which CUDA has kernels of their own. With an output of each row they decode; a plugin takes
/// few outputs for the sign of prompts. The widths are the least that these kernels take.
void sequences(CaseSink& sink) {
  constexpr ModelShape least{"sequences", 256, 256, 4, 2, 64, 64, 2, false, 0, 1e-5, false};
  constexpr Batch few{"rows24", 24, 24, 5}, full{"rows64", 64, 64, 5}, some{"rows72", 72, 72, 5}, edges{"edges", 72, 72, 5},
      many{"rows140", 140, 140, 5}, wanted_twice{"wanted_twice", 72, 72, 5};
  const WeightFormats mix = q4_k_m(least);
  const StepRuns around{{48, 64, 65, 33, 64, 33}, {48, 64, 65, 10, 16, 0}};
  add_step(sink, Profile::quick, least, mix, some, 2, around);
  add_step(sink, Profile::quick, least, mix, few, 2, {{17, 16, 15, 9, 8, 7, 3}, {17, 16, 15, 9, 8, 7, 0}});
  add_step(sink, Profile::quick, least, mix, few, 2, {{17, 17, 9, 3}, {17, 3, 1, 0}, true});
  for (const quern_dtype dtype : block_dtypes) add_step(sink, Profile::full, least, all_of(dtype), full, 1, {{48, 64}, {48, 17}});
  for (const WeightFormats& formats :
       {q5_k_m, two_a_product, of_half_head(QUERN_Q4_Z128, QUERN_F16), of_half_head(QUERN_F8_128, QUERN_BF16)})
    add_step(sink, Profile::full, least, formats, some, 2, around);
  for (const quern_dtype dtype : {QUERN_F16, QUERN_BF16}) {
    add_step(sink, Profile::full, least, all_of(dtype), some, 2, around);
    add_step(sink, Profile::full, least, all_of(dtype), some, 2, {around.rows, around.outputs, true});
  }
  for (const WeightFormats& formats : {mix, all_of(QUERN_Q8_0)}) {
    add_step(sink, Profile::full, least, formats, edges, 2, {{47, 49, 63, 31, 32, 33, 48, 48}, {47, 49, 63, 31, 32, 33, 13, 12}});
    add_step(sink, Profile::full, least, formats, many, 2, {{128, 129, 140, 140}, {128, 129, 36, 35}});
    add_step(sink, Profile::full, least, formats, wanted_twice, 2, {{64, 33, 64}, {70, 33, 72}});
  }
}

void generate(CaseSink& sink) {
  blocks(sink);
  steps(sink);
  sequences(sink);
}

}  // namespace

extern const Family decoders_family;
const Family decoders_family = {"decoders", generate};

}  // namespace quern::conformance
