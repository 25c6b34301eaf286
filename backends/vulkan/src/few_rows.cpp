// The schedule of few rows (schedule.hpp).
//
//   - a product of f32 rows and quantised weights takes int8 activations (quantise.comp, gemv.comp)
//   - an RMS norm or a SwiGLU that only such products read is not computed: the kernel that quantises computes it on its way
//   - queries and keys are rotated, and keys and values written to their pages, by one kernel
//   - a sum of a product and a value that is there already is the product's last step
#include "schedule.hpp"
#include "weights.hpp"

#include <algorithm>
#include <cmath>
#include <map>

namespace quern::vulkan {
namespace {

constexpr std::uint32_t none = QUERN_NONE;
constexpr std::int64_t most_rows = 8;
constexpr std::int32_t plain = 0, norm = 1, glu = 2;  // as in shaders/quantise.comp

class Fuser {
 public:
  explicit Fuser(const sdk::ResolvedGraph& graph)
      : graph_(graph), users_(graph.values.size()), maker_(graph.values.size(), none), done_(graph.nodes.size(), false) {
    for (std::uint32_t n = 0; n < graph.nodes.size(); ++n) {
      for (const std::uint32_t v : graph.nodes[n].inputs)
        if (v != none) users_[root(v)].push_back(n);
      if (graph.nodes[n].predicate != none) users_[root(graph.nodes[n].predicate)].push_back(n);
      for (const std::uint32_t v : graph.nodes[n].outputs)
        if (v != none) maker_[root(v)] = n;
    }
  }

  Schedule run() {
    schedule_.most_rows = most_rows;
    for (std::uint32_t n = 0; n < graph_.nodes.size(); ++n)
      if (is_product(n)) products_.push_back(n);
    if (products_.empty()) return {};
    for (std::uint32_t n = 0; n < graph_.nodes.size(); ++n) find_rotation(n);
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
      Step step;
      step.node = n;
      step.kernel = graph_.nodes[n].offer->kernel;
      schedule_.steps.push_back(std::move(step));
    }
    schedule_.place(graph_);
    return std::move(schedule_);
  }

 private:
  std::uint32_t root(std::uint32_t v) const { return graph_.values[v].root; }
  const Tensor& tensor(std::uint32_t v) const { return graph_.values[v].tensor; }
  /// A view of all of its root's memory, packed.
  bool whole(std::uint32_t v) const {
    const sdk::ResolvedValue& value = graph_.values[v];
    return value.offset == 0 && value.bytes == graph_.values[value.root].bytes && is_contiguous(value.tensor);
  }
  bool is_f32(std::uint32_t v) const { return v != none && tensor(v).dtype == QUERN_F32 && whole(v); }
  std::uint32_t input(std::uint32_t n, std::size_t i) const { return i < graph_.nodes[n].inputs.size() ? graph_.nodes[n].inputs[i] : none; }

  bool is_product(std::uint32_t n) const {
    const sdk::ResolvedNode& node = graph_.nodes[n];
    if (node.op != QUERN_OP_MATMUL || node.predicate != none || node.invariant || (node.conversions & QUERN_CONVERT_INT8) == 0) return false;
    if (input(n, 3) != none || !is_f32(node.inputs[0]) || !is_f32(node.outputs[0])) return false;
    const Tensor &a = tensor(node.inputs[0]), &b = tensor(node.inputs[1]);
    const bool few = a.rank == 2 && (a.ranged == 1 || (a.ranged == 0 && a.dims[0] <= most_rows));
    const bool format = b.dtype == QUERN_Q4_K || b.dtype == QUERN_Q5_K ? !b.packed_layout && whole(node.inputs[1]) : b.packed_layout;
    if (!few || !format || b.rank != 2 || b.ranged != 0 || b.dims[1] % 64 != 0 || b.dims[1] >= std::int64_t{1} << 24) return false;
    if (const std::uint32_t bias = input(n, 2); bias != none && !is_contiguous(tensor(bias))) return false;
    return !node.attributes->integer(QUERN_KEY_TRANSPOSE_A) && !node.attributes->integer(QUERN_KEY_TRANSPOSE_B) && node.attributes->real(QUERN_KEY_ALPHA) == 1.0;
  }

