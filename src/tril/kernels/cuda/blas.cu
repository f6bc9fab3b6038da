// Which products go to cuBLASLt, by which algorithm, and the trial that it must pass.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <map>
#include <memory>

#include "tril/kernels/cuda/cublas_lt.cuh"
#include "tril/kernels/cuda/gemm_parts.cuh"
#include "tril/kernels/cuda/trial.h"

namespace tril::kernels::cuda {
namespace {

constexpr size_t kWorkspaceBytes = size_t{32} << 20;
constexpr int kProposals = 24;
constexpr uint32_t kAlignment = 16;  // of every row, in bytes

using Policy = Blas::Policy;

// One product as cuBLASLt describes it. Its matrices are column-major, so it sees each of ours
// transposed: cᵀ = bᵀ aᵀ, and our b is its first operand.
class Operation {
 public:
  Operation(const CublasLt& lt, const Gemm& p) : lt_(lt) {
    const bool a_terms_first = terms_of_a(p.orientation) == TermsAre::columns;
    const bool b_terms_first = terms_of_b(p.orientation) == TermsAre::columns;
    ok_ = succeeded(lt.describe(&description, CUBLAS_COMPUTE_32F, CUDA_R_32F)) &&
          set(CUBLASLT_MATMUL_DESC_TRANSA, b_terms_first ? CUBLAS_OP_T : CUBLAS_OP_N) &&
          set(CUBLASLT_MATMUL_DESC_TRANSB, a_terms_first ? CUBLAS_OP_N : CUBLAS_OP_T) &&
          lay_out(first, CUDA_R_16BF, b_terms_first ? p.k : p.n, b_terms_first ? p.n : p.k,
                  p.b_stride) &&
          lay_out(second, CUDA_R_16BF, a_terms_first ? p.k : p.m, a_terms_first ? p.m : p.k,
                  p.a_stride) &&
          lay_out(result, p.c_type == DType::f32 ? CUDA_R_32F : CUDA_R_16BF, p.n, p.m, p.c_stride);
    if (ok_ && p.relu) ok_ = set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_RELU);
    if (ok_ && p.bias != nullptr) {
      ok_ = set(CUBLASLT_MATMUL_DESC_EPILOGUE,
                p.relu ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_BIAS) &&
            set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, CUDA_R_16BF) &&
            set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, p.bias);
    }
  }
  ~Operation() {
    for (cublasLtMatrixLayout_t layout : {first, second, result}) {
      if (layout != nullptr) lt_.drop_layout(layout);
    }
    if (description != nullptr) lt_.drop_description(description);
  }
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;

  bool ok() const { return ok_; }

  cublasLtMatmulDesc_t description = nullptr;
  cublasLtMatrixLayout_t first = nullptr, second = nullptr, result = nullptr;

 private:
  static bool succeeded(cublasStatus_t status) { return status == CUBLAS_STATUS_SUCCESS; }
  template <class T>
  bool set(cublasLtMatmulDescAttributes_t attribute, const T& value) {
    static_assert(sizeof(T) == 4 || sizeof(T) == 8, "as the library reads it");
    return succeeded(lt_.set_description(description, attribute, &value, sizeof(value)));
  }
  bool lay_out(cublasLtMatrixLayout_t& layout, cudaDataType type, int64_t rows, int64_t columns,
               int64_t stride) {
    return succeeded(lt_.lay_out(&layout, type, static_cast<uint64_t>(rows),
                                 static_cast<uint64_t>(columns), stride));
  }

  const CublasLt& lt_;
  bool ok_ = false;
};

// How an algorithm sums: read back after configuring it.
struct Summation {
  int32_t parts = 0;
  uint32_t scheme = CUBLASLT_REDUCTION_SCHEME_MASK;

  Summation(const CublasLt& lt, const cublasLtMatmulAlgo_t& algorithm) {
    size_t written = 0;
    lt.algorithm(&algorithm, CUBLASLT_ALGO_CONFIG_SPLITK_NUM, &parts, sizeof(parts), &written);
    lt.algorithm(&algorithm, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, &scheme, sizeof(scheme),
                 &written);
  }
};

// Memory for a trial, freed when it ends.
class DeviceMemory {
 public:
  explicit DeviceMemory(int64_t bytes) {
    if (cudaMalloc(&data_, static_cast<size_t>(bytes)) != cudaSuccess) {
      data_ = nullptr;
      cudaGetLastError();  // our own kernel can be used instead
    }
  }
  ~DeviceMemory() { static_cast<void>(cudaFree(data_)); }
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  void* get() const { return data_; }

