// Models of quern.h: load, describe, where the layers lie.
#include "boundary.hpp"
#include "handles.hpp"

#include "../plan_report.hpp"

#include "quern/base/byte_sizes.hpp"
#include "quern/base/terminal_text.hpp"
#include "quern/graph/json_writer.hpp"

#include <algorithm>

#include <map>

using namespace quern;
using namespace quern::c_api;

namespace quern::c_api {

std::string kernel_set(const runtime::DeviceShare& share) {
  std::map<std::string, std::uint32_t> nodes;
  for (const runtime::KernelUse& kernel : share.kernels) {
    const std::size_t dot = kernel.name.rfind('.');
    nodes[dot == std::string::npos ? kernel.name : kernel.name.substr(dot + 1)] += kernel.nodes;
  }
  const auto most = std::ranges::max_element(nodes, {}, [](const auto& entry) { return entry.second; });
  return most == nodes.end() ? "" : most->first;
}

void LoadTurns::take() {
  std::unique_lock lock(mutex_);
  if (taken_ && in_callback()) {
    throw Error(QUERN_BUSY,
                "a model is being loaded on this runtime, and a load in a callback does not wait for it; load after the callback has "
                "returned, or on another runtime");
  }
  free_.wait(lock, [this] { return !taken_; });
  taken_ = true;
}

void LoadTurns::give_up() noexcept {
  {
    const std::scoped_lock lock(mutex_);
    taken_ = false;
  }
  free_.notify_one();
}

std::string backend_of(const std::string& label) { return label.substr(0, label.rfind(':')); }

}  // namespace quern::c_api

namespace {

const runtime::DeviceShare& main_share(const runtime::Model& model) {
  return *std::ranges::max_element(model.shares(), {}, &runtime::DeviceShare::nodes);
}

runtime::WeightShare weights_on(const runtime::Model& model, std::size_t device) {
  for (const runtime::WeightShare& share : model.weight_shares()) {
    if (share.device == device) return share;
  }
  return {static_cast<std::uint32_t>(device), 0, {}};
}

/// ", mapped from FILE", ", kept in FILE", and why a file was not used.
std::string origin_words(const runtime::WeightsOrigin& origin) {
  std::string words;
  if (!origin.file.empty()) words = concat(origin.cached ? ", mapped from " : ", kept in ", origin.file);
  if (!origin.note.empty()) words += concat(" (weights cache: ", origin.note, ")");
  return words;
}

quern_dtype kv_dtype_of(std::uint32_t kv) {
  if (kv == QUERN_KV_DEFAULT || kv == QUERN_KV_F16) return QUERN_F16;
  if (kv == QUERN_KV_F32) return QUERN_F32;
  throw Error(QUERN_INVALID_ARGUMENT, concat("kv is ", kv, "; it takes QUERN_KV_DEFAULT, QUERN_KV_F16 or QUERN_KV_F32"));
}

/// Compiled anew: a loaded model keeps no plan.
std::vector<runtime::DeviceReport> plan_of(const runtime::Model& model) {
  require_driver_stack(model.devices());
  return runtime::plan_report(*model.make_step_program());
}

class LoadTurn {
 public:
  explicit LoadTurn(LoadTurns& turns) : turns_(turns) { turns_.take(); }
  ~LoadTurn() { turns_.give_up(); }
  LoadTurn(const LoadTurn&) = delete;
  LoadTurn& operator=(const LoadTurn&) = delete;

 private:
  LoadTurns& turns_;
};

}  // namespace

