// Random operations on sequences that share pages, each sequence against one of its own: what they draw, and all keys and values that they hold.
//
// usage: sequence_operations WHERE tenants COUNT [SEED]
//        sequence_operations WHERE operations COUNT [SEED]
//   tenants     COUNT random interleavings of copies, cuts, appends and new prompts of two sequences with a common prompt of 1,000 tokens
//   operations  COUNT operations over six short sequences: those, and batches, evaluations, saves, restores, calls that fail or are cancelled
//   WHERE       a device, "cpu:0", "vulkan:0" or "cuda:0", or backends: "buffered" is the CPU behind buffers, "sample,cpu" two plugins that share a model
//
// Sequences "of their own" are those of a second session, which never copies nor restores: what a sequence shall hold is given to it as a prompt. Steps are invariant to their rows (QUERN_DETERMINISTIC_ON), so that texts,
// log-probabilities and saved bytes must be equal bit by bit, however prompts were cut into steps. Exits with 77 where there is no such device,
// unless CI=true.
#include "quern.h"

#include "support/gguf_writer.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <random>
#include <span>
#include <string>
#include <vector>

namespace {

using Ids = std::vector<std::int32_t>;
using Bytes = std::vector<std::byte>;

constexpr int skipped = 77;

[[noreturn]] void fail(const std::string& what) {
  std::fprintf(stderr, "sequence_operations: %s\n", what.c_str());
  std::exit(1);
}
void must(quern_status status, const char* what) {
  if (status != QUERN_OK) fail(std::string(what) + ": " + quern_last_error());
}

struct Drawn {
  Ids ids;
  std::vector<float> logprobs;
  bool operator==(const Drawn& o) const {
    return ids == o.ids && std::ranges::equal(std::as_bytes(std::span(logprobs)), std::as_bytes(std::span(o.logprobs)));
  }
};

std::string words_of(const Drawn& drawn) {
  std::string words;
  for (std::size_t i = 0; i < drawn.ids.size(); ++i) {
    char logprob[32] = "";
    if (i < drawn.logprobs.size()) std::snprintf(logprob, sizeof logprob, " (%.9g)", static_cast<double>(drawn.logprobs[i]));
    words += (i == 0 ? "" : ", ") + std::to_string(drawn.ids[i]) + logprob;
  }
  return words;
}

/// What one sequence of a call shall read and draw.
struct Turn {
  std::uint32_t sequence;
  Ids prompt;
  bool append;
  std::uint64_t count;
  bool logprobs;
};

class Session {
 public:
  Session(quern_model* model, std::uint32_t sequences) {
    quern_session_options options{};
    options.struct_size = sizeof options;
    options.sequences = sequences;
    must(quern_session_create(model, &options, &handle_), "a session");
  }
  ~Session() { quern_session_release(handle_); }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  quern_session* get() const { return handle_; }

  quern_status generate(const std::vector<Turn>& turns, std::vector<Drawn>* drawn, const quern_sampling* sampling = nullptr,
                        quern_token_callback on_token = nullptr) const {
    std::vector<quern_request> requests;
    for (const Turn& turn : turns) {
      quern_request& r = requests.emplace_back();
      r.struct_size = sizeof r;
      r.prompt = turn.prompt.data();
      r.prompt_count = turn.prompt.size();
      r.sequence = turn.sequence;
      r.flags = turn.append ? QUERN_REQUEST_APPEND : 0;
      r.max_tokens = turn.count;
      r.ignore_end = 1;
      r.logprobs = turn.logprobs ? 1 : 0;
      r.sampling = sampling;
      r.on_token = on_token;
      r.user = handle_;
    }
    quern_generation* generation = nullptr;
    const quern_status status = quern_generate(handle_, requests.data(), requests.size(), &generation);
    for (std::size_t i = 0; generation != nullptr && drawn != nullptr && i < turns.size(); ++i) {
      quern_answer_info info{};
      info.struct_size = sizeof info;
      must(quern_generation_answer(generation, i, &info), "an answer");
      Drawn& d = drawn->emplace_back();
      d.ids.assign(info.ids, info.ids + info.id_count);
      if (info.logprobs != nullptr) d.logprobs.assign(info.logprobs, info.logprobs + info.id_count);
    }
    quern_generation_release(generation);
    return status;
  }
  std::uint64_t length(std::uint32_t sequence) const {
    std::uint64_t held = 0;
    must(quern_sequence_length(handle_, sequence, &held), "a length");
    return held;
  }
  void cut(std::uint32_t sequence, std::uint64_t length) const { must(quern_sequence_truncate(handle_, sequence, length), "a cut"); }
  Bytes saved() const {
    std::uint64_t size = 0;
    must(quern_session_save(handle_, nullptr, 0, &size), "a saved size");
    Bytes bytes(size);
    must(quern_session_save(handle_, bytes.data(), size, &size), "a save");
    return bytes;
  }

