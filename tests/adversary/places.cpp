#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <functional>
#include <stdexcept>
#include <thread>

#include "campaigns.h"

namespace adversary {
namespace fs = std::filesystem;
namespace {

struct Scenario {
  std::string row;
  std::string what;
  std::function<Outcome(const Stage&)> act;
};

class Places {
 public:
  Places(const World& world, const Tasks& tasks) : world_(world), tasks_(tasks) {
    root_ = ::geteuid() == 0;
    if (root_) {
      // Mounts of experiments are visible only to this process and its children, and end with it.
      mounts_ = ::unshare(CLONE_NEWNS) == 0 &&
                ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0;
      nobody_ = starts_as_nobody();
    }
    add_descriptors();
    add_full_devices();
    add_full_disks();
    add_rights();
    add_other_things();
    add_outputs_that_are_inputs();
    add_shrinking_file();
  }

  const std::vector<Scenario>& list() const { return list_; }

 private:
  static Outcome right() { return {}; }
  static Outcome error() { return {.row = {}, .verdict = Verdict::error, .what = {}}; }
  static Outcome third(const std::string& why) {
    return {.row = {}, .verdict = Verdict::third, .what = why};
  }
  static Outcome skipped(const std::string& why) {
    return {.row = {}, .verdict = Verdict::skipped, .what = why, .landed = 0};
  }

  void add(const std::string& row, const std::string& what,
           std::function<Outcome(const Stage&)> act) {
    list_.push_back({row, what, std::move(act)});
  }

  bool starts_as_nobody() const {
    Child child = tril_child(world_, {"--version"}, world_.path("io"));
    child.output = child.errors = "/dev/null";
    child.as_nobody = true;
    try {
      return run(child).code == 0;
    } catch (const std::exception&) {
      return false;
    }
  }

  // A task under conditions in which it may succeed or fail clearly.
  Outcome either(const Task& task, const Stage& stage, const Child& child,
                 bool recovers = true) const {
    const Reference& reference = tasks_.reference(task);
    const Ended ended = run(child);
    if (ended.code == 0) {
      const std::string why = check_finished(world_, task, reference, stage, ended);
      return why.empty() ? right() : third(why);
    }
    std::string why = task.verifies ? unclear_verify(ended, {}) : unclear(ended, task.one_too);
    if (!why.empty()) return third(why + ": " + ended.err);
    why = check_stopped(world_, task, reference, stage, false);
    if (!why.empty()) return third(why);
    if (recovers) why = check_recovery(world_, task, reference, stage);
    return why.empty() ? error() : third(why);
  }

  // With stdout or stderr lost: the result is right or, if it could not be delivered, the exit code
  // shows it. Messages are read where that is possible.
  Outcome with_descriptors(const Task& task, const Stage& stage, const Child& child) const {
    const Reference& reference = tasks_.reference(task);
    Ended ended = run(child);
    const bool lost = !child.output.empty() && !reference.out.empty();
    if (!lost) {
      if (ended.code != 0) return third(described(ended) + ": " + ended.err);
      if (!child.output.empty()) ended.out = reference.out;  // "", nothing was to be printed
      const std::string why = check_finished(world_, task, reference, stage, ended);
      return why.empty() ? right() : third(why);
    }
    if (ended.code == 0) return third("exit code 0, and the result is lost");
    if (child.errors.empty()) {
      const std::string why = unclear(ended);
      if (!why.empty()) return third(why + ": " + ended.err);
    } else if (ended.code != 2) {
      return third(described(ended));
    }
    const std::string why = check_stopped(world_, task, reference, stage, false);
    return why.empty() ? error() : third(why);
  }

