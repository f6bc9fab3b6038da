#include "tril/serve/assets.h"
namespace tril::serve {
std::span<const Asset> assets() { return {}; }
}  // namespace tril::serve
