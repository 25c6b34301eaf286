// See encode_bound.hpp.
#include "ops/encode_bound.hpp"

#include <algorithm>
#include <cmath>

namespace quern::conformance {
namespace {

struct Range {
  double low = 0, high = 0;
  double size() const { return std::max(-low, high); }
};

/// Step and offsets that the rule of a format gives a group, from the data alone; see `encode_bound`.
struct GroupRange {
  std::vector<Range> groups;
  Range block;
};
GroupRange ranges(const quern_format& format, const double* x) {
  GroupRange r;
  for (std::uint32_t i = 0; i < format.block_elements; ++i) {
    if (i % format.group_elements == 0) r.groups.push_back({x[i], x[i]});
    Range& g = r.groups.back();
    g.low = std::min(g.low, x[i]);
    g.high = std::max(g.high, x[i]);
  }
  return r;
}

const quern_format_field& code_field(const quern_format& format) {
  const auto* fields = static_cast<const quern_format_field*>(format.fields.data);
  return *std::find_if(fields, fields + format.fields.count, [](const quern_format_field& field) { return field.role == QUERN_ROLE_CODE; });
}
/// Its pieces cover bits of every code.
std::uint32_t code_bits(const quern_format& format) {
  const quern_array& pieces = code_field(format).pieces;
  std::uint32_t bits = 0;
  for (std::uint64_t p = 0; p < pieces.count; ++p) {
    const quern_format_piece& piece = static_cast<const quern_format_piece*>(pieces.data)[p];
    bits = std::max(bits, piece.shift + piece.bits);
  }
  return bits;
}

/// Half of the largest step between numbers of a code table.
double half_step(const quern_format& format) {
  const quern_array& values = static_cast<const quern_code_table*>(format.header.next)->values;
  std::vector<float> sorted(static_cast<const float*>(values.data), static_cast<const float*>(values.data) + values.count);
  std::sort(sorted.begin(), sorted.end());
  double most = 0;
  for (std::size_t i = 1; i < sorted.size(); ++i)
    most = std::max(most, static_cast<double>(sorted[i]) - static_cast<double>(sorted[i - 1]));
  return most / 2;
}

double encode_bound(quern_dtype dtype, const GroupRange& r, std::size_t g, double x) {
  const quern_format& format = *format_of(dtype);
  const double half = std::ldexp(1.0, static_cast<int>(code_bits(format)) - 1), codes = 2 * half - 1;
  const Range& range = r.groups[g];
  const auto largest = [&](const auto& of) {
    double most = 0;
    for (const Range& each : r.groups) most = std::max(most, of(each));
    return most;
  };
  if (largest([](const Range& e) { return e.size(); }) == 0) return 0;  // zeros: every format has them
  const auto clipped = [&](double step) { return std::max((0.5 + 0x1p-6) * step, std::fabs(x) - (half - 1) * step); };
  const double f16_scale = 0x1p-11 * std::fabs(x) + half * 0x1p-25;
  switch (format.formula) {
    case QUERN_FORMULA_SUPER_TABLE: return half_step(format) * (1 + 0x1p-6) * range.size() + 0x1p-100;
    case QUERN_FORMULA_SYMMETRIC:
      if (code_field(format).stored == QUERN_STORED_E4M3)
        return (0.5 + 0x1p-6) * (0x1p-3 * std::fabs(x) + 0x1p-9 * range.size() / 448) + 0x1p-91;
      return code_field(format).stored == QUERN_STORED_INT ? (0.5 + 0x1p-6) * range.size() / 127 + f16_scale
                                                           : clipped(range.size() / half) + f16_scale;
    case QUERN_FORMULA_OFFSET: {
      const double width = range.high - range.low;
      return (0.5 + 0x1p-6) * width / codes + 0x1p-11 * (width + range.size()) + codes * 0x1p-25;
    }
    case QUERN_FORMULA_SUPER_ZERO: return (0.5 + 0x1p-6) * (range.high - range.low) / codes + codes * 0x1p-100;
    case QUERN_FORMULA_SUPER_SYMMETRIC: {
      const double scale_step = largest([&](const Range& e) { return e.size() / half; }) / 127;
      return 2 * (clipped(range.size() / half) + half * scale_step / 2 + f16_scale);
    }
    default: {
      const double scale_step = largest([&](const Range& e) { return (e.high - e.low) / codes; }) / 63;
      const double min_step = largest([](const Range& e) { return -e.low; }) / 63;
      return 2 * ((range.high - range.low) / codes / 2 + codes * scale_step / 2 + min_step / 2 + f16_scale + 0x1p-11 * range.size());
    }
  }
}

}  // namespace

void append_encode_bounds(quern_dtype dtype, const double* x, std::int64_t count, std::vector<double>& bounds) {
  const quern_format& format = *format_of(dtype);
  const bool from_zero = format.formula != QUERN_FORMULA_OFFSET;  // a group's range holds 0, except where a min is stored as it is
  for (std::int64_t b = 0; b < count; b += format.block_elements) {
    GroupRange r = ranges(format, x + b);
    if (from_zero)
      for (Range& g : r.groups) g = {std::min(g.low, 0.0), std::max(g.high, 0.0)};
    for (std::size_t i = 0; i < format.block_elements; ++i)
      bounds.push_back(encode_bound(dtype, r, i / format.group_elements, x[b + static_cast<std::int64_t>(i)]));
  }
}

}  // namespace quern::conformance
