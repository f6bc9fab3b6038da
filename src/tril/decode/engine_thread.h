// EngineThread: one thread that steps the engines of a device in turns.
//
// An Engine belongs to one thread. Programs that submit from many threads, and several models on
// one device, share this one: tasks from any thread run between two steps, and engines that have
// work take one step after the other. An exception that leaves a step was told to every request it
// concerned, and goes no further.
//
// Where the system starts no thread, those who wait for a result do its work: help().
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
  // The same, and waits for it: what it throws is thrown here. On the thread itself it runs at
  // once. Needs no memory.
  void call(const std::function<void()>& task);
  // False where there is a thread, for which the caller may wait. Where there is none, runs the
  // tasks that were posted and one step in the caller's thread.
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
