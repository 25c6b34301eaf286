// Types of weights and importance matrices of quern.h.
#include "boundary.hpp"
#include "handles.hpp"

#include "../importance.hpp"
#include "../quantize.hpp"

using namespace quern;
using namespace quern::c_api;

namespace {

constexpr std::uint64_t most_texts = 4096;

std::vector<std::string> texts_of(const char* const* texts, std::uint64_t count, const char* what) {
  if (count > most_texts) throw Error(QUERN_INVALID_ARGUMENT, concat(count, " ", what, " were given; at most ", most_texts));
  if (count > 0) require(texts, what);
  std::vector<std::string> list;
  for (std::uint64_t i = 0; i < count; ++i) {
    require(texts[i], what);
    list.emplace_back(texts[i]);
  }
  return list;
}

bool truth_of(std::uint32_t number, const char* name) {
  if (number > 1) throw Error(QUERN_INVALID_ARGUMENT, concat(name, " is ", number, "; it is 0 or 1"));
  return number == 1;
}

/// A callback of two numbers that goes on at 0.
template <typename Callback>
std::function<bool(std::uint64_t, std::uint64_t)> progress_of(Callback callback, void* user) {
  if (callback == nullptr) return {};
  return [callback, user](std::uint64_t done, std::uint64_t total) { return call_back(callback, user, done, total) == 0; };
}

}  // namespace

extern "C" {

quern_status quern_quantize(quern_runtime* runtime, const char* in, const char* out, const quern_quantize_options* options,
                            quern_text** report) {
  return guarded([&] {
    if (report != nullptr) *report = nullptr;
    require(runtime, "runtime");
    require(in, "in");
    const auto o = whole(options, "quern_quantize_options");
    runtime::QuantizeOptions how;
    how.to = text_or_empty(o.to);
    if (!(o.target_bits >= 0 && o.target_bits <= 32) || (o.target_bits > 0 && !how.to.empty()))
      throw Error(QUERN_INVALID_ARGUMENT, concat("target_bits is ", o.target_bits, "; it is 0 to 32, and 0 for a directory"));
    how.target_bits = o.target_bits;
    if (how.to.empty() && how.target_bits == 0) require(o.type, "type");
    how.type = text_or_empty(o.type);
    how.importance = text_or_empty(o.imatrix);
    how.tensor_types = texts_of(o.tensor_types, o.tensor_type_count, "tensor types");
    how.output_type = text_or_empty(o.output_type);
    how.embedding_type = text_or_empty(o.embedding_type);
    how.pure = truth_of(o.pure, "pure");
    how.allow_requantize = truth_of(o.allow_requantize, "allow_requantize");
    how.dry_run = truth_of(o.dry_run, "dry_run");
    how.threads = runtime->runtime->threads();
    how.progress = progress_of(o.progress, o.progress_user);
    if (!how.dry_run) require(out, "out");
    const Owner::Use use(runtime);  // the callback may release it
    std::string text = runtime::quantize(in, text_or_empty(out), how);
    if (report != nullptr) *report = new quern_text{std::move(text)};
  });
}

quern_status quern_imatrix(quern_runtime* runtime, const char* model, const char* text, uint64_t text_size,
                           const quern_imatrix_options* options, const char* out, quern_text** report) {
  return guarded([&] {
    if (report != nullptr) *report = nullptr;
    require(runtime, "runtime");
    require(model, "model");
    if (text_size > 0) require(text, "text");
    require(out, "out");
    const auto o = whole(options, "quern_imatrix_options");
    runtime::ImportanceOptions how;
    how.dataset = text_or_empty(o.dataset);
    how.inputs = texts_of(o.inputs, o.input_count, "inputs");
    how.most_chunks = o.most_chunks;
    how.progress = progress_of(o.progress, o.progress_user);
    const Owner::Use use(runtime);  // the callback may release it
    runtime->runtime->require_ready();
    require_driver_stack(runtime->runtime->devices());
    std::string made = runtime::measure_importance(runtime->runtime, model, {text, static_cast<std::size_t>(text_size)}, how, out);
    if (report != nullptr) *report = new quern_text{std::move(made)};
  });
}

}  // extern "C"
