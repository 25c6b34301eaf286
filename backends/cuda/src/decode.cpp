// See decode.hpp.
#include "decode.hpp"

#include "fusion.hpp"
#include "ops/attention.hpp"
#include "ops/matmul.hpp"
#include "ops/rings.hpp"

#include <algorithm>
#include <map>
#include <set>

namespace quern::cuda {
namespace {

constexpr std::uint32_t none = QUERN_NONE;
constexpr int raw_codes = -1;   // of Key: f32, which each product quantises itself
constexpr int raw_floats = -2;  // f32, for weights of f16 and bf16

/// Activations that a product takes of a value, perhaps times a norm's weight.
struct Key {
  std::uint32_t value;  // root
  std::uint32_t norm;   // node, or none
  int codes;            // dtype of Activations, raw_codes or raw_floats
  auto operator<=>(const Key&) const = default;
};
struct Companion {
  std::uint32_t slot = 0;
  std::int64_t k = 0;
  bool filled = false;
};

class Fuser : Uses {
 public:
  Fuser(const Graph& graph, std::uint32_t most_rows, const CardFacts& card)
      : Uses(graph), most_rows_(most_rows), card_(card), done_(graph.nodes.size(), false) {
    schedule_.most_rows = most_rows;
  }

  Schedule run() {
    rings_ = most_rows_ == 1 && rings_serve_all();
    find_deferred_norms();
    find_keys();
    find_attention();
    if (keys_.empty()) {
      Schedule nothing;
      nothing.alone = alone_in_all(graph_, [&](std::uint32_t n) {
        return attention_.contains(n) || done_[n] ? sdk::Alone{n, "product", "no product of the graph takes int8 activations"} : alone(n);
      });
      return nothing;
    }
    Schedule general = general_schedule(graph_);
    for (std::uint32_t n = 0; n < graph_.nodes.size(); ++n) {
      if (done_[n]) continue;
      if (attention_.contains(n)) emit_attention(n);
      else if (is_product(n)) emit_products(n);
      else {
        schedule_.alone.push_back(alone(n));
        schedule_.steps.push_back(std::move(general.steps[n]));
      }
    }
    return std::move(schedule_);
  }

 private:
  /// Does a run that takes this schedule have most_rows rows at most? One with a ranged first dimension is chosen by its extents.
  bool few_rows(const Tensor& x) const { return x.ranged == 1 || (x.ranged == 0 && x.dims[0] <= most_rows_); }

  Refusal why_no_product(std::uint32_t n) const {
    const Node& node = graph_.nodes[n];
    if (node.op != QUERN_OP_MATMUL) return "it is no product of two matrices";
    if (!joins(n)) return why_alone(n);
    if (!stable(node.inputs[0]) || !stable(node.outputs[0])) return "its operand or its result is written in place";
    if (!given(node.inputs[1])) return "its weights are made in the graph";
    if (node.inputs.size() > 2 && !given(node.inputs[2])) return "its bias is made in the graph";
    const Tensor &a = tensor(node.inputs[0]), &b = tensor(node.inputs[1]), &y = tensor(node.outputs[0]);
    if (node.inputs.size() > 3 && node.inputs[3] != none) return "it has an addend of its own";
    if (a.dtype != QUERN_F32 || y.dtype != QUERN_F32) return "its operand or its result is not f32";
    if (a.rank != 2) return "its operand is no matrix";
    if (!few_rows(a)) return "it always has more rows than these kernels take";
    if (!(node.int8_allowed() && has_int8_kernel(b)) && !takes_floats(node, b))
      return is_block(b.dtype) && !node.int8_allowed() ? "its numerics allow no int8 activations"
                                                       : "no kernel of few rows takes its weights' dtype, shape or layout";
    if (!b.packed_layout && !is_contiguous(b)) return "its weights are a strided view";
    if (!whole(node.inputs[0]) || !whole(node.outputs[0])) return "its operand or its result is a part of a value or a strided view";
    if (node.attributes->integer(QUERN_KEY_TRANSPOSE_A) != 0 || node.attributes->integer(QUERN_KEY_TRANSPOSE_B) != 0)
      return "an operand is transposed";
    if (node.attributes->real(QUERN_KEY_ALPHA) != 1.0) return "it has a factor";
    return nullptr;
  }
  bool is_product(std::uint32_t n) const { return why_no_product(n) == nullptr; }

