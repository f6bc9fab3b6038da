#include "tril/io/safetensors.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstring>

#include "io_support.h"
#include "support/testing.h"
#include "tril/io/atomic_file.h"

namespace tril::safetensors_test {
namespace {

using testing::error_of;
using testing::raised_by;
using testing::random_tensor;
using testing::TempFolder;
using Names = std::set<std::string>;

std::string file_of(std::string_view header, std::string_view data = "") {
  const uint64_t length = header.size();
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &length, 8);
  return bytes.append(header).append(data);
}

// The header of one tensor "w".
std::string one(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return concat("{\"w\":{\"dtype\":", dtype, ",\"shape\":", shape, ",\"data_offsets\":", offsets,
                "}}");
}

std::string parse_error(const std::string& bytes) {
  Arena arena;
  const std::string error = error_of([&] { parse_safetensors(bytes, "m.st", arena); });
  EXPECT_EQ(arena.peak_bytes(), 0) << "memory was taken before all was checked";
  EXPECT_TRUE(testing::is_printable(error)) << error;
  // From a file the same.
  const TempFolder folder;
  write_file_atomically(folder / "m.st", bytes);
  std::string from_file = error_of([&] { load_safetensors(folder / "m.st", arena); });
  const size_t at = from_file.find(folder / "");
  if (at != std::string::npos) from_file.erase(at, (folder / "").size());
  EXPECT_EQ(from_file, error);
  return error;
}

std::string header_error(std::string_view header, std::string_view data = "") {
  return parse_error(file_of(header, data));
}

template <class T>
Tensor make(Arena& arena, const Shape& shape, std::initializer_list<T> values) {
  Tensor tensor(arena, shape, dtype_of<T>());
  EXPECT_EQ(static_cast<size_t>(tensor.size()), values.size());
  std::copy(values.begin(), values.end(), tensor.data<T>());
  return tensor;
}

bool same_bits(const Tensor& a, const Tensor& b) {
  const auto bytes = static_cast<size_t>(a.size() * size_of(a.dtype()));
  return a.dtype() == b.dtype() && a.shape() == b.shape() &&
         (bytes == 0 || std::memcmp(a.raw(), b.raw(), bytes) == 0);
}

std::vector<NamedTensor> every_type(Arena& arena) {
  return {{"z", make<float>(arena, {2, 3}, {1, -0.0f, 3.5f, 1e-40f, 5, std::nanf("")})},
          {"scalar", make<double>(arena, {}, {0.1})},
          {"empty", make<float>(arena, {0, 7}, {})},
          {"half", make<BFloat16>(arena, {1, 3}, {to_bf16(1.0f), {0x7fc1}, {0x8000}})},
          {"bytes", make<int8_t>(arena, {1, 1, 1, 3}, {-128, 0, 127})},
          {"ids", make<int32_t>(arena, {1, 2, 1}, {INT32_MIN, INT32_MAX})}};
}

TEST(Safetensors, EveryTypeComesBackInBits) {
  const TempFolder folder;
  Arena arena;
  const auto saved = every_type(arena);
  const SafetensorsMetadata metadata = {{"step", "7"}, {"é\n\"", ""}};
  save_safetensors(folder / "m.st", saved, metadata);
  SafetensorsInfo info{.metadata = {{"stale", "x"}}};
  const auto loaded = load_safetensors(folder / "m.st", arena, &info);
  EXPECT_EQ(info.metadata, metadata);
  ASSERT_EQ(loaded.size(), saved.size());
  const std::vector<std::string> names = {"bytes", "empty", "half", "ids", "scalar", "z"};
  for (size_t i = 0; i < loaded.size(); ++i) {
    EXPECT_EQ(loaded[i].name, names[i]);
    const auto at = std::find_if(saved.begin(), saved.end(),
                                 [&](const auto& entry) { return entry.name == names[i]; });
    EXPECT_TRUE(same_bits(loaded[i].tensor, at->tensor)) << names[i];
  }
  const auto parsed = parse_safetensors(read_file(folder / "m.st", 1 << 20), "m.st", arena);
  ASSERT_EQ(parsed.size(), loaded.size());
  for (size_t i = 0; i < parsed.size(); ++i) {
    EXPECT_TRUE(same_bits(parsed[i].tensor, loaded[i].tensor));
  }
}

// As the header of io/safetensors_header.h says, put together by hand.
TEST(Safetensors, TheBytesAreThese) {
  const TempFolder folder;
  Arena arena;
  const std::vector<NamedTensor> tensors = {{"b", make<int8_t>(arena, {2}, {1, 2})},
                                            {"c", make<int32_t>(arena, {1, 1}, {3})},
                                            {"a", make<int8_t>(arena, {}, {4})}};
  const std::string seal = save_safetensors(folder / "m.st", tensors, {{"k", "v"}});
  const std::string_view data("\3\0\0\0\4\1\2", 7);
  const auto digits = [&](size_t at, size_t bytes) {
    return to_string(checksum_of(data.substr(at, bytes)));
  };
  const auto header_with = [&](const std::string& sealed) {
    std::string header = concat(R"({"__metadata__":{"k":"v","tril_checksums":")", digits(4, 1),
                                digits(5, 2), digits(0, 4), R"(","tril_seal":")", sealed,
                                R"("},"a":{"dtype":"I8","shape":[],"data_offsets":[4,5]},)"
                                R"("b":{"dtype":"I8","shape":[2],"data_offsets":[5,7]},)"
                                R"("c":{"dtype":"I32","shape":[1,1],"data_offsets":[0,4]}})");
    header.resize((8 + header.size() + 63) / 64 * 64 - 8, ' ');
    return header;
  };
  EXPECT_EQ(seal, to_string(checksum_of(file_of(header_with(std::string(32, '0'))))));
  EXPECT_EQ(read_file(folder / "m.st", 1 << 20), file_of(header_with(seal), data));
  EXPECT_EQ(read_safetensors_info(folder / "m.st").seal, seal);
}