  void add_descriptors() {
    for (const char* name : {"train", "translate", "quantize", "shortlist", "explain",
                             "evaluate --output", "score", "info"}) {
      const Task& task = tasks_.named(name);
      for (int set = 1; set < 8; ++set) {
        std::string closed = (set & 1) != 0 ? " <&-" : "";
        closed += (set & 2) != 0 ? " >&-" : "";
        closed += (set & 4) != 0 ? " 2>&-" : "";
        add("closed descriptors", task.name + closed, [this, &task, set](const Stage& stage) {
          lay_out(world_, task, stage);
          Child child = child_of(world_, task, stage);
          if ((set & 1) != 0) child.input = kClosed;
          if ((set & 2) != 0) child.output = kClosed;
          if ((set & 4) != 0) child.errors = kClosed;
          return with_descriptors(task, stage, child);
        });
      }
    }
  }

  void add_full_devices() {
    for (const Task& task : tasks_.list) {
      if (task.name == "prove") continue;
      for (int set = 1; set < 4; ++set) {
        const std::string full = std::string((set & 1) != 0 ? " >/dev/full" : "") +
                                 ((set & 2) != 0 ? " 2>/dev/full" : "");
        add("/dev/full", task.name + full, [this, &task, set](const Stage& stage) {
          lay_out(world_, task, stage);
          Child child = child_of(world_, task, stage);
          if ((set & 1) != 0) child.output = "/dev/full";
          if ((set & 2) != 0) child.errors = "/dev/full";
          return with_descriptors(task, stage, child);
        });
      }
    }
    for (const char* argument : {"--version", "--help", "info"}) {
      add("/dev/full", std::string(argument) + " >/dev/full", [this, argument](const Stage& stage) {
        make_folder(stage.io);
        Child child = tril_child(world_, {argument}, stage.io);
        child.output = "/dev/full";
        const Ended ended = run(child);
        const std::string why = unclear(ended);
        return why.empty() ? error() : third(why);
      });
    }
  }

  void add_full_disks() {
    for (const Task& task : tasks_.list) {
      if (task.kind == Kind::reads) continue;
      for (const int64_t bytes : {0, 700, 20000, 100000}) {
        add("files limited in size", task.name + ", " + std::to_string(bytes) + " bytes",
            [this, &task, bytes](const Stage& stage) {
              lay_out(world_, task, stage);
              Child child = child_of(world_, task, stage);
              child.largest_file = bytes;
              // Its output goes into files too.
              child.output = child.errors = "/dev/null";
              const Ended ended = run(child);
              if (ended.signal != 0 || ended.hung) return third(described(ended));
              if (ended.code != 0 && ended.code != 2 && !task.verifies)
                return third(described(ended));
              const Reference& reference = tasks_.reference(task);
              std::string why = check_stopped(world_, task, reference, stage, false);
              if (why.empty()) why = check_recovery(world_, task, reference, stage);
              return !why.empty() ? third(why) : ended.code == 0 ? right() : error();
            });
      }
      for (const int free : {0, 8, 64, 200}) {
        add("a full disk", task.name + ", " + std::to_string(free) + " KiB free",
            [this, &task, free](const Stage& stage) { return on_small_disk(task, free, stage); });
      }
    }
  }

  Outcome on_small_disk(const Task& task, int free, const Stage& stage) const {
    if (!mounts_) return skipped("no right to mount");
    make_folder(stage.work);
    const auto mount = [&](unsigned long flags, const std::string& size) {
      return ::mount("tmpfs", stage.work.c_str(), "tmpfs", flags, ("size=" + size).c_str()) == 0;
    };
    if (!mount(0, "64m")) return skipped("cannot mount");
    lay_out(world_, task, stage);
    const fs::space_info space = fs::space(stage.work);
    const uint64_t used = (space.capacity - space.free) / 1024;
    mount(MS_REMOUNT, std::to_string(used + static_cast<uint64_t>(free)) + "k");
    Outcome outcome;
    const Child child = child_of(world_, task, stage);
    outcome = either(task, stage, child, false);
    mount(MS_REMOUNT, "64m");
    if (outcome.verdict == Verdict::error) {
      const std::string why = check_recovery(world_, task, tasks_.reference(task), stage);
      if (!why.empty()) outcome = third(why);
    }
    ::umount2(stage.work.c_str(), MNT_DETACH);
    return outcome;
  }

