#include "tril/io/foreign/state_dict.h"

#include <algorithm>
#include <utility>

#include "tril/base/error.h"
#include "tril/io/json.h"
#include "tril/io/safetensors.h"

namespace tril::foreign {
namespace {

using Kind = PickleValue::Kind;

constexpr std::string_view kRebuild = "torch._utils._rebuild_tensor";  // before 0.4
constexpr std::string_view kRebuild2 = "torch._utils._rebuild_tensor_v2";
constexpr std::string_view kParameter = "torch._utils._rebuild_parameter";
constexpr std::array<std::string_view, 14> kGlobals = {"collections.OrderedDict",
                                                       kRebuild,
                                                       kRebuild2,
                                                       kParameter,
                                                       "torch.HalfStorage",
                                                       "torch.BFloat16Storage",
                                                       "torch.FloatStorage",
                                                       "torch.DoubleStorage",
                                                       "torch.CharStorage",
                                                       "torch.ShortStorage",
                                                       "torch.IntStorage",
                                                       "torch.LongStorage",
                                                       "torch.ByteStorage",
                                                       "torch.BoolStorage"};
constexpr size_t kFirstStorage = 4;  // from here on in the order of StoredType
static_assert(kGlobals.size() - kFirstStorage == kStoredTypes.size());

// Layers that share weights make several tensors of one storage; a file with more than this many
// tensors for each byte that it holds was made to exhaust whoever copies them.
constexpr int64_t kMaxShared = 64;

class StateDictReader {
 public:
  StateDictReader(const Pickle& pickle, const std::string& where)
      : pickle_(pickle), where_(where) {}

  StateDict read() {
    const PickleValue& root = pickle_.root();
    require(root.kind == Kind::dict, ErrorCode::bad_format, where_,
            ": expected a dict of tensors, got ", describe(pickle_, root));
    require(std::ssize(root.items) / 2 <= kSafetensorsMaxNames, ErrorCode::bad_format, where_, ": ",
            root.items.size() / 2, " tensors, at most ", kSafetensorsMaxNames, " are allowed");
    for (size_t i = 0; i < root.items.size(); i += 2) read_item(root, i);
    sort_views();
    check_shared();
    return std::move(dict_);
  }

 private:
  void read_item(const PickleValue& root, size_t i) {
    const PickleValue& key = pickle_.item(root, i);
    require(key.kind == Kind::string, ErrorCode::bad_format, where_,
            ": expected the name of a tensor, got ", describe(pickle_, key));
    require(is_utf8(key.text) && key.text != kSafetensorsMetadata, ErrorCode::bad_format, where_,
            ": '", printable(key.text), "' cannot be the name of a tensor");
    here_ = concat(where_, ": ", printable(key.text));
    const PickleValue& value = pickle_.item(root, i + 1);
    StorageView view = read_tensor(is_call(value, kParameter) ? wrapped_by(value) : value);
    view.name = key.text;
    dict_.views.push_back(std::move(view));
  }

  bool is_call(const PickleValue& value, std::string_view function) const {
    return value.kind == Kind::call && pickle_.item(value, 0).text == function;
  }

  // _rebuild_parameter(tensor, requires_grad, hooks).
  const PickleValue& wrapped_by(const PickleValue& call) const {
    const PickleValue& arguments = pickle_.item(call, 1);
    require(arguments.items.size() == 3, ErrorCode::bad_format, here_, ": ", kParameter,
            ": expected 3 arguments, got ", arguments.items.size());
    return pickle_.item(arguments, 0);
  }

  // _rebuild_tensor_v2(storage, offset, shape, strides, requires_grad, hooks[, metadata]); the
  // older function has the first four.
  StorageView read_tensor(const PickleValue& value) {
    const bool old = is_call(value, kRebuild);
    require(old || is_call(value, kRebuild2), ErrorCode::bad_format, here_,
            ": expected a tensor, got ", describe(pickle_, value));
    const PickleValue& arguments = pickle_.item(value, 1);
    const size_t count = arguments.items.size();
    require(old ? count == 4 : count == 6 || count == 7, ErrorCode::bad_format, here_, ": ",
            pickle_.item(value, 0).text, ": ", count, " arguments");
    if (count == 7) {
      const PickleValue& metadata = pickle_.item(arguments, 6);
      require(
          metadata.kind == Kind::none || (metadata.kind == Kind::dict && metadata.items.empty()),
          ErrorCode::bad_format, here_,
          ": the tensor's metadata is not empty, and might change its values");
    }
    StorageView view;
    view.storage = read_storage(pickle_.item(arguments, 0));
    view.offset = count_of(pickle_.item(arguments, 1), "offset");
    read_extents(pickle_.item(arguments, 2), pickle_.item(arguments, 3), view);
    return view;
  }

  int64_t count_of(const PickleValue& value, std::string_view field) const {
    require(value.kind == Kind::integer && value.integer >= 0, ErrorCode::bad_format, here_, ": ",
            field, ": expected integers from 0 on, got ", describe(pickle_, value));
    return value.integer;
  }

