// Models that transformers wrote (make_models.py): the same logits, and the tokens of generate().
#include "tril/hub/import.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>

#include "support/temp_folder.h"
#include "support/testing.h"
#include "tril/decode/search.h"
#include "tril/io/foreign/foreign_tensors.h"
#include "tril/models/session.h"
#include "tril/translate/translator.h"

namespace tril::import_test {
namespace {

namespace fs = std::filesystem;
using testing::raised_by;
using testing::TempFolder;
using Tokens = std::vector<int32_t>;

constexpr int kCases = 24;
constexpr int kLimit = 30;  // tokens that generate() wrote at most
const std::vector<std::string> kFamilies = {"bart",    "m2m_100", "marian",  "mbart",
                                            "pegasus", "t5",      "t5_v1_1", "mt5"};

fs::path folder_of(const std::string& family) { return fs::path(TRIL_HUB_FOLDER) / family; }

// What transformers computed with a model.
class Expected {
 public:
  explicit Expected(const std::string& family) {
    // Weights are looked for under this name.
    fs::copy_file(folder_of(family) / "expected.safetensors",
                  fs::path(folder_.path()) / "model.safetensors");
    tensors_.emplace(folder_.path());
  }
  Tokens tokens(int number, const std::string& what) const {
    const auto wide = read<int64_t>(get(number, what));
    return {wide.begin(), wide.end()};
  }
  bool has_logits(int number) const { return tensors_->find(name(number, "logits")) != nullptr; }
  std::vector<double> logits(int number) const { return read<double>(get(number, "logits")); }

 private:
  static std::string name(int number, const std::string& what) {
    return concat(number < 10 ? "0" : "", number, ".", what);
  }
  const ForeignTensor& get(int number, const std::string& what) const {
    return tensors_->get(name(number, what));
  }
  template <class Element>
  static std::vector<Element> read(const ForeignTensor& tensor) {
    std::vector<Element> values(static_cast<size_t>(tensor.size()));
    tensor.read_bytes({reinterpret_cast<char*>(values.data()), values.size() * sizeof(Element)});
    return values;
  }

