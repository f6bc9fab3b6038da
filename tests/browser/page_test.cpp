// The page of `tril explain` in a real browser: what it shows against what the engine computed.
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "browser/webdriver.h"
#include "explain/examples.h"
#include "support/temp_folder.h"
#include "tril/explain/page_parts.h"
#include "tril/kernels/reference/attention.h"

namespace tril {
namespace {

using testing::Browser;
using testing::BrowserWindow;
using testing::Family;
using testing::Json;
using testing::TempFolder;

// Pictures go here, for people to look at.
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

// "−1.250" as the page writes it, "> 0.999" at its bound.
double number_in(std::string text) {
  const std::string minus = "\xE2\x88\x92";
  double sign = 1.0;
  if (text.starts_with(minus)) {
    sign = -1.0;
    text = text.substr(minus.size());
  }
  return sign * std::stod(text);
}

struct CellPlace {
  const std::vector<AttentionRecord>* records;
  std::string kind;
  size_t layer;
  int64_t head, row, key;
};

// A cell's numbers by the library, and how far the page's may be off: half of the last digit it
// shows and, where numbers travel in sixteen bits, what that rounding does to them.
struct ExpectedCell {
  double dot = 0.0, scaled = 0.0, weight = 0.0, context = 0.0;
  double dot_error = 0.0, weight_error = 0.0, context_error = 0.0;
  bool visible = false;
};

ExpectedCell expected_of(const Explanation& e, const CellPlace& at, bool rounded) {
  const TransformerConfig& c = e.config;
  const AttentionRecord& r = (*at.records)[at.layer];
  const int64_t kv = at.head / (c.heads / c.kv_heads);
  const auto vector_of = [&](const std::vector<float>& values, int64_t row, int64_t heads,
                             int64_t head) {
    const auto begin = values.begin() + (row * heads + head) * c.head_dim;
    return std::vector<double>(begin, begin + c.head_dim);
  };
  // Half a step of the sixteen bits, a little more for the roundings of the scale itself.
  const auto error_of = [&](const std::vector<double>& v) {
    double largest = 0.0;
    for (const double x : v) largest = std::max(largest, std::fabs(x));
    return rounded ? 0.51 * largest / 32767.0 : 0.0;
  };
  const auto q = vector_of(r.queries, at.row, c.heads, at.head);
  const Interval sees = r.sees[static_cast<size_t>(at.row)];
  ExpectedCell cell;
  cell.visible = sees.sees(at.key);
  double score_error = 0.0;
  for (int64_t key = 0; key < r.key; ++key) {
    const auto k = vector_of(r.keys, key, c.kv_heads, kv);
    double dot = 0.0;
    double error = 0.0;
    for (size_t d = 0; d < q.size(); ++d) {
      dot += q[d] * k[d];
      error +=
          std::fabs(q[d]) * error_of(k) + std::fabs(k[d]) * error_of(q) + error_of(q) * error_of(k);
    }
    score_error = std::max(score_error, error * double{e.scale});
    if (key != at.key) continue;
    cell.dot = dot;
    cell.scaled = dot * double{e.scale};
    cell.dot_error = error;
  }
  const std::vector<double> queries(r.queries.begin(), r.queries.end());
  const std::vector<double> keys(r.keys.begin(), r.keys.end());
  const auto weights =
      reference::attention_weights<double>({r.query, r.key, c.heads, c.kv_heads, c.head_dim},
                                           double{e.scale}, queries, keys, r.sees, at.head);
  const double relative = std::expm1(2.0 * score_error);
  cell.weight = weights[static_cast<size_t>(at.row * r.key + at.key)];
  cell.weight_error = relative * cell.weight;
  for (int64_t key = sees.lo; key < sees.hi; ++key) {
    const auto v = vector_of(r.values, key, c.kv_heads, kv);
    const double weight = weights[static_cast<size_t>(at.row * r.key + key)];
    cell.context += weight * v[0];
    cell.context_error += weight * (error_of(v) + relative * (std::fabs(v[0]) + error_of(v)));
  }
  return cell;
}

void expect_shown(Browser& browser, const ExpectedCell& cell) {
  const auto shown = [&](const std::string& name) {
    return browser.text("[data-value=" + name + "]");
  };
  constexpr double kThree = 0.5001e-3;
  constexpr double kFour = 0.5001e-4;
  EXPECT_NEAR(number_in(shown("dot")), cell.dot, kThree + cell.dot_error);
  EXPECT_NEAR(number_in(shown("scaled")), cell.scaled, kThree + cell.dot_error);
  EXPECT_NEAR(number_in(shown("context")), cell.context, kThree + cell.context_error);
  if (cell.visible) {
    EXPECT_NEAR(number_in(shown("weight")), cell.weight, kFour + cell.weight_error);
  } else {
    EXPECT_EQ(shown("masked"), "−∞");
    EXPECT_EQ(shown("weight"), "0");
  }
}

// Clicks the middle of a cell of a matrix.
void click_cell(Browser& browser, const std::string& matrix, int64_t rows, int64_t keys,
                int64_t row, int64_t key) {
  const std::string field = matrix + " .field";
  const Json size = browser.run(
      "const f = document.querySelector(arguments[0]); return [f.clientWidth, f.clientHeight];",
      Json::array({field}));
  browser.click_at(
      field, size[0].get<double>() / static_cast<double>(keys) * (static_cast<double>(key) + 0.5),
      size[1].get<double>() / static_cast<double>(rows) * (static_cast<double>(row) + 0.5));
}

void choose(Browser& browser, const CellPlace& at) {
  browser.click("[data-kind=" + at.kind + "]");
  const std::string thumb = "[aria-label='Layer " + std::to_string(at.layer + 1) + ", head " +
                            std::to_string(at.head + 1) + "']";
  browser.click(thumb);
  const AttentionRecord& r = (*at.records)[at.layer];
  click_cell(browser, "#training-matrix", r.query, r.key, at.row, at.key);
}

Json now(Browser& browser) { return browser.run("return tril.state.now"); }

void expect_quiet(Browser& browser, const std::string& path) {
  EXPECT_EQ(browser.complaints(), std::vector<std::string>{});
  for (const std::string& address : browser.requests()) EXPECT_EQ(address, "file://" + path);
}

class Page : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    ASSERT_TRUE(Browser::is_installed()) << "install chromium and chromium-driver";
  }
  static ExplainOptions small_options() {
    ExplainOptions options;
    options.target = "I am fine, thank you";
    options.search.max_tokens = 8;
    return options;
  }

