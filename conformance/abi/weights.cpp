// Weight sets [C15]: planned over several graphs, packed once, bound by two plans and by two instances.
#include "abi/scripts.hpp"
#include "abi/simple.hpp"

#include "data/tensor.hpp"
#include "data/data_kind.hpp"

#include <cstring>

namespace quern::conformance::abi {
namespace {

constexpr std::int64_t n = 48, k = 512;

std::vector<quern_dtype> formats() {
  std::vector<quern_dtype> all = {QUERN_F16};
  for (const quern_format& format : quern_formats) all.push_back(format.id);
  return all;
}

void require_sets(ScriptContext& t) {
  if (t.api().weights_plan == nullptr) t.waive("weights_plan is null", "constants are bound in their canonical layout");
}

Graph product_graph(std::int64_t rows, quern_dtype dtype, std::uint32_t determinism = QUERN_DETERMINISM_REPEATABLE) {
  Graph g;
  const std::uint32_t x = g.input({rows, k}), w = g.constant({n, k}, dtype), y = g.output({rows, n});
  g.values[w].name = {"blk.0.weight", 12};
  quern_node& node = g.matmul(x, w, y);
  node.uses |= QUERN_NODE_USES_PRECISION | QUERN_NODE_USES_DETERMINISM;
  node.conversions = QUERN_CONVERT_INT8 | QUERN_CONVERT_F16 | QUERN_CONVERT_BF16;
  node.determinism = determinism;
  return g;
}

/// The items of some graphs, given back to the plugin at the end.
class Items {
 public:
  Items(DeviceRef device, const std::vector<const quern_graph*>& graphs) : device_(device) {
    const quern_array list{graphs.data(), graphs.size(), sizeof(const quern_graph*)};
    AbiError error;
    error.check(device.api().weights_plan(device.handle(), &list, 0, &array_, error.get()), "weights_plan");
  }
  ~Items() {
    if (array_.count != 0) device_.api().weights_release(device_.handle(), &array_, nullptr);
  }
  Items(const Items&) = delete;
  Items& operator=(const Items&) = delete;
  std::uint64_t size() const noexcept { return array_.count; }
  const quern_weight_item& operator[](std::uint64_t i) const noexcept {
    return *reinterpret_cast<const quern_weight_item*>(static_cast<const std::byte*>(array_.data) + i * array_.stride);
  }
  quern_array& array() noexcept { return array_; }

