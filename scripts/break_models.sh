#!/usr/bin/env bash
# Puts a fault into each order-exact model (src/tril/kernels/model), and into each CPU kernel, one at
# a time, and sees that tests/kernels/model_test.cpp or model_gradient_test.cpp finds it. With --cuda:
# the models of CUDA's kernels and those kernels, by cuda_model_test.cpp in fp32 and in bf16, on a
# machine with a GPU.
#
#   scripts/break_models.sh [--cuda] FOLDER [CMAKE-OPTION...]
#
# Works on a copy of the tree in FOLDER, which it makes; some minutes, with --cuda an hour. Prints one
# line per fault; exit code 1 if one was not found.
set -uo pipefail
device=cpu cuda=OFF
[ "${1:-}" = --cuda ] && { device=cuda cuda=ON; shift; }
[ $# -ge 1 ] || { sed -n '2,10s/^# \{0,1\}//p' "$0" >&2; exit 2; }
root=$(cd "$(dirname "$0")/.." && pwd)
mkdir -p "$1" && copy=$(cd "$1" && pwd) || exit 2
shift
mkdir -p "$copy/tree" && cp -r "$root"/{CMakeLists.txt,cmake,docs,src,tests,examples,apps} "$copy/tree" || exit 2
cmake -S "$copy/tree" -B "$copy/build" -G Ninja -DCMAKE_BUILD_TYPE=None "-DCMAKE_CXX_FLAGS=-O1" \
  -DTRIL_KERNEL_OPTIONS=-O2 -DTRIL_PRECOMPILE=ON -DTRIL_CUDA=$cuda -DTRIL_CUDA_FAST_COMPILE=ON "$@" >"$copy/log" 2>&1 || { cat "$copy/log"; exit 2; }

build() { ninja -C "$copy/build" test_kernels >"$copy/log" 2>&1 || { tail -n 30 "$copy/log"; return 1; }; }
run_tests() {
  local tests="$copy/build/bin/test_kernels" type
  [ $device = cpu ] && { "$tests" --gtest_filter='Model*' --gtest_brief=1 >"$copy/tests" 2>&1; return; }
  for type in fp32 bf16; do
    TRIL_TEST_DEVICE=cuda TRIL_TEST_ACTIVATIONS=$type "$tests" --gtest_filter='CudaModel.*' --gtest_brief=1
  done >"$copy/tests" 2>&1
  ! grep -q '^\[  FAILED  \]' "$copy/tests" && grep -q '^\[  PASSED  \]' "$copy/tests"
}
failed() { sed -nE 's/^\[  FAILED  \] ((Cuda)?Model[A-Za-z]*\.[A-Za-z0-9]+).*/\1/p' "$copy/tests" | sort -u | paste -sd' '; }
build || exit 2
run_tests || { cat "$copy/tests"; echo 'the tests fail without any fault'; exit 2; }

missed=0
# fault FILE FROM TO: the first place where FROM stands becomes TO.
fault() {
  local file=$copy/tree/src/tril/kernels/$1 found
  cp "$file" "$copy/kept"
  FROM=$2 TO=$3 perl -0pi -e 's/\Q$ENV{FROM}\E/$ENV{TO}/' "$file"
  if cmp -s "$file" "$copy/kept"; then
    found="NOT APPLIED"
    missed=$((missed + 1))
  elif ! build >/dev/null; then
    found="DOES NOT COMPILE"
    missed=$((missed + 1))
  elif ! run_tests; then
    found="found by $(failed)"
  elif ! TRIL_FULL=1 run_tests; then
    found="found in --full by $(failed)"
  else
    found="NOT FOUND"
    missed=$((missed + 1))
  fi
  printf '%-26s %-46s -> %-46s %s\n' "$1" "$2" "$3" "$found"
  cp "$copy/kept" "$file"
}

faults_of_cpu() {
# The models alone.
fault model/linear.h 'sum = fma(a[row * terms + k], w, sum)' 'sum = add(multiply(a[row * terms + k], w), sum)'
fault model/linear.h 'add(sums[row * columns + c], bias(c))' 'sums[row * columns + c]'
fault model/linear.h 'multiply(multiply(to_float(sums[at]), a.scales[static_cast<size_t>(row)]),
                             weight_scale(c))' 'multiply(to_float(sums[at]), multiply(a.scales[static_cast<size_t>(row)], weight_scale(c)))'
fault model/arithmetic.h '127.0f / largest' '126.99999f / largest'
fault model/functions.h 'half >= 4' 'half >= 8'
fault model/functions.h '0x1.55545ep-5f' '0x1.555460p-5f'
fault model/functions.h '-0x1.b7fbb4p-6f' '-0x1.b7fbb6p-6f'
fault model/rows.h 'return fma(centred, centred, so_far)' 'return add(multiply(centred, centred), so_far)'
fault model/rows.h 'fma(normed, n.weight[i], n.bias[i])' 'add(multiply(normed, n.weight[i]), n.bias[i])'
fault model/rows.h 'select(greater(zero, x), zero, x)' 'select(greater(x, zero), x, zero)'
fault model/rows.h 'fma(error_function(scaled), half, half)' 'fma(error_function(scaled), half, constant<T>(0.50000006f))'
fault model/rows.h 'multiply(x, sigmoid(x))' 'divide(x, add(constant<T>(1.0f), exponential(subtract(constant<T>(0.0f), x))))'
fault model/rows.h 'constant<T>(0x1.2444f2p-4f)' 'constant<T>(0x1.2444f4p-4f)'
fault model/rows.h 'fma(entry, factor, *position)' 'add(multiply(entry, factor), *position)'
fault model/rows.h 'fnma(high, s, multiply(low, c))' 'subtract(multiply(low, c), multiply(high, s))'
fault model/attention.h 'dot = fma(row.q[d], keys.key(key, d), dot)' 'dot = add(dot, multiply(row.q[d], keys.key(key, d)))'
fault model/attention.h 'larger(before, largest_of(largest))' 'largest_of(largest)'
fault model/attention.h 'multiply(x, factor), x)' 'divide(x, factor), x)'
fault model/attention.h 'fma(span.values[d], new_factor, multiply(merged.values[d], old_factor))' 'fma(merged.values[d], old_factor, multiply(span.values[d], new_factor))'
fault model/attention.h 'multiply(merged.values[static_cast<size_t>(d)], inverse)' 'divide(merged.values[static_cast<size_t>(d)], merged.total)'
fault model/arithmetic.h 'static_cast<float>(math::log(static_cast<double>(a)))' 'std::log(a)'
fault model/rows.h 'turn == Turn::forwards ? 1.0f : -1.0f' 'turn == Turn::forwards ? 1.0f : -0.9999999f'
fault model/rows_gradient.h 'total = add(total, slice)' 'total = add(slice, slice)'
fault model/rows_gradient.h 'slice = term(token, slice)' 'total = term(token, total)'
fault model/rows_gradient.h 'sums[lane] = add(sums[lane], g)' 'sums[lane] = fma(dy[i < 0 ? 0 : i], n.weight[i < 0 ? 0 : i], sums[lane])'
fault model/rows_gradient.h 'multiply(fnma(normed(x[i]), mean_product, g), stats[1])' 'multiply(subtract(g, multiply(normed(x[i]), mean_product)), stats[1])'
fault model/rows_gradient.h 'return fma(dy[at], normed, sum)' 'return add(multiply(dy[at], normed), sum)'
fault model/rows_gradient.h 'select(greater(x, zero), one, zero)' 'select(greater(zero, x), zero, one)'
fault model/rows_gradient.h 'return fma(x, density, cdf)' 'return add(multiply(x, density), cdf)'
fault model/rows_gradient.h 'multiply(s, fma(x, subtract(one, s), one))' 'fma(multiply(x, s), subtract(one, s), s)'
fault model/rows_gradient.h 'constant<T>(0x1.b6676cp-3f)' 'constant<T>(0x1.b6676ep-3f)'
fault model/rows_gradient.h 'multiply(multiply(dy, x), slope(kind, gate))' 'multiply(dy, multiply(x, slope(kind, gate)))'
fault model/rows_gradient.h 'return multiply(sum, constant<T>(scale))' 'return multiply(sum, constant<T>(1.0000001f * scale))'
fault model/linear_gradient.h 'adds || begin > 0 ? add(dw[i], slice[i]) : slice[i]' 'adds ? add(dw[i], slice[i]) : slice[i]'
fault model/linear_gradient.h 'dw[i] = add(sum, nothing)' 'dw[i] = sum'
fault model/linear_gradient.h 'total = begin == 0 ? slice : add(total, slice)' 'total = slice'
fault model/attention_gradient.h 'sums[lane] = fma(factor, d < 0 ? constant<T>(0.0f) : result.out[d], sums[lane])' 'sums[lane] = add(multiply(factor, d < 0 ? constant<T>(0.0f) : result.out[d]), sums[lane])'
fault model/attention_gradient.h 'multiply(e, constant<T>(row.scale))' 'multiply(weight, multiply(subtract(dp, delta), constant<T>(row.scale)))'
fault model/attention_gradient.h 'sums.add_to_bias(j, e)' 'sums.add_to_bias(j, ds)'
fault model/attention_gradient.h 'fma(ds, keys.key(j, d), dq[d])' 'add(multiply(ds, keys.key(j, d)), dq[d])'
fault model/attention_gradient.h 'fma(weight, result.dout[d], sums.dv(j, d))' 'add(multiply(weight, result.dout[d]), sums.dv(j, d))'
fault model/cross_entropy.h 'return add(top, logarithm(sum_of(sums)))' 'return logarithm(multiply(exponential(top), sum_of(sums)))'
fault model/cross_entropy.h 'return subtract(sharp, multiply(constant<T>(smoothing), mean))' 'return fnma(constant<T>(smoothing), mean, sharp)'
fault model/cross_entropy.h 'subtract(share, constant<T>(1.0f - smoothing))' 'subtract(share, constant<T>(1.0f))'

# The kernels alone.
fault cpu/chain-inl.h 'local.at[r][g] = fma(factor, row_of_b[g], local.at[r][g])' 'local.at[r][g] = factor * row_of_b[g] + local.at[r][g]'
fault cpu/gemm_int8.cpp 'hn::Mul(x, hn::Set(FloatTag(), factor))' 'hn::Mul(x, hn::Set(FloatTag(), factor * 1.00001f))'
fault cpu/simd-inl.h '0x1.55545ep-5f' '0x1.555460p-5f'
fault cpu/simd-inl.h '-0x1.b7fbb4p-6f' '-0x1.b7fbb6p-6f'
fault cpu/norm.cpp 'squares = fma(centred, centred, squares)' 'squares = centred * centred + squares'
fault cpu/norm.cpp 'fma(normed, load(n.weight), load(n.bias))' 'normed * load(n.weight) + load(n.bias)'
fault cpu/rotary.cpp 'fma(low, s, high * c)' 'low * s + high * c'
fault cpu/embedding.cpp 'fma(load(entry), set16(e.scale), load(position))' 'load(entry) * set16(e.scale) + load(position)'
fault cpu/activation.cpp 'fma(erf(x * set16(kInverseSqrt2)), set16(0.5f), set16(0.5f))' 'fma(erf(x * set16(kInverseSqrt2)), set16(0.5f), set16(0.50000006f))'
fault cpu/activation.cpp 'x * fma(square, set16(kTanhCubic), set16(kTanhLinear))' 'x * (square * set16(kTanhCubic) + set16(kTanhLinear))'
fault cpu/attention_forward.cpp 'std::max(before, max(largest))' 'max(largest)'
fault cpu/attention_forward.cpp 'set16(exp(before - now))' 'set16(exp(before - now)) * set16(1.0000001f)'
fault cpu/attention_forward.cpp 'fma(load16(sums + i), new_factor, load16(merged + i) * old_factor)' 'fma(load16(merged + i), old_factor, load16(sums + i) * new_factor)'
fault cpu/norm.cpp 'sum_gx = fma(g, normed, sum_gx)' 'sum_gx = g * normed + sum_gx'
fault cpu/norm.cpp 'fnma(normed, set16(mean_gx), g - set16(mean_g)) * set16(r)' '(g - set16(mean_g) - normed * set16(mean_gx)) * set16(r)'
fault cpu/norm.cpp 'slice_w = fma(gradient, normed, slice_w)' 'slice_w = gradient * normed + slice_w'
fault cpu/activation.cpp 'fma(x, density, cdf)' 'x * density + cdf'
fault cpu/activation.cpp 's * fma(x, set16(1.0f) - s, set16(1.0f))' 'fma(x * s, set16(1.0f) - s, s)'
fault cpu/activation.cpp 'fma(inner, less * more, s)' 'inner * (less * more) + s'
fault cpu/activation.cpp 'gradient * other * a.slope' 'gradient * (other * a.slope)'
fault cpu/embedding.cpp 'store16(sums * set16(scale)' 'store16(sums * set16(1.0000001f * scale)'
fault cpu/rotary.cpp 'turn == Turn::forwards ? 1.0f : -1.0f' 'turn == Turn::forwards ? 1.0f : -0.9999999f'
fault cpu/elementwise.cpp 'load(x + begin) * set16(*factor)' 'load(x + begin) * set16(1.0000001f * *factor)'
fault cpu/gemm.cpp 'sums.at[r][i] = before + sums.at[r][i]' 'sums.at[r][i] = before'
fault cpu/gemm.cpp 'total = begin == 0 ? slice : total + slice' 'total = slice'
fault cpu/cross_entropy.cpp 'top + static_cast<float>(math::log(static_cast<double>(sum(sums))))' 'static_cast<float>(static_cast<double>(top) + math::log(static_cast<double>(sum(sums))))'
fault cpu/cross_entropy.cpp '(exp(load(x) - norm) - set16(spread)) * set16(g)' 'exp(load(x) - norm) * set16(g) - set16(spread * g)'
fault cpu/cross_entropy.cpp 'sum += static_cast<double>(losses[row])' 'sum = static_cast<double>(static_cast<float>(sum) + losses[row])'
fault cpu/attention_backward.cpp 'sums = fma(load(b.dout + at), load(b.out + at), sums)' 'sums = load(b.dout + at) * load(b.out + at) + sums'
fault cpu/attention_backward.cpp 'store16(e * scale, ds + g)' 'store16(weight * ((load16(ds + g) - delta) * scale), ds + g)'
fault cpu/attention_backward.cpp 'select(lanes(seen.lo - g, seen.hi - g), e, zero16())' 'e'
fault cpu/attention_backward.cpp 'load(to + begin) + load(part + begin)' 'load(to + begin) + load(part + begin) * set16(1.0000001f)'
fault cpu/attention_backward.cpp 'for (int64_t row = rows.lo; row < rows.hi; row += kQueryBlock)' 'for (int64_t row = rows.lo; row < std::min(rows.hi, rows.lo + kQueryBlock); row += kQueryBlock)'
}
faults_of_cuda() {
# The models alone.
fault model/cuda_functions.h 'join(lanes[i], lanes[i + half])' 'join(lanes[2 * i], lanes[2 * i + 1])'
fault model/cuda_rows.h 'i / kPack % kWarpLanes' 'i % kWarpLanes'
fault model/cuda_rows.h 'select(at_most(x, zero), zero, x)' 'select(greater(zero, x), zero, x)'
fault model/cuda_rows.h 'half, half))' 'half, constant<T>(0.50000006f)))'
fault model/cuda_rows.h 'multiply(x, divide(one, add(one, cuda_exp(negate(x)))))' 'divide(x, add(one, cuda_exp(negate(x))))'
fault model/cuda_rows.h 'constant<T>(0x1.2444f2p-4f)' 'constant<T>(0x1.2444f4p-4f)'
fault model/linear.h 'sum = fma(a[row * terms + k], w, sum)' 'sum = add(multiply(a[row * terms + k], w), sum)'
fault model/cuda_linear.h 'sum = tensor_core_step(sum, left, right)' 'sum = add(sum, tensor_core_step(zero, left, right))'
fault model/rows.h 'fma(entry, factor, *position)' 'add(multiply(entry, factor), *position)'
fault model/rows.h 'fnma(high, s, multiply(low, c))' 'subtract(multiply(low, c), multiply(high, s))'
fault model/attention.h 'dot = fma(row.q[d], keys.key(key, d), dot)' 'dot = add(dot, multiply(row.q[d], keys.key(key, d)))'
fault model/cuda_attention.h 'fma(score, constant<T>(kLog2e), negate(base))' 'add(multiply(score, constant<T>(kLog2e)), negate(base))'
fault model/cuda_attention.h 'fma(span_values[d], now, multiply(values[d], before))' 'fma(values[d], before, multiply(span_values[d], now))'
fault model/cuda_attention.h 'value = fma(block.weights[at(j)], keys.value(begin + j, d), value)' 'value = add(multiply(block.weights[at(j)], keys.value(begin + j, d)), value)'
fault model/cuda_attention.h 'j % 8 / 2' 'j % 4'
fault model/cuda_attention.h 'dot = tensor_core_step(dot, q, k)' 'dot = add(dot, tensor_core_step(zero, q, k))'
fault model/cuda_attention.h 'tensor_core_step(sums.values[at(d)], p, v)' 'add(sums.values[at(d)], tensor_core_step(constant<T>(0.0f), p, v))'
fault model/cuda_attention.h 'out[d] = round_to_bf16(out[d])' 'out[d] = out[d]'

# The kernels alone.
fault cuda/gemm_f32.cu '__fmaf_rn(left[i], right[j], sums[i][j])' 'left[i] * right[j] + sums[i][j]'
fault cuda/gemm_few_rows.cu 'p_.bias == nullptr ? sum : sum + bias_[half]' 'p_.bias == nullptr ? sum : __bfloat162float(__float2bfloat16_rn(sum)) + bias_[half]'
fault cuda/gemm_parts.cuh 'return sum + (p_.type' 'return __bfloat162float(__float2bfloat16_rn(sum)) + (p_.type'
fault cuda/norm.cu 'squares = __fmaf_rn(centred, centred, squares)' 'squares = centred * centred + squares'
fault cuda/rows.cuh 'int step = kWarp / 2; step > 0; step /= 2' 'int step = 1; step < kWarp; step *= 2'
fault cuda/elementwise.cu 'x <= 0.0f ? 0.0f : x' 'x < 0.0f ? 0.0f : x'
fault cuda/elementwise.cu 'z = x * __fmaf_rn(square, kTanhCubic, kTanhLinear)' 'z = x * (square * kTanhCubic + kTanhLinear)'
fault cuda/embedding.cu '__fmaf_rn(from.at[i], e.scale, place.at[i])' 'from.at[i] * e.scale + place.at[i]'
fault cuda/rotary.cu '__fmaf_rn(low.at[i], sine, high.at[i] * c.at[i])' 'low.at[i] * sine + high.at[i] * c.at[i]'
fault cuda/attention_plain.cu '__fmaf_rn(s[half], kLog2e, -base)' '__fsub_rn(__fmul_rn(s[half], kLog2e), base)'
fault cuda/attention_softmax.cuh '__fmaf_rn(s[n][2 * half], kLog2e, -base[half])' '__fsub_rn(__fmul_rn(s[n][2 * half], kLog2e), base[half])'
fault cuda/attention_row.cu '__fmaf_rn(s[n].x, kLog2e, -base)' '__fsub_rn(__fmul_rn(s[n].x, kLog2e), base)'
fault cuda/attention_long.cu '__fmaf_rn(s[n][2 * half], launch.factor, -base[half])' '__fsub_rn(__fmul_rn(s[n][2 * half], launch.factor), base[half])'
}
faults_of_$device
((missed == 0))
