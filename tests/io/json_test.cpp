#include "tril/io/json.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "io_support.h"

namespace tril::json_test {
namespace {

using testing::error_of;

std::string open_error(std::string_view text) {
  return error_of([&] { JsonReader reader(text, "c.json"); });
}

// The error of one getter on one text.
template <class F>
std::string get_error(std::string_view text, const F& get) {
  return error_of([&] {
    JsonReader reader(text, "c.json");
    get(reader);
  });
}

TEST(JsonReader, ReadsEveryKind) {
  JsonReader reader(R"( {"heads": 8, "rate": 2.5e-4, "whole": 3, "tied": true, "untied": false,
                        "name": "caf\u00e9 \ud83d\ude00", "norm": "post"} )",
                    "c.json");
  EXPECT_TRUE(reader.has("heads"));
  EXPECT_FALSE(reader.has("head"));
  EXPECT_EQ(reader.get_int("heads", 1, 8), 8);
  EXPECT_EQ(reader.get_int("heads", 8, 9), 8);
  EXPECT_EQ(reader.get_double("rate", 0, 1), 2.5e-4);
  EXPECT_EQ(reader.get_double("whole", 3, 3), 3.0);
  EXPECT_TRUE(reader.get_bool("tied"));
  EXPECT_FALSE(reader.get_bool("untied"));
  EXPECT_EQ(reader.get_string("name"), "café 😀");
  EXPECT_EQ(reader.get_choice("norm", {"pre", "post"}), 1u);
  reader.finish();
}

TEST(JsonReader, ReadsTheExtremesOfInt64) {
  JsonReader reader(R"({"a": -9223372036854775808, "b": 9223372036854775807})", "c.json");
  EXPECT_EQ(reader.get_int("a", INT64_MIN, INT64_MAX), INT64_MIN);
  EXPECT_EQ(reader.get_int("b", INT64_MIN, INT64_MAX), INT64_MAX);
}

TEST(JsonReader, AnIntegerIsNothingElse) {
  const auto heads = [](JsonReader& reader) { reader.get_int("heads", 1, 4096); };
  const std::string expected =
      "bad format: c.json: heads: expected an integer from 1 to 4096, got ";
  EXPECT_EQ(get_error(R"({"heads": "8"})", heads), expected + "\"8\"");
  EXPECT_EQ(get_error(R"({"heads": ""})", heads), expected + "\"\"");
  EXPECT_EQ(get_error(R"({"heads": 8.5})", heads), expected + "8.5");
  EXPECT_EQ(get_error(R"({"heads": 8.0})", heads), expected + "8.0");
  EXPECT_EQ(get_error(R"({"heads": 8e0})", heads), expected + "8e0");
  EXPECT_EQ(get_error(R"({"heads": 0})", heads), expected + "0");
  EXPECT_EQ(get_error(R"({"heads": -1})", heads), expected + "-1");
  EXPECT_EQ(get_error(R"({"heads": 4097})", heads), expected + "4097");
  EXPECT_EQ(get_error(R"({"heads": 18446744073709551617})", heads),
            expected + "18446744073709551617");
  EXPECT_EQ(get_error(R"({"heads": true})", heads), expected + "true");
  EXPECT_EQ(get_error(R"({"heads": null})", heads), expected + "null");
  EXPECT_EQ(get_error(R"({"heads": [8]})", heads), expected + "an array");
  EXPECT_EQ(get_error(R"({"heads": {"n": 8}})", heads), expected + "an object");
  EXPECT_EQ(get_error(R"({"head": 8})", heads),
            "bad format: c.json: heads: missing, expected an integer from 1 to 4096");
}

TEST(JsonReader, IntegersPastInt64DoNotWrap) {
  const auto any = [](JsonReader& reader) { reader.get_int("a", INT64_MIN, INT64_MAX); };
  for (const std::string number : {"9223372036854775808", "18446744073709551615",
                                   "18446744073709551616", "-9223372036854775809"}) {
    EXPECT_EQ(get_error("{\"a\": " + number + "}", any),
              "bad format: c.json: a: expected an integer from -9223372036854775808 to "
              "9223372036854775807, got " +
                  number);
  }
}

