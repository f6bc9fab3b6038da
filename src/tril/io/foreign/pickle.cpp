#include "tril/io/foreign/pickle.h"

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

#include "tril/base/error.h"
#include "tril/io/foreign/bytes_reader.h"
#include "tril/io/json.h"

namespace tril::foreign {
namespace {

using Kind = PickleValue::Kind;
constexpr std::string_view kOrderedDict = "collections.OrderedDict";

enum class Opcode : uint8_t {
  mark = '(',
  stop = '.',
  none = 'N',
  new_true = 0x88,
  new_false = 0x89,
  bin_int = 'J',
  bin_int1 = 'K',
  bin_int2 = 'M',
  long1 = 0x8a,
  bin_float = 'G',
  bin_unicode = 'X',
  short_bin_unicode = 0x8c,
  bin_unicode8 = 0x8d,
  bin_string = 'T',  // texts in Python 2
  short_bin_string = 'U',
  empty_tuple = ')',
  tuple = 't',
  tuple1 = 0x85,
  tuple2 = 0x86,
  tuple3 = 0x87,
  empty_list = ']',
  append = 'a',
  appends = 'e',
  empty_dict = '}',
  set_item = 's',
  set_items = 'u',
  bin_get = 'h',
  long_bin_get = 'j',
  bin_put = 'q',
  long_bin_put = 'r',
  memoize = 0x94,
  proto = 0x80,
  frame = 0x95,
  global = 'c',
  stack_global = 0x93,
  reduce = 'R',
  build = 'b',
  bin_pers_id = 'Q',
};

struct OpcodeName {
  unsigned char number;
  std::string_view name;
};
// The names of what is refused, so that an error can give them.
constexpr std::array kRefused = {
    OpcodeName{'0', "POP"},          OpcodeName{'1', "POP_MARK"},
    OpcodeName{'2', "DUP"},          OpcodeName{'F', "FLOAT"},
    OpcodeName{'I', "INT"},          OpcodeName{'L', "LONG"},
    OpcodeName{0x8b, "LONG4"},       OpcodeName{'S', "STRING"},
    OpcodeName{'V', "UNICODE"},      OpcodeName{'P', "PERSID"},
    OpcodeName{'B', "BINBYTES"},     OpcodeName{'C', "SHORT_BINBYTES"},
    OpcodeName{0x8e, "BINBYTES8"},   OpcodeName{0x96, "BYTEARRAY8"},
    OpcodeName{'d', "DICT"},         OpcodeName{'l', "LIST"},
    OpcodeName{'g', "GET"},          OpcodeName{'p', "PUT"},
    OpcodeName{'i', "INST"},         OpcodeName{'o', "OBJ"},
    OpcodeName{0x81, "NEWOBJ"},      OpcodeName{0x92, "NEWOBJ_EX"},
    OpcodeName{0x82, "EXT1"},        OpcodeName{0x83, "EXT2"},
    OpcodeName{0x84, "EXT4"},        OpcodeName{0x8f, "EMPTY_SET"},
    OpcodeName{0x90, "ADDITEMS"},    OpcodeName{0x91, "FROZENSET"},
    OpcodeName{0x97, "NEXT_BUFFER"}, OpcodeName{0x98, "READONLY_BUFFER"}};

std::string name_of_refused(Opcode opcode) {
  const auto number = static_cast<unsigned char>(opcode);
  for (const OpcodeName& one : kRefused) {
    if (one.number == number) return std::string(one.name);
  }
  return concat("number ", number);
}

}  // namespace

// Runs the opcodes. Each value is made once and then only referred to by its number.
class PickleMachine {
 public:
  PickleMachine(BytesReader& reader, std::span<const std::string_view> globals, Pickle& result)
      : reader_(reader), globals_(globals), values_(result.values_), begin_(reader.position()) {}

