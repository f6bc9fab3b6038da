// Ticket: the step a tensor belongs to. Every tensor carries one, so that reading a tensor whose
// memory was given back is an error in every build.
#pragma once

#include <cstdint>

namespace tril {

// The memory a tensor comes from (0: none), and how often that had been given back.
struct Ticket {
  uint32_t memory = 0;
  uint32_t life = 0;
};
// False once that memory was given back.
bool is_current(Ticket ticket);

}  // namespace tril
