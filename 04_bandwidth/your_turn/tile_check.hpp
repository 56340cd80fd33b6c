// What is checked of the moves: the host does what the kernel would do, and counts what a request
// costs. Included behind the answer.
#pragma once

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "../../common/exercise.hpp"
#include "../../common/sectors.hpp"

constexpr unsigned side = 32, rows_at_once = 8, steps = 4;
constexpr size_t nothing = ~size_t(0);
using Answer = Move (*)(Thread, unsigned step, unsigned nx, unsigned ny);

/// Calls work(word of the matrix, word of the tile) for each word that a block moves.
template <class Work>
void move_words(unsigned bx, unsigned by, unsigned nx, unsigned ny, Answer function, Work work) {
  for (unsigned step = 0; step < steps; ++step)
    for (unsigned ty = 0; ty < rows_at_once; ++ty)
      for (unsigned tx = 0; tx < side; ++tx) {
        const Move move = function({bx, by, tx, ty}, step, nx, ny);
        if (move.memory < 0) continue;
        CAPTURE(tx);
        CAPTURE(ty);
        CAPTURE(step);
        if (size_t(move.memory) >= size_t(nx) * ny)
          FAIL("word " << move.memory << " of the matrix is out of bounds");
        if (move.tile >= tile_words) FAIL("word " << move.tile << " of the tile is out of bounds");
        work(size_t(move.memory), move.tile);
      }
}

inline void check_words(Answer load, Answer store) {
  constexpr unsigned shapes[][2] = {{1, 1}, {32, 32}, {33, 31}, {7, 1000}, {1009, 97}, {256, 64}};
  for (const auto& shape : shapes) {
    const unsigned nx = shape[0], ny = shape[1];
    CAPTURE(nx);
    CAPTURE(ny);
    std::vector<size_t> out(size_t(nx) * ny, nothing);  // which word of the input stands there
    for (unsigned by = 0; by * side < ny; ++by)
      for (unsigned bx = 0; bx * side < nx; ++bx) {
        CAPTURE(bx);
        CAPTURE(by);
        std::vector<size_t> tile(tile_words, nothing);
        move_words(bx, by, nx, ny, load, [&](size_t in, unsigned at) { tile[at] = in; });
        move_words(bx, by, nx, ny, store, [&](size_t to, unsigned at) { out[to] = tile[at]; });
      }
    const auto text = [](size_t word) {
      return word == nothing ? "nothing" : "word " + std::to_string(word) + " of the input";
    };
    for (size_t i = 0; i < out.size(); ++i) {
      const size_t right = i % ny * nx + i / ny;
      if (out[i] != right)
        FAIL("in word " << i << " of the output is " << text(out[i]) << ", not " << text(right));
    }
  }
}

/// Wavefronts of a request to shared memory: the most different words that lie in one bank.
template <class WordOf>
size_t wavefronts(WordOf word_of) {
  std::set<size_t> words[32];
  for (size_t lane = 0; lane < 32; ++lane) words[word_of(lane) % 32].insert(word_of(lane));
  const auto fewer = [](const auto& a, const auto& b) { return a.size() < b.size(); };
  return std::max_element(std::begin(words), std::end(words), fewer)->size();
}

/// The most that a request costs, of a matrix whose rows all begin on a sector.
struct Cost {
  size_t sectors = 0, wavefronts = 0;
};
inline Cost cost_of(Answer function) {
  Cost most;
  for (unsigned bx = 0; bx < 8; ++bx)
    for (unsigned step = 0; step < steps; ++step)
      for (unsigned ty = 0; ty < rows_at_once; ++ty) {
        const auto move = [&](size_t lane) {
          return function({bx, 1, unsigned(lane), ty}, step, 8 * side, 2 * side);
        };
        const auto memory = [&](size_t lane) { return size_t(move(lane).memory); };
        const auto tile = [&](size_t lane) { return size_t(move(lane).tile); };
        most.sectors = std::max(most.sectors, sectors(4, memory));
        most.wavefronts = std::max(most.wavefronts, wavefronts(tile));
      }
  return most;
}

inline void check_sectors(Answer load, Answer store) {
  const size_t read = cost_of(load).sectors, written = cost_of(store).sectors;
  if (read > 4) FAIL_CHECK(read << " sectors per request to read the input; 4 will do");
  if (written > 4) FAIL_CHECK(written << " sectors per request to write the output; 4 will do");
}

inline void check_wavefronts(Answer load, Answer store) {
  const size_t written = cost_of(load).wavefronts, read = cost_of(store).wavefronts;
  if (written > 1) FAIL_CHECK(written << " wavefronts per request to write the tile; 1 will do");
  if (read > 1) FAIL_CHECK(read << " wavefronts per request to read the tile; 1 will do");
}

TEST_CASE("right: every word, at awkward shapes, and none out of bounds") {
  check_words(load, store);
}
TEST_CASE("cheap: 4 sectors per request, not 32") { check_sectors(load, store); }
TEST_CASE("cheap: 1 wavefront per request, not 32") { check_wavefronts(load, store); }
