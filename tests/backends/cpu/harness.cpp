// See harness.hpp.
#include "harness.hpp"

#include <dlfcn.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <stdexcept>

namespace quern::cpu_test {

Memory::Memory(std::size_t n) : data(static_cast<std::byte*>(::operator new[](n + 64, std::align_val_t{64}))), size(n) {
  std::memset(data.get(), 0xa5, n + 64);
}

namespace {

std::size_t unit_bytes(quern_dtype dtype) {
  if (const quern_format* f = format_of(dtype)) return f->block_bytes;
  return dtype == QUERN_I64 ? 8 : dtype == QUERN_U8 ? 1 : dtype == QUERN_F16 || dtype == QUERN_BF16 ? 2 : 4;
}
std::int64_t unit_elements(quern_dtype dtype) {
  const quern_format* f = format_of(dtype);
  return f == nullptr ? 1 : f->block_elements;
}

quern_plugin_query_fn query_function() {
  static const quern_plugin_query_fn query = [] {
    void* library = dlopen(QUERN_CPU_PLUGIN, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) throw std::runtime_error(dlerror());
    return reinterpret_cast<quern_plugin_query_fn>(dlsym(library, QUERN_PLUGIN_QUERY_NAME));
  }();
  return query;
}

struct ErrorText {
  char text[512] = {};
  quern_error error{};
  ErrorText() {
    error.header = {sizeof(error), QUERN_TYPE_ERROR, nullptr};
    error.text = text;
    error.text_capacity = sizeof(text);
  }
  Outcome outcome(quern_status status) const { return {status, status == QUERN_OK ? "" : text, 0, error.node}; }
};

}  // namespace

const quern_format* format_of(quern_dtype dtype) {
  for (const quern_format& f : quern_formats)
    if (f.id == dtype) return &f;
  return nullptr;
}

float to_float(std::uint16_t half) {
  const int sign = half >> 15, exponent = (half >> 10) & 31, mantissa = half & 1023;
  double value;
  if (exponent == 31) value = mantissa == 0 ? std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
  else if (exponent == 0) value = std::ldexp(mantissa, -24);
  else value = std::ldexp(1024 + mantissa, exponent - 25);
  return static_cast<float>(sign ? -value : value);
}

std::uint16_t to_half(float x) {
  const std::uint16_t sign = std::signbit(x) ? 0x8000 : 0;
  if (std::isnan(x)) return static_cast<std::uint16_t>(sign | 0x7e00);
  const double a = std::fabs(static_cast<double>(x));
  if (a >= 65520.0) return static_cast<std::uint16_t>(sign | 0x7c00);
  std::uint16_t low = 0, high = 0x7c00;  // low's value <= a < high's
  while (high - low > 1) {
    const auto middle = static_cast<std::uint16_t>((low + high) / 2);
    (static_cast<double>(to_float(middle)) <= a ? low : high) = middle;
  }
  const double below = a - static_cast<double>(to_float(low));
  const double above = (high == 0x7c00 ? 65536.0 : static_cast<double>(to_float(high))) - a;
  const bool up = above < below || (above == below && (low & 1) != 0);
  return static_cast<std::uint16_t>(sign | (up ? high : low));
}

namespace {

/// What a code stands for: a number of a table, an E4M3, or itself.
double code_number(const quern_format& format, double code) {
  const auto bits = static_cast<unsigned>(static_cast<int>(code)) & 255u;
  if (format.formula == QUERN_FORMULA_SUPER_TABLE)
    return static_cast<const float*>(static_cast<const quern_code_table*>(format.header.next)->values.data)[bits];
  if (format.id != QUERN_F8_128) return code;
  if ((bits & 0x7fu) == 0x7fu) return std::numeric_limits<double>::quiet_NaN();
  const int exponent = static_cast<int>(bits >> 3 & 15u), eighths = static_cast<int>(bits & 7u);
  const double size = exponent == 0 ? std::ldexp(eighths, -9) : std::ldexp(8 + eighths, exponent - 10);
  return (bits & 0x80u) != 0 ? -size : size;
}

}  // namespace

double decode_element(const quern_format& format, const std::uint8_t* block, std::uint32_t i) {
  const auto entry = [&](const quern_format_field& field, std::uint32_t e) -> double {
    std::uint64_t bits = 0;
    std::uint32_t width = 0;
    for (std::uint64_t p = 0; p < field.pieces.count; ++p) {
      const auto& piece = static_cast<const quern_format_piece*>(field.pieces.data)[p];
      if (e < piece.first || e >= piece.first + piece.count) continue;
      std::uint32_t rest = e - piece.first, at = piece.bit_offset;
      for (std::uint32_t d = piece.rank; d-- > 0;) {
        at += rest % piece.dims[d].size * piece.dims[d].stride;
        rest /= piece.dims[d].size;
      }
      std::uint64_t value = 0;
      for (std::uint32_t b = 0; b < piece.bits; ++b) value |= static_cast<std::uint64_t>((block[(at + b) / 8] >> ((at + b) % 8)) & 1) << b;
      bits += value << piece.shift;
      width = std::max(width, piece.bits + piece.shift);
    }
    if (field.stored == QUERN_STORED_F16) return static_cast<double>(to_float(static_cast<std::uint16_t>(bits)));
    if (field.stored == QUERN_STORED_F32) return static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
    auto value = static_cast<std::int64_t>(bits);
    if (field.stored == QUERN_STORED_INT && (bits >> (width - 1)) != 0) value -= std::int64_t{1} << width;
    return static_cast<double>(value - static_cast<std::int64_t>(field.bias));
  };
  const auto role = [&](std::uint32_t wanted, std::uint32_t e) {
    for (std::uint64_t f = 0; f < format.fields.count; ++f) {
      const auto& field = static_cast<const quern_format_field*>(format.fields.data)[f];
      if (field.role == wanted) return entry(field, e);
    }
    throw std::logic_error("no such field");
  };
  const double c = code_number(format, role(QUERN_ROLE_CODE, i)), d = role(QUERN_ROLE_SUPER_SCALE, 0);
  const std::uint32_t g = i / format.group_elements;
  switch (format.formula) {
    case QUERN_FORMULA_SYMMETRIC: return d * c;
    case QUERN_FORMULA_OFFSET: return d * c + role(QUERN_ROLE_SUPER_MIN, 0);
    case QUERN_FORMULA_SUPER_SYMMETRIC: return d * role(QUERN_ROLE_SCALE, g) * c;
    case QUERN_FORMULA_SUPER_TABLE: return d * c;
    case QUERN_FORMULA_SUPER_ZERO: return d * (c - role(QUERN_ROLE_ZERO, g));
    default: return d * role(QUERN_ROLE_SCALE, g) * c - role(QUERN_ROLE_SUPER_MIN, 0) * role(QUERN_ROLE_MIN, g);
  }
}

std::int64_t Tensor::elements() const {
  std::int64_t n = 1;
  for (const std::int64_t d : dims) n *= d;
  return n;
}
std::size_t Tensor::bytes() const { return static_cast<std::size_t>(elements() / unit_elements(dtype)) * unit_bytes(dtype); }
std::span<std::uint8_t> Tensor::raw() const { return {reinterpret_cast<std::uint8_t*>(memory->data.get()), memory->size}; }
std::span<float> Tensor::f32() const { return {reinterpret_cast<float*>(memory->data.get()), memory->size / 4}; }
std::span<std::int32_t> Tensor::integers() const { return {reinterpret_cast<std::int32_t*>(memory->data.get()), memory->size / 4}; }
std::vector<float> Tensor::floats() const {
  std::vector<float> out;
  for (const double x : meaning(*this)) out.push_back(static_cast<float>(x));
  return out;
}

Tensor make(quern_dtype dtype, std::vector<std::int64_t> dims, std::uint32_t kind) {
  Tensor t;
  t.dtype = dtype;
  t.dims = std::move(dims);
  t.kind = kind;
  t.memory = std::make_shared<Memory>(t.bytes());
  return t;
}

Tensor of(std::vector<std::int64_t> dims, const std::vector<float>& values, quern_dtype dtype, std::uint32_t kind) {
  Tensor t = make(dtype, std::move(dims), kind);
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (dtype == QUERN_F32) t.f32()[i] = values[i];
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(values[i]);
    const std::uint16_t half = dtype == QUERN_F16 ? to_half(values[i])
                                                  : static_cast<std::uint16_t>(bits >> 16);  // bf16 test data are exact or cut
    if (dtype != QUERN_F32) std::memcpy(t.raw().data() + 2 * i, &half, 2);
  }
  return t;
}

