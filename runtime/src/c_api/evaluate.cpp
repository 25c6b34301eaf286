// quern_evaluate and its results.
#include "boundary.hpp"
#include "handles.hpp"

using namespace quern;
using namespace quern::c_api;

extern "C" {

quern_status quern_evaluate(quern_session* session, uint32_t sequence, const int32_t* ids, uint64_t count, uint32_t flags,
                            quern_evaluation** out) {
  return guarded([&] {
    require(out, "out");
    *out = nullptr;
    require(session, "session");
    if (count > 0) require(ids, "ids");
    check_flags(flags, QUERN_EVALUATE_LOGITS | QUERN_EVALUATE_ALL_LOGITS, "quern_evaluate");
    const Turn turn(session);
    auto handle = std::make_unique<quern_evaluation>();
    const auto keep = (flags & QUERN_EVALUATE_ALL_LOGITS) != 0 ? runtime::KeepLogits::all
                      : (flags & QUERN_EVALUATE_LOGITS) != 0   ? runtime::KeepLogits::last
                                                               : runtime::KeepLogits::none;
    handle->evaluation = runtime::evaluate(*session->engine, sequence, {ids, static_cast<std::size_t>(count)}, keep);
    *out = handle.release();
  });
}

quern_status quern_evaluation_get_info(const quern_evaluation* evaluation, quern_evaluation_info* out) {
  return guarded<Needs::little>([&] {
    require(evaluation, "evaluation");
    const runtime::Evaluation& e = evaluation->evaluation;
    quern_evaluation_info info{};
    info.count = e.argmax.size();
    info.nll_sum = e.nll_sum;
    info.argmax = e.argmax.data();
    info.margin = e.margin.data();
    info.nll = e.nll.data();
    info.logits = e.logits.empty() ? nullptr : e.logits.data();
    info.logit_count = e.logits.size();
    info.seconds = e.seconds;
    give(out, info, "quern_evaluation_info");
  });
}

void quern_evaluation_release(quern_evaluation* evaluation) { delete evaluation; }

}  // extern "C"
