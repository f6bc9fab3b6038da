// The commands that are attacked: what each begins with, what it may change, what it must end in,
// and how a run that was stopped is taken up again.
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
  // World entry and the name it has in the experiment's folder.
  std::vector<std::pair<std::string, std::string>> layout = {};
  std::vector<std::string> arguments = {};  // @ is the experiment's folder, % the world's
  std::vector<std::string> changes = {};    // beginnings of the paths that may change
  bool may_remove = false;                  // among those, files may go for a while
  std::vector<std::string> models = {};     // folders that are model folders before or after
  std::vector<std::string> computes = {};   // how these are tried: "", packed forms, "shortlist"
  bool prints = true;                       // the same text every time
  bool line_by_line = false;                // exit 1 and an empty line for a line that failed
  bool one_too = false;                     // exit 1 is an answer
  bool verifies = false;                    // exit 1 and a report on stdout is one
  bool may_be_refused = false;              // a program that does not do it at all is right too
  int weight = 4;                           // how often it is drawn
};
std::vector<Task> all_tasks(const World& world);

// A task that nothing disturbed.
struct Reference {
  Tree initial, final;
  std::string out;  // @ for the folder
  double seconds = 0;
  std::map<std::string, long> calls;                      // per group of the shim
  std::map<std::string, std::set<std::string>> versions;  // the whole states of each file
  // What each model folder, with each way to compute, may translate to.
  std::map<std::pair<std::string, std::string>, std::set<std::string>> outputs;
};
// Nothing where a task that may be refused is.
std::optional<Reference> make_reference(const World& world, const Task& task,
                                        const std::string& folder);

// An experiment's folder: its work (@) and what the program prints.
struct Stage {
  std::string work, io;
  explicit Stage(const std::string& folder) : work(folder + "/w"), io(folder + "/io") {}
};
void lay_out(const World& world, const Task& task, const Stage& stage);
Child child_of(const World& world, const Task& task, const Stage& stage, int threads = 1);

// Each returns what is wrong, or nothing.
// After a run that was killed, or failed: files whole, inputs untouched, no two models mixed.
std::string check_stopped(const World& world, const Task& task, const Reference& reference,
                          const Stage& stage, bool killed);
// After a run that ended well.
std::string check_finished(const World& world, const Task& task, const Reference& reference,
                           const Stage& stage, const Ended& ended);
// Takes a stopped run up again and checks that it ends as if it had never been stopped.
std::string check_recovery(const World& world, const Task& task, const Reference& reference,
                           const Stage& stage);

}  // namespace adversary
