// The corpora of tests/golden/scores, with what sacreBLEU makes of them (make_scores.py).
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "support/testing.h"
#include "tril/io/json.h"

namespace tril::testing {

struct ScoreCase {
  std::string name{};
  std::vector<std::string> hypotheses{};
  std::vector<std::vector<std::string>> references{};  // by segment
  JsonValue json{};                                    // all of it
};

// The field of an object; a null value, which no test expects, where there is none.
inline const JsonValue& field(const JsonValue& object, std::string_view name) {
  static const JsonValue none;
  const JsonValue* value = object.find(name);
  EXPECT_NE(value, nullptr) << name;
  return value == nullptr ? none : *value;
}

const JsonValue& field(const JsonValue&& object, std::string_view name) = delete;  // would dangle

inline JsonValue read_scores(const std::string& name) {
  const std::string file = golden_folder() + "/scores/" + name;
  std::ifstream stream(file, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
  return parse_json(text, file);
}

inline std::vector<ScoreCase> score_cases() {
  const JsonValue all = read_scores("cases.json");
  std::vector<ScoreCase> cases;
  for (const JsonValue& json : all.items) {
    ScoreCase result{.name = field(json, "name").text, .json = json};
    for (const JsonValue& item : field(json, "hypotheses").items) {
      result.hypotheses.push_back(item.text);
    }
    for (const JsonValue& items : field(json, "references").items) {
      std::vector<std::string>& references = result.references.emplace_back();
      for (const JsonValue& item : items.items) references.push_back(item.text);
    }
    EXPECT_EQ(result.hypotheses.size(), result.references.size());
    cases.push_back(std::move(result));
  }
  EXPECT_GT(cases.size(), 20u);
  return cases;
}

// The statistics of a whole case, whichever kind they are.
template <class Statistics>
Statistics add_all(const ScoreCase& corpus, Statistics statistics) {
  for (size_t i = 0; i < corpus.hypotheses.size(); ++i) {
    const std::vector<std::string_view> references(corpus.references[i].begin(),
                                                   corpus.references[i].end());
    statistics.add(corpus.hypotheses[i], references);
  }
  return statistics;
}

// sacreBLEU's line with our version in it.
inline std::string expected_line(const JsonValue& score) {
  std::string line = field(score, "line").text;
  const size_t at = line.find("VERSION");
  EXPECT_NE(at, std::string::npos);
  return line.replace(at, 7, "tril.0.1.0");
}

}  // namespace tril::testing