  /// Products that take the int8 activations of a value.
  std::uint32_t takers(std::uint32_t value_root) const {
    return static_cast<std::uint32_t>(std::ranges::count_if(products_, [&](std::uint32_t n) { return root(graph_.nodes[n].inputs[0]) == value_root; }));
  }
  /// Whether a value is nothing but the activations of products.
  bool only_products_read(std::uint32_t value) const {
    const std::uint32_t r = root(value), count = takers(r);
    return graph_.internal(r) && is_f32(value) && count > 0 && count == users_[r].size();
  }

  std::uint32_t add_extra(const Tensor& x) {
    const std::uint64_t rows = x.ranged != 0 ? std::min(x.dims[0], most_rows) : x.dims[0], k = static_cast<std::uint64_t>(x.last());
    schedule_.extras.push_back(rows * k + rows * (k / 16) * 8);
    return static_cast<std::uint32_t>(schedule_.extras.size() - 1);
  }

  /// Adds the step that makes int8 activations of `y`, reading x (and other, a weight) in its place.
  void emit_quantise(std::uint32_t y, std::uint32_t node, std::int32_t mode, std::uint32_t x, std::uint32_t other, float epsilon, float offset) {
    const std::uint32_t slot = add_extra(tensor(y));
    activations_[root(y)] = slot;
    Step step;
    step.node = node;
    step.nodes = mode == plain ? 0 : 1;
    step.kernel = mode == norm ? "rms_norm.quantise.vulkan" : mode == glu ? "glu.quantise.vulkan" : "quantise.vulkan";
    step.reads = {x};
    if (other != none) step.reads.push_back(other);
    step.extra_writes = {slot};
    step.emit = [=](const StepContext& context, Launcher& launcher) {
      const Tensor t = context.tensor(x);
      QuantiseParams p{};
      p.x = t.data;
      p.k = static_cast<uint>(t.last());
      p.rows = static_cast<uint>(t.rows());
      p.x_row = p.other_row = static_cast<std::int64_t>(p.k) * 4;
      if (mode == norm) p.weight = context.tensor(other).data;
      if (mode == glu) p.other = context.tensor(other).data;
      p.y = context.extra(slot);
      p.epsilon = epsilon;
      p.offset = offset;
      const std::uint32_t threads = launcher.facts().software() ? 32 : p.k <= 1024 ? 128 : 512;
      launcher.launch("quantise", std::min(threads, launcher.facts().group_limit & ~31u), launcher.rows(p.rows), p, {mode});
    };
    schedule_.steps.push_back(std::move(step));
  }

  /// Whether this node's result is only wanted as int8 activations; then adds the step that makes them.
  bool quantises(std::uint32_t n) {
    const sdk::ResolvedNode& node = graph_.nodes[n];
    if (node.predicate != none || node.outputs.empty() || node.outputs[0] == none || !only_products_read(node.outputs[0])) return false;
    const std::uint32_t y = node.outputs[0], x = input(n, 0), other = input(n, 1);
    if (!is_f32(x) || !is_f32(other) || tensor(y).rank != 2) return false;
    if (node.op == QUERN_OP_RMS_NORM) {
      emit_quantise(y, n, norm, x, other, static_cast<float>(node.attributes->real(QUERN_KEY_EPSILON)),
                    static_cast<float>(node.attributes->real(QUERN_KEY_WEIGHT_OFFSET)));
      return true;
    }
    const bool swiglu = node.op == QUERN_OP_GLU && node.attributes->integer(QUERN_KEY_KIND) == 0 && node.attributes->real(QUERN_KEY_ALPHA) == 1.0 &&
                        std::isinf(node.attributes->real(QUERN_KEY_LIMIT));
    if (!swiglu) return false;
    emit_quantise(y, n, glu, x, other, 0, 0);
    return true;
  }