TEST(Safetensors, TheOrderGivenDoesNotMatter) {
  const TempFolder folder;
  Arena arena;
  auto tensors = every_type(arena);
  save_safetensors(folder / "one", tensors);
  std::reverse(tensors.begin(), tensors.end());
  save_safetensors(folder / "two", tensors);
  EXPECT_EQ(read_file(folder / "one", 1 << 20), read_file(folder / "two", 1 << 20));
}

TEST(Safetensors, NoTensorsIsAFileToo) {
  const TempFolder folder;
  Arena arena;
  save_safetensors(folder / "m.st", {});
  EXPECT_TRUE(load_safetensors(folder / "m.st", arena).empty());
  write_file_atomically(folder / "bare.st", file_of("{}"));
  EXPECT_TRUE(load_safetensors(folder / "bare.st", arena).empty());
}

// Mapped, a file has the tensors that reading it has, each where it can be used at once.
TEST(Safetensors, IsMappedAsItIsRead) {
  const TempFolder folder;
  Arena arena;
  Random random(1);
  const Tensor odd = random_tensor(arena, {3}, random);
  const Tensor line = random_tensor(arena, {2, 16}, random);
  Tensor bytes(arena, {5}, DType::i8);
  std::fill_n(bytes.data<int8_t>(), 5, int8_t{7});
  const std::vector<NamedTensor> tensors = {{"odd", odd}, {"line", line}, {"bytes", bytes}};
  save_safetensors(folder / "m.st", tensors, {{"k", "v"}});
  SafetensorsInfo info;
  auto mapping = std::make_unique<Arena>();
  const auto mapped = map_safetensors(folder / "m.st", *mapping, &info);
  EXPECT_EQ(info.metadata.at("k"), "v");
  ASSERT_EQ(mapped.size(), 3u);
  EXPECT_TRUE(same_bits(mapped[1].tensor, line));
  EXPECT_TRUE(same_bits(mapped[2].tensor, odd));
  EXPECT_EQ(mapped[0].tensor.data<int8_t>()[4], 7);
  // Data that fills whole lines begins at a multiple of 64 bytes.
  EXPECT_EQ(reinterpret_cast<uintptr_t>(mapped[1].tensor.raw()) % 64, 0u);
  // Replacing the file leaves the mapping alone; ending the arena outdates its tensors.
  save_safetensors(folder / "m.st", {});
  EXPECT_TRUE(same_bits(mapped[1].tensor, line));
  mapping.reset();
  EXPECT_NE(raised_by([&] { mapped[1].tensor.data(); }).text.find("stale"), std::string::npos);
}

