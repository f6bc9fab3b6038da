#include "tril/base/shared.h"

#include <atomic>

namespace tril::detail {

Kept::~Kept() = default;

void Kept::add(Kept* kept) {
  if (kept != nullptr) std::atomic_ref(kept->owners_).fetch_add(1, std::memory_order_relaxed);
}

void Kept::drop(Kept* kept) {
  if (kept == nullptr) return;
  if (std::atomic_ref(kept->owners_).fetch_sub(1, std::memory_order_acq_rel) == 1) delete kept;
}

}  // namespace tril::detail
