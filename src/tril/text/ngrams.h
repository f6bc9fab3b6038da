// Counting what n-grams sequences of symbols share; what BLEU and chrF stand on.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

namespace tril {

using Symbols = std::vector<uint32_t>;

// Calls visit(order, counts) once for each different n-gram of 1 to `max_order` symbols that any
// of the sequences holds; counts[i] says how often sequence i holds it. Orders ascend; within an
// order nothing is said about the order of calls. Two n-grams are the same when all their symbols
// are: nothing rests on a hash. Raises `invalid_argument` past 2^31 - 1 symbols together.
using NgramVisitor = std::function<void(int order, std::span<const int64_t> counts)>;
void count_ngrams(std::span<const Symbols> sequences, int max_order, const NgramVisitor& visit);

// The sequences of words as sequences of symbols, equal where the words are.
std::vector<Symbols> number_words(std::span<const std::vector<std::string_view>> sequences);

}  // namespace tril
