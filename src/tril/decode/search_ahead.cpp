#include "tril/decode/search_ahead.h"

#include <algorithm>
#include <bit>
#include <deque>
#include <limits>
#include <memory>
#include <utility>

#include "tril/decode/encoded.h"
#include "tril/decode/log_probs.h"
#include "tril/decode/sentences.h"
#include "tril/ops/beam.h"

namespace tril {
namespace {

constexpr size_t kAhead = 1;        // steps that may be under way while another is enqueued
constexpr int64_t kMostBeam = 256;  // wider ones would keep a device's threads waiting
constexpr int64_t kTableStep = 128;

// What the device knows of its rows, and the memory for what was encoded. It belongs to the
// session, so that steps of one search are kept for the next, and memory is not asked for again.
struct DeviceRows {
  DeviceRows(int64_t count, const TransformerConfig& config, Device device)
      : rows(count),
        of(config),
        arena(device),
        beams{Tensor(arena, {rows}, DType::i32), Tensor(arena, {rows}, DType::f64),
              Tensor(arena, {rows, positions()}, DType::i32)},
        on_device{beams.tokens, beams.table,
                  of.decoder_only() ? Tensor() : Tensor(arena, {rows, positions()}, DType::i32)} {
    // Rows that no sentence has had yet are looked up too.
    for (const Tensor& tensor : {beams.tokens, beams.scores, beams.table}) set_zero(tensor);
    if (!of.decoder_only()) set_zero(on_device.cross);
  }
  int64_t positions() const { return (of.max_length + kTableStep - 1) / kTableStep * kTableStep; }

  int64_t rows;
  TransformerConfig of;
  Arena arena;
  ops::Beams beams;
  RowsOnDevice on_device;
  EncodedSentences encoded{};
};

class AheadSearch {
 public:
  AheadSearch(const Transformer& model, const SearchOptions& options, int64_t slots,
              Session& session, const SearchTrace& trace)
      : model_(model),
        config_(model.config()),
        options_(options),
        width_(options.beam),
        session_(session),
        trace_(trace),
        bits_(config_.target_vocab, options.forbidden),
        places_(static_cast<size_t>(slots / width_)),
        device_(take_rows()),
        intake_(model, options, slots / width_, device_->encoded, session) {}
  ~AheadSearch() {
    for (const Step& step : pending_) session_.queue.forget(step.fetch);
    for (const Place& place : places_) {
      if (place.sentence == nullptr) continue;
      release_slots(*place.sentence, session_);
      if (ended_) intake_.release(*place.sentence);
    }
    if (!ended_) {  // of a search that failed something may be encoded that nobody knows of
      intake_.abandon();
      device_->encoded = {};
    }
    session_.search = device_;
  }
  AheadSearch(const AheadSearch&) = delete;
  AheadSearch& operator=(const AheadSearch&) = delete;

  void run(const NextRequest& next, const SearchDone& done) {
    for (;;) {
      join(next);
      const bool more = enqueue();
      if (!more && pending_.empty()) break;
      if (pending_.size() > (more ? kAhead : 0) && !look(done)) break;
    }
    ended_ = true;
  }

 private:
  // Where a sentence is decoded: `width_` rows of every step.
  struct Place {
    std::unique_ptr<Sentence> sentence;
    int64_t enqueued = 0;  // steps, looked at or not
  };
  // A step that was not looked at yet.
  struct Step {
    int64_t fetch = 0;
    int64_t rows = 0;
    std::vector<Sentence*> sentences;  // by place; null: none, or done
  };

  int64_t count() const { return std::min(2 * options_.beam, config_.target_vocab); }

  // Taken out of the session until the search ends: whoever is told of a result may search with the
  // same session.
  std::shared_ptr<DeviceRows> take_rows() {
    const int64_t rows = static_cast<int64_t>(std::bit_ceil(places_.size())) * width_;
    auto kept = std::static_pointer_cast<DeviceRows>(std::exchange(session_.search, nullptr));
    if (kept != nullptr && kept->rows >= rows && kept->of == config_) return kept;
    kept.reset();
    return std::make_shared<DeviceRows>(rows, config_, session_.device());
  }