Tensor ints(std::vector<std::int64_t> dims, const std::vector<std::int32_t>& values) {
  Tensor t = make(QUERN_I32, std::move(dims));
  std::copy(values.begin(), values.end(), t.integers().begin());
  return t;
}

Tensor random_tensor(quern_dtype dtype, std::vector<std::int64_t> dims, std::uint32_t seed, double size) {
  std::mt19937 generator(seed);
  std::normal_distribution<double> normal(0.0, size);
  Tensor t = make(dtype, std::move(dims));
  const quern_format* format = format_of(dtype);
  if (format == nullptr) {
    std::vector<float> values;
    for (std::int64_t i = 0; i < t.elements(); ++i) values.push_back(static_cast<float>(normal(generator)));
    return of(t.dims, values, dtype);
  }
  for (std::uint8_t& b : t.raw().first(t.bytes())) {
    b = static_cast<std::uint8_t>(generator());
    if (dtype == QUERN_F8_128 && (b & 0x7f) == 0x7f) b ^= 1;  // no NaN
  }
  for (std::size_t at = 0; at < t.bytes(); at += format->block_bytes)
    for (std::uint64_t f = 0; f < format->fields.count; ++f) {
      const auto& field = static_cast<const quern_format_field*>(format->fields.data)[f];
      if (field.stored != QUERN_STORED_F16 && field.stored != QUERN_STORED_F32) continue;
      const auto& piece = *static_cast<const quern_format_piece*>(field.pieces.data);
      const std::uint16_t half = to_half(static_cast<float>(normal(generator) * (field.role == QUERN_ROLE_SUPER_SCALE ? 0.02 : 0.2)));
      const std::uint32_t whole = field.stored == QUERN_STORED_F16 ? half : std::bit_cast<std::uint32_t>(to_float(half)) >> piece.shift;
      std::memcpy(t.raw().data() + at + piece.bit_offset / 8, &whole, piece.bits / 8);
    }
  return t;
}

