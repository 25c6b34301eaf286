// See wide.hpp.
#include "wide.hpp"

#include "fusion.hpp"
#include "ops/attention.hpp"
#include "ops/attention_batch.hpp"
#include "ops/mixed.hpp"
#include "ops/norm.hpp"

#include <algorithm>
#include <map>

namespace quern::cuda {
namespace {

constexpr std::uint32_t none = QUERN_NONE;
constexpr std::uint32_t least_rows = 9;       // fewer have the decode schedules
constexpr std::int64_t most_float_rows = 32;  // of weights of f16 and bf16, and of prompts: more have products of the library
constexpr float glu_scale = 1.0f / 64;        // of f16 results: gate * up may be large, and f16 ends at 65504
constexpr float gate_scale = 16;              // gate and up of f16 products are kept in f16, so many times smaller

/// The 16-bit copy of a value [m][k] that products read, perhaps normalised.
struct Key {
  std::uint32_t value;  // root
  std::uint32_t norm;   // node, or none
  bool half;            // f16, else bf16
  auto operator<=>(const Key&) const = default;
};
struct Operand {
  std::uint32_t slot = 0;
  std::int64_t k = 0;
  float scale = 1;  // of what is stored
  bool filled = false;
};

class Fuser : Uses {
 public:
  /// `mixed`: products by kernels/mixed.cu, which that card has.
  Fuser(const Graph& graph, const CardFacts& card, bool mixed)
      : Uses(graph),
        card_(card),
        mixed_(mixed),
        done_(graph.nodes.size(), false),
        norms_(graph.nodes.size(), false),
        made_(graph.nodes.size(), false) {}

  Schedule run() {
    choose_symbol();
    if (symbol_ == none) return nothing("no product of the graph has a ranged number of rows that may be this large");
    schedule_.rows_symbol = symbol_;
    floats_ = all_floats();
    schedule_.least_rows = mixes() || floats_ ? 2 : least_rows;
    if (mixes()) {
      schedule_.most_rows = static_cast<std::uint32_t>(most_rows());
      if (!mostly_mixed()) return nothing("most bytes of the graph's weights are of a kind that no kernel reads in its own format");
    }
    find_outputs();
    if (mixes() && !floats_) {  // of a prompt the rows see each other's keys, which attention_batch.cu takes one at a time
      schedule_.most_prompt_rows = static_cast<std::uint32_t>(most_float_rows);
      schedule_.outputs_symbol = outputs_ == none ? none : symbol_of(outputs_);
    }
    find_norms();
    find_operands();
    if (operands_.empty()) return nothing("no product of the graph runs in 16 bits");
    for (std::uint32_t n = 0; n < graph_.nodes.size(); ++n)
      if (const auto sum = normed_sum_at(n); sum && symbol_of(graph_.nodes[n].outputs[0]) == symbol_) {
        sums_[n] = *sum;
        done_[sum->norm] = true;
      }
    for (std::uint32_t n = 0; n < graph_.nodes.size(); ++n) {
      if (graph_.nodes[n].op != QUERN_OP_ATTENTION) continue;
      Refusal why = nullptr;
      auto found = attention_at(n, &why);
      if (found) why = why_not_taken(n, *found);
      const Refusal of_others = why != nullptr ? why : found->why_no_norms;
      if (of_others != nullptr)
        for (const std::uint32_t around : around_attention(n)) no_attention_.emplace(around, of_others);
      if (why != nullptr) continue;
      for (const std::uint32_t taken : found->nodes) done_[taken] = true;
      attention_of_queries_[maker(root(found->q))].push_back(n);
      attention_[n] = {std::move(*found), none, false};
    }
    if (mixes() && floats_ && serves_one_row()) schedule_.least_rows = 1;
    Schedule general = general_schedule(graph_);
    for (std::uint32_t n = 0; n < graph_.nodes.size(); ++n) {
      if (done_[n]) continue;
      if (attention_.contains(n)) emit_attention(n);
      else if (sums_.contains(n)) emit_row(n, sums_.at(n).norm, sums_.at(n).other, graph_.nodes[n].outputs[0]);
      else if (norms_[n]) emit_norm(n);
      else if (is_product(n)) emit_products(n);
      else if (activates(n)) emit_activation(n);
      else if (makes_operand(n)) emit_row(n, n, none, graph_.nodes[n].outputs[0]);
      else {
        schedule_.alone.push_back(alone(n));
        schedule_.steps.push_back(std::move(general.steps[n]));
      }
    }
    return std::move(schedule_);
  }

 private:
  std::uint32_t symbol_of(std::uint32_t v) const { return tensor(v).ranged == 1 ? graph_.source.values[v].symbols[0] - 1 : none; }

  /// The symbol of the rows of most products.
  void choose_symbol() {
    std::map<std::uint32_t, int> votes;
    for (std::uint32_t n = 0; n < graph_.nodes.size(); ++n)
      if (graph_.nodes[n].op == QUERN_OP_MATMUL && symbol_of(graph_.nodes[n].inputs[0]) != none &&
          tensor(graph_.nodes[n].inputs[0]).dims[0] >= (mixes() ? 2 : 64))
        ++votes[symbol_of(graph_.nodes[n].inputs[0])];
    for (const auto& [symbol, count] : votes)
      if (symbol_ == none || count > votes[symbol_]) symbol_ = symbol;
  }