  TempFolder folder_;
};

TEST_F(Page, ModulesPassTheirOwnTests) {
  std::ifstream file(TRIL_MODULES_TEST);
  std::stringstream tests;
  tests << file.rdbuf();
  ASSERT_FALSE(tests.str().empty());
  const std::string page = "<!doctype html><meta charset=utf-8><body><script>" +
                           std::string(page_script()) + tests.str() + "</script>";
  Browser browser;
  browser.open_file(write_page(folder_, "modules.html", page));
  EXPECT_EQ(browser.complaints(), std::vector<std::string>{});
  const Json results = browser.run("return results");
  EXPECT_GE(results.size(), 14u);
  for (const Json& result : results) EXPECT_EQ(result["failure"], "") << result["name"];
}

TEST_F(Page, StepsAndPlays) {
  const Translator translator = testing::example_translator(testing::small_config());
  const Explanation e = explain(translator, "how are you", small_options());
  const auto last = static_cast<int64_t>(e.steps.size()) - 1;
  const std::string path = write_page(folder_, "small.html", explain_page(e));
  Browser browser;
  browser.open_file(path);
  const auto step = [&] { return now(browser)["step"].get<int64_t>(); };
  EXPECT_EQ(browser.text("#training-calls"), "1 call");
  browser.click("#first");
  EXPECT_EQ(step(), 0);
  EXPECT_EQ(browser.text("#inference-calls"), "call 1 of " + std::to_string(last + 1));
  EXPECT_EQ(browser.run("return document.querySelectorAll('#cache li').length"), 1);
  browser.click("#forward");
  EXPECT_EQ(step(), 1);
  EXPECT_EQ(browser.run("return document.querySelectorAll('#cache li').length"), 2);
  EXPECT_EQ(browser.run("return document.querySelectorAll('#inference .same').length"), 2);
  EXPECT_EQ(browser.run("return document.querySelectorAll('#inference .differs').length"), 0);
  browser.click("#back");
  EXPECT_EQ(step(), 0);
  browser.click("#last");
  EXPECT_EQ(step(), last);
  // The keyboard, from the page itself.
  browser.run("document.activeElement.blur()");
  browser.key("Home");
  EXPECT_EQ(step(), 0);
  browser.key("ArrowRight");
  browser.key("ArrowRight");
  EXPECT_EQ(step(), 2);
  browser.key("ArrowLeft");
  EXPECT_EQ(step(), 1);
  browser.key("End");
  EXPECT_EQ(step(), last);
  // Play starts over at the end, goes on by itself and stops there.
  browser.key(" ");
  EXPECT_EQ(step(), 0);
  EXPECT_EQ(browser.text("#play-word"), "Pause");
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (browser.text("#play-word") == "Pause" && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
  }
  EXPECT_EQ(step(), last);
  // The slider.
  browser.run(
      "const s = document.getElementById('slider'); s.value = 2;"
      "s.dispatchEvent(new Event('input'))");
  EXPECT_EQ(step(), 2);
  expect_quiet(browser, path);
}

