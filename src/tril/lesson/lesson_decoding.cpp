#include "tril/lesson/lesson_decoding.h"

#include <algorithm>
#include <map>

#include "tril/decode/search.h"
#include "tril/lesson/writable.h"
#include "tril/models/session_state.h"
#include "tril/nn/cache.h"
#include "tril/prove/bits.h"
#include "tril/prove/pairs.h"

namespace tril {
namespace {

using Tokens = std::vector<int32_t>;
using Numbers = std::vector<float>;

constexpr size_t kExamples = 3;

// Counts calls, and keeps the last one's logits and each decoder layer's keys and values.
class Watcher : public ForwardCounter {
 public:
  void see(const Observation& o) override {
    ForwardCounter::see(o);
    if (o.stack != Stack::decoder || (o.site != Site::key && o.site != Site::value)) return;
    const auto layer = static_cast<size_t>(o.layer);
    if (layers.size() <= layer) layers.resize(layer + 1);
    const OnHost values(o.tensor);
    Numbers& to = o.site == Site::key ? layers[layer].keys : layers[layer].values;
    to.assign(values.values().begin(), values.values().end());
  }
  void see_logits(const Tensor& tensor) override { logits = to_floats(tensor); }

  struct Layer {
    Numbers keys, values;  // [row, width]
  };
  std::vector<Layer> layers;
  Numbers logits;  // [row, vocab]
};

// Counts which token follows which.
class Guesser {
 public:
  Guesser(const Tokenizer& tokenizer, std::span<const std::string> lines)
      : start_(tokenizer.start()), end_(tokenizer.end()) {
    for (const std::string& line : lines) {
      Tokens tokens = tokenizer.encode(line);
      tokens.push_back(end_);
      learn(tokens);
    }
  }

  void learn(const Tokens& tokens) {
    int32_t before = kNone;
    int32_t last = start_;
    for (const int32_t token : tokens) {
      ++followers_[{before, last}][token];
      ++followers_[{kAny, last}][token];
      before = last;
      last = token;
    }
  }

  // What may follow `read` (START and tokens), at most `count` tokens: up to END, after which
  // nothing is to be checked, or to where nothing is known.
  Tokens guess(const Tokens& read, int64_t count) const {
    Tokens guesses;
    int32_t before = read.size() > 1 ? read[read.size() - 2] : kNone;
    int32_t last = read.back();
    while (static_cast<int64_t>(guesses.size()) < count) {
      auto found = followers_.find({before, last});
      if (found == followers_.end()) found = followers_.find({kAny, last});
      if (found == followers_.end()) break;
      // The lower one of equally frequent ones.
      const int32_t next = std::ranges::max_element(found->second, {}, [](const auto& follower) {
                             return follower.second;
                           })->first;
      if (next == end_) break;
      guesses.push_back(next);
      before = last;
      last = next;
    }
    return guesses;
  }

 private:
  static constexpr int32_t kNone = -1;  // nothing before START
  static constexpr int32_t kAny = -2;
  int32_t start_, end_;
  std::map<std::pair<int32_t, int32_t>, std::map<int32_t, int64_t>> followers_;
};

// A sentence and its result by the first method.
struct Decoded {
  const PhrasePair* sentence = nullptr;
  Tokens source{};                       // END included
  Tokens read{};                         // START and all tokens that were read
  Tokens chosen{};                       // one per token read; END at last, unless it was cut
  std::vector<Numbers> logits{};         // that they were chosen from
  std::vector<Watcher::Layer> layers{};  // keys and values in the cache
};

// A model that decodes.
class Decoder {
 public:
  Decoder(const Transformer& model, const Tokenizer& tokenizer, const DecodingOptions& options)
      : model_(model),
        tokenizer_(tokenizer),
        writable_(tokenizer),
        session_(model, options.threads),
        most_tokens_(options.max_tokens) {
    session_->hooks = options.hooks;
    session_->observer = &watcher_;
  }

