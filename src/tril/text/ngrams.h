// Counts the n-grams that sequences of symbols share; BLEU and chrF are based on it.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

namespace tril {

using Symbols = std::vector<uint32_t>;

// Calls visit(order, counts) once for each distinct n-gram of 1 to `max_order` symbols in any of
// the sequences; counts[i] is its number of occurrences in sequence i. Orders ascend; within an
// order the calls come in any order. Two n-grams are the same when all their symbols are: no hash
// is involved. Raises `invalid_argument` past 2^31 - 1 symbols in total.
using NgramVisitor = std::function<void(int order, std::span<const int64_t> counts)>;
void count_ngrams(std::span<const Symbols> sequences, int max_order, const NgramVisitor& visit);

// Sequences of words as sequences of symbols: equal words get equal symbols.
std::vector<Symbols> number_words(std::span<const std::vector<std::string_view>> sequences);

}  // namespace tril
