// The commands that are attacked: what each begins with, what it may change, what it must end with,
// and how a stopped run is resumed.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "world.h"

namespace adversary {

enum class Kind { reads, writes, trains };

struct Task {
  std::string name = {};
  Kind kind = Kind::reads;
  // An entry of the world and its name in the experiment's folder.
  std::vector<std::pair<std::string, std::string>> layout = {};
  std::vector<std::string> arguments = {};  // @ is the experiment's folder, % the world's
  std::vector<std::string> changes = {};    // prefixes of the paths that may change
  bool may_remove = false;                  // among those, files may disappear for a while
  std::vector<std::string> models = {};     // folders that are model folders before or after
  std::vector<std::string> computes = {};   // how these are tested: "", packed forms, "shortlist"
  bool prints = true;                       // the same text every time
  bool line_by_line = false;                // exit code 1 and an empty line for a line that failed
  bool one_too = false;                     // exit code 1 is a valid answer
  bool verifies = false;                    // so is exit code 1 with a report on stdout
  bool may_be_refused = false;              // a program without this feature is right too
  int weight = 4;                           // how often it is drawn
};
std::vector<Task> all_tasks(const World& world);

// An undisturbed run of a task.
struct Reference {
  Tree initial, final;
  std::string out;  // @ for the folder
  double seconds = 0;
  std::map<std::string, long> calls;                      // per group of the shim
  std::map<std::string, std::set<std::string>> versions;  // all complete states of each file
  // The valid translations of each model folder, for each way to compute.
  std::map<std::pair<std::string, std::string>, std::set<std::string>> outputs;
};
// Nothing if a task that may be refused is refused.
std::optional<Reference> make_reference(const World& world, const Task& task,
                                        const std::string& folder);

// An experiment's folder: its files (@) and the program's output.
struct Stage {
  std::string work, io;
  explicit Stage(const std::string& folder) : work(folder + "/w"), io(folder + "/io") {}
};
void lay_out(const World& world, const Task& task, const Stage& stage);
Child child_of(const World& world, const Task& task, const Stage& stage, int threads = 1);

// Each returns what is wrong, or nothing.
// After a run that was killed, or failed: files complete, inputs untouched, no two models mixed.
std::string check_stopped(const World& world, const Task& task, const Reference& reference,
                          const Stage& stage, bool killed);
// After a successful run.
std::string check_finished(const World& world, const Task& task, const Reference& reference,
                           const Stage& stage, const Ended& ended);
// Resumes a stopped run and checks that it ends as if it had never been stopped.
std::string check_recovery(const World& world, const Task& task, const Reference& reference,
                           const Stage& stage);

}  // namespace adversary
