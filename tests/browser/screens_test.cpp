// The page on common screens, on paper, and for people who cannot see it.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>

#include "browser/pages.h"
#include "browser/pdf.h"
#include "browser/picture_file.h"

namespace tril {
namespace {

using testing::Browser;
using testing::BrowserWindow;
using testing::expect_quiet;
using testing::Family;
using testing::Json;
using testing::PdfPage;
using testing::write_page;

class Screens : public testing::PageTest {
 protected:
  // Hindi on both sides: marks above and below the letters, pieces that join.
  std::string hindi_page() const {
    const Translator translator = testing::example_translator(testing::small_config());
    ExplainOptions options = small_options();
    options.target = "आप कैसे हैं मैं ठीक हूँ";
    Explanation e = explain(translator, "मैं ठीक हूँ धन्यवाद", options);
    for (std::string& text : e.hypothesis_texts) text = "मेरी बहन किताब पढ़ेगी, मैं ठीक हूँ";
    return write_page(folder_, "hindi.html", explain_page(e));
  }
  std::string long_one() const {
    return write_page(folder_, "long.html", testing::long_page().page);
  }
};

struct Screen {
  const char* name;
  BrowserWindow window;
  bool large = false;
};
const Screen kScreens[] = {
    {"laptop", {.width = 1366, .height = 657}},
    {"desktop", {.width = 1440, .height = 900}},
    {"projector", {.width = 1024, .height = 768}, true},
    {"phone", {.width = 390, .height = 844, .pixel_ratio = 2.0, .touch = true}},
};

void make_large(Browser& browser, const Screen& screen) {
  if (screen.large) browser.run("document.getElementById('large').click()");
}

// Which of the active row, its label, the chosen cell and its arithmetic are not visible: outside
// the window or the box it scrolls in, or covered by something else.
const char* const kOutOfView = R"js(
    const found = [];
    const look = (name, element, share, box = element.getBoundingClientRect()) => {
      if (box.width < 1 || box.height < 1) { found.push(`${name}: nothing to see`); return; }
      for (const [x, y] of [[0.5, 0.5], [0.5, 0.1], [0.5, 0.9], [1 - share, 0.5], [share, 0.5]]) {
        const [left, top] = [box.left + x * box.width, box.top + y * box.height];
        if (left < 0 || top < 0 || left > innerWidth || top > innerHeight) {
          found.push(`${name}: at ${Math.round(left)}, ${Math.round(top)} of the window`);
          return;
        }
        const seen = document.elementsFromPoint(left, top)
            .find((one) => getComputedStyle(one).pointerEvents !== "none");
        const field = element.closest(".field") ?? element;
        if (!field.contains(seen) && !seen.contains(element)) {
          found.push(`${name}: covered by ${seen.tagName} ${seen.id} ${seen.className}`);
          return;
        }
      }
    };
    const { kind, row, column } = tril.state.now;
    const matrix = document.getElementById("inference-matrix");
    // Of a row that is wider than its box the part between the names.
    const [band, left, right] =
        [".band", ".row-labels", ".row-ends"].map((css) => matrix.querySelector(css).getBoundingClientRect());
    const from = Math.max(band.left, left.right);
    look("row", matrix.querySelector(".band"), 0.1,
         new DOMRect(from, band.top, Math.min(band.right, right.left) - from, band.height));
    look("label", matrix.querySelector(".row-labels .label.current .token"), 0.1);
    look("cell", matrix.querySelector(".cursor"), 0.1);
    look("arithmetic", document.getElementById("brief"), 0.02);
    for (const step of document.querySelectorAll("#brief output")) look(step.dataset.brief, step, 0.1);
    const words = document.querySelector("#brief .brief-words").textContent;
    const label = displayOf((kind === "encoder" ? tril.labels.source : tril.labels.fed)[row]);
    if (!words.startsWith(label)) found.push(`arithmetic of another row: ${words}`);
    const weight = tril.attentions.cell(kind, tril.state.now.layer, tril.state.now.head, row, column).weight;
    const shown = document.querySelector("[data-brief=weight]").textContent;
    if (Number(shown) !== Number(weight.toFixed(4))) found.push(`weight ${shown}, not ${weight}`);
    return found;)js";

TEST_F(Screens, SteppingKeepsTheRowItsLabelAndItsArithmeticInView) {
  const std::string pages[] = {small_page(), hindi_page(), long_one()};
  for (const Screen& screen : kScreens) {
    Browser browser(screen.window);
    for (const std::string& path : pages) {
      browser.open_file(path);
      make_large(browser, screen);
      for (const char* kind : {"masked", "cross"}) {
        browser.run("scrollTo(0, 0); document.querySelector(arguments[0]).click()",
                    Json::array({std::string("[data-kind=") + kind + "]"}));
        browser.run("document.activeElement.blur()");
        browser.key("Home");
        const int64_t steps = browser.run("return tril.page.steps.length");
        for (int64_t step = 0; step < steps; step += std::max<int64_t>(1, steps / 12)) {
          browser.run(
              "document.getElementById('slider').value = arguments[0];"
              "document.getElementById('slider').dispatchEvent(new Event('input'))",
              Json::array({step}));
          ASSERT_EQ(browser.run(kOutOfView), Json::array())
              << screen.name << " " << path << " " << kind << " step " << step;
        }
        browser.key("End");
        EXPECT_EQ(browser.run(kOutOfView), Json::array()) << screen.name << " " << path;
      }
      expect_quiet(browser, path);
    }
  }
}

// A click on a cell shows its arithmetic at once, without scrolling.
TEST_F(Screens, AClickShowsTheArithmeticWhereItIsSeen) {
  const std::string path = small_page();
  for (const Screen& screen : kScreens) {
    Browser browser(screen.window);
    browser.open_file(path);
    make_large(browser, screen);
    browser.click("#inference-matrix .field");
    EXPECT_EQ(browser.run(kOutOfView), Json::array()) << screen.name;
  }
}

// Before any scrolling most of a matrix is visible, with the names of its columns.
TEST_F(Screens, TheFirstScreenShowsAMatrix) {
  const std::string path = small_page();
  for (const Screen& screen : kScreens) {
    Browser browser(screen.window);
    browser.open_file(path);
    make_large(browser, screen);
    const Json seen = browser.run(R"(
        scrollTo(0, 0);
        const field = document.querySelector("#inference-matrix .field").getBoundingClientRect();
        const dock = document.querySelector(".transport").getBoundingClientRect();
        return { top: field.top, rows: (dock.top - field.top) * tril.page.steps.length / field.height };)");
    // On a phone a tap on the player opens it.
    if (screen.window.touch) continue;
    EXPECT_GE(seen["rows"].get<double>(), 3.0) << screen.name << seen;
  }
}

// No label has a mark, or a letter, cut off: compares the ink of every token with every clipping
// box around it.
TEST_F(Screens, NoLabelIsClipped) {
  const std::string pages[] = {small_page(), hindi_page()};
  const char* const clipped = R"js(
      const pen = document.createElement("canvas").getContext("2d");
      const found = [];
      let looked = 0;
      for (const token of document.querySelectorAll(".matrix .label .token")) {
        if (token.offsetParent === null) continue;
        ++looked;
        if (token.scrollWidth > token.clientWidth + 1 && getComputedStyle(token).overflowX !== "visible")
          found.push(`${token.textContent}: cut to ${token.clientWidth} of ${token.scrollWidth}`);
        const style = getComputedStyle(token);
        if (style.writingMode !== "horizontal-tb") {
          if (style.overflowX !== "visible") found.push(`${token.textContent}: upright, and cut`);
          continue;
        }
        pen.font = `${style.fontWeight} ${style.fontSize} ${style.fontFamily}`;
        const size = pen.measureText(token.textContent);
        const range = document.createRange();
        range.selectNodeContents(token);
        const box = range.getBoundingClientRect();
        // The baseline is where the font's own box has it.
        const line = box.top + (box.height - size.fontBoundingBoxAscent - size.fontBoundingBoxDescent) / 2 + size.fontBoundingBoxAscent;
        const ink = [line - size.actualBoundingBoxAscent, line + size.actualBoundingBoxDescent];
        for (let around = token; !around.classList.contains("matrix"); around = around.parentElement) {
          if (getComputedStyle(around).overflowY === "visible") continue;
          const limits = around.getBoundingClientRect();
          if (ink[0] < limits.top - 0.5 || ink[1] > limits.bottom + 0.5)
            found.push(`${token.textContent}: ink ${ink} in ${limits.top}..${limits.bottom} of ${around.className}`);
        }
      }
      return { looked, found };)js";
  for (const Screen& screen : kScreens) {
    Browser browser(screen.window);
    for (const std::string& path : pages) {
      browser.open_file(path);
      make_large(browser, screen);
      for (const char* kind : {"masked", "cross", "encoder"}) {
        browser.run("document.querySelector(arguments[0]).click()",
                    Json::array({std::string("[data-kind=") + kind + "]"}));
        const Json result = browser.run(clipped);
        EXPECT_EQ(result["found"], Json::array()) << screen.name << " " << kind;
        EXPECT_GE(result["looked"].get<int>(), 8);
      }
    }
  }
}

