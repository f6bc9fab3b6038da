#include <stdexcept>

#include "campaigns.h"
#include "damage.h"

namespace adversary {
namespace {

enum class Way { translate, verify, prove, resume };

// A damaged file and the command that must notice.
struct Subject {
  std::string row;
  std::string model;  // a folder
  std::string file;   // in it
  Way way = Way::translate;
  std::string compute = {};
  bool shortlist = false;
  int weight = 4;
};

// The reaction to a damaged folder.
class Trial {
 public:
  Trial(const World& world, const Subject& subject, const std::string& folder)
      : world_(world), subject_(subject), stage_(folder) {
    make_folder(stage_.io);
    make_folder(stage_.work);
    copy_tree(subject.model, model());
  }

  std::string model() const { return stage_.work + "/m"; }
  std::string file() const { return model() + "/" + subject_.file; }

  // After the damage; `allowed` are the translations that are not errors, `finals` the states in
  // which a resumed run may end.
  Outcome look(const std::string& what, const std::set<std::string>& allowed,
               const std::vector<Tree>& finals, bool exchanged = false) const {
    Outcome outcome{
        .row = subject_.row, .verdict = Verdict::error, .what = subject_.file + ": " + what};
    const bool asks = subject_.way == Way::verify || subject_.way == Way::prove;
    const Ended ended = run();
    if (ended.code != 0) {
      std::vector<std::string> names = {name_of(subject_.file)};
      // The one that was put there, or the one beside it that does not match it.
      if (exchanged)
        names = {"tokenizer", "model.safetensors", "packed", "shortlist", "checkpoint"};
      const std::string why =
          subject_.way == Way::verify ? unclear_verify(ended, names) : unclear(ended, asks, names);
      if (!why.empty()) fail(outcome, why);
      return outcome;
    }
    outcome.verdict = Verdict::harmless;
    // The run reads the tokenizer in its checkpoint; the file beside it is only informative.
    const bool sealed =
        subject_.file.ends_with(".safetensors") || subject_.file == "tokenizer.model";
    if (world_.settings.strict && sealed && !exchanged) {
      fail(outcome, "exit code 0, not noticed");
      return outcome;
    }
    if (subject_.way == Way::resume) {
      for (const Tree& final : finals) {
        if (same_model(final)) return outcome;
      }
      fail(outcome, "exit code 0, and the run ends in another model");
      return outcome;
    }
    const Ended shown =
        asks ? translate(world_, model(), subject_.compute, stage_.io, subject_.shortlist) : ended;
    if (!allowed.contains(shown.out)) {
      fail(outcome, asks ? "exit code 0, but it translates otherwise"
                         : "exit code 0 and another translation");
    }
    return outcome;
  }

 private:
  static void fail(Outcome& outcome, const std::string& why) {
    outcome.verdict = Verdict::third;
    outcome.what += ": " + why;
  }

  Ended run() const {
    const auto given = [&](const std::vector<std::string>& arguments) {
      return adversary::run(tril_child(world_, arguments, stage_.io));
    };
    switch (subject_.way) {
      case Way::verify: return given({"verify", model()});
      case Way::prove:
        return given({"prove", model(), "--text", world_.path("text1/valid_source")});
      case Way::resume: return given({"train", "--resume", "-o", model(), "--threads", "1"});
      default: return translate(world_, model(), subject_.compute, stage_.io, subject_.shortlist);
    }
  }

  // The log is informative, and its lines are not sealed.
  bool same_model(const Tree& final) const {
    const Tree tree = tree_of(model());
    for (const auto& [path, key] : final) {
      if (path.starts_with("training/") && !path.ends_with("checkpoint.safetensors")) continue;
      const auto found = tree.find(path);
      if (found == tree.end() || found->second != key) return false;
    }
    return true;
  }

