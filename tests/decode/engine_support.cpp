#include "engine_support.h"

#include <algorithm>
#include <cmath>

#include "tril/decode/ahead_backend.h"
#include "tril/models/session_state.h"

namespace tril::testing {

Transformer poisoned_model(Family family, uint64_t seed) {
  TransformerConfig config = tiny_config(family);
  config.target_vocab = 9;
  config.tied = false;
  if (family == Family::encoder_decoder) config.source_vocab = 9;
  config.max_length = 64;
  Transformer model(config, seed, placement());
  Random random(seed, 777);
  change_weights(model,
                 [&](const std::string& name, std::vector<float>& values, const Shape& shape) {
                   for (float& value : values) value += random.uniform(-0.5f, 0.5f);
                   if (name != "source_embedding.weight") return;
                   std::fill_n(values.begin() + kPoison * shape[1], shape[1], NAN);
                 });
  return model;
}

RequestEvents listening_to(Told& told, bool streams) {
  RequestEvents events;
  events.done = [&told](RequestOutcome&& outcome) {
    EXPECT_FALSE(told.outcome) << "told twice";
    told.outcome = std::move(outcome);
  };
  if (streams) {
    events.tokens = [&told](const StreamedTokens& news) {
      EXPECT_FALSE(told.outcome) << "tokens after the end";
      told.stream.emplace_back(news.sample, Tokens(news.tokens.begin(), news.tokens.end()));
      told.stream_log_probs.emplace_back(news.log_probs.begin(), news.log_probs.end());
    };
  }
  return events;
}

int64_t width_of_asked(const Asked& asked) {
  return asked.options->sample ? asked.options->n_best : asked.options->beam;
}

Told alone(const Transformer& model, const Asked& asked) {
  Told told;
  Session session(model, 1);
  Engine engine(model, {.slots = width_of_asked(asked)}, session);
  engine.submit(asked.request, asked.options, listening_to(told, asked.streams));
  while (engine.step()) {
  }
  return told;
}

bool holds_nothing(Session& session) {
  const auto kept = std::static_pointer_cast<KeptForEngine>(session->kept_for_engine);
  for (int32_t segment = 0; segment < 1000; ++segment) {
    if (kept->encoded.memory().holds(segment)) return false;
  }
  return session->cache.block_count() == 0;
}

bool stream_is_whole(const Told& told, const SearchOptions& options) {
  const auto& results = told.outcome->hypotheses;
  const size_t samples = options.sample ? results.size() : 1;
  for (size_t sample = 0; sample < samples; ++sample) {
    Tokens joined;
    std::vector<float> log_probs;
    for (size_t i = 0; i < told.stream.size(); ++i) {
      if (told.stream[i].first != static_cast<int64_t>(sample)) continue;
      const Tokens& tokens = told.stream[i].second;
      joined.insert(joined.end(), tokens.begin(), tokens.end());
      log_probs.insert(log_probs.end(), told.stream_log_probs[i].begin(),
                       told.stream_log_probs[i].end());
    }
    if (joined != results[sample].tokens) return false;
    if (!equal_bits(log_probs, results[sample].log_probs)) return false;
  }
  return true;
}

std::shared_ptr<const SearchOptions> long_greedy() {
  auto options = std::make_shared<SearchOptions>(small_options());
  options->forbidden = {0, options->end};  // nothing ends before its limit
  options->max_tokens = 40;
  options->max_ratio = 0.0;
  return options;
}

}  // namespace tril::testing
