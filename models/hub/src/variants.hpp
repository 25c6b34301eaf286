// Which of a repository's files are models, and which one a user means. Pure: paths in, groups out.
#pragma once

#include "model_name.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace quern::hub {

/// One GGUF model: a file, or all parts of a split one.
struct Variant {
  std::string quantisation;        // "Q4_K_M" by its file name; empty if that says none
  std::vector<std::size_t> files;  // indices of the given paths, in the order of the parts
  std::string first;               // path of the first one
};

/// The models among the paths, by name. A split model with a missing part, projectors and importance matrices are none.
std::vector<Variant> variants_of(const std::vector<std::string>& paths);

/// What the selector means: a path, or a quantisation in any case. Without one: the only model, or else Q4_K_M. Throws
/// Error(QUERN_NOT_FOUND) or, where several are meant, Error(QUERN_UNSUPPORTED); the texts list what there is.
const Variant& choose_variant(const std::vector<Variant>& variants, const ModelName& name);

/// "Q4_K_M", or the file's path where several of the variants have that quantisation or it has none.
std::string selector_of(const std::vector<Variant>& variants, const Variant& variant);

/// "UD-Q4_K_XL" of "model-UD-Q4_K_XL-00001-of-00002.gguf".
std::string quantisation_of(std::string_view path);

/// The number and the count in "-00001-of-00002.gguf"; both 1 for another ending.
struct Part {
  std::uint32_t number = 1, count = 1;
  std::string_view stem;  // what is in front
};
Part part_of(std::string_view path);

}  // namespace quern::hub