TEST_F(Page, NumbersAreTheEngines) {
  const Translator translator = testing::example_translator(testing::small_config());
  const Explanation e = explain(translator, "how are you", small_options());
  const std::string path = write_page(folder_, "small.html", explain_page(e));
  Browser browser;
  browser.open_file(path);
  int64_t hidden = 0;
  for (const CellPlace& at : {CellPlace{&e.training.masked, "masked", 0, 0, 3, 1},
                              {&e.training.masked, "masked", 1, 2, 4, 4},
                              {&e.training.masked, "masked", 0, 1, 1, 3},
                              {&e.training.cross, "cross", 1, 0, 2, 3},
                              {&e.training.encoder, "encoder", 0, 2, 0, 2},
                              {&e.training.encoder, "encoder", 1, 1, 3, 0}}) {
    choose(browser, at);
    const ExpectedCell expected = expected_of(e, at, false);
    hidden += expected.visible ? 0 : 1;
    expect_shown(browser, expected);
    const float engine =
        (*at.records)[at.layer]
            .context[static_cast<size_t>((at.row * e.config.heads + at.head) * e.config.head_dim)];
    EXPECT_NEAR(number_in(browser.text("[data-value=engine]")), double{engine}, 0.5001e-3);
  }
  EXPECT_EQ(hidden, 1);

  // Candidates at a step.
  browser.click("#first");
  browser.click("#forward");
  const Json shown = browser.run(
      "return [...document.querySelectorAll('#candidates li')].map((li) => "
      "[li.firstChild.textContent, li.lastChild.textContent])");
  ASSERT_EQ(shown.size(), e.steps[1].candidates.size());
  for (size_t i = 0; i < shown.size(); ++i) {
    const std::string share = shown[i][1];
    const double chance = std::exp(double{e.steps[1].candidates[i].log_prob});
    if (share.starts_with("<") || share.starts_with(">")) continue;
    // Half of the last digit shown, and what four decimals of log p leave open.
    EXPECT_NEAR(std::stod(share), 100.0 * chance, 0.0501 + 100.0 * chance * 0.51e-4) << share;
  }
  // Teacher forcing has a column a step, a row for what inference feeds, and the target's tokens.
  EXPECT_EQ(browser.run("return document.querySelectorAll('#forcing tr').length"), 5);
  EXPECT_EQ(browser.run("return document.querySelectorAll('#forcing .position').length"),
            e.steps.size());
  // Every candidate of the search is in the tree.
  size_t candidates = 0;
  for (const SearchStep& s : e.search_steps) candidates += s.candidates.size();
  EXPECT_EQ(browser.run("return document.querySelectorAll('#tree .node').length"), candidates);
  EXPECT_EQ(browser.run("return document.querySelectorAll('#tree .node.best').length"),
            e.written.size());
  expect_quiet(browser, path);
}