  // ---- sentences that begin ---------------------------------------------------------------------
  void join(const NextRequest& next) {
    std::vector<size_t> joined;
    for (size_t place = 0; place < places_.size(); ++place) {
      if (places_[place].sentence != nullptr) continue;
      std::unique_ptr<Sentence> sentence = intake_.take(next);
      if (sentence == nullptr) break;
      places_[place] = {std::move(sentence), 0};
      places_[place].sentence->slots.assign(1, session_.cache.open());
      joined.push_back(place);
    }
    if (joined.empty()) return;
    read_prefixes(joined);
    session_.reset();
    std::vector<int32_t> rows, tokens, self_slots, segments;
    std::vector<double> scores;
    for (const size_t place : joined) {
      Sentence& sentence = *places_[place].sentence;
      const std::vector<int32_t>& prefix = sentence.request.prefix;
      for (int64_t i = 0; i < width_; ++i) {
        if (i > 0) sentence.slots.push_back(session_.cache.fork(sentence.slots[0]));
        rows.push_back(static_cast<int32_t>(static_cast<int64_t>(place) * width_ + i));
        tokens.push_back(prefix.empty() ? options_.start : prefix.back());
        scores.push_back(i == 0 ? sentence.hypotheses.alive()[0].score
                                : -std::numeric_limits<double>::infinity());
        self_slots.push_back(sentence.slots[0]);
        segments.push_back(sentence.segment);
      }
    }
    ops::set_beams(session_, rows, tokens, scores, device_->beams);
    set_table(rows, device_->beams.table,
              [&](size_t i) { return session_.cache.entries(self_slots[i]); });
    if (config_.decoder_only()) return;
    set_table(rows, device_->on_device.cross,
              [&](size_t i) { return intake_.memory().entries(segments[i]); });
  }

