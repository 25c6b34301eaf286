#include "tensor_conversion.hpp"

#include "program.hpp"

#include "quern/base/terminal_text.hpp"
#include "quern/graph/ops.hpp"
#include "quern/models/floats.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace quern::runtime {
namespace {

std::vector<std::byte> encoded(const gguf::File& file, const gguf::TensorInfo& tensor, quern_dtype to, std::span<const float> numbers) {
  try {
    return models::encode_floats(to, numbers);
  } catch (const Error& error) { throw Error(error.code(), concat(file.name(), ": tensor ", in_quotes(tensor.name), ": ", error.what())); }
}

void convert_numbers(const gguf::File& file, const gguf::TensorInfo& tensor, std::span<const std::byte> bytes, quern_dtype to,
                     const TakeBytes& take, std::uint64_t piece) {
  const std::size_t most = piece * models::float_bytes(tensor.dtype);
  for (; !bytes.empty(); bytes = bytes.subspan(std::min(most, bytes.size())))
    take(encoded(file, tensor, to, models::decode_floats(tensor.dtype, bytes.first(std::min(most, bytes.size())))));
}

/// Decodes so many rows at a time, by one program.
class RowDecoder {
 public:
  RowDecoder(const std::vector<std::shared_ptr<MemoryBudget>>& devices, quern_dtype dtype, std::uint64_t rows, std::uint64_t columns)
      : numbers_(rows * columns), program_(graph_of(dtype, rows, columns), devices, Fallback::automatic, "") {
    program_.prepare();
  }
  std::span<const float> decode(std::span<const std::byte> rows) {
    program_.write(from_, 0, rows);
    program_.run({});
    program_.read(to_, 0, std::as_writable_bytes(std::span(numbers_)));
    return numbers_;
  }

 private:
  graph::Graph graph_of(quern_dtype dtype, std::uint64_t rows, std::uint64_t columns) {
    graph::Graph graph("decode");
    from_ = graph.input("rows", dtype, {static_cast<std::int64_t>(rows), static_cast<std::int64_t>(columns)});
    to_ = graph::ops::cast(graph, from_, QUERN_F32, {.name = "decode"});
    graph.mark_output(to_, "numbers");
    return graph;
  }

  graph::ValueId from_ = graph::no_value, to_ = graph::no_value;
  std::vector<float> numbers_;
  Program program_;
};

void convert_blocks(const std::vector<std::shared_ptr<MemoryBudget>>& devices, const gguf::File& file, const gguf::TensorInfo& tensor,
                    std::span<const std::byte> bytes, quern_dtype to, const TakeBytes& take, std::uint64_t piece) {
  const std::uint64_t columns = tensor.dims[0], rows = tensor.elements() / columns, row_bytes = tensor.bytes / rows;
  const std::uint64_t at_once = std::clamp<std::uint64_t>(piece / columns, 1, rows);
  const auto decode = [&](std::uint64_t first, std::uint64_t last, std::uint64_t count) {
    if (first == last) return;
    RowDecoder decoder(devices, tensor.dtype, count, columns);
    for (std::uint64_t row = first; row < last; row += count)
      take(encoded(file, tensor, to, decoder.decode(bytes.subspan(row * row_bytes, count * row_bytes))));
  };
  const std::uint64_t whole = rows / at_once * at_once;
  decode(0, whole, at_once);
  decode(whole, rows, rows - whole);
}

}  // namespace

void convert_tensor(const std::vector<std::shared_ptr<MemoryBudget>>& devices, const gguf::File& file, const gguf::TensorInfo& tensor,
                    quern_dtype to, const TakeBytes& take, std::uint64_t piece) {
  {
    const gguf::TensorBytes from = file.read(tensor);
    if (tensor.dtype == to) take(from.bytes());
    else if (models::float_bytes(tensor.dtype) != 0) convert_numbers(file, tensor, from.bytes(), to, take, piece);
    else convert_blocks(devices, file, tensor, from.bytes(), to, take, piece);
  }
  file.drop_pages(tensor);
}

bool holds_all(quern_dtype dtype, std::span<const float> numbers) {
  const auto too_large = [&](float number) { return dtype == QUERN_F16 && std::isfinite(number) && std::abs(number) > 65504; };
  if (std::ranges::any_of(numbers, too_large)) return false;
  const std::vector<float> stored = models::decode_floats(dtype, models::encode_floats(dtype, numbers));
  return std::memcmp(stored.data(), numbers.data(), numbers.size_bytes()) == 0;
}

}  // namespace quern::runtime
