// What the order of the additions does to a float sum. Each of `ladder`'s rungs adds in a fixed
// order, so that every run gives the same bits; but not all in the same.
#include <cmath>

#include "ladder.hpp"

namespace reduce {

// An element is rounded once in each of k additions, by at most u = 2^-24 of what it is part of,
// and (1 + u)^k - 1 <= ku / (1 - ku).
double error_bound(double additions) { return additions * 0x1p-24 / (1 - additions * 0x1p-24); }

namespace {

void add_order(const Rung& rung, size_t n, Gpu gpu, double error, Table& table) {
  const double depth = additions(rung, n, gpu);
  table.row({rung.name}, {double(launches(rung, n, gpu).size()), scratch_bytes(rung, n, gpu), depth,
                          1e9 * error_bound(depth), 1e9 * error});
}

}  // namespace

Table order_table(const Run& run) {
  return Table(
      run.report, "order of the float sum",
      {predicted("launches", "launches", "1", 0), predicted("scratch bytes", "scratch", "B", 0),
       predicted("additions in a row", "depth", "1", 0),
       predicted("bound 1e-9", "error bound", "1e-9", 1),
       measured("error 1e-9", "error", "1e-9", 1)});
}

void add_orders(Words<float>& words, Work<float>& work, Table& table) {
  words.fill(fractions);
  const double right = double(words.sum(words.n)) * 0x1p-24;
  for (const int rung : rungs_for<float>(words.n)) {
    if (rung == library) continue;  // its order is its own affair
    work.poison();
    work.sum(rung, words.in, words.n);
    const double error = std::abs(double(work.result()) - right) / right;
    add_order(rungs[rung], words.n, work.gpu, error, table);
  }
}

void add_orders_of_any_gpu(size_t n, Table& table) {
  for (const Rung& rung : rungs)
    if (rung.grid == Grid::one_pass && &rung != &rungs[redux]) add_order(rung, n, {}, NAN, table);
}

}  // namespace reduce