  // Sets permissions for everything below a folder.
  static void set_rights(const std::string& folder, unsigned files, unsigned folders) {
    for (const auto& entry : fs::recursive_directory_iterator(folder)) {
      if (entry.is_symlink()) continue;
      const unsigned mode = entry.is_directory() ? folders : files;
      if (::chmod(entry.path().c_str(), mode) != 0) throw std::runtime_error("chmod");
    }
    if (::chmod(folder.c_str(), folders) != 0) throw std::runtime_error("chmod");
  }

  void add_rights() {
    for (const Task& task : tasks_.list) {
      if (task.name == "prove") continue;
      add("a read-only folder", task.name,
          [this, &task](const Stage& stage) { return with_rights(task, stage, 0444, 0555); });
      add("files of another owner", task.name,
          [this, &task](const Stage& stage) { return with_rights(task, stage, 0600, 0755); });
    }
  }

  Outcome with_rights(const Task& task, const Stage& stage, unsigned files,
                      unsigned folders) const {
    if (root_ && !nobody_) return skipped("the program cannot be started as nobody");
    if (!root_ && files == 0600) return skipped("only root can make files of another owner");
    lay_out(world_, task, stage);
    set_rights(stage.work, files, folders);
    Child child = child_of(world_, task, stage);
    child.as_nobody = root_;
    const Ended ended = run(child);
    set_rights(stage.work, 0644, 0755);
    const Reference& reference = tasks_.reference(task);
    if (ended.code == 0) {
      const std::string why = check_finished(world_, task, reference, stage, ended);
      return why.empty() ? right() : third(why);
    }
    std::string why = task.verifies ? unclear_verify(ended, {stage.work})
                                    : unclear(ended, task.one_too, {stage.work});
    if (!why.empty()) return third(why + ": " + ended.err);
    why = difference(reference.initial, tree_of(stage.work));
    if (!why.empty()) return third(why);
    why = check_recovery(world_, task, reference, stage);
    return why.empty() ? error() : third(why);
  }

  // Something else in place of a file.
  struct Thing {
    std::string name;
    std::function<void(const std::string&)> make;
  };
  static const std::vector<Thing>& things() {
    static const std::vector<Thing> list = {
        {"a folder", [](const std::string& path) { fs::create_directory(path); }},
        {"an empty file", [](const std::string& path) { write_all(path, ""); }},
        {"a dangling link",
         [](const std::string& path) { fs::create_symlink(path + ".nowhere", path); }},
        {"a link to itself", [](const std::string& path) { fs::create_symlink(path, path); }},
        {"a FIFO",
         [](const std::string& path) {
           if (::mkfifo(path.c_str(), 0666) != 0) throw std::runtime_error("mkfifo");
         }},
        {"a link to /dev/zero",
         [](const std::string& path) { fs::create_symlink("/dev/zero", path); }},
        {"a link to /dev/null",
         [](const std::string& path) { fs::create_symlink("/dev/null", path); }}};
    return list;
  }