TEST_F(Page, WithoutTheMaskTheLeakIsRed) {
  const Translator translator = testing::example_translator(testing::small_config());
  const Explanation e = explain(translator, "how are you", small_options());
  const std::string path = write_page(folder_, "small.html", explain_page(e));
  Browser browser;
  browser.open_file(path);
  const auto rows = static_cast<int64_t>(e.steps.size());
  // The colour of the cell in row 1, key 3, a little off its middle, where no digit stands.
  const auto colour = [&] {
    return browser.run(
        "const from = document.querySelector('#training-matrix canvas'), s = from.width / "
        "arguments[0];"
        "const pen = new OffscreenCanvas(1, 1).getContext('2d', { willReadFrequently: true });"
        "pen.drawImage(from, Math.round(3.15 * s), Math.round(1.3 * s), 1, 1, 0, 0, 1, 1);"
        "return [...pen.getImageData(0, 0, 1, 1).data]",
        Json::array({rows}));
  };
  choose(browser, {&e.training.masked, "masked", 0, 1, 1, 3});
  const Json masked = colour();
  EXPECT_LT(std::abs(masked[0].get<int>() - masked[2].get<int>()), 20);  // grey
  browser.click("#mask");
  EXPECT_TRUE(now(browser)["maskOff"].get<bool>());
  const Json leaked = colour();
  EXPECT_GT(leaked[0].get<int>(), leaked[2].get<int>() + 20);  // red
  EXPECT_EQ(browser.run("return document.querySelectorAll('#inference .same').length"), 0);
  // The cell's weight, from the scores of the pass without the mask.
  const auto n = static_cast<size_t>(rows);
  double sum = 0.0;
  for (size_t j = 0; j < n; ++j) sum += std::exp(double{e.leaked_scores[0][(n + 1) * n + j]});
  EXPECT_NEAR(number_in(browser.text("[data-value=weight]")),
              std::exp(double{e.leaked_scores[0][(n + 1) * n + 3]}) / sum, 0.5001e-4);
  EXPECT_FALSE(browser.run("return document.getElementById('leaked-box').hidden").get<bool>());
  browser.screenshot(output_folder() + "/small-mask-off.png", Browser::Extent::page);
  browser.click("#mask");
  EXPECT_EQ(colour(), masked);
  expect_quiet(browser, path);
}

TEST_F(Page, AFaultOfTheEngineIsShown) {
  const Translator translator = testing::example_translator(testing::small_config());
  ExplainOptions options = small_options();
  options.hooks.widen_head = 0;
  options.hooks.widen_layer = 1;
  options.hooks.widen_row = 2;
  const std::string path =
      write_page(folder_, "fault.html", explain_page(explain(translator, "how are you", options)));
  Browser browser;
  browser.open_file(path);
  browser.click("#last");
  EXPECT_EQ(browser.run("return document.querySelectorAll('#inference .differs').length"), 1);
  EXPECT_TRUE(browser.text("#verdict").find("Not the same") != std::string::npos);
}

TEST_F(Page, WorksByKeyboardAlone) {
  const Translator translator = testing::example_translator(testing::small_config());
  const Explanation e = explain(translator, "how are you", small_options());
  const std::string path = write_page(folder_, "small.html", explain_page(e));
  Browser browser;
  browser.open_file(path);
  // Tab reaches every kind of control, and each shows that it has the focus.
  std::vector<std::string> reached;
  for (int i = 0; i < 40; ++i) {
    browser.key("Tab");
    reached.push_back(
        browser.run("return document.activeElement.id || document.activeElement.className"));
    const std::string style =
        browser.run("return getComputedStyle(document.activeElement).outlineStyle");
    if (reached.back().empty()) continue;
    EXPECT_EQ(style, "solid") << reached.back();
  }
  for (const char* wanted : {"skip", "large", "theme", "layer", "head", "mask", "field", "play",
                             "slider", "thumb", "tree"}) {
    EXPECT_NE(std::find(reached.begin(), reached.end(), wanted), reached.end()) << wanted;
  }
  // In a matrix: arrows move, Enter opens the arithmetic.
  browser.run(
      "tril.state.change({ row: 2, column: 1 }); document.querySelector('#training-matrix "
      ".field').focus()");
  browser.key("ArrowDown");
  browser.key("ArrowLeft");
  EXPECT_EQ(now(browser)["row"], 3);
  EXPECT_EQ(now(browser)["column"], 0);
  browser.key("Enter");
  EXPECT_EQ(browser.run("return document.activeElement.id"), "arithmetic");
  EXPECT_NE(browser.text("#status").find("looks at START"), std::string::npos);
  // Among the heads, and among the kinds.
  browser.run(
      "tril.state.change({ layer: 0, head: 0 }); "
      "document.querySelector('.thumb[tabindex=\"0\"]').focus()");
  browser.key("ArrowRight");
  browser.key("ArrowDown");
  EXPECT_EQ(now(browser)["head"], 1);
  EXPECT_EQ(now(browser)["layer"], 1);
  browser.run("document.querySelector('[data-kind=masked]').focus()");
  browser.key("ArrowRight");
  EXPECT_EQ(now(browser)["kind"], "cross");
  browser.run("document.getElementById('mask').focus()");
  browser.key(" ");
  EXPECT_TRUE(now(browser)["maskOff"].get<bool>());
  expect_quiet(browser, path);
}

