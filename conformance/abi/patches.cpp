// What the host gives to a run and reads behind it, in every number and size: patches and outputs [C11 C13].
#include "abi/counts.hpp"
#include "abi/scripts.hpp"
#include "abi/simple.hpp"

#include <algorithm>

namespace quern::conformance::abi {
namespace {

/// Patches of one run, at each count and each size of counts.def. Bytes from 0x30 to 0x3f make normal numbers wherever a patch begins.
void patches_of_every_count(ScriptContext& t) {
  const DeviceRef device = t.device();
  Queue queue(device);
  constexpr std::size_t count = 32768;  // f32
  Graph g;
  const std::uint32_t x = g.input({count}), s = g.state({count}), y = g.output({count}), z = g.output({count});
  g.copy(x, y);
  g.copy(s, z);
  const Plan plan(device, g.get());
  std::vector<float> xs = counting(count, 1), ss = counting(count, -7);
  Floats at_x(device, queue, xs), at_s(device, queue, ss), at_y(device, queue, std::vector<float>(count)),
      at_z(device, queue, std::vector<float>(count));
  Ready ready(device, queue, plan, {{x, at_x.span()}, {s, at_s.span()}, {y, at_y.span()}, {z, at_z.span()}});
  std::vector<std::byte> data(2 * count);
  std::vector<quern_patch> patches;
  unsigned round = 0;
  const auto add_patch = [&](std::uint32_t value, std::size_t offset, std::size_t from, std::size_t bytes) {
    patches.push_back({value, 0, offset, bytes, &data[from]});
    std::copy_n(&data[from], bytes, std::as_writable_bytes(std::span(value == x ? xs : ss)).begin() + static_cast<std::ptrdiff_t>(offset));
  };
  const auto go = [&](const std::string& what) {
    t.check(ready.go(patches).code == QUERN_OK, what + " are taken [C13]");
    t.check(at_y.read() == xs && at_z.read() == ss, what + " are all applied [C13]");
    patches.clear();
  };
  const auto renew = [&] {
    ++round;
    for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<std::byte>(0x30 + (i * 7 + i / 16 + round) % 16);
  };
  for (const std::size_t n : counts_of("patches_a_run")) {
    renew();
    for (std::size_t p = 0; p < n; ++p) add_patch(p % 2 == 0 ? x : s, 64 * p + 4 * (round % 8), 64 * p, 8);
    go(std::to_string(n) + " patches of one run");
  }
  for (const std::size_t bytes : counts_of("bytes_a_patch"))
    for (const std::size_t offset : {std::size_t{0}, std::size_t{round % 61}}) {
      renew();
      add_patch(s, offset, 0, bytes);
      go(std::to_string(bytes) + " bytes of one patch");
    }
  for (const std::size_t bytes : counts_of("bytes_of_patches")) {
    renew();
    add_patch(x, 32, 0, bytes / 2);
    add_patch(s, 32, bytes / 2, bytes - bytes / 2);
    go(std::to_string(bytes) + " bytes of two patches");
  }
}

/// Outputs that the host reads after each run, in each number.
void outputs_of_every_count(ScriptContext& t) {
  const DeviceRef device = t.device();
  Queue queue(device);
  for (const std::size_t n : counts_of("outputs_a_plan")) {
    Graph g;
    const std::uint32_t x = g.input({4});
    std::vector<std::uint32_t> outputs;
    for (std::size_t i = 0; i < n; ++i) {
      outputs.push_back(g.output({4}));
      g.copy(x, outputs.back());
    }
    const Plan plan(device, g.get());
    Floats at_x(device, queue, counting(4, 0));
    Spans spans{{x, at_x.span()}};
    std::vector<std::unique_ptr<Floats>> values;
    for (const std::uint32_t output : outputs) {
      values.push_back(std::make_unique<Floats>(device, queue, std::vector<float>(4, -1)));
      spans[output] = values.back()->span();
    }
    Ready ready(device, queue, plan, spans);
    for (int round = 1; round < 4; ++round) {
      const float first = static_cast<float>(100 * round);
      t.check(ready.go({patch_of(x, first)}).code == QUERN_OK, "a run of " + std::to_string(n) + " outputs");
      const std::vector<float> expected = {first, counting(4, 0)[1], counting(4, 0)[2], counting(4, 0)[3]};
      t.check(std::ranges::all_of(values, [&](const auto& y) { return y->read() == expected; }),
              "each of " + std::to_string(n) + " outputs is read as the run wrote it [C11]");
    }
  }
}

/// 64 KiB of patches in each number of parts that they may come in; more than that whole, or refused whole.
void many_and_large_patches(ScriptContext& t) {
  const DeviceRef device = t.device();
  Queue queue(device);
  constexpr std::size_t count = 16384;  // f32: 64 KiB
  Graph g;
  const std::uint32_t x = g.input({count}), s = g.state({4 * count}), y = g.output({count}), z = g.output({4 * count});
  g.copy(x, y);
  g.copy(s, z);
  const Plan plan(device, g.get());
  std::vector<float> xs = counting(count, 1), ss = counting(4 * count, -7);
  Floats at_x(device, queue, xs), at_s(device, queue, ss), at_y(device, queue, std::vector<float>(count)),
      at_z(device, queue, std::vector<float>(4 * count));
  Ready ready(device, queue, plan, {{x, at_x.span()}, {s, at_s.span()}, {y, at_y.span()}, {z, at_z.span()}});
  for (const std::size_t parts : {1u, 2u, 17u, 64u, 65u, 256u, 1000u, 4096u}) {
    std::vector<float> data(count);
    std::vector<quern_patch> patches;
    for (std::size_t i = 0; i < count; ++i) data[i] = static_cast<float>(i + parts);
    const std::size_t size = count / parts;
    for (std::size_t p = 0; p < parts; ++p) {
      const bool state = p % 2 == 1;  // by turns of the input and of the state
      patches.push_back({state ? s : x, 0, p * size * sizeof(float), size * sizeof(float), &data[p * size]});
      std::copy_n(&data[p * size], size, (state ? ss : xs).begin() + static_cast<std::ptrdiff_t>(p * size));
    }
    t.check(ready.go(patches).code == QUERN_OK, std::to_string(parts) + " patches, 64 KiB in all, are taken [C13]");
    t.check(at_y.read() == xs && at_z.read() == ss, std::to_string(parts) + " patches are all applied [C13]");
  }
  std::vector<quern_patch> same;  // each of the same place: the last counts
  std::vector<float> numbers = counting(1000, 5);
  for (const float& number : numbers) same.push_back(patch_of(s, number, 40));
  ss[10] = numbers.back();
  t.check(ready.go(same).code == QUERN_OK && at_z.read() == ss, "of 1,000 patches of one place the last one counts [C13]");
  const std::vector<float> more = counting(4 * count, 11);  // 256 KiB: above what every plugin must take
  const quern_patch large{s, 0, 0, more.size() * sizeof(float), more.data()};
  quern_run run = ready.run();
  quern_run_status status = made<quern_run_status>(QUERN_TYPE_RUN_STATUS);
  run.patches = {&large, 1, sizeof large};
  run.status = &status;
  AbiError error;
  const quern_status answered = ready.submit(run, error);
  if (answered == QUERN_OK) {
    t.check(status.code == QUERN_OK && at_z.read() == more, "a patch of 256 KiB that is taken is applied whole [C13]");
  } else {
    check_refused(t, answered, error, {QUERN_INVALID_ARGUMENT, QUERN_UNSUPPORTED, QUERN_OUT_OF_MEMORY, QUERN_HOST_OUT_OF_MEMORY},
                  "a patch of 256 KiB is taken or refused [C13]");
    t.check(at_s.read() == ss, "and changes nothing where it is refused [C13]");
  }
}

}  // namespace

void patches_scripts(CaseSink& sink) {
  add(sink, "patches.many_and_large", many_and_large_patches);
  add(sink, "patches.of_every_count", patches_of_every_count);
  add(sink, "plans.outputs_of_every_count", outputs_of_every_count);
}

}  // namespace quern::conformance::abi
