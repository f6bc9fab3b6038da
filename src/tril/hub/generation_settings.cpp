#include "tril/hub/generation_settings.h"

#include <algorithm>

#include "tril/hub/foreign_config.h"
#include "tril/io/atomic_file.h"
#include "tril/models/folder.h"

namespace tril::hub {
namespace {

constexpr std::string_view kTheirFile = "generation_config.json";
constexpr int64_t kMostBytes = 64 << 20;
constexpr int64_t kMostCount = 1 << 20;
constexpr double kLeastNumber = 1e-9;  // of those that must be above 0
constexpr int64_t kTheirTopK = 50;     // of transformers, where a folder samples and names none

// Settings of generate() that tril has no rule for, and the values with which they change nothing.
constexpr std::pair<std::string_view, double> kNotTaken[] = {
    {"encoder_no_repeat_ngram_size", 0.0},
    {"encoder_repetition_penalty", 1.0},
    {"diversity_penalty", 0.0},
    {"num_beam_groups", 1.0},
    {"num_return_sequences", 1.0},
    {"penalty_alpha", 0.0},
    {"typical_p", 1.0},
    {"epsilon_cutoff", 0.0},
    {"eta_cutoff", 0.0},
    {"min_p", 0.0},
    {"top_h", 0.0},
    {"guidance_scale", 1.0},
    {"exponential_decay_length_penalty", 0.0},
    {"begin_suppress_tokens", -1.0},
    {"forced_decoder_ids", -1.0},
    {"sequence_bias", -1.0},
    {"constraints", -1.0},
    {"force_words_ids", -1.0},
    {"stop_strings", -1.0},
    {"max_time", 0.0},
    {"watermarking_config", -1.0},
    {"dola_layers", -1.0},
};

constexpr std::string_view kTaken[] = {
    "num_beams",
    "length_penalty",
    "early_stopping",
    "max_length",
    "max_new_tokens",
    "min_length",
    "min_new_tokens",
    "no_repeat_ngram_size",
    "repetition_penalty",
    "renormalize_logits",
    "bad_words_ids",
    "suppress_tokens",
    "forced_bos_token_id",
    "force_bos_token_to_be_generated",
    "forced_eos_token_id",
    "do_sample",
    "top_k",
    "top_p",
    "temperature",
};

class Conversion {
 public:
  Conversion(const std::string& text, const std::string& file, const GenerationFacts& facts)
      : fields_(text, file), object_(parse_json(text, file, kForeignJson)), facts_(facts) {}

  ImportedGeneration run() {
    made_.settings.special_tokens = SpecialTokens::allowed;
    take_beam();
    take_lengths();
    take_repetition();
    take_forbidden();
    take_forced_first();
    take_forced_end();
    take_sampling();
    std::string names;
    for (const auto& [name, neutral] : kNotTaken) {
      if (fields_.differs(name, neutral)) names += concat(names.empty() ? "" : ", ", name);
    }
    if (!names.empty()) tell("settings of generate() that tril does not have: ", names);
    return std::move(made_);
  }

 private:
  using Kind = JsonValue::Kind;

  template <class... Parts>
  void tell(const Parts&... parts) {
    made_.notices.push_back(concat(fields_.file(), ": ", parts...));
  }
  const JsonValue* find(std::string_view field) const {
    const JsonValue* value = object_.find(field);
    return value == nullptr || value->kind == Kind::null ? nullptr : value;
  }
  int64_t count(std::string_view field, int64_t otherwise) {
    return fields_.integer(field, 0, int64_t{1} << 30, otherwise);
  }
  int64_t last_token() const { return facts_.vocab - 1; }

  void take_beam() {
    SearchSettings& search = made_.settings.search;
    search.beam = fields_.integer("num_beams", 1, kMostCount, 1);
    search.length_penalty = fields_.number("length_penalty", -1e6, 1e6, 1.0);
    search.early_stopping = EarlyStopping::no;
    if (const JsonValue* early = find("early_stopping")) {
      const bool never = early->kind == Kind::string && early->text == "never";
      require(never || early->kind == Kind::boolean, ErrorCode::bad_format, fields_.file(),
              ": early_stopping: expected true, false or \"never\", got ", describe(*early));
      if (never) search.early_stopping = EarlyStopping::never;
      if (early->boolean) search.early_stopping = EarlyStopping::yes;
    }
    search.cut = CutHypotheses::ranked;
    search.rank_prefix = false;
  }

  // Their lengths count START, and a prompt.
  void take_lengths() {
    SearchSettings& search = made_.settings.search;
    const int64_t most = count("max_length", 0), least = count("min_length", 0);
    const int64_t most_new = count("max_new_tokens", 0), least_new = count("min_new_tokens", 0);
    if (most_new > 0) {
      search.max_tokens = most_new;
    } else if (most > 1 && !facts_.decoder_only) {
      search.max_tokens = most - 1;
    } else if (most > 0) {
      tell("max_length counts the prompt, so it is not taken over: the limit is the model's own");
    }
    if (search.max_tokens) search.max_ratio = 0.0;
    if (least_new > 0) {
      search.min_tokens = std::min(least_new, kMostCount);
    } else if (least > 1 && !facts_.decoder_only) {
      search.min_tokens = std::min(least - 1, kMostCount);
    } else if (least > 1) {
      tell("min_length counts the prompt, so it is not taken over");
    }
  }

  void take_repetition() {
    SearchSettings& search = made_.settings.search;
    const int64_t size = fields_.integer("no_repeat_ngram_size", 0, kMostCount, 0);
    const double penalty = fields_.number("repetition_penalty", kLeastNumber, 1e9, 1.0);
    if (size > 0) search.no_repeat_ngram = size;
    if (penalty != 1.0) search.repetition_penalty = penalty;
    if (fields_.flag("renormalize_logits", false)) search.renormalize = true;
  }

