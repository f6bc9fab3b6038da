// Python's pickles, read as data. Internal to io/.
//
// A pickle is a program for a stack machine, and Python's reader calls whatever function it names.
// Here nothing is ever called: a pickle becomes a graph of values, in which a call is a value like
// any other, with the function's name and its arguments. Only the opcodes that plain containers of
// numbers, texts and tensors need are known, and a global is read only if the caller allows its
// name; anything else is one Error (`bad_format`) that names the file and the opcode or global.
// Values are shared, not copied, and nothing recurses: memory is bounded by the pickle's length.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tril::foreign {

class BytesReader;

struct PickleValue {
  enum class Kind : uint8_t {
    none,
    boolean,
    integer,
    number,
    string,
    tuple,
    list,
    dict,
    global,      // a name of the module's
    call,        // what calling a global would return
    persistent,  // what the writer replaced by an identification
  };

  Kind kind = Kind::none;
  int64_t integer = 0;      // boolean (0, 1), integer
  double number = 0;        // number
  std::string_view text{};  // string: in the pickle; global: as allowed
  // tuple, list: the items; dict: key, value, key, value...; call: the global, the arguments (a
  // tuple); persistent: the identification.
  std::vector<uint32_t> items{};
};

constexpr int64_t kPickleMaxBytes = 64 << 20;
constexpr int64_t kPickleMaxValues = 1 << 22;  // also the depth of the stack and of the memo

// The values of one pickle; the texts in them are those of its bytes.
class Pickle {
 public:
  // Reads one pickle from the reader's front. `globals` are allowed, each as "module.name".
  // "collections.OrderedDict", where allowed, gives a dict; the attributes that may be set on it
  // are ignored.
  Pickle(BytesReader& reader, std::span<const std::string_view> globals);

  const PickleValue& root() const { return values_[root_]; }
  const PickleValue& operator[](uint32_t value) const { return values_[value]; }
  // The i-th of the value's items.
  const PickleValue& item(const PickleValue& of, size_t i) const { return values_[of.items[i]]; }

 private:
  friend class PickleMachine;
  std::vector<PickleValue> values_;
  uint32_t root_ = 0;
};

// For errors: a value in a few words, "an integer", "a call of torch._utils._rebuild_tensor_v2".
std::string describe(const Pickle& pickle, const PickleValue& value);

}  // namespace tril::foreign
