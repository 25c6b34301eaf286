// The schedule that fuses (schedule.hpp): the steps of what fusion.hpp finds.
//
//   - a product of f32 rows and quantised weights takes int8 activations (quantise.comp, gemv.comp)
//   - an RMS norm or a SwiGLU that only such products read is not computed: the kernel that quantises computes it on its way
//   - queries and keys are rotated, and keys and values written to their pages, by one kernel
//   - in the tier of matrices many rows become f16 instead (rows_f16.comp, gemm.comp), and products of weights of f16 are fused too
//   - a sum of a product and a value that is there already is the product's last step
//   - penalties, biases and the draw from their logits are one step of two launches (ops/sampling.hpp)
//
// Steps of one row do more; which launches a step makes is known when its extents are. The product makes the int8 activations itself
// (gemv_one.comp). Gate and up are one product that ends with SwiGLU. Attention rotates and writes the caches, also where queries, keys and
// values are columns of one product. The steps before then launch nothing.
#include "ops/attention.hpp"
#include "ops/sampling.hpp"
#include "fusion.hpp"
#include "gemm.hpp"
#include "schedule.hpp"
#include "weights.hpp"
#include "shaders/modes.h"

#include <algorithm>
#include <map>

namespace quern::vulkan {
namespace {

constexpr std::uint32_t none = QUERN_NONE;
/// Rows that a product's kernel takes at a time. A software device compiles what is unrolled longer than it gains.
std::int32_t most_tile(const CardFacts& card) { return card.software() ? 8 : 16; }
class Fuser {
 public:
  Fuser(const sdk::ResolvedGraph& graph, const CardFacts& card, Tier tier)
      : graph_(graph), card_(card), matrices_(tier >= Tier::matrices), fusion_(graph, card, tier) {}

  Schedule run() {
    std::vector<std::uint32_t> left;
    for (std::uint32_t n = 0; n < graph_.nodes.size(); ++n) {
      if (fusion_.elsewhere(n)) continue;
      if (fusion_.quantises(n)) emit_quantised(n);
      else if (const Rotation* rotation = fusion_.rotation_at(n)) emit_rotation(*rotation);
      else if (fusion_.is_product(n)) emit_product(n);
      else if (fusion_.is_attention(n)) emit_attention(n);
      else if (const Draw* draw = fusion_.draw_at(n)) emit_draw(n, *draw);
      else {
        schedule_.add({n}, graph_.nodes[n].offer->kernel);
        left.push_back(n);
      }
    }
    for (const std::uint32_t n : left) schedule_.alone.push_back(fusion_.why_left(n));
    return std::move(schedule_);
  }

 private:
  const Tensor& tensor(std::uint32_t v) const { return graph_.values[v].tensor; }
  std::uint32_t root(std::uint32_t v) const { return graph_.values[v].root; }
  static void add_present(std::vector<std::uint32_t>& to, std::initializer_list<std::uint32_t> values) {
    for (const std::uint32_t v : values)
      if (v != none) to.push_back(v);
  }

  /// What int8 activations are made of.
  struct Source {
    std::uint32_t slot = 0;
    std::int32_t mode = source_plain;
    std::uint32_t x = none, other = none;
    std::uint64_t x_from = 0, other_from = 0;  // bytes into each row
    float epsilon = 0, offset = 0;
    std::int64_t f16_from = 0;  // rows from which on it is f16 for cooperative matrices; 0: never
    bool eights = false;        // from there up to most_eights_rows by eights
    bool direct = false;        // a product of one row makes them itself
    bool paired = false;        // of one row, x is silu(x) * other already
  };

  bool all_products(std::uint32_t value_root, const std::function<bool(const sdk::ResolvedNode&)>& are) const {
    return std::ranges::all_of(fusion_.products_of(value_root), [&](std::uint32_t n) { return are(graph_.nodes[n]); });
  }

  std::uint32_t add_extra(const Tensor& x) {
    const auto rows = static_cast<std::uint64_t>(x.dims[0]), k = static_cast<std::uint64_t>(x.last());
    std::uint64_t bytes = rows * k + rows * (k / 16) * 8;
    if (matrices_) bytes = std::max(bytes, f16_rows_bytes(rows, k));
    schedule_.extras.push_back(bytes);
    return static_cast<std::uint32_t>(schedule_.extras.size() - 1);
  }