  // END alone is never forbidden.
  void forbid(std::vector<int32_t> sequence) {
    const std::vector<int32_t>& ends = facts_.ends;
    const bool is_end =
        sequence.size() == 1 && std::find(ends.begin(), ends.end(), sequence[0]) != ends.end();
    auto& all = made_.settings.forbidden;
    const bool known = std::find(all.begin(), all.end(), sequence) != all.end();
    if (!is_end && !known) all.push_back(std::move(sequence));
  }
  void take_forbidden() {
    if (const JsonValue* bad = find("bad_words_ids")) {
      const auto expect = [&](bool right, const JsonValue& got) {
        require(right, ErrorCode::bad_format, fields_.file(),
                ": bad_words_ids: expected lists of tokens from 0 to ", last_token(), ", got ",
                describe(got));
      };
      expect(bad->kind == Kind::array, *bad);
      for (const JsonValue& sequence : bad->items) {
        expect(sequence.kind == Kind::array && !sequence.items.empty(), sequence);
        std::vector<int32_t> tokens;
        for (const JsonValue& item : sequence.items) {
          expect(item.kind == Kind::integer && item.integer >= 0 && item.integer <= last_token(),
                 item);
          tokens.push_back(static_cast<int32_t>(item.integer));
        }
        forbid(std::move(tokens));
      }
    }
    for (const int64_t token : fields_.integers("suppress_tokens", 0, last_token())) {
      forbid({static_cast<int32_t>(token)});
    }
  }

  bool is_language(int32_t token) const {
    return std::any_of(facts_.languages.begin(), facts_.languages.end(),
                       [&](const Language& language) { return language.token == token; });
  }
  // A language that must come first is the one to write where a caller names none.
  void take_forced_first() {
    std::vector<int64_t> given = fields_.integers("forced_bos_token_id", 0, last_token());
    // How folders of BART said it before there was a generation_config.json.
    if (given.empty() && fields_.flag("force_bos_token_to_be_generated", false)) {
      given = fields_.integers("bos_token_id", 0, last_token());
    }
    // mBART-25's START is the language to write.
    if (given.empty() && !facts_.languages.empty()) {
      given = fields_.integers("decoder_start_token_id", 0, last_token());
      if (!given.empty() && !is_language(static_cast<int32_t>(given.front()))) return;
    }
    if (given.empty()) return;
    const auto token = static_cast<int32_t>(given.front());
    for (const Language& language : facts_.languages) {
      if (language.token != token) continue;
      made_.settings.to_language = language.code;
      return;
    }
    if (facts_.forced_first.empty()) {
      made_.settings.forced_first = {token};
    } else if (facts_.forced_first.front() != token) {
      tell("forced_bos_token_id is ", token, ", but texts of this tokenizer begin with ",
           facts_.forced_first.front(), ", which tril forces");
    }
  }

  void take_forced_end() {
    const std::vector<int64_t> given = fields_.integers("forced_eos_token_id", 0, last_token());
    if (given.empty()) return;
    const auto token = static_cast<int32_t>(given.front());
    if (std::find(facts_.ends.begin(), facts_.ends.end(), token) == facts_.ends.end()) {
      tell("forced_eos_token_id is ", token, ", which does not end a text: not taken over");
      return;
    }
    made_.settings.forced_end = token;
    if (given.size() > 1) tell("of forced_eos_token_id only the first is taken over");
  }

  void take_sampling() {
    SearchSettings& search = made_.settings.search;
    const bool samples = fields_.flag("do_sample", false);
    if (samples && *search.beam > 1) {
      tell("do_sample with ", *search.beam, " beams: tril searches, without sampling");
    } else if (samples) {
      search.sample = true;
    }
    const int64_t top_k = count("top_k", samples ? kTheirTopK : 0);
    const double top_p = fields_.number("top_p", 0.0, 1.0, 1.0);
    const double temperature = fields_.number("temperature", 0.0, 1e6, 1.0);
    if (top_k > 0) search.top_k = top_k;
    // Folders that do not sample may name 0, which means nothing.
    if (top_p >= kLeastNumber && top_p < 1.0) search.top_p = top_p;
    if (temperature >= kLeastNumber && temperature != 1.0) search.temperature = temperature;
  }

  ForeignConfig fields_;
  JsonValue object_;
  const GenerationFacts& facts_;
  ImportedGeneration made_;
};

}  // namespace

std::vector<std::string_view> generation_fields() {
  std::vector<std::string_view> fields(std::begin(kTaken), std::end(kTaken));
  for (const auto& [name, neutral] : kNotTaken) fields.push_back(name);
  return fields;
}

ImportedGeneration generation_settings(const std::string& text, const std::string& file,
                                       const GenerationFacts& facts) {
  return Conversion(text, file, facts).run();
}

ImportedGeneration read_generation_settings(const std::string& folder, const Tokenizer& tokenizer,
                                            const TransformerConfig& config) {
  std::string file = path_in(folder, kTheirFile);
  if (!file_exists(file)) file = path_in(folder, kConfigFile);
  GenerationFacts facts{.vocab = config.target_vocab,
                        .decoder_only = config.decoder_only(),
                        .ends = tokenizer.ends(),
                        .languages = tokenizer.languages()};
  if (facts.languages.empty()) facts.forced_first = tokenizer.target_prefix();
  return generation_settings(read_file(file, kMostBytes), file, facts);
}

}  // namespace tril::hub
