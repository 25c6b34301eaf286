// See decode.hpp.
#include "decode.hpp"

#include "fuser.hpp"
#include "ops/attention.hpp"
#include "ops/experts.hpp"
#include "ops/matmul.hpp"
#include "ops/rings.hpp"

#include <algorithm>
#include <set>

namespace quern::cuda {
namespace {

constexpr std::uint32_t none = QUERN_NONE;
// Forms of operands: the dtype of Activations, or
constexpr int raw_codes = -1;   // f32, which each product quantises itself
constexpr int raw_floats = -2;  // f32, for weights of f16 and bf16

// Where in the counters of a run the words of adapters lie (kernels/adapters.cuh): attention and experts of one row count in the first half.
constexpr std::uint64_t words_at = counter_bytes / 2, word_bytes = 8, most_parts = 3;
constexpr std::uint64_t most_adapter_ranks = (counter_bytes - words_at - word_bytes) / word_bytes / most_parts;

class FewRows : Fuser {
 public:
  FewRows(const AdaptedGraph& graph, std::uint32_t most_rows, const CardFacts& card) : Fuser(graph, card), most_rows_(most_rows) {
    schedule_.most_rows = most_rows;
  }
  /// Of any number of rows, each with the bits that it has alone: norms, rotations and what products make of their sums are a row's own.
  /// The sums of products and attention have an order that the weights and the row's position alone decide.
  FewRows(const AdaptedGraph& graph, const CardFacts& card)
      : Fuser(graph, card, true), most_rows_(largest_rows(graph.graph())), invariant_{true} {}

  Schedule run() {
    judge_products();
    rings_ = one_row() && !adapted_.has_adapters() && rings_serve_all();
    find_norms();
    done_ = in_front_;
    find_operands();
    find_attention();
    find_sums();
    find_fronts();
    find_experts();
    if (!operands_.empty()) return emit_all();
    Schedule nothing;
    nothing.alone = adapted_.in_host(alone_in_all(graph_, [&](std::uint32_t n) {
      const sdk::Alone own = why_left(n);
      return done_[n] || own.reason == sdk::fusion::missed ? sdk::Alone{n, "product", "no product of the graph takes int8 activations"}
                                                           : own;
    }));
    return nothing;
  }

 private:
  bool emit(std::uint32_t n) override {
    if (attention_.contains(n)) emit_attention(n);
    else if (is_product(n)) emit_products(n);
    else if (const auto sum = sums_.find(n); sum != sums_.end()) emit_row(n, sum->second.norm, sum->second.other);
    else if (emit_experts(n)) return true;
    else if (why_no_operand(n) == nullptr) emit_row(n, n, none);
    else return false;
    return true;
  }

  /// Whether kernels of one row serve it, which others may not have.
  bool one_row() const { return most_rows_ == 1 && !invariant_; }
  static std::uint32_t largest_rows(const Graph& graph) {
    std::int64_t most = 1;
    for (const auto& value : graph.values)
      if (value.tensor.ranged == 1) most = std::max(most, value.tensor.dims[0]);
    return static_cast<std::uint32_t>(std::min<std::int64_t>(most, INT32_MAX));
  }

  /// Does a run that takes this schedule have most_rows rows at most? One with a ranged first dimension is chosen by its extents.
  bool few_rows(const Tensor& x) const { return x.ranged == 1 || (x.ranged == 0 && x.dims[0] <= most_rows_); }
  bool serves_rows(std::uint32_t value) const override { return few_rows(tensor(value)); }

  Refusal why_no_kernel(std::uint32_t n) const override {
    const Node& node = graph_.nodes[n];
    const Tensor& b = tensor(node.inputs[1]);
    if (!given(node.inputs[1])) return "its weights are made in the graph";
    if (!serves_rows(node.inputs[0])) return "it always has more rows than these kernels take";
    if ((node.int8_allowed() && (has_int8_kernel(b) || takes_groups(b))) || takes_floats(node, b)) return nullptr;
    if (is_block(b.dtype) && !is_fast_format(b.dtype))
      return "its weights' format has kernels that decode it, and none for int8 activations";
    return is_block(b.dtype) && !node.int8_allowed() ? "its numerics allow no int8 activations"
                                                     : "no kernel of few rows takes its weights' dtype, shape or layout";
  }

