// A tiny corpus in which "bank" means two things: the edge of water is किनारा, the house of money
// is बैंक. Only the surrounding words tell which: before it (the river bank is near), some words
// away (the boat is at the bank), or only after it (at the bank there is a boat).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tril {

enum class BankSense { water, money };

struct BankSentence {
  std::string english, hindi;
  BankSense sense = BankSense::water;
};

struct BankSentences {
  std::vector<BankSentence> train;
  // Combinations that are not in train, though their words and their pattern are.
  std::vector<BankSentence> held_out;
  // "the river bank is near" and the like: one for each kind of bank, all of them held out.
  std::vector<BankSentence> near;
};

BankSentences make_bank_sentences();  // the same every time

}  // namespace tril
