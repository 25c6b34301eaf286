// Names and sizes: what does not depend on a file's format.
#include "lists.hpp"

#include "quern/base/concat.hpp"
#include "quern/models/peft.hpp"

#include <algorithm>
#include <cmath>

namespace quern::peft {
namespace {

struct Names {
  std::string_view peft, module, gguf;
};

// By the numbers of Target.
constexpr Names names[] = {{"q_proj", "self_attn.q_proj", "attn_q"},   {"k_proj", "self_attn.k_proj", "attn_k"},
                           {"v_proj", "self_attn.v_proj", "attn_v"},   {"o_proj", "self_attn.o_proj", "attn_output"},
                           {"gate_proj", "mlp.gate_proj", "ffn_gate"}, {"up_proj", "mlp.up_proj", "ffn_up"},
                           {"down_proj", "mlp.down_proj", "ffn_down"}};
static_assert(std::size(names) == std::size(every_target));

const Names& names_of(Target target) noexcept { return names[static_cast<std::size_t>(target)]; }

}  // namespace

std::string_view peft_name(Target target) noexcept { return names_of(target).peft; }
std::string_view peft_module(Target target) noexcept { return names_of(target).module; }
std::string_view gguf_name(Target target) noexcept { return names_of(target).gguf; }

std::optional<Target> find_target(std::string_view peft_name) noexcept {
  for (const Target target : every_target)
    if (names_of(target).peft == peft_name) return target;
  return std::nullopt;
}

std::string AdapterMatrix::name() const { return concat("layers.", layer, ".", peft_module(target)); }

double Adapter::scale(const AdapterMatrix& matrix) const noexcept {
  const auto r = static_cast<double>(matrix.rank);
  return matrix.alpha.value_or(alpha) / (rslora ? std::sqrt(r) : r);
}

const AdapterMatrix* Adapter::find(std::uint32_t layer, Target target) const noexcept {
  const auto at = std::ranges::find_if(matrices, [&](const AdapterMatrix& one) { return one.layer == layer && one.target == target; });
  return at == matrices.end() ? nullptr : &*at;
}

std::pair<std::int64_t, std::int64_t> BaseShape::inputs_and_outputs(Target target) const noexcept {
  const std::int64_t w = width, f = ffn, key = head_size, value = value_size == 0 ? head_size : value_size;
  switch (target) {
    case Target::q: return {w, heads * key};
    case Target::k: return {w, kv_heads * key};
    case Target::v: return {w, kv_heads * value};
    case Target::o: return {heads * value, w};
    case Target::gate:
    case Target::up: return {w, f};
    case Target::down: return {f, w};
  }
  return {};
}

BaseShape base_shape(const models::Hyperparameters& model) {
  return {model.architecture, model.layers, model.heads, model.kv_heads, model.head_size, model.hidden, model.ffn, model.value_size};
}

BaseShape base_shape(const gguf::File& model) { return base_shape(models::read_hyperparameters(model)); }

RowOrder gguf_row_order(std::string_view architecture) noexcept {
  return architecture == "llama" ? RowOrder::interleaved : RowOrder::halves;
}

std::vector<float> reorder_rows(std::span<const float> rows, std::int64_t columns, std::int64_t heads, RowOrder from, RowOrder to) {
  const auto size = static_cast<std::int64_t>(rows.size());
  if (columns <= 0 || heads <= 0 || size % columns != 0 || size / columns % heads != 0 || size / columns / heads % 2 != 0)
    throw Error(QUERN_INVALID_ARGUMENT, concat(size, " numbers in rows of ", columns, " are not ", heads, " heads of an even size"));
  if (from == to) return {rows.begin(), rows.end()};
  std::vector<float> out(rows.size());
  const std::int64_t half = size / columns / heads / 2;
  for (std::int64_t head = 0; head < heads; ++head)
    for (std::int64_t j = 0; j < half; ++j)
      for (std::int64_t part = 0; part < 2; ++part) {
        const std::int64_t in_halves = head * 2 * half + part * half + j, interleaved = head * 2 * half + 2 * j + part;
        const std::int64_t source = from == RowOrder::halves ? in_halves : interleaved;
        const std::int64_t target = from == RowOrder::halves ? interleaved : in_halves;
        std::copy_n(rows.begin() + source * columns, columns, out.begin() + target * columns);
      }
  return out;
}

void check_fits(const Adapter& adapter, const BaseShape& base) {
  if (adapter.matrices.empty()) throw Error(QUERN_BAD_MODEL, "the adapter has no matrix, so it would change nothing");
  NameList without, halves;
  for (const AdapterMatrix& matrix : adapter.matrices) {
    const auto [inputs, outputs] = base.inputs_and_outputs(matrix.target);
    if (matrix.layer >= base.layers) without.add(concat(matrix.name(), " (the base has ", base.layers, " layers)"));
    else if (matrix.inputs != inputs || matrix.outputs != outputs)
      without.add(concat(matrix.name(), " (", matrix.inputs, " to ", matrix.outputs, ", in the base ", inputs, " to ", outputs, ")"));
    if (!is_whole(matrix)) halves.add(matrix.name());
  }
  refuse_lists("the adapter does not fit the base", without, halves);
}

}  // namespace quern::peft
