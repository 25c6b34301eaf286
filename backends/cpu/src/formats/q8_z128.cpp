// Q8_Z128: codes of eight bits with a zero point, 128 a block.
#include "zero_points.hpp"

namespace quern::cpu {

const BlockCodec q8_z128_codec = {ZeroPointBytes<128>::decode, ZeroPointBytes<128>::encode};

}  // namespace quern::cpu
