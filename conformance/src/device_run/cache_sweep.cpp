// See cache_sweep.hpp.
#include "device_run/cache_sweep.hpp"

#include "device_run/case_graph.hpp"
#include "device_run/prepared.hpp"

namespace quern::conformance {
namespace {

constexpr std::int64_t elements = 32 << 20;  // of f32: beyond the last cache of any device that we know, by a factor of two

Case copy_case() {
  Case c;
  c.op = QUERN_OP_COPY;
  ValueSpec x;
  x.dtype = QUERN_F32;
  x.dims = {elements};
  c.inputs = {x};
  x.kind = QUERN_VALUE_OUTPUT;
  c.outputs = {x};
  return c;
}

}  // namespace

struct CacheSweep::Parts {
  explicit Parts(const loader::Device& device)
      : queue(device), graph(what, 0), from(device, queue, 4 * elements, 0, false), to(device, queue, 4 * elements, 0, false) {
    from.fill(std::byte{0});
    prepared = std::make_unique<Prepared>(device, queue, graph.graph(),
                                          std::map<std::uint32_t, Region*>{{graph.input_id(0), &from}, {graph.output_id(0), &to}});
  }
  Case what = copy_case();
  Queue queue;
  CaseGraph graph;
  Region from, to;
  std::unique_ptr<Prepared> prepared;
};

CacheSweep::CacheSweep(const loader::Device& device) : device_(device) {}
CacheSweep::~CacheSweep() = default;

bool CacheSweep::works() const noexcept { return parts_ != nullptr; }

void CacheSweep::run() {
  if (!tried_) {
    tried_ = true;
    try {
      parts_ = std::make_unique<Parts>(device_);
    } catch (const AbiFailure&) {
      parts_.reset();  // no copy or no room: the answers say that nothing was swept
    } catch (const std::bad_alloc&) { parts_.reset(); }
  }
  if (parts_) parts_->prepared->run(60);
}

}  // namespace quern::conformance
