// Rows of expressions, for the proof for every input: which token each row is, which positions its
// numbers may be made from, and whether two passes made the same ones.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "tril/base/expression.h"
#include "tril/models/observer.h"
#include "tril/models/session.h"
#include "tril/prove/for_every_input.h"
#include "tril/prove/report.h"

namespace tril {

// What a place of a model is called.
std::string_view name_of(Site site);
// Whether its numbers come head by head.
bool is_by_head(Site site);
// A sub-layer's sites come several times per layer: the time is counted in this.
constexpr int kTimes = 10'000;

// The tokens of the proof: a variable for each position of both sentences, source and target, and
// one more that is written beside the checked sentence into a shared block of the cache.
class TokenVariables {
 public:
  TokenVariables(const EveryInputOptions& options, bool has_source);

  enum class Sentence { checked, neighbour, other };  // other: the written one, and padding
  struct Place {
    Sentence sentence = Sentence::other;
    bool in_source = false;
    int32_t position = 0;
  };
  Place place_of(int32_t token) const;

  std::vector<int32_t> target(int64_t length) const { return tokens(0, length); }
  std::vector<int32_t> neighbour() const { return tokens(target_, neighbour_); }
  std::vector<int32_t> source() const { return tokens(target_ + neighbour_, source_); }
  std::vector<int32_t> neighbour_source() const;
  int32_t written_beside() const { return static_cast<int32_t>(count() - 1); }
  int64_t count() const;
  bool has_source() const { return source_ > 0; }
  int64_t source_length(Sentence sentence) const;

  // Positions of the neighbour are numbered from here on.
  static constexpr int32_t kNeighbour = 1 << 20;
  std::vector<Reach> reaches() const;

 private:
  static std::vector<int32_t> tokens(int64_t first, int64_t count);
  int64_t target_, neighbour_, source_, neighbour_source_;
};

// What a row may be made from, and what it must be made from once all layers are passed. Derived
// from positions alone, not from the model's masks.
class ReachRule {
 public:
  ReachRule(const TransformerConfig& config, const EveryInputOptions& options,
            const TokenVariables& variables)
      : config_(config), options_(options), variables_(variables) {}

  // After `attentions` self-attentions of the decoder. A window widens by its width with each.
  Reach after(int64_t attentions, const TokenVariables::Place& at) const;
  // The keys [lo, hi) that the row's own attention is to be given, from the origin on.
  struct Keys {
    int32_t lo = 0, hi = 0;
    bool operator==(const Keys&) const = default;
  };
  Keys self_keys(const TokenVariables::Place& at) const;
  Keys source_keys(const TokenVariables::Place& at) const;

 private:
  const TransformerConfig& config_;
  const EveryInputOptions& options_;
  const TokenVariables& variables_;
};

// Records the rows of one pass, and compares those of later ones with them.
class ExpressionRows : public Observer {
 public:
  ExpressionRows(const TransformerConfig& config, const EveryInputOptions& options,
                 const TokenVariables& variables, EveryInputResult& result);

  void begin_recording() { length_ = 0; }
  // A parallel pass over this many tokens; end_comparing() sees that every recorded row of it was
  // compared.
  void begin_comparing(int64_t length);
  void end_comparing();

  void see(const Observation& o) override;
  void see_logits(const Tensor& logits) override;

  // For a pass that was not observed: the logits of one position.
  void compare_logits(std::span<const Expression> logits, int32_t position);
  // Chosen logits of a position, which were made by themselves.
  void compare_chosen(std::span<const Expression> logits, std::span<const int32_t> chosen,
                      int32_t position);
  // Different expressions among the recorded logits.
  void count_distinct();

 private:
  // Whose, of the source?, layer, site (and which time in the call), position.
  using RowKey = std::tuple<bool, bool, int64_t, int, int32_t>;
  struct Row {
    std::span<const Expression> numbers{};
    int64_t head_width = 0;  // 0: not by head
    EveryInputPlace place{};
    RowKey key{};
  };
  int64_t attentions_before(const Observation& o) const;
  void see_rows(std::span<const int32_t> tokens, std::span<const Expression> values,
                int64_t attentions, int64_t head_width, const EveryInputPlace& place, int site);
  void check_reach(const Row& row, const TokenVariables::Place& at, int64_t attentions);
  void check_masks(const Observation& o);
  void compare(const Row& row);
  const std::vector<ExpressionHash>& recorded_logits(int32_t position) const;

  const TransformerConfig& config_;
  const EveryInputOptions& options_;
  const TokenVariables& variables_;
  ReachRule rule_;
  EveryInputResult& result_;
  int64_t length_ = 0;           // of the parallel pass; 0: step by step, recorded
  int64_t compared_rows_ = 0;    // in this pass, of the checked sentence
  std::vector<int32_t> tokens_;  // of the current call
  std::map<std::tuple<bool, int64_t, int>, int> times_;     // a site was seen in this call
  std::map<RowKey, std::vector<ExpressionHash>> recorded_;  // of the stepwise pass
};

}  // namespace tril
