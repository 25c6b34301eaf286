// Values, views and symbols of a graph, each checked when it is added.
#include "quern/graph/graph.hpp"

#include "checked.hpp"
#include "strides.hpp"

#include <sstream>

namespace quern::graph {
namespace {

template <typename... Parts>
[[noreturn]] void refuse(const Parts&... parts) {
  throw Error(QUERN_INVALID_ARGUMENT, concat(parts...));
}

}  // namespace

std::string to_string(const Shape& shape) {
  std::ostringstream out;
  out << '[';
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (i > 0) out << ", ";
    if (shape[i].symbol != 0) out << 's' << shape[i].symbol << "<=";
    out << shape[i].size;
  }
  out << ']';
  return out.str();
}

std::string Graph::describe(const Shape& shape) const {
  std::ostringstream out;
  out << '[';
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (i > 0) out << ", ";
    if (const SymbolId symbol = shape[i].symbol; symbol != 0) {
      if (symbol <= symbols_.size()) out << symbols_[symbol - 1].name << "<=";
      else out << 's' << symbol << "<=";
    }
    out << shape[i].size;
  }
  out << ']';
  return out.str();
}

std::string Graph::describe(ValueId id) const { return concat(dtype_name(value(id).dtype), " ", describe(value(id).shape)); }

std::vector<std::int64_t> Graph::strides(ValueId id) const {
  const Value& v = value(id);
  return v.strides.empty() ? contiguous_strides(v.dtype, v.shape) : v.strides;
}

ValueId Graph::root(ValueId id) const {
  const ValueId base = value(id).alias_of;
  return base == no_value ? id : base;
}

SymbolId Graph::add_symbol(Symbol symbol) {
  const auto what = [&] { return concat("symbol '", symbol.name, "' of graph '", name_, "'"); };
  if (symbol.min < 0 || symbol.max < symbol.min)
    refuse(what(), " ranges from ", symbol.min, " to ", symbol.max, "; it needs 0 <= min <= max");
  if (symbol.multiple_of < 1 || symbol.max % symbol.multiple_of != 0)
    refuse(what(), " has max ", symbol.max, " and multiple_of ", symbol.multiple_of, "; multiple_of must be at least 1 and divide max");
  if (symbol.extent != no_value) {
    if (symbol.extent >= values_.size()) refuse(what(), " has the extent value ", symbol.extent, ", which is not there");
    const Value& extent = values_[symbol.extent];
    if (extent.kind != QUERN_VALUE_STATE || extent.dtype != QUERN_I32 || extent.shape != Shape{1})
      refuse(what(), " has the extent '", extent.name, "', ", describe(symbol.extent), "; it must be i32 [1] of kind state");
  }
  symbols_.push_back(std::move(symbol));
  return static_cast<SymbolId>(symbols_.size());
}

void Graph::check_shape(const std::function<std::string()>& what, quern_dtype dtype, const Shape& shape) const {
  if (shape.size() > QUERN_MAX_DIMS)
    refuse(what(), " has ", shape.size(), " dimensions, ", describe(shape), "; at most ", QUERN_MAX_DIMS, " are possible");
  for (const Dim& dim : shape) {
    if (dim.symbol == 0) continue;
    if (dim.symbol > symbols_.size()) refuse(what(), " has the symbol ", dim.symbol, " but graph '", name_, "' has ", symbols_.size());
    const Symbol& symbol = symbols_[dim.symbol - 1];
    if (dim.size != symbol.max)
      refuse(what(), " has a dimension of ", dim.size, " under the symbol '", symbol.name, "', whose largest value is ", symbol.max);
  }
  try {
    byte_size(dtype, shape);
  } catch (const Error& error) { throw Error(error.code(), concat(what(), ": ", error.what())); }
}

ValueId Graph::add_value(Value value) {
  const auto what = [&] { return concat("value '", value.name, "' of graph '", name_, "'"); };
  if (value.kind > QUERN_VALUE_OUTPUT) refuse(what(), " is of kind ", value.kind, ", which is not known");
  check_shape(what, value.dtype, value.shape);
  if (value.alias_of != no_value) check_view(value);
  if (value.alias_of == no_value && value.alias_offset != 0) refuse(what(), " has an alias_offset but no alias_of");
  if (value.alias_of == no_value && !value.strides.empty()) refuse(what(), " has strides of its own; only a view of another value may");
  const std::vector<std::int64_t> contiguous = contiguous_strides(value.dtype, value.shape);
  for (std::size_t i = 0; i < value.strides.size(); ++i)
    if (value.shape[i].size <= 1 && i + 1 < value.strides.size()) value.strides[i] = contiguous[i];  // never used
  if (value.strides == contiguous) value.strides.clear();
  if (values_.size() >= QUERN_NONE) refuse("graph '", name_, "' is full");
  values_.push_back(std::move(value));
  written_.push_back(not_written);
  return static_cast<ValueId>(values_.size() - 1);
}

ValueId Graph::constant(std::string name, quern_dtype dtype, Shape shape) {
  return add_value({.name = std::move(name), .kind = QUERN_VALUE_CONSTANT, .dtype = dtype, .shape = std::move(shape)});
}

ValueId Graph::state(std::string name, quern_dtype dtype, Shape shape) {
  return add_value({.name = std::move(name), .kind = QUERN_VALUE_STATE, .dtype = dtype, .shape = std::move(shape)});
}