  void add_other_things() {
    const std::pair<const char*, const char*> inputs[] = {
        {"translate", "m/config.json"},
        {"translate", "m/model.safetensors"},
        {"translate", "m/tokenizer.model"},
        {"translate", "m"},
        {"translate, packed alone", "m/packed.int8.safetensors"},
        {"translate --compute int8", "m/packed.int8.safetensors"},
        {"translate --shortlist", "m/shortlist.safetensors"},
        {"train --resume", "m/training/checkpoint.safetensors"},
        {"quantize", "m/model.safetensors"}};
    const std::pair<const char*, const char*> outputs[] = {
        {"train", "m"},
        {"train", "m/training"},
        {"train", "m/training/checkpoint.safetensors"},
        {"train", "m/model.safetensors"},
        {"train", "m/training/log.jsonl"},
        {"train", "m/training/events.out.tfevents.tril"},
        {"quantize", "m/packed.bf16.safetensors"},
        {"quantize -o new", "o"},
        {"shortlist", "m/shortlist.safetensors"},
        {"explain", "page.html"},
        {"evaluate --output", "out.txt"}};
    for (const Thing& thing : things()) {
      for (const auto& [name, path] : inputs) {
        add_thing(thing, tasks_.named(name), path, true);
      }
      for (const auto& [name, path] : outputs) {
        add_thing(thing, tasks_.named(name), path, false);
      }
    }
  }

  void add_thing(const Thing& thing, const Task& task, const std::string& path, bool input) {
    add(input ? "another thing for an input" : "another thing for an output",
        thing.name + " for " + path + ", " + task.name,
        [this, &thing, &task, path, input](const Stage& stage) {
          lay_out(world_, task, stage);
          const std::string file = stage.work + "/" + path;
          remove_tree(file);
          make_folder(folder_of(file));
          thing.make(file);
          Child child = child_of(world_, task, stage);
          child.limit = 8;
          const Ended ended = run(child);
          if (ended.code == 0) {
            if (task.prints && replaced(ended.out, stage.work, "@") != tasks_.reference(task).out) {
              return third("exit code 0, but stdout differs");
            }
            // An output may have replaced the thing; then it must be complete.
            if (!input && task.kind != Kind::reads && is_regular(file) && path != "m" &&
                !is_log(path) && key_of(file) != tasks_.reference(task).final.at(path)) {
              return third("exit code 0, but " + path + " differs");
            }
            return right();
          }
          const std::string why =
              unclear(ended, task.one_too, {name_of(path), input ? folder_of(file) : stage.work});
          return why.empty() ? error() : third(why + ": " + ended.err);
        });
  }

  void add_outputs_that_are_inputs() {
    using List = std::vector<std::string>;
    const auto evaluate = [](const std::string& output) {
      return List{"evaluate", "@/m", "--source", "@/x", "--reference", "@/y", "--output", output};
    };
    refused("evaluate --output is its source", evaluate("@/x"));
    refused("evaluate --output is its reference", evaluate("@/y"));
    refused("evaluate --output is a link to its source", evaluate("@/link"));
    refused("evaluate --output is a hard link to its source", evaluate("@/hard"));
    refused("evaluate --output is the model's weights", evaluate("@/m/model.safetensors"));
    for (const char* file :
         {"model.safetensors", "config.json", "tokenizer.model", "packed.int8.safetensors"}) {
      refused(std::string("explain -o the model's ") + file,
              List{"explain", "@/m", "af", "-o", std::string("@/m/") + file});
    }
    refused("quantize -o the folder of another model",
            List{"quantize", "@/m", "--to", "int8", "-o", "@/o"});
    refused("quantize -o another model, packed alone",
            List{"quantize", "@/m", "--to", "int8", "-o", "@/p"});
    refused("quantize -o another model, another form",
            List{"quantize", "@/m", "--to", "bf16", "-o", "@/p"});
    refused("train into the folder of another model", [this] {
      List list = {"train", "-o", "@/o"};
      for (const std::string& option : train_options(world_)) list.push_back(option);
      return list;
    }());
  }