  /// Weights of f16 or bf16, one row: activations of the same type. More rows have products of many rows (wide.hpp).
  bool takes_floats(const Node& node, const Tensor& b) const {
    const bool allowed = b.dtype == QUERN_F16 ? node.f16_allowed() : b.dtype == QUERN_BF16 && node.bf16_allowed();
    return allowed && most_rows_ == 1 && b.rank == 2 && (rings_serve(b.dtype, b.last(), card_) || tiles_serve(b.dtype, b.last(), 1, card_));
  }
  int codes_of(std::uint32_t product) const {
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
  /// One row by kernels/stream.cu. Attention quantises what it makes, and larger rows are dearer to read in f32 by every block.
  bool takes_raw(std::uint32_t product) const {
    const Node& node = graph_.nodes[product];
    const Tensor& b = tensor(node.inputs[1]);
    const std::uint32_t made_by = maker(root(node.inputs[0]));
    return most_rows_ == 1 && (rings_ || b.last() <= most_raw) && blocks_of(b).aligned != 0 && stream_serves(b.dtype, b.last(), card_) &&
           (made_by == none || graph_.nodes[made_by].op != QUERN_OP_ATTENTION);
  }

  void find_deferred_norms() {
    for (std::uint32_t n = 0; n < graph_.nodes.size(); ++n) {
      if (graph_.nodes[n].op == QUERN_OP_RMS_NORM && why_not_deferred(n) == nullptr) done_[n] = true;
    }
  }
  /// Why a norm is not part of the products that read it.
  Refusal why_not_deferred(std::uint32_t n) const {
    const Node& node = graph_.nodes[n];
    if (!joins(n)) return why_alone(n);
    if (node.inputs.size() < 2 || node.inputs[1] == none) return "it has no weight";
    if (!given(node.inputs[1])) return "its weight is made in the graph";
    const std::uint32_t y = root(node.outputs[0]);
    if (kept(y) || readers(y).empty()) return "the host reads its result";
    if (!whole(node.inputs[0])) return "it reads a part of a value or a strided view";
    if (tensor(node.inputs[0]).dtype != QUERN_F32) return "what it reads is not f32";
    if (!stable(node.inputs[0]) || !stable(node.outputs[0]))
      return "what it reads or its result is written in place";  // its products read its input
    const bool only_products =
        std::ranges::all_of(readers(y), [&](std::uint32_t user) { return is_product(user) && root(graph_.nodes[user].inputs[0]) == y; });
    return only_products ? nullptr : "its result is read by a node that is no fused product";
  }

  Key key_of(std::uint32_t product) const {
    const std::uint32_t a = root(graph_.nodes[product].inputs[0]), made_by = maker(a);
    if (made_by != none && graph_.nodes[made_by].op == QUERN_OP_RMS_NORM && done_[made_by])
      return {root(graph_.nodes[made_by].inputs[0]), made_by, codes_of(product)};
    return {a, none, codes_of(product)};
  }

  void find_keys() {
    for (std::uint32_t n = 0; n < graph_.nodes.size(); ++n) {
      if (!is_product(n)) continue;
      const Key key = key_of(n);
      if (keys_.contains(key)) continue;
      const std::int64_t k = tensor(graph_.nodes[n].inputs[0]).last();
      keys_[key] = {static_cast<std::uint32_t>(schedule_.extras.size()), k, key.codes < 0};
      schedule_.extras.push_back(key.codes < 0 ? 0 : activation_bytes(k));
    }
  }
  /// The first activations that are wanted of a value.
  std::map<Key, Companion>::iterator wanted(std::uint32_t value_root) {
    for (auto at = keys_.lower_bound({value_root, 0, raw_floats}); at != keys_.end() && at->first.value == value_root; ++at)
      if (!at->second.filled) return at;
    return keys_.end();
  }
  /// Whether all that reads a value are products that take these activations.
  bool served_by(std::uint32_t r, const Key& key) const {
    return !kept(r) && std::ranges::all_of(readers(r), [&](std::uint32_t n) {
      return (is_product(n) && root(graph_.nodes[n].inputs[0]) == r && key_of(n) == key) || (key.norm == n);
    });
  }

  /// Whether a step counts this norm among its nodes, or there is none; from now on one does.
  bool told(std::uint32_t norm) { return norm == none || !told_.insert(norm).second; }

  struct Norm {
    std::uint32_t weight = none;
    float offset = 0, epsilon = 0;
  };
  Norm norm_of(const Key& key) const {
    if (key.norm == none) return {};
    const Node& node = graph_.nodes[key.norm];
    return {node.inputs[1], static_cast<float>(node.attributes->real(QUERN_KEY_WEIGHT_OFFSET)),
            static_cast<float>(node.attributes->real(QUERN_KEY_EPSILON))};
  }

  void ensure(const Key& key, std::uint32_t node) {
    Companion& companion = keys_.at(key);
    if (companion.filled) return;
    companion.filled = true;
    const Norm norm = norm_of(key);
    Step step;
    step.first_node = node;
    if (!told(key.norm)) step.nodes.push_back(key.norm);
    step.kernel = key.norm == none ? "quantise.cuda" : "rms_norm.quantise.cuda";
    settled_ = true;
    step.reads = {key.value, norm.weight};
    step.extras = {companion.slot};
    step.emit = [key, norm, companion](const StepContext& context, Launcher& launcher) {
      const Tensor& x = context.tensor(key.value);
      const Activations out = activations_at(context.extra(companion.slot), companion.k, key.norm != none, key.codes);
      launch_quantise(x.data, norm.weight == none ? 0 : context.tensor(norm.weight).data, norm.offset, x.elements() / companion.k,
                      companion.k, out, launcher);
    };
    schedule_.steps.push_back(std::move(step));
  }

  /// What a step does with the activations that its output is wanted as.
  struct Post {
    bool any = false;
    Key key{none, none, 0};
    Companion companion;
    Norm norm;
  };
  Post post_for(std::uint32_t value_root, std::int64_t n) {
    const auto at = wanted(value_root);
    if (at == keys_.end() || at->second.k != n || n % 32 != 0) return {};
    at->second.filled = true;
    return {true, at->first, at->second, norm_of(at->first)};
  }

  void emit_products(std::uint32_t first) {
    const Key key = key_of(first);
    ensure(key, first);
    std::vector<std::uint32_t> group{first};
    // A warp takes two neighbouring rows, so that a part before another one has an even number of them.
    const int alike_rows = key.codes == 0 || key.codes == raw_floats ? 2 : 16;
    const auto even = [&](std::uint32_t n) { return tensor(graph_.nodes[n].inputs[1]).dims[0] % alike_rows == 0; };
    // kernels/stream.cu, which raw activations need, has whole tiles of the last part too.
    for (std::uint32_t n = first + 1; n < graph_.nodes.size() && group.size() < 3 && even(n - 1) && !done_[n] && is_product(n) &&
                                      key_of(n) == key && (key.codes != raw_codes || even(n));
         ++n)
      group.push_back(n);
    std::uint32_t stored = none, glu = none, residual = none, sum = none;
    if (group.size() == 2 && alike(group)) glu = glu_of(group[0], group[1]);
    if (glu != none) stored = graph_.nodes[glu].outputs[0];
    if (group.size() == 1) {
      stored = graph_.nodes[first].outputs[0];
      if (const std::uint32_t add = add_of(first, residual); add != none) {
        stored = graph_.nodes[add].outputs[0];
        done_[add] = true;
        sum = add;
      }
    }
    Step step;
    step.first_node = first;
    step.nodes = group;
    if (!told(key.norm)) step.nodes.push_back(key.norm);
    step.kernel = "gemv.cuda";
    std::vector<std::uint32_t> weights, biases, outputs;
    for (const std::uint32_t n : group) {
      done_[n] = true;
      const Node& node = graph_.nodes[n];
      weights.push_back(node.inputs[1]);
      biases.push_back(node.inputs.size() > 2 ? node.inputs[2] : none);
      outputs.push_back(node.outputs[0]);
    }
    const bool by_rings = rings_ || key.codes == raw_floats;
    Post post;
    bool store = true;
    if (stored != none) {
      if (!by_rings) post = post_for(root(stored), tensor(weights[0]).dims[0]);  // kernels/rings.cu makes no codes
      store = !post.any || !served_by(root(stored), post.key);
      outputs.assign(1, stored);
    }
    if (glu != none) {
      done_[glu] = true;
      step.nodes.push_back(glu);
      step.kernel = "gemv.glu.cuda";
    }
    if (residual != none) {
      step.nodes.push_back(sum);
      step.kernel = "gemv.add.cuda";
    }
    if (group.size() == 3) step.kernel = "gemv.three.cuda";
    if (post.any) step.kernel.insert(step.kernel.size() - 5, ".quantise");
    const Companion in = keys_.at(key);
    const Norm norm = norm_of(key);
    step.reads = weights;
    step.reads.insert(step.reads.end(), biases.begin(), biases.end());
    step.reads.push_back(residual);
    step.reads.push_back(post.norm.weight);
    if (store) step.writes = outputs;
    const bool raw = key.codes < 0, settles = raw && !settled_;
    if (raw) {
      step.reads.push_back(key.value);
      step.reads.push_back(norm.weight);
      settled_ = true;
    } else {
      step.extras = {in.slot};
    }
    if (post.any) step.extras.push_back(post.companion.slot);
    const std::uint32_t rows_of = graph_.nodes[first].inputs[0];
    step.emit = [=](const StepContext& context, Launcher& launcher) {
      GemvParams p{};
      p.parts = static_cast<int>(weights.size());
      for (std::size_t i = 0; i < weights.size(); ++i) {
        const Tensor& w = context.tensor(weights[i]);
        p.part[i].w = blocks_of(w);
        p.part[i].bias = biases[i] == none ? 0 : context.tensor(biases[i]).data;
        p.part[i].rows = static_cast<int>(w.dims[0]);
      }
      if (store)
        for (std::size_t i = 0; i < outputs.size(); ++i) p.part[i].y = context.tensor(outputs[i]).data;
      p.k = static_cast<int>(in.k);
      p.t = static_cast<int>(context.tensor(rows_of).dims[0]);
      if (!raw) p.x = activations_at(context.extra(in.slot), in.k, norm.weight != none, key.codes);
      p.x.epsilon = norm.epsilon;
      p.residual = residual == none ? 0 : context.tensor(residual).data;
      p.glu = glu != none;
      if (post.any) {
        p.out = activations_at(context.extra(post.companion.slot), post.companion.k, post.norm.weight != none, post.key.codes);
        p.out_weight = post.norm.weight == none ? 0 : context.tensor(post.norm.weight).data;
        p.out_offset = post.norm.offset;
      }
      RawInput input;
      if (raw)
        input = {context.tensor(key.value).data, norm.weight == none ? 0 : context.tensor(norm.weight).data, norm.offset, key.norm != none,
                 settles};
      if (by_rings && launch_rings(p, input, launcher)) return;
      if (!raw) return launch_gemv(p, false, launcher);
      if (!launch_tiles(p, false, launcher, input)) throw Failure(QUERN_INTERNAL, "a product of one row was fused that has no kernel");
    };
    schedule_.steps.push_back(std::move(step));
  }

  /// Whether gate and up can be one kernel's.
  bool alike(const std::vector<std::uint32_t>& group) const {
    const Tensor &a = tensor(graph_.nodes[group[0]].inputs[1]), &b = tensor(graph_.nodes[group[1]].inputs[1]);
    return a.dtype == b.dtype && a.dims[0] == b.dims[0] && a.packed_layout == b.packed_layout && a.dims[0] % 32 == 0;
  }

  void find_attention() {
    for (std::uint32_t n = 0; n < graph_.nodes.size(); ++n) {
      if (graph_.nodes[n].op != QUERN_OP_ATTENTION) continue;
      if (!few_rows(tensor(graph_.nodes[n].inputs[0]))) {
        no_attention_.emplace(n, "it always has more rows than these kernels take");
        continue;
      }
      Refusal why = nullptr;
      const auto found = attention_at(n, &why);
      if (found && most_rows_ > 1) {  // queries are rotated where they lie
        if (!rope_kv_serves(tensor(graph_.nodes[n].inputs[1]), tensor(graph_.nodes[n].inputs[2]), tensor(found->table)))
          why = "no kernel rotates heads of this size and writes them to this cache";
        else if (!only_reader(root(found->q), found->norm_q == none ? found->nodes.front() : found->norm_q))
          why = "queries before their rotation are read by another node too";
      }
      if (why != nullptr) {
        for (const std::uint32_t around : around_attention(n)) no_attention_.emplace(around, why);
        continue;
      }
      if (found->why_no_norms != nullptr)
        for (const std::uint32_t around : around_attention(n)) no_attention_.emplace(around, found->why_no_norms);
      attention_[n] = *found;
      for (const std::uint32_t taken : found->nodes) done_[taken] = true;
    }
  }

  /// Queries are rotated where they lie.
  void emit_rope_kv(const Attention& what, const Node& node) {
    Step step;
    step.first_node = what.nodes.front();
    step.nodes = what.nodes;
    step.kernel = what.norm_q == none ? "rope.kv_write.cuda" : "norm.rope.kv_write.cuda";
    step.reads = {what.k, what.v, what.table, node.inputs[1], node.inputs[2], node.inputs[3], node.inputs[4], node.inputs[5]};
    step.writes = {what.q};
    for (const std::uint32_t norm : {what.norm_q, what.norm_k})
      if (norm != none) step.reads.push_back(graph_.nodes[norm].inputs[1]);
    step.emit = [what, this_node = &node, graph = &graph_](const StepContext& context, Launcher& launcher) {
      const auto in = [&](std::size_t i) -> const Tensor& { return context.tensor(this_node->inputs[i]); };
      const Tensor &q = context.tensor(what.q), &k = context.tensor(what.k), &v = context.tensor(what.v);
      RopeKvParams p{};
      p.q = p.q_out = q.data;
      p.keys = k.data;
      p.values = v.data;
      p.q_row = q.dims[1] * q.dims[2];
      p.k_row = k.dims[1] * k.dims[2];
      p.v_row = v.dims[1] * v.dims[2];
      p.q_dtype = QUERN_F32;
      p.k = pages_for(in(1), in(3), in(4), in(5));
      p.v = pages_for(in(2), in(3), in(4), in(5));
      p.heads = static_cast<int>(q.dims[1]);
      p.norms = head_norms(what, *graph, [&](std::uint32_t value) { return context.tensor(value).data; });
      launch_rope_kv(p, context.tensor(what.table), static_cast<int>(what.mode), q.dims[0], launcher);
    };
    schedule_.steps.push_back(std::move(step));
  }

  void emit_attention(std::uint32_t n) {
    const Attention what = attention_.at(n);
    const Node& node = graph_.nodes[n];
    done_[n] = true;
    const Tensor& y = tensor(node.outputs[0]);
    const std::uint32_t r = root(node.outputs[0]);
    Post post;
    if (whole(node.outputs[0]) && y.last() % 32 == 0 && wanted(r) != keys_.end() && wanted(r)->first.norm == none)
      post = post_for(r, y.dims[1] * y.dims[2]);
    const bool store = !post.any || !served_by(r, post.key), alone = most_rows_ == 1;
    if (!alone) emit_rope_kv(what, node);  // rows may see each other's keys
    Step step;
    step.first_node = n;
    step.nodes = {n};
    if (alone) step.nodes.insert(step.nodes.end(), what.nodes.begin(), what.nodes.end());
    step.kernel = concat("attention",
                         !alone                ? ""
                         : what.norm_q == none ? ".rope.kv_write"
                                               : ".norm.rope.kv_write",
                         post.any ? ".quantise" : "", ".cuda");
    step.reads = node.inputs;
    step.reads[0] = what.q;
    for (const std::uint32_t v : {what.k, what.v, what.table}) step.reads.push_back(v);
    for (const std::uint32_t norm : {what.norm_q, what.norm_k})
      if (norm != none) step.reads.push_back(graph_.nodes[norm].inputs[1]);
    if (store) step.writes = node.outputs;
    if (post.any) step.extras = {post.companion.slot};
    std::vector<Tensor> storage;
    step.scratch = attention_scratch(graph_.describe(node, storage));
    // Once a kernel has let the next one start only after its own wait, all before it is done, the delivery of the host's writes too.
    const auto given = [&](std::uint32_t v) { return maker(root(v)) == none; };
    const bool early = alone && settled_ && given(what.table) && given(node.inputs[3]) && given(node.inputs[4]) && given(node.inputs[5]);
    step.emit = [this_node = &node, what, post, store, alone, early, graph = &graph_,
                 storage = std::vector<Tensor>(node.inputs.size() + 1)](const StepContext& context, Launcher& launcher) mutable {
      for (std::size_t i = 0; i < this_node->inputs.size(); ++i)
        storage[i] = this_node->inputs[i] == none ? Tensor{} : context.tensor(this_node->inputs[i]);
      storage[0] = context.tensor(what.q);
      storage.back() = context.tensor(this_node->outputs[0]);
      Call call;
      call.op = this_node->op;
      call.inputs = {storage.data(), this_node->inputs.size()};
      call.outputs = {&storage.back(), 1};
      call.attributes = this_node->attributes.get();
      call.scratch = context.scratch();
      call.counters = context.counters();
      AttentionParams p = attention_params(call, launcher);
      if (alone) {
        const Tensor& table = context.tensor(what.table);
        p.new_k = context.tensor(what.k).data;
        p.new_v = context.tensor(what.v).data;
        p.rope = table.data;
        p.rope_positions = table.dims[0];
        p.rope_pairs = table.dims[1];
        p.rope_mode = static_cast<int>(what.mode);
        p.norms = head_norms(what, *graph, [&](std::uint32_t value) { return context.tensor(value).data; });
        p.early = early;
      }
      if (!store) p.y = 0;
      if (post.any) p.out = activations_at(context.extra(post.companion.slot), post.companion.k, false, post.key.codes);
      launch_attention(p, storage[0].dims[0], launcher);
    };
    schedule_.steps.push_back(std::move(step));
  }

  /// Why no rule took a node.
  sdk::Alone alone(std::uint32_t n) const {
    return why_left(n, no_attention_,
                    {[this](std::uint32_t product) { return why_no_product(product); },
                     [this](std::uint32_t norm) { return why_not_deferred(norm); },
                     [this](std::uint32_t gate, std::uint32_t up) {
                       Refusal why = nullptr;
                       if (glu_of(gate, up, &why) == none) return why;
                       return alike({gate, up}) ? "gate and up are no two neighbours with one operand"
                                                : "the weights of gate and up differ in dtype or rows";
                     },
                     "its product shares a kernel with others that read the same value"});
  }

  std::uint32_t most_rows_;
  CardFacts card_;
  std::vector<bool> done_;
  std::set<std::uint32_t> told_;
  bool settled_ = false;  // a step before was quantise.cu
  bool rings_ = false;    // block formats by kernels/rings.cu
  std::map<Key, Companion> keys_;
  std::map<std::uint32_t, Attention> attention_;
  std::map<std::uint32_t, Refusal> no_attention_;  // of attention nodes that are not fused, and of nodes that lead to one
  Schedule schedule_;
};

}  // namespace

Schedule decode_schedule(const Graph& graph, std::uint32_t most_rows, const CardFacts& card) {
  if (graph.source.symbols.empty()) return without_symbols(graph);  // Plan::schedule_for chooses by extents
  return Fuser(graph, most_rows, card).run();
}

}  // namespace quern::cuda
