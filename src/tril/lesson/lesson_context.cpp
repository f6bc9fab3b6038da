#include "tril/lesson/lesson_context.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <optional>

#include "tril/decode/search.h"
#include "tril/lesson/word_list.h"
#include "tril/models/observer.h"
#include "tril/models/session_state.h"
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
  // Norms after the sub-layers and much dropout: then a word's neighbours weigh more in its vector,
  // and the decoder can rely less on reading the neighbours themselves. How this was chosen, and
  // how often it works: docs/design/lesson.md.
  config.norm_position = NormPosition::post;
  config.max_length = 32;
  config.dropout = 0.25;
  return config.completed();
}

// Keeps the row of "bank" of each sentence, layer by layer.
class BankObserver : public Observer {
 public:
  explicit BankObserver(Stack stack) : stack_(stack) {}
  void see(const Observation& seen) override {
    const bool embedded = seen.site == Site::embedded;
    if (seen.stack != stack_ || (!embedded && seen.site != Site::block_output)) return;
    std::vector<std::vector<float>> rows;
    for (const int64_t row : bank_rows) {
      const float* begin = seen.tensor.data() + row * seen.tensor.columns();
      rows.emplace_back(begin, begin + seen.tensor.columns());
    }
    layers.push_back(std::move(rows));
  }
  std::vector<int64_t> bank_rows;
  std::vector<std::vector<std::vector<float>>> layers;  // [layer][sentence]

 private:
  Stack stack_;
};

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

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

// Means over the pairs of one meaning and of two.
struct Means {
  Apart same, other;
};
Means mean_apart(const std::vector<std::vector<float>>& banks,
                 const std::vector<BankSentence>& sentences) {
  Means sum;
  double same = 0.0, other = 0.0;
  for (size_t i = 0; i < banks.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      const Apart one = apart(banks[i], banks[j]);
      const bool is_same = sentences[i].sense == sentences[j].sense;
      Apart& to = is_same ? sum.same : sum.other;
      to.cosine += one.cosine;
      to.distance += one.distance;
      (is_same ? same : other) += 1.0;
    }
  }
  return {{sum.same.cosine / same, sum.same.distance / same},
          {sum.other.cosine / other, sum.other.distance / other}};
}