  /// Formats of quantised directories, one row: kernels/stream.cu alone has them.
  bool takes_groups(const Tensor& b) const {
    return one_row() && b.rank == 2 && is_group_format(b) && stream_serves(b.dtype, b.last(), card_);
  }
  /// Weights of f16 or bf16, one row: activations of the same type. More rows have products of many rows (wide.hpp).
  bool takes_floats(const Node& node, const Tensor& b) const {
    const bool allowed = b.dtype == QUERN_F16 ? node.f16_allowed() : b.dtype == QUERN_BF16 && node.bf16_allowed();
    return allowed && one_row() && b.rank == 2 && (rings_serve(b.dtype, b.last(), card_) || tiles_serve(b.dtype, b.last(), 1, card_));
  }
  int form_of(std::uint32_t product) const override {
    const Tensor& b = tensor(graph_.nodes[product].inputs[1]);
    if (is_float(b.dtype)) return rings_serve(b.dtype, b.last(), card_) ? raw_floats : static_cast<int>(b.dtype);
    return takes_raw(product) ? raw_codes : 0;
  }
  /// Models of Q5_0, Q5_1, Q5_K and Q6_K alone, one row: by kernels/rings.cu, which unpacks them with fewer instructions. Of other block formats
  /// kernels/stream.cu is as fast or faster.
  bool rings_serve_all() const {
    bool any = false;
    for (std::uint32_t n = 0; n < graph_.nodes.size(); ++n) {
      if (!is_product(n)) continue;
      const Tensor& b = tensor(graph_.nodes[n].inputs[1]);
      if (is_float(b.dtype)) continue;
      if (blocks_of(b).aligned == 0 || !rings_serve(b.dtype, b.last(), card_)) return false;
      any = true;
    }
    return any;
  }
  /// One row by kernels/stream.cu. Attention quantises what it makes, if its heads are whole groups of 32, and larger rows are dearer to read in f32 by every block.
  bool takes_raw(std::uint32_t product) const {
    const Node& node = graph_.nodes[product];
    const Tensor& b = tensor(node.inputs[1]);
    const std::uint32_t made_by = maker(root(node.inputs[0]));
    return one_row() && (rings_ || b.last() <= most_raw) && blocks_of(b).aligned != 0 && stream_serves(b.dtype, b.last(), card_) &&
           (made_by == none || graph_.nodes[made_by].op != QUERN_OP_ATTENTION || tensor(graph_.nodes[made_by].outputs[0]).last() % 32 != 0);
  }

  /// Whether a product has a kernel that makes a front of its raw activations.
  bool takes_front(std::uint32_t product) const {
    return adapted_.adapter_of(product) == nullptr && form_of(product) < 0 && tensor(graph_.nodes[product].inputs[1]).last() <= most_raw;
  }

  std::uint64_t operand_bytes_of(std::uint32_t product, int form) const override {
    return form < 0 ? 0 : activation_bytes(tensor(graph_.nodes[product].inputs[0]).last(), room());
  }

  Refusal why_no_norm(std::uint32_t n) const override {
    return is_layer_norm(n) ? why_no_front(n) : why_not_in_front(n, false, "its result is read by a node that is no fused product");
  }
  /// Why products do not make a layer norm each, before they quantise.
  Refusal why_no_front(std::uint32_t n) const {
    if (!joins(n)) return why_alone(n);
    if (const Refusal why = why_no_row_norm(n); why != nullptr) return why;
    const std::uint32_t y = root(graph_.nodes[n].outputs[0]);
    if (kept(y) || readers(y).empty()) return "the host reads its result";
    const bool all = only_products(y, false) && std::ranges::all_of(readers(y), [&](std::uint32_t user) { return takes_front(user); });
    return all ? nullptr : "its result is read by a node that is no fused product of one row";
  }

