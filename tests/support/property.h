// RapidCheck with GoogleTest; its header needs GoogleTest's before it.
#pragma once

// clang-format off
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
// clang-format on