  Refusal why_no_product(std::uint32_t n) const {
    const Node& node = graph_.nodes[n];
    if (node.op != QUERN_OP_MATMUL) return "it is no product of two matrices";
    if (!joins(n)) return why_alone(n);
    if (!stable(node.inputs[0]) || !stable(node.outputs[0])) return "its operand or its result is written in place";
    if (node.inputs.size() > 2 && !given(node.inputs[2])) return "its bias is made in the graph";
    const Tensor &a = tensor(node.inputs[0]), &b = tensor(node.inputs[1]), &y = tensor(node.outputs[0]);
    if (node.inputs.size() > 3 && node.inputs[3] != none) return "it has an addend of its own";
    const bool sixteen = b.dtype == QUERN_F16 || b.dtype == QUERN_BF16 || is_block(b.dtype);
    if (!sixteen) return "its weights are neither of 16 bits nor of blocks";
    if (b.dtype == QUERN_F16 || (mixes() && b.dtype != QUERN_BF16) ? !node.f16_allowed() : !node.bf16_allowed())
      return "its numerics allow no 16-bit activations";
    if (mixes() && (!mixed_serves(b, card_) || b.dims[0] % 16 != 0)) return "no kernel reads its weights in their own format and shape";
    if (graph_.source.values[node.inputs[1]].kind != QUERN_VALUE_CONSTANT) return "its weights are no constant of the graph";
    if (a.dtype != QUERN_F32 || y.dtype != QUERN_F32) return "its operand or its result is not f32";
    if (a.rank != 2 || b.rank != 2) return "its operand or its weights are no matrix";
    if (mixes() ? symbol_of(node.inputs[0]) == none : symbol_of(node.inputs[0]) != symbol_)
      return "its number of rows is another one than that of most products";
    if (!b.packed_layout && !is_contiguous(b)) return "its weights are a strided view";
    if (b.dims[0] % 8 != 0 || b.last() % 16 != 0) return "its weights have rows or columns that are no multiple of 8 and 16";
    if (!whole(node.inputs[0]) || !whole(node.outputs[0])) return "its operand or its result is a part of a value or a strided view";
    if (node.attributes->integer(QUERN_KEY_TRANSPOSE_A) != 0 || node.attributes->integer(QUERN_KEY_TRANSPOSE_B) != 0)
      return "an operand is transposed";
    if (node.attributes->real(QUERN_KEY_ALPHA) != 1.0) return "it has a factor";
    return nullptr;
  }
  bool is_product(std::uint32_t n) const { return why_no_product(n) == nullptr; }
  bool mixes() const { return mixed_; }
  /// Whether most bytes of the weights that the step's rows meet are read by mixed.cu: other products then run by themselves.
  bool mostly_mixed() const {
    std::uint64_t mixed = 0, others = 0;
    for (std::uint32_t n = 0; n < graph_.nodes.size(); ++n) {
      const Node& node = graph_.nodes[n];
      if (node.op == QUERN_OP_MATMUL && symbol_of(node.inputs[0]) == symbol_)
        (is_product(n) ? mixed : others) += graph_.values[node.inputs[1]].bytes;
    }
    return mixed > others;
  }
  /// The value whose rows are those that the step gives outputs of: of a prompt few, of many sequences as many as the step has.
  void find_outputs() {
    for (const Node& node : graph_.nodes)
      if (node.op == QUERN_OP_MATMUL && symbol_of(node.inputs[0]) != symbol_ && maker(root(node.inputs[0])) != none)
        outputs_ = node.inputs[0];
  }
  /// Whether no product has quantised weights: then the decode schedules serve one row only.
  bool all_floats() const {
    for (std::uint32_t n = 0; n < graph_.nodes.size(); ++n)
      if (is_product(n) && is_block(tensor(graph_.nodes[n].inputs[1]).dtype)) return false;
    return true;
  }
  bool half_of(std::uint32_t product) const {
    const quern_dtype dtype = tensor(graph_.nodes[product].inputs[1]).dtype;
    return mixes() ? dtype != QUERN_BF16 : dtype == QUERN_F16;
  }
  /// Whether a step of one row is no more kernels than in the decode schedule: each attention makes its rotations and writes.
  bool serves_one_row() const {
    for (std::uint32_t n = 0; n < graph_.nodes.size(); ++n)
      if (graph_.nodes[n].op == QUERN_OP_ATTENTION && (!attention_.contains(n) || has_bias(attention_.at(n).of))) return false;
    return !attention_.empty();
  }
  bool has_bias(const Attention& what) const {
    return std::ranges::any_of(std::initializer_list<std::uint32_t>{what.q, what.k, what.v},
                               [&](std::uint32_t v) { return bias_at(v).value != none; });
  }
  /// The bias of a value that is columns of a product, and its first element that counts.
  struct BiasAt {
    std::uint32_t value;
    std::int64_t first;
    Address in(const StepContext& context) const {
      return value == none ? 0 : context.tensor(value).data + static_cast<Address>(first) * 4;
    }
  };
  BiasAt bias_at(std::uint32_t v) const { return {bias_of(maker(root(v))), columns_of(v)->first}; }
  std::uint32_t bias_of(std::uint32_t product) const {
    const Node& node = graph_.nodes[product];
    return node.inputs.size() > 2 ? node.inputs[2] : none;
  }
  /// Whether all that reads a value are products of one 16-bit type.
  bool only_products(std::uint32_t r) const {
    return !kept(r) && !readers(r).empty() && std::ranges::all_of(readers(r), [&](std::uint32_t n) {
      return is_product(n) && root(graph_.nodes[n].inputs[0]) == r && half_of(n) == half_of(readers(r).front());
    });
  }

  void find_norms() {
    for (std::uint32_t n = 0; n < graph_.nodes.size(); ++n) {
      norms_[n] = graph_.nodes[n].op == QUERN_OP_RMS_NORM && why_no_norm(n) == nullptr;
    }
  }
  /// Why a norm does not make the 16-bit operand of the products behind it.
  Refusal why_no_norm(std::uint32_t n) const {
    const Node& node = graph_.nodes[n];
    if (!joins(n)) return why_alone(n);
    if (node.inputs.size() < 2 || node.inputs[1] == none) return "it has no weight";
    if (!stable(node.inputs[0]) || !stable(node.outputs[0])) return "what it reads or its result is written in place";
    if (!only_products(root(node.outputs[0]))) return "its result is read by more than fused products of one 16-bit type";
    if (!whole(node.inputs[0])) return "it reads a part of a value or a strided view";
    if (tensor(node.inputs[0]).dtype != QUERN_F32) return "what it reads is not f32";
    if (graph_.source.values[node.inputs[1]].kind != QUERN_VALUE_CONSTANT)  // read before what comes before has ended
      return "its weight is no constant of the graph";
    return nullptr;
  }

  Key key_of(std::uint32_t product) const {
    const std::uint32_t a = root(graph_.nodes[product].inputs[0]), made_by = maker(a);
    if (made_by != none && norms_[made_by]) return {root(graph_.nodes[made_by].inputs[0]), made_by, half_of(product)};
    return {a, none, half_of(product)};
  }
  std::uint32_t slot(std::uint64_t bytes) {
    schedule_.extras.push_back(bytes);
    return static_cast<std::uint32_t>(schedule_.extras.size() - 1);
  }
  std::uint64_t most_rows() const {
    return mixes() ? floats_ ? most_float_rows : most_mixed_rows : static_cast<std::uint64_t>(graph_.source.symbols[symbol_].max);
  }
  /// Bytes of an operand of a value: those of the head may be other rows.
  std::uint64_t operand_size(std::uint32_t value, std::int64_t k) const {
    const std::uint64_t rows = symbol_of(value) == symbol_ ? most_rows() : static_cast<std::uint64_t>(tensor(value).dims[0]);
    return mixes() ? static_cast<std::uint64_t>(operand_bytes(static_cast<std::int64_t>(rows), k))
                   : rows * static_cast<std::uint64_t>(k) * 2;
  }

