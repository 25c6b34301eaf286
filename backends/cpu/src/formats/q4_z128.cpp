// Q4_Z128: codes of four bits with a zero point, 128 a block.
#include "zero_points.hpp"

namespace quern::cpu {

const BlockCodec q4_z128_codec = {ZeroPointNibbles<128>::decode, ZeroPointNibbles<128>::encode};

}  // namespace quern::cpu
