// The page of `tril serve` in a real browser, given by the real program: what it shows against what
// the server answers to the same question, and that everybody can use it.
//
// TRIL_PROGRAM in the environment names another program; TRIL_DEMO_MODEL a folder as `tril demo`
// writes it, without which the models have random weights.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <sstream>
#include <thread>

#include "browser/pages.h"
#include "browser/picture_file.h"

namespace tril::serve_page_test {
namespace {

using testing::Browser;
using testing::BrowserWindow;
using testing::Family;
using testing::Json;
using testing::TempFolder;
using namespace std::string_literals;

constexpr auto kPatience = std::chrono::seconds(20);

std::string program() {
  const char* given = std::getenv("TRIL_PROGRAM");
  return given == nullptr ? TRIL_PROGRAM_FILE : given;
}

std::string text_of_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// One running `tril serve`, which ends with the object.
class Server {
 public:
  explicit Server(const std::vector<std::string>& models,
                  const std::vector<std::string>& options = {},
                  const std::string& listen = "127.0.0.1:0") {
    std::vector<std::string> words = {program(), "serve"};
    words.insert(words.end(), models.begin(), models.end());
    for (const std::string& word :
         {"--listen"s, listen, "--threads"s, "1"s, "--max-body"s, "64"s}) {
      words.push_back(word);
    }
    words.insert(words.end(), options.begin(), options.end());
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
    process_ = ::fork();
    if (process_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // it does not outlive a test that is killed
      ::dup2(ends[1], STDOUT_FILENO);
      ::execv(arguments[0], arguments.data());
      ::_exit(127);
    }
    ::close(ends[1]);
    output_ = ends[0];
    // "tril: serving en-hi at http://127.0.0.1:40123"
    std::string said;
    for (char letter = 0; ::read(output_, &letter, 1) == 1 && letter != '\n';) said += letter;
    const size_t at = said.find("http://");
    if (at == std::string::npos) throw std::runtime_error("tril serve said: " + said);
    address_ = said.substr(at);
  }
  ~Server() {
    stop();
    ::close(output_);
  }
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Its exit status after SIGTERM, or -1 if it had to be killed. Calls after the first do nothing.
  int stop() {
    if (process_ == 0) return 0;
    ::kill(process_, SIGTERM);
    const auto end = std::chrono::steady_clock::now() + kPatience;
    int status = 0;
    pid_t ended = 0;
    while (ended == 0 && std::chrono::steady_clock::now() < end) {
      ended = ::waitpid(process_, &status, WNOHANG);
      if (ended == 0) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    if (ended == 0) {
      ::kill(process_, SIGKILL);
      ::waitpid(process_, &status, 0);
    }
    process_ = 0;
    return ended > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

  // "http://127.0.0.1:40123"
  const std::string& address() const { return address_; }

 private:
  pid_t process_ = 0;
  int output_ = -1;
  std::string address_;
};

// A build without Boost has the command, but no server.
bool can_serve() {
  return std::system(
             ("'" + program() + R"(' info --json | grep -q '"serve_problem": ""')").c_str()) == 0;
}

// Random weights over the tokenizer of the examples.
void write_model(const std::string& folder, Family family) {
  const TransformerConfig config = testing::small_config(family);
  Transformer(config, 7).save(
      folder, {.beside = {{"tokenizer.model", testing::example_tokenizer().bytes()}}});
}

// Both directions, so that they can be swapped, and a decoder-only model.
class ServePage : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    ASSERT_TRUE(Browser::is_installed()) << "install chromium and chromium-driver";
    if (!can_serve()) return;
    folder_ = std::make_unique<TempFolder>();
    const char* demo = std::getenv("TRIL_DEMO_MODEL");
    const std::string random = *folder_ / "random";  // its files say no direction: its name does
    write_model(random, Family::encoder_decoder);
    write_model(*folder_ / "writes", Family::decoder_only);
    models_ = {"en-hi=" + (demo == nullptr ? random : demo), "hi-en=" + random,
               "story=" + (*folder_ / "writes")};
    server_ = std::make_unique<Server>(models_);
  }
  static void TearDownTestSuite() {
    if (server_ != nullptr) {
      EXPECT_EQ(server_->stop(), 0) << "tril serve after SIGTERM";
    }
    server_.reset();
    folder_.reset();
  }
  void SetUp() override {
    if (server_ == nullptr) GTEST_SKIP() << program() << " was built without a server";
  }

  // Random weights may well write nothing.
  static bool writes_words() { return std::getenv("TRIL_DEMO_MODEL") != nullptr; }

  static const std::string& address() { return server_->address(); }

