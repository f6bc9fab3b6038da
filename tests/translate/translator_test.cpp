// Text in, text out: what search makes of the pieces, in the order of the lines.
#include "tril/translate/translator.h"

#include <algorithm>
#include <atomic>
#include <thread>
#include <utility>

#include "support/model_bytes.h"
#include "support/models.h"
#include "support/temp_folder.h"
#include "tril/decode/score.h"
#include "tril/io/atomic_file.h"
#include "tril/train/evaluation.h"
#include "tril/train/learn_shortlist.h"
#include "tril/translate/state.h"

namespace tril {
namespace {

using testing::equal_bits;
using testing::Family;
using testing::raised_by;
using testing::TempFolder;
using testing::Tokens;

const std::vector<std::string>& lines() {
  static const std::vector<std::string> all = {"how are you",
                                               "I am fine, thank you",
                                               "",
                                               "where are they going today?",
                                               "मैं ठीक हूँ",
                                               "   ",
                                               "the theory that they themselves gathered",
                                               "banana bandana ananas"};
  return all;
}

const Tokenizer& tokenizer() {
  static const Tokenizer learnt = [] {
    size_t next = 0;
    return Tokenizer::train(
        [&](std::string& line) {
          if (next == lines().size()) return false;
          line = lines()[next++];
          return true;
        },
        {.vocab = 330});
  }();
  return learnt;
}

// The larger `end_bias`, the sooner translations end.
Transformer model_for(Family family, float end_bias = 0.0f, const Tokenizer& pieces = tokenizer()) {
  TransformerConfig config = testing::tiny_config(family);
  config.target_vocab = pieces.vocab();
  if (family == Family::encoder_decoder) config.source_vocab = config.target_vocab;
  config.max_length = 40;
  config.output_bias = true;
  Transformer model(config, 7);
  Random random(7, 1);
  for (const auto& parameter : model.parameters()) {
    for (int64_t i = 0; i < parameter.tensor.size(); ++i) {
      parameter.tensor.data()[i] += random.uniform(-0.4f, 0.4f);
    }
    if (parameter.name == "output.bias") parameter.tensor.data()[pieces.end()] += end_bias;
  }
  Context context(1);
  model.weights_changed(context);
  return model;
}

Translator translator_for(Family family, int threads = 1) {
  return {model_for(family), tokenizer(), threads};
}

TranslateOptions quick_options() {
  TranslateOptions options;
  options.search.max_tokens = 12;
  return options;
}

bool same(const Translation& a, const Translation& b) {
  if (a.number != b.number || a.skipped != b.skipped) return false;
  return std::equal(a.hypotheses.begin(), a.hypotheses.end(), b.hypotheses.begin(),
                    b.hypotheses.end(), [](const TextHypothesis& x, const TextHypothesis& y) {
                      return x.text == y.text && x.tokens == y.tokens && x.pieces == y.pieces &&
                             equal_bits(x.log_probs, y.log_probs) && x.score == y.score &&
                             x.rank == y.rank && x.ended == y.ended && x.links == y.links &&
                             x.alignment.weights == y.alignment.weights;
                    });
}

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
    SearchOptions plain{options.search};
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
      for (size_t i = 0; i < found.size(); ++i) EXPECT_TRUE(same(found[i], expected[i]));
    }
  }
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
    EXPECT_EQ(back, (std::vector<int64_t>{0, 1}));  // what came before is not lost
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

