#include "tril/decode/ahead_backend.h"

#include <algorithm>
#include <bit>
#include <deque>
#include <map>
#include <utility>

#include "tril/decode/device_rows.h"
#include "tril/decode/log_probs.h"
#include "tril/models/session_state.h"
#include "tril/ops/draw.h"

namespace tril {
namespace {

constexpr size_t kAhead = 1;        // steps in flight while another is enqueued
constexpr int64_t kMostBeam = 256;  // for wider ones the GPU's threads would wait for each other

int64_t power_of_two_from(int64_t count) {
  return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(count)));
}

class AheadBackend final : public Backend {
 public:
  AheadBackend(const Transformer& model, KeptForEngine& kept, Session& session)
      : model_(model), config_(model.config()), kept_(kept), session_(session) {}
  ~AheadBackend() override {
    while (remove_any() != nullptr) {
    }
  }

  void join(std::unique_ptr<Sentence>&& sentence) override;
  void step(std::vector<Leaver>& leavers) override;
  Sentence* find(RequestId id) const override {
    const auto at = seats_.find(id);
    return at == seats_.end() ? nullptr : at->second.sentence.get();
  }
  std::unique_ptr<Sentence> remove(RequestId id) override;
  std::unique_ptr<Sentence> remove_any() override;
  int64_t slots_taken() const override {
    int64_t taken = 0;
    for (const auto& [id, seat] : seats_) taken += seat.sentence->width();
    return taken;
  }
  int64_t size() const override { return static_cast<int64_t>(seats_.size()); }
  void each(const std::function<void(Sentence&)>& f) const override {
    for (const auto& [id, seat] : seats_) f(*seat.sentence);
  }

 private:
  // Where a sentence is decoded: the same rows in every step.
  struct Seat {
    std::unique_ptr<Sentence> sentence;
    int64_t first_row = 0;
    int64_t enqueued = 0;     // number of steps
    int64_t prefix_from = 0;  // index in Step::prefixes of its first step
  };
  // A step whose result the host has not processed yet.
  struct Step {
    int64_t fetch = 0;
    int64_t rows = 0;
    int64_t count = 0;                  // choices per row
    std::vector<RequestId> requests;    // taking part
    std::optional<int64_t> prefixes{};  // fetch number of the prefixes' log-probabilities
    int64_t prefix_tokens = 0;
  };

  int64_t count_of(const Sentence& sentence) const {
    const SearchOptions& search = sentence.search();
    return search.sample ? 1 : std::min((1 + search.ends()) * search.beam, config_.target_vocab);
  }

  void begin_joined();
  Tensor read_prefixes();
  template <class F>
  void set_table(std::span<const int32_t> rows, const Tensor& table, const F& entries_of);
  bool enqueue();
  void lay_out(Step& step);
  void add_draws(const Seat& seat, int64_t position);
  void run(const Step& step, void* deliver_to);
  void forget_rows();
  void look(std::vector<Leaver>& leavers);
  void follow(const Step& step, Seat& seat);
  void read_row(const Step& step, int64_t row, int64_t count, std::vector<Choice>& choices) const;
  void drop_from_steps(RequestId id);
  void forget(const Step& step);

  const Transformer& model_;
  const TransformerConfig& config_;
  KeptForEngine& kept_;
  Session& session_;

  std::map<RequestId, Seat> seats_;
  RowMap row_map_;
  std::vector<RequestId> joined_;  // since the last step
  std::deque<Step> pending_;
  // For the sentences that join the next step.
  std::optional<int64_t> prefix_fetch_;
  int64_t prefix_tokens_ = 0;

  // For the step being enqueued; kept so that a warm step allocates little.
  Rows rows_;
  ops::AllowedByRow allowed_;
  std::vector<const Seat*> by_row_;
  std::vector<const TokenSet*> sets_;
  std::vector<ops::BeamGroup> groups_;
  std::vector<ops::TokenDraw> draws_;
  std::vector<int32_t> none_wanted_;
  // For the step being processed.
  std::vector<float> found_, prefixes_;
  std::vector<std::vector<Choice>> choices_;
};

