// Layers of each kind that models have (layers/): two of them, a norm and a head, with random weights and tiny widths.
//
// quick: a ranged number of rows that runs with 3, 1 and 40; of one sequence with a block format, of three with f16. full: the other formats, decode,
// a batch and a prompt. Outputs are ranged too, as sessions have them. One sequence of quick has none: there the head is one of all rows.
#include "graphs/layers/layer_step.hpp"

#include <string_view>

namespace quern::conformance {
namespace {

constexpr std::uint32_t conversions = QUERN_CONVERT_INT8 | QUERN_CONVERT_F16 | QUERN_CONVERT_BF16;  // as sessions send them
constexpr int depth = 2;  // layers of a kind differ from one to the next

/// `outputs`: a number for each of `counts`, of rows whose outputs are wanted; empty: the outputs of all rows are made.
void add_case(CaseSink& sink, Profile profile, const LayerFamily& family, quern_dtype format, const Batch& batch,
              const std::vector<std::int64_t>& counts, const std::vector<std::int64_t>& outputs, bool mark_each) {
  LayerStep step(family.tiny, format, batch, counts, conversions);
  if (!outputs.empty()) step.graph.have_outputs(batch.rows, outputs);
  add_layers(step, family, depth);
  step.graph.graph().mark_each = mark_each;
  sink.add_graph("graphs.layers." + std::string(family.name) + "." + dtype_name(format) + "." + batch.name,
                 step.graph.finish(profile, level_inference));
}

/// Rows of the feed-forward longer than kernels of one row read in f32 themselves (most_raw of CUDA), behind a gate by GELU and beside adapters.
void add_wide_rows(CaseSink& sink) {
  for (const LayerFamily* const family : layer_families()) {
    if (std::string_view(family->name) != "gemma3" && std::string_view(family->name) != "lora") continue;
    LayerFamily wide = *family;
    wide.tiny.ffn = 8448;
    add_case(sink, Profile::full, wide, wide.block, {"wide_rows", 8, 8, 9}, {1}, {1}, false);
  }
}

void generate(CaseSink& sink) {
  for (const LayerFamily* const family : layer_families()) {
    const quern_dtype block = family->block;
    add_case(sink, Profile::quick, *family, block, {"one_sequence", 40, 1, 9}, {3, 1, 40}, {}, false);
    add_case(sink, Profile::quick, *family, QUERN_F16, {"three_sequences", 40, 3, 9}, {3, 1, 40}, {3, 1, 3}, false);
    for (const quern_dtype format : {block, QUERN_Q8_0, QUERN_Q4_0, QUERN_F16, QUERN_BF16, QUERN_F32}) {
      if (format == QUERN_Q8_0 && block == QUERN_Q8_0) continue;
      add_case(sink, Profile::full, *family, format, {"decode", 1, 1, 20}, {1}, {1}, true);
      if (format != block && format != QUERN_Q8_0 && format != QUERN_F16) continue;  // one of each kind of kernel
      add_case(sink, Profile::full, *family, format, {"batch", 17, 17, 5}, {17, 8, 2}, {17, 8, 2}, format == block);
      add_case(sink, Profile::full, *family, format, {"prompt", 70, 1, 30}, {70, 33, 64}, {1, 0, 1}, false);
    }
  }
  add_wide_rows(sink);
}

}  // namespace

extern const Family layers_family;
const Family layers_family = {"layers", generate};

}  // namespace quern::conformance
