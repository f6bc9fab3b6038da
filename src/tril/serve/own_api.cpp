// tril's own API under /v1: everything the program can do with text.
#include <algorithm>
#include <cmath>
#include <utility>

#include "tril/base/checksum.h"
#include "tril/explain/explain.h"
#include "tril/serve/api.h"
#include "tril/serve/json_out-inl.h"
#include "tril/text/languages.h"

namespace tril::serve {
namespace {

void add_event(std::string& bytes, std::string_view name, std::string_view data) {
  while (data.ends_with('\n')) data.remove_suffix(1);
  bytes += concat("event: ", name, "\ndata: ", data, "\n\n");
}

// The events of a job: every text anew when it has grown by an eighth, so that the events of a long
// text are at most about nine times the text.
Core::Stream events_of(size_t texts) {
  const auto told = std::make_shared<std::vector<std::string>>(texts);
  return {
      .events =
          [told](TextJob& job, std::string& bytes) {
            for (size_t i = 0; i < told->size(); ++i) {
              std::string text = job.text_so_far(i);
              constexpr size_t kShare = 8;
              if (text.size() <= (*told)[i].size() + (*told)[i].size() / kShare) continue;
              add_event(bytes, "partial", dump({{"index", i}, {"text", text}}));
              (*told)[i] = std::move(text);
            }
          },
      .last = [](TextJob& job, std::string& bytes) { add_event(bytes, "done", answer_text(job)); },
      .error =
          [](const ApiError& error, std::string& bytes) {
            add_event(
                bytes, "error",
                dump({{"error",
                       {{"code", error.code},
                        {"message", error.message},
                        {"field", error.field.empty() ? Json(nullptr) : Json(error.field)}}}}));
          }};
}

void serve_call(Core& core, const ContextPtr& context, RequestFields fields, bool generate) {
  const bool streams = fields.truth("stream").value_or(false);
  TextCall call = read_call(fields, core.models, core.options.limits, generate);
  fields.finish();
  if (streams) {
    const size_t texts = call.texts.size();
    return core.run_stream(context, std::move(call), events_of(texts));
  }
  // The tag is known before the answer: a client that has it costs no work.
  std::string tag = entity_tag(call, generate ? "/v1/generate" : "/v1/translate", "");
  const bool is_get = context->request.method != "POST";
  if (is_get && names_tag(context->request.header("If-None-Match"), tag)) {
    return core.respond(*context, HttpResponse{.status = 304, .type = ""}
                                      .with("ETag", tag)
                                      .with("Cache-Control", "no-cache"));
  }
  core.run(context, std::move(call), [tag = std::move(tag), is_get](TextJob& job) {
    return HttpResponse{.body = answer_text(job)}
        .with("ETag", tag)
        .with("Cache-Control", is_get ? "no-cache" : "no-store")
        .with("X-Tril-Fingerprint", job.call().model->fingerprint);
  });
}

void translate_body(Core& core, const ContextPtr& context) {
  serve_call(core, context, RequestFields::of_body(context->request), false);
}

void translate_query(Core& core, const ContextPtr& context) {
  serve_call(core, context, RequestFields::of_query(context->request), false);
}

void generate(Core& core, const ContextPtr& context) {
  serve_call(core, context, RequestFields::of_body(context->request), true);
}

// ---- scores, tokens, languages, models ----------------------------------------------------------

Json numbers_or_null(const std::vector<float>& numbers) {
  Json list = Json::array();
  for (const float number : numbers) {
    list.push_back(std::isfinite(number) ? Json(number) : Json(nullptr));
  }
  return list;
}

int64_t tokens_in(const std::vector<std::string>& texts, const Translator& translator,
                  TextSide side) {
  int64_t tokens = 0;
  for (const std::string& text : texts) {
    tokens += std::ssize(translator.tokenizer().encode(text, side));
  }
  return tokens;
}

// Scores of texts, some at a time.
class ScoresInSteps {
 public:
  ScoresInSteps(const ServedModel& model, std::optional<std::vector<std::string>> sources,
                std::vector<std::string> targets, LanguagePair languages)
      : model_(model), sources_(std::move(sources)), targets_(std::move(targets)) {
    options_.bad_lines = BadLine::skip;  // a line's number within a step would be no help
    options_.languages = std::move(languages);
  }