  // Returns the root.
  uint32_t run() {
    check(next() == Opcode::proto, "does not begin as a pickle does");
    const auto protocol = reader_.number<uint8_t>();
    check(protocol >= 2 && protocol <= 5, "protocol ", protocol, ", only 2 to 5 are read");
    for (Opcode opcode = next(); opcode != Opcode::stop; opcode = next()) {
      check(reader_.position() - begin_ <= kPickleMaxBytes, "a pickle of more than ",
            kPickleMaxBytes, " bytes");
      const bool known = push_scalar(opcode) || push_text(opcode) || change_container(opcode) ||
                         use_memo(opcode) || name_or_call(opcode);
      check(known, "opcode ", known ? "" : name_of_refused(opcode), " is not allowed");
    }
    check(stack_.size() == 1 && marks_.empty(), "ends with ", stack_.size(),
          " values on its stack, expected one");
    return stack_.back();
  }

 private:
  template <class... Parts>
  void check(bool holds, const Parts&... parts) const {
    if (holds) return;
    fail(ErrorCode::bad_format, reader_.where(), ": pickle, at byte ", reader_.position() - begin_,
         ": ", concat(parts...));
  }

  Opcode next() { return static_cast<Opcode>(reader_.number<uint8_t>()); }

  void push(uint32_t value) {
    check(std::ssize(stack_) < kPickleMaxValues, "more than ", kPickleMaxValues,
          " values on its stack");
    stack_.push_back(value);
  }
  PickleValue& push_new(Kind kind) {
    check(std::ssize(values_) < kPickleMaxValues, "more than ", kPickleMaxValues, " values");
    push(static_cast<uint32_t>(values_.size()));
    values_.emplace_back().kind = kind;
    return values_.back();
  }
  uint32_t pop() {
    check_above_mark(1);
    const uint32_t value = stack_.back();
    stack_.pop_back();
    return value;
  }
  void check_above_mark(size_t count) const {
    check(stack_.size() - (marks_.empty() ? 0 : marks_.back()) >= count,
          "takes more from its stack than is there");
  }
  // Takes everything above the last mark, and the mark.
  std::vector<uint32_t> pop_to_mark() {
    check(!marks_.empty(), "a mark is missing on its stack");
    const auto begin = stack_.begin() + static_cast<int64_t>(marks_.back());
    std::vector<uint32_t> items(begin, stack_.end());
    stack_.erase(begin, stack_.end());
    marks_.pop_back();
    return items;
  }
  std::vector<uint32_t> pop_some(size_t count) {
    check_above_mark(count);
    const auto begin = stack_.end() - static_cast<int64_t>(count);
    std::vector<uint32_t> items(begin, stack_.end());
    stack_.erase(begin, stack_.end());
    return items;
  }
  PickleValue& top(Kind kind, std::string_view doing) {
    check_above_mark(1);
    PickleValue& value = values_[stack_.back()];
    check(value.kind == kind, doing, " what is no ", kind == Kind::dict ? "dict" : "list");
    return value;
  }

  bool push_scalar(Opcode opcode) {
    switch (opcode) {
      case Opcode::none: push_new(Kind::none); return true;
      case Opcode::new_true: push_new(Kind::boolean).integer = 1; return true;
      case Opcode::new_false: push_new(Kind::boolean).integer = 0; return true;
      case Opcode::bin_int:
        push_new(Kind::integer).integer = reader_.number<int32_t>();
        return true;
      case Opcode::bin_int1:
        push_new(Kind::integer).integer = reader_.number<uint8_t>();
        return true;
      case Opcode::bin_int2:
        push_new(Kind::integer).integer = reader_.number<uint16_t>();
        return true;
      case Opcode::long1: push_long(); return true;
      case Opcode::bin_float: push_float(); return true;
      default: return false;
    }
  }
  void push_long() {
    const auto size = reader_.number<uint8_t>();
    check(size <= sizeof(int64_t), "an integer of ", size, " bytes, at most 8 are read");
    const std::string_view bytes = reader_.take(size);
    // Two's complement, of which the last byte has the sign.
    uint64_t value = size > 0 && static_cast<int8_t>(bytes.back()) < 0 ? ~uint64_t{0} : 0;
    for (size_t i = bytes.size(); i-- > 0;) {
      value = value << 8 | static_cast<unsigned char>(bytes[i]);
    }
    push_new(Kind::integer).integer = static_cast<int64_t>(value);
  }
  void push_float() {
    uint64_t bits = 0;  // the first byte is the highest
    for (const char byte : reader_.take(8)) bits = bits << 8 | static_cast<unsigned char>(byte);
    push_new(Kind::number).number = std::bit_cast<double>(bits);
  }