 private:
  quern_session* handle_ = nullptr;
};

/// The shared session, the one that never copies, and what each sequence holds.
class Pair {
 public:
  Pair(quern_model* model, std::uint32_t sequences, std::uint64_t context)
      : shared_(model, sequences), own_(model, sequences), held_(sequences), context_(context) {}

  std::uint32_t sequences() const { return static_cast<std::uint32_t>(held_.size()); }
  std::uint64_t room(std::uint32_t sequence) const { return context_ - held_[sequence].size(); }
  const Ids& held(std::uint32_t sequence) const { return held_[sequence]; }

  void copy(std::uint32_t from, std::uint32_t to) {
    must(quern_sequence_copy(shared_.get(), from, to), "a copy");
    held_[to] = Ids(held_[from]);
    ++counts.copies;
  }
  void cut(std::uint32_t sequence, std::uint64_t length) {
    shared_.cut(sequence, length);
    held_[sequence].resize(length);
    ++counts.cuts;
  }
  /// Both draw; the second as from a prompt that is all that the sequence holds.
  void draw(std::vector<Turn> turns) {
    std::vector<Drawn> drawn, expected;
    must(shared_.generate(turns, &drawn), "generate");
    for (std::size_t i = 0; i < turns.size(); ++i) {
      Turn& turn = turns[i];
      Ids all = turn.append ? held_[turn.sequence] : Ids{};
      all.insert(all.end(), turn.prompt.begin(), turn.prompt.end());
      must(own_.generate({{turn.sequence, all, false, turn.count, turn.logprobs}}, &expected), "generate alone");
      if (drawn[i] != expected[i])
        fail("operation " + std::to_string(counts.all()) + ": sequence " + std::to_string(turn.sequence) + " of " +
             std::to_string(all.size()) + " tokens, one of " + std::to_string(turns.size()) +
             ", drew other tokens or log-probabilities than alone: " + words_of(drawn[i]) + " and " + words_of(expected[i]));
      all.insert(all.end(), drawn[i].ids.begin(), drawn[i].ids.end() - 1);  // the last one is not read
      held_[turn.sequence] = std::move(all);
      ++counts.draws;
    }
  }
  /// The call does not come to its end; what the sequence holds then is cut to what it held.
  void fail_in_between(const Turn& turn, bool cancels) {
    static const std::vector<quern_logit_bias> biases(600, {5, 1.0f});  // more than a step takes
    quern_sampling sampling{};
    sampling.struct_size = sizeof sampling;
    sampling.bias = biases.data();
    sampling.bias_count = biases.size();
    const quern_token_callback cancel = [](void* session, const quern_token_event*) {
      quern_cancel(static_cast<quern_session*>(session));
      return 0;
    };
    const quern_status status = shared_.generate({turn}, nullptr, cancels ? nullptr : &sampling, cancels ? cancel : nullptr);
    if (status != (cancels ? QUERN_OK : QUERN_INVALID_ARGUMENT)) fail(std::string("a call that shall end early: ") + quern_last_error());
    if (shared_.length(turn.sequence) < held_[turn.sequence].size()) fail("a call that ended early took tokens away");
    shared_.cut(turn.sequence, held_[turn.sequence].size());
    ++counts.ended;
  }
  void evaluate(std::uint32_t sequence, const Ids& ids) {
    quern_evaluation* evaluation = nullptr;
    must(quern_evaluate(shared_.get(), sequence, ids.data(), ids.size(), 0, &evaluation), "evaluate");
    quern_evaluation_release(evaluation);
    held_[sequence] = ids;
    ++counts.evaluations;
  }
  void save() {
    state_ = shared_.saved();
    state_held_ = held_;
    ++counts.saves;
  }
  void restore() {
    if (state_.empty()) return;
    must(quern_session_restore(shared_.get(), state_.data(), state_.size()), "restore");
    held_ = state_held_;
    ++counts.restores;
  }
  /// All keys and values that the sequences hold are those of sequences of their own.
  void compare() {
    for (std::uint32_t s = 0; s < sequences(); ++s) {
      if (held_[s].empty()) own_.cut(s, 0);
      else must(own_.generate({{s, held_[s], false, 1, false}}, nullptr), "generate alone");
    }
    if (shared_.saved() != own_.saved())
      fail("operation " + std::to_string(counts.all()) + ": keys or values are not those of sequences of their own");
    ++counts.comparisons;
  }