  void find_operands() {
    std::uint64_t largest = 0;
    for (std::uint32_t n = 0; n < graph_.nodes.size(); ++n) {
      if (!is_product(n)) continue;
      const Tensor& w = tensor(graph_.nodes[n].inputs[1]);
      if (is_block(w.dtype) && !mixes()) largest = std::max(largest, static_cast<std::uint64_t>(w.elements()) * 2);
      const Key key = key_of(n);
      if (operands_.contains(key)) continue;
      operands_[key] = {slot(operand_size(graph_.nodes[n].inputs[0], w.last())), w.last()};
    }
    workspace_ = slot(std::max<std::uint64_t>(largest, 1));
  }
  /// The operand that an only_products value is wanted as; or null.
  Operand* wanted(std::uint32_t r) {
    if (!only_products(r)) return nullptr;
    const auto at = operands_.find({r, none, half_of(readers(r).front())});
    return at != operands_.end() && !at->second.filled ? &at->second : nullptr;
  }

  /// Whether a norm's result is an operand, which it can make in its own pass: what emit_norm does not take.
  bool makes_operand(std::uint32_t n) {
    return row_norm(n) && symbol_of(graph_.nodes[n].outputs[0]) == symbol_ && wanted(root(graph_.nodes[n].outputs[0])) != nullptr;
  }
  /// Whether this is an activation of a product whose result is an operand.
  bool activates(std::uint32_t n) {
    const Node& node = graph_.nodes[n];
    const std::uint32_t made_by = node.inputs.empty() || node.inputs[0] == none ? none : maker(root(node.inputs[0]));
    int activation = act_none;
    return made_by != none && is_product(made_by) && activation_behind(made_by, activation) == n &&
           tensor(node.outputs[0]).last() % 8 == 0 && wanted(root(node.outputs[0])) != nullptr;
  }
  void emit_activation(std::uint32_t n) {
    done_[n] = true;
    const Node& node = graph_.nodes[n];
    const std::uint32_t x = node.inputs[0];
    int activation = act_none;
    activation_behind(maker(root(x)), activation);
    Operand& out = *wanted(root(node.outputs[0]));
    const bool half = half_of(readers(root(node.outputs[0])).front());
    out.filled = true;
    Step step;
    step.first_node = n;
    step.nodes = {n};
    step.kernel = "activation.16.cuda";
    step.reads = {x};
    step.extras = {out.slot};
    step.emit = [=, to = out.slot, mixed = mixes()](const StepContext& context, Launcher& launcher) {
      const Tensor& t = context.tensor(x);
      const std::int64_t m = t.dims[0], k = t.last();
      const Glu16Params p{t.data, context.extra(to), m, static_cast<int>(k), half, 1.0f, 0.0f, activation, room_of(mixed, m), 1};
      launcher.launch("wide", "glu16", launcher.spread(m * k / 8), 256, p);
    };
    schedule_.steps.push_back(std::move(step));
  }
  /// A norm, perhaps with a sum, and the operand that the next products take of the result, perhaps through their norm.
  void emit_row(std::uint32_t n, std::uint32_t norm, std::uint32_t other, std::uint32_t result) {
    done_[n] = true;
    const Node& node = graph_.nodes[norm];
    const bool layer = node.op == QUERN_OP_LAYER_NORM;
    const std::uint32_t x = node.inputs[0], weight = node.inputs[1], bias = layer && node.inputs.size() > 2 ? node.inputs[2] : none;
    const std::uint32_t r = root(result);
    // The operand of the result itself, or of one norm of it.
    Operand* out = nullptr;
    std::uint32_t next = none;
    bool half = false;
    for (auto& [key, operand] : operands_) {
      const bool of_norm = key.norm != none && norms_[key.norm] && !done_[key.norm];
      if (key.value != r || operand.filled || (key.norm != none && !of_norm)) continue;
      next = key.norm, out = &operand, half = key.half;
      if (next != none) done_[next] = true;
      break;
    }
    const bool store = out == nullptr || next != none || !only_products(r);
    Step step;
    step.first_node = n;
    step.nodes = {n};
    if (norm != n) step.nodes.push_back(norm);
    if (next != none) step.nodes.push_back(next);
    step.kernel = concat(layer ? "layer_norm" : "norm", other == none ? "" : ".add", next == none ? "" : ".norm",
                         out == nullptr ? "" : ".16", ".cuda");
    const std::uint32_t next_weight = next == none ? none : graph_.nodes[next].inputs[1];
    step.reads = {x, weight, bias, other, next_weight};
    if (store) step.writes = {result};
    std::uint32_t to = none;
    if (out != nullptr) {
      out->filled = true;
      to = out->slot;
      step.extras = {to};
    }
    const auto real = [&](std::uint32_t of, std::uint32_t key) { return static_cast<float>(graph_.nodes[of].attributes->real(key)); };
    const float offset = layer ? 0.0f : real(norm, QUERN_KEY_WEIGHT_OFFSET), epsilon = real(norm, QUERN_KEY_EPSILON),
                next_offset = next == none ? 0.0f : real(next, QUERN_KEY_WEIGHT_OFFSET),
                next_epsilon = next == none ? 0.0f : real(next, QUERN_KEY_EPSILON);
    const bool settles = mixes() && !batch_settled_, in_product = takes_raw() && next != none;
    batch_settled_ = batch_settled_ || settles;
    step.emit = [=, mixed = mixes()](const StepContext& context, Launcher& launcher) {
      const auto address = [&](std::uint32_t v) { return v == none ? 0 : context.tensor(v).data; };
      const Tensor& rows = context.tensor(x);
      const std::int64_t m = rows.dims[0];
      RowParams p{};
      p.x = rows.data;
      p.weight = address(weight);
      p.bias = address(bias);
      p.layer = layer ? 1 : 0;
      p.offset = offset;
      p.epsilon = epsilon;
      p.added = address(other);
      if (store) p.y = context.tensor(result).data;
      if (to != none && !(in_product && m == 1)) {  // of one row its products make the norm
        p.y16 = context.extra(to);
        p.half = half ? 1 : 0;
        p.columns = room_of(mixed, m);
        p.next_weight = address(next_weight);
        p.next_offset = next_offset;
        p.next_epsilon = next_epsilon;
      }
      p.h = static_cast<int>(rows.last());
      p.settles = settles ? 1 : 0;
      launch_norm_row(p, m, launcher);
    };
    schedule_.steps.push_back(std::move(step));
  }

  /// The columns of an operand of mixed.cu, else 0.
  static int room_of(bool mixed, std::int64_t rows) { return mixed ? static_cast<int>(operand_columns(rows)) : 0; }

