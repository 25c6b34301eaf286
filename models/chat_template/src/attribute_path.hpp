// "a.b.0": the attribute argument of map, sort, selectattr and their kind.
#pragma once

#include "runtime.hpp"

#include <string_view>
#include <vector>

namespace quern::jinja {

class AttributePath {
 public:
  /// From a str of names and indices with dots between them, or an int. `runtime` must outlive the path.
  AttributePath(Runtime& runtime, const Value& attribute);

  /// The item at the end of the path. Where a step is undefined and `otherwise` is given, that stands for it.
  Value follow(const Value& item, const Value* otherwise = nullptr) const;

 private:
  Runtime* runtime_;  // not a reference: a vector of paths moves them
  Counted<Value> parts_;
};

/// One path for each part between commas.
Counted<AttributePath> attribute_paths(Runtime& runtime, std::string_view text);

}  // namespace quern::jinja
