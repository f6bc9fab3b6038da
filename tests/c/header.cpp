// tril/c.h is C++, too.
#include "tril/c.h"

int main() { return tril_abi_version() == TRIL_ABI_VERSION ? 0 : 1; }
