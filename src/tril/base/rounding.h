// While it lives, its thread rounds to nearest and keeps subnormals, whatever mode the calling
// program has set. Any other mode would give other bits.
#pragma once

namespace tril {

class StandardRounding {
 public:
#if defined(__x86_64__)
  StandardRounding() : before_(__builtin_ia32_stmxcsr()) {
    // Flush-to-zero, both rounding bits, denormals-are-zero.
    constexpr unsigned kChangesResults = 0x8000u | 0x6000u | 0x0040u;
    changed_ = (before_ & kChangesResults) != 0;
    if (changed_) __builtin_ia32_ldmxcsr(before_ & ~kChangesResults);
  }
  ~StandardRounding() {
    if (changed_) __builtin_ia32_ldmxcsr(before_);
  }
#else
  StandardRounding() {}
#endif
  StandardRounding(const StandardRounding&) = delete;
  StandardRounding& operator=(const StandardRounding&) = delete;

#if defined(__x86_64__)
 private:
  unsigned before_;
  bool changed_;
#endif
};

}  // namespace tril
