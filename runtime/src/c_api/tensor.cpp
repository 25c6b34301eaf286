// Tensors and single ops of quern.h.
#include "boundary.hpp"
#include "handles.hpp"

#include "../tensor.hpp"

#include "quern/quern_formats.h"

using namespace quern;
using namespace quern::c_api;

struct quern_tensor : Owner {
  explicit quern_tensor(std::unique_ptr<runtime::Tensor> made) : tensor(std::move(made)) {}
  std::unique_ptr<runtime::Tensor> tensor;
  mutable std::atomic<bool> busy{false};
  bool of_driver = false;  // not the processor's
};

namespace {

void require(const quern_tensor* tensor, const char* what) {
  c_api::require(static_cast<const void*>(tensor), what);
  tensor->require_same_process(what);
}

/// Holds tensors for one call; a second call on one of them at the same time is refused. Null and repeated ones are fine.
class TensorTurn {
 public:
  explicit TensorTurn(std::vector<const quern_tensor*> tensors) : tensors_(std::move(tensors)) {
    std::erase(tensors_, nullptr);
    for (const quern_tensor* tensor : tensors_) {
      if (tensor->of_driver) require_stack(stack_for_a_driver, "a call into the driver of this device");
    }
    std::ranges::sort(tensors_);
    const auto repeated = std::ranges::unique(tensors_);
    tensors_.erase(repeated.begin(), repeated.end());
    for (; held_ < tensors_.size(); ++held_) {
      if (!tensors_[held_]->busy.exchange(true)) continue;
      release();
      throw Error(QUERN_BUSY, "a tensor is in use by another call");
    }
  }
  ~TensorTurn() { release(); }
  TensorTurn(const TensorTurn&) = delete;
  TensorTurn& operator=(const TensorTurn&) = delete;

 private:
  void release() noexcept {
    while (held_ > 0) tensors_[--held_]->busy = false;
  }
  std::vector<const quern_tensor*> tensors_;
  std::size_t held_ = 0;
};

constexpr std::uint64_t most_slots = 4096;  // of a call; a count above is a mistake of the caller

}  // namespace

