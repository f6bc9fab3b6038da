#include "tril/data/sides.h"

#include <algorithm>

#include "tril/base/math.h"

namespace tril {
namespace {

// More pairs would not change the verdict.
constexpr int64_t kEnough = 20'000;

}  // namespace

template <class F>
void Sides::each_piece(const Corpus& corpus, Side side, const Tokenizer& tokenizer, const F& f) {
  const int64_t pairs = std::min(corpus.size(), kEnough);
  for (int64_t pair = 0; pair < pairs; ++pair) {
    const auto text = side == Side::source ? corpus.source(pair) : corpus.target(pair);
    for (const int32_t piece : tokenizer.encode(text)) f(static_cast<size_t>(piece));
  }
}

Sides::Sides(const Corpus& corpus, const Tokenizer& tokenizer) {
  for (const Side side : {Side::source, Side::target}) {
    const auto which = static_cast<size_t>(side);
    counts_[which].assign(static_cast<size_t>(tokenizer.vocab(TextSide::source)), 1);
    each_piece(corpus, side, tokenizer, [&](size_t piece) { ++counts_[which][piece]; });
    for (const int64_t count : counts_[which]) totals_[which] += count;
  }
}

double Sides::lean(const Corpus& other, Side side, const Tokenizer& tokenizer) const {
  const double base = math::log(static_cast<double>(totals_[1]) / static_cast<double>(totals_[0]));
  double sum = 0.0;
  int64_t pieces = 0;
  each_piece(other, side, tokenizer, [&](size_t piece) {
    sum += base + math::log(static_cast<double>(counts_[0][piece]) /
                            static_cast<double>(counts_[1][piece]));
    ++pieces;
  });
  return pieces == 0 ? 0.0 : sum / static_cast<double>(pieces);
}

Sides::Verdict Sides::judge(const Corpus& other, const Tokenizer& tokenizer) const {
  constexpr double kClear = 1.0;  // nats
  const bool source_odd = lean(other, Side::source, tokenizer) < -kClear;
  const bool target_odd = lean(other, Side::target, tokenizer) > kClear;
  if (source_odd && target_odd) return Verdict::swapped;
  return source_odd || target_odd ? Verdict::one_odd : Verdict::fine;
}

}  // namespace tril
