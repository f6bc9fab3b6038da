#include <fmt/core.h>

#include <algorithm>
#include <charconv>

#include "commands.h"
#include "lesson.h"
#include "output.h"
#include "progress.h"
#include "tril/lesson/claims.h"
#include "tril/measure/peaks.h"
#include "tril/text/display.h"

namespace tril::app {
namespace {

std::string verdict_text(const Claim& claim) { return std::string(word_for(claim.verdict)); }

void list_claims() {
  fmt::print("{}",
             set_text(fmt::format("{} claims from lecture notes on masked attention, and which of "
                                  "them are true.",
                                  claims().size()),
                      "", ""));
  Table table;
  const auto print_part = [&](std::string_view part) {
    if (table.empty()) return;
    print_heading("", part);
    print_table(table, Align::left);
    table.clear();
  };
  std::string_view part = claims().front().part;
  for (const Claim& claim : claims()) {
    if (claim.part != part) print_part(std::exchange(part, claim.part));
    table.push_back(
        {fmt::format("{:>2}", claim.number), verdict_text(claim), std::string(claim.says)});
  }
  print_part(part);
  fmt::print("\n{}", set_text(fmt::format("'{0} lesson claims 13' answers one and runs its "
                                          "experiment. '{0} lesson claims all' runs them all, in "
                                          "some minutes.",
                                          program_name()),
                              "", ""));
}

// Prints a claim, its verdict and what was measured; returns whether they agree.
bool print_claim(const Claim& claim, const ClaimFinding& finding) {
  const std::string mark = fmt::format("Claim {:<4}", claim.number);
  const std::string blank(mark.size(), ' ');
  fmt::print("\n{}", set_text(claim.says, mark, blank));
  // "holds if" continues into the answer; the other verdicts are sentences of their own.
  const std::string word =
      finding.as_stated ? verdict_text(claim) : "the experiment does NOT agree with this verdict";
  const bool reads_on = finding.as_stated && claim.verdict == Verdict::holds_if;
  std::string verdict = set_text(concat(word, reads_on ? " " : ". ", claim.answer),
                                 pad_right("Verdict", std::ssize(mark)), blank);
  // Coloured only after wrapping, because colours take no columns.
  const size_t at = verdict.find(word);
  if (at != std::string::npos) {
    verdict.replace(at, word.size(), finding.as_stated ? good(word) : bad(word));
  }
  fmt::print("{}", verdict);
  fmt::print("{}", set_text(finding.figure, pad_right("Measured", std::ssize(mark)), blank));
  fmt::print(
      "{}", set_text(fmt::format("{} {}, docs/guide/{}", program_name(), claim.command, claim.page),
                     pad_right("See", std::ssize(mark)), blank));
  return finding.as_stated;
}

std::vector<int> chosen_claims(const std::vector<std::string>& words) {
  std::vector<int> numbers;
  for (const std::string& word : words) {
    if (word == "all") {
      for (const Claim& claim : claims()) numbers.push_back(claim.number);
      continue;
    }
    int number = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
    require(error == std::errc() && end == word.data() + word.size(), ErrorCode::invalid_argument,
            "lesson claims: '", word, "' is not the number of a claim, nor 'all'");
    numbers.push_back(claim_number(number).number);
  }
  return numbers;
}

}  // namespace

bool show_claims(const LessonFlags& flags) {
  if (flags.words.empty()) {
    list_claims();
    return true;
  }
  const std::vector<int> numbers = chosen_claims(flags.words);
  ProgressLine progress;
  ClaimLabOptions options{.threads = flags.threads, .seed = flags.seed};
  // Only the claim about machine utilisation needs the machine's peak.
  constexpr int kMachineUse = 15;
  if (std::ranges::find(numbers, kMachineUse) != numbers.end()) {
    options.peak_gflops = measure_peaks(flags.threads).gflops;
  }
  options.progress = [&](std::string_view what, int64_t done, int64_t all) {
    if (all > 0) {
      progress.part(what, done, all);
    } else {
      progress.tell(std::string(what));
    }
  };
  std::optional<Translator> translator;
  if (auto there = translator_on_disk(flags)) translator = std::move(there->translator);
  ClaimLab lab(options, std::move(translator));
  int64_t as_stated = 0;
  for (const int number : numbers) {
    const ClaimFinding finding = check_claim(number, lab);
    progress.clear();
    as_stated += print_claim(claim_number(number), finding) ? 1 : 0;
    flush_output();
  }
  if (numbers.size() == 1) return as_stated == 1;
  return print_outcome(as_stated == std::ssize(numbers),
                       fmt::format("For {} of {} claims the experiment agrees with the verdict.",
                                   as_stated, numbers.size()));
}

}  // namespace tril::app
