// See importance.hpp.
#include "quern/models/importance.hpp"

#include "importance_dat.hpp"

#include "quern/base/files.hpp"
#include "quern/graph/file_error.hpp"
#include "quern/models/floats.hpp"
#include "quern/models/gguf_writer.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <string_view>

namespace quern::quantize {
namespace {

constexpr std::string_view sums_end = ".in_sum2", counts_end = ".counts";

bool fits_f32(double number) noexcept { return number <= std::numeric_limits<float>::max(); }

/// Of each matrix of a weight: sums, counts and means are f32 in files and encoders.
void require_f32(const std::string& path, const std::string& name, const ImportanceEntry& entry) {
  const std::size_t columns = entry.sums.size() / entry.counts.size();
  for (std::size_t i = 0; i < entry.sums.size(); ++i) {
    const double count = entry.counts[i / columns];
    if (!fits_f32(entry.sums[i]) || !fits_f32(count) || (count > 0 && !fits_f32(entry.sums[i] / count)))
      throw Error(QUERN_BAD_MODEL,
                  concat(path, ": has the sum ", entry.sums[i], " over ", count, " tokens for '", name, "'; sums and means must fit f32"));
  }
}

std::vector<double> numbers_of(const gguf::File& file, const gguf::TensorInfo& tensor) {
  if (tensor.dtype != QUERN_F32) throw file.bad_tensor(tensor.name, "is not f32, which the numbers of an importance matrix are");
  const gguf::TensorBytes read = file.read(tensor);
  const std::vector<float> floats = models::decode_floats(QUERN_F32, read.bytes());
  for (const float x : floats)
    if (!std::isfinite(x) || x < 0)
      throw file.bad_tensor(tensor.name, concat("has ", x, "; sums of squares and counts are finite and not negative"));
  return {floats.begin(), floats.end()};
}

Importance of_gguf(const gguf::File& file) {
  if (file.find_string("general.type").value_or("model") != "imatrix")
    throw Error(QUERN_BAD_MODEL, concat(file.name(), ": general.type is '", file.find_string("general.type").value_or("model"),
                                        "' and not 'imatrix'; write an importance matrix with quern imatrix"));
  Importance made;
  for (const gguf::TensorInfo& tensor : file.tensors()) {
    const std::string_view name = tensor.name;
    if (!name.ends_with(sums_end)) continue;
    const std::string weight(name.substr(0, name.size() - sums_end.size()));
    ImportanceEntry& entry = made.entries[weight];
    entry.sums = numbers_of(file, tensor);
    const gguf::TensorInfo& counts = file.require_tensor(weight + std::string(counts_end));
    entry.counts = numbers_of(file, counts);
    if (entry.counts.empty() || tensor.elements() != tensor.dims[0] * entry.counts.size())
      throw file.bad_tensor(counts.name,
                            concat("has ", entry.counts.size(), " counts for ", tensor.elements() / tensor.dims[0], " matrices"));
  }
  if (made.entries.empty()) throw Error(QUERN_BAD_MODEL, concat(file.name(), ": has no tensor whose name ends in ", sums_end));
  const auto small = [&](std::string_view key) {
    const std::uint64_t number = file.find_u64(key).value_or(0);
    if (number > UINT32_MAX) throw file.bad_key(key, concat("is ", number, ", above 4294967295"));
    return static_cast<std::uint32_t>(number);
  };
  made.chunks = small("imatrix.chunk_count");
  made.chunk_tokens = small("imatrix.chunk_size");
  if (const auto datasets = file.find_strings("imatrix.datasets"))
    for (const std::string_view one : *datasets) made.datasets.emplace_back(one);
  return made;
}

}  // namespace

Importance Importance::read(const std::string& path) {
  std::string head;
  check_read(base::read_head(path, head, 4));
  Importance made = head == "GGUF" ? of_gguf(gguf::File::open(path)) : importance_of_dat(path);
  for (const auto& [name, entry] : made.entries) require_f32(path, name, entry);
  made.path = path;
  return made;
}

void Importance::write(const std::string& path) const {
  gguf::Writer writer;
  writer.string("general.type", "imatrix");
  writer.strings("imatrix.datasets", datasets);
  writer.u32("imatrix.chunk_count", chunks);
  writer.u32("imatrix.chunk_size", chunk_tokens);
  for (const auto& [name, entry] : entries) {
    writer.tensor(name + std::string(sums_end), {entry.sums.size() / entry.counts.size(), entry.counts.size()}, QUERN_F32);
    writer.tensor(name + std::string(counts_end), {1, entry.counts.size()}, QUERN_F32);
  }
  writer.begin(path);
  const auto append = [&](const std::vector<double>& numbers) {
    writer.append(models::encode_floats(QUERN_F32, std::vector<float>(numbers.begin(), numbers.end())));
  };
  for (const auto& [name, entry] : entries) {
    append(entry.sums);
    append(entry.counts);
  }
  writer.commit();
}

void Importance::add(const Importance& other) {
  for (const auto& [name, more] : other.entries) {
    const auto [place, fresh] = entries.emplace(name, more);
    if (fresh) continue;
    ImportanceEntry& entry = place->second;
    if (entry.sums.size() != more.sums.size() || entry.counts.size() != more.counts.size())
      throw Error(QUERN_BAD_MODEL, concat(other.path, ": has ", more.sums.size(), " sums in ", more.counts.size(), " matrices of '", name,
                                          "', and there are ", entry.sums.size(), " in ", entry.counts.size(), "; it is of another model"));
    const auto plus = [](std::vector<double>& to, const std::vector<double>& from) {
      std::ranges::transform(to, from, to.begin(), std::plus<>());
    };
    plus(entry.sums, more.sums);
    plus(entry.counts, more.counts);
    require_f32(other.path, name, entry);
  }
  for (const std::string& one : other.datasets)
    if (std::ranges::find(datasets, one) == datasets.end()) datasets.push_back(one);
  chunks += other.chunks;
  if (chunk_tokens == 0) chunk_tokens = other.chunk_tokens;
}

std::vector<float> Importance::weights(const std::string& tensor, std::uint64_t columns, std::uint64_t matrices) const {
  const auto found = entries.find(tensor);
  if (found == entries.end()) return {};
  const auto& [sums, counts] = found->second;
  if (sums.size() != columns * matrices || (counts.size() != 1 && counts.size() != matrices))
    throw Error(QUERN_BAD_MODEL, concat(path, ": has ", sums.size(), " sums in ", counts.size(), " matrices of '", tensor,
                                        "', and the model has ", columns, " columns in ", matrices, "; it is of another model"));
  std::vector<float> means(sums.size());
  for (std::size_t i = 0; i < means.size(); ++i) {
    const double count = counts[counts.size() == 1 ? 0 : i / columns];
    means[i] = count > 0 ? static_cast<float>(sums[i] / count) : 1;
  }
  return means;
}

}  // namespace quern::quantize
