#include <stdexcept>

#include "campaigns.h"

namespace adversary {
namespace {

// Calls at which a program is killed. Each is drawn equally often, although a run has thousands of
// writes and few renames.
const std::vector<std::string> kGroups = {"create", "write",    "write",     "sync",
                                          "rename", "unlink",   "mkdir",     "link",
                                          "chmod",  "truncate", "write-like"};

struct Kill {
  std::string what;
  // Kills by the shim must happen. How often a run writes depends on the seconds it takes and
  // prints: those in the second half may not happen.
  bool sure = false;
};

// Arranges that the child is killed: at a call, after half of one, or at a point in time.
Kill arrange(const World& world, const Reference& reference, const Stage& stage, Rng& rng,
             Child& child) {
  const int64_t method = rng.below(5);
  if (method == 0) {
    child.kill_after = rng.unit() * reference.seconds * 1.1;
    return {"killed after " + std::to_string(child.kill_after) + " s"};
  }
  long calls = 0;
  std::string group;
  while (calls == 0) {
    group = method == 1 ? "write" : rng.pick(kGroups);
    if (group != "write-like") {
      calls = reference.calls.at(group);
      continue;
    }
    for (const char* part : {"create", "write", "sync", "rename", "unlink", "mkdir"}) {
      calls += reference.calls.at(part);
    }
  }
  const int64_t at = 1 + rng.below(calls);
  const std::string what = method == 1 ? "half" : "kill";
  add_shim(world, child,
           "under=" + stage.work + ";call=" + group + ";at=" + std::to_string(at) + ";do=" + what);
  return {(method == 1 ? "killed in the middle of " : "killed before ") + group + " " +
              std::to_string(at) + " of " + std::to_string(calls),
          at <= calls / 2};
}

Outcome kill_one(const World& world, const Tasks& tasks, Rng& rng, const std::string& folder) {
  const Task& task = draw(tasks, rng, [](const Task& one) { return one.kind != Kind::reads; });
  const Reference& reference = tasks.reference(task);
  const Stage stage(folder);
  lay_out(world, task, stage);
  Outcome outcome{.row = task.name, .landed = 0};
  const auto third = [&](const std::string& why) {
    outcome.verdict = Verdict::third;
    outcome.what += "; " + why;
    return outcome;
  };
  const int64_t rounds = task.kind == Kind::trains ? 1 + rng.below(3) : 1;
  for (int64_t round = 0; round < rounds; ++round) {
    const int threads = static_cast<int>(1 + rng.below(3));
    Child child = child_of(world, task, stage, threads);
    const bool resumes = round > 0 && is_regular(stage.work + "/m/training/checkpoint.safetensors");
    if (resumes) {
      child = tril_child(
          world,
          {"train", "--resume", "-o", stage.work + "/m", "--threads", std::to_string(threads)},
          stage.io);
    }
    const Kill kill = arrange(world, reference, stage, rng, child);
    outcome.what += (round == 0 ? "" : ", then ") + kill.what;
    const Ended ended = run(child);
    if (!ended.killed()) {
      // A resumed run makes fewer calls than the whole; the part before is not killed.
      if (ended.code != 0) return third(described(ended) + ": " + ended.err);
      if (kill.sure && round == 0) return third("was not killed: the tool counts wrongly");
      break;
    }
    ++outcome.landed;
    const std::string why = check_stopped(world, task, reference, stage, true);
    if (!why.empty()) return third(why);
  }
  const std::string why = check_recovery(world, task, reference, stage);
  return why.empty() ? outcome : third(why);
}

}  // namespace

void run_kills(const World& world, const Tasks& tasks, Report& report) {
  const Settings& settings = world.settings;
  const int64_t kills = settings.budget > 0 ? settings.budget : settings.all ? 1000 : 300;
  run_campaign(
      "kills", {.experiments = 5 * kills, .landed = kills}, settings,
      [&](int64_t, Rng& rng, const std::string& folder) {
        return kill_one(world, tasks, rng, folder);
      },
      report);
}

}  // namespace adversary
