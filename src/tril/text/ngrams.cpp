#include "tril/text/ngrams.h"

#include <algorithm>
#include <limits>
#include <unordered_map>

#include "tril/base/error.h"

namespace tril {
namespace {

// An n-gram that begins at `position` of all sequences laid end to end: the n-gram one shorter at
// the same position, by its number, and one more symbol.
struct Occurrence {
  uint64_t key = 0;
  uint32_t position = 0;
  uint32_t sequence = 0;
};

// Makes one visit per run of equal keys, and numbers the runs for the next order.
void visit_runs(const std::vector<Occurrence>& sorted, int order, std::vector<int64_t>& counts,
                std::vector<uint32_t>& numbers, const NgramVisitor& visit) {
  uint32_t number = 0;
  for (size_t begin = 0; begin < sorted.size(); ++number) {
    std::fill(counts.begin(), counts.end(), 0);
    size_t end = begin;
    for (; end < sorted.size() && sorted[end].key == sorted[begin].key; ++end) {
      ++counts[sorted[end].sequence];
      numbers[sorted[end].position] = number;
    }
    visit(order, counts);
    begin = end;
  }
}

}  // namespace

void count_ngrams(std::span<const Symbols> sequences, int max_order, const NgramVisitor& visit) {
  size_t symbols = 0;
  for (const Symbols& sequence : sequences) symbols += sequence.size();
  require(symbols <= std::numeric_limits<int32_t>::max(), ErrorCode::invalid_argument,
          "count_ngrams: expected at most 2147483647 symbols together, got ", symbols);

  std::vector<uint32_t> numbers(symbols);  // of the n-gram of the previous order, by position
  std::vector<int64_t> counts(sequences.size());
  std::vector<Occurrence> occurrences;
  occurrences.reserve(symbols);
  for (int order = 1; order <= max_order; ++order) {
    const auto length = static_cast<size_t>(order);
    occurrences.clear();
    uint32_t first = 0;  // position of the sequence's first symbol
    for (size_t s = 0; s < sequences.size(); ++s) {
      const Symbols& sequence = sequences[s];
      for (size_t i = 0; i + length <= sequence.size(); ++i) {
        const uint32_t position = first + static_cast<uint32_t>(i);
        const uint64_t key = static_cast<uint64_t>(numbers[position]) << 32 |
                             static_cast<uint64_t>(sequence[i + length - 1]);
        occurrences.push_back({key, position, static_cast<uint32_t>(s)});
      }
      first += static_cast<uint32_t>(sequence.size());
    }
    std::sort(occurrences.begin(), occurrences.end(),
              [](const Occurrence& a, const Occurrence& b) { return a.key < b.key; });
    visit_runs(occurrences, order, counts, numbers, visit);
  }
}

std::vector<Symbols> number_words(std::span<const std::vector<std::string_view>> sequences) {
  std::unordered_map<std::string_view, uint32_t> numbers;
  std::vector<Symbols> result;
  result.reserve(sequences.size());
  for (const std::vector<std::string_view>& words : sequences) {
    Symbols& symbols = result.emplace_back();
    symbols.reserve(words.size());
    for (const std::string_view word : words) {
      const auto next = static_cast<uint32_t>(numbers.size());
      symbols.push_back(numbers.try_emplace(word, next).first->second);
    }
  }
  return result;
}

}  // namespace tril
