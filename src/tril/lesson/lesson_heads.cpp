#include "tril/lesson/lesson_heads.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "tril/base/math.h"
#include "tril/data/lexicon.h"
#include "tril/lesson/demo.h"
#include "tril/lesson/learn_phrasebook.h"
#include "tril/models/session_state.h"
#include "tril/ops/attention.h"
#include "tril/ops/attention_bound.h"
#include "tril/train/evaluation.h"

namespace tril {
namespace {

using Tokens = std::vector<int32_t>;

size_t index(AttentionKind kind) { return static_cast<size_t>(kind); }

// What one attention of one layer read and wrote in the current pass.
struct Attention {
  Tensor queries, keys, values, context;
  std::span<const Interval> sees{};
  ops::AttentionOptions options{};
};

class AttentionObserver : public Observer {
 public:
  void see(const Observation& o) override {
    if (o.layer < 0) return;
    const AttentionKind self =
        o.stack == Stack::encoder ? AttentionKind::encoder : AttentionKind::decoder;
    switch (o.site) {
      case Site::query:
        at(self, o).options = *o.options;
        at(self, o).queries = o.tensor;
        at(self, o).sees = o.intervals;
        break;
      case Site::key: at(self, o).keys = o.tensor; break;
      case Site::value: at(self, o).values = o.tensor; break;
      case Site::context: at(self, o).context = o.tensor; break;
      case Site::cross_query:
        at(AttentionKind::cross, o).queries = o.tensor;
        at(AttentionKind::cross, o).sees = o.intervals;
        break;
      case Site::cross_key: at(AttentionKind::cross, o).keys = o.tensor; break;
      case Site::cross_value: at(AttentionKind::cross, o).values = o.tensor; break;
      case Site::cross_context: at(AttentionKind::cross, o).context = o.tensor; break;
      default: break;  // not part of an attention
    }
  }

  std::map<std::pair<AttentionKind, int64_t>, Attention> attentions;  // by kind and layer

 private:
  Attention& at(AttentionKind kind, const Observation& o) { return attentions[{kind, o.layer}]; }
};

// One head of one attention, by the textbook formula.
class TextbookHead {
 public:
  TextbookHead(const Attention& attention, const TransformerConfig& config, int64_t head)
      : a_(attention),
        config_(config),
        head_(head),
        kv_head_(head / (config.heads / config.kv_heads)),
        scale_(double{
            a_.options.scale.value_or(1.0f / std::sqrt(static_cast<float>(config.head_dim)))}) {}

  // The weights of a row on the keys it sees, starting with the first of them.
  std::vector<double> weights(int64_t row) const {
    const Interval& sees = interval(row);
    std::vector<double> result;
    for (int64_t key = sees.lo; key < sees.hi; ++key) {
      double dot = 0.0;
      for (int64_t d = 0; d < config_.head_dim; ++d) dot += query(row, d) * in_key(key, d);
      result.push_back(dot * scale_ + bias(row, key));
    }
    const double largest = *std::ranges::max_element(result);
    double sum = 0.0;
    for (double& weight : result) sum += weight = math::exp(weight - largest);
    for (double& weight : result) weight /= sum;
    return result;
  }

  // The largest ratio of the difference between weights × values and the library's output to what
  // rounding allows; infinite for NaN.
  double share_of_bound(int64_t row, std::span<const double> weights) const {
    const Interval& sees = interval(row);
    double magnitude = 0.0;
    for (int64_t key = sees.lo; key < sees.hi; ++key) {
      double sum = std::fabs(bias(row, key));
      for (int64_t d = 0; d < config_.head_dim; ++d) {
        sum += std::fabs(query(row, d) * in_key(key, d)) * scale_;
      }
      magnitude = std::max(magnitude, sum);
    }
    const ops::AttentionBound bound(
        {.head_dim = config_.head_dim, .keys = sees.hi - sees.lo, .largest_score = magnitude});
    double share = 0.0;
    for (int64_t d = 0; d < config_.head_dim; ++d) {
      double output = 0.0, weighted = 0.0, all = 0.0;
      for (int64_t key = sees.lo; key < sees.hi; ++key) {
        const double v = value(key, d);
        const double weight = weights[static_cast<size_t>(key - sees.lo)];
        output += weight * v;
        weighted += weight * std::fabs(v);
        all += std::fabs(v);
      }
      const double difference = std::fabs(output - context(row, d));
      if (std::isnan(difference)) return std::numeric_limits<double>::infinity();
      if (difference > 0.0) share = std::max(share, difference / bound(weighted, all));
    }
    return share;
  }

