#include "pairs.hpp"

#include "quern/base/terminal_text.hpp"

#include <charconv>

namespace quern::peft {

std::optional<std::uint32_t> take_layer(std::string_view& text) {
  std::uint32_t layer = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), layer);
  const auto digits = static_cast<std::size_t>(read.ptr - text.data());
  if (read.ec != std::errc() || digits == text.size() || text[digits] != '.' || (digits > 1 && text[0] == '0')) return std::nullopt;
  text.remove_prefix(digits + 1);
  return layer;
}

void Pairs::add(Place place, const std::string& name, std::uint64_t rows, std::uint64_t columns, std::function<std::vector<float>()> read) {
  const auto refused = [&](std::string_view text) {
    return Error(QUERN_BAD_MODEL, concat(file_, ": tensor ", in_quotes(name), ": ", text));
  };
  constexpr std::uint64_t most = std::uint64_t{1} << 31;  // sizes of a matrix; products of two do not wrap
  if (rows < 1 || columns < 1 || rows > most || columns > most)
    throw refused(concat("is ", rows, " times ", columns, ", which is no matrix"));
  Pair& pair = pairs_[{place.layer, place.target}];
  Part& part = place.half == Half::a ? pair.a : pair.b;
  if (part.rows != 0) throw refused(concat("is the same half of the same matrix as ", in_quotes(part.name)));
  part = {name, static_cast<std::int64_t>(rows), static_cast<std::int64_t>(columns), std::move(read)};
}

std::vector<AdapterMatrix> Pairs::take() {
  NameList alone;
  for (const auto& [place, pair] : pairs_) {
    if (pair.b.rows == 0) alone.add(pair.a.name);
    if (pair.a.rows == 0) alone.add(pair.b.name);
  }
  refuse_lists(concat(file_, ": not all of it applies"), unknown_, alone);
  if (pairs_.empty()) throw Error(QUERN_BAD_MODEL, concat(file_, ": has no tensor of an adapter"));
  std::vector<AdapterMatrix> matrices;
  for (auto& [place, pair] : pairs_) {
    if (pair.a.rows != pair.b.columns)
      throw Error(QUERN_BAD_MODEL, concat(file_, ": tensor ", in_quotes(pair.b.name), ": has a rank of ", pair.b.columns,
                                          ", but its other half has ", pair.a.rows));
    AdapterMatrix& matrix = matrices.emplace_back();
    matrix.layer = place.first;
    matrix.target = place.second;
    matrix.rank = pair.a.rows;
    matrix.inputs = pair.a.columns;
    matrix.outputs = pair.b.rows;
    matrix.a = pair.a.read();
    matrix.b = pair.b.read();
    check_finite(matrix, file_);
  }
  return matrices;
}

}  // namespace quern::peft