TEST_F(Page, WhatUsersWriteIsShownAsText) {
  TransformerConfig config = testing::small_config();
  config.max_length = 400;
  const Translator translator = testing::example_translator(config);
  std::string word;
  while (word.size() < 300) word += "gathered";
  word.resize(300);
  for (const std::string& sentence : {testing::hostile_sentence(), word}) {
    ExplainOptions options = small_options();
    options.target = sentence.substr(0, 60);
    const std::string path =
        write_page(folder_, "hostile.html", explain_page(explain(translator, sentence, options)));
    for (const BrowserWindow& window :
         {BrowserWindow{}, BrowserWindow{.width = 390, .height = 844, .touch = true}}) {
      Browser browser(window);
      browser.open_file(path);
      EXPECT_EQ(browser.run("return document.querySelector('#sentence bdi').textContent"),
                sentence);
      EXPECT_EQ(browser.run("return document.querySelectorAll('script').length"), 2);
      EXPECT_EQ(
          browser.run("return document.querySelector('#sentence').querySelectorAll('*').length"),
          3);
      EXPECT_LE(browser.run("return document.documentElement.scrollWidth").get<int>(),
                window.width);
      expect_quiet(browser, path);
    }
  }
}

TEST_F(Page, DecoderOnlyModelsHaveOneKindOfAttention) {
  const Translator translator =
      testing::example_translator(testing::small_config(Family::decoder_only));
  ExplainOptions options;
  options.search.max_tokens = 6;
  const Explanation e = explain(translator, "how are", options);
  const std::string path = write_page(folder_, "decoder.html", explain_page(e));
  Browser browser;
  browser.open_file(path);
  EXPECT_EQ(browser.run("return document.querySelectorAll('#kinds button').length"), 1);
  const CellPlace at{&e.training.masked, "masked", 1, 2, 3, 2};
  choose(browser, at);
  expect_shown(browser, expected_of(e, at, false));
  expect_quiet(browser, path);
}

// All text that is shown, in both themes, with the mask on and off: a contrast of 4.5 with what is
// behind it, or 3 where it is large. What is faint on purpose (candidates that fell out of the
// beam) and what cannot be used now is left out.
TEST_F(Page, TextCanBeRead) {
  const Translator translator = testing::example_translator(testing::small_config());
  const std::string path = write_page(
      folder_, "small.html", explain_page(explain(translator, "how are you", small_options())));
  for (const bool dark : {false, true}) {
    Browser browser({.dark = dark});
    browser.open_file(path);
    browser.run(
        "document.querySelectorAll('.block').forEach((b) => { b.style.contentVisibility = "
        "'visible' })");
    for (int i = 0; i < 2; ++i) {
      const Json faint = browser.run(R"(
          const rgb = (text) => text.match(/[\d.]+/g).map((x, i) => (text.startsWith('color') && i < 3 ? 255 : 1) * x);
          const found = new Set();
          for (const e of document.querySelectorAll('body *:not(script):not(svg *)')) {
            if (![...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim() !== '')) continue;
            if (e.offsetParent === null || e.closest('button:disabled, .sr, .skip')) continue;
            let behind = e;
            while (behind && rgb(getComputedStyle(behind).backgroundColor)[3] === 0) behind = behind.parentElement;
            const style = getComputedStyle(e);
            const large = parseFloat(style.fontSize) >= 24;
            const ratio = contrast(rgb(style.color).slice(0, 3), rgb(getComputedStyle(behind ?? document.body).backgroundColor).slice(0, 3));
            if (ratio < (large ? 3 : 4.5)) found.add(`${e.tagName} ${e.id} ${e.className}: ${ratio.toFixed(2)}`);
          }
          return [...found];)");
      EXPECT_EQ(faint, Json::array()) << (dark ? "dark" : "light") << (i == 0 ? "" : ", mask off");
      browser.click("#mask");
    }
  }
}

