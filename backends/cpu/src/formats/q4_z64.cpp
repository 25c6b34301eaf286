// Q4_Z64: codes of four bits with a zero point, 64 a block.
#include "zero_points.hpp"

namespace quern::cpu {

const BlockCodec q4_z64_codec = {ZeroPointNibbles<64>::decode, ZeroPointNibbles<64>::encode};

}  // namespace quern::cpu