// Long sources keep their words: no axis has numbers instead.
TEST_F(Screens, EveryRowAndColumnOfALongOneHasItsToken) {
  const std::string path = long_one();
  Browser browser({.width = 1366, .height = 657});
  browser.open_file(path);
  for (const char* kind : {"masked", "cross", "encoder"}) {
    browser.run("document.querySelector(arguments[0]).click()",
                Json::array({std::string("[data-kind=") + kind + "]"}));
    const Json labels = browser.run(R"(
        const { fed, source } = tril.labels;
        const kind = tril.state.now.kind;
        const same = (css, labels) => {
          const all = [...document.querySelectorAll(css)];
          return all.length === labels.length &&
              all.every((e, i) => e.textContent === displayOf(labels[i]) && parseFloat(getComputedStyle(e).fontSize) >= 8);
        };
        return [same("#training-matrix .row-labels .token", kind === "encoder" ? source : fed),
                same("#training-matrix .column-labels .token", kind === "masked" ? fed : source)];)");
    EXPECT_EQ(labels, Json::array({true, true})) << kind;
  }
}

// What a row of cross-attention predicts is shown at its end.
TEST_F(Screens, CrossAttentionSaysWhatEachRowPredicts) {
  const std::string path = small_page();
  Browser browser;
  browser.open_file(path);
  browser.run("document.querySelector('[data-kind=cross]').click()");
  const Json ends = browser.run(R"(
      const { steps, tokens } = tril.page;
      const likeliest = steps.map(({ candidates }) => displayOf(labelOf(tokens.pieces[candidates[0][0]], candidates[0][0], tokens)));
      const shown = [...document.querySelectorAll("#training-matrix .row-ends .label")].map((e) => e.textContent);
      return { likeliest: likeliest.map((word) => `→${word}`), shown };)");
  EXPECT_EQ(ends["shown"], ends["likeliest"]);
  EXPECT_NE(browser.text("#training-matrix .readout").find("(→ "), std::string::npos);
  EXPECT_NE(browser.text("#arithmetic-title").find("(→ "), std::string::npos);
}

