// LibreTranslate's API, as far as its clients use it: /translate, /detect, /languages, /health,
// /frontend/settings. Bodies are JSON or forms; the key is in the body.
#include <algorithm>
#include <cmath>
#include <unordered_map>
#include <utility>

#include "tril/serve/api.h"
#include "tril/serve/json_out-inl.h"
#include "tril/text/languages.h"

namespace tril::serve {
namespace {

// Fields of the body, after the key was found good.
RequestFields libre_fields(Core& core, const ContextPtr& context) {
  const bool has_body = !context->request.body.empty() || context->request.query().empty();
  RequestFields fields = has_body ? RequestFields::of_body(context->request)
                                  : RequestFields::of_query(context->request);
  context->client = core.client_of(context->request, fields.text("api_key").value_or(""));
  (void)fields.value("secret");  // sent by LibreTranslate's own page, for its own servers
  return fields;
}

Json detected_json(const Detected& detected) {
  return {{"confidence", std::round(detected.confidence * 1000) / 10},
          {"language", client_code(detected.code)}};
}

// As the program searches, but wide enough for the alternatives.
void ask_for_alternatives(TextCall& call, int64_t alternatives) {
  if (alternatives == 0) return;
  const int64_t wanted = alternatives + 1;  // with the best one
  const SearchOptions usual = search_of(call);
  call.options.search.n_best = wanted;
  if (!usual.sample && usual.beam < wanted) call.options.search.beam = wanted;
}

void libre_translate(Core& core, const ContextPtr& context) {
  RequestFields fields = libre_fields(core, context);
  const CallLimits& limits = core.options.limits;
  TextCall call;
  const bool is_list = fields.is_list("q");
  const auto texts = fields.texts("q", limits.max_texts);
  if (!texts) refuse("q", "Invalid request: missing q parameter");
  call.texts = *texts;
  Wanted wanted;
  wanted.source = fields.text("source").value_or("auto");
  if (wanted.source.empty()) wanted.source = "auto";
  const auto target = fields.text("target");
  if (!target) refuse("target", "Invalid request: missing target parameter");
  wanted.target = *target;
  const std::string format = fields.text("format").value_or("text");
  if (format != "text" && !format.empty()) {
    refuse("format",
           concat(printable(format), " cannot be translated, only text: markup would be mangled"));
  }
  const int64_t alternatives = fields.whole("alternatives", 0, limits.max_beam - 1).value_or(0);
  fields.finish();
  call.timeout = limits.timeout;
  call.split = limits.split;
  choose_model(call, core.models, wanted, false);
  ask_for_alternatives(call, alternatives);
  complete_options(call, limits);
  const std::string tag = entity_tag(call, "/translate", concat(is_list, alternatives));
  core.run(context, std::move(call), [is_list, alternatives, tag](TextJob& job) {
    Json translated = Json::array(), detected = Json::array(), others = Json::array();
    for (size_t i = 0; i < job.call().texts.size(); ++i) {
      translated.push_back(joined_text(job, i, 0));
      if (job.call().chosen[i].detected) {
        detected.push_back(detected_json(*job.call().chosen[i].detected));
      }
      Json list = Json::array();
      for (size_t k = 1; k < alternatives_of(job, i); ++k) list.push_back(joined_text(job, i, k));
      others.push_back(std::move(list));
    }
    Json answer = {{"translatedText", is_list ? translated : translated.front()}};
    if (!detected.empty()) answer["detectedLanguage"] = is_list ? detected : detected.front();
    if (alternatives > 0) answer["alternatives"] = is_list ? others : others.front();
    return json_response(answer)
        .with("ETag", tag)
        .with("X-Tril-Fingerprint", job.call().model->fingerprint);
  });
}

void libre_detect(Core& core, const ContextPtr& context) {
  RequestFields fields = libre_fields(core, context);
  const auto text = fields.text("q");
  if (!text) refuse("q", "Invalid request: missing q parameter");
  fields.finish();
  core.admit(*context);
  core.charge(*context, detection_tokens(*text));
  const std::vector<std::string>& sources = core.models.sources();
  Json list = Json::array();
  for (const auto& found : detect_language(*text, sources)) {
    list.push_back(detected_json({found.code, found.confidence}));
  }
  // Clients take the first of the list without asking whether there is one.
  if (list.empty() && !sources.empty()) list.push_back(detected_json({sources.front(), 0.0}));
  core.respond(*context, json_response(list));
}

void libre_languages(Core& core, const ContextPtr& context) {
  // Two hundred languages have forty thousand directions.
  std::unordered_map<std::string, std::string> client_codes;
  const auto code_of = [&](const std::string& language) {
    const auto [code, is_new] = client_codes.try_emplace(language);
    if (is_new) code->second = client_code(language);
    return code->second;
  };
  Json list = Json::array();
  for (const std::string& source : core.models.sources()) {
    Json targets = Json::array();
    for (const std::string& target : core.models.targets(source)) {
      targets.push_back(code_of(target));
    }
    list.push_back({{"code", client_code(source)},
                    {"name", language_name(source)},
                    {"targets", std::move(targets)}});
  }
  core.respond(*context, json_response(list));
}

void libre_health(Core& core, const ContextPtr& context) {
  core.respond(*context, json_response({{"status", "ok"}}));
}

void libre_settings(Core& core, const ContextPtr& context) {
  const std::vector<std::string> targets = core.models.targets({});
  const std::string target = targets.empty() ? "" : targets.front();
  core.respond(
      *context,
      json_response(
          {{"apiKeys", !core.options.keys.empty()},
           {"keyRequired", !core.options.keys.empty()},
           {"charLimit", -1},
           {"frontendTimeout", 500},
           {"suggestions", false},
           {"filesTranslation", false},
           {"supportedFilesFormat", Json::array()},
           {"language",
            {{"source", {{"code", "auto"}, {"name", "Auto Detect"}}},
             {"target", {{"code", client_code(target)}, {"name", language_name(target)}}}}}}));
}

constexpr Route kLibreRoutes[] = {
    {"POST", "/translate", libre_translate, Shape::libretranslate, "libretranslate"},
    {"POST", "/detect", libre_detect, Shape::libretranslate, "libretranslate"},
    {"GET", "/languages", libre_languages, Shape::libretranslate, "libretranslate", false},
    {"GET", "/health", libre_health, Shape::libretranslate, "libretranslate", false},
    {"GET", "/frontend/settings", libre_settings, Shape::libretranslate, "libretranslate", false},
};

}  // namespace

std::span<const Route> libretranslate_routes() { return kLibreRoutes; }

}  // namespace tril::serve
