// See subnormals.hpp.
#include "data/subnormals.hpp"

#include <algorithm>
#include <cstring>

namespace quern::conformance {
namespace {

/// Calls f(place, sign bit as a word) of each subnormal.
template <class Word, class F>
void each(const Tensor& tensor, Word exponent, Word sign, F f) {
  for (std::byte *at = tensor.bytes().data(), *end = at + tensor.bytes().size(); at != end; at += sizeof(Word)) {
    Word bits;
    std::memcpy(&bits, at, sizeof bits);
    if ((bits & exponent) == 0 && (bits & static_cast<Word>(~sign)) != 0) f(at, static_cast<Word>(bits & sign));
  }
}

template <class F>
void each_subnormal(const Tensor& tensor, F f) {
  if (tensor.dtype() == QUERN_F32) each<std::uint32_t>(tensor, 0x7f800000u, 0x80000000u, f);
  if (tensor.dtype() == QUERN_BF16) each<std::uint16_t>(tensor, 0x7f80u, 0x8000u, f);
}

}  // namespace

bool holds_subnormals(const Tensor& tensor) {
  bool any = false;
  each_subnormal(tensor, [&](std::byte*, auto) { any = true; });
  return any;
}

Tensor without_subnormals(const Tensor& tensor) {
  Tensor copy(tensor.dtype(), tensor.dims());
  std::ranges::copy(tensor.bytes(), copy.bytes().begin());
  each_subnormal(copy, [](std::byte* at, auto zero) { std::memcpy(at, &zero, sizeof zero); });
  return copy;
}

}  // namespace quern::conformance
