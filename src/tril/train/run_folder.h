// The folder of a training run: its files, its lock, and when each file is written. trainer.h says
// what each file is for. Internal to train/.
#pragma once

#include <memory>
#include <string>

#include "tril/base/error.h"
#include "tril/base/function.h"
#include "tril/models/folder.h"
#include "tril/train/checkpoint.h"
#include "tril/train/event_log.h"
#include "tril/train/log.h"
#include "tril/train/options.h"
#include "tril/train/updater.h"

namespace tril {

struct RunPaths {
  explicit RunPaths(const std::string& root);

  std::string folder, last, training, tokenizer, options, lock, checkpoint, log, events, curve;
};

// Raises `io` unless files can be created in the folder, or the folder itself if it does not exist
// yet: better before hours of work than after.
void check_writable(const std::string& folder);

// One run at a time in a folder: held from before the first file is written to the end. If the file
// system has no locks, `message` is called, and nothing is held.
class FolderLock {
 public:
  FolderLock(const std::string& path, const Function<void(const Notice&)>& message);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int descriptor_;
};

// The files of one run. The trainer decides when they are due.
class RunFolder {
 public:
  // `files` go beside the weights of every model, tokenizer.model among them. The others must
  // outlive it.
  RunFolder(const RunPaths& paths, const TrainOptions& options, ModelFiles files)
      : paths_(paths), options_(options), files_(std::move(files)) {}

  // Raises `bad_format` if the models in the folder were made by another run than the checkpoint.
  void check_models(const TrainState& state) const;

  // Replaces the checkpoint whole. What was logged until then is on the disk before it.
  void save_checkpoint(const TrainState& state, const Transformer& model, const Updater& updater);
  void load_checkpoint(const TrainState& state, Transformer& model, Updater& updater,
                       Context& context) const;

  // Continues the log from where the run is; to be called before log() and keep_last().
  void open_log(const TrainState& state);
  void log(const LogRecord& record) {
    log_->append(record);
    events_->append(record);
  }

  // Makes this the model in use from now on.
  void publish(const Transformer& model, const TrainState& state) const;
  // Writes the model of the last evaluation, and the curve up to it.
  void keep_last(const Transformer& model, const TrainState& state) const;
  // Writes options and tokenizer for people to read: the checkpoint holds both.
  void write_records(const TrainState& state) const;

 private:
  std::string identity(const TrainState& state) const;
  void save_model(const std::string& folder, const Transformer& model,
                  const TrainState& state) const;

  const RunPaths& paths_;
  const TrainOptions& options_;
  const ModelFiles files_;
  std::unique_ptr<TrainingLog> log_;
  std::unique_ptr<EventLog> events_;
};

}  // namespace tril
