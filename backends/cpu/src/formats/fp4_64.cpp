// FP4_64: an f32 and codes of four bits that stand for numbers of a table.
#include "whole_scales.hpp"

namespace quern::cpu {

const BlockCodec fp4_64_codec = {TableNibbles<64, quern_fp4_values>::decode, TableNibbles<64, quern_fp4_values>::encode};

}  // namespace quern::cpu
