// quern_evaluate and its results.
#include "boundary.hpp"
#include "handles.hpp"

using namespace quern;
using namespace quern::c_api;

extern "C" {

quern_status quern_evaluate(quern_session* session, uint32_t sequence, const int32_t* ids, uint64_t count, uint32_t flags,
                            quern_evaluation** out) {
  quern_evaluate_options options{};
  options.struct_size = sizeof options;
  options.flags = flags;
  return quern_evaluate_with(session, sequence, ids, count, &options, out);
}

quern_status quern_evaluate_with(quern_session* session, uint32_t sequence, const int32_t* ids, uint64_t count,
                                 const quern_evaluate_options* options, quern_evaluation** out) {
  return guarded([&] {
    require(out, "out");
    *out = nullptr;
    require(session, "session");
    if (count > 0) require(ids, "ids");
    const auto o = whole(options, "quern_evaluate_options");
    check_flags(o.flags, QUERN_EVALUATE_LOGITS | QUERN_EVALUATE_ALL_LOGITS, "quern_evaluate");
    std::function<bool(std::uint64_t)> progress;
    if (o.progress != nullptr)
      progress = [&o, count](std::uint64_t done) { return call_back(o.progress, o.progress_user, done, count) == 0; };
    const Owner::Use use(session);  // the callback may release it
    const Turn turn(session);
    auto handle = std::make_unique<quern_evaluation>();
    const auto keep = (o.flags & QUERN_EVALUATE_ALL_LOGITS) != 0 ? runtime::KeepLogits::all
                      : (o.flags & QUERN_EVALUATE_LOGITS) != 0   ? runtime::KeepLogits::last
                                                                 : runtime::KeepLogits::none;
    handle->evaluation = runtime::evaluate(*session->engine, sequence, {ids, static_cast<std::size_t>(count)}, keep, progress);
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
