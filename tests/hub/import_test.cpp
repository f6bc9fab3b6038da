// Models that transformers wrote (make_models.py): the same logits, and the tokens of generate().
#include "tril/hub/import.h"

#include <cstring>
#include <set>

#include "hub/hub_support.h"
#include "tril/hub/generation_settings.h"
#include "tril/translate/translator.h"

namespace tril::import_test {
namespace {

using testing::Expected;
using testing::hub_folder;
using testing::hub_models;
using testing::HubModel;
using testing::kHubCases;
using testing::kHubLimit;
using testing::raised_by;
using testing::searched;
using testing::TheirFolder;
using testing::Tokens;

TEST(Import, LogitsAreThoseOfTransformers) {
  for (const HubModel& each : hub_models()) {
    const Transformer model = hub::read_model(hub_folder(each.name).string());
    const Expected expected(each.name);
    int compared = 0;
    for (int number = 0; number < kHubCases; ++number) {
      const std::vector<double> right = expected.logits(number);
      if (right.empty()) continue;
      ++compared;
      const std::vector<float> ours = testing::logits_of(model, expected.tokens(number, "source"),
                                                         expected.tokens(number, "target"));
      EXPECT_LT(testing::distance(ours, right), 1e-10) << each.name << ", case " << number;
    }
    EXPECT_EQ(compared, 3) << each.name;
  }
}

TEST(Import, PositionsToAThousand) {
  int compared = 0;
  for (const HubModel& each : hub_models()) {
    const Expected expected(each.name);
    const std::vector<double> right = expected.long_logits();
    if (right.empty()) continue;
    ++compared;
    const Transformer model = hub::read_model(hub_folder(each.name).string());
    const TransformerConfig& config = model.config();
    const std::vector<float> ours =
        testing::logits_of(model, testing::long_tokens(std::max<int64_t>(config.source_vocab, 9)),
                           testing::long_tokens(config.target_vocab));
    EXPECT_LT(testing::distance(ours, right), 1e-10) << each.name;
  }
  EXPECT_EQ(compared, 12);  // all but marian and bart, whose twins have the positions
}

struct Special {
  int32_t start, end;
};
Special special_tokens(const std::string& name) {
  if (name == "marian" || name == "pegasus") return {156, 0};
  if (name == "marian_separate") return {3, 0};
  if (name.find("t5") != std::string::npos) return {0, 1};
  return {2, name == "gpt2" ? 329 : 2};
}

TEST(Import, TokensAreThoseOfGenerate) {
  for (const HubModel& each : hub_models()) {
    const Transformer model = hub::read_model(hub_folder(each.name).string());
    const bool decoder_only = model.config().decoder_only();
    const Expected expected(each.name);
    const Special special = special_tokens(each.name);
    SearchOptions options;
    options.start = special.start;
    options.end = special.end;
    options.max_tokens = kHubLimit;
    options.max_ratio = 0.0;
    options.length_penalty = 1.0;
    options.cut = CutHypotheses::ranked;  // as generate() does it
    options.rank_prefix = false;
    std::set<Tokens> different;
    for (int number = 0; number < kHubCases; ++number) {
      SearchRequest request;
      if (decoder_only) {
        const Tokens& prompt = expected.tokens(number, "target");
        options.start = prompt[0];
        request.prefix.assign(prompt.begin() + 1, prompt.begin() + 1 + number % 12);
      } else {
        request.source = expected.tokens(number, "source");
      }
      options.beam = 1;
      EXPECT_EQ(searched(model, request, options), expected.tokens(number, "greedy"))
          << each.name << ", case " << number;
      options.beam = 4;
      request.prefix.clear();
      const Tokens ours = searched(model, request, options);
      EXPECT_EQ(ours, expected.tokens(number, "beam")) << each.name << ", case " << number;
      different.insert(ours);
    }
    EXPECT_GE(different.size(), 10u) << each.name;  // so the inputs matter
  }
}

TEST(Import, AFolderTranslates) {
  const TheirFolder folder;
  EXPECT_TRUE(hub::is_foreign_folder(folder.path().string()));
  const hub::ImportReport report = hub::import(folder.path().string(), folder.to());
  EXPECT_EQ(report.family, "marian");
  EXPECT_TRUE(report.unknown_fields.empty());
  EXPECT_FALSE(hub::is_foreign_folder(folder.to()));
  const Translator translator = Translator::load(folder.to(), {}, 1);
  TranslateOptions options;
  options.search = {.beam = 1, .max_tokens = kHubLimit};
  const std::vector<std::string> lines = {"how are you", ""};
  const std::vector<Translation> translations = translator.translate(lines, options);
  SearchRequest request;
  request.source = translator.tokenizer().encode_source(lines[0]);
  SearchOptions search;
  search.max_tokens = kHubLimit;
  search.start = 156;
  search.end = 0;
  search.forbidden = translator.tokenizer().unwritable();
  EXPECT_EQ(translations[0].hypotheses.front().tokens,
            searched(translator.model(), request, search));
  EXPECT_EQ(translations[1].text(), "");
  EXPECT_EQ(report.languages, (std::vector<std::string>{"fra", "deu"}));
  EXPECT_EQ(raised_by([&] {
              options.languages.to = "xx";
              translator.translate(lines, options);
            }).text,
            "no language xx in the model, which has fra, deu");
  // A folder of transformers is never written to, and a model of tril's not imported.
  const std::string theirs = folder.path().string();
  EXPECT_EQ(raised_by([&] { hub::import(theirs, theirs, {.overwrite = Overwrite::yes}); }).text,
            theirs + ": holds a model of Hugging Face's transformers: choose another folder");
  EXPECT_EQ(raised_by([&] { hub::import(folder.to(), theirs + "2"); }).text,
            folder.to() + ": holds a model of tril already: there is nothing to import");
  EXPECT_EQ(raised_by([&] { hub::import(theirs + "3", theirs + "2"); }).text,
            theirs + "3: no such folder (tril downloads nothing: get the model's files first)");
  // A model is not replaced unless that is asked for.
  EXPECT_EQ(raised_by([&] { hub::import(folder.path().string(), folder.to()); }).text,
            folder.to() + ": holds a model already");
}

// transformers reads what the tokenizer's template begins with; config.json names another BOS here.
TEST(Import, StartIsWhatTheTokenizerPutsBeforeAText) {
  const TheirFolder folder({"llama_tied", "llama3"});
  ASSERT_NE(folder.text("config.json").find("\"bos_token_id\": 1"), std::string::npos);
  hub::import(folder.path().string(), folder.to());
  const Tokenizer tokenizer = Translator::load(folder.to(), {}, 1).tokenizer();
  EXPECT_EQ(tokenizer.start(), 0);
  EXPECT_EQ(tokenizer.encode_source("a").front(), 0);
}

// Tables that tril computes are read by transformers, so another table would be another model.
TEST(Import, AStoredTableIsCompared) {
  const TheirFolder folder({"pegasus", "marian"});
  std::string weights = folder.text("model.safetensors");
  const size_t name = weights.find("model.decoder.embed_positions.weight");
  ASSERT_NE(name, std::string::npos);
  const size_t offsets = weights.find("\"data_offsets\":[", name) + 16;
  const int64_t header = *reinterpret_cast<const int64_t*>(weights.data());
  const size_t first = static_cast<size_t>(8 + header + std::stoll(weights.substr(offsets)));
  float value = 0.0f;
  std::memcpy(&value, weights.data() + first + 16 * sizeof(float), sizeof(float));
  value += 1e-3f;
  std::memcpy(weights.data() + first + 16 * sizeof(float), &value, sizeof(float));
  folder.write("model.safetensors", weights);
  EXPECT_EQ(folder.error(),
            "model.safetensors: tensor 'model.decoder.embed_positions.weight' is not the table of "
            "sines and cosines that tril computes");
}

// mBART-25 translates into the language that its decoder starts with.
TEST(Import, AStartThatIsALanguageIsTheOneToWrite) {
  hub::GenerationFacts facts{.vocab = 50, .ends = {2}, .languages = {{"en", 40}, {"ro", 41}}};
  const auto language = [&](const char* text) {
    return hub::generation_settings(text, "g.json", facts).settings.to_language;
  };
  EXPECT_EQ(language("{\"decoder_start_token_id\": 41}"), "ro");
  EXPECT_EQ(language("{\"decoder_start_token_id\": 2}"), "");
  EXPECT_EQ(language("{\"decoder_start_token_id\": 41, \"forced_bos_token_id\": 40}"), "en");
}

TEST(Import, WhatIsNotUnderstoodIsNamed) {
  const TheirFolder folder;
  const std::string error = folder.error_with("config.json", "\"marian\"", "\"nllb-moe\"");
  EXPECT_EQ(error.find("config.json: model_type is \"nllb-moe\"; tril imports marian, pegasus, "
                       "m2m_100, bart, mbart, gpt2, llama, mistral"),
            0u)
      << error;
  EXPECT_EQ(folder.error_with("config.json", "\"swish\"", "\"mish\""),
            "config.json: activation_function is \"mish\", which tril does not compute");
  EXPECT_EQ(folder.error_with("config.json", "\"d_model\": 16", "\"d_model\": 18"),
            "model.safetensors: tensor 'model.shared.weight' is [160, 16], config.json asks for "
            "[160, 18]");
  EXPECT_EQ(folder.error_with("config.json", "\"decoder_ffn_dim\": 24", "\"decoder_ffn_dim\": 25"),
            "config.json: encoder_ffn_dim is 24 and decoder_ffn_dim is 25: tril has one number for "
            "both");
  EXPECT_EQ(folder.error_with("config.json", "\"encoder_layers\": 2", "\"encoder_layers\": \"2\""),
            "config.json: encoder_layers: expected an integer from 1 to 1024, got \"2\"");
}

}  // namespace
}  // namespace tril::import_test