  /// The slot where weights become f16, one for all products; none where the most rows are too few.
  std::uint32_t halves_slot(std::int64_t rows, const Tensor& weights) {
    if (!makes_halves(card_, rows, weights.dims[0], weights.dims[1])) return none;
    if (halves_slot_ == none) {
      halves_slot_ = static_cast<std::uint32_t>(schedule_.extras.size());
      schedule_.extras.push_back(0);
    }
    schedule_.extras[halves_slot_] = std::max(schedule_.extras[halves_slot_], halves_bytes(weights.dims[0], weights.dims[1]));
    return halves_slot_;
  }

  /// Adds the step of node n that makes int8 activations of `y`, reading x (and other, a weight) in its place.
  void emit_quantise(std::uint32_t y, std::uint32_t n, Source source) {
    source.slot = add_extra(tensor(y));
    const bool f16 = fusion_.has_f16_weights(root(y)), floats = fusion_.has_float_weights(root(y));
    source.direct = fusion_.has_room(tensor(y).last(), root(y));
    source.eights = matrices_ && all_products(root(y), [&](const sdk::ResolvedNode& node) {
                      return takes_eights(card_, tensor(node.inputs[1]).dtype) && node.f16_allowed();
                    });
    if (matrices_ && all_products(root(y), &sdk::ResolvedNode::f16_allowed))
      source.f16_from = !floats && !source.eights ? least_f16_rows(card_) : source.direct ? 2 : 1;
    activations_[{root(y), fusion_.version(y, n + 1)}] = source;
    Step& added = schedule_.add({n}, source.mode == source_norm  ? "rms_norm.quantise.vulkan"
                                     : source.mode == source_glu ? "glu.quantise.vulkan"
                                                                 : "quantise.vulkan");
    if (source.mode == source_plain) added.nodes.clear();
    if (source.mode == source_glu) added.reason = fusion_.why_no_pair_at(n);
    add_present(added.reads, {source.x, source.other});
    added.extra_writes = {source.slot};
    added.emit = [=](const StepContext& context, Launcher& launcher) {
      const Tensor x = context.tensor(source.x), rows = context.tensor(y);
      if (source.direct && rows.rows() == 1) return;
      const auto describe_rows = [&](auto& p) {
        p.x = x.data + source.x_from;
        p.k = static_cast<uint>(rows.last());
        p.rows = static_cast<uint>(rows.rows());
        p.x_row = x.strides[0];
        if (source.mode == source_norm) p.weight = context.tensor(source.other).data;
        if (source.mode == source_glu) {
          const Tensor other = context.tensor(source.other);
          p.other = other.data + source.other_from;
          p.other_row = other.strides[0];
        }
        p.y = context.extra(source.slot);
        p.epsilon = source.epsilon;
        p.offset = source.offset;
      };
      if (source.f16_from != 0 && rows.rows() >= source.f16_from) {
        RowsF16Params p{};
        describe_rows(p);
        p.row_scale = p.y + f16_scales_offset(p.rows, p.k);
        const bool eights = source.eights && rows.rows() <= most_eights_rows;
        return launch_rows_f16(p, source.mode, f16 ? RowsAs::plain : eights ? RowsAs::eights : RowsAs::permuted, launcher);
      }
      QuantiseParams p{};
      describe_rows(p);
      const std::uint32_t threads = launcher.facts().software() ? 32 : p.k <= 1024 ? 128 : 512;
      launcher.launch("quantise", std::min(threads, launcher.facts().group_limit & ~31u), launcher.rows(p.rows), p, {source.mode});
    };
  }