 private:
  void* data_ = nullptr;
};

// Computes the product of trial numbers by our own kernel, and finds algorithms that give other
// bits. A row's bits do not depend on the other rows, so one product of ours serves every number of
// rows.
class Trial {
 public:
  // Not a multiple of a tile, a multiple, and few.
  static constexpr int64_t kRows[] = {473, 256, 65};

  Trial(Stream stream, const Gemm& product)
      : stream_(stream),
        product_(with_rows(product, kRows[0])),
        a_(kRows[0] * product.a_stride * 2),
        b_(b_rows() * product.b_stride * 2),
        bias_(product.n * 2),
        ours_(c_bytes()),
        theirs_(c_bytes()),
        count_(sizeof(uint32_t)) {
    if (!ready()) return;
    fill(TrialSide::a, TermsAre::columns, kRows[0], product.a_stride, a_);
    fill(TrialSide::b, terms_of_b(product.orientation), b_rows(), product.b_stride, b_);
    fill(TrialSide::b, TermsAre::rows, 1, product.n, bias_);
    product_.a = a_.get();
    product_.b = b_.get();
    if (product.bias != nullptr) product_.bias = bias_.get();
    product_.c = ours_.get();
    if (product.adds) fill_result(ours_);
    gemm_own(stream, product_);
    product_.c = theirs_.get();
  }

  bool ready() const {
    return a_.get() != nullptr && b_.get() != nullptr && bias_.get() != nullptr &&
           ours_.get() != nullptr && theirs_.get() != nullptr && count_.get() != nullptr;
  }

  // multiply(product) enqueues the product, or returns false.
  template <class F>
  bool passes(const F& multiply) const {
    const auto queue = static_cast<cudaStream_t>(stream_.handle);
    auto* count = static_cast<uint32_t*>(count_.get());
    cudaMemsetAsync(count, 0, sizeof(uint32_t), queue);
    for (const int64_t rows : kRows) {
      // A value that our product does not contain, so that unwritten elements differ.
      cudaMemsetAsync(theirs_.get(), 0xa5, static_cast<size_t>(c_bytes()), queue);
      if (product_.adds) fill_result(theirs_);
      const Gemm part = with_rows(product_, rows);
      if (!multiply(part)) return false;
      count_differing(stream_, {.type = part.c_type,
                                .a = ours_.get(),
                                .b = theirs_.get(),
                                .rows = rows,
                                .columns = part.n,
                                .stride = part.c_stride,
                                .count = count});
    }
    uint32_t differing = 1;
    cudaMemcpyAsync(&differing, count, sizeof(differing), cudaMemcpyDeviceToHost, queue);
    return cudaStreamSynchronize(queue) == cudaSuccess && differing == 0;
  }

 private:
  static Gemm with_rows(Gemm product, int64_t rows) {
    product.m = rows;
    return product;
  }
  int64_t b_rows() const {
    return product_.orientation == Orientation::forward ? product_.n : product_.k;
  }
  int64_t c_bytes() const { return kRows[0] * product_.c_stride * size_of(product_.c_type); }
  // Fills the matrix to be added to; it is bf16, since weight gradients have no trial.
  void fill_result(const DeviceMemory& c) const {
    fill(TrialSide::b, TermsAre::columns, kRows[0], product_.c_stride, c);
  }
  void fill(TrialSide side, TermsAre terms, int64_t rows, int64_t columns,
            const DeviceMemory& to) const {
    fill_trial(stream_, {side, terms, rows, columns, static_cast<BFloat16*>(to.get())});
  }

  Stream stream_;
  Gemm product_;
  DeviceMemory a_, b_, bias_, ours_, theirs_, count_;
};

// Products of similar numbers of rows share an algorithm: 64, 96, 128, 192, ... 1024, 1152, ...
int64_t rows_alike(int64_t rows) {
  const auto power = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(rows)));
  const int64_t step = rows < 1024 ? power / 2 : power / 8;
  return step == 0 ? rows : (rows + step - 1) / step * step;
}

bool splits_tokens(const Gemm& p) { return p.orientation == Orientation::weight_gradient; }

