// See weight_codes.hpp.
#include "quern/models/weight_codes.hpp"

#include "e4m3.hpp"
#include "fits.hpp"
#include "scaled_weights.hpp"

#include <algorithm>
#include <cmath>

namespace quern::quantize {
namespace {

constexpr std::uint64_t most_group = 128;

void encode_group(const GroupRequest& request, const float* x, const float* weights, std::uint8_t* codes, float& scale,
                  std::uint8_t& zero) {
  float w[most_group];
  scale_weights(weights, request.numbers, request.numbers, w);
  const float* const end = x + request.numbers;
  if (const float* bad = std::find_if_not(x, end, [](float number) { return std::isfinite(number); }); bad != end)
    throw Error(QUERN_INVALID_ARGUMENT, concat("the number ", *bad, " has no place in a group of codes"));
  const GroupOfCodes fitted = fits().fit_group(request, x, w, codes);
  if (!fitted.found)
    throw Error(QUERN_INVALID_ARGUMENT, concat("a group with numbers of ", *std::min_element(x, end), " to ", *std::max_element(x, end),
                                               " has a scale beyond the largest of its type"));
  scale = fitted.scale;
  zero = static_cast<std::uint8_t>(fitted.zero);
}

}  // namespace

void encode_groups(const GroupForm& form, std::span<const float> rows, std::span<const float> weights, const GroupCodes& out) {
  const std::size_t groups = form.group == 0 ? 0 : rows.size() / form.group;
  if (weights.empty() || groups == 0 || weights.size() % form.group != 0 || rows.size() % weights.size() != 0 ||
      out.codes.size() != rows.size() || out.scales.size() != groups || out.zeros.size() != groups)
    throw Error(QUERN_INVALID_ARGUMENT, concat(rows.size(), " numbers in rows of ", weights.size(), " do not fill ", out.codes.size(),
                                               " codes and ", out.scales.size(), " scales in groups of ", form.group));
  if (form.group != 32 && form.group != 64 && form.group != most_group)
    throw Error(QUERN_INVALID_ARGUMENT, concat("groups of ", form.group, " columns are not made; 32, 64 and 128 are"));
  const GroupRequest request{static_cast<int>(form.group), form.zero_points, form.scale};
  for (std::size_t g = 0; g < groups; ++g) {
    const std::size_t at = g * form.group;
    encode_group(request, rows.data() + at, weights.data() + at % weights.size(), out.codes.data() + at, out.scales[g], out.zeros[g]);
  }
}

float e4m3_scale(float largest) noexcept {
  const float scale = largest / largest_e4m3;
  return scale > 0 ? scale : 1;
}

float largest_magnitude(std::span<const float> numbers) {
  float largest = 0;
  for (const float number : numbers) {
    if (!std::isfinite(number)) throw Error(QUERN_INVALID_ARGUMENT, concat("the number ", number, " has no place in a group of codes"));
    largest = std::max(largest, std::fabs(number));
  }
  return largest;
}

void encode_e4m3(std::span<const float> numbers, float scale, std::span<std::uint8_t> codes) noexcept {
  for (std::size_t i = 0; i < numbers.size(); ++i) codes[i] = to_e4m3(numbers[i] / scale);
}

}  // namespace quern::quantize
