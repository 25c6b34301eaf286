// Q8_Z32: codes of eight bits with a zero point, 32 a block.
#include "zero_points.hpp"

namespace quern::cpu {

const BlockCodec q8_z32_codec = {ZeroPointBytes<32>::decode, ZeroPointBytes<32>::encode};

}  // namespace quern::cpu