// Everything that can fail comes before the sentence is moved.
void AheadBackend::join(std::unique_ptr<Sentence>&& sentence) {
  const RequestId id = sentence->id;
  sentence->slots.reserve(1);
  sentence->slots.push_back(session_->cache.open());
  joined_.reserve(joined_.size() + 1);
  std::map<RequestId, Seat> made;
  Seat& seat = made[id];
  seat.first_row = row_map_.take(sentence->width());
  seat.sentence = std::move(sentence);
  seats_.merge(made);
  joined_.push_back(id);
}

// ---- sentences that begin -----------------------------------------------------------------------
void AheadBackend::begin_joined() {
  if (joined_.empty()) return;
  const int64_t needed = row_map_.end();
  if (kept_.rows == nullptr) {
    kept_.rows =
        std::make_shared<DeviceRows>(power_of_two_from(needed), config_, session_.device());
  } else if (kept_.rows->rows < needed) {
    kept_.rows = std::make_shared<DeviceRows>(power_of_two_from(needed), config_, *kept_.rows);
  }
  session_.reset();
  const Tensor prefix_log_probs = read_prefixes();
  std::vector<ops::BeginningRow> beginning;
  std::vector<int32_t> rows;
  std::vector<const Sentence*> of_row;
  for (const RequestId id : joined_) {
    const Seat& seat = seats_.at(id);
    Sentence& sentence = *seat.sentence;
    const std::vector<int32_t>& prefix = sentence.request.prefix;
    const std::span<const int32_t> wanted = predicted(sentence);
    const bool samples = sentence.search().sample;
    for (int64_t i = 0; i < sentence.width(); ++i) {
      if (i > 0) sentence.slots.push_back(session_->cache.fork(sentence.slots[0]));
      rows.push_back(static_cast<int32_t>(seat.first_row + i));
      of_row.push_back(&sentence);
      // Beam search begins with one hypothesis; each sample is one by itself.
      const bool alive = i == 0 || samples;
      beginning.push_back({.row = rows.back(),
                           .token = prefix.empty() ? *sentence.search().start : prefix.back(),
                           .first = static_cast<int32_t>(seat.prefix_from),
                           .length = alive ? static_cast<int32_t>(wanted.size()) : -1});
    }
  }
  ops::begin_beams(session_, beginning, prefix_log_probs, kept_.rows->beams);
  set_table(rows, kept_.rows->beams.table,
            [&](size_t i) { return session_->cache.entries(of_row[i]->slots[0]); });
  if (!config_.decoder_only()) {
    set_table(rows, kept_.rows->on_device.cross,
              [&](size_t i) { return kept_.encoded.memory().entries(of_row[i]->segment); });
  }
  joined_.clear();
}

// Reads forced prefixes, except their last tokens, in one call; their log-probabilities are fetched
// without waiting. Returns those of all prefix tokens.
Tensor AheadBackend::read_prefixes() {
  Rows rows;
  std::vector<int32_t> wanted;
  for (const RequestId id : joined_) {
    Seat& seat = seats_.at(id);
    const Sentence& sentence = *seat.sentence;
    const std::vector<int32_t>& prefix = sentence.request.prefix;
    const std::span<const int32_t> of_sentence = predicted(sentence);
    seat.prefix_from = static_cast<int64_t>(wanted.size());
    if (of_sentence.empty()) continue;
    const Place where{.slot = sentence.slots[0], .segment = sentence.segment};
    const std::optional<int32_t> start = sentence.search().start;
    if (start) rows.add(*start, where);
    rows.add_sequence(std::span(prefix).first(prefix.size() - 1),
                      {.slot = where.slot, .segment = where.segment, .first = start ? 1 : 0});
    wanted.insert(wanted.end(), of_sentence.begin(), of_sentence.end());
  }
  if (wanted.empty()) return {};
  prefix_tokens_ = static_cast<int64_t>(wanted.size());
  const Tensor log_probs(session_->arena, {prefix_tokens_});
  const Tensor hidden = model_.forward(rows, kept_.encoded.memory(), session_);
  const CheckedOptions& options = *seats_.at(joined_[0]).sentence->options;
  const ops::AllowedByRow any{{&options.at(Stage::goes_on).bits}, {}};
  for (int64_t begin = 0; begin < hidden.rows(); begin += kRowsAtOnce) {
    const int64_t count = std::min(kRowsAtOnce, hidden.rows() - begin);
    const Arena::Scope scratch(session_->arena);
    const Tensor logits = model_.logits_to_choose(hidden.slice(begin, begin + count), session_);
    const auto some = std::span<const int32_t>(wanted).subspan(static_cast<size_t>(begin),
                                                               static_cast<size_t>(count));
    const auto chosen = ops::choose_tokens(session_, logits, any, 1, Mirrored<int32_t>(some));
    session_->copy({.from = chosen.wanted.raw(),
                    .to = log_probs.slice(begin, begin + count).raw(),
                    .bytes = count * size_of(DType::f32)});
  }
  prefix_fetch_ = session_->queue.fetch(log_probs.raw(), prefix_tokens_ * size_of(DType::f32));
  return log_probs;
}

