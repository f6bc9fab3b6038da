// The rules of search against generate() of transformers (make_generation.py), setting by setting:
// what a generation_config.json says becomes settings of tril, and these write the same tokens.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "support/testing.h"
#include "tril/decode/search.h"
#include "tril/hub/generation_settings.h"
#include "tril/hub/import.h"
#include "tril/io/json.h"
#include "tril/models/session.h"

namespace tril::generation_test {
namespace {

namespace fs = std::filesystem;
using testing::raised_by;
using Tokens = std::vector<int32_t>;

std::string read_text(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Another fixture may be named, which make_generation.py wrote for more inputs, or for models
// beside it.
fs::path fixture_file() {
  const char* other = std::getenv("TRIL_GENERATION_FIXTURE");
  return other != nullptr ? fs::path(other) : fs::path(TRIL_HUB_FOLDER) / "generation.json";
}
fs::path models_folder() {
  const char* other = std::getenv("TRIL_GENERATION_MODELS");
  return other != nullptr ? fs::path(other) : fs::path(TRIL_HUB_FOLDER) / "models";
}

Tokens tokens_of(const JsonValue& list) {
  Tokens tokens;
  for (const JsonValue& item : list.items) tokens.push_back(static_cast<int32_t>(item.integer));
  return tokens;
}

// A JSON value as text again; fixtures hold nothing but these kinds.
std::string json_of(const JsonValue& value) {
  using Kind = JsonValue::Kind;
  std::string text;
  const auto add = [&](const std::string& part) { text += (text.empty() ? "" : ",") + part; };
  switch (value.kind) {
    case Kind::null: return "null";
    case Kind::boolean: return value.boolean ? "true" : "false";
    case Kind::string: return json_quoted(value.text);
    case Kind::integer:
    case Kind::number: return value.text;
    case Kind::array:
      for (const JsonValue& item : value.items) add(json_of(item));
      return "[" + text + "]";
    case Kind::object:
      for (size_t i = 0; i < value.items.size(); ++i) {
        add(json_quoted(value.names[i]) + ":" + json_of(value.items[i]));
      }
      return "{" + text + "}";
  }
  return "";
}

// One family of the fixture.
class FamilyCases {
 public:
  FamilyCases(const std::string& family, const JsonValue& cases)
      : model_(hub::read_model((models_folder() / family).string())),
        cases_(cases),
        start_(static_cast<int32_t>(cases.find("start")->integer)),
        end_(static_cast<int32_t>(cases.find("end")->integer)) {
    for (const JsonValue& source : cases.find("sources")->items) {
      sources_.push_back(tokens_of(source));
    }
  }

  const std::vector<JsonValue>& cases() const { return cases_.find("cases")->items; }
  size_t inputs() const { return sources_.size(); }

  // What tril writes for each source.
  std::vector<Tokens> written(const JsonValue& setting) const {
    Tokens ends = {end_};
    if (const JsonValue* given = setting.find("eos_token_id")) ends = tokens_of(*given);
    hub::GenerationFacts facts{.vocab = model_.config().target_vocab, .ends = ends};
    const hub::ImportedGeneration read =
        hub::generation_settings(json_of(setting), "setting", facts);
    EXPECT_TRUE(read.notices.empty()) << read.notices.front();
    // Through the file, as an imported model has it.
    const GenerationSettings settings =
        generation_from_json(to_json(read.settings), "generation.json");
    EXPECT_EQ(settings, read.settings);
    SearchOptions options = search_options(settings, settings.search.over({.beam = 7}));
    options.start = start_;
    options.end = ends.front();
    options.more_ends.assign(ends.begin() + 1, ends.end());
    Tokens prefix = settings.forced_first;
    const auto forced = static_cast<int64_t>(prefix.size());
    if (const JsonValue* prompt = setting.find("decoder_input_ids")) {
      prefix = tokens_of(*prompt);
    }
    std::vector<Tokens> results(sources_.size());
    Session session(model_, 1);
    size_t next = 0;
    search(
        model_, options, 8 * options.beam,
        [&]() -> std::optional<SearchRequest> {
          if (next == sources_.size()) return std::nullopt;
          SearchRequest request;
          request.number = static_cast<int64_t>(next);
          request.source = sources_[next++];
          request.prefix = prefix;
          request.forced = forced;
          return request;
        },
        [&](SearchResult&& result) {
          results[static_cast<size_t>(result.number)] = result.hypotheses.front().tokens;
          return true;
        },
        session);
    return results;
  }

 private:
  Transformer model_;
  const JsonValue& cases_;
  int32_t start_, end_;
  std::vector<Tokens> sources_;
};

TEST(Generation, TokensAreThoseOfGenerateWithEveryRule) {
  const fs::path file = fixture_file();
  const JsonValue fixture = parse_json(read_text(file), file.string(), kForeignJson);
  for (size_t i = 0; i < fixture.names.size(); ++i) {
    const FamilyCases family(fixture.names[i], fixture.items[i]);
    size_t compared = 0, equal = 0;
    for (const JsonValue& each : family.cases()) {
      const std::vector<JsonValue>& expected = each.find("written")->items;
      const std::vector<Tokens> written = family.written(*each.find("setting"));
      ASSERT_EQ(written.size(), expected.size());
      size_t same = 0;
      for (size_t n = 0; n < written.size(); ++n) {
        const Tokens theirs = tokens_of(expected[n]);
        same += written[n] == theirs ? 1 : 0;
        EXPECT_EQ(written[n], theirs)
            << fixture.names[i] << ", " << each.find("name")->text << ", input " << n;
      }
      compared += written.size();
      equal += same;
    }
    EXPECT_GE(compared, 4 * family.cases().size());
    if (std::getenv("TRIL_GENERATION_FIXTURE") != nullptr) {
      std::printf("%s: %zu of %zu equal, %zu settings, %zu inputs\n", fixture.names[i].c_str(),
                  equal, compared, family.cases().size(), family.inputs());
    }
  }
}

}  // namespace
}  // namespace tril::generation_test
