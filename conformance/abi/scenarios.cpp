// The uses that the ABI was walked through with (rules R1 to R15 in CONTRACT.md's last table), one case each.
//
// Level 1 where copies and products show it; attention, experts and adapters at their level.
#include "abi/scripts.hpp"
#include "abi/simple.hpp"

#include <dlfcn.h>
#include <malloc.h>
#include <sys/wait.h>
#include <unistd.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

namespace quern::conformance::abi {
namespace {

/// Decode, the host running ahead: state goes round in device memory for many submits, a second plan reads it, a patch stops it, and what
/// was in flight behind the stop writes nothing.
void decode_runs_ahead_and_stops(ScriptContext& t) {
  const DeviceRef device = t.device();
  Queue queue(device);
  Graph step, peek;
  const std::uint32_t token = step.state({1, 4}), rotate = step.constant({4, 4}), next = step.internal({1, 4}),
                      live = step.state({1}, QUERN_I32);
  step.matmul(token, rotate, next);
  Graph::predicate(step.copy(next, token), live);
  const std::uint32_t seen = peek.state({1, 4}), out = peek.output({1, 4});
  peek.copy(seen, out);
  Floats at_token(device, queue, {1, 2, 3, 4}), at_rotate(device, queue, {0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 1, 0, 0, 0}),
      at_out(device, queue, {0, 0, 0, 0});
  Integers at_live(device, queue, {1});
  const Plan plan(device, step.get()), other(device, peek.get());
  Ready steps(device, queue, plan, {{token, at_token.span()}, {rotate, at_rotate.span()}, {live, at_live.span()}});
  Ready peeks(device, queue, other, {{seen, at_token.span()}, {out, at_out.span()}});
  for (int i = 0; i < 5; ++i) t.check(steps.go().code == QUERN_OK, "a step without a round trip to the host [R1]");
  t.check(peeks.go().code == QUERN_OK && at_out.read() == std::vector<float>{2, 3, 4, 1},
          "another plan binds the same state and sees five turns [R1]");
  const std::int32_t stop = 0, go_on = 1;
  t.check(steps.go({patch_of(live, stop)}).code == QUERN_OK && steps.go().code == QUERN_OK && steps.go().code == QUERN_OK,
          "steps behind the stop end well [R3]");
  t.check(at_token.read() == std::vector<float>{2, 3, 4, 1}, "and write nothing [R3]");
  t.check(steps.go({patch_of(live, go_on)}).code == QUERN_OK && at_token.read() == std::vector<float>{3, 4, 1, 2},
          "one patch lets it go on [R4]");
}

/// Rows in chunks of any size give the bits of all rows at once.
void chunks_equal_the_whole(ScriptContext& t) {
  const DeviceRef device = t.device();
  Queue queue(device);
  constexpr std::int64_t rows = 48, k = 64, n = 24;
  Graph g;
  const std::uint32_t x = g.input({rows, k}), w = g.constant({n, k}), y = g.output({rows, n}), s = g.symbol(1, rows);
  g.range(x, 0, s);
  g.range(y, 0, s);
  quern_node& node = g.matmul(x, w, y);
  node.uses |= QUERN_NODE_USES_DETERMINISM;
  node.determinism = QUERN_DETERMINISM_INVARIANT;
  if (const Answer answer = ask(device, g.get())[0]; answer.verdict == QUERN_ANSWER_NO) t.waive("invariant results", answer.text);
  const CounterRandom random = CounterRandom::of(t.case_name());
  std::vector<float> xs(rows * k), ws(n * k);
  for (std::size_t i = 0; i < xs.size(); ++i) xs[i] = static_cast<float>(random.gaussian(i));
  for (std::size_t i = 0; i < ws.size(); ++i) ws[i] = static_cast<float>(random.gaussian(i + 50000));
  Floats at_x(device, queue, xs), at_w(device, queue, ws), at_y(device, queue, std::vector<float>(rows * n));
  const Plan plan(device, g.get());
  Ready ready(device, queue, plan, {{x, at_x.span()}, {w, at_w.span()}, {y, at_y.span()}});
  t.check(ready.go().code == QUERN_OK, "all rows at once");
  const std::vector<float> whole = at_y.read();
  std::int64_t first = 0;
  for (const std::int64_t chunk : {1, 17, 5, 25}) {
    std::vector<float> part(xs.begin() + first * k, xs.begin() + (first + chunk) * k);
    part.resize(rows * k, std::numeric_limits<float>::quiet_NaN());  // what lies behind the bound
    at_x.write(part);
    t.check(ready.go({}, {{s, 0, chunk}}).code == QUERN_OK, "a chunk of " + std::to_string(chunk));
    const std::vector<float> got = at_y.read();
    t.check(std::memcmp(got.data(), whole.data() + first * n, static_cast<std::size_t>(chunk * n) * sizeof(float)) == 0,
            "a chunk of " + std::to_string(chunk) + " rows has the bits of the whole [R5 R14]");
    first += chunk;
  }
}

/// Keys and values in pages of 4 positions behind a shuffled table; each row writes its key and value, then attends.
struct PagedAttention {
  static constexpr std::int64_t rows = 16, heads = 2, size = 8, pages = 8, page = 4, sequences = 2, table_pages = 4;