TEST(Safetensors, WhatIsNotAlignedOrNoFileIsNotMapped) {
  const TempFolder folder;
  Arena arena;
  write_file_atomically(
      folder / "m.st",
      file_of(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", "abcd"));
  EXPECT_NE(raised_by([&] { map_safetensors(folder / "m.st", arena); }).text.find("not aligned"),
            std::string::npos);
  EXPECT_EQ(raised_by([&] { map_safetensors(folder / "none", arena); }).code, ErrorCode::io);
  EXPECT_EQ(raised_by([&] { map_safetensors(folder.path(), arena); }).code, ErrorCode::io);
  write_file_atomically(folder / "m.st", "");
  EXPECT_EQ(raised_by([&] { map_safetensors(folder / "m.st", arena); }).code,
            ErrorCode::bad_format);
}

TEST(Safetensors, ReadsWhatOthersWrite) {
  Arena arena;
  // Any order, any blanks, no padding, tensors without elements between others.
  const auto tensors =
      parse_safetensors(file_of(R"({ "b" : {"shape":[2],"data_offsets":[1,3],"dtype":"I8"},
                   "e" : {"dtype":"F64","shape":[3,0],"data_offsets":[1,1]},
                   "a" : {"dtype":"I8","shape":[1],"data_offsets":[0,1]} })",
                                "xyz"),
                        "m.st", arena);
  ASSERT_EQ(tensors.size(), 3u);
  EXPECT_EQ(tensors[0].tensor.data<int8_t>()[0], 'x');
  EXPECT_EQ(tensors[1].tensor.data<int8_t>()[0], 'y');
  EXPECT_EQ(tensors[1].tensor.data<int8_t>()[1], 'z');
  EXPECT_EQ(tensors[2].tensor.shape(), (Shape{3, 0}));
}

const std::string kForeign =
    "bad format: m.st: not a safetensors file, or a damaged one, to be made or copied again: ";

TEST(SafetensorsErrors, Truncated) {
  EXPECT_EQ(parse_error(""),
            "bad format: m.st: truncated: 0 bytes, the header's length alone has 8");
  EXPECT_EQ(parse_error("1234567"),
            "bad format: m.st: truncated: 7 bytes, the header's length alone has 8");
  EXPECT_EQ(parse_error(file_of("{}  ").substr(0, 11)),
            "bad format: m.st: truncated: a header of 4 bytes, but only 3 follow its length");
  EXPECT_EQ(header_error(one("\"I8\"", "[3]", "[0,3]"), "ab"),
            "bad format: m.st: w: data_offsets: [0, 3] go past the data, which has 2 bytes");
}

TEST(SafetensorsErrors, HeaderTooLarge) {
  const auto with_length = [](uint64_t length) {
    std::string bytes(8, '\0');
    std::memcpy(bytes.data(), &length, 8);
    return bytes + "{}";
  };
  EXPECT_EQ(
      parse_error(with_length(100'000'000)),
      "bad format: m.st: truncated: a header of 100000000 bytes, but only 2 follow its length");
  EXPECT_EQ(
      parse_error(with_length(100'000'001)),
      kForeign +
          "its first 8 bytes give a header of 100000001 bytes, at most 100000000 are allowed");
  EXPECT_EQ(parse_error(with_length(UINT64_MAX)),
            kForeign +
                "its first 8 bytes give a header of 18446744073709551615 bytes, at most 100000000 "
                "are allowed");
  EXPECT_EQ(parse_error(with_length(uint64_t{1} << 63)),
            kForeign +
                "its first 8 bytes give a header of 9223372036854775808 bytes, at most 100000000 "
                "are allowed");
}

