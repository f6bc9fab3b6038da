#include "campaigns.h"

#include <stdexcept>

namespace adversary {

const Task& Tasks::named(const std::string& name) const {
  for (const Task& task : list) {
    if (task.name == name) return task;
  }
  throw std::runtime_error("there is no task " + name);
}

Tasks make_tasks(const World& world) {
  Tasks tasks{.list = all_tasks(world), .references = {}};
  for (const Task& task : tasks.list) {
    const std::string folder = world.path("reference");
    remove_tree(folder);
    tasks.references[task.name] = make_reference(world, task, folder);
  }
  return tasks;
}

const Task& draw(const Tasks& tasks, Rng& rng, bool (*wanted)(const Task&)) {
  std::vector<const Task*> drawn;
  for (const Task& task : tasks.list) {
    if (wanted(task)) drawn.insert(drawn.end(), static_cast<size_t>(task.weight), &task);
  }
  return *rng.pick(drawn);
}

}  // namespace adversary