// A phone: nothing runs out of the window sideways, and fingers hit what they aim at.
TEST_F(Page, FitsAPhone) {
  const Translator translator = testing::example_translator(testing::small_config());
  const std::string path = write_page(
      folder_, "small.html", explain_page(explain(translator, "how are you", small_options())));
  Browser browser({.width = 390, .height = 844, .pixel_ratio = 2.0, .touch = true});
  browser.open_file(path);
  EXPECT_LE(browser.run("return document.documentElement.scrollWidth").get<int>(), 390);
  const Json small = browser.run(
      "return [...document.querySelectorAll('button, select, summary, input')].filter((e) => "
      "e.offsetParent !== null)"
      ".map((e) => [e.id || e.className || e.textContent, e.getBoundingClientRect()])"
      ".filter(([, b]) => b.width < 43.9 || b.height < 43.9).map(([name, b]) => `${name} "
      "${b.width}x${b.height}`)");
  EXPECT_EQ(small, Json::array());
  expect_quiet(browser, path);
}

// The largest page that is promised something.
class LongPage : public Page {
 protected:
  static void SetUpTestSuite() {
    Page::SetUpTestSuite();
    explanation = std::make_unique<Explanation>(
        explain(testing::long_translator(), testing::long_sentence(), testing::long_options()));
    page = explain_page(*explanation);
  }
  static inline std::unique_ptr<Explanation> explanation;
  static inline std::string page;
};

TEST_F(LongPage, NumbersAreTheEnginesWithinTheirRounding) {
  const Explanation& e = *explanation;
  ASSERT_LT(page.size(), 5'000'000u);
  const std::string path = write_page(folder_, "long.html", page);
  Browser browser;
  browser.open_file(path);
  for (const CellPlace& at : {CellPlace{&e.training.masked, "masked", 0, 0, 40, 11},
                              {&e.training.masked, "masked", 5, 7, 59, 59},
                              {&e.training.cross, "cross", 3, 4, 17, 58},
                              {&e.training.encoder, "encoder", 2, 6, 31, 50}}) {
    choose(browser, at);
    const Json place = now(browser);
    ASSERT_EQ(place["row"], at.row);
    ASSERT_EQ(place["column"], at.key);
    expect_shown(browser, expected_of(e, at, true));
  }
  expect_quiet(browser, path);
}

// From a click to the second frame after it. Each round opens the page anew, so that every click
// does its work for the first time. Other programs on the machine only ever add to a time: the
// shortest of the rounds is the page's own; what the clicks took in the middle and at most is
// printed beside it.
TEST_F(LongPage, AnswersWithinATenthOfASecond) {
  const std::string path = write_page(folder_, "long.html", page);
  Browser browser;
  const auto milliseconds = [&](const std::string& css) {
    return browser
        .run(
            "const element = document.querySelector(arguments[0]); const begin = "
            "performance.now(); element.click();"
            "return new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => "
            "done(performance.now() - begin))))",
            Json::array({css}))
        .get<double>();
  };
  const std::vector<std::string> clicks = {"#forward",
                                           "#back",
                                           "#last",
                                           "#first",
                                           "[aria-label='Layer 4, head 3']",
                                           "[aria-label='Layer 1, head 8']",
                                           "[data-kind=cross]",
                                           "[aria-label='Layer 6, head 1']",
                                           "[data-kind=encoder]",
                                           "[data-kind=masked]",
                                           "#mask",
                                           "#training-matrix .field",
                                           "#theme",
                                           "#large"};
  std::vector<std::vector<double>> times(clicks.size());
  for (int round = 0; round < 6; ++round) {
    browser.open_file(path);
    for (size_t i = 0; i < clicks.size(); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
      times[i].push_back(milliseconds(clicks[i]));
    }
  }
  std::printf("milliseconds: shortest, middle, longest of %zu\n", times[0].size());
  for (size_t i = 0; i < clicks.size(); ++i) {
    std::sort(times[i].begin(), times[i].end());
    EXPECT_LT(times[i].front(), 100.0) << clicks[i];
    std::printf("%-32s %4.0f %4.0f %4.0f\n", clicks[i].c_str(), times[i].front(),
                times[i][times[i].size() / 2], times[i].back());
  }
  expect_quiet(browser, path);
}