  /// The first activations that are wanted of a value.
  std::map<Key, Operand>::iterator wanted(std::uint32_t value_root) {
    for (auto at = operands_.lower_bound({value_root, 0, raw_floats}); at != operands_.end() && at->first.value == value_root; ++at)
      if (!at->second.filled) return at;
    return operands_.end();
  }
  /// Products that read an operand.
  std::vector<std::uint32_t> products_of(const Key& key) const {
    std::vector<std::uint32_t> products;
    for (const std::uint32_t n : readers(key.norm == none ? key.value : root(graph_.nodes[key.norm].outputs[0])))
      if (is_product(n) && key_of(n) == key) products.push_back(n);
    return products;
  }
  /// Whether one of them has adapters, which read the value in f32.
  bool has_adapters(const Key& key) const {
    return std::ranges::any_of(products_of(key), [&](std::uint32_t n) { return adapted_.adapter_of(n) != nullptr; });
  }
  /// Whether all that reads a value are products that take these activations.
  bool served_by(std::uint32_t r, const Key& key) const {
    return !kept(r) && !has_adapters(key) && std::ranges::all_of(readers(r), [&](std::uint32_t n) {
      return (is_product(n) && root(graph_.nodes[n].inputs[0]) == r && key_of(n) == key) || (key.norm == n);
    });
  }

  /// Whether a step counts this norm among its nodes, or there is none; from now on one does.
  bool told(std::uint32_t norm) { return norm == none || !told_.insert(norm).second; }

  void ensure(const Key& key, std::uint32_t node) {
    Operand& operand = operands_.at(key);
    if (operand.filled) return;
    operand.filled = true;
    settled_ = true;
    const Norm norm = norm_of(key);
    Step& step = add_step(node, {}, key.norm == none ? "quantise.cuda" : "rms_norm.quantise.cuda", {key.value, norm.weight});
    if (!told(key.norm)) step.nodes.push_back(key.norm);
    step.extras = {operand.slot};
    step.emit = [key, norm, operand, room = room()](const StepContext& context, Launcher& launcher) {
      const Tensor& x = context.tensor(key.value);
      const Activations out = activations_at(context.extra(operand.slot), operand.k, key.norm != none, key.form, room);
      launch_quantise(x.data, context.address(norm.weight), norm.offset, x.elements() / operand.k, operand.k, out, launcher);
    };
  }

  /// What a step does with the activations that its output is wanted as.
  struct Post {
    bool any = false;
    Key key{none, none, 0};
    Operand operand;
    Norm norm;
    std::int64_t room = most_gemv_rows;
    Activations in(const StepContext& context) const {
      return activations_at(context.extra(operand.slot), operand.k, norm.weight != none, key.form, room);
    }
  };
  Post post_for(std::uint32_t value_root, std::int64_t n) {
    const auto at = wanted(value_root);
    if (at == operands_.end() || at->second.k != n || n % 32 != 0) return {};
    at->second.filled = true;
    return {true, at->first, at->second, norm_of(at->first), room()};
  }

  /// Of one row sums with norms behind products are made where the next product reads them, with the norm in front of that.
  void find_fronts() {
    for (const auto& [add, sum] : sums_)
      if (const std::uint32_t leader = leader_of(add); leader != none) {
        fronts_[leader] = add;
        done_[add] = true;
      }
  }
  /// The product that can make a sum for itself and all that read it behind it; or none.
  std::uint32_t leader_of(std::uint32_t add) const {
    const std::uint32_t r = root(graph_.nodes[add].outputs[0]);
    for (std::uint32_t n = add + 1; n < graph_.nodes.size(); ++n) {
      if (!is_product(n)) continue;
      // A product before it may store what another reads of the sum.
      const Key key = key_of(n);
      if (key.value != r || !takes_front(n) || is_layer_norm(key.norm)) return none;
      if (has_adapters(key)) return none;
      return std::ranges::all_of(readers(r), [&](std::uint32_t user) { return user >= n || user == key.norm; }) ? n : none;
    }
    return none;
  }

  /// What the activations of a group of products become first.
  struct Start {
    Front front{};
    Norm norm;
    std::uint32_t added = none, sum = none;  // values
    std::uint32_t raw = none;                // in place of the key's
    std::vector<std::uint32_t> nodes;
  };
  Start start_of(std::uint32_t first, const Key& key) {
    Start start;
    start.raw = key.value;
    if (const auto at = fronts_.find(first); at != fronts_.end()) {
      const NormedSum& sum = sums_.at(at->second);
      start.front.kind = front_sum;
      start.raw = sum.input;
      start.added = sum.other;
      start.sum = graph_.nodes[at->second].outputs[0];
      start.nodes = {at->second, sum.norm};
      start.norm = norm_of(sum.norm);
    } else if (is_layer_norm(key.norm)) {
      start.front.kind = front_layer_norm;
      start.norm = norm_of(key.norm);
    }
    start.front.offset = start.norm.offset;
    start.front.epsilon = start.norm.epsilon;
    return start;
  }