  // ('storage', type, key, location, elements[, view]). Notes the storage and returns its key.
  std::string read_storage(const PickleValue& value) {
    require(value.kind == Kind::persistent, ErrorCode::bad_format, here_,
            ": expected a storage, got ", describe(pickle_, value));
    const PickleValue& id = pickle_.item(value, 0);
    const size_t count = id.kind == Kind::tuple ? id.items.size() : 0;
    require(count == 5 || count == 6, ErrorCode::bad_format, here_,
            ": expected a storage as a tuple of 5 or 6 items, got ", describe(pickle_, id));
    const PickleValue& word = pickle_.item(id, 0);
    require(word.kind == Kind::string && word.text == "storage", ErrorCode::bad_format, here_,
            ": expected a storage, got an object marked ", describe(pickle_, word));
    require(count == 5 || pickle_.item(id, 5).kind == Kind::none, ErrorCode::bad_format, here_,
            ": a storage that is a view of another is not supported");
    const PickleValue& key = pickle_.item(id, 2);
    require(key.kind == Kind::string && key.text.size() <= 80, ErrorCode::bad_format, here_,
            ": expected the key of a storage, got ", describe(pickle_, key));
    const Storage storage{storage_type(pickle_.item(id, 1)),
                          count_of(pickle_.item(id, 4), "number of elements")};
    require(storage.elements <= INT64_MAX / 8, ErrorCode::bad_format, here_,
            ": number of elements: ", storage.elements, " are more than 64 bits can count");
    const auto [at, is_new] = dict_.storages.try_emplace(std::string(key.text), storage);
    require(is_new || (at->second.type == storage.type && at->second.elements == storage.elements),
            ErrorCode::bad_format, here_, ": storage ", printable(key.text), " is ",
            to_string(storage.type), " [", storage.elements, "] here, ", to_string(at->second.type),
            " [", at->second.elements, "] elsewhere");
    return std::string(key.text);
  }

  StoredType storage_type(const PickleValue& value) const {
    const auto begin = kGlobals.begin() + kFirstStorage;
    const auto found =
        value.kind == Kind::global ? std::find(begin, kGlobals.end(), value.text) : kGlobals.end();
    require(found != kGlobals.end(), ErrorCode::bad_format, here_,
            ": expected the type of a storage, got ", describe(pickle_, value));
    return kStoredTypes[static_cast<size_t>(found - begin)];
  }

  // Also checks that every element lies in the storage.
  void read_extents(const PickleValue& shape, const PickleValue& strides, StorageView& view) const {
    require(shape.kind == Kind::tuple && strides.kind == Kind::tuple &&
                shape.items.size() == strides.items.size(),
            ErrorCode::bad_format, here_,
            ": shape: expected a tuple, and a tuple of as many strides");
    const size_t rank = shape.items.size();
    require(rank <= Shape::kMaxRank, ErrorCode::bad_format, here_, ": shape: ", rank,
            " axes, at most ", Shape::kMaxRank, " are supported");
    const Storage& storage = dict_.storages.find(view.storage)->second;
    int64_t size = 1;
    int64_t last = view.offset;  // the element furthest into the storage
    bool fits = true;
    std::array<int64_t, Shape::kMaxRank> extents{};
    for (size_t axis = 0; axis < rank; ++axis) {
      extents[axis] = count_of(pickle_.item(shape, axis), "shape");
      view.strides[axis] = count_of(pickle_.item(strides, axis), "strides");
      int64_t steps = 0;
      fits = fits && !__builtin_mul_overflow(size, extents[axis], &size) &&
             !__builtin_mul_overflow(extents[axis] - 1, view.strides[axis], &steps) &&
             !__builtin_add_overflow(last, steps, &last);
    }
    view.shape = shape_of(std::span(extents).first(rank), fits);
    const bool inside = size == 0 ? view.offset <= storage.elements : last < storage.elements;
    // Strides of 0 would make a large tensor out of a small storage.
    require(fits && inside && size <= storage.elements, ErrorCode::bad_format, here_,
            ": shape and strides lead out of storage ", printable(view.storage), ", which has ",
            storage.elements, " elements");
  }

  static Shape shape_of(std::span<const int64_t> extents, bool fits) {
    if (!fits) return {};
    switch (extents.size()) {
      case 0: return Shape{};
      case 1: return Shape{extents[0]};
      case 2: return Shape{extents[0], extents[1]};
      case 3: return Shape{extents[0], extents[1], extents[2]};
      default: return Shape{extents[0], extents[1], extents[2], extents[3]};
    }
  }

  void sort_views() {
    std::vector<StorageView>& views = dict_.views;
    std::sort(views.begin(), views.end(),
              [](const StorageView& a, const StorageView& b) { return a.name < b.name; });
    const auto twice = std::adjacent_find(
        views.begin(), views.end(), [](const auto& a, const auto& b) { return a.name == b.name; });
    require(twice == views.end(), ErrorCode::bad_format, where_, ": ",
            twice == views.end() ? "" : printable(twice->name), ": two tensors of this name");
  }

  // Counted with doubles, which cannot overflow here.
  void check_shared() const {
    double held = 0;
    double viewed = 0;
    for (const auto& [key, storage] : dict_.storages) held += static_cast<double>(storage.bytes());
    for (const StorageView& view : dict_.views) {
      viewed += static_cast<double>(view.shape.size()) *
                static_cast<double>(size_of(dict_.storages.find(view.storage)->second.type));
    }
    require(viewed <= kMaxShared * held, ErrorCode::bad_format, where_,
            ": the tensors share their storages more than ", kMaxShared, " times");
  }

  const Pickle& pickle_;
  const std::string& where_;
  std::string here_;  // with the tensor's name
  StateDict dict_;
};

}  // namespace

std::span<const std::string_view> state_dict_globals() { return kGlobals; }

StateDict read_state_dict(const Pickle& pickle, const std::string& where) {
  return StateDictReader(pickle, where).read();
}

}  // namespace tril::foreign
