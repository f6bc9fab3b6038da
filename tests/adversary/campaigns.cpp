#include "campaigns.h"

#include <cstdio>
#include <stdexcept>
#include <utility>

namespace adversary {

const Task& Tasks::named(const std::string& name) const {
  for (const Task& task : list) {
    if (task.name == name) return task;
  }
  throw std::runtime_error("there is no task " + name);
}

Tasks make_tasks(const World& world) {
  Tasks tasks;
  for (const Task& task : all_tasks(world)) {
    const std::string folder = world.path("reference");
    remove_tree(folder);
    std::optional<Reference> reference = make_reference(world, task, folder);
    if (!reference) {
      std::fprintf(stderr, "%s is refused\n", task.name.c_str());
      continue;
    }
    tasks.list.push_back(task);
    tasks.references[task.name] = std::move(*reference);
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