// Letters of pieces that follow each other join: as wide as the same text written at once.
TEST_F(Screens, AHypothesisIsOneText) {
  const std::string path = hindi_page();
  Browser browser;
  browser.open_file(path);
  const Json results = browser.run(R"(
      document.querySelectorAll(".block").forEach((b) => { b.style.contentVisibility = "visible"; });
      return [...document.querySelectorAll("#results .result-words")].map((e) => {
        const width = (node) => {
          const range = document.createRange();
          range.selectNodeContents(node);
          return range.getBoundingClientRect().width;
        };
        const other = document.createElement("span");
        other.textContent = e.textContent;
        e.after(other);
        for (const name of ["fontSize", "fontWeight", "fontFamily"]) other.style[name] = getComputedStyle(e)[name];
        other.lang = e.lang;
        const widths = [width(e), width(other)];
        other.remove();
        return { nodes: e.childNodes.length, text: e.textContent, widths };
      });)");
  ASSERT_GT(results.size(), 1u);
  for (const Json& result : results) {
    EXPECT_EQ(result["text"], "मेरी बहन किताब पढ़ेगी, मैं ठीक हूँ");
    EXPECT_EQ(result["nodes"], 1);
    EXPECT_EQ(result["widths"][0], result["widths"][1]);
    EXPECT_GT(result["widths"][0].get<double>(), 100.0);
  }
}

// Is something filled with this colour, given as 0xRRGGBB?
bool fills_with(const std::vector<PdfPage>& pages, int colour) {
  for (const PdfPage& page : pages) {
    const std::string& text = page.content;
    for (size_t at = text.find(" rg\n"); at != std::string::npos; at = text.find(" rg\n", at + 1)) {
      size_t from = at;
      for (int blanks = 0; from > 0 && text[from - 1] != '\n'; --from) {
        if (text[from - 1] == ' ' && ++blanks == 3) break;
      }
      double red = 0.0, green = 0.0, blue = 0.0;
      if (std::sscanf(text.c_str() + from, "%lf %lf %lf", &red, &green, &blue) != 3) continue;
      const auto byte = [](double x) { return static_cast<int>(x * 255.0 + 0.5); };
      if ((byte(red) << 16 | byte(green) << 8 | byte(blue)) == colour) return true;
    }
  }
  return false;
}