  void emit_norm(std::uint32_t n) {
    done_[n] = true;
    const Node& node = graph_.nodes[n];
    const std::uint32_t x = node.inputs[0], weight = node.inputs[1];
    const bool half = half_of(readers(root(node.outputs[0])).front());
    Operand& operand = operands_.at({root(x), n, half});
    operand.filled = true;
    Step step;
    step.first_node = n;
    step.nodes = {n};
    step.kernel = "rms_norm.16.cuda";
    step.reads = {x, weight};
    step.extras = {operand.slot};
    const auto epsilon = static_cast<float>(node.attributes->real(QUERN_KEY_EPSILON)),
               offset = static_cast<float>(node.attributes->real(QUERN_KEY_WEIGHT_OFFSET));
    if (takes_raw()) step.idle = [](std::int64_t rows) { return rows == 1; };  // its products do it
    const bool settles = mixes() && !batch_settled_;
    batch_settled_ = batch_settled_ || settles;
    step.emit = [=, to = operand.slot, raw = takes_raw(), mixed = mixes()](const StepContext& context, Launcher& launcher) {
      const Tensor& t = context.tensor(x);
      if (raw && t.rows() == 1) return;  // its products do it
      const Norm16Params p{t.data, context.tensor(weight).data, context.extra(to), static_cast<int>(t.last()), half, epsilon,
                           offset, room_of(mixed, t.rows()),    settles ? 1 : 0};
      launcher.launch("wide", "norm16", {t.rows(), 1, 1}, 256, p);
    };
    schedule_.steps.push_back(std::move(step));
  }

  /// Whether products of one row read f32 and make its norm themselves.
  bool takes_raw() const { return mixes() && floats_; }
  /// The norm of an operand, for products that make it themselves.
  struct Norm {
    std::uint32_t value = none, weight = none;
    float offset = 0, epsilon = 0;
    bool settles = false;
  };
  Norm norm_of(const Key& key) {
    if (!takes_raw() || key.norm == none) return {};
    const Node& node = graph_.nodes[key.norm];
    const bool first = !settled_;
    settled_ = true;
    return {key.value, node.inputs[1], static_cast<float>(node.attributes->real(QUERN_KEY_WEIGHT_OFFSET)),
            static_cast<float>(node.attributes->real(QUERN_KEY_EPSILON)), first};
  }
  static void take_raw(MixedParams& p, const Norm& norm, const StepContext& context) {
    if (p.t != 1 || norm.value == none) return;
    p.raw = context.tensor(norm.value).data;
    p.raw_weight = context.tensor(norm.weight).data;
    p.raw_offset = norm.offset;
    p.epsilon = norm.epsilon;
    p.settles = norm.settles ? 1 : 0;
  }

  void ensure(const Key& key, std::uint32_t node) {
    Operand& operand = operands_.at(key);
    if (operand.filled) return;
    operand.filled = true;
    const std::int64_t in_k = operand.k;
    Step step;
    step.first_node = node;
    step.kernel = "to_16.cuda";
    step.reads = {key.value};
    step.extras = {operand.slot};
    step.emit = [=, to = operand.slot, mixed = mixes()](const StepContext& context, Launcher& launcher) {
      const Tensor& t = context.tensor(key.value);
      const To16Params p{t.data, context.extra(to), t.elements(), key.half, room_of(mixed, t.elements() / in_k), static_cast<int>(in_k)};
      launcher.launch("wide", "to16", launcher.spread(t.elements() / 4), 256, p);
    };
    schedule_.steps.push_back(std::move(step));
  }

  /// Where a product's rows go: `row` elements apart.
  struct Target {
    Address y, c, bias;
    std::int64_t row;
  };
  /// One product, its weights copied to scratch first where there is no 16-bit copy.
  static void product(const Tensor& w, Address operand, float scale, bool half, std::int64_t m, const Target& to, Address workspace,
                      Launcher& launcher, bool y16 = false) {
    Address weights = launcher.gpu().shadows().find(w);
    if (weights == 0) {
      const UnpackParams unpack{blocks_of(w), workspace, QUERN_BF16, w.dims[0], w.last()};
      launcher.launch("weights", "unpack_rows", launcher.spread(w.elements() / 16), 256, unpack);
      weights = workspace;
    }
    launcher.dense({operand, weights, to.bias, to.c, to.y, static_cast<int>(m), static_cast<int>(w.dims[0]), static_cast<int>(w.last()),
                    static_cast<int>(to.row), 1.0f / scale, y16},
                   half);
  }

  /// Rows of a matrix that are one part of a step.
  struct Part {
    std::uint32_t weight;
    std::int64_t first, rows;
  };
  Part all_rows(std::uint32_t product) const {
    const std::uint32_t weight = graph_.nodes[product].inputs[1];
    return {weight, 0, tensor(weight).dims[0]};
  }
  /// The parameters of kernels/mixed.cu for the products of an operand.
  static MixedParams mixed_params(const std::vector<Part>& parts, const Operand& in, std::int64_t m, const StepContext& context) {
    MixedParams p{};
    p.t = static_cast<int>(m);
    p.columns = room_of(true, m);
    p.parts = static_cast<int>(parts.size());
    for (std::size_t i = 0; i < parts.size(); ++i) {
      p.part[i].w = blocks_of_rows(context.tensor(parts[i].weight), parts[i].first);
      p.part[i].rows = static_cast<int>(parts[i].rows);
    }
    p.k = static_cast<int>(in.k);
    p.x = context.extra(in.slot);
    p.alpha = 1.0f / in.scale;
    return p;
  }

  /// Products of one operand into a buffer, side by side: one product where their 16-bit weights follow one another.
  /// `smaller` not 0: the buffer has f16, so many times smaller.
  void side_by_side(const std::vector<std::uint32_t>& group, const Key& key, std::uint32_t buffer, const char* kernel, float smaller = 0) {
    const Operand in = operands_.at(key);
    std::vector<std::uint32_t> weights;
    std::vector<Part> parts;
    std::int64_t row = 0;
    for (const std::uint32_t n : group) {
      parts.push_back(all_rows(n));
      weights.push_back(parts.back().weight);
      row += parts.back().rows;
    }
    if (!mixes()) schedule_.dense.push_back(weights);
    Step step;
    step.first_node = group.front();
    step.nodes = group;
    step.kernel = kernel;
    step.reads = weights;
    step.extras = {in.slot, buffer, workspace_};
    const Norm norm = norm_of(key);
    for (const std::uint32_t v : {norm.value, norm.weight}) step.reads.push_back(v);
    const std::uint32_t rows_of = graph_.nodes[group.front()].inputs[0], workspace = workspace_;
    step.emit = [=, mixed = mixes()](const StepContext& context, Launcher& launcher) {
      const std::int64_t m = context.tensor(rows_of).dims[0];
      if (mixed) {
        MixedParams p = mixed_params(parts, in, m, context);
        take_raw(p, norm, context);
        Address y = context.extra(buffer);
        for (int i = 0; i < p.parts; ++i) {
          p.part[i].y = y;
          p.part[i].row = static_cast<int>(row);
          y += static_cast<Address>(p.part[i].rows) * 4;
        }
        return launch_mixed(p, launcher);
      }
      const Shadows& shadows = launcher.gpu().shadows();
      const Tensor& first = context.tensor(weights.front());
      Address follows = shadows.find(first);
      bool joined = follows != 0;
      for (const std::uint32_t v : weights) {
        const Tensor& w = context.tensor(v);
        joined = joined && shadows.find(w) == follows;
        follows += static_cast<Address>(w.elements()) * 2;
      }
      const Address y = context.extra(buffer), x = context.extra(in.slot);
      const bool y16 = smaller != 0;
      const float scale = y16 ? in.scale * smaller : in.scale;
      if (joined) {
        launcher.dense({x, shadows.find(first), 0, 0, y, static_cast<int>(m), static_cast<int>(row), static_cast<int>(in.k),
                        static_cast<int>(row), 1.0f / scale, y16},
                       key.half);
        return;
      }
      std::int64_t column = 0;
      for (const std::uint32_t v : weights) {
        const Tensor& w = context.tensor(v);
        product(w, x, scale, key.half, m, {y + static_cast<Address>(column) * (y16 ? 2 : 4), 0, 0, row}, context.extra(workspace), launcher,
                y16);
        column += w.dims[0];
      }
    };
    schedule_.steps.push_back(std::move(step));
  }