// entries_of(i): the cache entries of rows[i].
template <class F>
void AheadBackend::set_table(std::span<const int32_t> rows, const Tensor& table,
                             const F& entries_of) {
  size_t columns = 0;
  for (size_t i = 0; i < rows.size(); ++i) columns = std::max(columns, entries_of(i).size());
  if (columns == 0) return;
  std::vector<int32_t> entries(rows.size() * columns, 0);
  for (size_t i = 0; i < rows.size(); ++i) {
    const std::span<const int32_t> from = entries_of(i);
    std::copy(from.begin(), from.end(), entries.begin() + static_cast<ptrdiff_t>(i * columns));
  }
  ops::set_table(session_, rows, entries, table);
}

// ---- steps --------------------------------------------------------------------------------------
void AheadBackend::step(std::vector<Leaver>& leavers) {
  leavers.reserve(leavers.size() + seats_.size());  // none is lost if memory runs out
  begin_joined();
  const bool more = enqueue();
  if (pending_.size() > (more ? kAhead : 0)) look(leavers);
}

// Enqueues a step of all sentences that may go on; false if none may.
bool AheadBackend::enqueue() {
  Step step;
  lay_out(step);
  if (step.requests.empty()) return false;
  step.prefixes = std::exchange(prefix_fetch_, std::nullopt);
  step.prefix_tokens = prefix_tokens_;
  const Queue::Delivery delivery =
      session_->queue.expect(2 * step.rows * step.count * size_of(DType::f32));
  step.fetch = delivery.number;
  pending_.push_back(step);
  run(step, delivery.to);
  session_->queue.deliver(delivery.number);
  return true;
}

// Chooses the rows and groups that take part. Steps with the same numbers of rows and groups share
// one CUDA graph; to keep these few, padding makes the number of rows a power of two times the
// widest group.
void AheadBackend::lay_out(Step& step) {
  rows_.clear();
  groups_.clear();
  draws_.clear();
  sets_.clear();
  allowed_.sets.clear();
  by_row_.clear();
  int64_t widest = 1, end = 0;
  for (auto& [id, seat] : seats_) {
    const Sentence& sentence = *seat.sentence;
    if (seat.enqueued == sentence.limit) continue;
    step.requests.push_back(id);
    step.count = std::max(step.count, count_of(sentence));
    widest = std::max(widest, sentence.search().sample ? 1 : sentence.width());
    end = std::max(end, seat.first_row + sentence.width());
    by_row_.push_back(&seat);
  }
  if (step.requests.empty()) return;
  std::sort(by_row_.begin(), by_row_.end(),
            [](const Seat* a, const Seat* b) { return a->first_row < b->first_row; });
  step.rows = widest * power_of_two_from((end + widest - 1) / widest);
  if (kept_.rows->rows < step.rows) {
    kept_.rows = std::make_shared<DeviceRows>(power_of_two_from(step.rows), config_, *kept_.rows);
  }
  std::vector<int32_t>& set_of_row = allowed_.set_of_row;
  set_of_row.assign(static_cast<size_t>(step.rows), 0);
  for (const Seat* seat : by_row_) {
    const Sentence& sentence = *seat->sentence;
    rows_.add_filler(seat->first_row - rows_.size());
    const TokenSet* tokens = &sentence.options->at(sentence.stage(seat->enqueued));
    const auto set =
        static_cast<size_t>(std::find(sets_.begin(), sets_.end(), tokens) - sets_.begin());
    if (set == sets_.size()) sets_.push_back(tokens);
    std::fill_n(set_of_row.begin() + seat->first_row, sentence.width(), static_cast<int32_t>(set));
    const int64_t position = static_cast<int64_t>(sentence.request.prefix.size()) + seat->enqueued;
    const auto read_at = static_cast<int32_t>(sentence.position(position));
    for (const int32_t slot : sentence.slots) {
      rows_.add(0, {.slot = slot, .segment = sentence.segment, .first = read_at});
    }
    if (sentence.search().sample) {
      add_draws(*seat, position);
    } else {
      groups_.push_back({.first_row = static_cast<int32_t>(seat->first_row),
                         .width = static_cast<int32_t>(sentence.width()),
                         .end = sentence.search().end});
    }
  }
  rows_.add_filler(step.rows - rows_.size());
  for (const TokenSet* tokens : sets_) allowed_.sets.push_back(&tokens->bits);
  if (sets_.size() == 1) set_of_row.clear();
  groups_.resize(static_cast<size_t>(power_of_two_from(static_cast<int64_t>(groups_.size()))));
  if (!draws_.empty()) {
    draws_.resize(static_cast<size_t>(power_of_two_from(static_cast<int64_t>(draws_.size()))));
  }
  none_wanted_.assign(static_cast<size_t>(step.rows), -1);
  for (const RequestId id : step.requests) ++seats_.at(id).enqueued;
}

