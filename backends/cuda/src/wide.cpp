// See wide.hpp.
#include "wide.hpp"

#include "fuser.hpp"
#include "ops/arrange.hpp"
#include "ops/attention.hpp"
#include "ops/mixed.hpp"
#include "wide_attention.hpp"
#include "wide_products.hpp"

#include <algorithm>
#include <optional>

namespace quern::cuda {
namespace {

constexpr std::uint32_t none = QUERN_NONE;
constexpr std::uint32_t least_rows = 9;             // fewer have the decode schedules
constexpr std::int64_t most_float_rows = 32;        // of f16 and bf16 weights, and of prompts without warpgroups: more have the library
constexpr std::uint64_t most_low_bytes = 32 << 20;  // of what adapters make of the rows of an operand
constexpr std::size_t most_orders = 3;              // of a norm's operand that its kernel stores: Norm16Params
constexpr float glu_scale = 1.0f / 64;              // of f16 results: gate * up may be large, and f16 ends at 65504
constexpr float gate_scale = 16;                    // gate and up of f16 products are kept in f16, so many times smaller

/// The form of an operand is its 16-bit type: 1 for f16, 0 for bf16.
class ManyRows : Fuser {
 public:
  /// `mixed`: products by kernels/mixed.cu, which that card has.
  ManyRows(const AdaptedGraph& graph, const CardFacts& card, bool mixed) : Fuser(graph, card), mixed_(mixed) {}

  /// Why no product of this schedule has the order of its operand with it. Asked of a graph whose products and orders are apart.
  Refusal why_no_order(std::uint32_t product) {
    if (products_.empty()) choose_symbol(), judge_products();
    if (symbol_ == none) return "no product of the graph has a ranged number of rows that may be this large";
    if (!is_product(product)) return why_no_product(product);
    const Tensor& b = tensor(graph_.nodes[product].inputs[1]);
    if (!is_group_format(b.dtype)) return "the kernels of a product's weights need means of neighbours, or read them as they lie";
    if (b.last() > most_ordered) return "the rows of a product's weights are longer than what puts their columns back takes";
    const std::uint32_t index = graph_.nodes[maker(root(graph_.nodes[product].inputs[0]))].inputs[1];
    return graph_.source.values[index].kind == QUERN_VALUE_CONSTANT ? nullptr : "its index is no constant of the graph";
  }

  Schedule run() {
    choose_symbol();
    if (symbol_ == none) return nothing("no product of the graph has a ranged number of rows that may be this large");
    schedule_.rows_symbol = symbol_;
    judge_products();
    floats_ = all_floats();
    schedule_.least_rows = mixes() || floats_ ? 2 : least_rows;
    if (mixes()) {
      schedule_.most_rows = static_cast<std::uint32_t>(most_rows());
      if (!mostly_mixed()) return nothing("most bytes of the graph's weights are of a kind that no kernel reads in its own format");
    }
    find_outputs();
    if (mixes() && !floats_) {  // of a prompt the rows see each other's keys, which attention_batch.cu takes one at a time
      schedule_.most_prompt_rows = static_cast<std::uint32_t>(card_.has_warpgroup_products() ? most_mixed_rows : most_float_rows);
      schedule_.outputs_symbol = outputs_ == none ? none : symbol_of(outputs_);
    }
    find_norms();
    find_operands();
    find_workspace();
    if (operands_.empty()) return nothing("no product of the graph runs in 16 bits");
    find_sums();
    find_attention();
    find_experts();
    for (const auto& [n, what] : attention_) attention_of_queries_[maker(root(what.q))].push_back(n);
    if (mixes() && serves_one_row()) schedule_.least_rows = 1;
    return emit_all();
  }

 private:
  bool emit(std::uint32_t n) override {
    if (attention_.contains(n)) emit_attention(n);
    else if (const auto sum = sums_.find(n); sum != sums_.end()) emit_row(n, sum->second.norm, sum->second.other);
    else if (in_front_[n]) emit_norm(n);
    else if (is_product(n)) emit_products(n);
    else if (emit_experts(n)) return true;
    else if (is_activation(n) && why_no_end(n) == nullptr) emit_activation(n);
    else if (why_no_operand(n) == nullptr) emit_row(n, n, none);
    else return false;
    return true;
  }

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

