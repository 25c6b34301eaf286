// Models that other parts put together from files of their own, and the bytes of every model's tensors.
#include "contents.hpp"
#include "ggml_types.hpp"

#include "quern/base/terminal_text.hpp"
#include "quern/models/gguf_writer.hpp"

#include <utility>

namespace quern::gguf {
namespace {

void require_inside(const std::vector<Shard>& shards, const std::string& name, const LyingPiece& piece) {
  const Shard& shard = shards.at(piece.shard);
  const std::uint64_t file_bytes = shard.mapping.bytes().size();
  if (piece.bytes > file_bytes || piece.offset > file_bytes - piece.bytes)
    throw Error(QUERN_BAD_MODEL, concat(shard.name, ": tensor ", in_quotes(name), ": ends behind the file's ", file_bytes,
                                        " bytes; the file has changed while it was opened"));
}

/// Fills in what follows from the rest, as the table of a GGUF file is read: sizes that cannot wrap, inside the file.
void complete(AssembledTensor& part, const std::vector<Shard>& shards) {
  TensorInfo& tensor = part.tensor;
  const Shard& shard = shards.at(tensor.shard);
  const auto refused = [&](std::string_view text) {
    return Error(QUERN_BAD_MODEL, concat(shard.name, ": tensor ", in_quotes(tensor.name), ": ", text));
  };
  if (tensor.name.empty() || tensor.name.size() > max_tensor_name)
    throw refused(concat("its name has ", tensor.name.size(), " bytes; 1 to ", max_tensor_name, " are read"));
  const GgmlType* const type = find_type_of(tensor.dtype);
  if (type == nullptr) throw refused(concat("is of type ", tensor.dtype, ", which no tensor has"));
  tensor.ggml_type = type->id;
  if (tensor.n_dims < 1 || tensor.n_dims > 4) throw refused(concat("has ", tensor.n_dims, " dimensions; it must be 1 to 4"));
  std::uint64_t elements = 1;
  for (const std::uint64_t dim : tensor.dims) {
    if (dim == 0 || dim > static_cast<std::uint64_t>(INT64_MAX) / 8 / elements)
      throw refused(concat("has a dimension of ", dim, "; its elements must be at least 1 and at most 2^60"));
    elements *= dim;
  }
  if (tensor.dims[0] % type->block_elements != 0)
    throw refused(concat("has rows of ", tensor.dims[0], ", no whole blocks of ", type->name));
  tensor.bytes = elements / type->block_elements * type->block_bytes;
  require_inside(shards, tensor.name, {tensor.shard, tensor.offset, part.lying_bytes});
  for (const LyingPiece& piece : part.further) require_inside(shards, tensor.name, piece);
  if (!part.change && part.lying_bytes != tensor.bytes)
    throw refused(concat("has ", part.lying_bytes, " bytes, but its type and shape take ", tensor.bytes));
}

}  // namespace

File File::assemble(Assembly parts) {
  auto contents = std::make_unique<Contents>();
  contents->name = std::move(parts.name);
  contents->made_keys = std::move(parts.keys);
  contents->notes = std::move(parts.notes);
  contents->entries = parse(contents->made_keys, contents->name).entries;
  for (std::string& path : parts.files) {
    Mapping mapping = Mapping::open(path);
    contents->file_bytes += mapping.bytes().size();
    contents->shards.push_back({std::move(path), std::move(mapping)});
  }
  if (parts.tensors.size() > max_tensors)
    throw Error(QUERN_BAD_MODEL, concat(contents->name, ": has ", parts.tensors.size(), " tensors; at most ", max_tensors, " are read"));
  for (AssembledTensor& part : parts.tensors) {
    complete(part, contents->shards);
    contents->tensors.push_back(std::move(part.tensor));
    contents->origins.push_back({part.lying_bytes, std::move(part.change), std::move(part.further)});
  }
  index_tensors(contents->shards, contents->tensors, contents->tensors_by_name);
  return File(std::move(contents));
}

const std::vector<Note>& File::notes() const noexcept { return contents_->notes; }

std::vector<std::span<const std::byte>> File::lying(const TensorInfo& tensor) const {
  const Contents::Origin* const origin = contents_->origin_of(tensor);
  std::vector<std::span<const std::byte>> pieces = {contents_->first_piece(tensor)};
  if (origin != nullptr)
    for (const LyingPiece& piece : origin->further)
      pieces.push_back(contents_->shards[piece.shard].mapping.bytes().subspan(piece.offset, piece.bytes));
  return pieces;
}

bool File::is_made(const TensorInfo& tensor) const noexcept {
  const Contents::Origin* const origin = contents_->origin_of(tensor);
  return origin != nullptr && origin->change;
}

TensorParts File::parts(const TensorInfo& tensor, LyingPieces lying, std::span<std::byte> made) const {
  if (!is_made(tensor) || made.size() != tensor.bytes)
    throw Error(QUERN_INTERNAL, concat(name(), ": tensor ", in_quotes(tensor.name), " is not made in ", made.size(), " bytes"));
  return contents_->origin_of(tensor)->change(lying, made);
}

TensorBytes File::read(const TensorInfo& tensor) const {
  if (!is_made(tensor)) return TensorBytes(contents_->first_piece(tensor));
  auto made = std::make_unique_for_overwrite<std::byte[]>(tensor.bytes);
  const std::vector<std::span<const std::byte>> pieces = lying(tensor);
  const TensorParts all = parts(tensor, pieces, {made.get(), tensor.bytes});
  for (std::uint64_t i = 0; i < all.count; ++i) all.make(i);
  return TensorBytes(std::move(made), tensor.bytes);
}

std::span<const std::byte> File::data(const TensorInfo& tensor) const {
  if (is_made(tensor))
    throw Error(QUERN_INTERNAL, concat(name(), ": tensor ", in_quotes(tensor.name), " does not lie in its file as it is read"));
  return contents_->first_piece(tensor);
}

}  // namespace quern::gguf
