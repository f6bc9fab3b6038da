// Options by name and text.
#include "tril/translate/named_options.h"

#include <set>

#include "support/testing.h"

namespace tril::named_options_test {
namespace {

NamedOptions with(std::string_view name, std::string_view value) {
  NamedOptions options;
  set_option(options, name, value);
  return options;
}

std::string error_of(std::string_view name, std::string_view value) {
  try {
    with(name, value);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    return error.what();
  }
  return "none";
}

TEST(NamedOptions, EachSetsItsField) {
  EXPECT_EQ(with("beam", "4").translate.search.beam, 4);
  EXPECT_EQ(with("n_best", "3").translate.search.n_best, 3);
  EXPECT_EQ(with("length_penalty", "-1.5").translate.search.length_penalty, -1.5);
  EXPECT_EQ(with("early_stopping", "never").translate.search.early_stopping, EarlyStopping::never);
  EXPECT_EQ(with("cut", "ranked").translate.search.cut, CutHypotheses::ranked);
  EXPECT_EQ(with("max_tokens", "9").translate.search.max_tokens, 9);
  EXPECT_EQ(with("min_tokens", "8").translate.search.min_tokens, 8);
  EXPECT_EQ(with("max_ratio", "0").translate.search.max_ratio, 0.0);
  EXPECT_EQ(with("no_repeat_ngram", "2").translate.search.no_repeat_ngram, 2);
  EXPECT_EQ(with("repetition_penalty", "1.2").translate.search.repetition_penalty, 1.2);
  EXPECT_EQ(with("renormalize", "yes").translate.search.renormalize, true);
  EXPECT_EQ(with("sample", "true").translate.search.sample, true);
  EXPECT_EQ(with("temperature", "1e-3").translate.search.temperature, 1e-3);
  EXPECT_EQ(with("top_k", "5").translate.search.top_k, 5);
  EXPECT_EQ(with("top_p", "0.5").translate.search.top_p, 0.5);
  EXPECT_EQ(with("seed", "18446744073709551615").translate.search.seed, ~uint64_t{0});
  EXPECT_EQ(with("force_end", "false").translate.force_end, false);
  EXPECT_EQ(with("forbid", "17; 4 5").translate.forbidden,
            (std::vector<std::vector<int32_t>>{{17}, {4, 5}}));
  EXPECT_TRUE(with("forbid", "").translate.forbidden.empty());
  EXPECT_TRUE(with("alignments", "1").translate.alignments);
  EXPECT_EQ(with("prefix", "a b").prefix, "a b");
  EXPECT_EQ(with("from_language", "en").translate.languages.from, "en");
  EXPECT_EQ(with("to_language", "hi").translate.languages.to, "hi");
  EXPECT_TRUE(with("shortlist", "true").shortlist);
  EXPECT_EQ(with("bad_lines", "skip").translate.bad_lines, BadLine::skip);
  EXPECT_EQ(with("split", "always").split, Split::always);
  EXPECT_EQ(with("batch", "128").translate.slots, 128);
  EXPECT_EQ(with("number", "7").number, 7);
  EXPECT_EQ(with("client", "6").client, 6U);
  EXPECT_EQ(with("timeout", "0.5").timeout, 0.5);
  EXPECT_EQ(with("side", "target").side, TextSide::target);
  EXPECT_EQ(with("device", "cuda:1").device, Device::cuda(1));
  EXPECT_EQ(with("device", "auto").device, std::nullopt);
  EXPECT_EQ(with("compute", "bf16-dot").compute, Compute::bf16_dot);
  EXPECT_EQ(with("threads", "2").threads, 2);
  EXPECT_TRUE(with("trust", "true").trust);
  EXPECT_EQ(std::size(named_options()), 34U) << "a new option belongs above";
}

TEST(NamedOptions, AreDescribedAndConcernACall) {
  std::set<std::string_view> names;
  for (const NamedOption& option : named_options()) {
    EXPECT_TRUE(names.insert(option.name).second) << option.name;
    EXPECT_FALSE(option.help.empty());
    EXPECT_NE(option.uses, 0) << option.name;
    EXPECT_EQ(find_option(option.name), &option);
  }
  EXPECT_TRUE(find_option("beam")->concerns(OptionUse::submit));
  EXPECT_FALSE(find_option("beam")->concerns(OptionUse::load));
  EXPECT_EQ(find_option("length-penalty"), nullptr);
}

TEST(NamedOptions, RefuseWhatTheyDoNotTake) {
  EXPECT_EQ(error_of("beam", "1025"), "beam: expected a whole number from 1 to 1024, got \"1025\"");
  EXPECT_EQ(error_of("beam", " 4"), "beam: expected a whole number from 1 to 1024, got \" 4\"");
  EXPECT_EQ(error_of("top_p", "0"), "top_p: expected a number above 0, at most 1, got \"0\"");
  EXPECT_EQ(error_of("cut", "x"), "cut: expected last or ranked, got \"x\"");
  EXPECT_EQ(error_of("sample", ""), "sample: expected true or false, got \"\"");
  EXPECT_EQ(error_of("timeout", "inf"),
            "timeout: expected a number above 0, at most 1e+09, got \"inf\"");
  EXPECT_EQ(error_of("forbid", "1;;2"),
            "forbid: expected lists of token ids, as in \"17; 4 5\", got \"1;;2\"");
  EXPECT_EQ(error_of("device", "tpu"), "device: expected auto, cpu, cuda or cuda:1, got \"tpu\"");
  EXPECT_EQ(error_of("beem", "4"), "there is no option \"beem\"");
}

}  // namespace
}  // namespace tril::named_options_test