  bool serves_rows(std::uint32_t value) const override { return symbol_of(value) == symbol_; }

  Refusal why_no_kernel(std::uint32_t n) const override {
    const Node& node = graph_.nodes[n];
    const Tensor& b = tensor(node.inputs[1]);
    if (b.dtype != QUERN_F16 && b.dtype != QUERN_BF16 && !is_block(b.dtype)) return "its weights are neither of 16 bits nor of blocks";
    if (b.dtype == QUERN_F16 || (mixes() && b.dtype != QUERN_BF16) ? !node.f16_allowed() : !node.bf16_allowed())
      return "its numerics allow no 16-bit activations";
    if (mixes() && (!mixed_serves(b, card_) || b.dims[0] % 16 != 0)) return "no kernel reads its weights in their own format and shape";
    if (graph_.source.values[node.inputs[1]].kind != QUERN_VALUE_CONSTANT) return "its weights are no constant of the graph";
    if (b.rank != 2) return "its weights are no matrix";
    if (mixes() ? symbol_of(node.inputs[0]) == none : !serves_rows(node.inputs[0]))
      return "its number of rows is another one than that of most products";
    return b.dims[0] % 8 != 0 || b.last() % 16 != 0 ? "its weights have rows or columns that are no multiple of 8 and 16" : nullptr;
  }
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
  int form_of(std::uint32_t product) const override {
    const quern_dtype dtype = tensor(graph_.nodes[product].inputs[1]).dtype;
    return (mixes() ? dtype != QUERN_BF16 : dtype == QUERN_F16) ? 1 : 0;
  }
  bool half_of(std::uint32_t product) const { return form_of(product) == 1; }
  std::uint32_t order_of(std::uint32_t product) const override { return mixes() ? adapted_.order_of(product) : none; }
  /// Whether a step of one row is no more kernels than in the decode schedule: each attention makes its rotations and writes.
  bool serves_one_row() const {
    for (std::uint32_t n = 0; n < graph_.nodes.size(); ++n)
      if (graph_.nodes[n].op == QUERN_OP_ATTENTION && (!attention_.contains(n) || has_bias(attention_.at(n)))) return false;
    return !attention_.empty();
  }
  bool has_bias(const Attention& what) const {
    return std::ranges::any_of(std::initializer_list<std::uint32_t>{what.q, what.k, what.v},
                               [&](std::uint32_t v) { return bias_at(v).value != none; });
  }
  BiasAt bias_at(std::uint32_t v) const { return {bias_of(maker(root(v))), columns_of(v)->first}; }
  std::uint32_t bias_of(std::uint32_t product) const {
    const Node& node = graph_.nodes[product];
    return node.inputs.size() > 2 ? node.inputs[2] : none;
  }

  Refusal why_no_norm(std::uint32_t n) const override {
    if (is_layer_norm(n)) return "products of many rows take no layer norm as their factor";
    if (const Refusal why = why_not_in_front(n, true, "its result is read by more than fused products of one 16-bit type"); why != nullptr)
      return why;
    if (keys_behind(n).size() > most_orders) return "its products have more orders of columns than its kernel stores";
    if (graph_.source.values[graph_.nodes[n].inputs[1]].kind != QUERN_VALUE_CONSTANT)  // read before what comes before has ended
      return "its weight is no constant of the graph";
    return nullptr;
  }

