// See gradient_check.hpp.
#include "gradient_check.hpp"

#include "quern/base/concat.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

namespace quern::runtime {
namespace {

constexpr std::size_t directions = 20;

// The length of a step. The loss is a sum in f32 whose rounding is some 2e-7 of it (training by PyTorch in f32 and in f64 differs by 1.5e-7).
// A step that changes the loss by the share c of itself gives a difference with a relative error of 2e-7 / (sqrt(2) c). With c = 1e-3 that
// is 1.4e-4, a seventieth of the tolerance. The other error is that of the third derivative, h^2 f''' / 6. It is taken out with a second
// step of twice the length: (4 D(h) - D(2 h)) / 3 has none of it. Where both differ by more than 3 %, the next order may count; h is halved
// then, down to c / 16, where rounding makes 0.23 %.
constexpr double share_of_loss = 1e-3;
constexpr double most_apart = 0.03;
constexpr int most_halvings = 4;

class Uniform {
 public:
  double operator()() { return static_cast<double>(engine_() >> 11) * 0x1p-53; }

 private:
  std::mt19937_64 engine_{42};
};

double norm_of(std::span<const float> numbers) {
  double sum = 0;
  for (const float x : numbers) sum += static_cast<double>(x) * x;
  return std::sqrt(sum);
}

/// In each moved tensor half of the direction follows the gradient, each element times a random number of mean 1, and half is random. A
/// direction that is random alone has a slope of |g| / sqrt(n): for a million numbers a thousandth of the gradient, below the rounding of
/// the loss. One that follows the gradient alone would not see what the gradient lacks.
std::vector<double> direction_over(std::span<const CheckedTensor* const> tensors, std::span<const float> gradient, Uniform& uniform) {
  std::vector<double> direction;
  for (const CheckedTensor* tensor : tensors) {
    const std::span<const float> g = gradient.subspan(tensor->first, tensor->elements);
    const double norm = norm_of(g), spread = std::sqrt(3.0 / static_cast<double>(tensor->elements));
    for (const float x : g) {
      const double along = norm > 0 ? 2 * uniform() * static_cast<double>(x) / norm : 0;
      direction.push_back(along + spread * (2 * uniform() - 1));
    }
  }
  return direction;
}

struct Moved {
  double loss = 0;   // behind minus before
  double slope = 0;  // what the gradient makes of the same two points, as f32 has them
};

class Directions {
 public:
  Directions(const GradientSource& source, std::span<const float> numbers, std::span<const float> gradient)
      : source_(source), numbers_(numbers), gradient_(gradient), loss_(source.loss()) {}

  DirectionSlope measure(std::span<const CheckedTensor* const> tensors) {
    const std::vector<double> direction = direction_over(tensors, gradient_, uniform_);
    DirectionSlope found;
    found.tensors = tensors.size();
    double slope = 0;
    std::size_t at = 0;
    for (const CheckedTensor* tensor : tensors)
      for (std::uint64_t i = 0; i < tensor->elements; ++i) slope += direction[at++] * gradient_[tensor->first + i];
    if (!(std::fabs(slope) > 0) || !std::isfinite(slope)) return found;
    double step = share_of_loss * std::fabs(loss_) / std::fabs(slope), least_apart = std::numeric_limits<double>::infinity();
    double twice = ratio(tensors, direction, 2 * step);
    for (int halving = 0; halving <= most_halvings; ++halving, step /= 2) {
      const double once = ratio(tensors, direction, step), apart = std::fabs(once - twice);
      if (apart < least_apart) {
        least_apart = apart;
        found.step = step;
        found.slope = slope;
        found.difference = (4 * once - twice) / 3 * slope;
      }
      if (apart <= most_apart * std::fabs(once)) break;
      twice = once;
    }
    found.right = found.relative_error() <= gradient_tolerance;
    return found;
  }

 private:
  /// How often the slope of the gradient the loss rises.
  double ratio(std::span<const CheckedTensor* const> tensors, std::span<const double> direction, double step) {
    std::vector<float> moved(numbers_.begin(), numbers_.end());
    double losses[2]{}, slope = 0;
    for (const int side : {0, 1}) {
      const double sign = side == 0 ? 1 : -1;
      std::size_t at = 0;
      for (const CheckedTensor* tensor : tensors) {
        for (std::uint64_t i = tensor->first; i < tensor->first + tensor->elements; ++i) {
          moved[i] = static_cast<float>(numbers_[i] + sign * step * direction[at++]);
          slope += sign * (static_cast<double>(moved[i]) - numbers_[i]) * gradient_[i];
        }
      }
      source_.write(moved);
      losses[side] = source_.loss();
    }
    source_.write(numbers_);
    return (losses[0] - losses[1]) / slope;
  }

  const GradientSource& source_;
  std::span<const float> numbers_, gradient_;
  double loss_;
  Uniform uniform_;
};

}  // namespace

double DirectionSlope::relative_error() const noexcept {
  return slope == 0 ? std::numeric_limits<double>::infinity() : std::fabs(difference - slope) / std::fabs(slope);
}

bool GradientReport::passed() const noexcept {
  return std::ranges::all_of(tensors, [](const TensorGradient& one) { return one.fault.empty(); }) &&
         std::ranges::all_of(directions, &DirectionSlope::right) && !directions.empty();
}

GradientReport check_gradients(const GradientSource& source) {
  GradientReport report;
  std::vector<float> gradient(source.elements), numbers(source.elements);
  for (const CheckedTensor& tensor : source.tensors) report.tensors.push_back({.name = tensor.name, .elements = tensor.elements});
  bool finite = true;
  for (const bool behind_update : {false, true}) {
    source.gradient(gradient);
    for (std::size_t t = 0; t < source.tensors.size(); ++t) {
      const CheckedTensor& tensor = source.tensors[t];
      TensorGradient& found = report.tensors[t];
      const double norm = norm_of(std::span(gradient).subspan(tensor.first, tensor.elements));
      (behind_update ? found.norm : found.first_norm) = norm;
      finite = finite && std::isfinite(norm);
      if (!found.fault.empty()) continue;
      const char* when = behind_update ? "behind an update" : "before the first update";
      if (!std::isfinite(norm)) found.fault = concat("it is not finite ", when);
      else if (norm == 0 && (behind_update || !tensor.may_begin_at_zero)) found.fault = concat("it is 0 ", when);
    }
    if (!finite) return report;
    if (!behind_update) source.update();
  }
  source.read(numbers);
  Directions measured(source, numbers, gradient);
  const std::size_t groups = std::min(directions, source.tensors.size());
  for (std::size_t d = 0; d < directions && groups > 0; ++d) {
    std::vector<const CheckedTensor*> moved;
    for (std::size_t t = d % groups; t < source.tensors.size(); t += groups) moved.push_back(&source.tensors[t]);
    report.directions.push_back(measured.measure(moved));
  }
  return report;
}

}  // namespace quern::runtime
