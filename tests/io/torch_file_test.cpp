// Files of torch.save whose descriptions lie: shapes, strides, storages, keys, lengths.
#include "tril/io/foreign/torch_file.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "io_support.h"
#include "torch_support.h"
#include "tril/io/atomic_file.h"

namespace tril::torch_file_test {
namespace {

using foreign::read_torch_file;
using foreign::TensorPlace;
using testing::error_of;
using testing::floats;
using testing::little;
using testing::state_dict;
using testing::TensorPickle;
using testing::torch_zip;
namespace op = testing::op;

std::string file_error(const std::string& bytes) {
  const std::string error = error_of([&] { read_torch_file(bytes, "m.bin"); });
  EXPECT_TRUE(testing::is_printable(error)) << error;
  const std::string start = "bad format: m.bin: ";
  EXPECT_EQ(error.find(start), 0u) << error;
  return error.substr(std::min(start.size(), error.size()));
}

// Of a tensor "w", in both forms of the file; without the part that names it.
std::string tensor_error(TensorPickle tensor) {
  const std::string zipped = file_error(torch_zip(state_dict({{"w", tensor.bytes()}})));
  EXPECT_EQ(zipped.find("data.pkl: w: "), 0u) << zipped;
  tensor.after_location = "N";
  const std::string legacy = file_error(testing::torch_legacy(state_dict({{"w", tensor.bytes()}})));
  EXPECT_EQ("data.pkl: " + legacy, zipped);
  return legacy.substr(std::min<size_t>(3, legacy.size()));
}

std::vector<float> values_of(const std::string& bytes, const TensorPlace& place) {
  std::vector<float> values(static_cast<size_t>(place.shape.size()));
  copy_elements(bytes, place, 0,
                std::span(reinterpret_cast<char*>(values.data()), values.size() * sizeof(float)));
  return values;
}

TEST(TorchFile, ReadsViewsOfOneStorageInBothForms) {
  const std::vector<std::pair<std::string, TensorPickle>> tensors = {
      {"whole", {}},
      {"transposed", {.shape = op::tuple({3, 2}), .strides = op::tuple({1, 3})}},
      {"row", {.offset = op::integer(3), .shape = op::tuple({3}), .strides = op::tuple({1})}},
      {"column", {.offset = op::integer(2), .shape = op::tuple({2}), .strides = op::tuple({3})}},
      {"scalar", {.offset = op::integer(5), .shape = ")", .strides = ")"}},
      {"empty",
       {.offset = op::integer(6), .shape = op::tuple({0, 9}), .strides = op::tuple({9, 1})}},
      {"twice", {.shape = op::tuple({2, 3}), .strides = op::tuple({0, 2})}}};
  for (const bool zipped : {true, false}) {
    std::vector<std::pair<std::string, std::string>> items;
    for (auto [name, tensor] : tensors) {
      if (!zipped) tensor.after_location = "N";
      items.emplace_back(name, tensor.bytes());
    }
    const std::string pickle = state_dict(items);
    const std::string bytes = zipped ? torch_zip(pickle) : testing::torch_legacy(pickle);
    const std::vector<TensorPlace> places = read_torch_file(bytes, "m.bin");
    ASSERT_EQ(places.size(), tensors.size());
    std::vector<std::string> names;
    for (const TensorPlace& place : places) names.push_back(place.name);
    EXPECT_EQ(names, (std::vector<std::string>{"column", "empty", "row", "scalar", "transposed",
                                               "twice", "whole"}));
    using Floats = std::vector<float>;
    EXPECT_EQ(values_of(bytes, places[0]), (Floats{2, 5}));
    EXPECT_EQ(values_of(bytes, places[1]), Floats{});
    EXPECT_EQ(places[1].shape, (Shape{0, 9}));
    EXPECT_EQ(values_of(bytes, places[2]), (Floats{3, 4, 5}));
    EXPECT_EQ(values_of(bytes, places[3]), Floats{5});
    EXPECT_EQ(values_of(bytes, places[4]), (Floats{0, 3, 1, 4, 2, 5}));
    EXPECT_EQ(values_of(bytes, places[5]), (Floats{0, 2, 4, 0, 2, 4}));
    EXPECT_EQ(values_of(bytes, places[6]), (Floats{0, 1, 2, 3, 4, 5}));
  }
}

// Files from before version 0.4, and what Python 2 wrote.
TEST(TorchFile, ReadsTheOldestFunction) {
  const TensorPickle tensor;
  const std::string pickle = op::kProto + "}U\x01w" + "ctorch._utils\n_rebuild_tensor\n(" +
                             tensor.storage() + tensor.offset + tensor.shape + tensor.strides +
                             "tRs.";
  EXPECT_EQ(read_torch_file(torch_zip(pickle), "m.bin").size(), 1u);
}

TEST(TorchFileAttacks, ShapesAndStrides) {
  const std::string outside = "shape and strides lead out of storage 0, which has 6 elements";
  const auto with = [](const std::vector<int64_t>& shape, const std::vector<int64_t>& strides,
                       int64_t offset = 0) {
    return tensor_error(
        {.offset = op::integer(offset), .shape = op::tuple(shape), .strides = op::tuple(strides)});
  };
  EXPECT_EQ(with({2, 4}, {4, 1}), outside);
  EXPECT_EQ(with({2, 3}, {4, 1}), outside);
  EXPECT_EQ(with({6}, {1}, 1), outside);
  EXPECT_EQ(with({1}, {1}, 6), outside);
  EXPECT_EQ(with({}, {}, 6), outside);
  EXPECT_EQ(with({0}, {1}, 7), outside);
  EXPECT_EQ(with({2}, {6}), outside);
  EXPECT_EQ(with({1 << 30}, {0}), outside) << "a stride of 0 makes much of little";
  EXPECT_EQ(with({7}, {0}), outside);
  EXPECT_EQ(with({INT64_MAX}, {1}), outside);
  EXPECT_EQ(with({int64_t{1} << 32, int64_t{1} << 32}, {0, 0}), outside);
  EXPECT_EQ(with({int64_t{1} << 32, int64_t{1} << 32, 0}, {0, 0, 0}), outside);
  EXPECT_EQ(with({2, 2}, {INT64_MAX, 1}), outside);
  EXPECT_EQ(with({2, 2}, {INT64_MAX, INT64_MAX}), outside);
  EXPECT_EQ(with({3, 1}, {int64_t{1} << 62, 1}), outside) << "2 * 2^62 overflows";
  EXPECT_EQ(with({2}, {1}, INT64_MAX), outside);
  EXPECT_EQ(with({-1}, {1}), "shape: expected integers from 0 on, got -1");
  EXPECT_EQ(with({2, 3}, {-3, 1}), "strides: expected integers from 0 on, got -3");
  EXPECT_EQ(with({2, 3}, {3, 1}, -1), "offset: expected integers from 0 on, got -1");
  EXPECT_EQ(with({1, 1, 1, 1, 1}, {1, 1, 1, 1, 1}), "shape: 5 axes, at most 4 are supported");
  const std::string tuples = "shape: expected a tuple, and a tuple of as many strides";
  EXPECT_EQ(with({2, 3}, {3}), tuples);
  EXPECT_EQ(tensor_error({.shape = op::integer(6)}), tuples);
  EXPECT_EQ(tensor_error({.shape = op::text("23")}), tuples);
  EXPECT_EQ(tensor_error({.shape = "(G" + std::string(8, '\0') + "K\x03t"}),
            "shape: expected integers from 0 on, got a number");
  EXPECT_EQ(tensor_error({.shape = "(\x88K\x03t"}), "shape: expected integers from 0 on, got True");
}

TEST(TorchFileAttacks, StoragesThatLie) {
  const auto with_storage = [](const std::string& storage) {
    const std::string tensor = concat(op::kRebuild, "(", storage, op::integer(0), op::tuple({2, 3}),
                                      op::tuple({3, 1}), "\x89", op::kOrderedDict, "tR");
    return file_error(torch_zip(state_dict({{"w", tensor}})));
  };
  const std::string start = "data.pkl: w: ";
  EXPECT_EQ(with_storage(op::text("0") + "Q"),
            start + "expected a storage as a tuple of 5 or 6 items, got '0'");
  EXPECT_EQ(with_storage("cos\nsystem\nQ").find("data.pkl: pickle, at byte "), 0u);
  EXPECT_EQ(with_storage(")Q"),
            start + "expected a storage as a tuple of 5 or 6 items, got a tuple");
  EXPECT_EQ(with_storage("N"), start + "expected a storage, got None");
  EXPECT_EQ(with_storage("(" + op::text("module") + "ctorch\nFloatStorage\n" + op::text("0") +
                         op::text("cpu") + "K\x06tQ"),
            start + "expected a storage, got an object marked 'module'");
  EXPECT_EQ(with_storage("(" + op::text("storage") + op::text("FloatStorage") + op::text("0") +
                         op::text("cpu") + "K\x06tQ"),
            start + "expected the type of a storage, got 'FloatStorage'");
  EXPECT_EQ(with_storage("(" + op::text("storage") + "ccollections\nOrderedDict\n" + op::text("0") +
                         op::text("cpu") + "K\x06tQ"),
            start + "expected the type of a storage, got the global collections.OrderedDict");
  EXPECT_EQ(with_storage("(" + op::text("storage") + "ctorch\nFloatStorage\nK" +
                         std::string(1, '\0') + op::text("cpu") + "K\x06tQ"),
            start + "expected the key of a storage, got 0");
  TensorPickle view;
  view.after_location = "(" + op::text("1") + "K\x01K\x01t";
  EXPECT_EQ(file_error(torch_zip(state_dict({{"w", view.bytes()}}))),
            start + "a storage that is a view of another is not supported");
  EXPECT_EQ(tensor_error({.elements = -6}),
            "number of elements: expected integers from 0 on, got -6");
  EXPECT_EQ(tensor_error({.elements = INT64_MAX}),
            "number of elements: 9223372036854775807 are more than 64 bits can count");
  EXPECT_EQ(tensor_error(
                {.rest = std::string("\x89") + op::kOrderedDict + "}" + op::text("neg") + "\x88s"}),
            "the tensor's metadata is not empty, and might change its values");
  EXPECT_EQ(tensor_error({.rest = "\x89"}), "torch._utils._rebuild_tensor_v2: 5 arguments");
}

TEST(TorchFileAttacks, StoragesAndTheArchive) {
  const auto with = [](const TensorPickle& tensor, const std::vector<std::string>& storages) {
    return file_error(torch_zip(state_dict({{"w", tensor.bytes()}}), storages));
  };
  EXPECT_EQ(with({.key = "1"}, {floats(6)}), "no entry data/1, which a tensor is a view of");
  EXPECT_EQ(with({.key = "../data.pkl"}, {floats(6)}),
            "no entry data/../data.pkl, which a tensor is a view of");
  EXPECT_EQ(with({}, {floats(5)}), "data/0: 20 bytes, F32 [6] needs 24");
  EXPECT_EQ(with({}, {floats(7)}), "data/0: 28 bytes, F32 [6] needs 24");
  EXPECT_EQ(with({.type = "HalfStorage"}, {floats(6)}), "data/0: 24 bytes, F16 [6] needs 12");
  EXPECT_EQ(with({.elements = int64_t{1} << 59}, {floats(6)}),
            "data/0: 24 bytes, F32 [576460752303423488] needs 2305843009213693952");
  // One storage cannot be of two types or sizes.
  const TensorPickle one;
  EXPECT_EQ(file_error(torch_zip(state_dict(
                {{"a", one.bytes()}, {"b", TensorPickle{.type = "IntStorage"}.bytes()}}))),
            "data.pkl: b: storage 0 is I32 [6] here, F32 [6] elsewhere");
  EXPECT_EQ(file_error(torch_zip(
                state_dict({{"a", one.bytes()}, {"b", TensorPickle{.elements = 7}.bytes()}}))),
            "data.pkl: b: storage 0 is F32 [7] here, F32 [6] elsewhere");
}

TEST(TorchFileAttacks, TheDict) {
  const std::string tensor = TensorPickle{}.bytes();
  EXPECT_EQ(file_error(torch_zip(state_dict({{"a", tensor}, {"b", tensor}, {"a", tensor}}))),
            "data.pkl: a: two tensors of this name");
  EXPECT_EQ(file_error(torch_zip(state_dict({{"model", op::kOrderedDict}}))),
            "data.pkl: model: expected a tensor, got a dict");
  EXPECT_EQ(file_error(torch_zip(state_dict({{"step", op::integer(3)}}))),
            "data.pkl: step: expected a tensor, got 3");
  EXPECT_EQ(file_error(torch_zip(state_dict({{"w\xff", tensor}}))),
            "data.pkl: 'w\xef\xbf\xbd' cannot be the name of a tensor");
  EXPECT_EQ(file_error(torch_zip(state_dict({{"__metadata__", tensor}}))),
            "data.pkl: '__metadata__' cannot be the name of a tensor");
  EXPECT_EQ(file_error(torch_zip(op::kProto + "}" + op::integer(1) + tensor + "s.")),
            "data.pkl: expected the name of a tensor, got 1");
  EXPECT_EQ(file_error(torch_zip(op::kProto + "].")),
            "data.pkl: expected a dict of tensors, got a list");
  EXPECT_EQ(file_error(torch_zip(op::kProto + tensor + ".")),
            "data.pkl: expected a dict of tensors, got a call of "
            "torch._utils._rebuild_tensor_v2");
  EXPECT_EQ(file_error(torch_zip(state_dict({{"w", tensor}}) + "x")),
            "data.pkl: 1 bytes after its end");
  std::vector<std::pair<std::string, std::string>> many;
  for (int i = 0; i < 65; ++i) many.emplace_back(concat("w", i), tensor);
  EXPECT_EQ(file_error(torch_zip(state_dict(many))),
            "data.pkl: the tensors share their storages more than 64 times");
  many.pop_back();
  EXPECT_EQ(read_torch_file(torch_zip(state_dict(many)), "m.bin").size(), 64u);
}

TEST(TorchFileAttacks, TheArchive) {
  EXPECT_EQ(file_error("GIF89a"),
            "not a file of torch.save, or a damaged one, to be made or copied again");
  EXPECT_EQ(file_error(""),
            "not a file of torch.save, or a damaged one, to be made or copied again");
  const std::string pickle = state_dict({});
  EXPECT_EQ(file_error(testing::zip_of({{.name = "m/other", .data = "x"}})),
            "a zip archive without data.pkl: not written by torch.save");
  EXPECT_EQ(file_error(testing::zip_of({{.name = "m/sub/data.pkl", .data = pickle}})),
            "a zip archive without data.pkl: not written by torch.save");
  EXPECT_EQ(file_error(testing::zip_of(
                {{.name = "a/data.pkl", .data = pickle}, {.name = "b/data.pkl", .data = pickle}})),
            "two entries data.pkl");
  EXPECT_EQ(file_error(testing::zip_of(
                {{.name = "m/data.pkl", .data = pickle}, {.name = "m/byteorder", .data = "big"}})),
            "byteorder: only little-endian files are read");
  EXPECT_EQ(read_torch_file(torch_zip(pickle), "m.bin").size(), 0u);
}

TEST(TorchFileAttacks, TheOlderForm) {
  TensorPickle tensor;
  tensor.after_location = "N";
  const std::string pickle = state_dict({{"w", tensor.bytes()}});
  const auto with = [&](const std::string& after) {
    return file_error(testing::legacy_start() + pickle + after);
  };
  const std::string data = little(int64_t{6}) + floats(6);
  ASSERT_EQ(read_torch_file(testing::torch_legacy(pickle), "m.bin").size(), 1u);
  EXPECT_EQ(with(testing::legacy_keys({})), "storage 0: missing, though a tensor is a view of it");
  EXPECT_EQ(with(testing::legacy_keys({"1"}) + data), "storage 1: no tensor is a view of it");
  EXPECT_EQ(with(testing::legacy_keys({"0", "0"}) + data + data), "storage 0: comes twice");
  EXPECT_EQ(with(testing::legacy_keys({"0"}) + little(int64_t{5}) + floats(6)),
            "storage 0: 5 elements, the tensors expect 6");
  EXPECT_EQ(with(testing::legacy_keys({"0"}) + little(int64_t{7}) + floats(6)),
            "storage 0: 7 elements, the tensors expect 6");
  EXPECT_EQ(with(testing::legacy_keys({"0"}) + little(int64_t{-1}) + floats(6)),
            "storage 0: -1 elements, the tensors expect 6");
  EXPECT_TRUE(with(testing::legacy_keys({"0"}) + little(int64_t{6}) + floats(5))
                  .starts_with("storage 0: truncated: 24 bytes expected at offset "));
  EXPECT_EQ(with(testing::legacy_keys({"0"}) + data + "x"), "1 bytes after the last storage");
  EXPECT_EQ(with(op::kProto + "N."), "keys of the storages: expected a list, got None");
  EXPECT_EQ(with(op::kProto + "](NNe."), "keys of the storages: expected a text, got None");
  EXPECT_EQ(file_error(testing::legacy_start(false) + pickle),
            "little_endian: only little-endian files are read");
  std::string protocol = testing::torch_legacy(pickle);
  protocol[protocol.find("J") + 1] ^= 1;
  EXPECT_EQ(file_error(protocol), "protocol: expected 1001, got 1000");
  const std::string whole = testing::torch_legacy(pickle);
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_FALSE(file_error(whole.substr(0, size)).empty());
  }
}

// Every byte of a file, changed to several values, is read or refused with one error.
TEST(TorchFileAttacks, AnyChangedByteIsReadOrOneError) {
  TensorPickle old;
  old.after_location = "N";
  const std::string files[] = {torch_zip(state_dict({{"w", TensorPickle{}.bytes()}})),
                               testing::torch_legacy(state_dict({{"w", old.bytes()}}))};
  for (const std::string& valid : files) {
    int refused = 0;
    for (size_t i = 0; i < valid.size(); ++i) {
      for (const int change : {1, 2, 4, 8, 16, 32, 64, 128, 255}) {
        std::string changed = valid;
        changed[i] = static_cast<char>(changed[i] ^ change);
        try {
          for (const TensorPlace& place : read_torch_file(changed, "m.bin")) {
            EXPECT_LE(place.bytes(), std::ssize(changed));
          }
        } catch (const Error& error) {
          EXPECT_EQ(error.code(), ErrorCode::bad_format) << error.what();
          EXPECT_EQ(std::string(error.what()).find("m.bin: "), 0u) << error.what();
          ++refused;
        }
      }
    }
    EXPECT_GT(refused, std::ssize(valid) * 3);
  }
}

TEST(TorchFile, VerifyComparesTheArchivesChecksums) {
  const testing::TempFolder folder;
  const std::string path = folder / "m.bin";
  const std::string valid = torch_zip(state_dict({{"w", TensorPickle{}.bytes()}}));
  write_file_atomically(path, valid);
  EXPECT_NO_THROW(foreign::verify_torch_file(path));
  std::string changed = valid;
  changed[changed.find(floats(6)) + 5] ^= 4;
  write_file_atomically(path, changed);
  EXPECT_EQ(error_of([&] { foreign::verify_torch_file(path); }),
            "bad format: " + path +
                ": m/data/0: damaged, or written without checksums: it does not match its CRC-32");
}

}  // namespace
}  // namespace tril::torch_file_test