  // Scores texts of some 2,000 bytes, one at least. True: that were all. `check` is called before
  // each, and may raise.
  bool step(const std::function<void()>& check) {
    int64_t bytes = 0;
    model_.translator.score(
        [&]() -> std::optional<ScoreTextRequest> {
          check();
          if (next_ == targets_.size() || bytes >= kBytes) return std::nullopt;
          ScoreTextRequest request;
          if (sources_) request.source = (*sources_)[next_];
          request.target = targets_[next_++];
          bytes += std::ssize(request.source) + std::ssize(request.target);
          return request;
        },
        [&](TextScore&& result) {
          require(result.skipped.empty(), ErrorCode::invalid_argument, "score: line ",
                  scores_.size() + 1, ": ", result.skipped);
          scores_.push_back({{"score", result.score},
                             {"ids", result.tokens},
                             {"pieces", result.pieces},
                             {"log_probs", numbers_or_null(result.log_probs)}});
          return true;
        },
        options_);
    return next_ == targets_.size();
  }
  Json take() { return std::move(scores_); }

 private:
  static constexpr int64_t kBytes = 2000;

  const ServedModel& model_;
  const std::optional<std::vector<std::string>> sources_;
  const std::vector<std::string> targets_;
  ScoreTextOptions options_;
  size_t next_ = 0;
  Json scores_ = Json::array();
};

void score(Core& core, const ContextPtr& context) {
  RequestFields fields = RequestFields::of_body(context->request);
  const int64_t most = core.options.limits.max_texts;
  TextCall call;
  const auto targets = fields.texts("target", most);
  const auto sources = fields.texts("source", most);
  Wanted wanted;
  wanted.model = fields.text("model").value_or("");
  wanted.source = fields.text("source_language").value_or("");
  wanted.target = fields.text("target_language").value_or("");
  wanted.source_field = "source_language";
  wanted.target_field = "target_language";
  fields.finish();
  if (!targets) refuse("target", "target is missing: the texts to be scored");
  if (sources && sources->size() != targets->size()) {
    refuse("source", concat("source: ", sources->size(), " for ", targets->size(), " targets"));
  }
  if (wanted.source == "auto") {
    refuse("source_language", "source_language: a score needs the language by its code");
  }
  if (const ServedModel* named = core.models.find(wanted.model)) {
    if (named->decoder_only() && sources) {
      refuse("source", concat(named->name, " continues text, so a score takes no source"));
    }
    if (!named->decoder_only() && !sources) {
      refuse("source",
             concat("source is missing: ", named->name, " translates, so a score needs it"));
    }
  }
  call.texts = {targets->front()};
  choose_model(call, core.models, wanted, !sources);
  core.admit(*context);
  const ServedModel* model = call.model;
  // Of each text one at least, which is its END: no score is for nothing.
  const int64_t tokens = std::ssize(*targets) +
                         tokens_in(*targets, model->translator, TextSide::target) +
                         (sources ? tokens_in(*sources, model->translator, TextSide::source) : 0);
  core.charge(*context, tokens);
  // They wait like everything else: counted, and not longer than anybody may.
  core.waiting.add(context->client.id, tokens);
  const std::shared_ptr<void> counted(nullptr, [&core, tokens, client = context->client.id](void*) {
    core.waiting.remove(client, tokens);
  });
  const auto scores = std::make_shared<ScoresInSteps>(*model, sources, *targets,
                                                      model->for_translator(call.languages_of(0)));
  core.run_slow(context, [&core, context, model, scores, counted]() -> std::optional<HttpResponse> {
    if (!scores->step([&] { core.check_wanted(*context); })) return std::nullopt;
    const Json answer = {
        {"model", model->name}, {"fingerprint", model->fingerprint}, {"scores", scores->take()}};
    return HttpResponse{.body = dump(answer) + "\n"}.with("X-Tril-Fingerprint", model->fingerprint);
  });
}

void tokenize(Core& core, const ContextPtr& context) {
  RequestFields fields = RequestFields::of_body(context->request);
  const auto texts = fields.texts("text", core.options.limits.max_texts);
  if (!texts) refuse("text", "text is missing: what to tokenize");
  const size_t side = fields.word_index("side", {"source", "target"}).value_or(0);
  Wanted wanted;
  wanted.model = fields.text("model").value_or("");
  wanted.source = fields.text("source").value_or("");
  wanted.target = fields.text("target").value_or("");
  fields.finish();
  const Chosen chosen = core.models.choose(wanted, texts->front());
  core.admit(*context);
  const Translator& translator = chosen.model->translator;
  const LanguagePair languages =
      translator.languages_for(chosen.model->for_translator(chosen.languages));
  Json list = Json::array();
  for (const std::string& text : *texts) {
    const Tokenizer& tokenizer = translator.tokenizer();
    std::vector<int32_t> ids;
    if (side == 1) {
      ids = tokenizer.encode_target(text, languages);
    } else if (chosen.model->decoder_only()) {
      ids = tokenizer.encode(text);
    } else {
      ids = tokenizer.encode_source(text, languages);
    }
    core.charge(*context, std::ssize(ids));
    Json pieces = Json::array();
    for (const int32_t id : ids) {
      pieces.push_back(tokenizer.piece(
          id, side == 1 || chosen.model->decoder_only() ? TextSide::target : TextSide::source));
    }
    list.push_back({{"ids", ids}, {"pieces", std::move(pieces)}});
  }
  core.respond(*context, {.body = dump({{"model", chosen.model->name}, {"texts", list}}) + "\n"});
}

void detect_text(Core& core, const ContextPtr& context, RequestFields fields) {
  const auto text = fields.text("text");
  fields.finish();
  if (!text) refuse("text", "text is missing: whose language to detect");
  core.admit(*context);
  core.charge(*context, detection_tokens(*text));
  Json list = Json::array();
  for (const auto& found : detect_language(*text, core.models.sources())) {
    list.push_back({{"language", found.code}, {"confidence", found.confidence}});
  }
  core.respond(*context, {.body = dump({{"detected", std::move(list)}}) + "\n"});
}

void detect(Core& core, const ContextPtr& context) {
  detect_text(core, context, RequestFields::of_body(context->request));
}

void detect_query(Core& core, const ContextPtr& context) {
  detect_text(core, context, RequestFields::of_query(context->request));
}

Json model_json(const ServedModel& model) {
  const TransformerConfig& config = model.translator.model().config();
  Json names = Json::object();
  for (const auto* codes : {&model.sources, &model.targets}) {
    for (const std::string& code : *codes) names[code] = language_name(code);
  }
  return {{"id", model.name},
          {"object", "model"},
          {"created", 0},
          {"owned_by", "tril"},
          {"kind", config.decoder_only() ? "decoder-only" : "encoder-decoder"},
          {"source_languages", model.sources},
          {"target_languages", model.targets},
          {"language_names", std::move(names)},
          {"default_source", model.usual.from},
          {"default_target", model.usual.to},
          {"fingerprint", model.fingerprint},
          {"device", to_string(model.translator.model().placement().device)},
          {"compute", word_for(model.translator.model().compute())},
          {"max_length", config.max_length},
          {"shortlist", model.shortlist.has_value()}};
}

void list_models(Core& core, const ContextPtr& context) {
  Json data = Json::array();
  for (const ServedModel& model : core.models.models()) data.push_back(model_json(model));
  core.respond(*context, {.body = dump({{"object", "list"}, {"data", std::move(data)}}) + "\n"});
}

void show_model(Core& core, const ContextPtr& context) {
  constexpr std::string_view kPath = "/v1/models/";
  // Only forms and queries write a blank as "+".
  std::string path;
  for (const char c : context->request.path().substr(kPath.size())) {
    path += c == '+' ? "%2B" : std::string(1, c);
  }
  const auto name = percent_decoded(path);
  const ServedModel* model = name ? core.models.find(*name) : nullptr;
  if (model == nullptr) {
    throw ApiError(404, "unknown_model", "there is no such model: see /v1/models", "model");
  }
  core.respond(*context, {.body = dump(model_json(*model)) + "\n"});
}

// ---- why ----------------------------------------------------------------------------------------

// The page has its script inside; in a sandbox it can reach nothing of this server's.
constexpr std::string_view kExplainPolicy =
    "sandbox allow-scripts allow-downloads; default-src 'none'; script-src 'unsafe-inline'; "
    "style-src 'unsafe-inline'; img-src data:";

void explain_text(Core& core, const ContextPtr& context) {
  if (!core.options.page) throw ApiError(404, "not_found", "this server shows no pages");
  // It loads a model: that is not for an image on somebody else's page to start.
  if (equal_ignoring_case(context->request.header("Sec-Fetch-Site"), "cross-site")) {
    throw ApiError(403, "cross_site", "another site may not ask for an explanation");
  }
  RequestFields fields = RequestFields::of_query(context->request);
  const auto text = fields.text("text");
  Wanted wanted;
  wanted.model = fields.text("model").value_or("");
  wanted.source = fields.text("source").value_or("");
  wanted.target = fields.text("target").value_or("");
  fields.finish();
  if (!text) refuse("text", "text is missing: the sentence to explain");
  const Chosen chosen = core.models.choose(wanted, *text);
  core.admit(*context);
  core.charge(*context, tokens_in({*text}, chosen.model->translator, TextSide::source));
  core.run_study(context, [&core, chosen, text = *text] {
    ExplainOptions options;
    options.languages = chosen.model->for_translator(chosen.languages);
    // The weights as they were learnt; what is served may be packed.
    LoadOptions to_study;
    to_study.purpose = Purpose::study;
    to_study.trust = core.options.trust;
    const Translator translator = Translator::load(chosen.model->folder, to_study);
    require(identity_of_files(translator, chosen.model->folder) == chosen.model->files,
            ErrorCode::invalid_argument, chosen.model->name,
            ": its files have changed since the server loaded them");
    const std::string page = explain_page(explain(translator, text, options));
    return HttpResponse{.type = "text/html; charset=utf-8", .body = page}
        .with("Content-Security-Policy", std::string(kExplainPolicy))
        .with("Cache-Control", "no-store");
  });
}

constexpr Route kOwnRoutes[] = {
    {"POST", "/v1/translate", translate_body, Shape::own, "v1"},
    {"GET", "/v1/translate", translate_query, Shape::own, "v1"},
    {"POST", "/v1/generate", generate, Shape::own, "v1"},
    {"POST", "/v1/score", score, Shape::own, "v1"},
    {"POST", "/v1/tokenize", tokenize, Shape::own, "v1"},
    {"POST", "/v1/detect", detect, Shape::own, "v1"},
    {"GET", "/v1/detect", detect_query, Shape::own, "v1"},
    {"GET", "/v1/models", list_models, Shape::own, "v1"},
    {"GET", "/v1/models/*", show_model, Shape::own, "v1"},
    {"GET", "/explain", explain_text, Shape::own, "explain"},
};

}  // namespace

std::span<const Route> own_routes() { return kOwnRoutes; }

}  // namespace tril::serve