  /// Rows of a matrix that are one part of a step.
  struct Part {
    std::uint32_t weight, bias;
    std::int64_t first, rows;
    const Adapter* adapter;
  };
  std::vector<Part> parts_of(const std::vector<std::uint32_t>& group) const {
    std::vector<Part> parts;
    for (const std::uint32_t n : group) {
      const Node& node = graph_.nodes[n];
      parts.push_back({node.inputs[1], node.inputs.size() > 2 ? node.inputs[2] : none, 0, tensor(node.inputs[1]).dims[0],
                       adapted_.adapter_of(n)});
    }
    return parts;
  }
  /// The adapters of a step's parts as its kernel takes them. `x`: the value of their operand.
  std::function<Adapters(const StepContext&, Launcher&)> adapters_of(const std::vector<Part>& parts, std::uint32_t x, const Norm& norm,
                                                                     bool early) const {
    std::uint64_t most_rank = 0;
    for (const Part& part : parts)
      if (part.adapter != nullptr) most_rank = std::max(most_rank, most_rank_of(graph_, part.adapter->pool, part.weight));
    return [=](const StepContext& context, Launcher& launcher) {
      Adapters q{};
      for (std::size_t i = 0; i < parts.size(); ++i) {
        if (parts[i].adapter == nullptr) continue;
        const Adapter& adapter = *parts[i].adapter;
        const Tensor &pool = context.tensor(adapter.pool), &table = context.tensor(adapter.table);
        q.part[i] = {pool.data,
                     table.data,
                     context.tensor(adapter.slot).data,
                     static_cast<int>(pool.dtype),
                     pool.elements(),
                     table.dims[0],
                     parts[i].first,
                     context.tensor(parts[i].weight).dims[0],
                     adapter.alpha};
      }
      q.x = context.tensor(x).data;
      q.weight = context.address(norm.weight);
      q.offset = norm.offset;
      q.count = context.counters() + words_at;
      q.words = q.count + word_bytes;
      q.most_rank = static_cast<int>(most_rank);
      q.early = early ? 1 : 0;
      q.faults = launcher.faults();
      return q;
    };
  }

  /// What a step makes of its products' results before it stores them.
  struct End {
    Residuals residuals;
    int glu = 0, activation = act_none;
    std::vector<std::uint32_t> nodes;
    const char* kernel = "gemv.cuda";
  };
  End end_of(const std::vector<std::uint32_t>& group, std::vector<Part>& parts) {
    End end;
    const std::uint32_t first = group.front();
    const auto gated = [&](const Glu& glu) {
      end.glu = 1, end.activation = activation_of(glu.node), end.nodes = {glu.node}, end.kernel = "gemv.glu.cuda";
      end.residuals.stored = graph_.nodes[glu.node].outputs[0];
      done_[glu.node] = true;
    };
    if (group.size() == 2 && alike(group))
      if (const auto glu = glu_of(group[0], group[1])) gated(*glu);
    if (group.size() != 1) return end;
    end.residuals.stored = graph_.nodes[first].outputs[0];
    if (const auto glu = glu_of_columns(first); glu && parts[0].rows % 64 == 0) {
      const std::int64_t half = parts[0].rows / 2;
      const Part all = parts[0];
      parts = {{all.weight, none, glu->gate, half, all.adapter}, {all.weight, none, glu->up, half, all.adapter}};
      gated(*glu);
      return end;
    }
    if (const std::uint32_t node = activation_behind(first); node != none) {
      end.activation = activation_of(node);
      end.residuals.stored = graph_.nodes[node].outputs[0];
      end.nodes = {node}, end.kernel = "gemv.activation.cuda";
      done_[node] = true;
      return end;
    }
    end.residuals = take_residuals(first, 2);
    end.nodes = end.residuals.nodes;
    static constexpr const char* names[] = {"gemv.cuda", "gemv.add.cuda", "gemv.add.add.cuda"};
    end.kernel = names[end.nodes.size()];
    return end;
  }

