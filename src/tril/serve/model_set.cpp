#include "tril/serve/model_set.h"

#include <algorithm>
#include <utility>

#include "tril/base/checksum.h"
#include "tril/base/error.h"
#include "tril/io/atomic_file.h"
#include "tril/io/json.h"
#include "tril/models/folder.h"
#include "tril/serve/api_error.h"
#include "tril/text/languages.h"
#include "tril/translate/doubt.h"

namespace tril::serve {
namespace {

constexpr std::string_view kAuto = "auto";

std::string list_of(const std::vector<std::string>& words, size_t most = 12) {
  std::string text;
  for (size_t i = 0; i < std::min(words.size(), most); ++i) {
    text += (i == 0 ? "" : ", ") + words[i];
  }
  if (words.size() > most) text += concat(" and ", words.size() - most, " more");
  return text;
}

// "en" and "hi" of "en-hi"; empty if the name is none of that form.
LanguagePair pair_in_name(std::string_view name) {
  const size_t dash = name.find('-');
  if (dash == std::string_view::npos) return {};
  LanguagePair pair{std::string(name.substr(0, dash)), std::string(name.substr(dash + 1))};
  const auto is_known = [](const std::string& code) {
    return !base_language(code).empty() && language_name(code) != code;
  };
  return is_known(pair.from) && is_known(pair.to) ? pair : LanguagePair{};
}

std::vector<std::string> only(const std::string& code) {
  return code.empty() ? std::vector<std::string>() : std::vector<std::string>{code};
}

std::string device_kind(const Device& device) {
  if (!on_gpu(device)) return "cpu";
  const auto& list = gpus().list;
  const auto index = static_cast<size_t>(device.index);
  return concat("cuda ", index < list.size() ? list[index].name : std::string());
}

// Appends a language unless another code of it is there.
void add_language(std::vector<std::string>& codes, const std::string& code) {
  if (!find_language(codes, code)) codes.push_back(code);
}

// A model's own code for a language a client names; empty if the model does not say which it has.
std::optional<std::string> own_code(const std::vector<std::string>& codes,
                                    const std::string& wanted, const std::string& usual) {
  if (wanted.empty() || wanted == kAuto) return usual;
  return find_language(codes, wanted);
}

}  // namespace

std::string fingerprint_of(const Translator& translator, const std::string& folder) {
  const Transformer& model = translator.model();
  std::string identity = model.seal().identity;
  if (identity.empty()) {
    // Not sealed: by the bytes of its files.
    for (const std::string_view name :
         {kConfigFile, kWeightsFile, kTokenizerFile, std::string_view("generation.json")}) {
      const std::string path = path_in(folder, name);
      if (file_exists(path)) identity += to_string(checksum_of(read_model_file(folder, name)));
    }
  }
  return to_string(
      checksum_of(concat("tril ", TRIL_VERSION, "\n", identity, "\n", word_for(model.compute()),
                         "\n", device_kind(model.placement().device))));
}

ModelSpec parse_spec(std::string_view text) {
  ModelSpec spec;
  const size_t equals = text.find('=');
  if (equals != std::string_view::npos &&
      text.substr(0, equals).find('/') == std::string_view::npos) {
    spec.name = std::string(text.substr(0, equals));
    spec.folder = std::string(text.substr(equals + 1));
  } else {
    spec.folder = std::string(text);
    std::string_view name = text;
    while (name.size() > 1 && name.ends_with('/')) name.remove_suffix(1);
    if (const size_t slash = name.rfind('/'); slash != std::string_view::npos) {
      name.remove_prefix(slash + 1);
    }
    spec.name = std::string(name);
  }
  const bool is_name =
      !spec.name.empty() && is_utf8(spec.name) &&
      std::none_of(spec.name.begin(), spec.name.end(), [](char c) {
        return static_cast<unsigned char>(c) <= ' ' || c == 0x7F || c == '"' || c == '\\';
      });
  require(is_name && !spec.folder.empty(), ErrorCode::invalid_argument, "serve: '", printable(text),
          "' is no model: give a folder, or NAME=FOLDER");
  return spec;
}

std::string doubt_about(const ServedModel& model, std::string_view text,
                        const LanguagePair& languages) {
  std::string doubt = doubt_about(model.translator, text, model.for_translator(languages));
  // A direction that only the server was told is unknown to the translator.
  if (!doubt.empty() || model.chooses || languages.from.empty() || !is_utf8(text)) return doubt;
  const std::string usual = script_of_language(languages.from);
  const std::vector<std::string> candidates = {languages.from, languages.to};
  const auto likely = detect_language(text, candidates);
  const bool is_target = !likely.empty() && likely.front().code == languages.to &&
                         likely.front().confidence > 0.5 &&
                         script_of_language(languages.to) != usual;
  if (!is_target) return doubt;
  return concat("the text is written as ", language_name(languages.to),
                " is, and this model reads ", language_name(languages.from));
}

ServedModel served_model(ModelSpec spec, Translator translator) {
  std::string fingerprint = fingerprint_of(translator, spec.folder);
  ServedModel model{.name = std::move(spec.name),
                    .folder = std::move(spec.folder),
                    .translator = std::move(translator),
                    .shortlist = {},
                    .fingerprint = std::move(fingerprint)};
  if (model.decoder_only()) return model;
  const ModelLanguages known = model.translator.languages();
  model.usual = known.usual;
  model.chooses = !known.codes.empty();
  if (model.chooses) {
    model.sources = model.targets = known.codes;
    // Models with languages of the target alone read one language.
    if (!known.usual.from.empty() && !find_language(known.codes, known.usual.from)) {
      model.sources = only(known.usual.from);
    }
    return model;
  }
  if (model.usual.from.empty() && model.usual.to.empty()) model.usual = spec.languages;
  if (model.usual.from.empty() && model.usual.to.empty()) model.usual = pair_in_name(model.name);
  model.sources = only(model.usual.from);
  model.targets = only(model.usual.to);
  return model;
}

void ModelSet::add(ServedModel model) {
  require(find(model.name) == nullptr, ErrorCode::invalid_argument, "serve: two models are named ",
          model.name, ": give them names, as in NAME=FOLDER");
  if (std::string file = path_in(model.folder, kShortlistFile);
      !model.decoder_only() && !on_gpu(model.translator.model().placement().device) &&
      file_exists(file)) {
    model.shortlist = Shortlist::load(model.folder);
    model.shortlist->check_fits("serve", model.translator.model().config());
  }
  models_.push_back(std::move(model));
}

const ServedModel* ModelSet::find(std::string_view name) const {
  for (const ServedModel& model : models_) {
    if (model.name == name) return &model;
  }
  return nullptr;
}

namespace {

[[noreturn]] void refuse_language(std::string field, std::string_view what,
                                  const std::vector<std::string>& there) {
  throw ApiError(400, "unknown_language",
                 concat("nothing is translated ", what,
                        there.empty() ? std::string(": the languages of this model are not known; "
                                                    "name it as in en-hi=FOLDER when starting the "
                                                    "server")
                                      : concat(": there is ", list_of(there))),
                 std::move(field));
}

}  // namespace

Chosen ModelSet::choose(const Wanted& wanted, std::string_view text) const {
  if (!wanted.model.empty() && find(wanted.model) == nullptr) {
    throw ApiError(404, "unknown_model",
                   concat("no model ", printable(wanted.model), ": there is ", list_of(names())),
                   "model");
  }
  std::vector<Chosen> can = able(wanted);
  const bool is_auto = wanted.source == kAuto;
  if (is_auto) can = that_read(text, std::move(can));
  const bool same_direction = std::all_of(can.begin(), can.end(), [&](const Chosen& one) {
    return (is_auto ||
            base_language(one.languages.from) == base_language(can.front().languages.from)) &&
           base_language(one.languages.to) == base_language(can.front().languages.to) &&
           one.model->decoder_only() == can.front().model->decoder_only();
  });
  const bool said_enough = !wanted.model.empty() || can.size() == 1 ||
                           (same_direction && !can.front().languages.to.empty());
  if (!said_enough) {
    throw ApiError(400, "ambiguous",
                   concat("several models could do this: name source and target, or one of the "
                          "models ",
                          list_of(names())),
                   wanted.target.empty()   ? "target"
                   : wanted.source.empty() ? "source"
                                           : "model");
  }
  return can.front();
}

// Those that can do what is wanted, apart from a language that is to be detected; at least one.
std::vector<Chosen> ModelSet::able(const Wanted& wanted) const {
  std::vector<Chosen> can;
  std::vector<std::string> targets, sources;
  bool any = false;
  for (const ServedModel& model : models_) {
    const bool is_kind = wanted.continues.value_or(model.decoder_only()) == model.decoder_only();
    if (wanted.model.empty() ? !is_kind : model.name != wanted.model) continue;
    any = true;
    for (const std::string& code : model.targets) add_language(targets, code);
    const auto to = own_code(model.targets, wanted.target, model.usual.to);
    if (!to) continue;
    for (const std::string& code : model.sources) add_language(sources, code);
    const auto from = own_code(model.sources, wanted.source, model.usual.from);
    if (!from) continue;
    can.push_back({.model = &model, .languages = {*from, *to}});
  }
  if (!can.empty()) return can;
  if (!any) {
    throw ApiError(404, "unknown_model",
                   wanted.continues.value_or(false) ? "no model here continues text"
                                                    : "no model here translates",
                   "model");
  }
  if (!wanted.target.empty() && !find_language(targets, wanted.target)) {
    refuse_language("target", "into " + printable(wanted.target), targets);
  }
  refuse_language("source",
                  concat("from ", printable(wanted.source),
                         wanted.target.empty() ? "" : " into " + printable(wanted.target)),
                  sources);
}

// Those of them that read the language of the text; all, if nothing speaks for any.
std::vector<Chosen> ModelSet::that_read(std::string_view text, std::vector<Chosen> can) {
  std::vector<std::string> candidates;
  for (const Chosen& one : can) {
    for (const std::string& code : one.model->sources) {
      const bool is_target = find_language(only(code), one.languages.to).has_value();
      if (!is_target) add_language(candidates, code);
    }
  }
  const auto likely = detect_language(text, candidates);
  std::vector<Chosen> reading;
  for (const Chosen& one : can) {
    if (likely.empty()) break;
    const auto from = find_language(one.model->sources, likely.front().code);
    if (!from) continue;
    reading.push_back(one);
    reading.back().languages.from = *from;
    reading.back().detected = Detected{*from, likely.front().confidence};
  }
  if (!reading.empty()) return reading;
  for (Chosen& one : can) {
    if (!one.languages.from.empty()) one.detected = Detected{one.languages.from, 0.0};
  }
  return can;
}

std::vector<std::string> ModelSet::names() const {
  std::vector<std::string> names;
  for (const ServedModel& model : models_) names.push_back(model.name);
  return names;
}

std::vector<std::string> ModelSet::sources() const {
  std::vector<std::string> codes;
  for (const ServedModel& model : models_) {
    for (const std::string& code : model.sources) add_language(codes, code);
  }
  return codes;
}

std::vector<std::string> ModelSet::targets(std::string_view source) const {
  std::vector<std::string> codes;
  for (const ServedModel& model : models_) {
    if (!source.empty() && !find_language(model.sources, source)) continue;
    for (const std::string& code : model.targets) {
      if (source.empty() || !find_language(std::vector<std::string>{code}, source)) {
        add_language(codes, code);
      }
    }
  }
  return codes;
}

}  // namespace tril::serve
