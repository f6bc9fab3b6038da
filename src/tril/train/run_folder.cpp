#include "tril/train/run_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>

#include "tril/base/fingerprint.h"
#include "tril/io/atomic_file.h"
#include "tril/io/safetensors.h"
#include "tril/models/folder.h"

namespace tril {
namespace {

constexpr const char* kRun = "run";  // a note in the weights: which run made them

std::string reason(int error) { return std::generic_category().message(error); }

int lock(int descriptor) {
  int result;
  do {
    result = ::flock(descriptor, LOCK_EX | LOCK_NB);
  } while (result != 0 && errno == EINTR);
  return result == 0 ? 0 : errno;
}

}  // namespace

RunPaths::RunPaths(const std::string& root)
    : folder(root),
      last(path_in(root, kLastFolder)),
      training(path_in(root, kTrainingFolder)),
      tokenizer(path_in(training, kTokenizerFile)),
      options(path_in(training, "options.toml")),
      lock(path_in(training, "lock")),
      checkpoint(path_in(training, kCheckpointFile)),
      log(path_in(training, "log.jsonl")),
      events(path_in(training, "events.out.tfevents.tril")),
      curve(path_in(training, "curve.svg")) {}

void check_writable(const std::string& folder) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  fs::path there = fs::absolute(folder, ignored).lexically_normal();
  while (!fs::exists(there, ignored) && there.has_relative_path()) there = there.parent_path();
  require(fs::is_directory(there, ignored), ErrorCode::io, there.string(),
          ": is a file, and a folder is needed for the model");
  for (const fs::path& path : {there, fs::path(RunPaths(folder).training)}) {
    if (!fs::exists(path, ignored)) continue;
    const int error = ::access(path.c_str(), W_OK | X_OK) == 0 ? 0 : errno;
    require(error == 0, ErrorCode::io, path.string(),
            ": no files can be made in this folder: ", reason(error));
  }
}

FolderLock::FolderLock(const std::string& path, const Function<void(const Notice&)>& message)
    : descriptor_(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666)) {
  require(descriptor_ >= 0, ErrorCode::io, path, ": cannot open: ", reason(errno));
  const int error = tril::lock(descriptor_);
  if (error == EWOULDBLOCK) {
    ::close(descriptor_);
    fail(ErrorCode::io, path, ": another run is at work in this folder");
  }
  if (error != 0 && message) {
    message(concat("warning: ", path, " cannot be locked (", reason(error),
                   "): see to it that no other run works in this folder"));
  }
}

FolderLock::~FolderLock() { ::close(descriptor_); }

// Identifies a run: everything that determines the weights, except how long it runs.
std::string RunFolder::identity(const TrainState& state) const {
  TrainOptions options = options_;
  options.train = options.valid = {};  // the texts count, not the names of their files
  options.tokenizer_file.clear();
  options.from.clear();  // likewise, the model counts
  options.updates = 0;
  return hexadecimal(
      fingerprint(concat(to_toml(options), state.corpus, " ", state.valid, " ", state.tokenizer,
                         state.base.empty() ? "" : " ", state.base)));
}

// A run that has evaluated has left its models in the folder. Models of another run beside its
// checkpoint mean that the checkpoint was copied there.
void RunFolder::check_models(const TrainState& state) const {
  if (!state.has_models()) return;
  const std::string weights = path_in(paths_.last, kWeightsFile);
  if (!file_exists(weights)) return;
  const SafetensorsMetadata notes = read_safetensors_info(weights).metadata;
  const auto run = notes.find(kRun);
  require(run == notes.end() || run->second == identity(state), ErrorCode::bad_format,
          paths_.checkpoint, ": is of another run than the models in ", paths_.folder);
}

void RunFolder::save_checkpoint(const TrainState& state, const Transformer& model,
                                const Updater& updater) {
  if (log_ != nullptr) log_->flush();
  if (events_ != nullptr) events_->flush();
  tril::save_checkpoint(paths_.checkpoint, state, files_, model, updater.optimizer(),
                        updater.average());
}

void RunFolder::load_checkpoint(const TrainState& state, Transformer& model, Updater& updater,
                                Context& context) const {
  tril::load_checkpoint(paths_.checkpoint, state, model, updater.optimizer(), updater.average(),
                        context);
}

void RunFolder::open_log(const TrainState& state) {
  const bool begun = state.update > 0 || state.has_models();
  log_ = std::make_unique<TrainingLog>(
      paths_.log, state.update,
      begun ? std::max<int64_t>(state.last_evaluation, 0) : TrainingLog::kAfresh);
  events_ = std::make_unique<EventLog>(paths_.events, log_->records());
}

void RunFolder::save_model(const std::string& folder, const Transformer& model,
                           const TrainState& state) const {
  model.save(folder, {.beside = files_, .notes = {{kRun, identity(state)}}});
}

void RunFolder::publish(const Transformer& model, const TrainState& state) const {
  save_model(paths_.folder, model, state);
}

void RunFolder::keep_last(const Transformer& model, const TrainState& state) const {
  save_model(paths_.last, model, state);
  write_file_atomically(paths_.curve, draw_curve(log_->records()), Links::replace);
}

void RunFolder::write_records(const TrainState& state) const {
  write_file_atomically(paths_.tokenizer, files_.at(std::string(kTokenizerFile)), Links::replace);
  write_file_atomically(paths_.options, state.options, Links::replace);
}

}  // namespace tril
