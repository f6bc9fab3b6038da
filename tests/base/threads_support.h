// For tests of what happens where the system starts no more threads.
#pragma once

#include <gtest/gtest.h>
#include <pthread.h>

#include <system_error>
#include <thread>

namespace tril::testing {

// While it lives no thread of this process can be started: a new one would get a stack larger than
// the address space.
class NoNewThreads {
 public:
  NoNewThreads() {
    pthread_getattr_default_np(&old_);
    pthread_attr_t huge;
    pthread_attr_init(&huge);
    pthread_attr_setstacksize(&huge, size_t{1} << 48);
    pthread_setattr_default_np(&huge);
    pthread_attr_destroy(&huge);
    EXPECT_THROW(std::thread([] {}).join(), std::system_error) << "threads can still be started";
  }
  ~NoNewThreads() {
    pthread_setattr_default_np(&old_);
    pthread_attr_destroy(&old_);
  }
  NoNewThreads(const NoNewThreads&) = delete;
  NoNewThreads& operator=(const NoNewThreads&) = delete;

 private:
  pthread_attr_t old_;
};

}  // namespace tril::testing