extern "C" {

quern_status quern_model_load(quern_runtime* runtime, const char* path, const quern_model_options* options, quern_model** out) {
  return guarded([&] {
    require(out, "out");
    *out = nullptr;
    require(runtime, "runtime");
    require(path, "path");
    const auto o = whole(options, "quern_model_options");
    if (o.activations > QUERN_ACTIVATIONS_F32) {
      throw Error(QUERN_INVALID_ARGUMENT, concat("activations is ", o.activations, "; it takes QUERN_ACTIVATIONS_AUTO or _F32"));
    }
    runtime::ModelOptions wanted;
    wanted.context = o.context;
    wanted.sequences = o.sequences == 0 ? 1 : o.sequences;
    constexpr std::uint32_t most_sequences = 4096;
    if (wanted.sequences > most_sequences) {
      throw Error(QUERN_INVALID_ARGUMENT, concat(wanted.sequences, " sequences were asked for; at most ", most_sequences));
    }
    wanted.exact = o.activations == QUERN_ACTIVATIONS_F32;
    wanted.kv_dtype = kv_dtype_of(o.kv);
    if (o.embeddings > 1) throw Error(QUERN_INVALID_ARGUMENT, concat("embeddings is ", o.embeddings, "; it is 0 or 1"));
    wanted.embeddings = o.embeddings == 1;
    wanted.tokenizer_pre = text_or_empty(o.tokenizer_pre);
    wanted.adapters = adapter_paths(o.adapters, o.adapter_count);
    if (o.progress != nullptr) {
      wanted.progress = [call = o.progress, user = o.progress_user](std::uint64_t done, std::uint64_t total) {
        return call_back(call, user, done, total) == 0;
      };
    }
    const Owner::Use use(runtime);  // the callback may release it
    const LoadTurn turn(runtime->loads);
    runtime->runtime->require_ready();
    require_driver_stack(runtime->runtime->devices());
    auto handle = std::make_unique<quern_model>();
    handle->model = runtime::Model::load(runtime->runtime, path, wanted);
    handle->vocabulary.vocabulary = &handle->model->vocabulary();
    const runtime::DeviceShare& share = main_share(*handle->model);
    handle->device = share.device;
    handle->backend = backend_of(share.device);
    handle->kernels = kernel_set(share);
    for (const auto& budget : handle->model->devices()) {
      if (budget->device()->label() == share.device) handle->description = budget->device()->info().name;
    }
    *out = handle.release();
  });
}

void quern_model_release(quern_model* model) { Owner::release(model); }

quern_status quern_model_get_info(const quern_model* model, quern_model_info* out) {
  return guarded<Needs::little>([&] {
    require(model, "model");
    const runtime::Model& m = *model->model;
    quern_model_info info{};
    info.path = m.path().c_str();
    info.architecture = m.shape().architecture.c_str();
    info.name = m.name().c_str();
    info.weights = m.main_format().c_str();
    info.chat_template = quern_vocabulary_chat_template(&model->vocabulary);
    info.parameters = m.parameters();
    info.file_bytes = m.file_bytes();
    info.context_length = m.shape().context;
    info.context = m.context();
    info.vocabulary_size = m.shape().vocabulary;
    info.hidden = m.shape().hidden;
    info.layers = m.shape().layers;
    info.heads = m.shape().heads;
    info.kv_heads = m.shape().kv_heads;
    info.head_size = m.shape().head_size;
    info.feed_forward = m.shape().ffn;
    info.kv = m.kv_dtype() == QUERN_F32 ? QUERN_KV_F32 : QUERN_KV_F16;
    info.activations = m.exact() ? QUERN_ACTIVATIONS_F32 : QUERN_ACTIVATIONS_AUTO;
    info.devices = static_cast<std::uint32_t>(std::ranges::count_if(m.shares(), [](const auto& s) { return s.nodes > 0; }));
    info.backend = model->backend.c_str();
    info.device = model->device.c_str();
    info.device_description = model->description.c_str();
    info.kernels = model->kernels.c_str();
    give(out, info, "quern_model_info");
  });
}

const quern_vocabulary* quern_model_vocabulary(const quern_model* model) { return model == nullptr ? nullptr : &model->vocabulary; }

quern_status quern_model_placement_words(const quern_model* model, quern_text** out) {
  return guarded<Needs::text>([&] {
    require(out, "out");
    *out = nullptr;
    require(model, "model");
    const runtime::Model& m = *model->model;
    std::string text;
    for (std::size_t d = 0; d < m.shares().size(); ++d) {
      text += concat(m.shares()[d].device, ": ", m.shares()[d].nodes, " of ", m.step().graph.nodes().size(), " nodes, ",
                     byte_words(weights_on(m, d).bytes), " of weights", origin_words(weights_on(m, d).origin), "\n");
    }
    if (const std::string choice = m.choice(); !choice.empty()) text += concat(choice, "\n");
    for (const runtime::Cut& cut : m.cuts()) {
      text += concat(cut.from, " -> ", cut.to, ": ", in_quotes(cut.value, 200), ", ", byte_words(cut.bytes_per_row + cut.bytes),
                     " per token, because ", cut.reason, "\n");
    }
    *out = make_text(printable_page(text));
  });
}

quern_status quern_model_plan_words(const quern_model* model, quern_text** out) {
  return guarded([&] {
    require(out, "out");
    *out = nullptr;
    require(model, "model");
    *out = make_text(printable_page(runtime::words_of(plan_of(*model->model))));
  });
}

quern_status quern_model_plan_json(const quern_model* model, quern_text** out) {
  return guarded([&] {
    require(out, "out");
    *out = nullptr;
    require(model, "model");
    *out = make_text(runtime::json_of(plan_of(*model->model)));
  });
}

quern_status quern_model_placement_json(const quern_model* model, quern_text** out) {
  return guarded<Needs::text>([&] {
    require(out, "out");
    *out = nullptr;
    require(model, "model");
    const runtime::Model& m = *model->model;
    JsonWriter json;
    json.begin_object();
    json.member("choice", m.choice());
    json.key("devices");
    json.begin_array();
    for (std::size_t d = 0; d < m.shares().size(); ++d) {
      const runtime::WeightShare weights = weights_on(m, d);
      json.begin_object();
      json.member("device", m.shares()[d].device);
      json.member("nodes", m.shares()[d].nodes);
      json.member("weights_bytes", weights.bytes);
      json.member("weights_from", weights.origin.cached ? "cache" : "model");
      json.member("weights_file", weights.origin.file);
      json.member("weights_note", weights.origin.note);
      json.end_object();
    }
    json.end_array();
    json.key("cuts");
    json.begin_array();
    for (const runtime::Cut& cut : m.cuts()) {
      json.begin_object();
      json.member("from", cut.from);
      json.member("to", cut.to);
      json.member("value", cut.value);
      json.member("reason", cut.reason);
      json.member("bytes_per_token", cut.bytes_per_row + cut.bytes);
      json.end_object();
    }
    json.end_array();
    json.end_object();
    *out = make_text(json.take());
  });
}

}  // extern "C"
