#include "browser/pages.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace tril::testing {

std::string output_folder() {
  const char* given = std::getenv("TRIL_BROWSER_OUTPUT");
  const std::string folder = given == nullptr ? "browser-output" : given;
  std::filesystem::create_directories(folder);
  return std::filesystem::absolute(folder).string();
}

std::string write_page(const TempFolder& folder, const std::string& name, const std::string& page) {
  const std::string path = folder / name;
  std::ofstream(path, std::ios::binary) << page;
  return path;
}

double number_in(std::string text) {
  const std::string minus = "\xE2\x88\x92";
  double sign = 1.0;
  if (text.starts_with(minus)) {
    sign = -1.0;
    text = text.substr(minus.size());
  }
  return sign * std::stod(text);
}

namespace {

// Clicks the middle of a cell of a matrix, which is scrolled to it where it scrolls.
void click_cell(Browser& browser, const std::string& matrix, int64_t rows, int64_t keys,
                int64_t row, int64_t key) {
  const Json at =
      browser.run(R"(
      const [matrix, down, right] = arguments;
      const field = document.querySelector(`${matrix} .field`);
      const box = field.closest(".matrix-scroll");
      const { width, height } = field.getBoundingClientRect();
      box.scrollTop = down * height - box.clientHeight / 2;
      box.scrollLeft = right * width - box.clientWidth / 2;
      box.scrollIntoView({ block: "start", behavior: "instant" });
      const now = field.getBoundingClientRect();
      return [now.left + right * width, now.top + down * height];)",
                  Json::array({matrix, (static_cast<double>(row) + 0.5) / static_cast<double>(rows),
                               (static_cast<double>(key) + 0.5) / static_cast<double>(keys)}));
  browser.click_point(at[0], at[1]);
}

}  // namespace

void choose(Browser& browser, const CellPlace& at) {
  browser.run("document.querySelector(arguments[0]).click()",
              Json::array({"[data-kind=" + at.kind + "]"}));
  const std::string thumb = "[aria-label='Layer " + std::to_string(at.layer + 1) + ", head " +
                            std::to_string(at.head + 1) + "']";
  browser.click(thumb);
  const AttentionRecord& r = (*at.records)[at.layer];
  click_cell(browser, "#training-matrix", r.query, r.key, at.row, at.key);
}

Json state_of(Browser& browser) { return browser.run("return tril.state.now"); }

void expect_quiet(Browser& browser, const std::string& path) {
  EXPECT_EQ(browser.complaints(), std::vector<std::string>{});
  for (const std::string& address : browser.requests()) EXPECT_EQ(address, "file://" + path);
}

void PageTest::SetUpTestSuite() {
  ASSERT_TRUE(Browser::is_installed()) << "install chromium and chromium-driver";
}

ExplainOptions PageTest::small_options() {
  ExplainOptions options;
  options.target = "I am fine, thank you";
  options.search.max_tokens = 8;
  return options;
}

std::string PageTest::small_page(const ExplainOptions& options) const {
  const Translator translator = example_translator(small_config());
  return write_page(folder_, "small.html",
                    explain_page(explain(translator, "how are you", options)));
}

const LongPage& long_page() {
  static const LongPage made = [] {
    LongPage one;
    one.explanation = explain(long_translator(), long_sentence(), long_options());
    one.page = explain_page(one.explanation);
    return one;
  }();
  return made;
}

}  // namespace tril::testing
