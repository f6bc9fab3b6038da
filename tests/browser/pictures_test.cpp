// Pictures of the page, for people to look at; some are used in the documentation.
#include <gtest/gtest.h>

#include <cstdlib>

#include "browser/pages.h"
#include "browser/picture_file.h"
#include "tril/base/error.h"
#include "tril/base/fingerprint.h"

namespace tril {
namespace {

using testing::Browser;
using testing::BrowserWindow;
using testing::Json;
using testing::output_folder;
using testing::write_page;

class Pictures : public testing::PageTest {};

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

TEST_F(Pictures, OfALongPage) {
  const std::string path = write_page(folder_, "long.html", testing::long_page().page);
  using enum Browser::Extent;
  take(path, {"long-desktop", kDesktop, "", window});
  take(path, {"long-desktop-dark-mask-off", in_the_dark(kDesktop),
              "document.getElementById('mask').click()", window});
  take(path, {"long-phone", kPhone, "", Browser::Extent::page});
  take(path, {"long-all", kDesktop, "", Browser::Extent::page});
}

// A model folder as `tril demo` writes it; empty: TRIL_DEMO_MODEL is not set.
std::string demo_model() {
  const char* model = std::getenv("TRIL_DEMO_MODEL");
  return model == nullptr ? "" : model;
}

TEST_F(Pictures, OfTheDemo) {
  if (demo_model().empty()) GTEST_SKIP() << "TRIL_DEMO_MODEL is not set";
  const Translator translator = Translator::load(demo_model(), {.purpose = Purpose::study});
  using enum Browser::Extent;
  const std::string path = write_page(
      folder_, "demo.html", explain_page(explain(translator, "My brother is reading a book")));
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
  take(path,
       {"demo-encoder", kDesktop, "document.querySelector('[data-kind=encoder]').click()", window});
  take(path, {"demo-small-phone",
              {.width = 320, .height = 640, .pixel_ratio = 2.0, .touch = true},
              "",
              page});
  take(path, {"demo-phone", kPhone, "", page});
  take(path, {"demo-phone-dark", in_the_dark(kPhone), "", window});
  ExplainOptions options;
  options.target = "मैं बढ़िया हूँ";
  const std::string fine =
      write_page(folder_, "fine.html", explain_page(explain(translator, "I am fine", options)));
  take(fine, {"demo-target", kDesktop, "", page});
  take(fine, {"demo-own-words", kDesktop,
              "document.querySelector('#follow button:last-child').click()", window});
  take(fine, {"demo-target-small-phone",
              {.width = 320, .height = 640, .pixel_ratio = 2.0, .touch = true},
              "",
              window});
}

// A picture of the documentation: of an element, or of the window.
struct DocsPicture {
  std::string file;  // below docs/
  BrowserWindow window;
  std::string prepare;  // script
  std::string element;  // empty: the window
};

// Takes the picture anew into the output folder and compares. It is of this very page, or it looks
// like it: lines that fall between pixels may be drawn a pixel lower (0.3%), a word that changed is
// more than 1%.
void expect_current(const std::string& page, const std::string& path, const DocsPicture& picture) {
  constexpr double kMost = 0.005;
  const std::string name = picture.file.substr(picture.file.rfind('/') + 1);
  const std::string taken = output_folder() + "/" + name;
  {
    Browser browser(picture.window);
    browser.open_file(path);
    if (!picture.prepare.empty()) browser.run(picture.prepare);
    browser.run(
        "return document.fonts.ready.then(() => new Promise((done) => setTimeout(done, 400)))");
    if (picture.element.empty()) {
      browser.screenshot(taken);
    } else {
      browser.screenshot_of(picture.element, taken);
    }
  }
  testing::sign_picture(
      taken, concat(fingerprint(concat(page, picture.prepare, picture.element, picture.window.width,
                                       " ", picture.window.height))));
  const std::string kept = testing::bytes_of(TRIL_DOCS_FOLDER "/" + picture.file);
  const std::string fresh = testing::bytes_of(taken);
  ASSERT_FALSE(kept.empty()) << "docs/" << picture.file << " is missing: copy " << taken;
  if (testing::subject_of(kept) == testing::subject_of(fresh)) return;
  Browser browser;
  EXPECT_LE(testing::difference(kept, fresh, browser), kMost)
      << "docs/" << picture.file << " shows another page: look at " << taken << " and copy it";
}

// A picture in the README and the guide must show the current page.
TEST_F(Pictures, OfTheDocumentationAreCurrent) {
  if (demo_model().empty()) GTEST_SKIP() << "TRIL_DEMO_MODEL is not set";
  const Translator translator = Translator::load(demo_model(), {.purpose = Purpose::study});
  const std::string page = explain_page(explain(translator, "My brother is reading a book"));
  const std::string path = write_page(folder_, "demo.html", page);
  const BrowserWindow sharp{.width = 1440, .height = 1110, .pixel_ratio = 1.5};
  const BrowserWindow plain{.width = 1440, .height = 900, .pixel_ratio = 1.25};
  expect_current(page, path, {"explain.png", sharp, "tril.state.change({ step: 3 })", ""});
  expect_current(page, path, {"guide/see-cell.png", plain, "", "#arithmetic"});
  expect_current(page, path, {"guide/see-stages.png", plain, "", "#stages"});
  expect_current(
      page, path,
      {"guide/see-leak.png", plain, "document.getElementById('mask').click()", "#phases"});
  ExplainOptions options;
  options.target = "मैं बढ़िया हूँ";
  const std::string fine = explain_page(explain(translator, "I am fine", options));
  expect_current(fine, write_page(folder_, "fine.html", fine),
                 {"guide/see-forcing.png", plain, "", "#forcing-block"});
}

// The comparison itself can fail: one picture against another, and against a part of itself.
TEST_F(Pictures, ThatDifferAreToldApart) {
  const std::string path = small_page();
  const std::string taken = output_folder() + "/compared";
  {
    Browser browser;
    browser.open_file(path);
    browser.screenshot(taken + "-1.png");
    browser.screenshot_of("#training", taken + "-2.png");
    browser.click("#mask");
    browser.run("scrollTo(0, 0)");
    browser.screenshot(taken + "-3.png");
  }
  const auto picture = [&](int i) {
    return testing::bytes_of(taken + "-" + std::to_string(i) + ".png");
  };
  Browser browser;
  EXPECT_EQ(testing::difference(picture(1), picture(1), browser), 0.0);
  EXPECT_EQ(testing::difference(picture(1), picture(2), browser), 1.0);
  EXPECT_GT(testing::difference(picture(1), picture(3), browser), 0.01);
  EXPECT_EQ(testing::subject_of(picture(1)), "");
  testing::sign_picture(taken + "-1.png", "a page");
  EXPECT_EQ(testing::subject_of(picture(1)), "a page");
  EXPECT_EQ(testing::difference(picture(1), picture(1), browser), 0.0);  // and is still a picture
}

}  // namespace
}  // namespace tril