  void emit_products(std::uint32_t first) {
    const Key key = key_of(first);
    ensure(key, first);
    std::vector<std::uint32_t> group{first};
    // A warp takes two neighbouring rows, so that a part before another one has an even number of them. kernels/stream.cu, which raw
    // activations, adapters and formats of quantised directories need, has whole tiles, of the last part too.
    const auto of_groups = [&](std::uint32_t n) { return is_group_format(tensor(graph_.nodes[n].inputs[1])); };
    const bool groups = of_groups(first), by_stream = key.form == raw_codes || has_adapters(key) || groups;
    const int alike_rows = !by_stream && (key.form == 0 || key.form == raw_floats) ? 2 : 16;
    const auto even = [&](std::uint32_t n) {
      const Tensor& b = tensor(graph_.nodes[n].inputs[1]);
      return b.dims[0] % alike_rows == 0 && (!by_stream || (blocks_of(b).aligned != 0 && stream_serves(b.dtype, b.last(), card_)));
    };
    for (std::uint32_t n = first + 1; n < graph_.nodes.size() && group.size() < 3 && even(n - 1) && !done_[n] && is_product(n) &&
                                      key_of(n) == key && of_groups(n) == groups && (!by_stream || even(n));
         ++n)
      group.push_back(n);
    for (const std::uint32_t n : group) done_[n] = true, groups_[n] = {first, group.size()};
    std::vector<Part> parts = parts_of(group);
    const Start start = start_of(first, key);
    const End end = end_of(group, parts);
    std::vector<std::uint32_t> nodes = group;
    if (!told(key.norm)) nodes.push_back(key.norm);
    for (const auto* list : {&start.nodes, &end.nodes}) nodes.insert(nodes.end(), list->begin(), list->end());
    const bool by_rings = rings_ || key.form == raw_floats, one_result = end.residuals.stored != none;
    const std::uint32_t stored = root(one_result ? end.residuals.stored : graph_.nodes[first].outputs[0]);
    Post post;
    if (one_result && !by_rings) post = post_for(stored, parts[0].rows);  // kernels/rings.cu makes no codes
    const bool store = !post.any || !served_by(stored, post.key);
    std::vector<std::uint32_t> outputs;
    if (one_result) outputs = {end.residuals.stored};
    else
      for (const std::uint32_t n : group) outputs.push_back(graph_.nodes[n].outputs[0]);
    std::string kernel = group.size() == 3 ? "gemv.three.cuda" : end.kernel;
    if (start.front.kind != front_none) kernel.insert(0, start.front.kind == front_sum ? "norm.add." : "layer_norm.");
    const bool adapted = std::ranges::any_of(parts, [](const Part& part) { return part.adapter != nullptr; });
    if (adapted) kernel.insert(kernel.size() - 5, ".adapters");
    if (post.any) kernel.insert(kernel.size() - 5, ".quantise");
    const Operand in = operands_.at(key);
    const Norm norm = norm_of(key);
    Step& step = add_step(first, std::move(nodes), std::move(kernel), {});
    for (const Part& part : parts) step.reads.insert(step.reads.end(), {part.weight, part.bias});
    const Residuals& residuals = end.residuals;
    step.reads.insert(step.reads.end(),
                      {residuals.first, residuals.second, post.norm.weight, start.norm.weight, start.norm.bias, start.added});
    if (store) step.writes = outputs;
    if (start.sum != none) step.writes.push_back(start.sum);
    const bool raw = key.form < 0, settles = raw && !settled_, early = settled_;
    settled_ = settled_ || raw;
    if (raw) step.reads.insert(step.reads.end(), {start.raw, norm.weight});
    else step.extras = {in.slot};
    if (post.any) step.extras.push_back(post.operand.slot);
    for (const Part& part : parts)
      if (part.adapter != nullptr) step.reads.insert(step.reads.end(), {part.adapter->pool, part.adapter->table, part.adapter->slot});
    if (adapted) step.reads.insert(step.reads.end(), {key.value, norm.weight});
    step.emit = [=, rows_of = graph_.nodes[first].inputs[0], room = room(), invariant = invariant_,
                 adapters = adapters_of(parts, key.value, norm, early)](const StepContext& context, Launcher& launcher) {
      GemvParams p{};
      p.parts = static_cast<int>(parts.size());
      for (std::size_t i = 0; i < parts.size(); ++i) {
        p.part[i].w = blocks_of_rows(context.tensor(parts[i].weight), parts[i].first);
        p.part[i].bias = context.address(parts[i].bias);
        p.part[i].rows = static_cast<int>(parts[i].rows);
      }
      if (store)
        for (std::size_t i = 0; i < outputs.size(); ++i) p.part[i].y = context.tensor(outputs[i]).data;
      p.k = static_cast<int>(in.k);
      p.t = static_cast<int>(context.tensor(rows_of).dims[0]);
      if (!raw) p.x = activations_at(context.extra(in.slot), in.k, norm.weight != none, key.form, room);
      p.x.epsilon = norm.epsilon;
      p.residual = context.address(end.residuals.first);
      p.residual2 = context.address(end.residuals.second);
      p.glu = end.glu;
      p.activation = end.activation;
      if (post.any) {
        p.out = post.in(context);
        p.out_weight = context.address(post.norm.weight);
        p.out_offset = post.norm.offset;
      }
      RawInput input;
      if (raw) input = {context.address(start.raw), context.address(norm.weight), norm.offset, norm.weight != none, settles, start.front};
      input.front.weight = context.address(start.norm.weight);
      input.front.bias = context.address(start.norm.bias);
      input.front.added = context.address(start.added);
      input.front.sum = context.address(start.sum);
      if (by_rings && launch_rings(p, input, launcher)) return;
      if (!raw && !adapted && !groups) return launch_gemv(p, invariant, launcher);
      const Adapters of_parts = adapted ? adapters(context, launcher) : Adapters{};
      if (!launch_tiles(p, false, launcher, input, adapted ? &of_parts : nullptr))
        throw Failure(QUERN_INTERNAL, "a product of one row was fused that has no kernel");
    };
  }