// Each sample is a group of one row with one choice, the token drawn.
void AheadBackend::add_draws(const Seat& seat, int64_t position) {
  const Sentence& sentence = *seat.sentence;
  const SearchOptions& search = sentence.search();
  for (int64_t i = 0; i < sentence.width(); ++i) {
    const auto row = static_cast<int32_t>(seat.first_row + i);
    draws_.push_back({.row = row,
                      .top_k = static_cast<int32_t>(std::min(search.top_k, config_.target_vocab)),
                      .temperature = search.temperature,
                      .top_p = search.top_p,
                      .seed = search.seed,
                      .stream = static_cast<uint64_t>(sentence.request.stream),
                      .sample = static_cast<uint32_t>(i),
                      .position = static_cast<uint32_t>(position)});
    groups_.push_back({.first_row = row, .width = 1, .end = search.end});
  }
}

void AheadBackend::run(const Step& step, void* deliver_to) {
  session_->step([&] {
    session_.reset();
    forget_rows();
    const Tensor hidden =
        model_.forward(rows_, kept_.encoded.memory(), session_, &kept_.rows->on_device);
    const Tensor logits = model_.logits_to_choose(hidden, session_);
    const ops::ChosenTokens chosen = ops::choose_tokens(session_, logits, allowed_, step.count,
                                                        session_->mirror<int32_t>(none_wanted_));
    if (!draws_.empty()) ops::draw_tokens(session_, logits, allowed_, draws_, chosen);
    ops::advance_beams(session_, chosen, session_->mirror<int32_t>(rows_.positions), groups_,
                       kept_.rows->beams, deliver_to);
  });
}

// Restores the slots to their state before this step, because the body of a step may run twice.
void AheadBackend::forget_rows() {
  for (int64_t row = rows_.size() - 1; row >= 0; --row) {
    const auto r = static_cast<size_t>(row);
    const int32_t slot = rows_.slots[r];
    if (slot >= 0 && session_->cache.length(slot) > rows_.positions[r]) {
      session_->cache.truncate(slot, rows_.positions[r]);
    }
  }
}

// ---- results of a step --------------------------------------------------------------------------
// Advances the search with the candidates of the oldest step.
void AheadBackend::look(std::vector<Leaver>& leavers) {
  const Step step = std::move(pending_.front());
  pending_.pop_front();
  if (step.prefixes) {
    prefixes_.resize(static_cast<size_t>(step.prefix_tokens));
    session_->queue.fetched(*step.prefixes, prefixes_.data(),
                            step.prefix_tokens * size_of(DType::f32));
  }
  const int64_t numbers = 2 * step.rows * step.count;
  found_.resize(static_cast<size_t>(numbers));
  session_->queue.fetched(step.fetch, found_.data(), numbers * size_of(DType::f32));
  for (const RequestId id : step.requests) {
    Seat& seat = seats_.at(id);
    try {
      follow(step, seat);
    } catch (const SentenceFault& fault) {
      leavers.push_back({remove(id), RequestEnd::failed, fault});
      continue;
    }
    if (seat.sentence->hypotheses.alive().empty()) leavers.push_back({remove(id)});
  }
}

