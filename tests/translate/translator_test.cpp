// Text in, text out: what search makes of the pieces, in the order of the lines.
#include "tril/translate/translator.h"

#include <algorithm>
#include <atomic>
#include <thread>
#include <utility>

#include "support/model_bytes.h"
#include "support/temp_folder.h"
#include "translate/examples.h"
#include "tril/io/atomic_file.h"
#include "tril/train/evaluation.h"
#include "tril/translate/state.h"

namespace tril::translator_test {
namespace {

using testing::Family;
using testing::lines;
using testing::model_for;
using testing::quick_options;
using testing::raised_by;
using testing::same_translation;
using testing::TempFolder;
using testing::tokenizer;
using testing::Tokens;
using testing::translator_for;

// Each line alone through search(), and its tokens through the tokenizer.
TEST(Translator, IsSearchBetweenTwoTokenizers) {
  const Translator translator(model_for(Family::encoder_decoder, 2.0f), tokenizer(), 1);
  TranslateOptions options = quick_options();
  options.search.beam = 3;
  options.search.n_best = 2;
  options.alignments = true;
  const auto translations = translator.translate(lines(), options);
  ASSERT_EQ(translations.size(), lines().size());
  Session session(translator.model(), 1);
  int ended = 0, cut = 0;
  for (size_t i = 0; i < lines().size(); ++i) {
    const Translation& found = translations[i];
    EXPECT_EQ(found.number, static_cast<int64_t>(i));
    EXPECT_EQ(found.skipped, "");
    Tokens source = tokenizer().encode(lines()[i]);
    if (lines()[i].find_first_not_of(' ') == std::string::npos) {
      ASSERT_EQ(found.hypotheses.size(), 1u);
      EXPECT_EQ(found.text(), "");
      EXPECT_TRUE(found.hypotheses[0].tokens.empty());
      EXPECT_TRUE(found.hypotheses[0].ended) << "nothing was cut";
      continue;
    }
    source.push_back(Tokenizer::kEnd);
    SearchOptions plain{options.search.over({})};
    Tokens newline;
    for (int32_t id = 0; id < static_cast<int32_t>(tokenizer().vocab()); ++id) {
      if (tokenizer().piece(id) == "<0x0A>") newline.push_back(id);
    }
    ASSERT_EQ(newline.size(), 1u);
    plain.forbidden = {0, 1, 2, newline[0]};
    std::vector<Hypothesis> expected;
    bool handed_out = false;
    search(
        translator.model(), plain, 3,
        [&]() -> std::optional<SearchRequest> {
          if (handed_out) return std::nullopt;
          handed_out = true;
          return SearchRequest{0, source, {}};
        },
        [&](SearchResult&& result) {
          expected = result.hypotheses;
          return true;
        },
        session);
    ASSERT_EQ(found.hypotheses.size(), expected.size());
    for (size_t h = 0; h < expected.size(); ++h) {
      const TextHypothesis& text = found.hypotheses[h];
      EXPECT_EQ(text.tokens, expected[h].tokens);
      EXPECT_TRUE(testing::same_bits(text.log_probs, expected[h].log_probs));
      EXPECT_EQ(text.score, expected[h].score);
      EXPECT_EQ(text.rank, expected[h].rank);
      EXPECT_EQ(text.ended, expected[h].ended);
      ++(text.ended ? ended : cut);
      EXPECT_EQ(text.text, tokenizer().decode(expected[h].tokens));
      ASSERT_EQ(text.pieces.size(), text.tokens.size());
      for (size_t t = 0; t < text.tokens.size(); ++t) {
        EXPECT_EQ(text.pieces[t], tokenizer().piece(text.tokens[t]));
      }
      const Alignment alignment = align(translator.model(), source, text.tokens, {}, session);
      EXPECT_EQ(text.alignment.weights, alignment.weights);
      std::vector<std::string> source_pieces;
      for (const int32_t id : tokenizer().encode(lines()[i])) {
        source_pieces.push_back(tokenizer().piece(id));
      }
      auto target_pieces = text.pieces;
      if (text.ended) target_pieces.pop_back();
      EXPECT_EQ(text.links,
                link_words(alignment, words_of(source_pieces), words_of(target_pieces)));
    }
  }
  EXPECT_GT(ended, 0);
  EXPECT_GT(cut, 0);
  EXPECT_EQ(translator.translate("how are you"),
            translator.translate(std::vector<std::string>{"how are you"})[0].text());
}

TEST(Translator, SlotsWindowAndThreadsChangeNothing) {
  const TranslateOptions options = quick_options();
  const auto expected = translator_for(Family::encoder_decoder).translate(lines(), options);
  for (const int64_t slots : {5, 11, 64}) {
    for (const int64_t window : {1, 3, 1000}) {
      TranslateOptions other = options;
      other.slots = slots;
      other.window = window;
      const auto found = translator_for(Family::encoder_decoder, 2).translate(lines(), other);
      ASSERT_EQ(found.size(), expected.size());
      for (size_t i = 0; i < found.size(); ++i)
        EXPECT_TRUE(same_translation(found[i], expected[i]));
    }
  }
}

// A part of a text, numbered as in the whole, has the whole's translations: samples too.
TEST(Translator, LinesMayBeginAtAnyNumber) {
  TranslateOptions options = quick_options();
  options.search.sample = true;
  const Translator translator = translator_for(Family::encoder_decoder);
  const auto whole = translator.translate(lines(), options);
  bool numbers_matter = false;
  for (size_t from = 1; from < lines().size(); ++from) {
    const std::vector<std::string> part(lines().begin() + static_cast<std::ptrdiff_t>(from),
                                        lines().end());
    options.first_number = static_cast<int64_t>(from);
    const auto found = translator.translate(part, options);
    options.first_number = 0;
    const auto from_zero = translator.translate(part, options);
    ASSERT_EQ(found.size(), part.size());
    for (size_t i = 0; i < part.size(); ++i) {
      EXPECT_TRUE(same_translation(found[i], whole[from + i])) << from << " " << i;
      numbers_matter = numbers_matter || from_zero[i].text() != found[i].text();
    }
  }
  EXPECT_TRUE(numbers_matter);
  options.first_number = -1;
  EXPECT_THROW(translator.translate(lines(), options), Error);
}

// No more lines are under way than the window allows, though one of them takes long.
TEST(Translator, TakesNoLinesBeyondTheWindow) {
  const Translator translator = translator_for(Family::encoder_decoder);
  const auto most_under_way = [&](int64_t window) {
    TranslateOptions options = quick_options();
    options.window = window;
    options.slots = 20;
    options.search.max_tokens = 40;
    options.search.max_ratio = 1.0;
    int64_t taken = 0, back = 0, most = 0;
    translator.translate(
        [&]() -> std::optional<TextRequest> {
          if (taken == 300) return std::nullopt;
          most = std::max(most, ++taken - back);
          return TextRequest{taken % 50 == 1 ? "the theory that they themselves gathered" : "you"};
        },
        [&](Translation&& translation) {
          EXPECT_EQ(translation.number, back++);
          return true;
        },
        options);
    EXPECT_EQ(back, 300);
    return most;
  };
  EXPECT_GT(most_under_way(1000), 10);  // so that the window has something to do
  EXPECT_EQ(most_under_way(7), 7);
}

TEST(Translator, StopsWhenToldTo) {
  const Translator translator = translator_for(Family::encoder_decoder);
  int64_t back = 0;
  translator.translate([] { return TextRequest{"you"}; }, [&](Translation&&) { return ++back < 7; },
                       quick_options());
  EXPECT_EQ(back, 7);
}

TEST(Translator, WaitsForALineOnlyWhenAllCameBack) {
  const Translator translator = translator_for(Family::encoder_decoder);
  int64_t taken = 0, back = 0;
  translator.translate(
      [&]() -> std::optional<TextRequest> {
        if (taken == 4 || taken != back) return std::nullopt;
        ++taken;
        return TextRequest{"how are you"};
      },
      [&](Translation&&) {
        ++back;
        return true;
      },
      quick_options());
  EXPECT_EQ(back, 4);
}

class BadLineTest : public ::testing::Test {
 protected:
  const Translator translator_ = translator_for(Family::encoder_decoder);
  std::string long_line_ = [] {
    std::string line;
    for (int i = 0; i < 60; ++i) line += " x";
    return line;
  }();
};

TEST_F(BadLineTest, IsAnErrorThatNamesIt) {
  for (const auto& [line, reason] :
       {std::pair<std::string, std::string>{long_line_,
                                            "the line has 122 tokens, the model takes "
                                            "40 at most: split it"},
        {"you \xff", "tokenizer: "}}) {
    std::vector<std::string> given = {"you", "how are you", line, "you"};
    size_t taken = 0;
    std::vector<int64_t> back;
    const auto raised = raised_by([&] {
      translator_.translate(
          [&]() -> std::optional<TextRequest> {
            if (taken == given.size()) return std::nullopt;
            return TextRequest{given[taken++]};
          },
          [&](Translation&& translation) {
            back.push_back(translation.number);
            return true;
          },
          quick_options());
    });
    EXPECT_EQ(raised.code, ErrorCode::invalid_argument);
    EXPECT_EQ(raised.text.substr(0, 18), "translate: line 3:");
    EXPECT_NE(raised.text.find(reason), std::string::npos) << raised.text;
    EXPECT_EQ(back, (std::vector<int64_t>{0, 1}));  // the lines before are not lost
  }
}

TEST_F(BadLineTest, MayBeSkipped) {
  TranslateOptions options = quick_options();
  options.bad_lines = BadLine::skip;
  const std::vector<std::string> given = {"you \xff", "you", long_line_, "you", long_line_};
  const auto found = translator_.translate(given, options);
  ASSERT_EQ(found.size(), 5u);
  for (size_t i = 0; i < found.size(); ++i) {
    const bool bad = i % 2 == 0;
    EXPECT_EQ(found[i].number, static_cast<int64_t>(i));
    EXPECT_EQ(found[i].skipped.empty(), !bad);
    EXPECT_EQ(found[i].hypotheses[0].tokens.empty(), bad);
    EXPECT_EQ(found[i].text().empty(), bad);
  }
  EXPECT_EQ(found[2].skipped, "the line has 122 tokens, the model takes 40 at most: split it");
}

TEST_F(BadLineTest, IsNamedByItsNumber) {
  TranslateOptions options = quick_options();
  options.first_number = 100;
  const std::vector<std::string> given = {"you", "you \xff"};
  const auto raised = raised_by([&] { translator_.translate(given, options); });
  EXPECT_EQ(raised.text.substr(0, 20), "translate: line 102:");
}

TEST_F(BadLineTest, InAPrefixToo) {
  const auto raised = raised_by([&] {
    bool given = false;
    translator_.translate(
        [&]() -> std::optional<TextRequest> {
          if (std::exchange(given, true)) return std::nullopt;
          return TextRequest{"you", long_line_};
        },
        [](Translation&&) { return true; });
  });
  EXPECT_EQ(raised.text,
            "translate: line 1: the prefix has 121 tokens, the model takes 39 at most: split it");
}

// The reader of the line may know that it cannot be used.
TEST_F(BadLineTest, MayComeWithAFault) {
  std::vector<std::string> skipped;
  const auto translate = [&](BadLine bad_lines) {
    TranslateOptions options = quick_options();
    options.bad_lines = bad_lines;
    skipped.clear();
    int64_t taken = 0;
    translator_.translate(
        [&]() -> std::optional<TextRequest> {
          if (++taken > 3) return std::nullopt;
          return TextRequest{"you", "", taken == 2 ? "the line has no end" : ""};
        },
        [&](Translation&& translation) {
          skipped.push_back(translation.skipped);
          return true;
        },
        options);
  };
  EXPECT_EQ(raised_by([&] { translate(BadLine::error); }).text,
            "translate: line 2: the line has no end");
  EXPECT_EQ(skipped, std::vector<std::string>{""});
  translate(BadLine::skip);
  EXPECT_EQ(skipped, (std::vector<std::string>{"", "the line has no end", ""}));
}

TEST(Translator, APrefixBeginsTheTranslation) {
  const Translator translator = translator_for(Family::encoder_decoder);
  std::vector<std::string> texts;
  bool given = false;
  translator.translate(
      [&]() -> std::optional<TextRequest> {
        if (std::exchange(given, true)) return std::nullopt;
        return TextRequest{"how are you", "मैं ठीक"};
      },
      [&](Translation&& translation) {
        const Tokens prefix = tokenizer().encode("मैं ठीक");
        const Tokens& tokens = translation.hypotheses[0].tokens;
        EXPECT_TRUE(std::equal(prefix.begin(), prefix.end(), tokens.begin()));
        EXPECT_GT(tokens.size(), prefix.size());
        texts.push_back(translation.text());
        return true;
      },
      quick_options());
  ASSERT_EQ(texts.size(), 1u);
  EXPECT_TRUE(texts[0].starts_with("मैं ठीक"));
}

TEST(Translator, ADecoderOnlyModelContinuesTheLine) {
  const Translator translator = translator_for(Family::decoder_only);
  const std::vector<std::string> given = {"how are", ""};
  const auto found = translator.translate(given, quick_options());
  EXPECT_TRUE(found[0].text().starts_with("how are"));
  EXPECT_EQ(found[0].hypotheses[0].tokens.size(), tokenizer().encode("how are").size() + 12);
  EXPECT_FALSE(found[1].hypotheses[0].tokens.empty());
  TranslateOptions options = quick_options();
  options.alignments = true;
  EXPECT_EQ(raised_by([&] { translator.translate(given, options); }).text,
            "translate: a decoder-only model has no alignments");
}

void change_output_bias(Transformer& model,
                        const std::function<void(std::vector<float>& bias)>& change) {
  testing::change_weights(model,
                          [&](const std::string& name, std::vector<float>& values, const Shape&) {
                            if (name == "output.bias") change(values);
                          });
}

// However much the model wants it, a translation is one line.
TEST(Translator, NeverEmitsTheEndOfALine) {
  Transformer model = model_for(Family::encoder_decoder);
  change_output_bias(model, [](std::vector<float>& bias) {
    for (size_t id = 0; id < bias.size(); ++id) {
      if (tokenizer().piece(static_cast<int32_t>(id)) == "<0x0A>") bias[id] = 50.0f;
      if (id <= 2) bias[id] = 40.0f;
    }
  });
  const Translator translator(model, tokenizer(), 1);
  const Translation found = translator.translate(lines(), quick_options())[0];
  EXPECT_EQ(found.text().find('\n'), std::string::npos);
  EXPECT_FALSE(found.text().empty());
}

// A tokenizer of another program: unknown, START and END are 0, 1 and 2, or 2, 3 and 4 after words.
Tokenizer foreign_tokenizer(bool words_first) {
  const auto words = testing::piece("▁a", PieceType::normal, -1.0f) +
                     testing::piece("▁b", PieceType::normal, -2.0f);
  testing::ModelParts parts;
  parts.pieces = words_first ? words + parts.pieces : parts.pieces + words;
  return Tokenizer::from_bytes(parts.bytes(), "t.model");
}

// What training reports is what the Translator will write, whatever ids a tokenizer gives its
// special tokens: END ends, words are written, and no other special token ever is.
TEST(Translator, TakesTheSpecialTokensFromTheTokenizerAsTrainingDoes) {
  const std::vector<std::string> given = {"a", "b a", "a b b", "b", "c a"};
  std::vector<std::pair<std::string, std::string>> pairs;
  for (const std::string& line : given) pairs.emplace_back(line, line);
  for (const bool words_first : {false, true}) {
    const Tokenizer foreign = foreign_tokenizer(words_first);
    ASSERT_EQ(foreign.end(), words_first ? 4 : 2);
    const std::vector<int32_t> unwritable = foreign.unwritable();
    for (const float end_bias : {-20.0f, 20.0f}) {
      Transformer model = model_for(Family::encoder_decoder, end_bias, foreign);
      change_output_bias(model, [&](std::vector<float>& bias) {
        for (const int32_t id : unwritable) bias[static_cast<size_t>(id)] += 40.0f;
        for (const int32_t id : foreign.encode("a b")) bias[static_cast<size_t>(id)] += 10.0f;
      });
      TranslateOptions greedy;
      greedy.search.beam = 1;
      std::vector<std::string> texts;
      for (const Translation& found : Translator(model, foreign, 1).translate(given, greedy)) {
        const TextHypothesis& h = found.hypotheses[0];
        EXPECT_EQ(h.ended, end_bias > 0.0f);
        EXPECT_EQ(h.text.empty(), end_bias > 0.0f);
        EXPECT_EQ(h.text.find_first_not_of("ab "), std::string::npos) << h.text;
        EXPECT_EQ(std::find_first_of(h.tokens.begin(), h.tokens.end(), unwritable.begin(),
                                     unwritable.end()),
                  h.tokens.end());
        texts.push_back(h.text);
      }
      Session session(model, 1);
      EXPECT_EQ(evaluate(model, foreign, Corpus::of(pairs), {}, session).outputs, texts);
    }
  }
}

TEST(Translator, MayBeCalledFromManyThreads) {
  const Translator translator = translator_for(Family::encoder_decoder);
  const auto expected = translator.translate(lines(), quick_options());
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 5; ++i) {
        const auto found = translator.translate(lines(), quick_options());
        for (size_t n = 0; n < found.size(); ++n)
          wrong += same_translation(found[n], expected[n]) ? 0 : 1;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong.load(), 0);
}

TEST(Translator, KeepsNoMoreIdleSessionsThanCores) {
  TranslatorState state(model_for(Family::encoder_decoder), tokenizer(), 1, {});
  ASSERT_GE(state.max_idle, 1u);
  std::vector<std::unique_ptr<BorrowedSession>> calls;
  for (size_t i = 0; i < state.max_idle + 3; ++i) {
    calls.push_back(std::make_unique<BorrowedSession>(state));
  }
  const Session* first = &**calls[0];
  calls.erase(calls.begin());
  EXPECT_EQ(state.idle.size(), 1u);
  EXPECT_EQ(&*BorrowedSession(state), first);
  calls.clear();
  EXPECT_EQ(state.idle.size(), state.max_idle);
}

TEST(Translator, IsLoadedFromAFolder) {
  const TempFolder folder;
  const Translator translator = translator_for(Family::encoder_decoder);
  translator.model().save(folder.path());
  const auto raised =
      raised_by([&] { Translator::load(folder.path(), testing::loading(Purpose::study), 1); });
  EXPECT_EQ(raised.code, ErrorCode::io);
  EXPECT_NE(raised.text.find("tokenizer.model"), std::string::npos);
  write_file_atomically(folder / "tokenizer.model", tokenizer().bytes());
  const Translator loaded = Translator::load(folder.path(), testing::loading(Purpose::study), 1);
  EXPECT_EQ(loaded.translate("how are you"), translator.translate("how are you"));
}

// A folder's settings are what a call gets that names none; each one that it names wins.
TEST(Translator, SearchesAsItsFolderSays) {
  const TempFolder folder;
  const Transformer model = model_for(Family::encoder_decoder);
  GenerationSettings settings;
  settings.search = {.beam = 2, .max_tokens = 9, .min_tokens = 4, .no_repeat_ngram = 2};
  settings.forbidden = {{300}, {310, 311}};
  settings.forced_end = Tokenizer::kEnd;
  settings.forced_first = {320};
  model.save(folder.path(), {.beside = {{std::string(kTokenizerFile), tokenizer().bytes()},
                                        {std::string(kGenerationFile), to_json(settings)}}});
  const Translator loaded = Translator::load(folder.path(), testing::loading(Purpose::study), 1);
  EXPECT_EQ(loaded.generation(), settings);
  const SearchOptions usual = loaded.search_options();
  EXPECT_EQ(usual.beam, 2);
  EXPECT_EQ(usual.min_tokens, 4);
  EXPECT_EQ(usual.length_penalty, 0.6);
  EXPECT_EQ(usual.forbidden.back(), 300);
  EXPECT_EQ(usual.forbidden_sequences, (std::vector<Tokens>{{310, 311}}));
  EXPECT_EQ(usual.forced_end, Tokenizer::kEnd);
  const SearchOptions named = loaded.search_options(
      {.search = {.beam = 3, .min_tokens = 0}, .forbidden = {{301}}, .force_end = false});
  EXPECT_EQ(named.beam, 3);
  EXPECT_EQ(named.min_tokens, 0);
  EXPECT_EQ(named.no_repeat_ngram, 2);
  EXPECT_EQ(named.forbidden.back(), 301);
  EXPECT_FALSE(named.forced_end.has_value());

  const auto results = loaded.translate(lines());
  const Translator plain(model, tokenizer(), 1);
  EXPECT_EQ(plain.search_options().beam, 5);
  int differing = 0;
  for (size_t i = 0; i < results.size(); ++i) {
    const TextHypothesis& h = results[i].hypotheses[0];
    if (h.tokens.empty()) continue;
    EXPECT_EQ(h.tokens.front(), 320);
    EXPECT_TRUE(h.ended);
    EXPECT_GE(h.tokens.size(), 5u);
    EXPECT_LE(h.tokens.size(), 9u);
    differing += h.text == plain.translate(lines()[i]) ? 0 : 1;
    // The same options, all named, on a model without settings.
    TranslateOptions all{.search = settings.search, .forbidden = settings.forbidden};
    all.force_end = true;
    all.search.max_tokens = 8;  // what is forced counts
    all.search.min_tokens = 3;
    EXPECT_EQ(plain.search_options(all).forbidden, usual.forbidden);
  }
  EXPECT_GT(differing, 0);

  write_file_atomically(folder / "generation.json", "{\"format\": 1}\n");
  EXPECT_EQ(
      raised_by([&] { Translator::load(folder.path(), testing::loading(Purpose::study), 1); }).code,
      ErrorCode::bad_format)
      << "the seal does not fit";
  settings.forced_first = {330};
  model.save(folder.path(), {.beside = {{std::string(kTokenizerFile), tokenizer().bytes()},
                                        {std::string(kGenerationFile), to_json(settings)}}});
  EXPECT_EQ(
      raised_by([&] { Translator::load(folder.path(), testing::loading(Purpose::study), 1); }).text,
      (folder / "generation.json") +
          ": forced_first: token 330 is not below the vocabulary of 330");
}

// A model of one direction knows which one, if it was told.
TEST(Translator, NamesTheLanguagesOfOneDirection) {
  GenerationSettings settings;
  settings.from_language = "en";
  settings.to_language = "hi";
  const Translator translator(model_for(Family::encoder_decoder), tokenizer(), 1, settings);
  EXPECT_TRUE(translator.languages().codes.empty());
  EXPECT_EQ(translator.languages().usual.from, "en");
  EXPECT_EQ(translator.languages().usual.to, "hi");
  TranslateOptions options = quick_options();
  const std::string right = translator.translate(lines(), options)[0].text();
  options.languages = {"en", "hi"};
  EXPECT_EQ(translator.translate(lines(), options)[0].text(), right);
  options.languages = {"en", "de"};
  EXPECT_EQ(raised_by([&] { translator.translate(lines(), options); }).text,
            "no language de: the model translates into hi alone");
  const Translator untold(model_for(Family::encoder_decoder), tokenizer(), 1);
  EXPECT_EQ(raised_by([&] { untold.translate(lines(), options); }).text,
            "the language en was named, but the model has none to choose");
}

TEST(Translator, TokenizerAndModelMustFit) {
  const TempFolder folder;
  for (const Family family : {Family::encoder_decoder, Family::decoder_only}) {
    const Transformer other(testing::tiny_config(family), 1, testing::placement());
    other.save(folder.path());
    write_file_atomically(folder / "tokenizer.model", tokenizer().bytes());
    const auto raised =
        raised_by([&] { Translator::load(folder.path(), testing::loading(Purpose::study), 1); });
    EXPECT_EQ(raised.code, ErrorCode::bad_format);
    EXPECT_EQ(raised.text,
              (folder / "tokenizer.model") + " has " + std::to_string(tokenizer().vocab()) +
                  " pieces, " + (folder / "config.json") +
                  (family == Family::decoder_only ? " has target_vocab 11"
                                                  : " has source_vocab 11 and target_vocab 11") +
                  ": they are not of one model");
  }
}

}  // namespace
}  // namespace tril::translator_test
