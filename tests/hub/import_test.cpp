// Models that transformers wrote (make_models.py): the same logits, and the same tokens as
// generate().
#include <cmath>
#include <filesystem>

#include "support/testing.h"
#include "tril/decode/search.h"
#include "tril/hub/import.h"
#include "tril/io/foreign/foreign_tensors.h"
#include "tril/io/safetensors.h"
#include "tril/translate/translator.h"

namespace tril::import_test {
namespace {

namespace fs = std::filesystem;
using testing::raised_by;
using Tokens = std::vector<int32_t>;

constexpr int kCases = 12;
const std::vector<std::string> kFamilies = {"bart", "m2m_100", "marian", "mbart", "pegasus"};

std::string folder_of(const std::string& family) {
  return (fs::path(TRIL_HUB_FOLDER) / "models" / family).string();
}

// What transformers computed with a model.
class Expected {
 public:
  // expected.safetensors has a name of its own, so it is read as a folder's only file.
  explicit Expected(const std::string& family) : scratch_(testing::scratch_folder()) {
    fs::copy_file(fs::path(folder_of(family)) / "expected.safetensors",
                  fs::path(scratch_.path()) / "model.safetensors");
    tensors_.emplace(scratch_.path());
  }
  Tokens tokens(int number, const std::string& what) const {
    const ForeignTensor& tensor = get(number, what);
    std::vector<int64_t> wide(static_cast<size_t>(tensor.size()));
    tensor.read_bytes({reinterpret_cast<char*>(wide.data()), wide.size() * sizeof(int64_t)});
    return {wide.begin(), wide.end()};
  }
  std::vector<double> logits(int number) const {
    const ForeignTensor& tensor = get(number, "logits");
    std::vector<double> values(static_cast<size_t>(tensor.size()));
    tensor.read_bytes({reinterpret_cast<char*>(values.data()), values.size() * sizeof(double)});
    return values;
  }

 private:
  const ForeignTensor& get(int number, const std::string& what) const {
    return tensors_->get(concat(number < 10 ? "0" : "", number, ".", what));
  }
  testing::ScratchFolder scratch_;
  std::optional<ForeignTensors> tensors_;
};

}  // namespace
}  // namespace tril::import_test
