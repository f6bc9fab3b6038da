// Lines submitted from any thread: the result equals that of translate(), whatever else is being
// decoded.
#include <pthread.h>

#include <atomic>
#include <chrono>
#include <latch>
#include <mutex>
#include <thread>

#include "examples.h"
#include "support/scarce_memory.h"
#include "tril/decode/engine_thread.h"

namespace tril::submit_test {
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

// While it lives, no thread can be started: none gets the stack it wants.
class NoThreads {
 public:
  NoThreads() {
    pthread_getattr_default_np(&before_);
    pthread_attr_t impossible;
    pthread_attr_init(&impossible);
    pthread_attr_setstacksize(&impossible, size_t{1} << 50);
    pthread_setattr_default_np(&impossible);
    pthread_attr_destroy(&impossible);
  }
  ~NoThreads() {
    pthread_setattr_default_np(&before_);
    pthread_attr_destroy(&before_);
  }
  NoThreads(const NoThreads&) = delete;
  NoThreads& operator=(const NoThreads&) = delete;

 private:
  pthread_attr_t before_{};
};

// A translator whose engine has no thread: whoever waits for a line makes the steps, so that
// nothing happens before somebody waits.
Translator translator_without_thread(Family family) {
  const NoThreads none;
  return translator_for(family);
}

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

TEST(Submit, MayTimeOut) {
  const Translator translator = translator_for(Family::encoder_decoder);
  const TranslateOptions options = quick_options();
  PendingTranslation late =
      translator.submit({lines()[0]}, options, {.deadline = EngineClock::now() - 1s});
  EXPECT_EQ(raised_by([&] { late.get(); }).code, ErrorCode::timed_out);
  PendingTranslation in_time =
      translator.submit({lines()[0]}, options, {.deadline = EngineClock::now() + 100s});
  EXPECT_TRUE(in_time.wait_until(EngineClock::now() + 100s));
  EXPECT_TRUE(same_translation(in_time.get(), translator.translate({&lines()[0], 1}, options)[0]));
}

TEST(Submit, MayBeCancelled) {
  const Translator translator = translator_without_thread(Family::encoder_decoder);
  TranslateOptions options = quick_options();
  options.search.beam = 1;  // streams in every step
  // Before it begins.
  const PendingTranslation at_once = translator.submit({lines()[0]}, options);
  at_once.cancel();
  EXPECT_EQ(raised_by([&] { at_once.get(); }).code, ErrorCode::cancelled);
  // In the middle.
  PendingTranslation midway;
  int parts = 0;
  midway = translator.submit({lines()[0]}, options, {.stream = [&](const StreamedText&) {
                               if (++parts == 2) midway.cancel();
                             }});
  EXPECT_EQ(raised_by([&] { midway.get(); }).code, ErrorCode::cancelled);
  EXPECT_EQ(parts, 2);
  // After the end it is nothing, whether the result was taken or not.
  const PendingTranslation done = translator.submit({lines()[0]}, options);
  done.wait();
  done.cancel();
  EXPECT_TRUE(same_translation(done.get(), translator.translate({&lines()[0], 1}, options)[0]));
  done.cancel();
}

// Copies are one line: its result is taken once. Without a line there is an error.
TEST(Submit, HandlesMayBeCopied) {
  const Translator translator = translator_for(Family::encoder_decoder);
  const PendingTranslation first = translator.submit({lines()[0]}, quick_options());
  const PendingTranslation second = first;  // NOLINT(performance-unnecessary-copy-initialization)
  EXPECT_FALSE(first.get().text().empty());
  EXPECT_TRUE(second.ready());
  second.wait();
  EXPECT_TRUE(second.wait_until(EngineClock::now()));
  EXPECT_EQ(raised_by([&] { second.get(); }).text, "translate: its result was taken before");
  const PendingTranslation none;
  for (const auto& call : std::vector<std::function<void()>>{
           [&] { none.ready(); }, [&] { none.wait(); }, [&] { none.get(); }, [&] { none.cancel(); },
           [&] { none.wait_until(EngineClock::now()); }}) {
    EXPECT_EQ(raised_by(call).text, "translate: no line was submitted");
  }
}

// One handle, used by several threads at once: one gets the result.
TEST(Submit, ThreadsMayShareAHandle) {
  const Translator translator = translator_for(Family::encoder_decoder);
  for (int round = 0; round < 50; ++round) {
    const PendingTranslation pending = translator.submit({lines()[0]}, quick_options());
    std::atomic<int> taken = 0, cancelled = 0, refused = 0;
    std::latch begin(4);
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&, i] {
        begin.arrive_and_wait();
        if (i == 0 && round % 2 == 0) pending.cancel();
        if (i == 1) pending.wait();
        try {
          pending.get();
          ++taken;
        } catch (const Error& error) {
          ++(error.code() == ErrorCode::cancelled ? cancelled : refused);
        }
        EXPECT_TRUE(pending.ready());
        pending.cancel();
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(taken + cancelled, 1);
    EXPECT_EQ(refused, 3);
  }
}

// Lines of several callers take part in the same steps.
TEST(Submit, CallersShareSteps) {
  const Translator translator = translator_without_thread(Family::encoder_decoder);
  TranslateOptions options = quick_options();
  options.search.beam = 1;
  std::string order;
  std::vector<PendingTranslation> pending;
  for (const char name : {'a', 'b', 'c'}) {
    pending.push_back(
        translator.submit({lines()[0]}, options,
                          {.client = static_cast<uint64_t>(name),
                           .stream = [&order, name](const StreamedText&) { order += name; }}));
  }
  EXPECT_FALSE(pending[0].ready()) << "nobody has waited";
  pending[2].get();
  EXPECT_TRUE(order.starts_with("abcabcabc")) << order;
  EXPECT_TRUE(pending[0].ready());
}

// Without a thread, callers that wait do the work, for each other too.
TEST(Submit, CallersHelpIfThereIsNoThread) {
  for (const Family family : {Family::encoder_decoder, Family::decoder_only}) {
    const auto expected = translator_for(family).translate(lines(), quick_options());
    const Translator translator = translator_without_thread(family);
    ASSERT_TRUE(EngineThread::of(testing::device())->help()) << "there is a thread";
    std::atomic<int> wrong = 0;
    std::vector<std::thread> threads;
    for (size_t t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        if (t % 2 == 0) {
          const auto found = translator.translate(lines(), quick_options());
          for (size_t i = 0; i < found.size(); ++i) {
            wrong += same_translation(found[i], expected[i]) ? 0 : 1;
          }
          return;
        }
        for (size_t i = 0; i < lines().size(); ++i) {
          const PendingTranslation pending =
              translator.submit({lines()[i]}, quick_options(), {.number = static_cast<int64_t>(i)});
          EXPECT_FALSE(pending.wait_until(EngineClock::now() - 1s) && !pending.ready());
          wrong += same_translation(pending.get(), expected[i]) ? 0 : 1;
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(wrong, 0);
  }
}

// Wherever memory runs out, a line ends with a result or an error, once, and later ones are not
// affected.
TEST(Submit, EndsWithoutMemory) {
  if (testing::device() != Device::cpu) GTEST_SKIP() << "host memory";
  const std::string expected = translator_for(Family::encoder_decoder)
                                   .translate({&lines()[0], 1}, quick_options())[0]
                                   .text();
  bool was_enough = false;
  int failed = 0;
  for (int64_t allocations = 0; !was_enough; allocations += 1 + allocations / 50) {
    const Translator translator = translator_without_thread(Family::encoder_decoder);
    const PendingTranslation pending = translator.submit({lines()[0]}, quick_options());
    {
      const testing::ScarceMemory scarce(allocations);
      pending.wait();
      was_enough = scarce.was_enough();
    }
    try {
      EXPECT_EQ(pending.get().text(), expected);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::out_of_memory);
      ++failed;
    }
    EXPECT_EQ(translator.submit({lines()[0]}, quick_options()).get().text(), expected);
  }
  EXPECT_GT(failed, 50);
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

// Handles keep what they need of a translator that is gone.
TEST(Submit, OutlivesTheTranslator) {
  const std::string expected = translator_for(Family::encoder_decoder)
                                   .translate({&lines()[0], 1}, quick_options())[0]
                                   .text();
  std::optional<Translator> translator = translator_for(Family::encoder_decoder);
  PendingTranslation pending = translator->submit({lines()[0]}, quick_options());
  translator.reset();
  EXPECT_EQ(pending.get().text(), expected);
}

// When nobody can ask for its lines any more, the engine is destroyed with them; others on the same
// thread go on.
TEST(Submit, LinesInFlightMayBeDropped) {
  const Translator other = translator_for(Family::encoder_decoder);
  const auto expected = other.translate(lines(), quick_options());
  for (int round = 0; round < 20; ++round) {
    const Translator dropped = translator_for(Family::encoder_decoder);
    for (const std::string& line : lines()) dropped.submit({line}, quick_options());
  }
  const auto found = other.translate(lines(), quick_options());
  for (size_t i = 0; i < found.size(); ++i) EXPECT_TRUE(same_translation(found[i], expected[i]));
}

// A callback may hold the last handle to its translator, and drop it.
TEST(Submit, ACallbackMayDropTheTranslator) {
  struct Held {  // may outlive the test
    std::mutex mutex;
    std::optional<Translator> translator;
    std::atomic<bool> dropped = false;
  };
  const auto held = std::make_shared<Held>();
  {
    Translator mine = translator_for(Family::encoder_decoder);
    const std::lock_guard lock(held->mutex);
    held->translator = mine;
    mine.submit({lines()[0]}, quick_options(), {.stream = [held](const StreamedText&) {
                  const std::lock_guard inside(held->mutex);
                  held->translator.reset();
                  held->dropped = true;
                }});
  }
  while (!held->dropped) std::this_thread::sleep_for(1ms);
  // The thread is free again.
  EXPECT_FALSE(translator_for(Family::encoder_decoder).translate(lines()[0]).empty());
}

}  // namespace
}  // namespace tril::submit_test
