// Rounds to nearest and keeps subnormals while it lives, whatever the calling program has set for
// itself, in the thread it lives in. Anything else would be another function with other bits.
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
