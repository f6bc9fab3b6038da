// The page in windows of all sizes: what fits, what is readable, how fast it responds.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "browser/pages.h"

namespace tril {
namespace {

using testing::Browser;
using testing::BrowserWindow;
using testing::expect_quiet;
using testing::Json;
using testing::write_page;

class Layout : public testing::PageTest {};

// All visible text, including the tree's, in both themes, with the mask on and off: a contrast of
// 4.5 with its background. Disabled controls are left out.
TEST_F(Layout, TextCanBeRead) {
  const std::string path = small_page();
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
          for (const e of document.querySelectorAll('body *:not(script):not(title)')) {
            if (![...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim() !== '')) continue;
            const drawn = e.closest('svg');
            if ((drawn ?? e).checkVisibility() === false || e.closest('button:disabled, .sr, .skip, noscript')) continue;
            let behind = drawn ? drawn.parentElement : e;
            while (behind && rgb(getComputedStyle(behind).backgroundColor)[3] === 0) behind = behind.parentElement;
            const style = getComputedStyle(e);
            let faint = 1;
            for (let up = e; up !== null; up = up.parentElement) faint *= getComputedStyle(up).opacity;
            const paper = rgb(getComputedStyle(behind ?? document.body).backgroundColor).slice(0, 3);
            const ink = rgb(drawn ? style.fill : style.color).slice(0, 3).map((x, i) => faint * x + (1 - faint) * paper[i]);
            // In the tree the step that is looked at has a ground of its own.
            const grounds = drawn?.closest('#tree') ? [paper, rgb(getComputedStyle(drawn.querySelector('.pointer')).fill).slice(0, 3)] : [paper];
            const ratio = Math.min(...grounds.map((ground) => contrast(ink, ground)));
            if (ratio < 4.5) found.add(`${e.tagName} ${e.id} ${e.className}: ${ratio.toFixed(2)}`);
          }
          return [...found];)");
      EXPECT_EQ(faint, Json::array()) << (dark ? "dark" : "light") << (i == 0 ? "" : ", mask off");
      browser.click("#mask");
    }
  }
}

// What can be seen and runs out of the window sideways, or out of the card it stands in.
const char* const kRunsOut = R"(
    const found = [];
    const right = document.documentElement.clientWidth;
    for (const e of document.querySelectorAll("button, select, input, h1, h2, h3, p, .field, .badge")) {
      if (e.offsetParent === null || e.closest(".scrolls, .matrix-scroll, .sr, .skip, #terms")) continue;
      const box = e.getBoundingClientRect();
      const card = e.closest(".panel, .block, .transport, .bar, #verdict")?.getBoundingClientRect();
      if (box.right > (card?.right ?? right) + 0.5 || box.left < (card?.left ?? 0) - 0.5)
        found.push(`${e.tagName} ${e.id} ${e.className} ${Math.round(box.left)}..${Math.round(box.right)}`);
    }
    return found;)";

// Phones, including the narrowest, with text of both sizes: nothing overflows sideways, and touch
// targets are large enough.
TEST_F(Layout, FitsAPhone) {
  const std::string path = small_page();
  for (const int width : {320, 390}) {
    Browser browser({.width = width, .height = 844, .pixel_ratio = 2.0, .touch = true});
    browser.open_file(path);
    for (const char* size : {"", "large"}) {
      if (*size != '\0') browser.click("#large");
      EXPECT_LE(browser.run("return document.documentElement.scrollWidth").get<int>(), width)
          << width << size;
      EXPECT_EQ(browser.run(kRunsOut), Json::array()) << width << size;
      const Json small = browser.run(
          "return [...document.querySelectorAll('button, select, summary, input')].filter((e) => "
          "e.offsetParent !== null)"
          ".map((e) => [e.id || e.className || e.textContent, e.getBoundingClientRect()])"
          ".filter(([, b]) => b.width < 43.9 || b.height < 43.9).map(([name, b]) => `${name} "
          "${b.width}x${b.height}`)");
      EXPECT_EQ(small, Json::array()) << width << size;
    }
    expect_quiet(browser, path);
  }
}

// Large text on the windows people have: the tokens grow with it, and the player stays whole.
TEST_F(Layout, LargeIsLargerOnEveryDesktop) {
  const std::string path = small_page();
  for (const int width : {1024, 1280, 1366, 1440, 1920}) {
    Browser browser({.width = width, .height = 900});
    browser.open_file(path);
    // The names beside it grow; the matrix itself has the room that the window leaves.
    const auto size = [&] {
      return browser
          .run(
              "return parseFloat(getComputedStyle(document.querySelector('#training-matrix "
              ".row-labels .label')).fontSize)")
          .get<double>();
    };
    const double before = size();
    browser.run("document.getElementById('large').click()");
    EXPECT_GT(size(), before) << width;
    EXPECT_LE(browser.run("return document.documentElement.scrollWidth").get<int>(), width);
    EXPECT_EQ(browser.run(kRunsOut), Json::array()) << width;
    // Buttons in one row, the slider of some length, nothing on top of anything else.
    const Json player = browser.run(R"(
        const box = (css) => document.querySelector(css).getBoundingClientRect();
        const tops = [...document.querySelectorAll(".buttons button")].map((e) => e.getBoundingClientRect().top);
        const parts = [".buttons", ".slide", "#brief"].map(box);
        const overlap = (a, b) => a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;
        return {
          rows: new Set(tops).size,
          slider: box("#slider").width,
          lines: box("#step-words").height / parseFloat(getComputedStyle(document.querySelector("#step-words")).lineHeight),
          overlaps: overlap(parts[0], parts[1]) || overlap(parts[1], parts[2]) || overlap(parts[0], parts[2])
        };)");
    EXPECT_EQ(player["rows"], 1) << width;
    EXPECT_GT(player["slider"].get<double>(), 200.0) << width;
    EXPECT_LT(player["lines"].get<double>(), 2.5) << width;
    EXPECT_FALSE(player["overlaps"].get<bool>()) << width;
    expect_quiet(browser, path);
  }
}

// From a click to the second frame after it. Each round opens the page anew, so that every click
// does its work for the first time. What counts is the middle of the rounds: what people feel.
TEST_F(Layout, AnswersWithinATenthOfASecond) {
  const std::string path = write_page(folder_, "long.html", testing::long_page().page);
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
  for (int round = 0; round < 7; ++round) {
    browser.open_file(path);
    for (size_t i = 0; i < clicks.size(); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
      times[i].push_back(milliseconds(clicks[i]));
    }
  }
  std::printf("milliseconds: shortest, middle, longest of %zu\n", times[0].size());
  for (size_t i = 0; i < clicks.size(); ++i) {
    std::sort(times[i].begin(), times[i].end());
    // Changing the text size lays out every word again, once: it is not part of a lecture.
    const double most = clicks[i] == "#large" ? 200.0 : 100.0;
    EXPECT_LT(times[i][times[i].size() / 2], most) << clicks[i];
    std::printf("%-32s %4.0f %4.0f %4.0f\n", clicks[i].c_str(), times[i].front(),
                times[i][times[i].size() / 2], times[i].back());
  }
  expect_quiet(browser, path);
}

}  // namespace
}  // namespace tril