 private:
  const Interval& interval(int64_t row) const { return a_.sees[static_cast<size_t>(row)]; }
  double query(int64_t row, int64_t d) const {
    return double{a_.queries.data()[(row * config_.heads + head_) * config_.head_dim + d]};
  }
  double context(int64_t row, int64_t d) const {
    return double{a_.context.data()[(row * config_.heads + head_) * config_.head_dim + d]};
  }
  double in_key(int64_t key, int64_t d) const {
    return double{a_.keys.data()[(key * config_.kv_heads + kv_head_) * config_.head_dim + d]};
  }
  double value(int64_t key, int64_t d) const {
    return double{a_.values.data()[(key * config_.kv_heads + kv_head_) * config_.head_dim + d]};
  }
  // The bias of ALiBi.
  double bias(int64_t row, int64_t key) const {
    if (!a_.options.bias.defined()) return 0.0;
    const int64_t offset =
        a_.options.bias_zero + key - interval(row).origin - a_.options.positions[row];
    return double{a_.options.bias.data()[head_ * a_.options.bias.columns() + offset]};
  }

  const Attention& a_;
  const TransformerConfig& config_;
  int64_t head_, kv_head_;
  double scale_;
};

// A sentence as the model reads it, END included on both sides.
struct Sentence {
  Tokens source, target;
  // By target token: the source token that it translates; -1: the lexicon is not certain.
  Tokens translates{};
};

// The source token of its sentence that a target token translates: the one to which the lexicon
// gives more than half of the probability it gives to the sentence's tokens. END, which accounts
// for what no word explains, does not count.
int32_t translated_by(const Lexicon& lexicon, const Tokens& source, int32_t end, int32_t target) {
  double sum = 0.0, largest = 0.0;
  int32_t best = -1;
  const std::set<int32_t> tokens(source.begin(), source.end());
  for (const int32_t token : tokens) {
    const auto& entries = lexicon[static_cast<size_t>(token)];
    const auto found = std::ranges::find(entries, target, &LexiconEntry::target);
    if (found == entries.end()) continue;
    const auto probability = static_cast<double>(found->probability);
    sum += probability;
    if (probability > largest) {
      largest = probability;
      best = token;
    }
  }
  return best != end && largest > 0.5 * sum ? best : -1;
}

Lexicon lexicon_of(const Translator& translator, const std::vector<PhrasePair>& phrases,
                   int threads) {
  const Tokenizer& tokenizer = translator.tokenizer();
  TokenPairs pairs;
  for (const PhrasePair& phrase : phrases) {
    Tokens source = tokenizer.encode(phrase.english);
    source.push_back(tokenizer.end());
    pairs.add(source, tokenizer.encode(phrase.hindi));
  }
  const TransformerConfig& config = translator.model().config();
  return learn_lexicon(pairs, config.source_vocab, config.target_vocab, {.threads = threads});
}

struct Sum {
  double sum = 0.0;
  int64_t count = 0;
  void add(double value) {
    sum += value;
    ++count;
  }
  std::optional<double> mean() const {
    if (count == 0) return std::nullopt;
    return sum / static_cast<double>(count);
  }
};

using RelationSums = std::array<Sum, kHeadRelations>;
HeadShares means(const RelationSums& sums) {
  HeadShares result;
  for (size_t i = 0; i < kHeadRelations; ++i) result[i] = sums[i].mean();
  return result;
}

struct HeadSums {
  RelationSums shares{};
  Sum entropy{}, evenness{}, apart{};
};

// Whether key `key` of `keys` has a relation to a row; a key may have several.
bool is_related(HeadRelation relation, AttentionKind kind, const Sentence& sentence, int64_t row,
                int64_t key) {
  const bool cross = kind == AttentionKind::cross;
  switch (relation) {
    case HeadRelation::itself: return key == row;
    case HeadRelation::previous: return !cross && key == row - 1;
    case HeadRelation::next: return kind == AttentionKind::encoder && key == row + 1;
    case HeadRelation::first: return key == 0;
    case HeadRelation::end:
      return kind != AttentionKind::decoder &&
             key + 1 == static_cast<int64_t>(sentence.source.size());
    case HeadRelation::translation:
      return cross && sentence.source[static_cast<size_t>(key)] ==
                          sentence.translates[static_cast<size_t>(row)];
  }
  return false;
}

// Adds a row's weights to the sums of its head, and to those of a head with equal weights.
void add_row(HeadSums& sums, RelationSums& even, AttentionKind kind, const Sentence& sentence,
             int64_t row, int64_t first_key, std::span<const double> weights) {
  const double keys = static_cast<double>(weights.size());
  for (size_t i = 0; i < kHeadRelations; ++i) {
    double share = 0.0;
    int64_t related = 0;
    for (size_t j = 0; j < weights.size(); ++j) {
      const int64_t key = first_key + static_cast<int64_t>(j);
      if (!is_related(static_cast<HeadRelation>(i), kind, sentence, row, key)) continue;
      share += weights[j];
      ++related;
    }
    if (related == 0) continue;
    sums.shares[i].add(share);
    even[i].add(static_cast<double>(related) / keys);
  }
  double entropy = 0.0;
  for (const double weight : weights) {
    if (weight > 0.0) entropy -= weight * math::log(weight);
  }
  sums.entropy.add(entropy / math::log(2.0));
  if (weights.size() > 1) sums.evenness.add(entropy / math::log(keys));
}

// ½ Σ |a - b|.
double distance(std::span<const double> a, std::span<const double> b) {
  double sum = 0.0;
  for (size_t i = 0; i < a.size(); ++i) sum += std::fabs(a[i] - b[i]);
  return sum / 2;
}

// Runs the sentences through the model as in training, and looks at every head.
class Looker {
 public:
  Looker(const Translator& translator, HeadsLesson& lesson, const HeadsOptions& options)
      : model_(translator.model()),
        start_(translator.tokenizer().start()),
        lesson_(lesson),
        session_(model_, options.threads) {
    session_->hooks = options.hooks;
    const TransformerConfig& c = model_.config();
    for (const AttentionKind kind :
         {AttentionKind::encoder, AttentionKind::decoder, AttentionKind::cross}) {
      const bool encoder = kind == AttentionKind::encoder;
      for (int64_t layer = 0; layer < (encoder ? c.encoder_layers : c.decoder_layers); ++layer) {
        first_[{kind, layer}] = lesson.heads.size();
        for (int64_t head = 0; head < c.heads; ++head) {
          lesson.heads.push_back({.kind = kind, .layer = layer, .head = head});
        }
      }
    }
    sums_.resize(lesson.heads.size());
  }

