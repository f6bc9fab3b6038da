#include "tril/train/learn_shortlist.h"

#include <algorithm>
#include <numeric>

#include "tril/base/error.h"
#include "tril/base/fingerprint.h"
#include "tril/data/lexicon.h"

namespace tril {
namespace {

void check(const Corpus& corpus, const ShortlistOptions& o) {
  constexpr int64_t kMost = int64_t{1} << 30;
  const auto in_range = [](std::string_view what, int64_t value, int64_t least, int64_t most) {
    require(value >= least && value <= most, ErrorCode::invalid_argument, "shortlist: ", what,
            " must be from ", least, " to ", most, ", got ", value);
  };
  in_range("best", o.best, 1, kLexiconCandidates);
  in_range("frequent", o.frequent, 0, kMost);
  in_range("rounds", o.rounds, 1, 100);
  in_range("most_pairs", o.most_pairs, 1, kMost);
  require(corpus.has_source(), ErrorCode::invalid_argument,
          "shortlist: pairs of sentences are needed, got one text");
}

std::string pairs_text(int64_t count) { return concat(count, count == 1 ? " pair" : " pairs"); }

using Tell = std::function<void(std::string_view what, int64_t done, int64_t all)>;

// The pairs as a model reads them, without the END of targets, which is in every set.
TokenPairs tokens_of(const Corpus& corpus, const Tokenizer& tokenizer, int64_t most_pairs,
                     const Tell& tell) {
  TokenPairs pairs;
  const int64_t count = std::min(corpus.size(), most_pairs);
  for (int64_t i = 0; i < count; ++i) {
    tell("cutting the text into pieces", i, count);
    const int64_t pair = i * corpus.size() / count;
    std::vector<int32_t> source = tokenizer.encode(corpus.source(pair));
    source.push_back(tokenizer.end());
    pairs.add(source, tokenizer.encode(corpus.target(pair)));
  }
  return pairs;
}

// The most frequent target pieces, the lower one at equal counts.
std::vector<int32_t> most_frequent(const TokenPairs& pairs, int64_t vocab, int64_t count) {
  std::vector<int64_t> counts(static_cast<size_t>(vocab), 0);
  for (int64_t pair = 0; pair < pairs.size(); ++pair) {
    for (const int32_t token : pairs.target(pair)) ++counts[static_cast<size_t>(token)];
  }
  std::vector<int32_t> tokens(static_cast<size_t>(vocab));
  std::iota(tokens.begin(), tokens.end(), 0);
  std::stable_sort(tokens.begin(), tokens.end(), [&](int32_t a, int32_t b) {
    return counts[static_cast<size_t>(a)] > counts[static_cast<size_t>(b)];
  });
  tokens.resize(static_cast<size_t>(std::min(count, vocab)));
  std::erase_if(tokens, [&](int32_t token) { return counts[static_cast<size_t>(token)] == 0; });
  return tokens;
}

Shortlist shortlist_from(const TokenPairs& pairs, const Tokenizer& tokenizer,
                         const ShortlistOptions& options, const std::string& what,
                         const Tell& tell) {
  const int64_t vocab = tokenizer.vocab();
  tell(what, 0, options.rounds);
  const Lexicon lexicon =
      learn_lexicon(pairs, vocab, vocab,
                    {.best = options.best,
                     .rounds = options.rounds,
                     .threads = options.threads,
                     .progress = [&](int64_t round) { tell(what, round, options.rounds); }});
  ShortlistTable table{.target_vocab = vocab,
                       .always = most_frequent(pairs, vocab, options.frequent),
                       .listed = std::vector<std::vector<int32_t>>(lexicon.size()),
                       .tokenizer = hexadecimal(tokenizer_fingerprint(tokenizer.bytes()))};
  table.always.push_back(tokenizer.end());
  for (size_t piece = 0; piece < lexicon.size(); ++piece) {
    table.listed[piece].push_back(static_cast<int32_t>(piece));
    for (const LexiconEntry& entry : lexicon[piece]) table.listed[piece].push_back(entry.target);
  }
  return Shortlist(table);
}

// How much of some pairs is covered by a shortlist that was learnt from the others.
ShortlistReport measure(const TokenPairs& pairs, const Tokenizer& tokenizer,
                        const ShortlistOptions& options, const Tell& tell) {
  constexpr int64_t kMostMeasured = 1000;
  const int64_t every = std::max<int64_t>(10, pairs.size() / kMostMeasured);
  TokenPairs learnt, left_out;
  for (int64_t pair = 0; pair < pairs.size(); ++pair) {
    const bool out = pair % every == every - 1 && left_out.size() < kMostMeasured;
    (out ? left_out : learnt).add(pairs.source(pair), pairs.target(pair));
  }
  ShortlistReport report{.pairs = pairs.size(), .measured = left_out.size()};
  if (report.measured == 0) return report;
  const Shortlist shortlist = shortlist_from(
      learnt, tokenizer, options,
      concat("learning without ", pairs_text(report.measured), ", to measure with"), tell);
  int64_t sizes = 0, covered = 0;
  std::vector<int32_t> set;
  for (int64_t pair = 0; pair < left_out.size(); ++pair) {
    shortlist.choose(left_out.source(pair), {}, set);
    sizes += static_cast<int64_t>(set.size());
    for (const int32_t token : left_out.target(pair)) {
      covered += std::binary_search(set.begin(), set.end(), token) ? 1 : 0;
    }
  }
  const auto tokens = static_cast<double>(std::max<int64_t>(left_out.target_tokens(), 1));
  report.mean_size = static_cast<double>(sizes) / static_cast<double>(report.measured);
  report.covered = static_cast<double>(covered) / tokens;
  return report;
}

}  // namespace

Shortlist learn_shortlist(const Corpus& corpus, const Tokenizer& tokenizer,
                          const ShortlistOptions& options, ShortlistReport* report) {
  check(corpus, options);
  const Tell tell = [&](std::string_view what, int64_t done, int64_t all) {
    if (options.progress) options.progress(what, done, all);
  };
  const TokenPairs pairs = tokens_of(corpus, tokenizer, options.most_pairs, tell);
  if (report != nullptr) *report = measure(pairs, tokenizer, options, tell);
  return shortlist_from(pairs, tokenizer, options,
                        concat("learning from ", pairs_text(pairs.size())), tell);
}

}  // namespace tril
