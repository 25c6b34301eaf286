// Q4_Z32: codes of four bits with a zero point, 32 a block.
#include "zero_points.hpp"

namespace quern::cpu {

const BlockCodec q4_z32_codec = {ZeroPointNibbles<32>::decode, ZeroPointNibbles<32>::encode};

}  // namespace quern::cpu
