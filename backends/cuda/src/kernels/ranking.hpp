// Parameters of ops that rank the elements of rows, and of the masks of logits.
#pragma once
#include "strided.hpp"

namespace quern::cuda {

enum MaskKind { mask_top_k = 0, mask_top_p = 1, mask_min_p = 2 };

struct RankParams {
  Shape rows;
  Operand x, value, index;
  Address keys;  // u64 [rows][2][n]
  long long n, k;
  int ascending;
};
struct MaskParams {
  Shape rows;
  Operand x, setting, y;
  Address keys;
  long long n;
  int kind;
};

}  // namespace quern::cuda
