#include "tril/lesson/lesson_tasks.h"

#include <algorithm>

#include "tril/decode/search.h"
#include "tril/lesson/word_list.h"
#include "tril/models/session_state.h"
#include "tril/text/unicode.h"
#include "tril/train/learn.h"

namespace tril {
namespace {

constexpr int64_t kTaskBatchTokens = 512;
constexpr size_t kShown = 3;

using Tokens = std::vector<int32_t>;

struct Task {
  std::string name;
  TaskSentences text;
  bool decoder_only = false;
};

std::vector<Task> tasks() {
  return {{"translation", make_translation_task()},
          {"summary", make_summary_task()},
          {"chat", make_chat_task(), /*decoder_only=*/true}};
}

TransformerConfig config_for(const WordList& words, bool decoder_only) {
  TransformerConfig config;
  config.source_vocab = decoder_only ? 0 : words.size();
  config.target_vocab = words.size();
  config.model = 64;
  config.heads = 4;
  config.feed_forward = 128;
  config.encoder_layers = decoder_only ? 0 : 2;
  config.decoder_layers = 2;
  config.norm_position = NormPosition::pre;
  config.max_length = 48;
  return config.completed();
}

// Records which rows of the decoder's masked self-attention see themselves and all before them.
class CausalRowsObserver : public Observer {
 public:
  void see(const Observation& o) override {
    if (o.stack != Stack::decoder || o.site != Site::query) return;
    for (size_t row = 0; row < o.intervals.size(); ++row) {
      if (o.slots[row] < 0) continue;  // padding
      ++rows;
      const Interval& sees = o.intervals[row];
      if (sees == causal_interval(sees.origin, o.positions[row])) ++causal_rows;
    }
    if (o.layer == 0) first_layer.assign(o.intervals.begin(), o.intervals.end());
  }
  int64_t rows = 0, causal_rows = 0;
  std::vector<Interval> first_layer;
};

// One model for one task.
class Learner {
 public:
  Learner(const Task& task, const WordList& words, const TasksOptions& options,
          const std::function<void(double loss)>& progress)
      : task_(task),
        words_(words),
        model_(config_for(words, task.decoder_only), options.seed),
        session_(model_, options.threads) {
    std::vector<LearnPair> pairs;
    for (const TaskExample& example : task.text.train) pairs.push_back(pair_of(example));
    PairBatches batches(pairs, WordList::kStart, kTaskBatchTokens, options.seed);
    const int64_t last = options.updates - std::max<int64_t>(options.updates / 10, 1);
    learn(
        model_, [&](Batch& batch) { batches.next(batch); },
        {.updates = options.updates,
         .schedule = {.type = ScheduleType::cosine,
                      .peak = 6e-3,
                      .warm_up = std::max<int64_t>(options.updates / 10, 1)},
         .average = {.type = AverageType::exponential, .decay = 0.98},
         .seed = options.seed,
         .progress =
             [&](int64_t update, double loss) {
               if (update > last) {
                 loss_ += loss / static_cast<double>(options.updates - last);
               }
               progress(loss);
             }},
        session_);
    session_->hooks = options.hooks;
  }

  double loss() const { return loss_; }
  const Transformer& model() const { return model_; }

  // Greedy, token by token.
  std::vector<std::string> answers() {
    const auto& examples = task_.text.held_out;
    std::vector<std::string> result(examples.size());
    const SearchOptions greedy{{}, WordList::kStart, WordList::kEnd, {WordList::kStart}};
    size_t next = 0;
    search(
        model_, greedy, 64,
        [&]() -> std::optional<SearchRequest> {
          if (next == examples.size()) return std::nullopt;
          SearchRequest request{static_cast<int64_t>(next), source_of(examples[next]),
                                prompt_of(examples[next])};
          ++next;
          return request;
        },
        [&](SearchResult&& done) {
          const auto number = static_cast<size_t>(done.number);
          const Tokens& tokens = done.hypotheses.front().tokens;
          result[number] =
              words_.decode(std::span(tokens).subspan(prompt_of(examples[number]).size()));
          return true;
        },
        session_);
    return result;
  }