// Whoever read the line may know that it cannot be used.
TEST_F(BadLineTest, OrComesWithItsFault) {
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

// However much the model wants it, a translation is one line.
TEST(Translator, NeverEmitsTheEndOfALine) {
  const Transformer model = model_for(Family::encoder_decoder);
  for (const auto& parameter : model.parameters()) {
    if (parameter.name != "output.bias") continue;
    for (int32_t id = 0; id < static_cast<int32_t>(tokenizer().vocab()); ++id) {
      if (tokenizer().piece(id) == "<0x0A>") parameter.tensor.data()[id] = 50.0f;
      if (id <= 2) parameter.tensor.data()[id] = 40.0f;
    }
  }
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

// What training reports is what the Translator will say, whatever ids a tokenizer gives its special
// tokens: END ends, words are said, and nothing else that is special ever is.
TEST(Translator, TakesTheSpecialTokensFromTheTokenizerAsTrainingDoes) {
  const std::vector<std::string> given = {"a", "b a", "a b b", "b", "c a"};
  std::vector<std::pair<std::string, std::string>> pairs;
  for (const std::string& line : given) pairs.emplace_back(line, line);
  for (const bool words_first : {false, true}) {
    const Tokenizer foreign = foreign_tokenizer(words_first);
    ASSERT_EQ(foreign.end(), words_first ? 4 : 2);
    const std::vector<int32_t> unwritable = foreign.unwritable();
    for (const float end_bias : {-20.0f, 20.0f}) {
      const Transformer model = model_for(Family::encoder_decoder, end_bias, foreign);
      for (const auto& parameter : model.parameters()) {
        if (parameter.name != "output.bias") continue;
        for (const int32_t id : unwritable) parameter.tensor.data()[id] += 40.0f;
        for (const int32_t id : foreign.encode("a b")) parameter.tensor.data()[id] += 10.0f;
      }
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
        for (size_t n = 0; n < found.size(); ++n) wrong += same(found[n], expected[n]) ? 0 : 1;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong.load(), 0);
}

TEST(Translator, KeepsNoMoreIdleSessionsThanCores) {
  TranslatorState state(model_for(Family::encoder_decoder), tokenizer(), 1);
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
  const auto raised = raised_by([&] { Translator::load(folder.path()); });
  EXPECT_EQ(raised.code, ErrorCode::io);
  EXPECT_NE(raised.text.find("tokenizer.model"), std::string::npos);
  write_file_atomically(folder / "tokenizer.model", tokenizer().bytes());
  const Translator loaded = Translator::load(folder.path(), 1);
  EXPECT_EQ(loaded.translate("how are you"), translator.translate("how are you"));
}

TEST(Translator, TokenizerAndModelMustFit) {
  const TempFolder folder;
  for (const Family family : {Family::encoder_decoder, Family::decoder_only}) {
    const Transformer other(testing::tiny_config(family), 1);
    other.save(folder.path());
    write_file_atomically(folder / "tokenizer.model", tokenizer().bytes());
    const auto raised = raised_by([&] { Translator::load(folder.path()); });
    EXPECT_EQ(raised.code, ErrorCode::bad_format);
    EXPECT_EQ(raised.text,
              (folder / "tokenizer.model") + " has " + std::to_string(tokenizer().vocab()) +
                  " pieces, " + (folder / "config.json") +
                  (family == Family::decoder_only ? " has target_vocab 11"
                                                  : " has source_vocab 11 and target_vocab 11") +
                  ": they are not of one model");
  }
}

std::vector<TextScore> score_all(const Translator& translator,
                                 const std::vector<ScoreTextRequest>& requests,
                                 const ScoreTextOptions& options = {}) {
  size_t taken = 0;
  std::vector<TextScore> scores;
  translator.score(
      [&]() -> std::optional<ScoreTextRequest> {
        if (taken == requests.size()) return std::nullopt;
        return requests[taken++];
      },
      [&](TextScore&& text) {
        scores.push_back(std::move(text));
        return true;
      },
      options);
  return scores;
}

TEST(Translator, ScoresWhatItEmittedAsItReported) {
  const Translator translator = translator_for(Family::encoder_decoder);
  std::vector<ScoreTextRequest> requests;
  std::vector<double> expected;
  for (const Translation& t : translator.translate(lines(), quick_options())) {
    if (t.text().empty()) continue;
    requests.push_back({.source = lines()[static_cast<size_t>(t.number)],
                        .target_tokens = t.hypotheses[0].tokens});
    expected.push_back(t.hypotheses[0].score);
  }
  ASSERT_GE(requests.size(), 5u);
  const auto scores = score_all(translator, requests);
  ASSERT_EQ(scores.size(), expected.size());
  for (size_t i = 0; i < scores.size(); ++i) {
    EXPECT_EQ(scores[i].number, static_cast<int64_t>(i));
    EXPECT_EQ(scores[i].score, expected[i]);
    EXPECT_EQ(scores[i].tokens, *requests[i].target_tokens);
    EXPECT_EQ(scores[i].pieces.size(), scores[i].tokens.size());
  }
}

// The lines beside themselves in another order of words.
Shortlist learnt_shortlist(int threads = 1) {
  const Corpus corpus = Corpus::of({{"how are you", "you are how"},
                                    {"where are they going today?", "today? going they are where"},
                                    {"I am fine, thank you", "you thank fine, am I"}});
  return learn_shortlist(corpus, tokenizer(), {.best = 4, .frequent = 5, .threads = threads});
}

// Lines with a shortlist: prefixes, samples, several results and alignments as ever, the same bits
// in any batch, and scores that equal what was reported.
TEST(Translator, TranslatesAndScoresWithAShortlist) {
  const Translator translator = translator_for(Family::encoder_decoder, 2);
  TranslateOptions options = quick_options();
  options.shortlist = learnt_shortlist();
  options.alignments = true;
  options.search.n_best = 2;
  const auto translations = translator.translate(lines(), options);
  ASSERT_EQ(translations.size(), lines().size());
  for (const int64_t slots : {5, 7, 200}) {
    options.slots = slots;
    const auto again = translator.translate(lines(), options);
    for (size_t i = 0; i < again.size(); ++i) EXPECT_TRUE(same(again[i], translations[i])) << i;
  }
  TranslateOptions without = options;
  without.shortlist.reset();
  const auto plain = translator.translate(lines(), without);
  int different = 0;
  for (size_t i = 0; i < plain.size(); ++i) different += same(plain[i], translations[i]) ? 0 : 1;
  EXPECT_GT(different, 0) << "the shortlist changes nothing";

  options.search.sample = true;
  options.search.beam = 1;
  size_t taken = 0;
  const std::string prefix = "gathered";
  std::vector<ScoreTextRequest> requests;
  std::vector<double> expected;
  translator.translate(
      [&]() -> std::optional<TextRequest> {
        if (taken == lines().size()) return std::nullopt;
        return TextRequest{lines()[taken++], prefix};
      },
      [&](Translation&& t) {
        for (const TextHypothesis& h : t.hypotheses) {
          if (h.tokens.empty()) continue;
          EXPECT_EQ(h.text.substr(0, prefix.size()), prefix);
          requests.push_back({.source = lines()[static_cast<size_t>(t.number)],
                              .target_tokens = h.tokens,
                              .prefix = prefix});
          expected.push_back(h.score);
        }
        return true;
      },
      options);
  ASSERT_GE(requests.size(), 10u);
  const auto scores = score_all(translator, requests, {.shortlist = options.shortlist});
  for (size_t i = 0; i < scores.size(); ++i) EXPECT_EQ(scores[i].score, expected[i]);
  // Without its prefix in the set, what began with it is impossible.
  for (ScoreTextRequest& request : requests) request.prefix.clear();
  const auto impossible = score_all(translator, requests, {.shortlist = options.shortlist});
  EXPECT_EQ(impossible[0].score, -std::numeric_limits<double>::infinity());
}

TEST(Translator, RefusesTheShortlistOfAnotherTokenizer) {
  const Translator translator = translator_for(Family::encoder_decoder);
  ShortlistTable table{.target_vocab = tokenizer().vocab(),
                       .always = {Tokenizer::kEnd},
                       .listed = std::vector<Tokens>(static_cast<size_t>(tokenizer().vocab())),
                       .tokenizer = "0123456789abcdef"};
  TranslateOptions options = quick_options();
  options.shortlist = Shortlist(table);
  const std::string why =
      ": the shortlist was made with another tokenizer: 'tril shortlist' makes one for this model";
  const auto raised = raised_by([&] { translator.translate(lines(), options); });
  EXPECT_EQ(raised.code, ErrorCode::invalid_argument);
  EXPECT_EQ(raised.text, "translate" + why);
  EXPECT_EQ(raised_by([&] { score_all(translator, {}, {.shortlist = options.shortlist}); }).text,
            "score" + why);
  const Translator writer = translator_for(Family::decoder_only);
  options.shortlist = learnt_shortlist();
  EXPECT_EQ(raised_by([&] { writer.translate(lines(), options); }).text,
            "search: a decoder-only model has no source to choose a shortlist by");
}

// What is learnt: each piece for itself, END and the frequent ones for all, whatever the threads.
TEST(LearnShortlist, ListsWhatTheHeaderSays) {
  const Shortlist shortlist = learnt_shortlist();
  EXPECT_EQ(shortlist.source_vocab(), tokenizer().vocab());
  EXPECT_TRUE(shortlist.always(Tokenizer::kEnd));
  const auto set_of = [&](const Shortlist& list, int32_t source) {
    Tokens set;
    list.choose({&source, 1}, {}, set);
    return set;
  };
  const auto vocab = static_cast<int32_t>(tokenizer().vocab());
  const Shortlist other = learnt_shortlist(3);
  for (int32_t piece = 0; piece < vocab; ++piece) {
    const Tokens set = set_of(shortlist, piece);
    EXPECT_TRUE(std::binary_search(set.begin(), set.end(), piece));
    EXPECT_LE(set.size(), 1u + 4u + 5u + 1u);
    EXPECT_EQ(set_of(other, piece), set);
  }
  for (const char* word : {"where", "thank"}) {  // each is its own translation
    for (const int32_t piece : tokenizer().encode(word)) {
      const Tokens set = set_of(shortlist, piece);
      EXPECT_TRUE(std::binary_search(set.begin(), set.end(), piece));
    }
  }
}

// How much a shortlist holds is measured on pairs it was not learnt from: texts without anything in
// common have nothing to show for what was learnt by heart.
TEST(LearnShortlist, IsMeasuredOnPairsThatWereLeftOut) {
  std::vector<std::pair<std::string, std::string>> pairs;
  const Tokenizer& pieces = tokenizer();
  const int32_t first = static_cast<int32_t>(pieces.vocab()) - 60;  // past bytes and characters
  for (int32_t i = 0; i < 20; ++i) {
    const Tokens source = {first + i}, target = {first + 20 + i};
    pairs.emplace_back(pieces.decode(source), pieces.decode(target));
  }
  ShortlistReport report;
  const ShortlistOptions options{.best = 5, .frequent = 0, .threads = 1};
  learn_shortlist(Corpus::of(pairs), pieces, options, &report);
  EXPECT_EQ(report.pairs, 20);
  EXPECT_EQ(report.measured, 2);
  EXPECT_LT(report.covered, 0.5);
  // The same pair again and again is known when one of it is left out.
  learn_shortlist(Corpus::of({20, pairs[0]}), pieces, options, &report);
  EXPECT_EQ(report.measured, 2);
  EXPECT_EQ(report.covered, 1.0);
  learn_shortlist(Corpus::of({9, pairs[0]}), pieces, options, &report);
  EXPECT_EQ(report.measured, 0);
}

TEST(LearnShortlist, OptionsAreChecked) {
  const Corpus corpus = Corpus::of({{"a", "b"}});
  const auto text = [&](const Corpus& c, const ShortlistOptions& options) {
    const auto raised = raised_by([&] { learn_shortlist(c, tokenizer(), options); });
    EXPECT_EQ(raised.code, ErrorCode::invalid_argument);
    return raised.text;
  };
  EXPECT_EQ(text(corpus, {.best = 0}), "shortlist: best must be from 1 to 1000, got 0");
  EXPECT_EQ(text(corpus, {.frequent = -1}),
            "shortlist: frequent must be from 0 to 1073741824, got -1");
  EXPECT_EQ(text(corpus, {.rounds = 0}), "shortlist: rounds must be from 1 to 100, got 0");
  EXPECT_EQ(text(corpus, {.most_pairs = 0}),
            "shortlist: most_pairs must be from 1 to 1073741824, got 0");
}

TEST(Translator, ScoresTextWithItsEnd) {
  const Translator translator = translator_for(Family::encoder_decoder);
  const auto scores = score_all(
      translator, {{.source = "how are you", .target = "मैं ठीक हूँ"}, {.source = "", .target = ""}});
  Tokens source = tokenizer().encode("how are you");
  Tokens target = tokenizer().encode("मैं ठीक हूँ");
  source.push_back(Tokenizer::kEnd);
  target.push_back(Tokenizer::kEnd);
  Session session(translator.model(), 1);
  EXPECT_EQ(scores[0].tokens, target);
  EXPECT_EQ(scores[0].score, score(translator.model(), {}, {0, source, target}, session).score);
  EXPECT_EQ(scores[1].tokens, Tokens{Tokenizer::kEnd});
  EXPECT_EQ(scores[1].pieces, std::vector<std::string>{"</s>"});
}

TEST(Translator, ScoresNameTheLineOrSkipIt) {
  const Translator translator = translator_for(Family::encoder_decoder);
  const std::vector<ScoreTextRequest> requests = {
      {.source = "you", .target = "you"},
      {.source = "you", .target_tokens = Tokens{4, 9999}},
      {.source = "you \xc0", .target = "you"},
      {.source = "you", .target_tokens = Tokens(41, 5)},
      {.source = "you", .target = "you"},
      {.source = "you", .target = "you", .fault = "the target has no end"}};
  EXPECT_EQ(raised_by([&] { score_all(translator, requests); }).text,
            "score: line 2: token 9999 is not below the vocabulary of " +
                std::to_string(tokenizer().vocab()));
  const auto scores = score_all(translator, requests, {.bad_lines = BadLine::skip});
  ASSERT_EQ(scores.size(), 6u);
  EXPECT_EQ(scores[5].skipped, "the target has no end");
  EXPECT_EQ(scores[3].skipped, "the target has 41 tokens, the model takes 40 at most");
  EXPECT_NE(scores[2].skipped, "");
  EXPECT_EQ(scores[4].skipped, "");
  EXPECT_EQ(scores[4].score, scores[0].score);
}

}  // namespace
}  // namespace tril
