// Answers to prefetch that are wrong or dear, and what the check has to say of them.
#include "prefetch.hpp"

namespace {

// answer prefetch_nothing: right, but the kernel is [0-9.]+x slower [(][0-9.]+ to [0-9.]+[)] than
// the solution
namespace nothing {

void before_kernel(unsigned* out, const unsigned* in, size_t n) {}

void after_kernel(unsigned* out, const unsigned* in, size_t n) {
  prefetch_to_host(out, n * sizeof *out);
}

YOUR_TURN_TEST(prefetch, nothing, Prefetch, {before_kernel, after_kernel});

}  // namespace nothing

// answer prefetch_input_only: right, but the kernel is [0-9.]+x slower [(][0-9.]+ to [0-9.]+[)]
// than the solution
namespace input_only {

void before_kernel(unsigned* out, const unsigned* in, size_t n) {
  prefetch_to_device(in, n * sizeof *in);
}

void after_kernel(unsigned* out, const unsigned* in, size_t n) {
  prefetch_to_host(out, n * sizeof *out);
}

YOUR_TURN_TEST(prefetch, input_only, Prefetch, {before_kernel, after_kernel});

}  // namespace input_only

// answer prefetch_not_back: right, but the host's reading is [0-9.]+x slower [(][0-9.]+ to
// [0-9.]+[)] than the solution
namespace not_back {

void before_kernel(unsigned* out, const unsigned* in, size_t n) {
  prefetch_to_device(in, n * sizeof *in);
  prefetch_to_device(out, n * sizeof *out);
}

void after_kernel(unsigned* out, const unsigned* in, size_t n) {}

YOUR_TURN_TEST(prefetch, not_back, Prefetch, {before_kernel, after_kernel});

}  // namespace not_back

}  // namespace
