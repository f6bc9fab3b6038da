// cuBLASLt, loaded on first use, so that the program starts where it is not installed. For blas.cu.
#pragma once

#include <cublasLt.h>

namespace tril::kernels::cuda {

// The functions used here, with the signatures of the library's own header.
struct CublasLt {
  decltype(&cublasLtCreate) create = nullptr;
  decltype(&cublasLtDestroy) destroy = nullptr;
  decltype(&cublasLtMatmul) matmul = nullptr;
  decltype(&cublasLtMatmulDescCreate) describe = nullptr;
  decltype(&cublasLtMatmulDescDestroy) drop_description = nullptr;
  decltype(&cublasLtMatmulDescSetAttribute) set_description = nullptr;
  decltype(&cublasLtMatrixLayoutCreate) lay_out = nullptr;
  decltype(&cublasLtMatrixLayoutDestroy) drop_layout = nullptr;
  decltype(&cublasLtMatmulPreferenceCreate) prefer = nullptr;
  decltype(&cublasLtMatmulPreferenceDestroy) drop_preference = nullptr;
  decltype(&cublasLtMatmulPreferenceSetAttribute) set_preference = nullptr;
  decltype(&cublasLtMatmulAlgoGetHeuristic) propose = nullptr;
  decltype(&cublasLtMatmulAlgoConfigGetAttribute) algorithm = nullptr;
};

// Null if it is not found: not on the library path, beside the program or in its lib/, nor where
// CUDA is installed. Searched for once.
const CublasLt* cublas_lt();

}  // namespace tril::kernels::cuda