  /// The step of a norm or a SwiGLU whose result is only wanted as int8 activations.
  void emit_quantised(std::uint32_t n) {
    const sdk::ResolvedNode& node = graph_.nodes[n];
    Source source;
    if (node.op == QUERN_OP_RMS_NORM) {
      source.mode = source_norm;
      source.x = node.inputs[0];
      source.other = node.inputs[1];
      source.epsilon = static_cast<float>(node.attributes->real(QUERN_KEY_EPSILON));
      source.offset = static_cast<float>(node.attributes->real(QUERN_KEY_WEIGHT_OFFSET));
    } else {
      const Halves halves = fusion_.halves_of(n);
      source.mode = source_glu;
      source.x = halves.gate, source.x_from = halves.gate_from;
      source.other = halves.up, source.other_from = halves.up_from;
      const std::uint32_t made = fusion_.maker(root(halves.gate));
      source.paired = made != none && fusion_.pair_of(made) != nullptr;
    }
    emit_quantise(node.outputs[0], n, source);
  }

  void emit_product(std::uint32_t n) {
    const sdk::ResolvedNode& node = graph_.nodes[n];
    const std::uint32_t a = node.inputs[0], b = node.inputs[1], bias = fusion_.input(n, 2);
    const std::pair content{root(a), fusion_.version(a, n)};
    if (!activations_.contains(content)) {
      Source as_it_is;
      as_it_is.x = a;
      emit_quantise(a, n, as_it_is);
    }
    const Source source = activations_.at(content);
    const Pair* const found = fusion_.pair_of(n);
    const bool in_pair = found != nullptr, first_of_pair = in_pair && n != std::max(found->gate, found->up);
    const Pair pair = in_pair ? *found : Pair{};
    std::uint32_t y = node.outputs[0], residual = none;
    Step& added = schedule_.add({n}, source.f16_from != 0 ? "gemm.vulkan" : "gemv.vulkan");
    if (const std::uint32_t add = fusion_.add_of(n, residual); add != none) {
      y = graph_.nodes[add].outputs[0];
      fusion_.stored_by(add, n);
      added.nodes.push_back(add);
      added.kernel = source.f16_from != 0 ? "gemm.add.vulkan" : "gemv.add.vulkan";
    }
    add_present(added.reads, {b, bias, residual});
    if (source.direct) add_present(added.reads, {source.x, source.other});
    const std::uint32_t gate_b = in_pair ? graph_.nodes[pair.gate].inputs[1] : none,
                        up_b = in_pair ? graph_.nodes[pair.up].inputs[1] : none;
    add_present(added.reads, {gate_b, up_b});
    added.writes = {y};
    added.extra_reads = {source.slot};
    const std::uint32_t halves = source.f16_from != 0 && is_block(tensor(b).dtype) ? halves_slot(tensor(a).dims[0], tensor(b)) : none;
    if (halves != none) added.extra_uses = {halves};
    added.emit = [=](const StepContext& context, Launcher& launcher) {
      const Tensor weights = context.tensor(b), result = context.tensor(y);
      const auto m = static_cast<uint>(result.rows()), n_out = static_cast<uint>(weights.dims[0]), k = static_cast<uint>(weights.dims[1]);
      if (m == 0) return;
      const std::uint64_t bias_at = bias == none ? 0 : context.tensor(bias).data, c = residual == none ? 0 : context.tensor(residual).data;
      const int bias_dtype = bias == none ? 0 : static_cast<int>(context.tensor(bias).dtype);
      if (m == 1 && source.direct) {
        if (first_of_pair) return;
        RowProductParams p{};
        p.x = context.tensor(source.x).data + source.x_from;
        if (source.other != none) p.other = context.tensor(source.other).data + source.other_from;
        p.b = weights.data;
        p.bias = bias_at;
        p.bias_dtype = bias_dtype;
        p.c = c;
        p.y = result.data;
        p.n = n_out;
        p.epsilon = source.epsilon;
        p.offset = source.offset;
        if (in_pair) {
          p.b = context.tensor(gate_b).data + pair.gate_from;
          p.other_b = context.tensor(up_b).data + pair.up_from;
          p.y = context.tensor(pair.y).data + pair.y_from;
          p.n = static_cast<uint>(pair.width);
          launcher.touch({p.y, p.y + std::uint64_t{p.n} * 4, true});
        }
        launcher.join({p, static_cast<int>(weights.dtype), source.paired ? source_plain : source.mode, k, in_pair});
        return;
      }
      if (source.f16_from != 0 && m >= source.f16_from) {
        const std::uint64_t activations = context.extra(source.slot);
        GemmParams p{activations, activations + f16_scales_offset(m, k), 0, weights.data, 0, bias_at, c, result.data, m, n_out, k,
                     bias_dtype};
        if (source.eights && m <= most_eights_rows) return launch_gemm_rows(p, weights.dtype, launcher);
        if (halves != none && makes_halves(launcher.facts(), m, n_out, k)) {
          p.halves = context.extra(halves);
          launcher.touch({p.halves, p.halves + halves_bytes(n_out, k), true});
        }
        launch_gemm(p, weights.dtype, launcher);
        return;
      }
      const GemvParams p{context.extra(source.slot), weights.data, bias_at, c, result.data, m, n_out, k, bias_dtype};
      std::int32_t tile = 1;
      while (tile < most_tile(launcher.facts()) && tile < static_cast<std::int32_t>(p.m)) tile *= 2;
      const std::uint32_t threads = launcher.facts().software() ? 8 : 128;
      const std::int64_t subgroups = std::max<std::int64_t>(1, threads / std::max<std::uint32_t>(1, launcher.facts().subgroup)),
                         rows = 2 * subgroups;
      launcher.launch("gemv", threads,
                      {std::min<std::int64_t>((p.n + rows - 1) / rows, 65535), std::min<std::int64_t>((p.m + tile - 1) / tile, 65535), 1},
                      p, {static_cast<std::int32_t>(weights.dtype), tile});
    };
  }

