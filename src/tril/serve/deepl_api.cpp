// DeepL's API, version 2, as far as its clients use it: /v2/translate, /v2/languages, /v2/usage.
#include <algorithm>
#include <utility>

#include "tril/serve/api.h"
#include "tril/serve/json_out-inl.h"
#include "tril/text/languages.h"

namespace tril::serve {
namespace {

// Clients send fields in the body of a GET, too.
RequestFields deepl_fields(const ContextPtr& context) {
  return context->request.body.empty() ? RequestFields::of_query(context->request)
                                       : RequestFields::of_body(context->request);
}

std::string in_capitals(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c; });
  return text;
}

// Told as the source's language where the model does not say which it reads: ISO 639's code for an
// undetermined one. DeepL's clients for Node and PHP fail where no code comes.
constexpr const char* kUndetermined = "UND";

// A list or text without anything in it.
bool is_empty(const JsonValue& value) {
  return (value.kind == JsonValue::Kind::array && value.items.empty()) ||
         (value.kind == JsonValue::Kind::string && value.text.empty());
}

// Wishes that only DeepL's own models fulfil. Leaving them out silently would give other text than
// was asked for.
void refuse_deepl_wishes(RequestFields& fields) {
  for (const char* name :
       {"context", "glossary_id", "glossary_ids", "tag_handling", "tag_handling_version",
        "style_id", "non_splitting_tags", "outline_detection", "splitting_tags", "ignore_tags",
        "custom_instructions", "translation_memory_id", "translation_memory_threshold"}) {
    const JsonValue* value = fields.value(name);
    if (value != nullptr && !is_empty(*value)) {
      refuse(name, concat(name, " is not supported by this server"));
    }
  }
  const std::string formality = fields.text("formality").value_or("default");
  if (formality == "more" || formality == "less") {
    refuse("formality", "formality is not supported by this server");
  }
  if (formality != "default" && formality != "prefer_more" && formality != "prefer_less") {
    refuse("formality", "formality can be default, prefer_more or prefer_less on this server");
  }
}

// What clients send, and what changes nothing of the text here. (Keys are read from the header.)
void accept_deepl_wishes(RequestFields& fields) {
  for (const char* name : {"show_billed_characters", "preserve_formatting", "model_type",
                           "enable_beta_languages", "auth_key"}) {
    (void)fields.value(name);
  }
}

void deepl_translate(Core& core, const ContextPtr& context) {
  RequestFields fields = RequestFields::of_body(context->request);
  const CallLimits& limits = core.options.limits;
  TextCall call;
  const auto texts = fields.texts("text", limits.max_texts);
  if (!texts) refuse("text", "Parameter 'text' not specified.");
  call.texts = *texts;
  const auto target = fields.text("target_lang");
  if (!target) refuse("target_lang", "Parameter 'target_lang' not specified.");
  refuse_deepl_wishes(fields);
  accept_deepl_wishes(fields);
  Wanted wanted;
  wanted.target = *target;
  wanted.source = fields.text("source_lang").value_or("auto");
  if (wanted.source.empty()) wanted.source = "auto";
  call.split = limits.split;
  if (const auto split = fields.text("split_sentences")) {
    if (*split != "0" && *split != "1") {
      refuse("split_sentences", "split_sentences can be 0 or 1 on this server");
    }
    call.split = *split == "0" ? Split::never : Split::always;
  }
  fields.finish();
  call.timeout = limits.timeout;
  choose_model(call, core.models, wanted, false);
  complete_options(call, limits);
  const std::string tag = entity_tag(call, "/v2/translate", "");
  core.run(context, std::move(call), [tag](TextJob& job) {
    Json list = Json::array();
    for (size_t i = 0; i < job.call().texts.size(); ++i) {
      const std::string from = client_code(job.call().languages_of(i).from);
      list.push_back(
          {{"detected_source_language", from.empty() ? kUndetermined : in_capitals(from)},
           {"text", joined_text(job, i, 0)},
           {"billed_characters", count_characters(job.call().texts[i])}});
    }
    return json_response({{"translations", std::move(list)}})
        .with("ETag", tag)
        .with("X-Tril-Fingerprint", job.call().model->fingerprint);
  });
}

// A target by the codes that DeepL's clients know it by, with its name: for these languages they
// require a region, and where the model has none, each of them means it.
std::vector<std::pair<std::string, std::string>> targets_of(const std::string& code) {
  constexpr std::string_view kRegions[] = {"EN-US", "EN-GB", "PT-BR", "PT-PT"};
  const std::string told = client_code(code), name = language_name(code);
  std::vector<std::pair<std::string, std::string>> targets;
  for (const std::string_view region : kRegions) {
    if (base_language(region) != told) continue;
    if (language_name(region) == name) return {{std::string(region), name}};
    targets.emplace_back(region, language_name(region));
  }
  if (targets.empty()) targets.emplace_back(in_capitals(told), name);
  return targets;
}

void deepl_languages(Core& core, const ContextPtr& context) {
  RequestFields fields = deepl_fields(context);
  const std::string type = fields.text("type").value_or("source");
  if (type != "source" && type != "target") refuse("type", "type can be source or target");
  (void)fields.value("auth_key");
  fields.finish();
  Json list = Json::array();
  if (type == "source") {
    for (const std::string& code : core.models.sources()) {
      list.push_back({{"language", in_capitals(client_code(code))}, {"name", language_name(code)}});
    }
  } else {
    for (const std::string& target : core.models.targets({})) {
      for (const auto& [code, name] : targets_of(target)) {
        list.push_back({{"language", code}, {"name", name}, {"supports_formality", false}});
      }
    }
  }
  core.respond(*context, json_response(list));
}

// Nobody is billed: the limit is as far away as a client can count.
void deepl_usage(Core& core, const ContextPtr& context) {
  constexpr int64_t kNoLimit = 1'000'000'000'000;
  core.respond(*context, json_response({{"character_count", core.characters.load()},
                                        {"character_limit", kNoLimit}}));
}

constexpr Route kDeeplRoutes[] = {
    {"POST", "/v2/translate", deepl_translate, Shape::deepl, "deepl"},
    {"GET", "/v2/languages", deepl_languages, Shape::deepl, "deepl"},
    {"POST", "/v2/languages", deepl_languages, Shape::deepl, "deepl"},
    {"GET", "/v2/usage", deepl_usage, Shape::deepl, "deepl"},
    {"POST", "/v2/usage", deepl_usage, Shape::deepl, "deepl"},
};

}  // namespace

std::span<const Route> deepl_routes() { return kDeeplRoutes; }

}  // namespace tril::serve
