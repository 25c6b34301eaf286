// The C API in C++ clothes: handles that release themselves and a check that throws.
#pragma once

#include "failure.hpp"

#include "quern.h"

#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace quern::cli {

template <auto release>
struct Releaser {
  template <typename T>
  void operator()(T* handle) const noexcept {
    release(handle);
  }
};
template <typename T, auto release>
using Handle = std::unique_ptr<T, Releaser<release>>;

using Runtime = Handle<quern_runtime, quern_runtime_release>;
using Model = Handle<quern_model, quern_model_release>;
using Adapter = Handle<quern_adapter, quern_adapter_release>;
using Session = Handle<quern_session, quern_session_release>;
using Vocabulary = Handle<quern_vocabulary, quern_vocabulary_release>;
using Chat = Handle<quern_chat, quern_chat_release>;
using Text = Handle<quern_text, quern_text_release>;
using LoadReport = Handle<quern_load_report, quern_load_report_release>;
using DeviceList = Handle<quern_device_list, quern_device_list_release>;
using Generation = Handle<quern_generation, quern_generation_release>;
using Evaluation = Handle<quern_evaluation, quern_evaluation_release>;
using Statistics = Handle<quern_statistics, quern_statistics_release>;
using Estimate = Handle<quern_estimate, quern_estimate_release>;

/// Throws Failure with the library's sentence if a call failed. With the path of a model, the sentence is made to name
/// it where the model is the trouble; a missing backend has nothing to do with it.
inline void check(quern_status status, const std::string& path = {}) {
  if (status == QUERN_OK) return;
  std::string text = quern_last_error();
  if (text.empty()) text = quern_status_name(status);
  const ExitCode code = exit_code_of(status);
  const bool of_model = code == exit_refused || code == exit_does_not_fit || code == exit_context;
  if (of_model && !path.empty() && text.find(path) == std::string::npos) text = path + ": " + text;
  throw Failure(code, text);
}

/// Calls function(arguments..., &handle) and owns the handle: make<Text>(quern_show_json, path).
template <typename Owner, typename Function, typename... Arguments>
Owner make(Function function, Arguments... arguments) {
  typename Owner::pointer handle = nullptr;
  check(function(arguments..., &handle));
  return Owner(handle);
}

inline std::string_view view(const Text& text) {
  return {quern_text_data(text.get()), static_cast<std::size_t>(quern_text_size(text.get()))};
}

/// Calls getter(owner, &info) for a struct that the library fills.
template <typename Info, typename Owner, typename Getter, typename... Arguments>
Info get(Getter getter, const Owner* owner, Arguments... arguments) {
  Info info{};
  info.struct_size = sizeof info;
  check(getter(owner, arguments..., &info));
  return info;
}

}  // namespace quern::cli
