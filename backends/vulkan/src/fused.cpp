// The schedule that fuses (schedule.hpp).
//
//   - a product of f32 rows and quantised weights takes int8 activations (quantise.comp, gemv.comp)
//   - an RMS norm or a SwiGLU that only such products read is not computed: the kernel that quantises computes it on its way
//   - queries and keys are rotated, and keys and values written to their pages, by one kernel
//   - in the tier of matrices many rows become f16 instead (rows_f16.comp, gemm.comp), and products of weights of f16 are fused too
//   - a sum of a product and a value that is there already is the product's last step
//   - penalties, biases and the draw from their logits are one step of two launches (ops/sampling.hpp)
//
// Steps of one row do more (which launches a step makes is known when its extents are): the product makes the int8 activations itself
// (gemv_one.comp), gate and up are one product that ends with SwiGLU, and attention rotates and writes the caches. The steps before then
// launch nothing.
#include "ops/attention.hpp"
#include "ops/sampling.hpp"
#include "gemm.hpp"
#include "schedule.hpp"
#include "weights.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>

namespace quern::vulkan {
namespace {

constexpr std::uint32_t none = QUERN_NONE;
/// Rows that a product's kernel takes at a time. A software device compiles what is unrolled longer than it gains.
std::int32_t most_tile(const CardFacts& card) { return card.software() ? 8 : 16; }
constexpr std::int32_t plain = 0, norm = 1, glu = 2;  // as in shaders/quantise.comp

class Fuser {
 public:
  Fuser(const sdk::ResolvedGraph& graph, const CardFacts& card, Tier tier)
      : graph_(graph),
        card_(card),
        matrices_(tier >= Tier::matrices),
        users_(graph.values.size()),
        maker_(graph.values.size(), none),
        writers_(graph.values.size()),
        done_(graph.nodes.size(), false) {
    for (std::uint32_t n = 0; n < graph.nodes.size(); ++n) {
      for (const std::uint32_t v : graph.nodes[n].inputs)
        if (v != none) users_[root(v)].push_back(n);
      if (graph.nodes[n].predicate != none) users_[root(graph.nodes[n].predicate)].push_back(n);
      for (const std::uint32_t v : graph.nodes[n].outputs)
        if (v != none) maker_[root(v)] = n, writers_[root(v)].push_back(n);
    }
  }

  Schedule run() {
    for (std::uint32_t n = 0; n < graph_.nodes.size(); ++n)
      if (is_product(n)) products_of_[root(graph_.nodes[n].inputs[0])].push_back(n);
    bool any = !products_of_.empty();
    for (std::uint32_t n = 0; n < graph_.nodes.size() && !any; ++n) any = is_attention(n);
    if (!any) {
      Schedule nothing;
      for (std::uint32_t n = 0; n < graph_.nodes.size(); ++n) nothing.alone.push_back(alone(n));
      return nothing;
    }
    for (std::uint32_t n = 0; n < graph_.nodes.size(); ++n) find_rotation(n);
    for (std::uint32_t n = 0; n < graph_.nodes.size(); ++n) find_pair(n);
    for (std::uint32_t n = 0; n < graph_.nodes.size(); ++n) find_draw(n);
    for (std::uint32_t n = 0; n < graph_.nodes.size(); ++n) {
      if (done_[n] || quantises(n)) continue;
      if (const auto found = rotations_.find(n); found != rotations_.end()) {
        emit_rotation(n, found->second);
        continue;
      }
      if (is_product(n)) {
        emit_product(n);
        continue;
      }
      if (is_attention(n)) {
        emit_attention(n);
        continue;
      }
      if (const auto found = draws_.find(n); found != draws_.end()) {
        emit_draw(n, found->second);
        continue;
      }
      Step step;
      step.node = n;
      step.nodes = {n};
      step.kernel = graph_.nodes[n].offer->kernel;
      schedule_.steps.push_back(std::move(step));
      schedule_.alone.push_back(alone(n));
    }
    return std::move(schedule_);
  }

 private:
  std::uint32_t root(std::uint32_t v) const { return graph_.values[v].root; }
  const Tensor& tensor(std::uint32_t v) const { return graph_.values[v].tensor; }
  /// Whether a node behind `first` and before `last` writes the memory of a value, in place say. What `first` reads is not there any more at `last` then.
  bool written_between(std::uint32_t v, std::uint32_t first, std::uint32_t last) const {
    return v != none && std::ranges::any_of(writers_[root(v)], [&](std::uint32_t n) { return n > first && n < last; });
  }
  /// Whether what node n reads is written before `last`.
  bool inputs_change(std::uint32_t n, std::uint32_t last) const {
    return std::ranges::any_of(graph_.nodes[n].inputs, [&](std::uint32_t v) { return written_between(v, n, last); });
  }
  bool read_between(std::uint32_t v, std::uint32_t first, std::uint32_t last) const {
    return std::ranges::any_of(users_[root(v)], [&](std::uint32_t n) { return n > first && n < last; });
  }
  /// A memory and which of its contents node n reads.
  struct Content {
    std::uint32_t root;
    std::size_t writes;
    auto operator<=>(const Content&) const = default;
  };
  Content content(std::uint32_t v, std::uint32_t n) const {
    return {root(v), static_cast<std::size_t>(std::ranges::count_if(writers_[root(v)], [&](std::uint32_t w) { return w < n; }))};
  }