  std::uint64_t most_rows() const {
    return mixes() ? static_cast<std::uint64_t>(floats_ ? most_float_rows : most_mixed_rows)
                   : static_cast<std::uint64_t>(graph_.source.symbols[symbol_].max);
  }
  /// Those of the head may be other rows.
  std::uint64_t rows_of(std::uint32_t value) const {
    return serves_rows(value) ? most_rows() : static_cast<std::uint64_t>(tensor(value).dims[0]);
  }
  std::uint64_t operand_bytes_of(std::uint32_t product, int) const override {
    const std::uint32_t value = graph_.nodes[product].inputs[0];
    const std::int64_t k = tensor(value).last();
    const std::uint64_t rows = rows_of(value);
    return mixes() ? static_cast<std::uint64_t>(operand_bytes(static_cast<std::int64_t>(rows), k))
                   : rows * static_cast<std::uint64_t>(k) * 2;
  }
  /// Where weights of blocks are unpacked for one product at a time.
  void find_workspace() {
    std::uint64_t largest = 1;
    for (std::uint32_t n = 0; n < graph_.nodes.size() && !mixes(); ++n) {
      if (!is_product(n)) continue;
      const Tensor& w = tensor(graph_.nodes[n].inputs[1]);
      if (is_block(w.dtype)) largest = std::max(largest, static_cast<std::uint64_t>(w.elements()) * 2);
    }
    workspace_ = slot(largest);
  }
  static bool same_operand(Key a, const Key& b) {
    a.order = b.order;
    return a == b;
  }
  /// Whether all products of a value have its columns in one order.
  bool one_order(std::uint32_t r) const {
    return std::ranges::all_of(readers(r), [&](std::uint32_t n) { return order_of(n) == order_of(readers(r).front()); });
  }
  /// What the products that read a norm take, each once.
  std::vector<Key> keys_behind(std::uint32_t norm) const {
    std::vector<Key> keys;
    for (const std::uint32_t product : readers(root(graph_.nodes[norm].outputs[0])))
      if (const Key key{root(graph_.nodes[norm].inputs[0]), norm, form_of(product), order_of(product)};
          std::ranges::find(keys, key) == keys.end())
        keys.push_back(key);
    return keys;
  }
  /// The operand that an only_products value is wanted as; or null.
  Operand* wanted(std::uint32_t r) {
    if (!only_products(r, true) || !one_order(r)) return nullptr;
    const auto at = operands_.find({r, none, form_of(readers(r).front()), order_of(readers(r).front())});
    return at != operands_.end() && !at->second.filled ? &at->second : nullptr;
  }

  /// Why a node's result is no operand that its own step could make.
  Refusal why_not_wanted(std::uint32_t n) const {
    const std::uint32_t r = root(graph_.nodes[n].outputs[0]);
    if (!only_products(r, true)) return "its result is read by more than fused products of one 16-bit type";
    return one_order(r) ? nullptr : "its products take its columns in more than one order";
  }
  /// Of norms that emit_norm does not take.
  Refusal why_no_operand(std::uint32_t n) const override {
    if (const Refusal why = why_no_row_norm(n); why != nullptr) return why;
    if (!serves_rows(graph_.nodes[n].outputs[0])) return "its number of rows is another one than that of most products";
    return why_not_wanted(n);
  }
  Refusal why_no_activation(std::uint32_t n, std::uint32_t) const override {
    return tensor(graph_.nodes[n].outputs[0]).last() % 8 == 0 ? why_not_wanted(n) : "its rows are no whole groups of 8";
  }
  bool is_activation(std::uint32_t n) const {
    const std::uint32_t op = graph_.nodes[n].op;
    return op == QUERN_OP_GELU || op == QUERN_OP_SILU || op == QUERN_OP_RELU;
  }
  void emit_activation(std::uint32_t n) {
    done_[n] = true;
    const Node& node = graph_.nodes[n];
    const std::uint32_t x = node.inputs[0];
    const int activation = activation_of(n);
    Operand& out = *wanted(root(node.outputs[0]));
    const bool half = half_of(readers(root(node.outputs[0])).front());
    out.filled = true;
    Step& step = add_step(n, {n}, "activation.16.cuda", {x});
    step.extras = {out.slot};
    step.emit = [=, to = out.slot, order = out.order, mixed = mixes()](const StepContext& context, Launcher& launcher) {
      const Tensor& t = context.tensor(x);
      const std::int64_t m = t.dims[0], k = t.last();
      const Glu16Params p{t.data,     context.extra(to), m, static_cast<int>(k),        half, 1.0f, 0.0f,
                          activation, room_of(mixed, m), 1, context.order(order).places};
      launcher.launch(kernels::glu16, launcher.spread(m * k / 8), 256, p);
    };
  }
  /// A norm, perhaps with a sum, and the operand that the next products take of the result, perhaps through their norm.
  void emit_row(std::uint32_t n, std::uint32_t norm, std::uint32_t other) {
    done_[n] = true;
    const std::uint32_t r = root(graph_.nodes[n].outputs[0]);
    // The operand of the result itself, or of one norm of it.
    const auto at = std::ranges::find_if(operands_, [&](const auto& entry) {
      const auto& [key, operand] = entry;
      return key.value == r && !operand.filled &&
             (key.norm == none || (in_front_[key.norm] && !done_[key.norm] && one_order(root(graph_.nodes[key.norm].outputs[0]))));
    });
    const bool any = at != operands_.end(), half = any && at->first.form == 1;
    const std::uint32_t next = any ? at->first.norm : none, to = any ? at->second.slot : none, order = any ? at->first.order : none;
    if (next != none) done_[next] = true;
    if (any) at->second.filled = true;
    const Norm of_next = norm_of(next);
    const bool settles = mixes() && !batch_settled_, in_product = takes_raw() && next != none;
    batch_settled_ = batch_settled_ || settles;
    add_row({n, norm, other, next, of_next.weight, to, !any || next != none || !only_products(r, true) || !one_order(r), ".16"},
            [=, mixed = mixes()](RowParams& p, const StepContext& context, std::int64_t m) {
              p.settles = settles ? 1 : 0;
              if (!any || (in_product && m == 1)) return;  // of one row its products make the norm
              p.y16 = context.extra(to);
              p.half = half ? 1 : 0;
              p.columns = room_of(mixed, m);
              p.places = context.order(order).places;
              p.next_weight = context.address(of_next.weight);
              p.next_offset = of_next.offset;
              p.next_epsilon = of_next.epsilon;
            });
  }

