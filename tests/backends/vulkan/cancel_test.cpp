// A cancel is for the run that was submitted, though that waits for other work on the same device, and for nothing else.
#include "sample_fixture.hpp"

#include "support/asleep.hpp"

#include <csignal>
#include <cstring>
#include <sys/mman.h>

#include <atomic>
#include <thread>

namespace {

using namespace quern_test;

/// A page of numbers whose first reader waits, holding what it holds, until let_go(): the page cannot be read before, and the handler of that
/// signal waits. So a device is busy for as long as a test wants, however fast it is.
class HeldPage {
 public:
  explicit HeldPage(float number)
      : memory_(static_cast<float*>(::mmap(nullptr, size(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {
    std::fill_n(memory_, size() / sizeof(float), number);
    if (::pipe(reading_) != 0 || ::pipe(going_) != 0 || ::mprotect(memory_, size(), PROT_NONE) != 0)
      throw std::runtime_error("no pipes, or no page");
    held_ = this;
    struct sigaction hold {};
    hold.sa_sigaction = wait;
    hold.sa_flags = SA_SIGINFO;
    sigaction(SIGSEGV, &hold, &before_);
  }
  ~HeldPage() {
    sigaction(SIGSEGV, &before_, nullptr);
    for (const int end : {reading_[0], reading_[1], going_[0], going_[1]}) ::close(end);
    ::munmap(memory_, size());
  }
  HeldPage(const HeldPage&) = delete;
  HeldPage& operator=(const HeldPage&) = delete;

  const float* data() const { return memory_; }
  std::uint64_t count() const { return size() / sizeof(float); }
  void wait_for_a_reader() const {
    char byte = 0;
    EXPECT_EQ(::read(reading_[0], &byte, 1), 1);
  }
  void let_go() const { EXPECT_EQ(::write(going_[1], "", 1), 1); }

 private:
  static std::size_t size() { return static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)); }
  /// Calls of the system alone, as a handler may.
  static void wait(int, siginfo_t* fault, void*) {
    const auto offset = static_cast<char*>(fault->si_addr) - reinterpret_cast<char*>(held_->memory_);
    char byte = 0;
    if (offset < 0 || static_cast<std::size_t>(offset) >= size() || ::write(held_->reading_[1], "", 1) != 1 ||
        ::read(held_->going_[0], &byte, 1) != 1 || ::mprotect(held_->memory_, size(), PROT_READ) != 0)
      sigaction(SIGSEGV, &held_->before_, nullptr);  // a fault of another kind: again, and to its own end
  }

  inline static HeldPage* held_ = nullptr;
  float* memory_;
  int reading_[2] = {-1, -1}, going_[2] = {-1, -1};
  struct sigaction before_ {};
};

class VulkanCancel : public SampleTest {
 protected:
  static constexpr std::int64_t n = 384;

  void SetUp() override {
    quern_query query = zeroed<quern_query>(QUERN_TYPE_QUERY);
    quern_plugin_api table = zeroed<quern_plugin_api>(QUERN_TYPE_PLUGIN_API);
    ASSERT_EQ(sample_query()(&query, &table, error), QUERN_OK) << error.text();
    quern_plugin* asked = nullptr;
    ASSERT_EQ(table.create(&host.table, &asked, error), QUERN_OK) << error.text();
    quern_device* opened = nullptr;
    const bool none = table.device_open(asked, 0, &opened, error) != QUERN_OK;
    if (!none) table.device_close(opened, error);
    table.destroy(asked);
    if (none) GTEST_SKIP() << "no Vulkan device: " << error.text();
    SampleTest::SetUp();
  }

  Ready copy_of(const std::vector<float>& from, const quern_span& to) {
    GraphBuilder g;
    const auto x = g.value(QUERN_VALUE_INPUT, {4}), y = g.value(QUERN_VALUE_OUTPUT, {4});
    g.node(QUERN_OP_COPY, {x}, {y});
    return ready(g, {{x, holding(from)}, {y, to}});
  }
  /// A chain of products. On a processor 2000 take seconds, and are cut into parts between which a cancel is heard.
  Ready chain(int products) {
    GraphBuilder g;
    const auto x = g.value(QUERN_VALUE_INPUT, {n, n}), w = g.value(QUERN_VALUE_CONSTANT, {n, n});
    const std::uint32_t between[2] = {g.value(QUERN_VALUE_INTERNAL, {n, n}), g.value(QUERN_VALUE_INTERNAL, {n, n})};
    const auto y = g.value(QUERN_VALUE_OUTPUT, {n, n});
    for (int i = 0; i < products; ++i)
      g.node(QUERN_OP_MATMUL, {i == 0 ? x : between[(i + 1) % 2], w}, {i + 1 == products ? y : between[i % 2]});
    const std::vector<float> zeros(n * n, 0);
    return ready(g, {{x, holding(zeros)}, {w, holding(zeros)}, {y, holding(zeros)}});
  }
  /// As run(), from another thread than the test's.
  quern_status outcome_of(const Ready& r) {
    quern_run_status status = zeroed<quern_run_status>(QUERN_TYPE_RUN_STATUS);
    quern_run run = run_of(r);
    run.status = &status;
    const quern_array runs = {&run, 1, sizeof run};
    const quern_status submitted = api.submit(device, nullptr, &runs, nullptr);
    return submitted != QUERN_OK ? submitted : status.code;
  }
};

TEST_F(VulkanCancel, ReachesARunThatWaitsForOtherWorkOnTheSameDevice) {
  const std::vector<float> numbers = {1, 2, 3, 4}, zeros(4, 0);
  const quern_span to = holding(zeros);
  const Ready r = copy_of(numbers, to);
  ASSERT_EQ(r.prepared, QUERN_OK);
  const HeldPage page(7);
  const quern_span uploaded = buffer(page.count() * sizeof(float));
  quern_status of_upload = QUERN_INTERNAL, of_run = QUERN_INTERNAL;
  std::thread uploading([&] { of_upload = api.upload(device, nullptr, &uploaded, page.data(), uploaded.bytes, nullptr, nullptr); });
  page.wait_for_a_reader();  // it has the device now
  std::atomic<pid_t> submitting{0};
  std::thread waiting([&] {
    submitting = gettid();
    of_run = outcome_of(r);
  });
  while (submitting == 0) std::this_thread::yield();
  quern::test::wait_until_asleep(submitting);  // it waits for the device
  EXPECT_EQ(api.run_cancel(r.instance, nullptr), QUERN_OK);
  page.let_go();
  uploading.join();
  waiting.join();
  EXPECT_EQ(of_upload, QUERN_OK);
  EXPECT_EQ(contents(uploaded), std::vector<float>(page.count(), 7));
  EXPECT_EQ(of_run, QUERN_CANCELLED);
  EXPECT_EQ(contents(to), zeros);
  EXPECT_EQ(outcome_of(r), QUERN_OK);  // the next is free
  EXPECT_EQ(contents(to), numbers);
  EXPECT_EQ(api.run_cancel(r.instance, nullptr), QUERN_OK);
  EXPECT_EQ(outcome_of(r), QUERN_OK) << "a cancel of an idle instance is nothing";
  drop(r);
}

TEST_F(VulkanCancel, EndsARunUnderWay) {
  // Asked again and again, so that one comes while the device computes; a device that was faster than that gets twice the work.
  quern_status outcome = QUERN_OK;
  for (int products = 2000; outcome == QUERN_OK; products *= 2) {
    ASSERT_LE(products, 128000) << "a run of seconds was never cancelled";
    const Ready r = chain(products);
    ASSERT_EQ(r.prepared, QUERN_OK);
    std::atomic<bool> done{false};
    std::thread running([&] {
      outcome = outcome_of(r);
      done = true;
    });
    while (!done) {
      EXPECT_EQ(api.run_cancel(r.instance, nullptr), QUERN_OK);
      std::this_thread::yield();
    }
    running.join();
    drop(r);
  }
  EXPECT_EQ(outcome, QUERN_CANCELLED);
}

}  // namespace
