#include "browser/webdriver.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <stdexcept>
#include <thread>
#include <utility>

namespace tril::testing {
namespace {

[[noreturn]] void give_up(const std::string& what) { throw std::runtime_error("browser: " + what); }

std::string from_base64(const std::string& text) {
  const std::string digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes;
  uint32_t bits = 0;
  int count = 0;
  for (const char c : text) {
    const size_t digit = digits.find(c);
    if (digit == std::string::npos) break;
    bits = bits << 6 | static_cast<uint32_t>(digit);
    count += 6;
    if (count < 8) continue;
    count -= 8;
    bytes.push_back(static_cast<char>(bits >> count & 255));
  }
  return bytes;
}

// One request and its answer; the connection ends with it.
std::string ask(int port, const std::string& request) {
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    ::close(socket);
    give_up("no driver at port " + std::to_string(port));
  }
  for (size_t sent = 0; sent < request.size();) {
    const ssize_t more = ::send(socket, request.data() + sent, request.size() - sent, MSG_NOSIGNAL);
    if (more <= 0) break;
    sent += static_cast<size_t>(more);
  }
  std::string answer;
  char buffer[65536];
  for (ssize_t more; (more = ::recv(socket, buffer, sizeof(buffer), 0)) > 0;) {
    answer.append(buffer, static_cast<size_t>(more));
    // The driver may keep the connection open: the length says when everything has arrived.
    const size_t head = answer.find("\r\n\r\n");
    const size_t field = answer.find("Content-Length:");
    if (head == std::string::npos || field > head) continue;
    if (answer.size() >= head + 4 + std::strtoul(answer.c_str() + field + 15, nullptr, 10)) break;
  }
  ::close(socket);
  const size_t head = answer.find("\r\n\r\n");
  if (head == std::string::npos) give_up("no answer from the driver");
  return answer.substr(head + 4);
}

}  // namespace

struct Browser::Driver {
  Driver() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) give_up("no pipe");
    process = ::fork();
    if (process == 0) {
      ::dup2(ends[1], STDOUT_FILENO);
      ::dup2(::open("/dev/null", O_WRONLY), STDERR_FILENO);
      ::execlp("chromedriver", "chromedriver", "--port=0", static_cast<char*>(nullptr));
      ::_exit(127);
    }
    ::close(ends[1]);
    // "ChromeDriver was started successfully on port 12345."
    const std::string before = "started successfully on port ";
    std::string said;
    char letter = 0;
    while (::read(ends[0], &letter, 1) == 1) {
      said.push_back(letter);
      const size_t at = said.find(before);
      if (letter == '.' && at != std::string::npos && said.size() > at + before.size() + 1) {
        port = std::atoi(said.c_str() + at + before.size());
        break;
      }
    }
    output = ends[0];  // left open: a driver that nobody listens to would end
    if (port == 0) give_up("chromedriver did not start: " + said);
  }
  ~Driver() {
    ::kill(process, SIGTERM);
    ::waitpid(process, nullptr, 0);
    ::close(output);
  }

  Json call(const std::string& method, const std::string& path, const Json& body) const {
    const std::string text = method == "GET" || method == "DELETE" ? "" : body.dump();
    const Json answer = Json::parse(
        ask(port, method + " " + session + path + " HTTP/1.1\r\nHost: 127.0.0.1\r\n" +
                      "Content-Type: application/json\r\nContent-Length: " +
                      std::to_string(text.size()) + "\r\nConnection: close\r\n\r\n" + text));
    const Json& value = answer.at("value");
    if (value.is_object() && value.contains("error")) give_up(value.at("message"));
    return value;
  }

  pid_t process = 0;
  int port = 0;
  int output = -1;
  std::string session;
};

bool Browser::is_installed() {
  return std::system("chromedriver --version >/dev/null 2>&1") == 0 &&
         std::system("chromium --version >/dev/null 2>&1") == 0;
}

Browser::Browser(const BrowserWindow& window)
    : window_(window), driver_(std::make_unique<Driver>()) {
  const Json options = {
      {"args",
       {"--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
        "--hide-scrollbars", "--force-color-profile=srgb", "--font-render-hinting=none",
        "--window-size=" + std::to_string(window.width) + "," + std::to_string(window.height)}}};
  const Json capabilities = {{"goog:chromeOptions", options},
                             {"goog:loggingPrefs", {{"browser", "ALL"}, {"performance", "ALL"}}}};
  const Json made =
      driver_->call("POST", "/session", {{"capabilities", {{"alwaysMatch", capabilities}}}});
  driver_->session = "/session/" + made.at("sessionId").get<std::string>();
  command("Emulation.setDeviceMetricsOverride", {{"width", window.width},
                                                 {"height", window.height},
                                                 {"deviceScaleFactor", window.pixel_ratio},
                                                 {"mobile", window.touch}});
  if (window.touch) command("Emulation.setTouchEmulationEnabled", {{"enabled", true}});
  command("Emulation.setEmulatedMedia",
          {{"features",
            {{{"name", "prefers-color-scheme"}, {"value", window.dark ? "dark" : "light"}},
             {{"name", "prefers-reduced-motion"}, {"value", "reduce"}}}}});
}

Browser::~Browser() {
  try {
    driver_->call("DELETE", "", {});
  } catch (const std::exception&) {  // it is going away in any case
  }
}

void Browser::open_file(const std::string& path) { open("file://" + path); }

