// Drives the built libbackend_cpu.so through its C ABI: graphs from tensors, one call to run them.
#pragma once

#include "quern/quern_formats.h"
#include "quern/quern_ops.h"
#include "quern/quern_plugin_api.h"

#include <cstdint>
#include <map>
#include <memory>
#include <new>
#include <random>
#include <span>
#include <string>
#include <vector>

namespace quern::cpu_test {

/// 64-byte aligned bytes.
struct AlignedDelete {
  void operator()(std::byte* p) const noexcept { ::operator delete[](p, std::align_val_t{64}); }
};
struct Memory {
  explicit Memory(std::size_t size = 0);
  std::unique_ptr<std::byte[], AlignedDelete> data;
  std::size_t size;
};

/// A value of a graph with its memory.
struct Tensor {
  quern_dtype dtype = QUERN_F32;
  std::vector<std::int64_t> dims;
  std::uint32_t kind = QUERN_VALUE_INPUT;
  std::vector<std::int64_t> strides;   // bytes; empty: packed
  std::vector<std::uint32_t> symbols;  // 1 + index; empty: fixed
  std::uint32_t alias_of = QUERN_NONE;
  std::uint64_t alias_offset = 0;
  std::string layout;  // key of weights_plan; empty: canonical
  std::shared_ptr<Memory> memory;

  std::int64_t elements() const;
  std::size_t bytes() const;
  std::vector<float> floats() const;  // of a packed f32, f16 or bf16 tensor
  std::span<std::int32_t> integers() const;
  std::span<float> f32() const;
  std::span<std::uint8_t> raw() const;
};

Tensor make(quern_dtype dtype, std::vector<std::int64_t> dims, std::uint32_t kind = QUERN_VALUE_INPUT);
/// Packed tensor with these numbers, rounded to a float dtype or encoded by the plugin's formats via random blocks (see random_tensor).
Tensor of(std::vector<std::int64_t> dims, const std::vector<float>& values, quern_dtype dtype = QUERN_F32,
          std::uint32_t kind = QUERN_VALUE_INPUT);
Tensor ints(std::vector<std::int64_t> dims, const std::vector<std::int32_t>& values);
/// Normal numbers for floats; for block formats, random codes with scales of a usual size.
Tensor random_tensor(quern_dtype dtype, std::vector<std::int64_t> dims, std::uint32_t seed, double size = 1.0);
/// What a packed tensor of any dtype means, in f64, by quern_formats.h.
std::vector<double> meaning(const Tensor& tensor);
const quern_format* format_of(quern_dtype dtype);
/// Element i of a block, in f64, read by the descriptor.
double decode_element(const quern_format& format, const std::uint8_t* block, std::uint32_t i);

struct Attribute {
  std::uint32_t key;
  double value;
};

struct NodeSpec {
  std::uint32_t op;
  std::vector<std::uint32_t> inputs, outputs;  // value ids
  std::vector<Attribute> attributes = {};
  std::uint32_t predicate = QUERN_NONE;
  std::uint32_t conversions = QUERN_CONVERT_NONE;
  const quern_graph* body = nullptr;  // of a composite; its owner keeps it
};

/// A quern_graph over tensors, with the arrays that it points to.
class GraphSpec {
 public:
  std::vector<Tensor> values;
  std::vector<NodeSpec> nodes;
  std::vector<quern_symbol> symbols;

  std::uint32_t add(Tensor tensor);
  /// Valid until the next call or change.
  const quern_graph* build();
  std::vector<quern_value>& raw_values() { return values_; }
  std::vector<quern_node>& raw_nodes() { return nodes_; }

 private:
  std::vector<quern_value> values_;
  std::vector<quern_node> nodes_;
  std::vector<std::vector<quern_attribute>> attributes_;
  std::vector<quern_graph> bodies_;
  quern_graph graph_{};
};

struct Outcome {
  quern_status status = QUERN_OK;  // of the call that failed, or of the run
  std::string text;
  std::uint64_t faults = 0;
  std::uint32_t node = QUERN_NONE;
};

class Plugin {
 public:
  explicit Plugin(std::uint32_t threads = 1, std::map<std::string, std::string> options = {});
  ~Plugin();
  Plugin(const Plugin&) = delete;
  Plugin& operator=(const Plugin&) = delete;

  const quern_plugin_api& api() const { return api_; }
  quern_plugin* handle() const { return plugin_; }
  quern_device* device() const { return device_; }
  /// Why create() failed; empty if it did not.
  const Outcome& created() const { return created_; }
  bool has(const std::string& isa) const;  // "avx512" among the device's features

  bool fuse = false;  // of the compile options: one kernel may compute several nodes
  Outcome compile(GraphSpec& graph, quern_plan** plan, const std::string& force = {});
  /// Compiles, prepares and runs once. `bounds`: the run's symbol values.
  Outcome run(GraphSpec& graph, const std::vector<std::int64_t>& bounds = {}, std::string* kernel = nullptr);

 private:
  std::map<std::string, std::string> options_;
  quern_host host_{};
  quern_plugin_api api_{};
  quern_plugin* plugin_ = nullptr;
  quern_device* device_ = nullptr;
  Outcome created_;
  std::string architecture_;
};

/// A prepared instance with its scratch.
class Prepared {
 public:
  Prepared(Plugin& plugin, GraphSpec& graph, const std::vector<std::int64_t>& instance_bounds = {});
  ~Prepared();
  Prepared(const Prepared&) = delete;
  Prepared& operator=(const Prepared&) = delete;
  Outcome outcome;  // of compile, instance and prepare
  quern_plan* plan = nullptr;
  quern_instance* instance = nullptr;
  quern_instance_info info{};
  Outcome submit(const std::vector<quern_bound>& bounds = {}, const std::vector<quern_patch>& patches = {});

 private:
  Plugin& plugin_;
  Memory scratch_;
};

/// An absent optional input or output for run_node.
Tensor absent();
/// Runs one node whose tensors are given in order; outputs are made by the caller.
Outcome run_node(Plugin& plugin, std::uint32_t op, const std::vector<Tensor>& inputs, const std::vector<Tensor>& outputs,
                 const std::vector<Attribute>& attributes = {}, std::string* kernel = nullptr, const Tensor& predicate = absent());

/// Families that this processor runs: portable and, where they are there, avx2, avx512 and amx.
std::vector<std::string> families();
/// Families that pack: all but portable, which has no kernels of int8.
std::vector<std::string> packing_families();
/// Packs the constants of a graph that the plugin plans to pack.
void pack_constants(Plugin& plugin, GraphSpec& graph);
/// The family of the kernels that compute from weights which are not packed, where `family` is forced: tiles are for packed ones alone.
std::string family_of_plain_weights(const std::string& family);

float to_float(std::uint16_t half);  // IEEE binary16
std::uint16_t to_half(float x);      // nearest even, by search over the neighbours in f64

}  // namespace quern::cpu_test
