// See adapters.hpp.
#include "adapters.hpp"

#include "model.hpp"

#include "quern/base/byte_sizes.hpp"

#include <algorithm>
#include <bit>
#include <map>

namespace quern::runtime {
namespace {

/// FNV-1a, as saved states have it.
std::uint64_t add_to_print(std::uint64_t print, std::span<const std::byte> bytes) {
  for (const std::byte b : bytes) print = (print ^ static_cast<std::uint64_t>(b)) * 0x100000001b3ull;
  return print;
}
std::uint64_t add_to_print(std::uint64_t print, std::uint64_t number) { return add_to_print(print, std::as_bytes(std::span(&number, 1))); }
constexpr std::uint64_t empty_print = 0xcbf29ce484222325ull;

}  // namespace

peft::Adapter read_adapter(const std::string& path, const peft::BaseShape& base) {
  const std::optional<std::string> folder = peft::folder_of(path);
  peft::Adapter adapter = folder ? peft::read_folder(*folder) : peft::read_gguf(path, base);
  try {
    peft::check_fits(adapter, base);
  } catch (const Error& error) { throw Error(error.code(), concat(path, ": ", error.what())); }
  return adapter;
}

std::vector<float> in_file_order(const peft::BaseShape& base, peft::Target target, std::vector<float> b, std::int64_t rank, bool to_file) {
  const std::uint32_t heads = target == peft::Target::q ? base.heads : target == peft::Target::k ? base.kv_heads : 0;
  const peft::RowOrder order = peft::gguf_row_order(base.architecture);
  if (heads == 0 || order == peft::RowOrder::halves) return b;
  return to_file ? peft::reorder_rows(b, rank, heads, peft::RowOrder::halves, order)
                 : peft::reorder_rows(b, rank, heads, order, peft::RowOrder::halves);
}

std::vector<models::AdaptedProduct> adapted_products(const std::vector<std::string>& paths, const peft::BaseShape& base) {
  std::map<std::pair<std::uint32_t, peft::Target>, models::AdaptedProduct> products;
  for (const std::string& path : paths) {
    for (const peft::AdapterMatrix& matrix : read_adapter(path, base).matrices) {
      models::AdaptedProduct& product = products[{matrix.layer, matrix.target}];
      product = {matrix.layer, std::string(peft::gguf_name(matrix.target)), std::max(product.rank, matrix.rank), matrix.inputs,
                 matrix.outputs};
    }
  }
  std::vector<models::AdaptedProduct> list;
  for (auto& [place, product] : products) list.push_back(std::move(product));
  return list;
}

void add_adapters(models::StepOptions& step, const std::vector<std::string>& paths, const models::Hyperparameters& shape) {
  step.adapted = adapted_products(paths, peft::base_shape(shape));
  step.adapters = static_cast<std::uint32_t>(paths.size());
}

LoadedAdapter::LoadedAdapter(std::shared_ptr<const Model> model, const std::string& path)
    : model_(std::move(model)), path_(path), of_product_(model_->step().adapted.size()) {
  const peft::BaseShape base = peft::base_shape(model_->shape());
  adapter_ = read_adapter(path, base);
  fingerprint_ = empty_print;
  for (peft::AdapterMatrix& matrix : adapter_.matrices) {
    const auto known = std::ranges::find_if(model_->step().adapted, [&](const models::StepGraph::Adapted& one) {
      return one.product.layer == matrix.layer && one.product.part == peft::gguf_name(matrix.target);
    });
    const bool there = known != model_->step().adapted.end();
    if (!there || known->product.rank < matrix.rank)
      throw Error(QUERN_INVALID_ARGUMENT,
                  concat(path, ": changes ", matrix.name(), " with a rank of ", matrix.rank, ", but the model was loaded for ",
                         there ? concat("a rank of ", known->product.rank, " there") : std::string("no adapter there"),
                         "; load the model with this adapter among its adapters"));
    matrix.b = in_file_order(base, matrix.target, std::move(matrix.b), matrix.rank, true);
    of_product_[static_cast<std::size_t>(known - model_->step().adapted.begin())] = &matrix;
    fingerprint_ = add_to_print(fingerprint_, static_cast<std::uint64_t>(known - model_->step().adapted.begin()));
    fingerprint_ = add_to_print(fingerprint_, std::bit_cast<std::uint64_t>(adapter_.scale(matrix)));
    for (const std::vector<float>* half : {&matrix.a, &matrix.b})
      fingerprint_ = add_to_print(fingerprint_, std::as_bytes(std::span(*half)));
  }
}

AdapterPool::AdapterPool(const models::StepGraph& step, std::uint32_t places, std::uint32_t sequences)
    : step_(step), held_(places), uses_(sequences) {}

bool AdapterPool::uses(std::uint32_t sequence, const LoadedAdapter* adapter, double scale) const {
  const Use& now = uses_.at(sequence);
  return now.adapter.get() == adapter && (adapter == nullptr || now.scale == scale);
}

std::uint64_t AdapterPool::fingerprint() const noexcept {
  std::uint64_t print = empty_print;
  bool any = false;
  for (std::size_t s = 0; s < uses_.size(); ++s) {
    if (uses_[s].adapter == nullptr) continue;
    any = true;
    for (const std::uint64_t number : {std::uint64_t{s}, uses_[s].adapter->fingerprint(), std::bit_cast<std::uint64_t>(uses_[s].scale)})
      print = add_to_print(print, number);
  }
  return any ? print : 0;
}

/// Where the adapter's numbers lie, or a place that no other sequence reads.
std::size_t AdapterPool::place_for(std::uint32_t sequence, const std::shared_ptr<const LoadedAdapter>& adapter) const {
  if (const auto held = std::ranges::find(held_, adapter); held != held_.end()) return static_cast<std::size_t>(held - held_.begin());
  std::vector<bool> read(held_.size());
  for (std::uint32_t s = 0; s < uses_.size(); ++s)
    if (s != sequence && uses_[s].adapter != nullptr) read[uses_[s].place] = true;
  const auto found = std::ranges::find(read, false);
  if (found == read.end())
    throw Error(QUERN_INVALID_ARGUMENT,
                concat(adapter->path(), ": other sequences use ", counted(held_.size(), "adapter"),
                       " and the model was loaded for no more at a time; take one from its sequences, or load the model for more"));
  return static_cast<std::size_t>(found - read.begin());
}

void AdapterPool::use(Program& program, std::uint32_t sequence, std::shared_ptr<const LoadedAdapter> adapter, double scale) {
  if (adapter == nullptr) {
    uses_.at(sequence) = {};
    return;
  }
  const std::size_t place = place_for(sequence, adapter);
  if (held_[place] != adapter) {
    held_[place] = nullptr;  // until all of it is there
    uses_.at(sequence) = {};
    write_numbers(program, place, *adapter);
    held_[place] = adapter;
  }
  uses_.at(sequence) = {std::move(adapter), place, scale};
  write_table(program, sequence);
}

void AdapterPool::copy(Program& program, std::uint32_t from, std::uint32_t to) {
  uses_.at(to) = uses_.at(from);
  if (uses_[to].adapter != nullptr) write_table(program, to);
}

void AdapterPool::write_numbers(Program& program, std::size_t place, const LoadedAdapter& adapter) const {
  for (std::size_t i = 0; i < step_.adapted.size(); ++i) {
    const peft::AdapterMatrix* matrix = adapter.matrix(i);
    if (matrix == nullptr) continue;
    const std::uint64_t first = step_.adapted[i].pool_first + place * step_.adapted[i].size();
    program.write(step_.adapter_pool, first * sizeof(float), std::as_bytes(std::span(matrix->a)));
    program.write(step_.adapter_pool, (first + matrix->a.size()) * sizeof(float), std::as_bytes(std::span(matrix->b)));
  }
}

void AdapterPool::write_table(Program& program, std::uint32_t sequence) const {
  const Use& use = uses_[sequence];
  for (std::size_t i = 0; i < step_.adapted.size(); ++i) {
    const peft::AdapterMatrix* matrix = use.adapter->matrix(i);
    std::int32_t row[4] = {};  // a rank of 0 where it changes nothing
    if (matrix != nullptr) {
      const std::uint64_t first = use.place * step_.adapted[i].size();
      row[0] = static_cast<std::int32_t>(first);
      row[1] = static_cast<std::int32_t>(first + matrix->a.size());
      row[2] = static_cast<std::int32_t>(matrix->rank);
      row[3] = std::bit_cast<std::int32_t>(static_cast<float>(use.scale * use.adapter->adapter().scale(*matrix)));
    }
    program.write(step_.adapter_table, (step_.adapted[i].table_first + sequence) * sizeof row, std::as_bytes(std::span(row)));
  }
}

}  // namespace quern::runtime
