// Every place that allocates, made to fail: in each run of a whole life (runtime, model, session, generate, save, restore, tensors,
// release) one allocation returns null. Nothing may abort, the call must say that memory ran out, nothing may leak, and the same call
// must succeed when it is made once more.
//
// usage: allocation_failure_test MODEL PLUGIN_FOLDER [--readers | --training | --full-training] [--every | --share N | --only N]
//                                [--backend ID]
//   --readers: another life, of the calls that read and write JSON and list folders. They are a plugin's kept probe result, the device
//   list, the file of a model, an estimate, a chat whose template has macros, and the caches of pulled models. Probes run in another process.
//   --training: the life of a trainer: create, steps, save, resume, the result. Where the update of a step failed, another trainer resumes.
//   --full-training: the same, of all weights in bf16 over packed examples.
//   --share N: each N-th place alone. --only N: allocation N of the main thread fails, in this process, for a debugger.
//   --backend: another one than the CPU's, and only allocations on its plugin's behalf fail, none of the driver's: a driver of tests is given
//   by LD_LIBRARY_PATH.
//   Without --every the first allocation of each distinct call stack fails, which is every place on every way to it; with it, each
//   allocation of a run in turn (minutes). Each failure runs in a process of its own, so that an abort is counted, not fatal.
#include "life.hpp"

#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string_view>
#include <utility>

namespace {

using namespace quern::test::allocations;

/// What is asked for.
struct Lives {
  Subject subject;
  std::unique_ptr<Life> (*of)(const Subject&) = life_of_sessions;
  bool of_plugin_alone = false, every = false;
  std::uint64_t share = 1, only = never;