// What is often found under this name instead: an error page, a pointer to the file, an archive.
TEST(SafetensorsErrors, SomethingElse) {
  for (const std::string bytes :
       {"<!DOCTYPE html><html>404 Not Found</html>", "version https://git-lfs.github.com/spec/v1",
        "PK\x03\x04 and whatever follows"}) {
    EXPECT_EQ(parse_error(bytes).find(kForeign), 0u) << parse_error(bytes);
  }
}

TEST(SafetensorsErrors, HeaderIsNoJsonObject) {
  for (const std::string header : {"", " {}", "[]", "null", "\xef\xbb\xbf{}"}) {
    EXPECT_EQ(header_error(header), kForeign + "the header does not begin with '{'");
  }
  for (const std::string header : {"{", "{]", "{} {}", "{\"a", "{\"\xff\":1}"}) {
    const std::string error = header_error(header);
    EXPECT_EQ(error.find("bad format: m.st: not JSON: parse error at line 1, column "), 0u)
        << error;
  }
  EXPECT_EQ(header_error(std::string_view("{}\0\0", 4)),
            "bad format: m.st: not JSON: a NUL byte at offset 2");
}

TEST(SafetensorsErrors, DeepHeader) {
  EXPECT_EQ(header_error("{\"w\":" + std::string(1'000'000, '[')),
            "bad format: m.st: w: objects and arrays lie inside each other deeper than the 3 "
            "levels allowed");
}

TEST(SafetensorsErrors, TooManyTensors) {
  std::string header = "{";
  for (int64_t i = 0; i <= kSafetensorsMaxNames; ++i) {
    header += concat(i == 0 ? "" : ",", "\"", i, "\":0");
  }
  EXPECT_EQ(header_error(header + "}"),
            "bad format: m.st: 100001 tensors, at most 100000 are allowed");
}

TEST(SafetensorsErrors, NamesTwice) {
  EXPECT_EQ(header_error(R"({"w":{"dtype":"I8","shape":[1],"data_offsets":[0,1]},)"
                         R"("w":{"dtype":"I8","shape":[1],"data_offsets":[1,2]}})",
                         "xy"),
            "bad format: m.st: w: this field stands twice");
  EXPECT_EQ(
      header_error(R"({"w":{"dtype":"I8","dtype":"I8","shape":[],"data_offsets":[0,1]}})", "x"),
      "bad format: m.st: w: dtype: this field stands twice");
}

TEST(SafetensorsErrors, Fields) {
  EXPECT_EQ(header_error(R"({"w":1})"), "bad format: m.st: w: expected an object, got 1");
  EXPECT_EQ(header_error(R"({"w":{"shape":[],"data_offsets":[0,1]}})", "x"),
            "bad format: m.st: w: dtype: missing, expected one of F32, F64, BF16, I8, I32");
  EXPECT_EQ(header_error(R"({"w":{"dtype":"I8","data_offsets":[0,1]}})", "x"),
            "bad format: m.st: w: shape: missing, expected an array of integers");
  EXPECT_EQ(header_error(R"({"w":{"dtype":"I8","shape":[]}})", "x"),
            "bad format: m.st: w: data_offsets: missing, expected an array of two integers");
  EXPECT_EQ(
      header_error(R"({"w":{"dtype":"I8","shape":[],"data_offsets":[0,1],"x\u0000":1}})", "x"),
      "bad format: m.st: w: x\\u0000: unknown field");
}

TEST(SafetensorsErrors, Dtype) {
  const std::string expected =
      "bad format: m.st: w: dtype: expected one of F32, F64, BF16, I8, I32, got ";
  EXPECT_EQ(header_error(one("\"F16\"", "[1]", "[0,2]"), "xy"), expected + "\"F16\"");
  EXPECT_EQ(header_error(one("\"f32\"", "[1]", "[0,4]"), "wxyz"), expected + "\"f32\"");
  EXPECT_EQ(header_error(one("\"\"", "[1]", "[0,4]"), "wxyz"), expected + "\"\"");
  EXPECT_EQ(header_error(one("4", "[1]", "[0,4]"), "wxyz"), expected + "4");
}

