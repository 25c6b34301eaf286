#include "lists.hpp"

#include "quern/base/terminal_text.hpp"

#include <algorithm>
#include <cmath>
#include <tuple>

namespace quern::peft {
namespace {

constexpr std::size_t most_names = 4;

auto order_of(const AdapterMatrix& matrix) { return std::tuple(matrix.layer, matrix.target); }

/// Whether `numbers` are rows * columns, of which neither is 0 or negative.
bool has_size(const std::vector<float>& numbers, std::int64_t rows, std::int64_t columns) noexcept {
  if (rows <= 0 || columns <= 0 || numbers.empty()) return false;
  const auto size = static_cast<std::int64_t>(numbers.size());
  return size % rows == 0 && size / rows == columns;
}

}  // namespace

void NameList::add(std::string_view name) {
  if (count_++ >= most_names) return;
  if (!names_.empty()) names_ += ", ";
  names_ += printable_start(name, 120);
}

std::string NameList::text() const { return count_ <= most_names ? names_ : concat(names_, " and ", count_ - most_names, " more"); }

bool is_whole(const AdapterMatrix& matrix) noexcept {
  return has_size(matrix.a, matrix.rank, matrix.inputs) && has_size(matrix.b, matrix.outputs, matrix.rank);
}

void refuse_lists(std::string_view what, const NameList& without_a_matrix, const NameList& not_whole) {
  if (without_a_matrix.empty() && not_whole.empty()) return;
  const auto part = [](std::string_view label, const NameList& list) { return concat(label, list.empty() ? "none" : list.text()); };
  throw Error(QUERN_BAD_MODEL,
              concat(what, "; ", part("without a matrix: ", without_a_matrix), "; ", part("not a whole pair: ", not_whole)));
}

void check_writable(const Adapter& adapter) {
  const auto refused = [](std::string_view text) { return Error(QUERN_INVALID_ARGUMENT, concat("the adapter cannot be written: ", text)); };
  if (adapter.matrices.empty()) throw refused("it has no matrix");
  if (adapter.rank <= 0 || !std::isfinite(adapter.alpha) || adapter.alpha == 0)
    throw refused(concat("its rank is ", adapter.rank, " and its alpha ", adapter.alpha, "; both have to be other than 0"));
  const AdapterMatrix* before = nullptr;
  for (const AdapterMatrix& matrix : adapter.matrices) {
    if (!is_whole(matrix)) throw refused(concat(matrix.name(), " does not have the numbers of its rank and sizes"));
    if (matrix.alpha && (!std::isfinite(*matrix.alpha) || *matrix.alpha == 0))
      throw refused(concat(matrix.name(), " has an alpha of ", *matrix.alpha));
    if (before != nullptr && order_of(*before) >= order_of(matrix))
      throw refused(concat(matrix.name(), " is there twice, or not in its place"));
    before = &matrix;
  }
}

void check_finite(const AdapterMatrix& matrix, std::string_view where) {
  for (const std::vector<float>* numbers : {&matrix.a, &matrix.b})
    for (const float number : *numbers)
      if (!std::isfinite(number))
        throw Error(QUERN_BAD_MODEL, concat(where, ": ", numbers == &matrix.a ? "A" : "B", " of ", matrix.name(), " holds ", number,
                                            ", so the training has diverged or the file is damaged"));
}

void sort_matrices(Adapter& adapter) { std::ranges::sort(adapter.matrices, {}, order_of); }

}  // namespace quern::peft
