// rope_table rope.
//
// rope_table is computed in f64 and rounded once: what is left is the error of the angle, pow() and a product or two, or exp() of a
// product with log(base) < 32: 64 * 2^-53 of it. (An f32 angle at position 131071 is off by 2.6e-3.) rope: 4 u (|a cos| + |b sin|) of
// each pair (a, b): two products and a sum. What lies behind the pairs is copied.
#include "ops/given.hpp"
#include "ops/hard_values.hpp"
#include "ops/make_case.hpp"
#include "ops/shaped_cases.hpp"

#include <algorithm>
#include <limits>
#include <numbers>

namespace quern::conformance {
namespace {

constexpr int none = 0, linear = 1, yarn = 2, llama3 = 3, ntk = 4, dynamic = 5;  // the attribute `scaling`

/// The frequencies of a table: Su et al. 2021 (arXiv:2104.09864), YaRN of Peng et al. 2023 (arXiv:2309.00071), the Llama 3.1 model card.
class Frequencies {
 public:
  Frequencies(const ReferenceCall& call, std::int64_t pairs, std::int64_t count)
      : call_(call),
        d_(2.0 * static_cast<double>(pairs)),
        scaling_(static_cast<int>(call.attribute(QUERN_KEY_SCALING, 0))),
        factor_(call.attribute(QUERN_KEY_FACTOR, 1)),
        context_(call.attribute(QUERN_KEY_ORIGINAL_CONTEXT, 0)),
        base_(call.attribute(QUERN_KEY_BASE, 10000)) {
    const double stretch = scaling_ == dynamic ? factor_ * std::max(static_cast<double>(count), context_) / context_ - (factor_ - 1)
                                               : factor_;
    if (scaling_ == ntk || scaling_ == dynamic) base_ *= std::pow(stretch, d_ / (d_ - 2));
  }

  double at(std::int64_t i) const {
    const Tensor& factors = call_.inputs[1];
    const double f = std::pow(base_, -2.0 * static_cast<double>(i) / d_) / (factors.absent() ? 1.0 : factors.at(i));
    switch (scaling_) {
      case linear: return f / factor_;
      case yarn: {
        const double low = std::clamp(std::floor(corner(call_.attribute(QUERN_KEY_BETA_FAST, 32))), 0.0, d_ - 1);
        const double high = std::clamp(std::ceil(corner(call_.attribute(QUERN_KEY_BETA_SLOW, 1))), 0.0, d_ - 1);
        const double ramp = std::clamp((static_cast<double>(i) - low) / std::max(high - low, 0.001), 0.0, 1.0);
        return ramp * (f / factor_) + (1 - ramp) * f;
      }
      case llama3: {
        const double wavelength = 2 * std::numbers::pi / f;
        const double low = call_.attribute(QUERN_KEY_LOW_FREQ_FACTOR, 1), high = call_.attribute(QUERN_KEY_HIGH_FREQ_FACTOR, 4);
        if (wavelength > context_ / low) return f / factor_;
        if (wavelength < context_ / high) return f;
        const double smooth = (context_ / wavelength - low) / (high - low);
        return (1 - smooth) * f / factor_ + smooth * f;
      }
      default: return f;
    }
  }

 private:
  /// The pair that turns `turns` times over the original context.
  double corner(double turns) const { return d_ * std::log(context_ / (2 * std::numbers::pi * turns)) / (2 * std::log(base_)); }

