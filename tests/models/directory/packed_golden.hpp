// Weights that the packers' own programs packed, and the numbers that their decoders give (scripts/make_packed_goldens.py).
#pragma once

#include "refused_directory.hpp"

#include "quantised_modules.hpp"

#include "quern/models/encoding.hpp"
#include "quern/models/floats.hpp"

#include <cmath>
#include <functional>
#include <limits>

namespace quern::test {

inline std::vector<std::string> packed_goldens() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(test_data + "packed")) names.push_back(entry.path().filename());
  std::ranges::sort(names);
  return names;
}

/// The numbers of a weight as blocks, its columns in the order of the model.
inline std::vector<float> numbers_of(const directory::ModuleContext& context, const directory::QuantisedWeight& weight) {
  std::vector<std::vector<std::byte>> pieces = {context.read(*weight.first)};
  for (const directory::StoredTensor* piece : weight.further) pieces.push_back(context.read(*piece));
  const std::vector<std::span<const std::byte>> lying(pieces.begin(), pieces.end());
  const graph::BlockSize block = graph::block_size(weight.dtype);
  std::vector<std::byte> bytes(weight.rows * weight.columns / block.elements * block.bytes);
  const gguf::TensorParts parts = weight.change(lying, {bytes, weight.rows, 0});
  for (std::uint64_t part = 0; part < parts.count; ++part) parts.make(part);
  std::vector<float> numbers(weight.rows * weight.columns);
  quantize::decode(weight.dtype, bytes, numbers);
  if (weight.order.empty()) return numbers;
  std::vector<float> model(numbers.size());
  for (std::uint64_t i = 0; i < numbers.size(); ++i)
    model[i / weight.columns * weight.columns + weight.order[i % weight.columns]] = numbers[i];
  return model;
}

class PackedGolden {
 public:
  using Reader = std::function<directory::QuantisedWeight(const directory::ModuleContext&, const directory::QuantisedModule&)>;

  explicit PackedGolden(const std::string& name, models::ActOrder act_order = models::ActOrder::by_groups)
      : name_(name),
        folder_(test_data + "packed/" + name),
        config_(*directory::JsonFile::find(folder_ + "/config.json")),
        quantisation_(directory::read_quantisation(folder_, config_)),
        shards_(directory::read_shards(folder_)),
        decoded_(shards_.readers[0].read_bytes(find("decoded").info)) {
    quantisation_.act_order = act_order;
  }

  directory::Method method() const { return quantisation_.method; }

  /// What `read` makes of the weight, against the packer's numbers: "" where they are equal, else the first that differ.
  std::string difference(const Reader& read) const {
    const directory::ModuleContext context{shards_, quantisation_};
    const directory::Modules modules = directory::find_modules(context);
    if (modules.all.size() != 1) return concat(modules.all.size(), " weights");
    const std::vector<float> found = numbers_of(context, read(context, modules.all[0]));
    const quern_dtype type = safetensors::float_type(find("decoded").info.dtype);
    // The packer computes the same product in its type, so ours is rounded to it.
    const std::vector<float> ours = models::decode_floats(type, models::encode_floats(type, found)),
                             theirs = models::decode_floats(type, decoded_);
    if (ours.size() != theirs.size()) return concat(ours.size(), " numbers for ", theirs.size());
    for (std::size_t i = 0; i < ours.size(); ++i)
      if (!(std::abs(ours[i] - theirs[i]) <= allowed() * std::abs(theirs[i])))
        return concat("number ", i, " is ", ours[i], ", and ", theirs[i], " by the packer");
    return "";
  }

  struct Shape {
    bool is_expanded = false, has_order = false, is_block = false;
  };
  Shape shape() const {
    const directory::ModuleContext context{shards_, quantisation_};
    const directory::QuantisedWeight weight = directory::quantised_weight(context, directory::find_modules(context).all.at(0));
    return {!weight.expanded.empty(), !weight.order.empty(), graph::is_block_format(weight.dtype)};
  }

 private:
  const directory::StoredTensor& find(const std::string& name) const {
    return *std::ranges::find(shards_.tensors, name, [](const directory::StoredTensor& tensor) { return tensor.info.name; });
  }
  /// 0: the same bits. bitsandbytes has two roundings where we have one: of nested scales within half an ulp each, of int8 in the products by
  /// SCB and by the rounded 1/127.
  float allowed() const {
    constexpr float ulp = std::numeric_limits<float>::epsilon();
    return name_ == "bnb-nf4-nested" ? ulp / 2 : name_ == "bnb-int8" ? 2 * ulp : 0;
  }

  std::string name_, folder_;
  directory::Config config_;
  directory::Quantisation quantisation_;
  directory::Shards shards_;
  std::vector<std::byte> decoded_;
};

}  // namespace quern::test
