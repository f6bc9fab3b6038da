#include "tril/serve/model_set.h"

#include <algorithm>
#include <utility>

#include "tril/base/checksum.h"
#include "tril/base/error.h"
#include "tril/io/atomic_file.h"
#include "tril/io/json.h"
#include "tril/models/folder.h"
#include "tril/models/folder_files.h"
#include "tril/serve/api_error.h"
#include "tril/text/language_codes.h"
#include "tril/version.h"

namespace tril::serve {
namespace {

constexpr std::string_view kAuto = "auto";
// From this confidence on a text decides on the model, also for others of its request.
constexpr double kPlain = 0.5;

std::string list_of(const std::vector<std::string>& words, size_t most = 12) {
  std::string text;
  for (size_t i = 0; i < std::min(words.size(), most); ++i) {
    text += (i == 0 ? "" : ", ") + words[i];
  }
  if (words.size() > most) text += concat(" and ", words.size() - most, " more");
  return text;
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

// A model's own code for a language a client names; empty if the model does not say which it has.
std::optional<std::string> own_code(const LanguageCodes& codes, const std::string& wanted,
                                    const std::string& usual) {
  if (wanted.empty() || wanted == kAuto) return usual;
  return codes.find(wanted);
}

// Of weights whose file is not sealed: by its bytes. Empty for a model that is in no folder.
std::string unsealed_weights(const Transformer& model, const std::string& folder) {
  for (const std::string& name : {std::string(kWeightsFile), packed_file_name(model.compute())}) {
    const std::string path = path_in(folder, name);
    if (file_exists(path)) return identity_of(path);
  }
  return {};
}

// Whether answers may be computed with the folder's shortlist.
bool has_shortlist(const Transformer& model, const std::string& folder) {
  return !model.config().decoder_only() && !on_gpu(model.placement().device) &&
         file_exists(path_in(folder, kShortlistFile));
}

}  // namespace

LanguagePair pair_in_name(std::string_view name) {
  // A second dash might belong to either language, or to a word such as "demo".
  const size_t dash = name.find('-');
  if (dash == std::string_view::npos || name.find('-', dash + 1) != std::string_view::npos) {
    return {};
  }
  LanguagePair pair{std::string(name.substr(0, dash)), std::string(name.substr(dash + 1))};
  const auto is_known = [](const std::string& code) {
    return !base_language(code).empty() && language_name(code) != code;
  };
  return is_known(pair.from) && is_known(pair.to) ? pair : LanguagePair{};
}

std::string identity_of_files(const Translator& translator, const std::string& folder) {
  const Transformer& model = translator.model();
  const FolderSeal& seal = model.seal();
  std::string identity = seal.sealed() ? seal.identity : unsealed_weights(model, folder);
  const auto add = [&](std::string_view name, const std::string& checksum) {
    identity += concat("\n", name, " ", checksum);
  };
  // The seal covers the weights and the files that were there when they were written.
  if (!seal.files.contains(std::string(kConfigFile))) {
    add(kConfigFile, to_string(checksum_of(to_json(model.config()))));
  }
  if (!seal.files.contains(std::string(kTokenizerFile))) {
    add(kTokenizerFile, to_string(checksum_of(translator.tokenizer().bytes())));
  }
  // A model is also loaded where its generation.json was removed, whatever the seal says.
  if (translator.generation() != GenerationSettings{}) {
    add(kGenerationFile, to_string(checksum_of(to_json(translator.generation()))));
  }
  return identity;
}

namespace {

std::string fingerprint_with(const std::string& files, const Translator& translator,
                             const std::string& folder) {
  const Transformer& model = translator.model();
  std::string identity = files;
  if (has_shortlist(model, folder)) {
    identity += concat("\n", kShortlistFile, " ", identity_of(path_in(folder, kShortlistFile)));
  }
  return to_string(
      checksum_of(concat("tril ", kVersion, "\n", identity, "\n", word_for(model.compute()), "\n",
                         device_kind(model.placement().device))));
}

}  // namespace

std::string fingerprint_of(const Translator& translator, const std::string& folder) {
  return fingerprint_with(identity_of_files(translator, folder), translator, folder);
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

ServedModel served_model(ModelSpec spec, Translator translator) {
  std::string files = identity_of_files(translator, spec.folder);
  std::string fingerprint = fingerprint_with(files, translator, spec.folder);
  ServedModel model{.name = std::move(spec.name),
                    .folder = std::move(spec.folder),
                    .translator = std::move(translator),
                    .shortlist = {},
                    .fingerprint = std::move(fingerprint),
                    .files = std::move(files)};
  if (has_shortlist(model.translator.model(), model.folder)) {
    model.shortlist = Shortlist::load(model.folder);
    model.shortlist->check_fits("serve", model.translator.model().config());
  }
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
  if (model.usual.from.empty() && model.usual.to.empty()) {
    model.usual = pair_in_name(model.name);
    model.languages_by_name = !model.usual.to.empty();
  }
  model.sources = only(model.usual.from);
  model.targets = only(model.usual.to);
  return model;
}

void ModelSet::add(ServedModel model) {
  require(find(model.name) == nullptr, ErrorCode::invalid_argument, "serve: two models are named ",
          model.name, ": give them names, as in NAME=FOLDER");
  Languages languages{LanguageCodes(model.sources), LanguageCodes(model.targets)};
  for (const std::string& code : model.sources) sources_.add_new(code);
  for (const std::string& code : model.targets) targets_.add_new(code);
  models_.push_back(std::move(model));
  languages_.push_back(std::move(languages));
  prepare_targets();
}

void ModelSet::prepare_targets() {
  targets_of_.clear();
  std::map<std::vector<const Languages*>, std::shared_ptr<const TargetList>> lists;
  for (const std::string& source : sources_.all()) {
    std::vector<const Languages*> reading;
    for (const Languages& one : languages_) {
      if (one.sources.find(source)) reading.push_back(&one);
    }
    auto& list = lists[reading];
    if (list == nullptr) list = std::make_shared<const TargetList>(target_list(reading));
    targets_of_.emplace(source, list);
  }
}

ModelSet::TargetList ModelSet::target_list(const std::vector<const Languages*>& models) {
  std::vector<std::string> codes;
  std::vector<bool> is_new;
  LanguageCodes languages;
  for (const Languages* model : models) {
    for (const std::string& code : model->targets.all()) {
      codes.push_back(code);
      is_new.push_back(languages.add_new(code));
    }
  }
  return {LanguageCodes(codes), std::move(is_new)};
}

const ServedModel* ModelSet::find(std::string_view name) const {
  for (const ServedModel& model : models_) {
    if (model.name == name) return &model;
  }
  return nullptr;
}

namespace {

// Whether it is the model that is named or, where none is, of the kind that is wanted.
bool is_wanted(const ServedModel& model, const Wanted& wanted) {
  if (!wanted.model.empty()) return model.name == wanted.model;
  return wanted.continues.value_or(model.decoder_only()) == model.decoder_only();
}

// Whether `wanted` means this code where there is no other.
bool is_meant(const std::string& code, std::string_view wanted) {
  return find_language(std::span(&code, 1), wanted).has_value();
}

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

const ModelSet::Languages& ModelSet::languages_of(const ServedModel& model) const {
  return languages_[static_cast<size_t>(&model - models_.data())];
}

std::vector<Chosen> ModelSet::choose(const Wanted& wanted,
                                     std::span<const std::string> texts) const {
  const std::vector<Chosen> can = able(wanted);
  if (wanted.source != kAuto) return std::vector<Chosen>(texts.size(), one_of(can, wanted));
  const std::vector<std::string> detectable = candidates(can);
  std::vector<Reading> readings;
  readings.reserve(texts.size());
  for (const std::string& text : texts) readings.push_back(that_read(text, detectable, can));
  const auto plain = std::find_if(readings.begin(), readings.end(),
                                  [](const Reading& one) { return one.is_plain; });
  const Reading& leading = plain == readings.end() ? readings.front() : *plain;
  const Chosen leader = one_of(leading.can, wanted);
  std::vector<Chosen> chosen;
  chosen.reserve(texts.size());
  for (const Reading& reading : readings) {
    if (reading.is_plain) {
      chosen.push_back(one_of(reading.can, wanted));
      continue;
    }
    const auto same = std::find_if(reading.can.begin(), reading.can.end(),
                                   [&](const Chosen& one) { return one.model == leader.model; });
    if (same != reading.can.end()) {
      chosen.push_back(*same);
      continue;
    }
    chosen.push_back(leader);
    if (auto& detected = chosen.back().detected) detected->confidence = 0.0;
  }
  return chosen;
}

namespace {

std::vector<std::string> names_of(const std::vector<Chosen>& can) {
  std::vector<std::string> names;
  for (const Chosen& one : can) names.push_back(one.model->name);
  return names;
}

}  // namespace

// The one that is meant of those that can do it.
Chosen ModelSet::one_of(const std::vector<Chosen>& can, const Wanted& wanted) const {
  const bool is_auto = wanted.source == kAuto;
  const Chosen& first = can.front();
  const bool same_direction = std::all_of(can.begin() + 1, can.end(), [&](const Chosen& one) {
    return (is_auto || base_language(one.languages.from) == base_language(first.languages.from)) &&
           base_language(one.languages.to) == base_language(first.languages.to) &&
           one.model->decoder_only() == first.model->decoder_only();
  });
  const bool said_enough =
      !wanted.model.empty() || can.size() == 1 || (same_direction && !first.languages.to.empty());
  if (said_enough) return first;
  if (!wanted.names_languages) {
    throw ApiError(400, "ambiguous", concat("name the model: there is ", list_of(names_of(can))),
                   "model");
  }
  throw ApiError(400, "ambiguous",
                 concat("several models could do this: name ", wanted.source_field, " and ",
                        wanted.target_field, ", or one of the models ", list_of(names_of(can))),
                 wanted.target.empty()   ? std::string(wanted.target_field)
                 : wanted.source.empty() ? std::string(wanted.source_field)
                                         : "model");
}

// Those that can do what is wanted, apart from a language that is to be detected; at least one.
std::vector<Chosen> ModelSet::able(const Wanted& wanted) const {
  std::vector<Chosen> can;
  for (const ServedModel& model : models_) {
    if (!is_wanted(model, wanted)) continue;
    const Languages& languages = languages_of(model);
    const auto to = own_code(languages.targets, wanted.target, model.usual.to);
    if (!to) continue;
    const auto from = own_code(languages.sources, wanted.source, model.usual.from);
    if (from) can.push_back({.model = &model, .languages = {*from, *to}});
  }
  if (can.empty()) refuse_all(wanted);
  return can;
}

// Says why no model can do it.
void ModelSet::refuse_all(const Wanted& wanted) const {
  LanguageCodes targets, sources;
  bool any = false;
  for (const ServedModel& model : models_) {
    if (!is_wanted(model, wanted)) continue;
    any = true;
    for (const std::string& code : model.targets) targets.add_new(code);
    if (!own_code(languages_of(model).targets, wanted.target, model.usual.to)) continue;
    for (const std::string& code : model.sources) sources.add_new(code);
  }
  if (!any && !wanted.model.empty()) {
    throw ApiError(404, "unknown_model",
                   concat("no model ", printable(wanted.model), ": there is ", list_of(names())),
                   "model");
  }
  if (!any) {
    throw ApiError(404, "unknown_model",
                   wanted.continues.value_or(false) ? "no model here continues text"
                                                    : "no model here translates",
                   "model");
  }
  if (!wanted.target.empty() && !targets.find(wanted.target)) {
    refuse_language(std::string(wanted.target_field), "into " + printable(wanted.target),
                    targets.all());
  }
  refuse_language(std::string(wanted.source_field),
                  concat("from ", printable(wanted.source),
                         wanted.target.empty() ? "" : " into " + printable(wanted.target)),
                  sources.all());
}

// The languages that a text for these models may be in: what they read, but not what they are to
// write.
std::vector<std::string> ModelSet::candidates(const std::vector<Chosen>& can) const {
  LanguageCodes candidates;
  for (const Chosen& one : can) {
    const LanguageCodes& sources = languages_of(*one.model).sources;
    const std::vector<std::string>& codes = sources.all();
    std::vector<bool> is_target(codes.size());
    for (const size_t i : sources.same_base(one.languages.to)) {
      is_target[i] = is_meant(codes[i], one.languages.to);
    }
    for (size_t i = 0; i < codes.size(); ++i) {
      if (!is_target[i]) candidates.add_new(codes[i]);
    }
  }
  return candidates.all();
}

// Those of them that read the language of the text; all, if nothing speaks for any.
ModelSet::Reading ModelSet::that_read(std::string_view text,
                                      const std::vector<std::string>& candidates,
                                      const std::vector<Chosen>& can) const {
  const auto likely = detect_language(text, candidates);
  Reading reading;
  for (const Chosen& one : can) {
    if (likely.empty()) break;
    const auto from = languages_of(*one.model).sources.find(likely.front().code);
    if (!from) continue;
    reading.can.push_back(one);
    reading.can.back().languages.from = *from;
    reading.can.back().detected = Detected{*from, likely.front().confidence};
    reading.is_plain = likely.front().confidence >= kPlain;
  }
  if (!reading.can.empty()) return reading;
  reading.can = can;
  for (Chosen& one : reading.can) {
    if (!one.languages.from.empty()) one.detected = Detected{one.languages.from, 0.0};
  }
  return reading;
}

std::vector<std::string> ModelSet::names() const {
  std::vector<std::string> names;
  for (const ServedModel& model : models_) names.push_back(model.name);
  return names;
}

std::vector<std::string> ModelSet::targets(std::string_view source) const {
  if (source.empty()) return targets_.all();
  std::vector<std::string> targets;
  const auto found = targets_of_.find(source);
  if (found == targets_of_.end()) return targets;
  const LanguageCodes& languages = found->second->codes;
  const std::vector<std::string>& codes = languages.all();
  std::vector<bool> listed = found->second->is_new;
  // The source is no target of itself, and then it stands for no code after it either. Where both
  // scripts of Chinese are targets, "zh" is one of them, not both.
  const std::string itself = languages.find(source).value_or("");
  LanguageCodes same_base;
  for (const size_t i : languages.same_base(source)) {
    const bool is_source = is_meant(codes[i], itself) && is_meant(itself, codes[i]);
    listed[i] = !is_source && same_base.add_new(codes[i]);
  }
  for (size_t i = 0; i < codes.size(); ++i) {
    if (listed[i]) targets.push_back(codes[i]);
  }
  return targets;
}

}  // namespace tril::serve
