// The attacks. Each adds its outcomes to the report; experiment N of a campaign is the same every
// time for the same seed and program, except for kills at a point in time.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tasks.h"

namespace adversary {

// Tasks and their references, made once for all campaigns.
struct Tasks {
  std::vector<Task> list;
  std::map<std::string, Reference> references;

  const Task& named(const std::string& name) const;
  const Reference& reference(const Task& task) const { return references.at(task.name); }
};
Tasks make_tasks(const World& world);
// One of those accepted by `wanted`, drawn by weight.
const Task& draw(const Tasks& tasks, Rng& rng, bool (*wanted)(const Task&));

// Damaged and exchanged files.
void run_flips(const World& world, Report& report);
// Damage to a given folder, such as the demo's.
void run_flips_of(const World& world, const std::string& model, Report& report);
void run_kills(const World& world, const Tasks& tasks, Report& report);
void run_faults(const World& world, const Tasks& tasks, Report& report);
// Descriptors, disks, permissions, and other things in place of a file.
void run_places(const World& world, const Tasks& tasks, Report& report);

}  // namespace adversary