TEST(JsonReader, ADoubleIsFiniteAndInRange) {
  const auto rate = [](JsonReader& reader) { reader.get_double("rate", 0, 1.5); };
  const std::string expected = "bad format: c.json: rate: expected a number from 0 to 1.5, got ";
  EXPECT_EQ(get_error(R"({"rate": 1.6})", rate), expected + "1.6");
  EXPECT_EQ(get_error(R"({"rate": -0.001})", rate), expected + "-0.001");
  EXPECT_EQ(get_error(R"({"rate": "1"})", rate), expected + "\"1\"");
  EXPECT_EQ(get_error(R"({})", rate),
            "bad format: c.json: rate: missing, expected a number from 0 to 1.5");
  for (const std::string word :
       {"NaN", "nan", "-NaN", "Infinity", "-Infinity", "inf", "-inf", "-Inf"}) {
    EXPECT_EQ(get_error("{\"x\": 1, \"rate\": " + word + "}", rate),
              "bad format: c.json: rate: " + word + " is no number in JSON");
    EXPECT_EQ(get_error("{\"x\": 1, \"rate\":" + word, rate),
              "bad format: c.json: rate: " + word + " is no number in JSON");
  }
  // The end of a truncated string is not such a number.
  EXPECT_NE(get_error("{\"rate\": \"inf", rate).find("missing closing quote"), std::string::npos);
  for (const std::string number : {"1e999", "-1e999", "1e309"}) {
    EXPECT_EQ(get_error("{\"rate\": " + number + "}", rate),
              "bad format: c.json: rate: the number " + number + " is too large");
  }
  EXPECT_EQ(get_error("{\"rate\": " + std::string(400, '9') + "}", rate),
            "bad format: c.json: rate: the number " + std::string(80, '9') + "... is too large");
}

TEST(JsonReader, BoolStringAndChoice) {
  EXPECT_EQ(get_error(R"({"tied": 1})", [](JsonReader& reader) { reader.get_bool("tied"); }),
            "bad format: c.json: tied: expected true or false, got 1");
  EXPECT_EQ(get_error(R"({"tied": "true"})", [](JsonReader& reader) { reader.get_bool("tied"); }),
            "bad format: c.json: tied: expected true or false, got \"true\"");
  EXPECT_EQ(
      get_error(R"({"tied": "a\"b\\\n"})", [](JsonReader& reader) { reader.get_bool("tied"); }),
      "bad format: c.json: tied: expected true or false, got \"a\\\"b\\\\\\n\"");
  EXPECT_EQ(get_error(R"({"name": 1})", [](JsonReader& reader) { reader.get_string("name"); }),
            "bad format: c.json: name: expected a string, got 1");
  EXPECT_EQ(get_error("{}", [](JsonReader& reader) { reader.get_string("name"); }),
            "bad format: c.json: name: missing, expected a string");
  const auto norm = [](JsonReader& reader) { reader.get_choice("norm", {"pre", "post"}); };
  EXPECT_EQ(get_error(R"({"norm": "Pre"})", norm),
            "bad format: c.json: norm: expected one of \"pre\", \"post\", got \"Pre\"");
  // A number's text must not pass for the string.
  EXPECT_EQ(
      get_error(R"({"norm": 1})", [](JsonReader& reader) { reader.get_choice("norm", {"1"}); }),
      "bad format: c.json: norm: expected \"1\", got 1");
}

TEST(JsonReader, NamesFieldsThatNobodyAskedFor) {
  JsonReader one(R"({"heads": 8, "headz": 8})", "c.json");
  one.get_int("heads", 1, 8);
  EXPECT_TRUE(one.has("headz"));  // looking is not reading
  EXPECT_EQ(error_of([&] { one.finish(); }), "bad format: c.json: headz: unknown field");
  JsonReader more(R"({"a": 1, "heads": 8, "b": [], "": 0})", "c.json");
  more.get_int("heads", 1, 8);
  EXPECT_EQ(error_of([&] { more.finish(); }), "bad format: c.json: a: unknown field, and 2 more");
  JsonReader quotes(R"({"a\"b\\": 0})", "c.json");
  EXPECT_EQ(error_of([&] { quotes.finish(); }), "bad format: c.json: a\"b\\: unknown field");
  JsonReader nameless(R"({"": 0})", "c.json");
  EXPECT_EQ(error_of([&] { nameless.finish(); }), "bad format: c.json: \"\": unknown field");
}