  void emit_products(std::uint32_t first) {
    const Key key = key_of(first);
    ensure(key, first);
    // Queries, keys and values of an attention that takes them from a buffer.
    for (const std::uint32_t n : attention_of_queries_[first])
      if (auto& what = attention_.at(n); what.buffer == none) {
        const std::vector<std::uint32_t> group = products_of(what.of);
        std::uint64_t columns = 0;
        for (const std::uint32_t g : group) {
          done_[g] = true;
          columns += static_cast<std::uint64_t>(tensor(graph_.nodes[g].inputs[1]).dims[0]);
        }
        what.buffer = slot(most_rows() * columns * 4);
        const Tensor &k = tensor(graph_.nodes[n].inputs[1]), &v = tensor(graph_.nodes[n].inputs[2]);
        what.half = !mixes() && key.half && k.dtype == QUERN_F16 && v.dtype == QUERN_F16 &&
                    rope_by_eights(k.last(), v.last(), tensor(what.of.table));
        const char* const kernel = group.size() == 1 ? mixes() ? "matmul.mixed.one.cuda" : "matmul.16.one.cuda"
                                   : mixes()         ? "matmul.mixed.three.cuda"
                                                     : "matmul.16.three.cuda";
        return side_by_side(group, key, what.buffer, kernel, what.half ? 1.0f : 0.0f);
      }
    // Gate and up: two products, or the halves of one.
    const std::uint32_t second = first + 1;
    if (second < graph_.nodes.size() && !done_[second] && why_no_glu(first, second) == nullptr) {
      const Glu glu = *glu_of(first, second);
      if (Operand* out = wanted(root(graph_.nodes[glu.node].outputs[0])); out != nullptr)
        return emit_glu({first, second}, {all_rows(first), all_rows(second)}, glu, key, *out);
    }
    if (const auto glu = glu_of_columns(first); glu && why_no_halves(first, *glu) == nullptr)
      if (Operand* out = wanted(root(graph_.nodes[glu->node].outputs[0])); out != nullptr) {
        const Part all = all_rows(first);
        return emit_glu({first}, {{all.weight, glu->gate, all.rows / 2}, {all.weight, glu->up, all.rows / 2}}, *glu, key, *out);
      }
    done_[first] = true;
    const Node& node = graph_.nodes[first];
    std::uint32_t residual = none, stored = node.outputs[0];
    std::uint32_t add = add_of(first, first, made_, residual);
    if (add != none && sums_.contains(add)) add = residual = none;
    if (add != none) {
      stored = graph_.nodes[add].outputs[0];
      done_[add] = made_[add] = true;
    }
    std::uint32_t residual2 = none, second_add = mixes() && add != none ? add_of(add, first, made_, residual2) : none;
    if (second_add != none && sums_.contains(second_add)) second_add = residual2 = none;
    if (second_add != none) {
      stored = graph_.nodes[second_add].outputs[0];
      done_[second_add] = made_[second_add] = true;
    }
    const Operand in = operands_.at(key);
    const std::uint32_t weights = node.inputs[1], bias = bias_of(first), workspace = workspace_;
    if (!mixes()) schedule_.dense.push_back({weights});
    Step step;
    step.first_node = first;
    step.nodes = {first};
    for (const std::uint32_t sum : {add, second_add})
      if (sum != none) step.nodes.push_back(sum);
    step.kernel = concat(mixes() ? "matmul.mixed" : "matmul.16", add == none ? "" : ".add", second_add == none ? "" : ".add", ".cuda");
    const Norm norm = norm_of(key);
    step.reads = {weights, bias, residual, residual2, norm.value, norm.weight};
    step.writes = {stored};
    step.extras = {in.slot, workspace_};
    step.emit = [=, half = key.half, mixed = mixes(), own = all_rows(first)](const StepContext& context, Launcher& launcher) {
      const Tensor &w = context.tensor(weights), &y = context.tensor(stored);
      if (mixed) {
        for (std::int64_t from = 0; from < y.dims[0]; from += most_mixed_rows) {  // of the head more at a time
          MixedParams p = mixed_params({own}, in, y.dims[0], context);
          const auto bytes = static_cast<Address>(from * w.dims[0]) * 4;
          p.t = static_cast<int>(std::min(most_mixed_rows, y.dims[0] - from));
          p.x += static_cast<Address>(operand_bytes(from, in.k));
          if (y.dims[0] == 1) take_raw(p, norm, context);
          p.part[0].y = y.data + bytes;
          p.part[0].row = p.part[0].rows;
          p.part[0].bias = bias == none ? 0 : context.tensor(bias).data;
          p.residual = residual == none ? 0 : context.tensor(residual).data + bytes;
          p.residual2 = residual2 == none ? 0 : context.tensor(residual2).data + bytes;
          launch_mixed(p, launcher);
        }
        return;
      }
      product(w, context.extra(in.slot), in.scale, half, y.dims[0],
              {y.data, residual == none ? 0 : context.tensor(residual).data, bias == none ? 0 : context.tensor(bias).data, w.dims[0]},
              context.extra(workspace), launcher);
    };
    schedule_.steps.push_back(std::move(step));
  }

