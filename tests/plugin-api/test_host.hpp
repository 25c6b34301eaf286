// A host for tests of the raw ABI: counts what a plugin takes from it, and fills structs by hand.
#ifndef QUERN_TESTS_PLUGIN_API_TEST_HOST_HPP
#define QUERN_TESTS_PLUGIN_API_TEST_HOST_HPP

#include "quern/quern_plugin_api.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace quern_test {

template <class T>
T zeroed(std::uint32_t type) {
  T s = {};
  s.header.struct_size = sizeof(T);
  s.header.struct_type = type;
  return s;
}

/// quern_error with room for text.
struct Error {
  Error() : fields(zeroed<quern_error>(QUERN_TYPE_ERROR)) {
    fields.text = room.data();
    fields.text_capacity = room.size();
  }
  operator quern_error*() { return &fields; }
  std::string text() const { return std::string(room.data(), std::min<std::size_t>(fields.text_size, room.size())); }

  std::array<char, 512> room = {};
  quern_error fields;
};

/// Options, and how much memory is out.
struct Host {
  Host() : table(zeroed<quern_host>(QUERN_TYPE_HOST)) {
    table.context = this;
    table.log = [](void*, std::uint32_t, quern_string, quern_string) {};
    table.allocate = [](void* context, std::uint64_t bytes, std::uint64_t alignment, const char*) -> void* {
      auto& host = *static_cast<Host*>(context);
      if (host.refuse_memory) return nullptr;
      void* memory = std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
      host.live[memory] = bytes;
      ++host.allocations;
      return memory;
    };
    table.release = [](void* context, void* memory, std::uint64_t bytes, std::uint64_t) {
      auto& host = *static_cast<Host*>(context);
      const auto found = host.live.find(memory);
      if (found == host.live.end() || found->second != bytes) {
        ++host.bad_releases;
        return;
      }
      host.live.erase(found);
      std::free(memory);
    };
    table.option = [](void* context, const char* key, char* value, std::uint64_t capacity) -> std::uint64_t {
      const auto& known = static_cast<Host*>(context)->options;
      const auto found = known.find(key);
      if (found == known.end()) return UINT64_MAX;
      std::memcpy(value, found->second.data(), std::min<std::size_t>(capacity, found->second.size()));
      return found->second.size();
    };
    table.thread_count = 1;
  }

  quern_host table;
  std::map<std::string, std::string> options;
  std::map<void*, std::uint64_t> live;
  int allocations = 0;
  int bad_releases = 0;
  bool refuse_memory = false;
};

template <class T>
quern_array list(const std::vector<T>& v) {
  return {v.data(), v.size(), sizeof(T)};
}

/// Builds a quern_graph; keeps what it points to. Ids are positions.
class GraphBuilder {
 public:
  std::uint32_t value(std::uint32_t kind, std::vector<std::int64_t> dims, quern_dtype dtype = QUERN_F32) {
    quern_value v = zeroed<quern_value>(QUERN_TYPE_VALUE);
    v.kind = kind;
    v.dtype = dtype;
    v.rank = static_cast<std::uint32_t>(dims.size());
    for (std::size_t d = 0; d < dims.size(); ++d) v.dims[d] = dims[d];
    v.alias_of = QUERN_NONE;
    v.name = {"x", 1};
    values.push_back(v);
    return static_cast<std::uint32_t>(values.size() - 1);
  }
  /// Makes dimension d of a value ranged; returns the symbol's index.
  std::uint32_t range(std::uint32_t value, std::uint32_t d, std::int64_t min, std::uint32_t extent = QUERN_NONE) {
    symbols.push_back({{"tokens", 6}, min, values[value].dims[d], 1, extent, 0});
    use(value, d, static_cast<std::uint32_t>(symbols.size() - 1));
    return static_cast<std::uint32_t>(symbols.size() - 1);
  }
  void use(std::uint32_t value, std::uint32_t d, std::uint32_t symbol) {
    values[value].symbols[d] = symbol + 1;
    values[value].uses |= QUERN_VALUE_USES_SYMBOLS;
  }
  quern_node& node(std::uint32_t op, std::vector<std::uint32_t> inputs, std::vector<std::uint32_t> outputs,
                   std::vector<quern_attribute> attributes = {}) {
    ids_.push_back(std::make_unique<std::vector<std::uint32_t>>(std::move(inputs)));
    ids_.push_back(std::make_unique<std::vector<std::uint32_t>>(std::move(outputs)));
    attributes_.push_back(std::make_unique<std::vector<quern_attribute>>(std::move(attributes)));
    quern_node n = zeroed<quern_node>(QUERN_TYPE_NODE);
    n.op = op;
    n.op_revision = 1;
    n.inputs = list(*ids_[ids_.size() - 2]);
    n.outputs = list(*ids_.back());
    n.attributes = list(*attributes_.back());
    n.predicate = n.body = QUERN_NONE;
    n.accumulate = QUERN_F32;
    nodes.push_back(n);
    return nodes.back();
  }
  const quern_graph* get() {
    graph_ = zeroed<quern_graph>(QUERN_TYPE_GRAPH);
    graph_.values = list(values);
    graph_.nodes = list(nodes);
    graph_.symbols = list(symbols);
    return &graph_;
  }

  std::vector<quern_value> values;
  std::vector<quern_symbol> symbols;
  std::vector<quern_node> nodes;

 private:
  std::vector<std::unique_ptr<std::vector<std::uint32_t>>> ids_;
  std::vector<std::unique_ptr<std::vector<quern_attribute>>> attributes_;
  quern_graph graph_ = {};
};

inline quern_attribute real(std::uint32_t key, double f) { return {key, QUERN_ATTR_F64, 0, f}; }
inline quern_attribute integer(std::uint32_t key, std::int64_t i) { return {key, QUERN_ATTR_I64, i, 0}; }

}  // namespace quern_test

#endif