  void look(const Sentence& sentence) {
    AttentionObserver seen;
    const ObserverScope scope(session_, &seen);
    session_.reset();
    Tape tape(session_);
    Rows source, target;
    source.add_sequence(sentence.source, {.slot = 0});
    Tokens fed = {start_};
    fed.insert(fed.end(), sentence.target.begin(), sentence.target.end() - 1);
    target.add_sequence(fed, {.slot = 0, .segment = 0});
    model_.forward(target, model_.encode(source, session_), session_);
    for (const auto& [where, attention] : seen.attentions) {
      look(sentence, where.first, attention, std::span(sums_).subspan(first_[where]));
    }
    lesson_.rows += static_cast<int64_t>(sentence.target.size());
    lesson_.translated_rows +=
        std::ranges::count_if(sentence.translates, [](int32_t token) { return token >= 0; });
  }

  void finish() {
    for (size_t i = 0; i < sums_.size(); ++i) {
      HeadFigures& head = lesson_.heads[i];
      head.shares = means(sums_[i].shares);
      head.entropy = sums_[i].entropy.mean().value_or(0.0);
      head.evenness = sums_[i].evenness.mean().value_or(0.0);
      head.apart = sums_[i].apart.mean().value_or(0.0);
      lesson_.apart += head.apart / static_cast<double>(sums_.size());
    }
    for (size_t i = 0; i < lesson_.even.size(); ++i) lesson_.even[i] = means(even_[i]);
  }