  static std::unique_ptr<TempFolder> folder_;
  static std::vector<std::string> models_;
  static std::unique_ptr<Server> server_;
};
std::unique_ptr<TempFolder> ServePage::folder_;
std::vector<std::string> ServePage::models_;
std::unique_ptr<Server> ServePage::server_;

constexpr const char* kQuestion = "How are you?";
constexpr const char* kReady = "document.documentElement.classList.contains('ready')";
// A complete answer is shown.
constexpr const char* kAnswered =
    "!document.getElementById('result').hasAttribute('aria-busy') && "
    "!document.getElementById('proof').hidden";

void wait_for(Browser& browser, const std::string& condition) {
  const auto end = std::chrono::steady_clock::now() + kPatience;
  while (!browser.run("return Boolean(" + condition + ")").get<bool>()) {
    if (std::chrono::steady_clock::now() > end) {
      FAIL() << "never: " << condition << "; problem: " << browser.text("#problem");
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

// Opens the page anew, and notes what the policy blocks, what fails, every request of the page and
// the body of every stream, and each text that the result shows while it is not complete.
void open_page(Browser& browser, const std::string& address, const std::string& fragment = "") {
  browser.command("Page.addScriptToEvaluateOnNewDocument", {{"source", R"js(
      if (!window.seen) {
        window.seen = { faults: [], asked: [], streams: [], partials: [] };
        addEventListener("securitypolicyviolation", (e) => seen.faults.push(`${e.violatedDirective} ${e.blockedURI}`));
        addEventListener("error", (e) => seen.faults.push(e.message));
        addEventListener("unhandledrejection", (e) => seen.faults.push(String(e.reason)));
        const fetched = window.fetch;
        window.fetch = async (path, options) => {
          seen.asked.push({ path, body: options?.body ? JSON.parse(options.body) : null });
          const answer = await fetched(path, options);
          if (answer.headers.get("Content-Type")?.startsWith("text/event-stream"))
            answer.clone().text().then((text) => seen.streams.push(text), () => {});
          return answer;
        };
        addEventListener("DOMContentLoaded", () => {
          const result = document.getElementById("result");
          if (!result) return;
          new MutationObserver(() => {
            if (result.hasAttribute("aria-busy") && !result.classList.contains("stale"))
              seen.partials.push(result.textContent);
          }).observe(result, { childList: true, subtree: true, attributes: true });
        });
      })js"}});
  browser.open("about:blank");
  browser.open(address + "/" + fragment);
  wait_for(browser, kReady);
}

void open_answered(Browser& browser, const std::string& address, const std::string& fragment) {
  open_page(browser, address, fragment);
  wait_for(browser, kAnswered);
}

// Nothing was blocked, nothing failed, and nothing was asked of anybody but the server. An answer
// that is an error is a complaint of the browser's; `errors` says that some were meant.
void expect_undisturbed(Browser& browser, const std::string& address, bool errors = false) {
  EXPECT_EQ(browser.run("return seen.faults"), Json::array());
  for (const std::string& complaint : browser.complaints()) {
    if (errors && complaint.find("Failed to load resource") != std::string::npos) continue;
    ADD_FAILURE() << complaint;
  }
  for (const std::string& request : browser.requests()) {
    const bool own = request.starts_with(address) || request.starts_with("blob:" + address) ||
                     request.starts_with("data:") || request == "about:blank";
    EXPECT_TRUE(own) << request;
  }
}

// What the server answers to the last question, asked once more as one answer. In an array, because
// the driver takes an object with a field `error` for an error of its own.
Json plain_answer(Browser& browser) {
  return browser.run(R"js(
      const { path, body } = seen.asked.findLast(({ body }) => body);
      return fetch(path, { method: "POST", headers: { "Content-Type": "application/json" },
                           body: JSON.stringify({ ...body, stream: false }) }).then((a) => a.json()).then((answer) => [answer]);)js")
      [0];
}

std::string focused(Browser& browser) {
  return browser.run(
      "const a = document.activeElement;"
      "return a.id || a.name || a.className || a.tagName");
}

TEST_F(ServePage, ModulesPassTheirOwnTests) {
  Browser browser;
  open_page(browser, address());
  const Json failures = browser.run("const test = async (modules) => {" +
                                    text_of_file(TRIL_SERVE_MODULES_TEST) + R"js(};
      const names = ["words", "api", "languages", "examples"];
      return Promise.all(names.map((name) => import(`${location.origin}/assets/${name}.js`)))
          .then((loaded) => test(Object.fromEntries(loaded.map((one, i) => [names[i], one]))));)js");
  EXPECT_EQ(failures, Json::array());
}

TEST_F(ServePage, TypedTextIsTranslatedAndStreamed) {
  if (!writes_words()) GTEST_SKIP() << "TRIL_DEMO_MODEL is not set";
  Browser browser;
  open_page(browser, address(), "#m=en-hi");
  EXPECT_EQ(focused(browser), "text");
  browser.run("document.getElementById('settings').open = true");
  // With a beam of 1 every token is certain at once.
  browser.run(
      "const beam = document.getElementById('set-beam'); beam.value = '1';"
      "beam.dispatchEvent(new Event('input'))");
  browser.type("How are");
  browser.type(" you?");
  wait_for(browser, kAnswered);
  const Json seen = browser.run("return seen");
  const Json answer = plain_answer(browser);
  const std::string text = answer["translations"][0]["text"];
  EXPECT_NE(text, "");
  EXPECT_EQ(browser.text("#result"), text);
  EXPECT_EQ(browser.text("#announce"), text);
  EXPECT_EQ(browser.text("#fingerprint"), answer["fingerprint"]);
  EXPECT_NE(browser.text("#count").find("12 characters"), std::string::npos);
  EXPECT_EQ(seen["asked"].back()["body"]["text"], kQuestion);
  EXPECT_EQ(seen["asked"].back()["body"]["stream"], true);
  ASSERT_FALSE(seen["streams"].empty());
  const std::string stream = seen["streams"].back();
  EXPECT_NE(stream.find("event: partial"), std::string::npos) << stream;
  EXPECT_NE(stream.find("event: done"), std::string::npos) << stream;
  bool streamed = false;
  for (const Json& partial : seen["partials"]) {
    EXPECT_TRUE(text.starts_with(partial.get<std::string>())) << partial;
    streamed = streamed || partial != "";
  }
  EXPECT_TRUE(streamed) << "nothing was shown before the whole answer: " << seen["partials"];
  expect_undisturbed(browser, address());
}

// While somebody types, only the last text is answered.
TEST_F(ServePage, AnEarlierQuestionNeverAnswersALaterOne) {
  Browser browser;
  open_page(browser, address(), "#m=en-hi");
  for (const char* more : {"I am", " fine", ",", " thank", " you"}) {
    browser.type(more);
    browser.run("return new Promise((done) => setTimeout(done, 350))");
  }
  wait_for(browser,
           std::string(kAnswered) + " && seen.asked.at(-1).body?.text === 'I am fine, thank you'");
  EXPECT_EQ(browser.text("#result"), plain_answer(browser)["translations"][0]["text"]);
  browser.run(
      "const t = document.getElementById('text'); t.value = ''; t.dispatchEvent(new "
      "Event('input'))");
  EXPECT_EQ(browser.run("return document.getElementById('proof').hidden"), true);
  EXPECT_EQ(browser.run("return document.querySelectorAll('#result .word').length"), 0);
  expect_undisturbed(browser, address());
}

// Not even where its answer comes in spite of having been given up.
TEST_F(ServePage, ALateAnswerIsNotShown) {
  if (!writes_words()) GTEST_SKIP() << "TRIL_DEMO_MODEL is not set";
  Browser browser;
  open_page(browser, address(), "#m=en-hi");
  // The first answer is fetched whatever its signal says, and kept back.
  browser.run(R"js(
      const fetched = window.fetch;
      window.release = null;
      window.fetch = async (path, options) => {
        if (window.release || !options?.body) return fetched(path, options);
        const held = new Promise((release) => { window.release = release; });
        const answer = await fetched(path, { ...options, signal: undefined });
        await held;
        return answer;
      };)js");
  browser.type("I am");
  wait_for(browser, "window.release");
  browser.type(" fine");
  wait_for(browser, kAnswered);
  const std::string shown = browser.text("#result");
  EXPECT_EQ(shown, plain_answer(browser)["translations"][0]["text"]);
  browser.run("seen.asked.at(-1).body.text = 'I am'");
  ASSERT_NE(shown, plain_answer(browser)["translations"][0]["text"]) << "they can be told apart";
  const Json partials = browser.run(
      "release(); return new Promise((done) => setTimeout(() => done(seen.partials), 500))");
  EXPECT_EQ(browser.text("#result"), shown);
  EXPECT_EQ(browser.run("return seen.streams.length"), 2) << "the late answer was read";
  EXPECT_EQ(browser.run("return document.getElementById('problem').hidden"), true);
  expect_undisturbed(browser, address());
}

// A browser may refuse to change the address once more: the text is translated all the same.
TEST_F(ServePage, AnAddressThatCannotBeWrittenDisturbsNothing) {
  Browser browser;
  open_page(browser, address(), "#m=en-hi");
  browser.run(R"js(
      window.written = 0;
      history.replaceState = () => {
        ++window.written;
        throw new DOMException("too often", "SecurityError");
      };)js");
  for (const char letter : "How are you?"s) browser.type(std::string(1, letter));
  wait_for(browser, std::string(kAnswered) + " && seen.asked.at(-1).body?.text === 'How are you?'");
  // Once for each question, not once for each letter.
  EXPECT_EQ(browser.run("return written === seen.asked.filter(({ body }) => body).length"), true);
  EXPECT_EQ(browser.text("#result"), plain_answer(browser)["translations"][0]["text"]);
  expect_undisturbed(browser, address());
}

// The other direction begins with what is shown, but only if that belongs to what is in the field.
TEST_F(ServePage, SwappingKeepsATextThatIsNotTranslatedYet) {
  Browser browser;
  open_answered(browser, address(), "#m=en-hi&q=How+are+you%3F");
  browser.run("document.getElementById('text').setSelectionRange(12, 12)");
  browser.type(" I am fine");
  browser.run("document.getElementById('swap').click()");
  wait_for(browser, "document.getElementById('model').value === 'hi-en'");
  EXPECT_EQ(browser.run("return document.getElementById('text').value"), "How are you? I am fine");
  expect_undisturbed(browser, address());
}

// Words, probabilities and links, computed here from the answer in another way: words are what
// stands between blanks, pieces are told apart by the blank that begins a word.
TEST_F(ServePage, EachWordHasItsProbabilityAndItsSource) {
  if (!writes_words()) GTEST_SKIP() << "TRIL_DEMO_MODEL is not set";
  Browser browser;
  open_answered(browser, address(), "#m=en-hi&q=How+are+you%3F");
  const Json answer = plain_answer(browser);
  const Json wrong = browser.run(R"js(
      const [{ sentences: [{ source, hypotheses: [best] }] }] = arguments[0].translations;
      const wrong = [];
      const rows = [...document.querySelectorAll("#table-body tr")];
      const words = best.text.split(" ").filter(Boolean);
      if (rows.length !== words.length) return [`${rows.length} rows for ${words}`];
      const chances = [];
      best.pieces.forEach((piece, i) => {
        if (piece === "</s>") return;
        if (piece.startsWith("▁") || i === 0) chances.push(1);
        chances[chances.length - 1] *= Math.exp(best.log_probs[i]);
      });
      rows.forEach((row, i) => {
        const [word, sure] = row.children;
        if (word.textContent !== words[i]) wrong.push(`${word.textContent}, not ${words[i]}`);
        const shown = /([0-9.]+)%/.exec(sure.textContent);
        const [least, most] = [Number(shown[1]) - 0.51, Number(shown[1]) + 0.51];
        const percent = 100 * chances[i];
        if (chances.length === words.length && !(percent >= least && percent <= most) && !/[<>]/.test(sure.textContent))
          wrong.push(`${words[i]}: ${sure.textContent}, not ${percent}`);
        const from = best.alignment.find(([, to]) => to === i)?.[0];
        if (from !== undefined && row.lastChild.textContent !== source.split(" ")[from])
          wrong.push(`${words[i]} from ${row.lastChild.textContent}, not ${source.split(" ")[from]}`);
      });
      return wrong;)js",
                                 Json::array({answer}));
  EXPECT_EQ(wrong, Json::array());
  // The same by pointing: the mirror marks the word of the source.
  const Json at = browser.run(
      "const b = document.querySelector('#result .word').getBoundingClientRect();"
      "return [b.left + b.width / 2, b.top + b.height / 2];");
  browser.command("Input.dispatchMouseEvent", {{"type", "mouseMoved"}, {"x", at[0]}, {"y", at[1]}});
  wait_for(browser, "document.querySelector('#result .current')");
  const std::string readout = browser.text("#readout");
  EXPECT_NE(readout.find('%'), std::string::npos) << readout;
  EXPECT_NE(readout.find(browser.text("#mirror .linked")), std::string::npos) << readout;
  expect_undisturbed(browser, address());
}

// The text and its mirror have the same letters at the same places; also from right to left.
TEST_F(ServePage, TheMirrorLiesUnderTheText) {
  for (const auto& [width, text] : {std::pair(390, "How+are+you%3F%0A%0AI+am+fine"),
                                    std::pair(390, "%D7%9E%D7%94+%D7%A9%D7%9C%D7%95%D7%9E%D7%9A"),
                                    std::pair(768, "How+are+you%3F%0A%D7%9E%D7%94"),
                                    std::pair(1440, "How+are+you%3F%0A%0AI+am+fine")}) {
    Browser browser({.width = width, .height = 900});
    open_answered(browser, address(), std::string("#m=en-hi&q=") + text);
    const Json different = browser.run(R"js(
        const [a, b] = ["text", "mirror"].map((id) => document.getElementById(id));
        const styles = [a, b].map((one) => getComputedStyle(one));
        const names = ["fontFamily", "fontSize", "fontWeight", "lineHeight", "letterSpacing", "wordSpacing", "tabSize",
                       "whiteSpace", "overflowWrap", "wordBreak", "lineBreak", "textAlign", "textIndent", "direction", "unicodeBidi",
                       "fontVariantNumeric", "paddingTop", "paddingLeft", "paddingRight", "width", "height"];
        const found = names.filter((name) => styles[0][name] !== styles[1][name]);
        if (a.scrollHeight > a.clientHeight) found.push("scrolls");
        return found;)js");
    EXPECT_EQ(different, Json::array()) << width << " " << text;
  }
}

// Tab reaches every control, each visibly focused, in one round.
TEST_F(ServePage, TabReachesEverything) {
  Browser browser;
  open_answered(browser, address(), "#m=en-hi&q=How+are+you%3F");
  browser.run(
      "document.querySelectorAll('details').forEach((d) => { d.open = true; });"
      "document.activeElement.blur()");
  const Json all = browser.run(R"js(
      window.nameOf = (e) => e.id || e.name || e.className || e.textContent.trim() || e.tagName;
      const list = [...document.querySelectorAll("a[href], button, input, select, textarea, summary, [tabindex='0']")]
          .filter((e) => !e.disabled && e.checkVisibility() && !e.closest("[hidden]"));
      return [...new Set(list.map(nameOf))].sort();)js");
  std::set<std::string> reached;
  for (size_t i = 0; i < 2 * all.size() + 4; ++i) {
    browser.key("Tab");
    const Json now = browser.run(R"js(
        const e = document.activeElement;
        if (e === document.body) return null;
        const ringed = ({ outlineStyle, outlineWidth }) => outlineStyle !== "none" && parseFloat(outlineWidth) >= 2;
        const pane = e.closest(".pane");  // the text has its ring around the pane
        const around = pane && getComputedStyle(pane, "::after");
        const framed = around && around.content !== "none" && parseFloat(around.borderTopWidth) >= 2;
        return [nameOf(e), ringed(getComputedStyle(e)) || Boolean(framed)];)js");
    if (now.is_null()) continue;
    EXPECT_TRUE(now[1].get<bool>()) << now[0] << " is not visibly focused";
    reached.insert(now[0]);
  }
  for (const Json& name : all) EXPECT_TRUE(reached.contains(name)) << name << " is never reached";
}

// Everything that the mouse does, by keyboard.
TEST_F(ServePage, WorksByKeyboardAlone) {
  if (!writes_words()) GTEST_SKIP() << "TRIL_DEMO_MODEL is not set";
  Browser browser;
  open_answered(browser, address(), "#m=en-hi&q=How+are+you%3F");
  const auto tab_to = [&](const std::string& id) {
    for (int i = 0; i < 60 && focused(browser) != id; ++i) browser.key("Tab");
    ASSERT_EQ(focused(browser), id);
  };
  tab_to("result");
  const Json words =
      browser.run("return [...document.querySelectorAll('#result .word')].map((w) => w.innerText)");
  ASSERT_FALSE(words.empty());
  EXPECT_EQ(browser.text("#result .current"), words[0]);
  browser.key("End");
  EXPECT_EQ(browser.text("#result .current"), words.back());
  EXPECT_EQ(browser.text("#announce"), browser.text("#readout"));
  if (words.size() > 1) {
    browser.key("ArrowLeft");
    EXPECT_EQ(browser.text("#result .current"), words[words.size() - 2]);
  }
  browser.key("Escape");
  EXPECT_EQ(browser.run("return document.querySelector('#result .current')"), nullptr);

  tab_to("choice");
  browser.key("ArrowDown");
  EXPECT_EQ(focused(browser), "choice");
  const Json answer = plain_answer(browser);
  EXPECT_EQ(browser.text("#result"), answer["translations"][0]["alternatives"][0]);

  // The settings open, and a narrower beam asks again.
  tab_to("SUMMARY");
  while (browser.run("return document.activeElement.parentElement.id") != "settings") {
    browser.key("Tab");
    tab_to("SUMMARY");
  }
  browser.key("Enter");
  EXPECT_EQ(browser.run("return document.getElementById('settings').open"), true);
  tab_to("set-beam");
  browser.key("ArrowDown");
  wait_for(browser, std::string("seen.asked.at(-1).body?.beam === 1 && ") + kAnswered);
  browser.key("ArrowUp");
  wait_for(browser, std::string("!('beam' in seen.asked.at(-1).body) && ") + kAnswered);

  // What can be done with the answer.
  // A headless window has no clipboard that it may write to.
  browser.run("navigator.clipboard.writeText = async (text) => { window.copied = text; }");
  tab_to("copy");
  browser.key("Enter");
  wait_for(browser, "document.getElementById('state').textContent === 'Copied'");
  EXPECT_EQ(browser.run("return copied"), browser.text("#result"));
  const TempFolder downloads;
  browser.command("Browser.setDownloadBehavior",
                  {{"behavior", "allow"}, {"downloadPath", downloads.path()}});
  tab_to("receipt");
  browser.key("Enter");
  wait_for(browser, "document.getElementById('receipt-words').textContent !== ''");
  EXPECT_TRUE(browser.text("#receipt-words").starts_with("Saved as receipt.json"));
  browser.run(
      "window.followed = null;"
      "document.getElementById('why').addEventListener('click', (event) => {"
      "  followed = event.target.href; event.preventDefault(); })");
  tab_to("why");
  browser.key("Enter");
  EXPECT_EQ(browser.run("return followed"),
            browser.run("return document.getElementById('why').href"));

  tab_to("theme");
  const std::string before = browser.run("return getComputedStyle(document.body).backgroundColor");
  browser.key("Enter");
  EXPECT_NE(browser.run("return getComputedStyle(document.body).backgroundColor"), before);

  tab_to("swap");
  const std::string text = browser.text("#result");
  browser.key("Enter");
  wait_for(browser, "document.getElementById('model').value === 'hi-en'");
  EXPECT_EQ(browser.run("return document.getElementById('text').value"), text);
  wait_for(browser, kAnswered);
  tab_to("model");
  browser.key("ArrowUp");
  wait_for(browser, "document.getElementById('model').value === 'en-hi'");
  wait_for(browser, std::string("seen.asked.at(-1).body.model === 'en-hi' && ") + kAnswered);

  // Clearing brings the examples back; one of them is taken.
  tab_to("clear");
  browser.key("Enter");
  EXPECT_EQ(focused(browser), "text");
  tab_to("example");
  const std::string example = browser.run("return document.activeElement.textContent");
  browser.key("Enter");
  EXPECT_EQ(browser.run("return document.getElementById('text').value"), example);
  wait_for(browser, kAnswered);
  expect_undisturbed(browser, address());
}

// The caret in the source points at a word, too.
TEST_F(ServePage, TheCaretPointsAtAWord) {
  Browser browser;
  open_answered(browser, address(), "#m=en-hi&q=How+are+you%3F");
  browser.run("document.getElementById('text').focus()");
  browser.key("Home");
  for (int i = 0; i < 5; ++i) browser.key("ArrowRight");
  // The browser tells of the caret a little later.
  wait_for(browser, "document.querySelector('#mirror .linked')?.textContent === 'are'");
  EXPECT_TRUE(browser.text("#readout").starts_with("are"));
  // At the end it only waits for more.
  browser.key("End");
  wait_for(browser, "!document.querySelector('#mirror .linked')");
  expect_undisturbed(browser, address());
}

TEST_F(ServePage, ADecoderOnlyModelContinues) {
  Browser browser;
  open_answered(browser, address(), "#m=story&q=how+are");
  EXPECT_EQ(browser.text("#title"), "Continue");
  EXPECT_EQ(browser.run("return seen.asked.at(-1).path"), "/v1/generate");
  const std::string shown = browser.text("#result");
  EXPECT_TRUE(shown.starts_with("how are")) << shown;
  EXPECT_EQ(shown, plain_answer(browser)["translations"][0]["text"]);
  EXPECT_EQ(browser.text("#result .given"), "how are");
  // Drawn: the same seed draws the same, and the next another one.
  browser.run("document.getElementById('settings').open = true");
  browser.click("#set-sample");
  wait_for(browser, std::string("!document.getElementById('again').hidden && ") + kAnswered);
  EXPECT_EQ(browser.run("return seen.asked.at(-1).body.sample"), true);
  const Json seed = browser.run("return seen.asked.at(-1).body.seed");
  browser.click("#again");
  wait_for(browser, "seen.asked.at(-1).body.seed === " + std::to_string(seed.get<int>() + 1) +
                        " && " + kAnswered);
  expect_undisturbed(browser, address());
}

// Whoever opens the address sees the same.
TEST_F(ServePage, TheAddressCanBeShared) {
  Browser browser;
  open_page(browser, address(), "#m=en-hi");
  browser.type("I am fine & well #1");
  wait_for(browser, kAnswered);
  const std::string shown = browser.text("#result");
  const std::string fragment = browser.run("return location.hash");
  Browser other;
  open_answered(other, address(), fragment);
  EXPECT_EQ(other.run("return document.getElementById('text').value"), "I am fine & well #1");
  EXPECT_EQ(other.text("#result"), shown);
}

TEST_F(ServePage, WhyLeadsToThePageOfThisSentence) {
  Browser browser;
  open_answered(browser, address(), "#m=en-hi&q=How+are+you%3F");
  const Json link = browser.run(
      "const a = document.getElementById('why'); return [a.pathname, a.target, a.href, "
      "a.textContent]");
  EXPECT_EQ(link[0], "/explain");
  EXPECT_EQ(link[1], "_blank");
  EXPECT_EQ(link[3], "Why?");
  Browser other;
  other.open(link[2].get<std::string>());
  const std::string title = other.run("return document.title");
  EXPECT_TRUE(title.ends_with("tril explain")) << title;
  EXPECT_NE(other.text("#sentence").find(kQuestion), std::string::npos);
}

TEST_F(ServePage, AReceiptIsSaved) {
  const TempFolder downloads;
  Browser browser;
  open_answered(browser, address(), "#m=en-hi&q=How+are+you%3F");
  browser.command("Browser.setDownloadBehavior",
                  {{"behavior", "allow"}, {"downloadPath", downloads.path()}});
  browser.click("#receipt");
  wait_for(browser, "document.getElementById('receipt-words').textContent !== ''");
  EXPECT_NE(browser.text("#receipt-words").find("tril verify-answer receipt.json --model"),
            std::string::npos)
      << browser.text("#receipt-words");
  const auto end = std::chrono::steady_clock::now() + kPatience;
  while (!std::filesystem::exists(downloads / "receipt.json") &&
         std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  const Json receipt = Json::parse(text_of_file(downloads / "receipt.json"), nullptr, false);
  EXPECT_TRUE(receipt.is_object()) << receipt;
  expect_undisturbed(browser, address());
}

// The server's own line is shown, and the page goes on working.
TEST_F(ServePage, ErrorsOfTheServerAreShown) {
  Browser browser;
  open_page(browser, address(), "#m=en-hi");
  browser.run(R"js(
      const text = document.getElementById("text");
      text.value = "how are you ".repeat(10000);
      text.dispatchEvent(new Event("input"));)js");
  wait_for(browser, "!document.getElementById('problem').hidden");
  const Json error = plain_answer(browser)["error"];
  EXPECT_NE(browser.text("#problem").find(error["message"].get<std::string>()), std::string::npos)
      << browser.text("#problem");
  EXPECT_NE(browser.text("#problem").find("too long"), std::string::npos);
  browser.run(R"js(
      const text = document.getElementById("text");
      text.value = "how are you";
      text.dispatchEvent(new Event("input"));)js");
  wait_for(browser, kAnswered);
  EXPECT_EQ(browser.run("return document.getElementById('problem').hidden"), true);
  expect_undisturbed(browser, address(), true);
}

// A server that asks for a key, by keyboard: none, a wrong one, a right one, and what is fetched
// with it.
TEST_F(ServePage, AKeyIsAskedForAndUsed) {
  const TempFolder folder;
  std::ofstream(folder / "keys") << "open-sesame alice\n";
  Server server(models_, {"--keys", folder / "keys"});
  Browser browser;
  browser.open(server.address() + "/#m=en-hi&q=How+are+you%3F");
  wait_for(browser, "!document.getElementById('key-form').hidden");
  EXPECT_EQ(browser.text("#key-words"), "This server asks for a key.");
  EXPECT_EQ(focused(browser), "key");
  EXPECT_EQ(browser.run("return document.getElementById('problem').hidden"), true);
  browser.screenshot(testing::output_folder() + "/serve-key.png");
  browser.type("open-sesam");
  browser.key("Enter");
  wait_for(browser,
           "document.getElementById('key-words').textContent === 'The server does not accept this "
           "key.'");
  EXPECT_EQ(focused(browser), "key");
  browser.type("e");
  browser.key("Enter");
  wait_for(browser, kAnswered);
  EXPECT_EQ(browser.run("return document.getElementById('key-form').hidden"), true);
  EXPECT_EQ(browser.run("return location.href.includes('sesame')"), false);

  browser.command("Browser.setDownloadBehavior",
                  {{"behavior", "allow"}, {"downloadPath", folder.path()}});
  const Json tabs = browser.command("Target.getTargets", Json::object())["targetInfos"].size();
  for (int i = 0; i < 60 && focused(browser) != "why"; ++i) browser.key("Tab");
  ASSERT_EQ(focused(browser), "why");
  browser.key("Enter");
  const auto end = std::chrono::steady_clock::now() + kPatience;
  while (!std::filesystem::exists(folder / "explain.html") &&
         std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  EXPECT_NE(text_of_file(folder / "explain.html").find(kQuestion), std::string::npos);
  EXPECT_EQ(browser.command("Target.getTargets", Json::object())["targetInfos"].size(), tabs);

  // The key lasts as long as the tab.
  browser.open("about:blank");
  browser.open(server.address() + "/#m=en-hi&q=How+are+you%3F");
  wait_for(browser, kAnswered);
  EXPECT_EQ(browser.run("return document.getElementById('key-form').hidden"), true);
  EXPECT_EQ(server.stop(), 0);
}

// Whoever has asked too much is told when it is tried again, and then gets the answer.
TEST_F(ServePage, ABusyServerIsAskedAgain) {
  const TempFolder folder;
  std::ofstream(folder / "keys") << "limited bob 120\n";  // two tokens per second
  Server server(models_, {"--keys", folder / "keys"});
  Browser browser;
  browser.open(server.address() + "/");
  browser.run("sessionStorage.setItem('tril-key', 'limited')");
  open_page(browser, server.address(), "#m=en-hi");
  // As much as it may, until there are some seconds to wait.
  browser.run(R"js(
      const ask = (i) => fetch("/v1/translate", {
        method: "POST", headers: { "Content-Type": "application/json", Authorization: "Bearer limited" },
        body: JSON.stringify({ text: `how are you, I am fine, thank you ${i}`, model: "en-hi", beam: 1, max_tokens: 1 })
      });
      const ask_on = (i) => ask(i).then((answer) =>
          Number(answer.headers.get("Retry-After")) >= 3 ? answer.status :
              new Promise((done) => setTimeout(done, answer.ok ? 0 : 200)).then(() => ask_on(i + 1)));
      return ask_on(0);)js");
  browser.type(kQuestion);
  wait_for(browser, "!document.getElementById('problem').hidden");
  EXPECT_NE(browser.text("#problem").find("Trying again in "), std::string::npos)
      << browser.text("#problem");
  EXPECT_EQ(browser.run("return document.querySelectorAll('#problem button').length"), 0);
  browser.screenshot(testing::output_folder() + "/serve-busy.png");
  wait_for(browser, kAnswered);
  EXPECT_EQ(browser.run("return document.getElementById('problem').hidden"), true);
  expect_undisturbed(browser, server.address(), true);
  EXPECT_EQ(server.stop(), 0);
}

// A server that is gone, and one that is there again.
TEST_F(ServePage, ALostServerIsToldAndTriedAgain) {
  auto server = std::make_unique<Server>(models_);
  const std::string place = server->address();
  Browser browser;
  open_answered(browser, place, "#m=en-hi&q=How+are+you%3F");
  EXPECT_EQ(server->stop(), 0);
  browser.type(" I am");
  const auto told = [&] {
    wait_for(browser, "!document.getElementById('problem').hidden");
    EXPECT_NE(browser.text("#problem").find("cannot be reached"), std::string::npos)
        << browser.text("#problem");
  };
  told();
  const auto press = [&] {
    for (int i = 0; i < 60; ++i) {
      browser.key("Tab");
      if (browser.run("return document.activeElement.textContent") == "Try again") break;
    }
    browser.key("Enter");
  };
  browser.screenshot(testing::output_folder() + "/serve-lost.png");
  browser.run("seen.asked = []");
  press();
  wait_for(browser, "seen.asked.length === 1");
  told();
  server = std::make_unique<Server>(models_, std::vector<std::string>{},
                                    place.substr(std::string("http://").size()));
  press();
  wait_for(browser, kAnswered);
  EXPECT_EQ(browser.run("return document.getElementById('problem').hidden"), true);
  EXPECT_EQ(browser.text("#result"), plain_answer(browser)["translations"][0]["text"]);
  expect_undisturbed(browser, place, true);
  EXPECT_EQ(server->stop(), 0);
}

// Somebody else answers, and not with JSON, such as a proxy that wants a login: the page says so.
TEST_F(ServePage, AnAnswerThatIsNoJsonIsAProblem) {
  Browser browser;
  open_page(browser, address(), "#m=en-hi");
  browser.run(
      "window.fetch = async () => new Response('<!doctype html>', "
      "{ headers: { 'Content-Type': 'text/html' } })");
  browser.type(kQuestion);
  wait_for(browser, "!document.getElementById('problem').hidden");
  EXPECT_NE(browser.text("#problem").find("cannot be read"), std::string::npos)
      << browser.text("#problem");
  EXPECT_EQ(browser.text("#problem button"), "Try again");
  expect_undisturbed(browser, address());
}

struct View {
  const char* name;
  const char* fragment;
};
const View kViews[] = {{"idle", "#m=en-hi"},
                       {"result", "#m=en-hi&q=How+are+you%3F"},
                       {"lines",
                        "#m=en-hi&q=how+are+you%"
                        "0AIamfineIamfineIamfineIamfineIamfineIamfineIamfineIamfineIamfineIamfine"},
                       {"continue", "#m=story&q=how+are"}};

void open_view(Browser& browser, const std::string& address, const View& view) {
  open_page(browser, address, view.fragment);
  if (std::string(view.fragment).find("q=") != std::string::npos) wait_for(browser, kAnswered);
  browser.run("document.querySelectorAll('details').forEach((d) => { d.open = true; })");
}

TEST_F(ServePage, NothingIsWiderThanTheWindow) {
  Browser browser({.width = 1920, .height = 900});
  for (const View& view : kViews) {
    open_view(browser, address(), view);
    for (const int width : {390, 480, 640, 767, 768, 1024, 1280, 1440, 1600, 1920}) {
      browser.command(
          "Emulation.setDeviceMetricsOverride",
          {{"width", width}, {"height", 900}, {"deviceScaleFactor", 1}, {"mobile", false}});
      const Json wide = browser.run(R"js(
          if (document.documentElement.scrollWidth <= innerWidth) return [];
          return [...document.body.querySelectorAll("*")].filter((e) => e.getBoundingClientRect().right > innerWidth + 0.5)
              .map((e) => `${e.tagName} ${e.id} ${e.className}: ${e.textContent.slice(0, 40)}`);)js");
      EXPECT_EQ(wide, Json::array()) << view.name << " " << width;
    }
    expect_undisturbed(browser, address());
  }
}

// The system's theme without a click, and the other one with it, also the next time.
TEST_F(ServePage, IsDarkWhereTheSystemIs) {
  const auto lightness = [](Browser& browser) {
    return browser.run(
        "return Number(/\\d+/.exec(getComputedStyle(document.body).backgroundColor)[0])");
  };
  for (const bool dark : {false, true}) {
    Browser browser({.dark = dark});
    open_page(browser, address());
    const auto is_dark = [&] { return lightness(browser).get<int>() < 128; };
    EXPECT_EQ(is_dark(), dark);
    browser.click("#theme");
    EXPECT_EQ(is_dark(), !dark);
    open_page(browser, address());
    EXPECT_EQ(is_dark(), !dark);
    expect_undisturbed(browser, address());
  }
}

// Pictures for people to look at.
TEST_F(ServePage, PicturesAreTaken) {
  for (const bool dark : {false, true}) {
    for (const int width : {390, 1280}) {
      Browser browser({.width = width, .height = 860, .dark = dark});
      for (const View& view : kViews) {
        open_view(browser, address(), view);
        browser.screenshot(testing::output_folder() + "/serve-" + view.name + "-" +
                               std::to_string(width) + (dark ? "-dark" : "") + ".png",
                           Browser::Extent::page);
      }
    }
  }
}

// axe-core, from a file that TRIL_AXE names: it is not part of this tree.
TEST_F(ServePage, AxeFindsNothing) {
  const char* axe = std::getenv("TRIL_AXE");
  if (axe == nullptr) GTEST_SKIP() << "TRIL_AXE is not set: the path of an axe.min.js";
  const std::string source = testing::bytes_of(axe);
  ASSERT_GT(source.size(), 100'000u) << axe;
  for (const bool dark : {false, true}) {
    for (const int width : {390, 1280}) {
      Browser browser({.width = width, .height = 860, .dark = dark});
      for (const View& view : kViews) {
        open_view(browser, address(), view);
        browser.run("if (document.querySelector('#result .word')) result.focus()");
        browser.run(source + "\nwindow.axe = axe;");
        const Json found = browser.run(R"(
            return axe.run(document, { resultTypes: ["violations"] }).then(({ violations }) => violations
                .map(({ id, impact, nodes }) => `${impact} ${id}: ${nodes.slice(0, 3).map((n) => n.html.slice(0, 160)).join(" | ")}`));)");
        EXPECT_EQ(found, Json::array()) << view.name << " " << width << (dark ? " dark" : "");
      }
    }
  }
}

}  // namespace
}  // namespace tril::serve_page_test
