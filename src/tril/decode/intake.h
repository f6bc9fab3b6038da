// Requests before they are decoded: they wait in fair order and are encoded many at a time.
// Internal to decode/.
#pragma once

#include <algorithm>
#include <compare>
#include <deque>
#include <map>
#include <memory>
#include <queue>
#include <set>
#include <vector>

#include "tril/decode/encoded.h"
#include "tril/decode/sentence.h"

namespace tril {

// Sentences of several clients. Each client's come in order; the next is always from the client who
// has had the least work done: tokens read, counted when a sentence is popped, and tokens
// generated, counted when it leaves the engine, both times its width.
//
// A client does not save up turns while it requests nothing. The queue keeps a virtual time: the
// work that a client would have had done who was there all along, if all clients who were there had
// been treated alike. A client who comes, or comes back, begins there at least. Every sentence
// moves the time forward, so a stream of new clients cannot keep another one waiting; and whoever
// is gone and was not served beyond the virtual time can be forgotten.
class FairQueue {
 public:
  // If memory runs out, nothing was added.
  Sentence& push(std::unique_ptr<Sentence> sentence);
  Sentence* front() const;  // the next; null if there is none
  std::unique_ptr<Sentence> pop();
  // To be called when a sentence leaves the engine that was popped.
  void settle(const Sentence& sentence);

  // f(sentence) in the order in which they would be popped if nothing were generated, while it
  // returns true.
  template <class F>
  void each_in_turn(const F& f) const;
  // f(sentence) for all, in any order.
  template <class F>
  void each(const F& f) const {
    for (const auto& [id, client] : clients_) {
      for (const auto& sentence : client.waiting) f(*sentence);
    }
  }
  // Removes those for which `leaves` is true, and passes them to `take`, which may not throw.
  // Allocates nothing.
  template <class Leaves, class Take>
  void take_out(const Leaves& leaves, const Take& take);
  // Removes any, whoever's turn it is, and forgets everything when there is none left: then this
  // returns null. Allocates nothing.
  std::unique_ptr<Sentence> remove_any();

  void mark_encoded(Sentence& sentence);

  // Sums over sentences that wait.
  struct Sums {
    int64_t size = 0;
    int64_t slots = 0;          // that they will need
    int64_t source_tokens = 0;  // that they have
  };
  const Sums& encoded() const { return encoded_; }
  const Sums& not_encoded() const { return not_encoded_; }
  int64_t size() const { return encoded_.size + not_encoded_.size; }
  int64_t clients() const { return static_cast<int64_t>(clients_.size()); }  // remembered

 private:
  enum class Standing {
    waits,    // with at least one sentence
    decoded,  // all its sentences are being decoded
    gone,     // it has none, but was served beyond the virtual time
  };
  // A client's place in the order. There is always one for each, so that moving it allocates
  // nothing.
  struct Turn {
    Standing standing = Standing::gone;
    double work = 0.0;  // done for the client
    uint64_t client = 0;
    auto operator<=>(const Turn&) const = default;
  };
  struct Client {
    std::deque<std::unique_ptr<Sentence>> waiting{};
    int64_t decoded = 0;  // popped, and not settled yet
    Turn turn{};
  };

  static double work_to_read(const Sentence& sentence);
  Client& client_of(uint64_t id);
  void count(const Sentence& sentence, int64_t sign);
  void update(Client& client, double work);
  void charge(Client& client, double work);
  void forget_clients();
  void forget_all();

  std::map<uint64_t, Client> clients_;
  std::set<Turn> turns_;
  int64_t present_ = 0;  // clients who wait or are decoded
  double time_ = 0.0;    // virtual
  Sums encoded_, not_encoded_;
};

class Intake {
 public:
  // The arguments must outlive this.
  Intake(const Transformer& model, EncodedSentences& encoded, Session& session)
      : model_(model), encoded_(encoded), session_(session) {}

  Sentence& add(std::unique_ptr<Sentence> sentence) { return waiting_.push(std::move(sentence)); }
  // The next sentence, encoded, if it needs no more than `free` of `slots`; null if not. If it is
  // not encoded yet, as many as could be decoded at once are encoded together: one call for many
  // costs far less than one for each.
  const Sentence* next(int64_t free, int64_t slots);
  // Takes it. When it leaves the engine, left() is to be called.
  std::unique_ptr<Sentence> pop() { return waiting_.pop(); }
  // Whether another request would be encoded together with those waiting: `free` slots are more
  // than the sentences already encoded will take.
  bool encodes_more(int64_t width, int64_t free, int64_t slots) const;

  template <class F>
  void each(const F& f) const {
    waiting_.each(f);
  }
  template <class Leaves, class Take>
  void take_out(const Leaves& leaves, const Take& take) {
    waiting_.take_out(leaves, take);
  }
  std::unique_ptr<Sentence> remove_any() { return waiting_.remove_any(); }

  // Releases what was encoded for a sentence.
  void release(Sentence& sentence);
  // The same for a sentence that leaves the engine, wherever it was; counts the work done for it.
  void left(Sentence& sentence);
  int64_t size() const { return waiting_.size(); }

 private:
  int64_t most_tokens() const;
  void encode(int64_t slots);

  const Transformer& model_;
  EncodedSentences& encoded_;
  Session& session_;
  FairQueue waiting_;
};

// ---- templates ----------------------------------------------------------------------------------

template <class F>
void FairQueue::each_in_turn(const F& f) const {
  struct Visit {
    double work;
    uint64_t client;
    size_t index;  // of the client's sentence
    auto operator<=>(const Visit&) const = default;
  };
  // Clients visited before, by the work they would have had done; the others follow in turns_.
  std::priority_queue<Visit, std::vector<Visit>, std::greater<>> again;
  auto next = turns_.begin();
  for (;;) {
    const bool any_new = next != turns_.end() && next->standing == Standing::waits;
    if (!any_new && again.empty()) return;
    Visit visit{};
    if (any_new) visit = {next->work, next->client, 0};
    if (!any_new || (!again.empty() && again.top() < visit)) {
      visit = again.top();
      again.pop();
    } else {
      ++next;
    }
    const auto& waiting = clients_.at(visit.client).waiting;
    Sentence& sentence = *waiting[visit.index];
    if (!f(sentence)) return;
    visit.work += work_to_read(sentence);
    if (++visit.index < waiting.size()) again.push(visit);
  }
}

template <class Leaves, class Take>
void FairQueue::take_out(const Leaves& leaves, const Take& take) {
  for (auto& [id, client] : clients_) {
    bool any = false;
    for (auto& sentence : client.waiting) {
      if (!leaves(*sentence)) continue;
      count(*sentence, -1);
      take(std::move(sentence));
      any = true;
    }
    if (!any) continue;
    std::erase(client.waiting, nullptr);
    update(client, 0.0);
  }
  forget_clients();
}

}  // namespace tril
