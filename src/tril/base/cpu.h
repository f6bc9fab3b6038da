// Which instruction set the kernels run on.
//
// The best one of this machine is chosen at the first use; the environment variable TRIL_TARGET
// (avx2, avx512, avx512_vnni, neon) selects another. All give the same bits, which the tests check.
// avx512_vnni differs from avx512 only in int8 products (kernels/gemm_int8.h).
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tril {

enum class Target { avx2, avx512, avx512_vnni, neon };

std::string_view to_string(Target target);

// The targets both compiled in and supported here, best first. Raises `unsupported` when there is
// none: an x86 processor without AVX2 and FMA cannot run tril.
std::vector<Target> available_targets();

// The target in use. Raises as above, and `invalid_argument` when TRIL_TARGET names none of them.
Target current_target();

// Switches the whole process; not while kernels run in another thread. For tests and measurements.
void use_target(Target target);

// The processor's name as the system reports it.
std::string cpu_name();

}  // namespace tril