TEST(JsonReader, AFieldStandsOnce) {
  EXPECT_EQ(open_error(R"({"a": 1, "b": 2, "a": 1})"),
            "bad format: c.json: a: this field stands twice");
  EXPECT_EQ(open_error(R"({"o": {"b": 2, "b": 1}})"),
            "bad format: c.json: o: b: this field stands twice");
  EXPECT_EQ(open_error(R"({"\u0061": 1, "a": 1})"),
            "bad format: c.json: a: this field stands twice");
  JsonReader nested(R"({"a": {"a": 1}, "b": {"a": 1}})", "c.json");  // these are different fields
  EXPECT_TRUE(nested.has("b"));
}

TEST(JsonReader, IsAnObject) {
  EXPECT_EQ(open_error("[1]"), "bad format: c.json: expected a JSON object, got an array");
  EXPECT_EQ(open_error("\"x\""), "bad format: c.json: expected a JSON object, got \"x\"");
  EXPECT_EQ(open_error(" 1 "), "bad format: c.json: expected a JSON object, got 1");
}

TEST(JsonReader, IsJson) {
  for (const std::string text :
       {"", " ", "{", "}", "{\"a\"}", "{\"a\":}", "{\"a\": 1,}", "{a: 1}", "{'a': 1}",
        "{\"a\": 01}", "{\"a\": 1} x", "{} {}", "{\"a\": +1}", "{\"a\": .5}", "{\"a\": \"\n\"}",
        "{\"a\": \"\\ud800\"}", "{\"a\": tru}", "{\"a\": 1 /* no */}", "{\"a\": [1, 2}"}) {
    const std::string error = open_error(text);
    EXPECT_EQ(error.find("bad format: c.json: "), 0u) << error;
    EXPECT_NE(error.find("not JSON: parse error at line "), std::string::npos) << error;
  }
  // The field, where the parser was in one; the place in any case.
  const std::string error = open_error("{\"a\": 1,\n \"rate\": oops}");
  EXPECT_NE(error.find("last read: '\"rate\": o'"), std::string::npos) << error;
  EXPECT_EQ(error.find("bad format: c.json: rate: not JSON: parse error at line 2, column "), 0u)
      << error;
}

TEST(JsonReader, ANulEndsNothing) {
  EXPECT_EQ(open_error(std::string_view("{}\0{", 4)),
            "bad format: c.json: not JSON: a NUL byte at offset 2");
}

TEST(JsonReader, ErrorsAreReadableWhateverTheFileHolds) {
  for (const std::string text :
       {"{\"a\": \"\xff\"}", "{\"\xc3\x28\": 1}", "\xff\xfe{}", "{\"a\": \xf0\x28\x8c\x28}",
        "{\"a\": \"\xed\xa0\x80\"}", "{\"a\": \"\x01\"}", "{\"a\": \"\x1b[31m"}) {
    const std::string error = open_error(text);
    EXPECT_EQ(error.find("bad format: c.json: "), 0u) << error;
    EXPECT_TRUE(testing::is_printable(error)) << error;
  }
  // Legal in a file, not fit for a terminal, and long.
  const std::string longer = "{\"a\\u0000\\u001b\": \"" + std::string(100000, 'x') + "\"}";
  const std::string unread = error_of([&] { JsonReader(longer, "c.json").finish(); });
  EXPECT_EQ(unread, "bad format: c.json: a\\u0000\\u001b: unknown field");
  std::string accents;
  for (int i = 0; i < 100; ++i) accents += "é";
  for (const std::string& text : {accents, "x" + accents, std::string(100000, 'x')}) {
    const std::string error =
        get_error("{\"a\": \"" + text + "\"}", [](JsonReader& reader) { reader.get_bool("a"); });
    EXPECT_TRUE(testing::is_printable(error)) << error;
    EXPECT_EQ(error.find("\xef\xbf\xbd"), std::string::npos) << "cut inside a character: " << error;
    EXPECT_LT(error.size(), 200u);
    EXPECT_TRUE(error.ends_with("\"...")) << error;
  }
  EXPECT_LT(open_error("{\"a\": \"" + std::string(100000, 'x')).size(), 400u);
}

