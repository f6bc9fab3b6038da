// The models of a server: which one a request means, and in which languages.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tril/translate/translator.h"

namespace tril::serve {

struct ServedModel {
  std::string name;
  std::string folder;
  Translator translator;
  std::optional<Shortlist> shortlist;
  std::string fingerprint;  // of what its answers depend on: see fingerprint_of()
  // What it translates, by its own codes; empty: not known.
  std::vector<std::string> sources{};
  std::vector<std::string> targets{};
  LanguagePair usual{};
  // Whether a request may choose among several languages, by codes that the tokenizer knows. False:
  // one direction, and the translator is given none.
  bool chooses = false;

  bool decoder_only() const { return translator.model().config().decoder_only(); }
  // As TranslateOptions wants them.
  LanguagePair for_translator(const LanguagePair& languages) const {
    return chooses ? languages : LanguagePair{};
  }
};

// 32 hexadecimal digits: a checksum of everything besides request and options that an answer
// depends on. That is the model's files (by their seal), the form of its weights, the kind of
// device, and tril's version. A GPU's kind is its name; all CPUs are one kind.
std::string fingerprint_of(const Translator& translator, const std::string& folder);

struct ModelSpec {
  std::string name;
  std::string folder;
  LanguagePair languages{};  // where the caller knows what the model's files do not say
};
// "NAME=FOLDER", or a folder, whose name is the model's. Raises `invalid_argument` for a name with
// blanks or control characters.
ModelSpec parse_spec(std::string_view text);

// The model with its languages. A name such as "en-hi" gives those of a model whose files do not
// say which they are.
ServedModel served_model(ModelSpec spec, Translator translator);

// As tril::doubt_about(), and also where only the server knows what the model reads.
std::string doubt_about(const ServedModel& model, std::string_view text,
                        const LanguagePair& languages);

// What a request names; each may be empty.
struct Wanted {
  std::string model{};
  std::string source{};  // "auto": to be detected in the text
  std::string target{};
  // Where no model is named: whether one that continues text is wanted, or one that translates.
  std::optional<bool> continues{};
};

struct Detected {
  std::string code;
  double confidence = 0.0;
};

struct Chosen {
  const ServedModel* model = nullptr;
  LanguagePair languages{};  // by the model's codes; empty: not known
  std::optional<Detected> detected{};
};

class ModelSet {
 public:
  // Raises `invalid_argument` for two models of one name.
  void add(ServedModel model);
  std::span<const ServedModel> models() const { return models_; }
  const ServedModel* find(std::string_view name) const;

  // The model and languages for a text. Raises an ApiError, with the field that is to blame
  // ("model", "source", "target"), for what no model has and for what several have.
  Chosen choose(const Wanted& wanted, std::string_view text) const;

  // All languages that encoder–decoders read, each once, as clients know them ("en").
  std::vector<std::string> sources() const;
  // Those that a source language can be translated into; empty source: any.
  std::vector<std::string> targets(std::string_view source) const;

 private:
  std::vector<Chosen> able(const Wanted& wanted) const;
  static std::vector<Chosen> that_read(std::string_view text, std::vector<Chosen> can);
  std::vector<std::string> names() const;

  std::vector<ServedModel> models_;
};

}  // namespace tril::serve
