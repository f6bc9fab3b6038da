// Pictures of the page, for people to look at; some stand in the documentation.
#include <gtest/gtest.h>

#include <cstdlib>

#include "browser/pages.h"

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

// With a trained model: TRIL_DEMO_MODEL names the folder that `tril demo` wrote. The first of these
// pictures stands in the README.
TEST_F(Pictures, OfTheDemo) {
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
}

}  // namespace
}  // namespace tril
