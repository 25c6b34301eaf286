// See decode.hpp.
#include "decode.hpp"

#include "ops/attention.hpp"
#include "ops/matmul.hpp"

#include <algorithm>
#include <limits>
#include <map>

namespace quern::cuda {
namespace {

constexpr std::uint32_t none = QUERN_NONE;

/// int8 activations made of a value, perhaps times a norm's weight.
struct Key {
  std::uint32_t value;  // root
  std::uint32_t norm;   // node, or none
  auto operator<=>(const Key&) const = default;
};
struct Companion {
  std::uint32_t slot = 0;
  std::int64_t k = 0;
  bool filled = false;
};

class Fuser {
 public:
  Fuser(const Graph& graph, std::uint32_t most_rows)
      : graph_(graph),
        most_rows_(most_rows),
        done_(graph.nodes.size(), false),
        users_(graph.values.size()),
        maker_(graph.values.size(), none) {
    schedule_.most_rows = most_rows;
    for (std::uint32_t n = 0; n < graph.nodes.size(); ++n) {
      for (const std::uint32_t v : graph.nodes[n].inputs)
        if (v != none) users_[root(v)].push_back(n);
      for (const std::uint32_t v : graph.nodes[n].outputs)
        if (v != none) maker_[root(v)] = n;
    }
  }

  Schedule run() {
    find_deferred_norms();
    find_keys();
    if (most_rows_ == 1) find_attention();
    Schedule general = general_schedule(graph_);
    for (std::uint32_t n = 0; n < graph_.nodes.size(); ++n) {
      if (done_[n]) continue;
      if (attention_.contains(n)) emit_attention(n);
      else if (is_product(n)) emit_products(n);
      else schedule_.steps.push_back(std::move(general.steps[n]));
    }
    if (keys_.empty()) return {};
    return std::move(schedule_);
  }

 private:
  std::uint32_t root(std::uint32_t v) const { return graph_.values[v].root; }
  const Tensor& tensor(std::uint32_t v) const { return graph_.values[v].tensor; }
  /// A view of all of its root's memory, packed.
  bool whole(std::uint32_t v) const {
    const Value& value = graph_.values[v];
    return value.offset == 0 && value.bytes == graph_.values[value.root].bytes && value.tensor.contiguous();
  }
  bool kept(std::uint32_t r) const { return !graph_.internal(r); }
  bool only_user(std::uint32_t r, std::uint32_t node) const {
    return !kept(r) && std::ranges::all_of(users_[r], [&](std::uint32_t n) { return n == node; });
  }

  /// Does a run that takes this schedule have most_rows rows at most? One with a ranged first dimension is chosen by its extents.
  bool few_rows(const Tensor& x) const { return x.ranged == 1 || (x.ranged == 0 && x.dims[0] <= most_rows_); }

  bool is_product(std::uint32_t n) const {
    const Node& node = graph_.nodes[n];
    if (node.op != QUERN_OP_MATMUL || !node.int8_allowed) return false;
    const Tensor &a = tensor(node.inputs[0]), &b = tensor(node.inputs[1]), &y = tensor(node.outputs[0]);
    if (node.inputs.size() > 3 && node.inputs[3] != none) return false;
    return a.dtype == QUERN_F32 && y.dtype == QUERN_F32 && a.rank == 2 && few_rows(a) &&
           has_int8_kernel(b) && (b.planes || b.contiguous()) && whole(node.inputs[0]) &&
           whole(node.outputs[0]) && node.attributes->integer(QUERN_KEY_TRANSPOSE_A) == 0 &&
           node.attributes->integer(QUERN_KEY_TRANSPOSE_B) == 0 &&
           node.attributes->real(QUERN_KEY_ALPHA) == 1.0;
  }

  void find_deferred_norms() {
    for (std::uint32_t n = 0; n < graph_.nodes.size(); ++n) {
      const Node& node = graph_.nodes[n];
      if (node.op != QUERN_OP_RMS_NORM || node.inputs.size() < 2 || node.inputs[1] == none) continue;
      const std::uint32_t y = root(node.outputs[0]);
      if (kept(y) || users_[y].empty() || !whole(node.inputs[0]) || tensor(node.inputs[0]).dtype != QUERN_F32) continue;
      const bool only_products = std::ranges::all_of(users_[y], [&](std::uint32_t user) {
        return is_product(user) && root(graph_.nodes[user].inputs[0]) == y;
      });
      if (only_products) done_[n] = true;
    }
  }

  Key key_of(std::uint32_t product) const {
    const std::uint32_t a = root(graph_.nodes[product].inputs[0]), maker = maker_[a];
    if (maker != none && graph_.nodes[maker].op == QUERN_OP_RMS_NORM && done_[maker]) return {root(graph_.nodes[maker].inputs[0]), maker};
    return {a, none};
  }