// Which products are offered to cuBLASLt at all. The others are ours.
bool suits(const Gemm& p, Policy policy) {
  if (policy == Policy::own || p.type != DType::bf16 || p.k == 0) return false;
  if (!aligned_rows(p.a, p.a_stride, p.type) || !aligned_rows(p.b, p.b_stride, p.type) ||
      !aligned_rows(p.c, p.c_stride, p.c_type) || !aligned_rows(p.bias, 0, p.type)) {
    return false;
  }
  if (splits_tokens(p)) return true;
  return !(p.adds && p.c_type == DType::f32) && p.n % core::kPiece == 0 &&
         p.k % core::kPiece == 0 && (!has_few_rows(p) || policy == Policy::free);
}

__global__ void add_bias_kernel(const bf16* bias, int64_t rows, int64_t columns, float* c,
                                int64_t stride) {
  const int64_t column = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (column >= columns) return;
  const float value = __bfloat162float(bias[column]);
  for (int64_t row = blockIdx.y; row < rows; row += gridDim.y) {
    float& sum = c[row * stride + column];
    sum = sum + value;
  }
}
// Adds the bias to the accumulators, because cuBLASLt has no bias of a type other than c's.
void add_bias(cudaStream_t stream, const Gemm& p) {
  constexpr int64_t kThreads = 256;
  constexpr int64_t kMostRows = 512;
  const dim3 blocks(static_cast<unsigned>((p.n + kThreads - 1) / kThreads),
                    static_cast<unsigned>(std::min(p.m, kMostRows)));
  add_bias_kernel<<<blocks, kThreads, 0, stream>>>(static_cast<const bf16*>(p.bias), p.m, p.n,
                                                   static_cast<float*>(p.c), p.c_stride);
}

__global__ void relu_kernel(int64_t rows, int64_t pairs, __nv_bfloat162* c, int64_t stride) {
  const int64_t column = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (column >= pairs) return;
  for (int64_t row = blockIdx.y; row < rows; row += gridDim.y) {
    const float2 value = __bfloat1622float2(c[row * stride + column]);
    c[row * stride + column] =
        __floats2bfloat162_rn(value.x <= 0.0f ? 0.0f : value.x, value.y <= 0.0f ? 0.0f : value.y);
  }
}
// ReLU of c in place, if no algorithm has it in its epilogue: n is even here.
void make_relu(cudaStream_t stream, const Gemm& p) {
  constexpr int64_t kThreads = 256;
  constexpr int64_t kMostRows = 2048;
  const dim3 blocks(static_cast<unsigned>((p.n / 2 + kThreads - 1) / kThreads),
                    static_cast<unsigned>(std::min(p.m, kMostRows)));
  relu_kernel<<<blocks, kThreads, 0, stream>>>(p.m, p.n / 2, static_cast<__nv_bfloat162*>(p.c),
                                               p.c_stride / 2);
}

}  // namespace

struct Blas::State {
  // What a choice depends on.
  using Key = std::array<int64_t, 11>;
  struct Choice {
    bool ours = true;
    cublasLtMatmulAlgo_t algorithm{};
    size_t workspace = 0;
  };

  // The algorithms cuBLASLt proposes, best first.
  struct Proposals {
    cublasLtMatmulHeuristicResult_t list[kProposals] = {};
    int count = 0;
  };

  Policy policy;
  const CublasLt* lt = nullptr;
  cublasLtHandle_t handle = nullptr;
  std::map<void*, void*> workspaces;  // one per stream: two may run at the same time
  bool opened = false;
  std::map<Key, Choice> choices;
  Counts counts;
  // For the product for which an algorithm is being chosen.
  Proposals proposals;
  std::unique_ptr<Trial> trial;

