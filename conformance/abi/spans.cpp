// Bindings: a span for each value, wherever it lies; what prepare refuses, and that it then changes nothing [C16].
#include "abi/scripts.hpp"
#include "abi/simple.hpp"

namespace quern::conformance::abi {
namespace {

/// Part of a region, as a span.
quern_span part(const Region& region, std::uint64_t offset, std::uint64_t bytes) {
  quern_span span = region.span();
  if (span.host != nullptr) span.host = static_cast<std::byte*>(span.host) + offset;
  else span.offset += offset;
  span.bytes = bytes;
  return span;
}

/// All values in one buffer, next to each other at the alignment, then each in its own: both give the same.
void values_in_one_and_in_several_buffers(ScriptContext& t) {
  const DeviceRef device = t.device();
  Queue queue(device);
  TwoNodes separate(device, queue);
  t.check(separate.ready.go().code == QUERN_OK && separate.at_z.read() == separate.expected(), "values in several buffers [C16]");
  const std::uint64_t step = std::max<std::uint64_t>(256, device.memory_alignment());
  Region shared(device, queue, 3 * step, step, false);
  std::vector<float> all(3 * step / sizeof(float), -1);
  const std::vector<float> xs = counting(20, -7), bs = counting(12, -5);
  std::copy(xs.begin(), xs.end(), all.begin());
  std::copy(bs.begin(), bs.end(), all.begin() + static_cast<std::ptrdiff_t>(step / sizeof(float)));
  shared.write(std::as_bytes(std::span(all)));
  Ready ready(device, queue, separate.plan,
              {{separate.x, part(shared, 0, 80)}, {separate.b, part(shared, step, 48)}, {separate.z, part(shared, 2 * step, 60)}});
  t.check(ready.go().code == QUERN_OK, "values in one buffer [C16]");
  const std::vector<std::byte> bytes = shared.read();
  std::vector<float> after(all.size());
  std::copy(bytes.begin(), bytes.end(), reinterpret_cast<std::byte*>(after.data()));
  const std::vector<float> expected = separate.expected();
  std::copy(expected.begin(), expected.end(), all.begin() + static_cast<std::ptrdiff_t>(2 * step / sizeof(float)));
  t.check(after == all, "the output is right and nothing beside it changed [C16]");
}

/// The values of a tensor that lies in several buffers: rows in three of them, one instance each, one submit.
void a_tensor_in_three_buffers(ScriptContext& t) {
  const DeviceRef device = t.device();
  Queue queue(device);
  Graph g;
  const std::uint32_t x = g.input({2, 4}), b = g.constant({3, 4}), y = g.output({2, 3});
  g.matmul(x, b, y);
  const Plan plan(device, g.get());
  const std::vector<float> xs = counting(24, -9), bs = counting(12, -5), expected = product(xs, bs, 6, 3, 4);
  Floats at_b(device, queue, bs);
  std::vector<std::unique_ptr<Floats>> in, out;
  std::vector<std::unique_ptr<Ready>> parts;
  std::vector<quern_run> runs;
  for (std::ptrdiff_t i = 0; i < 3; ++i) {
    in.push_back(std::make_unique<Floats>(device, queue, std::vector<float>(xs.begin() + 8 * i, xs.begin() + 8 * i + 8)));
    out.push_back(std::make_unique<Floats>(device, queue, std::vector<float>(6, -1)));
    parts.push_back(std::make_unique<Ready>(device, queue, plan, Spans{{x, in.back()->span()}, {b, at_b.span()}, {y, out.back()->span()}}));
    runs.push_back(parts.back()->run());
  }
  runs.back().sync = queue.next_signal();
  const quern_array list = array_of(runs);
  AbiError error;
  error.check(device.api().submit(device.handle(), queue.get(), &list, error.get()), "submit");
  queue.wait(60);
  std::vector<float> whole;
  for (const auto& o : out) {
    const std::vector<float> rows = o->read();
    whole.insert(whole.end(), rows.begin(), rows.end());
  }
  t.check(whole == expected, "the rows of each buffer are computed, the weights bound three times [C16]");
}

void needs_of_slots_are_sound(ScriptContext& t) {
  const DeviceRef device = t.device();
  Queue queue(device);
  TwoNodes two(device, queue);
  const quern_instance_info& info = two.ready.instance().info();
  t.check(info.max_in_flight >= 1, "max_in_flight is at least 1 [C12]");
  t.check(info.scratch_bytes == 0 || (info.scratch_alignment != 0 && (info.scratch_alignment & (info.scratch_alignment - 1)) == 0),
          "scratch has an alignment [C12]");
  for (std::uint64_t i = 0; i < info.slots.count; ++i) {
    const auto* need = reinterpret_cast<const quern_slot_need*>(static_cast<const std::byte*>(info.slots.data) + i * info.slots.stride);
    t.check(need->value < two.graph.values.size() && need->spans >= 1, "a slot need names a value and its spans [C16]");
  }
}

struct Bad {
  const char* what;
  quern_status (*prepare)(TwoNodes& two, DeviceRef device, Queue& queue, AbiError& error);
};

Spans spans_of(TwoNodes& two) { return {{two.x, two.at_x.span()}, {two.b, two.at_b.span()}, {two.z, two.at_z.span()}}; }

quern_status with(TwoNodes& two, DeviceRef device, Queue& queue, AbiError& error, const Spans& spans) {
  return prepare(device, queue, two.ready.instance().get(), spans, two.ready.scratch().span(), error);
}

void move_by_one(quern_span& span) {
  if (span.host != nullptr) span.host = static_cast<std::byte*>(span.host) + 1;
  else ++span.offset;
  span.bytes -= 1;
}

const Bad bad[] = {
    {"a slot that is not bound",
     [](TwoNodes& two, DeviceRef d, Queue& q, AbiError& e) {
       Spans s = spans_of(two);
       s.erase(two.b);
       return with(two, d, q, e, s);
     }},
    {"a binding of an internal value",
     [](TwoNodes& two, DeviceRef d, Queue& q, AbiError& e) {
       Spans s = spans_of(two);
       s[2] = two.at_x.span();
       return with(two, d, q, e, s);
     }},
    {"a binding of a value that is not there",
     [](TwoNodes& two, DeviceRef d, Queue& q, AbiError& e) {
       Spans s = spans_of(two);
       s[99] = two.at_x.span();
       return with(two, d, q, e, s);
     }},
    {"a span one byte too short",
     [](TwoNodes& two, DeviceRef d, Queue& q, AbiError& e) {
       Spans s = spans_of(two);
       s[two.x].bytes -= 1;
       return with(two, d, q, e, s);
     }},
    {"a span of no bytes",
     [](TwoNodes& two, DeviceRef d, Queue& q, AbiError& e) {
       Spans s = spans_of(two);
       s[two.z].bytes = 0;
       return with(two, d, q, e, s);
     }},
    {"a null span",
     [](TwoNodes& two, DeviceRef d, Queue& q, AbiError& e) {
       Spans s = spans_of(two);
       s[two.z] = {};
       return with(two, d, q, e, s);
     }},
    {"a span of the other kind of memory",
     [](TwoNodes& two, DeviceRef d, Queue& q, AbiError& e) {
       static float host[64];
       static char not_a_buffer[64];
       Spans s = spans_of(two);
       s[two.x] = d.host_memory() ? quern_span{reinterpret_cast<quern_buffer*>(not_a_buffer), nullptr, 0, 80}
                                  : quern_span{nullptr, host, 0, 80};
       return with(two, d, q, e, s);
     }},
};

void bad_bindings_are_refused(ScriptContext& t) {
  const DeviceRef device = t.device();
  Queue queue(device);
  TwoNodes two(device, queue);
  const auto still_runs = [&](const std::string& what) {
    two.at_z.write(std::vector<float>(15, -1));
    t.check(two.ready.go().code == QUERN_OK && two.at_z.read() == two.expected(), "after " + what + " the earlier bindings stand [C16]");
  };
  for (const Bad& b : bad) {
    AbiError error;
    check_refused(t, b.prepare(two, device, queue, error), error, {QUERN_INVALID_ARGUMENT}, std::string(b.what) + " is refused [C16]");
    still_runs(b.what);
  }
  if (device.memory_alignment() > 1) {
    Spans spans = spans_of(two);
    move_by_one(spans[two.x]);
    spans[two.x].bytes = 80;
    AbiError error;
    check_refused(t, with(two, device, queue, error, spans), error, {QUERN_INVALID_ARGUMENT},
                  "a span that is not aligned is refused [C16]");
    still_runs("a span that is not aligned");
  }
  if (two.ready.instance().info().scratch_bytes > 0) {
    AbiError error;
    quern_span scratch = two.ready.scratch().span();
    scratch.bytes -= 1;
    check_refused(t, prepare(device, queue, two.ready.instance().get(), spans_of(two), scratch, error), error, {QUERN_INVALID_ARGUMENT},
                  "scratch one byte smaller than announced is refused [C12]");
    still_runs("scratch that is too small");
  }
}

/// One entry whose list of bindings is spoiled: a value twice, or bound to a number of spans that its slot does not need.
void lists_of_spans_are_checked(ScriptContext& t) {
  const DeviceRef device = t.device();
  Queue queue(device);
  OneCopy one(device, queue);
  const auto prepared = [&](const std::vector<std::pair<std::uint32_t, std::vector<quern_span>>>& bound, AbiError& error) {
    std::vector<quern_binding> bindings;
    for (const auto& [value, spans] : bound) {
      bindings.push_back(made<quern_binding>(QUERN_TYPE_BINDING));
      bindings.back().value = value;
      bindings.back().spans = array_of(spans);
    }
    quern_prepare_entry entry = made<quern_prepare_entry>(QUERN_TYPE_PREPARE_ENTRY);
    entry.instance = one.ready.instance().get();
    entry.bindings = array_of(bindings);
    entry.scratch = one.ready.scratch().span();
    const quern_array entries{&entry, 1, sizeof entry};
    const quern_status status = device.api().prepare(device.handle(), queue.get(), &entries, queue.next_signal(), error.get());
    if (status == QUERN_OK) queue.wait(60);
    else queue.withdraw_signal();
    return status;
  };
  const quern_span x = one.at_x.span(), y = one.at_y.span();
  AbiError error;
  t.check(prepared({{one.x, {x}}, {one.y, {y}}}, error) == QUERN_OK, "one span a value is taken [C16]");
  const auto refused = [&](const char* what, const std::vector<std::pair<std::uint32_t, std::vector<quern_span>>>& bound) {
    AbiError found;
    check_refused(t, prepared(bound, found), found, {QUERN_INVALID_ARGUMENT}, std::string(what) + " is refused [C16]");
  };
  refused("a value that is bound twice", {{one.x, {x}}, {one.y, {y}}, {one.x, {x}}});
  if (one.ready.instance().info().slots.count == 0) {
    refused("a value of one span bound to two", {{one.x, {x, x}}, {one.y, {y}}});
    refused("a value bound to no span", {{one.x, {}}, {one.y, {y}}});
  }
  t.check(one.ready.go().code == QUERN_OK && one.at_y.read() == counting(4, 1), "the bindings that were good stand [C16]");
}

void preparing_again_replaces_all(ScriptContext& t) {
  const DeviceRef device = t.device();
  Queue queue(device);
  OneCopy one(device, queue);
  t.check(one.ready.go().code == QUERN_OK && one.at_y.read() == counting(4, 1), "the first bindings are used");
  Floats other_x(device, queue, counting(4, 50)), other_y(device, queue, std::vector<float>(4, -1));
  one.at_y.write(std::vector<float>(4, -2));
  AbiError error;
  error.check(prepare(device, queue, one.ready.instance().get(), {{one.x, other_x.span()}, {one.y, other_y.span()}},
                      one.ready.scratch().span(), error),
              "prepare");
  t.check(one.ready.go().code == QUERN_OK && other_y.read() == counting(4, 50), "preparing again replaces all bindings [C12]");
  t.check(one.at_y.read() == std::vector<float>(4, -2), "and nothing is written where they were [C12]");
}

/// A buffer of another handle of the same plugin is another device's.
void memory_of_another_device_is_refused(ScriptContext& t) {
  const DeviceRef device = t.device();
  if (device.host_memory()) t.waive("QUERN_CAP_HOST_MEMORY", "host pointers belong to no device");
  Queue queue(device);
  TestHost host;
  const OwnDevice own(t, host);
  Queue other_queue(own.ref());
  Floats foreign(own.ref(), other_queue, counting(4, 1));
  OneCopy one(device, queue);
  AbiError error;
  check_refused(t,
                prepare(device, queue, one.ready.instance().get(), {{one.x, foreign.span()}, {one.y, one.at_y.span()}},
                        one.ready.scratch().span(), error),
                error, {QUERN_INVALID_ARGUMENT}, "a buffer of another device is refused [C16]");
}

}  // namespace

void spans_scripts(CaseSink& sink) {
  add(sink, "spans.values_in_one_and_in_several_buffers", values_in_one_and_in_several_buffers);
  add(sink, "spans.a_tensor_in_three_buffers", a_tensor_in_three_buffers);
  add(sink, "spans.needs_of_slots_are_sound", needs_of_slots_are_sound);
  add(sink, "spans.bad_bindings_are_refused", bad_bindings_are_refused);
  add(sink, "spans.lists_are_checked", lists_of_spans_are_checked);
  add(sink, "spans.preparing_again_replaces_all", preparing_again_replaces_all);
  add(sink, "spans.memory_of_another_device_is_refused", memory_of_another_device_is_refused);
}

}  // namespace quern::conformance::abi