  // entries_of(i): where the keys of rows[i] are.
  template <class F>
  void set_table(std::span<const int32_t> rows, const Tensor& table, const F& entries_of) {
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

  // Forced prefixes, but for their last tokens, all in one call.
  void read_prefixes(std::span<const size_t> joined) {
    Rows rows;
    std::vector<int32_t> wanted;
    for (const size_t place : joined) {
      const Sentence& sentence = *places_[place].sentence;
      const std::vector<int32_t>& prefix = sentence.request.prefix;
      if (prefix.empty()) continue;
      const tril::Place where{.slot = sentence.slots[0], .segment = sentence.segment};
      rows.add(options_.start, where);
      rows.add_sequence(std::span(prefix).first(prefix.size() - 1),
                        {.slot = where.slot, .segment = where.segment, .first = 1});
      wanted.insert(wanted.end(), prefix.begin(), prefix.end());
    }
    const std::vector<float> log_probs = log_probs_of(rows, wanted);
    size_t first = 0;
    for (const size_t place : joined) {
      Sentence& sentence = *places_[place].sentence;
      const size_t length = sentence.request.prefix.size();
      start(sentence, std::span(log_probs).subspan(first, length));
      first += length;
    }
  }

  // Of wanted[row] behind each row.
  std::vector<float> log_probs_of(const Rows& rows, std::span<const int32_t> wanted) {
    std::vector<float> log_probs(wanted.size());
    if (wanted.empty()) return log_probs;
    session_.reset();
    const Tensor hidden = model_.forward(rows, intake_.memory(), session_);
    for (int64_t begin = 0; begin < hidden.rows(); begin += kRowsAtOnce) {
      const int64_t count = std::min(kRowsAtOnce, hidden.rows() - begin);
      const Arena::Scope scratch(session_.arena);
      const Tensor logits = model_.logits_to_choose(hidden.slice(begin, begin + count), session_);
      const auto some = wanted.subspan(static_cast<size_t>(begin), static_cast<size_t>(count));
      const auto chosen = ops::choose_tokens(session_, logits, bits_, 1, Mirrored<int32_t>(some));
      session_.queue.download(chosen.wanted.raw(), count * size_of(DType::f32),
                              log_probs.data() + begin);
    }
    return log_probs;
  }

  // ---- steps ------------------------------------------------------------------------------------
  // A step of all that may go on; false: none may. Steps of the same number of rows are kept as
  // one, so filler makes the number of places a power of two.
  bool enqueue() {
    Step step;
    for (size_t place = 0; place < places_.size(); ++place) {
      const Place& at = places_[place];
      if (at.sentence == nullptr || at.enqueued == at.sentence->limit) continue;
      step.sentences.resize(place + 1, nullptr);
      step.sentences[place] = at.sentence.get();
    }
    if (step.sentences.empty()) return false;
    step.sentences.resize(std::bit_ceil(step.sentences.size()), nullptr);
    rows_.clear();
    for (size_t place = 0; place < step.sentences.size(); ++place) {
      const Sentence* sentence = step.sentences[place];
      if (sentence == nullptr) {
        rows_.add_filler(width_);
        continue;
      }
      const auto length = static_cast<int64_t>(sentence->request.prefix.size());
      const auto position = static_cast<int32_t>(length + places_[place].enqueued++);
      for (const int32_t slot : sentence->slots) {
        rows_.add(0, {.slot = slot, .segment = sentence->segment, .first = position});
      }
    }
    step.rows = rows_.size();
    none_wanted_.assign(static_cast<size_t>(step.rows), -1);
    const Queue::Delivery delivery = session_.queue.expect(bytes_of(step));
    step.fetch = delivery.number;
    pending_.push_back(std::move(step));
    session_.step([&] {
      session_.reset();
      forget_rows();
      const Tensor hidden = model_.forward(rows_, intake_.memory(), session_, &device_->on_device);
      const ops::ChosenTokens chosen =
          ops::choose_tokens(session_, model_.logits_to_choose(hidden, session_), bits_, count(),
                             session_.mirror<int32_t>(none_wanted_));
      ops::advance_beams(session_, chosen, session_.mirror<int32_t>(rows_.positions), width_,
                         options_.end, device_->beams, delivery.to);
    });
    session_.queue.deliver(delivery.number);
    return true;
  }

  // Tokens, then log-probabilities.
  int64_t bytes_of(const Step& step) const { return 2 * step.rows * count() * size_of(DType::f32); }

  // The slots as they were before this step: a step may be walked before it runs.
  void forget_rows() {
    for (int64_t row = rows_.size() - 1; row >= 0; --row) {
      const auto r = static_cast<size_t>(row);
      const int32_t slot = rows_.slots[r];
      if (slot >= 0 && session_.cache.length(slot) > rows_.positions[r]) {
        session_.cache.truncate(slot, rows_.positions[r]);
      }
    }
  }

  // Goes through the search with what the oldest step has found. False: the caller has enough.
  bool look(const SearchDone& done) {
    const Step step = std::move(pending_.front());
    pending_.pop_front();
    found_.resize(static_cast<size_t>(bytes_of(step) / size_of(DType::f32)));
    session_.queue.fetched(step.fetch, found_.data(), bytes_of(step));
    for (size_t place = 0; place < step.sentences.size(); ++place) {
      Sentence* sentence = step.sentences[place];
      if (sentence == nullptr) continue;
      read_choices(step, place, sentence->hypotheses.alive().size());
      advance(*sentence, {choices_.data(), sentence->hypotheses.alive().size()}, trace_);
      if (!sentence->hypotheses.alive().empty()) continue;
      for (Step& later : pending_) {
        std::replace(later.sentences.begin(), later.sentences.end(), sentence,
                     static_cast<Sentence*>(nullptr));
      }
      const std::unique_ptr<Sentence> finished = std::move(places_[place].sentence);
      release_slots(*finished, session_);
      intake_.release(*finished);
      if (!done({finished->request.number, finished->hypotheses.take()})) return false;
    }
    return true;
  }

  // What the rows of a place offer to its alive hypotheses.
  void read_choices(const Step& step, size_t place, size_t alive) {
    if (choices_.size() < alive) choices_.resize(alive);
    const auto offered = static_cast<size_t>(count());
    const auto log_probs = static_cast<size_t>(step.rows) * offered;
    for (size_t i = 0; i < alive; ++i) {
      choices_[i].clear();
      const size_t first = (place * static_cast<size_t>(width_) + i) * offered;
      for (size_t at = first; at < first + offered; ++at) {
        const auto token = std::bit_cast<int32_t>(found_[at]);
        if (token < 0) break;
        choices_[i].push_back({token, found_[log_probs + at]});
      }
    }
  }

  const Transformer& model_;
  const TransformerConfig& config_;
  const SearchOptions& options_;
  const int64_t width_;
  Session& session_;
  const SearchTrace& trace_;
  const ops::TokenBits bits_;

  std::vector<Place> places_;
  const std::shared_ptr<DeviceRows> device_;
  Intake intake_;
  bool ended_ = false;
  std::deque<Step> pending_;

  // Kept between steps so that a warm one allocates little.
  Rows rows_;
  std::vector<int32_t> none_wanted_;
  std::vector<float> found_;
  std::vector<std::vector<Choice>> choices_;
};

}  // namespace

bool can_search_ahead(const SearchOptions& options, const Session& session) {
  return session.device() != Device::cpu && session.observer == nullptr && !options.sample &&
         !options.shortlist && options.beam <= kMostBeam;
}

void search_ahead(const Transformer& model, const SearchOptions& options, int64_t slots,
                  const NextRequest& next, const SearchDone& done, Session& session,
                  const SearchTrace& trace) {
  AheadSearch(model, options, slots, session, trace).run(next, done);
}

}  // namespace tril
