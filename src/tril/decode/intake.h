// Requests before they are decoded: they wait in fair order, are encoded many at a time, and then
// wait for slots. Internal to decode/.
#pragma once

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "tril/decode/encoded.h"
#include "tril/decode/sentence.h"

namespace tril {

using Sentences = std::deque<std::unique_ptr<Sentence>>;

// Moves those for which `leaves` is true to the end of `out`; returns the index of the first. All
// of them or, if memory runs out, none.
template <class F>
size_t take_out_of(Sentences& sentences, const F& leaves,
                   std::vector<std::unique_ptr<Sentence>>& out) {
  const size_t first = out.size();
  const auto leaving = std::count_if(sentences.begin(), sentences.end(),
                                     [&](const auto& sentence) { return leaves(*sentence); });
  if (leaving == 0) return first;
  out.reserve(first + static_cast<size_t>(leaving));
  for (auto& sentence : sentences) {
    if (leaves(*sentence)) out.push_back(std::move(sentence));
  }
  std::erase(sentences, nullptr);
  return first;
}

// Sentences of several clients. Each client's come in order; the next is always from the client who
// has had the least work done so far, counted in tokens read times width. A client does not save up
// turns while it has nothing waiting.
class FairQueue {
 public:
  void push(std::unique_ptr<Sentence> sentence);
  std::unique_ptr<Sentence> pop();  // null when there is none
  // Removes those for which `leaves` is true.
  template <class F>
  void take_out(const F& leaves, std::vector<std::unique_ptr<Sentence>>& out) {
    for (auto& [number, client] : clients_) {
      for (size_t i = take_out_of(client.sentences, leaves, out); i < out.size(); ++i) {
        count(*out[i], -1);
      }
    }
  }

  int64_t size() const { return size_; }
  int64_t slots() const { return slots_; }  // that they will need
  int64_t source_tokens() const { return tokens_; }

 private:
  struct Client {
    Sentences sentences{};
    int64_t served = 0;  // work done for it
  };
  void count(const Sentence& sentence, int64_t sign);

  // Clients that have something waiting, or were served more than the next one.
  std::map<uint64_t, Client> clients_;
  // The work count that the client served last had before: where a new client begins.
  int64_t served_ = 0;
  int64_t size_ = 0, slots_ = 0, tokens_ = 0;
};

class Intake {
 public:
  // The arguments must outlive this.
  Intake(const Transformer& model, EncodedSentences& encoded, Session& session)
      : model_(model), encoded_(encoded), session_(session) {}

  void add(std::unique_ptr<Sentence> sentence) { waiting_.push(std::move(sentence)); }
  // The next sentence, encoded, if it needs no more than `free` of `slots`. When none is encoded,
  // as many as could be decoded at once are encoded together: one call for many costs far less than
  // one for each.
  std::unique_ptr<Sentence> take(int64_t free, int64_t slots);
  // Whether another request would be encoded together with those waiting: `free` slots are more
  // than the sentences already encoded will take.
  bool encodes_more(int64_t width, int64_t free, int64_t slots) const;
  template <class F>
  void take_out(const F& leaves, std::vector<std::unique_ptr<Sentence>>& out) {
    waiting_.take_out(leaves, out);
    take_out_of(ready_, leaves, out);
  }
  // Removes any of them, encoded or not; null if there is none.
  std::unique_ptr<Sentence> remove_any();
  // Releases what was encoded for a sentence.
  void release(Sentence& sentence);
  int64_t size() const { return waiting_.size() + static_cast<int64_t>(ready_.size()); }

 private:
  int64_t most_tokens() const;
  void encode(int64_t slots);

  const Transformer& model_;
  EncodedSentences& encoded_;
  Session& session_;
  FairQueue waiting_;
  Sentences ready_;  // encoded, in the order they join
};

}  // namespace tril
