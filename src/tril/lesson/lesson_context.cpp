#include "tril/lesson/lesson_context.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>

#include "tril/decode/search.h"
#include "tril/lesson/word_list.h"
#include "tril/text/unicode.h"
#include "tril/train/learn.h"

namespace tril {
namespace {

constexpr int64_t kEncoderLayers = 3;
constexpr int32_t kBankPosition = 2;  // the river BANK is near

std::vector<int32_t> source_of(const WordList& words, const std::string& english) {
  std::vector<int32_t> source = words.encode(english);
  source.push_back(WordList::kEnd);
  return source;
}

TransformerConfig config_for(const WordList& words) {
  TransformerConfig config;
  config.source_vocab = config.target_vocab = words.size();
  config.model = 64;
  config.heads = 4;
  config.feed_forward = 128;
  config.encoder_layers = kEncoderLayers;
  config.decoder_layers = 1;
  // Norms behind the sub-layers and much dropout: what a word's neighbours say then weighs more in
  // its vector, and the decoder can rely less on reading the neighbours themselves. How this was
  // chosen, and how often it works: docs/design/lesson.md.
  config.norm_position = NormPosition::post;
  config.max_length = 32;
  config.dropout = 0.25;
  return config.completed();
}

// Keeps the row of "bank" of each sentence, layer after layer.
class BankObserver : public Observer {
 public:
  void see(const Observation& seen) override {
    const bool embedded = seen.site == Site::embedded;
    if (seen.stack != Stack::encoder || (!embedded && seen.site != Site::block_output)) return;
    std::vector<std::vector<float>> rows;
    for (const int64_t row : bank_rows) {
      const float* begin = seen.tensor.data() + row * seen.tensor.columns();
      rows.emplace_back(begin, begin + seen.tensor.columns());
    }
    layers.push_back(std::move(rows));
  }
  std::vector<int64_t> bank_rows;
  std::vector<std::vector<std::vector<float>>> layers;  // [layer][sentence]
};

Apart apart(const std::vector<float>& a, const std::vector<float>& b) {
  double product = 0.0, length_a = 0.0, length_b = 0.0, squares = 0.0;
  for (size_t i = 0; i < a.size(); ++i) {
    const auto x = static_cast<double>(a[i]);
    const auto y = static_cast<double>(b[i]);
    product += x * y;
    length_a += x * x;
    length_b += y * y;
    squares += (x - y) * (x - y);
  }
  return {product / (std::sqrt(length_a) * std::sqrt(length_b)), std::sqrt(squares)};
}

ContextLayer compare_layer(int64_t number, const std::vector<std::vector<float>>& banks,
                           const std::vector<BankSentence>& sentences) {
  ContextLayer layer;
  layer.layer = number;
  // In the order of the sentences: river, lake, sea, pond, money, savings, gold, loan.
  layer.river_money = apart(banks[0], banks[4]);
  layer.river_lake = apart(banks[0], banks[1]);
  layer.money_savings = apart(banks[4], banks[5]);
  const auto add = [](Apart& sum, const Apart& one) {
    sum.cosine += one.cosine;
    sum.distance += one.distance;
  };
  double same = 0.0, other = 0.0;
  for (size_t i = 0; i < banks.size(); ++i) {
    double nearest[2] = {INFINITY, INFINITY};  // of another sense, of the same
    for (size_t j = 0; j < banks.size(); ++j) {
      if (i == j) continue;
      const Apart one = apart(banks[i], banks[j]);
      const bool is_same = sentences[i].sense == sentences[j].sense;
      nearest[is_same ? 1 : 0] = std::min(nearest[is_same ? 1 : 0], one.distance);
      add(is_same ? layer.same_sense : layer.other_sense, one);
      (is_same ? same : other) += 1.0;
    }
    if (nearest[1] < nearest[0]) ++layer.nearest_is_same;
  }
  layer.same_sense = {layer.same_sense.cosine / same, layer.same_sense.distance / same};
  layer.other_sense = {layer.other_sense.cosine / other, layer.other_sense.distance / other};
  return layer;
}

// Greedy, token by token.
std::vector<std::string> translate(const Transformer& model, const WordList& words,
                                   const std::vector<BankSentence>& sentences, Session& session) {
  std::vector<std::string> result(sentences.size());
  const SearchOptions greedy{{}, WordList::kStart, WordList::kEnd, {WordList::kStart}};
  size_t next = 0;
  search(
      model, greedy, 64,
      [&]() -> std::optional<SearchRequest> {
        if (next == sentences.size()) return std::nullopt;
        SearchRequest request{
            static_cast<int64_t>(next), source_of(words, sentences[next].english), {}};
        ++next;
        return request;
      },
      [&](SearchResult&& done) {
        result[static_cast<size_t>(done.number)] = words.decode(done.hypotheses.front().tokens);
        return true;
      },
      session);
  return result;
}

// Whether a translation has a word for this kind of bank, and none for the other.
bool has_right_word(const std::string& translation, BankSense sense) {
  bool water = false, money = false;
  for (const std::string_view word : split_words(translation)) {
    water = water || word == "किनारा" || word == "किनारे";
    money = money || word == "बैंक";
  }
  return sense == BankSense::water ? water && !money : money && !water;
}

void look_at_layers(ContextLesson& lesson, const Transformer& model, const WordList& words,
                    Session& session) {
  Rows source;
  BankObserver observer;
  for (size_t i = 0; i < lesson.sentences.size(); ++i) {
    observer.bank_rows.push_back(source.size() + kBankPosition);
    source.add_sequence(source_of(words, lesson.sentences[i].english),
                        {.slot = static_cast<int32_t>(i)});
  }
  session.reset();
  session.observer = &observer;
  model.encode(source, session);
  session.observer = nullptr;
  for (size_t layer = 0; layer < observer.layers.size(); ++layer) {
    lesson.layers.push_back(
        compare_layer(static_cast<int64_t>(layer), observer.layers[layer], lesson.sentences));
  }
  lesson.equal_at_first = std::ranges::all_of(observer.layers.front(), [&](const auto& bank) {
    const auto& first = observer.layers.front().front();
    return std::memcmp(bank.data(), first.data(), first.size() * sizeof(float)) == 0;
  });
}

}  // namespace

ContextLesson teach_context(const ContextOptions& options) {
  const BankSentences text = make_bank_sentences();
  WordList words;
  for (const auto* part : {&text.train, &text.held_out}) {
    for (const BankSentence& sentence : *part) {
      words.add(sentence.english);
      words.add(sentence.hindi);
    }
  }
  std::vector<LearnPair> pairs;
  for (const BankSentence& sentence : text.train) {
    LearnPair pair{source_of(words, sentence.english), words.encode(sentence.hindi)};
    pair.target.push_back(WordList::kEnd);
    pairs.push_back(std::move(pair));
  }
  Transformer model(config_for(words), options.seed);
  Session session(model, options.threads);
  constexpr int64_t kBatchTokens = 256;
  PairBatches batches(pairs, WordList::kStart, kBatchTokens, options.seed);

  ContextLesson lesson;
  lesson.pairs = static_cast<int64_t>(pairs.size());
  lesson.updates = options.updates;
  lesson.sentences = text.near;
  lesson.loss = learn(
      model, [&](Batch& batch) { batches.next(batch); },
      {.updates = options.updates,
       .average = {.type = AverageType::exponential, .decay = 0.98},
       .seed = options.seed,
       .progress = options.progress},
      session);
  look_at_layers(lesson, model, words, session);
  lesson.translations = translate(model, words, text.near, session);

  const auto held_out = translate(model, words, text.held_out, session);
  lesson.held_out = static_cast<int64_t>(held_out.size());
  for (size_t i = 0; i < held_out.size(); ++i) {
    const BankSentence& sentence = text.held_out[i];
    if (held_out[i] == sentence.hindi) ++lesson.exact;
    if (has_right_word(held_out[i], sentence.sense)) ++lesson.right_word;
    if (sentence.english.starts_with("at the bank there is")) {
      lesson.told_later.push_back(sentence);
      lesson.told_later_translations.push_back(held_out[i]);
    }
  }
  const ContextLayer& last = lesson.layers.back();
  lesson.holds = lesson.equal_at_first && last.other_sense.distance > last.same_sense.distance &&
                 last.river_money.distance > last.same_sense.distance;
  for (size_t i = 0; i < lesson.sentences.size(); ++i) {
    lesson.holds =
        lesson.holds && has_right_word(lesson.translations[i], lesson.sentences[i].sense);
  }
  return lesson;
}

}  // namespace tril