TEST(JsonReader, HasLimits) {
  const std::string deep(100000, '[');
  EXPECT_EQ(open_error(deep),
            "bad format: c.json: objects and arrays lie inside each other deeper than the 8 levels "
            "allowed");
  EXPECT_EQ(open_error("{\"a\": " + deep),
            "bad format: c.json: a: objects and arrays lie inside each other deeper than the 8 "
            "levels allowed");
  std::string objects;
  for (int i = 0; i < 50000; ++i) objects += "{\"a\":";
  EXPECT_NE(open_error(objects).find("deeper than the 8 levels"), std::string::npos);
  JsonReader allowed("{\"a\": [[[[[[[]]]]]]]}", "c.json");
  EXPECT_TRUE(allowed.has("a"));

  std::string text = "{\"a\": 1}";
  text.resize(1 << 20, ' ');
  JsonReader full(text, "c.json");
  EXPECT_EQ(full.get_int("a", 1, 1), 1);
  EXPECT_EQ(open_error(text + " "),
            "bad format: c.json: 1048577 bytes of JSON, more than the 1048576 allowed");

  EXPECT_EQ(error_of([] { parse_json("[1, [2]]", "c.json", {.max_values = 3}); }),
            "bad format: c.json: more than the 3 values allowed");
  EXPECT_EQ(parse_json("[1, [2]]", "c.json", {.max_values = 4}).items.size(), 2u);
}

// Files of other programs may be larger and deeper, but not without a limit.
TEST(JsonReader, ForeignFilesHaveLargerLimits) {
  std::string large = "{\"vocab\": [0";
  for (int i = 0; i < (1 << 20); ++i) large += ",0";
  large += "]}";
  EXPECT_EQ(error_of([&] { parse_json(large, "t.json", kOurJson); }),
            "bad format: t.json: 2097166 bytes of JSON, more than the 1048576 allowed");
  const JsonValue value = parse_json(large, "t.json", kForeignJson);
  EXPECT_EQ(value.find("vocab")->items.size(), (1u << 20) + 1);
  EXPECT_TRUE(JsonReader(large, "t.json", kForeignJson).has("vocab"));
  const std::string deep = std::string(32, '[') + std::string(32, ']');
  EXPECT_NO_THROW(parse_json(deep, "t.json", kForeignJson));
  EXPECT_EQ(error_of([&] { parse_json("[" + deep + "]", "t.json", kForeignJson); }),
            "bad format: t.json: objects and arrays lie inside each other deeper than the 32 "
            "levels allowed");
  EXPECT_EQ(error_of([&] { parse_json(std::string((64 << 20) + 1, ' '), "t.json", kForeignJson); }),
            "bad format: t.json: 67108865 bytes of JSON, more than the 67108864 allowed");
}

TEST(JsonReader, KnowsUtf8) {
  for (const char* text : {"", "a", "é", "重", "😀"}) EXPECT_TRUE(is_utf8(text)) << text;
  for (const char* text : {"\xff", "\xc3", "\xed\xa0\x80", "a\x80", "\xc0\x80"}) {
    EXPECT_FALSE(is_utf8(text));
  }
}

