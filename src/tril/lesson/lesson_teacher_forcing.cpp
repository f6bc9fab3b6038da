#include "tril/lesson/lesson_teacher_forcing.h"

#include <algorithm>
#include <optional>

#include "tril/autograd/tape.h"
#include "tril/base/math.h"
#include "tril/data/batches.h"
#include "tril/decode/search.h"

namespace tril {
namespace {

using Tokens = std::vector<int32_t>;

// A sentence in training and in inference.
struct Told {
  const PhrasePair* sentence = nullptr;
  Tokens source, right;  // END included
  Tokens predicted{};    // in training, a token for each of `right`
  std::vector<double> right_probability{};
  int32_t second_choice = 0;  // for the first word
  Tokens written{};           // in inference
};

class Teller {
 public:
  Teller(const Translator& translator, int threads)
      : model_(translator.model()),
        tokenizer_(translator.tokenizer()),
        unwritable_(tokenizer_.unwritable()),
        session_(model_, threads) {}

  std::vector<Told> tell(std::span<const PhrasePair> sentences) {
    std::vector<Told> all;
    for (const PhrasePair& sentence : sentences) {
      Told told{.sentence = &sentence,
                .source = tokenizer_.encode(sentence.english),
                .right = tokenizer_.encode(sentence.hindi)};
      told.source.push_back(tokenizer_.end());
      told.right.push_back(tokenizer_.end());
      const auto longest = static_cast<int64_t>(std::max(told.source.size(), told.right.size()));
      if (longest <= model_.config().max_length) all.push_back(std::move(told));
    }
    for (Told& told : all) read_as_training_does(told);
    write_as_inference_does(all, {});
    return all;
  }

  // Inference again, with the target forced to begin with `prefix`.
  void write(Told& told, const Tokens& prefix) {
    write_as_inference_does(std::span(&told, 1), prefix);
  }

  SwappedWord swap(const std::string& english, const std::string& right, const std::string& wrong) {
    SwappedWord swapped{.english = english, .right = right, .wrong = wrong};
    const Tokens source = with(tokenizer_.encode(english), tokenizer_.end());
    const Tokens tokens = tokenizer_.encode(right), others = tokenizer_.encode(wrong);
    const std::vector<float> first = read(source, tokens), second = read(source, others);
    const auto vocab = static_cast<size_t>(model_.config().target_vocab);
    const size_t rows = 1 + std::min(tokens.size(), others.size());  // START is fed before them
    const auto split =
        static_cast<size_t>(std::ranges::mismatch(tokens, others).in1 - tokens.begin());
    for (size_t row = 0; row < rows; ++row) {
      const bool changed =
          !std::equal(first.begin() + static_cast<std::ptrdiff_t>(row * vocab),
                      first.begin() + static_cast<std::ptrdiff_t>((row + 1) * vocab),
                      second.begin() + static_cast<std::ptrdiff_t>(row * vocab));
      // Row r reads the token before it: the first token that differs is read by row split + 1.
      (row <= split ? swapped.before : swapped.after) += 1;
      (row <= split ? swapped.before_changed : swapped.after_changed) += changed ? 1 : 0;
    }
    const auto next = [&](const std::vector<float>& all, size_t count, std::string& text) {
      const auto row = std::span(all).subspan(count * vocab, vocab);
      const int32_t best = likeliest(row);
      text = best == tokenizer_.end() ? "END" : tokenizer_.decode(std::span(&best, 1));
      return math::exp(static_cast<double>(row[static_cast<size_t>(best)]));
    };
    // After the whole word, which may be several pieces: where the rest of both is the same again.
    const auto rest =
        std::ranges::mismatch(tokens.rbegin(), tokens.rend(), others.rbegin(), others.rend());
    const auto same = static_cast<size_t>(rest.in1 - tokens.rbegin());
    swapped.probability_after_right = next(first, tokens.size() - same, swapped.next_after_right);
    swapped.probability_after_wrong = next(second, others.size() - same, swapped.next_after_wrong);
    return swapped;
  }

 private:
  static Tokens with(Tokens tokens, int32_t last) {
    tokens.push_back(last);
    return tokens;
  }

  int32_t likeliest(std::span<const float> row) const {
    int32_t best = -1;
    for (int32_t token = 0; token < std::ssize(row); ++token) {
      if (writable(token) &&
          (best < 0 || row[static_cast<size_t>(token)] > row[static_cast<size_t>(best)])) {
        best = token;
      }
    }
    return best;
  }