  void find_keys() {
    for (std::uint32_t n = 0; n < graph_.nodes.size(); ++n) {
      if (!is_product(n)) continue;
      const Key key = key_of(n);
      if (keys_.contains(key)) continue;
      const std::int64_t k = tensor(graph_.nodes[n].inputs[0]).last();
      keys_[key] = {static_cast<std::uint32_t>(schedule_.extras.size()), k, false};
      schedule_.extras.push_back(activation_bytes(k));
    }
  }
  /// The first activations that are wanted of a value.
  std::map<Key, Companion>::iterator wanted(std::uint32_t value_root) {
    const auto at = keys_.lower_bound({value_root, 0});
    return at != keys_.end() && at->first.value == value_root && !at->second.filled ? at : keys_.end();
  }
  /// Whether all that reads a value are products that take these activations.
  bool served_by(std::uint32_t r, const Key& key) const {
    return !kept(r) && std::ranges::all_of(users_[r], [&](std::uint32_t n) {
      return (is_product(n) && root(graph_.nodes[n].inputs[0]) == r && key_of(n) == key) || (key.norm == n);
    });
  }

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
    step.nodes = key.norm == none ? 0 : 1;
    step.kernel = key.norm == none ? "quantise.cuda" : "rms_norm.quantise.cuda";
    step.reads = {key.value, norm.weight};
    step.extras = {companion.slot};
    step.emit = [key, norm, companion](const StepContext& context, Launcher& launcher) {
      const Tensor& x = context.tensor(key.value);
      const Activations out = activations_at(context.extra(companion.slot), companion.k, key.norm != none);
      launch_quantise(x.data, norm.weight == none ? 0 : context.tensor(norm.weight).data, norm.offset,
                      x.elements() / companion.k, companion.k, out, launcher);
    };
    schedule_.steps.push_back(std::move(step));
  }

  /// What a step does with the activations that its output is wanted as.
  struct Post {
    bool any = false;
    Key key{none, none};
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
    const auto even = [&](std::uint32_t n) { return tensor(graph_.nodes[n].inputs[1]).dims[0] % 2 == 0; };
    for (std::uint32_t n = first + 1;
         n < graph_.nodes.size() && group.size() < 3 && even(n - 1) && !done_[n] && is_product(n) &&
         root(graph_.nodes[n].inputs[0]) == root(graph_.nodes[first].inputs[0]);
         ++n)
      group.push_back(n);
    std::uint32_t stored = none, glu = none, residual = none;
    if (group.size() == 2) glu = glu_of(group);
    if (glu != none) stored = graph_.nodes[glu].outputs[0];
    if (group.size() == 1) {
      stored = graph_.nodes[first].outputs[0];
      if (const std::uint32_t add = add_of(first, residual); add != none) {
        stored = graph_.nodes[add].outputs[0];
        done_[add] = true;
      }
    }
    Step step;
    step.first_node = first;
    step.nodes = static_cast<std::uint32_t>(group.size());
    step.kernel = "gemv.cuda";
    std::vector<std::uint32_t> weights, biases, outputs;
    for (const std::uint32_t n : group) {
      done_[n] = true;
      const Node& node = graph_.nodes[n];
      weights.push_back(node.inputs[1]);
      biases.push_back(node.inputs.size() > 2 ? node.inputs[2] : none);
      outputs.push_back(node.outputs[0]);
    }
    Post post;
    bool store = true;
    if (stored != none) {
      post = post_for(root(stored), tensor(weights[0]).dims[0]);
      store = !post.any || !served_by(root(stored), post.key);
      outputs.assign(1, stored);
    }
    if (glu != none) {
      done_[glu] = true;
      ++step.nodes;
      step.kernel = "gemv.glu.cuda";
    }
    if (residual != none) {
      ++step.nodes;
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
    step.extras = {in.slot};
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
      p.x = activations_at(context.extra(in.slot), in.k, norm.weight != none);
      p.x.epsilon = norm.epsilon;
      p.residual = residual == none ? 0 : context.tensor(residual).data;
      p.glu = glu != none;
      if (post.any) {
        p.out = activations_at(context.extra(post.companion.slot), post.companion.k, post.norm.weight != none);
        p.out_weight = post.norm.weight == none ? 0 : context.tensor(post.norm.weight).data;
        p.out_offset = post.norm.offset;
      }
      launch_gemv(p, launcher);
    };
    schedule_.steps.push_back(std::move(step));
  }

