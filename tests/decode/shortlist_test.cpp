// Shortlists: the sets, their file, and search and scores over a sentence's own set.
#include "tril/decode/shortlist.h"

#include <cmath>
#include <limits>
#include <numeric>

#include "slow_search.h"
#include "support/temp_folder.h"
#include "tril/decode/engine.h"
#include "tril/decode/score.h"
#include "tril/device/device.h"
#include "tril/io/atomic_file.h"
#include "tril/io/safetensors.h"
#include "tril/models/output_part.h"
#include "tril/models/session_state.h"

namespace tril::shortlist_test {
namespace {

using testing::any_form;
using testing::equal_bits;
using testing::Family;
using testing::floats_of;
using testing::raised_by;
using testing::random_config;
using testing::random_model;
using testing::random_requests;
using testing::run_search;
using testing::same;
using testing::sharp_model;
using testing::slow_beam;
using testing::TempFolder;
using testing::Tokens;

constexpr int32_t kStart = 0;
constexpr int32_t kEnd = 1;

Tokens every_token(int64_t vocab) {
  Tokens all(static_cast<size_t>(vocab));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

// A few tokens for each source token, in any order and some of them twice.
Shortlist whole_vocabulary(const TransformerConfig& config) {
  return Shortlist({.target_vocab = config.target_vocab,
                    .always = {kEnd},
                    .listed = std::vector<Tokens>(static_cast<size_t>(config.source_vocab),
                                                  every_token(config.target_vocab))});
}

constexpr auto kOnCpu = "parts of a vocabulary are the CPU's";

SearchOptions random_options() {
  SearchOptions options;
  options.start = kStart;
  options.end = kEnd;
  options.forbidden = {kStart};
  options.max_tokens = 15;
  options.sample = *rc::gen::arbitrary<bool>();
  options.beam = options.sample ? 1 : *rc::gen::inRange<int64_t>(1, 6);
  options.n_best = options.sample ? 2 : options.beam;
  if (options.sample && *rc::gen::arbitrary<bool>()) options.top_p = 0.9;
  return options;
}

bool same_results(const std::vector<SearchResult>& a, const std::vector<SearchResult>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const SearchResult& x, const SearchResult& y) {
                      return x.number == y.number && same(x.hypotheses, y.hypotheses);
                    });
}

TEST(Shortlist, TheSetIsAUnionInAscendingOrder) {
  const Shortlist shortlist(
      {.target_vocab = 10, .always = {7, 1}, .listed = {{5, 3, 5}, {}, {9, 1}}});
  const auto set = [&](const Tokens& source, const Tokens& prefix = {}) {
    Tokens result = {99};
    shortlist.choose(source, prefix, result);
    return result;
  };
  EXPECT_EQ(set({}), (Tokens{1, 7}));
  EXPECT_EQ(set({0}), (Tokens{1, 3, 5, 7}));
  EXPECT_EQ(set({2, 1, 0, 2}), (Tokens{1, 3, 5, 7, 9}));
  EXPECT_EQ(set({1}, {8, 8, 0}), (Tokens{0, 1, 7, 8}));
  EXPECT_TRUE(shortlist.always(7));
  EXPECT_FALSE(shortlist.always(3));
  EXPECT_EQ(shortlist.source_vocab(), 3);
}

// The logits of a part are those of the whole, bit for bit: any tokens, any rows, any form.
RC_GTEST_PROP(OutputPart, LogitsAreThoseOfTheWhole, ()) {
  if (testing::device() != Device::cpu) RC_SUCCEED(kOnCpu);
  const TransformerConfig config = random_config(Family::encoder_decoder);
  const Transformer model = any_form(random_model(config, *rc::gen::arbitrary<uint64_t>()));
  Session session(model, *rc::gen::inRange(1, 4));
  const int64_t rows = *rc::gen::inRange<int64_t>(1, 40);
  Random random(*rc::gen::arbitrary<uint64_t>());
  const Tensor hidden = testing::random_tensor(session->arena, {rows, config.model}, random);
  const auto vocab = static_cast<int32_t>(config.target_vocab);
  const auto whole = floats_of(model.logits(hidden, session));
  std::vector<std::unique_ptr<OutputPart>> parts;
  std::vector<PartRows> uses;
  for (int64_t begin = 0; begin < rows;) {
    const int64_t end = std::min(rows, begin + *rc::gen::inRange<int64_t>(1, 20));
    parts.push_back(std::make_unique<OutputPart>());
    for (int fill = *rc::gen::inRange(1, 3); fill > 0; --fill) {  // a part may be filled again
      const auto tokens = *rc::gen::container<Tokens>(rc::gen::inRange<int32_t>(0, vocab));
      model.choose_output(tokens, *parts.back(), session);
    }
    uses.push_back({begin, end, parts.back().get()});
    begin = end;
  }
  const std::vector<Tensor> logits = model.logits(hidden, uses, session);
  RC_ASSERT(logits.size() == uses.size());
  for (size_t i = 0; i < uses.size(); ++i) {
    const auto got = floats_of(logits[i]);
    const auto tokens = uses[i].part->tokens();
    std::vector<float> expected;
    for (int64_t row = uses[i].begin; row < uses[i].end; ++row) {
      for (const int32_t token : tokens) {
        expected.push_back(whole[static_cast<size_t>(row * vocab + token)]);
      }
    }
    RC_ASSERT(equal_bits(got, expected));
  }
}

TEST(OutputPart, ArgumentsAreChecked) {
  if (testing::device() != Device::cpu) GTEST_SKIP() << kOnCpu;
  const Transformer model = sharp_model(Family::encoder_decoder, 9, 2);
  Session session(model, 1);
  OutputPart part;
  const Tokens outside = {3, 9};
  const auto raised = raised_by([&] { model.choose_output(outside, part, session); });
  EXPECT_EQ(raised.code, ErrorCode::invalid_argument);
  EXPECT_EQ(raised.text, "part of a linear layer: output 9 of 9");
  const Tokens inside = {3, 8};
  model.choose_output(inside, part, session);
  const Tensor hidden(session->arena, {2, 8});
  const PartRows rows[] = {{0, 3, &part}};
  EXPECT_EQ(raised_by([&] { model.logits(hidden, rows, session); }).text,
            "linear by rows: rows 0 to 3 of 2");
}

// Beam search over each sentence's set equals the slow search on the set's probabilities.
RC_GTEST_PROP(Shortlist, SearchIsThePlainSearchOverTheSet, ()) {
  if (testing::device() != Device::cpu) RC_SUCCEED(kOnCpu);
  const TransformerConfig config = random_config(Family::encoder_decoder);
  const Transformer model = random_model(config, *rc::gen::arbitrary<uint64_t>());
  SearchOptions options = random_options();
  options.sample = false;
  options.n_best = options.beam;
  options.shortlist = testing::random_shortlist(config, kEnd);
  const auto requests = random_requests(config, 4, 6, 3, kEnd);
  Session session(model, 2);
  const auto found = run_search(model, options, 3 * options.beam, requests, session);
  RC_ASSERT(found.size() == requests.size());
  for (size_t i = 0; i < requests.size(); ++i) {
    RC_ASSERT(same(found[i].hypotheses, slow_beam(model, requests[i], options)));
  }
  RC_ASSERT(session->cache.block_count() == 0);
}

// Nothing that is chosen lies outside the set.
RC_GTEST_PROP(Shortlist, OnlyTheSetIsChosen, ()) {
  if (testing::device() != Device::cpu) RC_SUCCEED(kOnCpu);
  const TransformerConfig config = random_config(Family::encoder_decoder);
  const Transformer model = any_form(random_model(config, *rc::gen::arbitrary<uint64_t>()));
  SearchOptions options = random_options();
  options.shortlist = testing::random_shortlist(config, kEnd);
  const auto requests = random_requests(config, 5, 6, 3, kEnd);
  Session session(model, 2);
  for (const SearchResult& result : run_search(model, options, 10, requests, session)) {
    const SearchRequest& request = requests[static_cast<size_t>(result.number)];
    Tokens set;
    options.shortlist->choose(request.source, request.prefix, set);
    for (const Hypothesis& h : result.hypotheses) {
      for (size_t i = 0; i < h.tokens.size(); ++i) {
        RC_ASSERT(std::binary_search(set.begin(), set.end(), h.tokens[i]));
        RC_ASSERT(std::isfinite(h.log_probs[i]));
      }
    }
  }
}

// A set that is the whole vocabulary changes no bit of search or scores.
RC_GTEST_PROP(Shortlist, TheWholeVocabularyChangesNothing, ()) {
  if (testing::device() != Device::cpu) RC_SUCCEED(kOnCpu);
  const TransformerConfig config = random_config(Family::encoder_decoder);
  const Transformer model = any_form(random_model(config, *rc::gen::arbitrary<uint64_t>()));
  SearchOptions options = random_options();
  const auto requests = random_requests(config, 5, 10, 4, kEnd);
  Session session(model, 2);
  const auto expected = run_search(model, options, 12, requests, session);
  options.shortlist = whole_vocabulary(config);
  RC_ASSERT(same_results(run_search(model, options, 12, requests, session), expected));
  for (const auto& sentence : testing::random_sentences(config, 3, 20)) {
    const ScoreRequest request{.source = sentence.source, .target = sentence.target};
    const auto whole = score(model, {.start = kStart}, request, session);
    const auto listed =
        score(model, {.start = kStart, .shortlist = options.shortlist}, request, session);
    RC_ASSERT(equal_bits(listed.log_probs, whole.log_probs));
    RC_ASSERT(listed.score == whole.score);
  }
}

// The same bits in any batch, with any number of slots and threads, and in any order.
RC_GTEST_PROP(Shortlist, ASentenceDependsOnItselfAlone, ()) {
  if (testing::device() != Device::cpu) RC_SUCCEED(kOnCpu);
  const TransformerConfig config = random_config(Family::encoder_decoder);
  const Transformer model = any_form(random_model(config, *rc::gen::arbitrary<uint64_t>()));
  SearchOptions options = random_options();
  options.shortlist = testing::random_shortlist(config, kEnd);
  const auto requests = random_requests(config, 8, 10, 4, kEnd);
  const int64_t width = options.sample ? options.n_best : options.beam;
  Session session(model, 1);
  std::vector<SearchResult> alone;
  for (const SearchRequest& request : requests) {
    alone.push_back(run_search(model, options, width, {request}, session)[0]);
  }
  for (const int threads : {1, 2, 5}) {
    Session other(model, threads);
    const int64_t slots = width * *rc::gen::inRange<int64_t>(1, 10);
    auto shuffled = requests;
    std::reverse(shuffled.begin(), shuffled.end());
    RC_ASSERT(same_results(run_search(model, options, slots, shuffled, other), alone));
    RC_ASSERT(other->cache.block_count() == 0);
  }
}

// The score of emitted tokens is the reported score, prefixes outside of the lists included.
RC_GTEST_PROP(Shortlist, ScoresEqualWhatSearchReported, ()) {
  if (testing::device() != Device::cpu) RC_SUCCEED(kOnCpu);
  const TransformerConfig config = random_config(Family::encoder_decoder);
  const Transformer model = any_form(random_model(config, *rc::gen::arbitrary<uint64_t>()));
  SearchOptions options = random_options();
  options.shortlist = testing::random_shortlist(config, kEnd);
  const auto requests = random_requests(config, 6, 12, 4, kEnd);
  Session session(model, *rc::gen::inRange(1, 3));
  std::vector<ScoreRequest> targets;
  std::vector<Hypothesis> expected;
  for (const SearchResult& result : run_search(model, options, 9, requests, session)) {
    const SearchRequest& request = requests[static_cast<size_t>(result.number)];
    for (const Hypothesis& h : result.hypotheses) {
      targets.push_back({.number = static_cast<int64_t>(targets.size()),
                         .source = request.source,
                         .target = h.tokens,
                         .prefix = request.prefix});
      expected.push_back(h);
    }
  }
  const ScoreOptions scoring{.start = kStart,
                             .batch_tokens = *rc::gen::inRange<int64_t>(1, 200),
                             .shortlist = options.shortlist};
  size_t next = 0, back = 0;
  score(
      model, scoring,
      [&]() -> std::optional<ScoreRequest> {
        if (next == targets.size()) return std::nullopt;
        return targets[next++];
      },
      [&](ScoreResult&& result) {
        RC_ASSERT(equal_bits(result.log_probs, expected[back].log_probs));
        RC_ASSERT(result.score == expected[back].score);
        ++back;
        return true;
      },
      session);
  RC_ASSERT(back == expected.size());
}

// More rows than are processed at once: in one sentence, and in many whose rows straddle the limit.
TEST(Shortlist, ManyRowsAreThoseOfFew) {
  if (testing::device() != Device::cpu) GTEST_SKIP() << kOnCpu;
  const Transformer model = sharp_model(Family::encoder_decoder, 20, 4, 700);
  Session session(model, 2);
  Tokens target(600);
  for (size_t i = 0; i < target.size(); ++i) target[i] = static_cast<int32_t>(i * i % 20);
  const ScoreRequest request{.source = {4, 5}, .target = target};
  const auto whole = whole_vocabulary(model.config());
  EXPECT_TRUE(equal_bits(score(model, {.shortlist = whole}, request, session).log_probs,
                         score(model, {}, request, session).log_probs));

  SearchOptions options;
  options.start = kStart;
  options.end = kEnd;
  options.max_tokens = 3;
  ShortlistTable table{.target_vocab = 20, .always = {kEnd}, .listed = {}};
  for (int32_t token = 0; token < 20; ++token) table.listed.push_back({token, (token * 3) % 20});
  options.shortlist = Shortlist(table);
  std::vector<SearchRequest> requests;
  for (int32_t i = 0; i < 60; ++i) {
    requests.push_back({.number = i, .source = {i % 20, i % 7}, .prefix = Tokens(18, 2 + i % 11)});
  }
  const auto together = run_search(model, options, 60, requests, session);
  for (size_t i = 0; i < requests.size(); ++i) {
    const auto alone = run_search(model, options, 1, {requests[i]}, session);
    EXPECT_TRUE(same(together[i].hypotheses, alone[0].hypotheses)) << i;
  }
}

TEST(Shortlist, ATokenOutsideHasProbabilityZero) {
  if (testing::device() != Device::cpu) GTEST_SKIP() << kOnCpu;
  const Transformer model = sharp_model(Family::encoder_decoder, 9, 2);
  Session session(model, 1);
  const Shortlist shortlist(
      {.target_vocab = 9, .always = {3}, .listed = {{}, {4, 5}, {}, {}, {}, {}, {}, {}, {}}});
  const ScoreOptions options{.shortlist = shortlist};
  constexpr double kNone = -std::numeric_limits<double>::infinity();
  const auto outside = score(model, options, {0, {1}, {4, 6, 3}}, session);
  EXPECT_TRUE(std::isfinite(outside.log_probs[0]));
  EXPECT_EQ(double{outside.log_probs[1]}, kNone);
  EXPECT_TRUE(std::isfinite(outside.log_probs[2]));
  EXPECT_EQ(outside.score, kNone);
  EXPECT_TRUE(std::isfinite(score(model, options, {0, {1}, {4, 6, 3}, {6}}, session).score));
  // Over a set the probabilities add up to one: 3 tokens, at most one rounding of each and of the
  // sum, with log-probabilities off by a unit in the last place of a number below 16 (2^-20).
  double sum = 0.0;
  for (const int32_t token : {3, 4, 5}) {
    sum += std::exp(score(model, options, {0, {1}, {token}}, session).score);
  }
  EXPECT_NEAR(sum, 1.0, 4 * 0x1p-20);
}

TEST(Shortlist, OptionsAreChecked) {
  const Transformer model = sharp_model(Family::encoder_decoder, 6, 5, 8);
  Session session(model, 1);
  const auto lists = [](size_t count) { return std::vector<Tokens>(count); };
  const auto text = [&](const Shortlist& shortlist, const Transformer& m, ErrorCode code) {
    SearchOptions options;
    options.shortlist = shortlist;
    Session own(m, 1);
    const Tokens source = m.config().decoder_only() ? Tokens{} : Tokens{1};
    const auto raised = raised_by(
        [&] { run_search(m, options, 1, {{.number = 0, .source = source, .prefix = {}}}, own); });
    EXPECT_EQ(raised.code, code);
    return raised.text;
  };
  constexpr auto kBad = ErrorCode::invalid_argument;
  const Shortlist other({.target_vocab = 7, .always = {3}, .listed = lists(6)});
  EXPECT_EQ(text(other, model, kBad),
            "search: the shortlist is for vocabularies of 6 and 7 tokens, the model has 6 and 6");
  EXPECT_EQ(raised_by([&] {
              score(model, {.shortlist = other}, {0, {1}, {1}}, session);
            }).text,
            "score: the shortlist is for vocabularies of 6 and 7 tokens, the model has 6 and 6");
  EXPECT_EQ(text(Shortlist({.target_vocab = 6, .always = {2}, .listed = lists(6)}), model, kBad),
            "search: END, token 3, is not in every set of the shortlist");
  EXPECT_EQ(text(Shortlist({.target_vocab = 6, .always = {3}, .listed = lists(6)}),
                 sharp_model(Family::decoder_only, 6, 5, 8), ErrorCode::unsupported),
            "search: a decoder-only model has no source to choose a shortlist by");
  const auto made = [&](const ShortlistTable& table) {
    const auto raised = raised_by([&] { Shortlist{table}; });
    EXPECT_EQ(raised.code, kBad);
    return raised.text;
  };
  EXPECT_EQ(made({.target_vocab = 6, .always = {6}, .listed = {}}),
            "shortlist: token 6 is not below the vocabulary of 6");
  EXPECT_EQ(made({.target_vocab = 6, .always = {3}, .listed = {{-1}}}),
            "shortlist: token -1 is not below the vocabulary of 6");
  EXPECT_EQ(made({.target_vocab = 6, .always = {}, .listed = {}}),
            "shortlist: no token is in every set, not even END");
  EXPECT_EQ(made({.target_vocab = 0, .always = {3}, .listed = {}}),
            "shortlist: a target vocabulary of 0");
}

// A stream of sentences takes no more memory than its first ones.
TEST(Shortlist, MemoryIsFlat) {
  if (testing::device() != Device::cpu) GTEST_SKIP() << kOnCpu;
  const Transformer model = sharp_model(Family::encoder_decoder, 40, 3);
  Session session(model, 1);
  ShortlistTable table{.target_vocab = 40, .always = {3}, .listed = {}};
  for (int32_t token = 0; token < 40; ++token) table.listed.push_back({token, (token * 7) % 40});
  SearchOptions options;
  options.beam = 2;
  options.max_tokens = 6;
  options.shortlist = Shortlist(table);
  int64_t handed_out = 0, back = 0, allocations = 0;
  search(
      model, options, 8,
      [&]() -> std::optional<SearchRequest> {
        if (handed_out == 400) return std::nullopt;
        const auto first = static_cast<int32_t>(handed_out % 30);
        return SearchRequest{handed_out++, {first, first + 5, first + 9}, {}};
      },
      [&](SearchResult&&) {
        if (++back == 200) allocations = allocation_count();
        return true;
      },
      session);
  EXPECT_EQ(back, 400);
  EXPECT_EQ(allocation_count(), allocations);
}

TEST(Shortlist, OnCudaThereIsNone) {
  if (testing::device() == Device::cpu) GTEST_SKIP() << "here there is";
  const Transformer model = sharp_model(Family::encoder_decoder, 9, 2);
  Session session(model, 1);
  SearchOptions options;
  options.end = kEnd;
  options.shortlist = whole_vocabulary(model.config());
  const auto raised = raised_by([&] {
    run_search(model, options, 1, {{.number = 0, .source = {1}, .prefix = {}}}, session);
  });
  EXPECT_EQ(raised.code, ErrorCode::unsupported);
  EXPECT_NE(raised.text.find("outputs can be chosen on the CPU only"), std::string::npos)
      << raised.text;
  EXPECT_EQ(session->cache.block_count(), 0);
  // Nor by an engine, in which others go on.
  Engine engine(model, {.slots = 4}, session);
  const auto plain = std::make_shared<SearchOptions>(options);
  plain->shortlist.reset();
  std::vector<RequestEnd> ends;
  const RequestEvents events{
      .done = [&](RequestOutcome&& outcome) { ends.push_back(outcome.end); }};
  engine.submit({.number = 0, .source = {1}, .prefix = {}}, plain, events);
  const auto listed = std::make_shared<const SearchOptions>(options);
  EXPECT_EQ(raised_by([&] {
              engine.submit({.number = 1, .source = {1}, .prefix = {}}, listed, events);
            }).code,
            ErrorCode::unsupported);
  while (engine.step()) {
  }
  EXPECT_EQ(ends, std::vector<RequestEnd>{RequestEnd::finished});
}

RC_GTEST_PROP(Shortlist, ComesBackFromItsFile, ()) {
  const TransformerConfig config = random_config(Family::encoder_decoder);
  const Shortlist shortlist = testing::random_shortlist(config, kEnd);
  const TempFolder folder;
  shortlist.save(folder.path());
  const Shortlist loaded = Shortlist::load(folder.path());
  RC_ASSERT(loaded.source_vocab() == shortlist.source_vocab());
  RC_ASSERT(loaded.target_vocab() == shortlist.target_vocab());
  RC_ASSERT(loaded.tokenizer() == shortlist.tokenizer());
  for (int32_t source = 0; source < static_cast<int32_t>(config.source_vocab); ++source) {
    Tokens expected, got;
    shortlist.choose({&source, 1}, {}, expected);
    loaded.choose({&source, 1}, {}, got);
    RC_ASSERT(got == expected);
  }
  const std::string bytes = read_file(folder / std::string(kShortlistFile), 1 << 24);
  loaded.save(folder.path() + "/");
  RC_ASSERT(read_file(folder / std::string(kShortlistFile), 1 << 24) == bytes);
}

// Writes a file of the format with these numbers.
struct File {
  Tokens always = {1}, listed = {0, 2}, begins = {0, 2, 2}, target_vocab = {3};
  SafetensorsMetadata metadata = {{"tril_shortlist", "1"}, {"tokenizer", "x"}};
  DType type = DType::i32;
  std::string leave_out{};

