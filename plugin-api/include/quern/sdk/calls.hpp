// A node as an op's code sees it, and the row by which a plugin offers an op.
//
// Part of the plugin SDK (include quern/quern_device_plugin.hpp); C++17, not part of the ABI.
#ifndef QUERN_SDK_CALLS_HPP
#define QUERN_SDK_CALLS_HPP

#include "quern/sdk/tensors.hpp"

namespace quern {
namespace sdk {

/// What a node allows and asks of its arithmetic.
struct Numerics {
  std::uint32_t conversions = 0;  ///< QUERN_CONVERT_... bits: what float inputs may be rounded to
  bool invariant = false;         ///< a row's bits may not depend on the other rows

  bool int8_allowed() const noexcept { return (conversions & QUERN_CONVERT_INT8) != 0; }
  bool bf16_allowed() const noexcept { return (conversions & QUERN_CONVERT_BF16) != 0; }
  bool f16_allowed() const noexcept { return (conversions & QUERN_CONVERT_F16) != 0; }
};

/// Tensors in a row, which somebody else holds.
struct TensorList {
  const Tensor* first = nullptr;
  std::size_t count = 0;

  std::size_t size() const noexcept { return count; }
  const Tensor* begin() const noexcept { return first; }
  const Tensor* end() const noexcept { return first + count; }
  const Tensor& operator[](std::size_t i) const noexcept { return first[i]; }
};

/// The tensors live as long as who made the call says.
struct Call : Numerics {
  std::uint32_t op = 0;
  TensorList inputs, outputs;
  const Attributes* attributes = nullptr;
  Tensor predicate;            ///< of one number a row; a predicate of one number is not the op's business
  std::uint64_t scratch = 0;   ///< device address, as large as the op asked
  std::uint64_t counters = 0;  ///< device address of zeros that a kernel leaves as zeros, where the plugin has some

  const Tensor& input(std::size_t i) const noexcept { return i < inputs.count ? inputs[i] : absent(); }
  const Tensor& output(std::size_t i) const noexcept { return i < outputs.count ? outputs[i] : absent(); }
  std::int64_t integer(std::uint32_t key) const { return attributes->integer(key); }
  double real(std::uint32_t key) const { return attributes->real(key); }
  float number(std::uint32_t key) const { return static_cast<float>(attributes->real(key)); }
  bool flag(std::uint32_t key) const { return attributes->integer(key) != 0; }

 private:
  static const Tensor& absent() noexcept {
    static const Tensor none;
    return none;
  }
};

/// What a plugin says of an op before anything runs; its own rows add how to run it.
struct OpOffer {
  std::uint32_t op;
  const char* kernel;  ///< "rms_norm.vulkan"
  /// Why a call of the right form (forms.hpp) cannot run (empty: it can). Asked when a plan is compiled, with the largest dims. Null: each can.
  std::string (*refuse)(const Call& call);
  bool row_predicate = false;  ///< it takes a predicate of one number a row
};

}  // namespace sdk
}  // namespace quern

#endif
