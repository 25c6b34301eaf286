// The SDK for plugin authors: sizes, strides, attributes, errors, negotiation, graph checks.
#include "quern/quern_plugin.hpp"
#include "quern/sdk/tensors.hpp"

#include "quern_layout.inc"

#include "test_host.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <set>
#include <stdexcept>

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

namespace sdk = quern::sdk;
using namespace quern_test;

quern_status status_of(const std::function<void()>& body) { return sdk::guarded(nullptr, body); }

/// Memory whose end is the end of a readable page: a read behind it faults.
class Guarded {
 public:
  explicit Guarded(std::size_t size) {
    page_ = static_cast<char*>(mmap(nullptr, 2 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    mprotect(page_ + 4096, 4096, PROT_NONE);
    at_ = page_ + 4096 - size;
  }
  ~Guarded() { munmap(page_, 2 * 4096); }
  template <class T>
  T* as() {
    return reinterpret_cast<T*>(at_);
  }

 private:
  char* page_;
  char* at_;
};

TEST(SdkStructs, RefusesEverySizeBelowTheFirstReleaseAndTakesEveryOther) {
  const std::uint32_t least = QUERN_MIN_SIZE_quern_host;
  quern_host host = zeroed<quern_host>(QUERN_TYPE_HOST);
  for (const std::uint32_t size : {0u, 1u, 15u, least - 1}) {
    host.header.struct_size = size;
    EXPECT_EQ(status_of([&] { sdk::read(&host); }), QUERN_INVALID_ARGUMENT) << size;
  }
  for (const std::uint32_t size : {least, least + 1, least + 8, 0x7fffffffu, 0xffffffffu}) {
    host.header.struct_size = size;
    EXPECT_EQ(status_of([&] { sdk::read(&host); }), QUERN_OK) << size;
  }
}

TEST(SdkStructs, ReadsOnlyWhatTheWriterHad) {
  Guarded memory(sizeof(quern_query));
  auto* query = memory.as<quern_query>();
  *query = zeroed<quern_query>(QUERN_TYPE_QUERY);
  query->header_hash = 7;
  EXPECT_EQ(sdk::read(query).header_hash, 7u);
}

TEST(SdkStructs, WritesNoFurtherThanTheCallerSaysAndReportsHowFar) {
  Guarded memory(sizeof(quern_heap_info));
  auto* out = memory.as<quern_heap_info>();
  *out = zeroed<quern_heap_info>(QUERN_TYPE_HEAP_INFO);
  quern_heap_info mine = sdk::made<quern_heap_info>();
  mine.used = 9;
  sdk::write(out, mine);
  EXPECT_EQ(out->used, 9u);
  out->header.struct_size = sizeof(quern_heap_info) + 64;  // a newer host: we fill what we know and say so
  sdk::write(out, mine);
  EXPECT_EQ(out->header.struct_size, sizeof(quern_heap_info));
}

TEST(SdkStructs, RefusesNullAnotherTypeAndAChainedStructThatMustBeUnderstood) {
  EXPECT_EQ(status_of([] { sdk::check<quern_run>(nullptr); }), QUERN_INVALID_ARGUMENT);
  quern_run run = zeroed<quern_run>(QUERN_TYPE_SYNC);
  EXPECT_EQ(status_of([&] { sdk::check(&run); }), QUERN_INVALID_ARGUMENT);
  run.header.struct_type = QUERN_TYPE_RUN;
  quern_header unknown = {sizeof(quern_header), 999, nullptr};
  run.header.next = &unknown;
  EXPECT_EQ(status_of([&] { sdk::check(&run); }), QUERN_OK);
  unknown.struct_type |= QUERN_MUST_UNDERSTAND;
  EXPECT_EQ(status_of([&] { sdk::check(&run); }), QUERN_UNSUPPORTED);
  unknown = {sizeof(quern_header), 999, &unknown};
  EXPECT_EQ(status_of([&] { sdk::check(&run); }), QUERN_INVALID_ARGUMENT) << "a chain that ends in itself";
}

TEST(SdkLists, FollowTheStrideOfTheirWriter) {
  struct Newer {
    quern_bound bound;
    std::uint64_t tail;
  };
  const Newer newer[] = {{{1, 0, 10}, 99}, {{2, 0, 20}, 99}};
  std::vector<std::int64_t> seen;
  for (const quern_bound& b : sdk::List<quern_bound>({newer, 2, sizeof(Newer)}, "bounds")) seen.push_back(b.upper);
  EXPECT_EQ(seen, (std::vector<std::int64_t>{10, 20}));
}

TEST(SdkLists, RefuseNullShortStridesOverflowAndElementsThatOverlap) {
  const quern_bound bound = {};
  const auto read = [](quern_array array) { return status_of([&] { sdk::List<quern_bound>(array, "bounds"); }); };
  EXPECT_EQ(read({nullptr, 0, 0}), QUERN_OK);
  EXPECT_EQ(read({nullptr, 1, sizeof bound}), QUERN_INVALID_ARGUMENT);
  EXPECT_EQ(read({&bound, 1, sizeof bound - 1}), QUERN_INVALID_ARGUMENT);
  EXPECT_EQ(read({&bound, UINT64_MAX / 8, sizeof bound}), QUERN_INVALID_ARGUMENT);
  quern_run run = zeroed<quern_run>(QUERN_TYPE_RUN);
  run.header.struct_size = sizeof(run) + 8;
  EXPECT_EQ(status_of([&] { sdk::List<quern_run>({&run, 1, sizeof run}, "runs")[0]; }), QUERN_INVALID_ARGUMENT);
  EXPECT_EQ(status_of([&] { sdk::List<quern_run>({reinterpret_cast<char*>(&run) + 1, 1, sizeof run}, "runs"); }), QUERN_INVALID_ARGUMENT);
}

TEST(SdkAnswers, StepByTheSizeThatTheHostGaveTheFirst) {
  struct Newer {
    quern_answer answer;
    std::uint64_t tail;
  };
  Newer newer[2] = {{zeroed<quern_answer>(QUERN_TYPE_ANSWER), 5}, {zeroed<quern_answer>(QUERN_TYPE_ANSWER), 6}};
  for (Newer& n : newer) n.answer.header.struct_size = sizeof(Newer);
  const sdk::Answers answers(&newer[0].answer, 2);
  quern_answer yes = sdk::made<quern_answer>();
  yes.verdict = QUERN_ANSWER_YES;
  answers.set(0, yes);
  answers.set(1, yes);
  EXPECT_EQ(newer[1].answer.verdict, std::uint32_t{QUERN_ANSWER_YES});
  EXPECT_EQ(newer[0].tail, 5u);
  EXPECT_EQ(newer[1].answer.header.struct_size, sizeof(quern_answer));
}

TEST(SdkGuard, TurnsEveryExceptionIntoAStatusAndAText) {
  Error error;
  EXPECT_EQ(sdk::guarded(error, [] { throw sdk::Failure(QUERN_BUSY, "three are alive", 8); }), QUERN_BUSY);
  EXPECT_EQ(error.text(), "three are alive");
  EXPECT_EQ(error.fields.rule, 8u);
  EXPECT_EQ(error.fields.slot, QUERN_NONE);
  EXPECT_EQ(sdk::guarded(error, [] { throw std::bad_alloc(); }), QUERN_HOST_OUT_OF_MEMORY);
  EXPECT_EQ(sdk::guarded(error, [] { throw std::runtime_error("odd"); }), QUERN_INTERNAL);
  EXPECT_EQ(error.text(), "odd");
  EXPECT_EQ(sdk::guarded(error, [] { throw 7; }), QUERN_INTERNAL);
  EXPECT_EQ(sdk::guarded(nullptr, [] { throw 7; }), QUERN_INTERNAL);
}

TEST(SdkGuard, CutsATextBetweenCodePointsAndSaysHowLongItWas) {
  char room[4] = {'x', 'x', 'x', 'x'};
  quern_error error = zeroed<quern_error>(QUERN_TYPE_ERROR);
  error.text = room;
  error.text_capacity = 3;
  sdk::set_error(&error, QUERN_IO, "aa\xC3\xA9");  // the last letter has two bytes
  EXPECT_EQ(std::string(room, 4), "aaxx");
  EXPECT_EQ(error.text_size, 4u);
}

TEST(SdkOps, EveryDefaultParsesAsStrtodDoes) {
  int defaults = 0;
  for (const sdk::OpRow& op : sdk::op_rows) {
    std::string_view rest = op.attributes;
    for (std::string_view word = sdk::next_word(rest); !word.empty(); word = sdk::next_word(rest)) {
      const auto equals = word.find('=');
      ASSERT_NE(sdk::find_key(word.substr(0, equals)), nullptr) << word;
      if (equals == std::string_view::npos) continue;
      const std::string text(word.substr(equals + 1));
      EXPECT_EQ(sdk::parse_default(text), std::strtod(text.c_str(), nullptr)) << op.name << " " << word;
      ++defaults;
    }
  }
  EXPECT_GT(defaults, 90);
}

static_assert(sdk::parse_default("1e-8") == 1e-8 && sdk::parse_default("-100") == -100);
static_assert(sdk::arity("x weight?").least == 1 && sdk::arity("x weight?").most == 2);
static_assert(sdk::arity("gate up? dy").least == 3, "an optional input in the middle keeps its place");

TEST(SdkAttributes, GiveTheDefaultUntilOneIsSent) {
  GraphBuilder g;
  EXPECT_EQ(sdk::Attributes(g.node(QUERN_OP_ADD, {0, 0}, {0})).real(QUERN_KEY_ALPHA), 1.0);
  EXPECT_EQ(sdk::Attributes(g.node(QUERN_OP_ADD, {0, 0}, {0}, {real(QUERN_KEY_ALPHA, 3)})).real(QUERN_KEY_ALPHA), 3.0);
  EXPECT_TRUE(std::isinf(sdk::Attributes(g.node(QUERN_OP_GLU, {0, 0}, {0})).real(QUERN_KEY_LIMIT)));
}

TEST(SdkAttributes, NameWhatTheyCannotTake) {
  GraphBuilder g;
  const auto problem = [&](std::uint32_t op, std::vector<quern_attribute> a) {
    return sdk::Attributes(g.node(op, {0}, {0}, std::move(a))).problem();
  };
  EXPECT_EQ(problem(QUERN_OP_RMS_NORM, {}), "rms_norm needs the attribute epsilon");
  EXPECT_EQ(problem(QUERN_OP_NEG, {real(QUERN_KEY_ALPHA, 1)}), "neg has no attribute with key 1 (alpha) in op set 3");
  EXPECT_EQ(problem(QUERN_OP_GELU, {real(QUERN_KEY_KIND, 1)}), "gelu: the attribute kind came with type 2, not 1");
  EXPECT_EQ(problem(QUERN_OP_GELU, {integer(QUERN_KEY_KIND, 1), integer(QUERN_KEY_KIND, 1)}), "gelu: the attribute kind came twice");
  EXPECT_EQ(problem(QUERN_OP_GELU, {integer(1000, 1)}), "gelu has no attribute with key 1000 in op set 3");
  EXPECT_EQ(problem(3999, {}), "op 3999 is not in the op set 3");
}

TEST(SdkQuery, NegotiatesTheSmallerMinorAndRefusesAHostThatNeedsANewerOne) {
  const quern_plugin_api mine = sdk::make_api();
  quern_plugin_api out = zeroed<quern_plugin_api>(QUERN_TYPE_PLUGIN_API);
  quern_query query = zeroed<quern_query>(QUERN_TYPE_QUERY);
  query.abi_minor = 9;
  Error error;
  EXPECT_EQ(sdk::answer_query(&query, &out, error, mine), QUERN_OK);
  EXPECT_EQ(out.abi_minor, QUERN_ABI_MINOR);
  query.abi_minor_min = QUERN_ABI_MINOR + 1;
  EXPECT_EQ(sdk::answer_query(&query, &out, error, mine), QUERN_VERSION);
  EXPECT_EQ(error.text(), "the host needs plugin ABI 1.3 or newer, this plugin speaks 1.2");
  query.abi_minor_min = 0;
  out.header.struct_size = QUERN_MIN_SIZE_quern_plugin_api - 1;
  EXPECT_EQ(sdk::answer_query(&query, &out, error, mine), QUERN_INVALID_ARGUMENT);
  EXPECT_EQ(sdk::answer_query(nullptr, &out, error, mine), QUERN_INVALID_ARGUMENT);
  EXPECT_EQ(sdk::answer_query(&query, nullptr, error, mine), QUERN_INVALID_ARGUMENT);
}

TEST(SdkGraph, RefusesWhatIsMalformed) {
  const auto status = [](const std::function<void(GraphBuilder&)>& change) {
    GraphBuilder g;
    const auto x = g.value(QUERN_VALUE_INPUT, {4, 8}), y = g.value(QUERN_VALUE_OUTPUT, {4, 8});
    g.node(QUERN_OP_NEG, {x}, {y});
    change(g);
    return status_of([&] { sdk::Graph graph(g.get()); });
  };
  EXPECT_EQ(status([](GraphBuilder&) {}), QUERN_OK);
  for (const auto& change : std::vector<std::function<void(GraphBuilder&)>>{
           [](GraphBuilder& g) { g.values[0].rank = 7; },
           [](GraphBuilder& g) { g.values[0].dims[0] = -1; },
           [](GraphBuilder& g) { g.values[0].dims[0] = g.values[0].dims[1] = INT64_MAX / 2; },
           [](GraphBuilder& g) { g.values[0].kind = 5; },
           [](GraphBuilder& g) { g.use(0, 0, 3); },
           [](GraphBuilder& g) { g.values[0].symbols[0] = 1; },
           [](GraphBuilder& g) { g.range(0, 0, 5); },
           [](GraphBuilder& g) { g.range(0, 0, 1, 1); },
           [](GraphBuilder& g) { g.values[0].uses = QUERN_VALUE_USES_ALIAS, g.values[0].alias_of = 0; },
           [](GraphBuilder& g) { g.node(QUERN_OP_NEG, {2}, {1}); },
           [](GraphBuilder& g) { g.node(QUERN_OP_NEG, {QUERN_NONE}, {1}); },
           [](GraphBuilder& g) { g.node(QUERN_OP_NEG, {}, {1}); },
           [](GraphBuilder& g) { g.node(QUERN_OP_NEG, {0}, {0}); },
           [](GraphBuilder& g) {
             g.node(QUERN_OP_NEG, {g.value(QUERN_VALUE_INTERNAL, {4, 8})}, {1});
           },
           [](GraphBuilder& g) { g.nodes[0].uses = QUERN_NODE_USES_PREDICATE, g.nodes[0].predicate = 9; },
       }) {
    EXPECT_EQ(status(change), QUERN_INVALID_ARGUMENT);
  }
}

TEST(SdkGraph, CountsBytesOfFloatsBlocksStridesAndRanges) {
  GraphBuilder g;
  const auto f = g.value(QUERN_VALUE_INPUT, {4, 8}), q = g.value(QUERN_VALUE_CONSTANT, {3, 512}, QUERN_Q4_K);
  const auto s = g.value(QUERN_VALUE_INPUT, {4, 8}), none = g.value(QUERN_VALUE_INPUT, {4, 0});
  g.values[s].uses = QUERN_VALUE_USES_STRIDES;
  g.values[s].strides[0] = 100;
  g.values[s].strides[1] = 4;
  const auto symbol = g.range(f, 0, 1);
  const sdk::Graph graph(g.get());
  std::vector<std::int64_t> upper = graph.widest();
  EXPECT_EQ(graph.bytes(f, upper), 4u * 8 * 4);
  EXPECT_EQ(graph.bytes(q, upper), 3u * 2 * 144);
  EXPECT_EQ(graph.bytes(s, upper), 3u * 100 + 7 * 4 + 4);
  EXPECT_EQ(graph.bytes(none, upper), 0u);
  const quern_bound bound = {symbol, 0, 2};
  graph.apply_bounds({&bound, 1, sizeof bound}, upper);
  EXPECT_EQ(graph.bytes(f, upper), 2u * 8 * 4);
  const quern_bound wide = {symbol, 0, 3};
  EXPECT_EQ(status_of([&] { graph.apply_bounds({&wide, 1, sizeof wide}, upper); }), QUERN_INVALID_ARGUMENT);
}

TEST(SdkTensors, OfNoElementsAreContiguousWhateverTheirStrides) {
  sdk::Tensor t;
  t.dtype = QUERN_I32;
  t.rank = 2;
  t.dims[0] = 3;
  t.dims[1] = 0;
  t.strides[0] = t.strides[1] = 4;
  EXPECT_TRUE(sdk::is_contiguous(t));
  EXPECT_EQ(sdk::check_contiguous(t), "");
  t.dims[1] = 2;
  EXPECT_FALSE(sdk::is_contiguous(t)) << "rows of two elements at every fourth byte";
}

TEST(SdkTensors, HaveDimsFromTheEndAndOnesBeyondTheRank) {
  sdk::Tensor t;
  t.dtype = QUERN_F32;
  t.rank = 2;
  t.dims[0] = 3;
  t.dims[1] = 8;
  t.strides[0] = 32;
  t.strides[1] = 4;
  EXPECT_EQ(t.dim_from_end(0), 8);
  EXPECT_EQ(t.dim_from_end(1), 3);
  EXPECT_EQ(t.dim_from_end(2), 1);
  EXPECT_EQ(t.stride_from_end(1), 32);
  EXPECT_EQ(t.stride_from_end(2), 0);
  EXPECT_EQ(sdk::Tensor().last(), 1);
}

TEST(SdkTensors, RowsOfOneUnitArePackedWhateverTheirStride) {
  sdk::Tensor t;
  t.dtype = QUERN_Q8_0;
  t.rank = 1;
  t.dims[0] = 32;
  t.strides[0] = 1000;
  EXPECT_TRUE(sdk::has_packed_rows(t));
  t.dims[0] = 64;
  EXPECT_FALSE(sdk::has_packed_rows(t));
  t.strides[0] = 34;
  EXPECT_TRUE(sdk::has_packed_rows(t));
}

TEST(SdkTensors, OfADtypeThatIsNewerHaveNoSizeAndAreNotContiguous) {
  sdk::Tensor t;
  t.dtype = 9999;
  t.rank = 1;
  t.dims[0] = 4;
  EXPECT_EQ(sdk::find_element_size(t.dtype).bytes, 0u);
  EXPECT_FALSE(sdk::is_contiguous(t));
  EXPECT_EQ(status_of([&] { sdk::element_size(t.dtype); }), QUERN_UNSUPPORTED);
}

TEST(SdkRefusals, NameEachFeatureThatNoBackendHasYet) {
  const auto text = [](const std::function<void(quern_value&, quern_node&)>& change) {
    GraphBuilder g;
    const auto x = g.value(QUERN_VALUE_STATE, {4, 8}), y = g.value(QUERN_VALUE_OUTPUT, {4, 8});
    g.node(QUERN_OP_NEG, {x}, {y});
    change(g.values[0], g.nodes[0]);
    const sdk::Graph graph(g.get());
    const std::string unknown = sdk::refuse_unknown(graph, graph.nodes[0]);
    return unknown.empty() ? sdk::refuse_features(graph, graph.nodes[0], 0, 0) : unknown;
  };
  EXPECT_EQ(text([](quern_value&, quern_node&) {}), "");
  EXPECT_EQ(text([](quern_value&, quern_node& n) { n.uses = QUERN_NODE_USES_COMMUNICATOR; }), sdk::refusal::collectives());
  EXPECT_EQ(text([](quern_value& v, quern_node&) { v.uses = QUERN_VALUE_USES_INDIRECT; }), sdk::refusal::indirect_spans());
  EXPECT_EQ(text([](quern_value& v, quern_node&) { v.uses = QUERN_VALUE_USES_SNAPSHOT; }), sdk::refusal::snapshots());
  EXPECT_EQ(text([](quern_value&, quern_node& n) { n.uses = 1ull << 63; }), "the node uses bit 63, which is newer than this plugin");
  EXPECT_EQ(text([](quern_value& v, quern_node&) { v.uses = 1ull << 8; }), "a value uses bit 8, which is newer than this plugin");
  EXPECT_EQ(text([](quern_value&, quern_node& n) { n.op_revision = 2; }), "neg is asked for in revision 2, this plugin knows up to 1");
  std::set<std::string> reasons;  // every known bit has one of its own
  for (const unsigned bit : {0u, 1u, 3u, 4u, 5u, 6u, 7u}) {
    reasons.insert(text([&](quern_value& v, quern_node&) { v.uses = 1ull << bit; }));
  }
  EXPECT_EQ(reasons.size(), 7u);
  EXPECT_EQ(reasons.count(""), 0u);
}

TEST(SdkTexts, KeepOneCopyOfEachTextInPlace) {
  sdk::Texts texts;
  const quern_string a = texts.keep("why not");
  for (int i = 0; i < 100; ++i) texts.keep(std::to_string(i));
  EXPECT_EQ(texts.keep("why not").data, a.data);
}

TEST(SdkProcess, RefusesAfterFork) {
  const sdk::Process process;
  EXPECT_EQ(status_of([&] { process.check(); }), QUERN_OK);
  const pid_t child = fork();
  if (child == 0) _exit(status_of([&] { process.check(); }) == QUERN_FORKED ? 0 : 1);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

}  // namespace
