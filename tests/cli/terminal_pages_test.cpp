// Pages and pictures of characters: the doctor's page, the monitor's screen, trees, bars; and what the doctor's model must compute.
#include "monitor_screen.hpp"
#include "page_view.hpp"
#include "text_charts.hpp"
#include "tiny_model.hpp"

#include "quern/base/terminal_output.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace quern::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(PageView, LinesAreWrappedAtWordsBehindTheirMarkOrIndentation) {
  EXPECT_THAT(wrapped_lines("[ok] one two three four\n  What to do: one two\n\nshort\n", 15),
              ElementsAre("[ok] one two", "     three four", "  What to do:", "    one two", "", "short"));
  EXPECT_THAT(wrapped_lines("a/path/that/is/longer/than/the/window next", 12),
              ElementsAre("a/path/that/is/longer/than/the/window", "  next"));
  EXPECT_THAT(wrapped_lines("zwölf äöü", 9), ElementsAre("zwölf äöü"));  // columns, not bytes
}

TEST(TextCharts, BarsAndSparklinesTakeWhateverNumberComes) {
  EXPECT_EQ(text_bar(0.5, 12), "[#####.....]");
  EXPECT_EQ(text_bar(7, 6), "[####]");
  EXPECT_EQ(text_bar(NAN, 6), "[....]");
  EXPECT_EQ(sparkline(std::vector{0.0, 4.0, 8.0, 99.0}, 8, 3, true), "▅██");
  EXPECT_EQ(sparkline(std::vector{0.0, 4.0, std::numeric_limits<double>::infinity()}, 0, 9, false), "___");
}

TEST(TextCharts, ATreeHasBranchesOfTheLocale) {
  const TreeNode root{"r", {{"a", {{"b", {}}}}, {"c", {}}}};
  EXPECT_EQ(tree_text(root, true), "r\n├─ a\n│  └─ b\n└─ c\n");
  EXPECT_EQ(tree_text(root, false), "r\n|- a\n|  `- b\n`- c\n");
  const auto locale = [](std::string name, std::string value) {
    return [=](const char* asked) { return asked == name ? std::optional(value) : std::nullopt; };
  };
  EXPECT_TRUE(has_utf8(locale("LANG", "de_DE.UTF-8")));
  EXPECT_TRUE(has_utf8(locale("LC_ALL", "C.utf8")));
  EXPECT_FALSE(has_utf8(locale("LANG", "C")));
  EXPECT_FALSE(has_utf8([](const char*) { return std::optional<std::string>(); }));
}

TEST(MonitorScreen, HasBarsAndAHistoryOfEachCardAndProcessWithinTheWindow) {
  MonitorScreen screen(false);
  CardSample card;
  card.name = "A card with \x1b[31m" + std::string(100, 'x');
  card.busy_percent = 50;
  card.memory_total = 4 << 20;
  card.memory_used = 1 << 20;
  const ProcessSpeed process{{7, "m.gguf", 12}, 40.0};
  screen.rows({card}, "", {process}, 80);
  const std::vector<std::string> rows = screen.rows({card}, "", {process}, 80);
  ASSERT_EQ(rows.size(), 5u);
  for (const std::string& row : rows) EXPECT_LE(columns_of(row), 80u) << row;
  EXPECT_THAT(rows[0], HasSubstr("\\x1b[31m"));
  EXPECT_EQ(rows[1], "  busy    [##########..........]  50 %  ++");
  EXPECT_THAT(rows[2], HasSubstr("[#####...............] 1.0 MiB of 4.0 MiB"));
  EXPECT_EQ(rows[4], "  speed   40.0 tokens/s     ##");
  for (int i = 0; i < 200; ++i) EXPECT_LE(columns_of(screen.rows({card}, "", {process}, 200)[1]), 200u);
}

TEST(MonitorScreen, WithoutACardASentenceSaysWhy) {
  const std::vector<std::string> rows = MonitorScreen(true).rows({}, "the library is not there; install the driver", {}, 40);
  EXPECT_THAT(rows, ElementsAre("no GPU figures: the library is not", "  there; install the driver", "no quern process makes tokens"));
}

TEST(TinyModel, TheFileIsSmallAndTheSameEachTime) {
  const std::string file = tiny_model_file();
  EXPECT_EQ(file.substr(0, 4), "GGUF");
  EXPECT_LT(file.size(), 300'000u);
  EXPECT_EQ(file, tiny_model_file());
}

TEST(TinyModel, AWrongValueIsBeyondTheBoundAndOneThatIsNoneIsInfinitelyWrong) {
  const SmallProduct product = small_product();
  std::vector<float> y(product.y.begin(), product.y.end());
  EXPECT_LE(worst_share(product, y), 1);
  y[17] += 1e-3f;
  EXPECT_GT(worst_share(product, y), 1);
  y[17] = NAN;
  EXPECT_TRUE(std::isinf(worst_share(product, y)));
  std::vector<float> nll(tiny_model_nll.begin(), tiny_model_nll.end());
  EXPECT_LE(worst_nll(nll), tiny_model_tolerance / 100);
  nll[3] -= 2e-3f;
  EXPECT_GT(worst_nll(nll), tiny_model_tolerance);
  nll[3] = std::numeric_limits<float>::infinity();
  EXPECT_TRUE(std::isinf(worst_nll(nll)));
}

}  // namespace
}  // namespace quern::cli
