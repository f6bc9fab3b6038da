#include "tril/base/stream.h"
