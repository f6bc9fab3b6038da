// A real browser, driven over the WebDriver protocol by chromedriver.
//
// Covers only what the tests of the page need. Any failure raises std::runtime_error with the
// driver's message. One Browser is one headless Chromium with its own window; both end with the
// object.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace tril::testing {

using Json = nlohmann::json;

struct BrowserWindow {
  int width = 1440;
  int height = 900;
  double pixel_ratio = 1.0;
  bool dark = false;   // what prefers-color-scheme says
  bool touch = false;  // a phone
};

class Browser {
 public:
  // False where chromedriver or Chromium is not installed.
  static bool is_installed();

  explicit Browser(const BrowserWindow& window = {});
  ~Browser();
  Browser(const Browser&) = delete;
  Browser& operator=(const Browser&) = delete;

  void open_file(const std::string& path);
  void open(const std::string& address);
  // Runs a function body in the page and returns its result; promises are awaited.
  Json run(const std::string& script, const Json& arguments = Json::array());
  // The text of the one element that `css` finds.
  std::string text(const std::string& css);

  // Trusted input, as from a mouse and a keyboard. Clicks scroll their element into view.
  void click(const std::string& css);
  void click_at(const std::string& css, double x, double y);  // from the element's corner
  void click_point(double x, double y);                       // of the window
  void key(const std::string& name);   // "ArrowLeft", "Enter", "Escape", " ", "Tab"
  void type(const std::string& text);  // where the focus is, as one input

  // All warnings and errors of the console, and the requested addresses of the network log; each
  // call returns what is new since the last.
  std::vector<std::string> complaints();
  std::vector<std::string> requests();

  // The window, or the whole page.
  enum class Extent { window, page };
  void screenshot(const std::string& path, Extent extent = Extent::window);
  // One element, with some room around it.
  void screenshot_of(const std::string& css, const std::string& path);
  // The page printed on A4, as a PDF; with backgrounds, or as browsers print by default.
  enum class Backgrounds { off, on };
  std::string print(Backgrounds backgrounds);
  Json command(const std::string& name, const Json& parameters);  // of the DevTools protocol

 private:
  struct Driver;
  void resize(const Json& height);
  void make_tall();
  void capture(const std::string& path, const Json& clip);
  Json log(const std::string& type);
  BrowserWindow window_;
  std::unique_ptr<Driver> driver_;
};

}  // namespace tril::testing