  std::unique_ptr<Life> make() const { return of(subject); }
};

Lives read_arguments(int argc, char** argv) {
  Lives lives;
  lives.subject.model = argv[1];
  lives.subject.plugins = argv[2];
  for (int i = 3; i < argc; ++i) {
    const std::string_view word = argv[i];
    const char* const next = i + 1 < argc ? argv[i + 1] : nullptr;
    if (word == "--every") lives.every = true;
    if (word == "--readers") lives.of = life_of_readers;
    if (word == "--training") lives.of = life_of_training;
    if (word == "--full-training") lives.of = life_of_full_training;
    if (word == "--share" && next != nullptr) lives.share = std::strtoull(next, nullptr, 10);
    if (word == "--only" && next != nullptr) lives.only = std::strtoull(next, nullptr, 10);
    if (word == "--backend" && next != nullptr) {
      lives.subject.backend = next;
      lives.of_plugin_alone = true;
    }
  }
  return lives;
}

std::string words_of(const Stack& stack) {
  std::string text;
  for (int i = 0; i < stack.depth; ++i) {
    Dl_info info{};
    dladdr(reinterpret_cast<void*>(stack.frames[i]), &info);
    char line[400];
    const char* slash = info.dli_fname == nullptr ? nullptr : std::strrchr(info.dli_fname, '/');
    std::snprintf(line, sizeof line, "    %s+0x%zx %s\n", slash == nullptr ? "?" : slash + 1,
                  static_cast<std::size_t>(stack.frames[i] - reinterpret_cast<std::uintptr_t>(info.dli_fbase)),
                  info.dli_sname == nullptr ? "" : info.dli_sname);
    text += line;
  }
  return text;
}

/// Where an allocation is made for the plugin that is under test, by itself or what it calls, but not by its driver.
bool is_of_plugin(const Stack& stack, const std::string& backend) {
  static std::map<std::uintptr_t, std::string> files;
  const std::string plugin = "libbackend_" + backend;
  bool its = false;
  for (int i = 0; i < stack.depth; ++i) {
    const auto [file, is_new] = files.try_emplace(stack.frames[i]);
    if (Dl_info info{}; is_new && dladdr(reinterpret_cast<void*>(stack.frames[i]), &info) != 0 && info.dli_fname != nullptr)
      file->second = std::string(info.dli_fname).substr(std::string(info.dli_fname).rfind('/') + 1);
    if (file->second.starts_with("libcuda")) return false;
    its |= file->second.starts_with(plugin);
  }
  return its;
}

enum : int { child_ok = 0, child_trouble = 1, child_no_failure = 3, child_absorbed = 4 };

/// Bytes that a library beyond Quern keeps of each life (cuBLASLt of a handle that was destroyed); a call that is made once more has two.
std::int64_t kept_by_others = 0;

/// In a process of its own. A failure that no call noticed is fine where all results are right.
int child(const Lives& lives, std::uint64_t main_index, std::uint64_t other_index, const Results& expected) {
  std::int64_t grown[2] = {};
  bool noticed = false;
  for (int round = 0; round < 2; ++round) {
    const std::unique_ptr<Life> life = lives.make();
    const std::int64_t before = live;
    main_count = 0;
    other_count = 0;
    has_failed = false;
    failed.depth = 0;
    fail_main = main_index;
    fail_other = other_index;
    life->run();
    fail_main = fail_other = never;
    if (!has_failed) return round == 0 ? child_no_failure : child_ok;
    noticed |= life->first_failure != QUERN_OK;
    if (life->trouble.empty() && life->results != expected) life->trouble = "other results than without a failure";
    if (!life->trouble.empty()) {
      std::fprintf(stderr, "allocation %lld: %s\n%s", static_cast<long long>(main_index == never ? other_index : main_index),
                   life->trouble.c_str(), words_of(failed).c_str());
      return child_trouble;
    }
    life->results = {};
    life->trouble.clear();
    life->trouble.shrink_to_fit();
    grown[round] = live - before;
    if (grown[0] <= 2 * kept_by_others) return noticed ? child_ok : child_absorbed;  // what is kept for the process is made once
  }
  if (grown[1] <= 2 * kept_by_others) return noticed ? child_ok : child_absorbed;
  std::fprintf(stderr, "allocation %lld: %lld bytes are not freed\n%s",
               static_cast<long long>(main_index == never ? other_index : main_index), static_cast<long long>(grown[1]),
               words_of(failed).c_str());
  return child_trouble;
}

/// Lives without a failure, which make what is made once a process. False where they are not as they should be.
bool warm_up(const Lives& lives, Results& expected) {
  for (int warm = 0; warm < 3; ++warm) {
    const std::unique_ptr<Life> life = lives.make();
    const std::int64_t before = live;
    life->run();
    if (!life->trouble.empty() || life->first_failure != QUERN_OK) {
      std::fprintf(stderr, "without any failure: %s\n", life->trouble.c_str());
      return false;
    }
    expected = life->results;
    life->results = {};
    if (lives.of_plugin_alone) kept_by_others = std::max<std::int64_t>(0, live - before);
    if (kept_by_others > 256 && warm == 2) {
      std::fprintf(stderr, "without any failure %lld bytes are not freed\n", static_cast<long long>(kept_by_others));
      return false;
    }
  }
  return true;
}

/// All allocations of one life.
struct Recording {
  std::vector<Stack> main, others;
};

Recording record(const Lives& lives) {
  Recording made;
  made.main.reserve(4 << 20);
  made.others.reserve(1 << 20);
  main_count = 0;
  other_count = 0;
  const std::unique_ptr<Life> life = lives.make();
  recorded = &made.main;
  recorded_other = &made.others;
  life->run();
  recorded = nullptr;
  recorded_other = nullptr;
  return made;
}

/// Which of them are to fail.
std::vector<std::uint64_t> choose(const Lives& lives, const std::vector<Stack>& all) {
  std::map<std::vector<std::uintptr_t>, std::uint64_t> places;  // of each stack, its first allocation
  std::vector<std::uint64_t> chosen;
  for (std::uint64_t i = 0; i < all.size(); ++i)
    if ((!lives.of_plugin_alone || is_of_plugin(all[i], lives.subject.backend)) &&
        (places.emplace(std::vector<std::uintptr_t>(all[i].frames, all[i].frames + all[i].depth), i).second || lives.every))
      chosen.push_back(i);
  std::uint64_t place = 0;
  std::erase_if(chosen, [&](std::uint64_t) { return place++ % lives.share != 0; });
  return chosen;
}

/// Runs one child for each failure, as many at once as there are processors.
class Children {
 public:
  std::uint64_t noticed = 0, absorbed = 0, missed = 0, bad = 0;