  void emit_norm(std::uint32_t n) {
    done_[n] = true;
    const Node& node = graph_.nodes[n];
    const std::uint32_t x = node.inputs[0];
    const std::vector<Key> keys = keys_behind(n);
    const int form = keys.front().form;
    std::vector<std::uint32_t> slots;
    for (const Key& key : keys) {
      operands_.at(key).filled = true;
      slots.push_back(operands_.at(key).slot);
    }
    const Norm norm = norm_of(n);
    Step& step = add_step(n, {n}, "rms_norm.16.cuda", {x, norm.weight});
    step.extras = slots;
    if (takes_raw()) step.idle = [](std::int64_t rows) { return rows == 1; };  // its products do it
    const bool settles = mixes() && !batch_settled_;
    batch_settled_ = batch_settled_ || settles;
    step.emit = [=, raw = takes_raw(), mixed = mixes()](const StepContext& context, Launcher& launcher) {
      const Tensor& t = context.tensor(x);
      if (raw && t.rows() == 1) return;  // its products do it
      const auto copy = [&](std::size_t c) {
        return c < keys.size() ? OrderedCopy{context.extra(slots[c]), context.order(keys[c].order).places} : OrderedCopy{};
      };
      const OrderedCopy first = copy(0);
      const Norm16Params p{t.data,
                           context.tensor(norm.weight).data,
                           first.y,
                           static_cast<int>(t.last()),
                           form,
                           norm.epsilon,
                           norm.offset,
                           room_of(mixed, t.rows()),
                           settles ? 1 : 0,
                           first.places,
                           {copy(1), copy(2)}};
      launcher.launch(kernels::norm16, {t.rows(), 1, 1}, 256, p);
    };
  }

  /// Whether products of one row read f32 and make its norm themselves.
  bool takes_raw() const { return mixes() && floats_; }
  /// The norm of an operand, where products of one row make it themselves.
  FrontNorm front_of(const Key& key) {
    if (!takes_raw() || key.norm == none) return {};
    const Norm norm = norm_of(key);
    return {key.value, norm.weight, norm.offset, norm.epsilon, !std::exchange(settled_, true)};
  }

  void ensure(const Key& key, std::uint32_t node) {
    Operand& operand = operands_.at(key);
    if (operand.filled) return;
    operand.filled = true;
    const std::int64_t in_k = operand.k;
    Step& step = add_step(node, {}, "to_16.cuda", {key.value});
    step.extras = {operand.slot};
    step.emit = [=, to = operand.slot, mixed = mixes()](const StepContext& context, Launcher& launcher) {
      const Tensor& t = context.tensor(key.value);
      const To16Params p{t.data,
                         context.extra(to),
                         t.elements(),
                         key.form,
                         room_of(mixed, t.elements() / in_k),
                         static_cast<int>(in_k),
                         context.order(key.order).places};
      launcher.launch(kernels::to16, launcher.spread(t.elements() / 4), 256, p);
    };
  }

