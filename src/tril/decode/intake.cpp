#include "tril/decode/intake.h"

#include <algorithm>
#include <bit>

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

int64_t work_of(const Sentence& sentence) { return sentence.tokens_to_read() * sentence.width(); }

}  // namespace

void FairQueue::count(const Sentence& sentence, int64_t sign) {
  size_ += sign;
  slots_ += sign * sentence.width();
  tokens_ += sign * static_cast<int64_t>(sentence.request.source.size());
}

void FairQueue::push(std::unique_ptr<Sentence> sentence) {
  count(*sentence, 1);
  Client& client = clients_[sentence->terms.client];
  if (client.sentences.empty()) client.served = std::max(client.served, served_);
  client.sentences.push_back(std::move(sentence));
}

std::unique_ptr<Sentence> FairQueue::pop() {
  if (size_ == 0) return nullptr;
  std::erase_if(clients_, [&](const auto& client) {
    return client.second.sentences.empty() && client.second.served <= served_;
  });
  auto client = clients_.end();
  for (auto each = clients_.begin(); each != clients_.end(); ++each) {
    if (each->second.sentences.empty()) continue;
    if (client == clients_.end() || each->second.served < client->second.served) client = each;
  }
  std::unique_ptr<Sentence> sentence = std::move(client->second.sentences.front());
  client->second.sentences.pop_front();
  count(*sentence, -1);
  served_ = client->second.served;
  client->second.served += work_of(*sentence);
  return sentence;
}

int64_t Intake::most_tokens() const {
  return session_.device() == Device::cpu ? kEncodeTokens : kEncodeTokensOnDevice;
}

bool Intake::encodes_more(int64_t width, int64_t free, int64_t slots) const {
  for (const auto& sentence : ready_) free -= sentence->width();
  return free >= width && waiting_.slots() + width <= slots &&
         waiting_.source_tokens() < most_tokens();
}

std::unique_ptr<Sentence> Intake::take(int64_t free, int64_t slots) {
  if (ready_.empty() && free > 0) encode(slots);
  if (ready_.empty() || ready_.front()->width() > free) return nullptr;
  std::unique_ptr<Sentence> sentence = std::move(ready_.front());
  ready_.pop_front();
  return sentence;
}

std::unique_ptr<Sentence> Intake::remove_any() {
  if (ready_.empty()) return waiting_.pop();
  std::unique_ptr<Sentence> sentence = std::move(ready_.front());
  ready_.pop_front();
  return sentence;
}

void Intake::release(Sentence& sentence) {
  if (sentence.segment >= 0) encoded_.release(sentence.segment);
  sentence.segment = -1;
}

void Intake::encode(int64_t slots) {
  Rows source;
  int64_t needed = 0;
  while (needed < slots && source.size() < most_tokens()) {
    std::unique_ptr<Sentence> sentence = waiting_.pop();
    if (sentence == nullptr) break;
    source.add_sequence(sentence->request.source, {.slot = static_cast<int32_t>(ready_.size())});
    needed += sentence->width();
    ready_.push_back(std::move(sentence));
  }
  if (ready_.empty() || model_.config().decoder_only()) return;
  // Few different sizes, so that steps repeat and are kept as CUDA graphs.
  if (session_.device() != Device::cpu) source.add_filler(padding_of(source.size()));
  std::vector<int32_t> segments;
  session_.step([&] {
    session_.reset();
    for (const int32_t segment : segments) encoded_.release(segment);  // those of a walk
    segments = encoded_.add(model_, source, session_);
  });
  for (size_t i = 0; i < ready_.size(); ++i) ready_[i]->segment = segments[i];
}

}  // namespace tril