TEST(SafetensorsErrors, ShapeIsOfCounts) {
  const std::string expected =
      "bad format: m.st: w: shape: expected integers from 0 to 9223372036854775807, got ";
  for (const std::string extent :
       {"-1", "1.5", "1.0", "1e2", "9223372036854775808", "null", "\"1\"", "true"}) {
    EXPECT_EQ(header_error(one("\"I8\"", "[" + extent + "]", "[0,1]"), "x"), expected + extent);
  }
  EXPECT_EQ(
      header_error(one("\"I8\"", "[[1]]", "[0,1]"), "x"),
      "bad format: m.st: w: shape: objects and arrays lie inside each other deeper than the 3 "
      "levels allowed");
  EXPECT_EQ(header_error(one("\"I8\"", "1", "[0,1]"), "x"),
            "bad format: m.st: w: shape: expected an array of integers, got 1");
  EXPECT_EQ(header_error(one("\"I8\"", "[1,1,1,1,1]", "[0,1]"), "x"),
            "bad format: m.st: w: shape: 5 axes, at most 4 are supported");
}

TEST(SafetensorsErrors, ShapeDoesNotOverflow) {
  const std::string expected = "bad format: m.st: w: shape: more bytes than 64 bits can count";
  EXPECT_EQ(header_error(one("\"I8\"", "[4294967296,4294967296]", "[0,0]")), expected);
  EXPECT_EQ(header_error(one("\"I8\"", "[3037000500,3037000500]", "[0,0]")), expected);
  EXPECT_EQ(header_error(one("\"F32\"", "[2305843009213693952]", "[0,0]")), expected);
  EXPECT_EQ(header_error(one("\"I8\"", "[4294967296,4294967296,0]", "[0,0]")), expected);
  // Large, but countable: then the offsets are wrong, and no memory is allocated.
  EXPECT_EQ(header_error(one("\"F32\"", "[2305843009213693951]", "[0,0]")),
            "bad format: m.st: w: data_offsets: F32 [2305843009213693951] needs "
            "9223372036854775804 bytes, the offsets [0, 0] give 0");
  EXPECT_EQ(header_error(one("\"F32\"", "[2305843009213693951]", "[0,9223372036854775804]")),
            "bad format: m.st: w: data_offsets: [0, 9223372036854775804] go past the data, which "
            "has 0 bytes");
}

TEST(SafetensorsErrors, Offsets) {
  const std::string counts =
      "bad format: m.st: w: data_offsets: expected integers from 0 to 9223372036854775807, got ";
  EXPECT_EQ(header_error(one("\"I8\"", "[1]", "[-1,0]"), "x"), counts + "-1");
  EXPECT_EQ(header_error(one("\"I8\"", "[1]", "[0,1.5]"), "x"), counts + "1.5");
  EXPECT_EQ(header_error(one("\"I8\"", "[1]", "[18446744073709551615,0]"), "x"),
            counts + "18446744073709551615");
  EXPECT_EQ(header_error(one("\"I8\"", "[1]", "[0,1,2]"), "x"),
            "bad format: m.st: w: data_offsets: expected two integers, got 3");
  EXPECT_EQ(header_error(one("\"I8\"", "[1]", "[0]"), "x"),
            "bad format: m.st: w: data_offsets: expected two integers, got 1");
  EXPECT_EQ(header_error(one("\"I8\"", "[1]", "{}"), "x"),
            "bad format: m.st: w: data_offsets: expected an array of two integers, got an object");
  EXPECT_EQ(header_error(one("\"I8\"", "[1]", "[1,0]"), "x"),
            "bad format: m.st: w: data_offsets: [1, 0] go backwards");
  EXPECT_EQ(header_error(one("\"F32\"", "[2,3]", "[0,23]"), std::string(23, 'x')),
            "bad format: m.st: w: data_offsets: F32 [2, 3] needs 24 bytes, the offsets [0, 23] "
            "give 23");
}