  Part all_rows(std::uint32_t product) const {
    const std::uint32_t weight = graph_.nodes[product].inputs[1];
    return {weight, 0, tensor(weight).dims[0], mixes() ? none : adapted_.order_of(product), operands_.at(key_of(product)).slot};
  }
  OperandAt operand_at(const Key& key) const {
    const Operand& in = operands_.at(key);
    return {in.slot, in.k, in.scale, key.form == 1};
  }

  /// What a step of products and the steps around it say of their adapters; `buffer` or `stored` has their results.
  AdaptedProducts adapted_products(const std::vector<std::uint32_t>& group, const Key& key, std::uint32_t buffer, std::uint32_t stored,
                                   float smaller) {
    AdaptedProducts adapted{{}, operand_at(key), graph_.nodes[group.front()].inputs[0], none, buffer, stored, 0, mixes(), smaller};
    std::uint64_t rank = 0;
    for (const std::uint32_t n : group) {
      const std::uint32_t weight = graph_.nodes[n].inputs[1];
      const Adapter* adapter = adapted_.adapter_of(n);
      adapted.products.push_back({weight, adapter});
      if (adapter != nullptr) rank = std::max(rank, most_rank_of(graph_, adapter->pool, weight));
    }
    adapted.rank = static_cast<std::uint32_t>(rank);
    if (adapted.any()) adapted.low = slot(rows_of(adapted.rows_of) * rank * group.size() * 4);
    return adapted;
  }
  bool has_adapters(const std::vector<std::uint32_t>& group) const {
    return std::ranges::any_of(group, [&](std::uint32_t n) { return adapted_.adapter_of(n) != nullptr; });
  }
  void emit_down(const AdaptedProducts& adapted, std::uint32_t node) {
    if (!adapted.any()) return;
    Step& step = add_step(node, {}, "adapters.down.cuda", adapted.reads());
    step.extras = {adapted.in.slot, adapted.low};
    step.emit = [adapted](const StepContext& context, Launcher& launcher) { adapted.launch_down(context, launcher); };
  }
  void emit_up(const AdaptedProducts& adapted, std::uint32_t node) {
    if (!adapted.any()) return;
    Step& step = add_step(node, {}, "adapters.up.cuda", adapted.reads());
    step.extras = {adapted.low};
    if (adapted.buffer != none) step.extras.push_back(adapted.buffer);
    else step.reads.push_back(adapted.stored), step.writes = {adapted.stored};
    step.emit = [adapted](const StepContext& context, Launcher& launcher) { adapted.launch_up(context, launcher); };
  }

  /// Products of one operand into a buffer, side by side: one product where their 16-bit weights follow one another.
  /// `smaller` not 0: the buffer has f16, so many times smaller.
  void side_by_side(const std::vector<std::uint32_t>& group, const Key& key, std::uint32_t buffer, const char* kernel, float smaller = 0) {
    SideBySide products{{}, 0, operand_at(key), front_of(key), graph_.nodes[group.front()].inputs[0], buffer, workspace_, mixes(), smaller};
    std::vector<std::uint32_t> weights;
    std::vector<DenseWeight> dense;
    for (const std::uint32_t n : group) {
      const Part& part = products.parts.emplace_back(all_rows(n));
      products.row += part.rows;
      weights.push_back(part.weight);
      dense.push_back({part.weight, part.order});
    }
    if (!mixes()) schedule_.dense.push_back(std::move(dense));
    const AdaptedProducts adapted = adapted_products(group, key, buffer, none, smaller);
    emit_down(adapted, group.front());
    Step& step = add_step(group.front(), group, kernel, std::move(weights));
    step.reads.insert(step.reads.end(), {products.norm.value, products.norm.weight});
    step.extras = {buffer, workspace_};
    for (const Part& part : products.parts) step.extras.push_back(part.slot);
    step.emit = std::move(products);
    emit_up(adapted, group.front());
  }