  void begin(const Tokens& source) {
    session_.reset();
    Rows rows;
    rows.add_sequence(source, {.slot = 0});
    memory_ = model_.encode(rows, session_);
    // As in search(): 4 tokens per source token, and 10 (SearchRule::max_ratio).
    const double by_ratio = SearchRule{}.max_ratio * static_cast<double>(source.size()) + 10.0;
    limit_ = std::min({model_.config().max_length, most_tokens_, static_cast<int64_t>(by_ratio)});
  }

  // With a cache, one token per call: writes, or reads `given` (START and tokens) if there is one.
  void decode_cached(Decoded& to, const Tokens* given = nullptr) {
    const Slot slot(session_->cache);
    to.read = {tokenizer_.start()};
    for (;;) {
      const Tokens next = call({&to.read.back(), 1}, slot.number, to.read.size() - 1);
      to.logits.push_back(watcher_.logits);
      keep_layers(to);
      to.chosen.push_back(next.front());
      const size_t read = to.read.size();
      if (given != nullptr && read == given->size()) return;
      if (given == nullptr && is_done(to.chosen)) return;
      to.read.push_back(given != nullptr ? (*given)[read] : next.front());
    }
  }

  // Reads these tokens from START on, and chooses the next.
  int32_t recompute(std::span<const int32_t> read, Masking masking) {
    const MaskingScope scope(session_, masking);
    const Slot slot(session_->cache);
    const int32_t next = call(read, slot.number, 0).back();
    last_row_ = std::span(watcher_.logits).last(static_cast<size_t>(model_.config().target_vocab));
    return next;
  }
  std::span<const float> last_row() const { return last_row_; }

  // Writes by recomputing.
  Tokens write_recomputed(Masking masking) {
    Tokens read = {tokenizer_.start()};
    Tokens chosen;
    do {
      chosen.push_back(recompute(read, masking));
      read.push_back(chosen.back());
    } while (!is_done(chosen));
    return chosen;
  }

  // Writes by guess and check, comparing with `right` as long as both have read the same.
  void guess_and_check(const Guesser& guesser, const Decoded& right, Masking masking,
                       GuessRun& run) {
    const MaskingScope scope(session_, masking);
    const Slot slot(session_->cache);
    const auto vocab = static_cast<size_t>(model_.config().target_vocab);
    Tokens read = {tokenizer_.start()};
    Tokens chosen;
    bool same = true;  // so far
    while (chosen.empty() || !is_done(chosen)) {
      // The newest token, followed by guesses; none beyond the limit.
      const int64_t room = limit_ - static_cast<int64_t>(chosen.size()) - 1;
      const Tokens guesses = guesser.guess(read, std::min(run.guesses, room));
      Tokens rows = {read.back()};
      rows.insert(rows.end(), guesses.begin(), guesses.end());
      const Tokens next = call(rows, slot.number, read.size() - 1);
      run.guessed += static_cast<int64_t>(guesses.size());
      for (size_t row = 0;; ++row) {
        if (same) compare_row(right, chosen.size(), row, vocab, next[row], run.way);
        same = same && right.chosen[chosen.size()] == next[row];
        chosen.push_back(next[row]);
        read.push_back(next[row]);
        if (row == guesses.size() || guesses[row] != next[row]) break;
        ++run.accepted;
        if (is_done(chosen)) break;
      }
      // Keys and values of wrong guesses are removed; the newest token's come with the next call.
      session_->cache.truncate(slot.number, static_cast<int32_t>(read.size() - 1));
    }
    run.way.translations_differing += chosen == right.chosen ? 0 : 1;
  }

  Session& session() { return session_; }
  Watcher& watcher() { return watcher_; }
  // Adds the counts since the last call to a method's.
  void count_into(DecodingWay& way) {
    way.calls += watcher_.calls();
    way.positions += watcher_.rows();
    watcher_.clear();
  }