struct Shot {
  std::string name;
  BrowserWindow window;
  std::string prepare;  // script
  Browser::Extent extent = Browser::Extent::window;
};

void take(const std::string& path, const Shot& shot) {
  Browser browser(shot.window);
  browser.open_file(path);
  if (!shot.prepare.empty()) browser.run(shot.prepare);
  browser.run(
      "return document.fonts.ready.then(() => new Promise((done) => setTimeout(done, 400)))");
  browser.screenshot(output_folder() + "/" + shot.name + ".png", shot.extent);
  EXPECT_EQ(browser.complaints(), std::vector<std::string>{}) << shot.name;
}

const BrowserWindow kDesktop{};
const BrowserWindow kProjector{.width = 1920, .height = 1080};
const BrowserWindow kPhone{.width = 390, .height = 844, .pixel_ratio = 2.0, .touch = true};

BrowserWindow in_the_dark(BrowserWindow window) {
  window.dark = true;
  return window;
}

TEST_F(LongPage, Pictures) {
  const std::string path = write_page(folder_, "long.html", page);
  using enum Browser::Extent;
  take(path, {"long-desktop", kDesktop, "", window});
  take(path, {"long-desktop-dark-mask-off", in_the_dark(kDesktop),
              "document.getElementById('mask').click()", window});
  take(path, {"long-phone", kPhone, "", Browser::Extent::page});
  take(path, {"long-all", kDesktop, "", Browser::Extent::page});
}

// With a trained model: TRIL_DEMO_MODEL names the folder that `tril demo` wrote. The first of these
// pictures stands in the README.
TEST_F(Page, Pictures) {
  const char* model = std::getenv("TRIL_DEMO_MODEL");
  if (model == nullptr) GTEST_SKIP() << "TRIL_DEMO_MODEL is not set";
  const Translator translator = Translator::load(model);
  using enum Browser::Extent;
  const std::string path = write_page(
      folder_, "demo.html", explain_page(explain(translator, "My brother is reading a book")));
  take(path, {"explain",
              {.width = 1440, .height = 1110, .pixel_ratio = 1.5},
              "tril.state.change({ step: 3 })",
              window});
  take(path, {"demo-desktop", kDesktop, "", page});
  take(path, {"demo-desktop-dark", in_the_dark(kDesktop), "", page});
  take(path, {"demo-mask-off", kDesktop, "document.getElementById('mask').click()", page});
  take(path,
       {"demo-cross", kDesktop, "document.querySelector('[data-kind=cross]').click()", window});
  take(path, {"demo-projector", kProjector, "document.getElementById('large').click()", window});
  take(path, {"demo-projector-dark", in_the_dark(kProjector),
              "document.getElementById('large').click()", window});
  for (const int width : {1280, 1366, 1440}) {
    take(path, {"demo-large-" + std::to_string(width),
                {.width = width, .height = 900},
                "document.getElementById('large').click()",
                window});
  }
  take(path, {"demo-encoder", kDesktop, "document.querySelector('[data-kind=encoder]').click()",
              window});
  take(path, {"demo-small-phone", {.width = 320, .height = 640, .pixel_ratio = 2.0, .touch = true},
              "", page});
  take(path, {"demo-phone", kPhone, "", page});
  take(path, {"demo-phone-dark", in_the_dark(kPhone), "", window});
  ExplainOptions options;
  options.target = "मैं बढ़िया हूँ";
  const std::string fine =
      write_page(folder_, "fine.html", explain_page(explain(translator, "I am fine", options)));
  take(fine, {"demo-target", kDesktop, "", page});
}

}  // namespace
}  // namespace tril