  void emit_products(std::uint32_t first) {
    const Key key = key_of(first);
    ensure(key, first);
    // Queries, keys and values of an attention that takes them from a buffer.
    for (const std::uint32_t n : attention_of_queries_[first])
      if (!buffers_.contains(n)) {
        const Attention& what = attention_.at(n);
        const std::vector<std::uint32_t> group = products_of(what);
        std::uint64_t columns = 0;
        for (const std::uint32_t g : group) {
          ensure(key_of(g), g);
          done_[g] = true;
          columns += static_cast<std::uint64_t>(tensor(graph_.nodes[g].inputs[1]).dims[0]);
        }
        const Tensor &k = tensor(graph_.nodes[n].inputs[1]), &v = tensor(graph_.nodes[n].inputs[2]);
        const bool half = !mixes() && key.form == 1 && k.dtype == QUERN_F16 && v.dtype == QUERN_F16 &&
                          rope_by_eights(k.last(), v.last(), tensor(what.table));
        const Buffer buffer = buffers_[n] = {slot(most_rows() * columns * 4), half};
        const char* const kernel = group.size() == 1 ? mixes() ? "matmul.mixed.one.cuda" : "matmul.16.one.cuda"
                                   : mixes()         ? "matmul.mixed.three.cuda"
                                                     : "matmul.16.three.cuda";
        return side_by_side(group, key, buffer.slot, kernel, half ? 1.0f : 0.0f);
      }
    // Gate and up: two products, or the halves of one.
    const std::uint32_t second = first + 1;
    if (second < graph_.nodes.size() && !done_[second] && why_no_two(first, second) == nullptr) {
      const Glu glu = *glu_of(first, second);
      if (Operand* out = wanted(root(graph_.nodes[glu.node].outputs[0])); out != nullptr) {
        ensure(key_of(second), second);
        return emit_glu({first, second}, {all_rows(first), all_rows(second)}, glu, key, *out);
      }
    }
    if (const auto glu = glu_of_columns(first); glu && why_no_halves(first, *glu) == nullptr)
      if (Operand* out = wanted(root(graph_.nodes[glu->node].outputs[0])); out != nullptr) {
        const Part all = all_rows(first);
        return emit_glu(
            {first}, {{all.weight, glu->gate, all.rows / 2, all.order, all.slot}, {all.weight, glu->up, all.rows / 2, all.order, all.slot}},
            *glu, key, *out);
      }
    done_[first] = true;
    const Node& node = graph_.nodes[first];
    const Residuals sum = take_residuals(first, mixes() ? 2 : 1);
    const OneProduct product{all_rows(first), operand_at(key), front_of(key), bias_of(first), sum.first,
                             sum.second,      sum.stored,      workspace_,    mixes()};
    if (!mixes()) schedule_.dense.push_back({{node.inputs[1], product.part.order}});
    const AdaptedProducts adapted = adapted_products({first}, key, none, sum.stored, 0);
    emit_down(adapted, first);
    Step& step = add_step(first, {first}, mixes() ? "matmul.mixed" : "matmul.16",
                          {node.inputs[1], product.bias, sum.first, sum.second, product.norm.value, product.norm.weight});
    step.nodes.insert(step.nodes.end(), sum.nodes.begin(), sum.nodes.end());
    for (std::size_t i = 0; i < sum.nodes.size(); ++i) step.kernel += ".add";
    step.kernel += ".cuda";
    step.writes = {sum.stored};
    step.extras = {product.in.slot, workspace_};
    step.emit = product;
    emit_up(adapted, first);
  }

