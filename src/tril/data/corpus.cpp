#include "tril/data/corpus.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "tril/base/error.h"
#include "tril/data/lines.h"
#include "tril/text/utf8.h"

namespace tril {
namespace {

constexpr std::array<std::string_view, kLineFaults> kFaultNames = {
    "an empty side", "invalid UTF-8", "a line too long", "too many tokens"};

bool is_blank(std::string_view text) {
  return text.find_first_not_of(" \t\r\v\f") == std::string_view::npos;
}

}  // namespace

int64_t CorpusReport::skipped_pairs() const {
  return std::accumulate(skipped.begin(), skipped.end(), int64_t{0});
}

std::vector<std::string> CorpusReport::lines() const {
  std::vector<std::string> result;
  for (size_t fault = 0; fault < kLineFaults; ++fault) {
    if (skipped[fault] == 0) continue;
    result.push_back(concat(skipped[fault], skipped[fault] == 1 ? " pair" : " pairs",
                            " left out for ", kFaultNames[fault], ", first ", first[fault]));
  }
  return result;
}

// One side of a pair, as it was read.
struct Corpus::Side {
  std::string_view text;
  const std::string& file;
  int64_t line = 0;
  bool too_long = false;
};

Corpus::Corpus(const CorpusOptions& options)
    : options_(options),
      text_(options.spool_folder, options.memory_bytes),
      entries_(options.spool_folder, options.memory_bytes) {}

Corpus::Corpus(const CorpusFiles& files, const CorpusOptions& options) : Corpus(options) {
  const int kinds = (files.source.empty() && files.target.empty() ? 0 : 1) +
                    (files.tsv.empty() ? 0 : 1) + (files.text.empty() ? 0 : 1);
  require(kinds == 1, ErrorCode::invalid_argument, Field{"files"},
          "corpus: ", kinds == 0 ? "no files" : "files of several kinds", " to learn from");
  require(files.source.size() == files.target.size(), ErrorCode::invalid_argument, Field{"files"},
          "corpus: ", files.source.size(), " source and ", files.target.size(),
          " target files, which go in pairs");
  has_source_ = files.text.empty();
  for (size_t i = 0; i < files.source.size(); ++i) {
    require(files.source[i] != files.target[i], ErrorCode::invalid_argument,
            "corpus: ", files.source[i], " is given as source and as target");
    read_two_files(files.source[i], files.target[i]);
  }
  for (const auto& path : files.tsv) read_one_file(path);
  for (const auto& path : files.text) read_one_file(path);
  finish();
  if (size() == 0) {
    const auto faults = report_.lines();
    fail(ErrorCode::bad_format, "corpus: ", files_.front(), " holds nothing to learn from",
         faults.empty() ? "" : ": ", faults.empty() ? "" : faults.front());
  }
}

Corpus Corpus::of(const std::vector<std::pair<std::string, std::string>>& pairs) {
  Corpus corpus{CorpusOptions{}};
  corpus.files_.emplace_back("built-in");
  corpus.has_source_ = false;
  for (const auto& [source, target] : pairs) {
    corpus.has_source_ = corpus.has_source_ || !source.empty();
    corpus.append(source, target, corpus.size() + 1);
  }
  corpus.finish();
  return corpus;
}

void Corpus::read_two_files(const std::string& source, const std::string& target) {
  files_.push_back(source);
  LineReader sources(source, options_.max_line_bytes);
  LineReader targets(target, options_.max_line_bytes);
  std::string left;
  std::string right;
  for (;;) {
    const bool more = sources.next(left);
    const bool also = targets.next(right);
    if (more != also) {
      const LineReader& shorter = more ? targets : sources;
      const LineReader& longer = more ? sources : targets;
      fail(ErrorCode::bad_format, shorter.path(), " ends after line ", shorter.number(), ", but ",
           longer.path(), " goes on: line i of one must translate line i of the other");
    }
    if (!more) return;
    add({left, source, sources.number(), sources.too_long()},
        {right, target, targets.number(), targets.too_long()});
  }
}

void Corpus::read_one_file(const std::string& path) {
  files_.push_back(path);
  LineReader lines(path, options_.max_line_bytes);
  std::string line;
  while (lines.next(line)) {
    const Side whole{line, path, lines.number(), lines.too_long()};
    if (!has_source_) {
      if (accept(whole)) append("", line, whole.line);
      continue;
    }
    const size_t tab = line.find('\t');
    if (lines.too_long() || is_blank(line)) {
      accept(whole);
      continue;
    }
    require(tab != std::string::npos && line.find('\t', tab + 1) == std::string::npos,
            ErrorCode::bad_format, path, ":", lines.number(), ": ",
            tab == std::string::npos ? "no tab" : "more than one tab",
            ": a line of a TSV file is source, tab, target");
    const std::string_view text = line;
    add({text.substr(0, tab), path, whole.line}, {text.substr(tab + 1), path, whole.line});
  }
}

bool Corpus::accept(const Side& side) {
  if (side.too_long) {
    skip(LineFault::too_many_bytes, side.file, side.line,
         concat("more than ", options_.max_line_bytes, " bytes"));
    return false;
  }
  if (is_blank(side.text)) {
    skip(LineFault::empty, side.file, side.line, "empty");
    return false;
  }
  if (const auto fault = first_invalid_utf8(side.text)) {
    skip(LineFault::invalid_utf8, side.file, side.line, concat("not UTF-8 at byte ", *fault + 1));
    return false;
  }
  return true;
}

void Corpus::add(const Side& source, const Side& target) {
  if (accept(source) && accept(target)) append(source.text, target.text, source.line);
}

void Corpus::skip(LineFault fault, std::string_view where, int64_t line, const std::string& what) {
  const auto kind = static_cast<size_t>(fault);
  if (report_.skipped[kind]++ == 0) report_.first[kind] = concat(where, ":", line, " (", what, ")");
}

void Corpus::append(std::string_view source, std::string_view target, int64_t line) {
  Entry entry;
  entry.begin = text_.size();
  entry.middle = entry.begin + static_cast<int64_t>(source.size());
  entry.end = entry.middle + static_cast<int64_t>(target.size());
  entry.file = static_cast<int64_t>(files_.size()) - 1;
  entry.line = line;
  text_.append(source);
  text_.append(target);
  for (const std::string_view side : {source, target}) {
    fingerprint_.add(side);
    fingerprint_.add(0xFF);  // not a byte of UTF-8: separates sides and pairs
  }
  entries_.append({reinterpret_cast<const char*>(&entry), sizeof entry});
}

void Corpus::finish() {
  text_.finish();
  entries_.finish();
  report_.pairs = size();
}

Corpus::Entry Corpus::entry(int64_t pair) const {
  constexpr auto kBytes = static_cast<int64_t>(sizeof(Entry));
  Entry entry;
  std::memcpy(&entry, entries_.view(pair * kBytes, (pair + 1) * kBytes).data(), sizeof entry);
  return entry;
}

std::string_view Corpus::side(int64_t pair, int64_t which) const {
  const Entry at = entry(pair);
  return which == 0 ? text_.view(at.begin, at.middle) : text_.view(at.middle, at.end);
}

void Corpus::limit_tokens(const Tokenizer& tokenizer, int64_t max_tokens,
                          const LanguagePair& languages) {
  const auto count = [&](std::string_view line, int64_t which) {
    return std::ssize(which == 0 ? tokenizer.encode_source(line, languages)
                                 : tokenizer.encode_target(line, languages));
  };
  std::array<int64_t, 2> without_text{};
  for (int64_t which = has_source_ ? 0 : 1; which < 2; ++which) {
    without_text[static_cast<size_t>(which)] = count("", which);
  }
  Spool kept(options_.spool_folder, options_.memory_bytes);
  tokens_ = {};
  for (int64_t pair = 0; pair < size(); ++pair) {
    const Entry at = entry(pair);
    std::array<int64_t, 2> tokens{};
    for (int64_t which = has_source_ ? 0 : 1; which < 2; ++which) {
      tokens[static_cast<size_t>(which)] = count(side(pair, which), which);
    }
    const int64_t most = std::max(tokens[0], tokens[1]);
    if ((has_source_ && tokens[0] == without_text[0]) || tokens[1] == without_text[1]) {
      skip(LineFault::empty, files_[static_cast<size_t>(at.file)], at.line,
           "nothing of it is left by the tokenizer");
      continue;
    }
    if (most > max_tokens) {
      skip(LineFault::too_many_tokens, files_[static_cast<size_t>(at.file)], at.line,
           concat(most, " tokens, at most ", max_tokens));
      continue;
    }
    tokens_[0] += tokens[0];
    tokens_[1] += tokens[1];
    kept.append({reinterpret_cast<const char*>(&at), sizeof at});
  }
  kept.finish();
  entries_ = std::move(kept);
  report_.pairs = size();
  require(size() > 0, ErrorCode::bad_format, "corpus: every pair has a side with no or more than ",
          max_tokens, " tokens");
}

}  // namespace tril
