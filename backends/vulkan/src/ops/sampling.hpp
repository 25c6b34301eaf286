// From logits to tokens: what ranking, masks, penalties, biases and the draw launch. And the draw of fused schedules: penalties, biases and the
// draw from what they leave, in two launches where rows are few and long.
#pragma once

#include "../op.hpp"

#include <functional>

namespace quern::vulkan {

std::string check_logits(const Tensor& x);
/// What belongs to the rows of logits is read packed.
std::string check_logits_and_settings(const Call& call);
std::uint64_t scratch_ranking(const Call& call);
/// Ranks each row of x; y and index are what the op writes. `change` sets what is the op's own. `parts_are_there`: those of a row that is drawn
/// from.
void launch_ranking(const Call& call, const Tensor& y, const Tensor& index, std::int32_t op, Launcher& launcher,
                    const std::function<void(RankParams&)>& change = {}, bool parts_are_there = false);
/// The first of each row.
void launch_ranked(const Call& call, bool ascending, Launcher& launcher);

/// Of penalize and logit_bias.
std::string refuse_logits(const Call& call);
void emit_logits(const Call& call, Launcher& launcher);

/// Bytes of scratch of launch_draw, and of sample: of the call of the draw.
std::uint64_t draw_scratch(const Call& call);
/// The penalties' result is not written where there are two launches; that of the biases is.
void launch_draw(const Call& penalize, const Call& bias, const Call& sample, Launcher& launcher);
void emit_sample(const Call& call, Launcher& launcher);

}  // namespace quern::vulkan
