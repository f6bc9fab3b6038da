// The files of the page: whole, complete, and such that the server's policy lets them work.
#include "tril/serve/assets.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>
#include <string>

#include "support/testing.h"

namespace tril::serve::assets_test {
namespace {

std::string bytes_of(std::string_view name) {
  for (const Asset& asset : assets()) {
    if (asset.name == name) return std::string(asset.bytes);
  }
  ADD_FAILURE() << "no asset " << name;
  return "";
}

// What the first group of `pattern` is in each of its matches.
std::set<std::string> matches_of(const std::string& text, const char* pattern) {
  const std::regex expression(pattern);
  std::set<std::string> found;
  for (std::sregex_iterator at(text.begin(), text.end(), expression), end; at != end; ++at) {
    found.insert((*at)[1]);
  }
  return found;
}

bool ends_with(std::string_view name, std::string_view ending) { return name.ends_with(ending); }

TEST(Assets, AreTheBytesOfTheirFiles) {
  if (testing::device() != Device::cpu) {
    GTEST_SKIP() << "the machine with the GPU may not have the files";
  }
  std::set<std::string_view> names;
  for (const Asset& asset : assets()) {
    EXPECT_TRUE(names.insert(asset.name).second) << asset.name << " twice";
    const std::string name(asset.name);
    const std::string folder = name == "openapi.json" ? "" : "page/";
    std::ifstream file(TRIL_SERVE_FOLDER "/" + folder + name, std::ios::binary);
    std::stringstream bytes;
    bytes << file.rdbuf();
    EXPECT_FALSE(bytes.str().empty()) << name;
    EXPECT_EQ(bytes.str(), asset.bytes) << name;
  }
  for (const char* name : {"page.html", "style.css", "main.js", "openapi.json"}) {
    EXPECT_TRUE(names.contains(name)) << name;
  }
}

TEST(Assets, HaveTheTypeOfTheirEnding) {
  for (const Asset& asset : assets()) {
    const char* type = ends_with(asset.name, ".js")     ? "text/javascript; charset=utf-8"
                       : ends_with(asset.name, ".css")  ? "text/css; charset=utf-8"
                       : ends_with(asset.name, ".html") ? "text/html; charset=utf-8"
                       : ends_with(asset.name, ".svg")  ? "image/svg+xml"
                                                        : "application/json";
    EXPECT_EQ(asset.type, type) << asset.name;
  }
}

// Every file that is named exists, and every file is named somewhere.
TEST(Assets, NameEachOther) {
  std::set<std::string> named = {"page.html", "openapi.json"};
  for (const std::string& name : matches_of(bytes_of("page.html"), R"re("/assets/([^"]*)")re")) {
    EXPECT_NE(bytes_of(name), "") << name;
    named.insert(name);
  }
  for (const Asset& asset : assets()) {
    if (!ends_with(asset.name, ".js")) continue;
    const std::string text(asset.bytes);
    for (const std::string& name : matches_of(text, R"re(from "\./([^"]*)";)re")) {
      EXPECT_NE(bytes_of(name), "") << asset.name << " imports " << name;
      named.insert(name);
    }
  }
  for (const Asset& asset : assets()) EXPECT_TRUE(named.contains(std::string(asset.name)));
}

// What the policy of the server would block: inline scripts, styles and handlers, and anything from
// another place.
TEST(Assets, KeepToThePolicy) {
  const std::string page = bytes_of("page.html");
  const char* const blocked[] = {R"(<script(?![^>]*\bsrc=)([^>]*)>)", R"(<(style)\b)",
                                 R"(\s(style)=)", R"(\s(on[a-z]+)=)", R"((javascript:))"};
  for (const char* pattern : blocked) {
    EXPECT_EQ(matches_of(page, pattern), std::set<std::string>{}) << pattern;
  }
  for (const Asset& asset : assets()) {
    if (asset.name == "openapi.json") continue;
    for (const std::string& address : matches_of(std::string(asset.bytes), "(https?://[^\"' )]*)"))
      EXPECT_EQ(address, "http://www.w3.org/2000/svg") << asset.name;
    const std::string text(asset.bytes);
    for (const char* word : {"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write",
                             "eval(", "new Function", "setAttribute(\"style\""}) {
      EXPECT_EQ(text.find(word), std::string::npos) << asset.name << " has " << word;
    }
  }
}

}  // namespace
}  // namespace tril::serve::assets_test
