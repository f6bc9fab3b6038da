#include <CLI/CLI.hpp>
#include <memory>

#include "commands.h"
#include "decoding.h"
#include "flags.h"
#include "loading.h"

namespace tril::app {
namespace {

void run_translate(const DecodingFlags& flags) {
  const Translator translator =
      load_translator(flags.model, flags.threads, device_with(flags.shortlist, flags.device),
                      flags.compute, flags.trust);
  require(!translator.model().config().decoder_only(), ErrorCode::invalid_argument, flags.model,
          " is a decoder-only model: it continues text with 'tril generate'");
  decode_lines(translator, flags);
}

std::optional<Split> split_named(const std::string& word) {
  if (word.empty()) return std::nullopt;
  return word == word_for(Split::always) ? Split::always : Split::too_long;
}

}  // namespace

void add_translate(CLI::App& app) {
  auto flags = std::make_shared<DecodingFlags>();
  CLI::App* translate = app.add_subcommand("translate", "Translate stdin to stdout, line for line");
  add_decoding_flags(*translate, *flags, 5);
  add_ratio_flag(*translate, flags->options.search);
  translate
      ->add_option("--prefix", flags->prefix,
                   "A file with the words each translation must begin with, line by line")
      ->type_name(kFile);
  add_language_flags(*translate, flags->options.languages);
  translate->add_flag("--alignments", flags->options.alignments,
                      "Print word alignments after each result, as in 0-0 1-2");
  add_shortlist_flag(*translate, flags->shortlist);
  // A value only after "=", so that the model is not taken for one; without, CLI11 says "true".
  translate
      ->add_flag("--split", flags->split_word,
                 "Cut lines into sentences, which are translated one by one: those with more "
                 "tokens than the model takes, or, with --split=always, every line. Each line "
                 "still gives one line, and white space around it is copied")
      ->check(
          [](const std::string& word) {
            const bool known = word == "true" || word == "long" || word == "always";
            return known ? "" : "'" + word + "' is not one of long, always";
          },
          in_braces({"long", "always"}))
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  translate->footer(
      "Examples:\n"
      "  echo 'How are you?' | tril translate my-model\n"
      "  tril translate my-model --input text.en --beam 8 --json > text.json\n"
      "  tril translate nllb --from-language eng_Latn --to-language hin_Deva < text.en\n"
      "  tril translate summariser --min-tokens 30 --no-repeat-ngram 3 < articles\n"
      "  tril translate my-model --split < paragraphs.en > paragraphs.hi\n\n"
      "Lines are printed in the order they were read, each as soon as it is ready. Columns are "
      "separated by tabs: the line's number (with --n-best above 1), the score (--scores), the "
      "text, the alignment (--alignments). A result that reaches a length limit is printed as far "
      "as it goes, and stderr says so; it also says which lines are plainly not in the language "
      "that "
      "the model reads. With --split and --json, the results of a line's sentences are in "
      "'sentences'. With --shortlist, scores cover only the listed pieces: the "
      "others have probability 0, so the same text scores higher than without. 'tril score "
      "--shortlist' gives the same scores.\n\n" +
      std::string(kDefaultsNote) +
      " On a GPU --no-repeat-ngram, --repetition-penalty, --renormalize with a beam and --forbid "
      "with several ids make the CPU choose the tokens, which takes several times as long.");
  translate->callback([flags] {
    flags->split = split_named(flags->split_word);
    run_translate(*flags);
  });
}

}  // namespace tril::app
