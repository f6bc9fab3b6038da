#include "tril/lesson/demo.h"

#include "tril/text/bleu.h"

namespace tril {

TrainOptions demo_options() {
  TrainOptions options;
  options.tokenizer.vocab = 2000;  // nearly every word is one piece
  options.model.model = 128;
  options.model.heads = 4;
  options.model.feed_forward = 256;
  options.model.encoder_layers = options.model.decoder_layers = 2;
  options.model.norm_position = NormPosition::pre;
  options.model.dropout = 0.1;
  options.model.max_length = 128;
  options.max_tokens = 64;
  options.bpe_dropout = 0.0;
  options.updates = 1000;
  options.batch_tokens = options.micro_batch_tokens = 512;
  options.schedule = {.type = ScheduleType::cosine, .peak = 6e-3, .warm_up = 150};
  options.average = {.type = AverageType::exponential, .decay = 0.99};
  options.log_every = 20;
  options.evaluate_every = options.updates;  // evaluate only at the end
  return options;
}

Corpus corpus_of(const std::vector<PhrasePair>& phrases) {
  std::vector<std::pair<std::string, std::string>> pairs;
  pairs.reserve(phrases.size());
  for (const PhrasePair& phrase : phrases) pairs.emplace_back(phrase.english, phrase.hindi);
  return Corpus::of(pairs);
}

HeldOutScore score_held_out(const Translator& translator, const Phrasebook& phrasebook) {
  std::vector<std::string> lines;
  for (const PhrasePair& phrase : phrasebook.held_out) lines.push_back(phrase.english);
  const auto translations = translator.translate(lines);
  HeldOutScore score{.all = static_cast<int64_t>(lines.size())};
  BleuStatistics statistics;
  for (size_t i = 0; i < lines.size(); ++i) {
    const std::string& expected = phrasebook.held_out[i].hindi;
    statistics.add(translations[i].text(), expected);
    if (translations[i].text() == expected) ++score.exact;
  }
  score.bleu = bleu(statistics).score;
  return score;
}

std::vector<PhrasePair> lesson_sentences() {
  return {{"How are you?", "आप कैसे हैं"},
          {"Congratulations", "बधाई हो"},
          {"Thank you", "धन्यवाद"},
          {"I am fine", "मैं ठीक हूँ"}};
}

}  // namespace tril