std::vector<double> meaning(const Tensor& t) {
  std::vector<double> out;
  const quern_format* format = format_of(t.dtype);
  for (std::int64_t i = 0; i < t.elements(); ++i) {
    const std::uint8_t* raw = t.raw().data();
    std::uint16_t half = 0;
    if (t.dtype == QUERN_F32) out.push_back(static_cast<double>(t.f32()[static_cast<std::size_t>(i)]));
    else if (t.dtype == QUERN_I32) out.push_back(t.integers()[static_cast<std::size_t>(i)]);
    else if (format != nullptr)
      out.push_back(decode_element(*format, raw + i / format->block_elements * format->block_bytes,
                                   static_cast<std::uint32_t>(i % format->block_elements)));
    else if (std::memcpy(&half, raw + 2 * i, 2); t.dtype == QUERN_F16) out.push_back(static_cast<double>(to_float(half)));
    else out.push_back(static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(half) << 16)));
  }
  return out;
}

std::uint32_t GraphSpec::add(Tensor tensor) {
  values.push_back(std::move(tensor));
  return static_cast<std::uint32_t>(values.size() - 1);
}

const quern_graph* GraphSpec::build() {
  values_.clear();
  nodes_.clear();
  bodies_.clear();
  attributes_.assign(nodes.size(), {});
  for (const Tensor& t : values) {
    quern_value v{};
    v.header = {sizeof(v), QUERN_TYPE_VALUE, nullptr};
    v.kind = t.kind;
    v.dtype = t.dtype;
    v.rank = static_cast<std::uint32_t>(t.dims.size());
    v.alias_of = t.alias_of;
    v.alias_offset = t.alias_offset;
    if (t.alias_of != QUERN_NONE) v.uses |= QUERN_VALUE_USES_ALIAS;
    v.layout = {t.layout.data(), t.layout.size()};
    if (!t.layout.empty()) v.uses |= QUERN_VALUE_USES_LAYOUT;
    std::copy(t.dims.begin(), t.dims.end(), v.dims);
    if (!t.strides.empty()) {
      v.uses |= QUERN_VALUE_USES_STRIDES;
      std::copy(t.strides.begin(), t.strides.end(), v.strides);
    }
    if (!t.symbols.empty()) {
      v.uses |= QUERN_VALUE_USES_SYMBOLS;
      std::copy(t.symbols.begin(), t.symbols.end(), v.symbols);
    }
    if (const quern_format* f = format_of(t.dtype)) {
      v.uses |= QUERN_VALUE_USES_FORMAT;
      v.format_hash = f->hash;
    }
    values_.push_back(v);
  }
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const NodeSpec& spec = nodes[i];
    for (const Attribute& a : spec.attributes) {
      quern_attribute attribute{a.key, QUERN_ATTR_F64, 0, a.value};
#define QUERN_KEY(id, NAME, name, type) \
  if (a.key == id && std::string_view(#type) == "I64") attribute = {a.key, QUERN_ATTR_I64, static_cast<std::int64_t>(a.value), 0.0};
#include "quern/keys.def"
#undef QUERN_KEY
      attributes_[i].push_back(attribute);
    }
    quern_node n{};
    n.header = {sizeof(n), QUERN_TYPE_NODE, nullptr};
    n.op = spec.op;
    n.op_revision = 1;
    n.inputs = {spec.inputs.data(), spec.inputs.size(), 4};
    n.outputs = {spec.outputs.data(), spec.outputs.size(), 4};
    n.attributes = {attributes_[i].data(), attributes_[i].size(), sizeof(quern_attribute)};
    n.predicate = spec.predicate;
    if (spec.predicate != QUERN_NONE) n.uses |= QUERN_NODE_USES_PREDICATE;
    n.accumulate = QUERN_F32;
    n.conversions = spec.conversions;
    if (spec.conversions != QUERN_CONVERT_NONE) n.uses |= QUERN_NODE_USES_PRECISION;
    if (spec.body != nullptr) {
      n.uses |= QUERN_NODE_USES_BODY;
      n.body = static_cast<std::uint32_t>(bodies_.size());
      bodies_.push_back(*spec.body);
    }
    nodes_.push_back(n);
  }
  graph_ = {};
  graph_.header = {sizeof(graph_), QUERN_TYPE_GRAPH, nullptr};
  graph_.values = {values_.data(), values_.size(), sizeof(quern_value)};
  graph_.nodes = {nodes_.data(), nodes_.size(), sizeof(quern_node)};
  graph_.symbols = {symbols.data(), symbols.size(), sizeof(quern_symbol)};
  graph_.bodies = {bodies_.data(), bodies_.size(), sizeof(quern_graph)};
  return &graph_;
}

Plugin::Plugin(std::uint32_t threads, std::map<std::string, std::string> options) : options_(std::move(options)) {
  quern_query query{};
  query.header = {sizeof(query), QUERN_TYPE_QUERY, nullptr};
  api_.header = {sizeof(api_), QUERN_TYPE_PLUGIN_API, nullptr};
  ErrorText error;
  if (query_function()(&query, &api_, &error.error) != QUERN_OK) throw std::runtime_error(error.text);
  host_.header = {sizeof(host_), QUERN_TYPE_HOST, nullptr};
  host_.context = &options_;
  host_.option = [](void* context, const char* key, char* value, std::uint64_t capacity) -> std::uint64_t {
    const auto& all = *static_cast<std::map<std::string, std::string>*>(context);
    const auto at = all.find(key);
    if (at == all.end()) return UINT64_MAX;
    std::memcpy(value, at->second.data(), std::min<std::size_t>(capacity, at->second.size()));
    return at->second.size();
  };
  host_.thread_count = threads;
  created_ = error.outcome(api_.create(&host_, &plugin_, &error.error));
  if (created_.status != QUERN_OK) return;
  quern_device_info info{};
  info.header = {sizeof(info), QUERN_TYPE_DEVICE_INFO, nullptr};
  api_.device_info(plugin_, 0, &info, nullptr);
  architecture_.assign(info.architecture.data, info.architecture.size);
  api_.device_open(plugin_, 0, &device_, nullptr);
}

Plugin::~Plugin() {
  if (device_ != nullptr) api_.device_close(device_, nullptr);
  if (plugin_ != nullptr) api_.destroy(plugin_);
}

bool Plugin::has(const std::string& isa) const {
  return isa == "portable" || (architecture_ + " ").find(" " + isa + " ") != std::string::npos;
}

Outcome Plugin::compile(GraphSpec& graph, quern_plan** plan, const std::string& force) {
  quern_compile_options options{};
  options.header = {sizeof(options), QUERN_TYPE_COMPILE_OPTIONS, nullptr};
  options.effort = 1;
  options.fusion = fuse ? 1 : 0;
  options.force_kernel = {force.data(), force.size()};
  ErrorText error;
  return error.outcome(api_.compile(device_, graph.build(), &options, plan, &error.error));
}

Prepared::Prepared(Plugin& plugin, GraphSpec& graph, const std::vector<std::int64_t>& instance_bounds) : plugin_(plugin), scratch_(0) {
  outcome = plugin.compile(graph, &plan);
  if (outcome.status != QUERN_OK) return;
  std::vector<quern_bound> bounds;
  for (std::size_t i = 0; i < instance_bounds.size(); ++i) bounds.push_back({static_cast<std::uint32_t>(i), 0, instance_bounds[i]});
  quern_instance_options options{};
  options.header = {sizeof(options), QUERN_TYPE_INSTANCE_OPTIONS, nullptr};
  options.bounds = {bounds.data(), bounds.size(), sizeof(quern_bound)};
  info.header = {sizeof(info), QUERN_TYPE_INSTANCE_INFO, nullptr};
  ErrorText error;
  outcome = error.outcome(plugin.api().instance_create(plan, &options, &instance, &info, &error.error));
  if (outcome.status != QUERN_OK) return;
  scratch_ = Memory(info.scratch_bytes);
  std::vector<quern_span> spans(graph.values.size());
  std::vector<quern_binding> bindings;
  for (std::uint32_t id = 0; id < graph.values.size(); ++id) {
    const Tensor& t = graph.values[id];
    if (t.kind == QUERN_VALUE_INTERNAL || t.alias_of != QUERN_NONE) continue;
    spans[id] = {nullptr, t.memory->data.get(), 0, t.memory->size};
    bindings.push_back({{sizeof(quern_binding), QUERN_TYPE_BINDING, nullptr}, id, 0, {&spans[id], 1, sizeof(quern_span)}});
  }
  quern_prepare_entry entry{};
  entry.header = {sizeof(entry), QUERN_TYPE_PREPARE_ENTRY, nullptr};
  entry.instance = instance;
  entry.bindings = {bindings.data(), bindings.size(), sizeof(quern_binding)};
  entry.scratch = {nullptr, scratch_.data.get(), 0, scratch_.size};
  const quern_array entries = {&entry, 1, sizeof(entry)};
  outcome = error.outcome(plugin.api().prepare(plugin.device(), nullptr, &entries, nullptr, &error.error));
}

Prepared::~Prepared() {
  if (instance != nullptr) plugin_.api().instance_destroy(instance, nullptr);
  if (plan != nullptr) plugin_.api().plan_destroy(plan, nullptr);
}

Outcome Prepared::submit(const std::vector<quern_bound>& bounds, const std::vector<quern_patch>& patches) {
  quern_run_status status{};
  status.header = {sizeof(status), QUERN_TYPE_RUN_STATUS, nullptr};
  quern_run run{};
  run.header = {sizeof(run), QUERN_TYPE_RUN, nullptr};
  run.instance = instance;
  run.bounds = {bounds.data(), bounds.size(), sizeof(quern_bound)};
  run.patches = {patches.data(), patches.size(), sizeof(quern_patch)};
  run.status = &status;
  const quern_array runs = {&run, 1, sizeof(run)};
  ErrorText error;
  const quern_status code = plugin_.api().submit(plugin_.device(), nullptr, &runs, &error.error);
  if (code != QUERN_OK) return error.outcome(code);
  return {status.code, "", status.faults, status.node};
}

Outcome Plugin::run(GraphSpec& graph, const std::vector<std::int64_t>& bounds, std::string* kernel) {
  Prepared prepared(*this, graph);
  if (prepared.outcome.status != QUERN_OK) return prepared.outcome;
  if (kernel != nullptr) {
    quern_plan_info info{};
    info.header = {sizeof(info), QUERN_TYPE_PLAN_INFO, nullptr};
    api_.plan_info(prepared.plan, &info, nullptr);
    const auto& first = *static_cast<const quern_kernel_info*>(info.kernels.data);
    kernel->assign(first.name.data, first.name.size);
  }
  std::vector<quern_bound> run_bounds;
  for (std::size_t i = 0; i < bounds.size(); ++i) run_bounds.push_back({static_cast<std::uint32_t>(i), 0, bounds[i]});
  return prepared.submit(run_bounds);
}

Tensor absent() {
  Tensor t;
  t.dtype = QUERN_DTYPE_NONE;
  return t;
}

Outcome run_node(Plugin& plugin, std::uint32_t op, const std::vector<Tensor>& inputs, const std::vector<Tensor>& outputs,
                 const std::vector<Attribute>& attributes, std::string* kernel, const Tensor& predicate) {
  GraphSpec graph;
  NodeSpec node{op, {}, {}, attributes};
  for (const Tensor& t : inputs) node.inputs.push_back(t.dtype == QUERN_DTYPE_NONE ? QUERN_NONE : graph.add(t));
  if (predicate.dtype != QUERN_DTYPE_NONE) node.predicate = graph.add(predicate);
  for (const Tensor& t : outputs) {
    node.outputs.push_back(t.dtype == QUERN_DTYPE_NONE ? QUERN_NONE : graph.add(t));
    if (t.dtype == QUERN_DTYPE_NONE) continue;
    Tensor& added = graph.values.back();
    if (added.kind == QUERN_VALUE_INPUT) added.kind = QUERN_VALUE_OUTPUT;
  }
  graph.nodes.push_back(node);
  return plugin.run(graph, {}, kernel);
}

std::vector<std::string> families() {
  const Plugin plugin;
  std::vector<std::string> out;
  for (const char* family : {"portable", "avx2", "avx512"})
    if (plugin.has(family)) out.emplace_back(family);
  if (Plugin(1, {{"force_kernel", "amx"}}).created().status == QUERN_OK)
    out.emplace_back("amx");  // by name: undemanded ones are left where they multiply wrongly
  return out;
}

std::vector<std::string> packing_families() {
  std::vector<std::string> result = families();
  std::erase(result, "portable");
  return result;
}

void pack_constants(Plugin& plugin, GraphSpec& graph) {
  const auto check = [](quern_status status, const char* call) {
    if (status != QUERN_OK) throw std::runtime_error(std::string(call) + " failed");
  };
  const quern_graph* built = graph.build();
  const quern_array list{&built, 1, sizeof(built)};
  quern_array items{};
  check(plugin.api().weights_plan(plugin.device(), &list, 0, &items, nullptr), "weights_plan");
  for (std::uint64_t i = 0; i < items.count; ++i) {
    const auto& item = static_cast<const quern_weight_item*>(items.data)[i];
    const std::uint32_t value = static_cast<const quern_weight_source*>(item.sources.data)->value;
    Tensor& t = graph.values[value];
    const auto to = std::make_shared<Memory>(item.bytes);
    const quern_span source{nullptr, t.memory->data.get(), 0, t.memory->size}, target{nullptr, to->data.get(), 0, to->size};
    const quern_array sources{&source, 1, sizeof(source)}, targets{&target, 1, sizeof(target)};
    check(plugin.api().weights_pack(plugin.device(), nullptr, &item, &sources, &targets, nullptr, nullptr), "weights_pack");
    t.layout.assign(item.layout_key.data, item.layout_key.size);
    t.memory = to;
  }
  if (items.count != 0) check(plugin.api().weights_release(plugin.device(), &items, nullptr), "weights_release");
}

std::string family_of_plain_weights(const std::string& family) { return family == "amx" ? "avx512" : family; }

}  // namespace quern::cpu_test
