// Compares gradients with differences of the loss, and finds tensors that do not learn.
//
// Knows a loss of numbers and its gradient; nothing of models or devices.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace quern::runtime {

/// A trained tensor, and where it lies in the flat numbers.
struct CheckedTensor {
  std::string name;
  std::uint64_t first = 0, elements = 0;
  bool may_begin_at_zero = false;  // its first gradient may be 0: A of an adapter whose B is 0
};

/// What is checked. Losses and gradients are of one fixed batch, in f32.
struct GradientSource {
  std::vector<CheckedTensor> tensors;
  std::uint64_t elements = 0;                         // of the flat numbers
  std::function<void(std::span<float>)> gradient;     // where the numbers are now
  std::function<double()> loss;                       // there too
  std::function<void(std::span<float>)> read;         // all numbers
  std::function<void(std::span<const float>)> write;  // all numbers
  std::function<void()> update;                       // one step of the optimiser, behind gradient()
};

struct TensorGradient {
  std::string name;
  std::uint64_t elements = 0;
  double first_norm = 0, norm = 0;  // before and behind an update
  std::string fault = {};           // empty: finite, and not 0 where it must not be
};

struct DirectionSlope {
  std::uint64_t tensors = 0;  // that the direction moves
  double slope = 0;           // of the loss, by the gradient
  double difference = 0;      // by central differences
  double step = 0;            // the smaller of the two lengths that were used
  bool right = false;

  double relative_error() const noexcept;
};

struct GradientReport {
  std::vector<TensorGradient> tensors;
  std::vector<DirectionSlope> directions;

  bool passed() const noexcept;
};

/// The bound of a direction's relative error.
inline constexpr double gradient_tolerance = 0.01;

/// Leaves the numbers as the update left them.
GradientReport check_gradients(const GradientSource& source);

}  // namespace quern::runtime