 private:
  DeviceRef device_;
  quern_array array_{};
};

std::string key_of(const quern_weight_item& item) { return {item.layout_key.data, item.layout_key.size}; }

quern_status pack(DeviceRef device, Queue& queue, const quern_weight_item& item, quern_span from, quern_span to, AbiError& error) {
  const quern_array sources{&from, 1, sizeof from}, destination{&to, 1, sizeof to};
  const quern_status status =
      device.api().weights_pack(device.handle(), queue.get(), &item, &sources, &destination, queue.next_signal(), error.get());
  if (status == QUERN_OK) queue.wait(60);
  else queue.withdraw_signal();
  return status;
}

/// Two plans (decode of 1 row, prefill of 20) and a second instance of each, over one packed copy of each format that the plugin packs.
struct Shared {
  Shared(DeviceRef device, Queue& queue, quern_dtype format, const std::string& name,
         std::uint32_t determinism = QUERN_DETERMINISM_REPEATABLE)
      : dtype(format),
        decode(product_graph(1, dtype, determinism)),
        prefill(product_graph(20, dtype, determinism)),
        items(device, {decode.get(), prefill.get()}) {
    Tensor weights(dtype, {n, k});
    fill(weights, DataKind::gaussian, CounterRandom::of(name));
    canonical = std::make_unique<Region>(device, queue, weights.bytes().size(), 0, true);
    canonical->write(weights.bytes());
    if (items.size() == 0) return;
    packed = std::make_unique<Region>(device, queue, items[0].bytes, items[0].alignment, false);
    AbiError error;
    error.check(pack(device, queue, items[0], canonical->span(), packed->span(), error), "weights_pack");
    key = key_of(items[0]);
    for (Graph* g : {&decode, &prefill}) {
      g->values[1].layout = {key.data(), key.size()};
      g->values[1].uses |= QUERN_VALUE_USES_LAYOUT;
    }
  }
  /// `first`: of the rows that a longer run has, from which on.
  std::vector<float> run(DeviceRef device, Queue& queue, const Plan& plan, std::int64_t rows, quern_span weights, std::int64_t first = 0) {
    const std::vector<float> all = rows_of(first + rows);
    Floats x(device, queue, {all.begin() + first * k, all.end()}),
        y(device, queue, std::vector<float>(static_cast<std::size_t>(rows * n), -1));
    Ready ready(device, queue, plan, {{0, x.span()}, {1, weights}, {2, y.span()}});
    if (ready.go().code != QUERN_OK) throw std::runtime_error("a run over shared weights failed");
    return y.read();
  }
  static std::vector<float> rows_of(std::int64_t rows) {
    std::vector<float> x(static_cast<std::size_t>(rows * k));
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(static_cast<int>(i * 37 % 101) - 50) / 64;
    return x;
  }
  quern_dtype dtype;
  Graph decode, prefill;
  Items items;
  std::unique_ptr<Region> canonical, packed;
  std::string key;
};

template <class F>
void each_packed_format(ScriptContext& t, const F& f) {
  require_sets(t);
  const DeviceRef device = t.device();
  Queue queue(device);
  int packed = 0;
  for (const quern_dtype dtype : formats()) {
    Shared shared(device, queue, dtype, t.case_name() + std::to_string(dtype));
    if (!shared.packed) continue;
    ++packed;
    f(device, queue, shared);
  }
  if (packed == 0) t.waive("weights_plan plans nothing", "every format stays canonical on this device");
}

void shared_by_plans_and_instances(ScriptContext& t) {
  each_packed_format(t, [&](DeviceRef device, Queue& queue, Shared& s) {
    t.check(s.items.size() == 1, "one constant of two graphs, by its name, is one item [C15]");
    t.check(s.items[0].sources.count == 2, "and the item names it in both graphs [C15]");
    const Plan decode(device, s.decode.get()), prefill(device, s.prefill.get());
    const std::vector<std::byte> bytes = s.packed->read();
    const std::vector<float> one = s.run(device, queue, decode, 1, s.packed->span()),
                             twenty = s.run(device, queue, prefill, 20, s.packed->span());
    t.check(s.run(device, queue, decode, 1, s.packed->span()) == one, "two instances of a plan share the packed bytes [C15]");
    t.check(s.run(device, queue, prefill, 20, s.packed->span()) == twenty, "and two of the other plan [C15]");
    t.check(s.packed->read() == bytes && s.packed->canary_damage().empty(), "which no run changes [C15]");
    const Plan again(device, s.decode.get());
    t.check(s.run(device, queue, again, 1, s.packed->span()) == one, "a later plan accepts the key [C15]");
  });
}

/// Products that may round activations to int8 have kernels of their own for one row: where a node asks for it, they too have the bits of many rows'.
void rows_are_invariant(ScriptContext& t) {
  require_sets(t);
  const DeviceRef device = t.device();
  Queue queue(device);
  std::string refusal;
  int taken = 0;
  for (const quern_dtype dtype : formats()) {
    Graph asks = product_graph(1, dtype, QUERN_DETERMINISM_INVARIANT);
    if (const Answer answer = ask(device, asks.get())[0]; answer.verdict == QUERN_ANSWER_NO) {
      refusal = answer.text;
      continue;
    }
    ++taken;
    Shared s(device, queue, dtype, t.case_name() + std::to_string(dtype), QUERN_DETERMINISM_INVARIANT);
    const quern_span weights = (s.packed ? *s.packed : *s.canonical).span();
    const Plan decode(device, s.decode.get()), prefill(device, s.prefill.get());
    const std::vector<float> twenty = s.run(device, queue, prefill, 20, weights);
    for (const std::int64_t row : {0, 8, 19}) {
      const std::vector<float> one = s.run(device, queue, decode, 1, weights, row);
      t.check(std::memcmp(one.data(), twenty.data() + row * n, n * sizeof(float)) == 0,
              "a row of a product with weights of dtype " + std::to_string(dtype) + " has the same bits alone and among 20 [C17]");
    }
  }
  if (taken == 0) t.waive("invariant results", refusal);
}

void packed_bytes_are_relocatable(ScriptContext& t) {
  each_packed_format(t, [&](DeviceRef device, Queue& queue, Shared& s) {
    const Plan plan(device, s.prefill.get());
    const std::vector<float> before = s.run(device, queue, plan, 20, s.packed->span());
    const std::vector<std::byte> bytes = s.packed->read();
    Region second(device, queue, s.items[0].bytes, s.items[0].alignment, true);
    second.fill(std::byte{0x77});
    AbiError error;
    error.check(pack(device, queue, s.items[0], s.canonical->span(), second.span(), error), "weights_pack");
    t.check(second.read() == bytes, "packing twice, to two places, gives the same bytes [C15]");
    second.fill(std::byte{0});
    second.write(bytes);
    s.packed->fill(std::byte{0xff});
    if (s.items[0].source_needed_after == 0) s.canonical->fill(std::byte{0xff});
    t.check(s.run(device, queue, plan, 20, second.span()) == before,
            "packed bytes mean the same at another address, their source gone [C15]");
  });
}

void items_are_sound(ScriptContext& t) {
  each_packed_format(t, [&](DeviceRef, Queue&, Shared& s) {
    const quern_weight_item& item = s.items[0];
    t.check(item.bytes > 0 && item.alignment != 0 && (item.alignment & (item.alignment - 1)) == 0,
            "an item has bytes and an alignment [C15]");
    t.check(!key_of(item).empty() && item.essential <= 1 && item.source_needed_after <= 1 && item.benefit >= 0,
            "a key, and figures in their range [C15]");
  });
}

void unknown_layouts_are_no(ScriptContext& t) {
  const auto no = [&](const char* what, const std::string& key) {
    Graph g = product_graph(2, QUERN_F16);
    g.values[1].layout = {key.data(), key.size()};
    g.values[1].uses |= QUERN_VALUE_USES_LAYOUT;
    check_no(t, g, what);
  };
  no("a layout key that no plugin has [C15]", "no.such.layout");
  no("an empty layout key [C15]", "");
  no("a layout key of 100,000 bytes [C15]", std::string(100000, 'k'));
  if (t.api().weights_plan == nullptr) return;
  const DeviceRef device = t.device();
  Queue queue(device);
  for (const quern_dtype dtype : {QUERN_Q8_0, QUERN_Q4_0, QUERN_Q4_K}) {
    Shared shared(device, queue, dtype, t.case_name());
    if (!shared.packed) continue;
    Graph other;  // the key of [48, 512] for [32, 512]
    const std::uint32_t x = other.input({2, k}), w = other.constant({32, k}, dtype), y = other.output({2, 32});
    other.values[w].layout = {shared.key.data(), shared.key.size()};
    other.values[w].uses |= QUERN_VALUE_USES_LAYOUT;
    other.matmul(x, w, y);
    check_no(t, other, "the key of another shape [C15]");
  }
}

void bad_packing_is_refused(ScriptContext& t) {
  each_packed_format(t, [&](DeviceRef device, Queue& queue, Shared& s) {
    const std::vector<std::byte> before = s.packed->read();
    const auto refused = [&](const char* what, const quern_weight_item& item, quern_span from, quern_span to) {
      AbiError error;
      check_refused(t, pack(device, queue, item, from, to, error), error, {QUERN_INVALID_ARGUMENT, QUERN_UNSUPPORTED},
                    std::string(what) + " is refused [C15]");
    };
    quern_span short_source = s.canonical->span(), short_destination = s.packed->span();
    short_source.bytes -= 1;
    short_destination.bytes -= 1;
    refused("a source that is one byte short", s.items[0], short_source, s.packed->span());
    refused("a destination that is one byte short", s.items[0], s.canonical->span(), short_destination);
    refused("a null source", s.items[0], {}, s.packed->span());
    quern_weight_item unknown = s.items[0];
    unknown.layout_key = {"no.such.layout", 14};
    refused("an unknown layout key", unknown, s.canonical->span(), s.packed->span());
    t.check(s.packed->read() == before, "and writes nothing [C15]");
  });
}

void items_are_released_once(ScriptContext& t) {
  each_packed_format(t, [&](DeviceRef device, Queue&, Shared& s) {
    const quern_graph* graphs[] = {s.decode.get()};
    Graph canonical = product_graph(1, s.dtype);
    graphs[0] = canonical.get();
    const quern_array list{graphs, 1, sizeof graphs[0]};
    quern_array items{};
    AbiError error;
    error.check(device.api().weights_plan(device.handle(), &list, 0, &items, error.get()), "weights_plan");
    quern_array copy = items;
    t.check(device.api().weights_release(device.handle(), &items, error.get()) == QUERN_OK, "items are released [C15]");
    check_refused(t, device.api().weights_release(device.handle(), &copy, error.get()), error, {QUERN_INVALID_ARGUMENT},
                  "and not twice [C15]");
  });
}

}  // namespace

void weights_scripts(CaseSink& sink) {
  add(sink, "weights.shared_by_plans_and_instances", shared_by_plans_and_instances, level_inference);
  add(sink, "weights.rows_are_invariant", rows_are_invariant, level_inference);
  add(sink, "weights.packed_bytes_are_relocatable", packed_bytes_are_relocatable, level_inference);
  add(sink, "weights.items_are_sound", items_are_sound, level_inference);
  add(sink, "weights.unknown_layouts_are_no", unknown_layouts_are_no);
  add(sink, "weights.bad_packing_is_refused", bad_packing_is_refused, level_inference);
  add(sink, "weights.items_are_released_once", items_are_released_once, level_inference);
}

}  // namespace quern::conformance::abi
