// The page as bytes: what travels in it, what cannot get out of it, and how large it is.
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "explain/examples.h"
#include "support/property.h"
#include "tril/explain/encode.h"
#include "tril/explain/page_parts.h"
#include "tril/explain/passes.h"

namespace tril::page_test {
namespace {

using testing::example_translator;
using testing::raised_by;
using testing::small_config;
using Json = nlohmann::json;

ExplainOptions quick_options() {
  ExplainOptions options;
  options.search.max_tokens = 6;
  options.threads = 1;
  return options;
}

// The text between the tags of the data.
std::string data_of(const std::string& page) {
  const std::string open = "<script type=\"application/json\" id=\"data\">";
  const size_t begin = page.find(open) + open.size();
  return page.substr(begin, page.find("</script>", begin) - begin);
}

int64_t count(std::string_view text, std::string_view part) {
  int64_t found = 0;
  for (size_t at = text.find(part); at != std::string_view::npos; at = text.find(part, at + 1)) {
    ++found;
  }
  return found;
}

// Read back as numbers.js does.
std::vector<uint8_t> from_base85(std::string_view text) {
  std::vector<uint8_t> bytes;
  for (size_t i = 0; i < text.size(); i += 5) {
    uint32_t word = 0;
    for (size_t d = 0; d < 5; ++d) {
      word = word * 85 + static_cast<uint32_t>(kBase85Digits.find(text[i + d]));
    }
    for (int shift = 0; shift < 32; shift += 8)
      bytes.push_back(static_cast<uint8_t>(word >> shift));
  }
  return bytes;
}

std::vector<float> floats_of(const Json& numbers) {
  const auto bytes = from_base85(numbers["floats"].get<std::string>());
  std::vector<float> values(bytes.size() / 4);
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

RC_GTEST_PROP(Page, Base85GivesTheBytesBack, (const std::vector<uint8_t>& bytes)) {
  const std::string text = base85(std::span<const uint8_t>(bytes));
  RC_ASSERT(text.find_first_of("<>&\"'\\\n") == std::string::npos);
  auto back = from_base85(text);
  RC_ASSERT(back.size() >= bytes.size() && back.size() < bytes.size() + 4);
  back.resize(bytes.size());
  RC_ASSERT(back == bytes);
}

RC_GTEST_PROP(Page, RoundedNumbersAreWithinHalfAScale, ()) {
  const int64_t width = *rc::gen::inRange<int64_t>(1, 9);
  Random random(*rc::gen::arbitrary<uint32_t>(), 1);
  auto values = testing::random_floats(random, width * 7);
  values[0] = 0.0f;
  const Rounded rounded = round_rows(values, width);
  for (size_t i = 0; i < values.size(); ++i) {
    const float scale = rounded.scales[i / static_cast<size_t>(width)];
    const double back = double{scale} * static_cast<double>(rounded.values[i]);
    // Half a scale, and the roundings of scale and quotient: two units of at most 32767 scales.
    RC_ASSERT(std::fabs(back - double{values[i]}) <=
              double{scale} * (0.5 + 2.0 * 32767.0 * testing::kUnit));
  }
  const auto zero = round_rows(std::vector<float>(4, 0.0f), 4);
  RC_ASSERT(zero.scales[0] == 0.0f && zero.values == std::vector<int16_t>(4, 0));
}

TEST(Page, NothingAUserWroteCanLeaveItsPlace) {
  EXPECT_EQ(script_safe("\"</script>&\xE2\x80\xA8\xE2\x80\xA9\""),
            "\"\\u003c/script\\u003e\\u0026\\u2028\\u2029\"");
  const Translator translator = example_translator(small_config());
  const std::string plain = explain_page(explain(translator, "how are you", quick_options()));
  ExplainOptions options = quick_options();
  const std::string sentence = testing::hostile_sentence();
  options.target = sentence.substr(0, 60);
  const std::string page = explain_page(explain(translator, sentence, options));
  for (const char* tag : {"<script", "</script", "<!--", "alert(1)<", "<style", "<body"}) {
    EXPECT_EQ(count(page, tag), count(plain, tag)) << tag;
  }
  const std::string data = data_of(page);
  EXPECT_EQ(data.find_first_of("<>&"), std::string::npos);
  EXPECT_EQ(data.find("\xE2\x80\xA8"), std::string::npos);
  EXPECT_EQ(Json::parse(data)["sentence"], sentence);
  EXPECT_EQ(Json::parse(data)["target"], *options.target);
}

TEST(Page, AWordOf300CharactersIsShown) {
  TransformerConfig config = small_config();
  config.max_length = 400;
  const std::string word = [] {
    std::string all;
    while (all.size() < 300) all += "gathered";
    return all.substr(0, 300);
  }();
  const Explanation e = explain(example_translator(config), word, quick_options());
  EXPECT_EQ(Json::parse(data_of(explain_page(e)))["sentence"], word);
}

TEST(Page, HoldsTheLibrarysNumbersBitForBit) {
  const Explanation e = explain(example_translator(small_config()), "how are you", quick_options());
  const std::string page = explain_page(e);
  EXPECT_EQ(page, explain_page(e));
  const Json data = Json::parse(data_of(page));
  EXPECT_EQ(data["precision"], "exact");
  for (const auto& [name, records] : {std::pair{"encoder", &e.training.encoder},
                                      {"masked", &e.training.masked},
                                      {"cross", &e.training.cross}}) {
    ASSERT_EQ(data["attention"][name].size(), records->size());
    for (size_t layer = 0; layer < records->size(); ++layer) {
      const Json& packed = data["attention"][name][layer];
      const AttentionRecord& record = (*records)[layer];
      EXPECT_TRUE(testing::same_bits(floats_of(packed["q"]), record.queries));
      EXPECT_TRUE(testing::same_bits(floats_of(packed["k"]), record.keys));
      EXPECT_TRUE(testing::same_bits(floats_of(packed["v"]), record.values));
      EXPECT_TRUE(testing::same_bits(floats_of(packed["context"]), record.context));
    }
  }
  EXPECT_EQ(data["bits"]["differing"], 0);
  EXPECT_EQ(data["steps"].size(), e.steps.size());
  EXPECT_EQ(data["beam"]["steps"].size(), e.search_steps.size());
}

// Decoding's records travel where they differ, and only there.
TEST(Page, HoldsWhatDecodingComputedWhereItDiffers) {
  const Translator translator = example_translator(small_config());
  ExplainOptions options = quick_options();
  options.target = "I am fine, thank you";
  TestHooks hooks;
  const auto stepwise_of = [&] {
    return Json::parse(
        data_of(explain_page(explain(translator, "how are you", options, hooks))))["stepwise"];
  };
  const Json nothing = {nullptr, nullptr};
  for (const char* kind : {"encoder", "masked", "cross"}) EXPECT_EQ(stepwise_of()[kind], nothing);

  hooks.widen_head = 1;
  hooks.widen_layer = 0;
  hooks.widen_row = 2;
  const Explanation e = explain(translator, "how are you", options, hooks);
  const Json stepwise = stepwise_of();
  EXPECT_EQ(stepwise["encoder"], nothing);
  for (size_t layer = 0; layer < 2; ++layer) {
    const Json& packed = stepwise["masked"][layer];
    const AttentionRecord& record = e.stepwise.masked[layer];
    EXPECT_TRUE(testing::same_bits(floats_of(packed["q"]), record.queries));
    EXPECT_TRUE(testing::same_bits(floats_of(packed["k"]), record.keys));
    EXPECT_TRUE(testing::same_bits(floats_of(packed["v"]), record.values));
    EXPECT_TRUE(testing::same_bits(floats_of(packed["context"]), record.context));
  }
}

TEST(Page, AsksNothingOfTheNetwork) {
  const std::string page =
      explain_page(explain(example_translator(small_config()), "how are you", quick_options()));
  EXPECT_NE(page.find("default-src 'none'"), std::string::npos);
  EXPECT_EQ(page.find("unsafe-inline"), std::string::npos);
  for (const char* way : {"http:", "https:", "src=", "@import", "fetch(", "XMLHttp", "url("}) {
    // The namespace of SVG is a name, not an address.
    const int64_t names = std::string(way) == "http:" ? 1 : 0;
    EXPECT_EQ(count(page, way), names) << way;
  }
  for (const char* place : {"{{style", "{{script", "{{data"}) EXPECT_EQ(count(page, place), 0);
  EXPECT_EQ(count(page_script(), "innerHTML"), 0);
  EXPECT_EQ(count(page_script(), "insertAdjacentHTML"), 0);
  EXPECT_EQ(count(page_script(), "\nimport "), 0);
  EXPECT_EQ(count(page_script(), "\nexport "), 0);
}

// As numbers.js does: rows of whole numbers, a scale each.
std::vector<float> rounded_floats_of(const Json& numbers, int64_t width) {
  Rounded rounded;
  const auto scales = from_base85(numbers["scales"].get<std::string>());
  const auto whole = from_base85(numbers["whole"].get<std::string>());
  rounded.scales.resize(scales.size() / 4);
  rounded.values.resize(numbers["count"].get<size_t>());
  std::memcpy(rounded.scales.data(), scales.data(), scales.size());
  std::memcpy(rounded.values.data(), whole.data(), rounded.values.size() * 2);
  return unrounded(rounded, width);
}

// The largest difference between weights drawn from a page's numbers and those of the library's.
double largest_loss(const Json& data, const Explanation& e) {
  double largest = 0.0;
  for (const auto& [name, records] : {std::pair{"encoder", &e.training.encoder},
                                      {"masked", &e.training.masked},
                                      {"cross", &e.training.cross}}) {
    for (size_t layer = 0; layer < records->size(); ++layer) {
      const AttentionRecord& exact = (*records)[layer];
      AttentionRecord drawn = exact;
      drawn.queries = rounded_floats_of(data["attention"][name][layer]["q"], e.config.head_dim);
      drawn.keys = rounded_floats_of(data["attention"][name][layer]["k"], e.config.head_dim);
      for (int64_t head = 0; head < e.config.heads; ++head) {
        const auto a = weights_of(exact, e.config, e.scale, {}, head);
        const auto b = weights_of(drawn, e.config, e.scale, {}, head);
        for (size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::fabs(a[i] - b[i]));
      }
    }
  }
  EXPECT_GT(largest, 0.0);
  return largest;
}

TEST(Page, TheLongestPromisedStaysUnderFiveAndAHalfMegabytes) {
  const Explanation e =
      explain(testing::long_translator(), testing::long_sentence(), testing::long_options());
  ASSERT_EQ(e.source.size(), 60u);
  ASSERT_EQ(e.steps.size(), 60u);
  EXPECT_EQ(e.numbers_differing, 0);
  const std::string page = explain_page(e);
  EXPECT_LT(page.size(), 5'500'000u);
  const Json data = Json::parse(data_of(page));
  EXPECT_EQ(data["precision"], "rounded");
  EXPECT_EQ(data["bits"]["roundingLoss"].get<double>(), largest_loss(data, e));
}

TEST(Page, OneThatWouldBeTooLargeIsRefused) {
  Explanation e = explain(example_translator(small_config()), "how are you", quick_options());
  e.training.masked[0].queries.resize(20'000'000);
  EXPECT_NE(raised_by([&] { explain_page(e); }).text.find("a shorter sentence"), std::string::npos);
}

}  // namespace
}  // namespace tril::page_test
