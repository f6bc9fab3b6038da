// Hostile pickles: each is refused with one error that names what it tried.
#include "tril/io/foreign/pickle.h"

#include <gtest/gtest.h>

#include <array>

#include "io_support.h"
#include "torch_support.h"
#include "tril/io/foreign/bytes_reader.h"
#include "tril/io/foreign/torch_file.h"

namespace tril::pickle_test {
namespace {

using foreign::BytesReader;
using foreign::Pickle;
using foreign::PickleValue;
using testing::error_of;
using testing::little;
using testing::state_dict;
using testing::TensorPickle;
using testing::torch_legacy;
using testing::torch_zip;
using Kind = PickleValue::Kind;
namespace op = testing::op;

constexpr std::array<std::string_view, 2> kAllowed = {"collections.OrderedDict", "good.function"};

// Of a pickle by itself, after its protocol. Each error is fit for a terminal.
std::string pickle_error(const std::string& opcodes) {
  const std::string bytes = op::kProto + opcodes;
  const std::string error = error_of([&] {
    BytesReader reader(bytes, "m.bin");
    const Pickle pickle(reader, kAllowed);
  });
  EXPECT_TRUE(testing::is_printable(error)) << error;
  return error;
}

std::string at(int64_t byte, const std::string& what) {
  return concat("bad format: m.bin: pickle, at byte ", byte, ": ", what);
}

TEST(Pickle, ReadsPlainValues) {
  const std::string bytes = concat(
      "\x80\x04\x95", little(uint64_t{70}), "(", op::integer(7), op::integer(300), op::integer(-5),
      op::integer(int64_t{1} << 40), "\x8a", '\0', "\x8a\x01\xff", "\x88", "\x89", "N", "G\x3f\xf8",
      std::string(6, '\0'), "\x8c\x02hi", "\x94", "U\x01z", "h", '\0', ")", "](", op::integer(1),
      op::integer(2), "e", "}", op::text("k"), op::integer(3), "s", "t.rest");
  BytesReader reader(bytes, "m.bin");
  const Pickle pickle(reader, {});
  EXPECT_EQ(reader.left(), 4);
  const PickleValue& root = pickle.root();
  ASSERT_EQ(root.kind, Kind::tuple);
  ASSERT_EQ(root.items.size(), 16u);
  const int64_t integers[] = {7, 300, -5, int64_t{1} << 40, 0, -1};
  for (size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(pickle.item(root, i).kind, Kind::integer);
    EXPECT_EQ(pickle.item(root, i).integer, integers[i]);
  }
  EXPECT_EQ(pickle.item(root, 6).integer, 1);
  EXPECT_EQ(pickle.item(root, 7).kind, Kind::boolean);
  EXPECT_EQ(pickle.item(root, 8).kind, Kind::none);
  EXPECT_EQ(pickle.item(root, 9).number, 1.5);
  EXPECT_EQ(pickle.item(root, 10).text, "hi");
  EXPECT_EQ(pickle.item(root, 11).text, "z");
  EXPECT_EQ(root.items[12], root.items[10]) << "the memo refers to the same value";
  EXPECT_EQ(pickle.item(root, 13).items.size(), 0u);
  EXPECT_EQ(pickle.item(root, 14).items.size(), 2u);
  EXPECT_EQ(pickle.item(pickle.item(root, 15), 1).integer, 3);
}

TEST(Pickle, ACallIsAValueAndNothingIsCalled) {
  const std::string bytes = op::kProto + "cgood\nfunction\n" + op::integer(1) + "\x85R.";
  BytesReader reader(bytes, "m.bin");
  const Pickle pickle(reader, kAllowed);
  EXPECT_EQ(describe(pickle, pickle.root()), "a call of good.function");
  EXPECT_EQ(pickle.item(pickle.item(pickle.root(), 1), 0).integer, 1);
}

// Python 2 wrote ordered dicts as lists of pairs.
TEST(Pickle, AnOrderedDictMayComeAsPairs) {
  const std::string bytes = op::kProto + "ccollections\nOrderedDict\n](](U\x01" + "aK\x01" + "e" +
                            "U\x01" + "bK\x02\x86" + "e\x85R.";
  BytesReader reader(bytes, "m.bin");
  const Pickle pickle(reader, kAllowed);
  ASSERT_EQ(pickle.root().kind, Kind::dict);
  ASSERT_EQ(pickle.root().items.size(), 4u);
  EXPECT_EQ(pickle.item(pickle.root(), 2).text, "b");
  EXPECT_EQ(pickle.item(pickle.root(), 3).integer, 2);
}

// What runs code in Python, in a whole file of each form.
TEST(PickleAttacks, CodeIsRefusedByName) {
  struct Attack {
    std::string opcodes;
    std::string error;  // after "pickle, at byte N: "
  };
  const std::string never = " is not allowed: the file asks to run code, which is never done";
  const std::string command = op::text("touch /tmp/owned");
  const std::vector<Attack> attacks = {
      {"cos\nsystem\n(" + command + "tR.", "the global os.system" + never},
      {"cposix\nsystem\n" + command + "\x85R.", "the global posix.system" + never},
      {"cbuiltins\neval\n" + op::text("1") + "\x85R.", "the global builtins.eval" + never},
      {"cbuiltins\ngetattr\n.", "the global builtins.getattr" + never},
      {"c__builtin__\nexec\n.", "the global __builtin__.exec" + never},
      {op::text("os") + op::text("system") + "\x93.", "the global os.system" + never},
      {op::text("torch.os") + op::text("system") + "\x93.", "the global torch.os.system" + never},
      {"ctorch.storage\n_load_from_bytes\n.", "the global torch.storage._load_from_bytes" + never},
      {"ctorch\nload\n.", "the global torch.load" + never},
      {"ctorch._utils\n_rebuild_tensor_v2.__globals__\n.",
       "the global torch._utils._rebuild_tensor_v2.__globals__" + never},
      {"c\x1b[2J\nx\n.", "the global \\u001b[2J.x" + never},
      {"(" + command + "ios\nsystem\n.", "opcode INST is not allowed"},
      {"(" + op::text("os") + "o.", "opcode OBJ is not allowed"},
      {op::kOrderedDict + ")\x81.", "opcode NEWOBJ is not allowed"},
      {op::kOrderedDict + ")}\x92.", "opcode NEWOBJ_EX is not allowed"},
      {"\x82\x01.", "opcode EXT1 is not allowed"},
      {"P0\n.", "opcode PERSID is not allowed"},
      {"]}b.", "opcode BUILD is not allowed on what is no dict"},
      {"ctorch._utils\n_rebuild_tensor_v2\n}b.", "opcode BUILD is not allowed on what is no dict"},
      {op::kOrderedDict + op::text("state") + "b.",
       "opcode BUILD is not allowed on what is no dict"},
      {op::kOrderedDict + ")R.", "calls what is no global"},
      {op::text("os.system") + ")R.", "calls what is no global"},
      {"\xff", "opcode number 255 is not allowed"},
  };
  for (const Attack& attack : attacks) {
    const std::string pickle = op::kProto + attack.opcodes;
    for (const bool zipped : {true, false}) {
      const std::string bytes = zipped ? torch_zip(pickle) : torch_legacy(pickle);
      const std::string error = error_of([&] { foreign::read_torch_file(bytes, "m.bin"); });
      const std::string start =
          concat("bad format: m.bin: ", zipped ? "data.pkl: " : "", "pickle, at byte ");
      EXPECT_EQ(error.find(start), 0u) << error;
      EXPECT_TRUE(error.ends_with(": " + attack.error)) << error << "\nexpected " << attack.error;
      EXPECT_TRUE(testing::is_printable(error)) << error;
    }
  }
}

// A global that is allowed cannot be called as something that it is not.
TEST(PickleAttacks, AllowedNamesAreNotFunctionsOfTheAttackers) {
  const auto error = [](const std::string& value) {
    return error_of([&] {
      foreign::read_torch_file(torch_zip(state_dict({{"w", value}})), "m.bin");
    });
  };
  const std::string start = "bad format: m.bin: data.pkl: w: ";
  EXPECT_EQ(error("ctorch\nFloatStorage\n)R"),
            start + "expected a tensor, got a call of torch.FloatStorage");
  EXPECT_EQ(error("ctorch\nFloatStorage\n"),
            start + "expected a tensor, got the global torch.FloatStorage");
  EXPECT_EQ(error(op::kRebuild + ")R"), start + "torch._utils._rebuild_tensor_v2: 0 arguments");
  EXPECT_EQ(error("ctorch._utils\n_rebuild_parameter\n)R"),
            start + "torch._utils._rebuild_parameter: expected 3 arguments, got 0");
  EXPECT_EQ(error("ctorch._utils\n_rebuild_parameter\n(K\x01NNtR"),
            start + "expected a tensor, got 1");
  // A parameter of a parameter of a parameter ends at the first.
  std::string nested = TensorPickle{}.bytes();
  for (int i = 0; i < 3; ++i) nested = "ctorch._utils\n_rebuild_parameter\n(" + nested + "NNtR";
  EXPECT_EQ(error(nested),
            start + "expected a tensor, got a call of torch._utils._rebuild_parameter");
}

TEST(PickleAttacks, TheStackAndTheMemo) {
  EXPECT_EQ(pickle_error("."), at(3, "ends with 0 values on its stack, expected one"));
  EXPECT_EQ(pickle_error("NN."), at(5, "ends with 2 values on its stack, expected one"));
  EXPECT_EQ(pickle_error("(N."), at(5, "ends with 1 values on its stack, expected one"));
  EXPECT_EQ(pickle_error("t."), at(3, "a mark is missing on its stack"));
  EXPECT_EQ(pickle_error("\x85."), at(3, "takes more from its stack than is there"));
  EXPECT_EQ(pickle_error("NN(\x86."), at(6, "takes more from its stack than is there"))
      << "not below the mark";
  EXPECT_EQ(pickle_error("q\x01."), at(4, "takes more from its stack than is there"));
  EXPECT_EQ(pickle_error("h\x05."), at(4, "memo 5 is used before anything was put there"));
  EXPECT_EQ(pickle_error("Nq\x03h\x02."), at(7, "memo 2 is used before anything was put there"));
  EXPECT_EQ(pickle_error("Nr\xff\xff\xff\xff."),
            at(8, "memo 4294967295, at most 8 are possible here"));
  EXPECT_EQ(pickle_error("Q."), at(3, "takes more from its stack than is there"));
  EXPECT_EQ(pickle_error("]NNs."), at(6, "adds to what is no dict"));
  EXPECT_EQ(pickle_error("}Na."), at(5, "adds to what is no list"));
  EXPECT_EQ(pickle_error("}(NNNu."), at(8, "a key without a value"));
}

TEST(PickleAttacks, SizesAndNumbers) {
  EXPECT_EQ(pickle_error("X\xff\xff\xff\x7f"
                         "abc"),
            "bad format: m.bin: truncated: 2147483647 bytes expected at offset 7, 3 are left");
  EXPECT_EQ(pickle_error(concat("\x8d", little(UINT64_MAX))),
            "bad format: m.bin: truncated: 18446744073709551615 bytes expected at offset 11, 0 "
            "are left");
  EXPECT_EQ(pickle_error("\x8a\x09" + std::string(9, '\1') + "."),
            at(4, "an integer of 9 bytes, at most 8 are read"));
  EXPECT_EQ(pickle_error("\x8b\xff\xff\xff\x7f."), at(3, "opcode LONG4 is not allowed"));
  EXPECT_EQ(pickle_error(concat("\x95", little(uint64_t{1} << 60), "N.")),
            at(11, "a frame of 1152921504606846976 bytes, only 2 are left"));
  EXPECT_EQ(pickle_error("cwithout an end"),
            "bad format: m.bin: truncated: a text that begins at offset 3 does not end");
  EXPECT_EQ(pickle_error(""),
            "bad format: m.bin: truncated: 1 bytes expected at offset 2, 0 are left");
  const auto error = [](const std::string& bytes) {
    return error_of([&] {
      BytesReader reader(bytes, "m.bin");
      const Pickle pickle(reader, {});
    });
  };
  EXPECT_EQ(error("(dp0\n."), at(1, "does not begin as a pickle does"));
  EXPECT_EQ(error("\x80\x01N."), at(2, "protocol 1, only 2 to 5 are read"));
  EXPECT_EQ(error("\x80\x06N."), at(2, "protocol 6, only 2 to 5 are read"));
}

// Depth, doubling and length: memory and time stay in proportion to the bytes.
TEST(PickleAttacks, BombsStayHarmless) {
  // Lists inside lists, and tuples inside tuples: nothing recurses, on reading or on destruction.
  const int deep = 1'000'000;
  EXPECT_EQ(pickle_error(std::string(deep, ']') + std::string(deep - 1, 'a') + "N."),
            at(2 * deep + 3, "ends with 2 values on its stack, expected one"));
  EXPECT_EQ(pickle_error("N" + std::string(deep, '\x85') + "N."),
            at(deep + 5, "ends with 2 values on its stack, expected one"));
  EXPECT_EQ(pickle_error(std::string(5'000'000, '(')), at(4194307, "more than 4194304 open marks"));
  EXPECT_EQ(pickle_error(std::string(5'000'000, 'N')), at(4194307, "more than 4194304 values"));
  std::string gets = "Nq" + std::string(1, '\0');
  for (int i = 0; i < 4'200'000; ++i) gets += std::string("h\0", 2);
  EXPECT_NE(pickle_error(gets).find("more than 4194304 values on its stack"), std::string::npos);
  // A value that doubles 60 times is one value per step.
  std::string doubling = "Nq" + std::string(1, '\0');
  for (int i = 0; i < 60; ++i) {
    const auto from = static_cast<char>(i);
    doubling += concat("h", from, "h", from, "\x86q", static_cast<char>(i + 1));
  }
  // A list that contains itself.
  EXPECT_EQ(pickle_error("]q" + std::string(1, '\0') + "h" + std::string(1, '\0') + "aN."),
            at(10, "ends with 2 values on its stack, expected one"));
  EXPECT_NE(pickle_error(doubling + ".").find("61 values on its stack"), std::string::npos);
  // One long list, made into a dict again and again.
  std::string dicts = "](";
  for (int i = 0; i < 10'000; ++i) dicts += "NN\x86";
  dicts += "e\x85q" + std::string(1, '\0') + "(";
  for (int i = 0; i < 1000; ++i) {
    dicts += "ccollections\nOrderedDict\nh" + std::string(1, '\0') + "R";
  }
  EXPECT_NE(pickle_error(dicts + "t.").find("more than 4194304 values"), std::string::npos);
}

TEST(PickleAttacks, EveryTruncationIsOneError) {
  const std::string whole = state_dict({{"w", TensorPickle{}.bytes()}});
  for (size_t size = 0; size < whole.size(); ++size) {
    const std::string error = error_of([&] {
      BytesReader reader(std::string_view(whole).substr(0, size), "m.bin");
      const std::array<std::string_view, 3> globals = {
          "collections.OrderedDict", "torch._utils._rebuild_tensor_v2", "torch.FloatStorage"};
      const Pickle pickle(reader, globals);
    });
    EXPECT_EQ(error.find("bad format: m.bin: "), 0u) << error;
  }
}

}  // namespace
}  // namespace tril::pickle_test