  /// A view of all of its root's memory, packed.
  bool whole(std::uint32_t v) const {
    const sdk::ResolvedValue& value = graph_.values[v];
    return value.offset == 0 && value.bytes == graph_.values[value.root].bytes && is_contiguous(value.tensor);
  }
  bool is_f32(std::uint32_t v) const { return v != none && tensor(v).dtype == QUERN_F32 && whole(v); }
  std::uint32_t input(std::uint32_t n, std::size_t i) const { return i < graph_.nodes[n].inputs.size() ? graph_.nodes[n].inputs[i] : none; }

  /// In words, why a rule does not take a node; null: it does.
  using Refusal = const char*;
  static Refusal why_alone(const sdk::ResolvedNode& node) {
    if (node.predicate != none) return "it runs under a condition";
    if (node.invariant) return "its rows must not depend on the batch";
    return nullptr;
  }
  Refusal why_no_product(std::uint32_t n) const {
    const sdk::ResolvedNode& node = graph_.nodes[n];
    if (node.op != QUERN_OP_MATMUL) return "it is no product of two matrices";
    if (const Refusal why = why_alone(node); why != nullptr) return why;
    if (input(n, 3) != none) return "it has an addend of its own";
    if (!is_f32(node.inputs[0]) || !is_f32(node.outputs[0]))
      return "its operand or its result is not f32, a part of a value or a strided view";
    const Tensor &a = tensor(node.inputs[0]), &b = tensor(node.inputs[1]);
    const bool f16 = b.dtype == QUERN_F16;
    if (f16 && !alone_f16(n)) return "a product of quantised weights reads the same value";
    if (f16 && !matrices_) return "the device or an option has no cooperative matrices for weights of f16";
    if (f16 ? !node.f16_allowed() : !node.int8_allowed()) return "its numerics allow no int8 or f16 activations";
    const bool format = f16 || b.dtype == QUERN_Q4_K || b.dtype == QUERN_Q5_K ? !b.packed_layout && whole(node.inputs[1]) : b.packed_layout;
    if (!format) return "no kernel takes its weights' dtype and layout";
    if (a.rank != 2 || (a.ranged & ~1u) != 0) return "its operand is no matrix of ranged rows";
    if (b.rank != 2 || b.ranged != 0 || b.dims[1] % 64 != 0 || b.dims[1] >= std::int64_t{1} << 24)
      return "its weights have columns that are no multiple of 64, or are no matrix";
    if (const std::uint32_t bias = input(n, 2); bias != none && !is_contiguous(tensor(bias))) return "its bias is a strided view";
    if (node.attributes->integer(QUERN_KEY_TRANSPOSE_A) || node.attributes->integer(QUERN_KEY_TRANSPOSE_B))
      return "an operand is transposed";
    if (node.attributes->real(QUERN_KEY_ALPHA) != 1.0) return "it has a factor";
    return nullptr;
  }
  bool is_product(std::uint32_t n) const { return why_no_product(n) == nullptr; }

  /// Whether no product of quantised weights reads what this product of weights of f16 reads: activations of f16 lie in another order for them.
  bool alone_f16(std::uint32_t n) const {
    return std::ranges::all_of(users_[root(graph_.nodes[n].inputs[0])], [&](std::uint32_t user) {
      const sdk::ResolvedNode& node = graph_.nodes[user];
      return node.op != QUERN_OP_MATMUL || root(node.inputs[0]) != root(graph_.nodes[n].inputs[0]) ||
             !is_block(tensor(node.inputs[1]).dtype);
    });
  }

  /// Products of a value.
  const std::vector<std::uint32_t>& products_of(std::uint32_t value_root) const {
    static const std::vector<std::uint32_t> no_products;
    const auto found = products_of_.find(value_root);
    return found == products_of_.end() ? no_products : found->second;
  }
  /// Products that take the int8 activations of a value.
  std::uint32_t takers(std::uint32_t value_root) const { return static_cast<std::uint32_t>(products_of(value_root).size()); }
  /// Whether a value is nothing but the activations of products.
  bool only_products_read(std::uint32_t value) const {
    const std::uint32_t r = root(value), count = takers(r);
    return graph_.internal(r) && is_f32(value) && count > 0 && count == users_[r].size();
  }

  /// What int8 activations are made of.
  struct Source {
    std::uint32_t slot = 0;
    std::int32_t mode = plain;
    std::uint32_t x = none, other = none;
    float epsilon = 0, offset = 0;
    std::int64_t f16_from = 0;  // rows from which on it is f16 for cooperative matrices; 0: never
    bool eights = false;        // from there up to most_eights_rows by eights
    bool direct = false;        // a product of one row makes them itself
    bool paired = false;        // of one row, x is silu(x) * other already
  };
  /// Whether a product's kernel has room for a row of k activations: int8 with their scales, for weights of f16 f32.
  bool has_room(std::int64_t k, bool f16) const {
    return card_.shuffles && card_.group_limit >= 256 &&
           (f16 ? static_cast<std::uint64_t>(k) * 4 : static_cast<std::uint64_t>(k) * 5 / 2) + 1024 <= card_.shared_limit;
  }
  /// Whether a product of the value has weights of f16, which take no int8.
  bool has_f16_weights(std::uint32_t value_root) const {
    return std::ranges::any_of(products_of(value_root),
                               [&](std::uint32_t n) { return tensor(graph_.nodes[n].inputs[1]).dtype == QUERN_F16; });
  }

