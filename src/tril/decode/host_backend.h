// The backend that chooses tokens on the host: on the CPU always, on a GPU for options that it
// cannot handle by itself and for observers, which see each step as it is made. Internal to
// decode/.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <vector>

#include "tril/decode/backend.h"
#include "tril/decode/log_probs.h"

namespace tril {

class HostBackend final : public Backend {
 public:
  // The arguments must outlive this.
  HostBackend(const Transformer& model, const EncodedSentences& encoded, Session& session)
      : model_(model), encoded_(encoded), session_(session) {}
  ~HostBackend() override;

  void join(std::unique_ptr<Sentence>&& sentence) override;
  void step(std::vector<Leaver>& leavers) override;
  Sentence* find(RequestId id) const override;
  std::unique_ptr<Sentence> remove(RequestId id) override;
  std::unique_ptr<Sentence> remove_any() override;
  int64_t slots_taken() const override;
  int64_t size() const override { return static_cast<int64_t>(active_.size()); }
  void each(const std::function<void(Sentence&)>& f) const override {
    for (const auto& [id, sentence] : active_) f(*sentence);
  }

 private:
  // What a row of the step is for.
  struct RowUse {
    size_t first_choice;  // index in choices_ of the sentence's first alive hypothesis
    size_t alive;         // which alive hypothesis reads this row
    Sentence* sentence;
    int32_t forced;  // the token that must follow within a prefix; -1: choose
  };
  // For rules that change values, by thread: the values of a row.
  using Values = std::vector<float>;
  // For rules that look back: the sequence that a choice follows, and its different tokens.
  struct Seen {
    std::vector<int32_t> tokens;
    std::vector<int32_t> different;
  };

  void choose_shortlist(Sentence& sentence);
  void add_rows(Sentence& sentence);
  void make_room();
  void note_seen(const RowUse& use);
  void choose();
  void choose_in(size_t row, std::span<const float> log_probs, int worker);
  std::span<const float> values_for(size_t row, std::span<const float> log_probs,
                                    const AllowedTokens& allowed, Values& values);
  void draw_choices(std::span<const float> row, const AllowedTokens& allowed, const RowUse& use,
                    DrawSet& set, std::vector<Choice>& choices) const;
  int64_t best_count(const Sentence& sentence) const;
  size_t advance(size_t row, std::vector<Leaver>& leavers);
  void move_slots(Sentence& sentence);

  const Transformer& model_;
  const EncodedSentences& encoded_;
  Session& session_;
  std::map<RequestId, std::unique_ptr<Sentence>> active_;
  std::vector<std::unique_ptr<ShortlistTokens>> spare_shortlists_;

  // For the current step; kept between steps so that a warm step allocates little.
  Rows rows_;
  int64_t whole_rows_ = 0;  // the first rows: sentences that choose from the whole vocabulary
  std::vector<PartRows> part_rows_;  // the other rows, by sentence
  std::vector<RowUse> uses_;
  std::vector<int32_t> set_;
  std::vector<float> forced_log_probs_;       // by row
  std::vector<std::vector<Choice>> choices_;  // by alive hypothesis of all sentences
  std::vector<int64_t> most_choices_;         // likewise: the largest possible number
  std::vector<DrawSet> draw_sets_;            // by thread
  // Where a rule changes values: by alive hypothesis the sequence so far, by thread the values of a
  // row, and by row, if a rule needs logits, the largest.
  std::vector<Seen> seen_;
  std::vector<Values> values_;
  std::vector<LargestLogit> largest_;
  std::vector<bool> inherited_;  // for the sentence whose slots move: by slot
  std::vector<int32_t> next_slots_;
};

}  // namespace tril