  /// What the rotations before attention read.
  struct Unturned {
    std::uint32_t q, k, v, table;
    std::int64_t mode;
    Unrotated at(const StepContext& context) const {
      return {context.tensor(q), context.tensor(k), context.tensor(v), context.tensor(table), mode};
    }
  };
  Unturned unturned(const Rotation& r) const {
    const sdk::ResolvedNode &rope_q = graph_.nodes[r.rope_q], &rope_k = graph_.nodes[r.rope_k], &write_v = graph_.nodes[r.write_v];
    return {rope_q.inputs[0], rope_k.inputs[0], write_v.inputs[0], rope_q.inputs[2], rope_q.attributes->integer(QUERN_KEY_MODE)};
  }
  static Call call_of(const sdk::ResolvedGraph& graph, std::uint32_t n, std::vector<Tensor>& storage, const StepContext& context) {
    return graph.call(graph.nodes[n], storage, [&](std::uint32_t v) { return context.tensor(v); });
  }

  void emit_rotation(const Rotation& r) {
    const Unturned from = unturned(r);
    Step& added =
        schedule_.add({r.rope_q, r.rope_k, r.write_k, r.write_v}, r.packed ? "rope.kv_write.vulkan" : "rope.kv_write.each.vulkan");
    added.node = r.last;
    add_present(added.reads, {from.q, from.k, from.v, from.table});
    for (const std::size_t i : {1u, 2u, 3u}) added.reads.push_back(graph_.nodes[r.write_k].inputs[i]);
    for (const std::uint32_t n : {r.rope_q, r.write_k, r.write_v}) added.writes.push_back(graph_.nodes[n].outputs[0]);
    if (!r.packed) added.writes.push_back(graph_.nodes[r.rope_k].outputs[0]);
    added.emit = [=, &graph = graph_](const StepContext& context, Launcher& launcher) {
      std::vector<Tensor> storage;
      const std::int64_t rows = context.tensor(from.q).dims[0];
      if (rows == 0 || (r.attends && rows == 1)) return;
      if (r.packed) return launch_rope_kv(call_of(graph, r.attention, storage, context), from.at(context), launcher);
      for (const std::uint32_t n : {r.rope_q, r.rope_k, r.write_v, r.write_k}) {
        if (n == r.write_k) launcher.barrier();
        static_cast<const Op&>(*graph.nodes[n].offer).emit(call_of(graph, n, storage, context), launcher);
      }
    };
  }