  /// Why two nodes are no gate and up of one operand whose gated activation is made with them.
  Refusal why_no_glu(std::uint32_t gate, std::uint32_t up) const {
    if (!is_product(gate) || !is_product(up)) return "gate and up are no two products in 16 bits";
    if (up != gate + 1) return "gate and up are no neighbours in this order";
    if (key_of(gate) != key_of(up)) return "gate and up are products of different operands";
    Refusal why = nullptr;
    if (!glu_of(gate, up, &why)) return why;
    if (tensor(graph_.nodes[gate].inputs[1]).dims[0] != tensor(graph_.nodes[up].inputs[1]).dims[0])
      return "gate and up have different numbers of rows of weights";
    return nullptr;
  }

  /// Why the halves of one product are no gate and up in one step.
  Refusal why_no_halves(std::uint32_t product, const Glu& glu) const {
    if (tensor(graph_.nodes[product].inputs[1]).dims[0] % 32 != 0) return "the halves of its product are no whole tiles of rows";
    return mixes() || glu.gate == 0 ? nullptr : "up lies before gate";
  }

  /// `parts`: gate and up, of one product or of two.
  void emit_glu(const std::vector<std::uint32_t>& group, const std::vector<Part>& parts, const Glu& glu, const Key& key, Operand& out) {
    for (const std::uint32_t n : group) done_[n] = true;
    done_[glu.node] = true;
    const std::uint32_t gate = group.front();
    const std::int64_t n = parts[0].rows;
    if (mixes() && tensor(parts[0].weight).dtype == tensor(parts[1].weight).dtype) {
      const bool half = half_of(readers(root(graph_.nodes[glu.node].outputs[0])).front());
      out.filled = true;
      out.scale = half ? glu_scale : 1.0f;
      Step step;
      step.first_node = gate;
      step.nodes = group;
      step.nodes.push_back(glu.node);
      step.kernel = "matmul.mixed.glu.cuda";
      const Operand in = operands_.at(key);
      const Norm norm = norm_of(key);
      step.reads = {parts[0].weight, parts[1].weight, norm.value, norm.weight};
      step.extras = {in.slot, out.slot};
      step.emit = [=, scale = out.scale, rows_of = graph_.nodes[gate].inputs[0], to = out.slot](const StepContext& context,
                                                                                                Launcher& launcher) {
        MixedParams p = mixed_params(parts, in, context.tensor(rows_of).dims[0], context);
        p.glu = 1;
        p.activation = glu.activation;
        p.glu_y = context.extra(to);
        p.glu_scale = scale;
        p.half = half ? 1 : 0;
        take_raw(p, norm, context);
        launch_mixed(p, launcher);
      };
      schedule_.steps.push_back(std::move(step));
      return;
    }
    const std::uint32_t buffer = slot(most_rows() * static_cast<std::uint64_t>(n) * 8);
    const bool y16 = key.half && !mixes();
    side_by_side(group, key, buffer, mixes() ? "matmul.mixed.two.cuda" : "matmul.16.two.cuda", y16 ? gate_scale : 0.0f);
    const bool half = half_of(readers(root(graph_.nodes[glu.node].outputs[0])).front());
    out.filled = true;
    out.scale = half ? glu_scale : 1.0f;
    Step step;
    step.first_node = glu.node;
    step.nodes = {glu.node};
    step.kernel = "glu.16.cuda";
    step.extras = {buffer, out.slot};
    const std::uint32_t rows_of = graph_.nodes[gate].inputs[0];
    step.emit = [=, to = out.slot, scale = out.scale, mixed = mixes()](const StepContext& context, Launcher& launcher) {
      const std::int64_t m = context.tensor(rows_of).dims[0];
      const Glu16Params p{context.extra(buffer), context.extra(to), m, static_cast<int>(n), half, scale, y16 ? gate_scale : 0.0f,
                          glu.activation,        room_of(mixed, m), 0};
      launcher.launch("wide", "glu16", launcher.spread(m * n / 8), 256, p);
    };
    schedule_.steps.push_back(std::move(step));
  }

  /// An attention whose queries, keys and values come from three products of one operand, over a cache of 16-bit floats.
  Refusal why_not_taken(std::uint32_t n, const Attention& what) const {
    const Node& node = graph_.nodes[n];
    const Tensor &q = tensor(node.inputs[0]), &k = tensor(node.inputs[1]), &v = tensor(node.inputs[2]), &y = tensor(node.outputs[0]);
    if (symbol_of(node.inputs[0]) != symbol_) return "its number of rows is another one than that of most products";
    if (q.dims[1] % k.dims[1] != 0 || k.last() != v.last() || k.last() % 8 != 0 || (k.dtype != QUERN_F16 && k.dtype != QUERN_BF16))
      return "no kernel of many rows takes heads of this size in this cache";
    if (!(k.dtype == QUERN_F16 ? node.f16_allowed() : node.bf16_allowed())) return "its numerics allow no 16-bit queries";
    for (std::size_t i = 6; i < node.inputs.size(); ++i)
      if (node.inputs[i] != none) return "it has sinks or a mask";
    if (!(node.attributes->real(QUERN_KEY_SCALE) > 0) || node.attributes->real(QUERN_KEY_MAX_BIAS) != 0)
      return "it has a bias by distance or no positive scale";
    if (y.dtype != QUERN_F32 || !whole(node.outputs[0])) return "its result is not packed f32";
    if (!rope_kv_serves(k, v, tensor(what.table))) return "no kernel rotates heads of this size and writes them to this cache";
    std::uint32_t operand = none;
    for (const std::uint32_t value : {what.q, what.k, what.v}) {
      const std::uint32_t r = root(value), made_by = maker(r);
      if (made_by == none || !is_product(made_by)) return "queries, keys or values come from no product in 16 bits";
      if (kept(r) || !std::ranges::all_of(readers(r), [&](std::uint32_t user) { return std::ranges::count(what.nodes, user) != 0; }))
        return "queries, keys or values are read by another node too";
      if (operand != none && key_of(made_by) != key_of(operand)) return "queries, keys and values are products of different operands";
      operand = made_by;
    }
    const std::uint32_t of_q = maker(root(what.q)), of_k = maker(root(what.k)), of_v = maker(root(what.v));
    if (of_q == of_k && of_k == of_v) {  // columns of one product
      const auto q_at = *columns_of(what.q), k_at = *columns_of(what.k), v_at = *columns_of(what.v);
      const bool in_order = q_at.first == 0 && k_at.first == q_at.count && v_at.first == k_at.first + k_at.count &&
                            v_at.first + v_at.count == q_at.of;
      return in_order ? nullptr : "queries, keys and values are not all columns of their product, in this order";
    }
    if (!whole(what.q) || !whole(what.k) || !whole(what.v)) return "queries, keys or values are a part of a product";
    return of_q < of_k && of_k < of_v ? nullptr : "queries, keys and values are not made in this order";
  }
  /// The products that make queries, keys and values, side by side.
  std::vector<std::uint32_t> products_of(const Attention& what) const {
    const std::uint32_t of_q = maker(root(what.q)), of_k = maker(root(what.k));
    if (of_q == of_k) return {of_q};
    return {of_q, of_k, maker(root(what.v))};
  }

