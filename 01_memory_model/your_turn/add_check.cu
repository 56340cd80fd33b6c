// Checks add.cu: both kernels, many times over, as what races may be right by chance.
#include "../../common/your_turn_gpu.hpp"
#include "add.hpp"

namespace {

constexpr unsigned threads = 64, rounds = 50;

void require_right(const char* name, void (*kernel)(unsigned*, const unsigned*)) {
  for (unsigned round = 0; round < rounds; ++round) {
    const std::string what = std::string(name) + ", launch " + std::to_string(round);
    std::vector<unsigned> amounts(threads);
    unsigned expected = your_turn::number_at(1000 + round);
    const your_turn::Guarded value(std::vector<unsigned>{expected});
    for (unsigned i = 0; i < threads; ++i) {
      amounts[i] = round == 0 ? 2 : your_turn::number_at(threads * round + i);
      expected += amounts[i];
    }
    const your_turn::Guarded amount(amounts);
    your_turn::run_kernel(what, [&] { kernel<<<1, threads>>>(value.data(), amount.data()); });
    const unsigned found = value.to_host()[0];
    if (found != expected)
      throw your_turn::NotYet(what + ": expected " + std::to_string(expected) + ", found " +
                              std::to_string(found));
    value.require_untouched_around(what);
    amount.require_untouched_around(what);
  }
}

}  // namespace

void check_add(const Add& yours, const Add&) {
  your_turn::require_gpu();
  require_right("with_an_atomic", yours.with_an_atomic);
  require_right("without_atomics", yours.without_atomics);
}
