#include "tasks.h"

#include <algorithm>
#include <cstdio>
#include <sstream>
#include <stdexcept>

namespace adversary {
namespace {

std::vector<Task> training_tasks(const World& world) {
  std::vector<std::string> fresh = {"train", "-o", "@/m"};
  for (const std::string& option : train_options(world)) fresh.push_back(option);
  std::vector<std::string> overwrite = fresh;
  overwrite.emplace_back("--overwrite");
  const Task base{.kind = Kind::trains,
                  .changes = {"m/"},
                  .may_remove = true,
                  .models = {"m"},
                  .computes = {""},
                  .weight = 12};
  Task one = base;
  one.name = "train";
  one.arguments = fresh;
  Task two = base;
  two.name = "train --overwrite";
  two.layout = {{"c", "m"}};
  two.arguments = overwrite;
  Task three = base;
  three.name = "train --resume";
  three.layout = {{"half", "m"}};
  three.arguments = {"train", "--resume", "-o", "@/m", "--threads", "1"};
  return {one, two, three};
}

std::vector<Task> writing_tasks(const World& world) {
  std::vector<std::string> over = {"quantize", "@/m", "--to", "int8", "-o", "@/o"};
  if (world.quantize_overwrites) over.emplace_back("--overwrite");
  std::vector<Task> tasks = {
      {.name = "quantize",
       .layout = {{"full", "m"}},
       .arguments = {"quantize", "@/m", "--to", "bf16"},
       .changes = {"m/packed.bf16."},
       .models = {"m"},
       .computes = {"", "bf16", "int8"}},
      {.name = "quantize -o new",
       .layout = {{"full", "m"}},
       .arguments = {"quantize", "@/m", "--to", "int8", "-o", "@/o"},
       .changes = {"o/"},
       .models = {"m", "o"},
       .computes = {""}},
      {.name = "quantize -o same model",
       .layout = {{"full", "m"}, {"alone.int8", "o"}},
       .arguments = {"quantize", "@/m", "--to", "fp32", "-o", "@/o"},
       .changes = {"o/"},
       .models = {"m", "o"},
       .computes = {"", "int8", "fp32"}},
      {.name = "quantize -o another",
       .layout = {{"full", "m"}, {"cfull", "o"}},
       .arguments = over,
       .changes = {"o/"},
       .may_remove = true,
       .models = {"m", "o"},
       .computes = {"", "int8", "shortlist"},
       .may_be_refused = true},
      {.name = "quantize -o another, packed alone",
       .layout = {{"full", "m"}, {"calone.int8", "o"}},
       .arguments = over,
       .changes = {"o/"},
       .may_remove = true,
       .models = {"o"},
       .computes = {"", "int8"}},
      {.name = "shortlist",
       .layout = {{"full", "m"}},
       .arguments = {"shortlist", "@/m", "--source", "%/text1/source", "--target", "%/text1/target",
                     "--threads", "1"},
       .changes = {"m/shortlist.safetensors"},
       .models = {"m"},
       .computes = {"", "shortlist"}},
      {.name = "explain",
       .layout = {{"a", "m"}, {"old_page", "page.html"}},
       .arguments = {"explain", "@/m", "af bf", "-o", "@/page.html", "--threads", "1"},
       .changes = {"page.html"}},
      {.name = "evaluate --output",
       .layout = {{"full", "m"}, {"old_output", "out.txt"}},
       .arguments = {"evaluate", "@/m", "--source", "%/text1/valid_source", "--reference",
                     "%/text1/valid_target", "--output", "@/out.txt", "--threads", "1"},
       .changes = {"out.txt"}},
      {.name = "translate --shard",
       .layout = {{"full", "m"}},
       .arguments = {"translate", "@/m", "--input", "%/text1/valid_source", "--shard", "2/3", "-o",
                     "@/out.txt", "--threads", "1"},
       .changes = {"out.txt", ".out.txt.shard"}},
      {.name = "translate --shard --overwrite",
       .layout = {{"full", "m"}, {"old_output", "out.txt"}},
       .arguments = {"translate", "@/m", "--input", "%/text1/valid_source", "--shard", "2/3",
                     "--overwrite", "-o", "@/out.txt", "--threads", "1"},
       .changes = {"out.txt", ".out.txt.shard"}}};
  if (world.seals) {
    tasks.push_back({.name = "verify --seal",
                     .layout = {{"unsealed", "m"}},
                     .arguments = {"verify", "--seal", "@/m"},
                     .changes = {"m/"},
                     .models = {"m"},
                     .computes = {"", "int8", "shortlist"},
                     .prints = false,  // names what it seals, which is less the second time
                     .verifies = true});
  }
  for (Task& task : tasks) task.kind = Kind::writes;
  return tasks;
}

std::vector<Task> reading_tasks(const World& world) {
  const auto translating = [](const std::string& name, const std::string& model,
                              const std::vector<std::string>& more) {
    Task task{.name = name,
              .layout = {{model, "m"}},
              .arguments = {"translate", "@/m", "--json", "--threads", "1"},
              .line_by_line = true};
    task.arguments.insert(task.arguments.end(), more.begin(), more.end());
    return task;
  };
  const std::string lines = "%/text1/valid_source";
  std::vector<Task> tasks = {
      translating("translate", "a", {"--input", lines}),
      // Reports on stderr that results are cut.
      translating(
          "translate, cut off", "a",
          {"--sample", "--temperature", "5", "--seed", "3", "--max-tokens", "2", "--input", lines}),
      translating("translate, gzip", "a", {"--input", lines + ".gz"}),
      translating("translate --compute int8", "full", {"--compute", "int8", "--input", lines}),
      translating("translate, packed alone", "alone.int8", {"--input", lines}),
      translating("translate --shortlist", "full", {"--shortlist", "--input", lines}),
      {.name = "score",
       .layout = {{"a", "m"}},
       .arguments = {"score", "@/m", "--source", lines, "--target", "%/text1/valid_target",
                     "--threads", "1"},
       .line_by_line = true},
      {.name = "evaluate",
       .layout = {{"a", "m"}},
       .arguments = {"evaluate", "@/m", "--source", lines, "--reference", "%/text1/valid_target",
                     "--threads", "1"}},
      // As JSON, because the text breaks its lines where the length of the folder's name lets it.
      {.name = "info", .layout = {{"full", "m"}}, .arguments = {"info", "@/m", "--json"}},
      {.name = "prove",
       .layout = {{"a", "m"}},
       .arguments = {"prove", "@/m", "--text", lines, "--threads", "2"},
       .prints = false,
       .one_too = true,
       .weight = 1}};
  if (world.verifies) {
    tasks.push_back({.name = "verify",
                     .layout = {{"full", "m"}},
                     .arguments = {"verify", "@/m"},
                     .verifies = true});
  }
  return tasks;
}

std::string filled(const World& world, const Stage& stage, const std::string& argument) {
  if (argument.starts_with("@/")) return stage.work + argument.substr(1);
  if (argument.starts_with("%/")) return world.folder + argument.substr(1);
  return argument;
}

bool may_change(const Task& task, const std::string& path) {
  return std::any_of(task.changes.begin(), task.changes.end(),
                     [&](const std::string& begin) { return path.starts_with(begin); });
}

bool has_temporary(const Tree& tree, std::string* which) {
  for (const auto& [path, key] : tree) {
    if (!is_temporary(path)) continue;
    *which = path;
    return true;
  }
  return false;
}

// The versions the shim kept, as paths below the stage and keys.
void take_kept(const std::string& folder, Reference& reference) {
  for (const auto& [name, key] : tree_of(folder)) {
    const std::string path = replaced(name.substr(name.find('@') + 1), "%", "/");
    reference.versions[path].insert(key);
  }
}

void take_output(const World& world, const Task& task, const std::string& work,
                 const std::string& io, Reference& reference) {
  for (const std::string& model : task.models) {
    for (const std::string& compute : task.computes) {
      const Ended ended = translate(world, work + "/" + model, compute, io);
      if (ended.code == 0) reference.outputs[{model, compute}].insert(ended.out);
    }
  }
}

// A model that training publishes and replaces later: its weights were kept.
void take_published(const World& world, const Task& task, const Stage& stage,
                    const std::string& keep, Reference& reference) {
  if (task.kind != Kind::trains) return;
  const std::string folder = stage.io + "/published/m";
  for (const auto& [name, key] : tree_of(keep)) {
    if (!name.ends_with("@m%model.safetensors")) continue;
    remove_tree(folder);
    make_folder(folder);
    for (const char* file : {"config.json", "tokenizer.model"}) {
      copy_tree(stage.work + "/m/" + file, folder + "/" + file);
    }
    copy_tree(keep + "/" + name, folder + "/model.safetensors");
    take_output(world, task, stage.io + "/published", stage.io, reference);
  }
}

std::string try_models(const World& world, const Task& task, const Reference& reference,
                       const Stage& stage) {
  for (const std::string& model : task.models) {
    bool loads = false;
    for (const std::string& compute : task.computes) {
      const Ended ended = translate(world, stage.work + "/" + model, compute, stage.io);
      const std::string how = model + (compute.empty() ? "" : " --compute " + compute);
      if (ended.code == 0) {
        loads = true;
        const auto allowed = reference.outputs.find({model, compute});
        if (allowed == reference.outputs.end() || !allowed->second.contains(ended.out)) {
          return how + " translates, as neither the old nor the new model does";
        }
      } else if (const std::string why = unclear(ended); !why.empty()) {
        return how + " afterwards: " + why;
      }
    }
    if (!world.verifies || !loads) continue;
    // Outdated files are intact but unused, as was just checked.
    const Ended ended = run(tril_child(world, {"verify", stage.work + "/" + model}, stage.io));
    const bool whole = ended.code == 0 || ended.code == 1;
    if (!whole || ended.out.find("DAMAGED") != ended.out.npos) {
      return model + " loads, but verify says: " + ended.err + ended.out;
    }
  }
  return "";
}

std::string again(const World& world, const Task& task, const Stage& stage, Ended& ended) {
  ended = run(child_of(world, task, stage));
  if (ended.code == 0) return "";
  return "the same command afterwards: " + described(ended) + ": " + ended.err;
}

std::string recover_training(const World& world, const Task& task, const Reference& reference,
                             const Stage& stage) {
  Ended ended = run(tril_child(world, {"train", "--resume", "-o", stage.work + "/m"}, stage.io));
  if (ended.code == 0) {
    const Tree tree = tree_of(stage.work);
    if (difference(reference.final, tree).empty()) return "";
    // The run that was to be overwritten is still there, and complete.
    if (const std::string why = difference(reference.initial, tree); !why.empty()) {
      return "resumed, it ends in another state: " + difference(reference.final, tree);
    }
  } else if (const std::string why = unclear(ended); !why.empty()) {
    return "train --resume afterwards: " + why;
  }
  if (task.name == "train --resume") return "cannot be resumed: " + ended.err;
  if (const std::string why = again(world, task, stage, ended); !why.empty()) return why;
  const std::string why = difference(reference.final, tree_of(stage.work));
  return why.empty() ? "" : "begun again, it ends in another state: " + why;
}

}  // namespace

std::vector<Task> all_tasks(const World& world) {
  std::vector<Task> tasks = training_tasks(world);
  for (const auto& more : {writing_tasks(world), reading_tasks(world)}) {
    tasks.insert(tasks.end(), more.begin(), more.end());
  }
  return tasks;
}

void lay_out(const World& world, const Task& task, const Stage& stage) {
  make_folder(stage.work);
  make_folder(stage.io);
  for (const auto& [from, to] : task.layout) copy_tree(world.path(from), stage.work + "/" + to);
}

Child child_of(const World& world, const Task& task, const Stage& stage, int threads) {
  std::vector<std::string> arguments;
  for (const std::string& argument : task.arguments) {
    const bool count = !arguments.empty() && arguments.back() == "--threads";
    arguments.push_back(count && threads > 1 ? std::to_string(threads)
                                             : filled(world, stage, argument));
  }
  return tril_child(world, arguments, stage.io);
}

std::optional<Reference> make_reference(const World& world, const Task& task,
                                        const std::string& folder) {
  Reference reference;
  const Stage stage(folder);
  lay_out(world, task, stage);
  const std::string keep = stage.io + "/keep", count = stage.io + "/count";
  make_folder(keep);
  reference.initial = tree_of(stage.work);
  take_output(world, task, stage.work, stage.io, reference);
  Child child = child_of(world, task, stage);
  add_shim(world, child,
           "under=" + stage.work + ":" + world.folder + ";count=" + count + ";keep=" + keep);
  const Ended ended = run(child);
  if (task.may_be_refused && unclear(ended).empty()) return std::nullopt;
  if (ended.code != 0) {
    throw std::runtime_error(task.name + ", undisturbed: " + described(ended) + ": " + ended.err);
  }
  reference.out = replaced(ended.out, stage.work, "@");
  reference.seconds = ended.seconds;
  std::istringstream counts(read_all(count));
  for (std::string group; counts >> group;) counts >> reference.calls[group];
  reference.final = tree_of(stage.work);
  for (const Tree* tree : {&reference.initial, &reference.final}) {
    for (const auto& [path, key] : *tree) reference.versions[path].insert(key);
  }
  take_kept(keep, reference);
  take_output(world, task, stage.work, stage.io, reference);
  take_published(world, task, stage, keep, reference);
  return reference;
}

std::string check_stopped(const World& world, const Task& task, const Reference& reference,
                          const Stage& stage, bool killed) {
  const Tree tree = tree_of(stage.work);
  for (const auto& [path, key] : tree) {
    if (is_temporary(path)) {
      if (!killed && !reference.initial.contains(path)) return "leaves the temporary file " + path;
      continue;
    }
    // Grows line by line; the result of a resumed run is compared at the end.
    if (is_log(path) && may_change(task, path)) continue;
    const auto whole = reference.versions.find(path);
    if (whole == reference.versions.end()) return "leaves " + path;
    if (!whole->second.contains(key)) return path + " is neither the old nor the new file";
    const auto before = reference.initial.find(path);
    if (!may_change(task, path) && before != reference.initial.end() && before->second != key) {
      return "changes its input " + path;
    }
  }
  for (const auto& [path, key] : reference.initial) {
    if (tree.contains(path) || (task.may_remove && may_change(task, path))) continue;
    return path + " is lost";
  }
  for (const auto& [path, key] : world.text) {
    if (key_of(world.path(path)) != key) return "changes its input " + path;
  }
  return try_models(world, task, reference, stage);
}

std::string check_finished(const World& world, const Task& task, const Reference& reference,
                           const Stage& stage, const Ended& ended) {
  if (task.prints && replaced(ended.out, stage.work, "@") != reference.out) {
    return "exit code 0, but stdout differs";
  }
  const Tree tree = tree_of(stage.work);
  if (const std::string why = difference(reference.final, tree); !why.empty()) {
    return "exit code 0, but " + why;
  }
  std::string which;
  if (has_temporary(tree, &which)) return "exit code 0, and the temporary file " + which + " stays";
  for (const auto& [path, key] : world.text) {
    if (key_of(world.path(path)) != key) return "changes its input " + path;
  }
  return "";
}

std::string check_recovery(const World& world, const Task& task, const Reference& reference,
                           const Stage& stage) {
  if (task.kind == Kind::trains) {
    const std::string why = recover_training(world, task, reference, stage);
    if (!why.empty()) return why;
  } else {
    Ended ended;
    if (const std::string why = again(world, task, stage, ended); !why.empty()) return why;
    if (task.prints && replaced(ended.out, stage.work, "@") != reference.out) {
      return "the same command afterwards prints something else";
    }
    const std::string why = difference(reference.final, tree_of(stage.work));
    if (!why.empty()) return "the same command afterwards ends in another state: " + why;
  }
  std::string which;
  if (has_temporary(tree_of(stage.work), &which)) {
    return "the temporary file " + which + " is never removed";
  }
  return "";
}

}  // namespace adversary