  explicit State(Policy wanted) : policy(wanted) {}
  ~State() {
    if (handle != nullptr) lt->destroy(handle);
    for (const auto& [stream, memory] : workspaces) static_cast<void>(cudaFree(memory));
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  bool open() {
    if (opened) return handle != nullptr;
    opened = true;
    lt = cublas_lt();
    if (lt == nullptr || lt->create(&handle) != CUBLAS_STATUS_SUCCESS) {
      handle = nullptr;
      return false;
    }
    return true;
  }

  // Null if there is no memory for it. The error is left for the check after the launch: taking
  // another algorithm instead would make bits depend on how much memory is free.
  void* workspace_of(cudaStream_t stream) {
    const auto [at, added] = workspaces.try_emplace(stream, nullptr);
    if (!added || cudaMalloc(&at->second, kWorkspaceBytes) == cudaSuccess) return at->second;
    workspaces.erase(at);
    return nullptr;
  }

  static Key key_of(const Gemm& p) {
    return {static_cast<int64_t>(p.orientation),
            splits_tokens(p) ? p.m : rows_alike(p.m),
            p.n,
            p.k,
            p.a_stride,
            p.b_stride,
            p.c_stride,
            static_cast<int64_t>(p.c_type),
            p.bias != nullptr,
            p.adds,
            p.relu};
  }

  bool multiply(cudaStream_t stream, const Gemm& p, const Choice& choice) {
    const Operation operation(*lt, p);
    if (!operation.ok()) return false;
    void* workspace = choice.workspace > 0 ? workspace_of(stream) : nullptr;
    if (choice.workspace > 0 && workspace == nullptr) return false;
    const float one = 1.0f;
    const float beta = p.adds ? 1.0f : 0.0f;
    const cublasStatus_t status =
        lt->matmul(handle, operation.description, &one, p.b, operation.first, p.a, operation.second,
                   &beta, p.c, operation.result, p.c, operation.result, &choice.algorithm,
                   workspace, choice.workspace, stream);
    if (status != CUBLAS_STATUS_SUCCESS) cudaGetLastError();  // our own kernel is used instead
    return status == CUBLAS_STATUS_SUCCESS;
  }

  Proposals propose(const Gemm& p) const {
    Proposals found;
    Gemm typical = p;
    if (!splits_tokens(p)) typical.m = rows_alike(p.m);
    const Operation operation(*lt, typical);
    cublasLtMatmulPreference_t preference = nullptr;
    if (operation.ok() && lt->prefer(&preference) == CUBLAS_STATUS_SUCCESS) {
      const auto set = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
        lt->set_preference(preference, attribute, &value, sizeof(value));
      };
      const bool may_split = policy == Policy::free || splits_tokens(p);
      set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
          may_split ? uint64_t{kWorkspaceBytes} : uint64_t{0});
      if (policy != Policy::free) {
        set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
            static_cast<uint32_t>(may_split ? CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE
                                            : CUBLASLT_REDUCTION_SCHEME_NONE));
      }
      set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, kAlignment);
      set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, kAlignment);
      set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, kAlignment);
      set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, kAlignment);
      const cublasStatus_t status = lt->propose(
          handle, operation.description, operation.first, operation.second, operation.result,
          operation.result, preference, kProposals, found.list, &found.count);
      if (status != CUBLAS_STATUS_SUCCESS) found.count = 0;
      lt->drop_preference(preference);
    }
    return found;
  }

  bool allowed(const Gemm& p, const cublasLtMatmulHeuristicResult_t& proposal) const {
    if (proposal.state != CUBLAS_STATUS_SUCCESS) return false;
    if (policy == Policy::free) return true;
    const Summation sum(*lt, proposal.algo);
    // Split tokens are merged in a fixed order only if every part has its own memory.
    if (splits_tokens(p)) {
      return sum.scheme == CUBLASLT_REDUCTION_SCHEME_NONE ||
             sum.scheme == CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    }
    return sum.parts == 1 && sum.scheme == CUBLASLT_REDUCTION_SCHEME_NONE &&
           proposal.workspaceSize == 0;
  }

  // The shortest of several times of the product, in milliseconds, with its result in `c`. Short
  // ones are timed several at once, because the clock is too coarse for them.
  float time_of(cudaStream_t stream, Gemm p, const Choice& choice, void* c) {
    constexpr int kTimes = 5;  // the first warms up
    constexpr float kEnough = 0.1f;
    constexpr int kMostAtOnce = 8;
    int at_once = 1;
    p.c = c;
    cudaEvent_t begin = nullptr, end = nullptr;
    cudaEventCreate(&begin);
    cudaEventCreate(&end);
    float least = INFINITY;
    for (int i = 0; i < kTimes; ++i) {
      cudaEventRecord(begin, stream);
      bool multiplied = true;
      for (int n = 0; n < at_once; ++n) multiplied = multiplied && multiply(stream, p, choice);
      if (!multiplied) break;
      cudaEventRecord(end, stream);
      float taken = INFINITY;
      if (cudaEventSynchronize(end) != cudaSuccess ||
          cudaEventElapsedTime(&taken, begin, end) != cudaSuccess) {
        break;
      }
      if (i > 0) least = std::min(least, taken / static_cast<float>(at_once));
      if (i == 1) at_once = taken * kMostAtOnce <= kEnough ? kMostAtOnce : 1;
    }
    cudaEventDestroy(begin);
    cudaEventDestroy(end);
    return least;
  }

  // If all that pass have the same bits, the fastest is taken: cuBLASLt's own order was seen to be
  // wrong by a factor of two. Weight gradients differ in bits between algorithms: there cuBLASLt's
  // first one is taken, in every run.
  Choice choose(Stream stream, const Gemm& p) {
    if (splits_tokens(p)) return first_that_passes(stream, p, 0).choice;
    constexpr int kMostTimed = 8;
    const auto queue = static_cast<cudaStream_t>(stream.handle);
    cudaStreamSynchronize(queue);  // earlier work would disturb the timing
    const DeviceMemory c(p.m * p.c_stride * size_of(p.c_type));
    Choice best;
    float least = INFINITY;
    int next = 0;
    for (int timed = 0; timed < kMostTimed; ++timed) {
      const Passed passed = first_that_passes(stream, p, next);
      if (passed.choice.ours) break;
      next = passed.place + 1;
      const float taken = c.get() == nullptr ? 0.0f : time_of(queue, p, passed.choice, c.get());
      if (taken < least) {
        least = taken;
        best = passed.choice;
      }
      if (c.get() == nullptr) break;
    }
    ++(best.ours ? counts.refused : counts.chosen);
    return best;
  }

  struct Passed {
    Choice choice;
    int place = 0;
  };
  // Among the proposals from `first` on.
  Passed first_that_passes(Stream stream, const Gemm& p, int first) {
    const auto queue = static_cast<cudaStream_t>(stream.handle);
    if (first == 0) {
      proposals = propose(p);
      trial.reset();
    }
    for (int i = first; i < proposals.count; ++i) {
      const cublasLtMatmulHeuristicResult_t& proposal = proposals.list[i];
      if (!allowed(p, proposal)) continue;
      const Choice choice{false, proposal.algo, proposal.workspaceSize};
      if (policy == Policy::verified && !splits_tokens(p)) {
        if (!trial) trial = std::make_unique<Trial>(stream, p);
        if (!trial->ready()) break;
        if (!trial->passes([&](const Gemm& part) { return multiply(queue, part, choice); })) {
          ++counts.differing;
          continue;
        }
      }
      if (splits_tokens(p)) ++counts.chosen;
      return {choice, i};
    }
    if (splits_tokens(p)) ++counts.refused;
    return {};
  }

  // Null: none was chosen, and none can be chosen now.
  const Choice* choice_for(Stream stream, const Gemm& p) {
    const Key key = key_of(p);
    if (const auto found = choices.find(key); found != choices.end()) return &found->second;
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    const auto queue = static_cast<cudaStream_t>(stream.handle);
    if (cudaStreamIsCapturing(queue, &status) != cudaSuccess ||
        status != cudaStreamCaptureStatusNone || !open()) {
      return nullptr;
    }
    choices[key] = choose(stream, p);
    trial.reset();
    return &choices[key];
  }
};

Blas::Blas(Policy policy) : state_(std::make_unique<State>(policy)) {}
Blas::~Blas() = default;

void Blas::gemm(Stream stream, const Gemm& product) {
  if (product.m == 0 || product.n == 0) return;
  const auto queue = static_cast<cudaStream_t>(stream.handle);
  Gemm theirs = product;
  const bool bias_later = product.bias != nullptr && product.c_type == DType::f32;
  if (bias_later) theirs.bias = nullptr;
  const auto multiplied = [&] {
    const State::Choice* choice =
        suits(theirs, state_->policy) ? state_->choice_for(stream, theirs) : nullptr;
    return choice != nullptr && !choice->ours && state_->multiply(queue, theirs, *choice);
  };
  if (multiplied()) {
    if (bias_later) add_bias(queue, product);
    return;
  }
  theirs.relu = false;
  if (product.relu && multiplied()) return make_relu(queue, product);
  gemm_own(stream, product);
}

Blas::Counts Blas::counts() const { return state_->counts; }

void multiply(Stream stream, const Product& args) { args.blas->gemm(stream, args.gemm); }

}  // namespace tril::kernels::cuda