 private:
  struct Slot {
    explicit Slot(Cache& cache) : of(cache), number(cache.open()) {}
    ~Slot() { of.release(number); }
    Slot(const Slot&) = delete;
    Slot& operator=(const Slot&) = delete;
    Cache& of;
    int32_t number;
  };

  bool is_done(const Tokens& chosen) const {
    return chosen.back() == tokenizer_.end() || static_cast<int64_t>(chosen.size()) >= limit_;
  }

  // One call of forward(): the likeliest token after each row.
  Tokens call(std::span<const int32_t> tokens, int32_t slot, size_t first) {
    session_.reset();
    Rows rows;
    rows.add_sequence(tokens, {.slot = slot, .segment = 0, .first = static_cast<int32_t>(first)});
    const Tensor log_probs = model_.log_probs(model_.forward(rows, memory_, session_), session_);
    const OnHost values(log_probs);
    Tokens likeliest;
    for (int64_t row = 0; row < rows.size(); ++row) {
      likeliest.push_back(writable_.likeliest(values.row(row, log_probs.columns())));
    }
    return likeliest;
  }

  void keep_layers(Decoded& to) const {
    to.layers.resize(watcher_.layers.size());
    for (size_t layer = 0; layer < to.layers.size(); ++layer) {
      const Watcher::Layer& from = watcher_.layers[layer];
      Watcher::Layer& kept = to.layers[layer];
      kept.keys.insert(kept.keys.end(), from.keys.begin(), from.keys.end());
      kept.values.insert(kept.values.end(), from.values.begin(), from.values.end());
    }
  }

  void compare_row(const Decoded& right, size_t step, size_t row, size_t vocab, int32_t token,
                   DecodingWay& way) const {
    way.logits += static_cast<int64_t>(vocab);
    way.logits_differing +=
        differing_bits(std::span(watcher_.logits).subspan(row * vocab, vocab), right.logits[step]);
    ++way.tokens;
    way.tokens_differing += token == right.chosen[step] ? 0 : 1;
  }