  bool push_text(Opcode opcode) {
    uint64_t size = 0;
    switch (opcode) {
      case Opcode::short_bin_unicode:
      case Opcode::short_bin_string: size = reader_.number<uint8_t>(); break;
      case Opcode::bin_unicode:
      case Opcode::bin_string: size = reader_.number<uint32_t>(); break;
      case Opcode::bin_unicode8: size = reader_.number<uint64_t>(); break;
      default: return false;
    }
    const std::string_view text = reader_.take(size);
    push_new(Kind::string).text = text;
    return true;
  }

  bool change_container(Opcode opcode) {
    switch (opcode) {
      case Opcode::mark: push_mark(); return true;
      case Opcode::empty_tuple: push_new(Kind::tuple); return true;
      case Opcode::tuple: push_tuple(pop_to_mark()); return true;
      case Opcode::tuple1: push_tuple(pop_some(1)); return true;
      case Opcode::tuple2: push_tuple(pop_some(2)); return true;
      case Opcode::tuple3: push_tuple(pop_some(3)); return true;
      case Opcode::empty_list: push_new(Kind::list); return true;
      case Opcode::append: append(Kind::list, pop_some(1)); return true;
      case Opcode::appends: append(Kind::list, pop_to_mark()); return true;
      case Opcode::empty_dict: push_new(Kind::dict); return true;
      case Opcode::set_item: append(Kind::dict, pop_some(2)); return true;
      case Opcode::set_items: append(Kind::dict, pop_to_mark()); return true;
      default: return false;
    }
  }
  void push_mark() {
    check(std::ssize(marks_) < kPickleMaxValues, "more than ", kPickleMaxValues, " open marks");
    marks_.push_back(stack_.size());
  }
  void push_tuple(std::vector<uint32_t> items) { push_new(Kind::tuple).items = std::move(items); }
  void append(Kind kind, const std::vector<uint32_t>& items) {
    PickleValue& to = top(kind, "adds to");
    check(kind == Kind::list || items.size() % 2 == 0, "a key without a value");
    to.items.insert(to.items.end(), items.begin(), items.end());
  }

  bool use_memo(Opcode opcode) {
    switch (opcode) {
      case Opcode::bin_put: put(reader_.number<uint8_t>()); return true;
      case Opcode::long_bin_put: put(reader_.number<uint32_t>()); return true;
      case Opcode::memoize: put(memo_.size()); return true;
      case Opcode::bin_get: get(reader_.number<uint8_t>()); return true;
      case Opcode::long_bin_get: get(reader_.number<uint32_t>()); return true;
      default: return false;
    }
  }
  void put(uint64_t index) {
    // Writers count from 0 or 1, and each use takes bytes: a larger number only costs memory.
    const int64_t most = std::min(kPickleMaxValues, reader_.position() - begin_);
    check(index < static_cast<uint64_t>(most), "memo ", index, ", at most ", most,
          " are possible here");
    check_above_mark(1);
    if (index >= memo_.size()) memo_.resize(static_cast<size_t>(index) + 1, kNothing);
    memo_[static_cast<size_t>(index)] = stack_.back();
  }
  void get(uint64_t index) {
    const bool there = index < memo_.size() && memo_[static_cast<size_t>(index)] != kNothing;
    check(there, "memo ", index, " is used before anything was put there");
    push(memo_[static_cast<size_t>(index)]);
  }

