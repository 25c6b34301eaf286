// Calls through the plugin ABI: an error struct with room for its text, and its way into an exception.
#pragma once

#include "quern/graph/error.hpp"
#include "quern/quern_plugin_api.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

namespace quern::runtime {

/// The caller-owned error of one ABI call. check() throws what it holds.
class AbiError {
 public:
  AbiError() {
    error_.header = {sizeof(error_), QUERN_TYPE_ERROR, nullptr};
    error_.text = text_.data();
    error_.text_capacity = text_.size();
    error_.heap = error_.node = error_.slot = QUERN_NONE;
  }
  AbiError(const AbiError&) = delete;  // it points into itself
  AbiError& operator=(const AbiError&) = delete;
  quern_error* out() noexcept { return &error_; }
  void clear() noexcept { error_.text_size = 0; }
  const quern_error& get() const noexcept { return error_; }
  std::string text() const { return {text_.data(), static_cast<std::size_t>(std::min<std::uint64_t>(error_.text_size, text_.size()))}; }
  /// `what` names the call for the user: "cpu:0: compiling 'step'". Arguments of these calls are the runtime's: a plugin that refuses
  /// them meets a bug of ours or of its own, and not a mistake of the runtime's caller.
  void check(quern_status status, std::string_view what) const {
    if (status == QUERN_OK) return;
    const std::string detail = text();
    throw Error(status == QUERN_INVALID_ARGUMENT ? QUERN_INTERNAL : status,
                detail.empty() ? concat(what, " failed with status ", status) : concat(what, ": ", detail));
  }

 private:
  std::array<char, 1024> text_{};
  quern_error error_{};
};

inline quern_string to_abi(std::string_view text) { return {text.data(), text.size()}; }
inline std::string from_abi(const quern_string& text) {
  return text.data == nullptr ? std::string{} : std::string(text.data, static_cast<std::size_t>(text.size));
}

}  // namespace quern::runtime
