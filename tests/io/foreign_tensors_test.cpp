// Weights of other programs: the files of tests/golden/foreign, which PyTorch and safetensors wrote
// (make_foreign.py there), and folders that are wrong in one place.
#include "tril/io/foreign/foreign_tensors.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <map>

#include "io_support.h"
#include "support/testing.h"
#include "torch_support.h"
#include "tril/io/atomic_file.h"

namespace tril::foreign_tensors_test {
namespace {

using testing::error_of;
using testing::TempFolder;

std::string fixture(const std::string& name) {
  return testing::golden_folder() + "/foreign/" + name;
}

std::string bytes_of(const ForeignTensor& tensor) {
  std::string bytes(static_cast<size_t>(tensor.size() * size_of(tensor.type())), '?');
  tensor.read_bytes(bytes);
  return bytes;
}
std::vector<float> values_of(const ForeignTensor& tensor) {
  std::vector<float> values(static_cast<size_t>(tensor.size()), -7.0f);
  tensor.read(values);
  return values;
}

// NaN may have another payload: PyTorch's conversions of some types make it quiet.
bool same_float(float a, float b) {
  return (std::isnan(a) && std::isnan(b)) || std::memcmp(&a, &b, sizeof a) == 0;
}

class Fixture : public ::testing::TestWithParam<const char*> {};

TEST_P(Fixture, EveryTensorIsWhatPyTorchHas) {
  const ForeignTensors tensors(fixture(GetParam()));
  Arena arena;
  std::map<std::string, Tensor> expected;
  for (const NamedTensor& one :
       load_safetensors(fixture(GetParam()) + "/expected.safetensors", arena)) {
    expected[one.name] = one.tensor;
  }
  ASSERT_EQ(expected.size(), 2 * tensors.all().size());
  for (size_t i = 0; i < tensors.all().size(); ++i) {
    const ForeignTensor& tensor = tensors.all()[i];
    const std::string& name = tensor.name();
    EXPECT_TRUE(i == 0 || tensors.all()[i - 1].name() < name);
    EXPECT_EQ(tensors.find(name), &tensor);
    ASSERT_TRUE(expected.contains(name)) << name;
    EXPECT_EQ(tensor.shape(), expected[name].shape()) << name;
    const std::vector<float> values = values_of(tensor);
    for (int64_t j = 0; j < tensor.size(); ++j) {
      EXPECT_TRUE(same_float(values[static_cast<size_t>(j)], expected[name].data<float>()[j]))
          << name << " " << j;
    }
    const Tensor& stored = expected[name + ".bytes"];
    const std::string bytes = bytes_of(tensor);
    ASSERT_EQ(std::ssize(bytes), stored.size()) << name;
    EXPECT_TRUE(bytes.empty() || std::memcmp(bytes.data(), stored.raw(), bytes.size()) == 0)
        << name;
  }
  tensors.verify();
}

INSTANTIATE_TEST_SUITE_P(ForeignTensors, Fixture,
                         ::testing::Values("safetensors", "safetensors_shards", "zip", "legacy",
                                           "zip_shards", "module", "protocol4"));

TEST(ForeignTensors, AllTypesAreThere) {
  for (const char* folder : {"safetensors", "zip", "legacy"}) {
    const ForeignTensors tensors(fixture(folder));
    for (const auto& [name, type] : {std::pair{"layer.f16", StoredType::f16},
                                     {"layer.bf16", StoredType::bf16},
                                     {"layer.f32", StoredType::f32},
                                     {"layer.f64", StoredType::f64},
                                     {"layer.i8", StoredType::i8},
                                     {"layer.i16", StoredType::i16},
                                     {"layer.i32", StoredType::i32},
                                     {"layer.i64", StoredType::i64},
                                     {"layer.u8", StoredType::u8},
                                     {"layer.boolean", StoredType::boolean}}) {
      EXPECT_EQ(tensors.get(name).type(), type) << folder;
    }
  }
}

TEST(ForeignTensors, KnowsItsFilesAndMetadata) {
  const ForeignTensors plain(fixture("safetensors"));
  EXPECT_EQ(plain.files(), std::vector<std::string>{"model.safetensors"});
  EXPECT_EQ(plain.metadata(), (SafetensorsMetadata{{"format", "pt"}}));
  EXPECT_EQ(plain.get("scalar").file(), fixture("safetensors") + "/model.safetensors");
  const ForeignTensors shards(fixture("zip_shards"));
  EXPECT_EQ(shards.files(), (std::vector<std::string>{"pytorch_model.bin.index.json",
                                                      "pytorch_model-00001-of-00002.bin",
                                                      "pytorch_model-00002-of-00002.bin"}));
  EXPECT_TRUE(shards.metadata().empty());
  EXPECT_EQ(shards.find("none"), nullptr);
  EXPECT_EQ(
      error_of([&] { shards.get("none"); }),
      "bad format: " + fixture("zip_shards") + ": no tensor none in pytorch_model.bin.index.json");
}

TEST(ForeignTensors, AliasesAreTheSameElements) {
  for (const char* folder : {"zip", "legacy"}) {
    const ForeignTensors tensors(fixture(folder));
    const ForeignTensor& table = tensors.get("table");
    EXPECT_TRUE(table.same_elements(tensors.get("alias")));
    EXPECT_FALSE(table.same_elements(tensors.get("transposed")));
    EXPECT_FALSE(table.same_elements(tensors.get("rows")));
    EXPECT_FALSE(table.same_elements(tensors.get("layer.f32")));
  }
}

// Any range of elements, dense or not, is the same part of the whole.
TEST(ForeignTensors, AnyRangeIsPartOfTheWhole) {
  const ForeignTensors tensors(fixture("zip"));
  for (const char* name : {"table", "transposed", "permuted", "columns", "every_second", "axes"}) {
    const ForeignTensor& tensor = tensors.get(name);
    const std::vector<float> all = values_of(tensor);
    const std::string bytes = bytes_of(tensor);
    const int64_t element = size_of(tensor.type());
    for (int64_t first = 0; first <= tensor.size(); ++first) {
      for (int64_t count = 0; count <= tensor.size() - first; ++count) {
        std::vector<float> some(static_cast<size_t>(count));
        tensor.read(some, first);
        EXPECT_TRUE(std::equal(some.begin(), some.end(), all.begin() + first));
        std::string part(static_cast<size_t>(count * element), '?');
        tensor.read_bytes(part, first * element);
        EXPECT_EQ(part, bytes.substr(static_cast<size_t>(first * element), part.size()));
      }
    }
  }
  const ForeignTensor& table = tensors.get("table");
  std::vector<float> values(36);
  std::string bytes(4, ' ');
  const std::string start = "invalid argument: " + fixture("zip") + "/pytorch_model.bin: table: ";
  EXPECT_EQ(error_of([&] { table.read(values); }), start + "elements from 0 to 36 of 35");
  EXPECT_EQ(error_of([&] { table.read(std::span(values).first(1), 35); }),
            start + "elements from 35 to 36 of 35");
  EXPECT_EQ(error_of([&] { table.read(std::span(values).first(1), -1); }),
            start + "elements from -1 to 0 of 35");
  EXPECT_EQ(error_of([&] { table.read_bytes(bytes, 2); }), start + "not whole elements of 4 bytes");
  EXPECT_EQ(error_of([&] { table.read_bytes(std::span(bytes).first(3)); }),
            start + "not whole elements of 4 bytes");
}

// What is written as it was read has the same types, shapes and bytes, from whichever form.
TEST(ForeignTensors, GoBackToSafetensorsByteForByte) {
  for (const char* name : {"safetensors", "safetensors_shards", "zip", "legacy", "module"}) {
    const ForeignTensors tensors(fixture(name));
    const TempFolder folder;
    std::vector<StoredTensor> to_write;
    for (const ForeignTensor& one : tensors.all()) to_write.push_back(one.to_store(one.name()));
    AtomicFile file(folder / "model.safetensors");
    const std::string seal = write_safetensors(file, to_write, tensors.metadata());
    file.commit();
    const ForeignTensors again(folder.path());
    EXPECT_EQ(again.metadata(), tensors.metadata());
    EXPECT_EQ(verify_safetensors(folder / "model.safetensors", SafetensorsTypes::all).seal, seal);
    again.verify();
    ASSERT_EQ(again.all().size(), tensors.all().size());
    for (size_t i = 0; i < again.all().size(); ++i) {
      const ForeignTensor& a = again.all()[i];
      const ForeignTensor& b = tensors.all()[i];
      EXPECT_EQ(a.name(), b.name());
      EXPECT_EQ(a.type(), b.type());
      EXPECT_EQ(a.shape(), b.shape());
      EXPECT_EQ(bytes_of(a), bytes_of(b));
    }
    // A flipped bit is found.
    std::string bytes = read_file(folder / "model.safetensors", 1 << 20);
    bytes.back() ^= 1;
    write_file_atomically(folder / "model.safetensors", bytes);
    EXPECT_NE(error_of([&] { ForeignTensors(folder.path()).verify(); }).find("does not match"),
              std::string::npos);
  }
}

// Larger than a block, so that it is read and written in pieces; then written from fp32.
TEST(ForeignTensors, LargeTensorsGoThroughInPieces) {
  const TempFolder folder;
  const Shape shape{1000, 1500};
  std::vector<float> values(1500 * 1000);
  Random random(3);
  for (float& value : values) value = random.uniform(-4, 4);
  const auto rounded = [&](int64_t begin, std::span<char> memory) {
    write_elements(StoredType::f16,
                   std::span(values).subspan(static_cast<size_t>(begin / 2), memory.size() / 2),
                   memory.data());
  };
  AtomicFile file(folder / "model.safetensors");
  const std::vector<StoredTensor> to_write = {
      {.name = "w", .type = StoredType::f16, .shape = shape, .read = rounded}};
  write_safetensors(file, to_write);
  file.commit();
  const ForeignTensors tensors(folder.path());
  tensors.verify();
  std::vector<float> read(values.size());
  tensors.get("w").read(read);
  for (size_t i = 0; i < values.size(); ++i) {
    ASSERT_EQ(read[i], to_f32(to_f16(values[i]))) << i;
  }
  // The same bytes as of a tensor in memory, where the type is one of tril's.
  Arena arena;
  const Tensor tensor = testing::tensor_of(arena, shape, values);
  save_safetensors(folder / "memory", std::vector<NamedTensor>{{"w", tensor}}, {{"k", "v"}});
  AtomicFile stored(folder / "stored");
  const std::vector<StoredTensor> same = {
      {.name = "w",
       .type = StoredType::f32,
       .shape = shape,
       .read = [&](int64_t begin, std::span<char> memory) {
         std::memcpy(memory.data(), reinterpret_cast<const char*>(values.data()) + begin,
                     memory.size());
       }}};
  write_safetensors(stored, same, {{"k", "v"}});
  stored.commit();
  EXPECT_EQ(read_file(folder / "memory", 1 << 24), read_file(folder / "stored", 1 << 24));
}

// A model larger than memory can be read: what was converted does not stay in memory.
TEST(ForeignTensors, ReadingHoldsOnlyAPieceOfTheFile) {
  const TempFolder folder;
  constexpr int64_t kBytes = int64_t{64} << 20;
  const std::string header = concat(R"({"w":{"dtype":"F16","shape":[)", kBytes / 2,
                                    R"(],"data_offsets":[0,)", kBytes, "]}}");
  const std::string path = folder / "model.safetensors";
  write_file_atomically(path, testing::little(uint64_t{header.size()}) + header);
  std::filesystem::resize_file(path, 8 + header.size() + static_cast<size_t>(kBytes));  // zeros
  const ForeignTensors tensors(folder.path());
  const int64_t before = testing::mapped_bytes_in_memory();
  std::vector<float> values(1 << 20, 1.0f);
  for (int64_t first = 0; first < kBytes / 2; first += std::ssize(values)) {
    tensors.get("w").read(values, first);
    EXPECT_EQ(values.back(), 0.0f);
    EXPECT_LE(testing::mapped_bytes_in_memory() - before, int64_t{8} << 20);
  }
}

// Folders put together from the fixtures.
class Folder {
 public:
  void copy(const std::string& from, const std::string& as) const {
    std::filesystem::copy_file(fixture(from), temp_ / as);
  }
  void write(const std::string& name, const std::string& bytes) const {
    write_file_atomically(temp_ / name, bytes);
  }
  // The error of opening it, without the folder's path.
  std::string error() const {
    std::string text = error_of([&] { ForeignTensors tensors(temp_.path()); });
    EXPECT_TRUE(testing::is_printable(text)) << text;
    const std::string start = temp_ / "";
    for (size_t at = text.find(start); at != text.npos; at = text.find(start)) {
      text.erase(at, start.size());
    }
    return text;
  }
  const std::string& path() const { return temp_.path(); }

