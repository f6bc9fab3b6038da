#include <dlfcn.h>
#include <unistd.h>

#include <string>

#include "tril/kernels/cuda/cublas_lt.cuh"

namespace tril::kernels::cuda {
namespace {

std::string folder_of_program() {
  char path[4096];
  const ssize_t length = readlink("/proc/self/exe", path, sizeof(path));
  if (length <= 0) return ".";
  const std::string program(path, static_cast<size_t>(length));
  return program.substr(0, program.rfind('/'));
}

void* open_library() {
  const std::string name = "libcublasLt.so.13";
  const std::string beside = folder_of_program();
  for (const std::string& path : {name, beside + "/" + name, beside + "/lib/" + name,
                                  beside + "/../lib/" + name, "/usr/local/cuda/lib64/" + name}) {
    if (void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
  }
  return nullptr;
}

template <class F>
bool find(void* library, const char* name, F& function) {
  function = reinterpret_cast<F>(dlsym(library, name));
  return function != nullptr;
}

// It stays open: what it started on the device ends with the process.
bool open_all(CublasLt& lt) {
  void* library = open_library();
  return library != nullptr && find(library, "cublasLtCreate", lt.create) &&
         find(library, "cublasLtDestroy", lt.destroy) &&
         find(library, "cublasLtMatmul", lt.matmul) &&
         find(library, "cublasLtMatmulDescCreate", lt.describe) &&
         find(library, "cublasLtMatmulDescDestroy", lt.drop_description) &&
         find(library, "cublasLtMatmulDescSetAttribute", lt.set_description) &&
         find(library, "cublasLtMatrixLayoutCreate", lt.lay_out) &&
         find(library, "cublasLtMatrixLayoutDestroy", lt.drop_layout) &&
         find(library, "cublasLtMatmulPreferenceCreate", lt.prefer) &&
         find(library, "cublasLtMatmulPreferenceDestroy", lt.drop_preference) &&
         find(library, "cublasLtMatmulPreferenceSetAttribute", lt.set_preference) &&
         find(library, "cublasLtMatmulAlgoGetHeuristic", lt.propose) &&
         find(library, "cublasLtMatmulAlgoConfigGetAttribute", lt.algorithm);
}

}  // namespace

const CublasLt* cublas_lt() {
  static CublasLt lt;
  static const bool found = open_all(lt);
  return found ? &lt : nullptr;
}

}  // namespace tril::kernels::cuda