void Browser::open(const std::string& address) {
  driver_->call("POST", "/url", {{"url", address}});
}

Json Browser::run(const std::string& script, const Json& arguments) {
  return driver_->call("POST", "/execute/sync", {{"script", script}, {"args", arguments}});
}

std::string Browser::text(const std::string& css) {
  return run("return document.querySelector(arguments[0]).textContent", Json::array({css}));
}

void Browser::click_at(const std::string& css, double x, double y) {
  const Json box =
      run("const e = document.querySelector(arguments[0]);"
          "e.scrollIntoView({ block: 'center', inline: 'center', behavior: 'instant' });"
          "const b = e.getBoundingClientRect(); return [b.left, b.top];",
          Json::array({css}));
  click_point(box[0].get<double>() + x, box[1].get<double>() + y);
}

void Browser::click_point(double x, double y) {
  Json event = {{"x", x}, {"y", y}, {"button", "left"}, {"clickCount", 1}};
  for (const char* type : {"mousePressed", "mouseReleased"}) {
    event["type"] = type;
    command("Input.dispatchMouseEvent", event);
  }
}

void Browser::click(const std::string& css) {
  const Json size =
      run("const b = document.querySelector(arguments[0]).getBoundingClientRect();"
          "return [b.width, b.height];",
          Json::array({css}));
  click_at(css, size[0].get<double>() / 2, size[1].get<double>() / 2);
}

void Browser::key(const std::string& name) {
  const std::vector<std::pair<std::string, int>> codes = {
      {"Tab", 9},   {"Enter", 13},     {"Escape", 27},  {" ", 32},          {"End", 35},
      {"Home", 36}, {"ArrowLeft", 37}, {"ArrowUp", 38}, {"ArrowRight", 39}, {"ArrowDown", 40}};
  Json event = {{"key", name}, {"code", name == " " ? "Space" : name}};
  for (const auto& [key, code] : codes) {
    if (key == name) event["windowsVirtualKeyCode"] = code;
  }
  if (name == "Enter") event["text"] = "\r";
  if (name == " ") event["text"] = " ";
  for (const char* type : {"keyDown", "keyUp"}) {
    event["type"] = type;
    command("Input.dispatchKeyEvent", event);
    event.erase("text");
  }
}

void Browser::type(const std::string& text) { command("Input.insertText", {{"text", text}}); }

Json Browser::log(const std::string& type) {
  return driver_->call("POST", "/se/log", {{"type", type}});
}

std::vector<std::string> Browser::complaints() {
  std::vector<std::string> messages;
  for (const Json& entry : log("browser")) {
    const std::string level = entry.at("level");
    if (level != "INFO" && level != "DEBUG")
      messages.push_back(level + ": " + entry.at("message").get<std::string>());
  }
  return messages;
}

std::vector<std::string> Browser::requests() {
  std::vector<std::string> addresses;
  for (const Json& entry : log("performance")) {
    const Json message = Json::parse(entry.at("message").get<std::string>()).at("message");
    if (message.at("method") != "Network.requestWillBeSent") continue;
    addresses.push_back(message.at("params").at("request").at("url"));
  }
  return addresses;
}

Json Browser::command(const std::string& name, const Json& parameters) {
  return driver_->call("POST", "/goog/cdp/execute", {{"cmd", name}, {"params", parameters}});
}

void Browser::resize(const Json& height) {
  command("Emulation.setDeviceMetricsOverride", {{"width", window_.width},
                                                 {"height", height},
                                                 {"deviceScaleFactor", window_.pixel_ratio},
                                                 {"mobile", window_.touch}});
}

void Browser::capture(const std::string& path, const Json& clip) {
  Json parameters = {{"format", "png"}};
  if (!clip.is_null()) parameters["clip"] = clip;
  std::ofstream file(path, std::ios::binary);
  file << from_base64(command("Page.captureScreenshot", parameters).at("data"));
  if (!file) give_up("cannot write " + path);
}

// A whole page is taken with a window as tall as the page.
void Browser::make_tall() {
  for (int i = 0; i < 2; ++i) {  // what comes into view may be of another height
    resize(run("return document.documentElement.scrollHeight"));
    run("return new Promise((done) => setTimeout(done, 250))");
  }
}

std::string Browser::print(Backgrounds backgrounds) {
  const Json printed =
      command("Page.printToPDF", {{"printBackground", backgrounds == Backgrounds::on},
                                  {"preferCSSPageSize", false},
                                  {"paperWidth", 8.27},
                                  {"paperHeight", 11.69}});
  return from_base64(printed.at("data"));
}

void Browser::screenshot(const std::string& path, Extent extent) {
  if (extent == Extent::window) {
    capture(path, nullptr);
    return;
  }
  make_tall();
  capture(path, nullptr);
  resize(window_.height);
}

void Browser::screenshot_of(const std::string& css, const std::string& path) {
  make_tall();
  const Json box =
      run("const b = document.querySelector(arguments[0]).getBoundingClientRect();"
          "return [b.left, b.top + scrollY, b.width, b.height].map(Math.round)",
          Json::array({css}));
  constexpr int kRoom = 12;
  capture(path, {{"x", box[0].get<int>() - kRoom},
                 {"y", box[1].get<int>() - kRoom},
                 {"width", box[2].get<int>() + 2 * kRoom},
                 {"height", box[3].get<int>() + 2 * kRoom},
                 {"scale", 1}});
  resize(window_.height);
}

}  // namespace tril::testing
