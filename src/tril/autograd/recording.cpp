#include "tril/autograd/recording.h"

#include <algorithm>
#include <atomic>

#include "tril/base/rounding.h"
#include "tril/ops/rows.h"

namespace tril {
namespace {
constexpr std::string_view kEnded = "tape: its context was reset; gradients live until then";
}

namespace detail {

GradientEntry& GradientTable::place(const void* address) const {
  // Addresses are multiples of 64; Fibonacci hashing spreads the rest.
  const uint64_t hash = (reinterpret_cast<uintptr_t>(address) >> 6) * 0x9E3779B97F4A7C15ULL;
  const auto mask = static_cast<uint64_t>(capacity_ - 1);
  for (uint64_t at = (hash >> 32) & mask;; at = (at + 1) & mask) {
    GradientEntry& entry = entries_[at];
    if (entry.address == address || entry.address == nullptr) return entry;
  }
}

void GradientTable::grow() {
  const GradientEntry* old = entries_;
  const int64_t old_capacity = capacity_;
  capacity_ = std::max<int64_t>(256, capacity_ * 2);
  entries_ = host_->allocate_array<GradientEntry>(capacity_);
  for (int64_t i = 0; i < capacity_; ++i) new (&entries_[i]) GradientEntry();
  for (int64_t i = 0; i < old_capacity; ++i) {
    if (old[i].address != nullptr) place(old[i].address) = old[i];
  }
}

void GradientTable::check_current() const {
  require(is_current(ticket_), ErrorCode::invalid_argument, kEnded);
}

bool GradientTable::holds(const void* address) const {
  check_current();
  return capacity_ != 0 && address != nullptr && place(address).address != nullptr;
}

GradientEntry* GradientTable::find(const void* address, int64_t size) const {
  check_current();
  if (capacity_ == 0 || address == nullptr) return nullptr;
  GradientEntry& entry = place(address);
  if (entry.address == nullptr) return nullptr;
  require(entry.size == size, ErrorCode::internal, "tape: a tensor of ", size,
          " elements begins where one of ", entry.size, " does");
  return &entry;
}

GradientEntry& GradientTable::insert(const Tensor& tensor) {
  require(tensor.address() != nullptr, ErrorCode::invalid_argument,
          "tape: a tensor without elements cannot be differentiated");
  check_current();
  if (2 * (count_ + 1) > capacity_) grow();
  GradientEntry& entry = place(tensor.address());
  if (entry.address == nullptr) {
    entry.address = tensor.address();
    entry.size = tensor.size();
    ++count_;
  }
  require(entry.size == tensor.size(), ErrorCode::internal, "tape: two tensors of ", entry.size,
          " and ", tensor.size(), " elements begin at the same place");
  return entry;
}

}  // namespace detail

Tensor Gradients::of(const ConstTensor& tensor) const {
  require(table_ != nullptr && is_current(step_), ErrorCode::invalid_argument, kEnded);
  const detail::GradientEntry* entry = table_->find(tensor.address(), tensor.size());
  require(entry != nullptr, ErrorCode::invalid_argument,
          "gradients: this tensor was neither watched nor computed under the tape");
  return entry->gradient.defined() ? entry->gradient.reshaped(tensor.shape()) : Tensor();
}

namespace {
std::atomic<uint64_t> tapes{0};
}

Recording::Recording(Context& context)
    : context_(context), table_(context.host), serial_(tapes.fetch_add(1) + 1) {
  require(context.tape == nullptr, ErrorCode::invalid_argument,
          "tape: another tape is recording on this context");
  context.tape = this;
}

Recording::~Recording() {
  if (context_.tape == this) context_.tape = nullptr;
}

bool Recording::tracks(const Tensor& tensor) const {
  if (!tensor.defined()) return false;
  if (tensor.part_of() != nullptr) {
    require(!table_.holds(tensor.part_of()), ErrorCode::unsupported, "tape: ", tensor.shape(),
            " is a slice of a tensor that is differentiated; a slice has "
            "no gradient of its own");
    return false;
  }
  return table_.find(tensor) != nullptr;
}

Gradients Recording::backward(const Tensor& scalar) {
  require(scalar.size() == 1, ErrorCode::shape_mismatch, "backward: expected a scalar loss, got ",
          scalar.shape());
  return backward(scalar, ops::filled(context_, scalar.shape(), 1.0f, scalar.dtype()));
}

Gradients Recording::backward(const Tensor& tensor, const Tensor& gradient) {
  require(!walked_, ErrorCode::invalid_argument, "backward: a tape can be walked once");
  require(tracks(tensor), ErrorCode::invalid_argument,
          "backward: the tensor depends on nothing that is watched");
  const StandardRounding rounding;
  walked_ = true;
  if (context_.tape == this) context_.tape = nullptr;  // recording ends here
  accumulate(tensor, gradient, Ownership::shared);
  for (const Node* node = last_; node != nullptr; node = node->before) {
    std::array<Tensor, kMostOutputs> gradients{};
    bool any = false;
    for (size_t i = 0; i < node->count; ++i) {
      const Tensor& output = node->outputs[i];
      const detail::GradientEntry* entry = table_.find(output);
      if (!entry->gradient.defined()) continue;
      if (entry->lane != Lane::first) context_.queue.join();
      // It may have arrived in the shape of a view: the heads of a projection.
      gradients[i] = entry->gradient.reshaped(output.shape());
      any = true;
    }
    if (any) node->call(node, *this, {gradients.data(), node->count});
  }
  context_.queue.join();
  // The table is the step's, as are the gradients.
  auto* table = new (context_.host.allocate(sizeof(table_))) detail::GradientTable(table_);
  return {table, context_.host.ticket()};
}

void Recording::accumulate(const Tensor& input, const Tensor& gradient, Ownership ownership) {
  if (!tracks(input)) return;
  detail::GradientEntry& entry = *table_.find(input);
  require(gradient.size() == entry.size, ErrorCode::internal, "tape: a gradient of ",
          gradient.size(), " elements for a tensor of ", entry.size);
  take_into_lane(entry);
  if (!entry.gradient.defined()) {
    entry.gradient = gradient.reshaped(input.shape());
    entry.shared = ownership == Ownership::shared;
    return;
  }
  const Tensor addend = ops::dense(context_, gradient).reshaped(entry.gradient.shape());
  if (entry.shared || !entry.gradient.dense()) {
    entry.gradient = ops::add(context_, ops::dense(context_, entry.gradient), addend);
    entry.shared = false;
  } else {
    ops::add_into(context_, addend, entry.gradient);
  }
}

Tensor Recording::to_add_to(const Tensor& input) {
  if (!tracks(input)) return {};
  detail::GradientEntry& entry = *table_.find(input);
  if (entry.shared || !entry.gradient.defined() || !entry.gradient.dense()) return {};
  take_into_lane(entry);
  return entry.gradient.reshaped(input.shape());
}

// Whoever changes a gradient waits until it is computed; from then on it belongs to the current
// lane.
void Recording::take_into_lane(detail::GradientEntry& entry) {
  const Lane lane = context_.queue.lane();
  if (entry.lane != lane && entry.lane != Lane::first) context_.queue.join();
  entry.lane = lane;
}

Tape::Tape(Context& context) : recording_(new (place_) Recording(context)) {
  static_assert(sizeof(Recording) <= kSize && alignof(Recording) <= alignof(int64_t));
}
Tape::~Tape() { recording_->~Recording(); }
void Tape::watch(const Tensor& tensor) { recording_->watch(tensor); }
bool Tape::tracks(const Tensor& tensor) const { return recording_->tracks(tensor); }
Gradients Tape::backward(const Tensor& scalar) { return recording_->backward(scalar); }
Gradients Tape::backward(const Tensor& tensor, const Tensor& gradient) {
  return recording_->backward(tensor, gradient);
}

}  // namespace tril
