#include "tril/decode/intake.h"

#include <bit>
#include <limits>
#include <new>

#include "tril/models/session_state.h"

namespace tril {
namespace {

// Approximate number of tokens encoded in one call, which bounds the memory. A GPU is faster with
// more.
constexpr int64_t kEncodeTokens = 512;
constexpr int64_t kEncodeTokensOnDevice = 8192;

// Pads to the next power of two, or three quarters of it, but at least to 64.
int64_t padding_of(int64_t rows) {
  const auto above = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(rows)));
  const int64_t between = above / 4 * 3;
  return std::max<int64_t>(64, rows <= between ? between : above) - rows;
}

}  // namespace

// ---- FairQueue ----------------------------------------------------------------------------------

double FairQueue::work_to_read(const Sentence& sentence) {
  return static_cast<double>(sentence.tokens_to_read() * sentence.width());
}

void FairQueue::count(const Sentence& sentence, int64_t sign) {
  Sums& sums = sentence.encoded ? encoded_ : not_encoded_;
  sums.size += sign;
  sums.slots += sign * sentence.width();
  sums.source_tokens += sign * static_cast<int64_t>(sentence.request.source.size());
}

FairQueue::Client& FairQueue::client_of(uint64_t id) {
  const auto [at, is_new] = clients_.try_emplace(id);
  Client& client = at->second;
  if (!is_new) return client;
  client.turn.client = id;
  try {
    turns_.insert(client.turn);
  } catch (const std::bad_alloc&) {
    clients_.erase(at);
    throw;
  }
  return client;
}

// Moves the client's turn to where it belongs, after more work was done for it.
void FairQueue::update(Client& client, double work) {
  auto node = turns_.extract(client.turn);
  if (client.turn.standing != Standing::gone) --present_;
  client.turn.work += work;
  client.turn.standing = !client.waiting.empty() ? Standing::waits
                         : client.decoded > 0    ? Standing::decoded
                                                 : Standing::gone;
  if (client.turn.standing != Standing::gone) ++present_;
  node.value() = client.turn;
  turns_.insert(std::move(node));
}

// The clients who are there share the virtual time that passes.
void FairQueue::charge(Client& client, double work) {
  time_ += work / static_cast<double>(present_);
  update(client, work);
  forget_clients();
}

void FairQueue::forget_clients() {
  if (present_ == 0) return forget_all();
  const Turn first_gone{Standing::gone, -std::numeric_limits<double>::infinity(), 0};
  for (auto turn = turns_.lower_bound(first_gone); turn != turns_.end() && turn->work <= time_;) {
    clients_.erase(turn->client);
    turn = turns_.erase(turn);
  }
}

void FairQueue::forget_all() {
  clients_.clear();
  turns_.clear();
  present_ = 0;
  time_ = 0.0;
}

Sentence& FairQueue::push(std::unique_ptr<Sentence> sentence) {
  Client& client = client_of(sentence->terms.client);
  client.waiting.push_back(std::move(sentence));
  Sentence& added = *client.waiting.back();
  count(added, 1);
  if (client.waiting.size() == 1) update(client, std::max(0.0, time_ - client.turn.work));
  return added;
}

Sentence* FairQueue::front() const {
  if (size() == 0) return nullptr;
  return clients_.at(turns_.begin()->client).waiting.front().get();
}

std::unique_ptr<Sentence> FairQueue::pop() {
  if (size() == 0) return nullptr;
  Client& client = clients_.at(turns_.begin()->client);
  std::unique_ptr<Sentence> sentence = std::move(client.waiting.front());
  client.waiting.pop_front();
  count(*sentence, -1);
  sentence->popped = true;
  ++client.decoded;
  time_ = std::max(time_, client.turn.work);  // nobody who waits has had less
  charge(client, work_to_read(*sentence));
  return sentence;
}

void FairQueue::settle(const Sentence& sentence) {
  Client& client = clients_.at(sentence.terms.client);
  --client.decoded;
  charge(client, static_cast<double>(sentence.tokens_generated() * sentence.width()));
}

std::unique_ptr<Sentence> FairQueue::remove_any() {
  for (auto& [id, client] : clients_) {
    if (client.waiting.empty()) continue;
    std::unique_ptr<Sentence> sentence = std::move(client.waiting.front());
    client.waiting.pop_front();
    count(*sentence, -1);
    return sentence;
  }
  forget_all();
  return nullptr;
}

void FairQueue::mark_encoded(Sentence& sentence) {
  count(sentence, -1);
  sentence.encoded = true;
  count(sentence, 1);
}

// ---- Intake -------------------------------------------------------------------------------------

int64_t Intake::most_tokens() const {
  return session_.device() == Device::cpu ? kEncodeTokens : kEncodeTokensOnDevice;
}

bool Intake::encodes_more(int64_t width, int64_t free, int64_t slots) const {
  return free - waiting_.encoded().slots >= width &&
         waiting_.not_encoded().slots + width <= slots &&
         waiting_.not_encoded().source_tokens < most_tokens();
}

const Sentence* Intake::next(int64_t free, int64_t slots) {
  const Sentence* next = waiting_.front();
  if (next == nullptr || free <= 0) return nullptr;
  if (!next->encoded) encode(slots);
  return next->width() <= free ? next : nullptr;
}

void Intake::release(Sentence& sentence) {
  if (sentence.segment >= 0) encoded_.release(sentence.segment);
  sentence.segment = -1;
}

void Intake::left(Sentence& sentence) {
  release(sentence);
  if (sentence.popped) waiting_.settle(sentence);
}

// Encodes those whose turn comes next, so that as many are encoded as there are slots.
void Intake::encode(int64_t slots) {
  Rows source;
  std::vector<Sentence*> batch;
  int64_t needed = waiting_.encoded().slots;
  waiting_.each_in_turn([&](Sentence& sentence) {
    if (sentence.encoded) return true;
    if (!batch.empty() && (needed >= slots || source.size() >= most_tokens())) return false;
    source.add_sequence(sentence.request.source, {.slot = static_cast<int32_t>(batch.size())});
    needed += sentence.width();
    batch.push_back(&sentence);
    return true;
  });
  std::vector<int32_t> segments(batch.size(), -1);
  if (!model_.config().decoder_only()) {
    // Few different sizes, so that steps repeat and are kept as CUDA graphs.
    if (session_.device() != Device::cpu) source.add_filler(padding_of(source.size()));
    segments.clear();
    session_->step([&] {
      session_.reset();
      for (const int32_t segment : segments) encoded_.release(segment);  // those of a walk
      segments = encoded_.add(model_, source, session_);
    });
  }
  for (size_t i = 0; i < batch.size(); ++i) {
    batch[i]->segment = segments[i];
    waiting_.mark_encoded(*batch[i]);
  }
}

}  // namespace tril
