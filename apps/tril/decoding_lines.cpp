#include "decoding_lines.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "commands.h"
#include "decoding_output.h"
#include "output.h"
#include "tril/data/lines.h"
#include "tril/decode/search.h"
#include "tril/translate/doubt.h"

namespace tril::app {
namespace {

using Json = nlohmann::ordered_json;

std::string dumped(const Json& object) {
  return object.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Json json_of(const TextHypothesis& h, const DecodingFlags& flags) {
  Json object = {{"text", h.text},          {"ids", h.tokens}, {"pieces", h.pieces},
                 {"score", h.score},        {"rank", h.rank},  {"ended", !is_cut(h)},
                 {"log_probs", h.log_probs}};
  if (flags.options.alignments) object["alignment"] = to_pharaoh(h.links);
  return object;
}

std::string joined(const std::vector<int32_t>& ids) {
  std::string text;
  for (const int32_t id : ids) text += fmt::format("{}{}", text.empty() ? "" : " ", id);
  return text;
}

std::string json_line(const Translation& translation, const DecodingFlags& flags) {
  Json object = {{"line", translation.number + 1}};
  object.update(json_of(translation.hypotheses.front(), flags));
  if (!translation.skipped.empty()) {
    object["score"] = object["rank"] = nullptr;  // 0 would mean certainty
    object["skipped"] = translation.skipped;
  }
  if (flags.options.search.n_best.value_or(1) > 1) {
    for (const TextHypothesis& h : translation.hypotheses) {
      object["n_best"].push_back(json_of(h, flags));
    }
  }
  return dumped(object) + "\n";
}

// Tab-separated columns: the line's number where a line has several results, score, text,
// alignment.
std::string text_lines(const Translation& translation, const DecodingFlags& flags) {
  std::string lines;
  for (const TextHypothesis& h : translation.hypotheses) {
    if (flags.options.search.n_best.value_or(1) > 1)
      lines += fmt::format("{}\t", translation.number + 1);
    if (flags.scores) {
      // A log-probability of 0 would mean certainty: a skipped line has none.
      lines += translation.skipped.empty() ? fmt::format("{}\t", h.score) : "\t";
    }
    lines += flags.ids ? joined(h.tokens) : h.text;
    if (flags.options.alignments) lines += "\t" + to_pharaoh(h.links);
    lines += "\n";
  }
  return lines;
}

// Reports results that were cut: all cut results of a line have the same number of tokens, its
// limit.
void tell_cut(const Translation& translation, bool decoder_only) {
  int64_t cut = 0;
  size_t tokens = 0;
  for (const TextHypothesis& h : translation.hypotheses) {
    if (!is_cut(h)) continue;
    ++cut;
    tokens = h.tokens.size();
  }
  if (cut == 0) return;
  const size_t results = translation.hypotheses.size();
  const std::string which = results == 1 ? "" : fmt::format(": {} of {} results", cut, results);
  message(fmt::format("tril: line {}{} cut after {} tokens{}\n", translation.number + 1, which,
                      tokens, decoder_only ? ", its own included" : ""));
}

}  // namespace

std::string json_text(const TextHypothesis& hypothesis, const DecodingFlags& flags,
                      const std::string* source) {
  Json object;
  if (source != nullptr) object["source"] = *source;
  object.update(json_of(hypothesis, flags));
  return dumped(object);
}

DecodingInput::DecodingInput(const DecodingFlags& flags) : lines_(open_lines(flags.input)) {
  require(flags.input != "-" || flags.prefix != "-", ErrorCode::invalid_argument,
          "--input and --prefix cannot both be stdin");
  if (!flags.prefix.empty()) prefixes_.emplace(open_lines(flags.prefix));
  if (flags.first_line) first_number_ = *flags.first_line - 1;
  if (flags.shard) skip_to_shard(*flags.shard);
  const bool is_typed = flags.input == "-" && ::isatty(STDIN_FILENO) != 0;
  if (is_typed) message("type a line and press Enter; Ctrl-D ends\n");
}

void DecodingInput::skip_to_shard(const Shard& shard) {
  is_shard_ = true;
  const int64_t bytes = text_bytes(lines_.path());
  lines_.skip_to(shard.begin(bytes));
  first_number_ = lines_.number();
  if (shard.number < shard.count) end_ = shard.end(bytes);
  std::string skipped;
  while (prefixes_ && prefixes_->number() < first_number_ && prefixes_->next(skipped)) {
  }
}

void DecodingInput::check_end() {
  error_.raise();
  if (end_ && lines_.offset() >= *end_) return;  // the lines go on
  std::string more;
  require(!prefixes_ || !prefixes_->next(more), ErrorCode::invalid_argument, lines_.path(),
          " ends after ", lines_.number(), " lines, ", prefixes_ ? prefixes_->path() : "",
          " has more");
}

std::optional<TextRequest> DecodingInput::read(LineReader::Wait wait) {
  TextRequest request;
  if (end_ && lines_.offset() >= *end_) return std::nullopt;
  if (!lines_.next(request.line, wait)) return std::nullopt;
  ++taken_;
  request.fault = fault_of(lines_, "the line");
  if (!prefixes_) {
    note(request);
    return request;
  }
  require(prefixes_->next(request.prefix), ErrorCode::invalid_argument, prefixes_->path(),
          " ends after ", prefixes_->number(), " lines, ", lines_.path(), " has more");
  if (request.fault.empty()) request.fault = fault_of(*prefixes_, "the prefix");
  note(request);
  return request;
}

// Neither a line nor a prefix holds a line feed.
void DecodingInput::note(const TextRequest& request) {
  if (!is_shard_) return;
  for (const std::string* text : {&request.line, &request.prefix, &request.fault}) {
    checksum_.add(*text);
    checksum_.add("\n");
  }
}

DoubtNotice::DoubtNotice(const Translator& translator, const LanguagePair& languages)
    : translator_(translator), languages_(languages) {}

namespace {
constexpr int64_t kDoubtsTold = 5;
}  // namespace

void DoubtNotice::look_at(int64_t line, const std::string& text) {
  if (translator_.model().config().decoder_only()) return;
  const std::string doubt = doubt_about(translator_, text, languages_);
  if (doubt.empty() || ++doubted_ > kDoubtsTold) return;
  message(fmt::format("tril: line {}: is it in the right language? {}\n", line, doubt));
}

void DoubtNotice::tell_rest() const {
  if (doubted_ <= kDoubtsTold) return;
  const int64_t more = doubted_ - kDoubtsTold;
  message(fmt::format("tril: … and {} more line{} like {}\n", more, more == 1 ? "" : "s",
                      more == 1 ? "it" : "them"));
}

void decode_lines(const Translator& translator, const DecodingFlags& flags) {
  TranslateOptions options = flags.options;
  const bool samples = options.search.sample.value_or(false);
  if (!samples && !options.search.beam && !translator.generation().search.beam) {
    if (!translator.generation().search.sample) options.search.beam = flags.beam;
  }
  if (flags.shortlist) options.shortlist = Shortlist::load(flags.model);
  // A model's own settings may ask for sampling, so it is known only now.
  check_sampling(options.search, translator.search_options(options).sample);
  const bool decoder_only = translator.model().config().decoder_only();
  options.slots = std::max(flags.batch, translator.search_options(options).width());
  options.bad_lines = flags.strict ? BadLine::error : BadLine::skip;
  if (is_finished_shard(translator, flags)) return;
  if (flags.split) return decode_sentences(translator, flags, options);
  DecodingOutput output(flags);
  DecodingInput input(flags);
  options.first_number = input.first_number();
  DoubtNotice doubts(translator, options.languages);
  BadLineCount bad;
  int64_t under_way = 0;
  bool closed = false;
  translator.translate(
      [&]() -> std::optional<TextRequest> {
        // Waits for input only when nothing else is to be done, so that a typed line is translated
        // at once.
        using Wait = LineReader::Wait;
        std::optional<TextRequest> request = input.next(under_way == 0 ? Wait::yes : Wait::no);
        if (!request) return request;
        ++under_way;
        const int64_t line = input.first_number() + input.taken();
        if (request->fault.empty()) doubts.look_at(line, request->line);
        return request;
      },
      [&](Translation&& translation) {
        --under_way;
        if (!translation.skipped.empty()) {
          const bool may_split = !decoder_only && translation.skipped.ends_with(": split it");
          bad.tell(translation.number + 1,
                   translation.skipped + (may_split ? " (--split does)" : ""));
        }
        tell_cut(translation, decoder_only);
        closed = !output.write(flags.json ? json_line(translation, flags)
                                          : text_lines(translation, flags));
        return !closed;
      },
      options);
  if (closed) return output.raise_stopped();
  doubts.tell_rest();
  input.check_end();
  output.commit(translator, input, bad);
  bad.raise();
}

}  // namespace tril::app