  void write(const TempFolder& folder) const {
    Arena arena;
    std::vector<NamedTensor> tensors;
    const auto add = [&](const char* name, const Tokens& numbers) {
      if (leave_out == name) return;
      const Tensor tensor(arena, {static_cast<int64_t>(numbers.size())}, type);
      for (size_t i = 0; i < numbers.size(); ++i) {
        if (type == DType::i32) tensor.data<int32_t>()[i] = numbers[i];
        if (type == DType::f32) tensor.data()[i] = static_cast<float>(numbers[i]);
      }
      tensors.push_back({name, tensor});
    };
    add("always", always);
    add("listed", listed);
    add("begins", begins);
    add("target_vocab", target_vocab);
    save_safetensors(folder / std::string(kShortlistFile), tensors, metadata);
  }
};

TEST(Shortlist, BadFilesAreOneClearError) {
  const TempFolder folder;
  const std::string path = folder / std::string(kShortlistFile);
  const auto text = [&](ErrorCode code) {
    const auto raised = raised_by([&] { Shortlist::load(folder.path()); });
    EXPECT_EQ(raised.code, code);
    EXPECT_EQ(raised.text.substr(0, path.size() + 2), path + ": ");
    return raised.text.substr(std::min(raised.text.size(), path.size() + 2));
  };
  constexpr auto kBad = ErrorCode::bad_format;
  EXPECT_EQ(text(ErrorCode::io),
            "there is no shortlist in this folder: 'tril shortlist' makes one");
  const auto file_says = [&](const File& file) {
    file.write(folder);
    return text(kBad);
  };
  File().write(folder);
  EXPECT_EQ(Shortlist::load(folder.path()).source_vocab(), 2);
  const std::string good = read_file(path, 1 << 20);
  for (const size_t bytes : {size_t{0}, size_t{7}, good.size() / 2, good.size() - 1}) {
    write_file_atomically(path, good.substr(0, bytes));
    text(kBad);
  }
  EXPECT_EQ(file_says({.metadata = {{"tril_packed", "1"}}}),
            "not a shortlist this version of tril made: 'tril shortlist' makes one");
  EXPECT_EQ(file_says({.leave_out = "begins"}), "tensor 'begins' is missing");
  EXPECT_EQ(file_says({.type = DType::f32}),
            "tensor 'target_vocab' is f32 [1], expected a list of i32");
  EXPECT_EQ(file_says({.target_vocab = {0}}), "target_vocab: expected one number above 0");
  EXPECT_EQ(file_says({.target_vocab = {3, 3}}), "target_vocab: expected one number above 0");
  EXPECT_EQ(file_says({.always = {}}), "always: is empty");
  EXPECT_EQ(file_says({.always = {3}}), "always: token 3 is not below the vocabulary of 3");
  EXPECT_EQ(file_says({.listed = {-1, 2}}), "listed: token -1 is not below the vocabulary of 3");
  EXPECT_EQ(file_says({.listed = {2, 0}}), "listed: token 0 does not follow 2");
  EXPECT_EQ(file_says({.listed = {2, 2}}), "listed: token 2 does not follow 2");
  for (const Tokens& begins :
       {Tokens{}, Tokens{1, 2}, Tokens{0, 1}, Tokens{0, 3}, Tokens{0, 2, 1, 2}, Tokens{0, -1, 2}}) {
    EXPECT_EQ(file_says({.begins = begins}), "begins: the lists do not cover the 2 tokens listed");
  }
}

}  // namespace
}  // namespace tril::shortlist_test