  bool name_or_call(Opcode opcode) {
    switch (opcode) {
      case Opcode::frame: {  // says how much to read ahead
        const auto bytes = reader_.number<uint64_t>();
        check(bytes <= static_cast<uint64_t>(reader_.left()), "a frame of ", bytes, " bytes, only ",
              reader_.left(), " are left");
        return true;
      }
      case Opcode::global: {
        const std::string_view module = reader_.take_until('\n');
        push_global(module, reader_.take_until('\n'));
        return true;
      }
      case Opcode::stack_global: {
        const PickleValue& name = values_[pop()];
        const PickleValue& module = values_[pop()];
        check(name.kind == Kind::string && module.kind == Kind::string,
              "the name of a global is no text");
        push_global(module.text, name.text);
        return true;
      }
      case Opcode::reduce: call(); return true;
      case Opcode::build: set_attributes(); return true;
      case Opcode::bin_pers_id: {
        const uint32_t id = pop();
        push_new(Kind::persistent).items = {id};
        return true;
      }
      default: return false;
    }
  }
  void push_global(std::string_view module, std::string_view name) {
    const std::string wanted = concat(module, ".", name);
    const auto allowed = std::find(globals_.begin(), globals_.end(), wanted);
    check(allowed != globals_.end(), "the global ", printable(wanted),
          " is not allowed: the file asks to run code, which is never done");
    push_new(Kind::global).text = *allowed;
  }
  void call() {
    const uint32_t arguments = pop();
    const uint32_t function = pop();
    check(values_[function].kind == Kind::global, "calls what is no global");
    check(values_[arguments].kind == Kind::tuple, "calls ", values_[function].text,
          " with arguments that are no tuple");
    if (values_[function].text == kOrderedDict) {
      push_ordered_dict(values_[arguments].items);
    } else {
      push_new(Kind::call).items = {function, arguments};
    }
  }
  // Empty, to be filled; or, as Python 2 wrote it, with a list of pairs.
  void push_ordered_dict(const std::vector<uint32_t>& arguments) {
    std::vector<uint32_t> items;
    check(arguments.size() <= 1, kOrderedDict, " with ", arguments.size(), " arguments");
    if (!arguments.empty()) {
      const PickleValue& list = values_[arguments[0]];
      check(list.kind == Kind::list, kOrderedDict, " of what is no list");
      for (const uint32_t pair : list.items) {
        const PickleValue& both = values_[pair];
        check((both.kind == Kind::list || both.kind == Kind::tuple) && both.items.size() == 2,
              kOrderedDict, " of what are no pairs");
        items.insert(items.end(), both.items.begin(), both.items.end());
      }
      // One list may be the argument of many calls.
      copied_ += std::ssize(items);
      check(copied_ <= kPickleMaxValues, "more than ", kPickleMaxValues, " values");
    }
    push_new(Kind::dict).items = std::move(items);
  }
  // Models' dictionaries carry versions of their modules as an attribute, which has no use here.
  void set_attributes() {
    const uint32_t state = pop();
    check_above_mark(1);
    const bool plain =
        values_[stack_.back()].kind == Kind::dict && values_[state].kind == Kind::dict;
    check(plain, "opcode BUILD is not allowed on what is no dict");
  }

  static constexpr uint32_t kNothing = UINT32_MAX;

  BytesReader& reader_;
  std::span<const std::string_view> globals_;
  std::vector<PickleValue>& values_;
  int64_t begin_;
  std::vector<uint32_t> stack_;
  std::vector<size_t> marks_;  // sizes of the stack
  std::vector<uint32_t> memo_;
  int64_t copied_ = 0;  // items of lists that became dicts
};

Pickle::Pickle(BytesReader& reader, std::span<const std::string_view> globals) {
  root_ = PickleMachine(reader, globals, *this).run();
}

std::string describe(const Pickle& pickle, const PickleValue& value) {
  switch (value.kind) {
    case Kind::none: return "None";
    case Kind::boolean: return value.integer == 0 ? "False" : "True";
    case Kind::integer: return concat(value.integer);
    case Kind::number: return "a number";
    case Kind::string: return concat("'", printable(value.text), "'");
    case Kind::tuple: return "a tuple";
    case Kind::list: return "a list";
    case Kind::dict: return "a dict";
    case Kind::global: return concat("the global ", value.text);
    case Kind::call: return concat("a call of ", pickle.item(value, 0).text);
    case Kind::persistent: return "a storage";
  }
  return "nothing";
}

}  // namespace tril::foreign
