#include <sstream>
#include <stdexcept>

#include "campaigns.h"

namespace adversary {
namespace {

// A kind of fault and the calls it happens to.
struct Fault {
  std::string name;
  std::vector<std::string> groups;
  bool may_last = false;   // a full disk stays full
  bool must_pass = false;  // the system may always do this: it is no reason to fail
  bool on_output = false;  // stdout may be hit too
};
const std::vector<Fault>& all_faults() {
  static const std::vector<Fault> faults = {
      {.name = "EIO",
       .groups = {"open", "create", "read", "write", "sync", "rename", "unlink", "truncate",
                  "mkdir", "link", "chmod", "lock", "map", "seek", "stat", "close"},
       .on_output = true},
      {.name = "ENOSPC",
       .groups = {"create", "write", "sync", "rename", "mkdir", "truncate", "link"},
       .may_last = true,
       .on_output = true},
      {.name = "EMFILE", .groups = {"open", "create"}, .may_last = true},
      {.name = "ENOMEM", .groups = {"malloc", "malloc-large", "map", "open"}},
      {.name = "short", .groups = {"read", "write"}, .must_pass = true, .on_output = true},
      {.name = "EINTR", .groups = {"read", "write"}, .must_pass = true, .on_output = true},
      {.name = "EAGAIN", .groups = {"thread"}, .may_last = true},
      {.name = "ENOLCK", .groups = {"lock"}, .may_last = true}};
  return faults;
}

// In every round of experiments each of the first six kinds comes four times and the last two,
// which few calls can meet, once.
constexpr int64_t kRound = 26;
size_t kind_of(int64_t experiment) {
  const int64_t place = experiment % kRound;
  return static_cast<size_t>(place < 24 ? place % 6 : place - 18);
}

// The number of allocations varies from run to run: a repeated experiment should hit the same one.
int64_t steady(int64_t calls) {
  int64_t step = 1;
  while (calls / step > 1000) step *= 2;
  return calls <= 1000 ? calls : (calls / step / 100 * 100) * step;
}

// What the shim logged about the first call it hit.
struct Hit {
  std::string group, path;
  bool landed = false;
};
Hit hit_in(const std::string& log) {
  Hit hit;
  if (!is_regular(log)) return hit;
  std::istringstream line(read_all(log));
  long number = 0;
  hit.landed = static_cast<bool>(line >> number >> hit.group);
  line.get();
  std::getline(line, hit.path);
  return hit;
}

// The name that the error must mention: the file, its future name, or its folder.
std::vector<std::string> names_for(const Hit& hit, const Stage& stage) {
  if (hit.path.empty()) return {};
  if (hit.path.starts_with(stage.io)) return {"output"};
  std::string name = name_of(hit.path);
  if (is_temporary(name)) name = name.substr(0, name.find('.'));
  return {name, stage.work, folder_of(hit.path)};
}

// Every line is the reference's, or empty where its line failed.
bool lines_hold(const std::string& out, const std::string& expected, bool may_be_empty) {
  std::istringstream got(out), wanted(expected);
  for (std::string line, right; std::getline(got, line);) {
    if (!std::getline(wanted, right)) return false;
    if (got.eof()) return right.starts_with(line);  // the last one was cut off
    if (line != right && !(may_be_empty && line.empty())) return false;
  }
  return true;
}

struct Injection {
  std::string what;
  std::string log;
};
// Arranges the fault; false where the task has no such call.
bool arrange(const World& world, const Task& task, const Reference& reference, const Fault& fault,
             const Stage& stage, Rng& rng, Child& child, Injection& injection) {
  injection.log = stage.io + "/faults.log";
  std::string under = stage.work + ":" + world.folder, group;
  int64_t at = 0;
  if (fault.on_output && task.kind == Kind::reads && rng.one_in(4)) {
    under = stage.io + "/out";
    group = "write";
    at = 1 + rng.below(4);
  } else {
    std::vector<std::string> there;
    for (const std::string& one : fault.groups) {
      if (reference.calls.at(one) > 0) there.push_back(one);
    }
    if (there.empty()) return false;
    group = rng.pick(there);
    at = 1 + rng.below(steady(reference.calls.at(group)));
  }
  const bool lasts = fault.may_last && rng.one_in(2);
  injection.what = fault.name + (lasts ? " from " : " at ") + group + " " + std::to_string(at) +
                   " of " + task.name;
  add_shim(world, child,
           "under=" + under + ";call=" + group + ";at=" + std::to_string(at) +
               ";times=" + (lasts ? "0" : "1") + ";do=" + fault.name +
               ";spare=libsentencepiece,libprotobuf,libcuda,libnvidia;log=" + injection.log);
  return true;
}

// What is wrong with the way the program failed.
std::string judge_error(const Task& task, const Reference& reference, const Fault& fault,
                        const Stage& stage, const Hit& hit, const Ended& ended) {
  const bool line_failed = task.line_by_line && ended.code == 1;
  const std::vector<std::string> names = names_for(hit, stage);
  std::string why = task.verifies ? unclear_verify(ended, names)
                                  : unclear(ended, task.one_too || line_failed, names);
  if (!why.empty()) return why + (ended.err.empty() ? "" : ": " + ended.err);
  if (fault.must_pass) return "fails where it should go on: " + ended.err;
  if (task.line_by_line && !lines_hold(ended.out, reference.out, line_failed)) {
    return "prints a wrong line before it fails";
  }
  if (fault.name == "ENOLCK" && ended.err.find("another run") != ended.err.npos) {
    return "takes a lock that cannot be had for another run";
  }
  return "";
}

Outcome fault_one(const World& world, const Tasks& tasks, const Fault& fault, Rng& rng,
                  const std::string& folder) {
  const Stage stage(folder);
  Outcome outcome{.row = fault.name, .landed = 0};
  Child child;
  Injection injection;
  const Task* task = nullptr;
  const int threads = static_cast<int>(1 + rng.below(2));
  do {
    task = &draw(tasks, rng, [](const Task&) { return true; });
    child = child_of(world, *task, stage, threads);
  } while (!arrange(world, *task, tasks.reference(*task), fault, stage, rng, child, injection));
  const Reference& reference = tasks.reference(*task);
  lay_out(world, *task, stage);
  outcome.what = injection.what;
  const auto third = [&](const std::string& why) {
    outcome.verdict = Verdict::third;
    outcome.what += ": " + why;
    return outcome;
  };
  const Ended ended = run(child);
  const Hit hit = hit_in(injection.log);
  outcome.landed = hit.landed ? 1 : 0;
  outcome.what += hit.path.empty() ? "" : " (" + hit.path + ")";
  if (!hit.landed && ended.code != 0) return third("fails untouched: " + ended.err);
  if (ended.code == 0) {
    std::string why = check_finished(world, *task, reference, stage, ended);
    // A file that could not be removed stays until the next writer comes; without locks it cannot
    // be recognised as abandoned.
    const bool may_stay = hit.group == "unlink" || hit.group == "lock";
    if (may_stay && why.find("temporary file") != why.npos) why.clear();
    return why.empty() ? outcome : third(why);
  }
  outcome.verdict = Verdict::error;
  std::string why = judge_error(*task, reference, fault, stage, hit, ended);
  if (!why.empty()) return third(why);
  why = check_stopped(world, *task, reference, stage, hit.group == "unlink");
  if (!why.empty()) return third(why);
  if (task->name == "prove") return outcome;  // takes long, and writes nothing
  why = check_recovery(world, *task, reference, stage);
  return why.empty() ? outcome : third(why);
}

}  // namespace

void run_faults(const World& world, const Tasks& tasks, Report& report) {
  const Settings& settings = world.settings;
  const int64_t each = settings.budget > 0 ? settings.budget : settings.all ? 200 : 40;
  // In up to three of ten experiments no call is hit, because another run makes fewer calls: half
  // as many again are run, so that the requested number is hit.
  run_campaign(
      "faults", {.experiments = each * kRound / 4 * 3 / 2}, settings,
      [&](int64_t number, Rng& rng, const std::string& folder) {
        const Fault& fault = all_faults()[kind_of(number)];
        return fault_one(world, tasks, fault, rng, folder);
      },
      report);
}

}  // namespace adversary
