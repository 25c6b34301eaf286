// What of an adapter would not apply, and the error that names it.
#pragma once

#include "quern/models/peft.hpp"

#include <cstddef>
#include <string>
#include <string_view>

namespace quern::peft {

/// Names for an error: the first few, and how many more there are.
class NameList {
 public:
  void add(std::string_view name);
  bool empty() const noexcept { return count_ == 0; }
  std::string text() const;

 private:
  std::string names_;
  std::size_t count_ = 0;
};

/// Whether A and B are there in full, with a rank above 0.
bool is_whole(const AdapterMatrix& matrix) noexcept;

/// Throws Error(QUERN_BAD_MODEL) that begins with `what` and has both lists, unless both are empty.
void refuse_lists(std::string_view what, const NameList& without_a_matrix, const NameList& not_whole);

/// Throws Error(QUERN_INVALID_ARGUMENT) unless the adapter can be written: whole matrices, sorted, each there once, with finite settings.
void check_writable(const Adapter& adapter);

/// Throws Error(QUERN_BAD_MODEL) for a number of the matrix that is not finite. `where` begins the text.
void check_finite(const AdapterMatrix& matrix, std::string_view where);

/// Sorts by layer and target.
void sort_matrices(Adapter& adapter);

}  // namespace quern::peft