  struct Counts {
    std::uint64_t copies = 0, cuts = 0, draws = 0, ended = 0, evaluations = 0, saves = 0, restores = 0, comparisons = 0;
    std::uint64_t all() const { return copies + cuts + draws + ended + evaluations + saves + restores; }
  } counts;

 private:
  Session shared_, own_;
  std::vector<Ids> held_, state_held_;
  Bytes state_;
  std::uint64_t context_;
};

class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}
  std::uint64_t below(std::uint64_t n) { return engine_() % n; }
  std::uint64_t among(std::uint64_t least, std::uint64_t most) { return least + below(most - least + 1); }
  Ids ids(std::uint64_t count) {
    Ids result;
    for (std::uint64_t i = 0; i < count; ++i) result.push_back(static_cast<std::int32_t>(below(300)));
    return result;
  }

 private:
  std::mt19937_64 engine_;
};

/// Near the end, as an edit of the last turn is; now and then anywhere, which costs the sequence of its own a whole prompt.
std::uint64_t cut_point(Random& random, std::uint64_t held) {
  return random.below(32) == 0 ? random.below(held + 1) : held - random.below(std::min<std::uint64_t>(held, 60) + 1);
}

/// Drops what goes beyond the context: a prompt's end, or the whole turn.
bool fits(const Pair& pair, Turn& turn) {
  const std::uint64_t held = turn.append ? pair.held(turn.sequence).size() : 0,
                      room = pair.room(turn.sequence) + (turn.append ? 0 : pair.held(turn.sequence).size());
  if (turn.prompt.size() + turn.count > room) return false;
  return held + turn.prompt.size() > 0;
}

Turn random_append(Random& random, std::uint32_t sequence, std::uint64_t most) {
  return {sequence, random.ids(random.below(8) == 0 ? 0 : random.among(1, most)), true, random.among(1, 6), random.below(2) == 0};
}

