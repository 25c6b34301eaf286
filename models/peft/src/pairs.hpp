// The halves of an adapter's matrices, as they come from a file, to whole pairs.
#pragma once

#include "lists.hpp"

#include "quern/models/peft.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace quern::peft {

enum class Half : std::uint8_t { a, b };

struct Place {
  std::uint32_t layer;
  Target target;
  Half half;
};

/// "12." off the front: the number of a layer, without zeros in front. Nothing, and the text as it was, for anything else.
std::optional<std::uint32_t> take_layer(std::string_view& text);

class Pairs {
 public:
  /// `file` begins the texts of errors.
  explicit Pairs(std::string file) : file_(std::move(file)) {}

  /// A tensor whose name means no matrix.
  void add_unknown(std::string_view name) { unknown_.add(name); }
  /// A half of `rows` times `columns` numbers. `read` is called in take(), once everything else of the file is known to be right. Throws
  /// Error(QUERN_BAD_MODEL) for a half that is there already and for a size of 0.
  void add(Place place, const std::string& name, std::uint64_t rows, std::uint64_t columns, std::function<std::vector<float>()> read);
  /// The matrices, by layer and target. Throws Error(QUERN_BAD_MODEL) that names the tensors without a matrix and the halves that are alone;
  /// for ranks that differ, numbers that are not finite, and a file without any matrix.
  std::vector<AdapterMatrix> take();

 private:
  struct Part {
    std::string name;
    std::int64_t rows = 0, columns = 0;
    std::function<std::vector<float>()> read;
  };
  struct Pair {
    Part a, b;
  };

  std::string file_;
  std::map<std::pair<std::uint32_t, Target>, Pair> pairs_;
  NameList unknown_;
};

}  // namespace quern::peft
