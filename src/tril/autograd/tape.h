// Tape: records the differentiable functions called until backward(), and walks them backwards.
//
//   Tape tape{session};                      // a Transformer's parameters are watched by
//   themselves const Tensor loss = model.loss(hidden, labels, {}, session); const Gradients
//   gradients = tape.backward(loss); const Tensor dweight = gradients.of(weight);
//
// Everything a tape holds belongs to the session's current step: a step like the one before
// allocates nothing from the system, and gradients live as long as the step's tensors, until the
// session is reset; asking for one later is an error. A tensor's gradient is an ordered sum:
// contributions are added in the reverse order of recording. One tape at a time per session, and
// one thread.
#pragma once

#include <cstdint>

#include "tril/tensor/tensor.h"

namespace tril {

struct Context;   // tensor/context.h; a Session is one
class Recording;  // autograd/recording.h
namespace detail {
class GradientTable;
}

// The gradients of one backward pass.
class Gradients {
 public:
  // Undefined when the loss does not depend on the tensor. Raises `invalid_argument` when it was
  // not watched, and when the step has ended.
  Tensor of(const ConstTensor& tensor) const;

 private:
  friend class Recording;
  Gradients(const detail::GradientTable* table, Ticket step) : table_(table), step_(step) {}

  const detail::GradientTable* table_;
  Ticket step_;
};

class Tape {
 public:
  // Raises `invalid_argument` while another tape records there.
  explicit Tape(Context& context);
  ~Tape();
  Tape(const Tape&) = delete;
  Tape& operator=(const Tape&) = delete;

  // Asks for the gradient of a tensor that no recorded function made: an input.
  void watch(const Tensor& tensor);
  // Raises for a slice of a tracked tensor: its gradient would be lost.
  bool tracks(const Tensor& tensor) const;

  // Walks back from a scalar, whose own gradient is 1. Once per tape; it ends the recording, so
  // that the session may be used without a tape, reset, or given another one.
  Gradients backward(const Tensor& scalar);
  // The same from any recorded tensor, given its gradient.
  Gradients backward(const Tensor& tensor, const Tensor& gradient);

 private:
  static constexpr int kSize = 96;

  alignas(int64_t) unsigned char place_[kSize];  // of the recording: a step must not allocate
  Recording* recording_;
};

}  // namespace tril