// Few pages, none of them nearly empty; backgrounds with a meaning are printed although browsers
// leave backgrounds out: marks, the tracks of bars, the column of the step.
TEST_F(Screens, PrintsOnFourPagesAtMost) {
  for (const std::string& path : {small_page(), hindi_page(), long_one()}) {
    for (const Screen& screen : {kScreens[0], kScreens[3]}) {
      Browser browser(screen.window);
      browser.open_file(path);
      // The small pictures of all heads are painted one by one.
      browser.run("return new Promise((done) => setTimeout(done, 1500))");
      const auto pages = testing::pages_of_pdf(browser.print(Browser::Backgrounds::off));
      EXPECT_LE(pages.size(), 4u) << screen.name << " " << path;
      for (size_t i = 0; i < pages.size(); ++i) {
        EXPECT_GE(pages[i].reach, 0.2) << screen.name << " " << path << " page " << i + 1;
      }
      for (const char* name : {"--teal-wash", "--wash", "--amber-wash", "--blue-wash"}) {
        const std::string hex = browser.run(
            "return getComputedStyle(document.documentElement).getPropertyValue("
            "arguments[0]).trim().slice(1)",
            Json::array({name}));
        EXPECT_TRUE(fills_with(pages, std::stoi(hex, nullptr, 16))) << name << " " << path;
      }
      EXPECT_FALSE(fills_with(pages, 0x123456));
      // It is as before afterwards.
      EXPECT_FALSE(browser.run("return tril.state.now.printing").get<bool>());
    }
  }
}

// A table with the same numbers, for people who cannot see the matrix; nothing captures the keys.
TEST_F(Screens, AMatrixCanBeReadAsATable) {
  const std::string path = small_page();
  Browser browser;
  browser.open_file(path);
  EXPECT_EQ(browser.run("return document.querySelectorAll('[role=application]').length"), 0);
  browser.run("document.querySelectorAll('.as-table').forEach((d) => { d.open = true; })");
  const char* const compare = R"js(
      return new Promise((done) => setTimeout(() => {
        const { kind, layer, head, maskOff } = tril.state.now;
        const { query, key } = tril.attentions.size(kind);
        const weights = tril.attentions.weights(kind, layer, head, maskOff);
        const table = document.querySelector("#training-matrix .weights");
        const wrong = [];
        const head_cells = [...table.querySelectorAll("thead th[scope=col]")].length;
        const rows = [...table.querySelectorAll("tbody tr")];
        if (head_cells !== key || rows.length !== query) wrong.push("size");
        rows.forEach((row, i) => {
          if (!row.firstChild.matches("th[scope=row]")) wrong.push(`row ${i} has no header`);
          [...row.querySelectorAll("td")].forEach((cell, j) => {
            const { lo, hi } = tril.attentions.sees(kind, layer, i, maskOff);
            const right = j < lo || j >= hi ? "hidden" : fixed(weights[i * key + j], 3);
            if (!cell.textContent.startsWith(right)) wrong.push(`${i} ${j}: ${cell.textContent}, not ${right}`);
          });
        });
        done(wrong);
      }, 100));)js";
  EXPECT_EQ(browser.run(compare), Json::array());
  browser.run("document.getElementById('mask').click()");
  EXPECT_EQ(browser.run(compare), Json::array());
  EXPECT_NE(browser.text("#training-matrix .weights").find("from the future"), std::string::npos);
  browser.run("document.querySelector('[data-kind=cross]').click()");
  EXPECT_EQ(browser.run(compare), Json::array());
  expect_quiet(browser, path);
}

// axe-core, from a file that TRIL_AXE names: it is not part of this tree.
TEST_F(Screens, AxeFindsNothingSerious) {
  const char* axe = std::getenv("TRIL_AXE");
  if (axe == nullptr) GTEST_SKIP() << "TRIL_AXE is not set: the path of an axe.min.js";
  const std::string source = testing::bytes_of(axe);
  ASSERT_GT(source.size(), 100'000u) << axe;
  const Translator alone = testing::example_translator(testing::small_config(Family::decoder_only));
  ExplainOptions options;
  options.search.max_tokens = 6;
  const std::string decoder =
      write_page(folder_, "decoder.html", explain_page(explain(alone, "how are", options)));
  const std::pair<std::string, const char*> pages[] = {
      {small_page(), ""},
      {long_one(), ""},
      {hindi_page(), "document.getElementById('mask').click()"},
      {decoder, ""}};
  for (const auto& [path, prepare] : pages) {
    Browser browser;
    browser.open_file(path);
    browser.run(
        "document.querySelectorAll('.block').forEach((b) => { b.style.contentVisibility = "
        "'visible'; }); document.querySelectorAll('details').forEach((d) => { d.open = true; });" +
        std::string(prepare));
    browser.run(source + "\nwindow.axe = axe;");
    const Json found = browser.run(R"(
        return axe.run(document, { resultTypes: ["violations"] }).then(({ violations }) => violations
            .filter(({ impact }) => impact === "serious" || impact === "critical")
            .map(({ id, nodes }) => `${id}: ${nodes.slice(0, 3).map((n) => n.html.slice(0, 160)).join(" | ")}`));)");
    EXPECT_EQ(found, Json::array()) << path << " " << prepare;
  }
}

}  // namespace
}  // namespace tril