TEST(JsonWriter, WritesInOrder) {
  JsonWriter writer;
  EXPECT_EQ(writer.to_string(), "{}\n");
  writer.set("format", 1);
  writer.set("zeta", int64_t{-5});
  writer.set("name", "a\"\\\n\x01é");
  writer.set("title", std::string("t"));
  writer.set("tied", true);
  writer.set("rate", 2.5e-4);
  writer.set("one", 1.0);
  writer.set("large", 1e300);
  writer.set("tenth", 0.1);
  writer.set("minus", -0.0);
  EXPECT_EQ(writer.to_string(),
            "{\n  \"format\": 1,\n  \"zeta\": -5,\n  \"name\": \"a\\\"\\\\\\n\\u0001é\",\n"
            "  \"title\": \"t\",\n  \"tied\": true,\n  \"rate\": 0.00025,\n  \"one\": 1.0,\n"
            "  \"large\": 1e+300,\n  \"tenth\": 0.1,\n  \"minus\": -0.0\n}\n");
}

TEST(JsonWriter, RefusesWhatJsonCannotHold) {
  JsonWriter writer;
  writer.set("a", 1);
  EXPECT_EQ(error_of([&] { writer.set("a", 2); }),
            "invalid argument: JSON: the field a is set twice");
  EXPECT_EQ(error_of([&] { writer.set("b", std::nan("")); }),
            "invalid argument: JSON: the field b is nan, which JSON cannot hold");
  EXPECT_EQ(error_of([&] { writer.set("b", std::numeric_limits<double>::infinity()); }),
            "invalid argument: JSON: the field b is inf, which JSON cannot hold");
  EXPECT_EQ(error_of([&] { writer.set("b", "x\xff"); }),
            "invalid argument: JSON: the text \"x\xef\xbf\xbd\" is not UTF-8");
  EXPECT_EQ(error_of([&] { writer.set("x\xff", 1); }),
            "invalid argument: JSON: the text \"x\xef\xbf\xbd\" is not UTF-8");
  EXPECT_EQ(writer.to_string(), "{\n  \"a\": 1\n}\n");
}

constexpr double kLargest = std::numeric_limits<double>::max();

RC_GTEST_PROP(JsonWriter, EveryDoubleComesBackInBits, (uint64_t bits)) {
  const auto value = std::bit_cast<double>(bits);
  RC_PRE(std::isfinite(value));
  JsonWriter writer;
  writer.set("x", value);
  const double again =
      JsonReader(writer.to_string(), "c.json").get_double("x", -kLargest, kLargest);
  RC_ASSERT(std::bit_cast<uint64_t>(again) == bits);
}

RC_GTEST_PROP(JsonWriter, EveryAsciiStringAndIntegerComesBack,
              (std::string text, int64_t integer)) {
  for (char& c : text) c = static_cast<char>(c & 0x7f);
  JsonWriter writer;
  writer.set(text, integer);
  if (text != "s") writer.set("s", text);
  JsonReader reader(writer.to_string(), "c.json");
  RC_ASSERT(reader.get_int(text, INT64_MIN, INT64_MAX) == integer);
  if (text != "s") RC_ASSERT(reader.get_string("s") == text);
  reader.finish();
}

TEST(JsonParser, AnyTruncationOrChangedByteIsReadOrOneError) {
  const std::string valid =
      "{\"a\": -1.5e3, \"é\": [true, null, {\"\\u00e9\\ud83d\\ude00\": \"\\n\"}], \"b\": 12}";
  const auto tries = [](const std::string& text) {
    try {
      parse_json(text, "c.json");
      return true;
    } catch (const Error& error) {
      EXPECT_EQ(std::string(error.what()).find("c.json: "), 0u) << error.what();
      EXPECT_TRUE(testing::is_printable(error.what())) << error.what();
      return false;
    }
  };
  ASSERT_TRUE(tries(valid));
  for (size_t size = 0; size < valid.size(); ++size) EXPECT_FALSE(tries(valid.substr(0, size)));
  int refused = 0;
  for (size_t i = 0; i < valid.size(); ++i) {
    for (int byte = 0; byte < 256; ++byte) {
      std::string changed = valid;
      changed[i] = static_cast<char>(byte);
      refused += tries(changed) ? 0 : 1;
    }
  }
  EXPECT_GT(refused, 0);
}

}  // namespace
}  // namespace tril::json_test