  PagedAttention(DeviceRef device, Queue& queue)
      : at_q(device, queue, std::vector<float>(rows * heads * size)),
        at_k(device, queue, std::vector<float>(rows * size)),
        at_v(device, queue, std::vector<float>(rows * size)),
        at_kc(device, queue, nan()),
        at_vc(device, queue, nan()),
        at_y(device, queue, std::vector<float>(rows * heads * size)),
        at_table(device, queue, {5, 2, 7, 0, 3, 6, 1, 4}),
        at_slot(device, queue, std::vector<std::int32_t>(rows)),
        at_position(device, queue, std::vector<std::int32_t>(rows)),
        plan(device, build()),
        ready(device, queue, plan,
              {{q, at_q.span()},
               {k, at_k.span()},
               {v, at_v.span()},
               {kc, at_kc.span()},
               {vc, at_vc.span()},
               {y, at_y.span()},
               {table, at_table.span()},
               {slot, at_slot.span()},
               {position, at_position.span()}}) {}
  static std::vector<float> nan() { return std::vector<float>(pages * page * size, std::numeric_limits<float>::quiet_NaN()); }
  const quern_graph* build() {
    q = g.input({rows, heads, size});
    k = g.input({rows, 1, size});
    v = g.input({rows, 1, size});
    table = g.state({sequences, table_pages}, QUERN_I32);
    slot = g.input({rows}, QUERN_I32);
    position = g.input({rows}, QUERN_I32);
    kc = g.state({pages, 1, page, size});
    vc = g.state({pages, 1, page, size});
    y = g.output({rows, heads, size});
    symbol = g.symbol(1, rows);
    for (const std::uint32_t value : {q, k, v, slot, position, y}) g.range(value, 0, symbol);
    g.node(QUERN_OP_KV_WRITE, {k, table, slot, position}, {kc});
    g.node(QUERN_OP_KV_WRITE, {v, table, slot, position}, {vc});
    g.node(QUERN_OP_ATTENTION, {q, kc, vc, table, slot, position}, {y}, {real(QUERN_KEY_SCALE, 0.25)});
    for (quern_node& node : g.nodes) node.uses |= QUERN_NODE_USES_DETERMINISM, node.determinism = QUERN_DETERMINISM_INVARIANT;
    return g.get();
  }
  /// The data of a token is a function of its sequence, position and draft alone.
  static float datum(int sequence, int at, int draft, std::int64_t i, int which) {
    return static_cast<float>(CounterRandom(static_cast<std::uint64_t>(((sequence * 100 + at) * 10 + draft) * 3 + which))
                                  .gaussian(static_cast<std::uint64_t>(i)));
  }
  struct Token {
    int sequence, position, draft;
  };
  /// Runs the tokens as one batch; returns y of each.
  std::vector<std::vector<float>> run(ScriptContext& t, const std::vector<Token>& tokens) {
    std::vector<float> qs(rows * heads * size), ks(rows * size), vs(rows * size);
    std::vector<std::int32_t> slots(rows, -1), positions(rows, -1);
    for (std::size_t r = 0; r < tokens.size(); ++r) {
      const Token& token = tokens[r];
      slots[r] = token.sequence;
      positions[r] = token.position;
      for (std::int64_t i = 0; i < heads * size; ++i)
        qs[r * heads * size + static_cast<std::size_t>(i)] = datum(token.sequence, token.position, token.draft, i, 0);
      for (std::int64_t i = 0; i < size; ++i) {
        ks[r * size + static_cast<std::size_t>(i)] = datum(token.sequence, token.position, token.draft, i, 1);
        vs[r * size + static_cast<std::size_t>(i)] = datum(token.sequence, token.position, token.draft, i, 2);
      }
    }
    at_q.write(qs), at_k.write(ks), at_v.write(vs), at_slot.write(slots), at_position.write(positions);
    t.check(ready.go({}, {{symbol, 0, static_cast<std::int64_t>(tokens.size())}}).code == QUERN_OK,
            "a batch of " + std::to_string(tokens.size()) + " tokens");
    const std::vector<float> all = at_y.read();
    std::vector<std::vector<float>> result;
    for (std::size_t r = 0; r < tokens.size(); ++r)
      result.emplace_back(all.begin() + static_cast<std::ptrdiff_t>(r * heads * size),
                          all.begin() + static_cast<std::ptrdiff_t>((r + 1) * heads * size));
    return result;
  }
  Graph g;
  std::uint32_t q = 0, k = 0, v = 0, table = 0, slot = 0, position = 0, kc = 0, vc = 0, y = 0, symbol = 0;
  Floats at_q, at_k, at_v, at_kc, at_vc, at_y;
  Integers at_table, at_slot, at_position;
  Plan plan;
  Ready ready;
};

bool same(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

/// Ragged batches over paged keys: two sequences mixed in chunks equal each sequence token by token; unused slots hold NaN.
void ragged_batches_over_pages(ScriptContext& t) {
  const DeviceRef device = t.device();
  Queue queue(device);
  PagedAttention alone(device, queue), mixed(device, queue);
  std::vector<std::vector<float>> expected[2];
  for (int sequence = 0; sequence < 2; ++sequence)
    for (int at = 0; at < 10; ++at) expected[sequence].push_back(alone.run(t, {{sequence, at, 0}})[0]);
  bool finite = true;
  for (const auto& rows : expected)
    for (const auto& row : rows)
      for (const float f : row) finite = finite && std::isfinite(f);
  t.check(finite, "slots that nobody wrote hold NaN and are not read [R5]");
  int at[2] = {0, 0};
  for (const auto& [first, second] : {std::pair{7, 2}, {1, 1}, {0, 4}, {2, 3}}) {  // tokens of either sequence in a batch
    std::vector<PagedAttention::Token> tokens;
    for (int i = 0; i < second; ++i) tokens.push_back({1, at[1] + i, 0});
    for (int i = 0; i < first; ++i) tokens.push_back({0, at[0] + i, 0});
    const std::vector<std::vector<float>> got = mixed.run(t, tokens);
    for (std::size_t r = 0; r < tokens.size(); ++r)
      t.check(same(got[r], expected[tokens[r].sequence][static_cast<std::size_t>(tokens[r].position)]),
              "a token has the same bits in every batch and chunk [R5 R14]");
    at[0] += first, at[1] += second;
  }
}

/// Four drafts are written and taken back by the length alone: state is a function of slot and length.
void speculative_tokens_are_rolled_back(ScriptContext& t) {
  const DeviceRef device = t.device();
  Queue queue(device);
  PagedAttention straight(device, queue), speculative(device, queue);
  std::vector<std::vector<float>> expected;
  for (int at = 0; at < 8; ++at) expected.push_back(straight.run(t, {{0, at, 0}})[0]);
  speculative.run(t, {{0, 0, 0}, {0, 1, 0}, {0, 2, 0}});
  const std::vector<std::vector<float>> verified =
      speculative.run(t, {{0, 3, 0}, {0, 4, 0}, {0, 5, 1}, {0, 6, 1}});  // the last two are wrong
  t.check(same(verified[0], expected[3]) && same(verified[1], expected[4]), "the verifying batch gives the bits of decoding [R14]");
  const std::vector<std::vector<float>> after = speculative.run(t, {{0, 5, 0}});
  t.check(same(after[0], expected[5]), "positions behind the length are never read: the drafts are gone without a copy [R4]");
  t.check(same(speculative.run(t, {{0, 6, 0}})[0], expected[6]), "nor later");
}

/// Adapters in a pool of fixed capacity behind a device table: loading one is a patch.
void adapters_are_loaded_by_patches(ScriptContext& t) {
  const DeviceRef device = t.device();
  Queue queue(device);
  constexpr std::int64_t rows = 3, k = 4, n = 3, capacity = 64;
  Graph g;
  const std::uint32_t x = g.input({rows, k}), pool = g.state({capacity}), table = g.state({2, 4}, QUERN_I32),
                      slot = g.input({rows}, QUERN_I32), y = g.output({rows, n});
  g.node(QUERN_OP_LORA_MATMUL, {x, pool, table, slot}, {y});
  const std::vector<float> xs = counting(rows * k, 1);
  Floats at_x(device, queue, xs), at_pool(device, queue, std::vector<float>(capacity)), at_y(device, queue, std::vector<float>(rows * n));
  Integers at_table(device, queue, std::vector<std::int32_t>(8)), at_slot(device, queue, {-1, 0, 1});
  const Plan plan(device, g.get());
  Ready ready(device, queue, plan,
              {{x, at_x.span()}, {pool, at_pool.span()}, {table, at_table.span()}, {slot, at_slot.span()}, {y, at_y.span()}});
  t.check(ready.go().code == QUERN_OK && at_y.read() == std::vector<float>(rows * n, 0), "adapters of rank 0 add nothing [R8]");
  // A [1, 4] = 1 0 2 0 and B [3, 1] = 1 2 3 at 8 and 20; scale 2.
  const float a[4] = {1, 0, 2, 0}, b[3] = {1, 2, 3};
  const std::int32_t row[4] = {8, 20, 1, std::bit_cast<std::int32_t>(2.0f)};
  const auto code = ready
                        .go({{pool, 0, 8 * sizeof(float), sizeof a, a},
                             {pool, 0, 20 * sizeof(float), sizeof b, b},
                             {table, 0, 4 * sizeof(std::int32_t), sizeof row, row}})
                        .code;
  const float dot = 2 * (xs[8] * 1 + xs[10] * 2);
  std::vector<float> expected(rows * n, 0);
  for (std::size_t i = 0; i < 3; ++i) expected[6 + i] = dot * b[i];
  t.check(code == QUERN_OK && at_y.read() == expected, "a patch loads an adapter for the row that names it [R8]");
  const std::int32_t slots[3] = {1, 1, -1};
  t.check(ready.go({{slot, 0, 0, sizeof slots, slots}}).code == QUERN_OK, "rows change their adapters");
  for (std::size_t r = 0; r < 3; ++r)
    for (std::size_t i = 0; i < 3; ++i) expected[r * 3 + i] = r == 2 ? 0 : 2 * (xs[r * 4] + 2 * xs[r * 4 + 2]) * b[i];
  t.check(at_y.read() == expected, "by another patch [R2]");
  if (device.api().counters != nullptr)
    t.check(ready.instance().counters().compiles == 0 && ready.instance().counters().rerecords == 0, "and nothing is compiled [R15]");
}

/// A step whose gradients are not finite writes nothing; the next one does. prepare touches no state.
void training_steps_skip_overflow(ScriptContext& t) {
  const DeviceRef device = t.device();
  Queue queue(device);
  Graph g;
  const std::uint32_t gradient = g.input({6}), step = g.input({1}, QUERN_I32), lr = g.input({1}), w = g.state({6}), m = g.state({6}),
                      v = g.state({6});
  const std::uint32_t norm = g.output({1}), finite = g.internal({1}, QUERN_I32);
  g.node(QUERN_OP_GRAD_NORM, {gradient}, {norm, finite});
  Graph::predicate(g.node(QUERN_OP_ADAMW, {gradient, step, lr}, {w, m, v}), finite);
  const std::vector<float> start = counting(6, 1), zero(6, 0);
  Floats at_g(device, queue, {1, 2, std::numeric_limits<float>::infinity(), 4, 5, 6}), at_lr(device, queue, {0.5f}),
      at_w(device, queue, start), at_m(device, queue, zero), at_v(device, queue, zero), at_norm(device, queue, {0});
  Integers at_step(device, queue, {1});
  const Plan plan(device, g.get());
  Ready ready(device, queue, plan,
              {{gradient, at_g.span()},
               {step, at_step.span()},
               {lr, at_lr.span()},
               {w, at_w.span()},
               {m, at_m.span()},
               {v, at_v.span()},
               {norm, at_norm.span()}});
  t.check(at_w.read() == start && at_m.read() == zero && at_v.read() == zero, "prepare writes no state [R6]");
  t.check(ready.go().code == QUERN_OK && at_w.read() == start && at_m.read() == zero && at_v.read() == zero,
          "a step whose gradients overflow writes nothing [R3]");
  at_g.write(counting(6, 1));
  t.check(ready.go().code == QUERN_OK, "a step whose gradients are finite");
  const std::vector<float> after = at_w.read();
  bool moved = true;
  for (std::size_t i = 0; i < 6; ++i)
    moved = moved && std::fabs(after[i] - (start[i] - 0.5f)) < 1e-3f;  // the first step of AdamW is lr in size
  t.check(moved && at_m.read() != zero && at_v.read() != zero, "moves every weight by the rate and keeps its moments [R3]");
}

/// A layer split: two handles, the value on the cut goes through the host in its canonical layout.
void a_split_over_two_devices(ScriptContext& t) {
  const DeviceRef here = t.device();
  TestHost host;
  const OwnDevice own(t, host);
  const DeviceRef there = own.ref();
  Queue queue_here(here), queue_there(there);
  const std::vector<float> xs = counting(12, -6), w1 = counting(16, -8), w2 = counting(8, -4);
  Graph first, second, both;
  const std::uint32_t x = first.input({3, 4}), a = first.constant({4, 4}), cut = first.output({3, 4});
  first.matmul(x, a, cut);
  const std::uint32_t in = second.input({3, 4}), b = second.constant({2, 4}), y = second.output({3, 2});
  second.matmul(in, b, y);
  Floats at_x(here, queue_here, xs), at_a(here, queue_here, w1), at_cut(here, queue_here, std::vector<float>(12));
  Floats at_in(there, queue_there, std::vector<float>(12)), at_b(there, queue_there, w2), at_y(there, queue_there, std::vector<float>(6));
  const Plan plan_here(here, first.get()), plan_there(there, second.get());
  Ready one(here, queue_here, plan_here, {{x, at_x.span()}, {a, at_a.span()}, {cut, at_cut.span()}});
  Ready two(there, queue_there, plan_there, {{in, at_in.span()}, {b, at_b.span()}, {y, at_y.span()}});
  t.check(one.go().code == QUERN_OK, "the part on the first device");
  at_in.write(at_cut.read());
  t.check(two.go().code == QUERN_OK && at_y.read() == product(product(xs, w1, 3, 4, 4), w2, 3, 2, 4),
          "the part on the second device goes on from canonical values [R12]");
}

/// Shards of uneven size, as a matrix of an odd number of blocks needs: two instances in one submit make the whole.
void uneven_shards_make_the_whole(ScriptContext& t) {
  const DeviceRef device = t.device();
  Queue queue(device);
  constexpr std::int64_t m = 2, k = 8, n = 43;
  const std::vector<float> xs = counting(m * k, -5), ws = [&] {
    std::vector<float> w(n * k);
    for (std::size_t i = 0; i < w.size(); ++i) w[i] = static_cast<float>(static_cast<int>(i * 11 % 17) - 8);
    return w;
  }();
  Floats at_x(device, queue, xs);
  std::vector<std::unique_ptr<Graph>> graphs;
  std::vector<std::unique_ptr<Floats>> weights, outputs;
  std::vector<std::unique_ptr<Plan>> plans;
  std::vector<std::unique_ptr<Ready>> ranks;
  std::vector<quern_run> runs;
  const std::int64_t shards[2] = {22, 21};
  for (std::int64_t r = 0; r < 2; ++r) {
    const std::int64_t first = r == 0 ? 0 : shards[0], count = shards[r];
    graphs.push_back(std::make_unique<Graph>());
    const std::uint32_t x = graphs.back()->input({m, k}), w = graphs.back()->constant({count, k}), y = graphs.back()->output({m, count});
    graphs.back()->matmul(x, w, y);
    weights.push_back(std::make_unique<Floats>(device, queue,
                                               std::vector<float>(ws.begin() + first * k, ws.begin() + (first + count) * k)));
    outputs.push_back(std::make_unique<Floats>(device, queue, std::vector<float>(static_cast<std::size_t>(m * count))));
    plans.push_back(std::make_unique<Plan>(device, graphs.back()->get()));
    ranks.push_back(std::make_unique<Ready>(device, queue, *plans.back(),
                                            Spans{{x, at_x.span()}, {w, weights.back()->span()}, {y, outputs.back()->span()}}));
    runs.push_back(ranks.back()->run());
  }
  runs.back().sync = queue.next_signal();
  const quern_array list = array_of(runs);
  AbiError error;
  error.check(device.api().submit(device.handle(), queue.get(), &list, error.get()), "submit");
  queue.wait(60);
  const std::vector<float> whole = product(xs, ws, m, n, k), left = outputs[0]->read(), right = outputs[1]->read();
  bool equal = true;
  for (std::int64_t i = 0; i < m; ++i)
    for (std::int64_t j = 0; j < n; ++j)
      equal = equal && whole[static_cast<std::size_t>(i * n + j)] ==
                           (j < 22 ? left[static_cast<std::size_t>(i * 22 + j)] : right[static_cast<std::size_t>(i * 21 + j - 22)]);
  t.check(equal, "22 and 21 columns of 43, submitted as one list, are the whole product [R13]");
}

/// Ids of experts change between runs without a compile; -1 is nobody; one out of range raises the fault bit and writes zeros.
void experts_are_chosen_by_data(ScriptContext& t) {
  const DeviceRef device = t.device();
  Queue queue(device);
  Graph g;
  const std::uint32_t a = g.input({3, 1, 4}), b = g.constant({4, 2, 4}), id = g.input({3, 2}, QUERN_I32), y = g.output({3, 2, 2});
  g.node(QUERN_OP_MATMUL_ID, {a, b, id}, {y});
  const std::vector<float> as = counting(12, -4), bs = counting(32, -15);
  Floats at_a(device, queue, as), at_b(device, queue, bs), at_y(device, queue, std::vector<float>(12, -1));
  Integers at_id(device, queue, {0, 3, 2, -1, 1, 1});
  const Plan plan(device, g.get());
  Ready ready(device, queue, plan, {{a, at_a.span()}, {b, at_b.span()}, {id, at_id.span()}, {y, at_y.span()}});
  const auto expected = [&](const std::vector<std::int32_t>& ids) {
    std::vector<float> v(12, 0);
    for (std::size_t row = 0; row < 3; ++row)
      for (std::size_t u = 0; u < 2; ++u)
        for (std::size_t o = 0; o < 2; ++o)
          for (std::size_t i = 0; i < 4; ++i)
            if (const std::int32_t e = ids[row * 2 + u]; e >= 0 && e < 4)
              v[row * 4 + u * 2 + o] += as[row * 4 + i] * bs[static_cast<std::size_t>(e) * 8 + o * 4 + i];
    return v;
  };
  quern_run_status status = ready.go();
  t.check(status.code == QUERN_OK && status.faults == 0 && at_y.read() == expected({0, 3, 2, -1, 1, 1}),
          "each row takes its experts, -1 none [R8]");
  const std::int32_t others[6] = {2, 9, 0, 0, -1, 3};
  status = ready.go({{id, 0, 0, sizeof others, others}});
  t.check(status.code == QUERN_OK && at_y.read() == expected({2, 9, 0, 0, -1, 3}), "a patch sends rows to other experts [R2]");
  t.check((status.faults & QUERN_FAULT_INDEX_RANGE) != 0, "an id out of range raises the fault bit [R8]");

  Integers at_good(device, queue, {0, 3, 2, -1, 1, 1});
  Floats at_z(device, queue, std::vector<float>(12, -1));
  Ready good(device, queue, plan, {{a, at_a.span()}, {b, at_b.span()}, {id, at_good.span()}, {y, at_z.span()}});
  for (const bool first : {true, false}) {  // at_id still has the id that is out of range
    std::vector<quern_run> runs = first ? std::vector{ready.run(), good.run()} : std::vector{good.run(), ready.run()};
    std::vector<quern_run_status> statuses(2, made<quern_run_status>(QUERN_TYPE_RUN_STATUS));
    for (std::size_t i = 0; i < 2; ++i) runs[i].status = &statuses[i];
    runs.back().sync = queue.next_signal();
    const quern_array list = array_of(runs);
    AbiError error;
    error.check(device.api().submit(device.handle(), queue.get(), &list, error.get()), "submit");
    queue.wait(60);
    const quern_run_status &of_bad = statuses[first ? 0 : 1], &of_good = statuses[first ? 1 : 0];
    t.check((of_bad.faults & QUERN_FAULT_INDEX_RANGE) != 0 && of_good.faults == 0,
            "each run of a list has the faults that are its own [C18]");
  }
  t.check(at_z.read() == expected({0, 3, 2, -1, 1, 1}), "and its own result [C18]");
}

/// One weight, two plans of two models, plans that go while the other goes on.
void weights_outlive_their_plans(ScriptContext& t) {
  const DeviceRef device = t.device();
  Queue queue(device);
  const std::vector<float> ws = counting(12, -5);
  Floats at_w(device, queue, ws);
  const auto use = [&](std::int64_t rows) {
    Graph g;
    const std::uint32_t x = g.input({rows, 4}), w = g.constant({3, 4}), y = g.output({rows, 3});
    g.matmul(x, w, y);
    const std::vector<float> xs = counting(static_cast<std::size_t>(rows) * 4, 2);
    Floats at_x(device, queue, xs), at_y(device, queue, std::vector<float>(static_cast<std::size_t>(rows) * 3));
    const Plan plan(device, g.get());
    Ready ready(device, queue, plan, {{x, at_x.span()}, {w, at_w.span()}, {y, at_y.span()}});
    return ready.go().code == QUERN_OK && at_y.read() == product(xs, ws, rows, 3, 4);
  };
  t.check(use(1) && use(9) && use(2), "weights bound at prepare serve one plan after another [R7]");
  t.check(at_w.read() == ws && at_w.intact(), "and stay as they are [R7]");
}

/// What a plugin of few ops or of static shapes says it needs is of a kind that the host can meet.
void requirements_can_be_met(ScriptContext& t) {
  const DeviceRef device = t.device();
  Graph g;
  const std::uint32_t x = g.input({64, 32}), w = g.constant({16, 32}), y = g.output({64, 16}), s = g.symbol(1, 64);
  g.range(x, 0, s);
  g.range(y, 0, s);
  g.matmul(x, w, y);
  quern_answer answer = made<quern_answer>(QUERN_TYPE_ANSWER);
  AbiError error;
  error.check(device.api().support(device.handle(), g.get(), nullptr, &answer, error.get()), "support");
  t.check(answer.verdict <= QUERN_ANSWER_YES_IF, "the verdict is one of the four [R10]");
  t.check(answer.verdict != QUERN_ANSWER_NO || answer.text.size != 0, "a no has a reason [R10]");
  t.check((answer.verdict == QUERN_ANSWER_YES_IF) == (answer.requirements.count != 0),
          "requirements come with yes-if and only there [R10]");
  for (std::uint64_t i = 0; i < answer.requirements.count; ++i) {
    const auto* need = reinterpret_cast<const quern_requirement*>(static_cast<const std::byte*>(answer.requirements.data) +
                                                                  i * answer.requirements.stride);
    t.check(need->kind >= QUERN_REQUIRE_LAYOUT && need->kind <= QUERN_REQUIRE_KV_CONTIGUOUS && need->value < g.values.size(),
            "a requirement is of a known kind, of a value that is there [R10]");
    if (need->kind == QUERN_REQUIRE_DIM_IN_SET)
      t.check(need->payload.count > 0 && need->dim < g.values[need->value].rank, "a set of dims has members [R10]");
  }
}

/// A variant that is newer than the plugin: not one of its attributes is dropped.
void a_newer_variant_is_no(ScriptContext& t) {
  for (std::uint32_t key = 54; key < 64; ++key) {  // keys of op sets to come
    Graph g;
    const std::uint32_t a = g.input({4, 4}), b = g.constant({4, 4}), y = g.output({4, 4});
    g.node(QUERN_OP_MATMUL, {a, b}, {y}, {real(key, 30)});
    check_no(t, g, "a product with an attribute of a later op set [R9]");
  }
  Graph body;
  const std::uint32_t x = body.input({4}), y = body.output({4});
  quern_node& node = body.node(QUERN_OP_PRIVATE_FROM + 1, {x}, {y});
  node.uses |= QUERN_NODE_USES_BODY;
  node.body = 0;
  check_no(t, body, "a composite of another author, whose body is not there [R9]");
}

/// Thousands of one-node plans in a few seconds, and nothing that adds up.
void thousands_of_plans(ScriptContext& t) {
  const DeviceRef device = t.device();
  Queue queue(device);
  Floats at_x(device, queue, counting(64, 1)), at_y(device, queue, std::vector<float>(64));
  quern_compile_options options = compile_options();
  options.effort = 0;
  std::size_t settled = 0;
  int wrong = 0;
  for (int i = 0; i < 2000; ++i) {
    Graph g;
    const std::int64_t rows = 1 + i % 16;
    const std::uint32_t x = g.input({rows, 4}), y = g.output({rows, 4});
    g.copy(x, y);
    const Plan plan(device, g.get(), options);
    Ready ready(device, queue, plan, {{x, at_x.span()}, {y, at_y.span()}});
    wrong += ready.go().code != QUERN_OK;
    if (i == 400) settled = ::mallinfo2().uordblks;
  }
  t.check(wrong == 0 && at_y.read()[0] == 1, "2,000 one-node plans of 16 shapes compile at effort 0, run and go [R15]");
  const std::size_t after = ::mallinfo2().uordblks;
  t.check(after < settled + (std::size_t{1} << 20),
          "and leave nothing behind [R11], grown by " + std::to_string(after > settled ? after - settled : 0) + " bytes");
}

/// Two runtimes and a child after fork: what the child does to its copies is nobody else's.
void two_runtimes_and_a_fork(ScriptContext& t) {
  TestHost host_a, host_b(2);
  const OwnDevice a(t, host_a), b(t, host_b);
  Queue queue_a(a.ref()), queue_b(b.ref());
  TwoNodes on_a(a.ref(), queue_a), on_b(b.ref(), queue_b);
  const pid_t child = ::fork();
  if (child == 0) {
    t.api().destroy(a.plugin());
    t.api().destroy(b.plugin());
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  t.check(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child destroys both handles [R11]");
  t.check(on_a.ready.go().code == QUERN_OK && on_b.ready.go().code == QUERN_OK && on_a.at_z.read() == on_a.expected() &&
              on_b.at_z.read() == on_b.expected(),
          "both runtimes of the parent go on [R11]");
}

/// The application's own OpenBLAS keeps its threads, whatever the plugin uses for large products.
void the_applications_blas_is_left_alone(ScriptContext& t) {
  void* library = ::dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) t.waive("no libopenblas.so.0", "there is none on this machine to disturb");
  const auto set = reinterpret_cast<void (*)(int)>(::dlsym(library, "openblas_set_num_threads"));
  const auto get = reinterpret_cast<int (*)()>(::dlsym(library, "openblas_get_num_threads"));
  t.require(set != nullptr && get != nullptr, "OpenBLAS says how many threads it uses");
  set(2);
  const int before = get();
  const DeviceRef device = t.device();
  Queue queue(device);
  constexpr std::int64_t n = 96;
  Graph g;
  const std::uint32_t x = g.input({n, n}), w = g.constant({n, n}), y = g.output({n, n});
  g.matmul(x, w, y);
  std::vector<float> xs(n * n), ws(n * n);
  for (std::size_t i = 0; i < xs.size(); ++i)
    xs[i] = static_cast<float>(static_cast<int>(i * 7 % 9) - 4), ws[i] = static_cast<float>(static_cast<int>(i * 5 % 7) - 3);
  Floats at_x(device, queue, xs), at_w(device, queue, ws), at_y(device, queue, std::vector<float>(n * n));
  const Plan plan(device, g.get());
  Ready ready(device, queue, plan, {{x, at_x.span()}, {w, at_w.span()}, {y, at_y.span()}});
  t.check(ready.go().code == QUERN_OK && at_y.read() == product(xs, ws, n, n, n), "a large product is computed");
  t.check(get() == before, "and the application's OpenBLAS has the threads that it had [C9]");
}

}  // namespace

void scenarios_scripts(CaseSink& sink) {
  add(sink, "scenarios.decode_runs_ahead_and_stops", decode_runs_ahead_and_stops);
  add(sink, "scenarios.chunks_equal_the_whole", chunks_equal_the_whole);
  add(sink, "scenarios.ragged_batches_over_pages", ragged_batches_over_pages, level_inference);
  add(sink, "scenarios.speculative_tokens_are_rolled_back", speculative_tokens_are_rolled_back, level_inference);
  add(sink, "scenarios.adapters_are_loaded_by_patches", adapters_are_loaded_by_patches, level_training);
  add(sink, "scenarios.training_steps_skip_overflow", training_steps_skip_overflow, level_training);
  add(sink, "scenarios.a_split_over_two_devices", a_split_over_two_devices);
  add(sink, "scenarios.uneven_shards_make_the_whole", uneven_shards_make_the_whole);
  add(sink, "scenarios.experts_are_chosen_by_data", experts_are_chosen_by_data, level_inference);
  add(sink, "scenarios.weights_outlive_their_plans", weights_outlive_their_plans);
  add(sink, "scenarios.requirements_can_be_met", requirements_can_be_met);
  add(sink, "scenarios.a_newer_variant_is_no", a_newer_variant_is_no);
  add(sink, "scenarios.thousands_of_plans", thousands_of_plans);
  add(sink, "scenarios.two_runtimes_and_a_fork", two_runtimes_and_a_fork);
  add(sink, "scenarios.the_applications_blas_is_left_alone", the_applications_blas_is_left_alone);
}

}  // namespace quern::conformance::abi
