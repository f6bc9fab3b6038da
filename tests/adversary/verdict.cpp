#include "verdict.h"

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <sstream>
#include <thread>

#include "files.h"

namespace adversary {
namespace {

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

// Words that only a library, or the system by itself, would use.
const char* foreign_words(const std::string& text) {
  for (const char* words : {"std::", "bad_alloc", "terminate called", "what():", "basic_string",
                            "vector::", "Assertion", "filesystem error", "json.exception"}) {
    if (text.find(words) != text.npos) return words;
  }
  for (const char* bare : {"tril: Resource temporarily unavailable", "tril: Cannot allocate memory",
                           "tril: Input/output error", "tril: No space left on device"}) {
    if (text == bare) return bare;
  }
  return nullptr;
}

}  // namespace

std::string described(const Ended& ended) {
  if (ended.hung) return "hung";
  if (ended.signal != 0) return std::string("died of ") + strsignal(ended.signal);
  return "exit code " + std::to_string(ended.code);
}

std::string unclear(const Ended& ended, bool one_too, const std::vector<std::string>& names) {
  if (ended.hung || ended.signal != 0) return described(ended);
  if (ended.code != 2 && !(one_too && ended.code == 1)) return described(ended);
  const std::vector<std::string> lines = split(ended.err);
  if (lines.empty()) return "fails without a word";
  if (!lines.back().starts_with("tril: ")) return "the last line is no error: " + lines.back();
  bool named = names.empty();
  for (const std::string& line : lines) {
    if (const char* words = foreign_words(line)) return std::string("says \"") + words + "\"";
    for (const std::string& name : names) named = named || line.find(name) != line.npos;
  }
  if (!named) return "does not name " + names.front() + ": " + lines.back();
  return "";
}

std::string unclear_verify(const Ended& ended, const std::vector<std::string>& names) {
  if (ended.code != 1) return unclear(ended, false, names);
  bool named = false;
  for (const std::string& line : split(ended.out)) {
    if (const char* words = foreign_words(line)) return std::string("says \"") + words + "\"";
    bool here = names.empty();
    for (const std::string& name : names) here = here || line.find(name) != line.npos;
    named = named || (here && !line.ends_with("sound"));
  }
  if (named) return "";
  return "exit code 1, and no line about " + (names.empty() ? "any file" : names.front());
}

void Report::add(const std::string& campaign, int64_t experiment, const Outcome& outcome) {
  const std::lock_guard lock(mutex_);
  Row& row = rows_[campaign + ": " + outcome.row];
  ++row.counts[static_cast<int>(outcome.verdict)];
  row.landed += outcome.landed;
  if (outcome.verdict != Verdict::third) return;
  ++thirds_;
  std::vector<std::string> command = {settings_.program, campaign,
                                      "--tril",          settings_.tril,
                                      "--seed",          std::to_string(settings_.seed),
                                      "--only",          std::to_string(experiment)};
  if (!settings_.model.empty()) command.insert(command.end(), {"--model", settings_.model});
  if (!settings_.text.empty()) command.insert(command.end(), {"--text", settings_.text});
  // The number of an experiment has the same meaning only with the same total.
  if (settings_.all) command.emplace_back("--all");
  if (settings_.budget > 0) {
    command.insert(command.end(), {"--budget", std::to_string(settings_.budget)});
  }
  command.emplace_back("--keep");
  failures_.push_back(campaign + " " + std::to_string(experiment) + " (" + outcome.row +
                      "): " + outcome.what + "\n    " + shell_line(command));
  std::fprintf(stderr, "THIRD  %s\n", failures_.back().c_str());
}

void Report::print() const {
  std::printf("%-52s %7s %7s %7s %8s %7s %7s %7s\n", "", "tried", "landed", "right", "harmless",
              "error", "THIRD", "skipped");
  Row sum;
  const auto line = [](const std::string& name, const Row& row) {
    int64_t tried = 0;
    for (const int64_t count : row.counts) tried += count;
    std::printf("%-52s %7lld %7lld %7lld %8lld %7lld %7lld %7lld\n", name.c_str(),
                static_cast<long long>(tried), static_cast<long long>(row.landed),
                static_cast<long long>(row.counts[0]), static_cast<long long>(row.counts[1]),
                static_cast<long long>(row.counts[2]), static_cast<long long>(row.counts[3]),
                static_cast<long long>(row.counts[4]));
  };
  for (const auto& [name, row] : rows_) {
    line(name, row);
    for (int i = 0; i < 5; ++i) sum.counts[i] += row.counts[i];
    sum.landed += row.landed;
  }
  line("all", sum);
  for (const std::string& failure : failures_) std::printf("\nTHIRD  %s\n", failure.c_str());
}

void run_campaign(const std::string& name, const Budget& budget, const Settings& settings,
                  const Experiment& experiment, Report& report) {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  const auto seconds = [&] { return std::chrono::duration<double>(Clock::now() - start).count(); };
  std::atomic<int64_t> next{0}, done{0}, landed{0};
  std::atomic<double> told{0};
  const auto finished = [&] {
    return next >= budget.experiments || (budget.landed > 0 && landed >= budget.landed) ||
           (settings.seconds > 0 && seconds() > settings.seconds);
  };
  const auto one = [&](int64_t number, int job) {
    const std::string work = settings.scratch + "/job" + std::to_string(job);
    Rng rng(settings.seed, name, number);
    Outcome outcome;
    remove_tree(work);
    make_folder(work);
    try {
      outcome = experiment(number, rng, work);
    } catch (const std::exception& error) {
      outcome = {"the tool itself", Verdict::third, error.what(), 0};
    }
    if (outcome.verdict == Verdict::third && settings.keep) {
      const std::string kept = settings.scratch + "/" + name + "-" + std::to_string(number);
      remove_tree(kept);
      copy_tree(work, kept);
      outcome.what += "\n    left in " + kept;
    }
    report.add(name, number, outcome);
    ++done;
    landed += outcome.landed;
    double last = told;
    if (seconds() - last > 10 && told.compare_exchange_strong(last, seconds())) {
      std::fprintf(stderr, "%s: %lld experiments in %.0f s\n", name.c_str(),
                   static_cast<long long>(done), seconds());
    }
  };
  if (settings.only >= 0) return one(settings.only, 0);
  std::vector<std::thread> workers;
  for (int job = 0; job < settings.jobs; ++job) {
    workers.emplace_back([&, job] {
      while (!finished()) {
        const int64_t number = next++;
        if (number < budget.experiments) one(number, job);
      }
    });
  }
  for (std::thread& worker : workers) worker.join();
  std::fprintf(stderr, "%s: %lld experiments in %.0f s, %lld landed\n", name.c_str(),
               static_cast<long long>(done), seconds(), static_cast<long long>(landed));
}

}  // namespace adversary
