#include "tril/lesson/quiz.h"

#include <algorithm>
#include <array>

#include "tril/base/rng.h"
#include "tril/lesson/demo.h"
#include "tril/text/display.h"

namespace tril {
namespace {

struct Known {
  int claim;
  const char* question;
  std::array<const char*, 3> choices;  // the right one first
  const char* because;
  const char* command;
};

constexpr std::array kKnown = {
    Known{1,
          "Is the Transformer decoder autoregressive in training?",
          {"In function, but all positions are computed in one call", "No, in no sense",
           "Yes, it is computed token by token"},
          "One call computes every position, and no position can see a later one.",
          "prove demo-model"},
    Known{4,
          "What allows training to use one call instead of one per token?",
          {"Teacher forcing and the mask together", "Teacher forcing alone", "The mask alone"},
          "Forcing makes all inputs known in advance; the mask makes that one call compute the "
          "same function as inference.",
          "lesson forcing"},
    Known{7,
          "In training the model predicts a wrong word at step 2. What is fed at step 3?",
          {"The right word", "The wrong word", "Nothing: the sentence is skipped"},
          "Teacher forcing feeds the true word whatever was predicted.",
          "lesson teacher-forcing"},
    Known{11,
          "How many times would the decoder run for a target of 300 words, prefix by prefix?",
          {"301 times", "300 times", "Once"},
          "Once per word and once for END.",
          "lesson sequential"},
    Known{13,
          "In which sense is parallel training O(1)?",
          {"In steps that wait for each other", "In work", "In memory"},
          "The work and the memory grow with the length.",
          "lesson work"},
    Known{14,
          "Must parallel training store the full attention matrix?",
          {"No: it can be computed in blocks and thrown away", "Yes, for the backward pass",
           "Yes, for the softmax"},
          "Memory then grows with the length, not with its square.",
          "lesson sequential"},
    Known{19,
          "Training without the mask: where does it go wrong?",
          {"In training: the model learns to copy the next word", "Only at inference",
           "Nowhere, if the data is large enough"},
          "Its training loss is excellent because it sees the answers.",
          "lesson leakage"},
    Known{23,
          "Why are scores divided by √d_k?",
          {"So that the softmax keeps its slope and gradients do not vanish",
           "So that the softmax does not overflow", "So that weights sum to 1"},
          "The spread of a dot product grows with √d_k; the softmax would saturate.",
          "lesson scale"},
    Known{26,
          "A row of attention weights reads 0.1, 0.3, 0.7. What is wrong with it?",
          {"It sums to 1.1, so it is not a softmax", "Nothing",
           "The largest weight must be on the diagonal"},
          "With these ratios it must be 0.09, 0.27, 0.64.",
          "lesson attention"},
    Known{28,
          "Instead of adding −∞, a future score is set to 0. What happens?",
          {"The future still gets weight, because e⁰ = 1", "The same as with −∞",
           "The row becomes NaN"},
          "A score of 0 is not a weight of 0.",
          "lesson masks"},
    Known{
        29,
        "When is −1e9 wrong where −∞ was meant?",
        {"In a row that may see nothing: it becomes an average of forbidden keys", "Never",
         "Always: the weights are only nearly 0"},
        "e to the power of −1e9 is 0 in floating point, but a row of nothing but −1e9 is a row of "
        "equals.",
        "lesson masks"},
    Known{31,
          "Which part of the causal mask is −∞?",
          {"The upper triangle, without the diagonal", "The lower triangle",
           "The upper triangle with the diagonal"},
          "A word sees itself and what came before it.",
          "lesson masks"},
    Known{35,
          "Which attention of an encoder–decoder is causal?",
          {"Only the decoder's self-attention", "All three", "Encoder and decoder self-attention"},
          "The encoder reads a sentence that is all there.",
          "lesson masks"},
    Known{39,
          "At inference with a cache, what does the causal mask hide?",
          {"Nothing: no later token is there", "The source sentence", "The previous tokens"},
          "Recomputed without a cache it is needed: earlier rows would see later ones.",
          "lesson decoding"},
};
static_assert(kKnown.size() == 14);

QuizQuestion shuffled(QuizQuestion question, Random& random) {
  for (size_t i = question.choices.size(); i > 1; --i) {
    const size_t j = random.below(static_cast<uint32_t>(i));
    if (i - 1 == j) continue;
    std::swap(question.choices[i - 1], question.choices[j]);
    if (question.right == i - 1) {
      question.right = j;
    } else if (question.right == j) {
      question.right = i - 1;
    }
  }
  return question;
}

// Numbers near the right one, which comes first.
std::vector<std::string> numbers(int64_t right, std::array<int64_t, 2> others) {
  std::vector<std::string> choices = {concat(right)};
  for (int64_t other : others) {
    while (std::ranges::find(choices, concat(other)) != choices.end()) ++other;
    choices.push_back(concat(other));
  }
  return choices;
}

// How one sentence goes through the model.
struct Walk {
  std::string english;
  std::string written;
  int64_t source_tokens = 0;
  int64_t target_tokens = 0;  // END included
};

std::vector<Walk> walk(const Translator& translator) {
  std::vector<Walk> walks;
  std::vector<std::string> lines;
  for (const PhrasePair& phrase : lesson_sentences()) lines.push_back(phrase.english);
  const auto translations = translator.translate(lines);
  const Tokenizer& tokenizer = translator.tokenizer();
  for (size_t i = 0; i < lines.size(); ++i) {
    walks.push_back({.english = lines[i],
                     .written = translations[i].text(),
                     .source_tokens = std::ssize(tokenizer.encode(lines[i])) + 1,
                     .target_tokens = std::ssize(tokenizer.encode(translations[i].text())) + 1});
  }
  return walks;
}

// Six questions about this model, the right choice first.
std::vector<QuizQuestion> about_the_model(const Translator& translator) {
  const TransformerConfig& c = translator.model().config();
  const std::vector<Walk> walks = walk(translator);
  const Walk& first = walks.front();
  const Walk& last = walks.back();
  const auto sentence = [](const Walk& w) {
    return concat("Your model translates \"", w.english, "\" as ", escaped(w.written), " (",
                  w.target_tokens, " tokens with END). ");
  };
  std::vector<QuizQuestion> questions;
  questions.reserve(kQuizQuestions);
  questions.push_back(
      {.question =
           concat(sentence(first), "How many calls of forward() does greedy decoding take?"),
       .choices = numbers(first.target_tokens, {1, first.target_tokens + 1}),
       .because = "One call per token, END included: START is fed first, END never.",
       .command = "prove MODEL"});
  questions.push_back(
      {.question = concat(sentence(last),
                          "How many calls of forward() does training on this translation take?"),
       .choices = numbers(1, {last.target_tokens, last.target_tokens - 1}),
       .because = "All positions go through one call, under the mask.",
       .command = "prove MODEL"});
  questions.push_back(
      {.question = concat("Your model has ", c.decoder_layers, " decoder layers of ", c.heads,
                          " heads. How many different causal masks does this decoder need?"),
       .choices = {"One, for all heads and layers", "One per head", "One per layer"},
       .because = "The mask depends on the position alone.",
       .command = "lesson masks"});
  const int64_t n = last.target_tokens;
  questions.push_back(
      {.question = concat("A target of ", n, " tokens is trained on. How many of the ", n, " × ", n,
                          " scores of one head does the mask forbid?"),
       .choices = numbers(n * (n - 1) / 2, {n * (n + 1) / 2, n * n}),
       .because = "Row i sees i keys, so n(n − 1)/2 are left over.",
       .command = "lesson masks"});
  questions.push_back(
      {.question = concat("Cross-attention reads \"", last.english, "\" (", last.source_tokens,
                          " tokens). How many of them may the first row of the target see?"),
       .choices = numbers(last.source_tokens, {1, last.source_tokens - 1}),
       .because = "The source is all there: cross-attention has no causal mask.",
       .command = "lesson masks"});
  questions.push_back(
      {.question = concat("Your model is ", c.model, " wide with ", c.heads,
                          " heads. By what are "
                          "scores divided?"),
       .choices = {concat("√", c.model / c.heads), concat("√", c.model), concat("√", c.heads)},
       .because = concat("Each head has d_k = ", c.model, " / ", c.heads, " = ", c.model / c.heads,
                         " dimensions."),
       .command = "lesson scale"});
  return questions;
}

std::string html(std::string_view text) {
  std::string result;
  for (const char c : text) {
    switch (c) {
      case '&': result += "&amp;"; break;
      case '<': result += "&lt;"; break;
      case '>': result += "&gt;"; break;
      case '"': result += "&quot;"; break;
      default: result += c;
    }
  }
  return result;
}

}  // namespace

std::vector<QuizQuestion> make_quiz(const Translator& translator, uint64_t seed) {
  require(!translator.model().config().decoder_only(), ErrorCode::invalid_argument,
          "quiz: the model is decoder-only; a translator is needed");
  std::vector<QuizQuestion> questions;
  questions.reserve(kQuizQuestions);
  for (const Known& known : kKnown) {
    questions.push_back({.question = known.question,
                         .choices = {known.choices.begin(), known.choices.end()},
                         .because = known.because,
                         .command = known.command,
                         .claim = known.claim});
  }
  const std::vector<QuizQuestion> own = about_the_model(translator);
  // Roughly every third question is about the model.
  for (size_t i = 0; i < own.size(); ++i) {
    questions.insert(questions.begin() + static_cast<std::ptrdiff_t>(3 * i + 2), own[i]);
  }
  Random random(seed);
  for (QuizQuestion& question : questions) question = shuffled(std::move(question), random);
  return questions;
}

std::string quiz_page(const std::vector<QuizQuestion>& questions, const std::string& program) {
  std::string body;
  for (size_t i = 0; i < questions.size(); ++i) {
    const QuizQuestion& q = questions[i];
    std::string choices;
    for (size_t k = 0; k < q.choices.size(); ++k) {
      choices += concat("<li><label><input type=\"radio\" name=\"q", i, "\" data-right=\"",
                        k == q.right ? "yes" : "no", "\"> ", html(q.choices[k]), "</label></li>\n");
    }
    body += concat("<section><h2>", i + 1, ". ", html(q.question), "</h2>\n<ol type=\"a\">",
                   choices, "</ol>\n<details><summary>Answer</summary><p><b>",
                   html(q.choices[q.right]), ".</b> ", html(q.because), "</p><p>See it: <code>",
                   html(program), " ", html(q.command), "</code></p></details></section>\n");
  }
  return concat(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">"
      "<title>tril: test yourself</title>\n<style>\n"
      "body{font:17px/1.5 system-ui,sans-serif;max-width:46rem;margin:2rem auto;padding:0 1rem;"
      "color:#1a1a1a;background:#fff}h2{font-size:1.1rem}section{margin:1.6rem 0}"
      "li{margin:.2rem 0}label{cursor:pointer}.right{color:#00664d;font-weight:600}"
      ".wrong{color:#a83200}details{margin:.4rem 0 0 1.2rem}code{font-size:.95em}\n"
      "@media(prefers-color-scheme:dark){body{color:#eee;background:#181818}.right{color:#5fd3a8}"
      ".wrong{color:#ffab80}}\n"
      "@media print{details>*{display:block}}\n</style></head><body>\n"
      "<h1>Masked attention: test yourself</h1>\n<p>Twenty questions; six of them are about your "
      "own model. <output id=\"score\" aria-live=\"polite\"></output></p>\n",
      body,
      "<script>\nconst score = document.getElementById('score');\n"
      "document.addEventListener('change', (event) => {\n"
      "  const input = event.target;\n"
      "  const section = input.closest('section');\n"
      "  for (const label of section.querySelectorAll('label')) label.className = '';\n"
      "  input.parentElement.className = input.dataset.right === 'yes' ? 'right' : 'wrong';\n"
      "  section.querySelector('details').open = true;\n"
      "  const chosen = [...document.querySelectorAll('input:checked')];\n"
      "  const right = chosen.filter((one) => one.dataset.right === 'yes').length;\n"
      "  score.textContent = right + ' of ' + chosen.length + ' right';\n"
      "});\n</script>\n</body></html>\n");
}

}  // namespace tril