  const ReferenceCall& call_;
  double d_;
  int scaling_;
  double factor_, context_, base_;
};

void table_reference(const ReferenceCall& call, Expected& expected) {
  const Dims& dims = call.what.outputs[0].dims;
  const std::int64_t rows = dims[0], pairs = dims[1];
  const std::int64_t count = call.inputs[0].absent() ? rows : static_cast<std::int64_t>(call.inputs[0].at(0));
  const double mscale = call.attribute(QUERN_KEY_MSCALE, 1), first = call.attribute(QUERN_KEY_FIRST, 0);
  const Frequencies frequencies(call, pairs, count);
  std::vector<double> f;
  for (std::int64_t i = 0; i < pairs; ++i) f.push_back(frequencies.at(i));
  ExpectedOutput& table = expected.outputs[0];
  table.rule = Rule::bounded;
  for (std::int64_t p = 0; p < rows; ++p)
    for (std::int64_t i = 0; i < pairs; ++i) {
      const double angle = (first + static_cast<double>(p)) * f[static_cast<std::size_t>(i)];
      const double error = std::fabs(mscale) * (64 * 0x1p-53 * std::fabs(angle) + 4 * 0x1p-53);
      const std::int64_t place = 2 * (p * pairs + i);
      table.add(p < count ? std::cos(angle) * mscale : call.states[0].at(place), p < count ? error : 0.0);
      table.add(p < count ? std::sin(angle) * mscale : call.states[0].at(place + 1), p < count ? error : 0.0);
    }
}

void rope_reference(const ReferenceCall& call, Expected& expected) {
  const Tensor &x = call.inputs[0], &position = call.inputs[1], &table = call.inputs[2];
  const std::int64_t tokens = x.dims()[0], heads = x.dims()[1], d = x.dims()[2], rows = table.dims()[0], pairs = table.dims()[1];
  const bool halves = call.attribute(QUERN_KEY_MODE, 0) == 1, inverse = call.attribute(QUERN_KEY_INVERSE, 0) != 0;
  const bool sectioned = position.dims().size() == 2;
  std::vector<std::int64_t> section_of(static_cast<std::size_t>(pairs), 0);
  if (sectioned) {
    std::int64_t pair = 0;
    for (const std::uint32_t key : {QUERN_KEY_SECTION0, QUERN_KEY_SECTION1, QUERN_KEY_SECTION2, QUERN_KEY_SECTION3})
      for (std::int64_t i = 0; i < static_cast<std::int64_t>(call.attribute(key, 0)); ++i)
        section_of[static_cast<std::size_t>(pair++)] = key - QUERN_KEY_SECTION0;
  }
  const quern_dtype to = call.what.outputs[0].dtype;
  ExpectedOutput& y = expected.outputs[0];
  y.rule = Rule::bounded;
  y.value = x.values();
  y.bound.assign(y.value.size(), 0.0);
  for (std::int64_t t = 0; t < tokens; ++t) {
    const auto place_of = [&](std::int64_t i) {
      return static_cast<std::int64_t>(position.at(sectioned ? section_of[static_cast<std::size_t>(i)] * tokens + t : t));
    };
    bool inside = true;
    for (std::int64_t i = 0; i < pairs; ++i) inside = inside && place_of(i) >= 0 && place_of(i) < rows;
    if (!inside) {
      std::fill_n(y.value.begin() + t * heads * d, heads * d, 0.0);
      continue;
    }
    for (std::int64_t h = 0; h < heads; ++h)
      for (std::int64_t i = 0; i < pairs; ++i) {
        const std::int64_t start = (t * heads + h) * d, first = start + (halves ? i : 2 * i),
                           second = start + (halves ? i + pairs : 2 * i + 1);
        const std::int64_t row = 2 * (place_of(i) * pairs + i);
        const double c = table.at(row), s = inverse ? -table.at(row + 1) : table.at(row + 1), a = x.at(first), b = x.at(second);
        const auto put = [&](std::int64_t place, double r, double size) {
          y.value[static_cast<std::size_t>(place)] = r;
          y.bound[static_cast<std::size_t>(place)] = 4 * u32 * size + 0x1p-149 + narrow_store(to, r);
        };
        put(first, a * c - b * s, std::fabs(a * c) + std::fabs(b * s));
        put(second, a * s + b * c, std::fabs(a * s) + std::fabs(b * c));
      }
  }
}

constexpr OpUnderTest table_op{QUERN_OP_ROPE_TABLE, "rope", level_inference, table_reference};

struct TableSettings {
  double scaling = none, base = 10000, factor = 1, context = 0, mscale = 1, beta_fast = 32, beta_slow = 1, low = 1, high = 4, first = 0;
  std::vector<Attribute> attributes() const {
    return unless_default({{{QUERN_KEY_BASE, base}, 10000},
                           {{QUERN_KEY_SCALING, scaling}, none},
                           {{QUERN_KEY_FACTOR, factor}, 1},
                           {{QUERN_KEY_ORIGINAL_CONTEXT, context}, 0},
                           {{QUERN_KEY_BETA_FAST, beta_fast}, 32},
                           {{QUERN_KEY_BETA_SLOW, beta_slow}, 1},
                           {{QUERN_KEY_MSCALE, mscale}, 1},
                           {{QUERN_KEY_LOW_FREQ_FACTOR, low}, 1},
                           {{QUERN_KEY_HIGH_FREQ_FACTOR, high}, 4},
                           {{QUERN_KEY_FIRST, first}, 0}});
  }
};

/// Growing from 1 to 64 along the pairs, as those of long-context models do.
ValueSpec long_factors(std::int64_t pairs) {
  return filled(input(QUERN_F32, {pairs}), "growing", [](const Tensor& t, const CounterRandom& random) {
    for (std::int64_t i = 0; i < t.count(); ++i)
      t.set(i, std::exp2(6.0 * static_cast<double>(i) / static_cast<double>(t.count())) *
                   (1.0 + 0.1 * random.uniform(static_cast<std::uint64_t>(i))));
  });
}
ValueSpec count_of(std::int64_t count) {
  return filled(input(QUERN_I32, {1}), "count" + std::to_string(count),
                [count](const Tensor& t, const CounterRandom&) { t.set(0, static_cast<double>(count)); });
}

/// The numbers that released models have, and some that they have not. `known`: in quick at every base and position.
struct Setting {
  TableSettings s;
  bool known;
};
const Setting settings[] = {
    {{}, true},
    {{.mscale = 1.1902380714238083}, false},
    {{.scaling = linear, .factor = 4}, true},
    {{.scaling = linear, .factor = 0.5}, false},
    {{.scaling = yarn, .factor = 4, .context = 32768, .mscale = 1.1386294361119891}, true},
    {{.scaling = yarn, .factor = 40, .context = 4096, .mscale = 1.3688879454113936}, true},
    {{.scaling = yarn, .factor = 16, .context = 8192, .beta_fast = 64, .beta_slow = 2}, true},
    {{.scaling = yarn, .factor = 8, .context = 2048, .beta_fast = 1, .beta_slow = 1}, false},  // both corners next to each other
    {{.scaling = llama3, .factor = 8, .context = 8192}, true},
    {{.scaling = llama3, .factor = 32, .context = 8192}, false},
    {{.scaling = llama3, .factor = 8, .context = 4096, .low = 2, .high = 8}, true},
    {{.scaling = ntk, .factor = 4}, true},
    {{.scaling = ntk, .factor = 1.5}, false},
    {{.scaling = dynamic, .factor = 2, .context = 8}, true},      // 16 rows: c is twice the context
    {{.scaling = dynamic, .factor = 4, .context = 4096}, false},  // 16 rows: c is the context, nothing changes
};

void generate_table(CaseSink& sink) {
  const auto add = [&](Profile profile, ValueSpec count, ValueSpec factors, ValueSpec table, const TableSettings& s) {
    sink.add(make_case(table_op, profile, {std::move(count), std::move(factors)}, {std::move(table)}, s.attributes()));
  };
  for (const Setting& setting : settings)
    for (const double base : {1e4, 1e5, 5e5, 1e6})
      for (const std::int64_t d : {64, 80, 96, 128})
        for (const double first : {0.0, 505.0, 4090.0, 32760.0, 131056.0, 1048560.0}) {
          // Of the positions, those below and above 512 and the last of a long context everywhere, the others in turn.
          if (first != 505 && first != 131056 && static_cast<std::int64_t>(first / 10 + base / 1e4 + static_cast<double>(d) / 16) % 3 != 0)
            continue;
          TableSettings s = setting.s;
          s.base = base;
          s.first = first;
          const bool quick = setting.known &&
                             ((d == 64 && first == 131056) || (d == 128 && first == 505) || (d == 96 && first == 0 && base == 1e6));
          add(quick ? Profile::quick : Profile::full, absent(), absent(), output(QUERN_F32, {16, d / 2, 2}), s);
        }
  for (const std::int64_t pairs : {1, 3, 5, 48}) {
    add(Profile::quick, absent(), absent(), output(QUERN_F32, {33, pairs, 2}), {});
    add(Profile::quick, absent(), long_factors(pairs), output(QUERN_F32, {33, pairs, 2}), {.mscale = 1.1902380714238083, .first = 4090});
    add(Profile::quick, absent(), long_factors(pairs), output(QUERN_F32, {33, pairs, 2}, shifted()),
        {.scaling = linear, .factor = 2, .first = 131056});
    add(Profile::full, absent(), long_factors(pairs), output(QUERN_F32, {33, pairs, 2}),
        {.scaling = llama3, .base = 5e5, .factor = 8, .context = 8192});
  }
  // A count below the rows leaves the others as they are; one above them counts for dynamic scaling alone.
  for (const std::int64_t count : {0, 1, 7, 16})
    for (const double scaling : {0.0, 5.0})
      add(Profile::quick, count_of(count), absent(), state(QUERN_F32, {16, 32, 2}),
          {.scaling = scaling, .factor = 2, .context = scaling == dynamic ? 4.0 : 0.0, .first = 3});
  for (const std::int64_t count : {17, 100000})
    add(Profile::quick, count_of(count), absent(), output(QUERN_F32, {16, 32, 2}), {.scaling = dynamic, .factor = 2, .context = 4096});
  add(Profile::quick, absent(), absent(), output(QUERN_F32, {4097, 32, 2}), {});
  add(Profile::full, absent(), absent(), output(QUERN_F32, {131072, 32, 2}), {.base = 5e5});
}

struct RopeSettings {
  double mode = 0, inverse = 0;
  std::vector<double> sections{};
  std::vector<Attribute> attributes() const {
    std::vector<Attribute> list = unless_default({{{QUERN_KEY_MODE, mode}, 0}, {{QUERN_KEY_INVERSE, inverse}, 0}});
    for (std::size_t s = 0; s < sections.size(); ++s)
      if (sections[s] != 0) list.push_back({QUERN_KEY_SECTION0 + static_cast<std::uint32_t>(s), sections[s]});
    return list;
  }
};

/// Turns by any angle, and one element in four of a length that is not 1: what a table holds is not the op's business.
void fill_turns(const Tensor& table, const CounterRandom& random) {
  for (std::int64_t i = 0; i < table.count() / 2; ++i) {
    const auto n = static_cast<std::uint64_t>(i);
    const double angle = 2 * std::numbers::pi * random.uniform(n), length = i % 4 == 0 ? 1.25 : 1.0;
    table.set(2 * i, length * std::cos(angle));
    table.set(2 * i + 1, length * std::sin(angle));
  }
}
/// Both ends of the table and of 512, in no order, some of them twice.
ValueSpec positions(Dims dims, std::int64_t rows) {
  return filled(input(QUERN_I32, std::move(dims)), "spread", [rows](const Tensor& t, const CounterRandom& random) {
    for (std::int64_t i = 0; i < t.count(); ++i) {
      const std::int64_t chosen[] = {
          rows - 1, 0,
          511,      512,
          1,        513,
          rows - 1, static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(i), static_cast<std::uint64_t>(rows)))};
      t.set(i, static_cast<double>(chosen[(i * 3) % 8] % rows));
    }
  });
}
ValueSpec stray_positions(Dims dims, std::int64_t rows) {
  return filled(input(QUERN_I32, std::move(dims)), "stray", [rows](const Tensor& t, const CounterRandom& random) {
    const double stray[] = {static_cast<double>(rows), -1, 2147483647, -2147483648};
    for (std::int64_t i = 0; i < t.count(); ++i)
      t.set(i, i % 3 == 1 ? stray[i / 3 % 4]
                          : static_cast<double>(random.below(static_cast<std::uint64_t>(i), static_cast<std::uint64_t>(rows))));
  });
}