  /// Why two nodes are no gate and up of one operand whose gated activation is made with them.
  Refusal why_no_two(std::uint32_t gate, std::uint32_t up) const {
    if (!is_product(gate) || !is_product(up)) return "gate and up are no two products in 16 bits";
    if (up != gate + 1) return "gate and up are no neighbours in this order";
    if (!same_operand(key_of(gate), key_of(up))) return "gate and up are products of different operands";
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
    const int activation = activation_of(glu.node);
    const std::int64_t n = parts[0].rows;
    const bool half = half_of(readers(root(graph_.nodes[glu.node].outputs[0])).front());
    out.filled = true;
    out.scale = half ? glu_scale : 1.0f;
    if (mixes() && tensor(parts[0].weight).dtype == tensor(parts[1].weight).dtype && parts[0].slot == parts[1].slot &&
        !has_adapters(group)) {
      GluProducts products{parts, operand_at(key), front_of(key), graph_.nodes[gate].inputs[0], activation, out.slot, out.scale,
                           half,  out.order};
      Step& step =
          add_step(gate, group, "matmul.mixed.glu.cuda", {parts[0].weight, parts[1].weight, products.norm.value, products.norm.weight});
      step.nodes.push_back(glu.node);
      step.extras = {products.in.slot, out.slot};
      step.emit = std::move(products);
      return;
    }
    const std::uint32_t buffer = slot(most_rows() * static_cast<std::uint64_t>(n) * 8);
    const bool y16 = key.form == 1 && !mixes();
    side_by_side(group, key, buffer, mixes() ? "matmul.mixed.two.cuda" : "matmul.16.two.cuda", y16 ? gate_scale : 0.0f);
    Step& step = add_step(glu.node, {glu.node}, "glu.16.cuda", {});
    step.extras = {buffer, out.slot};
    step.emit = [=, rows_of = graph_.nodes[gate].inputs[0], to = out.slot, order = out.order, scale = out.scale,
                 mixed = mixes()](const StepContext& context, Launcher& launcher) {
      const std::int64_t m = context.tensor(rows_of).dims[0];
      const Glu16Params p{context.extra(buffer),
                          context.extra(to),
                          m,
                          static_cast<int>(n),
                          half,
                          scale,
                          y16 ? gate_scale : 0.0f,
                          activation,
                          room_of(mixed, m),
                          0,
                          context.order(order).places};
      launcher.launch(kernels::glu16, launcher.spread(m * n / 8), 256, p);
    };
  }