  void look_at_mask(TaskFigures& figures) {
    std::vector<TokenPair> pairs;
    for (const TaskExample& example : task_.text.held_out) {
      const LearnPair pair = pair_of(example);
      TokenPair both{pair.source, {WordList::kStart}, pair.target.back()};
      both.target.insert(both.target.end(), pair.target.begin(), pair.target.end() - 1);
      pairs.push_back(std::move(both));
    }
    CausalRowsObserver observer;
    const ObserverScope scope(session_, &observer);
    // Token by token; the comparison uses an observer of its own in its parallel passes, so one
    // more pass follows.
    figures.agreement =
        compare_parallel_with_stepwise(model_, pairs, session_, {.company = Company::in_batches});
    Rows target;
    for (size_t i = 0; i < pairs.size(); ++i) {
      const auto slot = static_cast<int32_t>(i);
      target.add_sequence(pairs[i].target,
                          {.slot = slot, .segment = task_.decoder_only ? -1 : slot});
    }
    session_.reset();
    {
      Tape tape(session_);
      model_.forward(target, encode_pairs(model_, pairs, session_), session_);
    }
    const MaskingScope unmasked(session_, Masking::none);
    const ObserverScope unobserved(session_, nullptr);
    figures.unmasked =
        compare_parallel_with_stepwise(model_, pairs, session_, {.company = Company::in_batches});
    figures.rows = observer.rows;
    figures.causal_rows = observer.causal_rows;
    const size_t length = pairs.front().target.size();
    figures.mask = Mask({observer.first_layer.begin(),
                         observer.first_layer.begin() + static_cast<std::ptrdiff_t>(length)});
    figures.words = {"START"};
    const std::string text = words_.decode(pairs.front().target);
    for (const std::string_view word : split_words(text)) figures.words.emplace_back(word);
  }

 private:
  Tokens source_of(const TaskExample& example) const {
    if (task_.decoder_only) return {};
    Tokens source = words_.encode(example.given);
    source.push_back(WordList::kEnd);
    return source;
  }
  Tokens prompt_of(const TaskExample& example) const {
    return task_.decoder_only ? words_.encode(example.given) : Tokens();
  }
  LearnPair pair_of(const TaskExample& example) const {
    LearnPair pair{source_of(example), prompt_of(example)};
    const Tokens answer = words_.encode(example.answer);
    pair.target.insert(pair.target.end(), answer.begin(), answer.end());
    pair.target.push_back(WordList::kEnd);
    return pair;
  }

  const Task& task_;
  const WordList& words_;
  Transformer model_;
  Session session_;
  double loss_ = 0.0;
};

int64_t count_exact(const std::vector<std::string>& written,
                    const std::vector<TaskExample>& right) {
  int64_t count = 0;
  for (size_t i = 0; i < written.size(); ++i) count += written[i] == right[i].answer ? 1 : 0;
  return count;
}

}  // namespace

bool TaskFigures::holds() const {
  return rows > 0 && causal_rows == rows && agreement.same() && unmasked.differing > 0 &&
         10 * exact > 9 * held_out;
}

TasksLesson teach_tasks(const TasksOptions& options) {
  require(options.updates >= 1, ErrorCode::invalid_argument, "lesson tasks: ", options.updates,
          " updates; it needs at least 1");
  TasksLesson lesson;
  lesson.holds = true;
  const std::vector<Task> all = tasks();
  const int64_t updates = std::ssize(all) * options.updates;
  int64_t update = 0;
  const auto progress = [&](double loss) {
    ++update;
    if (options.progress) options.progress(update, updates, loss);
  };
  for (const Task& task : all) {
    WordList words;
    for (const TaskExample& example : task.text.train) {
      words.add(example.given);
      words.add(example.answer);
    }
    TaskFigures figures;
    figures.name = task.name;
    figures.decoder_only = task.decoder_only;
    figures.examples = std::ssize(task.text.train);
    figures.held_out = std::ssize(task.text.held_out);
    figures.updates = options.updates;
    Learner learner(task, words, options, progress);
    figures.parameters = learner.model().parameter_count();
    figures.loss = learner.loss();
    const std::vector<std::string> answers = learner.answers();
    figures.exact = count_exact(answers, task.text.held_out);
    for (size_t i = 0; i < kShown; ++i) {
      const size_t at = i * task.text.held_out.size() / kShown;
      figures.shown.push_back(task.text.held_out[at]);
      figures.written.push_back(answers[at]);
    }
    learner.look_at_mask(figures);
    lesson.holds = lesson.holds && figures.holds();
    lesson.tasks.push_back(std::move(figures));
  }
  return lesson;
}

}  // namespace tril
