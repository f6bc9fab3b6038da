// Lines submitted from any thread: the result equals that of translate(), whatever else is being
// decoded.
#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>

#include "examples.h"

namespace tril {
namespace {

using namespace std::chrono_literals;
using testing::Family;
using testing::lines;
using testing::model_for;
using testing::quick_options;
using testing::raised_by;
using testing::same_translation;
using testing::tokenizer;
using testing::translator_for;

TEST(Submit, GivesWhatTranslateGives) {
  for (const Family family : {Family::encoder_decoder, Family::decoder_only}) {
    const Translator translator = translator_for(family);
    TranslateOptions options = quick_options();
    options.alignments = family == Family::encoder_decoder;
    const auto expected = translator.translate(lines(), options);
    std::vector<PendingTranslation> pending;
    for (size_t i = 0; i < lines().size(); ++i) {
      pending.push_back(
          translator.submit({lines()[i]}, options, {.number = static_cast<int64_t>(i)}));
    }
    for (size_t i = pending.size(); i-- > 0;) {  // in any order
      pending[i].wait();
      EXPECT_TRUE(pending[i].ready());
      EXPECT_TRUE(same_translation(pending[i].get(), expected[i])) << lines()[i];
      EXPECT_EQ(raised_by([&] { pending[i].get(); }).text,
                "translate: its result was taken before");
    }
  }
}

// Greedy search, beams and samples from many threads at once, with others that give up in between.
TEST(Submit, ManyThreadsShareTheEngine) {
  const Translator translator = translator_for(Family::encoder_decoder, 2);
  std::vector<TranslateOptions> rules(3, quick_options());
  rules[0].search.beam = 1;
  rules[1].search.beam = rules[1].search.n_best = 4;
  rules[2].search.beam = 1;
  rules[2].search.sample = true;
  rules[2].search.n_best = 2;
  std::vector<std::vector<Translation>> expected;
  for (const TranslateOptions& rule : rules) {
    expected.push_back(translator.translate(lines(), rule));
  }
  std::atomic<int> wrong = 0, cancelled = 0;
  std::vector<std::thread> threads;
  for (size_t t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      const size_t rule = t % rules.size();
      for (size_t i = 0; i < lines().size(); ++i) {
        PendingTranslation given_up = translator.submit({lines()[0]}, rules[rule]);
        given_up.cancel();
        const Translation found =
            translator
                .submit({lines()[i]}, rules[rule], {.number = static_cast<int64_t>(i), .client = t})
                .get();
        wrong += same_translation(found, expected[rule][i]) ? 0 : 1;
        try {
          given_up.get();
        } catch (const Error& error) {
          cancelled += error.code() == ErrorCode::cancelled ? 1 : 0;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_GT(cancelled, 0);
}

// The text grows, ends as the translation, and never breaks a character.
TEST(Submit, StreamsTheText) {
  const Translator translator = translator_for(Family::encoder_decoder);
  for (const int64_t beam : {1, 3}) {
    TranslateOptions options = quick_options();
    options.search.beam = beam;
    for (const std::string& line : lines()) {
      std::vector<std::string> texts;
      std::vector<int32_t> tokens;
      PendingTranslation pending =
          translator.submit({line}, options, {.stream = [&](const StreamedText& news) {
                              EXPECT_EQ(news.sample, 0);
                              EXPECT_EQ(news.tokens.size(), news.log_probs.size());
                              texts.emplace_back(news.text);
                              tokens.insert(tokens.end(), news.tokens.begin(), news.tokens.end());
                            }});
      const Translation translation = pending.get();
      EXPECT_EQ(tokens, translation.hypotheses[0].tokens);
      for (size_t i = 1; i < texts.size(); ++i) EXPECT_TRUE(texts[i].starts_with(texts[i - 1]));
      if (!texts.empty() && translation.hypotheses[0].ended) {
        EXPECT_EQ(texts.back(), translation.text());
      }
      if (beam == 1 && !tokens.empty()) {
        EXPECT_GT(texts.size(), 1u);
      }
    }
  }
}

TEST(Submit, MayTimeOutOrBeCancelled) {
  const Translator translator = translator_for(Family::encoder_decoder);
  const TranslateOptions options = quick_options();
  PendingTranslation late =
      translator.submit({lines()[0]}, options, {.deadline = EngineClock::now() - 1s});
  EXPECT_EQ(raised_by([&] { late.get(); }).code, ErrorCode::timed_out);
  PendingTranslation in_time =
      translator.submit({lines()[0]}, options, {.deadline = EngineClock::now() + 100s});
  EXPECT_TRUE(in_time.wait_until(EngineClock::now() + 100s));
  EXPECT_TRUE(same_translation(in_time.get(), translator.translate({&lines()[0], 1}, options)[0]));
  in_time.cancel();  // after the end it is nothing
}

TEST(Submit, SaysWhatIsWrongWithALine) {
  const Translator translator = translator_for(Family::encoder_decoder);
  PendingTranslation bad = translator.submit({.line = "a", .fault = "not UTF-8"}, quick_options());
  EXPECT_EQ(raised_by([&] { bad.get(); }).text, "not UTF-8");
  TranslateOptions options = quick_options();
  options.search.n_best = 7;
  EXPECT_EQ(raised_by([&] { translator.submit({"a"}, options); }).text,
            "search: 7 best translations from a beam of 5");
  PendingTranslation nothing = translator.submit({" "}, quick_options());
  EXPECT_EQ(nothing.get().text(), "");
}

// A translator may be destroyed while its lines are in flight, even inside one of its callbacks.
TEST(Submit, OutlivesTheTranslator) {
  const std::string expected = translator_for(Family::encoder_decoder)
                                   .translate({&lines()[0], 1}, quick_options())[0]
                                   .text();
  std::optional<Translator> translator = translator_for(Family::encoder_decoder);
  PendingTranslation pending = translator->submit({lines()[0]}, quick_options());
  translator.reset();
  EXPECT_EQ(pending.get().text(), expected);

  std::mutex mutex;
  auto held = std::make_shared<std::optional<Translator>>(translator_for(Family::encoder_decoder));
  std::atomic<bool> dropped = false;
  {
    const Translator mine = **held;
    PendingTranslation another =
        mine.submit({lines()[0]}, quick_options(), {.stream = [&, held](const StreamedText&) {
                      const std::lock_guard lock(mutex);
                      held->reset();
                      dropped = true;
                    }});
  }
  while (!dropped) std::this_thread::sleep_for(1ms);
}

}  // namespace
}  // namespace tril