 private:
  // All heads of one attention; `sums` begins with those of the first.
  void look(const Sentence& sentence, AttentionKind kind, const Attention& attention,
            std::span<HeadSums> sums) {
    constexpr int64_t kFirstRow = 2;  // before it, itself, previous and first are not three keys
    const TransformerConfig& config = model_.config();
    for (int64_t row = 0; row < attention.queries.shape()[0]; ++row) {
      std::vector<std::vector<double>> weights;  // by head
      for (int64_t i = 0; i < config.heads; ++i) {
        const TextbookHead head(attention, config, i);
        weights.push_back(head.weights(row));
        lesson_.compared += config.head_dim;
        lesson_.largest_share =
            std::max(lesson_.largest_share, head.share_of_bound(row, weights.back()));
      }
      if (kind != AttentionKind::cross && row < kFirstRow) continue;
      const int64_t first_key = attention.sees[static_cast<size_t>(row)].lo;
      for (size_t i = 0; i < weights.size(); ++i) {
        add_row(sums[i], even_[index(kind)], kind, sentence, row, first_key, weights[i]);
        for (size_t j = 0; j < weights.size(); ++j) {
          if (i != j) sums[i].apart.add(distance(weights[i], weights[j]));
        }
      }
    }
  }

  const Transformer& model_;
  const int32_t start_;
  HeadsLesson& lesson_;
  Session session_;
  std::map<std::pair<AttentionKind, int64_t>, size_t> first_;  // in lesson.heads
  std::vector<HeadSums> sums_;
  std::array<RelationSums, 3> even_{};
};

HeadQuality quality_of(const Transformer& model, const Tokenizer& tokenizer, const Corpus& corpus,
                       Session& session) {
  const Evaluation e = evaluate(model, tokenizer, corpus, {}, session);
  return {e.loss, e.exact, e.bleu};
}

// Switches off one head of the model after the other.
void switch_off(HeadsLesson& lesson, const Translator& translator, const Corpus& corpus,
                const HeadsOptions& options) {
  Transformer copy = translator.model().on(translator.model().placement());
  Session session(copy, options.threads);
  std::map<std::string, Tensor> parameters;
  for (const auto& [name, tensor, none] : copy.writable_parameters())
    parameters.emplace(name, tensor);
  const auto quality = [&] { return quality_of(copy, translator.tokenizer(), corpus, session); };
  const auto tell = [&](size_t done) {
    if (!options.switching) return;
    options.switching(static_cast<int64_t>(done), static_cast<int64_t>(lesson.heads.size()));
  };
  lesson.all_on = quality();
  const int64_t width = copy.config().head_dim;
  for (size_t i = 0; i < lesson.heads.size(); ++i) {
    HeadFigures& head = lesson.heads[i];
    tell(i);
    const Tensor weight = parameters.at(
        concat(head.kind == AttentionKind::encoder ? "encoder." : "decoder.", head.layer,
               head.kind == AttentionKind::cross ? ".cross_attention" : ".attention",
               ".output.weight"));  // [model, heads × head_dim]
    const std::vector<float> before(weight.data(), weight.data() + weight.size());
    for (int64_t row = 0; row < weight.rows(); ++row) {
      std::fill_n(weight.data() + row * weight.columns() + head.head * width, width, 0.0f);
    }
    session.reset();
    copy.weights_changed(session);
    head.without = quality();
    std::ranges::copy(before, weight.data());
  }
  tell(lesson.heads.size());
}

void learn_counts(HeadsLesson& lesson, const Phrasebook& phrasebook, const HeadsOptions& options) {
  const Corpus corpus = corpus_of(phrasebook.held_out);
  lesson.held_out = corpus.size();
  const int64_t all = std::ssize(options.counts) * options.seeds * options.updates;
  int64_t before = 0;
  for (const int64_t heads : options.counts) {
    HeadCount count{.heads = heads};
    for (int64_t run = 0; run < options.seeds; ++run, before += options.updates) {
      const Translator learnt =
          learn_phrasebook(phrasebook, {.updates = options.updates,
                                        .heads = heads,
                                        .seed = options.seed + static_cast<uint64_t>(run),
                                        .threads = options.threads,
                                        .progress = [&](int64_t update, double loss) {
                                          if (options.learning)
                                            options.learning(before + update, all, loss);
                                        }});
      Session session(learnt.model(), options.threads);
      count.head_dim = learnt.model().config().head_dim;
      count.runs.push_back(quality_of(learnt.model(), learnt.tokenizer(), corpus, session));
    }
    lesson.counts.push_back(std::move(count));
  }
}

}  // namespace

std::string_view HeadFigures::description() const {
  constexpr double kHalf = 0.5;
  size_t best = 0;
  for (size_t i = 1; i < kHeadRelations; ++i) {
    if (shares[i].value_or(0.0) > shares[best].value_or(0.0)) best = i;
  }
  if (shares[best].value_or(0.0) >= kHalf) return word_for(static_cast<HeadRelation>(best));
  return evenness >= kHalf ? "spread" : "varied";
}

HeadQuality HeadCount::mean() const {
  HeadQuality sum;
  const auto count = static_cast<double>(runs.size());
  for (const HeadQuality& run : runs) {
    sum.loss += run.loss / count;
    sum.exact += run.exact;
    sum.bleu += run.bleu / count;
  }
  sum.exact /= std::max<int64_t>(std::ssize(runs), 1);
  return sum;
}

bool HeadsLesson::improve() const {
  return !counts.empty() && counts.back().heads > counts.front().heads &&
         lower_loss == std::ssize(counts.back().runs) &&
         counts.back().mean().bleu > counts.front().mean().bleu;
}

HeadsLesson teach_heads(const Translator& translator, const Phrasebook& phrasebook,
                        const HeadsOptions& options) {
  const TransformerConfig& config = translator.model().config();
  require(!config.decoder_only(), ErrorCode::invalid_argument,
          "lesson heads: the model is decoder-only; a translator is needed");
  require(options.seeds >= 1, ErrorCode::invalid_argument, "lesson heads: ", options.seeds,
          " seeds; it needs at least 1");
  HeadsLesson lesson;
  const Tokenizer& tokenizer = translator.tokenizer();
  const Lexicon lexicon = lexicon_of(translator, phrasebook.train, options.threads);
  std::vector<PhrasePair> read;
  Looker looker(translator, lesson, options);
  for (const PhrasePair& phrase : phrasebook.held_out) {
    Sentence sentence{tokenizer.encode(phrase.english), tokenizer.encode(phrase.hindi)};
    sentence.source.push_back(tokenizer.end());
    for (const int32_t token : sentence.target) {
      sentence.translates.push_back(
          translated_by(lexicon, sentence.source, tokenizer.end(), token));
    }
    sentence.target.push_back(tokenizer.end());
    sentence.translates.push_back(-1);
    if (std::ssize(sentence.source) > config.max_length ||
        std::ssize(sentence.target) > config.max_length) {
      ++lesson.left_out;
      continue;
    }
    looker.look(sentence);
    read.push_back(phrase);
  }
  looker.finish();
  lesson.sentences = std::ssize(read);
  require(lesson.sentences > 0, ErrorCode::invalid_argument, "lesson heads: of ",
          phrasebook.held_out.size(), " sentences the model can read none");
  switch_off(lesson, translator, corpus_of(read), options);
  lesson.updates = options.updates;
  lesson.first_seed = options.seed;
  learn_counts(lesson, phrasebook, options);

  std::set<std::string_view> descriptions;
  for (size_t i = 0; i < lesson.heads.size(); ++i) {
    descriptions.insert(lesson.heads[i].description());
    if (lesson.cost(lesson.heads[i]) < lesson.cost(lesson.heads[lesson.least])) lesson.least = i;
    if (lesson.cost(lesson.heads[i]) > lesson.cost(lesson.heads[lesson.most])) lesson.most = i;
  }
  lesson.descriptions = static_cast<int64_t>(descriptions.size());
  if (!lesson.counts.empty()) {
    const auto& one = lesson.counts.front().runs;
    const auto& most = lesson.counts.back().runs;
    for (size_t i = 0; i < one.size(); ++i) {
      lesson.lower_loss += most[i].loss < one[i].loss ? 1 : 0;
      lesson.higher_bleu += most[i].bleu > one[i].bleu ? 1 : 0;
    }
  }
  lesson.holds = lesson.checked() && lesson.differ() && lesson.matter() &&
                 (lesson.counts.empty() || lesson.improve());
  return lesson;
}

}  // namespace tril