  /// A norm, perhaps with a sum, in one pass over its rows, and what the next products take of the result.
  void emit_row(std::uint32_t n, std::uint32_t norm, std::uint32_t other) {
    const std::uint32_t result = graph_.nodes[n].outputs[0], r = root(result);
    Post post;
    if (const auto at = wanted(r); at != operands_.end() && at->first.form == 0) post = post_for(r, tensor(result).last());
    const bool store = !post.any || !served_by(r, post.key);
    add_row({n, norm, other, none, post.norm.weight, post.any ? post.operand.slot : none, store, ".quantise"},
            [post](RowParams& p, const StepContext& context, std::int64_t) {
              if (!post.any) return;
              p.out = post.in(context);
              p.next_weight = context.address(post.norm.weight);
              p.next_offset = post.norm.offset;
            });
  }
  /// Codes of its result, which it can make in its own pass.
  Refusal why_no_operand(std::uint32_t n) const override {
    if (const Refusal why = why_no_row_norm(n); why != nullptr) return why;
    if (!serves_rows(graph_.nodes[n].outputs[0])) return "it always has more rows than these kernels take";
    const std::uint32_t r = root(graph_.nodes[n].outputs[0]);
    const auto at = operands_.lower_bound({r, 0, raw_floats});
    if (at == operands_.end() || at->first.value != r) return "no fused product reads its result";
    return at->first.form == 0 ? nullptr : "the products of its result quantise it themselves";
  }

  /// Whether gate and up can be one kernel's.
  bool alike(const std::vector<std::uint32_t>& group) const {
    const Tensor &a = tensor(graph_.nodes[group[0]].inputs[1]), &b = tensor(graph_.nodes[group[1]].inputs[1]);
    return a.dtype == b.dtype && a.dims[0] == b.dims[0] && a.packed_layout == b.packed_layout && a.dims[0] % 32 == 0;
  }

  Refusal why_no_attention(std::uint32_t n, const Attention& what) const override {
    const Node& node = graph_.nodes[n];
    if (!serves_rows(node.inputs[0])) return "it always has more rows than these kernels take";
    const bool serves = one_row() || rope_kv_serves(tensor(node.inputs[1]), tensor(node.inputs[2]), tensor(what.table));
    return serves ? nullptr : "no kernel rotates heads of this size and writes them to this cache";
  }