  Children(const Lives& lives, const Recording& all, const Results& expected) : lives_(lives), all_(all), expected_(expected) {}

  void start(std::uint64_t index, bool main) {
    while (static_cast<long>(running_.size()) >= parallel_) reap();
    const pid_t process = fork();
    if (process == 0) {
      alarm(60);  // a hang is a failure
      _exit(child(lives_, main ? index : never, main ? never : index, expected_));
    }
    running_[process] = {index, main};
  }
  void finish() {
    while (!running_.empty()) reap();
  }

 private:
  void reap() {
    int status = 0;
    const pid_t ended = wait(&status);
    const auto [index, main] = running_.at(ended);
    running_.erase(ended);
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    if (code == child_ok) ++noticed;
    else if (code == child_absorbed) ++absorbed;
    else if (code == child_no_failure) ++missed;
    else ++bad;
    if (WIFSIGNALED(status) || code > 4) {
      std::fprintf(stderr, "allocation %llu%s ended the process: %s\n", static_cast<unsigned long long>(index),
                   main ? "" : " of the other threads", WIFSIGNALED(status) ? strsignal(WTERMSIG(status)) : "exit");
      std::fputs(words_of((main ? all_.main : all_.others)[index]).c_str(), stderr);
    }
  }

  const Lives& lives_;
  const Recording& all_;
  const Results& expected_;
  const long parallel_ = std::max(1l, sysconf(_SC_NPROCESSORS_ONLN));
  std::map<pid_t, std::pair<std::uint64_t, bool>> running_;
};

}  // namespace

int main(int argc, char** argv) {
  is_main = true;
  if (argc < 3) {
    std::fprintf(stderr, "usage: %s MODEL PLUGIN_FOLDER [--readers | --training | --full-training] [--every]\n", argv[0]);
    return 2;
  }
  Lives lives = read_arguments(argc, argv);
  char folder[] = "/tmp/quern-allocations-XXXXXX";
  if (mkdtemp(folder) == nullptr) return 2;
  lives.subject.cache = folder;
  if (!make_subject(lives.subject)) return 2;

  Results expected;
  if (!warm_up(lives, expected)) return 1;
  if (lives.only != never) return child(lives, lives.only, never, expected);
  const Recording all = record(lives);
  const std::vector<std::uint64_t> chosen = choose(lives, all.main), chosen_other = choose(lives, all.others);
  std::fprintf(stderr, "%zu allocations, and %zu on other threads; %zu runs\n", all.main.size(), all.others.size(),
               chosen.size() + chosen_other.size());

  Children children(lives, all, expected);
  for (const std::uint64_t index : chosen) children.start(index, true);
  for (const std::uint64_t index : chosen_other) children.start(index, false);
  children.finish();
  std::fprintf(stderr, "%llu said so, %llu were absorbed with the right results, %llu did not happen, %llu went wrong\n",
               static_cast<unsigned long long>(children.noticed), static_cast<unsigned long long>(children.absorbed),
               static_cast<unsigned long long>(children.missed), static_cast<unsigned long long>(children.bad));
  const std::string remove = "rm -rf " + lives.subject.cache;
  if (std::system(remove.c_str()) != 0) return 2;
  // Threads may take turns otherwise than in the recorded run, so that a last allocation of theirs may not come.
  if (children.missed > all.others.size() / 2 + 2 || children.noticed < 100) {
    std::fprintf(stderr, "too few failures happened for this to prove anything\n");
    return 1;
  }
  return children.bad == 0 ? 0 : 1;
}