  /// The add node that sums the product with a value `other` that is there already; or none.
  std::uint32_t add_of(std::uint32_t product, std::uint32_t& other) const {
    const std::uint32_t y = root(graph_.nodes[product].outputs[0]);
    if (!graph_.internal(y) || users_[y].size() != 1) return none;
    const std::uint32_t n = users_[y][0];
    const sdk::ResolvedNode& node = graph_.nodes[n];
    if (node.op != QUERN_OP_ADD || node.predicate != none || node.attributes->real(QUERN_KEY_ALPHA) != 1.0) return none;
    const bool first = root(node.inputs[0]) == y;
    const std::uint32_t operand = node.inputs[first ? 1 : 0];
    if (root(operand) == y || !is_f32(operand) || !is_f32(node.inputs[0]) || !is_f32(node.inputs[1]) || !is_f32(node.outputs[0])) return none;
    if (!sdk::check_same_shape(tensor(operand), tensor(node.outputs[0])).empty()) return none;
    if (graph_.source.values[root(operand)].kind == QUERN_VALUE_STATE) return none;  // which a node in between may write
    if (maker_[root(operand)] != none && maker_[root(operand)] > product) return none;
    other = operand;
    return n;
  }

  void emit_product(std::uint32_t n) {
    const sdk::ResolvedNode& node = graph_.nodes[n];
    const std::uint32_t a = node.inputs[0], b = node.inputs[1], bias = input(n, 2);
    if (!activations_.contains(root(a))) emit_quantise(a, n, plain, a, none, 0, 0);
    const std::uint32_t slot = activations_.at(root(a));
    std::uint32_t y = node.outputs[0], residual = none;
    Step step;
    step.node = n;
    step.kernel = "gemv.vulkan";
    if (const std::uint32_t add = add_of(n, residual); add != none) {
      y = graph_.nodes[add].outputs[0];
      done_[add] = true;
      step.nodes = 2;
      step.kernel = "gemv.add.vulkan";
    }
    step.reads = {b};
    for (const std::uint32_t v : {bias, residual})
      if (v != none) step.reads.push_back(v);
    step.writes = {y};
    step.extra_reads = {slot};
    step.emit = [=](const StepContext& context, Launcher& launcher) {
      const Tensor weights = context.tensor(b), result = context.tensor(y);
      GemvParams p{};
      p.a = context.extra(slot);
      p.b = weights.data;
      if (bias != none) {
        p.bias = context.tensor(bias).data;
        p.bias_dtype = static_cast<int>(context.tensor(bias).dtype);
      }
      if (residual != none) p.c = context.tensor(residual).data;
      p.y = result.data;
      p.m = static_cast<uint>(result.rows());
      p.n = static_cast<uint>(weights.dims[0]);
      p.k = static_cast<uint>(weights.dims[1]);
      if (p.m == 0) return;
      std::int32_t tile = 1;
      while (tile < static_cast<std::int32_t>(p.m)) tile *= 2;
      const std::uint32_t threads = launcher.facts().software() ? 8 : 128;
      const std::int64_t subgroups = std::max<std::int64_t>(1, threads / std::max<std::uint32_t>(1, launcher.facts().subgroup)), rows = 2 * subgroups;
      launcher.launch("gemv", threads, {std::min<std::int64_t>((p.n + rows - 1) / rows, 65535), 1, 1}, p, {static_cast<std::int32_t>(weights.dtype), tile});
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
    if (n == none || graph_.nodes[n].op != QUERN_OP_ROPE || graph_.nodes[n].predicate != none || !is_f32(value) || !is_f32(graph_.nodes[n].inputs[0])) return none;
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

  void find_rotation(std::uint32_t n) {
    const sdk::ResolvedNode& node = graph_.nodes[n];
    if (node.op != QUERN_OP_ATTENTION || root(node.inputs[1]) == root(node.inputs[2])) return;
    if (!sdk::is_float(tensor(node.inputs[1]).dtype) || !sdk::is_float(tensor(node.inputs[2]).dtype)) return;
    const Tensor& q = tensor(node.inputs[0]);
    if (q.rank != 3 || (q.ranged != 1 && (q.ranged != 0 || q.dims[0] > most_rows))) return;
    Rotation r{rope_of(node.inputs[0]), none, writer_of(node.inputs[1], n), writer_of(node.inputs[2], n)};
    if (r.rope_q == none || r.write_k == none || r.write_v == none || r.write_k == r.write_v) return;
    const std::uint32_t keys = graph_.nodes[r.write_k].inputs[0], values = graph_.nodes[r.write_v].inputs[0];
    r.rope_k = rope_of(keys);
    if (r.rope_k == none || !is_f32(values) || !graph_.internal(root(keys)) || users_[root(keys)].size() != 1) return;
    const sdk::ResolvedNode &rope_q = graph_.nodes[r.rope_q], &rope_k = graph_.nodes[r.rope_k];
    if (rope_q.inputs[1] != node.inputs[5] || rope_k.inputs[1] != node.inputs[5] || rope_q.inputs[2] != rope_k.inputs[2] ||
        rope_q.attributes->integer(QUERN_KEY_MODE) != rope_k.attributes->integer(QUERN_KEY_MODE))
      return;
    // Nobody else looks between the first of these nodes and the last at what they write.
    const std::uint32_t last = std::max({r.rope_q, r.rope_k, r.write_k, r.write_v});
    for (const std::uint32_t cache : {root(node.inputs[1]), root(node.inputs[2])})
      for (const std::uint32_t user : users_[cache])
        if (user < last) return;
    for (const std::uint32_t user : users_[root(node.inputs[0])])
      if (user < last) return;
    for (const std::uint32_t taken : {r.rope_q, r.rope_k, r.write_k, r.write_v})
      if (done_[taken]) return;
    for (const std::uint32_t taken : {r.rope_q, r.rope_k, r.write_k, r.write_v}) done_[taken] = taken != last;
    rotations_[last] = r;
  }

  void emit_rotation(std::uint32_t n, const Rotation& r) {
    const sdk::ResolvedNode &rope_q = graph_.nodes[r.rope_q], &rope_k = graph_.nodes[r.rope_k], &write_k = graph_.nodes[r.write_k],
                             &write_v = graph_.nodes[r.write_v];
    const std::uint32_t q = rope_q.inputs[0], q_out = rope_q.outputs[0], k = rope_k.inputs[0], v = write_v.inputs[0], table = rope_q.inputs[2],
                        k_cache = write_k.outputs[0], v_cache = write_v.outputs[0], blocks = write_k.inputs[1], slot = write_k.inputs[2],
                        position = write_k.inputs[3];
    const auto mode = static_cast<int>(rope_q.attributes->integer(QUERN_KEY_MODE));
    Step step;
    step.node = n;
    step.nodes = 4;
    step.kernel = "rope.kv_write.vulkan";
    step.reads = {q, k, v, table, blocks, slot, position};
    step.writes = {q_out, k_cache, v_cache};
    step.emit = [=](const StepContext& context, Launcher& launcher) {
      const Tensor queries = context.tensor(q), keys = context.tensor(k_cache), values = context.tensor(v_cache), turns = context.tensor(table),
                   pages = context.tensor(blocks);
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
      grid.y = p.rows;
      launcher.launch("rope_kv", launcher.item_threads(), grid, p);
    };
    schedule_.steps.push_back(std::move(step));
  }

  const sdk::ResolvedGraph& graph_;
  std::vector<std::vector<std::uint32_t>> users_;
  std::vector<std::uint32_t> maker_;
  std::vector<bool> done_;
  std::vector<std::uint32_t> products_;
  std::map<std::uint32_t, std::uint32_t> activations_;  // root of a value -> slot
  std::map<std::uint32_t, Rotation> rotations_;         // by their last node
  Schedule schedule_;
};

}  // namespace

Schedule few_rows_schedule(const sdk::ResolvedGraph& graph) { return Fuser(graph).run(); }

}  // namespace quern::vulkan
