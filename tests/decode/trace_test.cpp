// The trace of a search tells how its results were found: walked again, it gives them back.
#include <algorithm>

#include "slow_search.h"
#include "support/models.h"
#include "tril/decode/search.h"

namespace tril::trace_test {
namespace {

using testing::random_config;
using testing::random_model;
using testing::random_requests;
using testing::Tokens;
using Fate = SearchStep::Fate;

struct Path {
  Tokens tokens;
  double score = 0.0;
};

// What a trace reports about one request.
struct Told {
  std::vector<Path> alive{Path{}};
  std::vector<Path> finished;
};

RC_GTEST_PROP(SearchTrace, LeadsToTheResults, ()) {
  if (testing::passed_over_on_cuda(5)) return;
  const TransformerConfig config = random_config();
  const Transformer model = random_model(config, *rc::gen::arbitrary<uint64_t>());
  SearchOptions options;
  options.start = 0;
  options.end = 1;
  options.forbidden = {0};
  options.max_tokens = *rc::gen::inRange<int64_t>(1, 9);
  options.max_ratio = 0.0;
  options.sample = *rc::gen::arbitrary<bool>();
  options.beam = options.sample ? 1 : *rc::gen::inRange<int64_t>(1, 6);
  options.n_best = options.sample ? *rc::gen::inRange<int64_t>(1, 4) : options.beam;
  const auto requests = random_requests(config, 3, 6, 2, options.end);
  std::vector<Told> told(requests.size());
  for (size_t i = 0; i < requests.size(); ++i) told[i].alive[0].tokens = requests[i].prefix;

  std::vector<SearchResult> results(requests.size());
  size_t next = 0;
  Session session(model, 1);
  search(
      model, options, 8,
      [&]() -> std::optional<SearchRequest> {
        if (next == requests.size()) return std::nullopt;
        return requests[next++];
      },
      [&](SearchResult&& result) {
        const auto number = static_cast<size_t>(result.number);
        results[number] = std::move(result);
        return true;
      },
      session,
      [&](const SearchStep& step) {
        Told& one = told[static_cast<size_t>(step.number)];
        std::vector<Path> kept;
        int64_t dropped = 0;
        for (const SearchStep::Candidate& c : step.candidates) {
          Path path = one.alive.at(c.parent);
          RC_ASSERT(static_cast<int64_t>(path.tokens.size()) == step.length);
          path.tokens.push_back(c.token);
          path.score = c.score;
          dropped += c.fate == Fate::dropped ? 1 : 0;
          if (c.fate == Fate::kept) kept.push_back(path);
          if (c.fate == Fate::finished) one.finished.push_back(path);
          RC_ASSERT(c.fate != Fate::finished || c.token == options.end);
          RC_ASSERT(c.fate != Fate::kept || c.token != options.end);
        }
        RC_ASSERT(options.sample || static_cast<int64_t>(kept.size()) <= options.beam);
        RC_ASSERT(!options.sample || dropped == 0);
        RC_ASSERT(options.sample ||
                  std::is_sorted(step.candidates.begin(), step.candidates.end(),
                                 [](const auto& a, const auto& b) { return a.score > b.score; }));
        one.alive = std::move(kept);
      });

  for (size_t i = 0; i < requests.size(); ++i) {
    for (const Hypothesis& h : results[i].hypotheses) {
      const auto& among = h.ended ? told[i].finished : told[i].alive;
      RC_ASSERT(std::any_of(among.begin(), among.end(), [&](const Path& path) {
        return path.tokens == h.tokens && path.score == h.score;
      }));
    }
  }
}

}  // namespace
}  // namespace tril::trace_test
