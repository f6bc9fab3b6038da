// OpenAI's completions API: decoder-only models continue the prompt, encoder–decoders translate it.
// (/v1/models is tril's own and has the fields that these clients read.)
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "tril/base/checksum.h"
#include "tril/serve/api.h"
#include "tril/serve/json_out-inl.h"

namespace tril::serve {
namespace {

// What a request says besides the call.
struct Wishes {
  int64_t n = 1;
  bool echo = false;
  bool logprobs = false;
  bool stream_usage = false;
  std::vector<std::string> stops{};
  std::string id{};
};

// Equal requests have equal answers, so their ids are equal, too.
std::string id_of(const TextCall& call, const Wishes& wishes) {
  std::string all =
      entity_tag(call, "/v1/completions", concat(wishes.n, wishes.echo, wishes.logprobs));
  for (const std::string& stop : wishes.stops) all += json_quoted(stop);
  return "cmpl-" + to_string(checksum_of(all));
}

// Of one hypothesis: the text after the prompt, and where its tokens begin.
struct Completion {
  std::string text;
  size_t first_token = 0;
  std::string before;  // what the tokens before the first one write, if the text goes on from there
  bool is_cut = false;  // at a stop
  std::string finish;
};

size_t find_stop(std::string_view text, const std::vector<std::string>& stops) {
  size_t at = std::string_view::npos;
  for (const std::string& stop : stops) at = std::min(at, text.find(stop));
  return at;
}

// Units with fewer give their best.
const TextHypothesis& hypothesis_of(const UnitResult& unit, size_t index) {
  const auto& hypotheses = unit.translation.hypotheses;
  return hypotheses[index < hypotheses.size() ? index : 0];
}

Completion completion_of(const TextJob& job, size_t text, size_t index, const Wishes& wishes) {
  const TextCall& call = job.call();
  Completion completion;
  if (!call.generates()) {
    completion.text = joined_text(job, text, index);
    completion.finish = "stop";
    for (const auto& unit : job.results()[text]) {
      if (!is_whole(hypothesis_of(*unit, index))) completion.finish = "length";
    }
  } else {
    const UnitResult& unit = *job.results()[text].front();
    const TextHypothesis& h = hypothesis_of(unit, index);
    completion.finish = is_whole(h) ? "stop" : "length";
    completion.first_token = std::min(h.tokens.size(), static_cast<size_t>(unit.tokens_read));
    const Tokenizer& tokenizer = call.model->translator.tokenizer();
    const auto tokens = std::span(h.tokens);
    completion.before = tokenizer.decode(tokens.first(completion.first_token));
    if (h.text.starts_with(completion.before)) {
      completion.text = h.text.substr(completion.before.size());
    } else {
      completion.text = tokenizer.decode(tokens.subspan(completion.first_token));
      completion.before.clear();
    }
  }
  if (const size_t stop = find_stop(completion.text, wishes.stops);
      stop != std::string_view::npos) {
    completion.text.resize(stop);
    completion.is_cut = true;
    completion.finish = "stop";
  }
  return completion;
}

// What each token adds to the text of those before it. How a token is written may depend on what
// precedes it (a blank at the beginning of a text is left out), so a few earlier tokens are decoded
// together with it; decoding all of them each time would take time that grows with the square.
class TokenTexts {
 public:
  // Of the tokens from `first` on; those before it write `before`, or they do not count.
  TokenTexts(const Tokenizer& tokenizer, std::span<const int32_t> tokens, size_t first,
             std::string before)
      : tokenizer_(tokenizer),
        tokens_(tokens),
        end_(first),
        told_(first),
        window_(before.empty() ? first : 0),
        next_window_(first),
        window_text_(std::move(before)) {}

  // The text of the next token. While a character is incomplete there is none; the token that
  // completes it has the whole character.
  std::string next() {
    const size_t whole = whole_tokens(++end_);
    if (whole <= told_) return {};
    std::string text = decode(window_, whole);
    std::string added = text.starts_with(window_text_) ? text.substr(window_text_.size()) : "";
    told_ = whole;
    window_text_ = std::move(text);
    // The window can move once what it then holds writes something: what follows is no beginning.
    if (std::string later = decode(next_window_, whole); !later.empty()) {
      window_ = std::exchange(next_window_, whole);
      window_text_ = std::move(later);
    }
    return added;
  }