TEST(SafetensorsErrors, EveryByteBelongsToOneTensor) {
  const auto two = [](const std::string& a, const std::string& b) {
    return concat(R"({"a":{"dtype":"I8","shape":[2],"data_offsets":)", a,
                  R"(},"b":{"dtype":"I8","shape":[2],"data_offsets":)", b, "}}");
  };
  EXPECT_EQ(header_error(two("[0,2]", "[1,3]"), "xyz"),
            "bad format: m.st: b: data_offsets: [1, 3] overlap those of a, which end at 2");
  EXPECT_EQ(header_error(two("[0,2]", "[0,2]"), "xy"),
            "bad format: m.st: b: data_offsets: [0, 2] overlap those of a, which end at 2");
  EXPECT_EQ(header_error(two("[0,2]", "[3,5]"), "vwxyz"),
            "bad format: m.st: b: data_offsets: [3, 5] leave a hole: bytes from 2 to 3 belong to "
            "no tensor");
  EXPECT_EQ(header_error(two("[3,5]", "[1,3]"), "vwxyz"),
            "bad format: m.st: b: data_offsets: [1, 3] leave a hole: bytes from 0 to 1 belong to "
            "no tensor");
  EXPECT_EQ(header_error(two("[2,4]", "[0,2]"), "vwxyz"),
            "bad format: m.st: the last 1 of 5 bytes of data belong to no tensor");
  EXPECT_EQ(header_error("{}", "x"),
            "bad format: m.st: the last 1 of 1 bytes of data belong to no tensor");
  // A tensor without elements has its place too.
  EXPECT_EQ(header_error(R"({"a":{"dtype":"I8","shape":[2],"data_offsets":[0,2]},)"
                         R"("e":{"dtype":"I8","shape":[0],"data_offsets":[1,1]}})",
                         "xy"),
            "bad format: m.st: e: data_offsets: [1, 1] overlap those of a, which end at 2");
}

TEST(SafetensorsErrors, Metadata) {
  EXPECT_EQ(header_error(R"({"__metadata__":[]})"),
            "bad format: m.st: __metadata__: expected an object of strings, got an array");
  EXPECT_EQ(header_error(R"({"__metadata__":{"step":7}})"),
            "bad format: m.st: __metadata__: step: expected a string, got 7");
}

TEST(SafetensorsErrors, Files) {
  const TempFolder folder;
  Arena arena;
  EXPECT_EQ(error_of([&] { load_safetensors(folder / "none", arena); }),
            "input/output: " + (folder / "none") + ": cannot open: No such file or directory");
  EXPECT_EQ(error_of([&] { load_safetensors(folder / "", arena); }),
            "input/output: " + (folder / "") + ": cannot be read: it is no regular file");
  EXPECT_EQ(error_of([&] { load_safetensors("/dev/zero", arena); }),
            "input/output: /dev/zero: cannot be read: it is no regular file");
}

TEST(SafetensorsSave, RefusesWhatCannotBeReadBack) {
  const TempFolder folder;
  Arena arena;
  const std::string path = folder / "m.st";
  const Tensor tensor = make<int8_t>(arena, {1}, {1});
  const auto save_error = [&](std::vector<NamedTensor> tensors,
                              const SafetensorsMetadata& metadata = {}) {
    return error_of([&] { save_safetensors(path, tensors, metadata); });
  };
  const std::string start = "invalid argument: " + path + ": ";
  EXPECT_EQ(save_error({{"w", tensor}, {"v", tensor}, {"w", tensor}}),
            start + "w: two tensors of this name");
  EXPECT_EQ(save_error({{"__metadata__", tensor}}),
            start + "a tensor may not be called __metadata__");
  EXPECT_EQ(save_error({{"w", Tensor()}}), start + "w: the tensor is undefined");
  EXPECT_NE(save_error({{"w\xff", tensor}}).find("is not UTF-8"), std::string::npos);
  EXPECT_NE(save_error({}, {{"k", "\xff"}}).find("is not UTF-8"), std::string::npos);
  Arena other;
  const Tensor stale = make<float>(other, {1}, {1});
  other.reset();
  EXPECT_NE(save_error({{"w", stale}}).find("stale"), std::string::npos);
  EXPECT_TRUE(folder.names().empty());
}

