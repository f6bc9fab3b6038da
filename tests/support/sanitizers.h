// Whether a sanitizer is built in: it owns malloc, and makes long computations much longer.
#pragma once

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define TRIL_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define TRIL_SANITIZED 1
#endif
#endif
#ifndef TRIL_SANITIZED
#define TRIL_SANITIZED 0
#endif