  const Transformer& model_;
  const Tokenizer& tokenizer_;
  const Writable writable_;
  Watcher watcher_;
  Session session_;
  Memory memory_;
  const int64_t most_tokens_;
  int64_t limit_ = 0;
  std::span<const float> last_row_;
};

// The model with only its first decoder layer.
Transformer with_one_layer(const Transformer& model, int threads) {
  TransformerConfig config = model.config();
  config.decoder_layers = 1;
  Transformer one(config, 1);
  std::map<std::string, ConstTensor> from;
  for (const auto& [name, tensor] : model.parameters()) from.emplace(name, tensor);
  for (const auto& [name, tensor, rounded] : one.writable_parameters()) {
    copy_into(from.at(name), tensor);
  }
  Context context(threads);
  one.weights_changed(context);
  return one;
}

// Recomputes step by step what was decoded with a cache; returns whether it chooses the same
// tokens. Counts for each layer the keys and values of earlier tokens that differ from the cache's.
bool compare_recomputed(Decoder& decoder, const Decoded& right, Masking masking, DecodingWay& way,
                        std::vector<int64_t>* differing_by_layer) {
  bool same = true;
  if (differing_by_layer != nullptr) differing_by_layer->assign(right.layers.size(), 0);
  for (size_t step = 0; step < right.read.size(); ++step) {
    const int32_t next = decoder.recompute(std::span(right.read).first(step + 1), masking);
    way.logits += static_cast<int64_t>(right.logits[step].size());
    way.logits_differing += differing_bits(decoder.last_row(), right.logits[step]);
    ++way.tokens;
    way.tokens_differing += next == right.chosen[step] ? 0 : 1;
    same = same && next == right.chosen[step];
    if (differing_by_layer == nullptr) continue;
    for (size_t layer = 0; layer < right.layers.size(); ++layer) {
      const auto differing = [&](const Numbers& now, const Numbers& cached) {
        const size_t before = now.size() / (step + 1) * step;
        return differing_bits(std::span(now).first(before), std::span(cached).first(before));
      };
      const Watcher::Layer& now = decoder.watcher().layers[layer];
      (*differing_by_layer)[layer] += differing(now.keys, right.layers[layer].keys) +
                                      differing(now.values, right.layers[layer].values);
    }
  }
  way.translations_differing += same ? 0 : 1;
  decoder.count_into(way);
  return same;
}

void add_layers(const Decoded& right, const std::vector<int64_t>& masked,
                const std::vector<int64_t>& unmasked, std::vector<DecodingLayer>& layers) {
  const auto steps = static_cast<int64_t>(right.read.size());
  for (size_t layer = 0; layer < layers.size(); ++layer) {
    const int64_t width = static_cast<int64_t>(right.layers[layer].keys.size()) / steps;
    layers[layer].values += 2 * width * (steps * (steps - 1) / 2);  // 0 + 1 + ... earlier tokens
    layers[layer].differing_masked += masked[layer];
    layers[layer].differing_unmasked += unmasked[layer];
  }
}

Tokens written_by_search(const Translator& translator, const Tokens& source, int64_t max_tokens,
                         Session& session) {
  const Tokenizer& tokenizer = translator.tokenizer();
  const SearchOptions greedy{
      {.max_tokens = max_tokens}, tokenizer.start(), tokenizer.end(), tokenizer.unwritable()};
  Tokens written;
  bool given = false;
  search(
      translator.model(), greedy, 1,
      [&]() -> std::optional<SearchRequest> {
        if (given) return std::nullopt;
        given = true;
        return SearchRequest{0, source, {}};
      },
      [&](SearchResult&& done) {
        written = done.hypotheses.front().tokens;
        return true;
      },
      session);
  return written;
}

// Some of those that the model can read, spread evenly.
std::vector<Decoded> choose(std::span<const PhrasePair> sentences, const Translator& translator,
                            int64_t most, DecodingLesson& lesson) {
  std::vector<Decoded> all;
  for (const PhrasePair& sentence : sentences) {
    Decoded decoded{.sentence = &sentence,
                    .source = translator.tokenizer().encode(sentence.english)};
    decoded.source.push_back(translator.tokenizer().end());
    const auto length = static_cast<int64_t>(decoded.source.size());
    if (length <= translator.model().config().max_length) all.push_back(std::move(decoded));
  }
  lesson.left_out = static_cast<int64_t>(sentences.size() - all.size());
  require(!all.empty(), ErrorCode::invalid_argument, "lesson decoding: of ", sentences.size(),
          " sentences the model can read none");
  const auto wanted = std::min(static_cast<size_t>(most), all.size());
  std::vector<Decoded> chosen;
  for (size_t i = 0; i < wanted; ++i) chosen.push_back(std::move(all[i * all.size() / wanted]));
  lesson.sentences = static_cast<int64_t>(chosen.size());
  return chosen;
}

void judge(DecodingLesson& l) {
  l.same_bits_cached_and_recomputed = l.same_as_search && l.masked.same_bits();
  l.same_bits_without_mask = l.unmasked.same_bits();
  l.one_layer_same_without_mask = l.one_layer.same_bits();
  l.same_bits_guessing =
      !l.guessing.empty() && std::ranges::all_of(l.guessing, [](const GuessRun& run) {
        return run.way.same_bits() && run.way.translations_differing == 0;
      });
  l.same_bits_guessing_without_mask = l.guessing_unmasked.way.same_bits();
  l.calls_one_by_one = l.cached.calls;
  l.calls_with_guessing = l.cached.calls;
  for (const GuessRun& run : l.guessing) {
    l.calls_with_guessing = std::min(l.calls_with_guessing, run.way.calls);
  }
  // Where earlier rows change: not in the first layer, but in every other.
  bool from_second_layer = true;
  for (size_t layer = 0; layer < l.layers.size(); ++layer) {
    const DecodingLayer& at = l.layers[layer];
    from_second_layer =
        from_second_layer && at.differing_masked == 0 && (at.differing_unmasked > 0) == (layer > 0);
  }
  const bool several = l.decoder_layers > 1;
  l.holds = l.same_bits_cached_and_recomputed && l.same_bits_without_mask == !several &&
            from_second_layer && l.one_layer_same_without_mask && l.same_bits_guessing &&
            // Without the mask, a guess being checked sees the guesses after it, in any number of
            // layers.
            !l.same_bits_guessing_without_mask && l.calls_with_guessing < l.calls_one_by_one;
}

}  // namespace

DecodingLesson teach_decoding(const Translator& translator, std::span<const PhrasePair> sentences,
                              std::span<const std::string> guess_from,
                              const DecodingOptions& options) {
  const Transformer& model = translator.model();
  const Tokenizer& tokenizer = translator.tokenizer();
  require(!model.config().decoder_only(), ErrorCode::invalid_argument,
          "lesson decoding: the model is decoder-only; a translator is needed");
  require(!options.guesses.empty() && std::ranges::min(options.guesses) >= 1 &&
              options.max_tokens >= 1 && options.sentences >= 1,
          ErrorCode::invalid_argument,
          "lesson decoding: sentences, tokens and guesses must be at least 1");
  DecodingLesson lesson;
  std::vector<Decoded> chosen = choose(sentences, translator, options.sentences, lesson);
  lesson.decoder_layers = model.config().decoder_layers;
  lesson.layers.resize(static_cast<size_t>(lesson.decoder_layers));
  for (const int64_t guesses : options.guesses) lesson.guessing.push_back({.guesses = guesses});
  lesson.guessing_unmasked.guesses = options.guesses.back();
  lesson.same_as_search = true;

  Guesser guesser(tokenizer, guess_from);
  const Transformer first_layer = with_one_layer(model, options.threads);
  Decoder decoder(model, tokenizer, options);
  Decoder one_layer(first_layer, tokenizer, options);
  for (Decoded& right : chosen) {
    const Tokens searched =
        written_by_search(translator, right.source, options.max_tokens, decoder.session());
    decoder.watcher().clear();
    decoder.begin(right.source);
    decoder.decode_cached(right);
    decoder.count_into(lesson.cached);
    lesson.same_as_search = lesson.same_as_search && right.chosen == searched;
    std::vector<int64_t> masked_layers, unmasked_layers;
    compare_recomputed(decoder, right, options.mask, lesson.masked, &masked_layers);
    const bool same =
        compare_recomputed(decoder, right, Masking::none, lesson.unmasked, &unmasked_layers);
    add_layers(right, masked_layers, unmasked_layers, lesson.layers);
    const bool ended = right.chosen.back() == tokenizer.end();
    lesson.cut += ended ? 0 : 1;
    if (!same && ended && lesson.examples.size() < kExamples) {
      const Tokens written = decoder.write_recomputed(Masking::none);
      decoder.watcher().clear();
      // A translation that loops shows little.
      if (written.back() == tokenizer.end()) {
        lesson.examples.push_back(
            {right.sentence->english, tokenizer.decode(right.chosen), tokenizer.decode(written)});
      }
    }
    for (GuessRun& run : lesson.guessing) {
      decoder.guess_and_check(guesser, right, options.mask, run);
      decoder.count_into(run.way);
    }
    decoder.guess_and_check(guesser, right, Masking::none, lesson.guessing_unmasked);
    decoder.count_into(lesson.guessing_unmasked.way);

    one_layer.begin(right.source);
    Decoded alone;
    one_layer.decode_cached(alone, &right.read);
    one_layer.watcher().clear();
    compare_recomputed(one_layer, alone, Masking::none, lesson.one_layer, nullptr);
    guesser.learn(right.chosen);
    right = {};  // its logits are large
  }
  lesson.cached.tokens = lesson.masked.tokens;
  judge(lesson);
  return lesson;
}

}  // namespace tril