  /// Where parts of an attention node's keys leave their sums.
  std::uint32_t attention_slot(std::uint32_t n, bool rotates, bool by_matrices) {
    std::vector<Tensor> shapes;
    const Call call = graph_.describe(graph_.nodes[n], shapes);
    schedule_.extras.push_back(std::max(rotates ? fused_attention_scratch(call, card_) : 0,
                                        by_matrices ? matrix_attention_scratch(call, card_) : 0));
    return static_cast<std::uint32_t>(schedule_.extras.size() - 1);
  }

  void emit_attention(std::uint32_t n) {
    const sdk::ResolvedNode& node = graph_.nodes[n];
    std::vector<Tensor> shapes;
    const bool by_matrices = matrices_ && node.f16_allowed() && matrix_attention_serves(graph_.describe(node, shapes), card_);
    Step& added = schedule_.add({n}, by_matrices ? "attention.matrix.vulkan" : "attention.fused.vulkan");
    for (const std::uint32_t v : node.inputs) add_present(added.reads, {v});
    added.writes = {node.outputs[0]};
    const Rotation* const found = fusion_.rotation_for(n);
    const std::uint32_t slot = attention_slot(n, found != nullptr, by_matrices);
    added.extra_uses = {slot};
    if (found == nullptr) {
      added.emit = [=, &graph = graph_](const StepContext& context, Launcher& launcher) {
        std::vector<Tensor> storage;
        Call call = call_of(graph, n, storage, context);
        call.scratch = context.extra(slot);
        if (by_matrices && matrix_attention_pays(call)) launch_matrix_attention(call, launcher);
        else launch_fused_attention(call, nullptr, launcher);
      };
      return;
    }
    const Rotation& r = *found;
    added.kernel = by_matrices ? "attention.matrix.rope.vulkan" : "attention.fused.rope.vulkan";  // one row is summed in another order
    const Unturned from = unturned(r);
    add_present(added.reads, {from.q, from.k, from.v, from.table});
    added.emit = [=, &graph = graph_](const StepContext& context, Launcher& launcher) {
      std::vector<Tensor> storage;
      Call call = call_of(graph, n, storage, context);
      call.scratch = context.extra(slot);
      if (by_matrices && matrix_attention_pays(call)) return launch_matrix_attention(call, launcher);
      if (call.input(0).dims[0] != 1) return launch_fused_attention(call, nullptr, launcher);
      for (const Tensor& cache : {call.input(1), call.input(2)}) launcher.touch(touched(cache, true));
      const Unrotated unrotated = from.at(context);
      launch_fused_attention(call, &unrotated, launcher);
    };
  }

  void emit_draw(std::uint32_t n, const Draw& draw) {
    Step& added = schedule_.add({draw.penalize, draw.bias, n}, "sample.fused.vulkan");
    for (const std::uint32_t part : {draw.penalize, draw.bias, n}) {
      for (const std::uint32_t v : graph_.nodes[part].inputs) add_present(added.reads, {v});
      for (const std::uint32_t v : graph_.nodes[part].outputs) added.writes.push_back(v);
    }
    std::vector<Tensor> shapes;
    const auto slot = static_cast<std::uint32_t>(schedule_.extras.size());
    schedule_.extras.push_back(draw_scratch(graph_.describe(graph_.nodes[n], shapes)));
    added.extra_writes = {slot};
    added.emit = [=, &graph = graph_](const StepContext& context, Launcher& launcher) {
      std::vector<Tensor> storage[3];
      Call sample = call_of(graph, n, storage[2], context);
      sample.scratch = context.extra(slot);
      launch_draw(call_of(graph, draw.penalize, storage[0], context), call_of(graph, draw.bias, storage[1], context), sample, launcher);
    };
  }

  const sdk::ResolvedGraph& graph_;
  const CardFacts& card_;
  const bool matrices_;  // products of many rows by cooperative matrices
  Fusion fusion_;
  std::map<std::pair<std::uint32_t, std::size_t>, Source> activations_;  // by a memory and which of its contents
  Schedule schedule_;
  std::uint32_t halves_slot_ = none;
};

}  // namespace

Schedule fused_schedule(const sdk::ResolvedGraph& graph, const CardFacts& card, Tier tier) { return Fuser(graph, card, tier).run(); }

}  // namespace quern::vulkan
