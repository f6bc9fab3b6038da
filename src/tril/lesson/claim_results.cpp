#include "tril/lesson/claim_results.h"

#include "tril/lesson/demo.h"
#include "tril/lesson/learn_phrasebook.h"
#include "tril/models/session_state.h"
#include "tril/prove/proof.h"

namespace tril {
namespace {

constexpr int64_t kUpdates = 400;  // of the small translator

// Runs `make` on the first call.
template <class T, class F>
const T& once(std::optional<T>& kept, const F& make) {
  if (!kept) kept.emplace(make());
  return *kept;
}

// Records the order in which the parts of the decoder's layers are computed.
class SublayerObserver : public Observer {
 public:
  explicit SublayerObserver(int64_t layers) : layers_(static_cast<size_t>(layers)) {}

  void see(const Observation& seen) override {
    if (seen.stack != Stack::decoder || seen.layer < 0) return;
    auto& parts = layers_[static_cast<size_t>(seen.layer)];
    if (seen.site == Site::query) parts.emplace_back("masked self-attention");
    if (seen.site == Site::cross_query) parts.emplace_back("cross-attention");
    if (seen.site == Site::feed_forward_hidden) parts.emplace_back("feed-forward");
  }
  std::vector<std::vector<std::string>> layers() const { return layers_; }