  /// The glu node whose gate and up are the two products, and nothing else reads them; or none.
  std::uint32_t glu_of(const std::vector<std::uint32_t>& group) const {
    const Node &a = graph_.nodes[group[0]], &b = graph_.nodes[group[1]];
    const std::uint32_t ya = root(a.outputs[0]), yb = root(b.outputs[0]);
    if (users_[ya].size() != 1 || users_[yb].size() != 1 || users_[ya][0] != users_[yb][0] || kept(ya) || kept(yb)) return none;
    const std::uint32_t n = users_[ya][0];
    const Node& node = graph_.nodes[n];
    if (node.op != QUERN_OP_GLU || node.inputs.size() < 2 || node.inputs[1] == none) return none;
    const bool in_order = root(node.inputs[0]) == ya && root(node.inputs[1]) == yb;
    const bool plain = node.attributes->integer(QUERN_KEY_KIND) == 0 &&
                       node.attributes->real(QUERN_KEY_ALPHA) == 1.0 &&
                       node.attributes->real(QUERN_KEY_LIMIT) == std::numeric_limits<double>::infinity();
    const bool no_bias = (a.inputs.size() < 3 || a.inputs[2] == none) && (b.inputs.size() < 3 || b.inputs[2] == none);
    const Tensor &wa = tensor(a.inputs[1]), &wb = tensor(b.inputs[1]);
    const bool alike = wa.dtype == wb.dtype && wa.dims[0] == wb.dims[0] && wa.planes == wb.planes && wa.dims[0] % 32 == 0;
    const bool output = whole(node.outputs[0]) && tensor(node.outputs[0]).dtype == QUERN_F32;
    return in_order && plain && no_bias && alike && output ? n : none;
  }

  /// The add node that sums the product with a value that is there already; or none.
  std::uint32_t add_of(std::uint32_t product, std::uint32_t& other) const {
    const std::uint32_t y = root(graph_.nodes[product].outputs[0]);
    if (kept(y) || users_[y].size() != 1) return none;
    const std::uint32_t n = users_[y][0];
    const Node& node = graph_.nodes[n];
    if (node.op != QUERN_OP_ADD || node.attributes->real(QUERN_KEY_ALPHA) != 1.0) return none;
    const bool first = root(node.inputs[0]) == y;
    const std::uint32_t operand = node.inputs[first ? 1 : 0];
    if (root(operand) == y || !whole(operand) || !whole(node.inputs[0]) || !whole(node.inputs[1]) || !whole(node.outputs[0])) return none;
    const Tensor &t = tensor(operand), &sum = tensor(node.outputs[0]);
    if (t.dtype != QUERN_F32 || sum.dtype != QUERN_F32 || !check_same(t, sum).empty()) return none;
    const std::uint32_t maker = maker_[root(operand)];
    if (maker != none && maker > product) return none;
    other = operand;
    return n;
  }

  struct Attention {
    std::uint32_t q, k, v, table, mode;
    std::vector<std::uint32_t> nodes;
  };