TEST(SafetensorsSave, AFullDiskLeavesTheOldFileWhole) {
  const TempFolder folder;
  Arena arena;
  const std::string path = folder / "m.st";
  save_safetensors(path, std::vector<NamedTensor>{{"w", make<int8_t>(arena, {1}, {7})}});
  const Tensor large(arena, Shape{100000}, DType::i8);
  std::memset(large.raw(), 1, 100000);

  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit old;
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &old), 0);
  const rlimit limit{65536, old.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
  const std::string error = error_of([&] {
    save_safetensors(path, std::vector<NamedTensor>{{"w", large}});
  });
  ::setrlimit(RLIMIT_FSIZE, &old);
  std::signal(SIGXFSZ, handler);

  EXPECT_EQ(error, "input/output: " + path + ": cannot write: File too large");
  EXPECT_EQ(folder.names(), Names{"m.st"});
  const auto loaded = load_safetensors(path, arena);
  ASSERT_EQ(loaded.size(), 1u);
  EXPECT_EQ(loaded[0].tensor.data<int8_t>()[0], 7);
}

// Whether `bytes` are read; anything but a good Error fails the test.
bool reads(const std::string& bytes, Arena& arena) {
  arena.reset();
  try {
    parse_safetensors(bytes, "m.st", arena);
    return true;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::bad_format) << error.what();
    EXPECT_EQ(std::string(error.what()).find("m.st: "), 0u) << error.what();
    EXPECT_TRUE(testing::is_printable(error.what())) << error.what();
    return false;
  }
}

// A sealed file is read as it was written or not at all, whichever byte is changed to whatever
// value: including the seal's own digits, blanks and the length.
TEST(SafetensorsErrors, EveryTruncationAndEveryChangedByteIsFound) {
  const TempFolder folder;
  Arena arena;
  const std::vector<NamedTensor> tensors = {{"é", make<float>(arena, {1, 2}, {1, 2})},
                                            {"e", make<double>(arena, {0}, {})},
                                            {"b", make<int8_t>(arena, {}, {4})}};
  save_safetensors(folder / "m.st", tensors, {{"k", "v"}});
  const std::string valid = read_file(folder / "m.st", 1 << 20);
  Arena scratch;
  ASSERT_TRUE(reads(valid, scratch));
  for (size_t size = 0; size < valid.size(); ++size) {
    EXPECT_FALSE(reads(valid.substr(0, size), scratch)) << size;
  }
  EXPECT_FALSE(reads(valid + "x", scratch));
  for (size_t i = 0; i < valid.size(); ++i) {
    for (int byte = 0; byte < 256; ++byte) {
      std::string changed = valid;
      changed[i] = static_cast<char>(byte);
      EXPECT_EQ(reads(changed, scratch), changed == valid) << "byte " << i << " as " << byte;
    }
  }
}

// Without a seal every changed byte is read, or is one error.
TEST(SafetensorsErrors, AnyChangedByteOfAnUnsealedFileIsReadOrOneError) {
  const std::string valid =
      file_of(R"({"__metadata__":{"k":"v"},"b":{"dtype":"I8","shape":[],"data_offsets":[8,9]},)"
              R"("e":{"dtype":"F64","shape":[0],"data_offsets":[0,0]},)"
              R"("é":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]}})",
              "12345678b");
  Arena scratch;
  ASSERT_TRUE(reads(valid, scratch));
  int refused = 0;
  for (size_t i = 0; i < valid.size(); ++i) {
    for (int byte = 0; byte < 256; ++byte) {
      std::string changed = valid;
      changed[i] = static_cast<char>(byte);
      const bool read = reads(changed, scratch);
      if (i < 8) {
        EXPECT_EQ(read, changed == valid) << "the length's byte " << i;
      }
      if (i >= valid.size() - 9) {
        EXPECT_TRUE(read) << "data";
      }
      refused += read ? 0 : 1;
    }
  }
  EXPECT_GT(refused, 255 * 20);
}