void tenants(quern_model* model, std::uint64_t interleavings, Random& random, std::uint64_t context) {
  Pair pair(model, 3, context);
  const Ids prompt = random.ids(1000);
  pair.draw({{2, prompt, false, 1, false}});  // it keeps the prompt, and all begin as its copies
  for (std::uint64_t i = 0; i < interleavings; ++i) {
    const auto first = static_cast<std::uint32_t>(random.below(2));
    pair.copy(2, first);
    pair.copy(random.below(2) == 0 ? 2 : first, 1 - first);
    for (std::uint64_t operations = random.among(3, 6); operations > 0; --operations) {
      const auto s = static_cast<std::uint32_t>(random.below(2));
      Turn turn = random_append(random, s, 5);
      switch (random.below(6)) {
        case 0: pair.copy(s, 1 - s); break;
        case 1:
        case 2: pair.cut(s, cut_point(random, pair.held(s).size())); break;
        case 3: {  // the other start of a prompt: what is common is kept
          const Ids& held = pair.held(s);
          Ids changed(held.begin(), held.begin() + static_cast<std::ptrdiff_t>(cut_point(random, held.size())));
          changed.insert(changed.end(), turn.prompt.begin(), turn.prompt.end());
          turn.prompt = std::move(changed);
          turn.append = false;
          [[fallthrough]];
        }
        default:
          if (fits(pair, turn)) pair.draw({turn});
      }
    }
    for (std::uint32_t s = 0; s < 2; ++s) {  // both go on
      Turn turn{s, random.ids(1), true, 2, true};
      if (fits(pair, turn)) pair.draw({turn});
    }
    if (i % 16 == 15) pair.compare();
  }
  pair.draw({{2, {5}, true, 2, true}});
  pair.compare();
  std::printf("%llu interleavings: %llu copies, %llu cuts and %llu texts as alone, %llu comparisons of all keys and values\n",
              static_cast<unsigned long long>(interleavings), static_cast<unsigned long long>(pair.counts.copies),
              static_cast<unsigned long long>(pair.counts.cuts), static_cast<unsigned long long>(pair.counts.draws),
              static_cast<unsigned long long>(pair.counts.comparisons));
}

void operations(quern_model* model, std::uint64_t count, Random& random, std::uint64_t context) {
  constexpr std::uint32_t sequences = 6;
  Pair pair(model, sequences, context);
  std::uint64_t compared = 0;
  while (pair.counts.all() < count) {
    const auto s = static_cast<std::uint32_t>(random.below(sequences));
    Turn turn = random_append(random, s, 30);
    switch (random.below(20)) {
      case 0:
      case 1:
      case 2:
      case 3:
      case 4:
      case 5: pair.copy(s, static_cast<std::uint32_t>(random.below(sequences))); break;
      case 6:
      case 7:
      case 8:
      case 9:
      case 10: pair.cut(s, cut_point(random, pair.held(s).size())); break;
      case 11:
        turn.append = false;
        if (fits(pair, turn)) pair.draw({turn});
        break;
      case 12:
      case 13: {  // all of a batch
        std::vector<Turn> turns;
        for (std::uint32_t each = 0; each < sequences; ++each) {
          Turn one = random_append(random, each, 10);
          if (random.below(2) == 0 && fits(pair, one)) turns.push_back(std::move(one));
        }
        if (!turns.empty()) pair.draw(std::move(turns));
        break;
      }
      case 14:
        if (fits(pair, turn)) pair.fail_in_between(turn, random.below(2) == 0);
        break;
      case 15:
        if (!turn.prompt.empty()) pair.evaluate(s, turn.prompt);
        break;
      case 16: pair.save(); break;
      case 17: pair.restore(); break;
      default:
        if (fits(pair, turn)) pair.draw({turn});
    }
    if (pair.counts.all() / 32 > compared) {
      compared = pair.counts.all() / 32;
      pair.compare();
    }
  }
  pair.compare();
  const auto& c = pair.counts;
  std::printf(
      "%llu operations: %llu copies, %llu cuts, %llu texts as alone, %llu calls that ended early, %llu evaluations, %llu saves, %llu restores, %llu comparisons of all keys and values\n",
      static_cast<unsigned long long>(c.all()), static_cast<unsigned long long>(c.copies), static_cast<unsigned long long>(c.cuts),
      static_cast<unsigned long long>(c.draws), static_cast<unsigned long long>(c.ended), static_cast<unsigned long long>(c.evaluations),
      static_cast<unsigned long long>(c.saves), static_cast<unsigned long long>(c.restores),
      static_cast<unsigned long long>(c.comparisons));
}