  /// Whether queries are rotated where they lie: alone in their rows, for this attention alone, no block needing another's.
  bool turns_in_place(const Attention& what) const {
    return whole(what.q) && !what.norm_rows && only_reader(root(what.q), what.norm_q == none ? what.nodes.front() : what.norm_q);
  }
  /// Several rows: rotations and writes. Queries go where they lie, or to `queries`.
  void emit_rope_kv(const Attention& what, const Node& node, std::uint32_t queries) {
    Step& step = add_step(what.nodes.front(), what.nodes, what.norm_q == none ? "rope.kv_write.cuda" : "norm.rope.kv_write.cuda",
                          {what.k, what.v, what.table, node.inputs[1], node.inputs[2], node.inputs[3], node.inputs[4], node.inputs[5]});
    if (queries == none) step.writes = {what.q};
    else step.reads.push_back(what.q), step.extras = {queries};
    for (const std::uint32_t weight : weights_of_norms(what)) step.reads.push_back(weight);
    step.emit = [what, queries, q_row = columns_of(what.q)->of, k_row = columns_of(what.k)->of, v_row = columns_of(what.v)->of,
                 this_node = &node, graph = &graph_](const StepContext& context, Launcher& launcher) {
      const auto in = [&](std::size_t i) -> const Tensor& { return context.tensor(this_node->inputs[i]); };
      RopeKvParams p{};
      p.q = context.tensor(what.q).data;
      p.q_out = queries == none ? p.q : context.extra(queries);
      p.keys = context.tensor(what.k).data;
      p.values = context.tensor(what.v).data;
      p.q_row = q_row;
      p.k_row = k_row;
      p.v_row = v_row;
      p.q_dtype = QUERN_F32;
      p.k = pages_for(in(1), in(3), in(4), in(5));
      p.v = pages_for(in(2), in(3), in(4), in(5));
      p.heads = static_cast<int>(in(0).dims[1]);
      p.norms = head_norms(what, *graph, context);
      launch_rope_kv(p, context.tensor(what.table), static_cast<int>(what.mode), in(0).dims[0], launcher);
    };
  }

  void emit_attention(std::uint32_t n) {
    const Attention& what = attention_.at(n);
    const Node& node = graph_.nodes[n];
    const Tensor &q = tensor(node.inputs[0]), &y = tensor(node.outputs[0]);
    const std::uint32_t r = root(node.outputs[0]);
    Post post;
    if (whole(node.outputs[0]) && y.last() % 32 == 0 && wanted(r) != operands_.end() && wanted(r)->first.norm == none)
      post = post_for(r, y.dims[1] * y.dims[2]);
    const bool store = !post.any || !served_by(r, post.key), alone = one_row();
    std::uint32_t queries = none;
    if (!alone && !turns_in_place(what)) queries = slot(static_cast<std::uint64_t>(most_rows_ * q.dims[1] * q.dims[2]) * 4);
    if (!alone) emit_rope_kv(what, node, queries);  // rows may see each other's keys
    const char* const with = !alone ? "" : what.norm_q == none ? ".rope.kv_write" : ".norm.rope.kv_write";
    Step& step = add_step(n, {n}, concat("attention", with, post.any ? ".quantise" : "", ".cuda"), node.inputs);
    if (alone) step.nodes.insert(step.nodes.end(), what.nodes.begin(), what.nodes.end());
    step.reads[0] = queries == none ? what.q : none;
    step.reads.insert(step.reads.end(), {what.k, what.v, what.table});
    for (const std::uint32_t weight : weights_of_norms(what)) step.reads.push_back(weight);
    if (store) step.writes = node.outputs;
    if (post.any) step.extras = {post.operand.slot};
    if (queries != none) step.extras.push_back(queries);
    std::vector<Tensor> storage;
    step.scratch = attention_scratch(graph_.describe(node, storage));
    // Once a kernel has let the next one start only after its own wait, all before it is done, the delivery of the host's writes too.
    const bool early = alone && settled_ && is_given(what, node);
    step.emit = [this_call = NodeCall(graph_, node), what, post, store, alone, early, queries,
                 graph = &graph_](const StepContext& context, Launcher& launcher) mutable {
      const Call call = this_call.in(context);
      Tensor& rows = this_call.input(0);
      rows.data = queries == none ? context.tensor(what.q).data : context.extra(queries);
      rows.dtype = QUERN_F32;
      AttentionParams p = attention_params(call, launcher);
      if (alone) {
        p.new_k = context.tensor(what.k).data;
        p.new_v = context.tensor(what.v).data;
        set_rotation(p, what, context.tensor(what.table));
        p.norms = head_norms(what, *graph, context);
        p.early = early;
      }
      if (!store) p.y = 0;
      if (post.any) p.out = post.in(context);
      launch_attention(p, rows.dims[0], launcher);
    };
  }

