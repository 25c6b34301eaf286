// A token drawn from each row of logits. Kernel: sort.
#include "sampling.hpp"
#include "tables.hpp"

namespace quern::vulkan {
namespace {

std::string refuse_sample(const Call& call) {
  return first_of({check_logits_and_settings(call), check_contiguous(call.output(0)), check_contiguous(call.output(1))});
}

}  // namespace

const Op sample_op = offer(QUERN_OP_SAMPLE, "sample.vulkan", refuse_sample, emit_sample, draw_scratch, true);

}  // namespace quern::vulkan