 private:
  std::string decode(size_t begin, size_t end) const {
    return tokenizer_.decode(tokens_.subspan(begin, end - begin));
  }
  // How many of the first `count` tokens end with a whole character; all at the end of the text.
  size_t whole_tokens(size_t count) const {
    if (count == tokens_.size()) return count;
    for (;;) {
      const size_t whole = tokenizer_.whole_tokens(tokens_.first(count));
      if (whole == count || whole <= told_) return whole;
      count = whole;
    }
  }

  const Tokenizer& tokenizer_;
  const std::span<const int32_t> tokens_;
  size_t end_;               // of the tokens that were asked for
  size_t told_;              // of those whose text was given
  size_t window_;            // what is decoded begins here,
  size_t next_window_;       // and next time here
  std::string window_text_;  // what the tokens from window_ to told_ write
};

// For each token its text, log p and place in the answer's text, which clients count in characters.
class TokenList {
 public:
  // The answer's text, and whether it was cut at a stop: then only tokens that begin before the
  // stop are listed.
  TokenList(const Tokenizer& tokenizer, std::string_view text, bool is_cut)
      : tokenizer_(tokenizer), text_(text), is_cut_(is_cut) {}

  // The tokens of a hypothesis from `first` on, whose text begins at `place`, a byte. `before`:
  // what those before write, if the text goes on from there. A token without a text, such as END,
  // is shown as its piece.
  void add(const TextHypothesis& h, size_t first, const std::string& before, size_t place) {
    TokenTexts texts(tokenizer_, h.tokens, first, before);
    int64_t offset = count_characters(text_.substr(0, place));
    for (size_t i = first; i < h.tokens.size(); ++i) {
      if (is_cut_ && place >= text_.size()) break;
      const std::string text = texts.next();
      offsets_.push_back(offset);
      tokens_.push_back(text.empty() ? h.pieces[i] : text);
      numbers_.push_back(std::isfinite(h.log_probs[i]) ? Json(h.log_probs[i]) : Json(nullptr));
      place += text.size();
      offset += count_characters(text);
    }
  }
  Json json() const {
    return {{"tokens", tokens_},
            {"token_logprobs", numbers_},
            {"top_logprobs", nullptr},
            {"text_offset", offsets_}};
  }

