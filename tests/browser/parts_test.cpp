// The parts of the page around attention: stages, temperature, lines, tour, languages.
#include <gtest/gtest.h>

#include <cmath>

#include "browser/pages.h"

namespace tril {
namespace {

using testing::Browser;
using testing::BrowserWindow;
using testing::expect_quiet;
using testing::Family;
using testing::Json;
using testing::number_in;
using testing::state_of;
using testing::write_page;

class Parts : public testing::PageTest {
 protected:
  static Explanation explained(const TransformerConfig& config) {
    ExplainOptions options = small_options();
    if (config.decoder_only()) options.target.reset();
    return explain(testing::example_translator(config), "how are you", options);
  }
};

// The last number of a line, which is its result, and whether it follows from the rest of the line.
std::string result_of(const std::string& line) {
  const size_t at = line.rfind("= ");
  return at == std::string::npos ? line : line.substr(at + 2);
}

// What is drawn and printed of each stage, against what the library computed: norm first, norm
// last, without an encoder.
TEST_F(Parts, StagesShowTheLibrarysNumbers) {
  TransformerConfig last = testing::small_config();
  last.norm_position = NormPosition::post;
  for (const TransformerConfig& config :
       {testing::small_config(), last.completed(), testing::small_config(Family::decoder_only)}) {
    const Explanation e = explained(config);
    const size_t count = config.decoder_only() ? 2 : 3;
    const bool first = config.norm_position == NormPosition::pre;
    ASSERT_EQ(e.stages.sub_layers.size(), count * static_cast<size_t>(config.decoder_layers));
    const std::string path = write_page(folder_, "stages.html", explain_page(e));
    Browser browser;
    browser.open_file(path);
    for (const auto& [step, layer] : {std::pair<size_t, size_t>{1, 0}, {3, 1}}) {
      browser.run("tril.state.change({ step: arguments[0], layer: arguments[1] })",
                  Json::array({step, layer}));
      const Json cards = browser.run(
          "return [...document.querySelectorAll('.stage-card')].map((card) => [card.dataset.stage, "
          "[...card.querySelectorAll('.stage-line')].map((line) => line.textContent)])");
      ASSERT_EQ(cards.size(), count + 2);
      const size_t kept = static_cast<size_t>(e.stages.kept);
      const auto at = [&](const std::vector<float>& values) { return double{values[step * kept]}; };
      const auto expect_line = [&](const Json& line, double value) {
        EXPECT_NEAR(number_in(result_of(line)), value, 0.5001e-3) << line;
      };
      if (!e.stages.position.empty()) expect_line(cards[0][1].back(), at(e.stages.embedded));
      for (size_t i = 0; i < count; ++i) {
        const SubLayerRecord& record = e.stages.sub_layers[layer * count + i];
        expect_line(cards[i + 1][1][0], at(record.normed));
        if (first) expect_line(cards[i + 1][1][1], at(record.left));
      }
      const TokenChance& likeliest = e.steps[step].candidates.front();
      const std::string said = cards[count + 1][1][0];
      const size_t logit = said.find("logit ") + 6;
      EXPECT_NEAR(number_in(said.substr(logit, said.find(',', logit) - logit)),
                  double{likeliest.logit}, 0.5001e-3)
          << said;
    }
    // Lines that the engine's rounding to fp32 does not touch are exact as they are printed.
    EXPECT_EQ(browser.run("return [...document.querySelectorAll('.stage-line')].filter((line) => "
                          "line.textContent.includes('≈')).length"),
              0);
    expect_quiet(browser, path);
  }
}

// At 1, the library's probabilities to the last digit shown; at every other temperature, the
// softmax over the whole vocabulary.
TEST_F(Parts, TemperatureIsTheSoftmaxOfTheWholeVocabulary) {
  const Explanation e = explained(testing::small_config());
  const std::string path = write_page(folder_, "heat.html", explain_page(e));
  Browser browser;
  browser.open_file(path);
  browser.run("tril.state.change({ step: 2 })");
  const ExplainedStep& step = e.steps[2];
  ASSERT_EQ(step.log_sums.size(), static_cast<size_t>(kTemperatures));
  for (const int64_t notch : {10, 1, 5, 20, 10}) {
    browser.run(
        "const s = document.getElementById('temperature'); s.value = arguments[0];"
        "s.dispatchEvent(new Event('input'))",
        Json::array({notch}));
    const double temperature = temperature_of(notch - 1);
    EXPECT_NEAR(std::stod(browser.text("#temperature-value")), temperature, 1e-9);
    const Json shown = browser.run(
        "return [...document.querySelectorAll('#candidates output')].map((o) => o.textContent)");
    ASSERT_GE(shown.size(), step.candidates.size());
    for (size_t i = 0; i < step.candidates.size(); ++i) {
      const TokenChance& c = step.candidates[i];
      const double chance = notch == 10 ? std::exp(double{c.log_prob})
                                        : std::exp(double{c.logit} / temperature -
                                                   step.log_sums[static_cast<size_t>(notch - 1)]);
      const std::string share = shown[i];
      if (share.starts_with("<") || share.starts_with(">")) continue;
      EXPECT_NEAR(std::stod(share), 100.0 * chance, 0.0501 + 0.002 * chance) << notch << " " << i;
    }
    EXPECT_EQ(browser.text("#heat-words").starts_with("At a temperature of 1"), notch == 10);
  }
  expect_quiet(browser, path);
}

// As many lines as there are weights to see, each as its cell; the row of the step in view.
TEST_F(Parts, LinesShowTheSameWeights) {
  const Explanation e = explained(testing::small_config());
  const std::string path = write_page(folder_, "lines.html", explain_page(e));
  for (const BrowserWindow& window :
       {BrowserWindow{.width = 1366, .height = 657},
        BrowserWindow{.width = 390, .height = 844, .pixel_ratio = 2.0, .touch = true}}) {
    Browser browser(window);
    browser.open_file(path);
    browser.run("document.querySelector('[data-view=lines]').click()");
    for (const char* kind : {"masked", "cross"}) {
      browser.run(
          "tril.state.change({ phase: 'inference' });"
          "document.querySelector(arguments[0]).click(); document.activeElement.blur()",
          Json::array({std::string("[data-kind=") + kind + "]"}));
      browser.key("Home");
      for (int i = 0; i < 3; ++i) {
        browser.key("ArrowRight");
        const Json seen = browser.run(R"js(
            const { kind, layer, head, row, step } = tril.state.now;
            const { key } = tril.attentions.size(kind);
            const { lo, hi } = tril.attentions.sees(kind, layer, row, false);
            const weights = [...tril.attentions.weights(kind, layer, head).subarray(row * key + lo, row * key + hi)];
            const drawn = [...document.querySelectorAll("#inference-matrix .thread.chosen")].map((p) => p.dataset.weight);
            const label = document.querySelector("#inference-matrix .web .label.current").getBoundingClientRect();
            const dock = document.querySelector(".transport").getBoundingClientRect();
            return { right: weights.map((w) => w.toFixed(4)).sort(), drawn: drawn.sort(),
                     in_view: label.top >= 0 && label.bottom <= dock.top, follows: row === step };)js");
        EXPECT_EQ(seen["drawn"], seen["right"]) << kind;
        EXPECT_TRUE(seen["in_view"].get<bool>()) << kind << " " << window.width;
        EXPECT_TRUE(seen["follows"].get<bool>());
      }
    }
    // A word chooses its row, and the keyboard moves as in the matrix.
    browser.run("document.querySelector('#inference-matrix .web .from .label').click()");
    EXPECT_EQ(state_of(browser)["row"], 0);
    browser.run("document.querySelector('#inference-matrix .web').focus()");
    browser.key("ArrowDown");
    EXPECT_EQ(state_of(browser)["row"], 1);
    expect_quiet(browser, path);
  }
}

// By keyboard from stop to stop; each shows something that is in view, and the end is where it
// began.
TEST_F(Parts, TheTourGoesByKeyboardAndLeavesNothingBehind) {
  const std::string path = small_page();
  for (const BrowserWindow& window :
       {BrowserWindow{},
        BrowserWindow{.width = 390, .height = 844, .pixel_ratio = 2.0, .touch = true}}) {
    Browser browser(window);
    browser.open_file(path);
    const Json before = state_of(browser);
    browser.run("document.getElementById('tour').focus()");
    browser.key("Enter");
    const auto at = [&] {
      return browser.run(R"(
          const part = document.querySelector(".toured")?.getBoundingClientRect();
          const box = document.getElementById("tour-box");
          const place = box.getBoundingClientRect();
          return { shown: !box.hidden, title: document.getElementById("tour-title").textContent,
                   focus: document.activeElement.id,
                   sees: part !== undefined && part.bottom > 0 && part.top < innerHeight,
                   inside: place.left >= 0 && place.top >= 0 && place.right <= innerWidth && place.bottom <= innerHeight };)");
    };
    std::vector<std::string> titles;
    bool unmasked = false;
    for (Json now = at(); now["shown"].get<bool>() && titles.size() < 20; now = at()) {
      titles.push_back(now["title"]);
      EXPECT_EQ(now["focus"], "tour-next");
      EXPECT_TRUE(now["sees"].get<bool>()) << now;
      EXPECT_TRUE(now["inside"].get<bool>()) << now;
      unmasked = unmasked || state_of(browser)["maskOff"].get<bool>();
      browser.key("Enter");
    }
    EXPECT_EQ(titles.size(), 8u);
    EXPECT_TRUE(unmasked);
    EXPECT_EQ(state_of(browser), before);
    EXPECT_EQ(browser.run("return document.activeElement.id"), "tour");
    // Skipped in the middle.
    browser.key("Enter");
    browser.key("ArrowRight");
    EXPECT_EQ(at()["title"], titles[1]);
    browser.key("ArrowLeft");
    EXPECT_EQ(at()["title"], titles[0]);
    browser.key("Escape");
    EXPECT_FALSE(at()["shown"].get<bool>());
    EXPECT_EQ(state_of(browser), before);
    expect_quiet(browser, path);
  }
}

// Every word of the page's own exists in Hindi, and the view stays the same.
TEST_F(Parts, TheOtherLanguageHasEveryWord) {
  const std::string path = small_page();
  Browser browser;
  browser.open_file(path);
  const Json keys = browser.run(
      "return [Object.keys(kEnglish).filter((k) => !(k in kHindi)), "
      "Object.keys(kHindi).filter((k) => !(k in kEnglish))]");
  EXPECT_EQ(keys, Json::array({Json::array(), Json::array()}));
  // A template names the same values in both.
  const Json places = browser.run(R"(
      const names = (entry) => [...new Set([...String(entry).matchAll(/(?<!\$)\{(\w+)\}/g)].map((m) => m[1]))].sort().join();
      return Object.keys(kEnglish).filter((k) => typeof kEnglish[k] === "string" && typeof kHindi[k] === "string" &&
                                                 names(kEnglish[k]) !== names(kHindi[k]));)");
  EXPECT_EQ(places, Json::array());
  browser.run("tril.state.change({ step: 2, row: 1, column: 0, kind: 'cross', layer: 1 })");
  const Json before = state_of(browser);
  browser.click("#language");
  EXPECT_EQ(browser.run("return document.documentElement.lang"), "hi");
  EXPECT_EQ(state_of(browser), before);
  EXPECT_EQ(browser.text("#play-word"), "चलाएँ");
  EXPECT_EQ(browser.run("return document.activeElement.id"), "language");
  // Nothing is left unsaid or in the other language.
  const Json latin = browser.run(R"(
      return [...document.querySelectorAll(".panel .words, .lede, h2[data-say], .keys span, #brief .open, .stage-card .words")]
          .filter((e) => e.checkVisibility() && !/\p{Script=Devanagari}/u.test(e.textContent)).map((e) => e.textContent);)");
  EXPECT_EQ(latin, Json::array());
  EXPECT_EQ(browser.run("return document.querySelector('main').textContent.includes('undefined')"),
            false);
  browser.click("#language");
  EXPECT_EQ(browser.text("#play-word"), "Play");
  EXPECT_EQ(state_of(browser), before);
  expect_quiet(browser, path);
}

}  // namespace
}  // namespace tril
