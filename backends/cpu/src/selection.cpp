// Walks the kernel table of an op from its most specific row down.
#include "selection.hpp"

#include "openblas.hpp"
#include "packed/registry.hpp"

#include <algorithm>
#include <array>

namespace quern::cpu {
namespace {

constexpr std::array<std::string_view, 5> families = {"portable", "avx2", "avx512", "amx", "openblas"};  // slow to fast

int family_rank(std::string_view family) noexcept {
  const auto* at = std::ranges::find(families, family);
  return at == families.end() ? -1 : static_cast<int>(at - families.begin());
}

bool kernel_exists(std::string_view name) noexcept {
  for (const std::span<const Kernel> table : kernel_tables())
    for (const Kernel& kernel : table)
      if (name == kernel.name) return true;
  return false;
}

/// Why the policy keeps this row from running; empty: it may.
std::string excluded(const Kernel& kernel, const KernelPolicy& policy) {
  const std::string family(kernel_family(kernel.name));
  if (policy.force != kernel.name && !family_allowed(family, policy.force))
    return concat(family, ": switched off by force_kernel=", policy.force);
  if (kernel.isa <= policy.best) return {};
  return concat(family, ": ", kernel.isa == Isa::amx ? policy.no_amx : concat("this processor has no ", isa_name(kernel.isa)));
}

}  // namespace

std::string_view kernel_family(std::string_view name) noexcept {
  const std::size_t dot = name.rfind('.');
  return dot == std::string_view::npos ? name : name.substr(dot + 1);
}

bool family_allowed(std::string_view family, std::string_view force) noexcept {
  const int forced = family_rank(force);
  return forced < 0 || family_rank(family) <= forced;
}

bool demands_amx(std::string_view force) noexcept { return kernel_family(force) == "amx"; }

std::int64_t tiles_from(std::string_view force) noexcept { return demands_amx(force) ? 1 : 64; }

std::string_view forced_name(std::string_view value) noexcept {
  const std::size_t colon = value.find(':');
  if (colon == std::string_view::npos) return value;
  return value.substr(0, colon) == "cpu" ? value.substr(colon + 1) : std::string_view();
}

std::string check_forced_kernel(std::string_view value, const Processor& processor, quern_status unknown) {
  const Isa best = processor.best;
  value = forced_name(value);
  if (value.empty()) return {};
  const int rank = family_rank(value);
  if (rank < 0 && !kernel_exists(value))
    throw sdk::Failure(unknown, concat("force_kernel is '", value,
                                       "'; the cpu plugin has the families portable, avx2, avx512, amx and "
                                       "openblas, and the kernel names that plan_info gives"));
  if ((value == "avx2" && best < Isa::avx2) || (value == "avx512" && best < Isa::avx512))
    throw sdk::Failure(QUERN_ARCH_NOT_BUILT,
                       concat("force_kernel is '", value, "' but the best that this processor runs is ", isa_name(best)));
  if (value == "amx" && best < Isa::amx) throw sdk::Failure(QUERN_ARCH_NOT_BUILT, concat("force_kernel is 'amx' but ", processor.no_amx));
  if (value == "openblas" && openblas().sgemm == nullptr)
    throw sdk::Failure(QUERN_DEPENDENCY_MISSING, concat("force_kernel is 'openblas' but ", openblas().reason));
  return std::string(value);
}

Isa packing_isa(std::string_view force, Isa best) noexcept {
  if (force == "portable") return Isa::baseline;
  if (force == "avx2") return std::min(best, Isa::avx2);
  if (force.starts_with("matmul.") ||
      force.starts_with("matmul_id.")) {  // a packed kernel needs its layout, the others need canonical weights
    if (force.find(".packed.") == std::string_view::npos) return Isa::baseline;
    return kernel_family(force) == "avx2" ? std::min(best, Isa::avx2) : best;
  }
  return best;
}

const sdk::OpOffer* KernelOffers::find(std::uint32_t op) const {
  static const sdk::OpOffer any{0, "", nullptr, true};  // choose() has the kernels, and which of them take a predicate of rows
  for (const std::span<const Kernel> table : kernel_tables())
    for (const Kernel& kernel : table)
      if (kernel.op == op) return &any;
  return nullptr;
}

std::uint64_t KernelOffers::layout_bytes(std::string_view text, const quern_value& value) const {
  const PackedKey key = parse_packed_key(text);
  const std::uint32_t rank = key.experts == 0 ? 2 : 3;
  const bool fits = key && value.dtype == key.layout->format && value.rank == rank && (rank == 2 || value.dims[0] == key.experts) &&
                    value.dims[rank - 2] == key.rows && value.dims[rank - 1] == key.k;
  return fits ? key.bytes() : 0;
}

sdk::Choice KernelOffers::choose(const Graph& graph, const Node& node, const sdk::Node& source) const {
  const std::string name(sdk::find_op(node.op)->name);
  sdk::Choice choice;
  const auto refuse = [&choice](Verdict verdict) {
    choice.refusal = std::move(verdict.text);
    choice.code = verdict.code;
    return choice;
  };
  if ((source.fields.uses & QUERN_NODE_USES_BODY) != 0 && node.op != QUERN_OP_ADD_RMS_NORM)
    return refuse(Verdict::no(concat(name, " is a composite; this plugin runs the nodes of its body")));
  std::vector<Tensor> storage;
  const Call call = describe_call(graph, node, policy_.thread_count, policy_.deterministic, storage);
  Verdict last = Verdict::no(concat("this plugin has no kernel for op ", name));
  const bool packed = call.layout != nullptr;
  if (packed) last = Verdict::no(concat(name, " does not read packed weights"));
  for (std::size_t i = 0; i < call.inputs.size(); ++i)
    if (call.inputs[i].packed_layout && i != (node.op == QUERN_OP_GET_ROWS ? 0 : 1))
      return refuse(Verdict::no(concat(name, " does not read its input ", i, " packed")));
  bool named_op = false;  // the forced kernel is one of this op
  if (!policy_.force.empty() && family_rank(policy_.force) < 0)
    for (const std::span<const Kernel> table : kernel_tables())
      for (const Kernel& kernel : table) named_op = named_op || (policy_.force == kernel.name && kernel.op == node.op);
  for (const std::span<const Kernel> table : kernel_tables())
    for (const Kernel& kernel : table) {
      if (kernel.op != node.op || kernel.packed != packed) continue;
      std::string why = excluded(kernel, policy_);
      if (why.empty() && named_op && policy_.force != kernel.name)
        why = concat(kernel.name, ": switched off by force_kernel=", policy_.force);
      if (!why.empty() && kernel.accepts(call).code == QUERN_NOT_FOUND) continue;  // a row for other formats is no reason
      if (why.empty() && node.row_predicate && !kernel.row_predicate)
        why = (last = Verdict::no(concat(name, " takes a predicate of one element, not one a row"))).text;
      if (why.empty()) {
        Verdict verdict = kernel.accepts(call);
        if (verdict) {
          choice.kernel = kernel.name;
          choice.row = &kernel;
          return choice;
        }
        if (verdict.code == QUERN_NOT_FOUND) continue;
        why = concat(kernel_family(kernel.name), ": ", verdict.text);
        last = std::move(verdict);
      }
      if (!choice.reason.empty()) choice.reason += "; ";
      choice.reason += why;
    }
  if (last.code == QUERN_UNSUPPORTED && !choice.reason.empty() && named_op) last.text = choice.reason;
  return refuse(std::move(last));
}

}  // namespace quern::cpu