  void emit_attention(std::uint32_t n) {
    done_[n] = true;
    const Node& node = graph_.nodes[n];
    const auto& [what, buffer, x16] = attention_.at(n);
    const Tensor &q = tensor(node.inputs[0]), &k = tensor(node.inputs[1]);
    const std::uint32_t queries = slot(most_rows() * static_cast<std::uint64_t>(q.dims[1] * q.dims[2]) * 2);
    const BiasAt biases[] = {bias_at(what.q), bias_at(what.k), bias_at(what.v)};
    const std::int64_t row = (q.dims[1] + 2 * k.dims[1]) * k.last();
    const auto paged = [this_node = &node](const StepContext& context, std::size_t cache) {
      const auto in = [&](std::size_t i) -> const Tensor& { return context.tensor(this_node->inputs[i]); };
      return pages_for(in(cache), in(3), in(4), in(5));
    };
    Step write;
    write.first_node = what.nodes.front();
    write.nodes = what.nodes;
    write.kernel = what.norm_q == none ? "rope.kv_write.16.cuda" : "norm.rope.kv_write.16.cuda";
    write.reads = {node.inputs[1], node.inputs[2],  node.inputs[3],  node.inputs[4], node.inputs[5],
                   what.table,     biases[0].value, biases[1].value, biases[2].value};
    write.extras = {buffer, queries};
    std::vector<std::uint32_t> norm_weights;
    for (const std::uint32_t norm : {what.norm_q, what.norm_k})
      if (norm != none) norm_weights.push_back(graph_.nodes[norm].inputs[1]);
    write.reads.insert(write.reads.end(), norm_weights.begin(), norm_weights.end());
    const auto norms = [what = what, graph = &graph_](const StepContext& context) {
      return head_norms(what, *graph, [&](std::uint32_t value) { return context.tensor(value).data; });
    };
    const bool alone = mixes() && floats_ && !has_bias(what);  // of one row attention itself rotates and writes
    if (mixes())
      write.idle = [alone, norms = what.norm_rows, cache = k, heads = q.dims[1], table = tensor(what.table),
                    card = card_](std::int64_t rows) {
        return (alone && rows == 1) || (!norms && attention_batch_serves(cache, rows, heads, table, card));
      };
    // Whether each row has its own blocks: of few rows all that are likely of as many sequences, since their outputs are many.
    const auto alone_rows = [outputs = outputs_, matrices = attention_rows_serves(k, tensor(node.inputs[2]), card_.shared_limit)](
                                const StepContext& context, std::int64_t m) {
      if (!matrices) return true;
      if (m >= least_attention_rows) return false;
      const std::int64_t wanted = outputs == none ? m : context.tensor(outputs).dims[0];
      return m == 1 || (wanted > 1 && 4 * wanted > m);
    };
    write.emit = [=, mixed = mixes(), this_node = &node, what = what, buffer = buffer, x16 = x16](const StepContext& context,
                                                                                                  Launcher& launcher) {
      const Tensor &table = context.tensor(what.table), &rows = context.tensor(this_node->inputs[0]);
      if (alone && rows.dims[0] == 1) return;
      if (mixed && alone_rows(context, rows.dims[0]) && !what.norm_rows &&
          attention_batch_serves(context.tensor(this_node->inputs[1]), rows.dims[0], rows.dims[1], table, launcher.gpu().facts()))
        return;  // attention does it
      RopeKvParams p{};
      const Address size = x16 ? 2 : 4;
      p.x16 = x16 ? 1 : 0;
      p.q = context.extra(buffer);
      p.keys = p.q + static_cast<Address>(rows.dims[1] * rows.dims[2]) * size;
      p.q_row = p.k_row = p.v_row = row;
      p.q_out = context.extra(queries);
      p.bias_q = biases[0].in(context);
      p.bias_k = biases[1].in(context);
      p.bias_v = biases[2].in(context);
      p.k = paged(context, 1);
      p.v = paged(context, 2);
      p.values = p.keys + static_cast<Address>(p.k.kv_heads * p.k.d) * size;
      p.q_dtype = p.k.dtype;
      p.heads = static_cast<int>(rows.dims[1]);
      p.norms = norms(context);
      launch_rope_kv(p, table, static_cast<int>(what.mode), rows.dims[0], launcher);
    };
    schedule_.steps.push_back(std::move(write));

    const std::uint32_t r = root(node.outputs[0]);
    Operand* out = wanted(r);
    const bool store = out == nullptr, half = !store && half_of(readers(r).front());
    Step step;
    step.first_node = n;
    step.nodes = {n};
    step.kernel = "attention.16.cuda";
    step.reads = {node.inputs[1], node.inputs[2],  node.inputs[3],  node.inputs[4], node.inputs[5],
                  what.table,     biases[0].value, biases[1].value, biases[2].value};
    step.reads.insert(step.reads.end(), norm_weights.begin(), norm_weights.end());
    step.extras = {queries, buffer};
    const auto given = [&](std::uint32_t v) { return maker(root(v)) == none; };
    // As in decode.cpp: what no kernel of the run makes is there once a product has settled.
    const bool all_given = given(what.table) && given(node.inputs[3]) && given(node.inputs[4]) && given(node.inputs[5]);
    const bool early = alone && settled_ && all_given, batch_early = batch_settled_ && all_given;
    if (store) step.writes = node.outputs;
    std::uint32_t to = none;
    if (out != nullptr) {
      out->filled = true;
      to = out->slot;
      step.extras.push_back(to);
    }
    std::vector<Tensor> storage;
    const Call described = graph_.describe(node, storage);
    step.scratch = std::max(attention_scratch(described), attention_rows_scratch(described, mixes() && !store));
    step.emit = [=, mixed = mixes(), this_node = &node, what = what, buffer = buffer, outputs = outputs_,
                 storage = std::vector<Tensor>(node.inputs.size() + 1)](const StepContext& context, Launcher& launcher) mutable {
      for (std::size_t i = 0; i < this_node->inputs.size(); ++i)
        storage[i] = this_node->inputs[i] == none ? Tensor{} : context.tensor(this_node->inputs[i]);
      storage.back() = context.tensor(this_node->outputs[0]);
      const std::int64_t m = storage[0].dims[0];
      const Address y = to == none ? storage.back().data : context.extra(to);
      const quern_dtype y_dtype = to == none ? QUERN_F32 : half ? QUERN_F16 : QUERN_BF16;
      const bool alone_each = alone_rows(context, m);
      if (mixed && alone_each && !what.norm_rows &&
          attention_batch_serves(storage[1], m, storage[0].dims[1], context.tensor(what.table), launcher.gpu().facts())) {
        const Tensor& table = context.tensor(what.table);
        AttentionBatchParams p{};
        p.k = paged(context, 1);
        p.v = paged(context, 2);
        p.q = context.extra(buffer);
        p.keys = p.q + static_cast<Address>(storage[0].dims[1] * storage[0].dims[2]) * 4;
        p.values = p.keys + static_cast<Address>(p.k.kv_heads * p.k.d) * 4;
        p.row = row;
        p.bias_q = biases[0].in(context);
        p.bias_k = biases[1].in(context);
        p.bias_v = biases[2].in(context);
        p.rows = static_cast<int>(m);
        p.heads = static_cast<int>(storage[0].dims[1]);
        p.window = static_cast<int>(this_node->attributes->integer(QUERN_KEY_WINDOW));
        p.scale = static_cast<float>(this_node->attributes->real(QUERN_KEY_SCALE));
        p.softcap = static_cast<float>(this_node->attributes->real(QUERN_KEY_SOFTCAP));
        p.rope = table.data;
        p.rope_positions = table.dims[0];
        p.rope_pairs = table.dims[1];
        p.rope_mode = static_cast<int>(what.mode);
        p.norms = norms(context);
        p.y = y;
        p.y_dtype = static_cast<int>(y_dtype);
        p.y_columns = to == none ? 0 : room_of(mixed, m);
        p.early = batch_early ? 1 : 0;
        launch_attention_batch(p, launcher);
        return;
      }
      // Of many sequences each row has its own keys. Both kinds of kernels are asked, and each takes the rows that are for it.
      const bool matrices = !alone_each,
                 many = alone_each || (m >= least_attention_rows && outputs != none && 4 * context.tensor(outputs).dims[0] > m);
      if (many) {
        Call call;
        call.op = this_node->op;
        call.inputs = {storage.data(), this_node->inputs.size()};
        call.outputs = {&storage.back(), 1};
        call.attributes = this_node->attributes.get();
        call.scratch = context.scratch();
        call.counters = context.counters();
        AttentionParams p = attention_params(call, launcher);
        p.q = context.extra(queries);
        p.q_dtype = p.k.dtype;
        p.y = y;
        p.y_dtype = static_cast<int>(y_dtype);
        if (to != none) p.y_columns = room_of(mixed, m);
        if (alone && m == 1) {
          const Tensor& table = context.tensor(what.table);
          p.q = context.extra(buffer);
          p.q_dtype = QUERN_F32;
          p.new_k = p.q + static_cast<Address>(storage[0].dims[1] * storage[0].dims[2]) * 4;
          p.new_v = p.new_k + static_cast<Address>(p.k.kv_heads * p.k.d) * 4;
          p.rope = table.data;
          p.rope_positions = table.dims[0];
          p.rope_pairs = table.dims[1];
          p.rope_mode = static_cast<int>(what.mode);
          p.norms = norms(context);
          p.early = early ? 1 : 0;
        }
        if (matrices) p.least_runs = most_attention_runs;
        launch_attention(p, m, launcher);
        if (!matrices) return;
      }
      AttentionRowsParams p{};
      p.most_runs = many ? most_attention_runs : 0;
      p.q16 = context.extra(queries);
      p.y16 = to == none ? 0 : y;
      p.y = y;
      p.half = half;
      p.k = paged(context, 1);
      p.v = paged(context, 2);
      p.rows = static_cast<int>(m);
      p.heads = static_cast<int>(storage[0].dims[1]);
      p.window = static_cast<int>(this_node->attributes->integer(QUERN_KEY_WINDOW));
      p.scale = static_cast<float>(this_node->attributes->real(QUERN_KEY_SCALE));
      p.softcap = static_cast<float>(this_node->attributes->real(QUERN_KEY_SOFTCAP));
      p.faults = launcher.faults();
      p.y_columns = to == none ? 0 : room_of(mixed, m);
      launch_attention_rows(p, context.scratch(), launcher);
    };
    schedule_.steps.push_back(std::move(step));
  }