  void refused(const std::string& what, const std::vector<std::string>& arguments) {
    add("an output that must be refused", what, [this, arguments](const Stage& stage) {
      make_folder(stage.io);
      copy_tree(world_.path("full"), stage.work + "/m");
      copy_tree(world_.path("cfull"), stage.work + "/o");
      copy_tree(world_.path("calone.int8"), stage.work + "/p");
      copy_tree(world_.path("text1/valid_source"), stage.work + "/x");
      copy_tree(world_.path("text1/valid_target"), stage.work + "/y");
      fs::create_symlink(stage.work + "/x", stage.work + "/link");
      fs::create_hard_link(stage.work + "/x", stage.work + "/hard");
      const Tree before = tree_of(stage.work);
      std::vector<std::string> filled;
      for (const std::string& argument : arguments) {
        filled.push_back(argument.starts_with("@/") ? stage.work + argument.substr(1) : argument);
      }
      const Ended ended = run(tril_child(world_, filled, stage.io));
      const std::string lost = difference(before, tree_of(stage.work));
      if (!lost.empty()) return third(described(ended) + ", " + lost);
      const std::string why = unclear(ended);
      return why.empty() ? error() : third(why);
    });
  }

  // A packed file is cut while the program has it mapped and waits for its next line.
  void add_shrinking_file() {
    for (const int64_t size : {int64_t{0}, int64_t{4096}}) {
      for (const std::string& compute : world_.computes) {
        add("a file cut while it is mapped", compute + " to " + std::to_string(size) + " bytes",
            [this, size, compute](const Stage& stage) { return shrink(compute, size, stage); });
      }
    }
  }

  Outcome shrink(const std::string& compute, int64_t size, const Stage& stage) const {
    make_folder(stage.io);
    make_folder(stage.work);
    const std::string model = stage.work + "/m", fifo = stage.io + "/fifo";
    copy_tree(world_.path("alone." + compute), model);
    if (::mkfifo(fifo.c_str(), 0600) != 0) throw std::runtime_error("mkfifo");
    const std::string lines = read_all(world_.path("text1/valid_source"));
    const size_t first = lines.find('\n') + 1;
    Child child = tril_child(
        world_, {"translate", model, "--json", "--threads", "1", "--input", "-", "--batch", "1"},
        stage.io);
    child.input = fifo;
    child.limit = 20;
    Ended ended;
    std::thread runs([&] { ended = run(child); });
    const int pipe = ::open(fifo.c_str(), O_WRONLY | O_CLOEXEC);
    const auto feed = [&](std::string_view text) {
      return ::write(pipe, text.data(), text.size()) == static_cast<ssize_t>(text.size());
    };
    bool fed = feed(std::string_view(lines).substr(0, first));
    const std::string out = stage.io + "/out";
    for (int i = 0; i < 1000 && (!is_regular(out) || fs::file_size(out) == 0); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    fs::resize_file(model + "/packed." + compute + ".safetensors", static_cast<uintmax_t>(size));
    fed = feed(std::string_view(lines).substr(first)) && fed;
    ::close(pipe);
    runs.join();
    if (!fed) throw std::runtime_error("the lines could not be written");
    if (ended.code == 0) {
      const Ended whole = translate(world_, world_.path("alone." + compute), compute, stage.io);
      return whole.out == ended.out ? right() : third("exit code 0 and other translations");
    }
    const std::string why = unclear(ended, false, {"packed." + compute});
    return why.empty() ? error() : third(why);
  }

  const World& world_;
  const Tasks& tasks_;
  std::vector<Scenario> list_;
  bool root_ = false;
  bool mounts_ = false;
  bool nobody_ = false;
};

}  // namespace

void run_places(const World& world, const Tasks& tasks, Report& report) {
  const Places places(world, tasks);
  const auto count = static_cast<int64_t>(places.list().size());
  const int64_t budget = world.settings.budget;
  run_campaign(
      "places", {.experiments = budget > 0 ? std::min(budget, count) : count}, world.settings,
      [&](int64_t number, Rng&, const std::string& folder) {
        const Scenario& scenario = places.list().at(static_cast<size_t>(number));
        Outcome outcome = scenario.act(Stage(folder));
        outcome.row = scenario.row;
        outcome.what = scenario.what + (outcome.what.empty() ? "" : ": " + outcome.what);
        return outcome;
      },
      report);
}

}  // namespace adversary