  /// Whether all products of a value may have it as f16.
  bool all_allow_f16(std::uint32_t value_root) const {
    return std::ranges::all_of(products_of(value_root), [&](std::uint32_t n) { return graph_.nodes[n].f16_allowed(); });
  }

  /// Whether all products of a value take it by eights.
  bool all_take_eights(std::uint32_t value_root) const {
    return std::ranges::all_of(products_of(value_root), [&](std::uint32_t n) {
      const sdk::ResolvedNode& node = graph_.nodes[n];
      return takes_eights(card_, tensor(node.inputs[1]).dtype) && node.f16_allowed();
    });
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

  /// Adds the step that makes int8 activations of `y`, reading x (and other, a weight) in its place.
  void emit_quantise(std::uint32_t y, std::uint32_t node, std::int32_t mode, std::uint32_t x, std::uint32_t other, float epsilon,
                     float offset) {
    const std::uint32_t slot = add_extra(tensor(y));
    const bool f16 = has_f16_weights(root(y)), direct = has_room(tensor(y).last(), f16);
    const bool eights = matrices_ && all_take_eights(root(y));
    const std::int64_t f16_from = !matrices_ || !all_allow_f16(root(y)) ? 0 : !f16 && !eights ? least_f16_rows(card_) : direct ? 2 : 1;
    activations_[content(y, node + 1)] = {slot,   mode,     x,      other,  epsilon,
                                          offset, f16_from, eights, direct, mode == glu && pairs_.contains(maker_[root(x)])};
    Step step;
    step.node = node;
    if (mode != plain) step.nodes = {node};
    step.kernel = mode == norm ? "rms_norm.quantise.vulkan" : mode == glu ? "glu.quantise.vulkan" : "quantise.vulkan";
    step.reads = {x};
    if (other != none) step.reads.push_back(other);
    step.extra_writes = {slot};
    step.emit = [=](const StepContext& context, Launcher& launcher) {
      const Tensor t = context.tensor(x);
      if (direct && t.rows() == 1) return;
      const auto describe_rows = [&](auto& p) {
        p.x = t.data;
        p.k = static_cast<uint>(t.last());
        p.rows = static_cast<uint>(t.rows());
        p.x_row = p.other_row = static_cast<std::int64_t>(p.k) * 4;
        if (mode == norm) p.weight = context.tensor(other).data;
        if (mode == glu) p.other = context.tensor(other).data;
        p.y = context.extra(slot);
        p.epsilon = epsilon;
        p.offset = offset;
      };
      if (f16_from != 0 && t.rows() >= f16_from) {
        RowsF16Params p{};
        describe_rows(p);
        p.row_scale = p.y + f16_scales_offset(p.rows, p.k);
        launch_rows_f16(p, mode,
                        f16                                      ? RowsAs::plain
                        : eights && t.rows() <= most_eights_rows ? RowsAs::eights
                                                                 : RowsAs::permuted,
                        launcher);
        return;
      }
      QuantiseParams p{};
      describe_rows(p);
      const std::uint32_t threads = launcher.facts().software() ? 32 : p.k <= 1024 ? 128 : 512;
      launcher.launch("quantise", std::min(threads, launcher.facts().group_limit & ~31u), launcher.rows(p.rows), p, {mode});
    };
    schedule_.steps.push_back(std::move(step));
  }

  /// Whether this node's result is only wanted as int8 activations; then adds the step that makes them.
  bool quantises(std::uint32_t n) {
    if (why_not_quantised(n) != nullptr) return false;
    const sdk::ResolvedNode& node = graph_.nodes[n];
    const std::uint32_t y = node.outputs[0], x = input(n, 0), other = input(n, 1);
    if (node.op == QUERN_OP_RMS_NORM) {
      emit_quantise(y, n, norm, x, other, static_cast<float>(node.attributes->real(QUERN_KEY_EPSILON)),
                    static_cast<float>(node.attributes->real(QUERN_KEY_WEIGHT_OFFSET)));
      return true;
    }
    emit_quantise(y, n, glu, x, other, 0, 0);
    return true;
  }
  Refusal why_not_quantised(std::uint32_t n) const {
    const sdk::ResolvedNode& node = graph_.nodes[n];
    if (node.op != QUERN_OP_RMS_NORM && node.op != QUERN_OP_GLU) return "it is no norm and no gated activation";
    if (node.predicate != none) return "it runs under a condition";
    if (!only_products_read(node.outputs[0])) return "its result is read by a node that is no fused product";
    const std::uint32_t y = node.outputs[0], x = input(n, 0), other = input(n, 1);
    if (!is_f32(x) || !is_f32(other)) return "what it reads is not f32, a part of a value or a strided view, or there is no second operand";
    if (tensor(y).rank != 2) return "its result is no matrix";
    for (const std::uint32_t v : {x, other})  // products of one row read it
      if (written_between(v, n, products_of(root(y)).back())) return "what it reads is written before the last product behind it";
    if (node.op == QUERN_OP_GLU && !is_swiglu(n)) return "its activation is not SiLU, or has a limit or a factor";
    return nullptr;
  }

  bool is_swiglu(std::uint32_t n) const {
    const sdk::ResolvedNode& node = graph_.nodes[n];
    return node.op == QUERN_OP_GLU && node.attributes->integer(QUERN_KEY_KIND) == 0 && node.attributes->real(QUERN_KEY_ALPHA) == 1.0 &&
           std::isinf(node.attributes->real(QUERN_KEY_LIMIT));
  }

  /// Two products of the same row whose results are nothing but the halves of a SwiGLU, which becomes int8 activations.
  void find_pair(std::uint32_t n) {
    const sdk::ResolvedNode& node = graph_.nodes[n];
    if (node.predicate != none || !is_swiglu(n) || !only_products_read(node.outputs[0])) return;
    if (!has_room(tensor(node.outputs[0]).last(), has_f16_weights(root(node.outputs[0])))) return;
    const std::uint32_t gate = maker_[root(node.inputs[0])], up = maker_[root(node.inputs[1])];
    if (gate == none || up == none || gate == up || !is_product(gate) || !is_product(up)) return;
    for (const std::uint32_t product : {gate, up}) {
      const std::uint32_t y = graph_.nodes[product].outputs[0];
      if (!graph_.internal(root(y)) || users_[root(y)].size() != 1 || writers_[root(y)].size() != 1 || tensor(y).rank != 2 ||
          input(product, 2) != none)
        return;
    }
    if (!is_f32(node.inputs[0]) || !is_f32(node.inputs[1]) ||
        content(graph_.nodes[gate].inputs[0], gate) != content(graph_.nodes[up].inputs[0], up))
      return;
    const Tensor &b = tensor(graph_.nodes[gate].inputs[1]), &other = tensor(graph_.nodes[up].inputs[1]);
    if (b.dtype != other.dtype || b.dims[0] != other.dims[0] || !has_room(b.dims[1], has_f16_weights(root(graph_.nodes[gate].inputs[0]))))
      return;
    pairs_[gate] = pairs_[up] = {gate, up};
  }

  /// The add node that sums the product with a value `other` that is there already; or none.
  std::uint32_t add_of(std::uint32_t product, std::uint32_t& other, Refusal* why = nullptr) const {
    const auto no = [&](Refusal reason) {
      if (why != nullptr) *why = reason;
      return none;
    };
    const std::uint32_t y = root(graph_.nodes[product].outputs[0]);
    if (!graph_.internal(y) || users_[y].size() != 1) return no("the product is read by another node too");
    const std::uint32_t n = users_[y][0];
    const sdk::ResolvedNode& node = graph_.nodes[n];
    if (node.op != QUERN_OP_ADD) return no("it is no sum");
    if (node.predicate != none) return no("it runs under a condition");
    if (node.attributes->real(QUERN_KEY_ALPHA) != 1.0) return no("an operand has a factor");
    const bool first = root(node.inputs[0]) == y;
    const std::uint32_t operand = node.inputs[first ? 1 : 0];
    if (root(operand) == y) return no("both operands are the product");
    if (!is_f32(operand) || !is_f32(node.inputs[0]) || !is_f32(node.inputs[1]) || !is_f32(node.outputs[0]))
      return no("it reads or writes what is not f32, a part of a value or a strided view");
    if (!sdk::check_same_shape(tensor(operand), tensor(node.outputs[0])).empty()) return no("its operands have different shapes");
    if (graph_.source.values[root(operand)].kind == QUERN_VALUE_STATE)  // which a node in between may write
      return no("its other operand is a state");
    const std::uint32_t made = maker_[root(operand)];
    if (made != none && (made > product || (moved_to_.contains(made) && moved_to_.at(made) > product)))
      return no("its other operand is made behind the product");
    // The sum comes as early as the product: nobody may still read what was there.
    if (read_between(node.outputs[0], product, n) || written_between(node.outputs[0], product, n))
      return no("the memory of its result is read or written between the product and it");
    other = operand;
    return n;
  }

  void emit_product(std::uint32_t n) {
    const sdk::ResolvedNode& node = graph_.nodes[n];
    const std::uint32_t a = node.inputs[0], b = node.inputs[1], bias = input(n, 2);
    if (!activations_.contains(content(a, n))) emit_quantise(a, n, plain, a, none, 0, 0);
    const Source source = activations_.at(content(a, n));
    const auto found = pairs_.find(n);
    const bool in_pair = found != pairs_.end();
    const Pair pair = in_pair ? found->second : Pair{};
    const bool first_of_pair = in_pair && n == std::min(pair.gate, pair.up);
    std::uint32_t y = node.outputs[0], residual = none;
    Step step;
    step.node = n;
    step.nodes = {n};
    step.kernel = source.f16_from != 0 ? "gemm.vulkan" : "gemv.vulkan";
    if (const std::uint32_t add = add_of(n, residual); add != none) {
      y = graph_.nodes[add].outputs[0];
      done_[add] = true;
      step.nodes.push_back(add);
      step.kernel = source.f16_from != 0 ? "gemm.add.vulkan" : "gemv.add.vulkan";
    }
    step.reads = {b};
    for (const std::uint32_t v : {bias, residual})
      if (v != none) step.reads.push_back(v);
    if (source.direct)
      for (const std::uint32_t v : {source.x, source.other})
        if (v != none) step.reads.push_back(v);
    const std::uint32_t gate_y = in_pair ? graph_.nodes[pair.gate].outputs[0] : none,
                        gate_b = in_pair ? graph_.nodes[pair.gate].inputs[1] : none,
                        up_b = in_pair ? graph_.nodes[pair.up].inputs[1] : none;
    if (in_pair) {
      step.reads.push_back(gate_b);
      step.reads.push_back(up_b);
    }
    step.writes = {y};
    step.extra_reads = {source.slot};
    const std::uint32_t halves = source.f16_from != 0 && is_block(tensor(b).dtype) ? halves_slot(tensor(a).dims[0], tensor(b)) : none;
    if (halves != none) step.extra_uses = {halves};
    step.emit = [=](const StepContext& context, Launcher& launcher) {
      const Tensor weights = context.tensor(b), result = context.tensor(y);
      const auto m = static_cast<uint>(result.rows()), n_out = static_cast<uint>(weights.dims[0]), k = static_cast<uint>(weights.dims[1]);
      if (m == 0) return;
      const std::uint64_t bias_at = bias == none ? 0 : context.tensor(bias).data, c = residual == none ? 0 : context.tensor(residual).data;
      const int bias_dtype = bias == none ? 0 : static_cast<int>(context.tensor(bias).dtype);
      if (m == 1 && source.direct) {
        if (first_of_pair) return;
        RowProductParams p{};
        p.x = context.tensor(source.x).data;
        if (source.other != none) p.other = context.tensor(source.other).data;
        p.b = context.tensor(in_pair ? gate_b : b).data;
        if (in_pair) p.other_b = context.tensor(up_b).data;
        p.bias = bias_at;
        p.bias_dtype = bias_dtype;
        p.c = c;
        p.y = result.data;
        if (in_pair) {
          const Tensor gate = context.tensor(gate_y);
          p.y = gate.data;
          launcher.touch({gate.data, gate.data + std::uint64_t{n_out} * 4, true});
        }
        p.n = n_out;
        p.epsilon = source.epsilon;
        p.offset = source.offset;
        launcher.join({p, static_cast<int>(weights.dtype), source.paired ? plain : source.mode, k, in_pair});
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
    schedule_.steps.push_back(std::move(step));
  }

  /// The nodes that rotate and write what an attention node reads.
  struct Rotation {
    std::uint32_t rope_q, rope_k, write_k, write_v;
  };

  /// A plain rotation of f32 whose result is `value`, or none.
  std::uint32_t rope_of(std::uint32_t value) const {
    const std::uint32_t n = maker_[root(value)];
    if (n == none || graph_.nodes[n].op != QUERN_OP_ROPE || graph_.nodes[n].predicate != none || !is_f32(value) ||
        !is_f32(graph_.nodes[n].inputs[0]))
      return none;
    for (const std::uint32_t key : {QUERN_KEY_INVERSE, QUERN_KEY_SECTION0, QUERN_KEY_SECTION1, QUERN_KEY_SECTION2, QUERN_KEY_SECTION3})
      if (graph_.nodes[n].attributes->integer(key) != 0) return none;
    return n;
  }
  /// The one node before `n` that writes a cache, under the block table, slots and positions of attention node n; or none.
  std::uint32_t writer_of(std::uint32_t cache, std::uint32_t n) const {
    const sdk::ResolvedNode& attention = graph_.nodes[n];
    std::uint32_t found = none;
    for (std::uint32_t w = 0; w < n; ++w) {
      const sdk::ResolvedNode& node = graph_.nodes[w];
      for (const std::uint32_t v : node.outputs) {
        if (v == none || root(v) != root(cache)) continue;
        if (found != none || node.op != QUERN_OP_KV_WRITE || node.predicate != none) return none;
        for (std::size_t i = 1; i <= 3; ++i)
          if (node.inputs[i] != attention.inputs[i + 2]) return none;
        found = w;
      }
    }
    return found;
  }

  /// Whether what these nodes read is the same still at node `at`, which does their work.
  bool inputs_stay(const Rotation& r, std::uint32_t at) const {
    return std::ranges::none_of(std::array{r.rope_q, r.rope_k, r.write_k, r.write_v},
                                [&](std::uint32_t n) { return inputs_change(n, at); });
  }

  /// The rotations and writes before an attention node, whether or not they can be one kernel.
  std::vector<std::uint32_t> before_attention(std::uint32_t n) const {
    std::vector<std::uint32_t> found;
    const auto add = [&](std::uint32_t value) {
      const std::uint32_t made = maker_[root(value)];
      if (made != none && graph_.nodes[made].op == QUERN_OP_ROPE) found.push_back(made);
    };
    add(graph_.nodes[n].inputs[0]);
    for (const std::size_t cache : {1u, 2u})
      for (const std::uint32_t w : writers_[root(graph_.nodes[n].inputs[cache])]) {
        if (w >= n || graph_.nodes[w].op != QUERN_OP_KV_WRITE) continue;
        found.push_back(w);
        add(graph_.nodes[w].inputs[0]);
      }
    return found;
  }

  void find_rotation(std::uint32_t n) {
    if (graph_.nodes[n].op != QUERN_OP_ATTENTION) return;
    Rotation r{};
    if (const Refusal why = why_no_rotation(n, r); why != nullptr) {
      for (const std::uint32_t before : before_attention(n)) no_rotation_.emplace(before, why);
      return;
    }
    const sdk::ResolvedNode &node = graph_.nodes[n], &rope_q = graph_.nodes[r.rope_q];
    const std::uint32_t last = std::max({r.rope_q, r.rope_k, r.write_k, r.write_v});
    for (const std::uint32_t taken : {r.rope_q, r.rope_k, r.write_k, r.write_v}) done_[taken] = taken != last, moved_to_[taken] = last;
    rotations_[last] = r;
    const std::uint32_t rotated = root(node.inputs[0]);
    if (is_attention(n) && graph_.internal(rotated) && users_[rotated].size() == 1 && is_f32(rope_q.inputs[0]) && inputs_stay(r, n) &&
        !read_between(node.inputs[1], last, n) && !read_between(node.inputs[2], last, n)) {
      attending_[n] = r;
      rotated_by_attention_.insert(r.rope_q);
    }
  }

  /// Why the rotations and writes before an attention node are no one kernel; null: they are `r`.
  Refusal why_no_rotation(std::uint32_t n, Rotation& r) const {
    const sdk::ResolvedNode& node = graph_.nodes[n];
    if (root(node.inputs[1]) == root(node.inputs[2])) return "keys and values lie in one cache";
    if (!sdk::is_float(tensor(node.inputs[1]).dtype) || !sdk::is_float(tensor(node.inputs[2]).dtype)) return "its cache is not of floats";
    if (tensor(node.inputs[0]).rank != 3 || (tensor(node.inputs[0]).ranged & ~1u) != 0) return "its queries are no heads of ranged rows";
    r = {rope_of(node.inputs[0]), none, writer_of(node.inputs[1], n), writer_of(node.inputs[2], n)};
    if (r.rope_q == none) return "its queries come from no plain rotation of f32 without strided views";
    if (r.write_k == none || r.write_v == none || r.write_k == r.write_v)
      return "its caches are not written by one node each, under its table of pages, slots and positions";
    const std::uint32_t keys = graph_.nodes[r.write_k].inputs[0], values = graph_.nodes[r.write_v].inputs[0];
    r.rope_k = rope_of(keys);
    if (r.rope_k == none) return "its keys come from no plain rotation of f32 without strided views";
    if (!is_f32(values)) return "its values are not f32, a part of a value or a strided view";
    if (!graph_.internal(root(keys)) || users_[root(keys)].size() != 1) return "rotated keys are read by another node too";
    const sdk::ResolvedNode &rope_q = graph_.nodes[r.rope_q], &rope_k = graph_.nodes[r.rope_k];
    if (rope_q.inputs[1] != node.inputs[5] || rope_k.inputs[1] != node.inputs[5] || rope_q.inputs[2] != rope_k.inputs[2] ||
        rope_q.attributes->integer(QUERN_KEY_MODE) != rope_k.attributes->integer(QUERN_KEY_MODE))
      return "queries and keys are rotated by other positions, tables or pairs";
    // Nobody else looks between the first of these nodes and the last at what they write.
    const std::uint32_t last = std::max({r.rope_q, r.rope_k, r.write_k, r.write_v});
    for (const std::uint32_t cache : {root(node.inputs[1]), root(node.inputs[2])})
      for (const std::uint32_t user : users_[cache])
        if (user < last) return "another node before it reads its cache";
    for (const std::uint32_t user : users_[root(node.inputs[0])])
      if (user < last) return "another node reads the rotated queries before the cache is written";
    for (const std::uint32_t taken : {r.rope_q, r.rope_k, r.write_k, r.write_v})
      if (done_[taken]) return "another attention takes the same rotations or writes";
    if (!inputs_stay(r, last)) return "what rotations and writes read is written in between";
    return nullptr;
  }

  void emit_rotation(std::uint32_t n, const Rotation& r) {
    const sdk::ResolvedNode &rope_q = graph_.nodes[r.rope_q], &rope_k = graph_.nodes[r.rope_k], &write_k = graph_.nodes[r.write_k],
                            &write_v = graph_.nodes[r.write_v];
    const std::uint32_t q = rope_q.inputs[0], q_out = rope_q.outputs[0], k = rope_k.inputs[0], v = write_v.inputs[0],
                        table = rope_q.inputs[2], k_cache = write_k.outputs[0], v_cache = write_v.outputs[0], blocks = write_k.inputs[1],
                        slot = write_k.inputs[2], position = write_k.inputs[3];
    const auto mode = static_cast<int>(rope_q.attributes->integer(QUERN_KEY_MODE));
    const bool attends = rotated_by_attention_.contains(r.rope_q);
    Step step;
    step.node = n;
    step.nodes = {r.rope_q, r.rope_k, r.write_k, r.write_v};
    step.kernel = "rope.kv_write.vulkan";
    step.reads = {q, k, v, table, blocks, slot, position};
    step.writes = {q_out, k_cache, v_cache};
    step.emit = [=](const StepContext& context, Launcher& launcher) {
      const Tensor queries = context.tensor(q), keys = context.tensor(k_cache), values = context.tensor(v_cache),
                   turns = context.tensor(table), pages = context.tensor(blocks);
      if (attends && queries.dims[0] == 1) return;
      RopeKvParams p{};
      p.q = queries.data;
      p.q_out = context.tensor(q_out).data;
      p.k = context.tensor(k).data;
      p.v = context.tensor(v).data;
      p.table = turns.data;
      p.position = context.tensor(position).data;
      p.row_slot = context.tensor(slot).data;
      p.block_table = pages.data;
      p.k_cache = keys.data;
      p.v_cache = values.data;
      p.faults = launcher.faults();
      p.table_stride = turns.strides[0];
      p.k_page = keys.strides[0];
      p.k_head = keys.strides[1];
      p.k_position = keys.strides[2];
      p.v_page = values.strides[0];
      p.v_head = values.strides[1];
      p.v_position = values.strides[2];
      p.rows = static_cast<uint>(queries.dims[0]);
      p.heads = static_cast<uint>(queries.dims[1]);
      p.kv_heads = static_cast<uint>(keys.dims[1]);
      p.d = static_cast<uint>(queries.dims[2]);
      p.dv = static_cast<uint>(values.dims[3]);
      p.pairs = static_cast<uint>(turns.dims[1]);
      p.positions = static_cast<int>(turns.dims[0]);
      p.mode = mode;
      p.pages = static_cast<int>(keys.dims[0]);
      p.page = static_cast<int>(keys.dims[2]);
      p.sequences = static_cast<int>(pages.dims[0]);
      p.pages_a_sequence = static_cast<int>(pages.dims[1]);
      p.k_dtype = static_cast<int>(keys.dtype);
      p.v_dtype = static_cast<int>(values.dtype);
      if (p.rows == 0) return;
      Launcher::Grid grid = launcher.spread(std::int64_t{p.heads + p.kv_heads} * (p.d - p.pairs) + std::int64_t{p.kv_heads} * p.dv);
      grid.y = std::min<std::int64_t>(p.rows, 65535);
      if (p.rows >= 64) grid.x = (grid.x + 7) / 8;  // what an invocation looks up for its row then serves eight items
      launcher.launch("rope_kv", launcher.item_threads(), grid, p);
    };
    schedule_.steps.push_back(std::move(step));
  }

  bool is_attention(std::uint32_t n) const { return graph_.nodes[n].op == QUERN_OP_ATTENTION && why_no_attention(n) == nullptr; }
  Refusal why_no_attention(std::uint32_t n) const {
    const sdk::ResolvedNode& node = graph_.nodes[n];
    if (const Refusal why = why_alone(node); why != nullptr) return why;
    if (!is_f32(node.inputs[0]) || !is_f32(node.outputs[0]))
      return "its queries or its result are not f32, a part of a value or a strided view";
    for (const std::uint32_t cache : {node.inputs[1], node.inputs[2]})
      if (graph_.values[cache].offset % 16 != 0) return "its cache does not begin at a multiple of 16 bytes";
    std::vector<Tensor> storage;
    return fused_attention_serves(graph_.describe(node, storage), card_) ? nullptr : "no kernel takes its heads, cache and attributes";
  }

  /// Why no rule took a node. The rules say it themselves.
  sdk::Alone alone(std::uint32_t n) const {
    const sdk::ResolvedNode& node = graph_.nodes[n];
    switch (node.op) {
      case QUERN_OP_MATMUL: return {n, "product", why_no_product(n)};
      case QUERN_OP_RMS_NORM: return {n, "norm", why_not_quantised(n)};
      case QUERN_OP_GLU: return {n, "glu", why_not_quantised(n)};
      case QUERN_OP_ATTENTION: return {n, "attention", why_no_attention(n)};
      case QUERN_OP_ROPE:
      case QUERN_OP_KV_WRITE: {
        const auto found = no_rotation_.find(n);
        return {n, "rotation", found != no_rotation_.end() ? found->second : "no attention that can be fused reads what it makes"};
      }
      case QUERN_OP_ADD: {
        Refusal why = "no operand is the result of a fused product";
        for (const std::uint32_t v : node.inputs) {
          const std::uint32_t product = v == none ? none : maker_[root(v)];
          std::uint32_t other = none;
          if (product != none && product < n && is_product(product)) add_of(product, other, &why);
        }
        return {n, "residual", why};
      }
      case QUERN_OP_SAMPLE:
      case QUERN_OP_LOGIT_BIAS:
      case QUERN_OP_PENALIZE: return {n, "draw", "penalties, biases and the draw do not follow one another in whole rows of f32"};
      default: return {n, "", "no rule of this backend takes its op"};
    }
  }

  void emit_attention(std::uint32_t n) {
    const sdk::ResolvedNode& node = graph_.nodes[n];
    Step step;
    step.node = n;
    step.nodes = {n};
    std::vector<Tensor> shapes;
    const bool by_matrices = matrices_ && node.f16_allowed() && matrix_attention_serves(graph_.describe(node, shapes), card_);
    step.kernel = by_matrices ? "attention.matrix.vulkan" : "attention.fused.vulkan";
    for (const std::uint32_t v : node.inputs)
      if (v != none) step.reads.push_back(v);
    step.writes = {node.outputs[0]};
    const auto found = attending_.find(n);
    if (found == attending_.end()) {
      step.emit = [=, &graph = graph_](const StepContext& context, Launcher& launcher) {
        std::vector<Tensor> storage;
        const Call call = graph.call(graph.nodes[n], storage, [&](std::uint32_t v) { return context.tensor(v); });
        if (by_matrices && matrix_attention_pays(call)) launch_matrix_attention(call, launcher);
        else launch_fused_attention(call, nullptr, launcher);
      };
      schedule_.steps.push_back(std::move(step));
      return;
    }
    const Rotation& r = found->second;
    step.kernel = by_matrices ? "attention.matrix.rope.vulkan" : "attention.fused.rope.vulkan";  // one row is summed in another order
    const sdk::ResolvedNode &rope_q = graph_.nodes[r.rope_q], &rope_k = graph_.nodes[r.rope_k], &write_v = graph_.nodes[r.write_v];
    const std::uint32_t q = rope_q.inputs[0], k = rope_k.inputs[0], v = write_v.inputs[0], table = rope_q.inputs[2];
    const std::int64_t mode = rope_q.attributes->integer(QUERN_KEY_MODE);
    for (const std::uint32_t value : {q, k, v, table}) step.reads.push_back(value);
    step.emit = [=, &graph = graph_](const StepContext& context, Launcher& launcher) {
      std::vector<Tensor> storage;
      const Call call = graph.call(graph.nodes[n], storage, [&](std::uint32_t value) { return context.tensor(value); });
      if (by_matrices && matrix_attention_pays(call)) return launch_matrix_attention(call, launcher);
      if (call.input(0).dims[0] != 1) return launch_fused_attention(call, nullptr, launcher);
      for (const Tensor& cache : {call.input(1), call.input(2)}) launcher.touch(touched(cache, true));
      const Unrotated unrotated{context.tensor(q), context.tensor(k), context.tensor(v), context.tensor(table), mode};
      launch_fused_attention(call, &unrotated, launcher);
    };
    schedule_.steps.push_back(std::move(step));
  }

  struct Draw {
    std::uint32_t penalize = none, bias = none;
  };
  /// The node that makes a value that this node alone reads, in whole rows; none where it has another op, or runs under a condition.
  std::uint32_t maker_for(std::uint32_t n, std::uint32_t v, std::uint32_t op) const {
    const std::uint32_t made = maker_[root(v)];
    if (made == none || graph_.nodes[made].op != op || !is_f32(v) || users_[root(v)].size() != 1 || users_[root(v)].front() != n)
      return none;
    return graph_.nodes[made].predicate == none && !graph_.nodes[made].invariant ? made : none;
  }
  void find_draw(std::uint32_t n) {
    const sdk::ResolvedNode& node = graph_.nodes[n];
    if (node.op != QUERN_OP_SAMPLE || node.predicate != none || node.invariant) return;
    Draw draw;
    draw.bias = maker_for(n, node.inputs[0], QUERN_OP_LOGIT_BIAS);
    if (draw.bias == none) return;
    const std::uint32_t penalties = graph_.nodes[draw.bias].inputs[0];
    draw.penalize = maker_for(draw.bias, penalties, QUERN_OP_PENALIZE);
    if (draw.penalize == none || !graph_.internal(root(penalties)) || !is_f32(graph_.nodes[draw.penalize].inputs[0])) return;
    if (inputs_change(draw.penalize, n) || inputs_change(draw.bias, n)) return;
    draws_[n] = draw;
    done_[draw.penalize] = done_[draw.bias] = true;
  }
  void emit_draw(std::uint32_t n, const Draw& draw) {
    Step step;
    step.node = draw.penalize;
    step.nodes = {draw.penalize, draw.bias, n};
    step.kernel = "sample.fused.vulkan";
    for (const std::uint32_t part : {draw.penalize, draw.bias, n}) {
      for (const std::uint32_t v : graph_.nodes[part].inputs)
        if (v != none) step.reads.push_back(v);
      for (const std::uint32_t v : graph_.nodes[part].outputs) step.writes.push_back(v);
    }
    std::vector<Tensor> shapes;
    const auto slot = static_cast<std::uint32_t>(schedule_.extras.size());
    schedule_.extras.push_back(draw_scratch(graph_.describe(graph_.nodes[n], shapes)));
    step.extra_writes = {slot};
    step.emit = [=, &graph = graph_](const StepContext& context, Launcher& launcher) {
      std::vector<Tensor> storage[3];
      const auto call = [&](std::uint32_t part, std::vector<Tensor>& held) {
        return graph.call(graph.nodes[part], held, [&](std::uint32_t v) { return context.tensor(v); });
      };
      Call sample = call(n, storage[2]);
      sample.scratch = context.extra(slot);
      launch_draw(call(draw.penalize, storage[0]), call(draw.bias, storage[1]), sample, launcher);
    };
    schedule_.steps.push_back(std::move(step));
  }

  const sdk::ResolvedGraph& graph_;
  const CardFacts& card_;
  const bool matrices_;  // products of many rows by cooperative matrices
  std::vector<std::vector<std::uint32_t>> users_;
  std::vector<std::uint32_t> maker_;                 // the node that writes a value last
  std::vector<std::vector<std::uint32_t>> writers_;  // every node that does, in their order
  std::vector<bool> done_;
  std::map<std::uint32_t, std::vector<std::uint32_t>> products_of_;  // by the root of their activations
  struct Pair {
    std::uint32_t gate = none, up = none;
  };
  std::map<Content, Source> activations_;
  std::map<std::uint32_t, std::uint32_t> moved_to_;  // nodes that run as late as another
  std::map<std::uint32_t, Pair> pairs_;              // by either node
  std::map<std::uint32_t, Rotation> rotations_;      // by their last node
  std::map<std::uint32_t, Refusal> no_rotation_;     // of rotations and writes that are no one kernel
  std::map<std::uint32_t, Draw> draws_;              // by the node that draws
  std::map<std::uint32_t, Rotation> attending_;      // by the attention node that does their work where there is one row
  std::set<std::uint32_t> rotated_by_attention_;     // the rope of q of each of those
  Schedule schedule_;
  std::uint32_t halves_slot_ = none;
};

}  // namespace

Schedule fused_schedule(const sdk::ResolvedGraph& graph, const CardFacts& card, Tier tier) { return Fuser(graph, card, tier).run(); }

}  // namespace quern::vulkan