  /// Whether a product of chosen experts always has so few pairs that each output is a warp's.
  bool few_experts(std::uint32_t product) const {
    const std::uint32_t id = graph_.nodes[product].inputs[2];
    return serves_rows(id) && most_rows_ * tensor(id).dims[1] <= few_pairs;
  }
  Refusal why_no_experts(std::uint32_t product) const override {
    return few_experts(product) ? nullptr : "it may have more pairs of a token and an expert than each output's warp takes";
  }

  Refusal why_no_glu(std::uint32_t, std::uint32_t gate, std::uint32_t up) const override {
    Refusal why = nullptr;
    if (gate == up) {
      if (!glu_of_columns(gate, &why)) return why;
      if (groups_[gate].size != 1) return "its product shares a kernel with others that read the same value";
      return tensor(graph_.nodes[gate].inputs[1]).dims[0] % 64 == 0 ? nullptr : "the halves of its product are no whole groups of rows";
    }
    if (!glu_of(gate, up, &why)) return why;
    if (!alike({gate, up})) return "the weights of gate and up differ in dtype or rows";
    if (groups_[gate].first != groups_[up].first) return "gate and up are no two neighbours with one operand";
    return groups_[gate].size == 2 ? nullptr : "gate and up share a kernel with another product of their operand";
  }
  Refusal why_no_activation(std::uint32_t, std::uint32_t product) const override {
    return groups_[product].size == 1 ? nullptr : "its product shares a kernel with others that read the same value";
  }

  /// Rows of the operands' memory.
  std::int64_t room() const { return std::max<std::int64_t>(most_gemv_rows, most_rows_); }

  const std::uint32_t most_rows_;
  const bool invariant_ = false;  // a row's bits do not depend on the number of rows, which is any
  std::set<std::uint32_t> told_;
  bool settled_ = false;                           // a step before was quantise.cu
  bool rings_ = false;                             // block formats by kernels/rings.cu
  std::map<std::uint32_t, std::uint32_t> fronts_;  // of products that make a sum: its add node
};

/// Why a product of one row is no kernel with its adapters: kernels/stream.cu alone takes them.
Refusal why_no_adapters(const Graph& graph, const Node& product, const Node& lora_matmul, const CardFacts& card) {
  const Tensor& b = graph.values[product.inputs[1]].tensor;
  if (!product.int8_allowed()) return "the numerics of its product allow no int8 activations";
  if ((!has_int8_kernel(b) && !is_group_format(b)) || blocks_of(b).aligned == 0 || !stream_serves(b.dtype, b.last(), card))
    return "no kernel that adds adapters takes its product's dtype, shape or layout, or the card";
  if (b.dims[0] % 16 != 0) return "the weights of its product are no whole tiles of 16 rows";
  const bool room = most_rank_of(graph, lora_matmul.inputs[1], product.inputs[1]) <= most_adapter_ranks;
  return room ? nullptr : "its adapters may have higher ranks than a kernel has room for";
}

}  // namespace

Schedule decode_schedule(const Graph& graph, const quern_graph* given, std::uint32_t most_rows, const CardFacts& card) {
  if (graph.source.symbols.empty()) return without_symbols(graph);  // Plan::schedule_for chooses by extents
  if (most_rows > 1) return FewRows(AdaptedGraph(graph, "no kernel of up to 8 rows adds adapters to its product"), most_rows, card).run();
  const auto adapted =
      std::make_shared<const AdaptedGraph>(graph, given, [&](const Graph& host, const Node& product, const Node& lora_matmul) {
        return why_no_adapters(host, product, lora_matmul, card);
      });
  Schedule schedule = FewRows(*adapted, most_rows, card).run();
  schedule.adapted = adapted;
  return schedule;
}

Schedule invariant_schedule(const Graph& graph, const CardFacts& card) {
  if (graph.source.symbols.empty()) return without_symbols(graph);
  std::uint64_t invariant = 0, others = 0;
  for (const Node& node : graph.nodes)
    if (node.op == QUERN_OP_MATMUL) (node.invariant ? invariant : others) += graph.values[node.inputs[1]].bytes;
  if (invariant <= others) return no_schedule(graph, "product", "most products may depend on the batch, which has faster kernels");
  return FewRows(AdaptedGraph(graph, "no kernel whose results do not depend on the batch adds adapters to its product"), card).run();
}

}  // namespace quern::cuda