// Large enough for several blocks and several threads; each way of reading finds a change in any.
TEST(SafetensorsErrors, DamageIsNamedByTensorInEveryWayOfReading) {
  const TempFolder folder;
  Arena arena;
  const std::string path = folder / "m.st";
  Random random(3);
  const std::vector<NamedTensor> tensors = {{"large", random_tensor(arena, {1300, 1024}, random)},
                                            {"small", random_tensor(arena, {64}, random)}};
  save_safetensors(path, tensors);
  const std::string valid = read_file(path, 1 << 24);
  const std::string damaged =
      "bad format: " + path + ": damaged, or changed since it was sealed: tensor '";
  const int64_t data_begin = std::ssize(valid) - (1300 * 1024 + 64) * 4;
  for (const auto& [at, name] : {std::pair{data_begin, "large"},
                                 {data_begin + (int64_t{3} << 20) + 5, "large"},
                                 {data_begin + 1300 * 1024 * 4 - 1, "large"},
                                 {std::ssize(valid) - 1, "small"}}) {
    std::string changed = valid;
    changed[static_cast<size_t>(at)] ^= 4;
    write_file_atomically(path, changed);
    const std::string expected = damaged + name + "' does not match its checksum";
    Arena scratch;
    EXPECT_EQ(error_of([&] { load_safetensors(path, scratch); }), expected);
    EXPECT_EQ(error_of([&] { map_safetensors(path, scratch); }), expected);
    EXPECT_EQ(error_of([&] { verify_safetensors(path); }), expected);
    EXPECT_NO_THROW(map_safetensors(path, scratch, nullptr, MapVerify::trust));
    EXPECT_NO_THROW(read_safetensors_info(path));
  }
}

RC_GTEST_PROP(Safetensors, WhatIsSavedIsLoaded, ()) {
  static const TempFolder folder;
  Arena arena;
  std::vector<NamedTensor> tensors;
  const auto names = *rc::gen::container<std::set<std::string>>(rc::gen::string<std::string>());
  for (std::string name : names) {
    for (char& c : name) c = static_cast<char>(c & 0x7f);
    if (std::any_of(tensors.begin(), tensors.end(),
                    [&](const auto& entry) { return entry.name == name; })) {
      continue;
    }
    const auto extent = [] { return *rc::gen::inRange<int64_t>(0, 4); };
    const Shape shapes[] = {Shape{}, Shape{extent()}, Shape{extent(), extent()},
                            Shape{extent(), extent(), extent(), extent()}};
    const DType types[] = {DType::f32, DType::f64, DType::bf16, DType::i8, DType::i32};
    Tensor tensor(arena, shapes[*rc::gen::inRange(0, 4)], types[*rc::gen::inRange(0, 5)]);
    const int64_t bytes = tensor.size() * size_of(tensor.dtype());
    const auto seed = *rc::gen::arbitrary<uint8_t>();
    for (int64_t i = 0; i < bytes; ++i) {
      static_cast<unsigned char*>(tensor.raw())[i] = static_cast<unsigned char>(i * 37 + seed);
    }
    tensors.push_back({name, tensor});
  }
  save_safetensors(folder / "m.st", tensors);
  const auto loaded = load_safetensors(folder / "m.st", arena);
  std::sort(tensors.begin(), tensors.end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
  RC_ASSERT(loaded.size() == tensors.size());
  for (size_t i = 0; i < loaded.size(); ++i) {
    RC_ASSERT(loaded[i].name == tensors[i].name);
    RC_ASSERT(same_bits(loaded[i].tensor, tensors[i].tensor));
  }
}

}  // namespace
}  // namespace tril::safetensors_test