 private:
  std::vector<std::vector<std::string>> layers_;
};

std::vector<TokenPair> pairs_of(const std::vector<PhrasePair>& phrases,
                                const Tokenizer& tokenizer) {
  std::vector<TokenPair> pairs;
  for (const PhrasePair& phrase : phrases) {
    TokenPair pair{.source = tokenizer.encode(phrase.english),
                   .target = {tokenizer.start()},
                   .next = tokenizer.end()};
    pair.source.push_back(tokenizer.end());
    const std::vector<int32_t> target = tokenizer.encode(phrase.hindi);
    pair.target.insert(pair.target.end(), target.begin(), target.end());
    pairs.push_back(std::move(pair));
  }
  return pairs;
}

}  // namespace

ClaimLab::ClaimLab(const ClaimLabOptions& options, std::optional<Translator> translator)
    : results_(std::make_unique<Results>(options, std::move(translator))) {}
ClaimLab::~ClaimLab() = default;

const Phrasebook& ClaimLab::Results::phrasebook() {
  return once(phrasebook_, [] { return make_phrasebook(); });
}

const Translator& ClaimLab::Results::translator() {
  return once(translator_, [&] {
    return learn_phrasebook(phrasebook(), {.updates = kUpdates,
                                           .seed = options.seed,
                                           .threads = options.threads,
                                           .progress = [&](int64_t update, double) {
                                             tell("training a small translator", update, kUpdates);
                                           }});
  });
}

const AttentionLesson& ClaimLab::Results::attention() {
  return once(attention_, [&] { return teach_attention(options.hooks); });
}

const MaskLesson& ClaimLab::Results::masks() {
  return once(masks_, [&] { return teach_masks(options.hooks); });
}

const ContextLesson& ClaimLab::Results::context() {
  return once(context_, [&] {
    ContextOptions lesson{.seed = options.seed, .threads = options.threads};
    lesson.progress = [&](int64_t update, double) {
      tell("running lesson context", update, lesson.updates);
    };
    return teach_context(lesson);
  });
}

const SeriesLesson& ClaimLab::Results::series() {
  return once(series_, [&] {
    SeriesOptions lesson{.seed = options.seed, .threads = options.threads};
    lesson.progress = [&](Masking masking, int64_t update, double) {
      tell("running lesson series", update + (masking == Masking::none ? lesson.updates : 0),
           2 * lesson.updates);
    };
    return teach_series(lesson);
  });
}

const TeacherLesson& ClaimLab::Results::teacher() {
  return once(teacher_, [&] {
    tell("running lesson teacher-forcing");
    return teach_teacher_forcing(translator(), phrasebook().held_out, options.threads);
  });
}

const LeakageLesson& ClaimLab::Results::leakage() {
  return once(leakage_, [&] {
    LeakageOptions lesson{.seed = options.seed, .threads = options.threads};
    lesson.progress = [&](Masking masking, int64_t update, double) {
      tell("running lesson leakage", update + (masking == Masking::none ? lesson.updates : 0),
           2 * lesson.updates);
    };
    return teach_leakage(lesson);
  });
}

const SequentialLesson& ClaimLab::Results::sequential() {
  return once(sequential_, [&] {
    SequentialLessonOptions lesson{.threads = options.threads, .hooks = options.hooks};
    lesson.progress = [&](const SequentialRow&, int64_t done, int64_t all) {
      tell("running lesson sequential", done, all);
    };
    return teach_sequential(lesson);
  });
}

const ScaleLesson& ClaimLab::Results::scale() {
  return once(scale_, [&] {
    tell("running lesson scale");
    return teach_scale();
  });
}

const WorkLesson& ClaimLab::Results::work() {
  return once(work_, [&] {
    WorkOptions lesson{.threads = options.threads, .peak_gflops = options.peak_gflops};
    lesson.progress = [&](int64_t, int64_t done, int64_t all) {
      tell("running lesson work", done, all);
    };
    return teach_work(lesson);
  });
}

const DecodingLesson& ClaimLab::Results::decoding() {
  return once(decoding_, [&] {
    const Translator& model = translator();
    std::vector<std::string> lines;
    for (const PhrasePair& phrase : phrasebook().train) lines.push_back(phrase.hindi);
    tell("running lesson decoding");
    return teach_decoding(
        model, phrasebook().held_out, lines,
        {.threads = options.threads, .hooks = options.hooks, .mask = options.masking});
  });
}

const ForcingLesson& ClaimLab::Results::forcing() {
  return once(forcing_, [&] {
    ForcingOptions lesson{.seed = options.seed, .threads = options.threads, .hooks = options.hooks};
    lesson.progress = [&](Feeding feeding, Masking masking, int64_t update, double) {
      const int64_t before = (feeding == Feeding::own ? 2 : 0) + (masking == Masking::none ? 1 : 0);
      tell("running lesson forcing", before * lesson.updates + update, 4 * lesson.updates);
    };
    return teach_forcing(lesson);
  });
}

const HeadsLesson& ClaimLab::Results::heads() {
  return once(heads_, [&] {
    HeadsOptions lesson{.seed = options.seed, .threads = options.threads, .hooks = options.hooks};
    lesson.switching = [&](int64_t head, int64_t heads) {
      tell("running lesson heads: switching heads off", head, heads);
    };
    lesson.learning = [&](int64_t update, int64_t updates, double) {
      tell("running lesson heads: learning with 1, 2, 4 and 8 heads", update, updates);
    };
    return teach_heads(translator(), phrasebook(), lesson);
  });
}

const TasksLesson& ClaimLab::Results::tasks() {
  return once(tasks_, [&] {
    TasksOptions lesson{.seed = options.seed, .threads = options.threads, .hooks = options.hooks};
    lesson.progress = [&](int64_t update, int64_t updates, double) {
      tell("running lesson tasks", update, updates);
    };
    return teach_tasks(lesson);
  });
}

const ProofReport& ClaimLab::Results::proof() {
  return once(proof_, [&] {
    const Tokenizer& tokenizer = translator().tokenizer();
    return prove_in_full(translator().model(), pairs_of(lesson_sentences(), tokenizer),
                         {.threads = options.threads,
                          .masking = options.masking,
                          .end = tokenizer.end(),
                          .forbidden = tokenizer.unwritable(),
                          .sequential = {{1, 4}, {1, 16}},
                          // The claims ask whether the proof holds, not for how many lengths.
                          .every_length = 2,
                          .one_length = 8,
                          .progress = options.progress},
                         options.hooks);
  });
}

const std::vector<std::vector<std::string>>& ClaimLab::Results::sublayers() {
  return once(sublayers_, [&] {
    const Transformer& model = translator().model();
    Session session(model, options.threads);
    SublayerObserver observer(model.config().decoder_layers);
    session->observer = &observer;
    const auto pairs = pairs_of(lesson_sentences(), translator().tokenizer());
    Tape tape(session);
    const Memory memory = encode_pairs(model, std::span(pairs).first(1), session);
    Rows rows;
    rows.add_sequence(pairs.front().target, {.slot = 0, .segment = 0});
    model.forward(rows, memory, session);
    return observer.layers();
  });
}

}  // namespace tril
