// See tensor.hpp.
#include "tensor.hpp"

#include "model.hpp"
#include "plan.hpp"

#include "quern/graph/op_info.hpp"

#include <algorithm>
#include <cmath>
#include <map>

namespace quern::runtime {
namespace {

constexpr std::uint64_t copy_piece = 16 << 20;

graph::Shape shape_of(const std::vector<std::int64_t>& sizes) { return {sizes.begin(), sizes.end()}; }

/// Pages that the system refuses later would end the process. Below this size the look costs more than a part of the tensor's own pages.
constexpr std::uint64_t worth_a_look = 16 << 20;

Memory allocate_tensor(MemoryBudget& budget, std::uint64_t bytes) {
  if (bytes >= worth_a_look) require_room(budget, bytes, "a tensor");
  return budget.allocate(std::max<std::uint64_t>(bytes, 1), QUERN_USAGE_STATE, "a tensor");
}

std::uint64_t checked_bytes(quern_dtype dtype, const std::vector<std::int64_t>& shape) {
  if (shape.empty() || shape.size() > QUERN_MAX_DIMS) {
    throw Error(QUERN_INVALID_ARGUMENT, concat("a tensor of ", shape.size(), " dimensions; it has 1 to ", QUERN_MAX_DIMS));
  }
  return graph::byte_size(dtype, shape_of(shape));
}

/// Reads what it writes, or another state beside it: then the tensor is state, not merely an output.
bool works_in_place(const graph::OpInfo& op, const graph::Attributes& attributes) {
  constexpr std::uint32_t in_place[] = {QUERN_OP_SET_ROWS, QUERN_OP_INDEX_ADD, QUERN_OP_KV_WRITE,      QUERN_OP_KV_COPY,
                                        QUERN_OP_KV_MOVE,  QUERN_OP_ADAMW,     QUERN_OP_TOKEN_PUBLISH, QUERN_OP_SGD};
  const graph::Attribute* accumulate = attributes.find(QUERN_KEY_ACCUMULATE);
  return std::ranges::find(in_place, op.id) != std::end(in_place) || (accumulate != nullptr && accumulate->i != 0);
}

graph::Attributes attributes_of(const graph::OpInfo& op, const std::vector<OpAttributeValue>& given) {
  graph::Attributes attributes;
  for (const OpAttributeValue& one : given) {
    const auto formal = std::ranges::find(op.attributes, one.name, &graph::OpAttribute::name);
    if (formal == op.attributes.end()) {
      std::string names;
      for (const graph::OpAttribute& known : op.attributes) names += concat(names.empty() ? "" : ", ", known.name);
      throw Error(QUERN_NOT_FOUND, concat(op.name, " has no attribute '", one.name, "'; it has ", names.empty() ? "none" : names));
    }
    if (formal->type == QUERN_ATTR_F64) {
      attributes.set(formal->key, one.value);
      continue;
    }
    constexpr double exact = 9007199254740992.0;  // 2^53: every whole number up to here is a double
    if (!(std::abs(one.value) <= exact) || one.value != std::trunc(one.value)) {
      throw Error(QUERN_INVALID_ARGUMENT, concat(op.name, ": attribute ", one.name, " is ", one.value, "; it is a whole number"));
    }
    attributes.set(formal->key, static_cast<std::int64_t>(one.value));
  }
  return attributes;
}

/// All tensors of a call, once each.
std::vector<const Tensor*> tensors_of(const OpRun& run) {
  std::vector<const Tensor*> all(run.inputs);
  all.insert(all.end(), run.outputs.begin(), run.outputs.end());
  std::erase(all, nullptr);
  std::ranges::sort(all);
  const auto repeated = std::ranges::unique(all);
  all.erase(repeated.begin(), repeated.end());
  return all;
}

void check_one_device(const OpRun& run, const std::vector<const Tensor*>& tensors) {
  if (tensors.empty()) {
    throw Error(QUERN_INVALID_ARGUMENT, concat(run.op, ": no tensor is given, so there is no device to run on; give an output"));
  }
  for (const Tensor* tensor : tensors) {
    if (tensor->runtime() != tensors[0]->runtime())
      throw Error(QUERN_INVALID_ARGUMENT, concat(run.op, ": its tensors belong to two runtimes"));
    if (tensor->budget() != tensors[0]->budget()) {
      throw Error(QUERN_INVALID_ARGUMENT,
                  concat(run.op, ": its tensors lie on ", tensors[0]->device(), " and ", tensor->device(), "; copy them to one device"));
    }
  }
}

/// The graph of one node, with the value of each tensor.
struct OneNode {
  graph::Graph graph;
  std::map<const Tensor*, graph::ValueId> values;
  std::vector<graph::ValueId> outputs;  // of the node, by output
};

OneNode build(const graph::OpInfo& op, const OpRun& run, std::uint32_t determinism) {
  OneNode one{graph::Graph(op.name), {}, {}};
  const graph::Attributes attributes = attributes_of(op, run.attributes);
  const bool in_place = works_in_place(op, attributes);
  const auto value_of = [&](const Tensor* tensor, std::uint32_t kind, const std::string& name) {
    if (tensor == nullptr) return graph::no_value;
    const auto known = one.values.find(tensor);
    if (known != one.values.end()) return known->second;
    const graph::ValueId id =
        one.graph.add_value({.name = name, .kind = kind, .dtype = tensor->dtype(), .shape = shape_of(tensor->shape())});
    return one.values[tensor] = id;
  };
  std::vector<graph::ValueId> inputs;
  for (std::size_t i = 0; i < run.inputs.size(); ++i) {
    const bool written = run.inputs[i] != nullptr && std::ranges::find(run.outputs, run.inputs[i]) != run.outputs.end();
    const std::string name = i < op.inputs.size() ? op.inputs[i].name : concat("input ", i);
    inputs.push_back(value_of(run.inputs[i], written ? QUERN_VALUE_STATE : QUERN_VALUE_INPUT, name));
  }
  graph::NodeOptions options;
  options.name = op.name;
  options.conversions = allowed_conversions(!run.fast);
  options.determinism = determinism;
  if (run.outputs.size() > op.outputs.size()) {
    throw Error(QUERN_INVALID_ARGUMENT, concat(op.name, ": ", run.outputs.size(), " outputs are given; it has ", op.outputs.size()));
  }
  for (std::size_t i = 0; i < op.outputs.size(); ++i) {
    const bool given = i < run.outputs.size() && run.outputs[i] != nullptr;
    if (given) {
      options.outputs.resize(i + 1, graph::no_value);
      options.outputs[i] = value_of(run.outputs[i], in_place ? QUERN_VALUE_STATE : QUERN_VALUE_OUTPUT, op.outputs[i].name);
    } else if (i >= run.outputs.size() && op.outputs[i].optional) {
      options.skip_outputs |= std::uint64_t{1} << i;
    }
  }
  const std::size_t before = one.graph.values().size();
  one.outputs = one.graph.add_node(op.id, std::move(inputs), attributes, std::move(options));
  for (std::size_t i = 0; i < one.outputs.size(); ++i) {
    if (one.outputs[i] != graph::no_value && one.outputs[i] >= before) one.graph.mark_output(one.outputs[i], op.outputs[i].name);
  }
  return one;
}

}  // namespace

Tensor::Tensor(std::shared_ptr<Runtime> runtime, std::shared_ptr<MemoryBudget> budget, quern_dtype dtype, std::vector<std::int64_t> shape)
    : runtime_(std::move(runtime)),
      budget_(std::move(budget)),
      dtype_(dtype),
      shape_(std::move(shape)),
      bytes_(checked_bytes(dtype_, shape_)),
      memory_(allocate_tensor(*budget_, bytes_)) {
  if (!budget_->host_memory()) memory_.fill_zero();  // host memory comes as zero pages
}

std::uint64_t Tensor::elements() const noexcept {
  std::uint64_t count = 1;
  for (const std::int64_t size : shape_) count *= static_cast<std::uint64_t>(size);
  return count;
}

std::string Tensor::describe() const { return concat(graph::dtype_name(dtype_), " ", graph::to_string(shape_of(shape_))); }

void Tensor::check_range(std::uint64_t offset, std::uint64_t size) const {
  if (offset > bytes_ || size > bytes_ - offset) {
    throw Error(QUERN_INVALID_ARGUMENT, concat(size, " bytes from byte ", offset, " were asked for, but the tensor has ", bytes_));
  }
}

void Tensor::write(std::uint64_t offset, std::span<const std::byte> bytes) {
  check_range(offset, bytes.size());
  if (!bytes.empty()) memory_.write(offset, bytes);
}

void Tensor::read(std::uint64_t offset, std::span<std::byte> bytes) const {
  check_range(offset, bytes.size());
  if (!bytes.empty()) memory_.read(offset, bytes);
}

namespace {

void copy_bytes(const Tensor& from, Tensor& to) {
  std::vector<std::byte> piece(static_cast<std::size_t>(std::min(copy_piece, from.bytes())));
  for (std::uint64_t at = 0; at < from.bytes(); at += piece.size()) {
    const auto part = std::span(piece).first(static_cast<std::size_t>(std::min<std::uint64_t>(piece.size(), from.bytes() - at)));
    from.read(at, part);
    to.write(at, part);
  }
}

void cast(const Tensor& from, Tensor& to) { run_op({"cast", {&from}, {&to}, {}, false}); }

}  // namespace

void copy_tensor(const Tensor& from, Tensor& to) {
  if (&from == &to) return;
  if (from.shape() != to.shape())
    throw Error(QUERN_INVALID_ARGUMENT, concat("a tensor ", from.describe(), " cannot be copied to one of ", to.describe()));
  if (from.dtype() == to.dtype()) return copy_bytes(from, to);
  if (from.budget() == to.budget()) return cast(from, to);
  try {
    Tensor converted(from.runtime(), from.budget(), to.dtype(), to.shape());
    cast(from, converted);
    return copy_bytes(converted, to);
  } catch (const Error& refusal) {
    if (refusal.code() != QUERN_UNSUPPORTED) throw;
  }
  Tensor moved(to.runtime(), to.budget(), from.dtype(), from.shape());
  copy_bytes(from, moved);
  cast(moved, to);
}

OpResult run_op(const OpRun& run) {
  const graph::OpInfo* op = graph::find_op(run.op);
  if (op == nullptr) throw Error(QUERN_NOT_FOUND, concat("'", run.op, "' is not an op of this version"));
  const std::vector<const Tensor*> tensors = tensors_of(run);
  check_one_device(run, tensors);
  const std::shared_ptr<MemoryBudget>& budget = tensors[0]->budget();
  const std::shared_ptr<Runtime>& runtime = tensors[0]->runtime();
  const OneNode one = build(*op, run, step_determinism(*runtime, {budget}));

  const NodeAnswer answer = ask_support(*budget->device(), one.graph).at(0);
  if (!answer.yes) throw Error(QUERN_UNSUPPORTED, concat(budget->device()->label(), ": ", op->name, ": ", answer.text));
  Plan plan(budget->device(), one.graph, "");

  OpResult result;
  result.made.resize(run.outputs.size());
  std::vector<std::unique_ptr<Tensor>> dropped;
  std::vector<SlotBinding> bindings;
  for (const auto& [tensor, value] : one.values) bindings.push_back({value, tensor->span()});
  for (std::size_t i = 0; i < one.outputs.size(); ++i) {
    if (one.outputs[i] == graph::no_value || (i < run.outputs.size() && run.outputs[i] != nullptr)) continue;
    const graph::Value& value = one.graph.value(one.outputs[i]);
    std::vector<std::int64_t> shape;
    for (const graph::Dim& dim : value.shape) shape.push_back(dim.size);
    auto made = std::make_unique<Tensor>(runtime, budget, value.dtype, std::move(shape));
    bindings.push_back({one.outputs[i], made->span()});
    if (i < run.outputs.size()) result.made[i] = std::move(made);
    else dropped.push_back(std::move(made));
  }
  const Memory scratch = budget->allocate(plan.scratch_bytes(), QUERN_USAGE_SCRATCH, "scratch of an op");
  const Memory kept = budget->reserve(plan.private_bytes(), "what a plan keeps for itself");
  DeviceQueue& queue = budget->queue();
  const struct Drain {  // before the memory goes
    DeviceQueue& queue;
    ~Drain() { queue.drain(); }
  } drain{queue};
  plan.prepare(queue, 0, bindings, scratch.span());
  plan.submit(queue, {});
  queue.wait();
  plan.check(0, 1);
  for (const KernelUse& kernel : plan.kernels()) result.kernels += concat(result.kernels.empty() ? "" : ", ", kernel.name);
  return result;
}

}  // namespace quern::runtime