  const World& world_;
  const Subject& subject_;
  Stage stage_;
};

std::string undamaged(const World& world, const Subject& subject) {
  const Ended ended =
      translate(world, subject.model, subject.compute, world.path("io"), subject.shortlist);
  if (ended.code != 0) throw std::runtime_error(subject.row + ", undamaged: " + ended.err);
  return ended.out;
}

void add_if_there(std::vector<Subject>& subjects, const Subject& subject) {
  if (is_regular(subject.model + "/" + subject.file)) subjects.push_back(subject);
}

// The attacks that apply to the files of any model folder.
std::vector<Subject> subjects_of(const World& world, const std::string& model) {
  std::vector<Subject> subjects;
  const bool weights = is_regular(model + "/model.safetensors");
  std::string packed;
  for (const char* form : {"int8", "bf16", "bf16-dot", "fp32"}) {
    const std::string file = std::string("packed.") + form + ".safetensors";
    if (packed.empty() && is_regular(model + "/" + file)) packed = form;
    add_if_there(subjects, {.row = file + (weights ? ", beside the weights" : ", alone"),
                            .model = model,
                            .file = file,
                            .compute = form});
  }
  const std::string compute = weights ? "" : packed;
  for (const char* file : {"model.safetensors", "tokenizer.model", "config.json"}) {
    add_if_there(subjects, {.row = file, .model = model, .file = file, .compute = compute});
  }
  const std::string shortlist = "shortlist.safetensors";
  add_if_there(
      subjects,
      {.row = shortlist, .model = model, .file = shortlist, .compute = compute, .shortlist = true});
  if (!world.verifies) return subjects;
  const size_t count = subjects.size();
  for (size_t i = 0; i < count; ++i) {
    Subject subject = subjects[i];
    subject.row += ", verify";
    subject.way = Way::verify;
    subject.weight = 1;
    subjects.push_back(subject);
  }
  return subjects;
}

std::vector<Subject> all_subjects(const World& world) {
  std::vector<Subject> subjects = subjects_of(world, world.path("full"));
  for (const std::string& compute : world.computes) {
    for (const Subject& subject : subjects_of(world, world.path("alone." + compute))) {
      if (subject.file != "shortlist.safetensors") subjects.push_back(subject);
    }
  }
  subjects.push_back({.row = "model.safetensors, prove",
                      .model = world.path("a"),
                      .file = "model.safetensors",
                      .way = Way::prove,
                      .weight = 1});
  for (const char* file : {"checkpoint.safetensors", "options.toml", "tokenizer.model"}) {
    add_if_there(subjects, {.row = std::string("training/") + file + ", resume",
                            .model = world.path("half"),
                            .file = std::string("training/") + file,
                            .way = Way::resume});
  }
  return subjects;
}

// A file of one model in the folder of another.
struct Swap {
  Subject subject;
  std::string from;                    // the file that takes the place of subject.file
  std::vector<std::string> as_models;  // whose translation, or final state, is right
};

std::vector<Swap> all_swaps(const World& world) {
  std::vector<Swap> swaps;
  const auto add = [&](const std::string& model, const std::string& file, const std::string& from,
                       const std::vector<std::string>& as_models, const std::string& compute = "",
                       bool shortlist = false) {
    Subject subject{.row = "exchanged " + (file.starts_with("packed.") ? "packed" : file),
                    .model = world.path(model),
                    .file = file,
                    .compute = compute,
                    .shortlist = shortlist};
    if (file.starts_with("training/")) subject.way = Way::resume;
    swaps.push_back({subject, world.path(from + "/" + file), as_models});
    if (!world.verifies || subject.way == Way::resume) return;
    subject.way = Way::verify;
    swaps.push_back({subject, world.path(from + "/" + file), as_models});
  };
  add("a", "model.safetensors", "c", {});
  add("a", "model.safetensors", "b", {"b"});  // all else is equal: it is model b
  add("a", "tokenizer.model", "c", {});
  add("full", "tokenizer.model", "c", {}, "int8");
  add("full", "shortlist.safetensors", "cfull", {}, "", true);
  for (const std::string& compute : world.computes) {
    const std::string alone = "alone." + compute, packed = "packed." + compute + ".safetensors";
    add(alone, packed, "calone." + compute, {});
    add(alone, packed, "balone." + compute, {"balone." + compute});
    add(alone, "tokenizer.model", "c", {});
  }
  const std::string packed = "packed.int8.safetensors";
  add("full", packed, "calone.int8", {"full"}, "int8");
  add("full", packed, "balone.int8", {"full"}, "int8");
  add("half", "training/checkpoint.safetensors", "c", {"a", "c"});
  add("half", "training/checkpoint.safetensors", "b", {"a", "b"});
  return swaps;
}

Outcome exchange(const World& world, const Swap& swap, const std::string& folder) {
  const Trial trial(world, swap.subject, folder);
  write_all(trial.file(), read_all(swap.from));
  std::set<std::string> allowed;
  std::vector<Tree> finals;
  for (const std::string& model : swap.as_models) {
    if (swap.subject.way == Way::resume) {
      finals.push_back(tree_of(world.path(model)));
    } else {
      allowed.insert(translate(world, world.path(model), swap.subject.compute, folder + "/io",
                               swap.subject.shortlist)
                         .out);
    }
  }
  return trial.look("that of another model, " + swap.from, allowed, finals, true);
}

std::vector<size_t> by_weight(const std::vector<Subject>& subjects) {
  std::vector<size_t> drawn;
  for (size_t i = 0; i < subjects.size(); ++i) {
    drawn.insert(drawn.end(), static_cast<size_t>(subjects[i].weight), i);
  }
  return drawn;
}

// The first experiments are `swaps`, the others damage a random subject.
void attack(const World& world, const std::vector<Swap>& swaps,
            const std::vector<Subject>& subjects, const std::vector<Tree>& finals, int64_t budget,
            Report& report) {
  std::vector<std::string> outputs;
  for (const Subject& subject : subjects) {
    outputs.push_back(subject.way == Way::resume ? "" : undamaged(world, subject));
  }
  const std::vector<size_t> drawn = by_weight(subjects);
  run_campaign(
      "flips", {.experiments = budget}, world.settings,
      [&](int64_t number, Rng& rng, const std::string& folder) {
        if (number < static_cast<int64_t>(swaps.size())) {
          return exchange(world, swaps[static_cast<size_t>(number)], folder);
        }
        const size_t which = rng.pick(drawn);
        const Trial trial(world, subjects[which], folder);
        const std::string what = damage_at_random(trial.file(), rng);
        return trial.look(what, {outputs[which]}, finals);
      },
      report);
}

}  // namespace

void run_flips(const World& world, Report& report) {
  const Settings& settings = world.settings;
  const std::vector<Swap> swaps = all_swaps(world);
  const int64_t own = settings.all ? 5000 : 800;
  attack(world, swaps, all_subjects(world), {tree_of(world.path("a"))},
         settings.budget > 0 ? settings.budget : own, report);
}

void run_flips_of(const World& world, const std::string& model, Report& report) {
  const int64_t budget = world.settings.budget > 0 ? world.settings.budget : 2000;
  attack(world, {}, subjects_of(world, model), {}, budget, report);
}

}  // namespace adversary
