#include "prove.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <filesystem>
#include <memory>

#include "commands.h"
#include "decoding.h"
#include "flags.h"
#include "loading.h"
#include "progress.h"
#include "units.h"

namespace tril::app {
namespace {

constexpr int64_t kShortestProof = 3;    // shorter sentences read next to nothing from a cache
constexpr int64_t kLongestProof = 4096;  // a hash of every number of every position is kept

std::optional<Tokenizer> tokenizer_in(const std::string& folder, const TransformerConfig& config) {
  const std::string path = folder + "/tokenizer.model";
  if (!file_exists(path)) return std::nullopt;
  Tokenizer tokenizer = Tokenizer::from_bytes(read_model_file(folder, kTokenizerFile), path);
  require(tokenizer.vocab() == config.target_vocab &&
              (config.decoder_only() || tokenizer.vocab(TextSide::source) == config.source_vocab),
          ErrorCode::bad_format, path, ": ", tokenizer.vocab(), " pieces, but the model reads ",
          config.source_vocab, " and writes ", config.target_vocab);
  return tokenizer;
}

// A proof on damaged weights would prove nothing about the model that was trained.
std::vector<VerifiedFile> verified(const std::string& folder) {
  std::vector<VerifiedFile> files = verify_model(folder);
  for (const VerifiedFile& file : files) {
    if (file.state != FileState::damaged) continue;
    const bool named = file.detail.starts_with(file.path);
    fail(ErrorCode::bad_format, named ? "" : file.path + ": ", file.detail);
  }
  return files;
}

void run(const ProveFlags& flags) {
  const auto started = std::chrono::steady_clock::now();
  ProgressLine progress;
  progress.tell("reading the model");
  require(flags.text != "-" || flags.target != "-", ErrorCode::invalid_argument,
          "--text and --target cannot both be stdin");
  std::error_code ignored;
  require(!std::filesystem::exists(flags.model, ignored) ||
              std::filesystem::is_directory(flags.model, ignored),
          ErrorCode::invalid_argument, flags.model,
          ": not a folder; a model is one, with config.json and model.safetensors in it");
  const std::vector<VerifiedFile> files = verified(flags.model);
  const Transformer model =
      Transformer::load(flags.model, to_study(flags.model, placement_for(flags.device).device));
  const std::optional<Tokenizer> tokenizer = tokenizer_in(flags.model, model.config());
  const ProofText text = proof_text(flags, model, tokenizer);
  if (text.cut > 0) {
    progress.say(
        fmt::format("tril: of {} only the beginning is used", counted(text.cut, "long sentence")));
  }
  if (!tokenizer) {
    progress.say(fmt::format(
        "tril: {} has no tokenizer.model: tokens are drawn by chance, and shown as numbers",
        flags.model));
  }
  ProofOptions options;
  options.threads = flags.threads;
  options.masking = flags.unmasked ? Masking::none : Masking::causal;
  options.full = flags.full;
  options.every_length = flags.every_length;
  options.one_length = flags.one_length;
  options.end = text.end;
  options.forced = text.forced;
  if (tokenizer) options.forbidden = tokenizer->unwritable();
  options.progress = [&](std::string_view what, int64_t done, int64_t all) {
    progress.part(what, done, all);
  };
  const ProofReport report = prove(model, text.pairs, options);
  progress.clear();
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - started;
  const ProvedModel proved{.flags = flags,
                           .model = model,
                           .tokenizer = tokenizer,
                           .text = text,
                           .files = files,
                           .threads = Parallel(flags.threads).threads(),
                           .seconds = taken.count()};
  flags.json ? print_json(proved, report) : print_report(proved, report);
  if (!report.holds()) throw Failed{};
}

}  // namespace

void add_prove(CLI::App& app) {
  auto flags = std::make_shared<ProveFlags>();
  CLI::App* prove = app.add_subcommand(
      "prove", "Prove on a model that training and inference are the same function");
  prove->add_option("model", flags->model, "A model folder")->type_name(kFolder)->required();
  prove
      ->add_option("--text", flags->text,
                   "A file of lines to prove it with, or - for stdin (default: the lesson's "
                   "sentences, or what the model writes)")
      ->type_name(kFile);
  prove
      ->add_option("--target", flags->target,
                   "Their translations (default: what the model makes of --text)")
      ->type_name(kFile)
      ->needs("--text");
  add_language_flags(*prove, flags->languages);
  prove->add_flag("--json", flags->json, "Print JSON instead of a report");
  prove->add_flag(
      "--full", flags->full,
      "No limits: long sequential training, every position and the longest proofs on the "
      "model itself; hours for a large one");
  prove->add_flag("--unmasked", flags->unmasked,
                  "Take the causal mask off: the proof must fail, and says where");
  prove
      ->add_option("--every-length", flags->every_length,
                   "Section 5 proves every length up to this (default: up to 16, fewer for a large "
                   "model)")
      ->transform(whole_number(kShortestProof, kLongestProof));
  prove
      ->add_option("--one-length", flags->one_length,
                   "... and this length alone (default: 70; a large model is replaced by a tiny "
                   "one of its kind)")
      ->transform(whole_number(kShortestProof, kLongestProof));
  add_device_flag(*prove, flags->device);
  prove->add_option("--threads", flags->threads, "Threads to use; 0 takes every core")
      ->transform(whole_number(0, 1024));
  prove->footer(
      "Examples:\n  tril prove demo-model\n  tril prove demo-model --unmasked\n"
      "  tril prove demo-model --every-length 64\n\n"
      "Exit code: 0 when everything holds, 1 when something does not, 2 when it could not run.");
  prove->callback([flags] { run(*flags); });
}

}  // namespace tril::app