  /// An attention whose queries, keys and values come from three products of one operand, over a cache of 16-bit floats.
  Refusal why_no_attention(std::uint32_t n, const Attention& what) const override {
    const Node& node = graph_.nodes[n];
    if (!serves_rows(node.inputs[0])) return "its number of rows is another one than that of most products";
    if (const Refusal why = WideAttention::why_no_kernel(graph_, node, what); why != nullptr) return why;
    if (!whole(node.outputs[0])) return "its result is a part of a value or a strided view";
    std::uint32_t operand = none;
    for (const std::uint32_t value : {what.q, what.k, what.v}) {
      const std::uint32_t r = root(value), made_by = maker(r);
      if (made_by == none || !is_product(made_by)) return "queries, keys or values come from no product in 16 bits";
      if (kept(r) || !std::ranges::all_of(readers(r), [&](std::uint32_t user) { return std::ranges::count(what.nodes, user) != 0; }))
        return "queries, keys or values are read by another node too";
      if (operand != none && !same_operand(key_of(made_by), key_of(operand)))
        return "queries, keys and values are products of different operands";
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
    const Attention& what = attention_.at(n);
    const Buffer& buffer = buffers_.at(n);
    const Tensor &q = tensor(node.inputs[0]), &k = tensor(node.inputs[1]);
    WideAttention attention(graph_, node, what);
    attention.buffer = buffer.slot;
    attention.x16 = buffer.half;
    attention.queries = slot(most_rows() * static_cast<std::uint64_t>(q.dims[1] * q.dims[2]) * 2);
    attention.biases = {bias_at(what.q), bias_at(what.k), bias_at(what.v)};
    attention.outputs = outputs_;
    attention.mixed = mixes();
    attention.alone = mixes() && floats_ && !has_bias(what);
    attention.matrices = attention_rows_serves(k, tensor(node.inputs[2]), card_.shared_limit);
    const bool all_given = is_given(what, node);
    attention.early = attention.alone && settled_ && all_given;
    attention.batch_early = batch_settled_ && all_given;
    const std::uint32_t r = root(node.outputs[0]);
    Operand* out = wanted(r);
    if (out != nullptr) {
      out->filled = true;
      attention.to = out->slot;
      attention.order = out->order;
      attention.half = half_of(readers(r).front());
    }
    auto [write, attend] = attention.steps(n, weights_of_norms(what), card_);
    schedule_.steps.push_back(std::move(write));
    schedule_.steps.push_back(std::move(attend));
  }

  /// A schedule without steps, for a reason of the whole graph where a node itself has none.
  Schedule nothing(Refusal reason) {
    Schedule none_here;
    none_here.alone = adapted_.in_host(alone_in_all(graph_, [&](std::uint32_t n) {
      if (graph_.nodes[n].op != QUERN_OP_MATMUL) return sdk::Alone{n, "product", reason};
      const Refusal own = symbol_ == none ? nullptr : why_no_product(n);
      return sdk::Alone{n, "product", own != nullptr ? own : reason};
    }));
    return none_here;
  }

  Refusal why_no_glu(std::uint32_t glu, std::uint32_t gate, std::uint32_t up) const override {
    Refusal why = nullptr;
    if (gate != up) why = why_no_two(gate, up);
    else if (const auto halves = glu_of_columns(gate, &why); halves) why = why_no_halves(gate, *halves);
    return why != nullptr ? why : why_not_wanted(glu);
  }

  /// Queries, keys and values, side by side.
  struct Buffer {
    std::uint32_t slot;
    bool half;  // f16: where the cache has it too, which queries, keys and values must fit into
  };
  bool mixed_;
  bool floats_ = false;         // no product has quantised weights
  bool settled_ = false;        // a product of one row that settles (MixedParams) was emitted
  bool batch_settled_ = false;  // the same of more rows: a norm
  std::uint32_t symbol_ = none, outputs_ = none, workspace_ = 0;
  std::map<std::uint32_t, Buffer> buffers_;                                   // by the attention node
  std::map<std::uint32_t, std::vector<std::uint32_t>> attention_of_queries_;  // by the product that makes them
};

/// Why products of many rows are no step with their adapters: those take the products' operand, of 16 bits, and round their own numbers to TF32,
/// which is as exact as f16.
Refusal why_no_adapters(const Graph& graph, const Node& product, const Node& lora_matmul, bool mixed) {
  const Tensor &b = graph.values[product.inputs[1]].tensor, &x = graph.values[product.inputs[0]].tensor;
  if (!lora_matmul.f16_allowed() || (!(mixed ? b.dtype != QUERN_BF16 : b.dtype == QUERN_F16) && !lora_matmul.bf16_allowed()))
    return "its numerics allow no 16-bit activations";
  if (mixed && !is_block(b.dtype)) return "products of few rows of 16-bit floats make their operand themselves";
  if (b.rank != 2 || b.dims[0] % 8 != 0 || b.last() % 16 != 0)
    return "the weights of its product have rows or columns that are no multiple of 8 and 16";
  const std::uint64_t parts = 3, bytes = most_rank_of(graph, lora_matmul.inputs[1], product.inputs[1]) * parts * 4;
  const bool room = x.dims[0] == 0 || bytes <= most_low_bytes / static_cast<std::uint64_t>(x.dims[0]);
  return room ? nullptr : "its adapters may have higher ranks than a kernel has room for";
}

Schedule many_rows(const Graph& graph, const quern_graph* given, const CardFacts& card, bool mixed) {
  if (graph.source.symbols.empty()) return without_symbols(graph);
  const AdaptedGraph as_given(graph, nullptr);
  std::optional<ManyRows> apart;
  const auto adapted = std::make_shared<const AdaptedGraph>(
      graph, given,
      [&](const Graph& host, const Node& product, const Node& lora_matmul) { return why_no_adapters(host, product, lora_matmul, mixed); },
      [&](std::uint32_t product) { return (apart ? *apart : apart.emplace(as_given, card, mixed)).why_no_order(product); });
  Schedule schedule = ManyRows(*adapted, card, mixed).run();
  schedule.orders = adapted->orders();
  schedule.adapted = adapted;
  return schedule;
}

}  // namespace

Schedule wide_schedule(const Graph& graph, const quern_graph* given, const CardFacts& card) { return many_rows(graph, given, card, false); }

Schedule mixed_schedule(const Graph& graph, const quern_graph* given, const CardFacts& card) { return many_rows(graph, given, card, true); }

}  // namespace quern::cuda
