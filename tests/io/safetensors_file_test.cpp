// SafetensorsFile: tensor by tensor what load_safetensors() reads at once.
#include <cstring>

#include "io_support.h"
#include "support/testing.h"
#include "tril/io/atomic_file.h"
#include "tril/io/safetensors.h"

namespace tril::safetensors_file_test {
namespace {

using testing::error_of;
using testing::random_tensor;
using testing::TempFolder;

TEST(SafetensorsFile, ReadsEachTensorAsTheWholeFileIsRead) {
  const TempFolder folder;
  const std::string path = folder / "m.safetensors";
  Arena arena;
  Random random(1);
  // One of several blocks, small ones, and one without elements.
  const std::vector<NamedTensor> tensors = {{"large", random_tensor(arena, {1500, 700}, random)},
                                            {"b", random_tensor(arena, {3}, random)},
                                            {"a", random_tensor(arena, {2, 5}, random)},
                                            {"empty", Tensor(arena, {0, 4})}};
  const std::string seal = save_safetensors(path, tensors, {{"key", "text"}});
  const SafetensorsFile file(path);
  EXPECT_EQ(file.info().seal, seal);
  EXPECT_EQ(file.info().metadata.at("key"), "text");
  const std::vector<NamedTensor> whole = load_safetensors(path, arena);
  ASSERT_EQ(file.tensors().size(), whole.size());
  for (size_t i = 0; i < whole.size(); ++i) {
    EXPECT_EQ(file.tensors()[i].name, whole[i].name);
    Arena alone;
    const Tensor read = file.read(whole[i].name, alone);
    ASSERT_TRUE(read.shape() == whole[i].tensor.shape());
    EXPECT_EQ(read.dtype(), whole[i].tensor.dtype());
    const auto bytes = static_cast<size_t>(read.size()) * sizeof(float);
    EXPECT_TRUE(bytes == 0 || std::memcmp(read.raw(), whole[i].tensor.raw(), bytes) == 0);
  }
  EXPECT_EQ(file.find("c"), nullptr);
  EXPECT_EQ(error_of([&] { file.read("c", arena); }),
            "bad format: " + path + ": tensor 'c' is missing");
}

TEST(SafetensorsFile, DamageIsFoundInTheTensorThatHasIt) {
  const TempFolder folder;
  const std::string path = folder / "m.safetensors";
  Arena arena;
  Random random(2);
  const std::vector<NamedTensor> tensors = {{"a", random_tensor(arena, {16}, random)},
                                            {"b", random_tensor(arena, {16}, random)}};
  save_safetensors(path, tensors);
  std::string bytes = read_file(path, 1 << 20);
  bytes.back() ^= 1;  // of b, whose name comes later
  write_file_atomically(path, bytes);
  const SafetensorsFile file(path);
  EXPECT_NO_THROW(file.read("a", arena));
  EXPECT_EQ(
      error_of([&] { file.read("b", arena); }),
      "bad format: " + path +
          ": damaged, or changed since it was sealed: tensor 'b' does not match its checksum");
}

}  // namespace
}  // namespace tril::safetensors_file_test
