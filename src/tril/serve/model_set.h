// The models of a server: which one a request means, and in which languages.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tril/text/language_codes.h"
#include "tril/text/languages.h"
#include "tril/translate/translator.h"

namespace tril::serve {

// The languages that a model's name says: two codes and a dash, as in "en-hi" or "pt_BR-en". Empty
// where it says none.
LanguagePair pair_in_name(std::string_view name);

struct ServedModel {
  std::string name;
  std::string folder;
  Translator translator;
  std::optional<Shortlist> shortlist;
  std::string fingerprint;  // of what its answers depend on: see fingerprint_of()
  std::string files{};      // identity_of_files() when it was loaded
  // What it translates, by its own codes; empty: not known.
  std::vector<std::string> sources{};
  std::vector<std::string> targets{};
  LanguagePair usual{};
  bool languages_by_name = false;  // its files say nothing, and `name` does
  // Whether a request may choose among several languages, by codes that the tokenizer knows. False:
  // one direction, and the translator is given none.
  bool chooses = false;

  bool decoder_only() const { return translator.model().config().decoder_only(); }
  // As TranslateOptions wants them.
  LanguagePair for_translator(const LanguagePair& languages) const {
    return chooses ? languages : LanguagePair{};
  }
};

// What of a folder a model was loaded from, whatever the form of its weights: by their seal or,
// where they have none, by their bytes as they are now; and what the seal does not cover. Without
// the shortlist.
std::string identity_of_files(const Translator& translator, const std::string& folder);

// 32 hexadecimal digits: a checksum of everything besides request and options that an answer
// depends on. That is the model's files (by their seals, where they have one), its settings of the
// search, the shortlist if it is loaded, the form of the weights, the kind of device, and tril's
// version. A GPU's kind is its name; all CPUs are one kind.
std::string fingerprint_of(const Translator& translator, const std::string& folder);

struct ModelSpec {
  std::string name;
  std::string folder;
  LanguagePair languages{};  // where the caller knows what the model's files do not say
};
// "NAME=FOLDER", or a folder, whose name is the model's. Raises `invalid_argument` for a name with
// blanks or control characters.
ModelSpec parse_spec(std::string_view text);

// The model with its languages, and its folder's shortlist if it can use one: on a CPU. A name such
// as "en-hi" gives the languages of a model whose files do not say which they are.
ServedModel served_model(ModelSpec spec, Translator translator);

// What a request names; each may be empty.
struct Wanted {
  std::string model{};
  std::string source{};  // "auto": to be detected in the text
  std::string target{};
  // Where no model is named: whether one that continues text is wanted, or one that translates.
  std::optional<bool> continues{};
  // Whether the request has fields for languages. If not, only a model's name resolves ambiguity.
  bool names_languages = true;
  // What the request calls them.
  std::string_view source_field = "source";
  std::string_view target_field = "target";
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

// Whatever does not depend on a request is prepared when a model is added, since choosing is done
// by the threads that also answer everybody else. Once all are added, any number of threads may
// ask.
class ModelSet {
 public:
  // Raises `invalid_argument` for two models of one name.
  void add(ServedModel model);
  std::span<const ServedModel> models() const { return models_; }
  const ServedModel* find(std::string_view name) const;

  // The model and languages for each text of a request, at least one. Where the source is to be
  // detected, the first text whose language is plain decides on the model for those whose is not
  // ("Taxi"): in its languages, or, where that model reads it, in the likeliest of their own. Texts
  // that are plainly for several models get them. Raises an ApiError, with the field that is to
  // blame ("model", "source", "target"), for what no model has and for what several have.
  std::vector<Chosen> choose(const Wanted& wanted, std::span<const std::string> texts) const;
  // The same for one text.
  Chosen choose(const Wanted& wanted, const std::string& text) const {
    return choose(wanted, std::span(&text, 1)).front();
  }

  // All languages that encoder–decoders read, each once, as clients know them ("en").
  const std::vector<std::string>& sources() const { return sources_.all(); }
  // Those that one of sources() can be translated into; empty source: all targets.
  std::vector<std::string> targets(std::string_view source) const;

 private:
  struct Languages {
    LanguageCodes sources, targets;
  };
  struct TargetList {
    LanguageCodes codes;       // of several models, one after the other
    std::vector<bool> is_new;  // of each code: whether no code before it stands for it
  };
  const Languages& languages_of(const ServedModel& model) const;
  void prepare_targets();
  static TargetList target_list(const std::vector<const Languages*>& models);
  std::vector<Chosen> able(const Wanted& wanted) const;
  [[noreturn]] void refuse_all(const Wanted& wanted) const;
  std::vector<std::string> candidates(const std::vector<Chosen>& can) const;
  struct Reading {
    std::vector<Chosen> can;  // at least one
    bool is_plain = false;    // in which language the text is
  };
  Reading that_read(std::string_view text, const std::vector<std::string>& candidates,
                    const std::vector<Chosen>& can) const;
  Chosen one_of(const std::vector<Chosen>& can, const Wanted& wanted) const;
  std::vector<std::string> names() const;

  std::vector<ServedModel> models_;
  std::vector<Languages> languages_;  // of each model
  LanguageCodes sources_, targets_;   // of all models, each language once
  // By source. Sources that the same models read share one list, which may hold the sources too.
  std::map<std::string, std::shared_ptr<const TargetList>, std::less<>> targets_of_;
};

}  // namespace tril::serve