  /// A schedule without steps, for a reason of the whole graph where a node itself has none.
  Schedule nothing(Refusal reason) {
    Schedule none_here;
    none_here.alone = alone_in_all(graph_, [&](std::uint32_t n) {
      if (graph_.nodes[n].op != QUERN_OP_MATMUL) return sdk::Alone{n, "product", reason};
      const Refusal own = symbol_ == none ? nullptr : why_no_product(n);
      return sdk::Alone{n, "product", own != nullptr ? own : reason};
    });
    return none_here;
  }

  /// Why no rule took a node.
  sdk::Alone alone(std::uint32_t n) const {
    return why_left(n, no_attention_, made_,
                    {[this](std::uint32_t product) { return why_no_product(product); },
                     [this](std::uint32_t norm) { return why_no_norm(norm); },
                     [this](std::uint32_t gate, std::uint32_t up) {
                       Refusal why = nullptr;
                       if (gate != up) why = why_no_glu(gate, up);
                       else if (const auto halves = glu_of_columns(gate, &why); halves) why = why_no_halves(gate, *halves);
                       return why != nullptr ? why : "its result is read by more than fused products of one 16-bit type";
                     },
                     "its product is one of those that attention or a gated activation takes"});
  }

  struct Taken {
    Attention of;
    std::uint32_t buffer;
    bool half = false;  // the buffer has f16: where the cache has it too, which queries, keys and values must fit into
  };
  const CardFacts& card_;
  bool mixed_;
  bool floats_ = false;         // no product has quantised weights
  bool settled_ = false;        // a product of one row that settles (MixedParams) was emitted
  bool batch_settled_ = false;  // the same of more rows: a norm
  std::uint32_t symbol_ = none, outputs_ = none, workspace_ = 0;
  std::vector<bool> done_, norms_, made_;  // made: stored by a step that stands before the node
  std::map<Key, Operand> operands_;
  std::map<std::uint32_t, NormedSum> sums_;  // by the add node
  std::map<std::uint32_t, Taken> attention_;
  std::map<std::uint32_t, Refusal> no_attention_;  // of attention nodes that are not fused, and of nodes that lead to one
  std::map<std::uint32_t, std::vector<std::uint32_t>> attention_of_queries_;  // by the product that makes them
  Schedule schedule_;
};

}  // namespace

Schedule wide_schedule(const Graph& graph, const CardFacts& card) {
  if (graph.source.symbols.empty()) return without_symbols(graph);
  return Fuser(graph, card, false).run();
}

Schedule mixed_schedule(const Graph& graph, const CardFacts& card) {
  if (graph.source.symbols.empty()) return without_symbols(graph);
  return Fuser(graph, card, true).run();
}

}  // namespace quern::cuda
