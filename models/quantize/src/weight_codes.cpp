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
  if (const auto bad = first_not_finite(rows); bad != rows.end())
    throw Error(QUERN_INVALID_ARGUMENT, concat("the number ", *bad, " has no place in a group of codes"));
  const std::vector<float> scaled = scaled_weights(weights, form.group, form.group);
  std::vector<FitItem> items;
  for (std::size_t at = 0; at < rows.size(); at += form.group) items.push_back({rows.data() + at, scaled.data() + at % scaled.size()});
  std::vector<GroupOfCodes> found(groups);
  fits().fit_groups(request, items, found.data(), out.codes.data());
  for (std::size_t g = 0; g < groups; ++g) {
    if (!found[g].found) {
      const auto [least, most] = std::ranges::minmax(rows.subspan(g * form.group, form.group));
      throw Error(QUERN_INVALID_ARGUMENT,
                  concat("a group with numbers of ", least, " to ", most, " has a scale beyond the largest of its type"));
    }
    out.scales[g] = found[g].scale;
    out.zeros[g] = static_cast<std::uint8_t>(found[g].zero);
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
