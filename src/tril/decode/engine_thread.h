// EngineThread: one thread that steps the engines of a device in turns.
//
// An Engine belongs to one thread. Programs that submit from many threads, and several models on
// one device, share this one: tasks from any thread run between two steps, and engines with work
// step in turn, however many tasks are posted. An exception thrown by a step has been reported to
// every request concerned, and is dropped here.
//
// If the system cannot start the thread, callers that wait for a result do its work: help().
#pragma once

#include <functional>
#include <memory>

#include "tril/decode/engine.h"
#include "tril/device/device.h"

namespace tril {

class EngineThread {
 public:
  // The thread of a device, shared within this process; it ends when nobody holds it.
  static std::shared_ptr<EngineThread> of(const Device& device);

  // Starts the thread, if the system can.
  EngineThread();
  // Tasks that were posted run before the thread ends.
  ~EngineThread();
  EngineThread(const EngineThread&) = delete;
  EngineThread& operator=(const EngineThread&) = delete;

  // Runs a task on the thread, between two steps, in the order they are posted. It may not throw.
  void post(std::function<void()> task);
  // The same, and waits for it: exceptions of the task are rethrown here. On the thread itself it
  // runs at once. Allocates nothing.
  void call(const std::function<void()>& task);
  // False if there is a thread, for which the caller can wait. If there is none, runs the posted
  // tasks and one step on the caller's thread.
  bool help();
  bool is_this_thread() const;

  // On the thread: includes an engine from now on, or removes it.
  void add(Engine& engine);
  void remove(Engine& engine);

 private:
  struct State;
  std::shared_ptr<State> state_;  // shared with the thread, which may outlive this
};

}  // namespace tril
