// The page of `tril explain` in a real browser: what it shows against what the library computed.
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <fstream>
#include <sstream>
#include <thread>

#include "browser/pages.h"
#include "tril/explain/page_parts.h"
#include "tril/explain/passes.h"
#include "tril/kernels/reference/attention.h"

namespace tril {
namespace {

using testing::Browser;
using testing::BrowserWindow;
using testing::CellPlace;
using testing::choose;
using testing::expect_quiet;
using testing::Family;
using testing::Json;
using testing::number_in;
using testing::state_of;
using testing::write_page;

class Page : public testing::PageTest {};

// A cell's numbers by the library, and the tolerance for the page's: half of the last digit it
// shows and, if numbers are stored in sixteen bits, the effect of that rounding.
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
  const auto step = [&] { return state_of(browser)["step"].get<int64_t>(); };
  EXPECT_EQ(browser.text("#training-calls"), "1 call");
  browser.click("#first");
  EXPECT_EQ(step(), 0);
  EXPECT_EQ(browser.text("#inference-calls"), "call 1 of " + std::to_string(last + 1));
  EXPECT_EQ(browser.run("return document.querySelectorAll('#cache li').length"), 1);
  browser.click("#forward");
  EXPECT_EQ(step(), 1);
  EXPECT_EQ(browser.run("return document.querySelectorAll('#cache li').length"), 2);
  EXPECT_EQ(browser.run("return document.querySelectorAll('#inference-matrix .same').length"), 2);
  EXPECT_EQ(browser.run("return document.querySelectorAll('#inference-matrix .differs').length"),
            0);
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
  // Play starts again at the end, continues by itself and stops there.
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
  ASSERT_GE(shown.size(), e.steps[1].candidates.size());
  for (size_t i = 0; i < e.steps[1].candidates.size(); ++i) {
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
  EXPECT_TRUE(state_of(browser)["maskOff"].get<bool>());
  const Json leaked = colour();
  EXPECT_GT(leaked[0].get<int>(), leaked[2].get<int>() + 20);  // red
  EXPECT_EQ(browser.run("return document.querySelectorAll('#inference-matrix .same').length"), 0);
  // The cell's weight, from the scores of the pass without the mask.
  const auto n = static_cast<size_t>(rows);
  double sum = 0.0;
  for (size_t j = 0; j < n; ++j) sum += std::exp(double{e.leaked_scores[0][(n + 1) * n + j]});
  EXPECT_NEAR(number_in(browser.text("[data-value=weight]")),
              std::exp(double{e.leaked_scores[0][(n + 1) * n + 3]}) / sum, 0.5001e-4);
  EXPECT_FALSE(browser.run("return document.getElementById('leaked-box').hidden").get<bool>());
  browser.screenshot(testing::output_folder() + "/small-mask-off.png", Browser::Extent::page);
  browser.click("#mask");
  EXPECT_EQ(colour(), masked);
  expect_quiet(browser, path);
}

TEST_F(Page, AFaultOfTheEngineIsShown) {
  const Translator translator = testing::example_translator(testing::small_config());
  ExplainOptions options = small_options();
  TestHooks hooks;
  hooks.widen_head = 0;
  hooks.widen_layer = 1;
  hooks.widen_row = 2;
  const std::string path = write_page(
      folder_, "fault.html", explain_page(explain(translator, "how are you", options, hooks)));
  Browser browser;
  browser.open_file(path);
  browser.click("#last");
  EXPECT_EQ(browser.run("return document.querySelectorAll('#inference-matrix .differs').length"),
            1);
  EXPECT_TRUE(browser.text("#verdict").find("Not the same") != std::string::npos);
}

// The two sides are drawn from what each pass computed: with a fault in training alone they differ.
TEST_F(Page, EachSideIsDrawnFromItsOwnPass) {
  const Translator translator = testing::example_translator(testing::small_config());
  ExplainOptions options = small_options();
  TestHooks hooks;
  hooks.widen_head = -2;  // all
  hooks.widen_layer = 0;
  const Explanation e = explain(translator, "how are you", options, hooks);
  // The cell of layer 2 where the two are furthest apart.
  CellPlace at{&e.training.masked, "masked", 1, 0, 0, 0};
  double apart = 0.0;
  double stepwise = 0.0;
  const auto keys = static_cast<size_t>(e.training.masked[1].key);
  for (int64_t head = 0; head < e.config.heads; ++head) {
    const auto a = weights_of(e.training.masked[1], e.config, e.scale, {}, head);
    const auto b = weights_of(e.stepwise.masked[1], e.config, e.scale, {}, head);
    for (size_t i = 0; i < a.size(); ++i) {
      if (std::fabs(a[i] - b[i]) <= apart) continue;
      apart = std::fabs(a[i] - b[i]);
      stepwise = b[i];
      at.head = head;
      at.row = static_cast<int64_t>(i / keys);
      at.key = static_cast<int64_t>(i % keys);
    }
  }
  ASSERT_GT(apart, 0.01);
  const std::string path = write_page(folder_, "fault.html", explain_page(e));
  Browser browser;
  browser.open_file(path);
  browser.click("#last");
  choose(browser, at);
  const auto weight_in = [&](const std::string& matrix) {
    const std::string said = browser.text(matrix + " .readout");
    return std::stod(said.substr(said.find("weight ") + 7));
  };
  const double training = number_in(browser.text("[data-value=weight]"));
  EXPECT_NEAR(weight_in("#training-matrix"), training, 0.5001e-3 + 0.5001e-4);
  EXPECT_NEAR(weight_in("#inference-matrix"), stepwise, 0.5001e-3);
  EXPECT_NE(browser.text("#arithmetic-place").find("as in training"), std::string::npos);
  // Both layers below carry numbers of their own, in both kinds of the decoder's attention.
  EXPECT_NE(browser.text("#how-compared").find("stores 4 attentions of its own"), std::string::npos)
      << browser.text("#how-compared");
  expect_quiet(browser, path);
}

// A given target and the model's own words, both on one page.
TEST_F(Page, SwitchesBetweenTheTargetAndItsOwnWords) {
  const Translator translator = testing::example_translator(testing::small_config());
  const Explanation e = explain(translator, "how are you", small_options());
  ASSERT_NE(e.own, nullptr);
  ASSERT_NE(e.own->steps.size(), e.steps.size());
  const std::string path = write_page(folder_, "small.html", explain_page(e));
  Browser browser;
  browser.open_file(path);
  const auto shows = [&](const Explanation& text, const std::string& title) {
    EXPECT_EQ(browser.text("#inference-title"), title);
    EXPECT_EQ(browser.run("return tril.page.steps.length"), text.steps.size());
    EXPECT_EQ(browser.run("return document.querySelector('#sentence bdi:last-child').textContent"),
              text.target_text);
    EXPECT_EQ(browser.run("return document.querySelectorAll('#forcing .position').length"),
              text.steps.size());
    EXPECT_EQ(browser.text("#follow [aria-checked=true]"),
              &text == &e ? "The given target" : "The model’s own words");
    const CellPlace at{&text.training.masked, "masked", 1, 2, 3, 1};
    choose(browser, at);
    expect_shown(browser, expected_of(text, at, false));
  };
  shows(e, "Step by step, on the given target");
  const Json before = state_of(browser)["step"];
  browser.run("globalThis.left = tril.state");
  browser.click("#theme");
  browser.click("#mask");
  browser.click("#follow button:last-child");
  EXPECT_EQ(browser.run("return document.documentElement.dataset.theme"), "dark");
  EXPECT_FALSE(state_of(browser)["maskOff"].get<bool>());
  shows(*e.own, "Inference");
  // The keys reach the page that is shown, once.
  browser.run("document.activeElement.blur()");
  browser.key("Home");
  browser.key("ArrowRight");
  EXPECT_EQ(state_of(browser)["step"], 1);
  EXPECT_EQ(browser.text("#inference-calls"), "call 2 of " + std::to_string(e.own->steps.size()));
  EXPECT_EQ(browser.run("return left.now.step"), before);
  browser.run("document.querySelector('#follow [aria-checked=true]').focus()");
  browser.key("ArrowLeft");
  shows(e, "Step by step, on the given target");
  expect_quiet(browser, path);
}

// Every printed line of every cell, worked out again from the printed digits.
TEST_F(Page, PrintedLinesGiveTheirPrintedResults) {
  const std::string path = small_page();
  Browser browser;
  browser.open_file(path);
  const Json wrong = browser.run(R"js(
      const number = (text) => Number(text.replace("−", "-").replace(/[()]/g, ""));
      const line = (title) => document.querySelector(`[data-step="${title}"] .result`).textContent;
      const found = [];
      let lines = 0;
      for (const kind of ["masked", "cross", "encoder"]) {
        const { query, key } = tril.attentions.size(kind);
        for (let head = 0; head < 3; ++head)
          for (let row = 0; row < query; ++row)
            for (let column = 0; column < key; ++column) {
              tril.state.change({ kind, layer: 1, head, row, column });
              const [, dot, root, scaled] = /^(\S+) ÷ (\S+) = (\S+)$/.exec(line("÷ √d"));
              if ((number(dot) / number(root)).toFixed(3) !== number(scaled).toFixed(3))
                found.push(line("÷ √d"));
              ++lines;
              const soft = line("softmax");
              if (soft.startsWith("e^(−∞)")) continue;
              const [, score, most, sum, weight] = /^e\^\((\S+) − (\S+)\) ÷ (\S+) = (\S+)$/.exec(soft);
              const again = Math.exp(number(score) - number(most)) / number(sum);
              if (again.toFixed(4) !== weight) found.push(soft);
              ++lines;
            }
      }
      return { found, lines };)js");
  EXPECT_EQ(wrong["found"], Json::array());
  EXPECT_GT(wrong["lines"], 300);
  expect_quiet(browser, path);
}

TEST_F(Page, WorksByKeyboardAlone) {
  const Translator translator = testing::example_translator(testing::small_config());
  const Explanation e = explain(translator, "how are you", small_options());
  const std::string path = write_page(folder_, "small.html", explain_page(e));
  Browser browser;
  browser.open_file(path);
  // Tab reaches every kind of control, and each shows that it has the focus.
  std::vector<std::string> reached;
  for (int i = 0; i < 60; ++i) {
    browser.key("Tab");
    reached.push_back(
        browser.run("return document.activeElement.id || document.activeElement.className"));
    const std::string style =
        browser.run("return getComputedStyle(document.activeElement).outlineStyle");
    if (reached.back().empty()) continue;
    EXPECT_EQ(style, "solid") << reached.back();
  }
  for (const char* wanted : {"skip", "tour", "language", "large", "theme", "temperature", "layer",
                             "head", "mask", "field", "play", "slider", "thumb", "tree"}) {
    EXPECT_NE(std::find(reached.begin(), reached.end(), wanted), reached.end()) << wanted;
  }
  // In a matrix: arrows move, Enter opens the arithmetic.
  browser.run(
      "tril.state.change({ row: 2, column: 1 }); document.querySelector('#training-matrix "
      ".field').focus()");
  browser.key("ArrowDown");
  browser.key("ArrowLeft");
  EXPECT_EQ(state_of(browser)["row"], 3);
  EXPECT_EQ(state_of(browser)["column"], 0);
  browser.key("Enter");
  EXPECT_EQ(browser.run("return document.activeElement.id"), "arithmetic");
  EXPECT_NE(browser.text("#status").find("looks at START"), std::string::npos);
  // Among the heads, and among the kinds.
  browser.run(
      "tril.state.change({ layer: 0, head: 0 }); "
      "document.querySelector('.thumb[tabindex=\"0\"]').focus()");
  browser.key("ArrowRight");
  browser.key("ArrowDown");
  EXPECT_EQ(state_of(browser)["head"], 1);
  EXPECT_EQ(state_of(browser)["layer"], 1);
  browser.run("document.querySelector('[data-kind=masked]').focus()");
  browser.key("ArrowRight");
  EXPECT_EQ(state_of(browser)["kind"], "cross");
  browser.key("ArrowLeft");
  EXPECT_EQ(state_of(browser)["kind"], "masked");
  browser.run("document.getElementById('mask').focus()");
  browser.key(" ");
  EXPECT_TRUE(state_of(browser)["maskOff"].get<bool>());
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
         {BrowserWindow{}, BrowserWindow{.width = 320, .height = 640, .touch = true}}) {
      Browser browser(window);
      browser.open_file(path);
      EXPECT_EQ(browser.run("return document.querySelector('#sentence bdi').textContent"),
                sentence);
      EXPECT_EQ(browser.run("return document.querySelectorAll('script').length"), 2);
      EXPECT_EQ(
          browser.run("return document.querySelector('#sentence').querySelectorAll('*').length"),
          5);
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
  // There is no target to give, and what was given is not what the model wrote.
  const std::string words = browser.text("#forcing-words");
  EXPECT_EQ(words.find("--target"), std::string::npos) << words;
  EXPECT_TRUE(words.starts_with("The first " + std::to_string(e.prompt) + " steps")) << words;
  browser.click("#first");
  EXPECT_TRUE(browser.text("#step-words").ends_with(" was given next"));
  browser.click("#last");
  EXPECT_TRUE(browser.text("#step-words").ends_with(" comes out"));
  expect_quiet(browser, path);
}

TEST_F(Page, NumbersOfALongOneAreTheEnginesWithinTheirRounding) {
  const auto& [e, page] = testing::long_page();
  ASSERT_LT(page.size(), 5'500'000u);
  const std::string path = write_page(folder_, "long.html", page);
  Browser browser;
  browser.open_file(path);
  for (const CellPlace& at : {CellPlace{&e.training.masked, "masked", 0, 0, 40, 11},
                              {&e.training.masked, "masked", 5, 7, 59, 59},
                              {&e.training.cross, "cross", 3, 4, 17, 58},
                              {&e.training.encoder, "encoder", 2, 6, 31, 50}}) {
    choose(browser, at);
    const Json place = state_of(browser);
    ASSERT_EQ(place["row"], at.row);
    ASSERT_EQ(place["column"], at.key);
    expect_shown(browser, expected_of(e, at, true));
  }
  const std::string how = browser.text("#how");
  EXPECT_NE(how.find("rounded to sixteen bits"), std::string::npos) << how;
  EXPECT_NE(how.find("checked on the numbers before they were rounded"), std::string::npos) << how;
  expect_quiet(browser, path);
}

}  // namespace
}  // namespace tril