 private:
  const Tokenizer& tokenizer_;
  const std::string_view text_;
  const bool is_cut_;
  Json tokens_ = Json::array(), numbers_ = Json::array(), offsets_ = Json::array();
};

// Of all units of a text: a translation's are those of its lines and sentences.
Json logprobs_of(const TextJob& job, size_t text, size_t index, const Completion& completion) {
  const TextCall& call = job.call();
  TokenList list(call.model->translator.tokenizer(), completion.text, completion.is_cut);
  const auto& units = job.results()[text];
  if (call.generates()) {
    list.add(hypothesis_of(*units.front(), index), completion.first_token, completion.before, 0);
    return list.json();
  }
  std::string so_far;
  for (size_t i = 0; i < units.size(); ++i) {
    const TextHypothesis& h = hypothesis_of(*units[i], index);
    job.plans()[text].append(so_far, i, h.text);
    list.add(h, 0, "", so_far.size() - h.text.size());
  }
  return list.json();
}

Json choice_of(const TextJob& job, size_t text, size_t index, const Wishes& wishes) {
  Completion completion = completion_of(job, text, index, wishes);
  const Json logprobs = wishes.logprobs ? logprobs_of(job, text, index, completion) : Json(nullptr);
  if (wishes.echo) completion.text = job.call().texts[text] + completion.text;
  return {{"text", completion.text},
          {"index", text * static_cast<size_t>(wishes.n) + index},
          {"logprobs", logprobs},
          {"finish_reason", completion.finish}};
}

Json usage_of(const TextJob& job) {
  const int64_t read = tokens_read(job);
  const int64_t written = tokens_written(job);
  return {
      {"prompt_tokens", read}, {"completion_tokens", written}, {"total_tokens", read + written}};
}

Json head_of(const TextJob& job, const Wishes& wishes) {
  return {{"id", wishes.id},
          {"object", "text_completion"},
          {"created", 0},
          {"model", job.call().model->name},
          {"system_fingerprint", job.call().model->fingerprint}};
}

HttpResponse response_of(const TextJob& job, const Wishes& wishes) {
  Json answer = head_of(job, wishes);
  Json choices = Json::array();
  for (size_t text = 0; text < job.call().texts.size(); ++text) {
    for (size_t i = 0; i < static_cast<size_t>(wishes.n); ++i) {
      choices.push_back(choice_of(job, text, i, wishes));
    }
  }
  answer["choices"] = std::move(choices);
  answer["usage"] = usage_of(job);
  return HttpResponse{.body = dump(answer) + "\n"}
      .with("ETag", "\"" + wishes.id + "\"")
      .with("X-Tril-Fingerprint", job.call().model->fingerprint);
}

// ---- streams ------------------------------------------------------------------------------------

void add_data(std::string& bytes, const Json& json) { bytes += "data: " + dump(json) + "\n\n"; }

// How far a text may be told while a stop could still begin at its end.
size_t safe_end(std::string_view text, const std::vector<std::string>& stops) {
  size_t longest = 0;
  for (const std::string& stop : stops) longest = std::max(longest, stop.size());
  size_t end = text.size() - std::min(text.size(), longest == 0 ? 0 : longest - 1);
  while (end > 0 && end < text.size() && (text[end] & 0xC0) == 0x80) --end;
  return end;
}

// The events of a stream: what is new of each text, then how it finished.
class CompletionEvents {
 public:
  CompletionEvents(Wishes wishes, size_t texts)
      : wishes_(std::move(wishes)), prompts_(texts), told_(texts), began_(texts) {}

  void news(TextJob& job, std::string& bytes) {
    for (size_t i = 0; i < told_.size(); ++i) {
      std::string text = job.text_so_far(i);
      if (job.call().generates()) {
        // Until the prompt is through, nothing of it is new.
        const std::string& prompt = prompt_of(job, i);
        if (!text.starts_with(prompt)) continue;
        text.erase(0, prompt.size());
      }
      // Another stop may turn out to begin before the one that was found.
      const size_t end = std::min(find_stop(text, wishes_.stops), safe_end(text, wishes_.stops));
      if (end > told_[i].size() && text.starts_with(told_[i]))
        tell(job, i, text.substr(0, end), bytes);
    }
  }
  void last(TextJob& job, std::string& bytes) {
    for (size_t i = 0; i < told_.size(); ++i) {
      const Completion completion = completion_of(job, i, 0, wishes_);
      const bool is_more = completion.text.size() > told_[i].size() || (wishes_.echo && !began_[i]);
      if (is_more && completion.text.starts_with(told_[i])) {
        tell(job, i, completion.text, bytes);
      }
      add_chunk(job, i, "", completion.finish, bytes);
    }
    if (wishes_.stream_usage) {
      Json chunk = head_of(job, wishes_);
      chunk["choices"] = Json::array();
      chunk["usage"] = usage_of(job);
      add_data(bytes, chunk);
    }
    bytes += "data: [DONE]\n\n";
  }

 private:
  // What its tokens say, which need not be what was sent.
  const std::string& prompt_of(const TextJob& job, size_t i) {
    if (!prompts_[i]) {
      const Tokenizer& tokenizer = job.call().model->translator.tokenizer();
      prompts_[i] = tokenizer.decode(tokenizer.encode(job.call().texts[i]));
    }
    return *prompts_[i];
  }
  void tell(TextJob& job, size_t i, const std::string& text, std::string& bytes) {
    const std::string echo = wishes_.echo && !began_[i] ? job.call().texts[i] : "";
    began_[i] = true;
    add_chunk(job, i, echo + text.substr(told_[i].size()), nullptr, bytes);
    told_[i] = text;
  }
  void add_chunk(TextJob& job, size_t i, const std::string& text, const Json& finish,
                 std::string& bytes) {
    Json chunk = head_of(job, wishes_);
    chunk["choices"] = {
        {{"text", text}, {"index", i}, {"logprobs", nullptr}, {"finish_reason", finish}}};
    add_data(bytes, chunk);
  }

