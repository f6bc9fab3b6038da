// Any bytes as a training checkpoint: either a state that can be written and read again with the
// same bytes, or one tril::Error that names the file.
#include <cstdint>
#include <string>

#include "scratch.h"
#include "tiny_model.h"
#include "tril/base/error.h"
#include "tril/io/atomic_file.h"
#include "tril/tensor/context.h"
#include "tril/train/checkpoint.h"

namespace {

using tril::fuzz::check;
using tril::fuzz::put;
using tril::fuzz::scratch;
using tril::fuzz::view;

// A run that is resumed from a checkpoint; what a bad one leaves in it is overwritten by the next.
struct Run {
  tril::Transformer model{tril::fuzz::minimal_config(), 1};
  tril::AdamWOptimizer optimizer{model, {}};
  tril::WeightAverage average{model, {.type = tril::AverageType::exponential}};
  tril::Context context{1};
};

// Loads the checkpoint and writes the result.
std::string through(Run& run, const std::string& path, const char* to) {
  const tril::TrainState state = tril::load_state(path);
  tril::load_checkpoint(path, state, run.model, run.optimizer, run.average, run.context);
  const std::string written = scratch() + "/" + to;
  tril::save_checkpoint(written, state, tril::load_files(path), run.model, run.optimizer,
                        run.average);
  return written;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static Run run;
  const std::string path = put("checkpoint.safetensors", view(data, size));
  std::string written;
  try {
    written = through(run, path, "written");
  } catch (const tril::Error& error) {
    check(error.code() == tril::ErrorCode::bad_format);
    check(std::string_view(error.what()).starts_with(path));
    return 0;
  }
  const std::string again = through(run, written, "again");
  check(tril::read_file(written, 1 << 20) == tril::read_file(again, 1 << 20));
  return 0;
}
