// Cases of other families by their shapes alone, for those that derive shapes: models and limits.
#pragma once

#include "ops/attention_case.hpp"
#include "ops/family.hpp"

namespace quern::conformance {

/// [m, k] times weights [n, k], with an f32 output.
Case product_case(Profile profile, quern_dtype a, quern_dtype b, std::int64_t m, std::int64_t n, std::int64_t k);

struct RopeShape {
  std::int64_t heads = 1, size = 64, rotated = 64;
  std::int64_t rows = 33;               // of the table
  std::vector<std::int64_t> positions;  // one a token
  double mode = 1;
  quern_dtype dtype = QUERN_F32;
};
Case rope_case(Profile profile, const RopeShape& shape);

/// Tokens share their activation among the experts.
Case matmul_id_case(Profile profile, quern_dtype b, std::int64_t tokens, std::int64_t experts, std::int64_t used, std::int64_t n,
                    std::int64_t k);
Case moe_router_case(Profile profile, std::int64_t tokens, std::int64_t experts, std::int64_t used, bool sigmoid);
Case sample_case(Profile profile, std::int64_t rows, std::int64_t vocab);

}  // namespace quern::conformance