extern "C" {

const char* quern_dtype_name(quern_dtype dtype) {
  switch (dtype) {
    case QUERN_F32: return "f32";
    case QUERN_F16: return "f16";
    case QUERN_BF16: return "bf16";
    case QUERN_I32: return "i32";
    case QUERN_I64: return "i64";
    case QUERN_U32: return "u32";
    case QUERN_U8: return "u8";
    default: break;
  }
  for (const quern_format& format : quern_formats)
    if (format.id == dtype) return format.name.data;
  return "";
}

quern_dtype quern_dtype_from_name(const char* name) {
  return name == nullptr ? QUERN_DTYPE_NONE : graph::dtype_from_name(name).value_or(QUERN_DTYPE_NONE);
}

quern_status quern_tensor_create(quern_runtime* runtime, const char* device, quern_dtype dtype, const int64_t* shape, uint32_t dims,
                                 quern_tensor** out) {
  return guarded([&] {
    require(out, "out");
    *out = nullptr;
    require(runtime, "runtime");
    require(shape, "shape");
    if (dims == 0 || dims > QUERN_TENSOR_DIMS) {
      throw Error(QUERN_INVALID_ARGUMENT, concat("dims is ", dims, "; a tensor has 1 to ", QUERN_TENSOR_DIMS));
    }
    auto budget = runtime->runtime->device(text_or_empty(device));
    const bool of_driver = !budget->host_memory();
    if (of_driver) require_stack(stack_for_a_driver, "a call into the driver of this device");
    auto tensor =
        std::make_unique<runtime::Tensor>(runtime->runtime, std::move(budget), dtype, std::vector<std::int64_t>(shape, shape + dims));
    *out = new quern_tensor(std::move(tensor));
    (*out)->of_driver = of_driver;
  });
}

void quern_tensor_release(quern_tensor* tensor) { Owner::release(tensor); }

quern_status quern_tensor_get_info(const quern_tensor* tensor, quern_tensor_info* out) {
  return guarded<Needs::little>([&] {
    require(tensor, "tensor");
    quern_tensor_info info{};
    info.device = tensor->tensor->device().c_str();
    info.dtype = tensor->tensor->dtype();
    info.dims = static_cast<uint32_t>(tensor->tensor->shape().size());
    info.shape = tensor->tensor->shape().data();
    info.elements = tensor->tensor->elements();
    info.bytes = tensor->tensor->bytes();
    give(out, info, "quern_tensor_info");
  });
}

quern_status quern_tensor_write(quern_tensor* tensor, uint64_t offset, const void* data, uint64_t size) {
  return guarded([&] {
    require(tensor, "tensor");
    if (size > 0) require(data, "data");
    const TensorTurn turn({tensor});
    tensor->tensor->write(offset, {static_cast<const std::byte*>(data), static_cast<std::size_t>(size)});
  });
}

quern_status quern_tensor_read(const quern_tensor* tensor, uint64_t offset, void* data, uint64_t size) {
  return guarded([&] {
    require(tensor, "tensor");
    if (size > 0) require(data, "data");
    const TensorTurn turn({tensor});
    tensor->tensor->read(offset, {static_cast<std::byte*>(data), static_cast<std::size_t>(size)});
  });
}

quern_status quern_tensor_copy(const quern_tensor* from, quern_tensor* to) {
  return guarded([&] {
    require(from, "from");
    require(to, "to");
    const TensorTurn turn({from, to});
    runtime::copy_tensor(*from->tensor, *to->tensor);
  });
}

quern_status quern_run_op(const quern_op_call* call, quern_text** kernels) {
  return guarded([&] {
    if (kernels != nullptr) *kernels = nullptr;
    require(call, "call");
    const auto c = whole(call, "quern_op_call");
    require(c.op, "op");
    if (c.input_count > most_slots || c.output_count > most_slots || c.attribute_count > most_slots) {
      throw Error(QUERN_INVALID_ARGUMENT, concat(c.op, ": more than ", most_slots, " inputs, outputs or attributes"));
    }
    if (c.input_count > 0) require(c.inputs, "inputs");
    if (c.output_count > 0) require(c.outputs, "outputs");
    if (c.attribute_count > 0) require(c.attributes, "attributes");
    if (c.fast > 1) throw Error(QUERN_INVALID_ARGUMENT, concat("fast is ", c.fast, "; it is 0 or 1"));
    runtime::OpRun run;
    run.op = c.op;
    run.fast = c.fast == 1;
    std::vector<const quern_tensor*> handles;
    for (std::uint64_t i = 0; i < c.input_count; ++i) {
      if (c.inputs[i] != nullptr) c.inputs[i]->require_same_process("tensor");
      handles.push_back(c.inputs[i]);
      run.inputs.push_back(c.inputs[i] == nullptr ? nullptr : c.inputs[i]->tensor.get());
    }
    for (std::uint64_t i = 0; i < c.output_count; ++i) {
      if (c.outputs[i] != nullptr) c.outputs[i]->require_same_process("tensor");
      handles.push_back(c.outputs[i]);
      run.outputs.push_back(c.outputs[i] == nullptr ? nullptr : c.outputs[i]->tensor.get());
    }
    for (std::uint64_t i = 0; i < c.attribute_count; ++i) {
      require(c.attributes[i].name, "an attribute's name");
      run.attributes.push_back({c.attributes[i].name, c.attributes[i].value});
    }
    const TensorTurn turn(handles);
    runtime::OpResult result = runtime::run_op(run);
    // All that can fail comes before the caller's variables are written.
    std::vector<std::unique_ptr<quern_tensor>> made(result.made.size());
    for (std::size_t i = 0; i < made.size(); ++i) {
      if (result.made[i] == nullptr) continue;
      made[i] = std::make_unique<quern_tensor>(std::move(result.made[i]));
      made[i]->of_driver = std::ranges::any_of(handles, [](const quern_tensor* tensor) { return tensor != nullptr && tensor->of_driver; });
    }
    if (kernels != nullptr) *kernels = make_text(std::move(result.kernels));
    for (std::size_t i = 0; i < made.size(); ++i) {
      if (made[i] != nullptr) c.outputs[i] = made[i].release();
    }
  });
}

}  // extern "C"