  // Log-probabilities of one pass over START and the target.
  std::vector<float> read(const Tokens& source, const Tokens& target) {
    session_.reset();
    Tape tape(session_);
    Rows from, to;
    from.add_sequence(source, {.slot = 0});
    Tokens fed = {tokenizer_.start()};
    fed.insert(fed.end(), target.begin(), target.end());
    to.add_sequence(fed, {.slot = 0, .segment = 0});
    const Tensor log_probs =
        model_.log_probs(model_.forward(to, model_.encode(from, session_), session_), session_);
    return {log_probs.data(), log_probs.data() + log_probs.size()};
  }

  bool writable(int32_t token) const {
    return !std::binary_search(unwritable_.begin(), unwritable_.end(), token);
  }

  void read_as_training_does(Told& told) {
    session_.reset();
    Tape tape(session_);
    Rows source, target;
    source.add_sequence(told.source, {.slot = 0});
    Tokens fed = {tokenizer_.start()};
    fed.insert(fed.end(), told.right.begin(), told.right.end() - 1);
    target.add_sequence(fed, {.slot = 0, .segment = 0});
    const Tensor log_probs = model_.log_probs(
        model_.forward(target, model_.encode(source, session_), session_), session_);
    const auto vocab = static_cast<int32_t>(log_probs.columns());
    for (size_t step = 0; step < told.right.size(); ++step) {
      const float* row = log_probs.data() + static_cast<int64_t>(step) * vocab;
      int32_t best = -1;
      int32_t second = -1;
      for (int32_t token = 0; token < vocab; ++token) {
        if (!writable(token)) continue;
        if (best < 0 || row[token] > row[best]) {
          second = best;
          best = token;
        } else if (second < 0 || row[token] > row[second]) {
          second = token;
        }
      }
      told.predicted.push_back(best);
      if (step == 0) told.second_choice = second;
      told.right_probability.push_back(math::exp(static_cast<double>(row[told.right[step]])));
    }
  }

  void write_as_inference_does(std::span<Told> all, const Tokens& prefix) {
    const SearchOptions greedy{{}, tokenizer_.start(), tokenizer_.end(), unwritable_};
    size_t next = 0;
    search(
        model_, greedy, 128,
        [&]() -> std::optional<SearchRequest> {
          if (next == all.size()) return std::nullopt;
          SearchRequest request{static_cast<int64_t>(next), all[next].source, prefix};
          ++next;
          return request;
        },
        [&](SearchResult&& done) {
          all[static_cast<size_t>(done.number)].written = done.hypotheses.front().tokens;
          return true;
        },
        session_);
  }

