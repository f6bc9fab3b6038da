// Scalar functions with the same bits on every machine.
//
// They use only IEEE additions, multiplications and divisions in double, in a written order (the
// library is built without contraction), so no libm decides a bit of a table, a schedule, an
// initial weight or a score. Errors are within 2 units in the last place of double.
// The vector forms the kernels use live in kernels/cpu/simd-inl.h.
#pragma once

namespace tril::math {

constexpr double kPi = 3.14159265358979323846;

double exp(double x);            // 0 below -745.2, +inf above 709.8
double log(double x);            // -inf at 0, NaN below
double sin(double x);            // NaN for |x| > 2^27: the argument reduction ends there
double cos(double x);            // likewise
double pow(double x, double y);  // x > 0; exp(y log x)

}  // namespace tril::math
