#include <CLI/CLI.hpp>
#include <memory>

#include "commands.h"
#include "decoding.h"
#include "decoding_output.h"
#include "flags.h"
#include "loading.h"

namespace tril::app {
namespace {

void run_generate(const DecodingFlags& flags) {
  check_output_flags(flags);
  const Translator translator =
      load_translator(flags.model, flags.threads, device_with(flags.shortlist, flags.device),
                      flags.compute, flags.trust);
  require(translator.model().config().decoder_only(), ErrorCode::invalid_argument, flags.model,
          " has an encoder: it translates text with 'tril translate'");
  decode_lines(translator, flags);
}

}  // namespace

void add_generate(CLI::App& app) {
  auto flags = std::make_shared<DecodingFlags>();
  CLI::App* generate =
      app.add_subcommand("generate", "Continue each line of stdin with a decoder-only model");
  add_decoding_flags(*generate, *flags, 1);
  generate->footer(
      "Example:\n  echo 'Once upon a time' | tril generate my-model --sample --top-p 0.9 "
      "--seed 7\n\nThe line itself is part of what is printed; an empty line begins with "
      "nothing, and is an error for models that have no token to begin with.\n\n" +
      std::string(kDefaultsNote));
  generate->callback([flags, generate] {
    flags->given = options_given(*generate);
    run_generate(*flags);
  });
}

}  // namespace tril::app
