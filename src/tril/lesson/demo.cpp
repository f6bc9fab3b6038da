#include "tril/lesson/demo.h"

namespace tril {

TrainOptions demo_options() {
  TrainOptions options;
  options.tokenizer.vocab = 1000;
  options.model.model = 128;
  options.model.heads = 4;
  options.model.feed_forward = 256;
  options.model.encoder_layers = 2;
  options.model.decoder_layers = 2;
  options.model.norm_position = NormPosition::pre;
  options.model.dropout = 0.1;
  options.model.max_length = 128;
  options.max_tokens = 64;
  options.updates = 600;
  options.batch_tokens = 1536;
  options.micro_batch_tokens = 1536;
  options.schedule = {.type = ScheduleType::cosine, .peak = 4e-3, .warm_up = 60};
  options.average.decay = 0.98;
  options.log_every = 20;
  options.evaluate_every = 600;
  return options;
}

std::vector<PhrasePair> lesson_sentences() {
  return {{"How are you?", "आप कैसे हैं"},
          {"Congratulations", "बधाई हो"},
          {"Thank you", "धन्यवाद"},
          {"I am fine", "मैं ठीक हूँ"}};
}

}  // namespace tril