  const Transformer& model_;
  const Tokenizer& tokenizer_;
  const Tokens unwritable_;
  Session session_;
};

// The step of the first mistake in training; the number of steps if there is none.
size_t first_mistake(const Told& told) {
  return static_cast<size_t>(std::ranges::mismatch(told.predicted, told.right).in1 -
                             told.predicted.begin());
}

// How much of what follows step `mistake` is right.
struct Following {
  int64_t all = 0, corrected = 0, followed = 0, in_order = 0;
};

// The length of the longest common subsequence.
int64_t common_in_order(std::span<const int32_t> a, std::span<const int32_t> b) {
  std::vector<int64_t> best(b.size() + 1, 0);  // of the part of `a` so far and the first j of `b`
  for (const int32_t token : a) {
    int64_t diagonal = 0;
    for (size_t j = 0; j < b.size(); ++j) {
      const int64_t above = best[j + 1];
      best[j + 1] = token == b[j] ? diagonal + 1 : std::max(above, best[j]);
      diagonal = above;
    }
  }
  return best.back();
}

Following following(const Told& told, size_t mistake) {
  Following count;
  for (size_t step = mistake + 1; step < told.right.size(); ++step) {
    ++count.all;
    if (told.predicted[step] == told.right[step]) ++count.corrected;
    if (step < told.written.size() && told.written[step] == told.right[step]) ++count.followed;
  }
  const auto behind = [&](const Tokens& tokens) {
    return std::span(tokens).subspan(std::min(mistake + 1, tokens.size()));
  };
  count.in_order = common_in_order(behind(told.right), behind(told.written));
  return count;
}

bool same_until(const Told& told, size_t mistake) {
  if (told.written.size() <= mistake) return false;
  const auto end = static_cast<std::ptrdiff_t>(mistake) + 1;
  return std::equal(told.predicted.begin(), told.predicted.begin() + end, told.written.begin());
}

// A piece for people to read: "▁घर" begins a word, "ता" continues one.
std::string piece_text(const Tokenizer& tokenizer, int32_t token) {
  if (token == tokenizer.start()) return "START";
  if (token == tokenizer.end()) return "END";
  const std::string piece = tokenizer.piece(token);
  const std::string blank = "▁";
  return piece.starts_with(blank) ? piece.substr(blank.size()) : "…" + piece;
}

TeacherExample make_example(const Tokenizer& tokenizer, const Told& told, size_t mistake) {
  TeacherExample example{.english = told.sentence->english,
                         .hindi = told.sentence->hindi,
                         .written = tokenizer.decode(told.written)};
  const auto text = [&](const Tokens& tokens, size_t step) {
    return step < tokens.size() ? piece_text(tokenizer, tokens[step]) : std::string();
  };
  const auto fed = [&](const Tokens& tokens, size_t step) {
    if (step >= tokens.size()) return std::string();
    return step == 0 ? std::string("START") : text(tokens, step - 1);
  };
  for (size_t step = 0; step < std::max(told.right.size(), told.written.size()); ++step) {
    TeacherStep s{.right = text(told.right, step),
                  .fed_in_training = fed(told.right, step),
                  .predicted_in_training = text(told.predicted, step)};
    if (step < told.right.size()) {
      s.right_probability = told.right_probability[step];
      s.mistake = told.predicted[step] != told.right[step];
    }
    s.fed_in_inference = fed(told.written, step);
    s.predicted_in_inference = text(told.written, step);
    example.steps.push_back(s);
  }
  const Following count = following(told, mistake);
  example.mistake = static_cast<int64_t>(mistake);
  example.following = count.all;
  example.right_when_corrected = count.corrected;
  example.right_when_followed = count.followed;
  example.followed_in_order = count.in_order;
  return example;
}

}  // namespace

TeacherLesson teach_teacher_forcing(const Translator& translator,
                                    std::span<const PhrasePair> sentences, int threads) {
  require(!translator.model().config().decoder_only(), ErrorCode::invalid_argument,
          "lesson teacher-forcing: the model is decoder-only; a translator is needed");
  Teller teller(translator, threads);
  std::vector<Told> all = teller.tell(sentences);
  require(!all.empty(), ErrorCode::invalid_argument, "lesson teacher-forcing: of ",
          sentences.size(), " sentences the model can read none");
  TeacherLesson lesson;
  lesson.sentences = static_cast<int64_t>(all.size());
  lesson.left_out = static_cast<int64_t>(sentences.size() - all.size());
  lesson.same_until_mistake = true;
  std::optional<size_t> chosen;
  int64_t chosen_difference = 0;
  for (size_t i = 0; i < all.size(); ++i) {
    const size_t mistake = first_mistake(all[i]);
    if (mistake == all[i].right.size()) continue;
    ++lesson.with_mistake;
    lesson.same_until_mistake = lesson.same_until_mistake && same_until(all[i], mistake);
    const Following count = following(all[i], mistake);
    lesson.following += count.all;
    lesson.right_when_corrected += count.corrected;
    lesson.right_when_followed += count.followed;
    lesson.followed_in_order += count.in_order;
    // The clearest example: everything that follows is right when corrected, and as little as
    // possible when followed; the first of equals.
    const int64_t difference = count.corrected == count.all ? count.all - count.in_order : 0;
    if (difference > chosen_difference) {
      chosen = i;
      chosen_difference = difference;
    }
  }
  lesson.real = chosen.has_value();
  if (chosen) {
    lesson.example =
        make_example(translator.tokenizer(), all[*chosen], first_mistake(all[*chosen]));
  } else {
    // For an invented mistake, the first sentence of at least three words will do.
    const auto longer = std::ranges::find_if(all, [](const Told& t) { return t.right.size() > 3; });
    Told& told = longer == all.end() ? all.front() : *longer;
    teller.write(told, {told.second_choice});
    lesson.example = make_example(translator.tokenizer(), told, 0);
  }
  lesson.swapped = teller.swap("I am fine", "मैं ठीक हूँ", "मैं बढ़िया हूँ");
  const TeacherExample& example = lesson.example;
  lesson.holds = lesson.same_until_mistake && lesson.swapped.depends_on_previous() &&
                 (lesson.real ? lesson.right_when_corrected > lesson.followed_in_order
                              : example.right_when_corrected > example.followed_in_order);
  return lesson;
}

}  // namespace tril