void AheadBackend::follow(const Step& step, Seat& seat) {
  Sentence& sentence = *seat.sentence;
  const bool begins = !sentence.started;
  if (begins) {
    const size_t wanted = predicted(sentence).size();
    start(sentence, std::span<const float>(prefixes_).subspan(
                        wanted == 0 ? 0 : static_cast<size_t>(seat.prefix_from), wanted));
  }
  const size_t alive = sentence.hypotheses.alive().size();
  if (choices_.size() < alive) choices_.resize(alive);
  if (!sentence.search().sample) {
    for (size_t i = 0; i < alive; ++i) {
      read_row(step, seat.first_row + static_cast<int64_t>(i), count_of(sentence), choices_[i]);
    }
  } else if (begins) {  // one hypothesis, from which all samples start
    choices_[0].clear();
    std::vector<Choice> drawn;
    for (int64_t i = 0; i < sentence.width(); ++i) {
      read_row(step, seat.first_row + i, 1, drawn);
      choices_[0].insert(choices_[0].end(), drawn.begin(), drawn.end());
    }
  } else {
    for (size_t i = 0; i < alive; ++i) {
      read_row(step, seat.first_row + sentence.hypotheses.alive()[i].sample, 1, choices_[i]);
    }
  }
  advance(sentence, {choices_.data(), alive});
}

void AheadBackend::read_row(const Step& step, int64_t row, int64_t count,
                            std::vector<Choice>& choices) const {
  choices.clear();
  const auto log_probs = static_cast<size_t>(step.rows * step.count);
  const auto first = static_cast<size_t>(row * step.count);
  for (size_t at = first; at < first + static_cast<size_t>(count); ++at) {
    const auto token = std::bit_cast<int32_t>(found_[at]);
    if (token < 0) break;
    const float log_prob = found_[log_probs + at];
    choices.push_back({token, log_prob, log_prob});
  }
}

// ---- leaving ------------------------------------------------------------------------------------
std::unique_ptr<Sentence> AheadBackend::remove(RequestId id) {
  const auto at = seats_.find(id);
  if (at == seats_.end()) return nullptr;
  std::unique_ptr<Sentence> sentence = std::move(at->second.sentence);
  row_map_.give_back(at->second.first_row, sentence->width());
  seats_.erase(at);
  std::erase(joined_, id);
  release_slots(*sentence, session_);
  drop_from_steps(id);
  return sentence;
}

void AheadBackend::drop_from_steps(RequestId id) {
  for (Step& step : pending_) std::erase(step.requests, id);
  std::erase_if(pending_, [&](const Step& step) {
    if (!step.requests.empty()) return false;
    forget(step);
    return true;
  });
}

void AheadBackend::forget(const Step& step) {
  session_->queue.forget(step.fetch);
  if (step.prefixes) session_->queue.forget(*step.prefixes);
}

std::unique_ptr<Sentence> AheadBackend::remove_any() {
  for (const Step& step : pending_) forget(step);
  pending_.clear();
  if (prefix_fetch_) session_->queue.forget(*std::exchange(prefix_fetch_, std::nullopt));
  joined_.clear();
  row_map_ = {};
  if (seats_.empty()) return nullptr;
  std::unique_ptr<Sentence> sentence = std::move(seats_.begin()->second.sentence);
  seats_.erase(seats_.begin());
  release_slots(*sentence, session_);
  return sentence;
}

}  // namespace

std::shared_ptr<KeptForEngine> KeptForEngine::take(Session& session,
                                                   const TransformerConfig& config) {
  auto kept =
      std::static_pointer_cast<KeptForEngine>(std::exchange(session->kept_for_engine, nullptr));
  if (kept != nullptr && kept->of == config) return kept;
  return std::make_shared<KeptForEngine>(config);
}

void KeptForEngine::give_back(std::shared_ptr<KeptForEngine> kept, Session& session) {
  session->kept_for_engine = std::move(kept);
}

bool can_choose_tokens(const Device& device) { return device != Device::cpu; }

bool can_go_ahead(const SearchOptions& options) {
  // A beam on the GPU knows one END; for greedy search and sampling the host's word is enough.
  const bool ends_known = options.more_ends.empty() || options.beam == 1;
  return !options.shortlist && options.beam <= kMostBeam && ends_known && !options.changes_values();
}

std::unique_ptr<Backend> make_ahead_backend(const Transformer& model, KeptForEngine& kept,
                                            Session& session) {
  return std::make_unique<AheadBackend>(model, kept, session);
}

}  // namespace tril