 private:
  TempFolder temp_;
};

TEST(ForeignTensors, SafetensorsArePreferred) {
  const Folder folder;
  folder.copy("zip_shards/pytorch_model.bin.index.json", "pytorch_model.bin.index.json");
  for (const char* shard :
       {"pytorch_model-00001-of-00002.bin", "pytorch_model-00002-of-00002.bin"}) {
    folder.copy(std::string("zip_shards/") + shard, shard);
  }
  EXPECT_EQ(ForeignTensors(folder.path()).files()[0], "pytorch_model.bin.index.json");
  folder.copy("module/pytorch_model.bin", "pytorch_model.bin");
  EXPECT_EQ(ForeignTensors(folder.path()).files()[0], "pytorch_model.bin");
  for (const char* name : {"model.safetensors.index.json", "model-00001-of-00002.safetensors",
                           "model-00002-of-00002.safetensors"}) {
    folder.copy(std::string("safetensors_shards/") + name, name);
  }
  EXPECT_EQ(ForeignTensors(folder.path()).files()[0], "model.safetensors.index.json");
  folder.copy("safetensors/model.safetensors", "model.safetensors");
  EXPECT_EQ(ForeignTensors(folder.path()).files()[0], "model.safetensors");
}

TEST(ForeignTensorsErrors, NoWeights) {
  const Folder folder;
  folder.write("config.json", "{}");
  EXPECT_EQ(folder.error(),
            "bad format: " + folder.path() +
                ": no weights: none of model.safetensors, model.safetensors.index.json, "
                "pytorch_model.bin, pytorch_model.bin.index.json");
  std::filesystem::create_directory(folder.path() + "/pytorch_model.bin");
  EXPECT_EQ(folder.error(),
            "input/output: pytorch_model.bin: cannot be read: it is no regular file");
}

// The header is checked as that of our own files; only the types are more.
TEST(ForeignTensorsErrors, SafetensorsHeaders) {
  const auto with = [](const std::string& header, const std::string& data) {
    const Folder folder;
    folder.write("model.safetensors", testing::little(uint64_t{header.size()}) + header + data);
    return folder.error();
  };
  const auto one = [&](const std::string& type, const std::string& shape,
                       const std::string& offsets, const std::string& data) {
    return with(concat(R"({"w":{"dtype":")", type, R"(","shape":)", shape, R"(,"data_offsets":)",
                       offsets, "}}"),
                data);
  };
  const std::string start = "bad format: model.safetensors: w: ";
  EXPECT_EQ(one("F8_E4M3", "[1]", "[0,1]", "x"),
            start +
                "dtype: expected one of F16, BF16, F32, F64, I8, I16, I32, I64, U8, BOOL, got "
                "\"F8_E4M3\"");
  EXPECT_EQ(one("F16", "[2]", "[0,2]", "xy"),
            start + "data_offsets: F16 [2] needs 4 bytes, the offsets [0, 2] give 2");
  EXPECT_EQ(one("I64", "[1152921504606846976]", "[0,0]", ""),
            start + "shape: more bytes than 64 bits can count");
  EXPECT_EQ(one("U8", "[1]", "[0,1]", "xy"),
            "bad format: model.safetensors: the last 1 of 2 bytes of data belong to no tensor");
  EXPECT_EQ(one("BOOL", "[1]", "[1,2]", "xy"),
            start + "data_offsets: [1, 2] leave a hole: bytes from 0 to 1 belong to no tensor");
  EXPECT_EQ(one("BOOL", "[2]", "[0,2]", "x"),
            start + "data_offsets: [0, 2] go past the data, which has 1 bytes");
  EXPECT_EQ(with("{\"w\":0,\"w\":0}", ""), start + "this field stands twice");
  const Folder folder;
  folder.write("model.safetensors", "PK\3\4 is an archive");
  EXPECT_NE(folder.error().find("not a safetensors file"), std::string::npos);
}

// A safetensors shard with one byte per tensor.
std::string shard_of(const std::vector<std::string>& names) {
  std::string header = "{";
  for (size_t i = 0; i < names.size(); ++i) {
    header += concat(i == 0 ? "" : ",", "\"", names[i],
                     R"(":{"dtype":"U8","shape":[1],"data_offsets":[)", i, ",", i + 1, "]}");
  }
  header += "}";
  return testing::little(uint64_t{header.size()}) + header + std::string(names.size(), 'x');
}

TEST(ForeignTensorsErrors, Shards) {
  constexpr const char* kIndex = "model.safetensors.index.json";
  const auto with = [&](const std::string& map, const std::vector<std::string>& first,
                        const std::vector<std::string>& second) {
    const Folder folder;
    folder.write(kIndex, concat(R"({"metadata":{"total_size":2},"weight_map":)", map, "}"));
    folder.write("a.safetensors", shard_of(first));
    folder.write("b.safetensors", shard_of(second));
    return folder.error();
  };
  const std::string both = R"({"u":"a.safetensors","v":"b.safetensors"})";
  const std::string start = concat("bad format: ", kIndex, ": weight_map: ");
  EXPECT_EQ(with(both, {"u"}, {"v", "w"}), concat("bad format: b.safetensors: w: not in ", kIndex));
  EXPECT_EQ(with(both, {"u"}, {}), start + "v: not in b.safetensors");
  EXPECT_EQ(with(both, {"v"}, {"u"}),
            concat("bad format: a.safetensors: v: ", kIndex, " says that it is in b.safetensors"));
  EXPECT_EQ(with(both, {"u", "v"}, {"v"}),
            concat("bad format: a.safetensors: v: ", kIndex, " says that it is in b.safetensors"));
  EXPECT_EQ(with(R"({"u":"a.safetensors","u":"b.safetensors"})", {"u"}, {"u"}),
            start + "u: this field stands twice");
  EXPECT_EQ(with(R"({"u":"c.safetensors","v":"d.safetensors","w":"c.safetensors"})", {}, {}),
            concat("bad format: ", kIndex,
                   ": weight_map names files that are missing: c.safetensors, d.safetensors"));
  EXPECT_EQ(with("{}", {}, {}),
            concat("bad format: ", kIndex,
                   ": weight_map: expected an object of file names, got an empty one"));
  EXPECT_EQ(with("[]", {}, {}),
            concat("bad format: ", kIndex,
                   ": weight_map: expected an object of file names, got an array"));
  const std::string expected =
      start + "u: expected the name of a file in this folder that ends with .safetensors, got ";
  for (const std::string name :
       {"../model.safetensors", "/etc/model.safetensors", "sub/a.safetensors", "a.bin",
        ".safetensors", "..safetensors", "", "a.safetensors\\u0000.safetensors", "a\\n.safetensors",
        "a\\\\b.safetensors"}) {
    EXPECT_EQ(with(concat(R"({"u":")", name, "\"}"), {}, {}), concat(expected, '"', name, '"'));
  }
  EXPECT_EQ(with(R"({"u":1})", {}, {}), expected + "1");
  const Folder folder;
  folder.write(kIndex, R"({"metadata":{}})");
  EXPECT_EQ(folder.error(), concat("bad format: ", kIndex,
                                   ": weight_map: missing, expected an object of file names"));
}

TEST(ForeignTensorsErrors, ShardsOfTorch) {
  const Folder folder;
  const std::string tensor = testing::TensorPickle{}.bytes();
  folder.write("pytorch_model.bin.index.json",
               R"({"weight_map":{"u":"pytorch_model-1.bin","v":"pytorch_model-2.bin"}})");
  folder.write("pytorch_model-1.bin", testing::torch_zip(testing::state_dict({{"u", tensor}})));
  folder.write("pytorch_model-2.bin",
               testing::torch_zip(testing::state_dict({{"v", tensor}, {"u", tensor}})));
  EXPECT_EQ(folder.error(),
            "bad format: pytorch_model-2.bin: u: pytorch_model.bin.index.json says that it is in "
            "pytorch_model-1.bin");
  folder.write("pytorch_model-2.bin", testing::torch_zip(testing::op::kProto + "cos\nsystem\n."));
  EXPECT_EQ(folder.error(),
            "bad format: pytorch_model-2.bin: data.pkl: pickle, at byte 13: the global os.system "
            "is not allowed: the file asks to run code, which is never done");
}

}  // namespace
}  // namespace tril::foreign_tensors_test
