// A check for programmer errors: on in every build, never reachable from user input.
#pragma once

#include <cstdio>
#include <cstdlib>

/// Aborts with the expression and its place when `condition` is false.
#define ORCD_ENSURE(condition)                                                            \
  do {                                                                                    \
    if (!(condition)) [[unlikely]] {                                                      \
      std::fprintf(stderr, "%s:%d: ensure failed: %s\n", __FILE__, __LINE__, #condition); \
      std::abort();                                                                       \
    }                                                                                     \
  } while (false)
