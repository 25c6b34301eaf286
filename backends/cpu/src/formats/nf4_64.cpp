// NF4_64: an f32 and codes of four bits that stand for numbers of a table.
#include "whole_scales.hpp"

namespace quern::cpu {

const BlockCodec nf4_64_codec = {TableNibbles<64, quern_nf4_values>::decode, TableNibbles<64, quern_nf4_values>::encode};

}  // namespace quern::cpu
