#include "tril/serve/answer.h"

#include <algorithm>
#include <future>
#include <utility>

#include "tril/base/checksum.h"
#include "tril/serve/json_out-inl.h"
#include "tril/translate/doubt.h"
#include "tril/version.h"

namespace tril::serve {
namespace {

constexpr int kReceiptFormat = 1;

Json hypothesis_json(const TextHypothesis& h, bool alignments) {
  Json object = {{"text", h.text},          {"ids", h.tokens}, {"pieces", h.pieces},
                 {"score", h.score},        {"rank", h.rank},  {"ended", serve::is_whole(h)},
                 {"log_probs", h.log_probs}};
  if (alignments) {
    Json links = Json::array();
    for (const WordLink& link : h.links) links.push_back({link.source, link.target});
    object["alignment"] = std::move(links);
  }
  return object;
}

Json sentences_of(const TextJob& job, size_t text) {
  Json sentences = Json::array();
  const auto& units = job.results()[text];
  for (size_t i = 0; i < units.size(); ++i) {
    Json hypotheses = Json::array();
    for (const TextHypothesis& h : units[i]->translation.hypotheses) {
      hypotheses.push_back(hypothesis_json(h, job.call().options.alignments));
    }
    sentences.push_back(
        {{"source", job.plans()[text].parts[i].source}, {"hypotheses", std::move(hypotheses)}});
  }
  return sentences;
}

// The first line of a text that is plainly not in the language the model reads; empty: none.
std::string doubt_of(const TextJob& job, size_t text) {
  const TextCall& call = job.call();
  if (call.generates()) return "";
  const std::vector<TextPart>& parts = job.plans()[text].parts;
  for (const TextPart& part : parts) {
    std::string doubt = doubt_about(call.model->translator, part.source, call.languages_of(text));
    if (doubt.empty()) continue;
    const bool is_only_line = parts.back().line == 0;
    return is_only_line ? doubt : concat("line ", part.line + 1, ": ", doubt);
  }
  return "";
}

// Besides that: a text whose language was to be detected, and was none that the model reads.
std::string warning_of(const TextJob& job, size_t text) {
  std::string doubt = doubt_of(job, text);
  const auto& detected = job.call().chosen[text].detected;
  const bool has_words = !job.plans()[text].parts.empty();
  if (!doubt.empty() || !has_words || !detected || detected->confidence > 0.0) return doubt;
  return concat("its language was not recognised: translated as ", language_name(detected->code));
}

bool is_all_whole(const TextJob& job, size_t text) {
  const auto& units = job.results()[text];
  return std::all_of(units.begin(), units.end(), [](const auto& unit) {
    return serve::is_whole(unit->translation.hypotheses.front());
  });
}

// What the model computed for a text: no more than that, for receipts.
Json computed(const TextJob& job, size_t text) {
  Json object = {{"text", joined_text(job, text, 0)}, {"ended", is_all_whole(job, text)}};
  const size_t count = alternatives_of(job, text);
  if (count > 1) {
    Json others = Json::array();
    for (size_t i = 1; i < count; ++i) others.push_back(joined_text(job, text, i));
    object["alternatives"] = std::move(others);
  }
  if (job.call().details) object["sentences"] = sentences_of(job, text);
  return object;
}

Json receipt_of(const TextJob& job) {
  const ServedModel& model = *job.call().model;
  Json answer = Json::array();
  for (size_t i = 0; i < job.call().texts.size(); ++i) answer.push_back(computed(job, i));
  return {{"tril_receipt", kReceiptFormat},
          {"version", kVersion},
          {"model", model.name},
          {"fingerprint", model.fingerprint},
          {"device", to_string(model.translator.model().placement().device)},
          {"compute", word_for(model.translator.model().compute())},
          {"request", Json::parse(request_text(job.call()))},
          {"answer", std::move(answer)}};
}

JsonValue parse_receipt(std::string_view receipt, const std::string& file) {
  constexpr JsonLimits kReceipt{.max_bytes = 64 << 20, .max_depth = 16, .max_values = 1 << 22};
  JsonValue value = parse_json(receipt, file, kReceipt);
  // An answer that holds one is as good.
  if (const JsonValue* inner = value.find("receipt"); inner != nullptr) {
    JsonValue copy = *inner;
    value = std::move(copy);
  }
  const JsonValue* format = value.find("tril_receipt");
  require(format != nullptr && format->kind == JsonValue::Kind::integer, ErrorCode::bad_format,
          file, ": no receipt of tril: ask for one with \"receipt\": true");
  require(format->integer == kReceiptFormat, ErrorCode::bad_format, file, ": a receipt of format ",
          format->integer, ", this tril reads ", kReceiptFormat);
  return value;
}

const JsonValue& field_of(const JsonValue& object, std::string_view name, JsonValue::Kind kind,
                          const std::string& file) {
  const JsonValue* value = object.find(name);
  require(value != nullptr && value->kind == kind, ErrorCode::bad_format, file, ": the receipt's ",
          name, " is missing or of the wrong kind");
  return *value;
}

std::string text_of(const JsonValue& object, std::string_view name, const std::string& file) {
  return field_of(object, name, JsonValue::Kind::string, file).text;
}

// Where jobs run outside a server. Must outlive them, and waits for them.
class OwnServices {
 public:
  ~OwnServices() { live_.end(); }
  OwnServices() = default;
  OwnServices(const OwnServices&) = delete;
  OwnServices& operator=(const OwnServices&) = delete;