ContextLayer compare_layer(int64_t number, const std::vector<std::vector<float>>& banks,
                           const std::vector<BankSentence>& sentences) {
  ContextLayer layer;
  layer.layer = number;
  // In the order of the sentences: river, lake, sea, pond, money, savings, gold, loan.
  layer.river_money = apart(banks[0], banks[4]);
  layer.river_lake = apart(banks[0], banks[1]);
  layer.money_savings = apart(banks[4], banks[5]);
  const Means means = mean_apart(banks, sentences);
  layer.same_sense = means.same;
  layer.other_sense = means.other;
  for (size_t i = 0; i < banks.size(); ++i) {
    double nearest[2] = {INFINITY, INFINITY};  // of another sense, of the same
    for (size_t j = 0; j < banks.size(); ++j) {
      if (i == j) continue;
      double& least = nearest[sentences[i].sense == sentences[j].sense ? 1 : 0];
      least = std::min(least, apart(banks[i], banks[j]).distance);
    }
    if (nearest[1] < nearest[0]) ++layer.nearest_is_same;
  }
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

// The sentences as rows; records the rows of "bank".
Rows rows_of(const WordList& words, const std::vector<BankSentence>& sentences,
             BankObserver& observer) {
  Rows source;
  for (size_t i = 0; i < sentences.size(); ++i) {
    observer.bank_rows.push_back(source.size() + kBankPosition);
    source.add_sequence(source_of(words, sentences[i].english), {.slot = static_cast<int32_t>(i)});
  }
  return source;
}

// [layer][sentence], layer 0 being the input.
std::vector<std::vector<std::vector<float>>> look_at_encoder(
    const Transformer& model, const WordList& words, const std::vector<BankSentence>& sentences,
    Session& session) {
  BankObserver observer(Stack::encoder);
  const Rows source = rows_of(words, sentences, observer);
  session.reset();
  session->observer = &observer;
  model.encode(source, session);
  session->observer = nullptr;
  return std::move(observer.layers);
}

// The encoder's weights as the layers of a decoder: the same function apart from the mask.
Transformer as_decoder(const Transformer& model, Session& session) {
  TransformerConfig config = model.config();
  config.decoder_layers = config.encoder_layers;
  config.encoder_layers = 0;
  config.source_vocab = 0;
  Transformer twin(config, 1);
  std::map<std::string, ConstTensor> from;
  for (const auto& [name, tensor] : model.parameters()) from.emplace(name, tensor);
  for (const auto& [name, tensor, none] : twin.writable_parameters()) {
    std::string other = name;
    if (other.starts_with("decoder.")) other.replace(0, 7, "encoder");
    if (other == "target_embedding.weight") other = "source_embedding.weight";
    const auto found = from.find(other);
    if (found == from.end() || found->second.shape() != tensor.shape()) continue;
    copy_into(found->second, tensor);
  }
  twin.weights_changed(session);
  return twin;
}

void look_at_later_words(ContextLesson& lesson, const Transformer& model, const WordList& words,
                         Session& session) {
  const auto open = look_at_encoder(model, words, lesson.told_later, session).back();
  const Means means = mean_apart(open, lesson.told_later);
  lesson.later_same = means.same;
  lesson.later_other = means.other;

  session.reset();
  const Transformer twin = as_decoder(model, session);
  Session own(twin, session->parallel.threads());
  const auto run = [&](Masking masking) {
    BankObserver observer(Stack::decoder);
    const Rows rows = rows_of(words, lesson.told_later, observer);
    own.reset();
    own->masking = masking;
    own->observer = &observer;
    {
      Tape tape(own);
      twin.forward(rows, {}, own);
    }
    own->observer = nullptr;
    return std::move(observer.layers.back());
  };
  lesson.twin_is_encoder = std::ranges::equal(run(Masking::none), open, same_bits);
  const auto differing = [](const std::vector<std::vector<float>>& banks) {
    return std::ranges::count_if(banks,
                                 [&](const auto& bank) { return !same_bits(bank, banks.front()); });
  };
  lesson.later_differ = differing(open);
  lesson.differ_under_mask = differing(run(Masking::causal));
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
  const auto layers = look_at_encoder(model, words, lesson.sentences, session);
  for (size_t layer = 0; layer < layers.size(); ++layer) {
    lesson.layers.push_back(
        compare_layer(static_cast<int64_t>(layer), layers[layer], lesson.sentences));
  }
  lesson.equal_at_first = std::ranges::all_of(
      layers.front(), [&](const auto& bank) { return same_bits(bank, layers.front().front()); });
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
  look_at_later_words(lesson, model, words, session);
  for (const auto* shown : {&lesson.sentences, &lesson.told_later}) {
    for (const BankSentence& sentence : *shown) {
      lesson.learnt += std::ranges::count(text.train, sentence.english, &BankSentence::english);
    }
  }
  const ContextLayer& last = lesson.layers.back();
  lesson.holds = lesson.learnt == 0 && lesson.twin_is_encoder && lesson.differ_under_mask == 0 &&
                 lesson.later_differ + 1 == static_cast<int64_t>(lesson.told_later.size()) &&
                 lesson.equal_at_first && last.other_sense.distance > last.same_sense.distance &&
                 last.river_money.distance > last.same_sense.distance;
  for (size_t i = 0; i < lesson.sentences.size(); ++i) {
    lesson.holds =
        lesson.holds && has_right_word(lesson.translations[i], lesson.sentences[i].sense);
  }
  return lesson;
}

}  // namespace tril