  void find_attention() {
    for (std::uint32_t n = 0; n < graph_.nodes.size(); ++n) {
      const Node& node = graph_.nodes[n];
      if (node.op != QUERN_OP_ATTENTION || node.attributes->integer(QUERN_KEY_CAUSAL) == 0) continue;
      if (!few_rows(tensor(node.inputs[0]))) continue;
      const auto rope_of = [&](std::uint32_t value, std::uint32_t user) -> const Node* {
        const std::uint32_t r = root(value), maker = maker_[r];
        if (maker == none || !only_user(r, user) || !whole(value)) return nullptr;
        const Node& rope = graph_.nodes[maker];
        const bool plain = rope.op == QUERN_OP_ROPE && rope.attributes->integer(QUERN_KEY_INVERSE) == 0 &&
                           rope.attributes->integer(QUERN_KEY_SECTION0) == 0 &&
                           rope.attributes->integer(QUERN_KEY_SECTION1) == 0 &&
                           rope.attributes->integer(QUERN_KEY_SECTION2) == 0 &&
                           rope.attributes->integer(QUERN_KEY_SECTION3) == 0;
        return plain && rope.inputs[1] == node.inputs[5] && whole(rope.inputs[0]) &&
                       tensor(rope.inputs[0]).dtype == QUERN_F32
                   ? &rope
                   : nullptr;
      };
      const auto writer_of = [&](std::uint32_t cache) {  // the one kv_write before this node that writes the cache
        std::uint32_t found = none;
        for (std::uint32_t w = 0; w < n; ++w) {
          const Node& write = graph_.nodes[w];
          if (write.op == QUERN_OP_KV_WRITE && root(write.outputs[0]) == root(cache)) {
            if (found != none || write.inputs[1] != node.inputs[3] || write.inputs[2] != node.inputs[4] ||
                write.inputs[3] != node.inputs[5])
              return none;
            found = w;
          }
        }
        return found;
      };
      const Node* rope_q = rope_of(node.inputs[0], n);
      const std::uint32_t write_k = writer_of(node.inputs[1]), write_v = writer_of(node.inputs[2]);
      if (rope_q == nullptr || write_k == none || write_v == none || root(node.inputs[1]) == root(node.inputs[2])) continue;
      const Node* rope_k = rope_of(graph_.nodes[write_k].inputs[0], write_k);
      const std::uint32_t v = graph_.nodes[write_v].inputs[0];
      if (rope_k == nullptr || !whole(v) || tensor(v).dtype != QUERN_F32) continue;
      if (rope_k->inputs[2] != rope_q->inputs[2] ||
          rope_k->attributes->integer(QUERN_KEY_MODE) != rope_q->attributes->integer(QUERN_KEY_MODE))
        continue;
      // Nobody else may look at the caches between their writing and this node.
      bool alone = true;
      for (const std::uint32_t cache : {node.inputs[1], node.inputs[2]})
        alone = alone && std::ranges::all_of(users_[root(cache)], [&](std::uint32_t user) {
                  return user == n || user == write_k || user == write_v || user > n;
                });
      if (!alone) continue;
      const std::uint32_t nodes[] = {maker_[root(node.inputs[0])], maker_[root(graph_.nodes[write_k].inputs[0])], write_k, write_v};
      attention_[n] = {rope_q->inputs[0],
                       rope_k->inputs[0],
                       v,
                       rope_q->inputs[2],
                       static_cast<std::uint32_t>(rope_q->attributes->integer(QUERN_KEY_MODE)),
                       {std::begin(nodes), std::end(nodes)}};
      for (const std::uint32_t taken : nodes) done_[taken] = true;
    }
  }

  void emit_attention(std::uint32_t n) {
    const Attention what = attention_.at(n);
    const Node& node = graph_.nodes[n];
    done_[n] = true;
    const Tensor& y = tensor(node.outputs[0]);
    const std::uint32_t r = root(node.outputs[0]);
    Post post;
    if (whole(node.outputs[0]) && y.last() % 32 == 0 && wanted(r) != keys_.end() &&
        wanted(r)->first.norm == none)
      post = post_for(r, y.dims[1] * y.dims[2]);
    const bool store = !post.any || !served_by(r, post.key);
    Step step;
    step.first_node = n;
    step.nodes = 5;
    step.kernel = post.any ? "attention.rope.kv_write.quantise.cuda" : "attention.rope.kv_write.cuda";
    step.reads = node.inputs;
    step.reads[0] = what.q;
    for (const std::uint32_t v : {what.k, what.v, what.table}) step.reads.push_back(v);
    if (store) step.writes = node.outputs;
    if (post.any) step.extras = {post.companion.slot};
    std::vector<Tensor> storage;
    step.scratch = attention_scratch(graph_.describe(node, storage));
    step.emit = [this_node = &node, what, post, store, storage = std::vector<Tensor>(node.inputs.size() + 1)](
                    const StepContext& context, Launcher& launcher) mutable {
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
      const Tensor& table = context.tensor(what.table);
      p.new_k = context.tensor(what.k).data;
      p.new_v = context.tensor(what.v).data;
      p.rope = table.data;
      p.rope_positions = table.dims[0];
      p.rope_pairs = table.dims[1];
      p.rope_mode = static_cast<int>(what.mode);
      if (!store) p.y = 0;
      if (post.any) p.out = activations_at(context.extra(post.companion.slot), post.companion.k, false);
      launch_attention(p, storage[0].dims[0], launcher);
    };
    schedule_.steps.push_back(std::move(step));
  }

  const Graph& graph_;
  std::uint32_t most_rows_;
  std::vector<bool> done_;
  std::vector<std::vector<std::uint32_t>> users_;  // nodes, by root
  std::vector<std::uint32_t> maker_;               // the last node that writes a root
  std::map<Key, Companion> keys_;
  std::map<std::uint32_t, Attention> attention_;
  Schedule schedule_;
};

}  // namespace

Schedule decode_schedule(const Graph& graph, std::uint32_t most_rows) {
  // Larger runs take other kernels, so that a row's bits would depend on how many rows there are.
  if (std::ranges::any_of(graph.nodes, &Node::invariant)) return {};
  if (graph.source.symbols.empty()) return {};  // Plan::schedule_for chooses by extents, and here are none
  return Fuser(graph, most_rows).run();
}

}  // namespace quern::cuda