void generate_rope(CaseSink& sink) {
  const auto add = [&](Profile profile, ValueSpec x, ValueSpec position, std::int64_t rows, std::int64_t rotated, ValueSpec y,
                       const RopeSettings& s) {
    const bool stray = position.fill_name == "stray";
    const OpUnderTest what{QUERN_OP_ROPE, "rope", s.inverse != 0 ? level_training : level_inference, rope_reference};
    const ValueSpec table = filled(input(QUERN_F32, {rows, rotated / 2, 2}), "turns", fill_turns);
    Case c = make_case(what, profile, {std::move(x), std::move(position), table}, {std::move(y)}, s.attributes());
    if (stray) c.faults = QUERN_FAULT_INDEX_RANGE;
    sink.add(std::move(c));
  };
  for (const quern_dtype dtype : float_dtypes)
    for (const double mode : {0.0, 1.0})
      for (const double inverse : {0.0, 1.0}) {
        const RopeSettings s{mode, inverse};
        for (const std::int64_t d : {64, 80, 96, 128})
          for (const std::int64_t rotated : {d, d / 2, d / 4}) {
            const Profile profile = d == 64 || d == 80 ? Profile::quick : Profile::full;
            const Dims dims{5, 3, d};
            const ValueSpec x = input(dtype, dims, DataKind::exponents);
            add(profile, input(dtype, dims), positions({5}, 4097), 4097, rotated, output(dtype, dims), s);
            add(d == 64 ? Profile::quick : Profile::full, x, positions({5}, 600), 600, rotated, in_place(x, 0), s);
            add(Profile::full, input(dtype, dims, DataKind::gaussian, rows_apart(3)), positions({5}, 600), 600, rotated,
                output(dtype, dims, rows_apart(1)), s);
          }
        const Dims dims{7, 9, 64};
        const ValueSpec x = input(dtype, dims);
        if (inverse == 0)  // what is not finite stays in its pair
          add(Profile::quick, filled(input(dtype, dims), "not_finite_rows", fill_not_finite_rows), positions({7}, 600), 600, 48,
              output(dtype, dims), s);
        add(Profile::quick, x, stray_positions({7}, 33), 33, 64, output(dtype, dims), s);
        add(Profile::quick, input(dtype, dims, DataKind::one_hot), positions({7}, 600), 600, 32, output(dtype, dims), s);
        add(Profile::quick, input(dtype, dims, DataKind::gaussian, rows_apart(64)), positions({7}, 600), 600, 64, output(dtype, dims),
            s);  // a part of qkv
        add(Profile::quick, input(dtype, dims, DataKind::gaussian, ordered({1, 0, 2})), positions({7}, 600), 600, 64, output(dtype, dims),
            s);
        add(Profile::quick, input(dtype, {1, 32, 128}), positions({1}, 2048), 2048, 128, output(dtype, {1, 32, 128}), s);
        add(Profile::full, input(dtype, {129, 9, 64}), positions({129}, 4097), 4097, 64, output(dtype, {129, 9, 64}), s);
        for (const std::vector<double>& sections : {std::vector<double>{16, 8, 8, 0}, std::vector<double>{0, 5, 16, 11},
                                                    std::vector<double>{32, 0, 0, 0}, std::vector<double>{1, 0, 0, 31}}) {
          add(Profile::quick, x, positions({4, 7}, 600), 600, 64, output(dtype, dims), {mode, inverse, sections});
          add(Profile::full, x, positions({4, 7}, 600), 600, 64, in_place(x, 0), {mode, inverse, sections});
        }
        add(Profile::full, input(dtype, {7, 2, 128}), positions({4, 7}, 600), 600, 128, output(dtype, {7, 2, 128}),
            {mode, inverse, {16, 24, 24, 0}});
        add(Profile::quick, input(dtype, {0, 3, 64}), positions({0}, 5), 5, 64, output(dtype, {0, 3, 64}), s);
      }
  add(Profile::full, input(QUERN_F32, {9, 3, 64}), positions({9}, 131072), 131072, 64, output(QUERN_F32, {9, 3, 64}), {});
  add(Profile::full, input(QUERN_F16, {9, 3, 64}), positions({9}, 131072), 131072, 64, output(QUERN_F16, {9, 3, 64}), {1, 0});
}

void generate(CaseSink& sink) {
  generate_table(sink);
  generate_rope(sink);
}

}  // namespace

Case rope_case(Profile profile, const RopeShape& shape) {
  const auto tokens = static_cast<std::int64_t>(shape.positions.size());
  const Dims dims{tokens, shape.heads, shape.size};
  const RopeSettings settings{shape.mode};
  return make_case({QUERN_OP_ROPE, "rope", level_inference, rope_reference}, profile,
                   {input(shape.dtype, dims),
                    given(input(QUERN_I32, {tokens}), "positions_to_" + std::to_string(shape.positions.back()), shape.positions),
                    filled(input(QUERN_F32, {shape.rows, shape.rotated / 2, 2}), "turns", fill_turns)},
                   {output(shape.dtype, dims)}, settings.attributes());
}

extern const Family rope_family;
const Family rope_family = {"rope", generate};

}  // namespace quern::conformance
