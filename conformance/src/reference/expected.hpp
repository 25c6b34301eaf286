// What a case's outputs must be: f64 values, and per element how far a correct kernel may be from them.
//
// |y - r| <= E_acc + E_in + E_out. The reference of an op gives r, E_acc and the deviation that E_in is made of; E_out follows from
// the output's dtype (judge/). The rules and their measurements: section 3 of the suite's tolerance model in conformance/README.md.
#pragma once

#include "data/tensor.hpp"

#include <cstdint>
#include <functional>
#include <vector>

namespace quern::conformance {

struct Case;

/// Unit roundoffs.
inline constexpr double u32 = 0x1p-24, u16 = 0x1p-11, ub16 = 0x1p-8;

/// exact: f32 arithmetic on the values as they are; fast: with the input conversions that the node allows.
enum class Numerics { exact, fast };

enum class Rule {
  unset,    // the reference said nothing: never a pass
  bits,     // the bytes of `bytes`: copies, gathers, integers
  value,    // r rounded to f32 and then to the output's dtype, bit for bit but for the sign of zero and the kind of NaN
  bounded,  // within the bound of each element
};

/// One output. Vectors are parallel; `index` is empty where every element is judged, else the element that each entry is about.
struct ExpectedOutput {
  Rule rule = Rule::unset;
  std::string problem;  // Rule::unset: why the reference expects nothing
  std::vector<std::int64_t> index;
  std::vector<double> value;       // r
  std::vector<double> bound;       // E_acc of exact numerics (Rule::bounded; and of fast numerics for Rule::value)
  std::vector<double> fast_bound;  // E_acc of fast numerics where it is another one; empty: the same
  std::vector<double> deviation;   // sigma of the input conversions that fast numerics allows; empty: none
  std::vector<double> scale;       // S, for the tier that was attained; empty: not an accumulation
  double length = 0;               // K of the accumulation
  bool zero_sign = false;          // Rule::value: a zero must have the sign of r
  bool independent = false;        // errors of different outputs are independent, but for what `sharing` tells: the aggregate tests apply
  double sharing = 1;              // by what conversions that several outputs share raise the variance of a sum over outputs
  double gain_variance = 0;        // of the slope, by conversions that all rows share: however many there are, they do not average out
  std::vector<std::byte> bytes;    // Rule::bits: the packed output

  void reserve(std::size_t count);
  /// E_acc of each element in `numerics`; empty: 0.
  const std::vector<double>& accumulation(Numerics numerics) const noexcept {
    return numerics == Numerics::fast && !fast_bound.empty() ? fast_bound : bound;
  }
  /// Appends one judged element.
  void add(double r, double e_acc) {
    value.push_back(r);
    bound.push_back(e_acc);
  }
  /// Part `part` of `parts` equal ones, of all elements, must be what `before` holds there. No tier and no aggregate test is told then.
  void keep(const Tensor& before, std::size_t part, std::size_t parts);
};

struct Expected {
  std::vector<ExpectedOutput> outputs;
};

/// What a reference reads. Inputs and outputs are in the order of the case; an absent one is a Tensor that is absent().
struct ReferenceCall {
  const Case& what;
  const std::vector<Tensor>& inputs;
  const std::vector<Tensor>& states;  // one an output: what a STATE output holds before the run, else absent

  double attribute(std::uint32_t key, double fallback) const;
};

using ReferenceFunction = void (*)(const ReferenceCall& call, Expected& expected);
/// The same where it carries something along: the reference of a family and the values of another project, say.
using Reference = std::function<void(const ReferenceCall& call, Expected& expected)>;

/// The accumulation error that a tier allows: T1 f32 in any order, T2 a matrix unit with truncating partial sums, T3 f16 sums
/// promoted to f32 every 32 terms.
enum class Tier { t1, t2, t3 };
double accumulation_bound(Tier tier, double length, double scale) noexcept;

/// Half an ulp of f32 at r, with the half of a subnormal's step below the normals.
double half_ulp_f32(double r) noexcept;

}  // namespace quern::conformance
