// See decode.hpp.
#include "decode.hpp"

#include "fusion.hpp"
#include "ops/attention.hpp"
#include "ops/experts.hpp"
#include "ops/matmul.hpp"
#include "ops/norm.hpp"
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
      : Uses(graph), most_rows_(most_rows), card_(card), done_(graph.nodes.size(), false), made_(graph.nodes.size(), false) {
    schedule_.most_rows = most_rows;
  }

  Schedule run() {
    rings_ = most_rows_ == 1 && rings_serve_all();
    find_deferred_norms();
    find_keys();
    find_attention();
    find_sums();
    find_experts();
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
      else if (sums_.contains(n)) emit_sum(n);
      else if (expert_glus_.contains(n)) emit_expert_glu(n);
      else if (expert_sums_.contains(n)) emit_expert_sum(n);
      else if (makes_codes(n)) emit_norm(n);
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
  /// One row by kernels/stream.cu. Attention quantises what it makes, if its heads are whole groups of 32, and larger rows are dearer to read in f32 by every block.
  bool takes_raw(std::uint32_t product) const {
    const Node& node = graph_.nodes[product];
    const Tensor& b = tensor(node.inputs[1]);
    const std::uint32_t made_by = maker(root(node.inputs[0]));
    return most_rows_ == 1 && (rings_ || b.last() <= most_raw) && blocks_of(b).aligned != 0 && stream_serves(b.dtype, b.last(), card_) &&
           (made_by == none || graph_.nodes[made_by].op != QUERN_OP_ATTENTION || tensor(graph_.nodes[made_by].outputs[0]).last() % 32 != 0);
  }

  /// Whether a product has a kernel that makes a front of its raw activations.
  bool takes_front(std::uint32_t product) const {
    return codes_of(product) < 0 && tensor(graph_.nodes[product].inputs[1]).last() <= most_raw;
  }

  void find_deferred_norms() {
    for (std::uint32_t n = 0; n < graph_.nodes.size(); ++n) {
      const Node& node = graph_.nodes[n];
      if (node.op == QUERN_OP_LAYER_NORM) done_[n] = why_no_front(n) == nullptr;
      if (node.op == QUERN_OP_RMS_NORM && why_not_deferred(n) == nullptr) done_[n] = true;
    }
  }
  /// Why products do not make a layer norm each, before they quantise.
  Refusal why_no_front(std::uint32_t n) const {
    if (!joins(n)) return why_alone(n);
    if (!row_norm(n)) return "it is no norm of packed rows of f32 by a constant weight";
    const std::uint32_t y = root(graph_.nodes[n].outputs[0]);
    if (kept(y) || readers(y).empty()) return "the host reads its result";
    const bool all = std::ranges::all_of(readers(y), [&](std::uint32_t user) {
      return is_product(user) && root(graph_.nodes[user].inputs[0]) == y && takes_front(user);
    });
    return all ? nullptr : "its result is read by a node that is no fused product of one row";
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
    const bool is_norm = made_by != none &&
                         (graph_.nodes[made_by].op == QUERN_OP_RMS_NORM || graph_.nodes[made_by].op == QUERN_OP_LAYER_NORM);
    if (is_norm && done_[made_by]) return {root(graph_.nodes[made_by].inputs[0]), made_by, codes_of(product)};
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
    if (key.norm == none || graph_.nodes[key.norm].op == QUERN_OP_LAYER_NORM) return {};
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

  /// Sums with norms behind products: of one row they are made where the next product reads them, with the norm in front of that.
  void find_sums() {
    for (std::uint32_t add = 0; add < graph_.nodes.size(); ++add) {
      const auto sum = normed_sum_at(add);
      if (!sum || !few_rows(tensor(graph_.nodes[add].outputs[0]))) continue;
      done_[sum->norm] = true;
      sums_[add] = *sum;
      if (const std::uint32_t leader = leader_of(add); leader != none) {
        fronts_[leader] = add;
        done_[add] = true;
      }
    }
  }
  /// The product that can make a sum for itself and all that read it behind it; or none.
  std::uint32_t leader_of(std::uint32_t add) const {
    const std::uint32_t r = root(graph_.nodes[add].outputs[0]);
    for (std::uint32_t n = add + 1; n < graph_.nodes.size(); ++n) {
      if (!is_product(n)) continue;
      // A product before it may store what another reads of the sum.
      const Key key = key_of(n);
      if (key.value != r || !takes_front(n) || (key.norm != none && graph_.nodes[key.norm].op == QUERN_OP_LAYER_NORM)) return none;
      return std::ranges::all_of(readers(r), [&](std::uint32_t user) { return user >= n || user == key.norm; }) ? n : none;
    }
    return none;
  }

  /// What the activations of a group of products become first.
  struct Start {
    Front front{};
    std::uint32_t weight = none, bias = none, added = none, sum = none;  // values
    std::uint32_t raw = none;                                            // in place of the key's
    std::vector<std::uint32_t> nodes;
  };
  Start start_of(std::uint32_t first, const Key& key) {
    Start start;
    start.raw = key.value;
    std::uint32_t norm = none;
    if (const auto at = fronts_.find(first); at != fronts_.end()) {
      const NormedSum& sum = sums_.at(at->second);
      start.front.kind = front_sum;
      start.raw = sum.input;
      start.added = sum.other;
      start.sum = graph_.nodes[at->second].outputs[0];
      start.nodes = {at->second, sum.norm};
      norm = sum.norm;
    } else if (key.norm != none && graph_.nodes[key.norm].op == QUERN_OP_LAYER_NORM) {
      start.front.kind = front_layer_norm;
      norm = key.norm;
    }
    if (norm == none) return start;
    const Node& node = graph_.nodes[norm];
    start.weight = node.inputs[1];
    start.bias = start.front.kind == front_layer_norm && node.inputs.size() > 2 ? node.inputs[2] : none;
    start.front.offset = node.op == QUERN_OP_RMS_NORM ? static_cast<float>(node.attributes->real(QUERN_KEY_WEIGHT_OFFSET)) : 0.0f;
    start.front.epsilon = static_cast<float>(node.attributes->real(QUERN_KEY_EPSILON));
    return start;
  }

  /// Rows of a matrix that are one part of a step.
  struct Part {
    std::uint32_t weight, bias;
    std::int64_t first, rows;
  };
  std::vector<Part> parts_of(const std::vector<std::uint32_t>& group) const {
    std::vector<Part> parts;
    for (const std::uint32_t n : group) {
      const Node& node = graph_.nodes[n];
      parts.push_back({node.inputs[1], node.inputs.size() > 2 ? node.inputs[2] : none, 0, tensor(node.inputs[1]).dims[0]});
    }
    return parts;
  }
  /// What a step makes of its products' results before it stores them.
  struct End {
    std::uint32_t stored = none, residual = none, residual2 = none;
    int glu = 0, activation = act_none;
    std::vector<std::uint32_t> nodes;
    const char* kernel = "gemv.cuda";
  };
  End end_of(const std::vector<std::uint32_t>& group, std::vector<Part>& parts) {
    End end;
    const std::uint32_t first = group.front();
    const auto gated = [&](const Glu& glu) {
      end.glu = 1, end.activation = glu.activation, end.nodes = {glu.node}, end.kernel = "gemv.glu.cuda";
      end.stored = graph_.nodes[glu.node].outputs[0];
      done_[glu.node] = true;
    };
    if (group.size() == 2 && alike(group))
      if (const auto glu = glu_of(group[0], group[1])) gated(*glu);
    if (group.size() != 1) return end;
    end.stored = graph_.nodes[first].outputs[0];
    if (const auto glu = glu_of_columns(first); glu && parts[0].rows % 64 == 0) {
      const std::int64_t half = parts[0].rows / 2;
      parts = {{parts[0].weight, none, glu->gate, half}, {parts[0].weight, none, glu->up, half}};
      gated(*glu);
      return end;
    }
    if (const std::uint32_t node = activation_behind(first, end.activation); node != none) {
      end.stored = graph_.nodes[node].outputs[0];
      end.nodes = {node}, end.kernel = "gemv.activation.cuda";
      done_[node] = true;
      return end;
    }
    end.activation = act_none;
    const std::uint32_t add = add_of(first, first, made_, end.residual);
    if (add == none || sums_.contains(add)) {
      end.residual = none;
      return end;
    }
    end.stored = graph_.nodes[add].outputs[0];
    end.nodes = {add}, end.kernel = "gemv.add.cuda";
    done_[add] = made_[add] = true;
    if (const std::uint32_t second = add_of(add, first, made_, end.residual2); second != none && !sums_.contains(second)) {
      end.stored = graph_.nodes[second].outputs[0];
      end.nodes.push_back(second), end.kernel = "gemv.add.add.cuda";
      done_[second] = made_[second] = true;
    } else {
      end.residual2 = none;
    }
    return end;
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
    for (const std::uint32_t n : group) done_[n] = true;
    std::vector<Part> parts = parts_of(group);
    const Start start = start_of(first, key);
    const End end = end_of(group, parts);
    Step step;
    step.first_node = first;
    step.nodes = group;
    if (!told(key.norm)) step.nodes.push_back(key.norm);
    for (const auto* list : {&start.nodes, &end.nodes}) step.nodes.insert(step.nodes.end(), list->begin(), list->end());
    step.kernel = group.size() == 3 ? "gemv.three.cuda" : end.kernel;
    const bool by_rings = rings_ || key.codes == raw_floats;
    Post post;
    bool store = true;
    std::vector<std::uint32_t> outputs;
    for (const std::uint32_t n : group) outputs.push_back(graph_.nodes[n].outputs[0]);
    if (end.stored != none) {
      if (!by_rings) post = post_for(root(end.stored), parts[0].rows);  // kernels/rings.cu makes no codes
      store = !post.any || !served_by(root(end.stored), post.key);
      outputs.assign(1, end.stored);
    }
    if (start.front.kind != front_none) step.kernel.insert(0, start.front.kind == front_sum ? "norm.add." : "layer_norm.");
    if (post.any) step.kernel.insert(step.kernel.size() - 5, ".quantise");
    const Companion in = keys_.at(key);
    const Norm norm = norm_of(key);
    for (const Part& part : parts) step.reads.insert(step.reads.end(), {part.weight, part.bias});
    step.reads.insert(step.reads.end(), {end.residual, end.residual2, post.norm.weight, start.weight, start.bias, start.added});
    if (store) step.writes = outputs;
    if (start.sum != none) step.writes.push_back(start.sum);
    const bool raw = key.codes < 0, settles = raw && !settled_;
    if (raw) {
      step.reads.push_back(start.raw);
      step.reads.push_back(norm.weight);
      settled_ = true;
    } else {
      step.extras = {in.slot};
    }
    if (post.any) step.extras.push_back(post.companion.slot);
    const std::uint32_t rows_of = graph_.nodes[first].inputs[0];
    step.emit = [=](const StepContext& context, Launcher& launcher) {
      const auto address = [&](std::uint32_t v) { return v == none ? 0 : context.tensor(v).data; };
      GemvParams p{};
      p.parts = static_cast<int>(parts.size());
      for (std::size_t i = 0; i < parts.size(); ++i) {
        p.part[i].w = blocks_of_rows(context.tensor(parts[i].weight), parts[i].first);
        p.part[i].bias = address(parts[i].bias);
        p.part[i].rows = static_cast<int>(parts[i].rows);
      }
      if (store)
        for (std::size_t i = 0; i < outputs.size(); ++i) p.part[i].y = context.tensor(outputs[i]).data;
      p.k = static_cast<int>(in.k);
      p.t = static_cast<int>(context.tensor(rows_of).dims[0]);
      if (!raw) p.x = activations_at(context.extra(in.slot), in.k, norm.weight != none, key.codes);
      p.x.epsilon = norm.epsilon;
      p.residual = address(end.residual);
      p.residual2 = address(end.residual2);
      p.glu = end.glu;
      p.activation = end.activation;
      if (post.any) {
        p.out = activations_at(context.extra(post.companion.slot), post.companion.k, post.norm.weight != none, post.key.codes);
        p.out_weight = address(post.norm.weight);
        p.out_offset = post.norm.offset;
      }
      RawInput input;
      if (raw) input = {address(start.raw), address(norm.weight), norm.offset, norm.weight != none, settles, start.front};
      input.front.weight = address(start.weight);
      input.front.bias = address(start.bias);
      input.front.added = address(start.added);
      input.front.sum = address(start.sum);
      if (by_rings && launch_rings(p, input, launcher)) return;
      if (!raw) return launch_gemv(p, false, launcher);
      if (!launch_tiles(p, false, launcher, input)) throw Failure(QUERN_INTERNAL, "a product of one row was fused that has no kernel");
    };
    schedule_.steps.push_back(std::move(step));
  }

  /// A norm, perhaps with a sum, in one pass over its rows, and what the next products take of the result.
  void emit_row(std::uint32_t n, std::uint32_t norm, std::uint32_t other, std::uint32_t result) {
    if (norm != n) done_[n] = true;  // a norm that is done is one that a product makes (key_of)
    const Node& node = graph_.nodes[norm];
    const bool layer = node.op == QUERN_OP_LAYER_NORM;
    const std::uint32_t x = node.inputs[0], weight = node.inputs[1], bias = layer && node.inputs.size() > 2 ? node.inputs[2] : none;
    const std::uint32_t r = root(result);
    Post post;
    if (const auto at = wanted(r); at != keys_.end() && at->first.codes == 0) post = post_for(r, tensor(result).last());
    const bool store = !post.any || !served_by(r, post.key);
    Step step;
    step.first_node = n;
    step.nodes = {n};
    if (norm != n) step.nodes.push_back(norm);
    step.kernel = concat(layer ? "layer_norm" : "norm", other == none ? "" : ".add", post.any ? ".quantise" : "", ".cuda");
    step.reads = {x, weight, bias, other, post.norm.weight};
    if (store) step.writes = {result};
    if (post.any) step.extras = {post.companion.slot};
    const float offset = layer ? 0.0f : static_cast<float>(node.attributes->real(QUERN_KEY_WEIGHT_OFFSET));
    const auto epsilon = static_cast<float>(node.attributes->real(QUERN_KEY_EPSILON));
    step.emit = [=](const StepContext& context, Launcher& launcher) {
      const auto address = [&](std::uint32_t v) { return v == none ? 0 : context.tensor(v).data; };
      const Tensor& rows = context.tensor(x);
      RowParams p{};
      p.x = rows.data;
      p.weight = address(weight);
      p.bias = address(bias);
      p.layer = layer ? 1 : 0;
      p.offset = offset;
      p.epsilon = epsilon;
      p.added = address(other);
      if (store) p.y = context.tensor(result).data;
      if (post.any) {
        p.out = activations_at(context.extra(post.companion.slot), post.companion.k, post.norm.weight != none, post.key.codes);
        p.next_weight = address(post.norm.weight);
        p.next_offset = post.norm.offset;
      }
      p.h = static_cast<int>(rows.last());
      launch_norm_row(p, rows.dims[0], launcher);
    };
    schedule_.steps.push_back(std::move(step));
  }
  void emit_sum(std::uint32_t add) { emit_row(add, sums_.at(add).norm, sums_.at(add).other, graph_.nodes[add].outputs[0]); }
  void emit_norm(std::uint32_t n) { emit_row(n, n, none, graph_.nodes[n].outputs[0]); }
  /// Whether a norm's result is read by products as codes, which it can make in its own pass.
  bool makes_codes(std::uint32_t n) {
    if (!row_norm(n) || !few_rows(tensor(graph_.nodes[n].outputs[0]))) return false;
    const auto at = wanted(root(graph_.nodes[n].outputs[0]));
    return at != keys_.end() && at->first.codes == 0;
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
      if (found && most_rows_ > 1 &&
          !rope_kv_serves(tensor(graph_.nodes[n].inputs[1]), tensor(graph_.nodes[n].inputs[2]), tensor(found->table)))
        why = "no kernel rotates heads of this size and writes them to this cache";
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

  /// Whether queries are rotated where they lie: alone in their rows, for this attention alone, no block needing another's.
  bool turns_in_place(const Attention& what) const {
    return whole(what.q) && !what.norm_rows && only_reader(root(what.q), what.norm_q == none ? what.nodes.front() : what.norm_q);
  }
  /// Several rows: rotations and writes. Queries go where they lie, or to `queries`.
  void emit_rope_kv(const Attention& what, const Node& node, std::uint32_t queries) {
    Step step;
    step.first_node = what.nodes.front();
    step.nodes = what.nodes;
    step.kernel = what.norm_q == none ? "rope.kv_write.cuda" : "norm.rope.kv_write.cuda";
    step.reads = {what.k, what.v, what.table, node.inputs[1], node.inputs[2], node.inputs[3], node.inputs[4], node.inputs[5]};
    if (queries == none) step.writes = {what.q};
    else step.reads.push_back(what.q), step.extras = {queries};
    for (const std::uint32_t norm : {what.norm_q, what.norm_k})
      if (norm != none) step.reads.push_back(graph_.nodes[norm].inputs[1]);
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
      p.norms = head_norms(what, *graph, [&](std::uint32_t value) { return context.tensor(value).data; });
      launch_rope_kv(p, context.tensor(what.table), static_cast<int>(what.mode), in(0).dims[0], launcher);
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
    std::uint32_t queries = none;
    if (!alone && !turns_in_place(what)) {
      queries = static_cast<std::uint32_t>(schedule_.extras.size());
      const Tensor& q = tensor(node.inputs[0]);
      schedule_.extras.push_back(static_cast<std::uint64_t>(most_rows_ * q.dims[1] * q.dims[2]) * 4);
    }
    if (!alone) emit_rope_kv(what, node, queries);  // rows may see each other's keys
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
    step.reads[0] = queries == none ? what.q : none;
    for (const std::uint32_t v : {what.k, what.v, what.table}) step.reads.push_back(v);
    for (const std::uint32_t norm : {what.norm_q, what.norm_k})
      if (norm != none) step.reads.push_back(graph_.nodes[norm].inputs[1]);
    if (store) step.writes = node.outputs;
    if (post.any) step.extras = {post.companion.slot};
    if (queries != none) step.extras.push_back(queries);
    std::vector<Tensor> storage;
    step.scratch = attention_scratch(graph_.describe(node, storage));
    // Once a kernel has let the next one start only after its own wait, all before it is done, the delivery of the host's writes too.
    const auto given = [&](std::uint32_t v) { return maker(root(v)) == none; };
    const bool early = alone && settled_ && given(what.table) && given(node.inputs[3]) && given(node.inputs[4]) && given(node.inputs[5]);
    step.emit = [this_node = &node, what, post, store, alone, early, queries, graph = &graph_,
                 storage = std::vector<Tensor>(node.inputs.size() + 1)](const StepContext& context, Launcher& launcher) mutable {
      for (std::size_t i = 0; i < this_node->inputs.size(); ++i)
        storage[i] = this_node->inputs[i] == none ? Tensor{} : context.tensor(this_node->inputs[i]);
      storage[0].data = queries == none ? context.tensor(what.q).data : context.extra(queries);
      storage[0].dtype = QUERN_F32;
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

  /// Whether a product of chosen experts always has so few pairs that each output is a warp's.
  bool few_experts(std::uint32_t product) const {
    const Tensor& id = tensor(graph_.nodes[product].inputs[2]);
    return few_rows(id) && most_rows_ * id.dims[1] <= few_pairs;
  }
  /// Whether one warp goes through a token's experts as fast as a warp each.
  bool sums_in_one(std::uint32_t product) const { return tensor(graph_.nodes[product].inputs[2]).dims[1] <= most_summed_experts; }
  void find_experts() {
    for (std::uint32_t n = 0; n < graph_.nodes.size(); ++n) {
      if (const auto glu = expert_glu_at(n); glu && few_experts(glu->gate)) {
        expert_glus_[n] = *glu;
        done_[glu->gate] = done_[glu->up] = true;
      }
      if (const std::uint32_t down = expert_product_of(n); down != none && few_experts(down) && sums_in_one(down)) {
        expert_sums_[n] = down;
        done_[down] = true;
      }
    }
  }
  /// A call of a node with the tensors of this run, which `storage` keeps.
  static Call call_of(const Node& node, const StepContext& context, std::vector<Tensor>& storage) {
    storage.clear();
    for (const auto* list : {&node.inputs, &node.outputs})
      for (const std::uint32_t v : *list) storage.push_back(v == none ? Tensor{} : context.tensor(v));
    Call call;
    call.op = node.op;
    call.inputs = {storage.data(), node.inputs.size()};
    call.outputs = {storage.data() + node.inputs.size(), node.outputs.size()};
    call.attributes = node.attributes.get();
    return call;
  }
  void emit_expert_glu(std::uint32_t n) {
    done_[n] = true;
    const ExpertGlu glu = expert_glus_.at(n);
    const Node &gate = graph_.nodes[glu.gate], &up = graph_.nodes[glu.up];
    Step step;
    step.first_node = glu.gate;
    step.nodes = {glu.gate, glu.up, n};
    step.kernel = "matmul_id.glu.cuda";
    step.reads = gate.inputs;
    step.reads.push_back(up.inputs[1]);
    step.writes = graph_.nodes[n].outputs;
    step.emit = [&gate, &up, y = graph_.nodes[n].outputs[0], glu](const StepContext& context, Launcher& launcher) {
      std::vector<Tensor> storage;
      const Call call = call_of(gate, context, storage);
      launch_expert_glu(call, context.tensor(up.inputs[1]), glu.activation, context.tensor(y), launcher);
    };
    schedule_.steps.push_back(std::move(step));
  }
  void emit_expert_sum(std::uint32_t n) {
    done_[n] = true;
    const std::uint32_t product = expert_sums_.at(n);
    const Node &down = graph_.nodes[product], &node = graph_.nodes[n];
    std::uint32_t residual = none, stored = node.outputs[0], add = add_of(n, n, made_, residual);
    if (add != none && sums_.contains(add)) add = residual = none;
    Step step;
    step.first_node = product;
    step.nodes = {product, n};
    if (add != none) {
      stored = graph_.nodes[add].outputs[0];
      done_[add] = made_[add] = true;
      step.nodes.push_back(add);
    }
    step.kernel = add == none ? "matmul_id.combine.cuda" : "matmul_id.combine.add.cuda";
    step.reads = down.inputs;
    step.reads.insert(step.reads.end(), {node.inputs[1], residual});
    step.writes = {stored};
    step.emit = [&down, weight = node.inputs[1], residual, stored](const StepContext& context, Launcher& launcher) {
      std::vector<Tensor> storage;
      const Call call = call_of(down, context, storage);
      launch_expert_sum(call, context.tensor(weight), residual == none ? 0 : context.tensor(residual).data, context.tensor(stored).data,
                        launcher);
    };
    schedule_.steps.push_back(std::move(step));
  }

  /// Why no rule took a node.
  sdk::Alone alone(std::uint32_t n) const {
    switch (graph_.nodes[n].op) {
      case QUERN_OP_MATMUL_ID:
        if (!few_experts(n)) return {n, "experts", "it may have more pairs of a token and an expert than each output's warp takes"};
        if (!sums_in_one(n)) return {n, "experts", "a token has more experts than one warp sums"};
        return {n, "experts", "it is not gate or up of a gated activation, nor what a weighted sum alone reads"};
      case QUERN_OP_MOE_COMBINE: return {n, "experts", "it sums what is no product of experts of few pairs, or what others read too"};
      case QUERN_OP_LAYER_NORM: return {n, "norm", why_no_front(n)};
      default: break;
    }
    return why_left(n, no_attention_, made_,
                    {[this](std::uint32_t product) { return why_no_product(product); },
                     [this](std::uint32_t norm) { return why_not_deferred(norm); },
                     [this](std::uint32_t gate, std::uint32_t up) -> Refusal {
                       Refusal why = nullptr;
                       if (gate == up) return glu_of_columns(gate, &why) ? "the halves of its product are no whole groups of rows" : why;
                       if (!glu_of(gate, up, &why)) return why;
                       return alike({gate, up}) ? "gate and up are no two neighbours with one operand"
                                                : "the weights of gate and up differ in dtype or rows";
                     },
                     "its product shares a kernel with others that read the same value"});
  }

  std::uint32_t most_rows_;
  CardFacts card_;
  std::vector<bool> done_, made_;  // made: stored by a step that stands before the node
  std::set<std::uint32_t> told_;
  bool settled_ = false;  // a step before was quantise.cu
  bool rings_ = false;    // block formats by kernels/rings.cu
  std::map<Key, Companion> keys_;
  std::map<std::uint32_t, NormedSum> sums_;             // by the add node
  std::map<std::uint32_t, std::uint32_t> fronts_;       // of products that make a sum: its add node
  std::map<std::uint32_t, ExpertGlu> expert_glus_;      // by the glu node
  std::map<std::uint32_t, std::uint32_t> expert_sums_;  // products by the node that sums them
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