  TempFolder folder_;
  std::optional<ForeignTensors> tensors_;
};

struct Special {
  int32_t start, end;
};
Special special_tokens(const std::string& family) {
  if (family == "marian") return {156, 0};
  if (family == "pegasus" || family.find("t5") != std::string::npos) return {0, 1};
  return {2, 2};
}

// The logits of a target, [row, vocab].
std::vector<float> logits_of(const Transformer& model, const Tokens& source, const Tokens& target) {
  Session session(model, 1);
  Rows rows;
  rows.add_sequence(source, {.slot = 0});
  const Memory memory = model.encode(rows, session);
  session.reset();
  rows.clear();
  rows.add_sequence(target, {.slot = session.cache.open(), .segment = 0});
  const Tensor logits = model.logits(model.forward(rows, memory, session), session);
  return {logits.data(), logits.data() + logits.size()};
}

TEST(Import, LogitsAreThoseOfTransformers) {
  for (const std::string& family : kFamilies) {
    const Transformer model = hub::read_model(folder_of(family).string());
    const Expected expected(family);
    int compared = 0;
    for (int number = 0; number < kCases; ++number) {
      if (!expected.has_logits(number)) continue;
      ++compared;
      const std::vector<double> right = expected.logits(number);
      const std::vector<float> ours =
          logits_of(model, expected.tokens(number, "source"), expected.tokens(number, "target"));
      ASSERT_EQ(ours.size(), right.size()) << family;
      double squares = 0.0, error = 0.0;
      for (size_t i = 0; i < right.size(); ++i) {
        const double difference = static_cast<double>(ours[i]) - right[i];
        squares += right[i] * right[i];
        error += difference * difference;
      }
      EXPECT_LT(error / squares, 1e-10) << family << ", case " << number;
    }
    EXPECT_EQ(compared, 3) << family;
  }
}

Tokens searched(const Transformer& model, const Tokens& source, const SearchOptions& options) {
  Session session(model, 1);
  Tokens tokens;
  bool given = false;
  search(
      model, options, options.beam,
      [&]() -> std::optional<SearchRequest> {
        if (std::exchange(given, true)) return std::nullopt;
        SearchRequest request;
        request.source = source;
        return request;
      },
      [&](SearchResult&& result) {
        tokens = result.hypotheses.front().tokens;
        return true;
      },
      session);
  return tokens;
}

// generate() ranks hypotheses cut at a limit among those that ended, tril behind them; so results
// that reach the limit are compared for greedy search alone.
TEST(Import, TokensAreThoseOfGenerate) {
  for (const std::string& family : kFamilies) {
    const Transformer model = hub::read_model(folder_of(family).string());
    const Expected expected(family);
    const Special special = special_tokens(family);
    SearchOptions options;
    options.start = special.start;
    options.end = special.end;
    options.max_tokens = kLimit;
    options.max_ratio = 0.0;
    options.length_penalty = 1.0;
    int ended = 0;
    for (int number = 0; number < kCases; ++number) {
      const Tokens source = expected.tokens(number, "source");
      options.beam = 1;
      EXPECT_EQ(searched(model, source, options), expected.tokens(number, "greedy"))
          << family << ", case " << number;
      const Tokens beam = expected.tokens(number, "beam");
      if (beam.back() != special.end) continue;
      options.beam = 4;
      const Tokens ours = searched(model, source, options);
      if (ours.back() != special.end) continue;
      ++ended;
      EXPECT_EQ(ours, beam) << family << ", case " << number;
    }
    EXPECT_GE(ended, 5) << family;
  }
}

std::string read_text(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// A Marian folder with its tokenizer.
class Folder {
 public:
  Folder() {
    fs::copy(folder_of("marian"), path(), fs::copy_options::recursive);
    fs::remove(path() / "expected.safetensors");
    for (const auto& file : fs::directory_iterator(fs::path(TRIL_TOKENIZERS_FOLDER) / "marian")) {
      if (file.path().filename() != "cases.json") fs::copy(file.path(), path());
    }
  }
  fs::path path() const { return fs::path(folder_.path()) / "theirs"; }
  std::string to() const { return (fs::path(folder_.path()) / "ours").string(); }
  // After one replacement in a file.
  std::string error_with(const std::string& file, const std::string& from,
                         const std::string& to_text) {
    const std::string before = read_text(path() / file);
    std::string text = before;
    const size_t at = text.find(from);
    if (at == std::string::npos) return "nothing to replace: " + from;
    write(file, text.replace(at, from.size(), to_text));
    std::string error = raised_by([&] { hub::import(path().string(), to()); }).text;
    write(file, before);
    // Without the folder, whose name is drawn by chance.
    const std::string folder = path().string() + "/";
    for (size_t i = error.find(folder); i != std::string::npos; i = error.find(folder)) {
      error.erase(i, folder.size());
    }
    return error;
  }

 private:
  void write(const std::string& file, const std::string& text) const {
    std::ofstream(path() / file, std::ios::binary) << text;
  }
  TempFolder folder_;
};

TEST(Import, AFolderTranslates) {
  const Folder folder;
  EXPECT_TRUE(hub::is_foreign_folder(folder.path().string()));
  const hub::ImportReport report = hub::import(folder.path().string(), folder.to());
  EXPECT_EQ(report.family, "marian");
  EXPECT_TRUE(report.unknown_fields.empty());
  EXPECT_FALSE(hub::is_foreign_folder(folder.to()));
  const Translator translator = Translator::load(folder.to(), {}, 1);
  TranslateOptions options;
  options.search = {.beam = 1, .max_tokens = kLimit};
  const std::vector<std::string> lines = {"how are you", ""};
  const std::vector<Translation> translations = translator.translate(lines, options);
  const Tokens source = translator.tokenizer().encode_source(lines[0]);
  const SearchOptions search = translator.search_options(options);
  EXPECT_EQ(translations[0].hypotheses.front().tokens,
            searched(translator.model(), source, search));
  EXPECT_EQ(translations[1].text(), "");
  EXPECT_EQ(report.languages, (std::vector<std::string>{"fra", "deu"}));
  EXPECT_EQ(raised_by([&] {
              options.languages.to = "xx";
              translator.translate(lines, options);
            }).text,
            "tokenizer: no language xx in the model, which has fra, deu");
  // A folder of transformers is never written to, and a model of tril's not imported.
  const std::string theirs = folder.path().string();
  EXPECT_EQ(raised_by([&] { hub::import(theirs, theirs, {.overwrite = Overwrite::yes}); }).text,
            theirs + ": holds a model of Hugging Face's transformers: choose another folder");
  EXPECT_EQ(raised_by([&] { hub::import(folder.to(), theirs + "2"); }).text,
            folder.to() + ": holds a model of tril already: there is nothing to import");
  EXPECT_EQ(raised_by([&] { hub::import(theirs + "3", theirs + "2"); }).text,
            theirs + "3: no such folder");
  // A model is not replaced unless that is asked for.
  EXPECT_EQ(raised_by([&] { hub::import(folder.path().string(), folder.to()); }).text,
            folder.to() + ": holds a model already");
}

TEST(Import, WhatIsNotUnderstoodIsNamed) {
  Folder folder;
  EXPECT_EQ(folder.error_with("config.json", "\"marian\"", "\"nllb-moe\""),
            "config.json: model_type is \"nllb-moe\"; tril imports marian, pegasus, m2m_100, bart, "
            "mbart, gpt2, llama, mistral, t5, mt5");
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