/// Two layers of one head with random weights, behind the micro model's vocabulary: as little work as shows whose keys and values are read. A file
/// that goes with the object.
class SmallModel {
 public:
  explicit SmallModel(std::uint32_t context) {
    std::string pattern = (std::filesystem::temp_directory_path() / "quern-sequences-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) fail("no temporary folder can be made");
    folder_ = pattern;
    auto writer =
        quern::test::GgufWriter::copy_of(quern::gguf::File::open(std::string(QUERN_SOURCE_DIR) + "/tests/data/gguf/micro-llama-f32.gguf"));
    writer.tensors().clear();
    writer.u32("llama.context_length", context)
        .u32("llama.block_count", layers)
        .u32("llama.embedding_length", size)
        .u32("llama.feed_forward_length", size);
    writer.u32("llama.attention.head_count", 1).u32("llama.attention.head_count_kv", 1).u32("llama.rope.dimension_count", size);
    writer.u32("llama.attention.key_length", size).u32("llama.attention.value_length", size);
    std::mt19937 random(1);
    const auto matrix = [&](const std::string& name, std::uint64_t rows) {
      std::vector<float> values;
      for (std::uint64_t i = 0; i < rows * size; ++i)
        values.push_back((static_cast<float>(random() >> 8) / (1 << 24) - 0.5f) * 0.6f);  // rows of length 1
      writer.tensor_f32(name, {size, rows}, values);
    };
    const auto norm = [&](const std::string& name) { writer.tensor_f32(name, {size}, std::vector<float>(size, 1.0f)); };
    matrix("token_embd.weight", 320);
    for (std::uint32_t layer = 0; layer < layers; ++layer) {
      const std::string block = "blk." + std::to_string(layer) + ".";
      for (const char* name : {"attn_norm", "ffn_norm"}) norm(block + name + ".weight");
      for (const char* name : {"attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"})
        matrix(block + name + ".weight", size);
    }
    norm("output_norm.weight");
    matrix("output.weight", 320);
    writer.write(folder_ / "model.gguf");
  }
  ~SmallModel() {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  SmallModel(const SmallModel&) = delete;
  SmallModel& operator=(const SmallModel&) = delete;
  std::string path() const { return (folder_ / "model.gguf").string(); }

 private:
  static constexpr std::uint32_t size = 32, layers = 2;
  std::filesystem::path folder_;
};

}  // namespace

int main(int argc, char** argv) {
  const std::string kind = argc > 2 ? argv[2] : "";
  if (argc < 4 || argc > 5 || (kind != "tenants" && kind != "operations")) {
    std::fprintf(stderr, "usage: sequence_operations WHERE tenants|operations COUNT [SEED]\n");
    return 2;
  }
  const std::uint64_t count = std::strtoull(argv[3], nullptr, 10);
  Random random(argc == 5 ? std::strtoull(argv[4], nullptr, 10) : 30);
  const std::uint64_t context = kind == "tenants" ? 1400 : 256;
  const SmallModel file(2048);

  quern_runtime_options options{};
  options.struct_size = sizeof options;
  options.ignore_environment = 1;
  (std::strchr(argv[1], ':') == nullptr ? options.backend : options.device) = argv[1];
  options.backend_extra_path = QUERN_BUFFERED_DIRECTORY ":" QUERN_QUEUED_DIRECTORY ":" QUERN_SAMPLE_DIRECTORY;
  options.deterministic = QUERN_DETERMINISTIC_ON;
  quern_runtime* runtime = nullptr;
  must(quern_runtime_create(&options, &runtime), "the runtime");
  const char* ci = std::getenv("CI");
  if (quern_runtime_ready(runtime) != QUERN_OK) {
    std::fprintf(stderr, "%s\n", quern_last_error());
    quern_runtime_release(runtime);
    return ci != nullptr && std::strcmp(ci, "true") == 0 ? 1 : skipped;
  }
  quern_model_options model_options{};
  model_options.struct_size = sizeof model_options;
  model_options.context = context;
  model_options.sequences = 6;
  quern_model* model = nullptr;
  must(quern_model_load(runtime, file.path().c_str(), &model_options, &model), "the model");
  quern_runtime_release(runtime);
  (kind == "tenants" ? tenants : operations)(model, count, random, context);
  quern_model_release(model);
  return 0;
}
