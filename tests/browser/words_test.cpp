// The page's statements in words, and that they are made where they are true.
#include <gtest/gtest.h>

#include <algorithm>

#include "browser/pages.h"

namespace tril {
namespace {

using testing::Browser;
using testing::expect_quiet;
using testing::Json;
using testing::state_of;
using testing::write_page;

class PageWords : public testing::PageTest {};

TEST_F(PageWords, AGivenTargetIsCalledOne) {
  const Translator translator = testing::example_translator(testing::small_config());
  ExplainOptions options = small_options();
  for (const bool given : {true, false}) {
    if (!given) options.target.reset();
    const Explanation e = explain(translator, "how are you", options);
    const std::string path = write_page(folder_, "small.html", explain_page(e));
    Browser browser;
    browser.open_file(path);
    EXPECT_EQ(browser.run("return document.getElementById('follow').hidden"), !given);
    EXPECT_EQ(browser.text("#inference-title"),
              given ? "Step by step, on the given target" : "Inference");
    EXPECT_EQ(browser.text("#inference-words").find("given target") != std::string::npos, given);
    EXPECT_EQ(browser.text("#step-words").ends_with(given ? " should come out" : " comes out"),
              true);
    EXPECT_EQ(
        browser.text("#lede-target"),
        given ? "This target was given; on its own the model writes " + e.written_text + ". " : "");
    const std::string compared = browser.text("#how-compared");
    EXPECT_NE(compared.find("None differs"), std::string::npos) << compared;
    EXPECT_NE(compared.find("are stored once"), std::string::npos) << compared;
  }
}

TEST_F(PageWords, TheHeadlineFollowsTheMask) {
  const std::string path = small_page();
  Browser browser;
  browser.open_file(path);
  EXPECT_EQ(browser.text("#lede-mask"), "The mask makes both the same function.");
  EXPECT_TRUE(browser.run("return document.getElementById('key-leak').hidden").get<bool>());
  EXPECT_FALSE(browser.run("return document.getElementById('key-hidden').hidden").get<bool>());
  browser.click("#mask");
  EXPECT_TRUE(browser.text("#lede-mask").starts_with("The mask is off: training sees words"));
  EXPECT_FALSE(browser.run("return document.getElementById('key-leak').hidden").get<bool>());
  EXPECT_TRUE(browser.run("return document.getElementById('key-hidden').hidden").get<bool>());
  browser.click("#mask");
  EXPECT_EQ(browser.text("#lede-mask"), "The mask makes both the same function.");
  expect_quiet(browser, path);
}

// Only masked self-attention has a mask to take off, and the encoder is called once.
TEST_F(PageWords, TheOtherKindsHaveNoMaskAndBeginWhereThereIsWeight) {
  const std::string path = small_page();
  Browser browser;
  browser.open_file(path);
  browser.click("#mask");
  for (const char* kind : {"cross", "encoder"}) {
    browser.click("[data-kind=" + std::string(kind) + "]");
    EXPECT_TRUE(browser.run("return document.getElementById('mask').disabled").get<bool>());
    EXPECT_EQ(browser.text("#mask-word"), "No mask here");
    EXPECT_FALSE(state_of(browser)["maskOff"].get<bool>());
    browser.click("#mask");
    EXPECT_EQ(state_of(browser)["kind"], kind);
    EXPECT_FALSE(state_of(browser)["maskOff"].get<bool>());
    EXPECT_TRUE(browser.run("return document.getElementById('key-hidden').hidden").get<bool>());
    // The largest weight of its row.
    EXPECT_TRUE(
        browser
            .run("const { kind, layer, head, row, column } = tril.state.now;"
                 "const { key } = tril.attentions.size(kind);"
                 "const all = tril.attentions.weights(kind, layer, head).subarray(row * key, "
                 "(row + 1) * key); return all[column] === Math.max(...all)")
            .get<bool>());
  }
  EXPECT_EQ(browser.text("#training-calls"), "1 call");
  EXPECT_EQ(browser.text("#inference-calls"), "1 call");
  browser.click("[data-kind=masked]");
  EXPECT_FALSE(browser.run("return document.getElementById('mask').disabled").get<bool>());
  EXPECT_EQ(browser.text("#mask-word"), "Mask on");
  EXPECT_NE(browser.text("#inference-calls"), "1 call");
  expect_quiet(browser, path);
}

// The table is wider than its box: the column of the current step is visible.
TEST_F(PageWords, TeacherForcingShowsTheStepThatIsLookedAt) {
  const std::string path = write_page(folder_, "long.html", testing::long_page().page);
  Browser browser;
  browser.open_file(path);
  browser.run("document.getElementById('forcing-title').scrollIntoView()");
  for (const char* button : {"#last", "#first", "#last", "#back"}) {
    browser.run("document.querySelector(arguments[0]).click()", Json::array({button}));
    const Json place = browser.run(R"(
        return new Promise((done) => setTimeout(() => {
          const box = document.getElementById("forcing-box").getBoundingClientRect();
          const names = document.querySelector("#forcing th").getBoundingClientRect();
          const cell = document.querySelector("#forcing .current").getBoundingClientRect();
          done({ left: cell.left - names.right, right: box.right - cell.right });
        }, 300));)");
    EXPECT_GE(place["left"].get<double>(), -1.0) << button;
    EXPECT_GE(place["right"].get<double>(), -1.0) << button;
  }
  expect_quiet(browser, path);
}

// The right one is framed even where it is not among the likeliest.
TEST_F(PageWords, TheRightOneIsAlwaysAmongTheCandidates) {
  ExplainOptions options = small_options();
  options.candidates = 2;
  const Translator translator = testing::example_translator(testing::small_config());
  const Explanation e = explain(translator, "how are you", options);
  const std::string path = write_page(folder_, "small.html", explain_page(e));
  Browser browser;
  browser.open_file(path);
  browser.click("#first");
  size_t beyond = 0;
  for (const ExplainedStep& step : e.steps) {
    const bool listed = std::any_of(step.candidates.begin(), step.candidates.end(),
                                    [&](const TokenChance& c) { return c.token == step.right; });
    beyond += listed ? 0 : 1;
    EXPECT_EQ(browser.run("return document.querySelectorAll('#candidates .right').length"), 1);
    EXPECT_EQ(browser.run("return document.querySelectorAll('#candidates li').length"),
              listed ? 2 : 3);
    browser.click("#forward");
  }
  EXPECT_GT(beyond, 0u);
}

// A piece that continues a word is written the same way everywhere.
TEST_F(PageWords, PiecesLookTheSameEverywhere) {
  const std::string path = small_page();
  Browser browser;
  browser.open_file(path);
  const Json looks = browser.run(R"(
      const labels = (css) => [...document.querySelectorAll(css)].map((e) => e.textContent);
      const { tokens } = tril.page;
      const id = tokens.fed.find((token) => labelOf(tokens.pieces[token], token, tokens).joined);
      const text = displayOf(labelOf(tokens.pieces[id], id, tokens));
      return { text, places: ["#training-matrix .token", "#forcing .token", "#tree .word"].map((css) => [
        css, labels(css).every((label) => !label.startsWith("·")), labels(css).some((label) => label.startsWith("…"))]) };)");
  EXPECT_TRUE(looks["text"].get<std::string>().starts_with("…")) << looks;
  for (const Json& place : looks["places"]) {
    EXPECT_TRUE(place[1].get<bool>()) << place;
    EXPECT_TRUE(place[2].get<bool>()) << place;
  }
}

TEST_F(PageWords, ABeamOfOneIsCalledGreedySearch) {
  ExplainOptions options = small_options();
  EXPECT_NE(options.search.beam, 1);
  for (const int64_t beam : {int64_t{1}, int64_t{5}}) {
    options.search.beam = beam;
    const std::string path = small_page(options);
    Browser browser;
    browser.open_file(path);
    EXPECT_EQ(browser.text("#tree-eyebrow"), beam == 1 ? "Greedy search" : "Beam search");
    EXPECT_NE(browser.text("#results-words").find("to the power of 0.6"), std::string::npos);
  }
}

}  // namespace
}  // namespace tril
