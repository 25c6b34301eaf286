// The rotary embedding: from the file's keys, and as a graph that makes its table.
#include "rope.hpp"

#include "quern/graph/ops.hpp"

#include <cmath>

namespace quern::models {
namespace {

using graph::ops::RopeScaling;

constexpr double most_factor = 1e6;

RopeScaling scaling_of(const Metadata& metadata, bool has_factor) {
  const std::optional<std::string_view> type = metadata.find_string("rope.scaling.type");
  if (!type) return has_factor ? RopeScaling::linear : RopeScaling::none;  // files older than the type key are linear
  if (*type == "none") return RopeScaling::none;
  if (*type == "linear") return RopeScaling::linear;
  if (*type == "yarn") return RopeScaling::yarn;
  throw metadata.bad("rope.scaling.type", "is not one of none, linear, yarn; this version knows no other scaling");
}

/// cos and sin are multiplied by this. A file states the whole factor (yarn_attn_factor), a further factor (attn_factor), or
/// leaves it to YaRN's own 0.1 ln(factor) + 1.
double yarn_mscale(const Metadata& metadata, double factor) {
  const double usual = factor > 1 ? 0.1 * std::log(factor) + 1 : 1;
  const double whole = metadata.find_number("rope.scaling.yarn_attn_factor", 0, most_factor).value_or(usual);
  return whole * metadata.find_number("rope.scaling.attn_factor", 0, most_factor).value_or(1);
}

}  // namespace

void read_rope(const Metadata& metadata, Hyperparameters& model) {
  model.rope_size = metadata.find_count("rope.dimension_count", 2, model.head_size).value_or(model.head_size);
  if (model.rope_size % 2 != 0)
    throw metadata.bad("rope.dimension_count", "is ", model.rope_size, "; pairs are rotated, so it must be even");
  model.rope_base = metadata.find_number("rope.freq_base", 1, 1e15).value_or(10000);

  std::optional<double> factor = metadata.find_number("rope.scaling.factor", 0, most_factor);
  if (!factor) factor = metadata.find_number("rope.scale_linear", 0, most_factor);
  const RopeScaling scaling = scaling_of(metadata, factor.has_value());
  model.rope_scaling = static_cast<std::uint32_t>(scaling);
  if (scaling == RopeScaling::none) return;
  if (!factor) throw metadata.bad("rope.scaling.type", "asks for a scaling but rope.scaling.factor is missing");
  model.rope_factor = *factor;
  if (scaling != RopeScaling::yarn) return;

  constexpr std::uint32_t most_context = 1u << 31;
  model.rope_original_context = metadata.find_count("rope.scaling.original_context_length", 1, most_context).value_or(model.context);
  model.rope_beta_fast = metadata.find_number("rope.scaling.yarn_beta_fast", 0, 1e6).value_or(32);
  model.rope_beta_slow = metadata.find_number("rope.scaling.yarn_beta_slow", 0, 1e6).value_or(1);
  if (model.rope_beta_fast < model.rope_beta_slow)
    throw metadata.bad("rope.scaling.yarn_beta_fast", "is ", model.rope_beta_fast, ", below yarn_beta_slow, which is ",
                       model.rope_beta_slow);
  if (const auto mix = metadata.find_number("rope.scaling.yarn_ext_factor", -1, most_factor); mix.value_or(1) != 1)
    throw metadata.bad("rope.scaling.yarn_ext_factor", "is ", *mix, "; only 1, the whole ramp, is supported");
  model.rope_mscale = yarn_mscale(metadata, model.rope_factor);
}

RopeGraph build_rope(const Hyperparameters& model, std::uint32_t positions) {
  if (positions < 1) throw Error(QUERN_INVALID_ARGUMENT, "a rope table for 0 positions; it needs at least 1");
  RopeGraph rope(graph::Graph("rope"));
  const std::int64_t pairs = model.rope_size / 2;
  if (model.rope_factors) rope.factors = rope.graph.constant("rope_freqs.weight", QUERN_F32, {pairs});
  graph::ops::RopeTableAttributes how;
  how.base = model.rope_base;
  how.scaling = static_cast<RopeScaling>(model.rope_scaling);
  how.factor = model.rope_factor;
  how.original_context = model.rope_original_context;
  how.beta_fast = model.rope_beta_fast;
  how.beta_slow = model.rope_beta_slow;
  how.mscale = model.rope_mscale;
  rope.table = graph::ops::rope_table(rope.graph, {positions, pairs, 2}, graph::no_value, rope.factors, how, {.name = "rope"});
  rope.graph.mark_output(rope.table, "rope");
  return rope;
}

}  // namespace quern::models