  // Runs a call to its end.
  std::shared_ptr<TextJob> run(TextCall call, const CallLimits& limits) {
    auto job = std::make_shared<TextJob>(
        std::move(call),
        JobServices{cache_, metrics_, waiting_, live_, workers_, workers_, workers_});
    const auto ended = std::make_shared<std::promise<void>>();
    job->start({}, limits, [ended](TextJob&) { ended->set_value(); });
    ended->get_future().wait();
    return job;
  }

 private:
  AnswerCache cache_{0};
  Metrics metrics_;
  WaitingTokens waiting_{metrics_.queued_tokens};
  LiveJobs live_;
  Workers workers_{1};
};

}  // namespace

bool is_whole(const TextHypothesis& hypothesis) {
  return hypothesis.ended && !hypothesis.end_forced;
}

std::string joined_text(const TextJob& job, size_t text, size_t index) {
  std::vector<std::string> parts;
  for (const auto& unit : job.results()[text]) {
    const auto& hypotheses = unit->translation.hypotheses;
    parts.push_back(hypotheses[index < hypotheses.size() ? index : 0].text);
  }
  return job.join(text, parts);
}

size_t alternatives_of(const TextJob& job, size_t text) {
  size_t most = 1;
  for (const auto& unit : job.results()[text]) {
    most = std::max(most, unit->translation.hypotheses.size());
  }
  return most;
}

int64_t tokens_read(const TextJob& job) {
  int64_t tokens = 0;
  for (const auto& units : job.results()) {
    for (const auto& unit : units) tokens += unit->tokens_read;
  }
  return tokens;
}

int64_t tokens_written(const TextJob& job) {
  int64_t tokens = 0;
  for (const auto& units : job.results()) {
    for (const auto& unit : units) tokens += unit->tokens_written();
  }
  return tokens;
}

std::string answer_text(const TextJob& job) {
  const TextCall& call = job.call();
  Json answer = {{"model", call.model->name}, {"fingerprint", call.model->fingerprint}};
  const LanguagePair languages = call.languages_of(0);
  if (!languages.from.empty()) answer["source"] = languages.from;
  if (!languages.to.empty()) answer["target"] = languages.to;
  Json translations = Json::array();
  for (size_t i = 0; i < call.texts.size(); ++i) {
    Json one = computed(job, i);
    if (const auto& detected = call.chosen[i].detected) {
      one["detected"] = {{"language", detected->code}, {"confidence", detected->confidence}};
    }
    const std::string doubt = warning_of(job, i);
    if (!doubt.empty()) one["warnings"] = {doubt};
    translations.push_back(std::move(one));
  }
  answer["translations"] = std::move(translations);
  answer["usage"] = {{"source_tokens", tokens_read(job)}, {"target_tokens", tokens_written(job)}};
  if (call.receipt) answer["receipt"] = receipt_of(job);
  return dump(answer) + "\n";
}

std::string entity_tag(const TextCall& call, std::string_view path, std::string_view variant) {
  std::string all = concat(path, "\n", variant, "\n", call.model->name, "\n",
                           call.model->fingerprint, "\n", call.receipt ? "receipt\n" : "\n");
  for (const Chosen& chosen : call.chosen) {
    all += concat(chosen.languages.from, " ", chosen.languages.to);
    // How confident the detection is depends on the other models of the server.
    if (chosen.detected) {
      all += concat(" auto ", chosen.detected->code, " ", chosen.detected->confidence);
    }
    all += "\n";
  }
  return concat("\"", to_string(checksum_of(all + request_text(call))), "\"");
}

ReceiptHead read_receipt_head(std::string_view receipt, const std::string& file) {
  const JsonValue value = parse_receipt(receipt, file);
  return {text_of(value, "model", file), text_of(value, "compute", file),
          text_of(value, "device", file), text_of(value, "version", file)};
}

namespace {

// The first text of what the receipt, or the answer around it, says of a text, and of what the
// model says; they differ.
std::string difference(size_t text, std::string_view whose, const nlohmann::json& theirs,
                       const nlohmann::json& ours) {
  const auto words = [](const nlohmann::json& object) {
    const bool has = object.is_object() && object.contains("text") && object.at("text").is_string();
    return has ? object.at("text").get<std::string>() : std::string();
  };
  if (words(theirs) == words(ours)) {
    return concat("text ", text + 1, ": the words agree, their numbers do not");
  }
  return concat("text ", text + 1, ": the ", whose, " says ", printable(words(theirs)),
                ", the model ", printable(words(ours)));
}

// How sure a server was of a language depends on its other models.
nlohmann::json without_detected(nlohmann::json translation) {
  if (translation.is_object()) translation.erase("detected");
  return translation;
}

// Compares as values: a program in between may have written the same JSON in another layout.
// `whole` is a receipt, or an answer around one: then everything that people read there, too.
void compare(const nlohmann::json& whole, const TextJob& job, const std::string& file,
             ReceiptCheck& check) {
  const bool has_answer = whole.contains("receipt");
  const nlohmann::json& receipt = has_answer ? whole.at("receipt") : whole;
  const nlohmann::json claimed = receipt.value("answer", nlohmann::json());
  check.texts = std::ssize(job.call().texts);
  require(claimed.is_array() && std::ssize(claimed) == check.texts, ErrorCode::bad_format, file,
          ": the receipt's answer has another number of texts than its request");
  const nlohmann::json answer = nlohmann::json::parse(answer_text(job));
  const nlohmann::json shown = has_answer ? whole.value("translations", nlohmann::json()) : claimed;
  require(shown.is_array() && std::ssize(shown) == check.texts, ErrorCode::bad_format, file,
          ": the answer has another number of translations than its receipt");
  for (size_t i = 0; i < claimed.size(); ++i) {
    const nlohmann::json ours = nlohmann::json::parse(dump(computed(job, i)));
    const nlohmann::json ours_shown = without_detected(answer.at("translations").at(i));
    std::string found;
    if (claimed[i] != ours) {
      found = difference(i, "receipt", claimed[i], ours);
    } else if (has_answer && without_detected(shown[i]) != ours_shown) {
      found = difference(i, "answer", shown[i], ours_shown);
    }
    if (found.empty()) continue;
    if (++check.texts_differing == 1) check.first_difference = found;
  }
  if (check.texts_differing > 0) return;
  const nlohmann::json expected = nlohmann::json::parse(dump(receipt_of(job)));
  for (const auto& [name, value] : receipt.items()) {
    // The answer was compared, the request is what it was computed from. Another version gives
    // another fingerprint, which is told apart.
    if (name == "answer" || name == "request" || name == "fingerprint") continue;
    if (name == "version" && !check.same_model) continue;
    if (!expected.contains(name) || value != expected.at(name)) {
      check.first_difference = concat("its receipt's \"", printable(name), "\" is another");
    }
  }
  if (!has_answer) return;
  for (const auto& [name, value] : whole.items()) {
    if (name == "translations" || name == "receipt") continue;
    // Whether it is the model's fingerprint is a question of its own.
    const nlohmann::json ours = name == "fingerprint" ? nlohmann::json(check.receipt_says)
                                                      : answer.value(name, nlohmann::json());
    if (value != ours) check.first_difference = concat("its \"", name, "\" is another");
  }
}

}  // namespace

ReceiptCheck check_receipt(std::string_view receipt, const std::string& file,
                           const std::string& folder, Translator translator) {
  const JsonValue value = parse_receipt(receipt, file);
  ModelSet models;
  ModelSpec spec;
  spec.name = text_of(value, "model", file);
  spec.folder = folder;
  // A direction that the server was told counts as much as one that the files say.
  const JsonValue& request = field_of(value, "request", JsonValue::Kind::object, file);
  for (const auto& [field, language] :
       {std::pair("source", &spec.languages.from), std::pair("target", &spec.languages.to)}) {
    const JsonValue* code = request.find(field);
    if (code != nullptr && code->kind == JsonValue::Kind::string) *language = code->text;
  }
  const bool states_languages = !spec.languages.from.empty() || !spec.languages.to.empty();
  const ModelLanguages known = translator.languages();
  models.add(served_model(std::move(spec), std::move(translator)));
  ReceiptCheck check;
  check.languages_as_stated =
      states_languages && known.codes.empty() && known.usual.from.empty() && known.usual.to.empty();
  check.fingerprint = models.models().front().fingerprint;
  check.receipt_says = text_of(value, "fingerprint", file);
  check.same_model = check.fingerprint == check.receipt_says;
  // The server that gave it may have had other bounds than ours.
  const CallLimits limits{.max_texts = 1 << 16,
                          .max_units = 1 << 20,
                          .max_beam = 1024,
                          .timeout = std::chrono::hours(24)};
  OwnServices services;
  std::shared_ptr<TextJob> job;
  try {
    RequestFields fields = RequestFields::of(request);
    TextCall call = read_call(fields, models, limits, models.models().front().decoder_only());
    fields.finish();
    job = services.run(std::move(call), limits);
  } catch (const ApiError& error) {
    fail(ErrorCode::invalid_argument, file, ": this model cannot have given it: ", error.message);
  }
  if (job->error()) {
    fail(ErrorCode::invalid_argument, file,
         ": this model cannot have given it: ", job->error()->message);
  }
  compare(nlohmann::json::parse(receipt), *job, file, check);
  return check;
}

}  // namespace tril::serve