ValueId Graph::input(std::string name, quern_dtype dtype, Shape shape) {
  return add_value({.name = std::move(name), .kind = QUERN_VALUE_INPUT, .dtype = dtype, .shape = std::move(shape)});
}

void Graph::check_view(const Value& view) const {
  const auto what = [&] { return concat("view '", view.name, "' ", describe(view.shape)); };
  if (view.alias_of >= values_.size()) refuse(what(), " is of value ", view.alias_of, ", which is not there");
  const Value& base = values_[view.alias_of];
  const auto of = [&] { return concat("'", base.name, "' ", describe(view.alias_of)); };
  if (base.alias_of != no_value) refuse(what(), " is of ", of(), ", itself a view; name the value under it");
  if (view.kind != QUERN_VALUE_INTERNAL) refuse(what(), " must be of kind internal; its kind is that of ", of());
  if (view.dtype != base.dtype) refuse(what(), " has the dtype ", dtype_name(view.dtype), " but is of ", of());

  const BlockSize block = block_size(view.dtype);
  const std::vector<std::int64_t> strides = view.strides.empty() ? contiguous_strides(view.dtype, view.shape) : view.strides;
  if (strides.size() != view.shape.size()) refuse(what(), " has ", strides.size(), " strides");
  if (view.alias_offset % static_cast<std::uint64_t>(block.bytes) != 0)
    refuse(what(), " starts at byte ", view.alias_offset, " of ", of(), "; that must be a multiple of ", block.bytes);
  for (std::size_t i = 0; i < strides.size(); ++i)
    if (strides[i] < 0 || strides[i] % block.bytes != 0)
      refuse(what(), " has a stride of ", strides[i], " bytes; it must be a multiple of ", block.bytes, " and not negative");
  if (block.elements != 1 && !strides.empty() && strides.back() != block.bytes)
    refuse(what(), " has a last stride of ", strides.back(), " bytes; blocks of ", dtype_name(view.dtype), " must lie one after another");

  const std::uint64_t bytes = byte_size(base.dtype, base.shape);
  const std::optional<std::uint64_t> extent = extent_bytes(view.dtype, view.shape, strides);
  if (!extent || view.alias_offset > bytes || *extent > bytes - view.alias_offset)
    refuse(what(), " with offset ", view.alias_offset, " reaches beyond the ", bytes, " bytes of ", of());

  const std::vector<std::int64_t> base_strides = contiguous_strides(base.dtype, base.shape);
  for (std::size_t b = 0; b < base.shape.size(); ++b) {
    if (base.shape[b].symbol == 0) continue;
    bool kept = false;
    for (std::size_t v = 0; v < view.shape.size(); ++v)
      kept |= view.shape[v].symbol == base.shape[b].symbol && strides[v] == base_strides[b];
    if (!kept) refuse(what(), " does not keep dimension ", b, " of ", of(), ", which is ranged");
  }
}

ValueId Graph::view(ValueId of, Shape shape, std::vector<std::int64_t> strides, std::uint64_t offset) {
  if (of >= values_.size()) refuse("a view of value ", of, ", which is not in graph '", name_, "'");
  const Value& base = values_[of];
  std::uint64_t start = 0;
  if (__builtin_add_overflow(base.alias_offset, offset, &start))
    refuse("a view of '", base.name, "' at offset ", offset, ": the offset overflows");
  return add_value({.name = base.name,
                    .kind = QUERN_VALUE_INTERNAL,
                    .dtype = base.dtype,
                    .shape = std::move(shape),
                    .alias_of = root(of),
                    .alias_offset = start,
                    .strides = std::move(strides)});
}

ValueId Graph::reshape(ValueId of, Shape shape) {
  if (of >= values_.size()) refuse("a reshape of value ", of, ", which is not in graph '", name_, "'");
  const Value& base = values_[of];
  if (!base.strides.empty()) refuse("'", base.name, "' ", describe(of), " is not contiguous, so it cannot be seen as ", describe(shape));
  check_shape([&] { return concat("a reshape of '", base.name, "'"); }, base.dtype, shape);
  if (byte_size(base.dtype, shape) != byte_size(base.dtype, base.shape))
    refuse("'", base.name, "' is ", describe(of), ", which has not as many elements as ", describe(shape));
  return view(of, std::move(shape), {}, 0);
}

void Graph::set_layout(ValueId id, std::string layout) {
  if (id >= values_.size() || values_[id].kind != QUERN_VALUE_CONSTANT)
    throw Error(QUERN_INVALID_ARGUMENT, concat("value ", id, " is no constant of graph '", name_, "'; only constants are packed"));
  values_[id].layout = std::move(layout);
}

void Graph::mark_output(ValueId id, std::string name) {
  if (id >= values_.size()) refuse("value ", id, " is not in graph '", name_, "', so it cannot be an output");
  Value& value = values_[id];
  if (value.kind != QUERN_VALUE_INTERNAL || value.alias_of != no_value)
    refuse("'", value.name, "' cannot become the output '", name, "': only a value that a node makes can, not ",
           value.alias_of != no_value ? "a view" : "a constant, state or input");
  if (written_[id] == not_written) refuse("'", value.name, "' cannot become the output '", name, "': no node writes it");
  for (ValueId other = 0; other < values_.size(); ++other)
    if (other != id && written_[id] == in_full && written_[other] == in_full && root(other) == id)
      refuse("'", value.name, "' cannot become the output '", name, "': a node writes over it");
  value.kind = QUERN_VALUE_OUTPUT;
  value.name = std::move(name);
}

}  // namespace quern::graph
