#include <CLI/CLI.hpp>
#include <memory>

#include "commands.h"
#include "decoding.h"
#include "flags.h"
#include "loading.h"

namespace tril::app {
namespace {

void run(const DecodingFlags& flags) {
  const Translator translator =
      load_translator(flags.model, flags.threads, device_with(flags.shortlist, flags.device),
                      flags.compute, flags.trust);
  require(!translator.model().config().decoder_only(), ErrorCode::invalid_argument, flags.model,
          " is a decoder-only model: it continues text with 'tril generate'");
  decode_lines(translator, flags);
}

}  // namespace

void add_translate(CLI::App& app) {
  auto flags = std::make_shared<DecodingFlags>();
  CLI::App* translate = app.add_subcommand("translate", "Translate stdin to stdout, line for line");
  add_decoding_flags(*translate, *flags, 5);
  add_ratio_flag(*translate, flags->options.search);
  translate->add_option("--prefix", flags->prefix,
                        "A file with what each translation must begin with");
  translate->add_flag("--alignments", flags->options.alignments,
                      "Print after each result which words belong together, as in 0-0 1-2");
  add_shortlist_flag(*translate, flags->shortlist);
  translate->footer(
      "Examples:\n"
      "  echo 'How are you?' | tril translate my-model\n"
      "  tril translate my-model --input text.en --beam 8 --json > text.json\n\n"
      "Lines come out in the order they went in, each as soon as it is ready. With several of\n"
      "--n-best, --scores and --alignments the columns are: line, score, text, alignment, with "
      "tabs\n"
      "between them. A result that reaches a limit before its end is printed as far as it goes, "
      "and\n"
      "stderr says so. With --shortlist scores are over the listed pieces alone: the others have\n"
      "probability 0, so the same text scores higher than without. 'tril score --shortlist' gives "
      "the "
      "same.");
  translate->callback([flags] { run(*flags); });
}

}  // namespace tril::app