  const Wishes wishes_;
  std::vector<std::optional<std::string>> prompts_;
  std::vector<std::string> told_;
  std::vector<bool> began_;  // the echo is told
};

Core::Stream completion_events(const Wishes& wishes, size_t texts) {
  const auto events = std::make_shared<CompletionEvents>(wishes, texts);
  return {.events = [events](TextJob& job, std::string& bytes) { events->news(job, bytes); },
          .last = [events](TextJob& job, std::string& bytes) { events->last(job, bytes); },
          .error =
              [](const ApiError& error, std::string& bytes) {
                add_data(bytes, {{"error",
                                  {{"message", error.message},
                                   {"type", "server_error"},
                                   {"param", nullptr},
                                   {"code", error.code}}}});
              }};
}

// ---- requests -----------------------------------------------------------------------------------

// Null where there is none.
const JsonValue* object_of(RequestFields& fields, const char* name) {
  const JsonValue* value = fields.value(name);
  if (value != nullptr && value->kind != JsonValue::Kind::object) {
    refuse(name, concat(name, ": expected an object, got ", describe(*value)));
  }
  return value;
}

// What is asked for and cannot be done is refused; the values that change nothing are not.
void refuse_openai_wishes(RequestFields& fields, int64_t n) {
  if (fields.number("presence_penalty", -2, 2).value_or(0) != 0) {
    refuse("presence_penalty",
           "presence_penalty is not supported: see repetition_penalty of /v1/generate");
  }
  if (fields.number("frequency_penalty", -2, 2).value_or(0) != 0) {
    refuse("frequency_penalty",
           "frequency_penalty is not supported: see repetition_penalty of /v1/generate");
  }
  const JsonValue* bias = object_of(fields, "logit_bias");
  if (bias != nullptr && !bias->items.empty()) {
    refuse("logit_bias", "logit_bias is not supported: see forbid of /v1/generate");
  }
  if (!fields.text("suffix").value_or("").empty()) refuse("suffix", "suffix is not supported");
  if (fields.whole("best_of", 1, 1024).value_or(n) != n) {
    refuse("best_of", "best_of can only be the value of n on this server");
  }
  (void)fields.value("user");
}

std::vector<std::string> stops_of(RequestFields& fields) {
  constexpr size_t kMost = 4;  // of this API
  const JsonValue* value = fields.value("stop");
  if (value == nullptr) return {};
  if (value->kind == JsonValue::Kind::array && value->items.size() > kMost) {
    refuse("stop", concat("stop: ", value->items.size(), " texts to stop at, at most ", kMost));
  }
  std::vector<std::string> stops = *fields.texts("stop", kMost);
  std::erase(stops, "");
  return stops;
}

bool asks_for_usage(RequestFields& fields) {
  const JsonValue* value = object_of(fields, "stream_options");
  if (value == nullptr) return false;
  RequestFields options = RequestFields::of(*value);
  const bool usage = options.truth("include_usage").value_or(false);
  // It pads events against listeners who know their lengths, which changes nothing of the text.
  (void)options.truth("include_obfuscation");
  options.finish();
  return usage;
}

std::vector<std::string> prompts_of(RequestFields& fields, const CallLimits& limits) {
  const JsonValue* prompt = fields.value("prompt");
  if (prompt == nullptr) refuse("prompt", "prompt is missing");
  if (prompt->kind == JsonValue::Kind::array && !prompt->items.empty() &&
      prompt->items.front().kind != JsonValue::Kind::string) {
    refuse("prompt", "prompt: token ids are not taken, only text");
  }
  return *fields.texts("prompt", limits.max_texts);
}

void read_sampling(RequestFields& fields, TextCall& call, int64_t n) {
  SearchSettings& search = call.options.search;
  const auto temperature = fields.number("temperature", 0, 2);
  const auto top_p = fields.number("top_p", 0, 1);
  const auto seed = fields.seed("seed");
  if (temperature) {
    search.sample = *temperature > 0;
  } else if (call.generates()) {
    search.sample = true;
  }
  if (n > 1) search.n_best = n;
  if (search_of(call).sample) {
    if (search.sample) search.temperature = temperature.value_or(1.0);
    // 0 keeps the likeliest token alone.
    if (top_p) search.top_p = std::max(*top_p, std::numeric_limits<double>::min());
    search.seed = seed;  // elsewhere it changes nothing, and some clients always send one
  } else {
    // With a temperature of 0 there is one likeliest token, whatever top_p.
    if (!temperature && top_p.value_or(1) != 1) {
      refuse("top_p", concat("top_p: nothing is drawn by chance, since ", call.model->name,
                             " searches for the best: give a temperature above 0"));
    }
    if (temperature && call.generates()) search.beam = 1;
    if (n > 1) search.beam = std::max(n, search_of(call).beam);
  }
  const auto tokens = fields.whole("max_tokens", 0, 1 << 20);
  if (tokens == 0) refuse("max_tokens", "max_tokens: expected at least 1");
  constexpr int64_t kUsualTokens = 16;  // of this API
  if (tokens || call.generates()) search.max_tokens = tokens.value_or(kUsualTokens);
}

void complete(Core& core, const ContextPtr& context) {
  RequestFields fields = RequestFields::of_body(context->request);
  const CallLimits& limits = core.options.limits;
  TextCall call;
  Wishes wishes;
  call.texts = prompts_of(fields, limits);
  wishes.n = fields.whole("n", 1, limits.max_beam).value_or(1);
  refuse_openai_wishes(fields, wishes.n);
  wishes.echo = fields.truth("echo").value_or(false);
  // More than 1 would ask for tokens that were not chosen; theirs are not known.
  wishes.logprobs = fields.whole("logprobs", 0, 1).has_value();
  if (wishes.logprobs && wishes.echo) {
    refuse(
        "logprobs",
        "logprobs: those of the prompt, which echo would add, are not known here: see /v1/score");
  }
  wishes.stops = stops_of(fields);
  const bool streams = fields.truth("stream").value_or(false);
  wishes.stream_usage = asks_for_usage(fields);
  Wanted wanted;
  wanted.model = fields.text("model").value_or("");
  wanted.names_languages = false;
  if (!wanted.model.empty() && core.models.find(wanted.model) == nullptr) {
    throw ApiError(404, "model_not_found",
                   concat("no model ", printable(wanted.model), ": see /v1/models"), "model");
  }
  choose_model(call, core.models, wanted, std::nullopt);
  call.split = call.generates() ? Split::never : limits.split;
  call.timeout = limits.timeout;
  read_sampling(fields, call, wishes.n);
  complete_options(call, limits);
  fields.finish();
  wishes.id = id_of(call, wishes);
  if (streams) {
    if (wishes.n > 1) refuse("n", "n: a stream has one choice for each prompt");
    if (wishes.logprobs) refuse("logprobs", "logprobs: a stream has none");
    const size_t texts = call.texts.size();
    return core.run_stream(context, std::move(call), completion_events(wishes, texts));
  }
  core.run(context, std::move(call), [wishes](TextJob& job) { return response_of(job, wishes); });
}

void no_chat(Core&, const ContextPtr&) {
  throw ApiError(404, "not_found",
                 "these models do not chat: use /v1/completions, or /v1/translate");
}

constexpr Route kOpenaiRoutes[] = {
    {"POST", "/v1/completions", complete, Shape::own, "openai"},
    {"POST", "/v1/chat/completions", no_chat, Shape::own, "openai"},
};

}  // namespace

std::span<const Route> openai_routes() { return kOpenaiRoutes; }

}  // namespace tril::serve
